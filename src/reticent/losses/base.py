"""What every loss offers: values, gradients, the constants that theorems and noise levels need.

A loss is a convex function of a decision x for one record (a, y). Curvature is Frank-Wolfe's, in the
sense of Jaggi 2013 ("Revisiting Frank-Wolfe", equation 3).

A constant that does not exist is ``math.inf`` (the smoothness of a hinge, the Lipschitz constant of a
squared loss on the whole space), never a guess; and the constant that calibrates noise is
``data_lipschitz``, which leaves the ridge out, because the ridge is the same for every record and
cancels between neighbouring data sets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from reticent.checks import FloatArray


@runtime_checkable
class DecisionSet(Protocol):
    """What the losses ask of a set: its size."""

    @property
    def dim(self) -> int: ...
    @property
    def diameter(self) -> float: ...


class ClipCounts(NamedTuple):
    """How many records were beyond the stated bounds: a diagnostic that reads private data."""

    features: int
    labels: int
    records: int

    def __str__(self) -> str:
        return (
            f"of {self.records} records, {self.features} had features scaled down and "
            f"{self.labels} had labels clipped (not private)"
        )


class Loss(ABC):
    """A convex loss l(x; a, y) of a decision x and a record (a, y).

    Subclass it for a new family; for a single function of your own, `CustomLoss` is shorter.
    """

    ridge: float = 0.0

    @abstractmethod
    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        """The loss of one record, ridge included."""

    @abstractmethod
    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        """The gradient in x for one record, ridge included; at a kink, a subgradient."""

    @abstractmethod
    def data_lipschitz(self, set: DecisionSet | None = None) -> float:
        """The largest gradient norm of the part of the loss that depends on the record.

        This is what the privacy of a gradient rests on. With a set, the bound is for decisions in it.
        """

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The Lipschitz constant of the gradient, ridge included; inf for a loss with kinks."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest m such that the loss less (m/2)||x||^2 is still convex for every record."""

    @property
    def kernel(self) -> tuple[int, FloatArray] | None:
        """(kind, params) of the compiled scalar loss; None where there is no compiled form."""
        return None

    def lipschitz(self, set: DecisionSet | None = None) -> float:
        """The largest gradient norm of the whole loss, ridge included, on a set or anywhere."""
        if self.ridge == 0.0:
            return self.data_lipschitz(set)
        return self.data_lipschitz(set) + self.ridge * norm_bound(set)

    def curvature(self, set: DecisionSet) -> float:
        """An upper bound of Frank-Wolfe's curvature constant on a set."""
        return self.smoothness * float(set.diameter) ** 2

    def values(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        """The loss of every record."""
        rows = dense_rows(A)
        labels = [None] * len(rows) if y is None else y
        return np.array([self.value(x, a, b) for a, b in zip(rows, labels, strict=True)])

    def mean_value(self, x: FloatArray, A: Any, y: Any = None) -> float:
        """The mean loss over all records."""
        return float(np.mean(self.values(x, A, y)))

    def mean_gradient(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        """The mean gradient over all records."""
        rows = dense_rows(A)
        labels = [None] * len(rows) if y is None else y
        total = np.zeros_like(x, dtype=np.float64)
        for a, b in zip(rows, labels, strict=True):
            total += self.gradient(x, a, b)
        return total / len(rows)

    def prepare(self, A: Any, y: Any = None) -> tuple[Any, Any, ClipCounts]:
        """Records checked and clipped to the stated bounds, and how many were beyond them."""
        rows = dense_rows(A)
        if y is not None and len(y) != len(rows):
            raise ValueError(
                f"y must have one label for each of the {len(rows)} rows, got {len(y)}"
            )
        return A, y, ClipCounts(0, 0, len(rows))


def norm_bound(set: DecisionSet | None) -> float:
    """The largest norm of a point of the set; inf without a set."""
    if set is None:
        return math.inf
    bound = getattr(set, "norm_bound", None)
    if bound is not None:
        return float(bound() if callable(bound) else bound)
    # A set of the user's own need only know its diameter: any point of it and the diameter bound it.
    point = np.asarray(set.linear_minimizer(np.ones(set.dim))).ravel()  # type: ignore[attr-defined]
    return float(np.linalg.norm(point)) + float(set.diameter)


def dense_rows(A: Any) -> Any:
    """Something whose rows are dense vectors."""
    return A.toarray() if hasattr(A, "toarray") else A
