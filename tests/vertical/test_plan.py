"""What a plan may ask for: numbers at which the account of rounding errors holds."""

from __future__ import annotations

from typing import Any

import pytest

from reticent.vertical import Plan

FACTS: dict[str, Any] = {
    "rows": 100, "rounds": 2, "columns": 1, "clip": 1.0, "selection_scale": 1.0,
    "sketch_scale": 1.0, "sketch_size": 10,
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["clip", "selection_scale", "sketch_scale", "value_scale", "label_scale"]
)
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-101, 1e101, -1.0, float("nan")])
def test_numbers_beyond_the_account_are_refused(name: str, value: float) -> None:
    # products of numbers like 1e-300 are rounded to multiples of 5e-324, by far more than 2^-53
    with pytest.raises(ValueError, match=name):
        Plan(**FACTS | {name: value})
    assert Plan(**FACTS | {name: 1e-100}).with_(**{name: 1.0}) is not None


def test_no_noise_means_that_nothing_is_asked_for() -> None:
    Plan(**FACTS | {"value_scale": 0.0, "label_scale": 0.0})
    for name in ("clip", "selection_scale", "sketch_scale"):
        with pytest.raises(ValueError, match=name):
            Plan(**FACTS | {name: 0.0})
