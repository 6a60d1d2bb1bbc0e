"""Validation of features like scikit-learn's, with messages that name the column and the remedy and quote no record."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from reticent import checks

_SHOWN = 5
"""Largest number of columns that a message names."""


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """The result of `sklearn.utils.validation.validate_data`, with better error messages.

    scikit-learn's messages print cells of private tables, do not say which column is meant, and recommend fitting an
    imputer, which would read the data.
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
    """Labels of a regression as numbers; the error message quotes none of them."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers; for labels that are text use a classifier") from None


def _refusal(X: Any, said: str) -> str | None:
    """What is wrong with a table, or None if scikit-learn's message is good enough."""
    if isinstance(X, str | os.PathLike):
        return (
            f"X must be a table of numbers, got the path {os.fspath(X)!r}; read it first, with "
            "reticent.tables.open or reticent.tables.read"
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
        return "X must hold real numbers, and something in it is complex; X.real leaves out the imaginary parts"
    if "could not convert" in said or "could not be promoted" in said:
        where = _named(X, _holds_no_numbers)
        if not where:
            return None
        return (
            f"X must hold numbers; something else is in {where}. Convert text, categories and dates by values that are "
            "known without the data: OneHotEncoder(categories=[...]), or a schema and reticent.tables.Encoder"
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
