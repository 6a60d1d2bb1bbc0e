"""Losses of one linear predictor, l(x; a, y) = phi(<a, x>, y) + (ridge/2) ||x||^2: the base class, and eight losses.

With features of norm at most F, |phi'| <= p and phi'' <= q, the part that depends on the record is F p-Lipschitz and
F^2 q-smooth, and its Hessian has rank one. Gradient perturbation, objective perturbation and implicit steps depend on
these facts (Chaudhuri, Monteleoni and Sarwate 2011; Kulis and Bartlett 2010).

``value`` and ``gradient`` compute with what they are given. Only ``prepare`` clips records to the stated bounds,
without which the constants need not hold.

The logistic loss and a smoothed hinge are those of private empirical risk minimisation since Chaudhuri, Monteleoni
and Sarwate 2011. The others are Huber's (1964), the pinball loss of Koenker and Bassett (1978), and half the Poisson
deviance, continued by its tangent beyond a largest linear predictor, without which it would have no Lipschitz
constant. docs/losses.md has a table of all constants.

Bounds given a set are for decisions in the set, and often much smaller (0.73 instead of 1 for a logistic loss in the
unit ball). Use them only if gradients are taken nowhere else.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import expit

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
        """The largest |phi'| and the largest phi''.

        Parameters
        ----------
        set : set, optional
            If given, the bounds are for decisions in this set.
        """
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
        bend = self.scalar_bounds(set)[1]
        return (bend * self.feature_norm**2 + self.ridge) * float(set.diameter) ** 2

    # Records.

    @abstractmethod
    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]: ...

    @property
    def prepares_apart(self) -> bool:
        """Whether rows are only clipped to `feature_norm`, and labels are prepared without looking at them.

        Offline solvers then take records in blocks, wherever they are stored, and do not copy rows.
        """
        return False

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
        """Check and clip one record.

        Parameters
        ----------
        a : array or sparse row
            The features of the record.
        y : float
            The label of the record.

        Returns
        -------
        a, y
            The features as a float64 vector, and the label as a number.
        """
        a = a.toarray().ravel() if sp.issparse(a) else a
        row = np.asarray(a)
        if row.ndim != 1:
            raise ValueError(f"a must be a vector of features, got shape {row.shape}")
        A, labels, _ = self.prepare(row[None, :], None if y is None else [y])
        return A[0], float(labels[0])

    def sample_records(
        self, rng: np.random.Generator, count: int, dim: int
    ) -> tuple[FloatArray, FloatArray]:
        """Draw records within the stated bounds, about half of them with the largest norm.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the records.
        count : int
            Number of records.
        dim : int
            Number of features.

        Returns
        -------
        A, y
            The features, one row for each record, and the labels.
        """
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


@dataclass(frozen=True)
class _Labelled(GeneralizedLinear):
    @abstractmethod
    def _clip_labels(self, y: FloatArray) -> tuple[FloatArray, int]:
        """Labels within the loss's bounds, and how many were beyond them."""

    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]:
        return self._clip_labels(records.labels(y, A.shape[0]))

    @property
    def prepares_apart(self) -> bool:
        own = type(self)  # a subclass may prepare records in a way of its own
        return (
            own.prepare is GeneralizedLinear.prepare
            and own._prepare_labels is _Labelled._prepare_labels
        )


@dataclass(frozen=True)
class _Classification(_Labelled):
    def _clip_labels(self, y: FloatArray) -> tuple[FloatArray, int]:
        return records.signs(y), 0

    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray:
        return rng.choice((-1.0, 1.0), size=len(A))


@dataclass(frozen=True)
class _Regression(_Labelled):
    _: KW_ONLY
    label_bounds: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        try:
            low, high = self.label_bounds
        except (TypeError, ValueError):
            raise ValueError(
                f"label_bounds must be a pair (low, high), got {self.label_bounds!r}"
            ) from None
        low = checks.number(low, "label_bounds[0]")
        high = checks.number(high, "label_bounds[1]", low=low)
        object.__setattr__(self, "label_bounds", (low, high))
        super().__post_init__()

    @property
    def _largest_label(self) -> float:
        return max(abs(bound) for bound in self.label_bounds)

    def _clip_labels(self, y: FloatArray) -> tuple[FloatArray, int]:
        return records.clip_labels(y, *self.label_bounds)

    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray:
        low, high = self.label_bounds
        spread = rng.uniform(low, high, size=len(A))
        return np.where(rng.random(len(A)) < 0.5, spread, rng.choice((low, high), size=len(A)))


