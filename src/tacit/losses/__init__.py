"""What decisions cost: value, gradient, constants, and the best fixed decision in hindsight."""

from tacit.losses.base import ClipCounts, Loss
from tacit.losses.checking import CheckReport, check
from tacit.losses.comparator import cumulative, regret, regret_curve
from tacit.losses.custom import CustomLoss
from tacit.losses.generalized_linear import GeneralizedLinear
from tacit.losses.glm import (
    CappedLogistic,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothHinge,
    Squared,
)
from tacit.losses.hindsight import BestFixed, GapWarning, best_fixed
from tacit.losses.linear import Linear
from tacit.losses.quadratic import Quadratic

__all__ = [
    "BestFixed",
    "CappedLogistic",
    "CheckReport",
    "ClipCounts",
    "CustomLoss",
    "GapWarning",
    "GeneralizedLinear",
    "Hinge",
    "Huber",
    "Linear",
    "Logistic",
    "Loss",
    "Poisson",
    "Quadratic",
    "Quantile",
    "SmoothHinge",
    "Squared",
    "best_fixed",
    "check",
    "cumulative",
    "regret",
    "regret_curve",
]
