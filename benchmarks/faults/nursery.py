"""Processes of the `reticent` command that start in no time: forked off one that has done the imports.

Each is a process of its own with nothing but code in common, so it can be killed like any other. The nursery runs
under the environment that its processes shall have (LD_PRELOAD works at its start).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Process:
    """A command that was started by a nursery; as much of `subprocess.Popen` as is needed."""

    def __init__(self, pid: int, status: Path) -> None:
        self.pid, self._status = pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        if self.returncode is None and self._status.exists():
            with contextlib.suppress(ValueError):  # it is being written
                self.returncode = int(self._status.read_text())
        return self.returncode

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the end."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("reticent serve", seconds)
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)


class Nursery:
    """Starts commands.

    Parameters
    ----------
    work : path
        Where exit statuses are written.
    environment : mapping
        Further variables for all processes.
    before : sequence of str
        What to put before the command, such as the one that enters a network namespace.
    """

    def __init__(
        self, work: Path, environment: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        self.work = work
        self._self = subprocess.Popen(
            [*before, sys.executable, __file__, str(work)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | dict(environment),
        )  # fmt: skip

    def start(self, arguments: list[str], log: Path, folder: Path) -> Process:
        """Start ``reticent ARGUMENTS`` with its output added to a log."""
        assert self._self.stdin is not None
        assert self._self.stdout is not None
        order = {"arguments": arguments, "log": str(log), "folder": str(folder)}
        self._self.stdin.write(json.dumps(order).encode() + b"\n")
        self._self.stdin.flush()
        pid = int(self._self.stdout.readline())
        return Process(pid, self.work / f"{pid}.status")

    def close(self) -> None:
        """End the nursery; its processes must have ended."""
        assert self._self.stdin is not None
        self._self.stdin.close()
        self._self.wait()


def _reap(work: Path) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        (work / f"{pid}.status").write_text(str(os.waitstatus_to_exitcode(status)))


def _child(order: dict[str, Any]) -> None:
    from reticent.cli import main

    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(order["folder"])
    status: Any = 99
    try:
        main(order["arguments"])
    except SystemExit as left:
        status = left.code
    finally:
        os._exit(status if isinstance(status, int) else 0)


def _main(work: Path) -> None:
    from reticent.service import server

    server.warm()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(work))
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _child(json.loads(line))
        (work / f"{pid}.status").unlink(missing_ok=True)
        print(pid, flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
