"""Drafts of schemas: nothing is read off records that were not said to be public."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.tables import Schema, TableError, draft

TABLE = "age,job,member,note,spent\n" + "".join(
    f"{20 + row},{('cook', 'clerk')[row % 2]},{('true', 'false')[row % 2]},n{row},{row % 2}\n"
    for row in range(40)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "sample.csv"
    path.write_text(TABLE)
    return path


def test_without_a_word_about_the_records_only_names_are_read(table: Path) -> None:
    schema, remarks = draft(table, target="spent")
    assert [(c.name, c.type, c.bounds, c.values) for c in schema.columns] == [
        (name, "ignore", None, ()) for name in ("age", "job", "member", "note", "spent")
    ]
    assert list(remarks) == ["age", "job", "member", "note", "spent"]


def test_a_public_sample_fills_in_types_bounds_and_categories(table: Path) -> None:
    schema, remarks = draft(table, public_sample=True, target="spent")
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.column("age").bounds == (20.0, 60.0)
    assert schema.column("job").values == ("clerk", "cook")
    assert schema.column("member").type == "boolean"
    assert schema.column("note").type == "ignore"
    assert schema.column("spent").values == ("0", "1")
    assert remarks["note"] == "text with 40 different values"
    with pytest.raises(TableError, match="no column 'spend'"):
        draft(table, target="spend")
