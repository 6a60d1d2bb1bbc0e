"""Arrays in, figures out; knows nothing of learners."""

from tacit.plots.errors import error_over_time
from tacit.plots.over_time import over_time
from tacit.plots.sparsity import sparsity_path
from tacit.plots.style import COLOURS, axes
from tacit.plots.tradeoff import trade_off
from tacit.plots.utility import privacy_utility

__all__ = [
    "COLOURS",
    "axes",
    "error_over_time",
    "over_time",
    "privacy_utility",
    "sparsity_path",
    "trade_off",
]
