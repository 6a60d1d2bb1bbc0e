"""The common part of all losses of one linear predictor: l(x; a, y) = phi(<a, x>, y) + (ridge/2) ||x||^2.

With features of norm at most F, |phi'| <= p and phi'' <= q, the part that depends on the record is F p-Lipschitz and
F^2 q-smooth, and its Hessian has rank one. Gradient perturbation, objective perturbation and implicit steps depend on
these facts (Chaudhuri, Monteleoni and Sarwate 2011; Kulis and Bartlett 2010).

``value`` and ``gradient`` compute with what they are given. Only ``prepare`` clips records to the stated bounds,
without which the constants need not hold.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq

from reticent import checks
from reticent.losses import kernels, records
from reticent.losses.base import ClipCounts, DecisionSet, FloatArray, Loss, norm_bound

# Bounds that keep the square of a norm well within the range of a double, as in `reticent.sums`.
_LEAST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class GeneralizedLinear(Loss):
    """Base class of the losses of one linear predictor.

    Parameters
    ----------
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it by `prepare`.
    ridge : float
        Weight of (1/2) ||x||^2, which makes the loss strongly convex if it is above 0.
    """

    _: KW_ONLY
    feature_norm: float = 1.0
    ridge: float = 0.0
    _params: FloatArray = field(init=False, repr=False, compare=False)

    kind: ClassVar[int]

    def __post_init__(self) -> None:
        self._store("feature_norm", self.feature_norm, low=0.0, open_low=True)
        if not _LEAST <= self.feature_norm <= _LARGEST:
            raise ValueError(
                f"feature_norm must be at least {_LEAST:g} and at most {_LARGEST:g}, got "
                f"{self.feature_norm:g}: records are clipped by their squared norms, which underflow or "
                "overflow there; rescale the records"
            )
        self._store("ridge", self.ridge, low=0.0)
        object.__setattr__(self, "_params", np.array(self._parameters(), dtype=np.float64))

    def _store(self, name: str, value: Any, **bounds: Any) -> None:
        object.__setattr__(self, name, checks.number(value, name, **bounds))

    def _parameters(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def kernel(self) -> tuple[int, FloatArray]:
        """Kind and parameters for `reticent.losses.kernels`, without the ridge, which is in `ridge`."""
        return self.kind, self._params.copy()

    # What a family knows about its phi, for predictors in [-reach, reach].

    @abstractmethod
    def _slope_bound(self, reach: float) -> float: ...

    @abstractmethod
    def _bend_bound(self, reach: float) -> float: ...

    def scalar_bounds(self, set: DecisionSet | None = None) -> tuple[float, float]:
        """The largest |phi'| and the largest phi'', for decisions in a set or anywhere."""
        reach = self.feature_norm * norm_bound(set)
        return self._slope_bound(reach), self._bend_bound(reach)

    def data_lipschitz(self, set: DecisionSet | None = None) -> float:
        return self.feature_norm * self.scalar_bounds(set)[0]

    @property
    def data_smoothness(self) -> float:
        """The largest eigenvalue of the Hessian of one record's part, without the ridge."""
        return self.feature_norm**2 * self._bend_bound(math.inf)

    @property
    def smoothness(self) -> float:
        return self.data_smoothness + self.ridge

    @property
    def strong_convexity(self) -> float:
        return self.ridge

    def curvature(self, set: DecisionSet) -> float:
        """An upper bound on Frank-Wolfe's curvature constant on a set."""
        bend = self.scalar_bounds(set)[1]
        return (bend * self.feature_norm**2 + self.ridge) * float(set.diameter) ** 2

    # Records.

    @abstractmethod
    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]: ...

    def _labels(self, y: Any, A: Any) -> FloatArray:
        return records.labels(y, A.shape[0])

    def prepare(self, A: Any, y: Any = None) -> tuple[Any, FloatArray, ClipCounts]:
        """Check records and clip them to the stated bounds.

        Parameters
        ----------
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n
            The labels.

        Returns
        -------
        A, y, counts
            Float64 arrays (CSR if A is sparse), and how many records exceeded the bounds: a diagnostic that is not
            private. What needs no change is not copied.

        Examples
        --------
        >>> from reticent.losses import Logistic
        >>> A, y, counts = Logistic(feature_norm=1.0).prepare([[3.0, 4.0], [0.5, 0.0]], [1, -1])
        >>> A.round(3).tolist(), counts.features
        ([[0.6, 0.8], [0.5, 0.0]], 1)
        """
        A = records.features(A)
        A, scaled = records.clip_rows(A, self.feature_norm)
        y, clipped = self._prepare_labels(y, A)
        return A, y, ClipCounts(scaled, clipped, A.shape[0])

    def prepare_record(self, a: Any, y: Any = None) -> tuple[FloatArray, float]:
        """Check and clip one record."""
        a = a.toarray().ravel() if sp.issparse(a) else a
        row = np.asarray(a)
        if row.ndim != 1:
            raise ValueError(f"a must be a vector of features, got shape {row.shape}")
        A, labels, _ = self.prepare(row[None, :], None if y is None else [y])
        return A[0], float(labels[0])

    def sample_records(
        self, rng: np.random.Generator, count: int, dim: int
    ) -> tuple[FloatArray, FloatArray]:
        """Random records within the stated bounds, about half of them with the largest norm."""
        A = rng.standard_normal((count, dim))
        A *= (self.feature_norm / np.linalg.norm(A, axis=1))[:, None]
        A *= np.where(rng.random(count) < 0.5, 1.0, rng.random(count))[:, None]
        return A, self._sample_labels(rng, A)

    @abstractmethod
    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray: ...

    # Values and gradients.

    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        x, row = np.asarray(x, dtype=np.float64), _row(a)
        label = self._label(y, row)
        z = float(row @ x)
        return kernels.phi(self.kind)(self._params, z, label) + self._ridge_value(x)

    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        x, row = np.asarray(x, dtype=np.float64), _row(a)
        slope = kernels.dphi(self.kind)(self._params, float(row @ x), self._label(y, row))
        return slope * row + self.ridge * x

    def values(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        phis = kernels.phi_all(self.kind)(self._params, *self._predictors(x, A, y))
        return phis + self._ridge_value(x)

    def mean_value(self, x: FloatArray, A: Any, y: Any = None) -> float:
        x = np.asarray(x, dtype=np.float64)
        mean = kernels.phi_mean(self.kind)(self._params, *self._predictors(x, A, y))
        return mean + self._ridge_value(x)

    def mean_gradient(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        A = A if sp.issparse(A) else np.asarray(A, dtype=np.float64)
        slopes = kernels.dphi_all(self.kind)(self._params, *self._predictors(x, A, y))
        return A.T @ (slopes / len(slopes)) + self.ridge * x

    def _predictors(self, x: FloatArray, A: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        A = A if sp.issparse(A) else np.asarray(A, dtype=np.float64)
        if A.ndim != 2 or x.shape != (A.shape[1],):
            raise ValueError(f"x of shape {x.shape} does not fit records A of shape {A.shape}")
        return np.ascontiguousarray(A @ x), self._labels(y, A)

    def _label(self, y: float | None, a: FloatArray) -> float:
        if y is None:
            raise ValueError("y is missing: this loss needs the label of the record")
        return float(y)

    def _ridge_value(self, x: FloatArray) -> float:
        return 0.5 * self.ridge * float(x @ x) if self.ridge else 0.0

    def implicit_step(
        self,
        x: FloatArray,
        a: FloatArray,
        y: float | None = None,
        *,
        step: float,
        ridge: float | None = None,
        set: Any = None,
    ) -> FloatArray:
        """The implicit gradient step: argmin_u l(u; a, y) + ||u - x||^2 / (2 step).

        Parameters
        ----------
        x : array
            The decision.
        a : array
            The record's features.
        y : float
            The record's label.
        step : float
            The step size.
        ridge : float, optional
            Used in place of the loss's own ridge.
        set : set, optional
            A set with a projection; the minimum is then over the set. The optimality condition is still one monotone
            scalar equation, t = phi'(<a, project(u - step t a)>), for any set.

        Returns
        -------
        array
            The new decision.

        Examples
        --------
        >>> from reticent.losses import Squared
        >>> Squared().implicit_step(np.zeros(2), np.array([1.0, 0.0]), 1.0, step=1.0).tolist()
        [0.5, 0.0]
        """
        x, row = np.asarray(x, dtype=np.float64), _row(a)
        step = checks.positive(step, "step")
        weight = 1.0 / (
            1.0 + step * (self.ridge if ridge is None else checks.number(ridge, "ridge", low=0.0))
        )
        label = self._label(y, row)
        params = self._params
        if set is None:
            t = kernels.implicit_scalar(self.kind)(
                params, weight * float(row @ x), label, weight * step * float(row @ row)
            )
            return weight * (x - step * t * row)

        def after(t: float) -> FloatArray:
            return np.asarray(set.project(weight * (x - step * t * row)))

        def excess(t: float) -> float:
            return kernels.dphi(self.kind)(params, float(row @ after(t)), label) - t

        far = excess(0.0)
        if far == 0.0 or excess(far) == 0.0:
            return after(far)
        # excess decreases in t, equals far at 0, and has the other sign at far, so [0, far] is a bracket.
        return after(brentq(excess, 0.0, far, xtol=1e-300, rtol=8.9e-16, maxiter=2000))


def _row(a: Any) -> FloatArray:
    if sp.issparse(a):
        a = a.toarray().ravel()
    return np.asarray(a, dtype=np.float64)
