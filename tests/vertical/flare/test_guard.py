"""Whatever a kit starts ends with the process that started it, however that ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

psutil = pytest.importorskip("psutil")

# A job runs in a session of its own, as the engine's do.
SCRIPT = """#!/bin/bash
setsid sleep 600 & echo $! > job
sleep 600
"""
PARENT = """
import sys, time
from pathlib import Path
from reticent.vertical.flare import processes

process = processes.start(Path(sys.argv[1]), "fed_client.json", None)
print("started", flush=True)
{then}
"""


def begin(kit: Path, then: str) -> subprocess.Popen[str]:
    (kit / "startup").mkdir()
    (kit / "startup" / "sub_start.sh").write_text(SCRIPT)
    (kit / "startup" / "fed_client.json").write_text("{}")
    code = PARENT.format(then=then)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(kit)], stdout=subprocess.PIPE, text=True, env=environment
    )


def wait_for(condition) -> None:
    end = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def members(kit: Path) -> list[int]:
    """The processes that work in the kit's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(kit) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_parent(tmp_path: Path, number: int) -> None:
    parent = begin(tmp_path, "time.sleep(600)")
    assert parent.stdout.readline() == "started\n"
    wait_for(lambda: (tmp_path / "job").exists() and len(members(tmp_path)) >= 4)
    parent.send_signal(number)
    parent.wait()
    wait_for(lambda: not members(tmp_path))


def test_nothing_outlives_an_end(tmp_path: Path) -> None:
    parent = begin(
        tmp_path,
        "while not Path(sys.argv[1], 'job').exists(): time.sleep(0.05)\n"
        "processes.end(process); print(process.pid in processes._lifelines)",
    )
    out, _ = parent.communicate(timeout=120)
    assert out == "started\nFalse\n"
    wait_for(lambda: not members(tmp_path))


def test_an_outcome_reads_well_and_is_plain_data() -> None:
    from reticent.vertical.flare.commands import Outcome

    outcome = Outcome({"summary": "epsilon = 2", "weights": {"north": {"0": 0.25}, "west": {}}})
    assert str(outcome).splitlines()[0] == "epsilon = 2"
    assert "north: 0: +0.2500" in str(outcome)
    assert "west: none" in str(outcome)
    assert outcome.weights == {"north": {0: 0.25}, "west": {}}
    assert json.loads(json.dumps(outcome)) == dict(outcome)
    assert repr(outcome) == "<Outcome of a run: 1 weights, 2 parties>"


def test_the_example_tables_come_with_the_package(tmp_path: Path) -> None:
    from reticent.vertical.flare.example import COLUMNS, write

    said = write(tmp_path / "tables", 30)
    assert len(said) == 3
    for name in COLUMNS:
        lines = (tmp_path / "tables" / f"{name}.csv").read_text().splitlines()
        assert len(lines) == 31
        assert sorted(line.split(",")[0] for line in lines[1:]) == [f"{k:06d}" for k in range(30)]


def test_a_rehearsal_ends_the_engine_and_nobody_else(tmp_path: Path) -> None:
    """Whoever reads a log in its folder, or names the folder in a script, goes on."""
    pytest.importorskip("nvflare")
    from reticent.vertical.flare.rehearsal import Rehearsal

    rehearsal = Rehearsal.__new__(Rehearsal)
    rehearsal.folder, rehearsal.processes = tmp_path, {}
    site = str(tmp_path / "kits" / "west")
    sleep = "import time; time.sleep(60)"
    folder = tmp_path / "nvflare" / "private"
    folder.mkdir(parents=True)
    for made in (folder, folder.parent):
        (made / "__init__.py").touch()
    (folder / "job.py").write_text(sleep)
    reader = subprocess.Popen([sys.executable, "-c", sleep, f"{site}/log.txt", str(tmp_path)])
    job = subprocess.Popen(
        [sys.executable, "-m", "nvflare.private.job", "-m", site, "-s", "x"], cwd=tmp_path
    )
    try:
        rehearsal.close()
        assert job.wait(30) == -9
        assert reader.poll() is None
    finally:
        reader.kill()
        job.kill()
