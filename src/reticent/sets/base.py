"""What every decision set offers, and what a set that only knows its linear minimiser gets for
free.

The contract follows the conditional-gradient view of Jaggi (2013): a set is its linear minimiser.
The local linear minimiser and its constant ``rho`` are those of Garber and Hazan (2013) and of
Assumption 1 of Lou and Cheung, "Projection-free Online Empirical Risk Minimization with
Privacy-preserving and Privacy Expiration"; see docs/algorithms/local-linear-oracle.md for every
oracle and its proof.

Public methods check and reshape, then call the method of the same name with an underscore, which
sees flat finite float64 vectors only. Library sets define the latter; a user's own set may simply
override the public one.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from reticent.checks import FloatArray, number, real_array

PROJECTION_FREE = (
    'online.FollowTheApproximateLeader(step="local-linear"), bandit.ProjectionFreeBandit '
    "or erm.frank_wolfe"
)

VERTEX_LIMIT = 100_000


class ProjectionUnavailable(NotImplementedError):
    """The set has no cheap projection; use a projection-free learner."""


class LocalLinearMinimizerUnavailable(NotImplementedError):
    """The set has no local linear minimiser with a proved ``rho``."""


class VerticesUnavailable(NotImplementedError):
    """The set has no vertices that can be listed, or far too many."""


class ConvexSet:
    """A bounded, closed, convex set of decisions.

    A set of your own needs ``dim``, ``diameter`` and ``linear_minimizer``; everything else has a
    default that is built from these. Override what you can do better, then run
    `reticent.sets.check` on it.

    Matrix sets have a ``shape`` of length two. Every method that takes points accepts an array of
    ``shape`` or a flat vector of length ``dim`` and returns the same form as it was given; points
    that come from nowhere (``center``, ``sample``, ``vertices``, ``inner_ball``) have ``shape``;
    ``affine_hull`` is flat.

    Attributes
    ----------
    dim : int
        Number of coordinates of a point.
    diameter : float
        An upper bound on the largest l2 distance between two points, tight where that is known.
    mass_per_radius : float or None
        For polytopes whose linear minimiser returns vertices: a number k such that a point y within
        distance r of x is reached from any decomposition of x into vertices by moving at most k r
        of the weight onto one point of the set. With it the local linear minimiser is free.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent import sets
    >>> class Diamond(sets.ConvexSet):
    ...     dim = 2
    ...     diameter = 2.0
    ...
    ...     def linear_minimizer(self, g):
    ...         vertex = np.zeros(2)
    ...         i = np.argmax(np.abs(g))
    ...         vertex[i] = -np.copysign(1.0, g[i])
    ...         return vertex
    >>> sets.check(Diamond()).passed
    True
    """

    dim: int
    diameter: float
    mass_per_radius: float | None = None

    # ---------------------------------------------------------------- form of points

    @property
    def shape(self) -> tuple[int, ...]:
        """The natural form of a point: ``(dim,)``, or ``(rows, columns)`` for sets of matrices."""
        return (self.dim,)

    def _shaped(self, value: Any, name: str) -> tuple[FloatArray, tuple[int, ...]]:
        """A flat float64 view and the form to give back; finiteness is not looked at."""
        array = real_array(value, name)
        if array.shape != (self.dim,) and array.shape != self.shape:
            allowed = f"({self.dim},)"
            if self.shape != (self.dim,):
                allowed = f"{self.shape} or {allowed}"
            raise ValueError(f"{name} must have shape {allowed}, got {array.shape}")
        return array.reshape(-1), array.shape

    def _enter(self, value: Any, name: str) -> tuple[FloatArray, tuple[int, ...]]:
        flat, form = self._shaped(value, name)
        # A finite sum proves every entry finite; only a sum that is not needs the slower look.
        with np.errstate(over="ignore", invalid="ignore"):
            total = flat.sum()
        if not math.isfinite(total):
            refuse_nonfinite(flat, name)
        return flat, form

    # ---------------------------------------------------------------- the oracles

    def linear_minimizer(self, g: Any) -> FloatArray:
        """A point v of the set that minimises ``<g, v>``; a vertex where the set has vertices."""
        direction, form = self._enter(g, "g")
        return self._linear_minimizer(direction).reshape(form)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        raise NotImplementedError(
            f"{type(self).__name__} must define linear_minimizer(g): the point of the set that "
            "minimises <g, point>"
        )

    def project(self, x: Any) -> FloatArray:
        """The point of the set that is nearest to x in the l2 norm."""
        if not self.can_project:
            raise ProjectionUnavailable(self._no_projection())
        point, form = self._enter(x, "x")
        return self._project(point).reshape(form)

    def _project(self, x: FloatArray) -> FloatArray:
        raise ProjectionUnavailable(self._no_projection())

    def _no_projection(self) -> str:
        return (
            f"{type(self).__name__} has no cheap projection; use a learner that needs none: "
            f"{PROJECTION_FREE}"
        )

    @property
    def can_project(self) -> bool:
        """Whether ``project`` is offered."""
        own = type(self)
        return own.project is not ConvexSet.project or own._project is not ConvexSet._project

    def local_linear_minimizer(self, x: Any, radius: float, g: Any) -> FloatArray:
        """A point p of the set, near x and at least as good as every point within ``radius`` of x.

        For x in the set: ``<g, p> <= <g, y>`` for every y of the set with ``||y - x|| <= radius``,
        and ``||p - x|| <= rho * radius``.
        """
        if self.rho is None:
            raise LocalLinearMinimizerUnavailable(self._no_local_minimizer())
        point, form = self._enter(x, "x")
        direction, _ = self._enter(g, "g")
        size = number(radius, "radius", low=0.0)
        return self._local_linear_minimizer(point, size, direction).reshape(form)

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        if self.can_project:
            return search_along_projections(self, x, radius, g)
        from reticent.sets.decomposition import move_weight

        return move_weight(self, x, radius, g)

    def _no_local_minimizer(self) -> str:
        return (
            f"{type(self).__name__} has no local linear minimiser: give it a projection, or, if it "
            "is a polytope, the constant mass_per_radius; otherwise bandit.ProjectionFreeBandit "
            "or erm.frank_wolfe, which need its linear minimiser only"
        )

    @property
    def rho(self) -> float | None:
        """The local linear minimiser stays within ``rho * radius``; None where there is none."""
        if self.can_project:
            return RHO
        if self.mass_per_radius is not None:
            return max(1.0, self.mass_per_radius * self.diameter)
        return None

    # ---------------------------------------------------------------- membership and points

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        """Whether x lies in the set, up to ``tol`` times the size of the set (at least 1)."""
        point, _ = self._shaped(x, "x")
        if not np.isfinite(point).all():
            return False
        return bool(self._contains(point, tol * max(1.0, min(self.norm_bound, 1e300))))

    def _contains(self, x: FloatArray, slack: float) -> bool:
        if self.can_project:
            return float(np.linalg.norm(self.project(x) - x)) <= slack
        from reticent.sets.decomposition import is_inside

        return is_inside(self, x, slack)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """A random point of the set, for tests and starting points; it reads no data.

        The default mixes a few random extreme points, so that faces and inside are both seen.
        """
        count = int(rng.integers(1, min(self.dim, 7) + 2))
        weights = rng.dirichlet(np.ones(count))
        point = np.zeros(self.dim)
        for weight in weights:
            point += weight * self.linear_minimizer(rng.standard_normal(self.dim))
        return point.reshape(self.shape)

    def decompose(self, x: Any) -> tuple[FloatArray, FloatArray]:
        """Weights and extreme points (flat, one per row) whose mixture is x, a point of the set."""
        from reticent.sets.decomposition import decompose

        point, _ = self._enter(x, "x")
        return decompose(self, point)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        """All vertices, an array of shape ``(count, *shape)``, where there are few."""
        raise VerticesUnavailable(
            f"{type(self).__name__} does not list its vertices; linear_minimizer(g) finds the one "
            "that matters for a direction g"
        )

    # ---------------------------------------------------------------- geometry

    @cached_property
    def _frame(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        from reticent.sets.hull import frame_of

        return frame_of(self)

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        """A flat point of the hull and an orthonormal basis (dim x k) of its directions.

        The basis is None where the set is not flat: then the hull is the whole space.
        """
        point, basis, _, _ = self._frame
        return point, (basis if basis.shape[1] < self.dim else None)

    @property
    def is_flat(self) -> bool:
        """Whether the set lies in a hyperplane, so that noise and probes must stay in its hull."""
        return self.affine_hull[1] is not None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        """A ball ``(center, radius)`` in the set, within the affine hull where it is flat.

        The radius is positive unless the set is a single point.
        """
        _, _, center, radius = self._frame
        return center.reshape(self.shape), radius

    @property
    def center(self) -> FloatArray:
        """A point well inside the set that depends on no data: where learners start."""
        if type(self).inner_ball is not ConvexSet.inner_ball:
            return self.inner_ball[0]
        return self._mean_of_extremes.copy()

    @cached_property
    def _mean_of_extremes(self) -> FloatArray:
        """Cheap at any dimension, unlike a ball that is found by the linear minimiser alone."""
        rng = np.random.default_rng(0)
        directions = rng.standard_normal((min(self.dim, 32), self.dim))
        extremes = [self.linear_minimizer(g) for u in directions for g in (u, -u)]
        return np.mean(extremes, axis=0).reshape(self.shape)

    @property
    def norm_bound(self) -> float:
        """An upper bound on ``||x||_2`` over the set, tight where that is known."""
        return self._extreme_norm + self.diameter

    @cached_property
    def _extreme_norm(self) -> float:
        return float(np.linalg.norm(self.linear_minimizer(np.ones(self.dim))))

    @property
    def kernel(self) -> tuple[int, FloatArray] | None:
        """The kind and the parameters that `reticent.sets.kernels` knows this set by, or None."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"


