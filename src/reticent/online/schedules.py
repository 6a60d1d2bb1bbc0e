"""How the noise of perturbed iterates is spread over time, so that all iterates together meet the budget.

The exact iterates do not use the noise, so all the noisy ones together are one Gaussian mechanism: if one record
moves the t-th iterate by at most r_t and its noise has standard deviation s_t, then mu^2 = sum over t of (r_t/s_t)^2,
exactly ([online], Theorem 1, without its composition theorem). The s_t can be chosen freely;
docs/algorithms/perturbed-iterates.md derives each of these schedules.

Rounding to the lattice adds to every r_t: a rounded iterate moves by up to sqrt(dim) further steps, and a step is at
most 2^-30 of s_t. ``grain`` is that share of s_t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expi

from reticent import checks
from reticent.checks import FloatArray
from reticent.noise import lattice
from reticent.noise.source import Source
from reticent.online import iterate_kernels as k
from reticent.privacy import Budget, Participation, prescribed
from reticent.privacy.prescribed import Prescription

SCHEDULES = ("optimal", "proportional", "horizon-free")
_BLOCK = 32768  # numbers of noise drawn at a time
LONGEST = 2**40  # number of steps for which a stream without a horizon is accounted for

_LOGARITHMIC = 2.109744
"""Just above the sum over n >= 2 of 1/(n ln(n)^2) = 2.1097428..."""


@dataclass(frozen=True)
class Reach:
    """How far one record moves the t-th iterate: moved / A_t, plus drift * t for rounding.

    This holds whenever the record came. So a person moves the iterate by this for each of the records that the person
    can have by then, or within the window.
    """

    inner: int
    ridge: float
    added: float
    moved: float
    drift: float
    participation: Participation | None = None
    window: int | None = None

    @property
    def start(self) -> float:
        """The A that the first step uses."""
        return self.ridge + 2.0 * self.added

    def of(self, t: int, rows: int, strength: float) -> tuple[FloatArray, float]:
        """The reaches of the iterates t+1, ..., t+rows, given A before them; and A after them."""
        out = np.empty(rows)
        rule = self.participation
        drift = self.drift if rule is None else 0.0
        after = k.reaches(
            self.inner, float(t), strength, self.ridge, self.added, self.moved, drift, out
        )
        if rule is not None:
            number = np.arange(t + 1.0, t + 1.0 + rows)
            out = out * self._records(number) * (1.0 + 2.0**-50) + self.drift * number
        return out, float(after)

    def _records(self, number: FloatArray) -> FloatArray | float:
        """The largest number of records of a person that move each of these iterates."""
        rule = self.participation
        assert rule is not None
        if self.window is not None:
            return float(rule.records_within(self.window))
        so_far = np.ceil(number / rule.min_gap)
        return so_far if rule.max_records is None else np.minimum(so_far, float(rule.max_records))

    def sums(self, horizon: int, first: float, second: float) -> tuple[float, float]:
        if self.participation is not None:
            return self._sums_of_persons(horizon, first, second)
        sums = k.power_sums(
            self.inner, horizon, self.ridge, self.added, self.moved, self.drift, first, second
        )
        # round up, because the sums have rounding errors
        return float(sums[0]) * (1 + 1e-12), float(sums[1]) * (1 + 1e-12)

    def _sums_of_persons(self, horizon: int, first: float, second: float) -> tuple[float, float]:
        sums, strength = np.zeros(2), self.start
        for t in range(0, horizon, 2**16):
            reaches, strength = self.of(t, min(2**16, horizon - t), strength)
            sums += np.sum(reaches**first), np.sum(reaches**second)
        return float(sums[0]) * (1 + 1e-12), float(sums[1]) * (1 + 1e-12)


@dataclass(frozen=True)
class Schedule:
    """Standard deviations factor * reach^power * g(t), and the mu that they give together."""

    word: str
    factor: float
    mu: float
    formula: Prescription | None = None

    def deviations(self, t: int, reaches: FloatArray) -> FloatArray:
        if self.word == "optimal":
            return self.factor * reaches ** (2.0 / 3.0)
        if self.word == "proportional":
            return self.factor * reaches
        number = np.arange(t + 1, t + 1 + len(reaches), dtype=np.float64)
        if self.formula is not None:
            return self.factor / number
        return self.factor * reaches * np.sqrt(number + 1.0) * np.log(number + 1.0)


def choose(schedule: Any, budget: Budget, horizon: int | None) -> str:
    """The requested schedule, or the first one that the budget and the horizon allow."""
    if budget.delta == 0.0:
        raise ValueError(
            "PerturbedIterates adds Gaussian noise and needs delta > 0, got delta=0; for pure privacy "
            "use FollowTheApproximateLeader or FollowTheRegularizedLeader"
        )
    if schedule is None:
        if budget.window is not None:
            return "proportional"
        return "horizon-free" if horizon is None else "optimal"
    word = checks.choice(schedule, "schedule", (*SCHEDULES, *prescribed.names()[1:]))
    if budget.window is not None and word != "proportional":
        raise ValueError(
            f"schedule={word!r} cannot use a window; leave out schedule, or use 'proportional'"
        )
    if horizon is None and budget.window is None and word != "horizon-free":
        raise ValueError(f"schedule={word!r} needs a horizon; set horizon=, or use 'horizon-free'")
    return word


def build(
    word: str,
    reach: Reach,
    budget: Budget,
    horizon: int | None,
    dim: int,
    precision: str,
    facts: dict[str, Any],
) -> Schedule:
    """The schedule with a given name, calibrated to a budget; ``facts`` are for one that is prescribed."""
    grain = math.sqrt(dim) / lattice.STEPS if precision == "lattice" else 0.0
    if word == "horizon-free":
        return _horizon_free(budget.mu, grain)
    if word == "proportional":
        count = min(n for n in (horizon, budget.window) if n is not None)
        share = budget.mu / math.sqrt(count) - grain
        if share <= 0.0:
            raise _too_fine(budget.mu)
        factor = _up(1.0 / share)
        return Schedule(word, factor, math.sqrt(count) * (1.0 / factor + grain))
    assert horizon is not None
    if word == "optimal":
        squares, roots = reach.sums(horizon, 2.0 / 3.0, 1.0 / 3.0)
        factor = _solve(budget.mu, squares, roots, horizon, grain)
        return Schedule(word, factor, _mu(squares, roots, horizon, factor, grain))
    formula = prescribed.prescribe(word, "perturbed-iterates", budget, horizon=horizon, **facts)
    beta = formula.amount  # noise of the first iterate; that of the t-th is beta/t
    squares = k.weighted_sum(
        reach.inner, horizon, reach.ridge, reach.added, reach.moved, reach.drift, beta, grain
    )
    return Schedule(word, beta, math.sqrt(squares * (1 + 1e-12)), formula)


def _mu(squares: float, roots: float, count: float, factor: float, grain: float) -> float:
    """The root of the sum over t of (q_t/factor + grain)^2, from the sums of q_t^2 and of q_t."""
    return math.sqrt(squares / factor**2 + 2.0 * grain * roots / factor + count * grain**2)


def _solve(mu: float, squares: float, roots: float, count: float, grain: float) -> float:
    """The smallest factor that gives this mu, as the root of a quadratic."""
    room = mu**2 - count * grain**2
    if room <= 0.0:
        raise _too_fine(mu)
    half = grain * roots
    return _up((half + math.sqrt(half**2 + room * squares)) / room)


def _horizon_free(mu: float, grain: float) -> Schedule:
    """Reaches times sqrt(t+1) ln(t+1), for which the sum of squared ratios is finite."""
    reach = 1.0 / (math.sqrt(2.0) * math.log(2.0))
    roots = reach + float(expi(0.5 * math.log(LONGEST + 1.0)) - expi(0.5 * math.log(2.0)))
    factor = _solve(mu, _LOGARITHMIC, roots, LONGEST, grain)
    return Schedule("horizon-free", factor, _mu(_LOGARITHMIC, roots, LONGEST, factor, grain))


def _up(value: float) -> float:
    return value * (1.0 + 2.0**-50)


def _too_fine(mu: float) -> ValueError:
    return ValueError(
        f"a privacy level of mu = {mu:g} over so many steps in so many dimensions is too small for the "
        "lattice of the noise; use a larger epsilon, or a shorter horizon"
    )


class IterateNoise:
    """The noise of the iterates, drawn in blocks ahead of its use.

    Row r of ``rows`` belongs to the r-th iterate after the last draw: in whole steps of the lattice with step
    ``grid[r]``, or in floating point if that is 0.
    """

    def __init__(
        self,
        source: Source,
        plan: Schedule,
        reach: Reach,
        horizon: int | None,
        dim: int,
        precision: str,
    ) -> None:
        self.source = source
        self.row = 0
        self.rows: NDArray[Any] = np.empty(
            (0, dim), np.int64 if precision == "lattice" else np.float64
        )
        self.grid = np.empty(0)
        self._plan, self._reach, self._horizon = plan, reach, horizon
        # The state from which the block was drawn: the key of its interval, the step, and A.
        self._begun_with: tuple[dict[str, Any], int, float] = (source.state(), 0, reach.start)

    def ready(self, t: int, strength: float) -> int:
        """For how many iterates after the t-th, with A equal to ``strength``, there is noise; at least one."""
        if self.row == len(self.rows):
            count = max(1, _BLOCK // self.rows.shape[1])
            if self._horizon is not None:
                count = min(count, self._horizon - t)
            self._draw(t, strength, count)
        return len(self.rows) - self.row

    def _draw(self, t: int, strength: float, count: int) -> None:
        dim = self.rows.shape[1]
        begun_with = self.source.state(), t, strength
        reaches, _ = self._reach.of(t, count, strength)
        deviations = self._plan.deviations(t, reaches)
        rows = np.empty((count, dim), self.rows.dtype)
        self.source.ratchet()
        if rows.dtype == np.float64:
            self.source.normals(rows)
            rows *= deviations[:, None]
            grid = np.zeros(count)
        else:
            # the largest power of two that is at most 2^-30 of the deviation
            grid = np.ldexp(1.0, np.frexp(deviations / lattice.STEPS)[1] - 1)
            lattice.gaussian(self.source, deviations / grid, rows)
        # No calls from here on, so that an interrupt leaves either the old noise or the new.
        self.rows, self.grid, self.row, self._begun_with = rows, grid, 0, begun_with

    def state(self) -> dict[str, Any]:
        """What the current block is drawn from, and how much of it is used; if all is, the key of the next one."""
        if self.row == len(self.rows):
            return {"source": self.source.state(), "block": [0, 0]}
        source, t, strength = self._begun_with
        return {"source": source, "block": [len(self.rows), self.row], "t": t, "strength": strength}

    def restore(self, state: dict[str, Any]) -> None:
        self.source = Source.from_state(state["source"])
        self.rows, self.grid, self.row = self.rows[:0], self.grid[:0], 0
        count, used = state["block"]
        if used:
            self._draw(int(state["t"]), float(state["strength"]), count)
            self.row = used
