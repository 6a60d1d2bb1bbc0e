"""The noise of TREEBASEDAGG and PRIVATEBANDIT, as printed by Ene, Nguyen and Vladu.

Theorem 4, Lemma 7 and Lemma 10 of *Projection-Free Bandit Optimization with Privacy Guarantees*; docs/errata.md lists
their errors.

The directions are played, hence public, so one record changes one summand of one batch and nothing else. The printed
noise is sound for the bandit only because its sensitivity counts a whole batch; the tree on its own protects less than
it claims.
"""

from __future__ import annotations

import math

from reticent.checks import choice, fraction, integer, positive
from reticent.privacy.curves import Curve, Laplace, NoPrivacy
from reticent.privacy.prescribed import Prescription, gaussian_curve, ratio

PAPER = (
    "Projection-Free Bandit Optimization with Privacy Guarantees "
    "(Alina Ene, Huy L. Nguyen, Adrian Vladu)"
)
LOGARITHMS = ("natural", "binary")
VALUES = ("signed", "non-negative")


def tree_depth(horizon: int, logarithm: str) -> float:
    """The printed "log T", whose base the papers do not state."""
    word = choice(logarithm, "logarithm", LOGARITHMS)
    return math.log(horizon) if word == "natural" else math.log2(horizon)


def log_depth_over_delta(depth: float, delta: float) -> float:
    """The printed "log(log T / delta)"; 0 if there is no tree and therefore no noise."""
    if depth == 0.0:
        return 0.0
    if depth <= delta:
        raise ValueError(
            f"delta must be below log T = {depth:g} for the printed log(log T / delta) to be "
            f"positive, got {delta:g}; choose a smaller delta"
        )
    return math.log(depth / delta)


def laplace_curve(move: float) -> Curve:
    """The guarantee of all coordinates of all nodes together, if a record moves them by ``move`` scales in l1 norm."""
    return NoPrivacy() if math.isinf(move) else Laplace(move)


def tree_aggregation_laplace(
    epsilon: float, *, horizon: int, norm: float = 1.0, logarithm: str = "natural"
) -> Prescription:
    """Laplace noise of every coordinate of every tree node, Theorem 4.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    horizon
        Number of prefix sums that are released, T.
    norm
        The bound on the l1 norm of a contribution, Y_1.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    """
    epsilon = positive(epsilon, "epsilon")
    horizon = integer(horizon, "horizon", low=1)
    norm = positive(norm, "norm")
    scale = norm * tree_depth(horizon, logarithm) / epsilon
    true = horizon.bit_length() * ratio(norm, scale)
    return Prescription(
        scale=scale,
        noise="laplace",
        formula="lambda = Y_1 log T / epsilon",
        where=f"{PAPER}, Theorem 4",
        claimed=(epsilon, 0.0),
        relation="replace",
        zero_out=laplace_curve(true),
        replace=laplace_curve(2.0 * true),
    )


