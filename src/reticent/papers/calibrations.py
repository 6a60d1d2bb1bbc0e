"""``calibration="published"``: which formula of which paper scales the noise of which mechanism.

Each function takes the budget and the mechanism's public numbers, refuses what its paper does not cover, and returns
the paper's noise. It is registered here and looked up by :func:`reticent.privacy.prescribed.prescribe`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.papers import formulas
from reticent.privacy import Budget
from reticent.privacy.prescribed import Prescription, gaussian_curve, register

NAME = "published"

published: Callable[[str], Callable[[Callable[..., Any]], Callable[..., Any]]] = functools.partial(
    register, NAME
)


def _need(holds: bool, what: str, needs: str) -> None:
    if not holds:
        raise ValueError(f"calibration={NAME!r} is {what}; it needs {needs}")


# Running totals ------------------------------------------------------------------------------------


@published("tree")
def tree(budget: Budget, *, noise: str, horizon: int | None, norm: float, dim: int) -> Prescription:
    """[online] Algorithm 5 for Gaussian noise, [bandit] Algorithm 2 for Laplace noise."""
    if noise == "gamma" or horizon is None:
        raise ValueError(
            f"there is no published formula for a tree with noise={noise!r} and horizon={horizon}; "
            "use noise='gaussian' or 'laplace' and a horizon"
        )
    if noise == "laplace":
        reach = norm * math.sqrt(dim)
        return formulas.tree_aggregation_laplace(budget.epsilon, horizon=horizon, norm=reach)
    return formulas.private_sum(budget.epsilon, budget.delta, horizon=horizon, norm=norm)


@published("window-tree")
def window_tree(
    budget: Budget,
    *,
    noise: str,
    window: int,
    norm: float,
    strong_convexity: float = 0.0,
    diameter: float = 0.0,
) -> Prescription:
    """[window] Theorems 1 and 2; with the printed sensitivity L + mu D if a learner gives mu and D."""
    if noise == "laplace":
        raise ValueError(
            "there is no published window tree with noise='laplace'; use 'gaussian' or 'gamma'"
        )
    facts = {
        "window": window,
        "norm": norm,
        "strong_convexity": strong_convexity,
        "diameter": diameter,
    }
    if noise == "gaussian":
        return formulas.window_tree_gaussian(budget.epsilon, budget.delta, **facts)  # type: ignore[arg-type]
    return formulas.window_tree_gamma(budget.epsilon, **facts)  # type: ignore[arg-type]


# Online learners -----------------------------------------------------------------------------------


@published("ftrl")
def ftrl(budget: Budget, *, noise: str, horizon: int | None, norm: float, dim: int) -> Prescription:
    """[chapter] Theorem 6.13."""
    _need(
        horizon is not None and budget.delta > 0.0 and noise == "gaussian",
        "the tree of Theorem 6.13 with Gaussian noise",
        "a horizon and a budget with delta > 0",
    )
    return formulas.ftrl(budget.epsilon, budget.delta, horizon=horizon, norm=norm)  # type: ignore[arg-type]


@published("quadratic-leader")
def quadratic_leader(
    budget: Budget, *, horizon: int | None, largest: float, **total: Any
) -> Prescription:
    """[online] section 5.1: a standard deviation for each of the two trees."""
    _need(
        horizon is not None and horizon > 1 and budget.delta > 0.0,
        "the paper's pair of trees with Gaussian noise",
        "a horizon of 2 or more and a budget with delta > 0",
    )
    return formulas.quadratic_leader(
        budget.epsilon,
        budget.delta,
        horizon=horizon,  # type: ignore[arg-type]
        norm=largest,
    )


@published("perturbed-iterates")
def perturbed_iterates(
    budget: Budget,
    *,
    horizon: int,
    norm: float,
    strong_convexity: float,
    radius: float,
    inner: str,
) -> Prescription:
    """[online] Algorithms 2 and 3 for a third of epsilon and half of delta, since they claim (3 epsilon, 2 delta)."""
    return formulas.perturbed_iterates(
        budget.epsilon / 3.0,
        budget.delta / 2.0,
        horizon=max(horizon, 2),
        norm=norm,
        strong_convexity=strong_convexity,
        radius=radius,
        inner=inner,
    )


@published("local-linear-step")
def local_linear_step(
    budget: Budget, *, horizon: int | None, dim: int, failure: float, rho: float, curvature: float,
    lipschitz: float, diameter: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Anchor, share and radius of [window], Algorithm 2.

    The printed versions contain errors: the direction has the wrong sign and unit, and under the root of the radius a
    length is added to its square. Here the direction is the gradient and the radius is the sum of the two lengths; the
    constants are the paper's.
    """
    square = rho**2
    share = 1.0 / (5.0 * square)
    steep = lipschitz + curvature * diameter
    noise = 2.0 * share / (1.0 - share) * _noise_constant(budget, horizon, dim, failure)
    # r_t = 2 (C_1 + L + mu D) / (mu (t + C_0))
    radius = 2.0 * steep * (26.0 * square * (1.0 + noise) + 1.0)
    return curvature * (25.0 * square) ** 2, share, radius


def _noise_constant(budget: Budget, horizon: int | None, dim: int, failure: float) -> float:
    """The factor by which [window], Algorithm 2, step 2, multiplies 2 alpha / (1 - alpha)."""
    window = budget.window if budget.window is not None else horizon
    if window is None:
        raise ValueError("the published constants need a window in the budget, or a horizon")
    depth = math.log2(window) ** 1.5
    if budget.delta == 0.0:
        return dim * depth * math.log(dim / failure) / budget.epsilon
    return math.sqrt(dim) * depth * math.log(1.0 / failure) / budget.epsilon


