"""Parties as Ray actors: one trust domain on several machines, for sweeps and very wide tables.

Ray runs whatever its cluster is given, so this is for parties that trust each other's machines. Between organisations
use the NVIDIA FLARE transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reticent.vertical.transport import PartyLost


class RayActors:
    """A transport to parties in Ray actors.

    Parameters
    ----------
    makers : dict of str to callable
        Each callable makes its :class:`reticent.vertical.Party` where the actor runs, so that no table is sent.
    timeout : float
        Seconds to wait for an answer before a party counts as lost. Default: 600.
    **options
        Options of every actor, such as ``num_cpus``.

    See Also
    --------
    reticent.vertical.InProcess : Parties in this process.

    Notes
    -----
    `ray.init` must have been called. The actors' machines need the same versions of Python and Reticent.
    """

    def __init__(
        self, makers: Mapping[str, Callable[[], Any]], *, timeout: float = 600.0, **options: Any
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("this transport needs Ray: pip install ray") from error

        class PartyActor:
            def __init__(self, make: Callable[[], Any]) -> None:
                self.party = make()

            def handle(self, request: bytes) -> bytes:
                answer: bytes = self.party.handle(request)
                return answer

        self._ray, self.timeout = ray, timeout
        actor = ray.remote(**options)(PartyActor) if options else ray.remote(PartyActor)
        self._actors = {name: actor.remote(make) for name, make in makers.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._actors)

    def ask(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        sent = {name: self._actors[name].handle.remote(data) for name, data in requests.items()}
        answers = {}
        for name, future in sent.items():
            try:
                answers[name] = self._ray.get(future, timeout=self.timeout)
            except self._ray.exceptions.RayError as error:
                raise PartyLost(name, type(error).__name__) from error
        return answers
