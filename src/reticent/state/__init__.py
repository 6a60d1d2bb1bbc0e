"""What makes a stream continue exactly once: leases, files whose keys are replaced, and commits.

A saved state goes on with the same noise as if nothing had happened; whoever continues it twice would put
the same noise on other data. The rules, and what cannot be seen from inside: docs/saved-states.md.
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
