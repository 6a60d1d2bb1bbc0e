"""The interface of a loss: values, gradients, and the constants that theorems and noise levels need.

A loss is a convex function of a decision x for one record (a, y). Curvature is Frank-Wolfe's, in the sense of Jaggi
2013 ("Revisiting Frank-Wolfe", equation 3).

A constant that does not exist is ``math.inf`` (the smoothness of a hinge, the Lipschitz constant of a squared loss on
the whole space), never a guess. The constant that calibrates noise is ``data_lipschitz``, which leaves out the ridge,
because the ridge is the same for every record and cancels between neighbouring data sets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from reticent.checks import FloatArray


@runtime_checkable
class DecisionSet(Protocol):
    """What the losses need to know about a set: its size."""

    @property
    def dim(self) -> int: ...
    @property
    def diameter(self) -> float: ...


class ClipCounts(NamedTuple):
    """How many records exceeded the stated bounds: a diagnostic that reads private data.

    Parameters
    ----------
    features : int
        Number of records whose features were scaled down.
    labels : int
        Number of records whose labels were clipped.
    records : int
        Number of all records.
    """

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

    Subclass it for a new family of losses; for a single function of your own, `CustomLoss` is shorter.
    """

    ridge: float = 0.0

    @abstractmethod
    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        """The loss of one record, ridge included.

        Parameters
        ----------
        x : array
            The decision.
        a : array
            The features of the record.
        y : float, optional
            The label of the record, if the loss has labels.
        """

    @abstractmethod
    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        """The gradient in x for one record, ridge included; at a kink, a subgradient.

        Parameters
        ----------
        x : array
            The decision.
        a : array
            The features of the record.
        y : float, optional
            The label of the record, if the loss has labels.
        """

    @abstractmethod
    def data_lipschitz(self, set: DecisionSet | None = None) -> float:
        """The largest gradient norm of the part of the loss that depends on the record.

        The privacy of a released gradient depends on this.

        Parameters
        ----------
        set : set, optional
            If given, the bound is for decisions in this set.
        """

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The Lipschitz constant of the gradient, ridge included; inf for a loss with kinks."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest m for which the loss minus (m/2)||x||^2 is convex for every record."""

    @property
    def kernel(self) -> tuple[int, FloatArray] | None:
        """Kind and parameters of the compiled scalar loss; None if there is no compiled form."""
        return None

    def lipschitz(self, set: DecisionSet | None = None) -> float:
        """The largest gradient norm of the whole loss, ridge included.

        Parameters
        ----------
        set : set, optional
            If given, the bound is for decisions in this set.
        """
        if self.ridge == 0.0:
            return self.data_lipschitz(set)
        return self.data_lipschitz(set) + self.ridge * norm_bound(set)

    def curvature(self, set: DecisionSet) -> float:
        """An upper bound on Frank-Wolfe's curvature constant.

        Parameters
        ----------
        set : set
            The set of decisions.
        """
        return self.smoothness * float(set.diameter) ** 2

    def values(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        """The loss of every record, ridge included.

        Parameters
        ----------
        x : array
            The decision.
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n, optional
            The labels, if the loss has labels.
        """
        rows = dense_rows(A)
        labels = [None] * len(rows) if y is None else y
        return np.array([self.value(x, a, b) for a, b in zip(rows, labels, strict=True)])

    def mean_value(self, x: FloatArray, A: Any, y: Any = None) -> float:
        """The mean loss over all records, ridge included.

        Parameters
        ----------
        x : array
            The decision.
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n, optional
            The labels, if the loss has labels.
        """
        return float(np.mean(self.values(x, A, y)))

    def mean_gradient(self, x: FloatArray, A: Any, y: Any = None) -> FloatArray:
        """The mean gradient over all records, ridge included.

        Parameters
        ----------
        x : array
            The decision.
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n, optional
            The labels, if the loss has labels.
        """
        rows = dense_rows(A)
        labels = [None] * len(rows) if y is None else y
        total = np.zeros_like(x, dtype=np.float64)
        for a, b in zip(rows, labels, strict=True):
            total += self.gradient(x, a, b)
        return total / len(rows)

    def prepare(self, A: Any, y: Any = None) -> tuple[Any, Any, ClipCounts]:
        """Check records and clip them to the stated bounds; count those that exceeded them.

        Parameters
        ----------
        A : array or sparse matrix of shape (n, dim)
            The features, one row for each record.
        y : array of length n, optional
            The labels, if the loss has labels.

        Returns
        -------
        A, y, counts
            The records, and how many exceeded the bounds: a diagnostic that is not private.
        """
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
    # A user-defined set may know only its diameter, which together with any of its points bounds the norm.
    point = np.asarray(set.linear_minimizer(np.ones(set.dim))).ravel()  # type: ignore[attr-defined]
    return float(np.linalg.norm(point)) + float(set.diameter)


def dense_rows(A: Any) -> Any:
    """The records as an object whose rows are dense vectors."""
    return A.toarray() if hasattr(A, "toarray") else A
