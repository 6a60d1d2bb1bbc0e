"""Noise scales and promises shared by the mechanisms whose noise sits at nodes that a record touches.

``count`` is everywhere how many noisy nodes one record touches, not how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from reticent.privacy import Guarantee, Release, calibration, compose, curves
from reticent.privacy.ages import Stepwise
from reticent.privacy.participation import tree_count, tree_squares
from reticent.privacy.prescribed import Prescription
from reticent.sums.mechanism import Mechanism


def exact(mechanism: Mechanism, count: int) -> float:
    """Scale of the noise of one node."""
    budget, moved = mechanism.budget, mechanism.noise_sensitivity
    if mechanism.noise == "gaussian":
        return calibration.gaussian(budget, [moved]) * math.sqrt(count)
    if mechanism.has_epochs:
        # each epoch has its own count, and only the pure promise is the same for all
        return count * moved / budget.epsilon
    # A vector of Laplace noise is held to what pure privacy alone implies, as is the Gamma vector.
    return calibration.gamma(budget, moved, count)


def touched(mechanism: Mechanism, levels: int) -> int:
    """How many nodes of one sensitivity what is protected costs as much as: one on each level for a record.

    For a person the number of records in each node counts, squared where costs add up as squares.
    """
    count = tree_squares if mechanism.noise == "gaussian" else tree_count
    return count(levels, mechanism.pattern, mechanism.protected)


def coordinate_variance(mechanism: Mechanism, scale: float) -> float:
    """Variance of one coordinate of one node's noise."""
    if mechanism.noise == "gaussian":
        return scale**2
    return 2 * scale**2 if mechanism.noise == "laplace" else (mechanism.dim + 1) * scale**2


def promise(
    mechanism: Mechanism,
    name: str,
    scale: float,
    count: int,
    *,
    by_age: Sequence[tuple[int, int]] | None = None,
    details: tuple[str, ...] = (),
    formula: Prescription | None = None,
) -> Guarantee:
    """The guarantee of noise of a given scale at ``count`` nodes that one record touches.

    ``by_age`` lists ages and how many nodes it touches from each of them on; by default all at once.
    """
    moved, window = mechanism.noise_sensitivity, mechanism.budget.window
    if mechanism.noise == "gaussian":
        curve: curves.Curve = curves.Gaussian(moved / scale)
        text = f"Gaussian, standard deviation {scale:.6g}"
    else:
        curve = curves.Pure(moved / scale)
        shape = "Laplace in each coordinate" if mechanism.noise == "laplace" else "spherical Gamma"
        text = f"{shape}, scale {scale:.6g}"
    ages = Stepwise([(age, compose([(curve, n)])) for age, n in by_age or [(1, count)]])
    if window is not None and mechanism.expires:
        ages = Stepwise([*ages.steps, (window + 1, curves.NoPrivacy())])
    return guarantee(mechanism, Release(name, curve, moved, text, count, details, ages), formula)


def promise_of_epochs(mechanism: Mechanism, name: str) -> Guarantee:
    """The guarantee of epochs on disjoint records, each calibrated to the whole budget by its own count of nodes."""
    budget, gaussian = mechanism.budget, mechanism.noise == "gaussian"
    curve = curves.Gaussian(budget.mu) if gaussian else curves.Pure(budget.epsilon)
    shape = "Gaussian" if gaussian else mechanism.noise.capitalize()
    text = f"{shape}, calibrated in each epoch to its length"
    details = ("epochs of doubling length on disjoint records: a record is in one of them",)
    ages = Stepwise([(1, curve)])
    release = Release(name, curve, mechanism.noise_sensitivity, text, 1, details, ages)
    return guarantee(mechanism, release)


def guarantee(
    mechanism: Mechanism, release: Release, formula: Prescription | None = None
) -> Guarantee:
    """One release under the mechanism's own relation, window and kind of noise.

    Where the noise was prescribed, the guarantee is the truth about it all the same, and a caveat says
    where that is less than was claimed.
    """
    if mechanism.participation is not None:
        release = replace(release, details=(*release.details, str(mechanism.participation)))
    made = Guarantee.of(
        mechanism.budget, [release], lattice=mechanism.on_lattice, unit=mechanism.unit
    )
    if formula is None:
        return made
    doubts = formula.doubts(mechanism.budget.neighbours, made.epsilon(formula.claimed[1]))
    return replace(made, caveats=doubts)


def smallest(mu: Callable[[float], float], target: float, start: float) -> float:
    """The smallest scale, to the last few bits, whose mu is not above the target.

    But for what rounding adds, mu is inversely proportional to the scale, so a few corrections by the ratio find it.
    Where rounding is so coarse that they do not settle, the scale is found by bisection.
    """
    scale = start / target
    for _ in range(8):
        found = mu(scale)
        better = scale * (found / target)
        if found <= target and better >= scale * (1.0 - 2.0**-50):
            return scale
        if not math.isfinite(better):
            break
        # a bit more than enough, or the last bits would be corrected for ever
        scale = better if abs(better / scale - 1.0) > 2.0**-48 else better * (1.0 + 2.0**-51)
    return _bisected(mu, target, start)


def _bisected(mu: Callable[[float], float], target: float, start: float) -> float:
    low = high = start / target
    while mu(high) > target:
        high *= 2.0
        if high > 2.0**40 * low:
            raise ValueError(
                f"no noise on the lattice gives mu = {target:.3g}: what rounding adds over so many steps "
                "and dimensions is more; ask for a larger epsilon, a shorter horizon or fewer dimensions"
            )
    while mu(low) <= target:
        low /= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if mu(middle) <= target:
            high = middle
        else:
            low = middle
    return float(high)
