"""Databases of earlier versions, interrupted migrations, and files that hold no service."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from reticent.service import sql
from reticent.service.engine import Engine
from reticent.service.folder import Folder, Options
from reticent.service.records import Reader
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore
from reticent.service.store import StoreError
from reticent.service.streams import Create, Send

from .running import records, specification


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    return Options(tmp_path / "data")


def _send(folder: Folder, first: int) -> bytes:
    import msgspec

    from reticent.service import runners

    engine = Engine(folder.store, folder.ring)
    assert folder.anchor is not None
    engine.committed = folder.anchor.commit
    asked = Specification.from_dict(specification("old", seed=5))
    engine.call(Create(asked))
    reader = Reader(runners.encoder_of(asked), folder.keys)
    lines = b"\n".join(msgspec.json.encode(line) for line in records(first, 3))
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