# Bandits -------------------------------------------------------------------------------------------


@published("bandit")
def bandit(
    budget: Budget, *, noise: str, dim: int, plays: int, lipschitz: float, **total: Any
) -> Prescription:
    """[bandit] Lemma 7 (Laplace) and Lemma 10 (Gaussian)."""
    if noise == "gamma":
        raise ValueError(
            "there is no published formula for gamma noise; use noise='gaussian' or 'laplace'"
        )
    if noise == "laplace":
        return formulas.bandit_laplace(budget.epsilon, horizon=plays, dim=dim, norm=lipschitz)
    return formulas.bandit_gaussian(
        budget.epsilon, budget.delta, horizon=plays, dim=dim, norm=lipschitz
    )


@published("bandit-constants")
def bandit_constants(
    *, plays: int, dim: int, diameter: float, lipschitz: float
) -> tuple[float, float]:
    """Smoothing radius and step of [bandit], Algorithm 1, line 1."""
    return (
        diameter * math.sqrt(dim) / plays**0.25,
        diameter / (plays**0.75 * math.sqrt(dim) * lipschitz),
    )


# Offline solvers -----------------------------------------------------------------------------------


@published("gradient-descent")
def gradient_descent(budget: Budget, *, steps: int, norm: float, sampled: bool) -> Prescription:
    """[chapter] Algorithm 3."""
    _need(
        budget.delta > 0.0 and not sampled,
        "the Gaussian noise on all records of Algorithm 3",
        "delta > 0 and sampling=None",
    )
    return formulas.gradient_descent(budget.epsilon, budget.delta, steps=steps, norm=norm)


@published("objective-perturbation")
def objective_perturbation(
    budget: Budget, *, norm: float, smoothness: float, regulariser: float | None
) -> Prescription:
    """[chapter] Theorems 6.7 and 6.9."""
    facts = {"norm": norm, "smoothness": smoothness, "regulariser": regulariser}
    if budget.delta == 0.0:
        return formulas.objective_perturbation_gamma(budget.epsilon, **facts)  # type: ignore[arg-type]
    return formulas.objective_perturbation_gaussian(budget.epsilon, budget.delta, **facts)  # type: ignore[arg-type]


@published("frank-wolfe")
def frank_wolfe(
    budget: Budget, *, steps: int, count: int, norm: float, radius: float, corners: bool
) -> Prescription:
    """[chapter] Algorithm 6."""
    _need(
        budget.delta > 0.0 and corners,
        "the Laplace noise of Algorithm 6 over an l1 ball or a simplex",
        "delta > 0 and such a set",
    )
    return formulas.frank_wolfe_laplace(
        budget.epsilon, budget.delta, steps=steps + 1, n=count, norm=norm, radius=radius
    )


@published("exponential-mechanism")
def exponential_mechanism(budget: Budget, *, norm: float, diameter: float) -> Prescription:
    """[chapter] Algorithm 1: the printed exponent."""
    return formulas.exponential_mechanism(budget.epsilon, norm=norm, diameter=diameter)


@published("averaged-iterate")
def averaged_iterate(
    budget: Budget, *, count: int, norm: float, strong_convexity: float, radius: float, average: str
) -> Prescription:
    """[online] Algorithm 6, POL."""
    _need(
        average == "uniform" and budget.delta > 0.0,
        "POL's Gaussian noise on the uniform average",
        "average='uniform' and delta > 0",
    )
    return formulas.averaged_iterate(
        budget.epsilon,
        budget.delta,
        horizon=count + 1,
        norm=norm,
        strong_convexity=strong_convexity,
        radius=radius,
    )


@published("adassp")
def adassp(budget: Budget, *, feature_norm: float, label_bound: float) -> Prescription:
    """AdaSSP (Wang 2018), Algorithm 2: (epsilon/3, delta/3) for each of its eigenvalue, A'A and A'y."""
    unit = math.sqrt(math.log(6.0 / budget.delta)) / (budget.epsilon / 3.0)
    parts: FloatArray = np.array([feature_norm**2, feature_norm**2, feature_norm * label_bound])
    return Prescription(
        scale=unit * parts,
        noise="gaussian",
        formula="sigma = sqrt(ln(6/delta)) / (epsilon/3), times |X|^2, |X|^2 and |X||Y|",
        where="AdaSSP",
        claimed=(budget.epsilon, budget.delta),
        relation="zero-out",
        zero_out=gaussian_curve(math.sqrt(3.0) / unit),
        # a replaced record moves the eigenvalue by one unit, A'A by the root of two, A'y by two
        replace=gaussian_curve(math.sqrt(1.0 + 2.0 + 4.0) / unit),
    )


# Columns with different owners ---------------------------------------------------------------------


@published("vertical")
def vertical(
    budget: Budget,
    *,
    parties: int,
    rounds: int,
    rows: int,
    radius: float,
    clip: float,
    singular_value: float,
) -> tuple[float, float]:
    """Scale of the Laplace noise of an index, and of the Gaussian noise of a sketch of a unit column.

    The 1/n is where the paper's formula for the sketch puts it.
    """
    facts: dict[str, Any] = {"parties": parties, "steps": rounds, "n": rows}
    index = formulas.vertical_index(budget.epsilon, budget.delta, radius=radius, norm=clip, **facts)
    feature = formulas.vertical_sketch(
        budget.epsilon,
        budget.delta,
        singular_value=singular_value,
        column_norm=1.0,
        message="averaged",
        **facts,
    )
    return rows * float(index.scale), rows * float(feature.scale)
