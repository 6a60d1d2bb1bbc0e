"""Small tables for notebooks: two columns, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0"


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as an HTML table.

    Examples
    --------
    >>> "<td" in table([("delta", "1e-6 < 1")]), "1e-6 &lt; 1" in table([("delta", "1e-6 < 1")])
    (True, True)
    """
    lines = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table>{lines}</table>"


def block(text: str) -> str:
    """Aligned text as it is."""
    return f"<pre>{escape(text)}</pre>"
