"""What all scikit-learn faces share: features and labels read, a seed, and a fit that is charged, and all or nothing.

Public scikit-learn interface only (`BaseEstimator`, `validate_data`, tags).

The list of classes is part of what is released. Read off the labels it is a release that nothing
protects, so a face takes ``classes=`` and says so where it was not given.
"""

from __future__ import annotations

import contextlib
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
from reticent.estimators import parameters
from reticent.estimators.units import Units, in_labels, to_unit
from reticent.losses.records import as_it_is, clip_labels
from reticent.privacy import scope
from reticent.solve.blocks import Lazy, block_size, ends

FloatArray = NDArray[np.float64]

LEAK = "the list of classes was read off the labels, which nothing protects; give classes="
PRECISIONS = [np.float64, np.float32]
"""Of features that can be read as they are."""
_LABELS = 2**16
"""Labels that are looked at at a time."""
_SHOWN = 5
"""Columns that a refusal names."""


class Charged(BaseEstimator):
    """Base of the estimators that release something: fits are charged to the ledger around them, also those of clones.

    scikit-learn fits clones: grid search and cross-validation make them where they are called and fit them in threads,
    in processes or on other machines, where the caller's ledger is not at hand. So a clone remembers the ledgers that
    it was made inside, and takes them along when it is pickled.
    """

    _ledgers: scope.Stack  # set on clones only: the ledgers that they were made inside

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever is refused leaves the estimator as it was."""
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
        # One that is yet to be fitted may be on its way to a worker after its ledger was closed.
        if "_ledgers" in state and "guarantee_" in state:
            state["_ledgers"] = scope.to_deploy(state["_ledgers"])
        return state


class FittedEstimator(Charged):
    """Base of the scikit-learn faces."""

    random_state: Any
    _units: Units
    coef_: FloatArray
    intercept_: Any
    n_features_in_: int
    _precisions: ClassVar[list[Any]] = [np.float64]
    """Of features that are left as they are; others become the first of these."""

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
        """As learnt: a feature vector beyond the norm is shortened when predicting too."""
        return self._units.clipped(X)

    def _predictors(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        W = np.atleast_2d(self.coef_).T
        return np.concatenate(
            [self._clip(rows) @ W + self.intercept_ for rows in self._in_blocks(X)]
        )

    def _in_blocks(self, X: Any) -> Iterator[Any]:
        """Rows in double precision, some at a time."""
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


def lazily(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Arrays of a cluster or a device as what a fit reads in blocks; anything else as it is."""
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
"""Libraries whose tables lie in this process's memory."""


@dataclass(frozen=True)
class Unlabelled:
    """A check of labels for what needs none."""

    by_value: ClassVar[bool] = True

    def __call__(self, y: Any, start: int) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """A check of labels that can be sent to where they lie: each is one of the classes.

    Parameters
    ----------
    classes : array
        Sorted.
    """

    classes: Any
    by_value: ClassVar[bool] = True
    """Whether it is enough to look at each value once."""

    def __call__(self, y: Any, start: int) -> float:
        self.places(y, start)
        return 0.0

    def places(self, y: Any, start: int) -> NDArray[np.int64]:
        """The place of each label in the list of classes."""
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
    """The same for numbers: each is finite; returns how many are beyond the bounds.

    Parameters
    ----------
    low : float
        The lower bound.
    high : float
        The upper bound.
    """

    low: float
    high: float
    by_value: ClassVar[bool] = False

    def __call__(self, y: Any, start: int) -> float:
        if y.dtype.kind not in "iufb" or not np.isfinite(y).all():
            raise ValueError(
                f"the labels must be finite numbers, and not all of the {len(y)} from number {start} on are; "
                "nothing was learnt"
            )
        return float(np.count_nonzero(y < self.low) + np.count_nonzero(y > self.high))


class Classes:
    """Labels of classes, for a face."""

    classes: Any
    classes_: Any

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        X, y = self._features(X, y, reset=reset, numeric=False)  # type: ignore[attr-defined]
        if reset and self.classes is None:  # later labels must be among the classes
            with warnings.catch_warnings():
                # It may warn of how many classes there are, which is theirs to know.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                check_classification_targets(_distinct(y))
        return X, y

    def _set_classes(self, labels: Any) -> None:
        self.classes_ = _distinct(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only, {self.classes_.tolist()}; a classifier needs at least two "
                "classes: give classes="
            )

    def _numbers(self, y: Any) -> NDArray[Any]:
        """The place of each label in the list of classes, in as few bytes as it takes."""
        found = np.empty(len(y), dtype=np.min_scalar_type(len(self.classes_)))
        for start in range(0, len(y), _LABELS):
            part = y[start : start + _LABELS]
            found[start : start + len(part)] = self._places(part, start)
        return found

    def _places(self, y: Any, start: int) -> NDArray[np.int64]:
        return KnownClasses(self.classes_).places(y, start)

    def _pick(self, z: FloatArray) -> Any:
        """The class of the largest predictor, or by its sign where there is one only."""
        return self.classes_[(z[:, 0] > 0.0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)]

    def decision_function(self, X: Any) -> FloatArray:
        """The linear predictor: of the second class where there are two, else of every class."""
        z: FloatArray = self._predictors(X)  # type: ignore[attr-defined]
        return z[:, 0] if len(self.classes_) == 2 else z

    def predict(self, X: Any) -> Any:
        return self._pick(self._predictors(X))  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # A few hundred records at epsilon = 1 do not make a good model, nor should they.
        tags.classifier_tags.poor_score = True
        return tags


