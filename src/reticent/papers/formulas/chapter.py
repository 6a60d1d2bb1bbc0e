"""The noise of private empirical risk minimisation, as printed in Thakurta's chapter.

Algorithms 1 to 4 and 6 of *Private Optimization*; docs/errata.md lists their errors. For objective perturbation with
Gaussian noise the chapter gives only the order; the constants are those of Kifer, Smith and Thakurta (*Private convex
empirical risk minimization and high-dimensional regression*), which it cites as [KST12].

The chapter's neighbours add or remove a record, which is ``"zero-out"`` here. Replacement doubles the sensitivity,
which more than doubles epsilon.
"""

from __future__ import annotations

import math

from reticent.checks import choice, fraction, integer, positive
from reticent.privacy.budget import NEIGHBOURS
from reticent.privacy.compose import compose
from reticent.privacy.curves import BoundedRange, Pure
from reticent.privacy.objective import ObjectivePerturbation
from reticent.privacy.prescribed import Prescription, ratio
from reticent.privacy.subsampled import SubsampledGaussian

PAPER = "Chapter 6, Private Optimization (Abhradeep Thakurta)"
LOSSES = ("sum", "average")


def exponential_mechanism(epsilon: float, *, norm: float = 1.0, diameter: float) -> Prescription:
    """The divisor of the summed loss in Algorithm 1: 2 L |C| / epsilon.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    norm
        The Lipschitz constant L of one record's loss.
    diameter
        The diameter |C| of the set.
    """
    epsilon = positive(epsilon, "epsilon")
    span = positive(norm, "norm")
    span *= positive(diameter, "diameter")
    scale = 2.0 * span / epsilon
    return Prescription(
        scale=scale,
        noise="exponential",
        formula="density proportional to exp(-epsilon / (2 L |C|) loss(theta))",
        where=f"{PAPER}, Algorithm 1 and Theorem 6.4",
        claimed=(epsilon, 0.0),
        relation="zero-out",
        zero_out=BoundedRange(span / scale),
        replace=BoundedRange(2.0 * span / scale),
    )


def _check_regulariser(regulariser: float | None, least: float) -> float:
    if regulariser is None:
        return least
    value = positive(regulariser, "regulariser")
    if value < least:
        raise ValueError(
            f"regulariser must be at least {least:g} for the published formula, got {value:g}; "
            "increase it, or omit it to use the least one"
        )
    return value


def objective_perturbation_gamma(
    epsilon: float,
    *,
    norm: float = 1.0,
    smoothness: float,
    rank: int = 1,
    regulariser: float | None = None,
) -> Prescription:
    """Gamma noise of objective perturbation, Theorem 6.7.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    norm
        A bound L on the norm of one record's gradient.
    smoothness
        A bound on the eigenvalues of one record's Hessian, lambda_max.
    rank
        A bound on the rank of one record's Hessian; 1 for a generalised linear loss.
    regulariser
        Delta; by default the least that the theorem allows.
    """
    epsilon = positive(epsilon, "epsilon")
    norm = positive(norm, "norm")
    smoothness = positive(smoothness, "smoothness")
    rank = integer(rank, "rank", low=1)
    least = rank * smoothness / -math.expm1(-epsilon / 2.0)
    ridge = _check_regulariser(regulariser, least)
    scale = 2.0 * norm / epsilon
    determinant = rank * math.log1p(smoothness / ridge)
    return Prescription(
        scale=scale,
        noise="gamma",
        formula="scale = 2 L / epsilon, Delta >= r lambda_max / (1 - exp(-epsilon/2))",
        where=f"{PAPER}, Algorithm 2 and Theorem 6.7",
        claimed=(epsilon, 0.0),
        relation="zero-out",
        zero_out=Pure(norm / scale + determinant),
        replace=Pure(2.0 * norm / scale + determinant),
        bounds=("replace",) if rank == 1 else NEIGHBOURS,
        regulariser=ridge,
    )


