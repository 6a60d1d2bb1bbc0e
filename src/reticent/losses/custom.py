"""A loss of your own: two functions and the constants that you claim for them.

`reticent.losses.check` tries these constants on samples (Nesterov 2004, section 2.1, lists the inequalities that it
uses).

A claimed ``lipschitz`` constant calibrates noise, so a wrong one could make a guarantee wrong; therefore learners
clip the gradients of a custom loss to it.
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
        ``value(x, a, y)`` is the loss of one record.
    gradient : callable
        ``gradient(x, a, y)`` is its gradient in x, or a subgradient.
    lipschitz : float
        A bound on the norm of the gradient for all decisions that may occur; inf (the default) if there is none.
    smoothness : float
        The Lipschitz constant of the gradient; inf (the default) for a loss with kinks.
    strong_convexity : float
        The largest m for which the loss minus (m/2)||x||^2 is convex; 0 by default.
    values : callable, optional
        ``values(x, A, y)`` for many records at once; by default a Python loop over the records.
    mean_gradient : callable, optional
        ``mean_gradient(x, A, y)`` for many records at once; by default a Python loop over the records.

    See Also
    --------
    check : Test the gradient and the constants.

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
                f"strong_convexity={strong_convexity:g} must be at most smoothness={smoothness:g}, "
                "as for every function"
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
        """Check records; nothing is clipped, because the meaning of their entries is not known.

        Parameters
        ----------
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n, optional
            The labels, if the loss has labels.

        Returns
        -------
        A, y, counts
            Dense rows, the labels, and counts of 0 with the number of records.
        """
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
