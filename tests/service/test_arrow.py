"""Arrow batches: the same arrays whichever way columns lie in memory, and keys that earlier versions kept."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="Arrow needs pyarrow")
pytest.importorskip("starlette", reason="the service needs its extra")

import pyarrow as pa

from reticent.service import arrow, chain, keys, runners, streams
from reticent.service.engine import Engine
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.sealing import Ring
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore
from reticent.service.store import Producer

from .running import specification

KEYS = keys.Keys(bytes(32))
WHICH = Specification.from_dict(specification("s", seed=3))
DICE = np.random.default_rng(0)


def table(count: int = 40) -> Any:
    columns = {name: DICE.uniform(-2, 2, count) for name in "ab"}
    return pa.table(columns | {"y": DICE.uniform(size=count) < 0.5})


def body_of(found: Any) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, found.schema) as writer:
        writer.write_table(found)
    return out.getvalue()


def arrange(name: str) -> Any:
    """A table that lies in memory in some other way."""
    found = table()
    if name == "sliced":
        return found.slice(3, 11)
    if name == "in two pieces":
        return pa.concat_tables([found, table()])
    if name == "whole numbers":
        return found.set_column(0, "a", pa.array(range(len(found))))
    if name == "a missing cell":
        cells = found.column("a").to_pylist()
        return found.set_column(0, "a", pa.array([None, *cells[1:]]))
    if name == "other order":
        return found.select(["y", "b", "a"])
    return found


ARRANGED = ("as it comes", "sliced", "in two pieces", "whole numbers", "a missing cell", "other order")  # fmt: skip


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("shift", [0, 1])
def test_cells_are_what_pyarrow_says(name: str, shift: int) -> None:
    there = arrange(name)
    # with a byte before it the body does not lie where doubles do
    body = bytes(memoryview(b"x" * shift + body_of(there))[shift:])
    read = arrow.read(body)
    found = arrow.numbers(read, ["a", "b"], body)
    expected = [there.column(column).to_pylist() for column in "ab"]
    np.testing.assert_array_equal(found, np.array(expected, np.float64).T)
    bits = arrow.booleans(read.column("y"))
    if bits is not None:
        assert bits.astype(bool).tolist() == there.column("y").to_pylist()
    assert (bits is None) == (name == "in two pieces")


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 39])
def test_a_number_that_is_none_is_refused(odd: float, place: int) -> None:
    there = table()
    cells = there.column("b").to_numpy().copy()
    cells[place] = odd
    body = body_of(there.set_column(1, "b", pa.array(cells)))
    with pytest.raises(Problem, match="infinite"):
        arrow.numbers(arrow.read(body), ["a", "b"], body)


def reader() -> Reader:
    return Reader(runners.encoder_of(WHICH), KEYS)


def test_features_are_those_of_the_encoder() -> None:
    """The reader does the encoder's arithmetic in a kernel, to the last bit."""
    encoder, mine = runners.encoder_of(WHICH), reader()
    cells = DICE.uniform(-1, 1, (200, 2)) * 10.0 ** DICE.integers(-320, 308, (200, 2))
    cells[0] = np.nan
    cells[1] = [-0.0, np.finfo(float).max]
    cells[2] = [np.nextafter(1.0, 2.0), -np.finfo(float).max]
    columns = {column.name: cells[:, k] for k, column in enumerate(encoder.columns)}
    with np.errstate(over="ignore"):
        expected = encoder.encode(columns, len(cells), labels=False).X
    found = mine._scaled(cells.copy())
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_digests_of_many_tell_bodies_apart() -> None:
    X = DICE.uniform(-1, 1, (30, 5))
    y = np.zeros(30)
    digest = KEYS.digest_of_many(X, y)
    assert digest == KEYS.digest_of_many(X.copy(), y.copy())
    assert len(digest) == 17
    others = [
        KEYS.digest_of_many(y, X),
        KEYS.digest_of_many(X),
        KEYS.digest_of_many(X[:29], X[29], y),
    ]
    for k in range(X.size):
        other = X.copy()
        other.reshape(-1)[k] = np.nextafter(other.reshape(-1)[k], 2.0)
        others.append(KEYS.digest_of_many(other, y))
    others.append(keys.Keys(b"k" * 32).digest_of_many(X, y))
    assert len({digest, *others}) == 1 + len(others)


def test_large_bodies_are_digested_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    X = DICE.uniform(-1, 1, (30, 5))
    monkeypatch.setattr(keys, "_PIECE", 64)
    found = {KEYS.digest_of_many(X)}
    for k in range(X.size):
        other = X.copy()
        other.reshape(-1)[k] = 0.0
        found.add(KEYS.digest_of_many(other))
    assert len(found) == 1 + X.size


def test_what_earlier_versions_counted_is_known_again(tmp_path: Path) -> None:
    """Their digests of Arrow batches were others; a repeat after an upgrade is a repeat, another body is refused."""
    engine = Engine(SqliteStore(tmp_path / "s.sqlite"), Ring([bytes(32)]))
    engine.witness = chain.witness
    try:
        engine.call(streams.Create(WHICH))
        body, other = body_of(table()), body_of(table())
        batch = reader().arrow(body, "one", None)
        old = KEYS.digest(batch.X, batch.codes)
        numbered = reader().arrow(body, None, ("p", 7))
        with engine.store.transaction() as rows:
            assert rows.remember_new(1, batch.keys, [old], 0)
            assert numbered.producer is not None
            rows.set_producer(1, numbered.producer[0], Producer(7, old, 0, len(batch)))
        assert engine.call(streams.Send("s", batch))["repeated"] == len(batch)
        assert engine.call(streams.Send("s", numbered))["repeated"] == len(batch)
        for refused in (reader().arrow(other, "one", None), reader().arrow(other, None, ("p", 7))):
            with pytest.raises(Problem, match="another body"):
                engine.call(streams.Send("s", refused))
        assert engine.call(streams.Send("s", reader().arrow(other, "two", None)))["accepted"]
    finally:
        engine.stop()
        engine.store.close()
