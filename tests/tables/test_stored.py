"""Tables in files: the same answer as in memory, little memory, and a sentence for whatever is wrong with a file."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import tables
from reticent.tables import TableError, stored

from .files import as_arrow, logistic, records, refused, write

pa = pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy"])
def test_the_same_model_as_in_memory(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_SAMPLE_BYTES", 2**14)  # a part of the records only
    X, y = records()
    rows, labels = write(tmp_path, X, y, kind)
    assert rows.shape == X.shape
    assert rows.dtype == np.float32
    classes = [0.0, 1.0] if kind == "npy" else ["no", "yes"]
    there = logistic(classes=classes).fit(rows, labels)
    here = logistic(classes=["no", "yes"]).fit(X, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5)
    assert there.clipped_ == here.clipped_
    assert str(there.guarantee_) == str(here.guarantee_)
    np.testing.assert_allclose(there.decision_function(rows), there.decision_function(X))
    assert (there.predict(rows) == np.asarray(classes)[(y == "yes").astype(int)]).mean() > 0.8


def test_regression_and_several_classes(tmp_path):
    X, _ = records()
    y = X @ [1.0, 2.0, -1.0, 0.5] / 5.0
    pq.write_table(as_arrow(X, y), tmp_path / "numbers.parquet")
    kwargs = {"feature_norm": 3.0, "label_bounds": (-2, 2), "random_state": 0, "scaling": "none"}
    there = reticent.PrivateLinearRegression(**kwargs).fit(
        *tables.open(tmp_path / "numbers.parquet", "y")
    )
    here = reticent.PrivateLinearRegression(**kwargs).fit(X, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-6)
    assert there.clipped_ == here.clipped_
    classes = np.digitize(y, [-0.3, 0.3])
    pq.write_table(as_arrow(X, classes), tmp_path / "classes.parquet")
    many = logistic(classes=[0, 1, 2]).fit(*tables.open(tmp_path / "classes.parquet", "y"))
    np.testing.assert_allclose(
        many.coef_, logistic(classes=[0, 1, 2]).fit(X, classes).coef_, rtol=1e-5
    )


@pytest.mark.parametrize("solver", ["frank-wolfe", "sufficient-statistics"])
def test_lasso_and_scaler(tmp_path, solver):
    X, _ = records()
    y = X @ [1.0, 2.0, -1.0, 0.5] / 5.0
    pq.write_table(as_arrow(X, y), tmp_path / "numbers.parquet", row_group_size=700)
    table = tables.open(tmp_path / "numbers.parquet", "y")

    def lasso():
        return reticent.PrivateLasso(
            feature_norm=1.5, label_bounds=(-2, 2), solver=solver, random_state=0
        )

    there, here = lasso().fit(*table), lasso().fit(X, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-6)
    assert there.clipped_ == here.clipped_
    assert there.guarantee_.gdp == here.guarantee_.gdp
    there, here = (
        reticent.estimators.PrivateScaler((-2, 2), random_state=0).fit(rows)
        for rows in (table[0], X)
    )
    np.testing.assert_allclose(there.scale_, here.scale_, rtol=1e-9)


def test_classes_read_off_the_labels_are_a_leak(tmp_path):
    X, y = write(tmp_path, *records(), "parquet")
    with pytest.warns(reticent.PrivacyLeakWarning):
        model = logistic().fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert any("list of classes" in line for line in model.guarantee_.caveats)


def test_little_memory(tmp_path, monkeypatch):
    """Python's and NumPy's memory stays far below the table; pyarrow's own is one batch."""
    monkeypatch.setattr(stored, "_SAMPLE_BYTES", 2**19)
    X, y = records(400_000, 16)
    pq.write_table(as_arrow(X, y == "yes"), tmp_path / "t.parquet", row_group_size=50_000)
    size = X.nbytes
    rows, labels = tables.open(tmp_path / "t.parquet", "y")
    logistic(classes=[False, True]).fit(*write_small(tmp_path))  # compiles
    del X, y
    read: list[int] = []
    tracemalloc.start()
    try:
        logistic(classes=[False, True]).fit(rows.watched(read.append), labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * size + 2**23
    passes = sum(read) / rows.table.size
    assert passes == round(passes)
    assert passes <= 15  # the part that is kept is tiny here


def write_small(folder):
    X, y = records(500, 16)
    pq.write_table(as_arrow(X, y == "yes"), folder / "small.parquet")
    return tables.open(folder / "small.parquet", "y")


def test_nan_in_the_last_row_group_spends_nothing(tmp_path):
    X, y = records()
    X[-1, 2] = np.nan
    refused("record 5999 has a feature that is missing", *write(tmp_path, X, y, "parquet"))


def test_bad_labels_spend_nothing(tmp_path):
    X, y = records()
    y[-1] = "oh"
    refused("not one of the classes", *write(tmp_path, X, y, "parquet"), error=ValueError)
    missing = pa.array([None, *y[1:].tolist()])
    table = as_arrow(X, y).set_column(4, "y", missing)
    pq.write_table(table, tmp_path / "missing.parquet")
    refused("a label in .* is missing", *tables.open(tmp_path / "missing.parquet", "y"))


def test_a_memory_map_that_was_cut_short(tmp_path):
    X, y = records()
    np.save(tmp_path / "x.npy", X)
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_allclose(
        logistic(classes=["no", "yes"]).fit(rows, y).coef_,
        logistic(classes=["no", "yes"]).fit(X, y).coef_,
    )
    model = logistic(classes=["no", "yes"]).fit(X, y)
    stream = reticent.OnlineLogisticRegression(classes=["no", "yes"])
    values = sp.csr_array(np.ones((len(rows), 1)))
    values.data = rows[:, 0]
    os.truncate(tmp_path / "x.npy", 5000)
    refused("was truncated: its memory map needs", rows, y, model, ValueError)
    refused("was truncated: its memory map needs", rows[-10:], y[-10:], model, ValueError)
    refused("was truncated: its memory map needs", np.asarray(rows), y, model, ValueError)
    refused("was truncated: its memory map needs", values, y, model, ValueError)
    for act in (model.predict, lambda X: stream.partial_fit(X, y)):
        with pytest.raises(ValueError, match="was truncated: its memory map needs"):
            act(rows)
    assert "yes" in model.predict(X)


def test_a_file_that_changes_between_passes_is_noticed(tmp_path):
    """The budget was charged by then, and nothing is released."""
    X, y = records()
    path = tmp_path / "t.parquet"
    pq.write_table(as_arrow(X, y), path)
    rows, labels = tables.open(path, "y")
    passes = []

    def change(size):
        passes.append(size)
        if len(passes) == 3:
            pq.write_table(as_arrow(X[::-1], y), path)

    with pytest.raises(TableError, match="was changed while it was being read"):
        logistic(classes=["no", "yes"]).fit(rows.watched(change), labels)


def test_what_needs_memory_says_so(tmp_path):
    rows, labels = write(tmp_path, *records(), "npy")
    refused(
        "no sample_weight",
        rows,
        labels,
        logistic(classes=[0, 1], class_weight={0: 2.0}),
        ValueError,
    )
    private = reticent.PrivateLogisticRegression(feature_norm="private", classes=[0, 1])
    refused("private bounds are not found", rows, labels, private, ValueError)
    from reticent import erm, losses
    from reticent.solve.blocks import Form

    table = rows.records(labels, Form(1.0, 1.0), lambda y, start: 0.0)
    with pytest.raises(TypeError, match="needs all records in memory"):
        erm.ftrl(losses.Logistic(), None, table, budget=reticent.Budget(1.0, 1e-6))
