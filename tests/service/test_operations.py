"""Running it: metrics, logs, readiness, graceful stops, backups and the doctor; docs/running.md relies on this."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.service import doctor, health
from reticent.service.backup import backup, restore
from reticent.service.folder import Options
from reticent.service.looking import verify
from reticent.service.problems import Problem
from reticent.service.store import StoreError

from .running import Service, records, specification
from .test_access import call

CELL, PERSON = 0.1234567890123, "patient-4711-of-ward-nine"


def command(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """A subcommand of `reticent serve`, as a person runs it."""
    return subprocess.run(
        [sys.executable, "-m", "reticent", "serve", *words],
        capture_output=True, text=True, timeout=120, env=service.env(),
    )  # fmt: skip


def metrics(text: str) -> dict[tuple[Any, ...], float]:
    """What /metrics says, as Prometheus reads it."""
    parser = pytest.importorskip("prometheus_client.parser", reason="reads what /metrics says")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_read_by_prometheus_and_hold_nothing_of_a_record(service: Service) -> None:
    before = metrics(call(service, service.token, "GET", "/metrics")[1].decode())
    client = service.client()
    client.create(specification("counted"))
    client.create(specification("other"))
    rows = [
        row | {"x": {"a": CELL, "b": CELL}, "id": f"{PERSON}{k}"}
        for k, row in enumerate(records(0, 8))
    ]
    client.send("counted", rows)
    token = client.call("POST", "/v1/tokens", {"role": "reader", "streams": ["counted"]})["token"]
    assert call(service, None, "GET", "/metrics")[0] == 401
    text = {}
    for name, key in (("all", service.token), ("some", token)):
        status, body = call(service, key, "GET", "/metrics")
        assert status == 200
        text[name] = body.decode()
    found = metrics(text["all"])
    assert found["reticent_stream_records_total", ("stream", "counted")] == 8
    assert found["reticent_stream_decisions_total", ("stream", "counted")] == 1
    assert found["reticent_ledger_spent_share", ("ledger", "counted")] == pytest.approx(1.0)
    assert found[("reticent_ready",)] == 1
    route = ("route", "/v1/streams/{name}/records")
    sent = ("reticent_requests_total", ("method", "POST"), route, ("status", "200"))
    assert found[sent] - before.get(sent, 0) == 1
    buckets = [value for (name, *labels), value in found.items()
               if name == "reticent_request_seconds_bucket" and route in labels]  # fmt: skip
    assert buckets == sorted(buckets)
    count = ("reticent_request_seconds_count", ("method", "POST"), route)
    assert max(buckets) == found[count] == before.get(count, 0) + 1
    commands = ("reticent_commands_total",)
    assert found[commands] - before.get(commands, 0) >= 3
    assert "other" not in text["some"]
    for word in (PERSON, str(CELL), service.token, "person", "clipped"):
        assert word not in text["all"]


def test_logs_are_json_lines_without_records_and_say_the_heads_at_the_end(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", "--log-requests", wait=False)
    client = service.client()
    client.create(specification("logged"))
    client.send("logged", [{"id": PERSON, "x": {"a": CELL, "b": 0.5}, "y": True, "person": None}])
    bad = b'{"id": "%s", "x": {"a": "%s", "b": 1}, "y": true}' % (PERSON.encode(), PERSON.encode())
    assert call(service, service.token, "POST", "/v1/streams/logged/records", bad)[0] == 422
    service.process.terminate()
    _, text = service.process.communicate(timeout=60)
    assert service.process.returncode == 0
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"at", "level", "event"} <= set(line) for line in lines)
    events = [line["event"] for line in lines]
    assert "listening" in events
    assert "stopping" in events  # and it may have become ready since
    assert events[-1] == "stopped"
    requests = [line for line in lines if line["event"] == "request" and line.get("stream")]
    assert [line["status"] for line in requests] == [200, 422]
    assert all(line["route"] == "/v1/streams/{name}/records" and line["token"] for line in requests)
    for word in (PERSON, str(CELL), service.token):
        assert word not in text
    assert lines[-1]["heads"] == verify(Options(tmp_path / "data")).heads


def test_an_error_is_logged_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    from reticent.service import logs

    every = [logging.getLogger(name) for name in logs.NAMES]
    before = [(one, one.handlers[:], one.propagate, one.level) for one in every]
    try:
        logs.begin("info")
        try:
            raise ValueError(f"could not convert {PERSON}")
        except ValueError as error:
            logs.log.error("a command failed", exc_info=error)
    finally:
        logging.captureWarnings(False)
        for one, handlers, propagate, level in before:
            one.handlers[:], one.propagate = handlers, propagate
            one.setLevel(level)
    line = json.loads(capsys.readouterr().err)
    assert line["error"] == "ValueError"
    assert "test_operations.py" in line["through"][0]
    assert PERSON not in json.dumps(line)


def test_a_stop_answers_what_was_asked_and_loses_nothing(tmp_path: Path) -> None:
    """SIGTERM under load: every answer that a client got is there after the next start, once."""
    service = Service(tmp_path / "data")
    service.client().create(specification("busy"))
    acknowledged: list[int] = []
    refused: list[str] = []
    going = threading.Event()

    def send(first: int) -> None:
        client = service.client(patience=0)
        for k in range(first, first + 100_000, 5):
            try:
                acknowledged.append(client.send("busy", records(k, 5))["accepted"])
            except (Problem, ConnectionError) as error:
                refused.append(str(error))
                return
            going.set()

    threads = [threading.Thread(target=send, args=(10**6 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    assert going.wait(60)
    time.sleep(0.3)
    assert service.stop() == 0
    for thread in threads:
        thread.join(60)
    assert len(refused) == 4  # each ended with a refusal or a closed door, none with half an answer
    assert not (tmp_path / "data" / "service.sqlite-wal").exists()
    service.start()
    # what was committed and not answered may be there as well; nobody was told so
    steps = service.client().stream("busy")["steps"]
    assert sum(acknowledged) <= steps <= sum(acknowledged) + 20
    assert service.stop() == 0
    assert verify(Options(tmp_path / "data")).wrong == []


def test_readiness_means_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(command: Any) -> bool:
        await asyncio.sleep(60)
        return True

    async def quick(command: Any) -> bool:
        return True

    def state(**more: Any) -> Any:
        usual = {
            "ready": True,
            "stopping": SimpleNamespace(is_set=lambda: False),
            "folder": tmp_path,
            "do": quick,
        }
        return SimpleNamespace(**usual | more)

    asyncio.run(health.check(state()))
    monkeypatch.setattr(health, "_PATIENCE", 0.01)
    for found, words in (
        (state(ready=False), "starting"), (state(stopping=SimpleNamespace(is_set=lambda: True)), "stopping"),
        (state(do=slow), "did not reach the store"),
    ):  # fmt: skip
        with pytest.raises(Problem, match=words) as caught:
            asyncio.run(health.check(found))
        assert caught.value.status == 503
        assert caught.value.headers["Retry-After"]
    monkeypatch.setattr(health, "free_bytes", lambda folder: 2**20)
    with pytest.raises(Problem, match="1 MiB are free"):
        asyncio.run(health.check(state()))
    dead = SimpleNamespace(
        engine=SimpleNamespace(alive=lambda: False), stopping=SimpleNamespace(is_set=lambda: False)
    )
    with pytest.raises(Problem, match="start the service again"):
        asyncio.run(health.health(dead, None))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_backup_is_taken_while_records_come_and_must_be_adopted(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    client = service.client()
    client.create(specification("kept"))
    client.send("kept", records(0, 10))
    done = threading.Event()

    def load() -> None:
        busy, k = service.client(), 100
        while not done.is_set():
            busy.send("kept", records(k, 5))
            k += 5

    thread = threading.Thread(target=load)
    thread.start()
    found = command(
        service, "backup", "--data", str(service.folder), "--to", str(tmp_path / "backups" / "one")
    )
    done.set()
    thread.join(60)
    assert found.returncode == 0, found.stderr
    assert "the key is not in it" in found.stdout
    assert sorted(path.name for path in (tmp_path / "backups" / "one").iterdir()) == [
        "backup.json",
        "service.sqlite",
    ]
    options = Options(service.folder)
    with pytest.raises(StoreError, match="exists already"):
        backup(options, tmp_path / "backups" / "one")
    client.send("kept", records(50, 5))
    before = client.stream("kept")["steps"]
    service.stop()

    shutil.copy(service.folder / "service.key", tmp_path / "key")
    with pytest.raises(StoreError, match="holds a service"):
        restore(tmp_path / "backups" / "one", options)
    shutil.rmtree(service.folder)
    words = ("restore", "--source", str(tmp_path / "backups" / "one"), "--data", str(service.folder))  # fmt: skip
    assert "the key of this folder is missing" in command(service, *words).stderr
    assert not (service.folder / "service.sqlite").exists()
    (tmp_path / "wrong").write_text("ab" * 32)
    assert "another key" in command(service, *words, "--key-file", str(tmp_path / "wrong")).stderr
    found = command(service, *words, "--key-file", str(tmp_path / "key"))
    assert found.returncode == 0, found.stderr
    assert "adopt" in found.stdout
    keyed = ("--data", str(service.folder), "--key-file", str(tmp_path / "key"))
    assert "restored from a backup" in command(service, *keyed, "--port", "0").stderr
    assert any(one.level == doctor.BROKEN and one.what == "anchor" for one in doctor.examine(
        Options(service.folder, key_file=tmp_path / "key", anchor=_anchor(tmp_path))))  # fmt: skip
    assert command(service, "adopt", *keyed).returncode == 0
    again = Service(service.folder, "--key-file", str(tmp_path / "key"), token=service.token)
    there = again.client().stream("kept")
    assert 10 <= there["steps"] < before
    assert there["epochs"] == 2
    acts = [one["act"] for one in again.client().call("GET", "/v1/log")["acts"]]
    assert acts[0] == "adopt"
    again.client().send("kept", records(500, 5))
    again.stop()
    assert verify(Options(service.folder)).wrong == []


def _anchor(tmp_path: Path) -> Path:
    return next(path for path in (tmp_path / "anchors").iterdir() if not path.name.endswith(".adoptions"))  # fmt: skip


@pytest.mark.slow
def test_damaged_backups_are_refused(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    service.stop()
    manifest = backup(Options(service.folder), tmp_path / "good")
    assert manifest["bytes"] == (tmp_path / "good" / "service.sqlite").stat().st_size
    where = Options(tmp_path / "new", key_file=service.folder / "service.key")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    with open(tmp_path / "bad" / "service.sqlite", "r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    with pytest.raises(StoreError, match="damaged"):
        restore(tmp_path / "bad", where)
    with pytest.raises(StoreError, match="is no backup"):
        restore(tmp_path / "nothing", where)
    with pytest.raises(StoreError, match="there is no service"):
        backup(Options(tmp_path / "nothing"), tmp_path / "two")
    with pytest.raises(StoreError, match="pg_dump"):
        backup(Options(None, database="postgresql:///x"), tmp_path / "two")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
def test_the_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    service.client().create(specification("ill"))
    found = command(service, "doctor", "--data", str(service.folder))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "it is being served" in found.stdout
    assert "look   key       it lies beside the database" in found.stdout
    assert "all hashes right" in found.stdout
    service.stop()
    anchor = _anchor(tmp_path)

    def broken(**more: Any) -> set[str]:
        options = Options(service.folder, **{"anchor": anchor} | more)
        return {one.what for one in doctor.examine(options) if one.level == doctor.BROKEN}

    assert broken() == set()
    assert broken(anchor=tmp_path / "none") == {"anchor"}
    (tmp_path / "wrong").write_text("ab" * 32)
    (tmp_path / "wrong").chmod(0o600)
    assert broken(key_file=tmp_path / "wrong") == {"key"}
    (service.folder / "service.key").chmod(0o644)
    assert broken() == {"key"}
    (service.folder / "service.key").chmod(0o600)
    os.rename(service.folder / "service.key", tmp_path / "away")
    assert broken() == {"key"}
    assert broken(key_file=tmp_path / "away") == set()
    with open(service.folder / "service.sqlite", "r+b") as file:
        file.seek(8200)
        file.write(os.urandom(3000))
    assert broken(key_file=tmp_path / "away")
    with pytest.raises(StoreError, match="there is no service"):
        doctor.examine(Options(tmp_path))


def test_the_figures_of_the_page_are_those_that_were_kept() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import kept
    import service as benchmark

    runs = kept.stored("service")
    assert benchmark.page(runs) == benchmark.PAGE.read_text()
    turns = [dict.fromkeys(runs[-1]["ratios"], 12.34)]
    assert "| 12.34 |" in benchmark.page([runs[-1] | {"ratios_of_turns": turns}])
