"""Databases of earlier versions, interrupted migrations, and files that hold no service."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reticent.service import runners, sql
from reticent.service.engine import Engine
from reticent.service.folder import Folder, Home, Options, open_home
from reticent.service.leases import Claim, Leases
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore
from reticent.service.store import StoreError
from reticent.service.streams import Ask, Create, Send, Tell
from reticent.state import lease

from .running import records, specification


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    return Options(tmp_path / "data")


def _send(folder: Folder, first: int) -> bytes:
    engine = Engine(folder.store, folder.ring)
    assert folder.anchor is not None
    engine.committed = folder.anchor.commit
    asked = Specification.from_dict(specification("old", seed=5))
    engine.call(Create(asked))
    reader = Reader(runners.encoder_of(asked), folder.keys)
    lines = "\n".join(json.dumps(line) for line in records(first, 3)).encode()
    engine.call(Send("old", reader.lines(lines)))
    body = engine.live("old").head.body
    engine.stop()
    return body


def _downgrade(options: Options) -> None:
    """What format 1 was: the same without what later steps add."""
    with sqlite3.connect(options.data / "service.sqlite") as db:
        for table in ("log", "sources", "leases", "persons"):
            db.execute(f"DROP TABLE {table}")
        db.execute("UPDATE about SET value = '1' WHERE name = 'format'")
    db.close()


def test_a_stream_goes_on_after_a_migration(tmp_path: Path, options: Options) -> None:
    bodies = {}
    for old in (False, True):
        here = Options(tmp_path / f"data-{old}")
        folder = Folder(here)
        _send(folder, 0)
        folder.close()
        if old:
            _downgrade(here)
        folder = Folder(here)
        with folder.store.read() as rows:
            assert rows.fact("format") == sql.FORMAT
            assert rows.chains() is not None  # the table of the second step
        bodies[old] = _send(folder, 3)
        folder.close()
    assert bodies[True] == bodies[False]


def test_an_interrupted_migration_changes_nothing(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(options)
    body = _send(folder, 0)
    folder.close()
    _downgrade(options)
    broken = (*sql.MIGRATIONS[:-1], sql.MIGRATIONS[-1] + "; CREATE TABLE about (x {integer})")
    with monkeypatch.context() as patch:
        patch.setattr(sql, "MIGRATIONS", broken)
        with pytest.raises(StoreError, match="already exists"):
            Folder(options)
    with sqlite3.connect(options.data / "service.sqlite") as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert "log" not in tables
    folder = Folder(options)
    with folder.store.read() as rows:
        stream = rows.stream("old")
        assert stream is not None
        output = rows.output(stream.id, 1)
        assert output is not None
        assert output.body == body
    folder.close()


EARLIER = Path(__file__).with_name("earlier")
# learners of format 1 had another algorithm, and bandits other epochs
GOES_ON = {"1": {"sums"}, "2": {"model", "numbers", "people", "sums", "plays"}}


def _records(asked: dict[str, Any], first: int, count: int) -> bytes:
    """The records that the files of earlier versions go on with."""
    out = []
    for k in range(first, first + count):
        row: dict[str, Any] = {"id": f"r{k}", "x": {"a": (k % 7 - 3) / 3, "b": (k % 5 - 2) / 2}}
        if asked["kind"] != "total":
            row["y"] = k % 7 > 3 if asked["kind"] == "logistic" else (k % 7 - 3) / 3
        if asked["name"] == "people":
            row["person"] = f"p{k % 6}"
        out.append(json.dumps(row))
    return "\n".join(out).encode()


def _go_on(engine: Engine, home: Home, asked: dict[str, Any]) -> dict[str, Any]:
    """What a stream publishes after further records, or plays."""
    name = asked["name"]
    if engine.leases is not None:
        engine.call(Claim(name, engine.leases))
    if asked["kind"] == "bandit":
        for _ in range(3):
            ticket = json.loads(engine.call(Ask(name)))["ticket"]
            keys = home.keys.ticket(ticket), home.keys.pack(f"ticket {ticket}")
            engine.call(Tell(name, ticket, 0.25, keys, home.keys.digest(b"0.25")))
    else:
        encoder = runners.encoder_of(Specification.from_dict(asked))
        reader = Reader(encoder, home.keys, labelled=asked["kind"] != "total")
        again = engine.call(Send(name, reader.lines(_records(asked, 7, 7))))
        assert (again["accepted"], again["repeated"]) == (0, 7)
        engine.call(Send(name, reader.lines(_records(asked, 14, 7))))
    found: dict[str, Any] = json.loads(engine.live(name).head.body)
    return found


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for name in sorted(value) for x in _flat(value[name])]
    return [x for item in value for x in _flat(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("version", ["1", "2"])
def test_what_earlier_versions_wrote(
    version: str,
    store: Callable[[], str | None],
    tmp_path: Path,
    options: Options,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Folders that earlier versions made, and what those published when they went on from there."""
    lease._known.clear()  # as in a new process: this one goes on from the same states in each store
    told = json.loads((EARLIER / f"format-{version}.json").read_text())
    assert options.data is not None
    options.data.mkdir()
    options.key_file = tmp_path / "key"
    options.key_file.write_text(told["key"])
    packed = (EARLIER / f"format-{version}.sqlite.gz").read_bytes()
    (options.data / "service.sqlite").write_bytes(gzip.decompress(packed))
    leases = None
    database = store()
    if database is not None:
        options = _in_postgres(options, version, database, monkeypatch)
        leases = Leases("here", "http://here", 60.0)
    adopting = open_home(options, adopting=True)  # it lies elsewhere than where it was served
    adopting.new_anchor().close()
    adopting.close()
    home = open_home(options)
    with home.store.read() as rows:
        assert rows.fact("format") == sql.FORMAT
    engine = Engine(home.store, home.ring, leases=leases)
    assert home.anchor is not None
    engine.committed = home.anchor.commit
    for asked in told["specifications"]:
        if asked["name"] in GOES_ON[version]:
            found = _go_on(engine, home, asked)
            assert _flat(found) == pytest.approx(_flat(told["after"][asked["name"]]), rel=1e-9)
        else:
            before = engine.live(asked["name"]).head
            with pytest.raises(Problem, match="another version of Reticent") as caught:
                _go_on(engine, home, asked)
            assert (caught.value.status, caught.value.name) == (409, "state-of-another-version")
            assert engine.live(asked["name"]).head == before
    engine.stop()
    home.close()


