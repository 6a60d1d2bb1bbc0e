"""Files of each format: what can be opened, what differs, and records that are encoded or read in stretches."""

from __future__ import annotations

import os

import numpy as np
import pytest

from reticent import tables
from reticent.tables import TableError, formats

from .files import as_arrow, logistic, records, refused

pa = pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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
