"""Restored backups and copies: refused until they are adopted, with fresh noise that is paid for."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reticent.privacy import Budget, Guarantee, gaussian
from reticent.service.problems import Problem

from .running import SCHEMA, Service, on_folder, records, specification

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "window": 64}


def totals(client: Any) -> Any:
    return np.array(client.stream("total")["decision"]["totals"])


def test_a_restored_backup_is_refused_until_it_is_adopted(tmp_path: Path) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    service = Service(folder, wait=False)
    client = service.client()
    columns = {name: SCHEMA["columns"][name] for name in ("a", "b")}  # type: ignore[index]
    plain = [{"id": row["id"], "x": row["x"]} for row in records(0, 30)]
    client.create(
        {"name": "total", "kind": "total", "schema": {"columns": columns}, "budget": BUDGET}
    )
    client.create(specification("model"))
    client.create(
        {"name": "plays", "kind": "bandit", "budget": {"epsilon": 1, "delta": 1e-6}, "values": [0, 1],
         "set": {"kind": "L2Ball", "dim": 2}}
    )  # fmt: skip
    client.call("POST", "/v1/ledgers", {"name": "shared", "budget": BUDGET})
    client.send("total", plain[:10])
    client.send("model", records(0, 10))
    client.ask("plays")
    assert service.stop() == 0
    shutil.copytree(folder, backup)
    service.start(wait=False)
    client = service.client()
    assert "guarantee" in client.stream("model")
    client.send("total", plain[10:20])
    client.create(specification("later", ledger="shared"))
    lost = totals(client)
    service.kill()

    shutil.copytree(folder, tmp_path / "copy")
    copied = on_folder(tmp_path / "copy")
    assert copied.returncode == 2
    assert "is a copy of" in copied.stderr
    original = tmp_path / "original"
    folder.rename(original)
    backup.rename(folder)
    restored = on_folder(folder)
    assert restored.returncode == 2
    assert "restored from a backup" in restored.stderr
    assert "adopt" in restored.stderr

    adopted = on_folder(folder, "adopt")
    assert adopted.returncode == 0, adopted.stderr
    assert "3 streams" in adopted.stdout
    assert (
        "ledger shared is closed" in adopted.stdout
    )  # the stream that it paid for is not in the backup
    service.start(wait=False)
    client = service.client()
    before = client.stream("total")
    assert (before["steps"], before["epochs"]) == (10, 2)
    assert client.send("total", plain[:10])["repeated"] == 10
    client.send("total", plain[10:20])
    # the same records after the same ones: with the noise of the other lineage the totals would be equal
    assert np.abs(totals(client) - lost).min() > 0.0
    client.send("model", records(10, 5))
    assert client.stream("model")["steps"] == 15
    assert client.ask("plays")["ticket"] == 2
    with pytest.raises(Problem, match="adopted"):
        client.tell("plays", 1, 0.5)
    with pytest.raises(Problem, match="not known"):
        client.create(specification("more", ledger="shared"))
    # both lineages together: two Gaussian releases, composed by hand
    mu = gaussian.mu(1.0, 1e-6)
    twice = gaussian.epsilon(1e-6, math.sqrt(2.0) * mu)
    assert client.stream("total")["guarantee"]["epsilon"] == pytest.approx(twice, rel=1e-4)
    ledgers = {ledger["name"]: ledger for ledger in client.ledgers()}
    assert [entry["what"].split(" (")[0] for entry in ledgers["total"]["entries"]] == [
        "stream total",
        "stream total: fresh noise after a restore",
    ]
    assert ledgers["total"]["budget"]["epsilon"] == pytest.approx(twice, rel=1e-4)
    service.kill()
    again = on_folder(folder, "adopt")
    assert again.returncode == 2
    assert "nothing to adopt" in again.stderr
    # what was moved away is the one that was served last, and needs no adoption where nothing is in its old place
    shutil.rmtree(folder)
    assert "nothing to adopt" in on_folder(original, "adopt").stderr


def test_the_same_backup_adopted_twice_is_charged_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In process: original, first adoption and second adoption may all have counted one record."""
    from reticent.service import adopting, folder, streams
    from reticent.service.engine import Engine
    from reticent.service.specification import Specification

    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    for anchor in (None, tmp_path / "anchor"):
        home = tmp_path / ("default" if anchor is None else "named")
        options = folder.Options(home / "data", anchor=anchor)
        there = folder.Folder(options)
        assert there.anchor is not None
        engine = Engine(there.store, there.ring)
        engine.committed = there.anchor.commit
        engine.call(streams.Create(Specification.from_dict(specification("s"))))
        backup = home / "backup"
        engine.stop()
        there.close()
        shutil.copytree(home / "data", backup)
        with pytest.raises(ValueError, match="nothing to adopt"):
            adopting.adopt(options)
        there = folder.Folder(options)
        engine = Engine(there.store, there.ring)
        assert there.anchor is not None
        engine.committed = there.anchor.commit
        engine.call(streams.Create(Specification.from_dict(specification("t"))))
        engine.stop()
        there.close()
        mu = gaussian.mu(1.0, 1e-6)
        for adoptions in (1, 2, 3):
            shutil.rmtree(home / "data")
            shutil.copytree(backup, home / "data")
            with pytest.raises(ValueError, match="adopt"):
                folder.Folder(options)
            done = adopting.adopt(options)
            assert done.adoptions == adoptions
            there = folder.Folder(options)
            with there.store.read() as rows:
                stream = rows.stream("s")
                assert stream is not None
                ledger = streams_ledger(rows)
            there.close()
            assert stream.epochs == 1 + adoptions
            found = Guarantee.from_dict(stream.guarantee).epsilon(1e-6)
            wanted = gaussian.epsilon(1e-6, math.sqrt(1.0 + adoptions) * mu)
            assert found == pytest.approx(wanted, rel=1e-4)
            assert ledger.epsilon(1e-6) == pytest.approx(wanted, rel=1e-4)
        # a fresh folder does not take the anchor of another
        if anchor is not None:
            with pytest.raises(ValueError, match="of another folder"):
                folder.Folder(folder.Options(home / "fresh", anchor=anchor))


