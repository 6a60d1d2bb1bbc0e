"""The window tree: a record is protected for a window of W totals, and the error does not grow with time.

This is the window tree mechanism of [window], section III, with the exact number of nodes. The total of all records
consists of expired ones, which may be known exactly, and the last W, which are cut into aligned dyadic blocks, each
with one noise vector for as long as the block is used. See docs/algorithms/window-tree.md.

Each block is used over one contiguous range of steps: blocks of the largest size B = 2^floor(log2 W) from their
completion until they begin to expire, smaller left halves while the block around them fills, smaller right halves
while it expires. So the noise of a total is (prefix of the filling block) + (whole block) + (suffix of the expiring
block), and each of the three needs O(log W) vectors, whatever W is; no contribution is stored.

The noise of a block is drawn once: fresh noise at each use would average out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.compiling import compiled
from reticent.privacy import Budget, Guarantee
from reticent.privacy.participation import Participation
from reticent.privacy.prescribed import Calibration, Prescription
from reticent.sums import scales
from reticent.sums.mechanism import Mechanism
from reticent.sums.running import RunningTotal
from reticent.sums.tree import _level, unused


@compiled(patience=1.0)
def _mix(fresh, t, window, top, prefix, suffix, whole, out):
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
                # the block that began here is split into its right halves, the largest first
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


_EXACT = Calibration("exact", "window-tree")


@dataclass(frozen=True, kw_only=True)
class WindowTreeMechanism(Mechanism):
    """The description of a running total in which each record is protected for ``budget.window`` outputs.

    The last records are cut into aligned dyadic blocks, each with one noise vector for as long as the block is used.
    :class:`WindowTree` runs it.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; None if it is unknown.
    budget : Budget
        What may be spent on the whole stream; it must have a window.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm.
    noise : {"gaussian", "gamma", "laplace"}
        Distribution of the noise; Gamma and Laplace noise also work with delta = 0.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding. ``"float"`` is for simulations, and the guarantee says so.
    sensitivity : float, optional
        How far one record moves the total, if that is not ``budget.sensitivity(norm)``.
    records : int, optional
        Upper bound on the number of records in the exact total, if a contribution is the sum of several.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.
    calibration : str or Calibration
        ``"exact"``, or the name of a calibration that prescribes the noise (`reticent.privacy.prescribed`).

    Examples
    --------
    >>> import reticent
    >>> tree = WindowTreeMechanism(1, budget=reticent.Budget(1.0, window=64), noise="gamma")
    >>> print(tree.guarantee.pure)
    1.0
    """

    calibration: Calibration = _EXACT

    formula_name = "window-tree"
    forgets = True
    counts_persons = True
    expires = True

    def _check_budget(self) -> None:
        if self.budget.window is None:
            raise ValueError(
                "WindowTree needs a budget with a window, got window=None; "
                "use Budget(..., window=W), or Tree for records that are protected for ever"
            )
        super()._check_budget()

    @property
    def window(self) -> int:
        """Number of totals in which a record is protected."""
        assert self.budget.window is not None
        return min(self.budget.window, self.horizon or self.budget.window)

    @property
    def _top(self) -> int:
        """Level of the largest blocks."""
        return self.window.bit_length() - 1

    @property
    def _formula(self) -> Prescription | None:
        return self._prescribed(window=self.window)

    def _scale(self, steps: int | None) -> float:
        formula = self._formula
        if formula is not None:
            return formula.amount
        return scales.exact(self, scales.touched(self, self.window.bit_length()))

    def _guarantee(self) -> Guarantee:
        nodes = scales.touched(self, self.window.bit_length())
        return scales.guarantee_of_nodes(
            self, "window tree", self.scale(), nodes, formula=self._formula
        )

    def variance(self, t: int, steps: int | None) -> float:
        window, block = self.window, 1 << self._top
        filled = t % block
        nodes = filled.bit_count() + (t >= block and t - filled - block >= t - window)
        expired = max(0, t - window) % block
        nodes += (block - expired).bit_count() if expired else 0
        return nodes * scales.coordinate_variance(self, self.scale(steps))

    # The noise -------------------------------------------------------------------------------------

    def _drawn(self, t: int) -> int:
        """Number of draws of the steps 1, ..., t: one per step, and one for every right half that has been split."""
        expired = max(0, t - self.window)
        block = 1 << self._top
        whole, rest = divmod(expired, block)
        # positions 1, 3, 5, ...: the first splits off `top` halves, position p as many as p - 1 has trailing zeros
        halves = whole * (block - 1)
        if rest:
            last = rest - 1
            halves += self._top + last - last.bit_count()
        return t + halves

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        return self._drawn(t + rows) - self._drawn(t)

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        halves = max(self._top, 1)
        return {
            "prefix": self.zeros(halves, self.dim),
            "suffix": self.zeros(halves, self.dim),
            "whole": self.zeros(self.dim),
        }

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        out = np.empty((rows, fresh.shape[1]), fresh.dtype)
        kept = memory["prefix"], memory["suffix"], memory["whole"]
        _mix(fresh, t, self.window, self._top, *kept, out)
        return out

    def forget(self, steps: int | None, memory: dict[str, NDArray[Any]], t: int) -> None:
        filled = t & ((1 << self._top) - 1)
        for level in range(self._top):
            if unused(filled, level, plain=True):
                memory["prefix"][level] = 0


class WindowTree(RunningTotal):
    """An endless running total in which each record is protected for ``budget.window`` outputs.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; ``None`` (the default) for an endless stream.
    budget : Budget
        What may be spent on the whole stream; it must have a window.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm, and ``clipped`` counts them.
    noise : {"gaussian", "gamma", "laplace"}
        Distribution of the noise. With delta = 0 choose Gamma noise. With delta > 0 :class:`Correlated` gives the same
        guarantee with a smaller error, for windows above 100 with about a third of it or less.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, and ``add`` and ``run`` take ``person``. By default single records are protected.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only: its low-order bits leak, and the guarantee says so.
    calibration : str
        ``"exact"``, or the name of a calibration that prescribes the noise (`reticent.privacy.prescribed`); the
        guarantee reports what that noise really gives.

    See Also
    --------
    Correlated : A smaller error if delta > 0.
    Tree : Records that are protected for ever.

    Examples
    --------
    >>> import reticent
    >>> total = WindowTree(1, budget=reticent.Budget(1.0, window=64), noise="gamma", seed=0)
    >>> print(total.guarantee.pure)
    1.0
    >>> total.error(10**6) == total.error(10**6 + 64)
    True
    """

    describe = WindowTreeMechanism

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        noise: str = "gaussian",
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str | Calibration = "exact",
    ) -> None:
        mechanism = WindowTreeMechanism(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise=noise,
            noise_precision=noise_precision,
            participation=participation,
            calibration=Calibration.read(calibration, "window-tree"),
        )
        super().__init__(mechanism, seed=seed)
