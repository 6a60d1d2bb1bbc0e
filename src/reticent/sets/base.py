"""The interface of a feasible set, and the defaults for a set that defines only its linear minimiser.

The interface follows the conditional-gradient view of Jaggi (2013), in which a set is given by its linear minimiser.
The local linear minimiser and its constant ``rho`` are those of Garber and Hazan (2013) and of Assumption 1 of Lou
and Cheung, "Projection-free Online Empirical Risk Minimization with Privacy-preserving and Privacy Expiration";
docs/algorithms/local-linear-oracle.md has every oracle with its proof.

Public methods check and reshape their arguments and call the method of the same name with an underscore, which sees
only flat, finite float64 vectors. Sets of the library define the latter; a user's own set may simply override the
public method.
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
    """The set has no vertices, or too many to list."""


class ConvexSet:
    """A bounded, closed, convex set of decisions.

    A set of your own needs ``dim``, ``diameter`` and ``linear_minimizer``; everything else has a default that is
    built from these. Override what you can do better, then run `reticent.sets.check` on it.

    Sets of matrices have a ``shape`` of length two. Every method that takes points accepts an array of ``shape`` or a
    flat vector of length ``dim``, and returns points in the same form; methods that take no point (``center``,
    ``sample``, ``vertices``, ``inner_ball``) return points of ``shape``; ``affine_hull`` is flat.

    Attributes
    ----------
    dim : int
        Number of coordinates of a point.
    diameter : float
        An upper bound on the largest l2 distance between two points, tight if that is known.
    mass_per_radius : float or None
        For polytopes whose linear minimiser returns vertices: a number k such that any point y within distance r of x
        can be obtained from any decomposition of x into vertices by moving at most k r of the weight to a single
        point of the set. If it is set, the local linear minimiser needs no further code.

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
        """A flat float64 view, and the form in which to return points; does not check for finite values."""
        array = real_array(value, name)
        if array.shape != (self.dim,) and array.shape != self.shape:
            allowed = f"({self.dim},)"
            if self.shape != (self.dim,):
                allowed = f"{self.shape} or {allowed}"
            raise ValueError(f"{name} must have shape {allowed}, got {array.shape}")
        return array.reshape(-1), array.shape

    def _enter(self, value: Any, name: str) -> tuple[FloatArray, tuple[int, ...]]:
        flat, form = self._shaped(value, name)
        # A finite sum proves that every entry is finite; only otherwise are the entries inspected.
        with np.errstate(over="ignore", invalid="ignore"):
            total = flat.sum()
        if not math.isfinite(total):
            refuse_nonfinite(flat, name)
        return flat, form

    # ---------------------------------------------------------------- the oracles

    def linear_minimizer(self, g: Any) -> FloatArray:
        """A point v of the set that minimises ``<g, v>``; a vertex if the set has vertices.

        Parameters
        ----------
        g : array
            The direction.

        Returns
        -------
        array
            The point, in the form of ``g``.
        """
        direction, form = self._enter(g, "g")
        return self._linear_minimizer(direction).reshape(form)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        raise NotImplementedError(
            f"{type(self).__name__} must define linear_minimizer(g), which returns a point of the set that "
            "minimises <g, point>"
        )

    def project(self, x: Any) -> FloatArray:
        """The point of the set that is nearest to x in the l2 norm.

        Parameters
        ----------
        x : array
            Any point of the space.

        Returns
        -------
        array
            The nearest point, in the form of ``x``.

        Raises
        ------
        ProjectionUnavailable
            The set has no cheap projection.
        """
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
        """Whether the set has a projection."""
        own = type(self)
        return own.project is not ConvexSet.project or own._project is not ConvexSet._project

    def local_linear_minimizer(self, x: Any, radius: float, g: Any) -> FloatArray:
        """A point p of the set that is near x and at least as good as every point within ``radius`` of x.

        For x in the set: ``<g, p> <= <g, y>`` for every y of the set with ``||y - x|| <= radius``, and ``||p - x|| <=
        rho * radius``.

        Parameters
        ----------
        x : array
            A point of the set.
        radius : float
            Radius of the ball around x, 0 or more.
        g : array
            The direction.

        Returns
        -------
        array
            The point p, in the form of ``x``.

        Raises
        ------
        LocalLinearMinimizerUnavailable
            The set has no local linear minimiser.
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
            f"{type(self).__name__} has no local linear minimiser: define a projection or, if it "
            "is a polytope, the constant mass_per_radius; or use bandit.ProjectionFreeBandit "
            "or erm.frank_wolfe, which need only its linear minimiser"
        )

    @property
    def rho(self) -> float | None:
        """Ratio such that the local linear minimiser stays within ``rho * radius`` of x; None if there is none."""
        if self.can_project:
            return RHO
        if self.mass_per_radius is not None:
            return max(1.0, self.mass_per_radius * self.diameter)
        return None

    # ---------------------------------------------------------------- membership and points

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        """Whether x lies in the set.

        Parameters
        ----------
        x : array
            Any point of the space.
        tol : float
            Tolerance, multiplied by the size of the set (at least 1).

        Returns
        -------
        bool
            False also for points that are not finite.
        """
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

        By default it is a mixture of a few random extreme points, so that both faces and the interior occur.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array
            The point, of the set's ``shape``.
        """
        count = int(rng.integers(1, min(self.dim, 7) + 2))
        weights = rng.dirichlet(np.ones(count))
        point = np.zeros(self.dim)
        for weight in weights:
            point += weight * self.linear_minimizer(rng.standard_normal(self.dim))
        return point.reshape(self.shape)

    def decompose(self, x: Any) -> tuple[FloatArray, FloatArray]:
        """Write a point of the set as a mixture of extreme points.

        Parameters
        ----------
        x : array
            A point of the set.

        Returns
        -------
        (array, array)
            Weights that sum to one, and extreme points, flat and one per row, with ``weights @ points`` equal to x.
        """
        from reticent.sets.decomposition import decompose

        point, _ = self._enter(x, "x")
        return decompose(self, point)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        """All vertices, if there are not too many.

        Parameters
        ----------
        limit : int
            Largest number of vertices to list.

        Returns
        -------
        array
            The vertices, of shape ``(count, *shape)``.

        Raises
        ------
        VerticesUnavailable
            The set has no vertices, or more than ``limit``.
        """
        raise VerticesUnavailable(
            f"{type(self).__name__} cannot list its vertices; linear_minimizer(g) finds the best one "
            "for a direction g"
        )

    # ---------------------------------------------------------------- geometry

    @cached_property
    def _frame(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        from reticent.sets.hull import frame_of

        return frame_of(self)

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        """A flat point of the affine hull, and an orthonormal basis (dim x k) of its directions.

        The basis is None if the set is not flat, so that the hull is the whole space.
        """
        point, basis, _, _ = self._frame
        return point, (basis if basis.shape[1] < self.dim else None)

    @property
    def is_flat(self) -> bool:
        """Whether the set lies in a hyperplane, so that noise and probes must stay in its affine hull."""
        return self.affine_hull[1] is not None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        """A ball ``(center, radius)`` in the set; if the set is flat, a ball of its affine hull.

        The radius is positive unless the set is a single point.
        """
        _, _, center, radius = self._frame
        return center.reshape(self.shape), radius

    @property
    def center(self) -> FloatArray:
        """A point well inside the set that depends on no data, at which learners start."""
        if type(self).inner_ball is not ConvexSet.inner_ball:
            return self.inner_ball[0]
        return self._mean_of_extremes.copy()

    @cached_property
    def _mean_of_extremes(self) -> FloatArray:
        """The mean of some extreme points: cheap in any dimension, unlike a ball found by linear minimisation."""
        rng = np.random.default_rng(0)
        directions = rng.standard_normal((min(self.dim, 32), self.dim))
        extremes = [self.linear_minimizer(g) for u in directions for g in (u, -u)]
        return np.mean(extremes, axis=0).reshape(self.shape)

    @property
    def norm_bound(self) -> float:
        """An upper bound on ``||x||_2`` over the set, tight if that is known."""
        return self._extreme_norm + self.diameter

    @cached_property
    def _extreme_norm(self) -> float:
        return float(np.linalg.norm(self.linear_minimizer(np.ones(self.dim))))

    @property
    def kernel(self) -> tuple[int, FloatArray] | None:
        """The kind and parameters of this set in `reticent.sets.kernels`, or None."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"


def refuse_nonfinite(flat: FloatArray, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(flat))
    if bad.size:
        raise ValueError(f"{name} must be finite; entry {int(bad[0])} is {flat[bad[0]]}")


def frozen(array: Any) -> FloatArray:
    """A private, read-only copy, so that a set cannot change after it was checked."""
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def within_limit(count: float, limit: int, name: str) -> None:
    if count > limit:
        raise VerticesUnavailable(
            f"{name} has {count:g} vertices, more than limit={limit}; use linear_minimizer(g), which finds "
            "the best one for a direction g, or raise limit"
        )


RHO = 1.01
MOST_ROUNDS = 200


def search_along_projections(
    convex: ConvexSet, x: FloatArray, radius: float, g: FloatArray
) -> FloatArray:
    """The local linear minimiser of any set with a projection: a scalar search along its projections.

    The point ``p(t) = project(x - t g)`` minimises ``<g, .>`` over the part of the set within ``||p(t) - x||`` of x,
    and this distance grows continuously with t. So any t with ``radius <= ||p(t) - x|| <= 1.01 radius`` gives both
    properties of a local linear oracle (Assumption 1 of Lou and Cheung) with ``rho = 1.01``. Proof:
    docs/algorithms/local-linear-oracle.md. It takes about ten projections.
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
    # The projection is nonexpansive, so the first step is too short or exactly right.
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
                return point  # already on the best face, and closer than the radius
            low = t
            t = t + 1.0 if high == math.inf else 0.5 * (low + high)
        else:
            high = t
            t = 0.5 * (low + high)
        if high - low < 1e-15 * abs(t) or t > 60.0 + math.log(max(convex.diameter, radius)):
            break
    return _stretch(x, point, lowest, RHO * radius)


def _stretch(x: FloatArray, point: FloatArray, lowest: FloatArray, reach: float) -> FloatArray:
    """If rounding prevents convergence, move from the point towards the best one as far as is allowed."""
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
