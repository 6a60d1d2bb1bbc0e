"""Base classes of all scikit-learn estimators: input validation, seeds, ledgers, and fits that change all or nothing.

Only scikit-learn's public interface is used (`BaseEstimator`, `validate_data`, tags).

The list of classes is published with the model. Read from the labels it would be an unprotected release, so classifiers
take ``classes=`` and warn if it was not given.
"""

from __future__ import annotations

import contextlib
import operator
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent import checks
from reticent.checks import FloatArray
from reticent.estimators import parameters
from reticent.estimators.scaling import Units, in_labels, to_unit
from reticent.losses.records import as_it_is, clip_labels
from reticent.privacy import scope
from reticent.solve.blocks import Lazy, block_size, ends

LEAK = "the list of classes was read off the labels, which no guarantee covers; give classes="
PRECISIONS = [np.float64, np.float32]
"""Types of features that can be read without a copy."""
_LABELS = 2**16
"""Number of labels per block."""
_SHOWN = 5
"""Number of columns that a refusal names."""


class Charged(BaseEstimator):
    """Base of the estimators that release something: every fit, also of a clone, is charged to the ledger around it.

    scikit-learn's grid search and cross-validation make clones in the caller's thread and fit them in other threads,
    processes or machines, where the caller's ledger is not open. A clone therefore remembers the ledgers inside which
    it was made, and keeps them when it is pickled.
    """

    _ledgers: scope.Stack  # only on clones: the ledgers inside which the clone was made

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the estimator if the block raises; what was charged before stays charged."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _paying(self) -> AbstractContextManager[None]:
        """Inside, releases are charged to the ledgers that this estimator remembers."""
        return scope.fitting(vars(self).get("_ledgers"))

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._ledgers = scope.to_remember(vars(self).get("_ledgers", ()))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # An estimator that is not fitted yet may be sent to a worker after its ledger was closed.
        if "_ledgers" in state and "guarantee_" in state:
            state["_ledgers"] = scope.to_deploy(state["_ledgers"])
        return state


