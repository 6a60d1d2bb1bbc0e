"""The systemd unit and the container recipe, as far as they can be tried without systemd and without an engine.

The command line of each is taken from its file and run with the folders that the file makes; paths and the port alone
are replaced. Where this is root on Linux, both also run as they are, in a mount namespace of their own: as an ordinary
user without capabilities, on a file system that is read-only but for those folders.
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


def stopped(process: subprocess.Popen[str], port: int, end: int = signal.SIGTERM) -> int:
    """Wait until a service listens, ask it, and end it as its supervisor would; its exit status."""
    try:
        assert process.stdout is not None
        if not any(line.startswith("listening on") for line in process.stdout):
            raise AssertionError(process.stderr.read())  # type: ignore[union-attr]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as found:
            assert json.load(found)["status"] == "ok"
        process.send_signal(end)
        process.communicate(timeout=60)
        return process.returncode
    finally:
        process.kill()
        process.communicate()


def run_and_stop(words: list[str], environment: dict[str, str], port: int) -> None:
    """Run a command line until it listens, ask it, and stop it."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )  # fmt: skip
    assert stopped(process, port) == 0


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


# In a mount namespace -------------------------------------------------------------------------------------

USER = 61184  # the first that systemd gives to DynamicUser=
KEY = "ab" * 32
_NAMESPACE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
chmod 755 root  # the interpreter may be there
mount --bind /proc proc
mount --bind /dev dev
mkdir -p opt/reticent/bin run/credentials
printf '#!/bin/sh\nexec %s -m reticent "$@"\n' "$PROGRAM" > opt/reticent/bin/reticent
echo "$KEY" > run/credentials/key
chmod 755 opt/reticent/bin/reticent
chown "$OWNER" run/credentials/key
chmod 400 run/credentials/key
for inside in $WRITABLE; do
    mkdir -p ".$inside"
    mount --bind "$OUTSIDE$inside" ".$inside"
done
mount -o remount,ro /mnt/root
umask 077
exec chroot . setpriv --reuid "$OWNER" --regid "$OWNER" --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all env -i PATH=/opt/reticent/bin:/usr/bin:/bin PYTHONPATH="$PYTHONPATH" $VARIABLES "$@"
"""


def apart(
    words: list[str], outside: Path, writable: list[str], **variables: str
) -> subprocess.Popen[str]:
    """Start a command with the rights that the unit and the recipe leave it.

    It runs as an ordinary user without capabilities; these folders can be written, and lie below ``outside``.
    """
    for inside in writable:
        place = Path(f"{outside}{inside}")
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(place, USER, USER)
    facts = {
        "PROGRAM": sys.executable, "KEY": KEY, "OWNER": str(USER), "OUTSIDE": str(outside),
        "WRITABLE": " ".join(writable), "VARIABLES": " ".join(f"{k}={v}" for k, v in variables.items()),
        "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _NAMESPACE, "sh", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | facts,
    )  # fmt: skip


@pytest.fixture
def namespaces(tmp_path: Path) -> Path:
    """A folder for what is written, where namespaces can be had."""
    tried = None
    if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("setpriv"):
        tried = apart(["true"], tmp_path / "tried", ["/written"])
        tried.communicate(timeout=60)
    if tried is None or tried.returncode:
        pytest.skip("mount namespaces with an overlay need root on Linux")
    return tmp_path / "written"


def test_the_unit_runs_without_rights(namespaces: Path) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    text = UNIT.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    (states,) = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    (variable,) = re.findall(r"^Environment=NUMBA_CACHE_DIR=(.*)$", text, re.MULTILINE)
    assert variable == "/var/cache/reticent"
    writable = [variable, *(f"/var/lib/{name}" for name in states.split())]
    port = free_port()
    words = shlex.split(line.replace("%d", "/run/credentials").replace("8080", str(port)))

    # what the service may not do there
    tries = "id -u; grep -E '^(CapBnd|CapEff|NoNewPrivs)' /proc/self/status; touch /var/lib/reticent/there && echo may"
    tries += "; for at in /etc /usr /tmp /opt /var; do touch $at/probe 2>/dev/null && echo wrote $at; done; true"
    said, _ = apart(["sh", "-c", tries], namespaces, writable).communicate(timeout=60)
    assert said.split() == [
        str(USER), "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "may",
    ]  # fmt: skip
    Path(f"{namespaces}/var/lib/reticent/there").unlink()

    for end in (signal.SIGKILL, signal.SIGTERM):  # and what was killed is started again
        process = apart(words, namespaces, writable, NUMBA_CACHE_DIR=variable)
        assert stopped(process, port, end) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
    assert Path(f"{namespaces}/var/lib/reticent-anchor/anchor").stat().st_uid == USER
    data = Path(f"{namespaces}/var/lib/reticent/data")
    assert data.stat().st_mode & 0o777 == 0o700
    assert not (data / "service.key").exists()


def test_the_recipe_runs_on_a_read_only_file_system(namespaces: Path) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    text = RECIPE.read_text()
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    (folders,) = re.findall(r"install -d -o reticent -m 700 (.*)$", text, re.MULTILINE)
    (cache,) = re.findall(r"^ENV NUMBA_CACHE_DIR=(.*)$", text, re.MULTILINE)
    assert cache in folders.split()
    port = free_port()
    words = [word.replace("8080", str(port)) for word in json.loads(entry)]
    variables = {"NUMBA_CACHE_DIR": cache, "RETICENT_SERVICE_KEY": KEY}
    assert stopped(apart(words, namespaces, folders.split(), **variables), port) == 0
    assert Path(f"{namespaces}/anchor/anchor").exists()
    assert not Path(f"{namespaces}/data/service.key").exists()