def tree_aggregation_gaussian(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    norm: float = 1.0,
    logarithm: str = "natural",
) -> Prescription:
    """Gaussian noise of every tree node, Theorem 4.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        Number of prefix sums that are released, T.
    norm
        The bound on the l2 norm of a contribution, Y_2.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon = integer(horizon, "horizon", low=1)
    norm = positive(norm, "norm")
    depth = tree_depth(horizon, logarithm)
    sigma = norm * depth * log_depth_over_delta(depth, delta) / epsilon
    mu = math.sqrt(horizon.bit_length()) * ratio(norm, sigma)
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="sigma = Y_2 log T log(log T / delta) / epsilon",
        where=f"{PAPER}, Theorem 4",
        claimed=(epsilon, delta),
        relation="replace",
    )


def _nodes_and_moves(horizon: int, dim: int, norm: float, values: str) -> tuple[int, float, float]:
    """The number of tree nodes that a record enters, and how far it moves each under zero-out and under replace."""
    rounds = math.isqrt(horizon - 1) + 1  # ceil(sqrt T)
    # the last two sums are computed and never played
    nodes = max(rounds - 2, 0).bit_length()
    # n B / zeta with B = L (D + zeta) and zeta = D sqrt(n) / T^(1/4): the diameter cancels
    move = norm * (math.sqrt(dim) * horizon**0.25 + dim)
    signed = choice(values, "values", VALUES) == "signed"
    return nodes, move, 2.0 * move if signed else move


def bandit_laplace(
    epsilon: float,
    *,
    horizon: int,
    dim: int,
    norm: float = 1.0,
    logarithm: str = "natural",
    values: str = "signed",
) -> Prescription:
    """Laplace noise of PRIVATEBANDIT, Lemma 7.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    horizon
        The number of plays T.
    dim
        The dimension n.
    norm
        The Lipschitz constant L of the losses.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    values
        ``"signed"``: losses lie in [-B, B], which is all that the paper assumes; ``"non-negative"``: they lie in
        [0, B]. The difference matters under replacement only.
    """
    epsilon = positive(epsilon, "epsilon")
    horizon, dim = integer(horizon, "horizon", low=1), integer(dim, "dim", low=1)
    norm = positive(norm, "norm")
    scale = math.sqrt(horizon) * dim * norm * tree_depth(horizon, logarithm) / epsilon
    nodes, zero_out, replace = _nodes_and_moves(horizon, dim, norm, values)
    # a unit vector of n coordinates has an l1 norm of up to sqrt(n)
    root = math.sqrt(dim)
    return Prescription(
        scale=scale,
        noise="laplace",
        formula="lambda = T^(1/2) n L log T / epsilon",
        where=f"{PAPER}, Lemma 7",
        claimed=(epsilon, 0.0),
        relation="replace",
        zero_out=laplace_curve(nodes * root * ratio(zero_out, scale) if nodes else 0.0),
        replace=laplace_curve(nodes * root * ratio(replace, scale) if nodes else 0.0),
    )


def bandit_gaussian(
    epsilon: float,
    delta: float,
    *,
    horizon: int,
    dim: int,
    norm: float = 1.0,
    logarithm: str = "natural",
    values: str = "signed",
) -> Prescription:
    """Gaussian noise of PRIVATEBANDIT, Lemma 10.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    horizon
        The number of plays T.
    dim
        The dimension n.
    norm
        The Lipschitz constant L of the losses.
    logarithm
        How the printed "log T" is read: ``"natural"`` or ``"binary"``.
    values
        ``"signed"``: losses lie in [-B, B], which is all that the paper assumes; ``"non-negative"``: they lie in
        [0, B]. The difference matters under replacement only.
    """

    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    horizon, dim = integer(horizon, "horizon", low=1), integer(dim, "dim", low=1)
    norm = positive(norm, "norm")
    tail = math.log((dim + horizon) / delta)
    sigma = (
        horizon**0.25
        * math.sqrt(dim)
        * norm
        * tree_depth(horizon, logarithm)
        * math.log(horizon / delta)
        / epsilon
        * (tail + math.sqrt((1.0 + math.sqrt(horizon) / dim) * tail))
    )
    nodes, zero_out, replace = _nodes_and_moves(horizon, dim, norm, values)
    root = math.sqrt(nodes)
    return Prescription(
        scale=sigma,
        noise="gaussian",
        formula=(
            "sigma = T^(1/4) n^(1/2) L log T log(T/delta) / epsilon "
            "(log((n+T)/delta) + sqrt((1 + T^(1/2)/n) log((n+T)/delta)))"
        ),
        where=f"{PAPER}, Lemma 10",
        claimed=(epsilon, delta),
        relation="replace",
        zero_out=gaussian_curve(root * ratio(zero_out, sigma) if nodes else 0.0),
        replace=gaussian_curve(root * ratio(replace, sigma) if nodes else 0.0),
    )
