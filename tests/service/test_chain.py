"""The log of releases and acts: who did what is in it, and whoever tampers with anything is found out."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest

from reticent.service import chain, sqlite
from reticent.service.folder import Options
from reticent.service.looking import look, verify
from reticent.service.problems import Problem
from reticent.service.store import StoreError

from .running import Service, records, specification


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which something was done, and nobody serves it any more."""
    pytest.importorskip("starlette", reason="the service needs its extra")
    folder = tmp_path_factory.mktemp("log") / "data"
    service = Service(folder)
    client = service.client()
    client.create(specification("one"))
    client.create(specification("one"))
    client.create(specification("two", publish="every"))
    client.create(specification("three"))
    for k in range(4):
        client.send("one", records(5 * k, 5))
        client.send("two", records(3 * k, 3))
    with pytest.raises(Problem):
        client.create(specification("one", publish="every"))
    with pytest.raises(Problem, match="'one' is that of stream 'one' alone"):
        client.create(specification("four", ledger="one"))
    made = client.call("POST", "/v1/tokens", {"role": "data holder", "label": "holder"})
    service.client(made["token"]).call("GET", "/v1/streams/one/diagnostics")
    client.call("DELETE", f"/v1/tokens/{made['id']}")
    client.call("DELETE", "/v1/streams/three")
    found = client.call("GET", "/v1/log")
    (folder.parent / "log.json").write_text(json.dumps(found))
    with look(Options(folder)) as rows:  # while it is served
        assert chain.verify(rows).wrong == []
    assert service.stop() == 0
    return folder


def test_every_act_is_in_the_log_with_who_did_it(served: Path) -> None:
    found = json.loads((served.parent / "log.json").read_text())
    acts = [(one["act"], one["about"].get("stream")) for one in reversed(found["acts"])]
    assert acts == [
        ("begin the log", None),
        ("add ledger", None), ("charge", None), ("create stream", "one"),
        ("add ledger", None), ("charge", None), ("create stream", "two"),
        ("add ledger", None), ("charge", None), ("create stream", "three"),
        ("make token", None), ("read diagnostics", "one"), ("revoke token", None), ("delete stream", "three"),
    ]  # fmt: skip
    who = {one["act"]: one["by"] for one in found["acts"]}
    assert who["create stream"]["role"] == "administrator"
    assert who["read diagnostics"]["label"] == "holder"
    assert {one["chain"] for one in found["heads"]} == {"acts", "stream one", "stream two", "stream three"}  # fmt: skip


