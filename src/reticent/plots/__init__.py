"""Figures from arrays and other plain results; nothing here depends on learners or solvers."""

from reticent.plots.errors import error_over_time
from reticent.plots.forest import forest
from reticent.plots.guarantee import by_age, guarantee_curve, odds
from reticent.plots.over_time import over_time
from reticent.plots.sparsity import sparsity_path
from reticent.plots.spending import spending
from reticent.plots.style import COLOURS, axes
from reticent.plots.tradeoff import trade_off
from reticent.plots.utility import privacy_utility

__all__ = [
    "COLOURS",
    "axes",
    "by_age",
    "error_over_time",
    "forest",
    "guarantee_curve",
    "odds",
    "over_time",
    "privacy_utility",
    "sparsity_path",
    "spending",
    "trade_off",
]
