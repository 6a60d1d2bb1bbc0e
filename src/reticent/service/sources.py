"""Sources from which the service fetches records itself: files in a folder, a PostgreSQL table, a Redis stream.

A source has one method: given a position, it returns the records after it and the next position
(:class:`RecordSource`). The position is written in the transaction that counts the records, and only if it is still the
one from which they were fetched; so a restart, or two workers that fetch at once, neither repeat nor skip records. A
new kind is a class with ``fetch`` and a line in ``KINDS``. For Kafka a position is a JSON object with the offset of
each partition: ``fetch`` assigns these, polls, and returns values and offsets; the consumer group's own offsets are not
used.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reticent.service.engine import Engine, Turn
from reticent.service.leases import Claim
from reticent.service.problems import Problem
from reticent.service.records import Batch, Reader
from reticent.service.specification import check_name
from reticent.service.store import StoreError
from reticent.service.streams import learn

log = logging.getLogger("reticent.service")

MOST = 1000
"""Records that are counted in one transaction and lead to one decision."""
_PAUSE = 1.0  # seconds between requests to a source that had nothing
_AGAIN = 10.0  # seconds after which a failed source is retried


class RecordSource(Protocol):
    """A source of records, in an order that does not change."""

    def fetch(self, position: str, most: int) -> tuple[list[bytes], str]:
        """At most ``most`` records after a position, each as a JSON line, and the position after the last one.

        The position is empty at the beginning; an empty list means that there are no new records.
        """


class FolderSource:
    """Files ``*.jsonl`` in a folder, in the order of their names; lines are appended, and new files come last.

    A line counts once it ends with a newline. A position is the name of a file and the number of its bytes that were
    read.

    Parameters
    ----------
    path : str
        Path of the folder.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        if not self._path.is_dir():
            raise ValueError(f"path must be a folder, got {path}")

    def fetch(self, position: str, most: int) -> tuple[list[bytes], str]:
        name, _, offset = position.rpartition(":")
        files = sorted(file.name for file in self._path.glob("*.jsonl") if file.name >= name)
        found: list[bytes] = []
        for file in files:
            start = int(offset) if file == name else 0
            with open(self._path / file, "rb") as lines:
                lines.seek(start)
                while len(found) < most and (line := lines.readline()).endswith(b"\n"):
                    start += len(line)
                    position = f"{file}:{start}"
                    if line.strip():
                        found.append(line)
            if len(found) == most:
                break
        return found, position


class TableSource:
    """Rows of a PostgreSQL table, in the order of an increasing key.

    A key from a sequence may be committed after a later one. So the table is locked briefly against writers, which
    waits for those in progress; up to the largest key at that time nothing is missing.

    Parameters
    ----------
    url : str
        libpq URL of the database.
    table : str
        Name of the table, with its schema if necessary.
    key : str
        Its increasing column.
    record : str
        SQL expression that gives the record as a JSON object with ``x`` and ``y``.
    """

    def __init__(self, url: str, table: str, key: str, record: str) -> None:
        from psycopg import sql

        self._url = url
        self._table = sql.Identifier(*table.split("."))
        self._key, self._record = sql.Identifier(key), sql.SQL(record)

    def fetch(self, position: str, most: int) -> tuple[list[bytes], str]:
        import psycopg
        from psycopg import sql

        parts = {"table": self._table, "key": self._key, "record": self._record}
        with psycopg.connect(self._url, connect_timeout=5) as connection:
            connection.execute("SET LOCAL lock_timeout = '5s'")
            connection.execute(sql.SQL("LOCK TABLE {table} IN SHARE MODE").format(**parts))
            last = connection.execute(
                sql.SQL("SELECT max({key}) FROM {table}").format(**parts)
            ).fetchone()
            connection.commit()
            first = int(position) if position else -(2**63)
            bound = first if last is None or last[0] is None else last[0]
            found = connection.execute(
                sql.SQL(
                    "SELECT {key}, ({record})::text FROM {table} WHERE {key} > %s AND {key} <= %s"
                    " ORDER BY {key} LIMIT %s"
                ).format(**parts),
                (first, bound, most),
            ).fetchall()
        return [line.encode() for _, line in found], str(found[-1][0]) if found else position


