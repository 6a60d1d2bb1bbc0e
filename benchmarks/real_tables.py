"""Real tables for comparisons of accuracy: features between declared bounds, labels, at most 20,000 records.

Files come from the folder that RETICENT_DATA names, else ``../shared/data`` beside the checkout; others are bundled
with scikit-learn and River. Bounds of numeric columns are the smallest and largest value, rounded outward.
They stand in for what an owner would know of the columns (ages up to 100, percentages) and are taken as public, the
same for every entrant; words become columns of zeros and ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from erm_accuracy import folder, sparse

MOST = 20_000


@dataclass(frozen=True)
class RealTable:
    """Features, labels, and what is declared about both."""

    name: str
    X: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    label_bounds: tuple[float, float] | None = None  # of a regression

    def unit(self, rows: Any = slice(None)) -> np.ndarray:
        """Features scaled from the declared bounds to [-1, 1]."""
        half = 0.5 * (self.high - self.low)
        return np.clip((self.X[rows] - self.low) / half - 1.0, -1.0, 1.0)

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Three quarters to learn from, one to test."""
        order = np.random.default_rng(1000 + seed).permutation(len(self.y))
        cut = len(order) * 3 // 4
        return order[:cut], order[cut:]


def outward(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds rounded outward to the leading digit of their difference, and never equal."""
    low, high = np.atleast_1d(np.min(values, axis=0)), np.atleast_1d(np.max(values, axis=0))
    span = np.where(high > low, high - low, 1.0).astype(float)
    unit = 10.0 ** np.floor(np.log10(span))
    lows, highs = np.floor(low / unit + 1e-9) * unit, np.ceil(high / unit - 1e-9) * unit
    return lows, np.where(highs > lows, highs, lows + 1.0)


def _make(name: str, X: Any, y: Any, regression: bool) -> RealTable:
    X = np.asarray(X, float)
    keep = np.random.default_rng(7).permutation(len(X))[:MOST]
    low, high = outward(X)
    bounds = tuple(float(end[0]) for end in outward(np.asarray(y, float))) if regression else None
    return RealTable(name, np.ascontiguousarray(X[keep]), np.asarray(y)[keep], low, high, bounds)  # type: ignore[arg-type]


def _frame(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[np.ndarray, Any]:
    import pandas as pd

    frame = pd.read_parquet(folder() / f"{name}.parquet")
    frame = frame[frame[target].notna()]
    y = frame.pop(target)
    frame = frame.drop(columns=[c for c in (*drop, "split") if c in frame])
    numbers = frame.select_dtypes("number").fillna(0)
    words = frame.drop(columns=numbers.columns).astype(str)
    words = words[[c for c in words if words[c].nunique() <= 60]]
    parts = [numbers.to_numpy(float)]
    if len(words.columns):
        parts.append(pd.get_dummies(words).to_numpy(float))
    return np.hstack(parts), y


def _regression(name: str, target: str, *drop: str, change: Any = None) -> Callable[[], Any]:
    def load() -> Any:
        X, y = _frame(name, target, drop)
        y = y.to_numpy(float)
        return X, y if change is None else change(y)

    return load


def _classes(name: str, target: str, yes: Any, *drop: str) -> Callable[[], Any]:
    def load() -> Any:
        X, y = _frame(name, target, drop)
        return X, yes(y).to_numpy(int)

    return load


def _sklearn(name: str) -> Callable[[], Any]:
    def load() -> Any:
        import sklearn.datasets

        return getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)

    return load


def _river(name: str) -> Callable[[], Any]:
    def load() -> Any:
        import river.datasets

        rows, labels = zip(*getattr(river.datasets, name)(), strict=True)
        names = [key for key, value in rows[0].items() if isinstance(value, int | float)]
        X = np.array([[float(row[key]) for key in names] for row in rows])
        _, numbers = np.unique(np.array(labels).astype(str), return_inverse=True)
        return X, numbers

    return load


def _npz(name: str) -> Callable[[], Any]:
    def load() -> Any:
        X, y = sparse(name)
        return X.toarray(), (y > 0).astype(int)

    return load


def _flights() -> Any:
    X, y = _frame(
        "nycflights13", "arr_delay",
        ("year", "dep_time", "dep_delay", "arr_time", "air_time", "flight", "time_hour", "tailnum", "dest"),
    )  # fmt: skip
    return X, y.to_numpy(float)


REGRESSION: dict[str, Callable[[], Any]] = {
    "california": _regression("california_housing", "MedHouseVal"),
    "wine": _regression("wine_quality", "quality"),
    "protein": _regression("protein_casp", "target"),
    "bike": _regression("bike_sharing_hour", "cnt", "instant", "dteday", "casual", "registered"),
    "beijing": _regression("beijing_pm25", "pm2.5", "No"),
    "sgemm": _regression(
        "sgemm_gpu", "Run1 (ms)", "Run2 (ms)", "Run3 (ms)", "Run4 (ms)", change=np.log
    ),
    "blog": _regression("blogfeedback", "target", change=np.log1p),
    "indoor": _regression(
        "ujiindoorloc", "LONGITUDE", "LATITUDE", "TIMESTAMP", "USERID", "PHONEID", "FLOOR", "BUILDINGID",
        "SPACEID", "RELATIVEPOSITION",
    ),
    "flights": _flights,
    "songs": _regression("yearpredictionmsd_first1176", "year"),
    "diabetes": _sklearn("diabetes"),
}  # fmt: skip

CLASSIFICATION: dict[str, Callable[[], Any]] = {
    "adult": _classes("adult", "income", lambda y: y.astype(str).str.contains(">50K")),
    "bank": _classes("bank_marketing", "y", lambda y: y.astype(str) == "yes", "duration"),
    "credit": _classes("default_credit_vfl", "y", lambda y: y == 1, "id"),
    "hospital": _classes(
        "diabetes130", "readmitted", lambda y: y.astype(str) == "<30", "encounter_id", "patient_nbr"
    ),
    "covertype": _classes("covertype", "Cover_Type", lambda y: y == 2),
    "rare cover": _classes("covertype", "Cover_Type", lambda y: y == 4),
    "electricity": _classes("electricity_elec2", "price_up", lambda y: y == 1),
    "higgs": _classes("higgs_7500", "label", lambda y: y == 1),
    "intrusion": _classes("kddcup99_10pct", "label", lambda y: y.astype(str) != "normal."),
    "a9a": _npz("a9a"),
    "w8a": _npz("w8a"),
    "breast_cancer": _sklearn("breast_cancer"),
    "phishing": _river("Phishing"),
}

SEVERAL: dict[str, Callable[[], Any]] = {
    "digits": _sklearn("digits"),
    "segments": _river("ImageSegments"),
    "cover types": _classes("covertype", "Cover_Type", lambda y: y),
}


@functools.cache
def table(name: str) -> RealTable:
    """One table by name; FileNotFoundError where its file is not there."""
    if name in REGRESSION:
        return _make(name, *REGRESSION[name](), regression=True)
    load = CLASSIFICATION.get(name) or SEVERAL[name]
    return _make(name, *load(), regression=False)
