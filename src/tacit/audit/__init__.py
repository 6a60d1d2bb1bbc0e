"""Attacks on our own claims, and the same tools for yours: many runs, one run, last bits, second roads."""

from tacit.audit import statistics
from tacit.audit.attack import mechanism
from tacit.audit.canaries import expected_bound, one_run
from tacit.audit.digits import grid, last_bit, numbers
from tacit.audit.finding import Finding
from tacit.audit.recompute import Agreement, Recomputed, guarantee
from tacit.audit.registry import Pair, names, register, unregister, worst_case
from tacit.audit.statistics import Classifier, Fisher, GaussianRatio, Labels, SphericalRatio
from tacit.audit.summary import Line, Report, run_all

__all__ = [
    "Agreement",
    "Classifier",
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
    "grid",
    "guarantee",
    "last_bit",
    "mechanism",
    "names",
    "numbers",
    "one_run",
    "register",
    "run_all",
    "statistics",
    "unregister",
    "worst_case",
]
