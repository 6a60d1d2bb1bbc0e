"""A logistic loss under which a record on the wrong side pulls no harder than one near the border.

    phi(z) = log(1 + e^-z) for margins z >= -m,   its tangent beyond,   m = log(cap / (1 - cap))

so that the slope stays within [-cap, 0]. Private learning pays for the largest slope that any
record *could* have, and learns from those that records do have, which near the border is 1/2: at
``cap = 1/2`` the noise of every solver is half of the plain loss's at the same signal. It is the
clipping of gradients of Abadi et al., *Deep learning with differential privacy*, as a convex loss;
Huber's device on the side of the margin where records are wrong.

The one thing a reader would get wrong: the minimiser still has the sign of the log-odds (the loss is
convex and falls at 0: Bartlett, Jordan and McAuliffe, *Convexity, classification, and risk bounds*),
but beyond m its size is not the log-odds. :meth:`CappedLogistic.probability` is the right link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from tacit import _checks
from tacit._checks import FloatArray
from tacit.losses import GeneralizedLinear, records


@dataclass(frozen=True)
class CappedLogistic(GeneralizedLinear):
    """The logistic loss with slopes no steeper than ``cap``; labels -1 and 1.

    Parameters
    ----------
    cap : float
        In [1/2, 1): the largest pull of a record. Near 1 it is the logistic loss.
    feature_norm, ridge
        As in every generalised linear loss.

    Examples
    --------
    >>> import numpy as np
    >>> loss = CappedLogistic(0.5)
    >>> loss.data_lipschitz(), float(loss.gradient(np.zeros(1), np.ones(1), 1.0)[0])
    (0.5, -0.5)
    >>> loss.probability(np.array([0.0, 30.0])).round(6).tolist()
    [0.5, 1.0]
    """

    cap: float = 0.5
    border: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._store("cap", self.cap, low=0.5, high=1.0, open_high=True)
        object.__setattr__(self, "border", math.log(self.cap) - math.log1p(-self.cap))
        super().__post_init__()

    @property
    def kernel(self) -> Any:
        """None: solvers that are compiled for one of the named losses must not run on this one."""
        return None

    def _slope_bound(self, reach: float) -> float:
        return min(self.cap, float(expit(reach)))

    def _bend_bound(self, reach: float) -> float:
        return 0.25

    # The scalar loss of many predictors.

    def phi(self, z: FloatArray, y: FloatArray) -> FloatArray:
        margins = y * z
        kept = np.maximum(margins, -self.border)
        return np.logaddexp(0.0, -kept) + self.cap * (kept - margins)

    def dphi(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return -y * np.minimum(expit(-y * z), self.cap)

    def d2phi(self, z: FloatArray, y: FloatArray) -> FloatArray:
        q = expit(-y * z)
        return np.where(q < self.cap, q * (1.0 - q), 0.0)

    def probability(self, z: FloatArray) -> FloatArray:
        """P(y = 1) for which z minimises the expected loss."""
        q = expit(-np.abs(z))
        certain = np.where(np.abs(z) > self.border, self.cap / (self.cap + q), 1.0 - q)
        return np.where(z >= 0.0, certain, 1.0 - certain)

    # What every loss answers, without the compiled kernels.

    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]:
        return records.signs(records.labels(y, A.shape[0])), 0

    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray:
        return rng.choice((-1.0, 1.0), size=len(A))

    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        return float(self.values(x, np.atleast_2d(a), [self._label(y, a)])[0])

    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        x, row = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
        slope = self.dphi(np.array([row @ x]), np.array([self._label(y, row)]))[0]
        return np.asarray(slope * row + self.ridge * x)

    def values(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        return self.phi(*self._predictors(x, A, y)) + self._ridge_value(x)

    def mean_value(self, x: FloatArray, A: Any, y: Any = None) -> float:
        return float(np.mean(self.values(x, A, y)))

    def mean_gradient(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        A = A if sp.issparse(A) else np.asarray(A, dtype=np.float64)
        slopes = self.dphi(*self._predictors(x, A, y))
        return np.asarray(A.T @ (slopes / len(slopes)) + self.ridge * x)

    def implicit_step(self, *arguments: Any, **settings: Any) -> FloatArray:
        raise NotImplementedError("the capped logistic loss has no implicit step; use Logistic")


def check_cap(value: Any, name: str) -> float:
    """A cap in [1/2, 1]; 1 stands for the plain logistic loss."""
    return _checks.number(value, name, low=0.5, high=1.0)
