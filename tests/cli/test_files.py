"""Schemas, encodings and model files, against small references."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.cli.encoding import Encoder
from reticent.cli.errors import Refused
from reticent.cli.model import Model
from reticent.cli.schema import Column, Schema, canonical

from .processes import SCHEMA

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable())


def load(tmp_path: Path, text: str) -> Schema:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    return Schema.load(path)


def test_a_schema_in_toml_and_in_json_is_the_same(tmp_path: Path) -> None:
    schema = load(tmp_path, SCHEMA)
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema.to_dict()))
    assert Schema.load(path) == schema
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
        ("[columns.a]\ntype = 'category'\n", "values"),
        ("[columns.a]\ntype = 'category'\nvalues = [1, '1']\n", "each once"),
        ("[columns.a]\ntype = 'boolean'\nvalues = [1]\n", "does not go with"),
        ("targe = 1\n[columns.a]\ntype = 'boolean'\n", "targe"),
        ("target = 'b'\n[columns.a]\ntype = 'boolean'\n", "no column 'b'"),
        ("target = \n", "not well-formed"),
    ],
)
def test_a_bad_schema_says_what_is_wrong(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Refused, match=part):
        load(tmp_path, text)


def test_encoding_against_a_reference(tmp_path: Path) -> None:
    encoder = Encoder(load(tmp_path, SCHEMA), "spent")
    assert encoder.names == ["age", "job=clerk", "job=cook", "job=other", "member"]
    records = {
        "age": ["18", "59", "100", "1e400", "", "ten", "17"],
        "job": ["cook", "clerk", "other", "Cook", None, "cook ", "x"],
        "member": ["true", "false", "yes", "0", "", True, "1"],
        "spent": ["yes", "no", "YES", "yes", None, " no ", "1"],
    }
    found = encoder.encode(records, 7)
    want = [
        [-1, 0, 1, 0, 1],
        [0, 1, 0, 0, -1],
        [1, 0, 0, 1, 1],
        [1, 0, 0, 0, -1],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1],
        [-1, 0, 0, 0, 1],
    ]
    assert np.array_equal(found.X, want)
    assert sorted(found.bad) == [2, 4, 6]
    assert found.codes[[0, 1, 3, 5]].tolist() == [1, 0, 1, 0]
    # too large, unknown, missing (3), not a number, too small, unknown
    assert found.outside == 8


@given(
    st.lists(
        st.tuples(
            st.one_of(st.floats(), st.text(max_size=5), st.none(), st.integers()),
            st.one_of(st.sampled_from(["clerk", "cook", "other"]), st.text(max_size=3), st.none()),
            st.one_of(st.booleans(), st.none(), st.text(max_size=3)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_no_record_is_longer_than_the_schema_says(rows: list[tuple]) -> None:  # type: ignore[type-arg]
    """Whatever records hold: finite, each by itself, and within the declared norm."""
    import tomllib

    encoder = Encoder(Schema.from_dict(tomllib.loads(SCHEMA)), "spent")
    columns = dict(zip(("age", "job", "member"), zip(*rows, strict=True), strict=True))
    X = encoder.encode(columns, len(rows), labels=False).X
    assert np.linalg.norm(X, axis=1).max() <= encoder.largest_norm * (1 + 1e-12)
    assert encoder.largest_norm == math.sqrt(3)
    for row, record in enumerate(rows):
        alone = {name: [cell] for name, cell in zip(("age", "job", "member"), record, strict=True)}
        assert np.array_equal(encoder.encode(alone, 1, labels=False).X[0], X[row])


def test_a_model_survives_its_file_and_not_a_change(folder: Path, tmp_path: Path) -> None:
    model = Model.load(folder / "run" / "model.json")
    copy = tmp_path / "model.json"
    model.save(copy)
    assert Model.load(copy).to_dict() == model.to_dict()
    text = copy.read_text()
    copy.write_text(text.replace('"epsilon": 2.0', '"epsilon": 0.1'))
    with pytest.raises(Refused, match="checksum"):
        Model.load(copy)
    copy.write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(Refused, match="version 9"):
        Model.load(copy)
    copy.write_text("[]")
    with pytest.raises(Refused, match="not a model"):
        Model.load(copy)


def test_a_model_file_holds_no_diagnostic(folder: Path) -> None:
    text = (folder / "run" / "model.json").read_text()
    for word in ("accuracy", "clipped_", "outside", "records were"):
        assert word not in text


def test_a_model_file_holds_no_seed(folder: Path) -> None:
    """Who knows the seed takes the noise off, and the file may leave."""
    found = json.loads((folder / "run" / "model.json").read_text())
    assert found["guarantee"]["seeded"]
    assert "seed" not in found["how"]


def test_numbers_are_scaled_as_by_the_domain_scaler(tmp_path: Path) -> None:
    """The estimators' own scaler is too slow to import for a prediction, and it must not differ."""
    from reticent.estimators import DomainScaler

    encoder = Encoder(load(tmp_path, SCHEMA), "spent")
    age = np.random.default_rng(0).uniform(0, 120, 200)
    X = encoder.encode({"age": age}, 200, labels=False).X
    scaled = DomainScaler((18, 100), norm=None).fit_transform(age[:, None])
    assert X[:, 0] == pytest.approx(scaled[:, 0], abs=1e-14)


def test_a_model_has_the_link_of_its_loss(tmp_path: Path) -> None:
    """A capped loss's predictors are not log-odds; the file must know."""
    from reticent.cli.tasks import Settings, build, to_model

    encoder = Encoder(load(tmp_path, SCHEMA), "spent")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 5))
    y = np.where(X[:, 0] > 0, "yes", "no")
    settings = Settings(
        task="classification", online=False, epsilon=8.0, delta=1e-6, neighbours="zero-out",
        feature_norm=2.3, seed=0, window=None, horizon=None,
    )  # fmt: skip
    estimator = build(settings, encoder).fit(X, y)
    model = to_model(estimator, settings, encoder, 800)
    assert model.how["influence"] == 0.5
    np.testing.assert_allclose(model.probabilities(X), estimator.predict_proba(X), atol=1e-12)


def test_a_nested_line_is_a_record_without_cells() -> None:
    from reticent.cli.sources import _object

    assert _object("[" * 100_000) == {}