def test_hashes_computed_here_are_those_of_the_log(served: Path) -> None:
    """SHA-256 of what docs/service.md says is hashed, without the service's own code."""
    database = sqlite3.connect(served / "service.sqlite")
    chains = [row[0] for row in database.execute("SELECT DISTINCT chain FROM log")]
    assert len(chains) == 4
    for number in chains:
        before = bytes(32)
        query = "SELECT number, at, body, hash FROM log WHERE chain = ? ORDER BY number"
        rows = database.execute(query, (number,))
        for place, (count, at, body, hashed) in enumerate(rows):
            assert count == place
            before = hashlib.sha256(before + struct.pack(">qqd", number, count, at) + body).digest()
            assert before == hashed
    ((first, body),) = database.execute(
        "SELECT id, body FROM streams JOIN log ON chain = id WHERE name = 'two' AND number = 2"
    )
    said = json.loads(body)
    plain = b""
    for number, steps, at, text in database.execute(
        "SELECT number, steps, at, body FROM outputs WHERE stream = ? AND number BETWEEN ? AND ? ORDER BY number",
        (first, said["first"], said["last"]),
    ):
        plain += struct.pack(">qqdq", number, steps, at, len(text)) + text
    assert (said["first"], said["last"]) == (4, 6)
    assert hashlib.sha256(plain).hexdigest() == said["digest"]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        ("UPDATE outputs SET body = replace(body, '1', '2') WHERE number = 3 AND stream = 1",
         "one: decision 3: not the bytes"),
        ("UPDATE outputs SET at = at - 1 WHERE number = 3 AND stream = 1", "one: decision 3: not the bytes"),
        ("DELETE FROM outputs WHERE number = 2 AND stream = 2", "two: decisions 1 to 3: not the bytes"),
        ("DELETE FROM log WHERE chain = 0 AND number = 3", "acts: entry 3 is missing"),
        ("DELETE FROM log WHERE chain = 2 AND number = 4", "two: decisions 10 to 12 are not in the log"),
        ("UPDATE log SET body = replace(body, 'holder', 'nobody') WHERE chain = 0", "was changed"),
        ("UPDATE log SET at = at + 1 WHERE chain = 1 AND number = 1", "one: entry 1 was changed"),
        ("UPDATE log SET chain = 99 WHERE chain = 3", "belongs to no stream"),
        ("UPDATE log SET body = 17 WHERE chain = 1 AND number = 1", "one: entry 1 was changed"),
        ("UPDATE entries SET guarantee = 'x' WHERE ledger = 'one'", "ledger one cannot be read"),
        ("DELETE FROM entries WHERE ledger = 'one'", "a charge to ledger one was removed"),
        ("UPDATE entries SET what = 'nothing' WHERE ledger = 'two'", "a charge to ledger two was removed or changed"),
        ("INSERT INTO entries SELECT NULL, ledger, at, what, guarantee FROM entries LIMIT 1",
         "1 charges are not in the log"),
    ],
)  # fmt: skip
def test_whoever_tampers_is_found_out(
    served: Path, tmp_path: Path, tamper: str, words: str
) -> None:
    shutil.copytree(served, tmp_path / "data")
    database = sqlite3.connect(tmp_path / "data" / "service.sqlite")
    database.execute(tamper)
    database.commit()
    database.close()
    assert verify(Options(served)).wrong == []
    found = verify(Options(tmp_path / "data"))
    assert any(words in line for line in found.wrong), found.wrong


def test_heads_kept_elsewhere_tell_of_an_end_that_was_cut_off(served: Path, tmp_path: Path) -> None:
    """The chain alone cannot: what is cut off together with what it is about leaves a shorter, valid one."""
    folder, heads = tmp_path / "data", tmp_path / "heads.json"
    shutil.copytree(served, folder)
    assert verify(Options(folder), heads).wrong == []
    assert json.loads(heads.read_text()) == verify(Options(folder)).heads
    database = sqlite3.connect(folder / "service.sqlite")
    database.execute("DELETE FROM log WHERE chain = 1 AND number = 4")
    database.execute("DELETE FROM outputs WHERE stream = 1 AND number = 4")
    database.execute("UPDATE states SET number = 3 WHERE stream = 1")
    database.commit()
    database.close()
    assert verify(Options(folder)).wrong == []
    before = heads.read_text()
    (wrong,) = verify(Options(folder), heads).wrong
    assert "stream one: the head of the earlier run, entry 4, is not on the chain" in wrong
    assert heads.read_text() == before
    heads.write_text("[]")
    with pytest.raises(StoreError, match="does not hold the heads"):
        verify(Options(folder), heads)


def test_a_folder_from_before_the_log_begins_one(served: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(served, folder)
    database = sqlite3.connect(folder / "service.sqlite")
    database.execute("DELETE FROM log")
    database.commit()
    database.close()
    store = sqlite.SqliteStore(folder / "service.sqlite")
    with store.transaction() as rows:
        chain.begin(rows, 0.0)
    store.close()
    found = verify(Options(folder))
    assert found.wrong == []
    assert found.charges == 3


def test_looking_refuses_what_is_no_service(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no service"), look(Options(tmp_path)):
        pass
    (tmp_path / "service.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 30)  # fmt: skip
    with pytest.raises(StoreError, match="cannot be read"), look(Options(tmp_path)):
        pass


def test_a_refused_command_leaves_no_act(served: Path) -> None:
    with look(Options(served)) as rows:
        bodies: list[Any] = [json.loads(row.body) for row in rows.log(chain.ACTS, 0, 1000)]
    assert "four" not in json.dumps(bodies)
