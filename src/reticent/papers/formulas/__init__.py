"""The five papers' own noise, exactly as printed, and the epsilon that it really gives.

There is one function per published formula, and one file per paper; docs/errata.md compares claims with the true
guarantees.
"""

from reticent.papers.formulas.bandit import (
    bandit_gaussian,
    bandit_laplace,
    tree_aggregation_gaussian,
    tree_aggregation_laplace,
)
from reticent.papers.formulas.chapter import (
    exponential_mechanism,
    frank_wolfe_laplace,
    ftrl,
    gradient_descent,
    objective_perturbation_gamma,
    objective_perturbation_gaussian,
    stochastic_gradient_descent,
)
from reticent.papers.formulas.online import (
    averaged_iterate,
    horizon_free,
    perturbed_iterates,
    private_sum,
    quadratic_leader,
)
from reticent.papers.formulas.vertical import vertical_index, vertical_sketch
from reticent.papers.formulas.window import window_tree_gamma, window_tree_gaussian

__all__ = [
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
