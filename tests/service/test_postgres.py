"""The store in PostgreSQL, on a real server: the same bytes as SQLite, leases, lost connections, refusals."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

pytest.importorskip("starlette", reason="the service needs its extra")
pytest.importorskip("psycopg", reason="PostgreSQL needs the extra [postgres]")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import psycopg
from faults import database

from reticent.privacy import Budget
from reticent.service import chain, postgres, runners, sql
from reticent.service.adopting import adopt
from reticent.service.anchor import Anchor, peek
from reticent.service.engine import Engine
from reticent.service.folder import Folder, Home, Options, Shared
from reticent.service.leases import Claim, Leases, ReleaseLeases, Renew
from reticent.service.ledgers import add_ledger
from reticent.service.looking import look, verify
from reticent.service.moving import move
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.routes_admin import _AddLedger as AddLedger
from reticent.service.specification import Specification
from reticent.service.store import StoreError, StoreFailed
from reticent.service.streams import Create, Send

from .conftest import fresh_database
from .running import Service, records, specification

pytestmark = pytest.mark.skipif(database.available() is not None, reason=database.available() or "")


@pytest.fixture(scope="module")
def server() -> Iterator[database.Database]:
    """A server of this file's own, which some tests stop; each test makes a database of its own."""
    made = database.Database()
    yield made
    made.close()


@pytest.fixture
def options(server: database.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    return Options(None, key_file=key, database=fresh_database(server))


def sql_of(options: Options, *statements: str) -> list[Any]:
    """Something done behind the service's back."""
    with psycopg.connect(options.database, autocommit=True) as admin:
        admin.execute("SET search_path = reticent")
        for statement in statements:
            found = admin.execute(statement)
        return found.fetchall() if found.description else []


class Worker:
    """An engine with leases on a home, as `serve` has it."""

    def __init__(self, home: Home, seconds: float = 60.0) -> None:
        self.home = home
        shared = isinstance(home, Shared)
        address = f"http://{os.urandom(3).hex()}"
        self.leases = Leases(address, address, seconds) if shared else None
        self.engine = Engine(home.store, home.ring, leases=self.leases)
        assert home.anchor is not None
        self.engine.follows, self.engine.committed = home.anchor.follow, home.anchor.commit

    def create(self, name: str, **more: Any) -> None:
        self.engine.call(Create(Specification.from_dict(specification(name, seed=5, **more))))

    def claim(self, name: str) -> Any:
        assert self.leases is not None
        return self.engine.call(Claim(name, self.leases))

    def send(self, name: str, first: int, count: int = 3) -> dict[str, Any]:
        asked = self.engine.live(name).specification
        reader = Reader(runners.encoder_of(asked), self.home.keys)
        lines = b"\n".join(msgspec.json.encode(line) for line in records(first, count))
        found: dict[str, Any] = self.engine.call(Send(name, reader.lines(lines)))
        return found

    def body(self, name: str) -> bytes:
        return self.engine.live(name).head.body

    def close(self) -> None:
        if self.leases is not None:
            self.engine.call(ReleaseLeases(self.leases))
        self.engine.stop()
        self.home.close()


@pytest.fixture
def workers(options: Options) -> Iterator[list[Worker]]:
    """Two workers on one database."""
    made = [Worker(Shared(options)), Worker(Shared(options))]
    yield made
    for worker in made:
        worker.close()


def spent_and_closed(home: Home) -> tuple[int, str]:
    """Charges of the ledger "shared", and why it is closed."""
    with home.store.read() as rows:
        (row,) = [row for row in rows.ledgers() if row.name == "shared"]
        return len(rows.entries("shared")), row.closed


def test_a_ledger_that_others_may_have_charged_is_closed_by_an_adoption(
    options: Options, tmp_path: Path
) -> None:
    """A backup of a folder from before it was moved, and a database that workers of other machines may have served."""
    budget = Budget(1.0, 1e-6, window=64)
    here = Worker(Folder(Options(tmp_path / "data")))
    here.engine.call(AddLedger("shared", budget, "record"))
    here.close()
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    move(replace(options, data=tmp_path / "data", key_file=None))
    moved = replace(options, key_file=tmp_path / "data" / "service.key")
    there = Worker(Shared(moved))
    there.create("charged-after-the-move", ledger="shared")
    assert spent_and_closed(there.home) == (1, "")
    there.close()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "backup").rename(tmp_path / "data")
    assert adopt(Options(tmp_path / "data")).closed == ["shared"]

    # this machine's anchor knows of one charge, as the database does, but not of what other machines knew
    sql_of(moved, "UPDATE about SET value = 'postgresql 1 2 3' WHERE name = 'place'")
    assert adopt(replace(moved, key_file=tmp_path / "data" / "service.key")).closed == ["shared"]


