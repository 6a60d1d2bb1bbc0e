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
        Panel in which it is shown.
    series
        Name of the series, if a panel holds several.
    variant
        Name of the variant, such as "published" or "ours".
    x
        Position on the horizontal axis; None for a level that does not depend on it.
    value
        The number.
    seed
        Seed of data and noise; None if nothing is random.
    true_epsilon
        The epsilon that the noise really gives at the delta of the settings, whatever was requested.
    """

    panel: str
    variant: str
    x: float | None
    value: float
    seed: int | None = None
    series: str = ""
    true_epsilon: float | None = None


@dataclass(frozen=True)
class MeanOverSeeds:
    """Mean over the seeds, and the standard error of that mean (0 if there is only one value)."""

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
    """The description of a figure.

    Parameters
    ----------
    name
        Name of the figure, the argument of ``reticent reproduce``.
    settings
        ``settings(full)`` returns everything that determines the numbers, as plain data.
    tasks
        Returns the tasks to measure, as plain data that can be sent to other processes.
    measure
        ``measure(settings, task)`` returns the rows of one task.
    panels
        Returns the panels that show the rows.
    notes
        Returns sentences that a reader needs to understand the picture.
    findings
        Returns sentences that follow from the numbers.
    """

    name: str
    settings: Callable[[bool], Settings]
    tasks: Callable[[Settings], list[Task]]
    measure: Callable[[Settings, Task], list[Row]]
    panels: Callable[[Settings], list[Panel]]
    notes: Callable[[Settings], list[str]]
    findings: Callable[[list[MeanOverSeeds]], list[str]] = lambda summaries: []


@dataclass(frozen=True)
class CatalogueEntry:
    """An entry of the catalogue of figures."""

    source: str
    title: str
    shows: str
    module: str


CATALOGUE = {
    "online-2a": CatalogueEntry(
        "Jain, Kothari and Thakurta, Differentially Private Online Learning, figure 2 (a)",
        "Regret of online linear regression on synthetic data",
        "average regret of PQFTL against epsilon, dimension 10, 100,000 records",
        "online_2a",
    ),
    "online-2b": CatalogueEntry(
        "Jain, Kothari and Thakurta, figure 2 (b), on stand-in streams",
        "Regret of online linear regression on real streams",
        "average regret of PQFTL against epsilon; flights and blogs stand in for Year Prediction",
        "online_2b",
    ),
    "online-2c": CatalogueEntry(
        "Jain, Kothari and Thakurta, figure 2 (c)",
        "Accuracy of online logistic regression",
        "accuracy of PIGD's last decision against epsilon, a tenth of the records held out",
        "online_2c",
    ),
    "window-1": CatalogueEntry(
        "Lou and Cheung, Projection-free Online Empirical Risk Minimization with Privacy-preserving "
        "and Privacy Expiration, table I",
        "Regret of seven private online learners",
        "measured regret against the horizon T and the window W, one panel for each row of the table",
        "window_1",
    ),
    "bandit-1": CatalogueEntry(
        "Ene, Nguyen and Vladu, Projection-Free Bandit Optimization with Privacy Guarantees, theorem 1",
        "Regret of private bandits",
        "measured regret of a play against the horizon T, and its exponent compared with the theorem's",
        "bandit_1",
    ),
    "vertical-1": CatalogueEntry(
        "Lou and Cheung, Uplink Communication Efficient Differentially Private Sparse Optimization "
        "with Feature-wise Distributed Data, table 1 and corollary 1",
        "Block Frank-Wolfe under five samplings, and what the parties send",
        "measured gap compared with the rates of table 1, bytes sent, and error against epsilon",
        "vertical_1",
    ),
    "chapter-1": CatalogueEntry(
        "Thakurta, Private Optimization: theorems 6.5 to 6.26",
        "Excess risk of the chapter's algorithms compared with the lower bounds",
        "excess empirical risk against epsilon, pure and approximate, natural and hardest data",
        "chapter_1",
    ),
}


def load(name: str) -> Figure:
    """Load a figure of the catalogue by its name."""
    if name not in CATALOGUE:
        names = ", ".join(CATALOGUE)
        raise ValueError(f"there is no figure {name!r} to reproduce; there are: {names}")
    module = importlib.import_module(f"reticent.papers.figures.{CATALOGUE[name].module}")
    figure: Figure = module.FIGURE
    return figure
