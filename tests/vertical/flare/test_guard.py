"""Whatever a kit starts ends with the process that started it, however that ends."""

from __future__ import annotations

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
