"""Random generation, exact noise on a lattice, clipping of contributions, and noisy selection."""

from reticent.noise.selection import Selection, exponential_mechanism, report_noisy_max, select
from reticent.noise.source import Source

__all__ = ["Selection", "Source", "exponential_mechanism", "report_noisy_max", "select"]
