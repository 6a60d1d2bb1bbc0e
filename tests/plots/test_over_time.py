"""Lines with bands, against quantiles computed here."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.plots.over_time import over_time


def test_lines_are_medians_and_bands_are_quantiles() -> None:
    rng = np.random.default_rng(0)
    steps, runs = np.array([1, 10, 100, 1000]), rng.standard_normal((9, 4))
    ax = over_time(steps, {"many": runs, "one": runs[0]}, measure="regret", title="t")
    many, one = ax.lines
    assert np.array_equal(many.get_ydata(), np.median(runs, axis=0))
    assert np.array_equal(one.get_ydata(), runs[0])
    assert len(ax.collections) == 1  # a single run has no band
    corners = ax.collections[0].get_paths()[0].vertices
    for step, low, high in zip(steps, *np.quantile(runs, (0.1, 0.9), axis=0), strict=True):
        heights = corners[corners[:, 0] == step, 1]
        assert heights.min() == pytest.approx(low)
        assert heights.max() == pytest.approx(high)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["many", "one"]
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "regret")


def test_lines_differ_in_more_than_colour() -> None:
    ax = over_time([1, 2], {name: [1, 2] for name in "abcde"}, measure="x")
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in ax.lines}) == 5


def test_a_linear_axis_and_a_bad_shape() -> None:
    assert over_time([0, 1], {"a": [1, 2]}, measure="x", log=False).get_xscale() == "linear"
    with pytest.raises(ValueError, match="one value for each of the 2 steps"):
        over_time([1, 2], {"a": [1, 2, 3]}, measure="x")
