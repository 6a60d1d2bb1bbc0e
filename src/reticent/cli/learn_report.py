"""The report of `reticent learn`: the model, its guarantee, and how well it predicted while it learnt.

Coefficients are covered by the guarantee and may be published; the curve of accuracy beside them is not, and makes the
whole page as secret as the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reticent.privacy import Guarantee
from reticent.privacy.budget import plain
from reticent.report import Page
from reticent.tables import Model
from reticent.trace import Summary

_MOST = 40


def write(
    path: Path,
    model: Model,
    diagnostics: Any,
    *,
    rate: float | None,
    every: int | None,
    command: str,
    summary: Summary | None = None,
) -> Path:
    """Write the page; without diagnostics it contains only what may be published."""
    how = model.how
    guarantee = model.guarantee
    verb = "online" if how["online"] else "offline"
    page = Page(
        f"{model.target}, learnt privately",
        f"{how['estimator']}, {verb}, from {model.learnt_from} with {len(model.features)} features",
    )
    facts = {
        model.learnt_from.split()[1]: f"{model.records:,}",
        "epsilon": _epsilon(how),
        "delta": plain(how["delta"]),
        "protected for": _length(how),
    }
    if diagnostics is not None:
        # The counts below are computed from the records even if there is no curve, and so is the duration.
        page.shows_diagnostics = True
        if rate is not None:
            facts["records per second"] = f"{rate:,.0f}"
    page.facts(facts)
    page.heading("The guarantee")
    page.guarantee(guarantee)
    _by_age(page, guarantee)
    if diagnostics is not None and len(diagnostics.curve) > 1:
        _curve(page, model, diagnostics)
    page.heading("What the model learnt")
    if summary is not None:
        page.summary(summary)
    _coefficients(page, model)
    page.heading("What is private and what is not")
    released = ["the model file: coefficients, intercepts, schema, guarantee"]
    if every is not None:
        released.append(f"the decisions, one after each {every:,} records")
    if diagnostics is None:
        page.privacy(released, ["nothing on this page, which was written without diagnostics"])
    else:
        odd = f"{diagnostics.outside:,} cells missing or beyond the schema"
        if diagnostics.blanked:
            odd += f", {diagnostics.blanked:,} records counted as gaps"
        page.privacy(
            released,
            [
                f"the {diagnostics.name} and its picture",
                odd,
                "the records per second",
                "a saved state, while there is one",
            ],
        )
    page.text(
        "The schema (bounds, categories) is public and not covered by the guarantee: it must be "
        "known without looking at the records."
    )
    page.heading("How to repeat this run")
    page.command(command if diagnostics is not None else _without_seed(command))
    if not guarantee.seeded:
        page.text("A run without a seed has fresh noise: a repetition is a second release.")
    return page.write(path)


def _without_seed(command: str) -> str:
    """The command without its seed, because anyone who knows the seed can remove the noise."""
    return re.sub(r"(--seed[= ])\S+", r"\1SEED", command)


def _epsilon(how: Mapping[str, Any]) -> str:
    """The epsilon of the guarantee; if it fades, from the first age to the last."""
    fade = how.get("fade")
    return f"{how['epsilon']:g}" + (f" to {fade[-1][1]:g}" if fade else "")


def _length(how: Mapping[str, Any]) -> str:
    """For how long a record is protected, in a few words."""
    if how.get("fade") is not None:
        return "ever, weakening with age"
    return "ever" if how["window"] is None else f"the next {how['window']:,} records"


def _by_age(page: Page, guarantee: Guarantee) -> None:
    """Add a picture of the guarantee at every age, if it depends on age."""
    if not guarantee.releases or any(release.ages is None for release in guarantee.releases):
        return
    by_age, scope = guarantee.by_age(), guarantee.scope
    counted = (
        "The age is the number of consecutive outputs; the guarantee covers the records of a person that "
        "came within them"
        if scope.within
        else f"An output's age is counted from {scope.since}, which has age 1"
    )
    page.figure(
        by_age.plot(title="The guarantee by age"),
        f"{counted}: {by_age}.",
    )


def _curve(page: Page, model: Model, diagnostics: Any) -> None:
    from reticent.plots.over_time import over_time

    curve = diagnostics.curve
    constant = "the most frequent class so far" if model.classes else "the mean so far"
    page.heading("How well the model predicted")
    ax = over_time(
        curve[:, 0],
        {"private model": curve[:, 1], constant: curve[:, 2]},
        measure=diagnostics.name,
    )
    last = curve[-1]
    page.figure(
        ax,
        f"Each record is predicted before it is learnt from. At the end: {last[1]:.4g}, compared with "
        f"{last[2]:.4g} for {constant}.",
        kind="diagnostic",
    )


def _coefficients(page: Page, model: Model) -> None:
    names = [str(c) for c in model.classes or ()] if len(model.intercepts) > 1 else [""]
    size = np.abs(model.coefficients).max(axis=0)
    order = np.argsort(-size, kind="stable")[:_MOST]
    columns = ["feature", *(f"towards {name}" if name else "coefficient" for name in names)]
    rows = [
        [model.features[k], *(f"{value:+.4f}" for value in model.coefficients[:, k])] for k in order
    ]
    rows.append(["intercept", *(f"{value:+.4f}" for value in model.intercepts)])
    more = len(size) - len(order)
    words = "For features scaled to [-1, 1] by the schema"
    if more:
        words += f"; {more} smaller ones omitted"
    if model.classes and len(model.intercepts) == 1:
        words += f"; positive is towards {model.classes[1]!r}"
    page.table(columns, rows, words + ".", kind="private")
