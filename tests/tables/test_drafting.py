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


@pytest.mark.parametrize(
    "cells",
    [
        ("0", "5e-324"),
        ("-1e308", "1.7e308"),
        ("-1e308", "2e-300"),
        ("915196112090585.1", "915196112090585.2"),
        ("94447936645.72731", "94447936645.72733"),
    ],
)
def test_bounds_hold_numbers_of_any_size(cells: tuple[str, str], tmp_path: Path) -> None:
    """Some had no draft, and bounds around others were equal."""
    path = tmp_path / "sample.csv"
    path.write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    bounds = draft(path, public_sample=True)[0].column("a").bounds
    assert bounds is not None
    assert bounds[0] <= float(cells[0]) < float(cells[1]) <= bounds[1]


def test_one_number_in_two_spellings_is_one_value(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    path.write_text("a,b\n7,1\n٧,2\n")
    schema, remarks = draft(path, public_sample=True)
    assert schema.column("a").type == "ignore"
    assert remarks["a"] == "has at most one value"
