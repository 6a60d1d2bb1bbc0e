"""Calibrate the noise of perturbed iterates for a set, a loss and a budget, and state the guarantee.

[online], Theorem 1 with exact sensitivities and no composition, and section 6.1 for losses without strong convexity.
Derivations: docs/algorithms/perturbed-iterates.md.

Everything here is public, so nothing may read a record. How far a record can move an iterate follows from bounds that
hold for every possible record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reticent import checks
from reticent.checks import FloatArray
from reticent.losses import GeneralizedLinear
from reticent.online import iterate_kernels as k
from reticent.online import schedules
from reticent.online.inner import balanced_addition, drift
from reticent.privacy import Budget, Guarantee, Participation, Release, curves, prescribed
from reticent.sets import ConvexSet

_NAMES = {
    k.IMPLICIT: "implicit gradient steps",
    k.PROJECTED_IMPLICIT: "projected implicit gradient steps",
    k.GRADIENT: "gradient steps",
}


@dataclass(frozen=True)
class Constants:
    """What is fixed before the first record.

    Attributes
    ----------
    inner : int
        The inner algorithm's number in the compiled loop.
    lipschitz : float
        Bound on the gradient of the part that depends on the record.
    slope : float
        Bound on the slope of that part.
    added : float
        Weight of the added regulariser.
    reach : Reach
        How far one record moves each iterate.
    plan : Schedule
        The noise of each iterate.
    """

    inner: int
    lipschitz: float
    slope: float
    added: float
    reach: schedules.Reach
    plan: schedules.Schedule


def _slope(set: ConvexSet, loss: GeneralizedLinear, lipschitz: float | None) -> float:
    """The bound on the slope of the loss, as the user stated it or else on the set."""
    if lipschitz is None:
        slope = loss.scalar_bounds(set)[0]
    else:
        slope = checks.positive(lipschitz, "lipschitz") / loss.feature_norm
    if not math.isfinite(slope):
        raise ValueError(
            f"the gradients of {loss!r} on {set!r} have no bound; set lipschitz=, or use a bounded set"
        )
    return slope


def calibrate(
    set: ConvexSet,
    loss: GeneralizedLinear,
    inner: int,
    budget: Budget,
    *,
    horizon: int | None,
    schedule: str,
    precision: str,
    lipschitz: float | None,
    added: str | float | None,
    participation: Participation | None = None,
) -> Constants:
    """The constants that meet a budget; ``lipschitz`` and ``added`` are as the user passed them."""
    slope = _slope(set, loss, lipschitz)
    bound = slope * loss.feature_norm
    if added is None:
        weight = 0.0
    elif added == "auto":
        weight = balanced_addition(set, loss, bound, budget.mu, horizon)
    else:
        weight = checks.positive(added, "added_regularizer")
    if loss.ridge == 0.0 and (weight == 0.0 or not math.isfinite(set.norm_bound)):
        raise ValueError(
            f"{loss!r} is not strongly convex, so its iterates are not stable; give the loss a "
            "ridge, or added_regularizer='auto', or use FollowTheRegularizedLeader"
        )
    rounding = drift(set, loss, bound, weight) if precision == "lattice" else 0.0
    # slightly more, because the length of a record may exceed its bound by a rounding error
    moved = budget.sensitivity(bound) * (1.0 + (set.dim + 16) * 2.0**-50)
    if participation is not None and schedule in prescribed.names()[1:]:
        raise ValueError(
            f"schedule={schedule!r} prescribes noise for single records; leave out schedule, or participation"
        )
    reach = schedules.Reach(
        inner, loss.ridge, weight, moved, rounding, participation, budget.window
    )
    facts = {
        "norm": bound,
        "strong_convexity": loss.ridge or weight,
        "radius": set.norm_bound if math.isfinite(set.norm_bound) else 0.0,
        "inner": "gradient" if inner == k.GRADIENT else "implicit",
    }
    plan = schedules.build(schedule, reach, budget, horizon, set.dim, precision, facts)
    return Constants(inner, bound, slope, weight, reach, plan)


# Places of some of the bounds in the knobs, for states that were written without bounds.
_PLACES = {"ridge": k.RIDGE, "added": k.ADDED, "slope": k.SLOPE, "smoothness": k.SMOOTHNESS}
# Another machine's exponential may differ in its last digits, by less than what is added to `moved` for
# rounding.
_SAME = 2.0**-48


def bounds(known: Constants, knobs: FloatArray) -> dict[str, float]:
    """The bounds on which the guarantee depends, for a state: a learner that continues it must have the same."""
    mine = {name: float(knobs[place]) for name, place in _PLACES.items()}
    return mine | {"lipschitz": known.lipschitz, "drift": known.reach.drift}


def check_bounds(state: dict[str, Any], mine: dict[str, float]) -> None:
    """Refuse a user-defined set or loss, known by name only, that has other bounds."""
    before = {name: float(state["knobs"][place]) for name, place in _PLACES.items()}
    before |= state.get("bounds", {})
    for name, value in before.items():
        if not math.isclose(mine[name], value, rel_tol=_SAME):
            raise ValueError(
                f"set and loss must have the bounds that the state was saved with, but {name} was "
                f"{value:g} and is now {mine[name]:g}; the guarantee depends on them"
            )


def guarantee_of_iterates(
    known: Constants, budget: Budget, *, seeded: bool, lattice: bool
) -> Guarantee:
    """The guarantee for all noisy iterates together."""
    plan, reach = known.plan, known.reach
    protected = "for ever" if budget.window is None else f"in {budget.window} outputs"
    release = Release(
        f"perturbed iterates, {_NAMES[known.inner]}",
        curves.Gaussian(plan.mu),
        float(reach.of(0, 1, reach.start)[0][0]),
        f"Gaussian, {plan.word} schedule",
        1,
        (
            f"a record is protected {protected}; it moves the first iterate by the sensitivity stated, "
            "later ones by less",
            *(() if reach.participation is None else (str(reach.participation),)),
        ),
    )
    caveats: tuple[str, ...] = ()
    if plan.formula is not None:
        truth = curves.Gaussian(plan.mu).epsilon(plan.formula.claimed[1])
        caveats = plan.formula.doubts(budget.neighbours, truth)
    unit = "record" if reach.participation is None else "person"
    return Guarantee.of(
        budget, [release], seeded=seeded, lattice=lattice, caveats=caveats, unit=unit
    )
