"""The real numbers that samplers round, evaluated in plain mpmath from numerators over a power of two."""

from __future__ import annotations

import mpmath
from mpmath import mp, mpf

ONES = 2**64 - 1
EXTREMES = [0, 1, 2, 3, 2**10, 2**53, 2**62, 2**63, 2**63 + 1, 3 * 2**62, ONES - 2**11, ONES - 1025,
            ONES - 1024, ONES - 1023, ONES - 600, ONES - 2, ONES - 1, ONES]  # fmt: skip


def gaussians(first, second, bits, scales):
    length = mpmath.sqrt(-2 * mpmath.log(mpf(first) / mpf(2) ** bits))
    turn = 2 * mp.pi * mpf(second) / mpf(2) ** bits
    return [scales[0] * length * mpmath.cos(turn), scales[1] * length * mpmath.sin(turn)]


def one_laplace(word, bits, sign, scale):
    return -sign * scale * mpmath.log(mpf(word) / mpf(2) ** bits)


def gammas(direction, radius, bits, dim, scale):
    normals = []
    for first, second in zip(direction[::2], direction[1::2], strict=True):
        normals += gaussians(first, second, bits, (1, 1))
    normals = normals[:dim]
    norm = mpmath.sqrt(mpmath.fsum(value**2 for value in normals))
    length = -mpmath.fsum(mpmath.log(mpf(word) / mpf(2) ** bits) for word in radius)
    return [scale * length * value / norm for value in normals]


def middle(leading, pieces):
    """Twice the whole number of all these bits, plus 1: the middle of where the uniform lies."""
    for piece in pieces:
        leading = (leading << 128) + piece
    return 2 * leading + 1


def nearest(value):
    return int(mpmath.nint(value))
