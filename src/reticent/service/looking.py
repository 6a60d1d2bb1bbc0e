"""Read the content of a service, running or not, without changing it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent.service import chain, sqlite
from reticent.service.anchor import DATABASE
from reticent.service.folder import Options
from reticent.service.store import Reading, StoreError


@contextlib.contextmanager
def look(options: Options) -> Iterator[Reading]:
    """Open the folder or the database of a service for reading."""
    if options.database is None:
        assert options.data is not None
        with sqlite.look(options.data / DATABASE) as rows:
            yield rows
        return
    from reticent.service import postgres

    with postgres.look(options.database) as rows:
        yield rows


def verify(options: Options, heads: Path | None = None) -> chain.Verdict:
    """Verify the chains of a service.

    Parameters
    ----------
    options : Options
        Location of the service.
    heads : path, optional
        File with the heads of an earlier run. They are compared and, if nothing is wrong, replaced by those of this
        run.
    """
    earlier: dict[str, Any] | None = None
    if heads is not None and heads.exists():
        try:
            earlier = json.loads(heads.read_text(encoding="utf-8"))
            assert isinstance(earlier, dict)
            assert all(
                type(one["rows"]) is int and type(one["hash"]) is str for one in earlier.values()
            )
        except (OSError, ValueError, AssertionError, KeyError, TypeError):
            raise StoreError(
                f"{heads} does not hold the heads of an earlier run; name another file"
            ) from None
    with look(options) as rows:
        found = chain.verify(rows, earlier)
    if heads is not None and not found.wrong:
        draft = heads.with_name(heads.name + ".draft")
        draft.write_text(json.dumps(found.heads, indent=1) + "\n", encoding="utf-8")
        draft.replace(heads)
    return found
