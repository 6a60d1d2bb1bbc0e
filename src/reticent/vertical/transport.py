"""How requests reach the parties: the interface between the protocol and whatever transports its bytes.

A transport is any object with ``names`` and ``ask``. The one here calls parties in this process;
:mod:`reticent.vertical.ray` calls Ray actors, and NVIDIA FLARE transports the bytes between organisations.

``ask`` may be repeated. A transport that is not sure whether a request arrived raises :class:`PartyLost`; the
coordinator asks again with the same bytes, and a party repeats its answer to a repeated request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from reticent.vertical.party import Party


class PartyLost(ConnectionError):
    """A party did not answer. Nothing is lost: the run can be resumed when the party is back.

    Attributes
    ----------
    name : str
        Name of the party.
    reason : str
        What is known about the reason.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"party {name!r} is gone: {reason}. Its answers so far are kept; bring it back and "
            "call resume()"
        )
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type[PartyLost], tuple[str, str]]:
        return type(self), (self.name, self.reason)


@runtime_checkable
class Transport(Protocol):
    """Interface that :class:`reticent.vertical.Coordinator` needs."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parties, in the order of their blocks in the model."""
        ...

    def ask(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        """Send each party its request, concurrently, and wait for all answers.

        Parameters
        ----------
        requests : dict of str to bytes
            The request to each party, by name.

        Returns
        -------
        dict of str to bytes
            The answers, by name.

        Raises
        ------
        PartyLost
            If a party does not answer.
        """
        ...


class InProcess:
    """Parties in this process, for experiments and tests.

    Parameters
    ----------
    parties : dict of str to Party
        Parties by name, in the order of their blocks in the model.
    """

    def __init__(self, parties: Mapping[str, Party]) -> None:
        if not parties:
            raise ValueError("parties is empty; it must hold at least one party")
        for name, party in parties.items():
            if not callable(getattr(party, "handle", None)):
                raise TypeError(
                    f"parties[{name!r}] must have a handle(bytes) method, got {party!r}"
                )
        self.parties = dict(parties)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parties)

    def ask(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        for name in requests:
            if name not in self.parties:
                raise PartyLost(name, f"there are only {', '.join(map(repr, self.parties))}")
        return {name: self.parties[name].handle(request) for name, request in requests.items()}
