"""Exact draws from a density exp(-k F) on a box or a ball of few dimensions, F convex, by rejection sampling.

A parallelepiped around the set is divided into cells, finer where the density is large. On a cell with center c and
half-edges e_j, a convex F is at least ``F(c) - sum |<g, e_j>|`` for a subgradient g at c, so the density is at most
exp(-k times that), an envelope that is constant on cells. A cell is drawn with its exact weight and a point of it
uniformly; the point is accepted with probability density / envelope (Devroye, *Non-uniform random variate generation*,
sections II.3 and VIII). The result is the accepted real point, rounded to the nearest double in every coordinate.

docs/algorithms/exponential-mechanism.md proves two things. Cells are split until the envelope is certified to have at
most ``ENOUGH`` times the density's mass, so at most that many proposals are expected, whatever the records. And points
are real numbers of which 64 bits are known at first; further bits are drawn until they decide whether the point lies in
the set, whether it is accepted, and to which double it rounds. Neither the distribution nor the grid of possible
outputs therefore depends on the cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from mpmath import MPIntervalContext, libmp

from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised
from reticent.erm.interval_loss import summed
from reticent.erm.problem import OfflineProblem, label_range
from reticent.erm.rounded_sums import UNIT, UNITS, add_one
from reticent.losses import kernels
from reticent.noise import Source, select
from reticent.sets import Box, L2Ball

ENOUGH = 8.0
"""Cells are split until the envelope's mass is below this multiple of a lower bound on the density's mass."""
RESOLVED = 2.0**-10
"""The exponent is at most this divided by the rounding error of F, so that rounding hardly changes the density."""
_BLOCK = 128
_SMALLEST = 2.0**-900
"""Smallest width of a set; far below it, products of doubles lose bits to underflow."""
_GROWTH = 8.0
"""Factor by which the exponent grows between stages of cutting."""
_MOST_CELLS = 16
"""Times 2^dim: if a stage adds more cells, the parallelepiped is rotated to fit the density."""
_ROOM = 2.0**-46
"""Allowance for the rounding of positions, relative to the largest coordinates."""
_LENGTH_COUNTS = 2.0**-3
"""Weight of a cell's length along an axis relative to the increase of k F along it."""


def bounding_box(where: Any) -> tuple[FloatArray, FloatArray]:
    """Two corners of a box around a set, or of the set itself if it is a box."""
    if isinstance(where, L2Ball):
        return np.full(where.dim, -where.radius), np.full(where.dim, where.radius)
    assert isinstance(where, Box)
    return np.array(where.lower, dtype=float), np.array(where.upper, dtype=float)


def _size(low: FloatArray, high: FloatArray) -> float:
    """A bound on the norm of every point of every parallelepiped that is divided."""
    return math.hypot(*(np.abs(0.5 * low + 0.5 * high) + 0.51 * len(low) * (high - low)))


def largest_exponent(problem: OfflineProblem, ridge: float) -> float:
    """The largest k for which double precision resolves exp(-k F); a function of public numbers.


    Raises
    ------
    ValueError
        If the losses overflow on the set, or if the set is so small that they underflow.
    """
    low, high = bounding_box(problem.set)
    if not (high - low).min() >= _SMALLEST:
        raise ValueError(
            f"sampler='exact' needs a set at least {_SMALLEST:.3g} wide in every direction, got "
            f"{problem.set!r}: losses underflow there; rescale the records"
        )
    doubt = rounding(problem, ridge)
    if not doubt <= 1e290:
        raise ValueError(
            f"sampler='exact' cannot sum {problem.loss!r} over {problem.count} records on {problem.set!r}, "
            "because the sum overflows; rescale the records or use a smaller set"
        )
    return RESOLVED / doubt


