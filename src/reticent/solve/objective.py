"""What every solver that reads records minimises, and over which set.

The objective is a sum of losses of linear predictors, and a quadratic.

    f(x) = sum_i w_i phi_i(<a_i, x>) + (1/2) x'Rx + <b, x>

What solvers keep of a point x is up to the terms, and linear in x: the predictors z = Ax, so that a line search costs
a pass over n numbers instead of the data; or x itself, if n numbers are too many.

A feasible set is seen as flat vectors, with or without a projection. A linear minimiser is enough for a certificate
(Jaggi 2013, section 2, the duality gap), so problems on a set without a projection are solved by other methods but
certified in the same way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.sets import L1Ball, L2Ball, NuclearBall, Simplex, Spectrahedron, WholeSpace

_BLOCK = 4096

Projection = Callable[[FloatArray], FloatArray]


class PredictorLosses(Protocol):
    """Losses of linear predictors, one per record, as a sum or as a mean.

    Slopes and second derivatives include the weights of records; in a mean each is divided by the number of records.
    ``z`` is what ``predictors`` returned, or a linear combination of such values.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and of columns."""

    @property
    def A(self) -> Any:
        """The records, one row each: dense or CSR. Only methods for few records use it."""

    def bends(self, z: FloatArray) -> FloatArray:
        """Second derivatives of each record's loss in its predictor. Only methods for few records use it."""

    def predictors(self, x: FloatArray) -> FloatArray:
        """What is kept of a point: linear in it."""

    def total_value(self, z: FloatArray) -> float:
        """The sum, or mean, of the losses."""

    def slope_along(self, z: FloatArray, dz: FloatArray) -> float:
        """The derivative of the sum, or mean, of the losses in the direction with the predictors ``dz``."""

    def gram(self, z: FloatArray, kind: Any) -> FloatArray:
        """The second derivatives of the sum, or mean, of the losses; products may be in the precision ``kind``."""

    def gram_times(self, z: FloatArray, v: FloatArray) -> FloatArray:
        """These second derivatives times a vector."""

    def predictors_and_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is kept of a point, and the gradient there."""

    def thinned(self, every: int) -> Any:
        """The terms of every ``every``-th record."""


@dataclass
class MeanTerms(ABC):
    """The common part of all means of losses of linear predictors.

    Parameters
    ----------
    A : array or CSR matrix
        The records, one row each.
    """

    A: Any
    per_record: ClassVar[tuple[str, ...]] = ()
    """The attributes, besides A, that have one entry per record."""

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), int(self.A.shape[1])

    def predictors(self, x: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self.A @ x)

    @abstractmethod
    def slopes(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def bends(self, z: FloatArray) -> FloatArray: ...

    def slope_along(self, z: FloatArray, dz: FloatArray) -> float:
        return float(self.slopes(z) @ dz)

    def gram(self, z: FloatArray, kind: Any = np.float64) -> FloatArray:
        return weighted_gram(self.A, self.bends(z), kind)

    def gram_times(self, z: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(self.A.T @ (self.bends(z) * (self.A @ v)))

    def predictors_and_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = self.predictors(x)
        return z, self.A.T @ self.slopes(z)

    def thinned(self, every: int) -> Self:
        part, A = copy(self), self.A[::every]
        part.A = A if sp.issparse(A) else np.ascontiguousarray(A)
        for name in self.per_record:
            setattr(part, name, getattr(self, name)[::every].copy())
        return part


@dataclass(eq=False)
class Objective:
    """f and its derivatives.

    Parameters
    ----------
    terms : PredictorLosses
        The part that depends on the records.
    ridge : float or array
        The matrix R; a number stands for that multiple of the identity.
    linear : array, optional
        The vector b; by default 0.
    is_mean : bool
        Whether the terms are a mean rather than a sum, so that fewer records are still a mean.
    is_quadratic : bool
        Whether second derivatives are the same everywhere; they are then computed once.
    smoothness : float
        A bound on the second derivatives, if one is known.
    thins : bool
        Whether a part of the records gives a good starting point.
    """

    terms: PredictorLosses
    ridge: float | FloatArray
    linear: FloatArray | None = None
    _: KW_ONLY
    is_mean: bool = False
    is_quadratic: bool = False
    smoothness: float = math.inf
    thins: bool = True
    _constant: FloatArray | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        return self.terms.shape[0]

    @property
    def dim(self) -> int:
        return self.terms.shape[1]

    @property
    def least_curvature(self) -> float:
        """The strong convexity of the quadratic term alone; 0 if R is a matrix."""
        return self.ridge if isinstance(self.ridge, float) else 0.0

    def predictors(self, x: FloatArray) -> FloatArray:
        return self.terms.predictors(x)

    def value(self, x: FloatArray, z: FloatArray) -> float:
        result = self.terms.total_value(z) + 0.5 * self._bilinear(x, x)
        return result if self.linear is None else result + float(self.linear @ x)

    def predictors_and_gradient(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z, total = self.terms.predictors_and_sum(x)
        g = total + (self.ridge * x if np.ndim(self.ridge) == 0 else self.ridge @ x)
        return z, g if self.linear is None else g + self.linear

    def slope(self, x: FloatArray, z: FloatArray, d: FloatArray, dz: FloatArray) -> float:
        """The derivative at x in the direction d, whose predictors are dz."""
        found = self.terms.slope_along(z, dz) + self._bilinear(x, d)
        return float(found if self.linear is None else found + self.linear @ d)

    def _bilinear(self, x: FloatArray, d: FloatArray) -> float:
        if np.ndim(self.ridge) == 0:
            return self.ridge * float(x @ d)  # type: ignore[return-value]
        return float(x @ (self.ridge @ d))

    def hessian(self, z: FloatArray, kind: Any = np.float64) -> FloatArray:
        """Second derivatives; their part from the records may be summed in single precision."""
        if self._constant is not None:
            return self._constant.copy()
        H = self.terms.gram(z, kind)
        if np.ndim(self.ridge) == 0:
            H[np.diag_indices_from(H)] += self.ridge
        else:
            H += self.ridge
        if self.is_quadratic:
            self._constant = H.copy()
        return H

    def thinned(self, every: int) -> Objective:
        """The objective of every ``every``-th record, to start a run with, never to finish it."""
        part = copy(self)
        part.terms = self.terms.thinned(every)
        if not self.is_mean:
            share = part.count / self.count
            part.ridge = share * self.ridge
            part.smoothness = share * self.smoothness
            part.linear = None if self.linear is None else share * self.linear
        return part

    def in_terms_of(self, columns: FloatArray, ridge: FloatArray) -> Objective:
        """The same losses of other decisions, with predictors by columns and a matrix as quadratic term."""
        part = copy(self)
        part.terms = copy(self.terms)
        part.terms.A = columns  # type: ignore[misc]
        part.ridge = ridge
        part._constant = None
        return part


def weighted_gram(A: Any, weights: FloatArray, kind: Any = np.float64) -> FloatArray:
    """A' diag(weights) A for non-negative weights; products in single precision take half the time."""
    dim = A.shape[1]
    live = weights > 0.0
    share = np.count_nonzero(live)
    if share == 0:
        return np.zeros((dim, dim))
    if share < 0.5 * len(weights):
        A, weights = A[np.flatnonzero(live)], weights[live]
    if sp.issparse(A):
        return np.asarray((A.T @ sp.diags_array(weights) @ A).toarray())
    total = np.zeros((dim, dim))
    # Blocks stay in the cache; scaling the whole matrix at once would copy it through memory.
    block = np.empty((min(_BLOCK, len(weights)), dim), dtype=kind)
    for start in range(0, len(weights), _BLOCK):
        part = block[: len(weights) - start]
        _scale(A, weights, start, part)
        total += part.T @ part
    return total


