"""Private empirical risk minimisation: solvers that see all the data at once.

Each solver takes a loss, a feasible set, records and a budget, and returns a `Fit`. docs/which.md says which one suits
which problem.
"""

from reticent.erm.averaged_iterate import averaged_iterate
from reticent.erm.exponential_mechanism import exponential_mechanism
from reticent.erm.fit import Fit
from reticent.erm.frank_wolfe import frank_wolfe
from reticent.erm.ftrl import ftrl
from reticent.erm.gradient_descent import gradient_descent
from reticent.erm.localisation import localisation
from reticent.erm.objective_perturbation import objective_perturbation
from reticent.erm.output_perturbation import output_perturbation
from reticent.erm.sufficient_statistics import sufficient_statistics

__all__ = [
    "Fit",
    "averaged_iterate",
    "exponential_mechanism",
    "frank_wolfe",
    "ftrl",
    "gradient_descent",
    "localisation",
    "objective_perturbation",
    "output_perturbation",
    "sufficient_statistics",
]