def rounding(problem: OfflineProblem, ridge: float) -> float:
    """An upper bound on the rounding error of F; a function of public numbers.

    It includes the rounding of the point itself and of the subgradients for the envelope.
    """
    low, high = bounding_box(problem.set)
    size, dim = _size(low, high), len(low)
    if not math.isfinite(size):
        return math.inf
    kind, params = problem.linear.kernel
    reach = problem.feature_norm * size
    offsets = (0.0,) if kind == kernels.LINEAR else label_range(problem.linear)
    largest = 1.0 + max(
        abs(kernels.phi(kind)(params, z, y)) for z in (-reach, 0.0, reach) for y in offsets
    )
    slope = problem.loss.data_lipschitz(L2Ball(dim, size)) * problem.count + ridge * size
    summed_losses = problem.count * largest + ridge * size * size
    return UNIT * (2.0 * (UNITS + 32.0) * summed_losses + 4.0 * UNITS * dim * slope * size)


@specialised
def _sums(kind):
    """Compile ``(A, y, points, params, with_slopes)``: the summed loss and a subgradient of it at every point.

    Sums over blocks of records are added by Neumaier's compensated summation, so the bound of
    ``reticent.erm.rounded_sums`` holds.
    """

    @compiled
    def sums_at(A, y, points, params, with_slopes):
        count, dim = points.shape
        sums = np.zeros((count, dim + 1))
        part, lost = np.empty(dim + 1), np.empty(dim + 1)
        for p in range(count):
            total = sums[p]
            lost[:] = 0.0
            for start in range(0, A.shape[0], _BLOCK):
                part[:] = 0.0
                for i in range(start, min(A.shape[0], start + _BLOCK)):
                    z = 0.0
                    for j in range(dim):
                        z += A[i, j] * points[p, j]
                    part[0] += kernels.phi(kind)(params, z, y[i])
                    if with_slopes:
                        slope = kernels.dphi(kind)(params, z, y[i])
                        for j in range(dim):
                            part[j + 1] += slope * A[i, j]
                for j in range(dim + 1):
                    add_one(total, lost, j, part[j])
            total += lost
        return sums[:, 0], sums[:, 1:]

    return sums_at


class _Frame:
    """The parallelepiped ``origin + axes u``, u in the unit cube, that contains the set.

    Origin and axes are doubles and treated as exact real numbers. ``spread`` is the estimated extent of the density
    along each axis, relative to the axis. ``fits``: the parallelepiped is the set itself, except for the last bits of
    its edges.
    """

    def __init__(
        self, origin: FloatArray, axes: FloatArray, spread: FloatArray, fits: bool = False
    ) -> None:
        self.origin, self.axes, self.spread, self.fits = origin, axes, spread, fits
        self.exact, self.power = _over_one_power([*origin.tolist(), *axes.ravel().tolist()])

    @classmethod
    def around(cls, low: FloatArray, high: FloatArray, fits: bool) -> _Frame:
        return cls(low, np.diag(np.nextafter(high - low, np.inf)), np.ones(len(low)), fits)

    def turned(self, low: FloatArray, high: FloatArray, cells: _Cells, k: float) -> _Frame:
        """The parallelepiped along the principal axes of the cells' masses, in coordinates where the box is a cube."""
        span, dim = high - low, len(low)
        mass = cells.mass(k)
        mass = np.exp(mass - mass.max())
        mass /= mass.sum()
        centers = cells.centers
        away = centers - mass @ centers
        within = (0.25 * cells.widths**2 / 3.0 * mass[:, None]).sum(axis=0)
        covariance = (away * mass[:, None]).T @ away + np.diag(within)
        deviations = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(deviations, deviations)
        factor = np.linalg.cholesky(correlation + 2.0**-40 * np.eye(dim))
        # by singular values, which resolve far more elongated shapes than eigenvalues of the squared matrix
        directions, lengths, _ = np.linalg.svd(
            (self.axes / span[:, None]) @ (deviations[:, None] * factor)
        )
        corners = np.array(np.meshgrid(*[[0.0, 1.0]] * dim)).reshape(dim, -1)
        places = np.linalg.solve(directions, corners)
        room = 1e-9
        starts, edges = places.min(axis=1) - room, np.ptp(places, axis=1) + 2.0 * room
        return _Frame(
            low + span * (directions @ starts), span[:, None] * directions * edges, lengths / edges
        )

    def points(self, places: FloatArray) -> FloatArray:
        """Decisions for points of the unit cube, in double precision."""
        return self.origin + places @ self.axes.T


