"""Squared distances to centres, (scale/2) ||x - a||^2: the simplest strongly convex loss.

Expanded it is (scale/2) ||x||^2 - scale <a, x> + (scale/2) ||a||^2: a ridge, a linear part and an offset. So it is a
generalised linear loss with phi(z, y) = -scale z + y, whose ridge is the scale, and the part that depends on the
record is scale ||a||-Lipschitz on any set.

``feature_norm`` bounds the centres, and the Lipschitz constant that matters for privacy is scale * feature_norm, not
scale * (largest distance to a centre).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from reticent.losses import kernels, records
from reticent.losses.base import FloatArray
from reticent.losses.glm import GeneralizedLinear


@dataclass(frozen=True)
class Quadratic(GeneralizedLinear):
    """(scale/2) ||x - a||^2 for a centre a in place of the features; labels are ignored.

    Its `ridge`, the factor of (1/2) ||x||^2, is the scale itself.

    Parameters
    ----------
    scale : float
        The curvature.
    feature_norm : float
        Centres longer than this (Euclidean norm) are scaled down to it.

    Examples
    --------
    >>> loss = Quadratic(2.0)
    >>> loss.value(np.array([1.0, 1.0]), np.array([1.0, 0.0])), loss.strong_convexity
    (1.0, 2.0)
    """

    scale: float = 1.0
    ridge: float = field(init=False, default=1.0, repr=False)
    kind: ClassVar[int] = kernels.LINEAR

    def __post_init__(self) -> None:
        self._store("scale", self.scale, low=0.0, open_low=True)
        self._store("ridge", self.scale)
        super().__post_init__()

    def _parameters(self) -> tuple[float, ...]:
        return (-self.scale,)

    def _slope_bound(self, reach: float) -> float:
        return self.scale

    def _bend_bound(self, reach: float) -> float:
        return 0.0

    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]:
        return self._labels(y, A), 0

    def _labels(self, y: Any, A: Any) -> FloatArray:
        return 0.5 * self.scale * records.row_norms(A) ** 2

    def _label(self, y: float | None, a: FloatArray) -> float:
        return 0.5 * self.scale * float(a @ a)

    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray:
        return self._labels(None, A)

    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        # Not by the expansion, which would lose all digits near the centre.
        x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
        return 0.5 * self.scale * float((x - a) @ (x - a))
