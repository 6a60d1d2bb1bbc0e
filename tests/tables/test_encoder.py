"""Records as numbers, against small references."""

from __future__ import annotations

import datetime as dt
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.tables import Column, Encoder, Schema, TableError

from ..cli.processes import SCHEMA


def test_encoding_against_a_reference(schema: Schema) -> None:
    encoder = Encoder(schema)
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
    encoder = Encoder(Schema.from_dict(tomllib.loads(SCHEMA)), "spent")
    columns = dict(zip(("age", "job", "member"), zip(*rows, strict=True), strict=True))
    X = encoder.encode(columns, len(rows), labels=False).X
    assert np.linalg.norm(X, axis=1).max() <= encoder.largest_norm * (1 + 1e-12)
    assert encoder.largest_norm == math.sqrt(3)
    for row, record in enumerate(rows):
        alone = {name: [cell] for name, cell in zip(("age", "job", "member"), record, strict=True)}
        assert np.array_equal(encoder.encode(alone, 1, labels=False).X[0], X[row])


def test_numbers_are_scaled_as_by_the_domain_scaler(schema: Schema) -> None:
    """The estimators' own scaler is too slow to import for a prediction, and it must not differ."""
    from reticent.estimators import DomainScaler

    encoder = Encoder(schema)
    age = np.random.default_rng(0).uniform(0, 120, 200)
    X = encoder.encode({"age": age}, 200, labels=False).X
    scaled = DomainScaler((18, 100), norm=None).fit_transform(age[:, None])
    assert X[:, 0] == pytest.approx(scaled[:, 0], abs=1e-14)


def test_a_data_frame_is_encoded_as_its_columns_are(schema: Schema) -> None:
    pandas = pytest.importorskip("pandas")
    columns = {
        "age": [20, 30.5, None],
        "job": ["cook", None, "clerk"],
        "member": [True, False, None],
        "spent": ["yes", "no", None],
    }
    plain, framed = (
        Encoder(schema).encode(records) for records in (columns, pandas.DataFrame(columns))
    )
    assert np.array_equal(plain.X, framed.X)
    assert plain.bad == framed.bad == {2: "column 'spent' is not one of its declared values"}
    assert plain.good.tolist() == [0, 1]


def test_columns_of_different_lengths_are_refused(schema: Schema) -> None:
    with pytest.raises(TableError, match=r"column 'job' has 1 cells for 2 records"):
        Encoder(schema).encode({"age": [20, 30], "job": ["cook"]})


def test_an_encoder_needs_a_target() -> None:
    schema = Schema((Column("a", "number", bounds=(0.0, 1.0)), Column("b", "ignore")))
    with pytest.raises(TableError, match="names no target"):
        Encoder(schema)
    with pytest.raises(TableError, match="declared as 'ignore'"):
        Encoder(schema, "b")


def test_the_category_of_a_cell_does_not_depend_on_other_records() -> None:
    """One moment in two time zones is equal, but not the same text."""
    utc = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    later = utc.astimezone(dt.timezone(dt.timedelta(hours=1)))
    assert utc == later
    when = Column("when", "category", values=(str(utc), str(later)))
    encoder = Encoder(Schema((when, Column("y", "boolean", values=("false", "true")))), "y")

    def place(*cells: dt.datetime) -> list[float]:
        found = encoder.encode({"when": list(cells), "y": [True] * len(cells)}, len(cells))
        return [float(row[0]) for row in np.asarray(found.X)]

    assert place(utc, later) == place(utc) + place(later) == [-1.0, 1.0]
    assert place(later, utc) == [1.0, -1.0]


@pytest.mark.parametrize(
    "odd", [7.0, None, [7.0, 8.0], "x", np.ones(1), pytest.param(10**400, id="huge")]
)
@pytest.mark.parametrize("rest", [[5.0], (5.0,), [np.ones(1)], 5.0, "5"])
def test_a_cell_is_encoded_whatever_the_other_cells_are(odd: object, rest: object) -> None:
    """Where all cells of a column were lists of one number, another cell in one record made all others missing."""
    number = {"type": "number", "bounds": [0, 10]}
    encoder = Encoder(Schema.from_dict({"columns": {"a": number, "y": number}}), "y")
    found = [
        encoder.encode({"a": [rest, last, rest], "y": [rest, last, rest]}).X[[0, 2]]
        for last in (rest, odd)
    ]
    np.testing.assert_array_equal(*found)
