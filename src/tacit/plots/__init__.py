"""Arrays in, figures out; knows nothing of learners."""

from tacit.plots.errors import error_over_time
from tacit.plots.style import COLOURS, axes

__all__ = ["COLOURS", "axes", "error_over_time"]
