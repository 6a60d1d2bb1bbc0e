"""Graceful stops, and the figures of docs/running.md."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from reticent.service.folder import Options
from reticent.service.looking import verify
from reticent.service.problems import Problem

from .running import Service, records, specification


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


def test_the_figures_of_the_page_are_those_that_were_kept() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import kept
    import service as benchmark

    runs = kept.stored("service")
    assert benchmark.page(runs) == benchmark.PAGE.read_text()
    turns = [dict.fromkeys(runs[-1]["ratios"], 12.34)]
    assert "| 12.34 |" in benchmark.page([runs[-1] | {"ratios_of_turns": turns}])
