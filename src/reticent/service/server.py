"""Start and stop a service: one process on a folder, or one of several on a database. Kernels are compiled first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import secrets
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import uvicorn

from reticent.compiling import compile_at_once
from reticent.privacy import Budget
from reticent.service import chain, kernels, logs, made_up, runners
from reticent.service.app import make_app
from reticent.service.engine import Engine
from reticent.service.folder import Home, Options
from reticent.service.jobs import Jobs
from reticent.service.leases import JOBS, Claim, Leases, ReleaseLeases, Renew
from reticent.service.sources import Puller, read_sources
from reticent.service.specification import Specification
from reticent.service.streams import Forget, deleted
from reticent.service.web import Service
from reticent.tables import Schema

log = logging.getLogger("reticent.service")

_SWITCH = 0.0005  # seconds after which the engine's thread lets the event loop have its turn
_GARBAGE = 20_000  # after so many new objects, the garbage collector looks for cycles
_FORGETTING = 600.0  # seconds between rounds of forgetting keys
_LOOKING = 0.5  # seconds between looks at what other workers have published
_STEADY = 3600.0  # seconds for which the clock must have been steady before anything is forgotten
_JUMP = 60.0  # seconds: larger changes of the clock are jumps, smaller ones corrections


def warm() -> None:
    """Compile the kernels that streams need, and others when they are first called."""
    compile_at_once()
    kernels.warm()
    number, truth = {"type": "number", "bounds": [0, 1]}, {"type": "boolean"}
    several = {"type": "category", "values": ["a", "b", "c"]}
    for kind, target in (
        ("logistic", truth),
        ("logistic", several),
        ("linear", number),
        ("total", number),
    ):
        schema = Schema.from_dict({"target": "y", "columns": {"x": number, "y": target}})
        for budget in (Budget(1.0, 1e-6, window=16), Budget(1.0, 1e-6)):
            asked = Specification("warm", kind, schema, budget, seed=0)
            encoder, labelled = runners.encoder_of(asked), kind != "total"
            rows = made_up.records(encoder, 2, labelled=labelled)
            made_up.feed(runners.start(asked), encoder, rows, labelled=labelled)
    simplex = {"set": {"kind": "Simplex", "dim": 2}, "horizon": 16}
    asked = Specification("warm", "bandit", None, Budget(1.0, 1e-6), seed=0, options=simplex)
    made_up.play(runners.start(asked), 2)


def serve(options: Options, folder: Home, say: Callable[[str], None] = print) -> int:
    """Run a service until it is told to stop, and return the exit status.

    Parameters
    ----------
    options : Options
        Options of the service.
    folder : Home
        The opened folder or database; it is closed at the end.
    say : callable
        Receives the lines for standard output: the administrator's token at the first start, and the address.
    """
    sys.setswitchinterval(_SWITCH)
    logs.begin(options.log)
    try:
        if folder.first_token is not None:
            say(f"token: {folder.first_token}")
        assert folder.anchor is not None
        folder.anchor.keep_synced()
        leases = None
        if options.database is not None:
            leases = Leases(secrets.token_hex(8), options.address or "", options.lease)
        with folder.store.transaction() as rows:  # a folder of an earlier version has no log yet
            rows.alone()
            chain.begin(rows, time.time())
        engine = Engine(folder.store, folder.ring, leases=leases)
        engine.follows, engine.committed = folder.anchor.follow, folder.anchor.commit
        engine.witness = chain.witness
        try:
            return _run(options, folder, engine, say)
        finally:
            engine.stop()
            with contextlib.suppress(Exception), folder.store.read() as rows:
                logs.event("stopped", heads=chain.heads(rows, rows.streams()))
    finally:
        folder.close()


def _run(options: Options, folder: Home, engine: Engine, say: Callable[[str], None]) -> int:
    jobs = Jobs(engine, options.tables)
    service = Service(
        engine,
        folder.keys,
        jobs,
        limit=options.limit,
        rate=options.rate,
        folder=options.data,
        log_requests=options.log_requests,
    )
    sources = [] if options.sources is None else read_sources(options.sources)

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        service.attach(asyncio.get_running_loop())
        fits = bool(options.tables)
        threading.Thread(target=_get_ready, args=(service, fits), daemon=True).start()
        tasks = [asyncio.create_task(_forget(service))]
        if engine.leases is not None:
            tasks.append(asyncio.create_task(_renew(service, engine.leases)))
            tasks.append(asyncio.create_task(_look_elsewhere(service)))
        puller = Puller(engine, lambda name: service.reader(engine.live(name)), sources)
        yield
        await asyncio.to_thread(puller.stop)
        for task in tasks:
            task.cancel()
        jobs.stop()
        if engine.leases is not None:
            with contextlib.suppress(Exception):  # otherwise they expire by themselves
                await service.do(ReleaseLeases(engine.leases))
        await asyncio.to_thread(engine.stop)

    config = uvicorn.Config(
        make_app(service, lifespan),
        options.host,
        options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.certificate_key,
        timeout_graceful_shutdown=10,
    )
    server = _Server(config, service, say)
    try:
        server.run()
    except SystemExit:  # uvicorn raises this if the port is taken, and has printed a message
        return 2
    return 0 if server.started else 1


def _get_ready(service: Service, fits: bool) -> None:
    try:
        warm()
        if fits:  # fits of tables need scikit-learn, streams do not
            importlib.import_module("reticent.estimators.private_classifiers")
    except Exception as error:
        log.error("the kernels could not be compiled: %s", type(error).__name__, exc_info=error)
        return
    # Existing objects stay, so the collector need not visit them again and again while all requests wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    if not service.stopping.is_set():
        service.ready = True
        logs.event("ready")
        with contextlib.suppress(ImportError):
            importlib.import_module("pyarrow")  # the first Arrow stream need not wait


async def _renew(service: Service, leases: Leases) -> None:
    """Renew the leases of this worker, and learn what other workers have changed."""
    while True:
        with contextlib.suppress(Exception):  # without leases nothing is written; try again later
            await service.do(Renew(leases))
            await asyncio.to_thread(service.reload_tokens)
            if not leases.holds(JOBS):
                found = await service.do(Claim(JOBS, leases))
                if found.token is not None:
                    await asyncio.to_thread(service.jobs.take_over)
        await asyncio.sleep(leases.seconds / 4)


async def _look_elsewhere(service: Service) -> None:
    """Notify event streams of decisions that other workers publish."""
    latest: dict[str, int] = {}
    while True:
        with contextlib.suppress(Exception):  # if the database cannot be reached, try again later
            latest = await asyncio.to_thread(service.look_elsewhere, latest)
        await asyncio.sleep(_LOOKING)


async def _forget(service: Service) -> None:
    """Forget old keys periodically while the clock is steady: a clock that jumps must not decide what is old."""
    wall, steady = time.time(), time.monotonic()
    since = steady
    while True:
        await asyncio.sleep(_FORGETTING)
        new_wall, new_steady = time.time(), time.monotonic()
        if abs((new_wall - wall) - (new_steady - steady)) > _JUMP:
            log.warning("the clock jumped; no keys are forgotten for an hour")
            since = new_steady
        wall, steady = new_wall, new_steady
        if steady - since < _STEADY:
            continue
        with service.engine.store.read() as rows:
            names = [row.name for row in rows.streams() if not deleted(row)]
        if (leases := service.engine.leases) is not None:
            names = [name for name in names if leases.holds(name)]
        for name in names:
            with contextlib.suppress(Exception):  # try again in ten minutes
                await service.do(Forget(name))


class _Server(uvicorn.Server):
    """Announces its address once it listens, and stops in an orderly way at a signal."""

    def __init__(
        self, config: uvicorn.Config, service: Service, say: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._service, self._say = service, say

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture signals as uvicorn does, but without raising the signal again at the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, number)
        yield

    def _end(self, number: int) -> None:
        logs.event(
            "stopping", signal=signal.Signals(number).name, waiting=self._service.engine.waiting()
        )
        self._service.stop()
        self.handle_exit(number, None)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in getattr(self, "servers", []):
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                leases = self._service.engine.leases
                if leases is not None and not leases.address:
                    leases.address = f"{scheme}://{host}:{port}"
                logs.event("listening", address=f"{scheme}://{host}:{port}")
                self._say(f"listening on {scheme}://{host}:{port}")
