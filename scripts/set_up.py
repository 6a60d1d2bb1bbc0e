"""Make `.venv` and install this checkout into it, saying what is going on. Needs nothing but Python.

    python scripts/set_up.py run     # what `make run` needs
    python scripts/set_up.py ready   # everything: all extras, tests, linters, documentation

A file `.venv/run` or `.venv/ready` says that it is done; it is newer than `pyproject.toml`, or it is done again.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".venv"
ALL = "accounting,cli,dask,devices,federated,graphs,postgres,redis,report,river,service,tables"
GROUPS = ("test", "lint", "docs")
STAGES = ("Collecting", "Downloading", "Using cached", "Building", "Installing", "Successfully")


class Progress:
    """One line that is written over in a terminal, and a line per stage elsewhere."""

    def __init__(self) -> None:
        self.started, self.terminal, self.shown = time.monotonic(), sys.stderr.isatty(), ""

    def stage(self, words: str) -> None:
        self.end()
        print(f"set-up: {words}", file=sys.stderr, flush=True)

    def at(self, words: str) -> None:
        if self.terminal:
            self.shown = f"  {time.monotonic() - self.started:3.0f} s  {words}"[:78]
            print(f"\r{self.shown:78}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print(f"\r{'':78}\r", end="", file=sys.stderr, flush=True)
            self.shown = ""


def pip(progress: Progress, *words: str) -> None:
    """Install something; what pip says is shown whole only if it fails."""
    command = [str(HOME / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    # modules are compiled when they are first imported: most never are
    command += ["--no-compile", "--progress-bar", "off", *words]
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HOME.parent
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line.strip().startswith(STAGES):
                progress.at(line.strip())
    progress.end()
    if process.returncode:
        sys.exit("".join(said) + "set-up: pip failed; what it said is above")


def main(kind: str) -> None:
    progress = Progress()
    if not (HOME / "bin" / "python").exists():
        progress.stage("a virtual environment in .venv")
        venv.create(HOME, with_pip=True)
    if kind == "run":
        progress.stage("installing NumPy, SciPy, Numba, scikit-learn, Matplotlib, River (once)")
        pip(progress, "--editable", ".[report,river]")
    else:
        progress.stage("installing all extras and the tools of the tests (once, minutes)")
        pip(progress, "--upgrade", "pip>=25.1")
        pip(progress, "--editable", f".[{ALL}]", *(w for g in GROUPS for w in ("--group", g)))
        progress.stage("compiling for this processor (once)")
        subprocess.run(
            [str(HOME / "bin" / "python"), "scripts/warm.py"], check=True, cwd=HOME.parent
        )
    (HOME / kind).touch()
    progress.stage(f"done in {time.monotonic() - progress.started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1])