def objective_perturbation_gaussian(
    epsilon: float,
    delta: float,
    *,
    norm: float = 1.0,
    smoothness: float,
    regulariser: float | None = None,
) -> Prescription:
    """Gaussian noise of objective perturbation of a generalised linear loss, [KST12].

    Nothing is proved for other losses, whose records may act along more than one direction.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    norm
        A bound L on the norm of one record's gradient.
    smoothness
        A bound on the eigenvalues of one record's Hessian, lambda_max.
    regulariser
        Delta; by default the least that the theorem allows.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    norm = positive(norm, "norm")
    smoothness = positive(smoothness, "smoothness")
    ridge = _check_regulariser(regulariser, 2.0 * smoothness / epsilon)
    sigma = norm * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
    curve = (norm / sigma, math.log1p(smoothness / ridge))
    return Prescription(
        scale=sigma,
        noise="gaussian",
        formula=(
            "sigma = O(L sqrt(ln(1/delta)) / epsilon); [KST12]: "
            "sigma = L sqrt(8 ln(2/delta) + 4 epsilon) / epsilon, Delta >= 2 lambda_max / epsilon"
        ),
        where=f"{PAPER}, Section 6.2.2, Extension to (epsilon, delta)-DP Variant",
        claimed=(epsilon, delta),
        relation="zero-out",
        zero_out=ObjectivePerturbation(*curve),
        replace=ObjectivePerturbation(*curve, neighbours="replace"),
        bounds=NEIGHBOURS,
        regulariser=ridge,
    )


def _textbook_multiplier(epsilon: float, delta: float, releases: float) -> float:
    return math.sqrt(2.0 * releases * (math.log(1.0 / delta) + epsilon)) / epsilon


def gradient_descent(
    epsilon: float, delta: float, *, steps: int, norm: float = 1.0
) -> Prescription:
    """Gaussian noise of every summed gradient in Algorithm 3.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    steps
        The number of iterations T.
    norm
        Norm to which each record's gradient is clipped, L.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    steps = integer(steps, "steps", low=1)
    norm = positive(norm, "norm")
    sigma = norm * _textbook_multiplier(epsilon, delta, steps)
    mu = math.sqrt(steps) * norm / sigma
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="sigma = L sqrt(2 T (ln(1/delta) + epsilon)) / epsilon",
        where=f"{PAPER}, Algorithm 3 and Theorem 6.10",
        claimed=(epsilon, delta),
        relation="zero-out",
    )


def stochastic_gradient_descent(
    epsilon: float, delta: float, *, steps: int, n: int, norm: float = 1.0
) -> Prescription:
    """Gaussian noise of n times one sampled gradient, "at the same level" as Algorithm 3.

    The stated epsilon is that of Poisson sampling with rate 1/n. "Sampled uniformly at random", as printed, always
    draws exactly one record and is less private than that. Needs dp-accounting.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    steps
        The number of iterations T.
    n
        The number of records.
    norm
        Norm to which each record's gradient is clipped, L.
    """
    full = gradient_descent(epsilon, delta, steps=steps, norm=norm)
    n = integer(n, "n", low=2)
    sigma = float(full.scale)
    curve = (1.0 / n, sigma / (n * float(norm)), steps)
    return Prescription(
        scale=sigma,
        noise="gaussian",
        formula="sigma = L sqrt(2 T (ln(1/delta) + epsilon)) / epsilon on n clip(gradient)",
        where=f"{PAPER}, Section 6.3.1, Improving Oracle Complexity with Privacy Amplification",
        claimed=full.claimed,
        relation="zero-out",
        zero_out=SubsampledGaussian(*curve),
        replace=SubsampledGaussian(*curve, neighbours="replace"),
    )


def ftrl(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    released: int | None = None,
) -> Prescription:
    """Gaussian noise of every tree node of DP-FTRL, Algorithm 4; none at all for one record.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records n.
    norm
        Norm to which each gradient is clipped, L.
    released
        Number of prefix sums that are released; by default all n, since Algorithm 4 outputs theta_(n+1). The printed
        count of nodes is right for n - 1.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=1)
    norm = positive(norm, "norm")
    count = horizon if released is None else integer(released, "released", low=1, high=horizon)
    levels = (horizon - 1).bit_length()  # ceil(lg n) without rounding
    sigma = norm * _textbook_multiplier(epsilon, delta, levels)
    mu = math.sqrt(count.bit_length()) * ratio(norm, sigma)
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="sigma = L sqrt(2 ceil(lg n) (ln(1/delta) + epsilon)) / epsilon",
        where=f"{PAPER}, Theorems 6.13 and 6.14",
        claimed=(epsilon, delta),
        relation="zero-out",
    )


def frank_wolfe_laplace(
    epsilon: float,
    delta: float,
    *,
    steps: int,
    n: int,
    norm: float = 1.0,
    radius: float = 1.0,
    loss: str = "sum",
) -> Prescription:
    """Laplace noise of every vertex's score in Algorithm 6.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    steps
        T; there are T - 1 selections.
    n
        The number of records.
    norm
        The l1-Lipschitz constant L_1 of one record's loss: the largest coordinate of its gradient.
    radius
        The largest l1 norm of a vertex.
    loss
        ``"sum"``: scores of the summed loss, as printed. ``"average"``: scores of the average loss, for which the 1/n
        in the formula is right.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    steps, n = integer(steps, "steps", low=1), integer(n, "n", low=1)
    move = positive(norm, "norm")
    move *= positive(radius, "radius")
    scale = move * math.sqrt(8.0 * steps * math.log(1.0 / delta)) / (n * epsilon)
    if choice(loss, "loss", LOSSES) == "average":
        move /= n
    step = 2.0 * move / scale
    return Prescription(
        scale=scale,
        noise="laplace",
        formula="scale = L_1 |C|_1 sqrt(8 T ln(1/delta)) / (n epsilon)",
        where=f"{PAPER}, Algorithm 6, step 3; Theorem 6.21",
        claimed=(epsilon, delta),
        relation="zero-out",
        zero_out=compose([(Pure(step), steps - 1)]),
        replace=compose([(Pure(2.0 * step), steps - 1)]),
        bounds=NEIGHBOURS,
    )
