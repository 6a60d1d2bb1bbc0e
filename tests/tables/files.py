"""Tables in files of each kind, fits of them, and fits that are refused without a charge."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import tables
from reticent.tables import TableError

pa = pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def records(count=6000, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, columns)).astype(np.float32)
    y = np.where(X @ np.arange(1.0, columns + 1.0) + rng.standard_normal(count) > 0, "yes", "no")
    return X, y


def as_arrow(X, y):
    return pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})


def write(folder, X, y, kind):
    """The table in two files of the kind, and what opens them."""
    half = len(X) // 3
    for name, part in (("a", slice(None, half)), ("b", slice(half, None))):
        if kind == "parquet":
            pq.write_table(
                as_arrow(X[part], y[part]), folder / f"{name}.parquet", row_group_size=700
            )
        elif kind == "arrow":
            with pa.ipc.new_file(folder / f"{name}.arrow", as_arrow(X, y).schema) as sink:
                sink.write_table(as_arrow(X[part], y[part]), max_chunksize=700)
        else:
            whole = np.column_stack([X[part], (y[part] == "yes").astype(np.float32)])
            np.save(folder / f"{name}.npy", whole)
    return tables.open(folder, target=-1 if kind == "npy" else "y")


def logistic(**more):
    return reticent.PrivateLogisticRegression(
        feature_norm=3.0, random_state=0, scaling="none", **more
    )


def refused(words, X, y, model=None, error=TableError):
    with reticent.Ledger(reticent.Budget(9.0, 1e-3)) as ledger, pytest.raises(error, match=words):
        (model or logistic(classes=["no", "yes"])).fit(X, y)
    assert ledger.entries == ()
