"""The noise of perturbed iterates, private sums and averages, as printed by Jain and others.

Algorithms 2 to 7 of *Differentially Private Online Learning*; docs/errata.md lists their errors.

The iterates before noise do not depend on the noise, so all the perturbed iterates together are one Gaussian mechanism,
whose ratio of sensitivity to noise is the root of the sum of the squared ratios. No composition theorem is needed, and
the printed noise is about ten times too large.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray, choice, fraction, integer, number, positive
from reticent.papers.formulas.bandit import log_depth_over_delta, tree_depth
from reticent.privacy.prescribed import Prescription, gaussian_curve, ratio

PAPER = "Differentially Private Online Learning (Prateek Jain, Pravesh Kothari, Abhradeep Thakurta)"
READINGS = ("logarithm-of-product", "product-of-logarithms")
INNERS = ("implicit", "gradient", "gradient-printed")


def _iterate_moves(inner: str, horizon: int) -> FloatArray:
    """``t`` times the move of iterate t+1 by the worst record, in units of (moved gradient) / alpha."""
    t = np.arange(1, horizon, dtype=np.float64)
    if inner == "implicit":
        return t / (t + 1.0)
    if inner == "gradient":
        return np.ones_like(t)
    # With steps 2/(alpha t) the record at tau moves iterate t+1 by 2 (tau-1) / (t (t-1)): more at first, but its effect
    # decays faster. The warm-up is at least one step, so tau >= 2.
    moves = np.zeros_like(t)
    if horizon > 2:
        m = t[:-1]  # tau - 1, and also t - 1 from t = 2 on
        tails = np.cumsum(1.0 / m[::-1] ** 2)[::-1]
        worst = int(np.argmax(m**2 * tails))
        moves[worst + 1 :] = 2.0 * m[worst] / m[worst:]
    return moves


def perturbed_iterates(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    strong_convexity: float = 1.0,
    radius: float = 0.0,
    inner: str = "implicit",
    reading: str = "logarithm-of-product",
) -> Prescription:
    """Gaussian noise of POCP, PIGD and PGIGA at steps t = 1, ..., T-1: beta/t.

    The epsilon and delta are the algorithm's parameters; the claim is (3 epsilon, 2 delta). A
    blanked record keeps its regulariser: a step that is skipped altogether moves the iterates more.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records T, at least 2.
    norm
        The Lipschitz constant of the part of the loss that depends on the record.
    strong_convexity
        alpha.
    radius
        A bound on the decisions, if the printed Lipschitz constant is to count the regulariser
        as well: it is then ``norm + strong_convexity * radius``.
    inner
        ``"implicit"``: implicit gradient descent, Algorithm 2. ``"gradient"``: gradient descent
        with steps min(1/(alpha t), 2/(alpha + smoothness)) and no warm-up.
        ``"gradient-printed"``: Algorithm 3 with its steps 2/(alpha t) and its warm-up.
    reading
        The printed ``c = ln 1/(2 epsilon) ln(2/delta) / (2 ln T)`` is the
        ``"logarithm-of-product"`` in Appendix A.2; read as the ``"product-of-logarithms"`` it
        destroys privacy for epsilon > 1/2.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=2)
    norm, convexity, printed = _constants(norm, strong_convexity, radius)
    choice(inner, "inner", INNERS)
    a, b = 1.0 / (2.0 * epsilon), math.log(2.0 / delta)
    if choice(reading, "reading", READINGS) == "logarithm-of-product":
        c = math.log(a * b) / (2.0 * math.log(horizon))
    else:
        c = math.log(a) * b / (2.0 * math.log(horizon))
    power = horizon ** (0.5 + c)
    beta = (
        2.0
        * printed
        / convexity
        * power
        * math.sqrt(2.0 / epsilon * (math.log(horizon / delta) + math.sqrt(epsilon) / power))
    )
    mu = norm / convexity / beta * float(np.linalg.norm(_iterate_moves(inner, horizon)))
    return Prescription.gaussian(
        mu,
        scale=beta / np.arange(1, horizon, dtype=np.float64),
        formula=(
            "sigma_t = beta/t, beta = (2 L/alpha) T^(0.5+c) "
            "sqrt((2/epsilon) (ln(T/delta) + sqrt(epsilon)/T^(0.5+c))), "
            "c = ln 1/(2 epsilon) ln(2/delta) / (2 ln T)"
        ),
        where=f"{PAPER}, Algorithms 2 and 3, step 8; Theorems 1, 7 and 9",
        claimed=(3.0 * epsilon, 2.0 * delta),
        relation="replace",
    )


def _constants(norm: float, strong_convexity: float, radius: float) -> tuple[float, float, float]:
    norm = positive(norm, "norm")
    convexity = positive(strong_convexity, "strong_convexity")
    return norm, convexity, norm + convexity * number(radius, "radius", low=0.0)


