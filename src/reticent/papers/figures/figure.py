"""The description of a figure: settings, tasks that can run anywhere, rows of numbers, and panels that show them.

A task is plain data and a figure is referred to by name, so that a task can be sent to another process, and settings
can be compared with those of a stored result.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reticent.plots.panels import Panel

Settings = dict[str, Any]
Task = dict[str, Any]

PUBLISHED, CORRECTED, OURS = "published", "corrected", "ours"
CLEAN, IDLE, BOUND = "not private", "without learning", "bound"


@dataclass(frozen=True)
class Row:
    """One measured (or, for a bound, computed) number.

    Parameters
    ----------
    panel
        Where it is shown.
    series
        A second name, where a panel holds several.
    variant
        A third.
    x
        What it was measured at; None for a level that does not depend on it.
    value
        What was found.
    seed
        Of data and noise; None where nothing is random.
    true_epsilon
        What the noise really gives, at the delta of the settings, whatever it was asked for.
    """

    panel: str
    variant: str
    x: float | None
    value: float
    seed: int | None = None
    series: str = ""
    true_epsilon: float | None = None


@dataclass(frozen=True)
class Summary:
    """Mean over the seeds, and the standard error of that mean (0 where there is one value)."""

    panel: str
    series: str
    variant: str
    x: float | None
    mean: float
    error: float
    count: int
    true_epsilon: float | None


@dataclass(frozen=True)
class Figure:
    """How a figure is made.

    Parameters
    ----------
    name
        As in ``reticent reproduce NAME``.
    settings
        ``settings(full)``: everything that decides the numbers, as plain data.
    tasks
        What there is to measure, as plain data that other processes understand.
    measure
        ``measure(settings, task)``: the rows of one task.
    panels
        How the rows are shown.
    notes
        What a reader must know to read the picture, one sentence each.
    findings
        What follows from the numbers, one sentence each.
    """

    name: str
    settings: Callable[[bool], Settings]
    tasks: Callable[[Settings], list[Task]]
    measure: Callable[[Settings, Task], list[Row]]
    panels: Callable[[Settings], list[Panel]]
    notes: Callable[[Settings], list[str]]
    findings: Callable[[list[Summary]], list[str]] = lambda summaries: []


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue."""

    source: str
    title: str
    shows: str
    module: str


CATALOGUE = {
    "online-2a": Entry(
        "Jain, Kothari and Thakurta, Differentially Private Online Learning, figure 2 (a)",
        "Regret of online linear regression on synthetic data",
        "average regret of PQFTL against epsilon, dimension 10, 100,000 records",
        "online_2a",
    ),
    "online-2b": Entry(
        "Jain, Kothari and Thakurta, figure 2 (b), on stand-in streams",
        "Regret of online linear regression on real streams",
        "average regret of PQFTL against epsilon; flights and blogs stand in for Year Prediction",
        "online_2b",
    ),
    "online-2c": Entry(
        "Jain, Kothari and Thakurta, figure 2 (c)",
        "Accuracy of online logistic regression",
        "accuracy of PIGD's last decision against epsilon, a tenth of the records held out",
        "online_2c",
    ),
    "window-1": Entry(
        "Lou and Cheung, Projection-free Online Empirical Risk Minimization with Privacy-preserving "
        "and Privacy Expiration, table I",
        "Regret of seven private online learners",
        "measured regret against the horizon T and the window W, one panel for each row of the table",
        "window_1",
    ),
    "bandit-1": Entry(
        "Ene, Nguyen and Vladu, Projection-Free Bandit Optimization with Privacy Guarantees, theorem 1",
        "Regret of private bandits",
        "measured regret of a play against the horizon T, and its exponent beside the theorem's",
        "bandit_1",
    ),
    "vertical-1": Entry(
        "Lou and Cheung, Uplink Communication Efficient Differentially Private Sparse Optimization "
        "with Feature-wise Distributed Data, table 1 and corollary 1",
        "Block Frank-Wolfe under five samplings, and what the parties send",
        "measured gap beside the rates of table 1, bytes sent, and error against epsilon",
        "vertical_1",
    ),
    "chapter-1": Entry(
        "Thakurta, Private Optimization: theorems 6.5 to 6.26",
        "Excess risk of the chapter's algorithms beside the lower bounds",
        "excess empirical risk against epsilon, pure and approximate, natural and hardest data",
        "chapter_1",
    ),
}


def load(name: str) -> Figure:
    """A figure of the catalogue."""
    if name not in CATALOGUE:
        names = ", ".join(CATALOGUE)
        raise ValueError(f"there is no figure {name!r} to reproduce; there are: {names}")
    module = importlib.import_module(f"reticent.papers.figures.{CATALOGUE[name].module}")
    figure: Figure = module.FIGURE
    return figure