@dataclass(frozen=True)
class Logistic(_Classification):
    """log(1 + exp(-y <a, x>)), with labels -1 and 1.

    Parameters
    ----------
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.

    Examples
    --------
    >>> loss = Logistic(ridge=0.1)
    >>> round(loss.value(np.zeros(3), np.ones(3), 1), 6)
    0.693147
    >>> loss.data_lipschitz(), loss.smoothness, loss.strong_convexity
    (1.0, 0.35, 0.1)
    """

    kind: ClassVar[int] = kernels.LOGISTIC

    def _slope_bound(self, reach: float) -> float:
        return 1.0 / (1.0 + math.exp(-reach))

    def _bend_bound(self, reach: float) -> float:
        return 0.25


@dataclass(frozen=True)
class CappedLogistic(_Classification):
    """The logistic loss with slopes of at most ``cap`` in size, with labels -1 and 1.

    It is log(1 + e^-m) for margins m = y <a, x> of at least -log(cap / (1 - cap)), and its tangent below. Private
    learning pays for the largest slope that a record *could* have, and learns from the slopes that records do have,
    which are 1/2 near the decision boundary: at ``cap = 1/2`` the noise is half that of the plain loss for the same
    signal. This is the gradient clipping of Abadi et al. 2016 as a convex loss, like Huber's loss on the side of
    misclassified records.

    Its minimiser has the sign of the log-odds (the loss is convex and decreases at 0: Bartlett, Jordan and McAuliffe
    2006), but not always their size; :meth:`probability` is the right link function.

    Parameters
    ----------
    cap : float
        The largest slope of a record's loss, in [1/2, 1). Near 1 it is the logistic loss.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.

    Examples
    --------
    >>> loss = CappedLogistic(0.5)
    >>> loss.data_lipschitz(), float(loss.gradient(np.zeros(1), np.ones(1), 1.0)[0])
    (0.5, -0.5)
    >>> loss.probability(np.array([0.0, 30.0])).round(6).tolist()
    [0.5, 1.0]
    """

    cap: float = 0.5
    kind: ClassVar[int] = kernels.CAPPED_LOGISTIC

    def __post_init__(self) -> None:
        self._store("cap", self.cap, low=0.5, high=1.0, open_high=True)
        super().__post_init__()

    @property
    def _border(self) -> float:
        return math.log(self.cap) - math.log1p(-self.cap)

    def _parameters(self) -> tuple[float, ...]:
        return (self.cap, self._border)

    def _slope_bound(self, reach: float) -> float:
        return min(self.cap, 1.0 / (1.0 + math.exp(-reach)))

    def _bend_bound(self, reach: float) -> float:
        return 0.25

    def probability(self, z: FloatArray) -> FloatArray:
        """The probability of the label 1 for which a predictor minimises the expected loss.

        Parameters
        ----------
        z : array
            Predictors <a, x>.
        """
        q = expit(-np.abs(z))
        certain = np.where(np.abs(z) > self._border, self.cap / (self.cap + q), 1.0 - q)
        return np.where(z >= 0.0, certain, 1.0 - certain)

    def predictor(self, p: FloatArray) -> FloatArray:
        """The predictor that minimises the expected loss for a given probability of the label 1.

        Parameters
        ----------
        p : array
            Probabilities, above 0 and below 1.
        """
        odds = np.maximum(p, 1.0 - p) / np.minimum(p, 1.0 - p)
        # beyond the border, cap / (cap + q) = p with q = 1 / (1 + e^z)
        far = np.log(np.maximum(odds / self.cap - 1.0, 1.0))
        size = np.where(np.log(odds) > self._border, far, np.log(odds))
        return np.where(p >= 0.5, size, -size)