def test_both_stores_publish_the_same_bytes(
    options: Options, tmp_path: Path, workers: list[Worker]
) -> None:
    alone = Worker(Folder(Options(tmp_path / "data")))
    here = workers[0]
    for worker in (alone, here):
        worker.create("same")
    assert here.claim("same").token == 1
    for first in (0, 3, 0, 6):  # the third is a repeat
        assert alone.send("same", first) == here.send("same", first)
        assert alone.body("same") == here.body("same")
    alone.close()


def test_a_stream_moves_and_whoever_lost_it_writes_nothing(
    options: Options, tmp_path: Path, workers: list[Worker]
) -> None:
    one, two = workers
    one.create("moves")
    one.claim("moves")
    one.send("moves", 0)
    held = two.claim("moves")
    assert held.token is None
    assert held.address == one.leases.address  # type: ignore[union-attr]
    with pytest.raises(Problem, match="moving"):
        two.send("moves", 3)
    sql_of(options, "UPDATE leases SET expires = 0")  # as if the first had fallen silent
    assert two.claim("moves").token == 2
    two.send("moves", 3)
    before = two.body("moves")
    for _ in range(2):
        with pytest.raises(Problem, match="moving") as caught:
            one.send("moves", 6)
        assert caught.value.status == 503
    assert one.body("moves") == before  # it reads what the other has published
    assert two.send("moves", 6)["accepted"] == 3
    one.engine.call(ReleaseLeases(one.leases))  # type: ignore[arg-type]
    two.engine.call(ReleaseLeases(two.leases))  # type: ignore[arg-type]
    assert one.claim("moves").token == 3
    one.send("moves", 9)
    alone = Worker(Folder(Options(tmp_path / "data")))
    alone.create("moves")
    for first in (0, 3, 6, 9):
        alone.send("moves", first)
    assert alone.body("moves") == one.body("moves")
    alone.close()


def test_renewing_tells_what_was_lost(options: Options, workers: list[Worker]) -> None:
    one, two = workers
    for name in ("kept", "lost"):
        one.create(name)
        one.claim(name)
    assert one.leases is not None
    one.engine.call(Renew(one.leases))
    assert set(one.leases.held()) == {"kept", "lost"}
    sql_of(options, "UPDATE leases SET expires = 0 WHERE name = 'lost'")
    two.claim("lost")
    one.engine.call(Renew(one.leases))
    assert one.leases.held() == ["kept"]
    with one.home.store.read() as rows:
        assert [address for _, address, _ in rows.workers()] == sorted(
            worker.leases.address
            for worker in workers  # type: ignore[union-attr]
        )


def test_a_lease_from_a_clock_in_the_future_is_void(
    options: Options, workers: list[Worker]
) -> None:
    one, two = workers
    one.create("future")
    one.claim("future")
    one.send("future", 0)
    sql_of(options, "UPDATE leases SET expires = expires + 86400 * 365")
    assert two.claim("future").token == 2
    assert two.send("future", 3)["accepted"] == 3
    with pytest.raises(Problem, match="moving"):
        one.send("future", 6)


