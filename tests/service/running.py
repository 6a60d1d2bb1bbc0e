"""The service as a real process on a real port, for the tests of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from reticent import Client

NUMBER = {"type": "number", "bounds": [-1, 1]}
SCHEMA = {"target": "y", "columns": {"a": NUMBER, "b": NUMBER, "y": {"type": "boolean"}}}


def specification(name: str, **more: Any) -> dict[str, Any]:
    """A stream that learns from two numbers."""
    budget = {"epsilon": 1.0, "delta": 1e-6, "window": 64}
    return {"name": name, "kind": "logistic", "schema": SCHEMA, "budget": budget} | more


def records(first: int, count: int) -> list[dict[str, Any]]:
    """Made-up records with ids that say which they are."""
    return [
        {"id": f"r{k}", "x": {"a": (k % 7 - 3) / 3, "b": (k % 5 - 2) / 2}, "y": k % 7 > 3}
        for k in range(first, first + count)
    ]


class Service:
    """A `reticent serve` on a folder, or on a database whose key lies beside where the folder would be."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        wait: bool = True,
        token: str = "",
        database: str | None = None,
    ) -> None:
        self.folder = folder
        self._options = options
        self._place = ["--data", str(folder)]
        if database is not None:
            key = folder.parent / "service.key"
            key.write_text("5e" * 32)
            self._place = ["--database", database, "--key-file", str(key)]
        self.token = token
        self.start(wait)

    def start(self, wait: bool = True) -> None:
        """Start the process, and wait until it listens (and is ready)."""
        command = [
            sys.executable, "-m", "reticent", "serve", *self._place, "--port", "0", *self._options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env()
        )
        assert self.process.stdout is not None
        self.url = ""
        for line in self.process.stdout:
            if line.startswith("token: "):
                self.token = line.removeprefix("token: ").strip()
            if line.startswith("listening on "):
                self.url = line.removeprefix("listening on ").strip()
                break
        if not self.url:
            raise RuntimeError(self.process.stderr.read())  # type: ignore[union-attr]
        if wait:
            self.until_ready()

    def env(self) -> dict[str, str]:
        """Anchors lie beside the folder, not in the home of whoever runs the tests."""
        return os.environ | {"RETICENT_ANCHORS": str(self.folder.parent / "anchors")}

    def until_ready(self) -> None:
        """Wait until the kernels are compiled."""
        end = time.monotonic() + 120.0
        client = Client(self.url, "none", patience=0)
        while time.monotonic() < end:
            try:
                client.call("GET", "/readyz")
            except Exception:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the service did not become ready")

    def client(self, token: str | None = None, **more: Any) -> Client:
        """A client, the administrator's by default."""
        return Client(self.url, self.token if token is None else token, **more)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        """End the process in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def restart(self) -> None:
        """Kill it and start it again on the same folder."""
        self.kill()
        self.start()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """A subcommand of `reticent serve`, as a person runs it."""
    return subprocess.run(
        [sys.executable, "-m", "reticent", "serve", *words],
        capture_output=True, text=True, timeout=120, env=service.env(),
    )  # fmt: skip


def anchor_in(folder: Path) -> Path:
    """The one anchor of a service whose folder lies in this one."""
    return next(path for path in (folder / "anchors").iterdir() if not path.name.endswith(".adoptions"))  # fmt: skip


def on_folder(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A `reticent serve ...` that is expected to end by itself."""
    line = [sys.executable, "-m", "reticent", "serve", *words, "--data", str(folder)]
    line += ["--port", "0"] if not words else []
    env = os.environ | {"RETICENT_ANCHORS": str(folder.parent / "anchors")}
    return subprocess.run(line, capture_output=True, text=True, timeout=120, env=env)
