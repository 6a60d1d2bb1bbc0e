"""NVIDIA FLARE as the transport of :mod:`tacit.vertical`: columns of different organisations.

The one thing a reader would get wrong: importing this package needs no engine. `site`, `server` and
`transport` do, and are loaded by the engine's own processes.
"""

from tacit.vertical.flare.commands import (
    check_party,
    ledger,
    party,
    provision,
    run,
    serve,
    weights,
)
from tacit.vertical.flare.jobs import RunFailed
from tacit.vertical.flare.kits import Federation, close_kit
from tacit.vertical.flare.rehearsal import Rehearsal
from tacit.vertical.flare.settings import Settings

__all__ = [
    "Federation",
    "Rehearsal",
    "RunFailed",
    "Settings",
    "check_party",
    "close_kit",
    "ledger",
    "party",
    "provision",
    "run",
    "serve",
    "weights",
]