class FittedEstimator(Charged):
    """Base of the scikit-learn estimators that have coefficients."""

    random_state: Any
    _units: Units
    coef_: FloatArray
    intercept_: Any
    n_features_in_: int
    _precisions: ClassVar[list[Any]] = [np.float64]
    """Types of features that are kept; other types are converted to the first of these."""

    def _seed(self) -> int | None:
        state = self.random_state
        if state is None:
            return None
        if isinstance(state, int | np.integer) and not isinstance(state, bool | np.bool_):
            return parameters.CHECKS["seed"](state, "random_state")
        return int(check_random_state(state).randint(2**31 - 1))

    def _features(self, X: Any, y: Any, *, reset: bool, numeric: bool) -> tuple[Any, Any]:
        for array in (X, y):
            checks.check_whole(array)
        X, y = validated(
            self, X, y, reset=reset, accept_sparse="csr", dtype=self._precisions, y_numeric=numeric
        )
        if sp.issparse(X):
            return as_it_is(X), y
        return (X if np.float32 in self._precisions else np.ascontiguousarray(X)), y

    def _clip(self, X: Any) -> Any:
        """Clip features as in training: prediction scales long feature vectors down too."""
        return self._units.clipped(X)

    def _predictors(self, X: Any, *, in_turn: bool = False) -> FloatArray:
        """The linear predictors; ``in_turn`` if that of a record must not depend on the number of records."""
        check_is_fitted(self)
        W = np.atleast_2d(self.coef_).T
        product = _product_in_turn if in_turn else operator.matmul
        return np.concatenate(
            [product(self._clip(rows), W) + self.intercept_ for rows in self._in_blocks(X)]
        )

    def _predicted_in_turn(self, X: Any) -> Any:
        """What ``predict`` returns, if a record's prediction must not depend on the number of records."""
        return self._pick(self._predictors(X, in_turn=True))

    def _in_blocks(self, X: Any) -> Iterator[Any]:
        """Blocks of rows, in double precision."""
        X = lazily(X)[0]
        if isinstance(X, Lazy):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            yield from map(_doubles, X.blocks())
            return
        checks.check_whole(X)
        X = validated(self, X, reset=False, accept_sparse="csr", dtype=PRECISIONS)
        for start, stop in ends(*block_size(X)):
            rows = X[start:stop]
            yield sp.csr_array(rows, dtype=np.float64) if sp.issparse(rows) else _doubles(rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


def _product_in_turn(rows: Any, W: FloatArray) -> FloatArray:
    """``rows @ W``, each row in one order of operations; BLAS chooses it by the number of rows and a row's place."""
    if sp.issparse(rows):
        found: FloatArray = rows @ W
        return found
    out = np.zeros((rows.shape[0], W.shape[1]))
    for column, weights in zip(rows.T, W, strict=True):
        out += column[:, None] * weights
    return out


def lazily(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Wrap arrays of a cluster or a device in a table that is read in blocks; return anything else unchanged."""
    library = type(X).__module__.split(".")[0]
    if library in _AT_HAND or isinstance(X, Lazy):
        return X, y
    from reticent.tables.elsewhere import adapted

    return adapted(X, y)


def set_features(estimator: Any, X: Lazy) -> None:
    """What `validate_data` sets from a table in memory: how many features there are, and their names."""
    estimator.n_features_in_ = X.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)
    if X.names is not None:
        estimator.feature_names_in_ = np.array(X.names, dtype=object)


_AT_HAND = ("builtins", "numpy", "scipy", "pandas", "polars", "pyarrow")
"""Libraries whose tables are in this process's memory."""


@dataclass(frozen=True)
class Unlabelled:
    """A check of labels that accepts everything."""

    by_value: ClassVar[bool] = True

    def __call__(self, y: Any, start: int) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """Check that every label is one of the classes. Picklable, so that it can run where the labels are.

    Parameters
    ----------
    classes : array
        The classes, sorted.
    """

    classes: Any
    by_value: ClassVar[bool] = True
    """Whether it is enough to check each distinct value once."""

    def __call__(self, y: Any, start: int) -> float:
        self.places(y, start)
        return 0.0

    def places(self, y: Any, start: int) -> NDArray[np.int64]:
        """The index of each label in the list of classes."""
        try:
            number = np.searchsorted(self.classes, y)
        except TypeError:
            raise ValueError(
                f"y holds labels that cannot be compared with the classes {self.classes.tolist()}; "
                "give labels of one type. Nothing was learnt from these records"
            ) from None
        number[number == len(self.classes)] = 0
        wrong = np.flatnonzero(self.classes[number] != y)
        if wrong.size:
            raise ValueError(
                f"y[{start + wrong[0]}], a {type(y[wrong[0]]).__name__}, is not one of the classes "
                f"{self.classes.tolist()}; nothing was learnt from these records"
            )
        return np.asarray(number)


@dataclass(frozen=True)
class FiniteLabels:
    """Check that every label is a finite number, and count those beyond the bounds.

    Parameters
    ----------
    low : float
        Lower bound.
    high : float
        Upper bound.
    """

    low: float
    high: float
    by_value: ClassVar[bool] = False

    def __call__(self, y: Any, start: int) -> float:
        if y.dtype.kind not in "iufb" or not np.isfinite(y).all():
            raise ValueError(
                f"y must hold finite numbers, and not all of y[{start}:{start + len(y)}] are; "
                "nothing was learnt"
            )
        return float(np.count_nonzero(y < self.low) + np.count_nonzero(y > self.high))


class Classes:
    """Mixin of the classifiers: handling of class labels."""

    classes: Any
    classes_: Any

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        X, y = self._features(X, y, reset=reset, numeric=False)  # type: ignore[attr-defined]
        if reset and self.classes is None:  # later labels must be among the classes
            with warnings.catch_warnings():
                # scikit-learn's warning about the number of classes reads private labels
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                check_classification_targets(_distinct(y))
        return X, y

    def _set_classes(self, labels: Any) -> None:
        self.classes_ = _distinct(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds only one class, {self.classes_.tolist()}, and a classifier needs at least two; list "
                "them with classes="
            )

    def _numbers(self, y: Any) -> NDArray[Any]:
        """The index of each label in the list of classes, in the smallest type that fits."""
        found = np.empty(len(y), dtype=np.min_scalar_type(len(self.classes_)))
        for start in range(0, len(y), _LABELS):
            part = y[start : start + _LABELS]
            found[start : start + len(part)] = self._places(part, start)
        return found

    def _places(self, y: Any, start: int) -> NDArray[np.int64]:
        return KnownClasses(self.classes_).places(y, start)

    def _pick(self, z: FloatArray) -> Any:
        """The class with the largest predictor; with a single predictor, its sign decides."""
        return self.classes_[(z[:, 0] > 0.0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)]

    def decision_function(self, X: Any) -> FloatArray:
        """The linear predictors of every class, or of the second class if there are two.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            With two classes one number per record, positive for the second class.
        """
        z: FloatArray = self._predictors(X)  # type: ignore[attr-defined]
        return z[:, 0] if len(self.classes_) == 2 else z

    def predict(self, X: Any) -> Any:
        """The predicted class of each record.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.

        Returns
        -------
        array of shape (n_samples,)
            Class labels.
        """
        return self._pick(self._predictors(X))  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # A few hundred records at epsilon = 1 cannot give a good model.
        tags.classifier_tags.poor_score = True
        return tags


class Bounded:
    """Mixin of the regressors: labels within stated bounds."""

    label_bounds: Any
    _bounds: tuple[float, float]
    coef_: FloatArray
    intercept_: Any

    def _to_unit(self, y: Any, found: tuple[float, float] | None = None) -> tuple[FloatArray, int]:
        """Labels mapped to [-1, 1], and how many were clipped; ``found`` replaces the stated bounds."""
        low, high = self._bounds = found or parameters.CHECKS["label_bounds"](
            self.label_bounds,
            "label_bounds",
        )
        y, beyond = clip_labels(real_labels(y), low, high)
        return to_unit(y, low, high), beyond

    def _label_bounds(self, found: tuple[float, float] | None) -> None:
        """Set the bounds of predictions, if labels are not mapped to [-1, 1] here."""
        self._bounds = found or (0.0, 0.0)

    def _set_line(self, coefficients: FloatArray, intercept: float) -> None:
        """Set ``coef_`` and ``intercept_`` from coefficients for labels in [-1, 1]."""
        self.coef_, self.intercept_ = in_labels(coefficients, intercept, *self._bounds)

    def _pick(self, z: FloatArray) -> FloatArray:
        return np.clip(z[:, 0], *self._bounds)

    def predict(self, X: Any) -> FloatArray:
        """Predicted labels, clipped to ``label_bounds``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.

        Returns
        -------
        array of shape (n_samples,)
            Predictions.
        """
        return self._pick(self._predictors(X))  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # A few hundred records at epsilon = 1 cannot give a good model.
        tags.regressor_tags.poor_score = True
        return tags


def _distinct(labels: Any) -> Any:
    """Sorted distinct values; works in blocks that stay in the processor's cache."""
    y = np.asarray(labels)
    if y.ndim != 1 or len(y) <= _LABELS:
        return np.unique(y)
    return np.unique(
        np.concatenate([np.unique(y[start:stop]) for start, stop in ends(len(y), _LABELS)])
    )


def _doubles(rows: Any) -> FloatArray:
    return np.ascontiguousarray(rows, dtype=np.float64)


def shares(p: FloatArray) -> FloatArray:
    """Class probabilities from that of the second class, or from one-against-the-rest probabilities."""
    if p.shape[1] == 1:
        return np.hstack([1.0 - p, p])
    p = np.maximum(p, np.finfo(float).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """The result of `sklearn.utils.validation.validate_data`, with better error messages.

    scikit-learn's messages print cells of private tables, do not say which column is meant, and recommend fitting an
    imputer, which would read the data.
    """
    for name, given in zip(("X", "y"), (X, *y), strict=False):
        checks.refuse_masked(given, name)
    try:
        # scikit-learn adds all entries up, and a warning of NumPy would tell how large some are
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, X, *y, **options)
    except (TypeError, ValueError) as error:
        words = _refusal(X, str(error))
        if words is None:
            raise
        raise ValueError(words) from None


def real_labels(y: Any) -> NDArray[np.float64]:
    """Labels of a regression as finite numbers; the error message quotes none of them."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers; for labels that are text use a classifier") from None
    # scikit-learn checks neither text nor objects, such as None
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise ValueError(
            f"y must hold finite numbers, and y[{wrong[0]}] is missing or infinite; correct the table. Nothing was "
            "learnt from these records"
        )
    return numbers


def _refusal(X: Any, said: str) -> str | None:
    """What is wrong with a table, or None if scikit-learn's message is good enough."""
    if isinstance(X, str | os.PathLike):
        return (
            f"X must be a table of numbers, got the path {os.fspath(X)!r}; read it first, with reticent.tables.open or "
            "reticent.tables.read"
        )
    if type(X).__name__ == "LazyFrame":
        return "X is a query that was not run yet; pass X.collect()"
    if said.startswith("Expected 2D array, got 1D array"):
        return (
            "Expected 2D array, got 1D array instead: X has one number per record. Reshape your data: "
            "X.reshape(-1, 1) is a table with one column, X.reshape(1, -1) one with a single record"
        )
    if said.startswith(("Input X contains NaN", "Input X contains infinity")):
        where = _named(X, _holds_what_is_not_finite)
        return (
            f"{said.splitlines()[0].rstrip('.')}{where and f' in {where}'}; X must hold finite numbers. Replace "
            "missing values by a constant that is known without the data: fitting an imputer reads private records"
        )
    if said.startswith("Complex data not supported"):
        return (
            "Complex data not supported: X must hold real numbers, and something in it is complex; X.real leaves out "
            "the imaginary parts"
        )
    if "could not convert" in said or "could not be promoted" in said:
        where = _named(X, _holds_no_numbers)
        if not where:
            return None
        return (
            f"X must hold numbers; something else is in {where}. Convert text, categories and dates by "
            "values that are known without the data: OneHotEncoder(categories=[...]), or a schema and "
            "reticent.tables.Encoder"
        )
    return None


def _holds_no_numbers(column: NDArray[Any]) -> bool:
    if column.dtype.kind in "mM":
        return True
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


def _holds_what_is_not_finite(column: NDArray[Any]) -> bool:
    return _holds_no_numbers(column) or not np.isfinite(column.astype(np.float64)).all()


def _named(X: Any, wrong: Callable[[NDArray[Any]], bool]) -> str:
    """The offending columns, in words; empty if they cannot be determined."""
    if sp.issparse(X):
        return ""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if names is None:
        # keep an array's type: as objects, a large one would need several times its memory
        rows = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        columns = {} if rows.ndim != 2 else dict(enumerate(rows.T))
    else:
        columns = {name: np.asarray(X[name]) for name in names}
    found = [repr(name) for name, column in columns.items() if wrong(column)]
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"column{'s' * (len(found) > 1)} {', '.join(found[:_SHOWN])}{more}"
