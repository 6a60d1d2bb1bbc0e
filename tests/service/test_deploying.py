"""The systemd unit and the container recipe, as far as they can be tried without systemd and without an engine.

The command line of each is taken from its file and run with the folders that the file makes; paths and the port alone
are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from .running import free_port

ROOT = Path(__file__).resolve().parents[2]
UNIT, RECIPE = ROOT / "deploy" / "reticent.service", ROOT / "deploy" / "Containerfile"


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there to read the unit")
    # it wants to see the program of the unit
    text = UNIT.read_text().replace("/opt/reticent/bin/reticent", sys.executable)
    (tmp_path / "reticent.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "reticent.service")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "reticent.service" not in done.stderr, done.stderr


def run_and_stop(words: list[str], environment: dict[str, str], port: int) -> None:
    """Run a command line until it listens, ask it, and stop it as its supervisor would."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("listening on"):
                break
        else:
            raise AssertionError(process.stderr.read())  # type: ignore[union-attr]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as found:
            assert json.load(found)["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_the_command_of_the_unit_runs_and_stops(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    for name in ("reticent", "reticent-anchor"):  # StateDirectory= and its mode
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "key").write_text("ab" * 32 + "\n")
    port = free_port()
    line = line.replace("/opt/reticent/bin/reticent", f"{sys.executable} -m reticent")
    line = line.replace("/var/lib", str(tmp_path)).replace("%d", str(tmp_path))
    run_and_stop(shlex.split(line.replace("8080", str(port))), {}, port)
    assert not (tmp_path / "reticent" / "data" / "service.key").exists()
    assert (tmp_path / "reticent-anchor" / "anchor").exists()
    assert (tmp_path / "reticent" / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_the_entry_point_of_the_recipe_runs_and_stops(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    text = RECIPE.read_text()
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    (health,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    for name in ("data", "anchor"):
        (tmp_path / name).mkdir(mode=0o700)
    port = free_port()
    program, *rest = json.loads(entry)
    assert program == "reticent"
    words = [sys.executable, "-m", "reticent"]
    for word in rest:
        words.append(f"{tmp_path}{word}" if word.startswith("/") else word)
    key = {"RETICENT_SERVICE_KEY": "cd" * 32}
    run_and_stop([word.replace("8080", str(port)) for word in words], key, port)
    assert not (tmp_path / "data" / "service.key").exists()
    assert compile(json.loads(health)[2], "health check", "exec")
    for copied in ("COPY . .", "VOLUME", "USER reticent", "STOPSIGNAL SIGTERM"):
        assert copied in text
