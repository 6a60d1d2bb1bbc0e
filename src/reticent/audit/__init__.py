"""Attacks on this library's own claims, and the same tools for yours: exact losses, many runs, one run, low-order
bits."""

from reticent.audit import statistics
from reticent.audit.attack import mechanism
from reticent.audit.bets import sequential
from reticent.audit.canaries import expected_bound, few_runs, one_run
from reticent.audit.digits import grid, last_bit, numbers
from reticent.audit.everything import Line, Report, run_all
from reticent.audit.finding import Finding
from reticent.audit.recompute import Agreement, Recomputed, guarantee
from reticent.audit.registry import Pair, names, register, unregister, worst_case
from reticent.audit.statistics import Classifier, Fisher, GaussianRatio, Labels, SphericalRatio
from reticent.audit.whitebox import Exact, white_box
from reticent.audit.whitebox_cases import names as white_box_names

__all__ = [
    "Agreement",
    "Classifier",
    "Exact",
    "Finding",
    "Fisher",
    "GaussianRatio",
    "Labels",
    "Line",
    "Pair",
    "Recomputed",
    "Report",
    "SphericalRatio",
    "expected_bound",
    "few_runs",
    "grid",
    "guarantee",
    "last_bit",
    "mechanism",
    "names",
    "numbers",
    "one_run",
    "register",
    "run_all",
    "sequential",
    "statistics",
    "unregister",
    "white_box",
    "white_box_names",
    "worst_case",
]
