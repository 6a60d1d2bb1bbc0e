"""Settle doubtful draws in extended precision, so that few of them need interval arithmetic.

If the platform's ``long double`` is no wider than a double, or its functions are no more accurate, nothing is settled
here and all draws go on to ``reticent.noise.exact``. A draw is settled here only with a proved error bound, so the
result is the same as it would be there, whatever the further bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_wide = np.longdouble


def _is_wide() -> bool:
    """Whether the functions used here are accurate to about 60 bits.

    Some libraries call those for doubles instead.
    """
    if not np.finfo(_wide).eps <= 2.0**-63:
        return False
    # the leading and the following 53 bits of log(3), cos(1), sin(1) and pi, computed with 200 bits
    found = (np.log(_wide(3)), np.cos(_wide(1)), np.sin(_wide(1)), 4 * np.arctan(_wide(1)))
    known = (
        (1.0986122886681098, -9.07129723500153e-17),
        (0.5403023058681398, -4.760954612604417e-17),
        (0.8414709848078965, 1.776845092935536e-18),
        (3.141592653589793, 1.2246467991473532e-16),
    )
    return all(
        abs((value - _wide(high)) - _wide(low)) <= abs(high) * 2.0**-61
        for value, (high, low) in zip(found, known, strict=True)
    )


# 32 units in the last place of a 64-bit mantissa, whose functions are good to one or two. It is no smaller for a longer
# mantissa, because a word leaves its angle uncertain by 2 pi / 2^64. Infinite if there is no such type.
IS_WIDE = _is_wide()
_UNIT = 2.0**-58 if IS_WIDE else float("inf")
_PI = 4 * np.arctan(_wide(1))


def _normals(words: Words):
    """Pairs of normals from pairs of words (last axis), with an error bound for each pair."""
    first = words[..., 0].astype(_wide)
    length = np.sqrt(2 * np.abs(np.log((first + _wide(0.5)) * _wide(2.0**-64))))
    angle = words[..., 1].astype(np.int64).astype(_wide) * (_PI * _wide(2.0**-63))
    # infinite for a word of only zeros or only ones, whose logarithm is unbounded or whose radius is 0
    with np.errstate(divide="ignore", invalid="ignore"):
        error = length * _UNIT + (_UNIT + 1 / first) / length
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1), error


def _settle(value, error):
    with np.errstate(invalid="ignore"):
        nearest = np.rint(value)
        return nearest.astype(np.int64), np.abs(value - nearest) + error < 0.5


def gaussian_pairs(words: Words, scales: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """Rounded pairs of Gaussians, and which of the pairs are settled; words and scales have shape (n, 2)."""
    normals, error = _normals(words)
    rounded, settled = _settle(normals * scales, error[:, None] * scales)
    return rounded, settled.all(axis=1)


def laplace(words: Words, scales: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """Rounded Laplace numbers, and which of them are settled."""
    word = (words >> np.uint64(1)).astype(_wide)
    size = np.abs(np.log((word + _wide(0.5)) * _wide(2.0**-63)))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = scales * (_UNIT * (1 + size) + 1 / word)
    rounded, settled = _settle(size * scales, error)
    return np.where(words & np.uint64(1), -rounded, rounded), settled


def gamma_vector(
    normal_words: Words, radius_words: Words, dim: int, scale: float
) -> NDArray | None:
    """A rounded spherical Gamma vector, or None if its rounding is not settled."""
    normals, error = _normals(normal_words.reshape(-1, 2))
    normals, worst = normals.reshape(-1)[:dim], error.max()
    norm = np.sqrt((normals * normals).sum())
    radii = radius_words.astype(_wide)
    sizes = np.abs(np.log((radii + _wide(0.5)) * _wide(2.0**-64)))
    length = sizes.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        length_error = (_UNIT * (1 + sizes) + 1 / radii).sum()
        factor = scale * length / norm
        # a sum of dim terms, in any order, is accurate to dim half units in the last place; there are two sums, one of
        # them under a root
        relative = (dim + 256) * (_UNIT / 16) + worst * np.sqrt(dim) / norm + length_error / length
        value = factor * normals
        error = np.abs(value) * relative + factor * worst
    rounded, settled = _settle(value, error)
    return rounded if relative < 0.125 and settled.all() else None