def test_two_folders_do_not_charge_one_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adopted copy keeps a shared ledger open only if its original, which may go on charging it, is refused."""
    from reticent.service import adopting, folder, streams
    from reticent.service.engine import Engine
    from reticent.service.ledgers import ledger_of
    from reticent.service.routes_admin import _AddLedger
    from reticent.service.specification import Specification
    from reticent.service.store import StoreError

    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))

    def serve(data: Path, *commands: Any) -> dict[str, Any]:
        """Carry out commands on a folder; returns what is spent of the shared ledger, and whether it is closed."""
        home = folder.Folder(folder.Options(data))
        assert home.anchor is not None
        engine = Engine(home.store, home.ring)
        engine.committed = home.anchor.commit
        try:
            for command in commands:
                engine.call(command)
            with home.store.read() as rows:
                (row,) = [row for row in rows.ledgers() if row.name == "shared"]
                return {"spent": ledger_of(rows, "shared").spent, "closed": row.closed}
        finally:
            engine.stop()
            home.close()

    def half(name: str) -> streams.Create:
        budget = {"epsilon": 0.7, "delta": 1e-6, "window": 64}
        wanted = specification(name, ledger="shared", budget=budget)
        return streams.Create(Specification.from_dict(wanted))

    original, copy, later = (tmp_path / name for name in ("original", "copy", "later"))
    serve(original, _AddLedger("shared", Budget(1.0, 1e-6, window=64), "record"))
    shutil.copytree(original, copy)
    shutil.copytree(original, later)
    assert adopting.adopt(folder.Options(copy)).closed == []
    found = serve(copy, half("one"))
    assert not found["closed"]
    assert found["spent"].epsilon(1e-6) == pytest.approx(0.7)
    with pytest.raises(StoreError, match=r"a copy of .* was adopted, and continues its ledgers"):
        serve(original, half("two"))
    # neither the original nor another copy gets the ledger again
    for data in (later, original):
        assert adopting.adopt(folder.Options(data)).closed == ["shared"]
        assert serve(data)["closed"]
        with pytest.raises(Problem, match="not known"):
            serve(data, half("three"))


def test_a_ledger_that_bears_the_name_of_its_first_stream_is_closed_by_an_adoption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a ledger that was made with its stream has paid for nothing else since the backup."""
    from reticent.service import adopting, folder, streams
    from reticent.service.engine import Engine
    from reticent.service.routes_admin import _AddLedger
    from reticent.service.specification import Specification

    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    data, backup = tmp_path / "data", tmp_path / "backup"

    def serve(*commands: Any) -> dict[str, str]:
        """Carry out commands; returns why each ledger is closed."""
        home = folder.Folder(folder.Options(data))
        assert home.anchor is not None
        engine = Engine(home.store, home.ring)
        engine.committed = home.anchor.commit
        try:
            for command in commands:
                engine.call(command)
            with home.store.read() as rows:
                return {row.name: row.closed for row in rows.ledgers()}
        finally:
            engine.stop()
            home.close()

    def create(name: str, ledger: str | None) -> streams.Create:
        return streams.Create(Specification.from_dict(specification(name, ledger=ledger)))

    serve(_AddLedger("shop", Budget(3.0, 1e-6, window=64), "record"))
    serve(create("shop", "shop"), create("alone", None))
    with pytest.raises(Problem, match="'alone' is that of stream 'alone' alone"):
        serve(create("guest", "alone"))
    shutil.copytree(data, backup)
    serve(create("later", "shop"))
    shutil.rmtree(data)
    backup.rename(data)
    done = adopting.adopt(folder.Options(data))
    assert (done.closed, done.renewed) == (["shop"], ["alone"])
    assert serve() == {"alone": "", "shop": serve()["shop"]}
    with pytest.raises(Problem, match="not known"):
        serve(create("more", "shop"))


