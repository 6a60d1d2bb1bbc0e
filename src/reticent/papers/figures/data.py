"""The real data of the figures: read from a folder or, if there is none, replaced by a bundled data set.

The folder is named by the environment variable RETICENT_DATA, else it is ``shared/data`` next to the checkout. Every
column is scaled by public knowledge about it, never by the content of the file. The data that a figure used are part of
its settings, so a result made with replacement data is never mistaken for one with the real data.
"""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from reticent.checks import FloatArray

Records = tuple[FloatArray, FloatArray]

FILES = {
    "covertype": "covertype.parquet",
    "flights": "nycflights13.parquet",
    "blog": "blogfeedback.parquet",
}
# River's and scikit-learn's own copies, for machines without the folder
BUNDLED = {"covertype": "shuttle", "flights": "diabetes", "blog": "trump"}
CARRIERS = [
    "9E",
    "AA",
    "AS",
    "B6",
    "DL",
    "EV",
    "F9",
    "FL",
    "HA",
    "MQ",
    "OO",
    "UA",
    "US",
    "VX",
    "WN",
    "YV",
]


def folder() -> Path | None:
    """The folder of the real data; None if there is none."""
    named = os.environ.get("RETICENT_DATA")
    place = Path(named) if named else Path(__file__).resolve().parents[5] / "shared" / "data"
    return place if place.is_dir() else None


def available(name: str) -> str:
    """The name of the data set if it can be read, else that of the bundled one that replaces it."""
    place = folder()
    return name if place is not None and (place / FILES[name]).exists() else BUNDLED[name]


def records(name: str) -> Records:
    """Rows of norm at most 1 and labels within [-1, 1], in the order of the source."""
    return _LOADERS[name]()


def _table(name: str) -> Any:
    place = folder()
    if place is None or not (place / FILES[name]).exists():
        raise FileNotFoundError(
            f"{FILES[name]} was not found; name its folder in the environment variable RETICENT_DATA"
        )
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Parquet files need pip install pyarrow pandas") from error
    return pandas.read_parquet(place / FILES[name])


def covertype() -> Records:
    """Lodgepole pine against the rest; documented ranges, a constant appended."""
    frame = _table("covertype")
    X = np.asarray(frame.iloc[:, :54], dtype=float)
    low = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0] + [0] * 44, dtype=float)
    high = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173] + [1] * 44, dtype=float)
    X = (X - low) / (high - low)
    X[:, :10] -= 0.5
    X = np.column_stack([X, np.ones(len(X))])
    X /= math.sqrt(10 * 0.25 + 2 + 1)  # ten halves, two flags and the constant: at most 1
    kind = np.asarray(frame["Cover_Type"])
    return X, np.where(kind == 2, 1.0, -1.0)


def flights() -> Records:
    """Arrival delay in units of three hours, from what is known before departure, in order of time."""
    frame = _table("flights")
    frame = frame.dropna(subset=["arr_delay"]).sort_values("time_hour", kind="stable")
    hour, month = frame["hour"].to_numpy(float), frame["month"].to_numpy(float)
    parts = [
        np.ones(len(frame)),
        frame["distance"].to_numpy(float) / 5000.0,
        np.sin(hour * math.pi / 12),
        np.cos(hour * math.pi / 12),
        hour / 24,
        np.sin(month * math.pi / 6),
        np.cos(month * math.pi / 6),
    ]
    for column, names in (("origin", ["EWR", "JFK", "LGA"]), ("carrier", CARRIERS)):
        parts += [(frame[column] == name).to_numpy(float) for name in names]
    X = np.column_stack(parts) / math.sqrt(7.0)
    return X, np.clip(frame["arr_delay"].to_numpy(float), -60, 180) / 180.0


def blog() -> Records:
    """Comments on a blog post during the next day, on a logarithmic scale, from 62 counts."""
    frame = _table("blog")
    X = np.log1p(np.abs(np.asarray(frame.iloc[:, :62], dtype=float)))
    X = np.column_stack([X / 8.0, np.ones(len(X))])
    target = np.log1p(np.asarray(frame["target"], dtype=float)) / 8.0
    return shorten(X), target


def shuttle() -> Records:
    """NASA's Shuttle telemetry, which River carries: anomalies against the rest."""
    features, labels = _river("Shuttle")
    X = np.column_stack([np.clip(features / 150.0, -1, 1), np.ones(len(features))])
    return X / math.sqrt(10.0), np.where(labels > 0, 1.0, -1.0)


def diabetes() -> Records:
    """Progression of diabetes, which scikit-learn carries: 442 records, a very short stream."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return shorten(np.column_stack([X, np.ones(len(X)) / 2])), np.clip(y / 350.0, 0, 1)


def trump() -> Records:
    """Approval ratings, which River carries: 1,001 records, a very short stream."""
    features, labels = _river("TrumpApproval")
    X = np.column_stack([features[:, 1:] / 100.0, np.ones(len(features))])
    return shorten(X / math.sqrt(2.0)), np.clip(labels / 100.0, 0, 1)


def _river(name: str) -> Records:
    try:
        from river import datasets
    except ImportError as error:
        raise ImportError(
            "the bundled stand-in streams need pip install river, or name a folder with "
            "the real data in the environment variable RETICENT_DATA"
        ) from error
    pairs = list(getattr(datasets, name)())
    features = np.array([[float(v) for v in x.values()] for x, _ in pairs])
    return features, np.array([float(y) for _, y in pairs])


def shorten(X: FloatArray) -> FloatArray:
    """Scale rows that are longer than 1 down to norm 1."""
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


_LOADERS = {
    made.__name__: functools.lru_cache(maxsize=1)(made)
    for made in (covertype, flights, blog, shuttle, diabetes, trump)
}