def refuse_nonfinite(flat: FloatArray, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(flat))
    if bad.size:
        raise ValueError(f"{name} must be finite; entry {int(bad[0])} is {flat[bad[0]]}")


def frozen(array: Any) -> FloatArray:
    """A private read-only copy, so that a set never changes after it was checked."""
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def within_limit(count: float, limit: int, name: str) -> None:
    if count > limit:
        raise VerticesUnavailable(
            f"{name} has {count:g} vertices, more than limit={limit}; linear_minimizer(g) finds "
            "the one that matters for a direction g, or raise limit"
        )


RHO = 1.01
MOST_ROUNDS = 200


def search_along_projections(
    convex: ConvexSet, x: FloatArray, radius: float, g: FloatArray
) -> FloatArray:
    """The local linear minimiser of any set that can project: a scalar search along its projections.

    The point ``p(t) = project(x - t g)`` minimises ``<g, .>`` over the part of the set within ``||p(t) - x||``
    of x, and that distance grows continuously with t; any t with ``radius <= ||p(t) - x|| <= 1.01 radius``
    therefore gives both properties of a local linear oracle (Assumption 1 of Lou and Cheung) with ``rho = 1.01``.
    Proof in docs/algorithms/local-linear-oracle.md. It costs some ten projections.
    """
    slope = float(np.linalg.norm(g))
    if slope == 0.0 or radius == 0.0:
        return x.copy()
    lowest = convex.linear_minimizer(g)
    if np.linalg.norm(lowest - x) <= RHO * radius:
        return lowest
    unit = g / slope
    floor = float(unit @ lowest)
    near_enough = 1e-13 * max(convex.diameter, abs(floor))
    # Projection is nonexpansive, so the first step is too short or just right.
    low, high = math.log(radius), math.inf
    t = low
    point = x
    for _ in range(MOST_ROUNDS):
        point = convex.project(x - math.exp(t) * unit)
        distance = float(np.linalg.norm(point - x))
        if radius <= distance <= RHO * radius:
            return point
        if distance < radius:
            if unit @ point - floor <= near_enough:
                return point  # on the best face already, and nearer than the radius
            low = t
            t = t + 1.0 if high == math.inf else 0.5 * (low + high)
        else:
            high = t
            t = 0.5 * (low + high)
        if high - low < 1e-15 * abs(t) or t > 60.0 + math.log(max(convex.diameter, radius)):
            break
    return _stretch(x, point, lowest, RHO * radius)


def _stretch(x: FloatArray, point: FloatArray, lowest: FloatArray, reach: float) -> FloatArray:
    """Rounding has the last word: go from the point towards the best one as far as allowed."""
    low, high = 0.0, 1.0
    if np.linalg.norm(point - x) > reach:
        return x + (point - x) * (reach / np.linalg.norm(point - x))
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.linalg.norm(point + middle * (lowest - point) - x) <= reach:
            low = middle
        else:
            high = middle
    return point + low * (lowest - point)
