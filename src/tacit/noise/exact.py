"""The rare draws that double precision cannot round for certain, decided by interval arithmetic.

A sampler of ``tacit.noise.lattice`` turns uniform words into a real number and rounds it to the lattice. Its kernel
knows a bound on its own rounding error; where the real number lies closer to a rounding boundary than that, the
draw comes here, gets as many further random bits as it needs, and is rounded as the exact real number would be.

The one thing a reader would get wrong: the first 64 bits of each uniform are kept, never drawn again, else
the draws near boundaries would be biased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpmath import iv, mp

from tacit.noise.source import Source

_FIRST = 2  # further words for each uniform in the first attempt; a second attempt is next to never needed


class Uniform:
    """A uniform number in [0, 1) whose leading bits are given and whose further bits are drawn when asked for."""

    def __init__(self, leading: int, bits: int) -> None:
        self.value, self.bits = leading, bits

    def extend(self, source: Source, words: int) -> None:
        self.value = self.value << 64 * words | source.fine_bits(words)
        self.bits += 64 * words

    def interval(self):  # type: ignore[no-untyped-def]
        return iv.mpf([self.value, self.value + 1]) / iv.mpf(2) ** self.bits


def decide(source: Source, uniforms: list[Uniform], evaluate: Callable[[], list]) -> list[int]:  # type: ignore[type-arg]
    """Round the real numbers that ``evaluate`` encloses, refining the uniforms until all roundings are certain."""
    precision = iv.prec
    try:
        words = _FIRST
        while True:
            for uniform in uniforms:
                uniform.extend(source, words)
            iv.prec = max(uniform.bits for uniform in uniforms) + 64
            rounded = [_round(value) for value in evaluate()]
            if all(value is not None for value in rounded):
                return rounded  # type: ignore[return-value]
            words = 2
    finally:
        iv.prec = precision


def _round(value) -> int | None:  # type: ignore[no-untyped-def]
    """Nearest whole number to every point of an interval, or None if they disagree."""
    with mp.workprec(iv.prec):
        guess = int(mp.nint(mp.mpf(value.mid.a)))
    half = iv.mpf(0.5)
    return guess if value > guess - half and value < guess + half else None


def gaussian_pair(source: Source, first: int, second: int, scales: Sequence[float]) -> list[int]:
    """Two Gaussians of the given scales in lattice steps, from two words, by the Box-Muller transform."""
    radius, angle = Uniform(first, 64), Uniform(second, 64)

    def evaluate() -> list:  # type: ignore[type-arg]
        length = iv.sqrt(-2 * iv.log(radius.interval()))
        turn = 2 * iv.pi * angle.interval()
        return [
            iv.mpf(scales[0]) * length * iv.cos(turn),
            iv.mpf(scales[1]) * length * iv.sin(turn),
        ]

    return decide(source, [radius, angle], evaluate)


def laplace(source: Source, word: int, scale: float) -> int:
    """One Laplace number of the given scale in lattice steps; the lowest bit of the word is the sign."""
    uniform = Uniform(word >> 1, 63)
    sign = -1 if word & 1 else 1
    return decide(source, [uniform], lambda: [-sign * iv.mpf(scale) * iv.log(uniform.interval())])[0]


def gamma_vector(
    source: Source, normal_words: list[int], radius_words: list[int], dim: int, scale: float
) -> list[int]:
    """A vector with density proportional to exp(-|x|/scale), from words for its direction and its radius."""
    direction = [Uniform(word, 64) for word in normal_words]
    radius = [Uniform(word, 64) for word in radius_words]

    def evaluate() -> list:  # type: ignore[type-arg]
        normals = []
        for first, second in zip(direction[::2], direction[1::2], strict=True):
            length = iv.sqrt(-2 * iv.log(first.interval()))
            turn = 2 * iv.pi * second.interval()
            normals += [length * iv.cos(turn), length * iv.sin(turn)]
        normals = normals[:dim]
        norm = iv.sqrt(sum((value * value for value in normals), iv.mpf(0)))
        length = -sum((iv.log(uniform.interval()) for uniform in radius), iv.mpf(0))
        return [iv.mpf(scale) * length * value / norm for value in normals]

    return decide(source, direction + radius, evaluate)
