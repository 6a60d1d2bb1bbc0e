"""The running totals of the bandits: one addition per batch, with the sensitivity of one record.

A batch adds the sum of many records to the total, each of which is clipped to the norm. A record is in one batch, so
it moves the total by at most its own norm, however many records the batch contains. See docs/algorithms/bandit.md.

``norm`` is the bound on one record, and the sum of the batch is not clipped: what a total absorbs are sums of records
that `kernels.take` has clipped and truncated one by one, never a vector from the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.online import totals
from reticent.privacy import Budget
from reticent.sums import RunningTotal
from reticent.sums.mechanism import NOISES

WORDS = ("auto", "correlated", "tree", "independent")


class Clean:
    """A total with the interface of a running total but without noise, for the baseline without privacy."""

    steps = 0

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._total = np.zeros(dim)

    _gauge = (1e150, 1.0)  # no limit, except that records must be finite

    def error(self, t: int) -> float:
        return 0.0

    def _blank(self) -> FloatArray:
        return np.zeros(self.dim)

    def _absorb(self, batch: FloatArray) -> FloatArray:
        self._total = self._total + batch
        batch[...] = 0
        self.steps += 1
        return self._total.copy()

    def _lend(self, most: int) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        self.steps += most
        return self._total, np.zeros((most, self.dim)), 1.0, np.zeros(self.dim)

    def state(self) -> dict[str, Any]:
        return {"kind": "Clean", "total": self._total.copy(), "steps": self.steps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Clean:
        self = cls(len(state["total"]))
        self._total = state["total"].copy()
        self.steps = int(state["steps"])
        return self


def restore(state: dict[str, Any]) -> RunningTotal | Clean:
    """The total of a saved state."""
    return Clean.from_state(state) if state["kind"] == "Clean" else totals.restore(state)


def check(total: str, noise: str | None, calibration: str, budget: Budget) -> tuple[str, str]:
    """The total and the noise that a budget allows, by name."""
    word = checks.choice(total, "total", WORDS)
    if noise is not None:
        checks.choice(noise, "noise", NOISES)
    if calibration != "exact":
        if word not in ("auto", "tree"):
            raise ValueError(
                f"calibration={calibration!r} prescribes the noise of a tree; leave out total, got {total!r}"
            )
        return "tree", noise or ("laplace" if budget.delta == 0 else "gaussian")
    if word == "auto":
        word = "correlated" if budget.delta > 0 and noise in (None, "gaussian") else "tree"
    if word == "correlated":
        if noise not in (None, "gaussian"):
            raise ValueError(
                f"correlated noise is Gaussian, got noise={noise!r}; use total='tree', or leave out noise"
            )
        kind = "gaussian"
    else:
        kind = noise or ("gamma" if budget.delta == 0 else "gaussian")
    if kind == "gaussian" and budget.delta == 0:
        raise ValueError(
            f"total={total!r} with Gaussian noise needs delta > 0, got delta=0; choose a delta well below one "
            "over the number of people, or total='tree' with noise='gamma'"
        )
    return word, kind
