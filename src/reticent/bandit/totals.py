"""The running totals of the bandits: one addition a batch, the sensitivity of one record.

A batch adds the sum of many records to the total, each clipped to the norm by itself. A record lies
in one batch, so it moves the total by no more than its own norm, however many records the batch
holds. See docs/algorithms/bandit.md.

The one thing a reader would get wrong: ``norm`` is the bound on one record, and nothing clips the sum
of the batch. `Batched.absorb` therefore takes sums of records that `kernels.take` has clipped and
truncated one by one, never a vector of the caller's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import _checks, sums
from reticent.privacy import Budget
from reticent.sums import RunningTotal, scales

FloatArray = NDArray[np.float64]

WORDS = ("auto", "correlated", "tree", "independent")


class Batched(RunningTotal):
    """A running total of batches of at most ``records`` records in all."""

    records: int

    def _lattice_step(self, scale: float, steps: float) -> float:
        # the exact total holds every record, not one contribution a step
        return super()._lattice_step(scale, max(steps, self.records))

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"records": self.records}

    @property
    def gauge(self) -> tuple[float, float]:
        """Clipping limit of one record, and lattice steps in one unit: the arguments of `take`."""
        return self._limit, self._per_step

    def blank(self) -> NDArray[Any]:
        """An empty batch, in lattice steps."""
        return np.zeros_like(self._total)

    def absorb(self, batch: NDArray[Any]) -> FloatArray:
        """Move a batch, in lattice steps, into the total, and return that with noise.

        The batch is empty afterwards, also if an interrupt comes: it must not be added again.
        """
        with self._lock:
            self._ready()
            noise = self._block[self._row]
            self._advance(1)
            moved = self._total + batch
            self._total = moved
            batch[...] = 0
            out = self._base + self._noise.step * (moved + noise)
        return np.asarray(out, np.float64)

    def lend(self, most: int) -> tuple[NDArray[Any], NDArray[Any], float, FloatArray]:
        """Exact total, noise of the next batches, lattice step and offset, for a compiled loop.

        The loop adds to the exact total in place, one batch for each row of noise.
        """
        with self._lock:
            noise = self._take(most)
            return self._total, noise, self._noise.step, self._base

    def go_on_from(self, earlier: Batched) -> None:
        """Draw from the same stream of randomness, so that a restored learner repeats itself."""
        self._source = earlier._source


class BatchedCorrelated(Batched, sums.Correlated):
    """Correlated noise over batches."""

    def __init__(self, *arguments: Any, records: int, **more: Any) -> None:
        self.records = _checks.integer(records, "records", low=1)
        sums.Correlated.__init__(self, *arguments, **more)


class BatchedTree(Batched, sums.Tree):
    """A binary tree over batches."""

    def __init__(self, *arguments: Any, records: int, **more: Any) -> None:
        self.records = _checks.integer(records, "records", low=1)
        sums.Tree.__init__(self, *arguments, **more)


class BatchedIndependent(Batched, sums.Independent):
    """Noise of its own for every batch."""

    def __init__(self, *arguments: Any, records: int, **more: Any) -> None:
        self.records = _checks.integer(records, "records", low=1)
        sums.Independent.__init__(self, *arguments, **more)


class Clean:
    """The same interface without noise, for the baseline that is not private."""

    steps = 0

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._total = np.zeros(dim)

    gauge = (1e150, 1.0)  # no limit, but for what is not finite

    def error(self, t: int) -> float:
        return 0.0

    def blank(self) -> FloatArray:
        return np.zeros(self.dim)

    def absorb(self, batch: FloatArray) -> FloatArray:
        self._total = self._total + batch
        batch[...] = 0
        self.steps += 1
        return self._total.copy()

    def lend(self, most: int) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        self.steps += most
        return self._total, np.zeros((most, self.dim)), 1.0, np.zeros(self.dim)

    def go_on_from(self, earlier: Any) -> None:
        """There is no randomness to go on with."""

    def state(self) -> dict[str, Any]:
        return {"kind": "Clean", "total": self._total.copy(), "steps": self.steps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Clean:
        self = cls(len(state["total"]))
        self._total = state["total"].copy()
        self.steps = int(state["steps"])
        return self


BY_WORD: dict[str, type[Batched]] = {
    "correlated": BatchedCorrelated,
    "tree": BatchedTree,
    "independent": BatchedIndependent,
}
BY_NAME: dict[str, Any] = {
    made.__name__: made for made in (BatchedCorrelated, BatchedTree, BatchedIndependent, Clean)
}


def check(total: str, noise: str | None, calibration: str, budget: Budget) -> tuple[str, str]:
    """The total and the noise that a budget allows, by name."""
    word = _checks.choice(total, "total", WORDS)
    if noise is not None:
        scales.check_noise(noise)
    if calibration != "exact":
        if word not in ("auto", "tree"):
            raise ValueError(
                f"calibration={calibration!r} prescribes the noise of a tree: leave total out, got {total!r}"
            )
        return "tree", noise or ("laplace" if budget.delta == 0 else "gaussian")
    if word == "auto":
        word = "correlated" if budget.delta > 0 and noise in (None, "gaussian") else "tree"
    if word == "correlated":
        if noise not in (None, "gaussian"):
            raise ValueError(
                f"correlated noise is Gaussian, got noise={noise!r}; use total='tree', or leave noise out"
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
