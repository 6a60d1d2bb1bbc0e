"""Start a kit's processes with this Python, and end them together with everything they started.

A job runs in its own process and session. Ending only the process that was started would leave the job's process
running, with the site's data in it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from reticent.vertical.flare import guard

_lifelines: dict[int, int] = {}
"""By process, the end of a pipe that the operating system closes when this process is gone."""


def start(kit: Path, config: str, log: str | os.PathLike[str] | None) -> subprocess.Popen[bytes]:
    """Start what a kit is for: `fed_server.json` or `fed_client.json` must be in it."""
    script = kit / "startup" / "sub_start.sh"
    if not (kit / "startup" / config).exists() or not script.exists():
        kind = "server" if "server" in config else "party"
        raise FileNotFoundError(f"kit must be the folder of a {kind}'s start-up kit, got {kit}")
    environment = dict(os.environ)
    # The kit's script starts `python3`; that must be the Python that has reticent.
    path = environment.get("PATH", os.defpath)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])
    # An empty entry of PYTHONPATH, which the script would leave, means the working folder.
    environment.setdefault("PYTHONPATH", str((kit / "local" / "custom").absolute()))
    environment["PYTHONSAFEPATH"] = "1"
    output = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    command = [sys.executable, guard.__file__]
    lifeline, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, "bash", str(script.absolute()), "--once"],
            cwd=kit,
            env=environment,
            stdin=lifeline,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(lifeline)
        if output is not None:
            os.close(output)
    _lifelines[process.pid] = ours
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and everything it started, at once."""
    guard.end_tree(process)
    if process.pid in _lifelines:
        os.close(_lifelines.pop(process.pid))


def stay_with(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; whoever interrupts or terminates this one ends that one too."""
    try:
        with _termination_interrupts():
            return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        end(process)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