@dataclass
class _Cells:
    """Cells of the unit cube, at ``index 2^-depth`` and ``2^-depth`` wide, with bounds on F."""

    index: np.ndarray
    depth: np.ndarray
    # per corner: bit j of a corner's number is set if it is at the upper end of axis j
    values: FloatArray  # F
    slopes: FloatArray  # of F, along the whole axes
    inside: np.ndarray  # whether the corner certainly lies in the set
    floors: FloatArray  # lower bounds of F on the cells

    @property
    def widths(self) -> FloatArray:
        return np.ldexp(1.0, -self.depth)

    @property
    def centers(self) -> FloatArray:
        return (self.index + 0.5) * self.widths

    def mass(self, k: float) -> FloatArray:
        """Log of the envelope's mass, in units of the parallelepiped."""
        return np.asarray(-k * self.floors - self.depth.sum(axis=1) * math.log(2.0))

    def filled(self, k: float) -> FloatArray:
        """A lower bound on the ratio of the density's mass to the envelope's.

        A convex F is at most the multilinear interpolation of its values at the corners, whose mean is the mean of
        these values; by Jensen's inequality the mean density is at least exp(-k times that mean).
        """
        share = np.exp(np.minimum(k * (self.floors - self.values.mean(axis=1)), 0.0))
        return np.where(self.inside.all(axis=1), share, 0.0)

    def where(self, chosen: np.ndarray) -> _Cells:
        return _Cells(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def joined(self, others: list[_Cells]) -> _Cells:
        return _Cells(
            *(
                np.concatenate([getattr(part, field.name) for part in (self, *others)])
                for field in fields(self)
            )
        )


class Sampler:
    """Draw points of a box or a ball with density proportional to ``exp(-k F)``.

    ``F`` is the summed loss plus ``(ridge/2) ||x||^2``, and ``k`` is at most ``largest_exponent``. In three dimensions
    there are some thousands of cells; in more dimensions there are too many.
    """

    def __init__(self, problem: OfflineProblem, k: float, ridge: float) -> None:
        most = largest_exponent(problem, ridge)
        if not 0.0 < k <= most:
            raise ValueError(f"k must lie in (0, {most:.6g}], got {k!r}; see largest_exponent")
        self.problem = problem
        self.k = k
        self.ridge = ridge
        self.kind, self.params = problem.linear.kernel
        self.A = problem.A.toarray() if sp.issparse(problem.A) else problem.A
        # A constant offset of the loss is a constant factor of the density.
        self.y = np.zeros(problem.count) if self.kind == kernels.LINEAR else problem.y
        self.low, self.high = bounding_box(problem.set)
        self.dim = len(self.low)
        self.doubt = rounding(problem, ridge)
        self.is_box = self.dim == 1 or isinstance(problem.set, Box)
        self._room = _ROOM * _size(self.low, self.high)
        # which corner of a cell is at the upper end of which axis
        self._upper = np.arange(2**self.dim)[:, None] >> np.arange(self.dim) & 1
        self.frame = _Frame.around(self.low, self.high, fits=self.is_box)
        self.cells = self._cut()
        mass = self.cells.mass(k)
        self.weights = mass + np.abs(mass) * 2.0**-46 + 2.0**-40
        self.rounds = 0

    def values(self, points: FloatArray) -> FloatArray:
        """F at every point, with an error of at most ``doubt``."""
        found, _ = _sums(self.kind)(self.A, self.y, points, self.params, False)
        return np.asarray(found + (0.5 * self.ridge * points * points).sum(axis=1))

    def _tangents(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F and its derivative along each axis, at every point."""
        # slopes are not clipped here: cells may extend beyond the set, where F is convex too
        found, slopes = _sums(self.kind)(self.A, self.y, points, self.params, True)
        found = found + (0.5 * self.ridge * points * points).sum(axis=1)
        return found, (slopes + self.ridge * points) @ self.frame.axes

    # Dividing the parallelepiped into cells.

    def _cut(self) -> _Cells:
        """Cells that certify the envelope, for exponents that increase up to k.

        If the parallelepiped has to be rotated, the density for a smaller exponent is known by then.
        """
        cells, k, before, most = self._root(), self.k, 0.0, math.inf
        # Below this width neither the positions nor the density can be resolved.
        if self.dim > 1 and (self.high - self.low).min() > 1024.0 * self._room:
            k = min(k, _GROWTH / float(cells.values.max() - cells.floors.min()))
        while True:
            found = self._certified(cells, k, most)
            if found is None:
                self.frame = self.frame.turned(self.low, self.high, cells, before)
                found = self._certified(self._root(), k, math.inf)
            assert found is not None
            cells = found
            if k == self.k:
                return cells
            most = len(cells.floors) + (_MOST_CELLS << self.dim)
            k, before = min(_GROWTH * k, self.k), k

    def _certified(self, cells: _Cells, k: float, most: float) -> _Cells | None:
        """The cells, split until they certify the envelope; None if there would be too many."""
        while len(cells.floors) <= most:
            mass = cells.mass(k)
            share = np.exp(mass - mass.max())
            filled = share * cells.filled(k)
            if share.sum() <= ENOUGH * filled.sum():
                return cells
            loose = share - filled
            cells = self._split(cells, k, loose >= 0.25 * loose.max())
        return None

    def _root(self) -> _Cells:
        index = np.zeros((1, self.dim), np.int64)
        found = self._at(self._upper.astype(float))
        return self._evaluate(index, index, *(part[None] for part in found))

    def _at(self, places: FloatArray) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """The tangents at points of the unit cube, and whether these certainly lie in the set."""
        points = self.frame.points(places)
        if self.frame.fits:
            inside = np.ones(len(points), dtype=bool)
        elif self.is_box:
            low, high = self.low + self._room, self.high - self._room
            inside = np.all((points >= low) & (points <= high), axis=1)
        else:
            inside = self._norms(points) <= self.problem.set.radius - self._room
        return *self._tangents(points), inside

    def _norms(self, points: FloatArray) -> FloatArray:
        radius = self.problem.set.radius  # scaled, so that squares neither overflow nor underflow
        return np.asarray(np.linalg.norm(points / radius, axis=1) * radius)

    def _evaluate(
        self,
        index: np.ndarray,
        depth: np.ndarray,
        values: FloatArray,
        slopes: FloatArray,
        inside: np.ndarray,
    ) -> _Cells:
        """These cells with their envelope, without the cells that contain no point of the set."""
        half = np.ldexp(0.5, -depth)
        points = self.frame.points((2 * index + 1) * half)
        kept = self._meets(points, half)
        index, depth, half, points = index[kept], depth[kept], half[kept], points[kept]
        values, slopes, inside = values[kept], slopes[kept], inside[kept]
        # All tangents as affine functions around the center. Their mean is a lower bound of F too, and the
        # best one if F has a kink within the cell.
        own, steep = self._tangents(points)
        heights = values - (slopes * half[:, None, :] * (2 * self._upper - 1)).sum(axis=2)
        heights = np.column_stack([own, heights, heights.mean(axis=1)])
        steep = np.concatenate([steep[:, None], slopes, slopes.mean(axis=1)[:, None]], axis=1)
        least = heights - (np.abs(steep) * half[:, None, :]).sum(axis=2)
        return _Cells(index, depth, values, slopes, inside, least.max(axis=1) - 2.0 * self.doubt)

    def _meets(self, points: FloatArray, half: FloatArray) -> np.ndarray:
        """Whether the cells around these centers may contain a point of the set; False is certain."""
        if self.is_box:
            reach = half @ np.abs(self.frame.axes).T + self._room
            return np.all((points + reach >= self.low) & (points - reach <= self.high), axis=1)
        norms = self._norms(points)
        directions = points / np.where(norms > 0.0, norms, 1.0)[:, None]
        reach = (np.abs(directions @ self.frame.axes) * half).sum(axis=1)
        return np.asarray(norms - reach <= self.problem.set.radius + self._room)

    def _split(self, cells: _Cells, k: float, chosen: np.ndarray) -> _Cells:
        split = cells.where(chosen)
        axes = self._longest(split, k)
        parts = [cells.where(~chosen)]
        for axis in range(self.dim):
            parts += self._halves(split.where(axes == axis), axis)
        return parts[0].joined(parts[1:])

    def _longest(self, cells: _Cells, k: float) -> np.ndarray:
        """The axis along which to split: where the density changes most, then the border, then the longest.

        The last two are weighted by the length of the edge relative to the density's extent, so that an axis along
        which nothing changes is eventually split too.
        """
        edges = cells.widths / self.frame.spread
        edges /= edges.max(axis=1, keepdims=True)
        steep = k * np.abs(cells.slopes).max(axis=1) * cells.widths
        scores = np.empty(edges.shape)
        for j in range(self.dim):
            lower, upper = self._ends(j)
            border = (cells.inside[:, upper] != cells.inside[:, lower]).mean(axis=1)
            scores[:, j] = steep[:, j] + (border + _LENGTH_COUNTS) * edges[:, j]
        return scores.argmax(axis=1)

    def _ends(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """The corners at the lower end of an axis, and those opposite to them."""
        lower = np.flatnonzero(self._upper[:, axis] == 0)
        return lower, lower | 1 << axis

    def _halves(self, cells: _Cells, axis: int) -> list[_Cells]:
        count = len(cells.floors)
        if count == 0:
            return []
        lower, upper = self._ends(axis)
        offsets = self._upper[lower].astype(float)
        offsets[:, axis] = 0.5
        places = (cells.index[:, None, :] + offsets) * cells.widths[:, None, :]
        middle = [
            part.reshape(count, len(lower), *part.shape[1:])
            for part in self._at(places.reshape(-1, self.dim))
        ]
        depth = cells.depth.copy()
        depth[:, axis] += 1
        out = []
        for half, cut in enumerate((upper, lower)):
            index = cells.index.copy()
            index[:, axis] = 2 * index[:, axis] + half
            corners = [part.copy() for part in (cells.values, cells.slopes, cells.inside)]
            for part, new in zip(corners, middle, strict=True):
                part[:, cut] = new
            out.append(self._evaluate(index, depth, *corners))
        return out

    # Drawing.

    def draw(self, source: Source) -> FloatArray:
        """One point, rounded to the nearest doubles."""
        while True:
            self.rounds += 1
            at = select(self.weights, 1.0, source)
            words = [int(word) for word in source.words(self.dim + 1)]
            point = _Point(self, self.cells.index[at], self.cells.depth[at], words[1:], source)
            if point.inside() and point.accepted(words[0], float(self.weights[at])):
                return point.rounded()


class _Point:
    """A uniform real point of a cell, whose bits are drawn as they are needed.

    All numbers are integers over a common power of two, as every double and every dyadic position in the cell is.
    """

    def __init__(
        self,
        sampler: Sampler,
        index: np.ndarray,
        depth: np.ndarray,
        words: list[int],
        source: Source,
    ) -> None:
        self.sampler, self.source = sampler, source
        self.index, self.depth = index.tolist(), depth.tolist()
        self.words, self.length = words, 64

    def extend(self) -> None:
        self.words = [word << 128 | self.source.fine_bits(2) for word in self.words]
        self.length += 128

    def bounds(self) -> tuple[list[tuple[int, int]], int]:
        """Lower and upper bounds of each coordinate, over a power of two."""
        frame, dim = self.sampler.frame, self.sampler.dim
        deepest = max(self.depth)
        edges = [1 << deepest - depth for depth in self.depth]
        places = [
            ((index << self.length) + word) * edge
            for index, word, edge in zip(self.index, self.words, edges, strict=True)
        ]
        out = []
        for i in range(dim):
            low = high = frame.exact[i] << deepest + self.length
            for j in range(dim):
                axis = frame.exact[dim + dim * i + j]
                low += axis * places[j] + min(0, axis) * edges[j]
                high += axis * places[j] + max(0, axis) * edges[j]
            out.append((low, high))
        return out, frame.power + deepest + self.length

    def rounded(self) -> FloatArray:
        """The nearest double of every coordinate, once it is determined."""
        while True:
            ends, power = self.bounds()
            # dividing integers rounds correctly, to denormals too; adding 0.0 removes negative zeros
            low = [a / (1 << power) + 0.0 for a, _ in ends]
            high = [b / (1 << power) + 0.0 for _, b in ends]
            if low == high:
                return np.array(low)
            self.extend()

    def nearby(self) -> FloatArray:
        """A double close to every coordinate."""
        ends, power = self.bounds()
        return np.array([a / (1 << power) for a, _ in ends])

    def inside(self) -> bool:
        """Whether the point lies in the set; its border has probability 0."""
        while True:
            found = self._is_inside()
            if found is not None:
                return found
            self.extend()

    def _is_inside(self) -> bool | None:
        """None if the known bits do not determine it."""
        ends, power = self.bounds()
        if self.sampler.is_box:
            answers = [
                _is_between(a, b, power, low, high)
                for (a, b), low, high in zip(
                    ends, self.sampler.low.tolist(), self.sampler.high.tolist(), strict=True
                )
            ]
            return False if False in answers else None if None in answers else True
        (radius,), own = _over_one_power([float(self.sampler.problem.set.radius)])
        square = radius * radius << 2 * power
        least = sum(0 if a < 0 < b else min(a * a, b * b) for a, b in ends) << 2 * own
        most = sum(max(a * a, b * b) for a, b in ends) << 2 * own
        return True if most <= square else False if least >= square else None

    def accepted(self, word: int, weight: float) -> bool:
        """Whether ``-log U > k F(point) + weight + log 2 sum(depth)`` for a uniform U."""
        sampler = self.sampler
        value = float(sampler.values(self.nearby()[None])[0])
        shift = sum(self.depth)
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
        context, uniform, length = MPIntervalContext(), word, 64
        for _ in range(64):
            uniform = uniform << 128 | self.source.fine_bits(2)
            length += 128
            self.extend()
            ends, power = self.bounds()
            context.prec = length + 64
            box = [context.mpf([a, b]) / context.mpf(2) ** power for a, b in ends]
            F = summed(context, sampler.kind, sampler.params, sampler.A, sampler.y, box)
            F += context.mpf(sampler.ridge) / 2 * sum((x * x for x in box), context.mpf(0))
            log = -context.log(context.mpf([uniform, uniform + 1]) / context.mpf(2) ** length)
            gap = log - context.mpf(sampler.k) * F - context.mpf(weight) - shift * context.log(2)
            room = context.mpf(2) ** (40 - context.prec) * (1 + abs(gap) + abs(F))
            least, most = (gap + context.mpf([-1, 1]) * room)._mpi_
            if libmp.mpf_gt(least, libmp.fzero):
                return True
            if libmp.mpf_lt(most, libmp.fzero):
                return False
        raise ArithmeticError(
            f"{length} random bits did not decide a draw, which is impossible by chance; check the generator"
        )


def _is_between(a: int, b: int, power: int, low: float, high: float) -> bool | None:
    """Whether a number between a and b, over a power of two, lies between two doubles; None if undetermined."""
    (least, most), own = _over_one_power([low, high])
    a, b, least, most = a << own, b << own, least << power, most << power
    if least <= a and b <= most:
        return True
    return False if b <= least or a >= most else None


def _over_one_power(numbers: list[float]) -> tuple[list[int], int]:
    """Doubles as integers over a common power of two."""
    ratios = [number.as_integer_ratio() for number in numbers]
    power = max(bottom.bit_length() for _, bottom in ratios) - 1
    return [top << power + 1 - bottom.bit_length() for top, bottom in ratios], power
