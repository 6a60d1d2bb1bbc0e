"""A new user's first session, typed into a real terminal: learn, explain, predict, Ctrl-C, resume."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from .processes import Reticent, visits, wait_until, write_csv

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

PROMPT = "ready> "


class Terminal:
    """bash in a pseudo-terminal; what it shows is collected."""

    def __init__(self, folder: Path) -> None:
        tools = folder / "bin"
        tools.mkdir()
        script = tools / "reticent"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m reticent "$@"\n')
        script.chmod(0o755)
        self.seen = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
            os.environ |= {"PS1": PROMPT, "TERM": "xterm", "COLUMNS": "100"}
            os.execvp("bash", ["bash", "--norc", "--noprofile"])
        self.expect(PROMPT)

    def expect(self, words: str, seconds: float = 120.0) -> str:
        """Wait until the terminal shows something, and return what came before it."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            ready = select.select([self.descriptor], [], [], 0.2)[0]
            if ready:
                self.seen += os.read(self.descriptor, 65536).decode("utf-8", "replace")
            assert time.monotonic() < end, f"{words!r} did not come: {self.seen}"
        before, self.seen = self.seen.split(words, 1)
        return before

    def type(self, line: str) -> None:
        os.write(self.descriptor, line.encode())

    def do(self, line: str) -> str:
        """Type a command, and return what it showed."""
        self.type(line + "\n")
        shown = self.expect(PROMPT)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r\n", "\n")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)


def test_first_session(place: Path) -> None:
    write_csv(place / "visits.csv", visits(8000))
    terminal = Terminal(place)
    try:
        # as in a container, where no home can be written
        bare = "HOME=/proc/none XDG_CONFIG_HOME= XDG_CACHE_HOME= MPLCONFIGDIR="
        words = "reticent learn visits.csv --schema visits.toml --epsilon 1 --out run"
        shown = terminal.do(f"{bare} {words}")
        assert "epsilon = 1 at delta = 1e-6" in shown
        assert "atplotlib" not in shown  # that it caches elsewhere
        assert shown.index("starting") < shown.index(
            "counting"
        )  # something moves while Python imports
        assert "8,000 of 8,000 records" in shown  # the progress line, which only terminals get
        assert re.search(r"[\d,]+/s", shown)
        shown = terminal.do("reticent explain run/model.json")
        assert "The guarantee" in shown
        shown = terminal.do("reticent predict run/model.json visits.csv | sort | uniq -c")
        assert re.search(r"\d+ yes\n", shown)
        # Ctrl-C in the middle
        words = "learn visits.csv -s visits.toml -e 1 --seed 7 --every 4 --no-report --out "
        terminal.type(f"reticent {words} stopped\n")
        wait_until(lambda: (place / "stopped" / "state.reticent").exists())
        terminal.type("\x03")
        shown = terminal.expect("continue with: ")
        assert "stopping" in shown
        again = terminal.expect("\r\n")
        terminal.expect(PROMPT)
        assert terminal.do("echo status $?").endswith("status 130\n")
        stopped = (place / "stopped" / "decisions.jsonl").read_text().count("\n")
        assert 0 < stopped < 2000
        assert (place / "stopped" / "state.reticent").stat().st_mode & 0o777 == 0o600
        shown = terminal.do(again + " --no-report")
        assert "at no extra privacy cost" in shown
        assert terminal.do("ls stopped").endswith("decisions.jsonl  model.json\n")
    finally:
        terminal.close()
    assert Reticent(place)(*words.split(), "whole").status == 0
    same = (place / "whole" / "decisions.jsonl").read_text()
    assert (place / "stopped" / "decisions.jsonl").read_text() == same
