"""Commands as real processes: forked off this one, which has done the slow imports once."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SCHEMA = """
target = "spent"

[columns.age]
type = "number"
bounds = [18, 100]

[columns.job]
type = "category"
values = ["clerk", "cook", "other"]

[columns.member]
type = "boolean"

[columns.spent]
type = "category"
values = ["no", "yes"]

[columns.amount]
type = "ignore"
"""


@dataclass
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


class Started:
    """A command that is running."""

    def __init__(self, pid: int, out: Path, err: Path) -> None:
        self.pid, self._out, self._err = pid, out, err

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Done:
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return Done(status, self._out.read_text(), self._err.read_text())


class Reticent:
    """Runs `reticent` in a folder; each run is a process of its own with its own descriptors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *arguments: object, stdin: int | str | None = None) -> Started:
        words = [str(a) for a in arguments]
        files = [Path(tempfile.mkstemp(dir=self.folder, prefix="stream")[1]) for _ in range(3)]
        if isinstance(stdin, str):
            files[0].write_text(stdin)
        pid = os.fork()
        if pid:
            return Started(pid, files[1], files[2])
        status = 99
        try:
            os.chdir(self.folder)
            # pytest ignores neither, but a shell's background job would have
            signal.signal(signal.SIGINT, signal.default_int_handler)
            source = stdin if isinstance(stdin, int) else os.open(files[0], os.O_RDONLY)
            os.dup2(source, 0)
            for number in (1, 2):
                os.dup2(os.open(files[number], os.O_WRONLY), number)
            os.closerange(3, 1024)  # or a pipe would never end: its other end is in here too
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            sys.argv = ["reticent", *words]
            from reticent.cli import _run

            status = _run(words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def __call__(self, *arguments: object, stdin: int | str | None = None) -> Done:
        return self.start(*arguments, stdin=stdin).wait()

    def fresh(self, *arguments: object, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        """The same, started from nothing."""
        done = subprocess.run(
            [sys.executable, "-m", "reticent", *(str(a) for a in arguments)],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            timeout=300,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def wait_until(true: object, seconds: float = 120.0) -> None:
    """Wait for something another process does."""
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.01)


def visits(count: int, seed: int = 1) -> list[list[str]]:
    """Made-up visits: rows of text under HEADER."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, count)
    job = rng.choice(["clerk", "cook", "other"], count)
    member = rng.random(count) < 0.4
    z = (age - 50) / 10 + 3.0 * (job == "cook") - 2.0 * member
    spent = np.where(z + 0.5 * rng.standard_normal(count) > 0, "yes", "no")
    return [
        [str(a), str(j), str(m).lower(), str(s), f"{v:.2f}"]
        for a, j, m, s, v in zip(age, job, member, spent, z, strict=True)
    ]


HEADER = ["age", "job", "member", "spent", "amount"]


def write_csv(path: Path, rows: list[list[str]]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path
