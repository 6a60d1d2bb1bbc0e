"""Saved states, and what makes a stream continue exactly once: leases, files whose keys are replaced, and commits.

A stream that continues from a saved state uses the same noise as if nothing had happened; continuing a state twice
would put the same noise on different data. The rules, and what cannot be detected: docs/saved-states.md.
"""

from reticent.state.commit import Committed, committed
from reticent.state.files import File, load, save
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.state.runs import current as current_run
from reticent.state.runs import resumable

__all__ = [
    "Committed",
    "File",
    "Lease",
    "Persons",
    "committed",
    "current_run",
    "load",
    "resumable",
    "save",
]
