"""Losses: values, gradients and constants, and the best fixed decision in hindsight."""

from reticent.losses.base import ClipCounts, Loss
from reticent.losses.checking import LossCheckReport, check
from reticent.losses.custom import CustomLoss
from reticent.losses.glm import (
    CappedLogistic,
    GeneralizedLinear,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothHinge,
    Squared,
)
from reticent.losses.hindsight import (
    BestFixed,
    GapWarning,
    best_fixed,
    cumulative,
    regret,
    regret_curve,
)
from reticent.losses.linear import Costs, Linear
from reticent.losses.quadratic import Quadratic

__all__ = [
    "BestFixed",
    "CappedLogistic",
    "ClipCounts",
    "Costs",
    "CustomLoss",
    "GapWarning",
    "GeneralizedLinear",
    "Hinge",
    "Huber",
    "Linear",
    "Logistic",
    "Loss",
    "LossCheckReport",
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