def streams_ledger(rows: Any) -> Guarantee:
    """What the ledger of stream s has paid for in all."""
    from reticent.service.ledgers import ledger_of

    spent = ledger_of(rows, "s").spent
    assert spent is not None
    return spent


def test_the_noise_after_an_adoption_is_as_large_as_the_service_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample deviation over many columns, before and after; each check fails by chance once in a million."""
    from reticent.service import adopting, folder, runners, streams
    from reticent.service.engine import Engine
    from reticent.service.records import Reader
    from reticent.service.specification import Specification

    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    width, number = 400, {"type": "number", "bounds": [-1, 1]}
    asked = {
        "name": "wide", "kind": "total", "budget": BUDGET,
        "schema": {"columns": {f"c{k}": number for k in range(width)}},
    }  # fmt: skip
    x = {f"c{k}": 0.5 - k / width for k in range(width)}
    sent = 0

    def told(data: Path, count: int) -> tuple[Any, float]:
        """The error of every total after further records, and the deviation that is claimed for it."""
        nonlocal sent
        home = folder.Folder(folder.Options(data))
        assert home.anchor is not None
        engine = Engine(home.store, home.ring)
        engine.committed = home.anchor.commit
        specification = Specification.from_dict(asked)
        engine.call(streams.Create(specification))
        reader = Reader(runners.encoder_of(specification), home.keys, labelled=False)
        rows = [json.dumps({"id": f"r{k}", "x": x}) for k in range(sent, sent + count)]
        engine.call(streams.Send("wide", reader.lines("\n".join(rows).encode())))
        sent += count
        found = json.loads(engine.live("wide").head.body)
        engine.stop()
        home.close()
        clean = sent * np.array(list(x.values()))
        return np.array(found["totals"]) - clean, float(found["standard_deviation"])

    def like(error: Any, deviation: float) -> None:
        square = float(np.sum((error / deviation) ** 2))
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], width)
        assert low < square < high, (square, width)

    before, first = told(tmp_path / "data", 5)
    like(before, first)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    adopting.adopt(folder.Options(tmp_path / "copy"))
    after, second = told(tmp_path / "copy", 5)
    like(after, second)
    # what was released before is in it, and the noise that came on top is new, not a part of the old one
    assert second > first
    like(after - before, math.sqrt(second**2 - first**2))
    assert abs(np.corrcoef(after - before, before)[0, 1]) < 4.9 / math.sqrt(width)