def _in_postgres(
    options: Options, version: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> Options:
    """The same rows in a database of the same format."""
    from reticent.service import postgres

    assert options.data is not None
    old = sqlite3.connect(options.data / "service.sqlite")
    there = {name for (name,) in old.execute("SELECT name FROM sqlite_master")}

    def whole(table: str) -> tuple[str, list[str], list[Any]]:
        found = old.execute(f"SELECT * FROM {table}")
        return table, [column[0] for column in found.description], found.fetchall()

    with monkeypatch.context() as patch:
        patch.setattr(sql, "MIGRATIONS", sql.MIGRATIONS[: int(version)])
        for module in (sql, postgres):
            patch.setattr(module, "FORMAT", version)
        made = postgres.PostgresStore(database)
        made.fill(whole(table) for table in sql.TABLES if table in there)
        made.close()
    old.close()
    return replace(options, data=None, database=database)


@pytest.mark.parametrize("found", ["99", "none", ""])
def test_another_format_is_refused(options: Options, found: str) -> None:
    Folder(options).close()
    with sqlite3.connect(options.data / "service.sqlite") as db:
        db.execute("UPDATE about SET value = ? WHERE name = 'format'", (found,))
    with pytest.raises(StoreError, match="version that wrote it"):
        Folder(options)


def test_a_file_without_tables_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    with pytest.raises(StoreError, match=r"it is empty\. Put a whole backup"):
        SqliteStore(empty)
    assert empty.stat().st_size == 0
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE things (x)")
    with pytest.raises(StoreError, match="holds no tables of a service"):
        SqliteStore(other)