@compiled
def _scale(A, weights, start, out):
    for i in range(out.shape[0]):
        root = math.sqrt(weights[start + i])
        for j in range(out.shape[1]):
            out[i, j] = root * A[start + i, j]


class Region:
    """A set's linear minimiser and projection for flat vectors; the whole space if the set is None.

    Parameters
    ----------
    set : set or None
        The set.
    dim : int
        Number of coordinates.

    Attributes
    ----------
    free : bool
        Whether it is the whole space.
    bounded : bool
        Whether it has a linear minimiser.
    project : callable or None
        The projection, if the set has one.
    start : array
        A point of the set that depends on no data.
    """

    def __init__(self, set: Any, dim: int) -> None:
        if set is not None and int(set.dim) != dim:
            raise ValueError(
                f"set must have as many dimensions as the records have columns, {dim}; it has {set.dim}"
            )
        self.set = set
        self.dim = dim
        self.free = set is None or isinstance(set, WholeSpace)
        self.bounded = not self.free and math.isfinite(set.diameter)
        self.project: Projection | None = None
        if self.free:
            self.start = np.zeros(dim)
            self.project = _itself
            return
        center = getattr(set, "center", None)
        if callable(center):
            center = center()
        self.start = _flat(center) if center is not None else self.minimize(np.ones(dim))
        if hasattr(set, "project"):
            try:
                set.project(self.start)
            except NotImplementedError:
                return
            self.project = self._project

    @property
    def ball_radius(self) -> float | None:
        """The radius, if the set is a Euclidean ball around the origin."""
        return float(self.set.radius) if isinstance(self.set, L2Ball) else None

    @property
    def few_vertices(self) -> bool:
        """Whether good decisions are mixtures of few vertices, as in sets of sparse or low-rank points."""
        return isinstance(self.set, L1Ball | Simplex | NuclearBall | Spectrahedron)

    def minimize(self, g: FloatArray) -> FloatArray:
        """A point of the set that minimises <g, x>."""
        return _flat(self.set.linear_minimizer(g))

    def contains(self, x: FloatArray) -> bool:
        if self.free or not hasattr(self.set, "contains"):
            return True
        return bool(self.set.contains(x))

    def _project(self, x: FloatArray) -> FloatArray:
        return _flat(self.set.project(x))


def _itself(x: FloatArray) -> FloatArray:
    return x


def _flat(x: Any) -> FloatArray:
    return np.asarray(x, dtype=np.float64).ravel()
