"""The sparsity path."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.plots.sparsity import sparsity_path


def test_coefficients_and_their_number() -> None:
    path = np.zeros((5, 9))
    path[1:, 3], path[2:, 7], path[3:, 1] = 0.5, -0.2, 0.1
    ax = sparsity_path(range(5), path, names=list("abcdefghi"), truth=path[-1], title="t")
    count = ax.figure.axes[1]
    assert count.lines[0].get_ydata().tolist() == [0, 1, 2, 3, 3]
    # only those that ever moved, the largest first
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["d", "h", "b"]
    lines = [line for line in ax.lines if len(line.get_ydata()) == 5]
    assert len(lines) == 3
    with pytest.raises(ValueError, match="one row for each of the 4 steps"):
        sparsity_path(range(4), path)
    assert sparsity_path(range(5), np.zeros((5, 2))).get_legend() is None
