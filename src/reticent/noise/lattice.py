"""Exact sampling of noise on a lattice: Gaussian, Laplace and spherical Gamma numbers rounded to whole steps.

A total that is kept in whole lattice steps, plus noise rounded to whole steps, equals the rounding of (total + real
noise), because rounding commutes with adding a whole number. So the release is post-processing of the real-valued
mechanism and inherits its guarantee exactly, the whole trade-off curve included; the discrete Gaussian of Canonne,
Kamath and Steinke inherits only the concentrated bound. Since only whole numbers are released, the low-order bits of
floating-point numbers reveal nothing (Mironov 2012). See docs/lattice.md.

Each kernel turns uniform words into double-precision numbers whose error it bounds, rounds them, and lists the draws
whose rounding the bound does not settle. The bound has room for some 16 units in the last place beyond the error that
a mathematical library states or that the kernel's own series have. ``reticent.noise.extended`` and
``reticent.noise.exact`` settle the listed draws, so the result is always the rounding of the exact real number. They
settle the first draws of a process without the kernels, because these take a second to compile.

A word is the leading 64 bits of a real uniform, not a number on a grid.

Considered: OpenDP's exact samplers (10-50 us per draw; the tests use them as an oracle).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reticent.compiling import compiled
from reticent.noise import exact, extended
from reticent.noise.source import Source

IntArray = NDArray[np.int64]

# Lattice steps per standard deviation: fine enough that rounding has no measurable cost, coarse enough that
# double precision settles all but about 1e-5 of the draws.
STEPS = 2.0**30
GAMMA_STEPS = 2.0**26  # a vector's error grows with its dimension

# How long draws are settled without kernels. A normal number counts as 2.5 us and takes less than one; a vector of the
# Gamma distribution takes several times as long as it counts, because it is settled by a loop in Python.
_PATIENCE = 0.5 if extended.IS_WIDE else 0.0
_GAMMA_PATIENCE = 0.05 if extended.IS_WIDE else 0.0

_WORD = 2.0**-64
_ANGLE = math.pi * 2.0**-63
# Number of pairs of Gaussians that are computed at a time, in loops that the compiler can vectorise.
_PAIRS = 256

# Bit patterns of doubles: 1, about the root of 1/2, the mantissa, and the place and bias of the exponent.
_ONE, _ROOT = np.uint64(0x3FF0000000000000), np.uint64(0x3FE6A09E00000000)
_DIGITS, _EXPONENT, _BIAS = np.uint64(2**52 - 1), np.uint64(52), np.int64(1023)

# Words as angles: an eighth of a turn, and the place of the first two bits, which give the quarter.
_EIGHTH, _QUARTER = np.uint64(2**61), np.uint64(62)
_BIT_0, _BIT_1 = np.uint64(1), np.uint64(2)

_LOG_2 = math.log(2.0)
# The Taylor series of cosine (even) and sine (odd).
_T = tuple((-1) ** (k // 2) / math.factorial(k) for k in range(18))


def step(scale: float, steps: float = STEPS) -> float:
    """The lattice step for noise of a given scale: a power of two, so that multiplying by it is exact."""
    return 2.0 ** math.floor(math.log2(scale / steps))


@compiled(error_model="numpy")
def _lengths(words, pairs, uniforms, out):
    """sqrt(-2 log u) for pairs of Gaussians, where u comes from the first word of each pair.

    u = m 2^e with m within a factor of sqrt 2 of 1; log m = 2 artanh((m - 1) / (m + 1)), by its Taylor series.
    """
    bits = uniforms.view(np.uint64)
    for i in range(pairs):
        uniforms[i] = (float(words[2 * i]) + 0.5) * _WORD
    for i in range(pairs):
        above = bits[i] + (_ONE - _ROOT)
        out[i] = float(np.int64(above >> _EXPONENT) - _BIAS)
        bits[i] = (above & _DIGITS) + _ROOT
    for i in range(pairs):
        f = uniforms[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        rest = 1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21)))
        rest = z * (
            1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * rest)))))
        )
        out[i] = math.sqrt(2.0 * abs(out[i] * _LOG_2 + 2.0 * (s + s * rest)))


@compiled(error_model="numpy")
def _turns(words, pairs, cosines, sines):
    """Cosine and sine of the angle given by the second word of each pair.

    The nearest multiple of a quarter turn is subtracted in whole numbers; the rest is at most an eighth, for which the
    Taylor series is accurate to 2^-58.
    """
    for i in range(pairs):
        word = words[2 * i + 1]
        quarter = (word + _EIGHTH) >> _QUARTER
        t = float(np.int64(word - (quarter << _QUARTER))) * _ANGLE
        z = t * t
        sine = t + t * (z * (_T[3] + z * (_T[5] + z * (_T[7] + z * (_T[9] + z * (
            _T[11] + z * (_T[13] + z * (_T[15] + z * _T[17]))))))))  # fmt: skip
        cosine = 1.0 + z * (_T[2] + z * (_T[4] + z * (_T[6] + z * (_T[8] + z * (
            _T[10] + z * (_T[12] + z * (_T[14] + z * _T[16])))))))  # fmt: skip
        odd = (quarter & _BIT_0) != 0
        x, y = (sine, cosine) if odd else (cosine, sine)
        cosines[i] = -x if ((quarter + _BIT_0) & _BIT_1) != 0 else x
        sines[i] = -y if (quarter & _BIT_1) != 0 else y


def _none_settled(words, scales, out, doubtful):
    """In place of a kernel: list all draws, pairs of draws, or rows."""
    doubtful[:] = np.arange(doubtful.size)
    return doubtful.size


# error_model="numpy": if the logarithm of a uniform is unbounded (a word of zeros), or it is rounded to 1 so that the
# radius is 0 (a word of ones), the error bound must become infinite, so that the draw is settled elsewhere, not raise.
@compiled(error_model="numpy", patience=_PATIENCE, meanwhile=_none_settled)
def _gaussian_kernel(words, scales, out, doubtful):
    rows, dim = out.shape
    flat = out.reshape(-1)
    size = flat.size
    work = np.empty((7, _PAIRS))
    uniforms, lengths, short = work[0], work[1], work[2]
    xs, ys, x_scales, y_scales = work[3], work[4], work[5], work[6]
    count = 0
    row = 0
    column = 0
    for start in range(0, size, 2 * _PAIRS):
        pairs = min(_PAIRS, (size - start + 1) // 2)
        mine = words[start : start + 2 * pairs]
        _lengths(mine, pairs, uniforms, lengths)
        _turns(mine, pairs, xs, ys)
        for i in range(pairs):
            x_scales[i] = scales[row]
            column += 1
            if column == dim:
                column = 0
                row += 1
            y_scales[i] = scales[min(row, rows - 1)]
            column += 1
            if column == dim:
                column = 0
                row += 1
        for i in range(pairs):
            length = lengths[i]
            x = length * xs[i] * x_scales[i]
            y = length * ys[i] * y_scales[i]
            xs[i] = np.rint(x)
            ys[i] = np.rint(y)
            # errors: of the angle and the products relative to the length, of the uniform relative to 1 / length
            error = max(x_scales[i], y_scales[i]) * (
                length * 2.0**-48 + (2.0**-50 + 1.0 / float(mine[2 * i])) / length
            )
            short[i] = max(abs(x - xs[i]), abs(y - ys[i])) + error
        whole = min(pairs, (size - start) // 2)
        for i in range(whole):
            flat[start + 2 * i] = np.int64(xs[i])
            flat[start + 2 * i + 1] = np.int64(ys[i])
        if whole < pairs:
            flat[size - 1] = np.int64(xs[whole])
        for i in range(pairs):
            if not short[i] < 0.5:
                doubtful[count] = start // 2 + i
                count += 1
    return count


def gaussian(source: Source, scales: NDArray[np.float64], out: IntArray) -> None:
    """Fill rows with rounded Gaussians; row i has a standard deviation of ``scales[i]`` lattice steps."""
    size = out.size
    words = source.words(size + size % 2)
    doubtful = np.empty(words.size // 2, np.int64)
    count = _gaussian_kernel(words, scales, out, doubtful)
    if count:
        flat, dim = out.reshape(-1), out.shape[1]
        pairs = words.reshape(-1, 2)[doubtful[:count]]
        at = 2 * doubtful[:count]
        last = len(scales) - 1  # for an odd size, the second number of the last pair is discarded
        pair_scales = scales[np.minimum([at // dim, (at + 1) // dim], last)].T
        rounded, settled = extended.gaussian_pairs(pairs, pair_scales)
        for k, i in enumerate(at.tolist()):
            if not settled[k]:
                first, second = pairs[k].tolist()
                rounded[k] = exact.gaussian_pair(source, first, second, pair_scales[k].tolist())
            flat[i : i + 2] = rounded[k, : size - i]


@compiled(error_model="numpy", patience=_PATIENCE, meanwhile=_none_settled)
def _laplace_kernel(words, scales, out, doubtful):
    rows, dim = out.shape
    count = 0
    for row in range(rows):
        scale = scales[row]
        for column in range(dim):
            i = row * dim + column
            word = float(words[i] >> np.uint64(1))
            size = abs(math.log((word + 0.5) * 2.0**-63))
            x = size * scale
            nearest = np.rint(x)
            out[row, column] = -np.int64(nearest) if words[i] & np.uint64(1) else np.int64(nearest)
            error = scale * (2.0**-50 + 1.0 / word + size * 2.0**-47)
            if not abs(x - nearest) + error < 0.5:
                doubtful[count] = i
                count += 1
    return count


def laplace(source: Source, scales: NDArray[np.float64], out: IntArray) -> None:
    """Fill rows with rounded Laplace numbers; row i has a scale of ``scales[i]`` lattice steps."""
    words = source.words(out.size)
    doubtful = np.empty(out.size, np.int64)
    count = _laplace_kernel(words, scales, out, doubtful)
    if count:
        at = doubtful[:count]
        rows, columns = np.divmod(at, out.shape[1])
        rounded, settled = extended.laplace(words[at], scales[rows])
        for k in np.flatnonzero(~settled).tolist():
            rounded[k] = exact.laplace(source, int(words[at[k]]), float(scales[rows[k]]))
        out[rows, columns] = rounded


@compiled(error_model="numpy", patience=_GAMMA_PATIENCE, meanwhile=_none_settled)
def _gamma_kernel(words, scales, out, doubtful):
    rows, dim = out.shape
    pairs = (dim + 1) // 2
    width = 2 * pairs + dim
    normals = np.empty(2 * pairs)
    count = 0
    for row in range(rows):
        start = row * width
        square = 0.0
        normal_error = 0.0
        for i in range(pairs):
            word = float(words[start + 2 * i])
            length = math.sqrt(2.0 * abs(math.log((word + 0.5) * _WORD)))
            angle = float(np.int64(words[start + 2 * i + 1])) * _ANGLE
            normals[2 * i] = length * math.cos(angle)
            normals[2 * i + 1] = length * math.sin(angle)
            error = length * 2.0**-48 + (2.0**-50 + 1.0 / word) / length
            # one doubtful pair (a radius or a word close to 0) makes the whole row doubtful
            normal_error = max(normal_error, error)
        for i in range(dim):
            square += normals[i] * normals[i]
        norm = math.sqrt(square)
        length = 0.0
        length_error = 0.0
        for i in range(dim):
            word = float(words[start + 2 * pairs + i])
            size = abs(math.log((word + 0.5) * _WORD))
            length += size
            length_error += 2.0**-50 + 1.0 / word + size * 2.0**-47
        factor = scales[row] * length / norm
        # relative error of the factor: sums of dim terms, the norm's own terms, the radius's
        relative = (
            (dim + 16) * 2.0**-51 + normal_error * math.sqrt(dim) / norm + length_error / length
        )
        # each part has a third to spare, which covers products of errors if these are small
        settled = relative < 0.125
        for i in range(dim):
            x = factor * normals[i]
            nearest = np.rint(x)
            out[row, i] = np.int64(nearest)
            if not abs(x - nearest) + abs(x) * relative + factor * normal_error < 0.5:
                settled = False
        if not settled:
            doubtful[count] = row
            count += 1
    return count


def gamma(source: Source, scales: NDArray[np.float64], out: IntArray) -> None:
    """Fill each row with a rounded vector of density proportional to exp(-|x|/scale).

    The scale is in lattice steps.
    """
    rows, dim = out.shape
    pairs = (dim + 1) // 2
    width = 2 * pairs + dim
    words = source.words(rows * width)
    doubtful = np.empty(rows, np.int64)
    count = _gamma_kernel(words, scales, out, doubtful)
    for row in doubtful[:count].tolist():
        mine = words[row * width : (row + 1) * width]
        direction, radius, scale = mine[: 2 * pairs], mine[2 * pairs :], float(scales[row])
        rounded = extended.gamma_vector(direction, radius, dim, scale)
        if rounded is not None:
            out[row] = rounded
        else:
            out[row] = exact.gamma_vector(source, direction.tolist(), radius.tolist(), dim, scale)
