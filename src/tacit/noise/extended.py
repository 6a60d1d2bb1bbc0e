"""A second look at doubtful draws in extended precision, so that few of them need interval arithmetic.

Where the platform's ``long double`` is no wider than a double nothing is settled here and all goes on to
``tacit.noise.exact``; the numbers drawn are the same either way, since each is the rounding of one real number.

The one thing a reader would get wrong: these functions only ever say "settled" with a bound to back it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_wide = np.longdouble
# 32 units in the last place where a mantissa of 64 bits promises one or two; infinite where there is none such
_UNIT = float(np.finfo(_wide).eps) * 32 if np.finfo(_wide).eps < 2.0**-60 else float("inf")
_PI = 4 * np.arctan(_wide(1))


def _normals(words: Words):  # type: ignore[no-untyped-def]
    """Pairs of normals from pairs of words (last axis), with a bound on each pair's error."""
    first = words[..., 0].astype(_wide) + _wide(0.5)
    length = np.sqrt(-2 * np.log(first * _wide(2.0**-64)))
    angle = words[..., 1].astype(np.int64).astype(_wide) * (_PI * _wide(2.0**-63))
    with np.errstate(divide="ignore"):
        error = length * _UNIT + (_UNIT + 1 / first) / length
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1), error


def _settle(value, error):  # type: ignore[no-untyped-def]
    nearest = np.rint(value)
    return nearest.astype(np.int64), np.abs(value - nearest) + error < 0.5


def gaussian_pairs(words: Words, scales: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """Rounded pairs of Gaussians and which of the pairs are settled; words and scales have shape (n, 2)."""
    normals, error = _normals(words)
    rounded, settled = _settle(normals * scales, error[:, None] * scales)
    return rounded, settled.all(axis=1)


def gamma_vector(normal_words: Words, radius_words: Words, dim: int, scale: float) -> NDArray | None:
    """One rounded spherical Gamma vector, or None where its rounding is not settled."""
    normals, error = _normals(normal_words.reshape(-1, 2))
    normals, worst = normals.reshape(-1)[:dim], error.max()
    norm = np.sqrt((normals * normals).sum())
    uniforms = radius_words.astype(_wide) + _wide(0.5)
    sizes = -np.log(uniforms * _wide(2.0**-64))
    length = sizes.sum()
    length_error = (_UNIT * (1 + sizes) + 1 / uniforms).sum()
    factor = scale * length / norm
    relative = (dim + 16) * _UNIT + worst * np.sqrt(dim) / norm + length_error / length
    value = factor * normals
    rounded, settled = _settle(value, np.abs(value) * relative + factor * worst)
    return rounded if settled.all() else None
