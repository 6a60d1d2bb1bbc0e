"""`reticent explain`: a guarantee in words, the noise it requires, and the error to expect.

Nothing here reads a record. A model file holds its guarantee and its settings, from which the rest is computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.cli import tasks
from reticent.cli.answers import Answer, Question, answer, of_regularized
from reticent.cli.console import Console
from reticent.privacy.budget import rounded_up
from reticent.tables import Model


def explain_model(path: Path, *, plot: Path | None, console: Console) -> int:
    """Explain the guarantee of a model file."""
    model = Model.load(path)
    guarantee, how = model.guarantee, model.how
    title = (
        f"{path}: {model.target!r} from {len(model.features)} features, {how['estimator']}, "
        f"{model.learnt_from}"
    )
    question, found = _of_model(model)
    if found is None:
        releases = "; ".join(f"{r.mechanism}: {r.noise}" for r in guarantee.releases)
        found = Answer(guarantee, releases, [])
        if "solver_reason" in how:
            found.expect.append(f"solver {how['solver']}: {how['solver_reason']}")
    found.guarantee = guarantee
    return _show(title, question, found, plot, console)


def _of_model(model: Model) -> tuple[Question, Answer | None]:
    how = model.how
    question = Question(
        "ftrl",
        how["epsilon"],
        how["delta"],
        how["neighbours"],
        how["window"],
        how["horizon"] or None,
        dim=len(model.features) + 1,
    )
    if not how["online"]:
        return dataclasses.replace(question, algorithm=how.get("solver", "offline")), None
    names = {field.name for field in dataclasses.fields(tasks.LearnSettings)}
    kept = {name: value for name, value in how.items() if name in names}
    if kept.get("fade") is not None:  # the file holds pairs, but the option is text
        kept["fade"] = ",".join(f"{age}:{epsilon}" for age, epsilon in kept["fade"])
    settings = tasks.LearnSettings(**kept | {"task": model.task, "seed": 0})
    encoder = model.encoder
    estimator = tasks.build(
        dataclasses.replace(settings, horizon=settings.horizon or None), encoder
    )
    learner = estimator._plan_for(len(model.features)).learner()
    if (
        learner.guarantee.unit != model.guarantee.unit
    ):  # the file does not say how often a person counts
        return question, None
    question = dataclasses.replace(question, dim=learner.dim, radius=learner.set.radius)
    return question, of_regularized(learner, question)


def explain_settings(question: Question, *, plot: Path | None, console: Console) -> int:
    """Explain the guarantee that an algorithm would give."""
    found = answer(question)
    length = "" if question.horizon is None else f", {question.horizon:,} records"
    title = (
        f"{question.algorithm}: epsilon = {question.epsilon:g}, delta = {question.delta:g}{length}, "
        f"{question.dim} dimensions, one record of norm at most {question.norm:g}"
    )
    return _show(title, question, found, plot, console)


def _show(
    title: str, question: Question, found: Answer, plot: Path | None, console: Console
) -> int:
    from reticent.report.page import in_words, warnings_of

    lines = [title, "", "The guarantee"]
    lines += [f"  {line}" for line in in_words(found.guarantee)]
    lines += [f"  warning: {line}" for line in warnings_of(found.guarantee)]
    lines += ["", "The noise", f"  {found.noise}"]
    lines += [f"  {line}" for line in found.guarantee.explain().splitlines()[4:]]
    if found.expect:
        lines += ["", "What to expect", *(f"  {line}" for line in found.expect)]
    if found.published is not None:
        lines += ["", "The noise that the paper prescribes", *_published(question, found)]
    if found.curves:
        lines.append("")
        lines.append(
            text_plot(found.steps, found.curves, across=found.unit, along=found.axis, log=found.log)
        )
    console.result(_data(title, question, found), "\n".join(lines))
    if plot is not None:
        _draw(found, plot, title)
        console.note(f"plot: {plot}")
    return 0


def _published(question: Question, found: Answer) -> list[str]:
    formula = found.published
    true = formula.true_epsilon(neighbours=question.neighbours)
    claim, delta = formula.claimed
    words = (
        "infinite: no privacy at all"
        if math.isinf(true)
        else f"{rounded_up(true, 4)} at delta = {rounded_up(min(delta, 1.0))} ({question.neighbours})"
    )
    proved = "holds" if formula.claim_is_proved() else "is FALSE as printed"
    return [
        f"  {formula.formula}",
        f"  {formula.where}",
        f"  {found.compared}",
        f"  its claim of epsilon = {claim:.4g} ({formula.relation}) {proved}; its true epsilon is {words}",
    ]


def _data(title: str, question: Question, found: Answer) -> dict[str, Any]:
    def finite(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    data: dict[str, Any] = {
        "title": title,
        "question": dataclasses.asdict(question),
        "guarantee": found.guarantee.to_dict(),
        "guarantee_text": str(found.guarantee),
        "epsilon": finite(found.guarantee.epsilon(question.delta)),
        "noise": found.noise,
        "expect": found.expect,
        "published": None,
        "steps": [] if found.steps is None else np.asarray(found.steps).tolist(),
        "curves": {name: np.asarray(curve).tolist() for name, curve in found.curves.items()},
    }
    if found.published is not None:
        formula = found.published
        data["published"] = {
            "formula": formula.formula,
            "where": formula.where,
            "claimed_epsilon": formula.claimed[0],
            "true_epsilon": finite(formula.true_epsilon(neighbours=question.neighbours)),
            "claim_is_proved": formula.claim_is_proved(),
            "words": found.compared,
        }
    return data


def _draw(found: Answer, path: Path, title: str) -> None:
    from reticent.cli.errors import Refused
    from reticent.plots.over_time import over_time

    if not found.curves:
        raise Refused("there is no plot for this model")
    ax = over_time(
        found.steps,
        found.curves,
        measure=found.axis,
        unit=found.unit,
        log=found.log,
        title=title,
    )
    if found.log:
        ax.set_yscale("log")
    try:
        ax.figure.savefig(path)
    except ValueError as error:
        raise Refused(f"--plot {path}: {error}") from None


_MARKS = "*o+x"


def text_plot(
    x: Any,
    curves: Mapping[str, Any],
    *,
    across: str,
    along: str,
    log: bool = True,
    width: int = 60,
    height: int = 12,
) -> str:
    """Draw curves with a common horizontal axis as text, for a terminal.

    Examples
    --------
    >>> print(text_plot([1, 10], {"a": [1, 100]}, across="t", along="a", width=8, height=3))
    a
         100 |      **
             |  ****
           1 |**
             +--------
              1 .. 10, t (both logarithmic)
    """
    scale = np.log if log else np.asarray
    right = np.asarray(x, dtype=float)
    values = {name: np.asarray(y, dtype=float) for name, y in curves.items()}
    low, high = _range(list(values.values()), log)
    span = float(scale(high) - scale(low)) or 1.0
    grid = [[" "] * width for _ in range(height)]
    places = np.linspace(scale(right[0]), scale(right[-1]), width)
    for mark, y in zip(_MARKS, values.values(), strict=False):
        heights = np.interp(places, scale(right), scale(np.maximum(y, low) if log else y))
        for column, value in enumerate(heights):
            share = (float(value) - float(scale(low))) / span
            row = height - 1 - math.floor(share * (height - 1) + 0.5)
            grid[min(max(row, 0), height - 1)][column] = mark
    lines = [along if len(values) == 1 else f"{along}   " + _legend(values)]
    for number, cells in enumerate(grid):
        label = {0: f"{high:.3g}", height - 1: f"{low:.3g}"}.get(number, "")
        lines.append(f"{label:>8} |{''.join(cells)}".rstrip())
    lines.append(f"{'':>8} +{'-' * width}")
    ending = " (both logarithmic)" if log else ""
    lines.append(f"{'':>8}  {right[0]:g} .. {right[-1]:,g}, {across}{ending}")
    return "\n".join(lines)


def _range(values: list[FloatArray], log: bool) -> tuple[float, float]:
    """The least and the largest value, of those that have a logarithm if ``log``."""
    low, high = min(float(y.min()) for y in values), max(float(y.max()) for y in values)
    if log and low <= 0.0:
        low = min(float(y[y > 0].min()) for y in values)
    return low, high


def _legend(values: Mapping[str, Any]) -> str:
    return "  ".join(f"{mark} {name}" for mark, name in zip(_MARKS, values, strict=False))
