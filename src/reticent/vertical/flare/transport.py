"""Requests to the sites of a running FLARE job, as bytes.

Collab calls carry `bytes` in about 12 ms for three sites; arrays would go through a download transaction and take six
times as long. A call that timed out may have been answered. It is repeated with the same bytes, and the party repeats
its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reticent import checks
from reticent.vertical.flare.engine import collab
from reticent.vertical.transport import PartyLost


class FlareTransport:
    """The transport that a coordinator uses inside a job's server process.

    Parameters
    ----------
    names
        Names of the sites, in the order of their blocks in the model.
    patience
        Seconds to wait for an answer before a site counts as lost. Default: 60.
    attempts
        How often a request is sent before that. Default: 2.
    """

    def __init__(self, names: Iterable[str], *, patience: float = 60.0, attempts: int = 2) -> None:
        self._names = tuple(names)
        self.patience = checks.number(patience, "patience", low=0.0, open_low=True)
        self.attempts = checks.integer(attempts, "attempts", low=1)
        here = {client.name for client in collab.clients}
        for name in self._names:
            if name not in here:
                raise PartyLost(name, "it takes no part in this job")

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def ask(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        """Send each site its request, concurrently, and wait for all answers."""
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
