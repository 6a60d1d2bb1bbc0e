"""Schemas: the same from every kind of file, and refused in words where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.tables import Column, Schema, TableError
from reticent.tables.schema import canonical

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable())


def load(tmp_path: Path, text: str) -> Schema:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    return Schema.from_file(path)


def test_a_schema_in_toml_and_in_json_is_the_same(schema: Schema, tmp_path: Path) -> None:
    assert load(tmp_path, schema.to_toml()) == schema
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema.to_dict()))
    assert Schema.from_file(path) == Schema.from_file(str(path)) == schema
    assert [c.name for c in schema.features("spent")] == ["age", "job", "member"]


@settings(max_examples=50)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.floats(-1e9, 1e9),
    st.floats(1e-3, 1e9),
    st.lists(NAMES.map(canonical), min_size=2, max_size=4, unique=True),
)
def test_a_schema_survives_its_file(names: list[str], low: float, width: float, values: list[str]) -> None:  # fmt: skip
    import tomllib

    columns = [Column(name, "number", bounds=(low, low + width)) for name in names]
    columns.append(Column("the category", "category", values=tuple(values)))
    schema = Schema(tuple(columns), names[0])
    assert Schema.from_dict(tomllib.loads(schema.to_toml())) == schema


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no table of columns"),
        ("[columns.a]\n", "type must be one of"),
        ("[columns.a]\ntype = 'number'\n", "required and never guessed"),
        ("[columns.a]\ntype = 'number'\nbounds = [2, 1]\n", "bounds"),
        ("[columns.a]\ntype = 'number'\nbounds = [1, inf]\n", "bounds"),
        (f"[columns.a]\ntype = 'number'\nbounds = [0, 1{'0' * 400}]\n", "bounds"),
        ("[columns.a]\ntype = 'category'\n", "values"),
        ("[columns.a]\ntype = 'category'\nvalues = [1, '1']\n", "each once"),
        ("[columns.a]\ntype = 'boolean'\nvalues = [1]\n", "is not allowed with"),
        ("targe = 1\n[columns.a]\ntype = 'boolean'\n", "targe"),
        ("target = 'b'\n[columns.a]\ntype = 'boolean'\n", "no column 'b'"),
        ("target = \n", "not well-formed"),
    ],
)
def test_a_bad_schema_says_what_is_wrong(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(TableError, match=part):
        load(tmp_path, text)


def test_a_schema_that_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read: No such file"):
        Schema.from_file(tmp_path / "none.toml")
