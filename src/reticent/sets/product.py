"""Products of sets: several decisions at once, each in its own set.

Every operation works block by block except the local linear minimiser, where the blocks share one radius. Giving
every block the full radius has ``rho = sqrt(sum rho_i^2)``; trying a few radii per block and choosing those with the
best ratio of gain to cost within a budget has ``rho = sqrt(3.25) max rho_i``, whatever the number of blocks. The
smaller one is used; docs/algorithms/local-linear-oracle.md has both proofs.

Blocks are concatenated flat, so a matrix block takes rows * columns places; ``split`` returns the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from reticent.checks import FloatArray
from reticent.sets import kernels
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit

BARGAIN = math.sqrt(3.25)


class Product(ConvexSet):
    """``{(x_1, ..., x_m) : x_i in sets[i]}``, with flat points.

    Parameters
    ----------
    sets : sequence of ConvexSet
        The sets of the blocks.

    Examples
    --------
    >>> from reticent import sets
    >>> both = sets.Product([sets.Simplex(2), sets.LinfBall(1)])
    >>> both.linear_minimizer([1.0, 0.0, 3.0])
    array([ 0.,  1., -1.])
    """

    def __init__(self, sets: Sequence[ConvexSet]) -> None:
        if not len(sets):
            raise ValueError("sets must hold at least one set")
        for i, block in enumerate(sets):
            if not isinstance(block, ConvexSet):
                raise TypeError(f"sets[{i}] must be a ConvexSet, got {type(block).__name__}")
        self.sets = tuple(sets)
        self.dim = sum(block.dim for block in self.sets)
        self.diameter = math.sqrt(sum(block.diameter**2 for block in self.sets))
        ends = np.cumsum([block.dim for block in self.sets])
        self._places = [slice(int(e) - s.dim, int(e)) for e, s in zip(ends, self.sets, strict=True)]

    def _blocks(self, x: FloatArray) -> list[FloatArray]:
        return [x[place] for place in self._places]

    def split(self, x: FloatArray) -> list[FloatArray]:
        """The blocks of a point, each in the shape of its own set.

        Parameters
        ----------
        x : array
            A point, flat.

        Returns
        -------
        list of array
            The blocks.
        """
        flat, _ = self._enter(x, "x")
        parts = zip(self._blocks(flat), self.sets, strict=True)
        return [block.reshape(convex.shape).copy() for block, convex in parts]

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        pairs = zip(self.sets, self._blocks(g), strict=True)
        return np.concatenate([convex.linear_minimizer(part) for convex, part in pairs])

    @property
    def can_project(self) -> bool:
        return all(convex.can_project for convex in self.sets)

    def _project(self, x: FloatArray) -> FloatArray:
        pairs = zip(self.sets, self._blocks(x), strict=True)
        return np.concatenate([convex.project(part) for convex, part in pairs])

    def _no_projection(self) -> str:
        blocks = ", ".join(repr(convex) for convex in self.sets if not convex.can_project)
        return super()._no_projection() + f" (blocks without one: {blocks})"

    # ---------------------------------------------------------------- the local oracle

    def _rhos(self) -> list[float] | None:
        rhos = [convex.rho for convex in self.sets]
        known = [rho for rho in rhos if rho is not None]
        return known if len(known) == len(rhos) else None

    @property
    def rho(self) -> float | None:
        rhos = self._rhos()
        return None if rhos is None else min(math.hypot(*rhos), BARGAIN * max(rhos))

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        rhos = self._rhos()
        if rhos is None:
            raise self._missing_local()
        parts = list(zip(self.sets, self._blocks(x), self._blocks(g), strict=True))
        if math.hypot(*rhos) <= BARGAIN * max(rhos):
            return np.concatenate([c.local_linear_minimizer(u, radius, v) for c, u, v in parts])
        return self._bargain(parts, radius)

    def _bargain(
        self, parts: list[tuple[ConvexSet, FloatArray, FloatArray]], radius: float
    ) -> FloatArray:
        """Choose a radius per block by the edges of the lower convex hulls of cost and value, steepest first.

        The squares of the radii that are tried are halved repeatedly, down to a 4m-th.
        """
        levels = math.ceil(math.log2(4 * len(parts)))
        costs = radius**2 * 2.0 ** -np.arange(levels, -1, -1.0)
        answers: list[list[FloatArray]] = []
        steps: list[tuple[float, float, int, int]] = []
        for i, (convex, x, g) in enumerate(parts):
            found = [convex.local_linear_minimizer(x, math.sqrt(c), g) for c in costs]
            answers.append([x.copy(), *found])
            values = np.array([g @ point for point in answers[i]])
            steps += [
                (slope, extra, i, level)
                for slope, extra, level in _hull_steps(np.append(0.0, costs), values)
            ]
        budget = 2.25 * radius**2
        chosen = [0] * len(parts)
        for _, extra, i, level in sorted(steps):
            if budget <= 0.0:
                break
            chosen[i] = level
            budget -= extra
        return np.concatenate([answers[i][level] for i, level in enumerate(chosen)])

    def _missing_local(self) -> Exception:
        from reticent.sets.base import LocalLinearMinimizerUnavailable

        return LocalLinearMinimizerUnavailable(self._no_local_minimizer())

    def _no_local_minimizer(self) -> str:
        lacking = [convex for convex in self.sets if convex.rho is None]
        return f"this product has no local linear minimiser: {lacking[0]._no_local_minimizer()}"

    # ---------------------------------------------------------------- membership and geometry

    def _contains(self, x: FloatArray, slack: float) -> bool:
        pairs = zip(self.sets, self._blocks(x), strict=True)
        # contains() scales its tolerance by the size of its own set, but here the size of the product counts.
        return all(
            convex.contains(part, slack / max(1.0, convex.norm_bound)) for convex, part in pairs
        )

    def sample(self, rng: np.random.Generator) -> FloatArray:
        return np.concatenate([convex.sample(rng).reshape(-1) for convex in self.sets])

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        lists = [convex.vertices(limit).reshape(-1, convex.dim) for convex in self.sets]
        within_limit(math.prod(map(len, lists)), limit, repr(self))
        return np.array([np.concatenate(choice) for choice in product(*lists)])

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        hulls = [convex.affine_hull for convex in self.sets]
        point = np.concatenate([origin for origin, _ in hulls])
        if all(basis is None for _, basis in hulls):
            return point, None
        columns = []
        for (_, basis), place, convex in zip(hulls, self._places, self.sets, strict=True):
            inner = np.eye(convex.dim) if basis is None else basis
            columns.append(np.zeros((self.dim, inner.shape[1])))
            columns[-1][place] = inner
        return point, np.concatenate(columns, axis=1)

    @property
    def is_flat(self) -> bool:
        return any(convex.is_flat for convex in self.sets)

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        balls = [convex.inner_ball for convex in self.sets]
        center = np.concatenate([middle.reshape(-1) for middle, _ in balls])
        # A block that is a single point has no directions, so it does not limit the ball.
        return center, min((radius for _, radius in balls if radius > 0.0), default=0.0)

    @property
    def norm_bound(self) -> float:
        return math.sqrt(sum(convex.norm_bound**2 for convex in self.sets))

    @property
    def kernel(self) -> tuple[int, FloatArray] | None:
        count = 0
        body: list[FloatArray] = []
        for convex in self.sets:
            own = convex.kernel
            if own is None:
                return None
            kind, params = own
            if kind > kernels.PRODUCT:
                return None  # the compiled loop over blocks does not know it
            if kind == kernels.PRODUCT:
                count += int(params[0])
                body.append(params[1:])
            else:
                count += 1
                body.append(np.concatenate([[kind, convex.dim, params.size], params]))
        return kernels.PRODUCT, np.concatenate([[float(count)], *body])

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.sets))}])"


def _hull_steps(costs: FloatArray, values: FloatArray) -> list[tuple[float, float, int]]:
    """The decreasing edges of the lower convex hull of (cost, value): slope, extra cost, end point."""
    hull = [0]
    for i in range(1, len(costs)):
        while len(hull) > 1 and _slope(costs, values, hull[-2], hull[-1]) >= _slope(
            costs, values, hull[-1], i
        ):
            hull.pop()
        hull.append(i)
    steps = [
        (_slope(costs, values, a, b), float(costs[b] - costs[a]), b) for a, b in pairwise(hull)
    ]
    return [step for step in steps if step[0] < 0.0]


def _slope(costs: FloatArray, values: FloatArray, a: int, b: int) -> float:
    return float((values[b] - values[a]) / (costs[b] - costs[a]))
