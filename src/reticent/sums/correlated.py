"""Running totals with correlated noise: the noise is a filtered sequence of innovations, with an optimised filter.

Buffered linear Toeplitz noise: N(t) = z(t) + sum_j weight_j s_j, then s_j <- decay_j s_j + z(t), with a few buffers
and one fresh vector per step. For full protection over a horizon its error is within about one per cent of the
square-root factorisation; with a window it forgets, and its error is bounded on an endless stream. Derivation and
proof: docs/algorithms/correlated.md.

On the lattice the innovations z(t) are rounded Gaussians, and the part that is already known, sum_j weight_j s_j, is
rounded too. Two neighbouring inputs that give the same outputs then have innovations that differ by c_k * Delta at
the k-th output after the record, plus what rounding adds: at most 2 (1 + 2 e) steps in each coordinate, where e
bounds the floating-point error of the known part (``_rounding``). The guarantee includes this.

The sensitivity is summed over all outputs in which the record is protected; it is not that of a single output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent import checks
from reticent.compiling import compiled
from reticent.noise import lattice
from reticent.privacy import Budget, Guarantee, Release
from reticent.privacy.ages import Filtered, filtered_mu
from reticent.privacy.budget import OLDEST
from reticent.privacy.participation import Participation
from reticent.sums import scales
from reticent.sums.mechanism import Mechanism, optional
from reticent.sums.running import RunningTotal
from reticent.sums.toeplitz import MOST_BUFFERS, Toeplitz
from reticent.sums.toeplitz_search import toeplitz

# An innovation or a buffer exceeds this many standard deviations with probability below 1e-347; otherwise the
# bound on the floating-point error of the known part holds.
_SIGMAS = 40.0
_SLOW = 2.0**-16
_SLOW_FOR_EVER = 2.0**-10  # in place of _SLOW if rounding adds up over 2^40 outputs
_LANES = 16  # coordinates stored together; with fewer the compiler does not vectorise


# The parameters are tuples, so that the loop is unrolled for each number of buffers. None stands for no
# buffers of a kind, and ``whole`` is None in floating point.


# "contract": a product and the sum after it may be rounded once instead of twice.
@compiled(fastmath={"contract"})
def _filter(fresh, memory, gap, weight, slow_gap, slow_weight, whole):
    """Replace innovations by the noise of the totals, a few coordinates at a time.

    For its coordinates, a row of ``memory`` holds each slow buffer as the sum of two doubles (so that errors do not
    accumulate there), followed by the other buffers.
    """
    for tile in range(memory.shape[0]):
        mine = memory[tile]
        start = tile * _LANES
        for r in range(fresh.shape[0]):
            row = fresh[r, start:]
            for i in range(min(_LANES, row.size)):
                z = float(row[i])
                known = 0.0
                at = i
                if slow_gap is not None:
                    for j in range(len(slow_gap)):
                        old = mine[at]
                        known += slow_weight[j] * old
                        # decay * buffer + z, as the sum of two doubles
                        lost = slow_gap[j] * old
                        change = z - lost
                        rest = z - change
                        low = mine[at + _LANES] + ((z - (change + rest)) + (rest - lost))
                        new = old + change
                        rest = new - old
                        low += (old - (new - rest)) + (change - rest)
                        mine[at] = new + low
                        mine[at + _LANES] = low - (mine[at] - new)
                        at += 2 * _LANES
                if gap is not None:
                    for j in range(len(gap)):
                        old = mine[at]
                        known += weight[j] * old
                        mine[at] = old + (z - gap[j] * old)
                        at += _LANES
                if whole is not None:
                    row[i] += np.int64(np.rint(known))
                else:
                    row[i] = z + known


def _slow(gap: tuple[float, ...]) -> int:
    """The number of buffers, the slowest first, that decay so slowly that rounding errors would accumulate in them."""
    bound = _SLOW_FOR_EVER if 0.0 in gap else _SLOW
    return sum(value < bound for value in gap)


@dataclass(frozen=True, kw_only=True)
class CorrelatedMechanism(Mechanism):
    """The description of a running total with correlated Gaussian noise; see :class:`Correlated`.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; None if it is unknown.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm.
    noise : {"gaussian"}
        Distribution of the noise; correlated noise is always Gaussian.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding. ``"float"`` is for simulations, and the guarantee says so.
    sensitivity : float, optional
        How far one record moves the total, if that is not ``budget.sensitivity(norm)``.
    records : int, optional
        Upper bound on the number of records in the exact total, if a contribution is the sum of several.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.
    objective : {"max", "mean"}
        Whether the filter minimises the largest or the root mean square error over the horizon.
    buffers : int or None
        Largest number of vectors of memory; by default the smallest number that comes close to the optimum.
    longest : int
        If there is neither a horizon nor a window nor a fading guarantee: the length up to which the error is near the
        optimum. The range begins at 8 contributions for lengths up to 2^20, and at 256 beyond.
    filter : Toeplitz or None
        The filter itself; by default the best one that is known for the other parameters.

    Examples
    --------
    >>> import reticent
    >>> noise = CorrelatedMechanism(1, 1024, budget=reticent.Budget(1.0, 1e-6))
    >>> print(f"{noise.error(1024):.2f}, {len(noise.parameters.gap)} buffers")
    13.83, 4 buffers
    """

    objective: str = "max"
    buffers: int | None = None
    longest: int = 2**30
    filter: Toeplitz | None = None

    noises = ("gaussian",)
    forgets = True
    counts_persons = True
    fades = True

    def __post_init__(self) -> None:
        if self.filter is not None and not isinstance(self.filter, Toeplitz):
            raise TypeError(
                "filter must be a sums.toeplitz.Toeplitz, or None for the best one that is known; "
                f"got {self.filter!r}"
            )
        self._keep(
            horizon=optional(checks.integer, self.horizon, "horizon", low=1, high=OLDEST),
            objective=checks.choice(self.objective, "objective", ("max", "mean")),
            buffers=optional(checks.integer, self.buffers, "buffers", low=1, high=MOST_BUFFERS),
            longest=checks.integer(self.longest, "longest", low=2**9, high=OLDEST),
        )
        super().__post_init__()

    def to_dict(self) -> dict[str, Any]:
        # Another machine's cache may hold another filter, but the stream must continue with its own.
        return super().to_dict() | {"filter": self.parameters.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return super().from_dict(dict(data) | {"filter": Toeplitz.from_dict(data["filter"])})

    @cached_property
    def parameters(self) -> Toeplitz:
        """The filter that turns innovations into the noise of the totals."""
        budget, steps = self.budget, self.horizon
        if self.filter is not None:
            return self.filter
        problem: dict[str, Any] = {"horizon": steps, "objective": self.objective}
        if budget.fade is not None:
            problem = {"fade": budget.profile}
        elif budget.window is not None and (steps is None or budget.window < steps):
            problem = {"window": budget.window}
        elif steps is None:
            problem = {"endless": self.longest}
        return toeplitz(**problem, buffers=self.buffers, participation=self.pattern)

    @property
    def is_endless(self) -> bool:
        return self.horizon is None

    @property
    def _fineness(self) -> float:
        """Lattice steps per standard deviation: more if rounding adds up over 2^40 outputs."""
        return lattice.STEPS * (16.0 if self.last_step == OLDEST else 1.0)

    def lattice_step(self, scale: float, steps: int | None) -> float:
        return super().lattice_step(scale * (lattice.STEPS / self._fineness), steps)

    @property
    def _targets(self) -> list[tuple[int, float]]:
        """Numbers of outputs in which a record is protected, each with the largest mu that is allowed for them."""
        budget, steps = self.budget, self.horizon
        if budget.fade is not None:
            return [(min(age, steps or age), mu) for age, mu in budget.profile]
        lags = min(n for n in (budget.window, steps, OLDEST) if n is not None)
        return [(lags, budget.mu)]

    @cached_property
    def _rounding(self) -> float:
        """What the lattice can add to each coordinate of each innovation, relative to the noise scale."""
        if not self.on_lattice:
            return 0.0
        # Errors of reading a buffer and of updating it: see docs/algorithms/correlated.md.
        p = self.parameters
        slow = _slow(p.gap)
        error = 0.0
        for j, (gap, weight) in enumerate(zip(p.gap, p.weight, strict=True)):
            largest = math.sqrt(min(OLDEST, 1.0 / (gap * (2.0 - gap)) if gap else math.inf))
            if j < slow:
                error += weight * _SIGMAS * largest * 2.0**-49
            else:
                error += weight / gap * (1.0 + largest) * _SIGMAS * 2.0**-51
        return 2 / self._fineness + 4 * 1.01 * error

    def slack(self, sigma: float) -> float:
        """What rounding can add to each innovation, in units of the innovations' standard deviation.

        Parameters
        ----------
        sigma : float
            Standard deviation of the innovations.
        """
        step = self.lattice_step(sigma, self.horizon) / sigma
        return math.sqrt(self.dim) * self._rounding * max(1.0, step * self._fineness)

    def by_age(self, sigma: float) -> Filtered:
        """The cost by age, rounding included.

        Parameters
        ----------
        sigma : float
            Standard deviation of the innovations.
        """
        moved, slack = self._moved(sigma), self.slack(sigma)
        return Filtered(self.parameters.sensitivity, moved, slack, self.horizon, self.pattern)

    def _moved(self, sigma: float) -> float:
        """How far one record moves the total, in standard deviations of an innovation."""
        # the filter's coefficients are rounded to doubles, which changes each c_k by less than this factor
        return self.noise_sensitivity / sigma * (1 + 2.0**-44)

    def _scale(self, steps: int | None) -> float:
        decay, pattern = self.parameters.sensitivity, self.pattern

        def smallest(lags: int, mu: float) -> float:
            def spent(sigma: float) -> float:
                return filtered_mu(decay, self._moved(sigma), self.slack(sigma), lags, pattern)

            start = self.noise_sensitivity * math.sqrt(decay.sum_of_squares(lags, pattern))
            return scales.smallest(spent, mu, start)

        return max(smallest(lags, mu) for lags, mu in self._targets)

    def _promise(self) -> Guarantee:
        scale, lags = self.scale(), self._targets[-1][0]
        by_age = self.by_age(scale)
        release = Release(
            "correlated noise (buffered linear Toeplitz)",
            by_age.at(lags),
            self.noise_sensitivity,
            f"Gaussian innovations, standard deviation {scale:.6g}",
            1,
            (
                f"a {self.unit} is protected in {lags} outputs",
                f"{len(self.parameters.gap)} buffers",
            ),
            by_age,
        )
        return scales.guarantee(self, release)

    def variance(self, t: int, steps: int | None) -> float:
        return self.scale() ** 2 * self.parameters.squared_error(t)

    # The noise -------------------------------------------------------------------------------------

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        return rows

    @property
    def _slow_buffers(self) -> int:
        return _slow(self.parameters.gap) if self.on_lattice else 0

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        tiles, kept = -(-self.dim // _LANES), self._slow_buffers + len(self.parameters.gap)
        return {"buffers": np.zeros((tiles, kept * _LANES))}

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        gap, weight, slow = self.parameters.gap, self.parameters.weight, self._slow_buffers
        if not gap:
            return fresh
        swift, swift_weight = (gap[slow:], weight[slow:]) if slow < len(gap) else (None, None)
        patient, patient_weight = (gap[:slow], weight[:slow]) if slow else (None, None)
        whole = True if self.on_lattice else None
        _filter(fresh, memory["buffers"], swift, swift_weight, patient, patient_weight, whole)
        return fresh


class Correlated(RunningTotal):
    """A running total with correlated Gaussian noise, which has a smaller worst error than the other ones here.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; ``None`` (the default) for an endless stream. The error of an
        endless stream is bounded if the budget has a window or fades. Otherwise every record is protected in all of
        2^40 outputs, and the error of output n is within a quarter of that for a known horizon n, for n from 2^8 to
        2^30.
    budget : Budget
        What may be spent on the whole stream; its delta must be above 0.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm, and ``clipped`` counts them.
    objective : {"max", "mean"}
        Whether the filter minimises the largest or the root mean square error over the horizon.
    buffers : int or None
        Largest number of vectors of memory; by default the smallest number that comes close to the optimum.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, and ``add`` and ``run`` take ``person``. By default single records are protected.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only: its low-order bits leak, and the guarantee says so.

    See Also
    --------
    WindowTree : A window with pure privacy (delta = 0).
    Tree : A binary tree of noise, with pure privacy if wanted.

    Examples
    --------
    >>> import reticent
    >>> tree = reticent.sums.Tree(1, 1024, budget=reticent.Budget(1.0, 1e-6))
    >>> total = Correlated(1, 1024, budget=reticent.Budget(1.0, 1e-6))
    >>> worst = max(tree.error(t) for t in range(1, 1025)) / total.error(1024)
    >>> worst > 2.2
    True
    """

    describe = CorrelatedMechanism

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        objective: str = "max",
        buffers: int | None = None,
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        mechanism = CorrelatedMechanism(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise_precision=noise_precision,
            participation=participation,
            objective=objective,
            buffers=buffers,
        )
        super().__init__(mechanism, seed=seed)
