"""Starting and stopping: one process on one folder, compiled before it says that it is ready."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from reticent.privacy import Budget, uncharged
from reticent.service import runners, tokens
from reticent.service.app import Service, deliver_to, make_app
from reticent.service.engine import Engine
from reticent.service.records import Batch
from reticent.service.sealing import Ring, master_key
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore
from reticent.service.store import Store, StoreError, TokenRow
from reticent.tables import Schema

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where nothing keeps two services apart
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("reticent.service")

DATABASE, LOCK, KEY = "service.sqlite", "service.lock", "service.key"
_SWITCH = 0.0005  # seconds after which the engine's thread lets the event loop have its turn


@dataclass
class Options:
    """How a service is run.

    Parameters
    ----------
    data : path
        The folder that everything is kept in.
    host : str
        The address to listen on.
    port : int
        The port to listen on; 0 is any that is free.
    key_file : path or None
        A file with the key under which states are sealed.
    limit : int
        The largest body of a request, in bytes.
    certificate : path or None
        A certificate file, for TLS.
    certificate_key : path or None
        The key of the certificate.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    key_file: Path | None = None
    limit: int = 64 * 2**20
    certificate: Path | None = None
    certificate_key: Path | None = None


class Folder:
    """The folder of a service, opened by one process at a time."""

    def __init__(self, options: Options) -> None:
        self.path = options.data
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                raise StoreError(
                    f"another `reticent serve` is using {self.path}; stop it, or serve another folder"
                ) from None
        try:
            fresh = not (self.path / DATABASE).exists()
            self.ring = Ring([master_key(options.key_file, self.path / KEY, fresh)])
            self.store = SqliteStore(self.path / DATABASE)
            self.first_token = self._prepare()
        except BaseException:
            os.close(self._lock)
            raise

    def _prepare(self) -> str | None:
        """At the first start: an id, and the administrator's token, which is returned once."""
        with self.store.read() as rows:
            about = rows.about()
        if "id" in about:
            if about["key"] != self.ring.name.hex():
                raise StoreError(
                    f"{self.path} was written under another key; give the one that it was written under"
                )
            return None
        return add_token(
            self.store, "administrator", "made at the first start",
            {"id": secrets.token_hex(16), "key": self.ring.name.hex()},
        )  # fmt: skip

    def close(self) -> None:
        """Let another process have the folder."""
        self.store.close()
        os.close(self._lock)


def add_token(store: Store, role: str, label: str, about: dict[str, str] | None = None) -> str:
    """A new token, of which the store keeps a hash."""
    token = tokens.new_token()
    with store.transaction() as rows:
        for name, value in (about or {}).items():
            rows.set_about(name, value)
        identity = secrets.token_hex(8)
        rows.add_token(
            TokenRow(identity, tokens.hashed(token), role, label, None, time.time(), None)
        )
    return token


def warm() -> None:
    """Compile the kernels that streams need."""
    number, truth = {"type": "number", "bounds": [0, 1]}, {"type": "boolean"}
    for kind, target in (("logistic", truth), ("linear", number)):
        schema = Schema.from_dict({"target": "y", "columns": {"x": number, "y": target}})
        for budget in (Budget(1.0, 1e-6, window=16), Budget(1.0, 1e-6)):
            asked = Specification("warm", kind, schema, budget, seed=0)
            runner = uncharged(lambda asked=asked: runners.start(asked))  # type: ignore[misc]
            runner.learn(Batch(np.zeros((2, 1)), np.zeros(2), None, [], []))


def serve(options: Options, say: Callable[[str], None] = print) -> int:
    """Run a service until it is told to stop, and return the exit status."""
    sys.setswitchinterval(_SWITCH)
    folder = Folder(options)
    try:
        if folder.first_token is not None:
            say(f"token: {folder.first_token}")
        engine = Engine(folder.store, folder.ring)
        service = Service(engine, limit=options.limit)

        @contextlib.asynccontextmanager
        async def lifespan(app: Any) -> AsyncIterator[None]:
            engine.deliver = deliver_to(asyncio.get_running_loop())
            threading.Thread(target=_get_ready, args=(service,), daemon=True).start()
            yield
            await asyncio.to_thread(engine.stop)

        config = uvicorn.Config(
            make_app(service, lifespan), options.host, options.port, log_level="warning", access_log=False,
            ssl_certfile=options.certificate, ssl_keyfile=options.certificate_key, timeout_graceful_shutdown=10,
        )  # fmt: skip
        server = _Server(config, say)
        server.run()
        engine.stop()
        return 0 if server.started else 1
    finally:
        folder.close()


def _get_ready(service: Service) -> None:
    try:
        warm()
    except Exception as error:
        log.error("the kernels could not be compiled: %s", type(error).__name__, exc_info=error)
        return
    service.ready = True


class _Server(uvicorn.Server):
    """Says where it listens, once it does."""

    def __init__(self, config: uvicorn.Config, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._say = say

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop in good order at a signal, which uvicorn would raise again at the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                self._say(f"listening on {scheme}://{host}:{port}")
