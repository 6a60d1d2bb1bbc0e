"""A loss of the user's own: two callables and the constants that are claimed for them.

The constants are the user's word; `reticent.losses.check` tries them on samples (Nesterov 2004, section
2.1, lists the inequalities it uses).

A claimed ``lipschitz`` constant calibrates noise, and a false one is a false promise of privacy. A
learner still clips the gradients of a custom loss to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent import checks
from reticent.losses import records
from reticent.losses.base import ClipCounts, DecisionSet, FloatArray, Loss, dense_rows


class CustomLoss(Loss):
    """Any convex function of a decision and a record.

    Parameters
    ----------
    value : callable
        value(x, a, y) is the loss of one record.
    gradient : callable
        gradient(x, a, y) is its gradient in x, or a subgradient.
    lipschitz : float
        A bound on the norm of the gradient wherever decisions are played.
    smoothness : float
        The Lipschitz constant of the gradient; inf (the default) for a loss with kinks.
    strong_convexity : float
        The largest m such that the loss less (m/2)||x||^2 is convex.
    values : callable, optional
        values(x, A, y) over many records at once; without it a Python loop is run over the records.
    mean_gradient : callable, optional
        mean_gradient(x, A, y), likewise.

    Examples
    --------
    >>> import numpy as np
    >>> loss = CustomLoss(
    ...     lambda x, a, y: float(np.sqrt(1 + (x @ a - y) ** 2)),
    ...     lambda x, a, y: (x @ a - y) / np.sqrt(1 + (x @ a - y) ** 2) * a,
    ...     lipschitz=1.0,
    ...     smoothness=1.0,
    ... )
    >>> loss.value(np.zeros(2), np.array([1.0, 0.0]), 0.0)
    1.0
    """

    def __init__(
        self,
        value: Callable[..., float],
        gradient: Callable[..., FloatArray],
        *,
        lipschitz: float = math.inf,
        smoothness: float = math.inf,
        strong_convexity: float = 0.0,
        values: Callable[..., FloatArray] | None = None,
        mean_gradient: Callable[..., FloatArray] | None = None,
    ) -> None:
        for name, part in (("value", value), ("gradient", gradient)):
            if not callable(part):
                raise TypeError(f"{name} must be callable as {name}(x, a, y), got {part!r}")
        self._value = value
        self._gradient = gradient
        self._values = values
        self._mean_gradient = mean_gradient
        self._lipschitz = _constant(lipschitz, "lipschitz")
        self._smoothness = _constant(smoothness, "smoothness")
        self._strong_convexity = checks.number(strong_convexity, "strong_convexity", low=0.0)
        if self._strong_convexity > self._smoothness:
            raise ValueError(
                f"strong_convexity={strong_convexity:g} is above smoothness={smoothness:g}; "
                "no function is like that"
            )

    def __repr__(self) -> str:
        return (
            f"CustomLoss({getattr(self._value, '__name__', self._value)}, "
            f"lipschitz={self._lipschitz:g}, smoothness={self._smoothness:g}, "
            f"strong_convexity={self._strong_convexity:g})"
        )

    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        return float(self._value(x, a, y))

    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        result = np.asarray(self._gradient(x, a, y), dtype=np.float64)
        if result.shape != np.shape(x):
            raise ValueError(
                f"gradient(x, a, y) returned shape {result.shape} for x of shape {np.shape(x)}"
            )
        return result

    def values(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        if self._values is None:
            return super().values(x, A, y)
        return np.asarray(self._values(x, A, y), dtype=np.float64)

    def mean_gradient(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        if self._mean_gradient is None:
            return super().mean_gradient(x, A, y)
        return np.asarray(self._mean_gradient(x, A, y), dtype=np.float64)

    def data_lipschitz(self, set: DecisionSet | None = None) -> float:
        return self._lipschitz

    @property
    def smoothness(self) -> float:
        return self._smoothness

    @property
    def strong_convexity(self) -> float:
        return self._strong_convexity

    def prepare(self, A: Any, y: Any = None) -> tuple[Any, Any, ClipCounts]:
        """Records checked; nothing is clipped, since nothing is known of what they mean."""
        A = records.features(A)
        count = A.shape[0]
        if y is not None and np.shape(y)[:1] != (count,):
            raise ValueError(
                f"y must have one label for each of the {count} rows, got {np.shape(y)}"
            )
        return dense_rows(A), y, ClipCounts(0, 0, count)


def _constant(value: Any, name: str) -> float:
    if isinstance(value, float) and value == math.inf:
        return math.inf
    return checks.number(value, name, low=0.0)
