"""Where randomness comes from: the generator, the exact lattice samplers, noisy selection."""

from tacit.noise.source import Source

__all__ = ["Source"]
