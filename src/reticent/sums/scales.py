"""Noise scales and guarantees of the mechanisms whose noise is at the nodes that a record touches.

In this module ``count`` is the number of noisy nodes that one record touches, not the number of all nodes.
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
    """Scale of the noise of one node, calibrated exactly."""
    budget, moved = mechanism.budget, mechanism.noise_sensitivity
    if mechanism.noise == "gaussian":
        return calibration.gaussian(budget, [moved]) * math.sqrt(count)
    if mechanism.has_epochs:
        # each epoch has its own count, and only a pure guarantee is the same for all
        return count * moved / budget.epsilon
    # Vectors of Laplace noise, like Gamma vectors, are accounted for as pure releases only.
    return calibration.gamma(budget, moved, count)


def touched(mechanism: Mechanism, levels: int) -> int:
    """The number of nodes, each of one record's sensitivity, whose cost is that of all records protected together.

    For a single record it is one node on each level. For a person it takes the number of records in each node into
    account, squared where costs add up as squares.
    """
    count = tree_squares if mechanism.noise == "gaussian" else tree_count
    return count(levels, mechanism.pattern, mechanism.protected)


def coordinate_variance(mechanism: Mechanism, scale: float) -> float:
    """Variance of one coordinate of one node's noise."""
    if mechanism.noise == "gaussian":
        return scale**2
    return 2 * scale**2 if mechanism.noise == "laplace" else (mechanism.dim + 1) * scale**2


def guarantee_of_nodes(
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

    ``by_age`` lists pairs of an age and the number of nodes touched from that age on; by default all are touched at
    once.
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
    # persons may have more records after the window, and the nodes are counted for those within it
    if window is not None and (mechanism.expires or mechanism.participation is not None):
        ages = Stepwise([*ages.steps, (window + 1, curves.NoPrivacy())])
    return guarantee_of_release(
        mechanism, Release(name, curve, moved, text, count, details, ages), formula
    )


def guarantee_of_epochs(mechanism: Mechanism, name: str) -> Guarantee:
    """The guarantee of epochs on disjoint records, each calibrated to the whole budget by its own number of nodes."""
    budget, gaussian = mechanism.budget, mechanism.noise == "gaussian"
    curve = curves.Gaussian(budget.mu) if gaussian else curves.Pure(budget.epsilon)
    shape = "Gaussian" if gaussian else mechanism.noise.capitalize()
    text = f"{shape}, calibrated in each epoch to its length"
    details = ("epochs of doubling length on disjoint records: a record is in one of them",)
    ages = Stepwise([(1, curve)])
    release = Release(name, curve, mechanism.noise_sensitivity, text, 1, details, ages)
    return guarantee_of_release(mechanism, release)


def guarantee_of_release(
    mechanism: Mechanism, release: Release, formula: Prescription | None = None
) -> Guarantee:
    """The guarantee of one release, with the relation, window and kind of noise of the mechanism.

    If the noise was prescribed by a formula, the guarantee is still the true one, and a caveat says where it is
    weaker than the formula's claim.
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
    """The smallest scale, to the last few bits, at which mu is not above the target.

    Apart from what rounding adds, mu is inversely proportional to the scale, so a few corrections by the ratio find
    it. If rounding is so coarse that they do not converge, the scale is found by bisection.
    """
    scale = start / target
    for _ in range(8):
        found = mu(scale)
        better = scale * (found / target)
        if found <= target and better >= scale * (1.0 - 2.0**-50):
            return scale
        if not math.isfinite(better):
            break
        # slightly more than needed, otherwise corrections of the last bits would never end
        scale = better if abs(better / scale - 1.0) > 2.0**-48 else better * (1.0 + 2.0**-51)
    return _bisected(mu, target, start)


def _bisected(mu: Callable[[float], float], target: float, start: float) -> float:
    low = high = start / target
    while mu(high) > target:
        high *= 2.0
        if high > 2.0**40 * low:
            raise ValueError(
                f"no noise on the lattice gives mu = {target:.3g}: over so many steps and dimensions, rounding alone "
                "costs more; use a larger epsilon, a shorter horizon or fewer dimensions"
            )
    while mu(low) <= target:
        low /= 2.0
    return curves.bisected(lambda scale: mu(scale) <= target, low, high)
