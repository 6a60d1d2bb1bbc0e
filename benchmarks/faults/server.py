"""A real `reticent serve` process that can be killed and started again on the same folder and port."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.nursery import Nursery


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A service on a folder.

    Parameters
    ----------
    work : path
        Where the folder ``disk/data``, the anchor ``disk/anchors`` and the log are kept.
    environment : mapping, optional
        Further variables for the process.
    options : sequence of str
        Further options of ``reticent serve``.
    quick : bool or Nursery
        Whether to fork the process off one that has done the imports, and which.
    folder : bool
        Whether it is served from a folder; if not, the options say where from.
    host : str
        The address to listen on.
    """

    def __init__(
        self,
        work: Path,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        *,
        quick: bool | Nursery = False,
        folder: bool = True,
        host: str = "127.0.0.1",
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.work, self.disk = work, work / "disk"  # the disk that may fail holds the anchor too
        self.data = self.disk / "data"
        self.environment = {"RETICENT_ANCHORS": str(self.disk / "anchors"), **(environment or {})}
        self.options = ("--data", str(self.data), *options) if folder else tuple(options)
        self.host, self.port, self.token = host, free_port(), ""
        self.log = work / "serve.log"
        self.process: Any = None
        self._nursery = quick or None
        if quick is True:
            self._nursery = Nursery(work, self.environment)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}"

    def start(self, seconds: float = 120.0) -> None:
        """Start, and wait until it is ready."""
        self.launch()
        self.wait_ready(seconds)

    def launch(self) -> None:
        """Start, without waiting."""
        words = ["serve", "--host", self.host, "--port", str(self.port), *self.options]
        if self._nursery is not None:
            self.process = self._nursery.start(words, self.log, self.work)
            return
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reticent", *words],
                stdout=log, stderr=log, env=os.environ | self.environment, cwd=self.work,
            )  # fmt: skip

    def wait_ready(self, seconds: float = 120.0) -> None:
        """Wait for /readyz; raises if the process ends instead."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(
                    f"serve ended with {self.process.returncode}: {self.said()[-2000:]}"
                )
            try:
                if self.request("GET", "/readyz", seconds=5)[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        else:
            raise RuntimeError(f"not ready after {seconds} s: {self.said()[-2000:]}")
        if not self.token:
            found = re.search(r"^token: (\S+)$", self.said(), re.MULTILINE)
            # of several workers the first one prints it
            assert found is not None or "--data" not in self.options, "no token was printed"
            self.token = "" if found is None else found.group(1)

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stop in good order."""
        if self.process.poll() is None:
            self.process.terminate()
        status: int = self.process.wait(60)
        return status

    def close(self) -> None:
        """Kill it if it runs, and start no more."""
        if self.process is not None:
            self.kill()
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None

    def request(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json",
        *, token: str | None = None, seconds: float = 60.0, headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """One request on a connection of its own, without retries."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            sent = {"Authorization": f"Bearer {self.token if token is None else token}"}
            if body is not None:
                sent["Content-Type"] = kind
            connection.request(method, path, body, sent | dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, data: Any = None) -> Any:
        """One request, and its answer as data."""
        body = None if data is None else json.dumps(data).encode()
        status, found = self.request(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {found[:500]!r}")
        return json.loads(found)
