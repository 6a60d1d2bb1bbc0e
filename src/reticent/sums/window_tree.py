"""The tree that forgets: a record is protected for a window of W totals, and the error no longer grows with time.

The window tree mechanism of [window], section III, by the exact count of nodes. The total of
all records splits into expired ones, which may be known exactly, and the last W, which are cut into
aligned dyadic blocks, each with one noise of its own for as long as it is used. See
docs/algorithms/window-tree.md.

Each block is used over one contiguous stretch of time: blocks of the largest size B = 2^floor(log2
W) from their completion until they begin to expire, smaller left halves while the block around them
fills, smaller right halves while it expires. So the noise of a total is (prefix of the filling
block) + (whole block) + (suffix of the expiring block), and each of the three is a stack of O(log
W) vectors, whatever W is; no contribution is ever stored.

The one thing a reader would get wrong: a block's noise is drawn once. Fresh noise at each use would
average out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._compile import compiled
from reticent.privacy import Budget, Guarantee
from reticent.privacy.prescribed import Calibration, Prescription
from reticent.sums import scales
from reticent.sums.base import RunningTotal
from reticent.sums.process import Process
from reticent.sums.tree import _level, unused


@compiled
def _mix(fresh, t, window, top, prefix, suffix, whole, out):  # type: ignore[no-untyped-def]
    # prefix[j]: noise of the last prefix (of the filling block) whose length has j trailing zeros
    # suffix[j]: noise of the suffix (of the expiring block) that starts after a position with j
    # trailing zeros
    block = 1 << top
    at = 0
    for r in range(out.shape[0]):
        t += 1
        filled = t & (block - 1)
        if filled == 0:
            whole[:] = fresh[at]
            out[r] = 0
        else:
            level = _level(filled)
            before = filled - (1 << level)
            prefix[level] = fresh[at]
            if before:
                prefix[level] += prefix[_level(before)]
            out[r] = prefix[level]
        at += 1
        expired = t - window
        if t >= block and t - filled - block >= expired:
            out[r] += whole
        if expired > 0:
            position = expired & (block - 1)
            if position & 1:
                # the block that began here is broken into its right halves, the largest first
                broken = top if position == 1 else _level(position - 1)
                end = position - 1 + (1 << broken)
                for j in range(broken - 1, -1, -1):
                    suffix[j] = fresh[at + j]
                    if j < broken - 1:
                        suffix[j] += suffix[j + 1]
                    elif end < block:
                        suffix[j] += suffix[_level(end)]
                at += broken
            if position:
                out[r] += suffix[_level(position)]


@dataclass
class _Blocks(Process):
    window: int = 1

    @property
    def _top(self) -> int:
        return self.window.bit_length() - 1

    def _drawn(self, t: int) -> int:
        """Draws of the steps 1, ..., t: one a step, and one for every right half that has been broken out."""
        expired = max(0, t - self.window)
        block = 1 << self._top
        whole, rest = divmod(expired, block)
        # positions 1, 3, 5, ...: the first breaks `top` halves out, position p the trailing zeros
        # of p - 1
        halves = whole * (block - 1)
        if rest:
            last = rest - 1
            halves += self._top + last - last.bit_count()
        return t + halves

    def draws(self, t: int, rows: int) -> int:
        return self._drawn(t + rows) - self._drawn(t)

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        out = np.empty((rows, fresh.shape[1]), fresh.dtype)
        memory = self.arrays
        _mix(
            fresh, t, self.window, self._top, memory["prefix"], memory["suffix"], memory["whole"], out
        )  # fmt: skip
        return out

    def forget(self, memory: dict[str, NDArray[Any]], t: int) -> None:
        filled = t & ((1 << self._top) - 1)
        for level in range(self._top):
            if unused(filled, level, plain=True):
                memory["prefix"][level] = 0


class WindowTree(RunningTotal):
    """An endless running total in which each record is protected for ``budget.window`` outputs.

    Parameters
    ----------
    dim, budget, norm, seed, noise_precision
        As in :class:`RunningTotal`; the budget must have a window.
    noise : {"gaussian", "gamma", "laplace"}
        With Gaussian noise :class:`Correlated` makes the same promise with a third of the error and
        less; with delta = 0 this tree with Gamma noise is the best there is.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`); the guarantee
        reports the truth about that, too.

    Examples
    --------
    >>> import reticent
    >>> total = WindowTree(1, budget=reticent.Budget(1.0, window=64), noise="gamma", seed=0)
    >>> print(total.guarantee.pure)
    1.0
    >>> total.error(10**6) == total.error(10**6 + 64)
    True
    """

    _forgets = True
    _expires = True

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        noise: str = "gaussian",
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str | Calibration = "exact",
    ) -> None:
        scales.check_noise(noise)
        self._calibration = Calibration.read(calibration, "window-tree")
        self.calibration = self._calibration.name
        if isinstance(budget, Budget) and budget.window is None:
            raise ValueError(
                "WindowTree needs a budget with a window, got window=None; "
                "use Budget(..., window=W), or Tree for records that are protected for ever"
            )
        super().__init__(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise=noise,
            seed=seed,
            noise_precision=noise_precision,
        )

    @property
    def _protected(self) -> int:
        """Totals that a record is in while it is protected."""
        assert self.budget.window is not None
        return min(self.budget.window, self.horizon or self.budget.window)

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"calibration": self._calibration.to_dict()}

    def _formula(self) -> Prescription | None:
        if self._calibration.is_exact:
            return None
        return self._calibration.prescribe(
            self.budget, noise=self.noise, window=self._protected, norm=self.norm
        )

    def _scale(self) -> float:
        formula = self._formula()
        if formula is not None:
            return formula.amount
        return scales.exact(self, self._protected.bit_length())

    def _process(self, steps: int | None) -> Process:
        window = self._protected
        scale = self._scale()
        lattice = self.noise_precision == "lattice"
        kind = np.int64 if lattice else np.float64
        top = window.bit_length() - 1
        arrays: dict[str, NDArray[Any]] = {
            "prefix": np.zeros((max(top, 1), self.dim), kind),
            "suffix": np.zeros((max(top, 1), self.dim), kind),
            "whole": np.zeros(self.dim, kind),
        }
        step = self._lattice_step(scale, self._capacity(steps))
        return _Blocks(self.noise, scale, step, lattice, arrays, window)

    def _promise(self) -> Guarantee:
        nodes = self._protected.bit_length()
        return scales.promise(self, "window tree", self._scale(), nodes, formula=self._formula())

    def _variance(self, t: int, steps: int | None) -> float:
        window = self._protected
        block = 1 << (window.bit_length() - 1)
        filled = t % block
        nodes = filled.bit_count() + (t >= block and t - filled - block >= t - window)
        expired = max(0, t - window) % block
        nodes += (block - expired).bit_count() if expired else 0
        return nodes * scales.coordinate_variance(self, self._scale())
