"""The bugs of the museum, and those that no line catches, with the reason."""

from __future__ import annotations

from . import bugs_accounts, bugs_faces, bugs_noise, bugs_solvers, bugs_streams
from .planting import Bug

BUGS: tuple[Bug, ...] = (
    *bugs_accounts.BUGS,
    *bugs_noise.BUGS,
    *bugs_streams.BUGS,
    *bugs_solvers.BUGS,
    *bugs_faces.BUGS,
)

UNCAUGHT: tuple[Bug, ...] = (*bugs_noise.UNCAUGHT, *bugs_solvers.UNCAUGHT)
"""Bugs that the audit does not notice; ``why`` says why not."""

SAMPLE = (
    "replacement-not-doubled",
    "ledger-forgets",
    "objective-noise-divided",
    "noise-not-rounded-to-the-lattice",
)
"""What every run of the tests plants: cheap ones, of different packages."""


def find(name: str) -> Bug:
    """The bug of a name."""
    for bug in (*BUGS, *UNCAUGHT):
        if bug.name == name:
            return bug
    raise ValueError(f"no bug is called {name!r}; there are {', '.join(b.name for b in BUGS)}")
