"""Solvers that see all the data."""

from tacit.erm.averaged_iterate import averaged_iterate
from tacit.erm.exponential_mechanism import exponential_mechanism
from tacit.erm.fit import Fit
from tacit.erm.frank_wolfe import frank_wolfe
from tacit.erm.ftrl import ftrl
from tacit.erm.gradient_descent import gradient_descent
from tacit.erm.localisation import localisation
from tacit.erm.objective_perturbation import objective_perturbation
from tacit.erm.output_perturbation import output_perturbation
from tacit.erm.sufficient_statistics import sufficient_statistics

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
