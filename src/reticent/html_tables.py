"""Small tables for notebooks, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_NUMBER = "text-align:right;vertical-align:top;padding:0.15em 0 0.15em 0.8em"
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


def grid(rows: Sequence[Sequence[str]]) -> str:
    """A head and lines of cells as an HTML table; names on the left, numbers to the right of their columns.

    Examples
    --------
    >>> grid([["", "size"], ["a < b", "1"]]).count("<tr>")
    2
    """
    lines = []
    for place, row in enumerate(rows):
        name, *cells = (escape(cell) for cell in row)
        kind = "td" if place else "th"
        lines.append(
            f'<tr><th style="{_CELL}">{name}</th>'
            + "".join(f'<{kind} style="{_NUMBER}">{cell}</{kind}>' for cell in cells)
            + "</tr>"
        )
    return f"<table>{''.join(lines)}</table>"


def lines(*sentences: str) -> str:
    """Sentences, one below the other."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def block(text: str) -> str:
    """Aligned text as it is."""
    return f"<pre>{escape(text)}</pre>"
