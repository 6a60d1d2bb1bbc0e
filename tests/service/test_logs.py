"""The log of the process: JSON lines without records and without messages; docs/running.md relies on this."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reticent.service.folder import Options
from reticent.service.looking import verify

from .running import Service, specification
from .test_access import call

CELL, PERSON = 0.1234567890123, "patient-4711-of-ward-nine"


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
    assert "test_logs.py" in line["through"][0]
    assert PERSON not in json.dumps(line)