def horizon_free(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    strong_convexity: float = 1.0,
    radius: float = 0.0,
    inner: str = "implicit",
) -> Prescription:
    """Gaussian noise of Algorithm 7 at steps t = 1, ..., T-1, which does not use T.

    The claim is (3 epsilon log2 T, delta log2 T + 2/T^(2 epsilon)); its second term makes it empty for small epsilon.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records T.
    norm
        The Lipschitz constant of the part of the loss that depends on the record.
    strong_convexity
        alpha.
    radius
        A bound on the decisions, if the printed Lipschitz constant is to count the regulariser as well: it is then
        ``norm + strong_convexity * radius``.
    inner
        ``"implicit"``: implicit gradient descent, Algorithm 2. ``"gradient"``: gradient descent with steps
        min(1/(alpha t), 2/(alpha + smoothness)) and no warm-up.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=2)
    norm, convexity, printed = _constants(norm, strong_convexity, radius)
    choice(inner, "inner", INNERS[:2])
    t = np.arange(1, horizon)
    _, exponents = np.frexp(t.astype(np.float64))  # exact floor(log2 t) + 1
    block = np.ldexp(1.0, exponents - 1)
    beta = (
        2.0
        * printed
        / convexity
        * np.sqrt(2.0 * block / epsilon * (np.log(block / delta) + np.sqrt(epsilon / block)))
    )
    moves = _iterate_moves(inner, horizon)
    mu = norm / convexity * float(np.linalg.norm(moves / beta))
    log2 = math.log2(horizon)
    return Prescription.gaussian(
        mu,
        scale=beta / t,
        formula=(
            "sigma_t = beta_t/t, beta_t = lambda_A "
            "sqrt((2^(k+1)/epsilon) (ln(2^k/delta) + sqrt(epsilon/2^k))), k = floor(log2 t)"
        ),
        where=f"{PAPER}, Algorithm 7 and Theorem 13",
        claimed=(3.0 * epsilon * log2, delta * log2 + 2.0 * horizon ** (-2.0 * epsilon)),
        relation="replace",
    )


def _private_sum_sigma(
    epsilon: float, delta: float, horizon: int, norm: float, logarithm: str
) -> float:
    depth = tree_depth(horizon, logarithm)
    return norm / epsilon * depth * math.sqrt(log_depth_over_delta(depth, delta))


def private_sum(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    released: int | None = None,
    logarithm: str = "natural",
) -> Prescription:
    """Gaussian noise of every tree node of PrivateSum, Algorithm 5.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records T.
    norm
        The bound on the l2 norm of a contribution, R.
    released
        Number of prefix sums that are released; by default all T.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=1)
    norm = positive(norm, "norm")
    count = horizon if released is None else integer(released, "released", low=1, high=horizon)
    sigma = _private_sum_sigma(epsilon, delta, horizon, norm, logarithm)
    mu = math.sqrt(count.bit_length()) * ratio(norm, sigma)
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="sigma^2 = (R^2/epsilon^2) log^2 T log(log T / delta)",
        where=f"{PAPER}, Algorithm 5, step 3; Lemma 6 and Theorem 11",
        claimed=(epsilon, delta),
        relation="replace",
    )


def quadratic_leader(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    logarithm: str = "natural",
) -> Prescription:
    """Gaussian noise of the two trees of PQFTL, Algorithm 4: ``scale = [sigma_V, sigma_u]``.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records T, at least 2; T - 1 sums are released.
    norm
        The bound R on the norm of a feature vector and on the absolute value of a label.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=2)
    norm = positive(norm, "norm")
    # as printed: R^2 for v v', but only R for y v, although its norm can be R^2 too
    sigmas = [
        _private_sum_sigma(epsilon / 2.0, delta / 2.0, horizon, bound, logarithm)
        for bound in (norm**2, norm)
    ]
    nodes = (horizon - 1).bit_length()
    v, u = (norm**2 / sigma for sigma in sigmas)
    zero_out = nodes * (v**2 + u**2)
    # two records at an angle: 2 (1 - c^2) v^2 + 2 (1 + c) u^2, largest at c = min(1, u^2/(2 v^2))
    c = min(1.0, u**2 / (2.0 * v**2))
    replace = nodes * (2.0 * (1.0 - c**2) * v**2 + 2.0 * (1.0 + c) * u**2)
    return Prescription(
        scale=np.array(sigmas),
        noise="gaussian",
        formula="PrivateSum with (R^2, epsilon/2, delta/2) for V and (R, epsilon/2, delta/2) for u",
        where=f"{PAPER}, Algorithm 4, steps 7 and 8; Theorem 3",
        claimed=(epsilon, delta),
        relation="replace",
        zero_out=gaussian_curve(math.sqrt(zero_out)),
        replace=gaussian_curve(math.sqrt(replace)),
    )


def averaged_iterate(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    strong_convexity: float,
    radius: float,
) -> Prescription:
    """Gaussian noise of the average iterate in POL, Algorithm 6, which lacks a factor 1/alpha.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of records T, at least 2.
    norm
        The Lipschitz constant L of the loss without its regulariser.
    strong_convexity
        alpha.
    radius
        The bound on the norm of the optimum; the printed constant is L + alpha radius.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=2)
    norm, convexity, printed = _constants(norm, strong_convexity, radius)
    beta = (
        2.0
        * math.sqrt(2.0)
        * printed
        * math.log(horizon)
        / (horizon * epsilon)
        * math.sqrt(math.log(1.0 / delta) + epsilon)
    )
    harmonic = math.fsum(1.0 / s for s in range(2, horizon + 1))
    mu = norm * harmonic / (convexity * horizon) / beta
    return Prescription.gaussian(
        mu,
        scale=beta,
        formula=(
            "beta = 2 sqrt(2) (L + alpha |x*|) ln T / (T epsilon) sqrt(ln(1/delta) + epsilon)"
        ),
        where=f"{PAPER}, Section 5, Algorithm 6, step 13; Theorem 5",
        claimed=(epsilon, delta),
        relation="replace",
    )
