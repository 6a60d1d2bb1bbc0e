"""Tables in files: the same answer as in memory, little memory, and a sentence for whatever is wrong with a file."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import tables
from reticent.tables import TableError, formats, stored

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


def refused(words, X, y, model=None, error=TableError):
    with reticent.Ledger(reticent.Budget(9.0, 1e-3)) as ledger, pytest.raises(error, match=words):
        (model or logistic(classes=["no", "yes"])).fit(X, y)
    assert ledger.entries == ()


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


def test_files_that_differ(tmp_path):
    X, y = records(100)
    pq.write_table(as_arrow(X, y), tmp_path / "a.parquet")
    pq.write_table(as_arrow(X.astype(np.float64), y), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b\.parquet differs from .*a\.parquet"):
        tables.open(tmp_path, "y")
    pq.write_table(as_arrow(X, y).drop_columns(["x1"]), tmp_path / "b.parquet")
    with pytest.raises(TableError, match="differs from"):
        tables.open(tmp_path, "y")


def test_what_cannot_be_opened(tmp_path):
    X, y = records(100)
    pq.write_table(as_arrow(X, y).slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(TableError, match="holds no records"):
        tables.open(tmp_path / "empty.parquet", "y")
    (tmp_path / "nothing.parquet").write_bytes(b"")
    with pytest.raises(TableError, match="not a readable parquet file"):
        tables.open(tmp_path / "nothing.parquet", "y")
    with pytest.raises(TableError, match="cannot be read: No such file"):
        tables.open(tmp_path / "missing.parquet", "y")
    pq.write_table(as_arrow(X, y), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="has no single column 'z'"):
        tables.open(tmp_path / "t.parquet", "z")
    with pytest.raises(TableError, match=r"'y' of .* has type string, which is not a number"):
        tables.open(tmp_path / "t.parquet", "x0")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TableError, match="holds no Parquet"):
        tables.open(tmp_path / "folder", "y")
    rows, _ = tables.open(tmp_path / "t.parquet", "y")
    with pytest.raises(TypeError, match=r"same tables\.open"):
        logistic(classes=["no", "yes"]).fit(rows, y)


def test_an_array_that_was_cut_short(tmp_path):
    X, y = records()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y == "yes")
    rows, labels = tables.open(tmp_path / "x.npy", target=tmp_path / "y.npy")
    model = logistic(classes=[False, True])
    want = model.fit(rows, labels).coef_
    np.testing.assert_allclose(
        logistic(classes=[False, True]).fit(X, y == "yes").coef_, want, rtol=1e-5
    )
    os.truncate(tmp_path / "x.npy", 5000)
    refused("was changed while it was being read", rows, labels, model)
    with pytest.raises(TableError, match="was cut short: it says 6000 records"):
        tables.open(tmp_path / "x.npy", target=tmp_path / "y.npy")


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


def test_records_of_a_schema_are_encoded_in_every_pass(tmp_path):
    rng = np.random.default_rng(0)
    age, job = rng.integers(0, 100, 5000), rng.choice(["nurse", "cook"], 5000)
    spent = np.where((age > 50) ^ (rng.random(5000) < 0.1), "yes", "no")
    whole = pa.table({"age": age, "job": job, "spent": spent})
    pq.write_table(whole, tmp_path / "t.parquet", row_group_size=900)
    columns = {
        "age": {"type": "number", "bounds": [0, 100]},
        "job": {"type": "category", "values": ["cook", "nurse"]},
        "spent": {"type": "category", "values": ["no", "yes"]},
    }
    encoder = tables.Encoder(tables.Schema.from_dict({"columns": columns}), "spent")
    X, y = tables.open_encoded(tmp_path / "t.parquet", encoder)
    here = tables.read(tmp_path / "t.parquet", encoder)
    assert (np.concatenate(list(X.blocks())) == here.X).all()
    assert (np.concatenate(list(y.blocks())) == here.y).all()
    np.testing.assert_allclose(
        logistic(classes=["no", "yes"]).fit(X, y).coef_,
        logistic(classes=["no", "yes"]).fit(here.X, here.y).coef_,
        rtol=1e-5,
    )
    spent[4321] = "perhaps"
    pq.write_table(whole.set_column(2, "spent", pa.array(spent)), tmp_path / "bad.parquet")
    X, y = tables.open_encoded(tmp_path / "bad.parquet", encoder)
    refused("record 4322: column 'spent' is not one of its declared values", X, y)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_is_read_in_stretches(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "_RECORDS", 100)
    rng = np.random.default_rng(0)
    age, spent = rng.integers(0, 100, 1030), rng.choice(["yes", "no"], 1030)
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        note = ['"two\nlines, and a ""quote"""', "plain", "é"]
        rows = [f"{a},{note[k % 3]},{s}" for k, (a, s) in enumerate(zip(age, spent, strict=True))]
        path.write_bytes(("\ufeffage,note,spent\r\n" + "\r\n".join(rows)).encode())
    else:
        rows = [f'{{"age": {a}, "spent": "{s}"}}' for a, s in zip(age, spent, strict=True)]
        path.write_text("\n\n".join(rows) + "\n")
    columns = {
        "age": {"type": "number", "bounds": [0, 100]},
        "spent": {"type": "category", "values": ["no", "yes"]},
    }
    encoder = tables.Encoder(tables.Schema.from_dict({"columns": columns}), "spent")
    X, y = tables.open_encoded(path, encoder)
    here = tables.read(path, encoder)
    assert len(X.table.stretches) == 11
    assert (np.concatenate(list(X.blocks())) == here.X).all()
    assert (np.concatenate(list(y.blocks())) == here.y).all()
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(tables.TableError, match="was changed"):
        list(X.blocks())
