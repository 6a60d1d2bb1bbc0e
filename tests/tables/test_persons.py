"""Columns of persons: declared once, never learnt from, the same ids from every format."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reticent import tables
from reticent.tables import Encoder, Schema, TableError

COLUMNS = {
    "who": {"type": "person"},
    "x": {"type": "number", "bounds": [0, 1]},
    "y": {"type": "boolean"},
}


def schema(**columns):
    return Schema.from_dict({"target": "y", "columns": COLUMNS | columns})


def test_nothing_is_learnt_from_persons():
    found = schema()
    assert found.person == "who"
    assert Schema.from_dict(found.to_dict()) == found
    encoder = Encoder(found)
    assert encoder.names == ["x"]
    assert encoder.largest_norm == 1.0
    assert encoder.wanted() == ["x", "y", "who"]
    assert encoder.wanted(labels=False) == ["x"]
    records = encoder.encode({"who": ["a", "b "], "x": [0.0, 1.0], "y": ["yes", "no"]})
    assert (records.persons, records.bad) == (["a", "b"], {})


def test_ids_of_every_kind():
    """Text stays as it is, whole numbers are text, and what is no id makes a record that cannot be used."""
    cells = [
        "007",
        "7",
        7,
        7.0,
        2**60,
        np.int64(5),
        None,
        float("nan"),
        7.5,
        float("inf"),
        True,
        "",
    ]
    records = Encoder(schema()).encode(
        {"who": cells, "x": [0.5] * len(cells), "y": ["yes"] * len(cells)}
    )
    assert records.persons == ["007", "7", "7", "7", str(2**60), "5", "", "", "", "", "", ""]
    assert sorted(records.bad) == [6, 7, 8, 9, 10, 11]
    assert all("column 'who'" in reason for reason in records.bad.values())
    without = Encoder(schema()).encode({"x": [0.5], "y": ["yes"]})
    assert without.bad


def test_formats_agree(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = {"who": [3, 12, 3], "x": [0.0, 0.5, 1.0], "y": [True, False, True]}
    pandas.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    pandas.DataFrame(table).to_parquet(tmp_path / "t.parquet")
    lines = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    encoder = Encoder(schema())
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        assert tables.read(tmp_path / name, encoder).persons == ["3", "12", "3"]
    _, unused = tables.open_records(tmp_path / "t.csv", encoder, labels=False)
    assert unused == []
    pandas.DataFrame({"x": [0.1], "y": [True]}).to_csv(tmp_path / "without.csv", index=False)
    with pytest.raises(TableError, match="no column 'who'"):
        tables.open_records(tmp_path / "without.csv", encoder)
    tables.open_records(tmp_path / "without.csv", encoder, labels=False)  # to predict


def test_refused():
    with pytest.raises(TableError, match="'who' and 'too'"):
        schema(too={"type": "person"})
    with pytest.raises(TableError, match="is not allowed with"):
        schema(who={"type": "person", "values": ["a", "b"]})
    with pytest.raises(TableError, match="declared as 'person'"):
        Encoder(schema(), "who")
    plain = Schema.from_dict({"target": "y", "columns": {n: COLUMNS[n] for n in ("x", "y")}})
    assert plain.person is None
    assert plain.with_person("who").person == "who"
    assert schema(who={"type": "ignore"}).with_person("who").person == "who"
    with pytest.raises(TableError, match="would be learnt from"):
        plain.with_person("x")
    with pytest.raises(TableError, match="choose one"):
        schema().with_person("x2")


def test_a_model_asks_for_no_persons():
    """To predict, and to score predictions, nobody needs to say whom a record is about."""
    encoder = Encoder(schema(), persons=False)
    assert encoder.person is None
    assert encoder.wanted() == ["x", "y"]
    records = encoder.encode({"x": [0.5], "y": ["yes"]})
    assert (records.persons, records.bad) == (None, {})


def test_tables_in_files_refuse_persons(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"who": [1], "x": [0.5], "y": [True]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="declare the column as 'ignore'"):
        tables.open_encoded(tmp_path / "t.parquet", Encoder(schema()))
