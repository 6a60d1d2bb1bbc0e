"""The five papers' own noise, exactly as printed, and the epsilon that it really gives.

One function per published formula, one file per paper; ``calibration="published"`` draws its scale
from here, and docs/errata.md tabulates claims against truth.

The one thing a reader would get wrong: these formulas are for reproducing published results. Some
of them protect far less than they claim; ask :meth:`Published.claim_is_proved` before use, or use
``calibration="exact"``.
"""

from reticent.privacy.published.bandit import (
    bandit_gaussian,
    bandit_laplace,
    tree_aggregation_gaussian,
    tree_aggregation_laplace,
)
from reticent.privacy.published.chapter import (
    exponential_mechanism,
    frank_wolfe_laplace,
    ftrl,
    gradient_descent,
    objective_perturbation_gamma,
    objective_perturbation_gaussian,
    stochastic_gradient_descent,
)
from reticent.privacy.published.online import (
    averaged_iterate,
    horizon_free,
    perturbed_iterates,
    private_sum,
    quadratic_leader,
)
from reticent.privacy.published.record import Published
from reticent.privacy.published.vertical import vertical_index, vertical_sketch
from reticent.privacy.published.window import window_tree_gamma, window_tree_gaussian

__all__ = [
    "Published",
    "averaged_iterate",
    "bandit_gaussian",
    "bandit_laplace",
    "exponential_mechanism",
    "frank_wolfe_laplace",
    "ftrl",
    "gradient_descent",
    "horizon_free",
    "objective_perturbation_gamma",
    "objective_perturbation_gaussian",
    "perturbed_iterates",
    "private_sum",
    "quadratic_leader",
    "stochastic_gradient_descent",
    "tree_aggregation_gaussian",
    "tree_aggregation_laplace",
    "vertical_index",
    "vertical_sketch",
    "window_tree_gamma",
    "window_tree_gaussian",
]
