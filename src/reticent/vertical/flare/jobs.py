"""A run as a FLARE job: written without code, submitted, followed, and its model fetched.

The engine's own export copies the source of the server and site classes into the job, and every closed kit refuses a
job with source code. The copies are removed again; a job contains only names of installed classes and the analyst's
terms.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from reticent.vertical.flare.kits import SERVER_FOLDER

PROGRESS = "reticent-progress"
OUTCOME = "outcome.json"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""Of a run, and of a batch of scores."""
_POLL = 0.5


class RunFailed(RuntimeError):
    """A run ended without a model.

    Attributes
    ----------
    kind
        What kind of error ended it, for instance ``"PartyLost"`` or ``"RefusedByParty"``.
    job
        The engine's name of the job.
    """

    def __init__(self, message: str, kind: str = "", job: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.job = job


def write_job(terms: Mapping[str, Any], parties: Sequence[str], folder: Path) -> Path:
    """Write the job of a run into a folder, and say where."""
    from nvflare.collab import CollabRecipe

    from reticent.vertical.flare.server import Server
    from reticent.vertical.flare.site import Site

    name = str(terms["name"])
    recipe = CollabRecipe(
        name, server=Server(terms=dict(terms)), client=Site(), min_clients=len(parties)
    )
    recipe.export(str(folder))
    job = folder / name
    for custom in job.rglob("custom"):
        shutil.rmtree(custom)
    meta = json.loads((job / "meta.json").read_text())
    meta["mandatory_clients"] = list(parties)
    meta["deploy_map"] = {"app": [SERVER_FOLDER, *parties]}
    (job / "meta.json").write_text(json.dumps(meta, indent=2))
    return job


@contextmanager
def session(kit: Path, patience: float = 30.0) -> Iterator[Any]:
    """A connection to the server with an analyst's kit."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    analyst = json.loads((kit / "startup" / "fed_admin.json").read_text())["admin"]["username"]
    until = time.monotonic() + patience
    while True:
        try:
            # The engine greets on standard output, which belongs to results.
            with redirect_stdout(sys.stderr):
                opened = new_secure_session(analyst, str(kit), timeout=min(5.0, patience))
            break
        except Exception as error:
            if time.monotonic() > until:
                raise RunFailed(
                    f"no connection to the server within {patience:g} s: {error}. Check that it is running and "
                    "that this kit belongs to the same federation",
                    "NoConnection",
                ) from None
            time.sleep(0.3)
    try:
        yield opened
    finally:
        opened.close()


def wait_for_parties(opened: Any, parties: Sequence[str], patience: float) -> None:
    """Return once all parties are connected, or say who is missing."""
    until = time.monotonic() + patience
    while True:
        here = {client.name for client in opened.get_connected_client_list()}
        missing = [party for party in parties if party not in here]
        if not missing:
            return
        if time.monotonic() > until:
            raise RunFailed(
                f"not connected after {patience:g} s: {', '.join(missing)}. Start them with "
                "`reticent vertical party KIT`, then submit again",
                "PartyLost",
            )
        time.sleep(_POLL)


def submit(opened: Any, job: Path) -> str:
    """Hand a job to the server; returns the engine's name for it."""
    return str(opened.submit_job(str(job.absolute())))


def follow(
    opened: Any, job: str, report: Callable[[Mapping[str, Any]], None], patience: float = 60.0
) -> dict[str, Any]:
    """Report progress until the job has ended; returns the engine's metadata of the job.

    A job that has not started after `patience` seconds, or that the analyst interrupts, is aborted.
    """
    until = time.monotonic() + patience
    try:
        while True:
            meta: dict[str, Any] = opened.get_job_meta(job)
            status = str(meta.get("status", ""))
            if status.startswith("FINISHED"):
                return meta
            if status == "RUNNING":
                report(_progress(opened, job))
            elif time.monotonic() > until:
                said = "; ".join(str(line) for line in meta.get("schedule_history", ()))
                raise RunFailed(
                    f"job {job} has not begun after {patience:g} s ({said or status}): a party is "
                    "gone or busy. Start it with `reticent vertical party KIT`, then submit again",
                    "PartyLost",
                    job,
                )
            time.sleep(_POLL)
    except (KeyboardInterrupt, RunFailed):
        with suppress(Exception):
            opened.abort_job(job)
        raise


def _progress(opened: Any, job: str) -> Mapping[str, Any]:
    try:
        return dict(opened.do_app_command(job, PROGRESS, {}))
    except Exception:
        # The job's server process is still starting, or already gone: ask again.
        return {"status": "starting or ending"}


def fetch(opened: Any, job: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome that the server wrote: the model, or a `RunFailed` with the reason."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            got = Path(opened.download_job_result(job, scratch))
            found = sorted(got.rglob(OUTCOME))
            outcome = json.loads(found[0].read_text()) if found else None
        except Exception as error:
            raise RunFailed(f"the result of job {job} could not be fetched: {error}") from None
    status = str(meta.get("status", "unknown"))
    if outcome is None:
        details = "; ".join(str(line) for line in meta.get("job_deploy_detail", ()))
        raise RunFailed(
            f"job {job} ended as {status} before it began ({details}); the logs in the kits of "
            "the server and of the parties say why",
            status,
            job,
        )
    if "error" in outcome:
        kind = outcome.get("kind", "")
        hint = "; that is: submit this run again, with `resume`" if kind == "PartyLost" else ""
        raise RunFailed(outcome["error"] + hint, kind, job)
    return dict(outcome)


def keep(path: Path, content: Mapping[str, Any] | bytes) -> None:
    """Write a file atomically, readable by its owner only; content that is not bytes is written as JSON."""
    data = content if isinstance(content, bytes) else f"{json.dumps(content, indent=2)}\n".encode()
    draft = path.with_name(path.name + ".new")
    draft.touch(mode=0o600)
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