@dataclass(frozen=True)
class Squared(_Regression):
    """(1/2) (y - <a, x>)^2.

    It has a Lipschitz constant only on a bounded set.

    Parameters
    ----------
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    label_bounds : (float, float)
        Labels outside these bounds are clipped to them.
    """

    kind: ClassVar[int] = kernels.SQUARED

    def _slope_bound(self, reach: float) -> float:
        return reach + self._largest_label

    def _bend_bound(self, reach: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Hinge(_Classification):
    """max(0, 1 - y <a, x>), with labels -1 and 1.

    Parameters
    ----------
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    """

    kind: ClassVar[int] = kernels.HINGE

    def _slope_bound(self, reach: float) -> float:
        return 1.0

    def _bend_bound(self, reach: float) -> float:
        return math.inf


@dataclass(frozen=True)
class SmoothHinge(_Classification):
    """The hinge with its kink replaced by a parabola for margins from 1 - width to 1, with labels -1 and 1.

    Parameters
    ----------
    width : float
        Width of the parabola. The loss is at most width / 2 below the hinge.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    """

    width: float = 1.0
    kind: ClassVar[int] = kernels.SMOOTH_HINGE

    def __post_init__(self) -> None:
        self._store("width", self.width, low=0.0, open_low=True)
        super().__post_init__()

    def _parameters(self) -> tuple[float, ...]:
        return (self.width,)

    def _slope_bound(self, reach: float) -> float:
        return min(1.0, (1.0 + reach) / self.width)

    def _bend_bound(self, reach: float) -> float:
        return 1.0 / self.width


@dataclass(frozen=True)
class Huber(_Regression):
    """r^2 / 2 for a residual |r| up to the threshold, and linear beyond.

    Parameters
    ----------
    threshold : float
        The largest |phi'|.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    label_bounds : (float, float)
        Labels outside these bounds are clipped to them.
    """

    threshold: float = 1.0
    kind: ClassVar[int] = kernels.HUBER

    def __post_init__(self) -> None:
        self._store("threshold", self.threshold, low=0.0, open_low=True)
        super().__post_init__()

    def _parameters(self) -> tuple[float, ...]:
        return (self.threshold,)

    def _slope_bound(self, reach: float) -> float:
        return min(self.threshold, reach + self._largest_label)

    def _bend_bound(self, reach: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Quantile(_Regression):
    """The pinball loss: level times y - <a, x> if that is positive, else (1 - level) times <a, x> - y.

    Parameters
    ----------
    level : float
        The quantile to estimate, in (0, 1); 0.5 gives half the absolute error.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    label_bounds : (float, float)
        Labels outside these bounds are clipped to them.
    """

    level: float = 0.5
    kind: ClassVar[int] = kernels.QUANTILE

    def __post_init__(self) -> None:
        self._store("level", self.level, low=0.0, high=1.0, open_low=True, open_high=True)
        super().__post_init__()

    def _parameters(self) -> tuple[float, ...]:
        return (self.level,)

    def _slope_bound(self, reach: float) -> float:
        return max(self.level, 1.0 - self.level)

    def _bend_bound(self, reach: float) -> float:
        return math.inf


@dataclass(frozen=True)
class Poisson(_Regression):
    """Half the Poisson deviance of the count y if its mean is exp(<a, x>); it is never negative.

    Parameters
    ----------
    predictor_bound : float
        Beyond this linear predictor, exp is continued by its tangent, which keeps the loss convex and gives it a
        Lipschitz constant. exp(predictor_bound) must be at least the largest label.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.
    label_bounds : (float, float)
        Counts outside these bounds are clipped to them; the lower bound is at least 0.
    """

    predictor_bound: float = 3.0
    _: KW_ONLY
    label_bounds: tuple[float, float] = (0.0, 10.0)
    kind: ClassVar[int] = kernels.POISSON

    def __post_init__(self) -> None:
        self._store("predictor_bound", self.predictor_bound, low=-50.0, high=50.0)
        super().__post_init__()
        low, high = self.label_bounds
        if low < 0.0:
            raise ValueError(f"label_bounds of counts must start at 0 or above, got {low:g}")
        if high > math.exp(self.predictor_bound):
            raise ValueError(
                f"predictor_bound={self.predictor_bound:g} allows means up to "
                f"{math.exp(self.predictor_bound):g}, below the largest label {high:g}: the loss would "
                f"have no minimum; use predictor_bound >= {math.log(high):.4g} or smaller label_bounds"
            )

    def _parameters(self) -> tuple[float, ...]:
        return (self.predictor_bound,)

    def _slope_bound(self, reach: float) -> float:
        low, high = self.label_bounds
        largest = math.exp(min(reach, self.predictor_bound)) - low
        return max(largest, high - math.exp(-reach))

    def _bend_bound(self, reach: float) -> float:
        return math.exp(min(reach, self.predictor_bound))
