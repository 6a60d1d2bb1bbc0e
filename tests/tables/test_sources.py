"""Where records come from: every line is a record, whatever it holds."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path

import pytest

from reticent.tables import (
    Encoder,
    Schema,
    TableError,
    batches,
    count_records,
    open_records,
    open_source,
    read,
)
from reticent.tables.sources import _live, _object, read_span, spans

TABLE = "age,job,member,spent,more\n20,cook,true,yes,1\n99,x,false,no,2\n50,clerk,yes,?,3\n"


def test_a_nested_line_is_a_record_without_cells() -> None:
    assert _object("[" * 100_000) == {}


def test_a_whole_table_is_its_batches(schema: Schema, tmp_path: Path) -> None:
    path, encoder = tmp_path / "table.csv", Encoder(schema)
    path.write_text(TABLE)
    whole = read(path, encoder)
    source, unused = open_records(path, encoder)
    parts = list(batches(source, encoder, rows=2))
    assert unused == ["more"]
    assert [len(part.X) for part in parts] == [2, 1]
    assert whole.X.tolist() == [row for part in parts for row in part.X.tolist()]
    assert whole.y.tolist() == ["yes", "no", "no"]
    assert whole.bad == {2: "column 'spent' is not one of its declared values"}
    assert whole.good.tolist() == [0, 1]
    assert whole.outside == 1
    assert read(path, encoder, labels=False).y is None


def compressed(path: Path, text: str) -> None:
    if path.suffix == ".zst":
        pyarrow = pytest.importorskip("pyarrow")
        with pyarrow.output_stream(str(path), compression="zstd") as file:
            file.write(text.encode())
        return
    module = importlib.import_module({".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}[path.suffix])
    path.write_bytes(module.compress(text.encode()))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_table_is_the_same_table(ending: str, schema: Schema, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(TABLE)
    path = tmp_path / f"table.csv{ending}"
    compressed(path, TABLE)
    plain, found = (read(p, Encoder(schema)) for p in (tmp_path / "plain.csv", path))
    assert found.X.tolist() == plain.X.tolist()
    counts: list[int] = []
    assert count_records(path, watch=counts.append) == 3
    assert counts == [3]
    (tmp_path / "folder").mkdir()
    compressed(tmp_path / "folder" / f"part.jsonl{ending}", '{"age": 1}\n{"age": 2}\n')
    assert count_records(tmp_path / "folder") == 2
    twice = tmp_path / f"table.parquet{ending}"
    twice.write_bytes(path.read_bytes())
    with pytest.raises(TableError, match="is a compressed Parquet file"):
        open_source(twice)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_damaged_table_is_refused_in_a_sentence(ending: str, tmp_path: Path) -> None:
    whole, cut, other = (tmp_path / f"{n}.csv{ending}" for n in ("whole", "cut", "other"))
    compressed(whole, "age\n" + "".join(f"{k * k % 9973}\n" for k in range(5000)))
    cut.write_bytes(whole.read_bytes()[:-200])
    other.write_text(TABLE)
    for path in (cut, other):
        with pytest.raises(TableError, match=f"{path.name} cannot be read: .+"):
            count_records(path)


def test_a_table_without_a_declared_column_is_refused(schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("age,member\n20,true\n")
    with pytest.raises(TableError, match="no column 'job'; they have age, member"):
        read(path, Encoder(schema))
    path.write_text("39,Doe,true\n20,Roe,false\n")  # without a header: the first line is a record
    with pytest.raises(TableError, match="nor any other that the schema declares") as caught:
        read(path, Encoder(schema))
    assert not any(cell in str(caught.value) for cell in ("39", "Doe", "Roe"))
    path = tmp_path / "table.unknown"
    path.write_text(TABLE)
    with pytest.raises(
        TableError, match=r"cannot be determined from its name; state it \(--format, or"
    ):
        open_source(path)
    assert count_records(path, "csv") == 3


def test_a_line_that_cannot_be_read_is_still_a_record(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"spent": "yes"}\nnot json\n\n[1]\n{"spent": "no"}\n')
    assert count_records(str(path)) == 4
    columns, got = open_source(str(path)).read(10)
    assert got == 4
    assert columns == {"spent": ["yes", None, None, "no"]}
    path = tmp_path / "odd.csv"
    path.write_text('a,b\n1,2\n1,2,3\n"x\ny",5\n\n7\n')
    columns, got = open_source(str(path)).read(10)
    assert got == count_records(str(path)) == 4
    assert columns == {"a": ("1", None, "x\ny", None), "b": ("2", None, "5", None)}


@pytest.mark.parametrize(
    "odd", ['{"a":\r 2}', '{"a": 2}\r{"a": 3}', "\r{\r", '{"a": 2,\r\r"b": 3}']
)
def test_a_carriage_return_does_not_make_two_records_of_one(tmp_path: Path, odd: str) -> None:
    """All records after it were shifted."""
    path = tmp_path / "odd.jsonl"
    path.write_bytes(f'{{"a": 1}}\n{odd}\n{{"a": 4}}\r\n{{"a": 5}}'.encode())
    assert count_records(str(path)) == 4
    columns, got = open_source(str(path)).read(10)
    assert got == 4
    assert [columns["a"][k] for k in (0, 2, 3)] == [1, 4, 5]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("odd", ["re\rd", "\r", "\r\r", '"re\rd"', "\rred", "red\r"])
@pytest.mark.parametrize("cell", [0, 1, 2])
def test_a_carriage_return_in_a_cell_leaves_other_records_alone(
    tmp_path: Path, cell: int, odd: str, end: str
) -> None:
    """It made two records of one when a table was read, and was refused when it stayed in its file."""
    number = {"type": "number", "bounds": [0, 10]}
    text = {"type": "category", "values": ["red", "green", "blue"]}
    encoder = Encoder(Schema.from_dict({"columns": {"a": number, "b": text, "y": number}}), "y")
    found = []
    for there in (None, odd):  # one record's cell alone differs
        rows = [["1", "red", "2"], ["3", "blue", "4"], ["5", "green", "6"], ["7", "red", "8"]]
        if there is not None:
            rows[1][cell] = there
        path = tmp_path / "odd.csv"
        path.write_bytes("".join(",".join(row) + end for row in [["a", "b", "y"], *rows]).encode())
        columns, got = open_source(str(path)).read(10)
        assert got == count_records(str(path)) == 4
        (start, stop, count), *rest = spans(path, "csv", 10)
        again, _ = read_span(path, "csv", start, stop).read(10)
        assert (count, rest, again) == (4, [], columns)
        found.append(encoder.encode(columns, got).X[[0, 2, 3]].tolist())
    assert found[0] == found[1]


def test_lines_that_end_in_carriage_returns_alone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"a,b\r1,2\r3,4\r")
    with pytest.raises(TableError, match="carriage returns within it; end lines with line feeds"):
        open_source(str(path))


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", '{"a":"1","b":"2"}\n{"a":"3","b":"4"}\n'])
def test_a_byte_order_mark_belongs_to_no_record(tmp_path: Path, text: str) -> None:
    """In a pipe it was part of the first name, and in a file of JSON lines it hid the first record of later passes."""
    kind = "jsonl" if text.startswith("{") else "csv"
    path = tmp_path / f"marked.{kind}"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    there, pipe = os.pipe()
    os.write(pipe, path.read_bytes())
    os.close(pipe)
    live = _live(there, None, lambda: False, ())
    parts = [read_span(path, kind, start, stop) for start, stop, _ in spans(path, kind, 1)]
    rows = []
    for source in (open_source(str(path)), live, *parts):
        columns, got = source.read(10)
        rows += [(columns["a"][k], columns["b"][k]) for k in range(got)]
    os.close(there)
    assert rows == 3 * [("1", "2"), ("3", "4")]


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
def test_cells_that_are_lists_are_none_whatever_other_records_hold(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    number = {"type": "number", "bounds": [0, 10]}
    schema = Schema.from_dict({"columns": {"a": number, "y": number}})
    encoder = Encoder(schema, "y")
    found = []
    for last in ([7.0], [7.0, 8.0], None):  # one record's cell alone differs
        path = tmp_path / "lists.parquet"
        rows = [{"a": [5.0], "y": 1.0}, {"a": [6.0], "y": 1.0}, {"a": last, "y": 1.0}]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        columns, count = open_source(str(path)).read(3)
        found.append(encoder.encode(columns, count).X.tolist())
    assert found == [[[0.0]] * 3] * 3


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
def test_a_missing_cell_leaves_large_integers_of_other_records_alone(tmp_path: Path) -> None:
    """With one id missing, all persons of the batch whose ids are beyond 2^53 became unknown."""
    import pyarrow
    from pyarrow import parquet

    number = {"type": "number", "bounds": [0, 10]}
    columns = {"a": number, "who": {"type": "person"}, "y": number}
    encoder = Encoder(Schema.from_dict({"columns": columns}), "y")
    found = []
    for last in (2**60 + 3, None):  # one record's cell alone differs
        path = tmp_path / "ids.parquet"
        whose = [2**60 + 1, 7, last]
        rows = pyarrow.table({"a": [1, 2, last], "who": whose, "y": [1.0, 2.0, 3.0]})
        parquet.write_table(rows, path)
        read, count = open_source(str(path)).read(3)
        made = encoder.encode(read, count)
        assert made.persons is not None
        found.append((made.X[:2].tolist(), made.persons[:2], sorted(made.bad)))
    assert found[0] == (found[1][0], [str(2**60 + 1), "7"], [])
    assert found[1][1:] == ([str(2**60 + 1), "7"], [2])


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
@pytest.mark.parametrize(
    ("kind", "beyond"), [("timestamp[us]", 2**62), ("date32", 2**30), ("timestamp[s]", -(2**50))]
)
def test_a_date_beyond_the_calendar_is_missing(tmp_path: Path, kind: str, beyond: int) -> None:
    """One such cell made a whole table unreadable, and the error message quoted it."""
    import pyarrow
    from pyarrow import parquet

    integers = pyarrow.int32() if kind == "date32" else pyarrow.int64()
    days = pyarrow.array([0, beyond, 86_400], integers).cast(pyarrow.type_for_alias(kind))
    path = tmp_path / "days.parquet"
    parquet.write_table(pyarrow.table({"day": days}), path, version="2.6")
    columns, got = open_source(str(path)).read(3)
    assert got == 3
    first, odd, last = columns["day"]
    assert (first.year, odd, last > first) == (1970, None, True)
