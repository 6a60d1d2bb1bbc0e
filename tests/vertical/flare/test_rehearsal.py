"""A rehearsal ends what it started and nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


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