class Bounded:
    """Labels within stated bounds, for a face."""

    label_bounds: Any
    _bounds: tuple[float, float]
    coef_: FloatArray
    intercept_: Any

    def _to_unit(self, y: Any, found: tuple[float, float] | None = None) -> tuple[FloatArray, int]:
        """Labels in [-1, 1], and how many were clipped; bounds that were found take the place of stated ones."""
        low, high = self._bounds = found or parameters.CHECKS["label_bounds"](
            self.label_bounds,
            "label_bounds",
        )
        y, beyond = clip_labels(real_labels(y), low, high)
        return to_unit(y, low, high), beyond

    def _label_bounds(self, found: tuple[float, float] | None) -> None:
        """Set the bounds that predictions stay within, where labels are not moved here."""
        self._bounds = found or (0.0, 0.0)

    def _set_line(self, coefficients: FloatArray, intercept: float) -> None:
        """``coef_`` and ``intercept_``, from those for labels in [-1, 1]."""
        self.coef_, self.intercept_ = in_labels(coefficients, intercept, *self._bounds)

    def predict(self, X: Any) -> FloatArray:
        """Predictions, kept within ``label_bounds``."""
        return np.clip(self._predictors(X)[:, 0], *self._bounds)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # A few hundred records at epsilon = 1 do not make a good model, nor should they.
        tags.regressor_tags.poor_score = True
        return tags


def _distinct(labels: Any) -> Any:
    """All values there are, sorted; some labels at a time, which stay in the cache."""
    y = np.asarray(labels)
    if y.ndim != 1 or len(y) <= _LABELS:
        return np.unique(y)
    return np.unique(
        np.concatenate([np.unique(y[start:stop]) for start, stop in ends(len(y), _LABELS)])
    )


def _doubles(rows: Any) -> FloatArray:
    return np.ascontiguousarray(rows, dtype=np.float64)


def shares(p: FloatArray) -> FloatArray:
    """Probabilities from those of one classifier, or of one against the rest for every class."""
    if p.shape[1] == 1:
        return np.hstack([1.0 - p, p])
    p = np.maximum(p, np.finfo(float).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """What `sklearn.utils.validation.validate_data` returns.

    Its own refusals print cells of private tables, leave it open which column is meant, and advise to fit an imputer,
    which would read the data.
    """
    for name, given in zip(("X", "y"), (X, *y), strict=False):
        checks.refuse_masked(given, name)
    try:
        return validate_data(estimator, X, *y, **options)
    except (TypeError, ValueError) as error:
        words = _refusal(X, str(error))
        if words is None:
            raise
        raise ValueError(words) from None


def real_labels(y: Any) -> NDArray[np.float64]:
    """Labels of a regression as numbers; the refusal quotes none of them."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "y must hold numbers; for labels that are words use a classifier"
        ) from None


def _refusal(X: Any, said: str) -> str | None:
    """What is wrong with a table, or None where scikit-learn said it well enough."""
    if isinstance(X, str | os.PathLike):
        return (
            f"X must be a table of numbers, got the path {os.fspath(X)!r}; read it first, with reticent.tables.open or "
            "reticent.tables.read"
        )
    if type(X).__name__ == "LazyFrame":
        return "X is a query that was not run yet; give X.collect()"
    if said.startswith("Expected 2D array, got 1D array"):
        return (
            "Expected 2D array, got 1D array instead: X has one number per record. Reshape your data: "
            "X.reshape(-1, 1) is a table with one column, X.reshape(1, -1) one with a single record"
        )
    if said.startswith(("Input X contains NaN", "Input X contains infinity")):
        where = _named(X, _holds_what_is_not_finite)
        return (
            f"{said.splitlines()[0].rstrip('.')}{where and f' in {where}'}; X must hold finite numbers. Replace "
            "missing ones by a constant that is known without the data: an imputer that is fitted reads private records"
        )
    if said.startswith("Complex data not supported"):
        return "X must hold real numbers, and something in it is complex; X.real leaves out the imaginary parts"
    if "could not convert" in said or "could not be promoted" in said:
        where = _named(X, _holds_no_numbers)
        if not where:
            return None
        return (
            f"X must hold numbers; something else is in {where}. Turn text, categories and dates into numbers by "
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
    """The columns that are wrong, in words; nothing where they cannot be told."""
    if sp.issparse(X):
        return ""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if names is None:
        # an array as it is: as objects, a large one would need several times its memory
        rows = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        columns = {} if rows.ndim != 2 else dict(enumerate(rows.T))
    else:
        columns = {name: np.asarray(X[name]) for name in names}
    found = [repr(name) for name, column in columns.items() if wrong(column)]
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"column{'s' * (len(found) > 1)} {', '.join(found[:_SHOWN])}{more}"
