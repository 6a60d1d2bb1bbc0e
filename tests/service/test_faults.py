"""A minute of the harness in benchmarks/service_faults.py, and that its checker notices what it should."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the service needs its extra")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import kept
import service_faults
from faults import database, replay, shim

pytestmark = pytest.mark.skipif(shim.available() is not None, reason=shim.available() or "")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service_faults.Trial]:
    """One service that all scenarios happen to, one after the other."""
    made = service_faults.Trial(tmp_path_factory.mktemp("faults"), seed=19, power=True)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "count"),
    [("kills", 8), ("power", 3), ("full", 2), ("broken", 2), ("slow", 2), ("clock", 2)],
)
def test_every_acknowledged_record_counts_once(
    trial: service_faults.Trial, name: str, count: int
) -> None:
    service_faults.SCENARIOS[name].body(trial, count)
    verdict = trial.settle()
    assert not verdict.wrong, verdict
    assert verdict.records > 0


def test_the_checker_notices_what_was_tampered_with(
    trial: service_faults.Trial, tmp_path: Path
) -> None:
    trial.load(seconds=1.0)
    for client in trial.clients:
        client.wait(60)
    assert not trial.settle().wrong

    @functools.cache
    def ask(path: str) -> bytes:
        return trial.server.request("GET", path)[1]

    notes = [json.loads(line) for path in trial.journals for line in path.read_text().splitlines()]

    def verdict(changed: list[dict[str, Any]]) -> replay.Verdict:
        journal = tmp_path / "journal.jsonl"
        journal.write_text("\n".join(json.dumps(note) for note in changed))
        return replay.check([journal], trial.made, ask)

    assert not verdict(notes).wrong
    answers = [k for k, note in enumerate(notes) if note["what"] == "answer"]
    named = notes[answers[-1]]["request"]
    intent = next(k for k, n in enumerate(notes) if n["what"] == "intent" and n["request"] == named)
    # a request that was counted and never acknowledged
    assert verdict([note for note in notes if note.get("request") != named]).wrong
    # a record that was acknowledged and never counted, or counted twice
    short = notes[intent] | {"fresh": notes[intent]["fresh"][:-1]}
    long = notes[intent] | {"fresh": notes[intent]["fresh"] + notes[intent]["fresh"][-1:]}
    for changed in (short, long):
        assert verdict(notes[:intent] + [changed] + notes[intent + 1 :]).wrong
    # a record that was counted with other cells
    other = json.loads(json.dumps(notes[intent]))
    other["fresh"][0]["x"]["c0"] = 0.123456789
    assert verdict(notes[:intent] + [other] + notes[intent + 1 :]).wrong
    # an output of which a client saw one other byte
    saw = next(k for k, note in enumerate(notes) if note["what"] == "saw")
    changed = notes[saw] | {"bytes": notes[saw]["bytes"][:-1] + " }"}
    assert verdict(notes[:saw] + [changed] + notes[saw + 1 :]).wrong


def test_the_checker_notices_a_disk_that_lies(trial: service_faults.Trial) -> None:
    # the last test of this module: the service rightly cannot bear this
    trial.shim.set(lies=1)
    trial.load(seconds=1.5)
    for client in trial.clients:
        client.wait(60)
    trial.clients.clear()
    trial.server.kill()
    trial.shim.calm()
    trial.shim.cut_power()
    try:
        trial.server.start()
    except RuntimeError:
        return  # it noticed by itself that what it had is gone
    assert trial.settle().wrong


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service_faults.Workers]:
    """Two workers on one PostgreSQL server."""
    if database.available() is not None:
        pytest.skip(str(database.available()))
    made = service_faults.Workers(tmp_path_factory.mktemp("workers"), seed=20)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("workers", 2),
        ("database", 2),
        pytest.param("fights", 3, marks=pytest.mark.slow),
        pytest.param("lines", 3, marks=pytest.mark.slow),
    ],
)
def test_several_workers_count_once(workers: service_faults.Workers, name: str, count: int) -> None:
    service_faults.SCENARIOS[name].body(workers, count)
    verdict = workers.settle()
    assert not verdict.wrong, verdict
    assert verdict.records


@pytest.mark.slow
def test_a_network_that_is_cut_off_from_the_database(tmp_path: Path) -> None:
    why = service_faults.missing(service_faults.SCENARIOS["cables"])
    if why is not None:
        pytest.skip(why)
    done, verdict, _ = service_faults.run("cables", 3, 21, tmp_path)
    assert done == 3
    assert not verdict.wrong, verdict
    assert verdict.records


def test_the_table_of_the_page_is_what_was_kept() -> None:
    runs, page = kept.stored("faults"), service_faults.PAGE.read_text()
    assert service_faults.page(runs) == page
    assert {run["scenario"] for run in runs} <= set(service_faults.SCENARIOS)
    assert "1,000,000" in service_faults.page([runs[0] | {"count": 10**6}])
