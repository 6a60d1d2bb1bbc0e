"""[online], figure 2 (b), on replacement data: average regret of private online linear regression.

Jain, Kothari and Thakurta, appendix G.1, used the Year Prediction data (515,345 x 90), of which no complete copy was
available. Instead: the arrival delays of 327,346 flights (dimension 26) and the comments on 60,021 blog posts
(dimension 63), or two short bundled streams if these are not found. Since the data differ, only the shape of the curves
can be compared with the paper's.
"""

from __future__ import annotations

from reticent.papers.figures import data
from reticent.papers.figures.figure import Figure, Row, Settings, Task
from reticent.papers.figures.online_2a import regrets
from reticent.plots.panels import Panel

NAME = "online-2b"
TITLES = {
    "flights": "flight delays (stand-in), d = 26",
    "blog": "blog comments (stand-in), d = 63",
    "diabetes": "diabetes (bundled stand-in), d = 11",
    "trump": "approval ratings (bundled stand-in), d = 6",
}


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "streams": [data.available("flights"), data.available("blog")],
        "ridge": 1.0,
        "delta": 1e-6,
        "refresh": 1 if full else 10,
        "epsilons": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0] if full else [0.01, 0.1, 1.0, 10.0],
        "seeds": 10 if full else 2,
        "records": None if full else 100_000,
    }


def tasks(settings: Settings) -> list[Task]:
    return [
        {"stream": stream, "seed": seed, "epsilon": epsilon}
        for stream in settings["streams"]
        for epsilon in [None, *settings["epsilons"]]
        for seed in range(1 if epsilon is None else settings["seeds"])
    ]


def measure(settings: Settings, task: Task) -> list[Row]:
    X, y = data.records(task["stream"])
    count = settings["records"]
    return regrets(task["stream"], settings, task, X[:count], y[:count], settings["refresh"])


def panels(settings: Settings) -> list[Panel]:
    return [Panel(name, TITLES[name], "epsilon", "average regret") for name in settings["streams"]]


def notes(settings: Settings) -> list[str]:
    words = [
        "not the paper's data: no complete copy of Year Prediction was available, so other real streams replace it",
        f"records in order of time; (epsilon, {settings['delta']:g}), zero-out neighbours; "
        f"{settings['seeds']} seeds of noise; a new decision every {settings['refresh']} records",
    ]
    words.append(
        "without learning: the decision 0 throughout; a ridge of 1 makes it hard to beat, and a learner above "
        "it has learnt nothing but noise"
    )
    if settings["records"] is not None:
        words.append(f"the first {settings['records']:,} records of each stream; all with --full")
    return words


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes)