class RedisSource:
    """Entries of a Redis stream, each with the record as JSON in one field.

    Parameters
    ----------
    url : str
        URL of the server, ``redis://...`` or ``unix://...``.
    key : str
        Key of the stream.
    field : str
        Field that holds the record. Default: "record".
    """

    def __init__(self, url: str, key: str, field: str = "record") -> None:
        try:
            import redis
        except ImportError:
            raise ValueError("a Redis source needs redis: pip install redis") from None
        self._client = redis.Redis.from_url(url, socket_timeout=10)
        self._key, self._field = key, field.encode()

    def fetch(self, position: str, most: int) -> tuple[list[bytes], str]:
        found: Any = self._client.xrange(self._key, f"({position}" if position else "-", "+", most)
        lines = [entry.get(self._field, b"") for _, entry in found]
        return lines, found[-1][0].decode() if found else position


KINDS: dict[str, Callable[..., RecordSource]] = {
    "folder": FolderSource,
    "postgres": TableSource,
    "redis": RedisSource,
}


@dataclass(frozen=True)
class Pull:
    """Count fetched records, unless another worker has counted them."""

    stream: str
    source: str
    before: str
    after: str
    batch: Batch

    def apply(self, turn: Turn) -> int:
        """Count the records, and return how many were counted."""
        live = turn.stream(self.stream)
        position, stream = turn.rows.position(self.source)
        if position != self.before:
            return 0
        learn(turn, live, self.batch, self.source)
        turn.rows.set_position(self.source, self.stream, self.after)
        if stream != self.stream:
            turn.act({"act": "begin source", "source": self.source, "stream": self.stream})
        return len(self.batch)


@dataclass(frozen=True)
class Described:
    """A source as described in the file of sources."""

    name: str
    stream: str
    source: RecordSource


def read_sources(path: Path) -> list[Described]:
    """The sources that a file describes.

    Parameters
    ----------
    path : path
        A JSON list of objects with ``name``, ``stream``, ``kind`` and the arguments of the kind.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, list):
            raise ValueError("it must hold a list")
        made = [_described(one) for one in found]
        if len({one.name for one in made}) < len(made):
            raise ValueError("two sources have the same name")
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"the file of sources {path} cannot be used: {error}") from None
    return made


def _described(one: Any) -> Described:
    if not isinstance(one, dict):
        raise ValueError("each source is an object")
    given = dict(one)
    name, stream = (check_name(given.pop(word, None), word) for word in ("name", "stream"))
    kind = given.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"kind of source {name!r} must be one of {', '.join(KINDS)}")
    try:
        return Described(name, stream, KINDS[kind](**given))
    except TypeError:
        raise ValueError(
            f"source {name!r} lacks an argument of kind {kind!r}, or has an unknown one"
        ) from None


class Puller:
    """Fetches from sources, with one thread per source, while this worker writes their streams.

    Parameters
    ----------
    engine : Engine
        Counts what was fetched.
    reader : callable
        Returns the reader of a stream, by name.
    sources : sequence of Described
        Sources to fetch from.
    """

    def __init__(
        self, engine: Engine, reader: Callable[[str], Reader], sources: Sequence[Described]
    ) -> None:
        self.engine, self._reader = engine, reader
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(one,), name=f"source {one.name}", daemon=True)
            for one in sources
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop fetching."""
        self._ended.set()
        for thread in self._threads:
            thread.join(15.0)

    def _work(self, one: Described) -> None:
        while not self._ended.is_set():
            try:
                pause = 0.0 if self._leads(one.stream) and self.pull(one) else _PAUSE
            except Problem as problem:
                log.error("source %s: %s", one.name, problem.detail)
                pause = _AGAIN
            except Exception as error:  # what a source raises may quote records
                log.error("source %s failed: %s", one.name, type(error).__name__)
                pause = _AGAIN
            self._ended.wait(pause)

    def _leads(self, stream: str) -> bool:
        leases = self.engine.leases
        if leases is None or leases.holds(stream):
            return True
        with contextlib.suppress(Problem):
            self.engine.live(stream)
            return self.engine.call(Claim(stream, leases)).token is not None
        return False

    def pull(self, one: Described) -> int:
        """Fetch once, and return the number of records that were counted."""
        with self.engine.store.read() as rows:
            before, _ = rows.position(one.name)
        lines, after = one.source.fetch(before, MOST)
        if not lines:
            return 0
        batch = self._reader(one.stream).lines(b"\n".join(lines), keyed=False)
        counted: int = self.engine.call(Pull(one.stream, one.name, before, after, batch))
        return counted
