"""The privacy-utility curve."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.plots.utility import privacy_utility


def test_scores_references_and_ticks() -> None:
    scores = np.array([[0.5, 0.7, 0.9], [0.6, 0.8, 0.9], [0.4, 0.9, 0.9]])
    ax = privacy_utility(
        [0.1, 1, 8], {"ours": scores}, measure="accuracy", references={"not private": 0.95}
    )
    assert ax.lines[0].get_ydata().tolist() == [0.5, 0.8, 0.9]
    assert ax.lines[1].get_ydata() == [0.95, 0.95]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "1", "8"]
    assert len(ax.collections) == 1
    with pytest.raises(ValueError, match="one score for each of the 2 epsilons"):
        privacy_utility([1, 2], {"a": [1, 2, 3]}, measure="x")
