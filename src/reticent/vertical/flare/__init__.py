"""NVIDIA FLARE as the transport of :mod:`reticent.vertical`, for columns of different organisations.

Importing this package does not need the engine. `site`, `server` and `transport` do, and are loaded by the engine's own
processes.
"""

from reticent.vertical.flare.commands import (
    check_party,
    ledger,
    party,
    predict,
    provision,
    run,
    score,
    serve,
    weights,
)
from reticent.vertical.flare.jobs import RunFailed
from reticent.vertical.flare.kits import Federation, close_kit
from reticent.vertical.flare.rehearsal import Rehearsal
from reticent.vertical.flare.settings import Settings

__all__ = [
    "Federation",
    "Rehearsal",
    "RunFailed",
    "Settings",
    "check_party",
    "close_kit",
    "ledger",
    "party",
    "predict",
    "provision",
    "run",
    "score",
    "serve",
    "weights",
]
