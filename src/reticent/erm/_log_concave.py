"""Exact draws from a density exp(-k F) on an interval or in the plane, F convex, by rejection.

A box around the set is cut into cells, finer where the density is large. On a cell with center c
and half-widths w a convex F is at least ``F(c) - sum |g_j| w_j``, g a subgradient at c, so the
density is at most exp(-k times that): an envelope that is constant on cells. A cell is drawn with
its exact weight, a point of it uniformly, and the point is accepted with probability density over
envelope (Devroye, *Non-uniform random variate generation*, sections II.3 and VIII). The accepted
real point is then rounded, which is post-processing.

The one thing a reader would get wrong: points are real numbers of which 64 bits are known. Where
these, or the rounding of F, do not settle an acceptance, more bits and interval arithmetic do; so
the law is exactly the stated one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import MPIntervalContext, libmp

from reticent._checks import FloatArray
from reticent.erm._interval_loss import summed
from reticent.erm._problem import Problem, label_range
from reticent.erm._sums import UNIT, UNITS, weighted_rows
from reticent.losses import kernels
from reticent.noise import Source, select
from reticent.sets import Box, L2Ball

_ENOUGH = 2.0
"""Cells are split until the envelope's mass is below this many times a bound on the density's."""
_MOST_CELLS = 20_000
_TRIES = 100_000


@dataclass
class _Cells:
    centers: FloatArray
    depth: np.ndarray
    tops: FloatArray  # log of the envelope: -k F at its largest
    middles: FloatArray  # -k F at the center


class Sampler:
    """Draws points of a set of dimension 1 or 2 with density proportional to ``exp(-k F)``.

    ``F`` is the summed loss plus ``(ridge/2) ||x||^2``.
    """

    def __init__(self, problem: Problem, k: float, ridge: float) -> None:
        self.problem = problem
        self.k = k
        self.ridge = ridge
        self.kind, self.params = problem.loss.kernel  # type: ignore[misc]
        self.low, self.high = bounding_box(problem.set)
        self.dim = len(self.low)
        # Bounds on the box, which holds the set.
        size = float(np.linalg.norm(np.maximum(np.abs(self.low), np.abs(self.high))))
        box = L2Ball(self.dim, size)
        self.slope = problem.loss.data_lipschitz(box)
        slope = self.slope * problem.count + ridge * size
        largest = problem.count * self._largest_loss(size) + ridge * size**2
        # of F at a float point, and of F between that and the real point it stands for
        self.doubt = (UNITS + 32.0) * UNIT * 2.0 * largest
        self.doubt += (problem.dim + 8.0) * UNIT * slope * 4.0 * size
        self.cells = self._cut()
        self.rounds = 0

    def _largest_loss(self, size: float) -> float:
        reach = self.problem.feature_norm * size
        labels = label_range(self.problem.loss)  # type: ignore[arg-type]
        return 1.0 + max(
            abs(kernels.phi(self.kind)(self.params, z, y))
            for z in (-reach, 0.0, reach)
            for y in labels
        )

    def values(self, points: FloatArray) -> FloatArray:
        """F at every point, within ``doubt``."""
        out = np.empty(len(points))
        for i, x in enumerate(points):
            z = self.problem.predictors(x)
            losses = kernels.phi_all(self.kind)(self.params, z, self.problem.y)
            out[i] = math.fsum(losses) + 0.5 * self.ridge * float(x @ x)
        return out

    def _subgradient(self, x: FloatArray) -> FloatArray:
        # not clipped as elsewhere: cells may reach beyond the set, and F must be convex there too
        z = self.problem.predictors(x)
        slopes = kernels.dphi_all(self.kind)(self.params, z, self.problem.y)
        return weighted_rows(self.problem.A, slopes) + self.ridge * x

    def _evaluate(self, centers: FloatArray, depth: np.ndarray) -> _Cells:
        half = 0.5 * (self.high - self.low) * 2.0 ** -depth[:, None].astype(float)
        where = self.problem.set
        inside = np.ones(len(centers), dtype=bool)
        if isinstance(where, L2Ball):
            # cells without a point of the ball are left out
            nearest = np.linalg.norm(np.maximum(np.abs(centers) - half, 0.0), axis=1)
            kept = nearest <= where.radius * (1.0 + 1e-9)
            centers, depth, half = centers[kept], depth[kept], half[kept]
            inside = np.linalg.norm(centers, axis=1) <= where.radius
        values = self.values(centers)
        slopes = np.array([self._subgradient(x) for x in centers]).reshape(centers.shape)
        # the subgradient is rounded too, so a little more than it is taken
        fall = (np.abs(slopes) * half).sum(axis=1) * (1.0 + 2.0**-30)
        fall += 4.0 * self.problem.count * self.slope * UNITS * UNIT * half.sum(axis=1)
        tops = -self.k * (values - fall - 2.0 * self.doubt)
        return _Cells(centers, depth, tops, np.where(inside, -self.k * values, -np.inf))

    def _cut(self) -> _Cells:
        cells = self._evaluate(0.5 * (self.low + self.high)[None], np.zeros(1, np.int64))
        while len(cells.tops) < _MOST_CELLS:
            area = cells.depth * self.dim * math.log(2.0)
            mass = cells.tops - area
            top = mass.max()
            share = np.exp(mass - top)
            envelope = share.sum()
            density = np.exp(cells.middles - area - top).sum()
            if envelope <= _ENOUGH * density and len(share) >= 16**self.dim:
                break
            loose = share * -np.expm1(cells.middles - cells.tops)
            split = loose >= max(0.25 * loose.max(), 1e-3 * envelope / len(share))
            split &= cells.depth < 40
            if not split.any():
                break
            cells = self._split(cells, split)
        return cells

    def _split(self, cells: _Cells, split: np.ndarray) -> _Cells:
        depth = np.repeat(cells.depth[split] + 1, 2**self.dim)
        quarter = 0.25 * (self.high - self.low) * 2.0 ** -cells.depth[split][:, None].astype(float)
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * self.dim)).reshape(self.dim, -1).T
        centers = (cells.centers[split][:, None, :] + corners[None] * quarter[:, None, :]).reshape(
            -1, self.dim
        )
        new = self._evaluate(centers, depth)
        keep = ~split
        return _Cells(*(np.concatenate([getattr(cells, name)[keep], getattr(new, name)])
                        for name in ("centers", "depth", "tops", "middles")))  # fmt: skip

    def draw(self, source: Source) -> FloatArray:
        """One point, rounded to double precision."""
        cells = self.cells
        area = cells.depth * self.dim * math.log(2.0)
        weights = cells.tops - area
        weights = weights + np.abs(weights) * 2.0**-46 + 2.0**-40
        for _ in range(_TRIES):
            self.rounds += 1
            at = select(weights, 1.0, source)
            words = [int(word) for word in source.words(self.dim + 1)]
            point = _Point(self, int(cells.depth[at]), cells.centers[at], words[1:], source)
            inside = point.inside()
            if inside and point.accepted(words[0], float(weights[at])):
                return point.rounded
        raise ArithmeticError(
            f"{_TRIES} proposals were refused, which chance cannot explain; check that the loss is "
            "convex"
        )


class _Point:
    """A uniform real point of a cell, of which ever more bits are drawn as they are needed."""

    def __init__(self, sampler: Sampler, depth: int, center: FloatArray, words: list[int],
                 source: Source) -> None:  # fmt: skip
        self.sampler, self.source = sampler, source
        self.bits, self.words, self.length = depth, words, 64
        # The cell's corner as a multiple of 2^-depth of the box: exact, unlike the center's float.
        span = sampler.high - sampler.low
        self.cell = [
            math.floor((c - low) / width * 2.0**depth)
            for c, low, width in zip(center, sampler.low, span, strict=True)
        ]
        self.rounded = np.array([float(low) for low, _ in self.bounds()])

    def bounds(self) -> list[tuple[Fraction, Fraction]]:
        """Rational bounds on each coordinate."""
        scale = 2 ** (self.bits + self.length)
        out = []
        for low, high, cell, word in zip(
            self.sampler.low, self.sampler.high, self.cell, self.words, strict=True
        ):
            start, width = Fraction(float(low)), Fraction(float(high)) - Fraction(float(low))
            place = (cell << self.length) + word
            out.append((start + width * Fraction(place, scale),
                        start + width * Fraction(place + 1, scale)))  # fmt: skip
        return out

    def extend(self) -> None:
        self.words = [word << 128 | self.source.fine_bits(2) for word in self.words]
        self.length += 128

    def inside(self) -> bool:
        where = self.sampler.problem.set
        if not isinstance(where, L2Ball):
            return True
        radius = float(where.radius)
        norm = float(np.linalg.norm(self.rounded))
        if norm < radius * (1.0 - 1e-12):
            return True
        if norm > radius * (1.0 + 1e-12):
            return False
        square = Fraction(radius) ** 2
        for _ in range(64):
            squares = [sorted((a * a, b * b)) for a, b in self.bounds()]
            if sum(s[1] for s in squares) <= square:
                return True
            if sum(s[0] for s in squares) >= square:
                return False
            self.extend()
        return False

    def accepted(self, word: int, weight: float) -> bool:
        """Whether ``-log U > k F(point) + weight + depth dim log 2`` for a uniform U."""
        sampler = self.sampler
        value = float(sampler.values(self.rounded[None])[0])
        shift = self.bits * sampler.dim
        need = sampler.k * value + weight + shift * math.log(2.0)
        error = sampler.k * sampler.doubt * 2.0
        error += (abs(sampler.k * value) + abs(weight) + shift + 1.0) * 2.0**-46
        low = -math.log((word + 1.0) * 2.0**-64)
        high = -math.log(word * 2.0**-64) if word else math.inf
        if low > need + error:
            return True
        if high < need - error:
            return False
        return self._settle(word, weight, shift)

    def _settle(self, word: int, weight: float, shift: int) -> bool:
        sampler = self.sampler
        problem = sampler.problem
        context, uniform, length = MPIntervalContext(), word, 64
        for _ in range(64):
            uniform = uniform << 128 | self.source.fine_bits(2)
            length += 128
            self.extend()
            context.prec = length + 64
            box = [
                context.mpf([_ratio(context, a).a, _ratio(context, b).b]) for a, b in self.bounds()
            ]
            F = summed(context, sampler.kind, sampler.params, problem.A, problem.y, box)
            F += context.mpf(sampler.ridge) / 2 * sum((x * x for x in box), context.mpf(0))
            log = -context.log(context.mpf([uniform, uniform + 1]) / context.mpf(2) ** length)
            gap = log - context.mpf(sampler.k) * F - context.mpf(weight) - shift * context.log(2)
            room = context.mpf(2) ** (40 - context.prec) * (1 + abs(gap) + abs(F))
            low, high = (gap + context.mpf([-1, 1]) * room)._mpi_
            if libmp.mpf_gt(low, libmp.fzero):
                return True
            if libmp.mpf_lt(high, libmp.fzero):
                return False
        raise ArithmeticError(
            "thousands of random bits did not settle a draw; the loss is not finite"
        )


def _ratio(context: Any, value: Fraction) -> Any:
    return context.mpf(value.numerator) / context.mpf(value.denominator)


def bounding_box(where: Any) -> tuple[FloatArray, FloatArray]:
    """The corners of a box around a set, or of the set itself if it is one."""
    if isinstance(where, L2Ball):
        return np.full(where.dim, -where.radius), np.full(where.dim, where.radius)
    assert isinstance(where, Box)
    return np.array(where.lower, dtype=float), np.array(where.upper, dtype=float)
