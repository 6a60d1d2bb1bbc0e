"""Noise scales and promises shared by the running totals whose noise sits at nodes that a record touches.

The one thing a reader would get wrong: ``count`` is how many noisy nodes one record touches, not
how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reticent import _checks
from reticent.privacy import Guarantee, Release, calibration, compose, curves
from reticent.privacy.ages import Stepwise
from reticent.privacy.prescribed import Prescription

if TYPE_CHECKING:
    from reticent.sums.base import RunningTotal

NOISES = ("gaussian", "laplace", "gamma")


def check_noise(noise: str) -> str:
    return _checks.choice(noise, "noise", NOISES)


def sensitivity(total: RunningTotal) -> float:
    """How far one record moves a node: in the Euclidean norm, or for Laplace noise in the 1-norm."""
    reach = total._reach()
    return reach * math.sqrt(total.dim) if total.noise == "laplace" else reach


def exact(total: RunningTotal, count: int) -> float:
    """Scale of the noise of one node."""
    if total.noise == "gaussian":
        return calibration.gaussian(total.budget, [sensitivity(total)]) * math.sqrt(count)
    if (
        total._has_epochs
    ):  # each epoch has its own count, and only the pure promise is the same for all
        return count * sensitivity(total) / total.budget.epsilon
    # A vector of Laplace noise is held to what pure privacy alone implies, as is the Gamma vector.
    return calibration.gamma(total.budget, sensitivity(total), count)


def coordinate_variance(total: RunningTotal, scale: float) -> float:
    """Variance of one coordinate of one node's noise."""
    if total.noise == "gaussian":
        return scale**2
    return 2 * scale**2 if total.noise == "laplace" else (total.dim + 1) * scale**2


def promise(
    total: RunningTotal,
    mechanism: str,
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
    reach = sensitivity(total)
    if total.noise == "gaussian":
        curve: curves.Curve = curves.Gaussian(reach / scale)
        text = f"Gaussian, standard deviation {scale:.6g}"
    else:
        curve = curves.Pure(reach / scale)
        shape = "Laplace in each coordinate" if total.noise == "laplace" else "spherical Gamma"
        text = f"{shape}, scale {scale:.6g}"
    ages = Stepwise([(age, compose([(curve, n)])) for age, n in by_age or [(1, count)]])
    if total.budget.window is not None and total._expires:
        ages = Stepwise([*ages.steps, (total.budget.window + 1, curves.NoPrivacy())])
    return guarantee(total, Release(mechanism, curve, reach, text, count, details, ages), formula)


def epochs(total: RunningTotal, mechanism: str) -> Guarantee:
    """The guarantee of epochs on disjoint records, each calibrated to the whole budget by its own count of nodes."""
    gaussian = total.noise == "gaussian"
    curve = curves.Gaussian(total.budget.mu) if gaussian else curves.Pure(total.budget.epsilon)
    text = f"{'Gaussian' if gaussian else total.noise.capitalize()}, calibrated in each epoch to its length"
    details = ("epochs of doubling length on disjoint records: a record is in one of them",)
    ages = Stepwise([(1, curve)])
    return guarantee(total, Release(mechanism, curve, sensitivity(total), text, 1, details, ages))


def guarantee(
    total: RunningTotal, release: Release, formula: Prescription | None = None
) -> Guarantee:
    """One release under the total's own relation, window and kind of noise.

    Where the noise was prescribed, the guarantee is the truth about it all the same, and a caveat says
    where that is less than was claimed.
    """
    made = Guarantee.of(
        total.budget,
        [release],
        seeded=total._source.seeded,
        lattice=total.noise_precision == "lattice",
    )
    if formula is None:
        return made
    doubts = formula.doubts(total.budget.neighbours, made.epsilon(formula.claimed[1]))
    return replace(made, caveats=doubts)