def test_a_lease_cannot_be_taken_within_a_transaction(
    options: Options, workers: list[Worker]
) -> None:
    one, _ = workers
    one.create("busy")
    token = one.claim("busy").token
    found = []
    with one.home.store.transaction() as rows:
        rows.hold("busy", token)
        sql_of_other = threading.Thread(
            target=lambda: found.append(
                sql_of(options, "UPDATE leases SET token = token + 1 WHERE name = 'busy'")
            )
        )
        sql_of_other.start()
        time.sleep(0.3)
        assert not found  # it waits for the commit
    sql_of_other.join()
    with pytest.raises(Problem, match="moving"):
        one.send("busy", 0)


def test_two_workers_cannot_overspend_a_ledger(options: Options, workers: list[Worker]) -> None:
    class _Add:
        def apply(self, turn: Any) -> None:
            add_ledger(turn, "shared", Budget(1.5, 1e-5, window=64), "record")

    workers[0].engine.call(_Add())
    refused = []

    def create(worker: Worker, number: int) -> None:
        try:
            worker.create(f"payer{number}", ledger="shared")
        except Problem as problem:
            refused.append(problem.name)

    threads = [
        threading.Thread(target=create, args=(worker, 2 * turn + k))
        for turn in range(3)
        for k, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with workers[0].home.store.read() as rows:
        paid = len(rows.entries("shared"))
        assert paid == len(rows.streams())
    assert set(refused) == {"budget-exceeded"}
    assert 1 <= paid < 6
    assert len(refused) == 6 - paid


def test_a_lost_server_is_survived(
    server: database.Database, options: Options, tmp_path: Path
) -> None:
    worker = Worker(Shared(options))
    worker.create("survivor")
    worker.claim("survivor")
    worker.send("survivor", 0)
    for end in (server.kill, server.immediate):
        end()
        with pytest.raises(Problem) as caught:
            worker.send("survivor", 3)
        assert caught.value.status == 503
        server.start()
    found = worker.send("survivor", 3)
    assert found["accepted"] + found["repeated"] == 3
    assert worker.send("survivor", 3)["repeated"] == 3
    alone = Worker(Folder(Options(tmp_path / "data")))
    alone.create("survivor")
    for first in (0, 3):
        alone.send("survivor", first)
    assert alone.body("survivor") == worker.body("survivor")
    alone.close()
    worker.close()


def test_a_folder_moves_without_a_gap_or_a_double_count(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, twin = (Worker(Folder(Options(tmp_path / name))) for name in ("data", "twin"))
    for worker in (here, twin):
        worker.create("moved")
        for first in (0, 3):
            worker.send("moved", first)
    here.close()
    both = replace(options, data=tmp_path / "data", key_file=None)
    with monkeypatch.context() as patch:
        # interrupted when the folder was marked and nothing was copied
        patch.setattr(postgres.PostgresStore, "fill", lambda self, tables: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move(both)
    with pytest.raises(StoreError, match="was moved to a PostgreSQL database"):
        Folder(Options(tmp_path / "data"))
    assert move(both) == 1
    with pytest.raises(StoreError, match="moved to this database already"):
        move(both)
    with pytest.raises(StoreError, match="was moved to a PostgreSQL database"):
        Folder(Options(tmp_path / "data"))
    with pytest.raises(StoreError, match="nothing to move"):
        move(replace(both, data=tmp_path / "nowhere"))
    Folder(Options(tmp_path / "fresh")).close()
    with pytest.raises(StoreError, match="holds another service"):
        move(replace(both, data=tmp_path / "fresh"))
    there = Worker(Shared(replace(options, key_file=tmp_path / "data" / "service.key")))
    there.claim("moved")
    assert there.body("moved") == twin.body("moved")
    assert there.send("moved", 3)["repeated"] == 3
    for worker in (there, twin):
        worker.send("moved", 6)
        worker.create("another")
    assert there.body("moved") == twin.body("moved")
    for worker in (there, twin):
        worker.close()


def test_the_log_is_verified_while_workers_write(options: Options, workers: list[Worker]) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        verify(replace(options, database=options.database.replace("reticent@", "nobody-here@")))  # type: ignore[union-attr]
    one, two = workers
    for worker in workers:
        worker.engine.witness = chain.witness
    one.create("seen")
    one.claim("seen")
    one.send("seen", 0)
    assert (found := verify(options)).wrong == []
    assert (found.charges, found.decisions) == (1, 2)
    with look(options) as rows:  # one moment, whatever comes meanwhile
        two.create("later")
        one.send("seen", 3)
        assert chain.verify(rows).wrong == []
        assert [row.name for row in rows.streams()] == ["seen"]
    assert verify(options).charges == 2
    sql_of(options, "UPDATE outputs SET body = 'other' WHERE number = 1")
    assert "not the bytes" in verify(options).wrong[0]
    sql_of(options, "UPDATE about SET value = '1' WHERE name = 'format'")
    with pytest.raises(StoreError, match="start the service once"):
        verify(options)
    assert sql_of(options, "SELECT value FROM about WHERE name = 'format'") == [("1",)]


def test_what_is_refused(
    server: database.Database, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="share its key"):
        Shared(replace(options, key_file=None))
    nowhere = options.database.replace(str(server.port), "1")  # type: ignore[union-attr]
    with pytest.raises(StoreError, match="check --database"):
        Shared(replace(options, database=nowhere))
    with monkeypatch.context() as patch:
        patch.setattr(postgres, "OLDEST", 10_000_000)
        with pytest.raises(StoreError, match="too old"):
            Shared(options)
    Shared(options).close()
    sql_of(options, "UPDATE about SET value = '99' WHERE name = 'format'")
    with pytest.raises(StoreError, match="version that wrote it"):
        Shared(options)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
        try:
            time.sleep(0.2)
            with pytest.raises(StoreError, match="fsync"):
                Shared(options)
        finally:
            admin.execute("ALTER SYSTEM RESET fsync")
            admin.execute("SELECT pg_reload_conf()")
            time.sleep(0.2)


def test_an_interrupted_migration_changes_nothing(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(Shared(options))
    worker.create("old")
    worker.claim("old")
    worker.send("old", 0)
    worker.close()
    sql_of(
        options, "DROP TABLE log", "DROP TABLE sources", "DROP TABLE leases", "DROP TABLE persons",
        "UPDATE about SET value = '1' WHERE name = 'format'",
    )  # fmt: skip
    broken = (*sql.MIGRATIONS[:-1], sql.MIGRATIONS[-1] + "; CREATE TABLE about (x {integer})")
    with monkeypatch.context() as patch:
        patch.setattr(sql, "MIGRATIONS", broken)
        with pytest.raises(StoreError, match="already exists"):
            Shared(options)
    ((there,),) = sql_of(options, "SELECT to_regclass('reticent.log')::text")
    assert there is None
    worker = Worker(Shared(options))
    worker.claim("old")
    assert worker.send("old", 0)["repeated"] == 3
    assert worker.send("old", 3)["accepted"] == 3
    worker.close()


def test_a_database_that_was_set_back_or_copied_is_refused_until_adopted(
    options: Options,
) -> None:
    worker = Worker(Shared(options))
    worker.create("anchored")
    worker.claim("anchored")
    worker.send("anchored", 0)
    worker.close()
    with pytest.raises(StoreError, match="nothing to adopt"):
        adopt(options)
    home = Shared(options)
    assert home.anchor is not None
    path = home.anchor.path
    home.close()
    facts = peek(path)
    assert facts is not None
    Anchor(path, replace(facts, commit=facts.commit + 10**6)).close()
    with pytest.raises(StoreError, match="it was set back"):
        Shared(options)
    assert adopt(options).renewed == ["anchored"]
    Shared(options).close()
    sql_of(options, "UPDATE about SET value = 'postgresql 1 2 3' WHERE name = 'place'")
    with pytest.raises(StoreError, match="restored elsewhere"):
        Shared(options)
    assert adopt(options).renewed == ["anchored"]
    worker = Worker(Shared(options))
    worker.claim("anchored")
    worker.send("anchored", 100)
    with worker.home.store.read() as rows:
        assert len(rows.entries("anchored")) == 3
    assert worker.leases is not None
    worker.engine.call(Renew(worker.leases))
    with pytest.raises(StoreError, match="stop them first"):
        adopt(options)
    worker.close()


def test_a_store_that_is_set_back_while_it_is_served_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are put back, in place and of the same timeline, while the server is away for a moment."""
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    (tmp_path / "key").write_text("ab" * 32)
    server = database.Database()
    options = Options(None, key_file=tmp_path / "key", database=server.url)
    worker = Worker(Shared(options))
    ended: list[str] = []

    def end(self: Engine, why: str) -> None:
        ended.append(why)
        raise StoreError(why)

    monkeypatch.setattr(Engine, "_end", end)
    for name in ("one", "two"):
        worker.create(name)
        worker.claim(name)
    server.stop()
    shutil.copytree(server.data, tmp_path / "earlier")
    server.start()
    for _ in range(2):  # connections were lost
        with contextlib.suppress(Problem, StoreFailed):
            worker.send("one", 0)
    with psycopg.connect(server.url, autocommit=True) as admin:
        for _ in range(100):  # as many transactions of others as a minute may have
            admin.execute("SELECT pg_current_xact_id()")
    for first in (0, 3, 6, 9):
        worker.send("one", first)
    server.stop()
    shutil.rmtree(server.data)
    shutil.copytree(tmp_path / "earlier", server.data)
    for path in (server.data, *server.data.rglob("*")):
        shutil.chown(path, "nobody") if os.getuid() == 0 else None
    server.start()
    for name in 3 * (
        "one",
        "two",
    ):  # at first connections are lost; then nothing is written, whatever the stream
        with pytest.raises((Problem, StoreFailed)):
            worker.send(name, 100)
    assert ended  # "one" is refused before: this process has gone beyond its state
    assert all("the store was set back while it was served" in why for why in ended)
    # those that the streams began with, and no more
    assert sql_of(options, "SELECT count(*) FROM reticent.outputs") == [(2,)]
    worker.engine.stop()
    worker.home.close()
    with pytest.raises(StoreError, match="it was set back"):
        Shared(options)
    server.close()


def test_decisions_of_another_worker_arrive_as_events(
    server: database.Database, tmp_path: Path
) -> None:
    url = fresh_database(server)
    one = Service(tmp_path / "data", database=url)
    two = Service(tmp_path / "data", database=url, token=one.token)
    one.client().create(specification("told"))
    one.client().send("told", records(0, 3))  # now its lease is the first worker's
    heard: queue.Queue[Any] = queue.Queue()

    def listen(path: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(two.url).netloc, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {one.token}"})
        with contextlib.suppress(OSError, http.client.HTTPException):
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    heard.put((path, json.loads(line[6:])))

    paths = ("/v1/events", "/v1/streams/told/events")
    for path in paths:
        threading.Thread(target=listen, args=(path,), daemon=True).start()
    first = dict(heard.get(timeout=30) for _ in paths)
    assert first[paths[0]]["all"]
    assert first[paths[1]]["steps"] == 3
    one.client().send("told", records(3, 4))
    found = {path: 0 for path in paths}
    while min(found.values()) < 7:  # the list may say again where it stood
        path, body = heard.get(timeout=30)
        (stands,) = body.get("streams", [body])
        found[path] = stands["steps"]
    for service in (one, two):
        service.kill()


def test_a_lease_that_was_not_renewed_in_time_but_nobody_took(workers: list[Worker]) -> None:
    one, _ = workers
    one.create("late")
    one.claim("late")
    one.send("late", 0)
    assert one.leases is not None
    one.leases._renewed -= 1000.0  # as after a database that was away for a while
    assert not one.leases.holds("late")
    assert one.send("late", 3)["accepted"] == 3
    assert one.send("late", 3)["repeated"] == 3
    assert one.engine.live("late").head.steps == 6
