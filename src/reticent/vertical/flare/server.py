"""What runs at the server: one coordinator for one job.

A job is not a run. A run whose site was killed continues in a second job of the same name: the coordinator's file is in
the server's kit, not in the job, and the parties repeat stored answers to repeated requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reticent import checks
from reticent.privacy import Budget
from reticent.trace import Moment
from reticent.vertical.coordinator import Coordinator
from reticent.vertical.fit import JointFit
from reticent.vertical.flare.engine import collab
from reticent.vertical.flare.jobs import NAME, OUTCOME, PROGRESS, keep
from reticent.vertical.transport import PartyLost

RUNS = "runs"
_FAREWELL = 2.0
"""Seconds in which each party has asked for a task several times."""


class Server:
    """A coordinator, as the engine sees it.

    Parameters
    ----------
    terms
        The analyst's terms: ``name``, ``parties``, ``resume``, ``patience``, ``budget`` (``epsilon``, ``delta``,
        ``neighbours``) and ``run`` (the other arguments of :meth:`reticent.vertical.Coordinator.run`). No party trusts
        them.
    """

    def __init__(self, terms: dict[str, Any]) -> None:
        self.terms = terms
        self._progress: dict[str, Any] = {"status": "opening"}

    @collab.main
    def lead(self) -> None:
        """The whole run, and its outcome in the job's folder."""
        context = collab.fl_ctx
        context.get_engine().register_app_command(PROGRESS, self._tell)
        _stay_for_farewell(context.get_engine())
        folder = Path(collab.workspace.get_run_dir(context.get_job_id()))
        try:
            outcome = self._run(Path(collab.workspace.get_root_dir()))
        except Exception as error:
            keep(folder / OUTCOME, {"error": str(error), "kind": type(error).__name__})
            raise
        keep(folder / OUTCOME, outcome)
        self._progress["status"] = "done"

    def _run(self, kit: Path) -> dict[str, Any]:
        terms = self.terms
        name = terms["name"]
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"name must be lower-case letters, digits and hyphens; got {name!r}")
        memory = kit / RUNS / f"{name}.state"
        memory.parent.mkdir(mode=0o700, exist_ok=True)
        if memory.exists() and not terms["resume"]:
            raise FileExistsError(f"the run {name!r} is unfinished: resume it, or use another name")
        if terms["resume"] and not memory.exists():
            raise FileNotFoundError(
                f"there is no unfinished run {name!r} to resume; start it without resume"
            )
        transport = FlareTransport(terms["parties"], patience=terms["patience"])
        coordinator = Coordinator(transport, path=memory)
        began = time.perf_counter()
        if terms["resume"]:
            fit = coordinator.resume(callback=self._note)
        else:
            budget = Budget(**terms["budget"])
            fit = coordinator.run(budget=budget, callback=self._note, **terms["run"])
        return describe(fit, time.perf_counter() - began)

    def _note(self, moment: Moment) -> None:
        self._progress = {"status": "running", "round": moment.step, "rounds": moment.steps}

    def _tell(self, topic: str, data: Any, context: Any) -> dict[str, Any]:
        return dict(self._progress)


def _stay_for_farewell(engine: Any) -> None:
    """Keep the job's process at the server until the parties have heard that the run has ended.

    The engine announces the end without waiting, and tells it to parties that ask for a task, every half second; but
    its process may end at the same moment. Parties that did not hear of it keep asking, and the server waits a quarter
    of an hour for them.
    """
    from nvflare.apis.event_type import EventType
    from nvflare.apis.fl_component import FLComponent

    host = FLComponent()
    host.register_event_handler(EventType.END_RUN, lambda *_: time.sleep(_FAREWELL))
    engine.run_manager.add_handler(host)


def describe(fit: JointFit, seconds: float) -> dict[str, Any]:
    """A fit as plain data: what an analyst may keep."""
    traffic = fit.traffic
    rounds = len(traffic.uplink) - 2
    return {
        "format": 1,
        "loss": next(iter(fit.plans.values())).loss,
        "columns": {name: len(point) for name, point in fit.points.items()},
        "weights": {
            name: {str(place): float(point[place]) for place in point.nonzero()[0]}
            for name, point in fit.points.items()
        },
        "guarantee": fit.guarantee.to_dict(),
        "guarantees": {name: guarantee.to_dict() for name, guarantee in fit.guarantees.items()},
        "bytes": {
            name: {"uplink": int(up), "downlink": int(down)}
            for name, up, down in zip(
                traffic.names, traffic.uplink.sum(0), traffic.downlink.sum(0), strict=True
            )
        },
        "rounds": rounds,
        "milliseconds_per_round": 1000.0 * seconds / max(rounds, 1),
        "summary": str(fit),
    }


class FlareTransport:
    """The transport that a coordinator uses inside a job's server process: requests to the sites, as bytes.

    Collab calls carry `bytes` in about 12 ms for three sites; arrays would go through a download
    transaction and take six times as long. A call that timed out may still have been answered. It is asked
    again with the same bytes, and the party gives the answer it gave before.

    Parameters
    ----------
    names
        The sites, in the order of their blocks in the model.
    patience
        How many seconds to wait for an answer before a site counts as lost.
    attempts
        How often a request is sent before that.
    """

    def __init__(self, names: Iterable[str], *, patience: float = 60.0, attempts: int = 2) -> None:
        self._names = tuple(names)
        self.patience = checks.positive(patience, "patience")
        self.attempts = checks.integer(attempts, "attempts", low=1)
        here = {client.name for client in collab.clients}
        for name in self._names:
            if name not in here:
                raise PartyLost(name, "it takes no part in this job")

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def ask(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        """Hand each site its request, all at once, and wait for all answers."""
        answers: dict[str, bytes] = {}
        waiting = dict(requests)
        failures: dict[str, Any] = {}
        for _ in range(self.attempts):
            got, failures = self._send(waiting)
            answers.update(got)
            waiting = {name: waiting[name] for name in failures}
            if not waiting:
                break
        for name in requests:
            if name in failures:
                raise PartyLost(name, _reason(failures[name]))
            if not isinstance(answers[name], bytes):
                raise PartyLost(name, f"it answered with {type(answers[name]).__name__}, not bytes")
        return {name: answers[name] for name in requests}

    def _send(self, requests: dict[str, bytes]) -> tuple[dict[str, bytes], dict[str, Any]]:
        groups: dict[bytes, list[str]] = {}
        for name, request in requests.items():
            groups.setdefault(request, []).append(name)
        one_call = len(groups) == 1
        calls = [
            collab.get_clients(names)(blocking=one_call, timeout=self.patience).handle(request)
            for request, names in groups.items()
        ]
        answers: dict[str, bytes] = {}
        failures: dict[str, Any] = {}
        for call in calls:
            answers.update(call)
            failures.update(call.failures)
        return answers, failures


def _reason(error: Any) -> str:
    if isinstance(error.cause, TimeoutError):
        return f"{error.cause}; its process or its network is down"
    return str(error.cause)
