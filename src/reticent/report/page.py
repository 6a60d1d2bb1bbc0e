"""One self-contained HTML page: text, tables, drawings, the guarantee, and how to reproduce it.

It contains no script, font or picture from elsewhere, and its content policy forbids the browser to fetch anything.

A page that shows a diagnostic is as private as the records from which it was computed. Every table and drawing says
which it is, and ``write`` makes such a page readable by its owner only.
"""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.report.style import SHEET
from reticent.report.svg import inline_svg

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_TAGS = {
    "private": '<span class="tag private">covered by the guarantee</span>',
    "diagnostic": '<span class="tag diagnostic">diagnostic: reads private data</span>',
    "public": "",
}


class Page:
    """A page, filled from top to bottom.

    Parameters
    ----------
    title
        Title of the page.
    subtitle
        One sentence about the content of the page.

    Examples
    --------
    >>> page = Page("Shuttle", "49,097 records")
    >>> page.facts({"epsilon": "1"})
    >>> page.table(["budget", "loss"], [["1", "0.25"]], kind="diagnostic")
    >>> "diagnostic: reads private data" in page.html()
    True
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self.subtitle = subtitle
        self.shows_diagnostics = False
        self._parts: list[str] = []
        self._figures = 0

    # Content --------------------------------------------------------------------------------------

    def heading(self, words: str) -> None:
        """Begin a section.

        Parameters
        ----------
        words
            Title of the section.
        """
        self._parts.append(f"<h2>{_text(words)}</h2>")

    def text(self, words: str) -> None:
        """Add a paragraph.

        Parameters
        ----------
        words
            Text of the paragraph.
        """
        self._parts.append(f"<p>{_text(words)}</p>")

    def facts(self, facts: Mapping[str, str]) -> None:
        """Add a few key figures in large type.

        Parameters
        ----------
        facts
            Each figure, by its label.
        """
        cells = "".join(
            f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
            for name, value in facts.items()
        )
        self._parts.append(f'<dl class="facts">{cells}</dl>')

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        caption: str = "",
        *,
        kind: str = "public",
    ) -> None:
        """Add a table of text; columns of numbers are aligned to the right.

        Parameters
        ----------
        columns
            Titles of the columns.
        rows
            The cells of each row.
        caption
            Caption of the table.
        kind
            ``"private"`` (covered by the guarantee), ``"diagnostic"`` (reads private data) or ``"public"``.
        """
        body = [list(row) for row in rows]
        numeric = [
            bool(body) and all(_numeric(row[k]) for row in body) for k in range(len(columns))
        ]
        marks = [' class="number"' if right else "" for right in numeric]
        head = "".join(
            f"<th{mark}>{_text(name)}</th>" for name, mark in zip(columns, marks, strict=True)
        )
        lines = "".join(
            "<tr>"
            + "".join(f"<td{m}>{_text(cell)}</td>" for cell, m in zip(row, marks, strict=True))
            + "</tr>"
            for row in body
        )
        words = self._tag(kind) + _text(caption)
        top = f"<caption>{words}</caption>" if words else ""
        self._parts.append(
            f'<div class="scroll"><table>{top}<thead><tr>{head}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>"
        )

    def figure(self, figure: Any, caption: str, *, kind: str = "public") -> None:
        """Add a matplotlib figure as a drawing within the page.

        Parameters
        ----------
        figure
            A matplotlib figure, or axes of one.
        caption
            Caption, which also describes the drawing to those who cannot see it.
        kind
            ``"private"`` (covered by the guarantee), ``"diagnostic"`` (reads private data) or ``"public"``.
        """
        self._figures += 1
        drawing = inline_svg(figure, f"figure-{self._figures}", caption)
        words = self._tag(kind) + _text(caption)
        self._parts.append(
            f'<figure><div class="drawing">{drawing}</div><figcaption>{words}</figcaption></figure>'
        )

    def summary(self, summary: Any) -> None:
        """Add a table and a forest plot of numbers with their errors and intervals.

        Parameters
        ----------
        summary
            The summary that ``model.summary()`` returned.
        """
        names = ["", "estimate", "standard error", "sampling", "privacy", "from", "to"]
        columns = (
            summary.estimate,
            summary.standard_error,
            summary.sampling_error,
            summary.privacy_error,
            *summary.interval.T,
        )
        rows = [
            [name, *(f"{column[k]:.4g}" for column in columns)]
            for k, name in enumerate(summary.names)
        ]
        self.table(names, rows, f"{summary.level:.0%} intervals, {summary.about}", kind="private")
        words = "The thick part of each line is the interval that sampling alone would give."
        self.figure(summary.plot(), words, kind="private")

    def guarantee(self, guarantee: Any) -> None:
        """Add a guarantee: the statement, its meaning for people, and its derivation line by line.

        Parameters
        ----------
        guarantee
            The guarantee.
        """
        words = in_words(guarantee)
        body = "".join(f"<p>{_text(line)}</p>" for line in words)
        self._parts.append(f'<div class="guarantee">{body}</div>')
        for line in warnings_of(guarantee):
            self._parts.append(f'<div class="guarantee caveat"><p>{_text(line)}</p></div>')
        self._parts.append(
            "<details><summary>The accounting, line by line</summary>"
            f"<pre>{_text(guarantee.explain())}</pre></details>"
        )

    def privacy(self, private: Sequence[str], diagnostics: Sequence[str]) -> None:
        """Add lists of what may be published and what must stay with the holder of the data.

        Parameters
        ----------
        private
            What the guarantee covers.
        diagnostics
            What reads private data.
        """
        sections = []
        for kind, title, lines in (
            ("private", "May be published", private),
            ("diagnostic", "Must not be published", diagnostics),
        ):
            items = "".join(f"<li>{_text(line)}</li>" for line in lines)
            sections.append(f"<section><h3>{title}</h3>{_TAGS[kind]}<ul>{items}</ul></section>")
        self._parts.append(f'<div class="split">{"".join(sections)}</div>')

    def command(self, command: str, words: str = "The exact command that repeats it:") -> None:
        """Add the command that repeats the run.

        Parameters
        ----------
        command
            The command line.
        words
            The sentence before it.
        """
        self._parts.append(f"<p>{_text(words)}</p><pre>{_text(command)}</pre>")

    def _tag(self, kind: str) -> str:
        if kind not in _TAGS:
            raise ValueError(f"kind must be one of {', '.join(_TAGS)}; got {kind!r}")
        self.shows_diagnostics |= kind == "diagnostic"
        return _TAGS[kind]

    # Output ---------------------------------------------------------------------------------------

    def html(self) -> str:
        """The whole page as HTML."""
        from reticent import __version__

        secret = (
            '<p class="subtitle"><span class="tag diagnostic">for the holder of the data</span>'
            "This page shows diagnostics that read private records. Do not publish it.</p>"
            if self.shows_diagnostics
            else ""
        )
        subtitle = f'<p class="subtitle">{_text(self.subtitle)}</p>' if self.subtitle else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{_text(self.title)}</title>\n<style>{SHEET}</style>\n</head>\n<body>\n<main>\n"
            f"<header><h1>{_text(self.title)}</h1>{subtitle}{secret}</header>\n"
            + "\n".join(self._parts)
            + f"\n<footer>Written by reticent {__version__}.</footer>\n</main>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file; if it shows diagnostics, only the owner can read it (mode 0600).

        Parameters
        ----------
        path
            File to write.

        Returns
        -------
        Path
            The file.
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        mode = 0o600 if self.shows_diagnostics else 0o644
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.html())
        os.replace(part, target)
        return target


def in_words(guarantee: Any) -> list[str]:
    """Explain a guarantee without epsilon, in terms of people.

    Parameters
    ----------
    guarantee
        The guarantee.

    Returns
    -------
    list of str
        The paragraphs.

    Examples
    --------
    >>> from reticent.privacy import Gaussian, Guarantee
    >>> from reticent.privacy.guarantee import Release
    >>> print(in_words(Guarantee([Release("sum", Gaussian(0.2367), 1.0, "gaussian")]))[1])
    Let 1,000 people each flip a coin to decide whether their record takes part. An attacker who sees every output and
    knows all other records guesses right for at most 548 of them; one who guesses blindly, for about 500.
    """
    lines = [f"{guarantee}."]
    lines.append(str(guarantee.odds()))
    scope = guarantee.scope
    if scope.ages:
        lines.append(
            f"This covers the first {scope.last:,} outputs, counted from {scope.since}. Anyone who sees fewer learns "
            f"less; anyone who sees more may learn more: {guarantee.by_age()}."
        )
    elif scope.within:
        lines.append(
            f"This covers any {scope.window:,} consecutive outputs, and is about the records of a person that came "
            f"within them. "
            "Against anyone who sees more outputs, the guarantee is weaker, or there is none."
        )
    elif scope.window is not None:
        lines.append(
            f"This covers any {scope.window:,} consecutive outputs, counted from the first that a record enters. "
            "Against anyone who sees more outputs, the guarantee is weaker, or there is none."
        )
    else:
        lines.append(
            "This covers everything that was or will be released from the run, together, for ever."
        )
    return lines


def warnings_of(guarantee: Any) -> list[str]:
    """The caveats that a reader must see together with a guarantee.

    Parameters
    ----------
    guarantee
        The guarantee.

    Returns
    -------
    list of str
        One sentence for each caveat.
    """
    lines = []
    if guarantee.seeded:
        lines.append("The noise came from a given seed: an experiment, not a release.")
    if not guarantee.lattice:
        lines.append("The noise was drawn in floating point: a simulation, not a release.")
    return lines + list(guarantee.caveats)


def least_misses(epsilon: Callable[[float], float], false_alarms: ArrayLike) -> Any:
    """The least share of misses that a guarantee allows an attacker, at each share of false alarms.

    It is the upper envelope of the lines that each (epsilon(delta), delta) allows (Dong, Roth and Su, Proposition
    2.12). `reticent.plots.tradeoff.claimed_misses` needs delta as a function of epsilon instead, which takes half a
    second per point if several mechanisms are composed.

    Parameters
    ----------
    epsilon
        The epsilon that is proved at each delta.
    false_alarms
        Shares between 0 and 1.

    Examples
    --------
    >>> least_misses(lambda delta: 0.5, [0.0, 0.5, 1.0]).round(3)
    array([1.   , 0.303, 0.   ])
    """
    x = np.asarray(false_alarms, dtype=float)
    best = np.zeros_like(x)
    for delta in (0.0, *np.geomspace(1e-7, 0.8, 48).tolist()):
        steep = math.exp(min(700.0, epsilon(delta)))
        best = np.maximum(best, 1.0 - delta - steep * x)
        best = np.maximum(best, (1.0 - delta - x) / steep)
    return best


def _text(words: str) -> str:
    return html.escape(str(words), quote=False)


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?%?", cell) is not None
