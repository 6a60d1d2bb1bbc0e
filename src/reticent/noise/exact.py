"""Decide by interval arithmetic the rare draws that double precision cannot settle.

A sampler of ``reticent.noise.lattice`` turns uniform words into a real number and rounds it to the lattice. Its
kernel bounds its own rounding error. If the real number is closer to a rounding boundary than that, the draw comes
here, gets as many further random bits as it needs, and is rounded as the exact real number would be. In the same way
``reticent.noise.selection`` sends here the few candidates that are too close to each other.

The first 64 bits of each uniform are kept and never drawn again; otherwise draws near boundaries would be biased.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from mpmath import MPIntervalContext, libmp

from reticent.noise.source import Source

_FIRST = 2  # further words for each uniform in an attempt; a second attempt is almost never needed
_ATTEMPTS = 64  # each fails with probability about 2^-128, so after these the input must be wrong

# mpmath caches pi and log 2 in a way that is not thread-safe when the precision grows, so compute enough digits now.
libmp.libelefun.pi_fixed(4096)
libmp.libelefun.ln2_fixed(4096)


class _Intervals(threading.local):
    """An interval context for each thread, because mpmath's ``iv`` and its precision are global."""

    def __init__(self) -> None:
        self.context = MPIntervalContext()


_intervals = _Intervals()


class Uniform:
    """A uniform number in [0, 1) with known leading bits, whose further bits are drawn on demand."""

    def __init__(self, leading: int, bits: int) -> None:
        self.value, self.bits = leading, bits

    def extend(self, source: Source, words: int) -> None:
        self.value = self.value << 64 * words | source.fine_bits(words)
        self.bits += 64 * words

    def interval(self) -> Any:
        iv = _intervals.context
        return iv.mpf([self.value, self.value + 1]) / iv.mpf(2) ** self.bits


def _refine(source: Source, uniforms: Sequence[Uniform]) -> Iterator[None]:
    """Draw ever more bits for the uniforms that are in the sequence at the time, and raise the precision to match."""
    for _ in range(_ATTEMPTS):
        for uniform in uniforms:
            uniform.extend(source, _FIRST)
        _intervals.context.prec = max(uniform.bits for uniform in uniforms) + 64
        yield
    raise ArithmeticError(
        f"{uniforms[0].bits} random bits did not settle a draw, which cannot happen by chance; "
        "check that every scale and score is finite"
    )


def _widen(value: Any) -> tuple[Any, Any]:
    """The ends of an interval, moved out slightly.

    The accuracy of mpmath's functions is not proved to the last bits.
    """
    iv = _intervals.context
    room = iv.mpf(2) ** (24 - iv.prec)
    return (value + (abs(value) + 1) * iv.mpf([-1, 1]) * room)._mpi_


def _finite(end: Any) -> bool:
    return end not in (libmp.finf, libmp.fninf, libmp.fnan)


def decide(source: Source, uniforms: list[Uniform], evaluate: Callable[[], list[Any]]) -> list[int]:
    """Round the real numbers that ``evaluate`` encloses, refining the uniforms until every rounding is certain."""
    for _ in _refine(source, uniforms):
        rounded = [_round(value) for value in evaluate()]
        if None not in rounded:
            break
    return rounded  # type: ignore[return-value]


def _round(value: Any) -> int | None:
    """The nearest whole number to every point of an interval, or None if it is not the same for all."""
    low, high = _widen(value)
    if not (_finite(low) and _finite(high)):
        return None
    nearest = int(libmp.to_int(low, libmp.round_nearest))
    return nearest if nearest == libmp.to_int(high, libmp.round_nearest) else None


def gaussian_pair(source: Source, first: int, second: int, scales: Sequence[float]) -> list[int]:
    """Two Gaussians of the given scales in lattice steps, from two words, by the Box-Muller transform."""
    iv = _intervals.context
    radius, angle = Uniform(first, 64), Uniform(second, 64)

    def evaluate() -> list[Any]:
        length = iv.sqrt(-2 * iv.log(radius.interval()))
        turn = 2 * iv.pi * angle.interval()
        return [
            iv.mpf(scales[0]) * length * iv.cos(turn),
            iv.mpf(scales[1]) * length * iv.sin(turn),
        ]

    return decide(source, [radius, angle], evaluate)


def laplace(source: Source, word: int, scale: float) -> int:
    """A Laplace number of the given scale in lattice steps; the lowest bit of the word is the sign."""
    iv = _intervals.context
    uniform = Uniform(word >> 1, 63)
    sign = -1 if word & 1 else 1
    return decide(source, [uniform], lambda: [-sign * iv.mpf(scale) * iv.log(uniform.interval())])[
        0
    ]


def gamma_vector(
    source: Source, normal_words: list[int], radius_words: list[int], dim: int, scale: float
) -> list[int]:
    """A vector with density proportional to exp(-|x|/scale), from words for its direction and its radius."""
    iv = _intervals.context
    direction = [Uniform(word, 64) for word in normal_words]
    radius = [Uniform(word, 64) for word in radius_words]

    def evaluate() -> list[Any]:
        normals = []
        for first, second in zip(direction[::2], direction[1::2], strict=True):
            length = iv.sqrt(-2 * iv.log(first.interval()))
            turn = 2 * iv.pi * second.interval()
            normals += [length * iv.cos(turn), length * iv.sin(turn)]
        normals = normals[:dim]
        norm = iv.sqrt(sum((value**2 for value in normals), iv.mpf(0)))
        length = -sum((iv.log(uniform.interval()) for uniform in radius), iv.mpf(0))
        return [iv.mpf(scale) * length * value / norm for value in normals]

    return decide(source, direction + radius, evaluate)


def largest(source: Source, noise: str, words: Sequence[int], shifts: Sequence[Fraction]) -> int:
    """Position of the largest of ``shifts[i]`` + standard noise from ``words[i]``, as real numbers.

    The noise is ``"gumbel"``, ``"laplace"`` or ``"exponential"``; ``reticent.noise.selection`` says how it is
    computed from a word.
    """
    iv = _intervals.context
    two_sided = noise == "laplace"
    uniforms = [Uniform(word >> 1, 63) if two_sided else Uniform(word, 64) for word in words]

    def value(i: int) -> Any:
        uniform = uniforms[i].interval()
        if noise == "gumbel":
            drawn = -iv.log(-iv.log(1 - uniform))
        else:
            drawn = iv.log(uniform) * (1 if two_sided and words[i] & 1 else -1)
        return iv.mpf(shifts[i].numerator) / iv.mpf(shifts[i].denominator) + drawn

    left = list(range(len(words)))
    alive = list(uniforms)
    for _ in _refine(source, alive):
        ends = [_widen(value(i)) for i in left]
        best = ends[0][0]
        for low, _high in ends:
            if libmp.mpf_gt(low, best):
                best = low
        left = [i for i, (_, high) in zip(left, ends, strict=True) if not libmp.mpf_lt(high, best)]
        alive[:] = [uniforms[i] for i in left]
        if len(left) == 1:
            break
    return left[0]
