"""Where randomness comes from: the generator, the exact lattice samplers, noisy selection."""

from tacit.noise.selection import Selection, exponential_mechanism, report_noisy_max, select
from tacit.noise.source import Source

__all__ = ["Selection", "Source", "exponential_mechanism", "report_noisy_max", "select"]
