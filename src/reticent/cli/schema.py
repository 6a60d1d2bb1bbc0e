"""`reticent schema`: draft a schema, from the column names alone or from public records."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.tables import draft

LEAK = (
    "the bounds and categories in this draft come from the data. That is right only for a public sample: a "
    "schema derived from private records reveals them. Check every line"
)
_TOP = "# What is known about the columns. This file is public: no bound may come from private records.\n"
_TARGET = '# target = "NAME"  # which column is to be predicted\n\n'


def schema(
    data: str,
    *,
    public_sample: bool,
    names_only: bool,
    target: str | None,
    kind: str | None,
    out: Path | None,
    console: Console,
) -> int:
    """Run the command and return its exit status."""
    if not public_sample and not names_only:
        raise Refused(
            "a schema derived from private data reveals it; use --public-sample if DATA is public, or "
            "--names-only for a template with only the column names"
        )
    public = public_sample and not names_only
    drafted, remarks = draft(data, public_sample=public, target=target, kind=kind)
    if public:
        console.warn(LEAK)
    unnamed = "" if drafted.target else _TARGET
    text = _TOP + unnamed + drafted.to_toml(remarks)
    if out is not None:
        try:
            with open(out, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Refused(f"{out} exists already; choose another --out") from None
        console.note(f"schema: {out}")
    if console.as_json:
        console.result(drafted.to_dict(), "")
    elif out is None:
        os.write(sys.stdout.fileno(), text.encode())
    return 0
