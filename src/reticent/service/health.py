"""Health and readiness: whether the process works, and whether it can do its work now."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from reticent.service import chain
from reticent.service.engine import Turn
from reticent.service.metrics import KIND
from reticent.service.problems import Problem
from reticent.service.routes_admin import share_of
from reticent.service.routes_streams import lives
from reticent.service.web import Service, answer
from reticent.version import __version__

LEAST = 64 * 2**20
"""Bytes that must be free on the disk of the folder; commits and the log need some."""
_PATIENCE = 5.0  # seconds within which the engine must answer


@dataclass(frozen=True)
class Probe:
    """Reads from the store within a transaction, which takes its lock, and writes nothing."""

    def apply(self, turn: Turn) -> bool:
        """Whether the store holds a service."""
        return turn.rows.fact("id") is not None


async def health(service: Service, request: Request) -> Response:
    """Whether the event loop answers and the engine's thread is running. If not, only a restart helps."""
    if not service.engine.alive() and not service.stopping.is_set():
        raise Problem(503, "engine-ended", "the engine has ended; start the service again")
    return answer({"status": "ok", "version": __version__})


async def readiness(service: Service, request: Request) -> Response:
    """Whether the kernels are compiled, the service is not stopping, the disk has space and the store answers."""
    await check(service)
    return answer({"status": "ready"})


async def check(service: Service) -> None:
    """Refuse with the reason why the service cannot work now."""
    if not service.ready or service.stopping.is_set():
        word = "stopping" if service.stopping.is_set() else "starting"
        raise _not_ready(word, f"the service is {word}; try again in a moment")
    if service.folder is not None and (free := free_bytes(service.folder)) < LEAST:
        words = f"{free // 2**20} MiB are free on the disk of the folder, and {LEAST // 2**20} are needed; free some"
        raise _not_ready("disk-nearly-full", words)
    try:
        there = await asyncio.wait_for(service.do(Probe()), _PATIENCE)
    except TimeoutError:
        words = (
            f"the engine did not reach the store within {_PATIENCE:g} s; see the disk, and the log"
        )
        raise _not_ready("engine-slow", words) from None
    if not there:
        raise _not_ready("store-empty", "the store no longer holds this service")


def free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder."""
    return shutil.disk_usage(folder).free


def _not_ready(name: str, words: str) -> Problem:
    return Problem(503, name, words, {"Retry-After": "1"})


async def metrics(service: Service, request: Request) -> Response:
    """Metrics for a monitor, about the streams and ledgers that its token may read."""
    caller = service.caller(request, "watch")
    now: dict[str, float] = {
        "commands_waiting": service.engine.waiting(),
        "bytes_waiting": service.held,
    }
    try:
        await check(service)
        now["ready"] = 1
    except Problem:
        now["ready"] = 0
    if service.folder is not None:
        now["disk_free_bytes"] = free_bytes(service.folder)

    def read() -> str:
        with service.engine.store.read() as rows:
            head = rows.log_head(chain.ACTS)
            now["log_entries"] = 0 if head is None else head.number + 1
            now["jobs_waiting"] = sum(job.status in ("waiting", "running") for job in rows.jobs())
            ledgers = [row.name for row in rows.ledgers() if caller.may("watch", row.name)]
            shares = {name: share_of(rows, name) for name in ledgers}
        return service.metrics.text(now, lives(service, caller), shares)

    return Response(await run_in_threadpool(read), 200, {"Cache-Control": "no-store"}, KIND)
