"""`reticent learn`: from a table or a stream to a private model, its decisions and a report.

The one thing a reader would get wrong: every run spends its budget anew. A second run on the same
records is a second release, so an output folder that holds a run is not overwritten in passing.
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.cli import checkpoint, tasks
from reticent.cli.console import Console, Rate, table
from reticent.cli.encoding import Encoder
from reticent.cli.errors import Refused
from reticent.cli.model import Model
from reticent.cli.schema import Schema
from reticent.cli.sources import STDIN, count_records, open_source
from reticent.cli.streaming import Run

MODEL, DECISIONS, REPORT = "model.json", "decisions.jsonl", "report.html"
_EVERY = 1000
_BUDGET_OPTIONS = ("epsilon", "delta", "neighbours", "window", "horizon", "feature_norm", "seed")


@dataclass
class Request:
    """What the command line says; None is what it does not say."""

    data: str | None
    schema: Path | None
    target: str | None
    task: str | None
    online: bool | None
    epsilon: float | None
    delta: float | None
    neighbours: str | None
    window: int | None
    horizon: int | None
    endless: bool
    feature_norm: float | None
    seed: int | None
    every: int | None
    bad: str
    kind: str | None
    out: Path
    decisions: str | None
    resume: bool
    new_records: bool
    keep_state: bool
    overwrite: bool
    diagnostics: bool
    report: bool


def learn(request: Request, console: Console) -> int:
    """Run the command and return its exit status."""
    folder = request.out
    if request.resume:
        if not folder.is_dir():
            raise Refused(f"there is nothing to resume: {folder} is not a folder")
        with checkpoint.locked(folder):
            return _resumed(request, console)
    if request.data is None:
        raise Refused("DATA is missing: a file, a folder, or - for standard input")
    encoder = _encoder(request)
    online = request.online is not False
    task = tasks.task_of(encoder, request.task, online)
    _check_folder(request)
    settings, size = _settings(request, encoder, task, online)
    folder.mkdir(parents=True, exist_ok=True)
    with checkpoint.locked(folder):
        _check_folder(request)  # again: another run may have come and gone before the lock
        _forget(request)
        if not online:
            return _offline(request, console, settings, encoder)
        every = request.every or _EVERY
        if settings.window is not None and every > 1:
            console.note(
                f"a record is protected while the next {settings.window:,} records come in, which is in "
                f"{settings.window // every:,} whole decisions at --every {every:,}"
            )
        run = _run(request, console, settings, encoder, every, request.data)
        return _follow(request, console, run, size)


def _check_folder(request: Request) -> None:
    there = [name for name in (checkpoint.NAME, MODEL) if (request.out / name).exists()]
    if there and not request.overwrite:
        raise Refused(
            f"{request.out} already holds a run ({there[0]}); --resume continues it, another --out "
            "starts a new one, which on the same records spends a second budget (--overwrite)"
        )
    if request.out.exists() and not request.out.is_dir():
        raise Refused(f"--out {request.out} is a file; name a folder")


def _forget(request: Request) -> None:
    checkpoint.forget(request.out)
    for name in (MODEL, DECISIONS, REPORT):
        (request.out / name).unlink(missing_ok=True)


def _encoder(request: Request) -> Encoder:
    if request.schema is None:
        raise Refused(
            "--schema is missing: what the columns are and between which public bounds; "
            "`reticent schema` helps to write one"
        )
    schema = Schema.load(request.schema)
    target = request.target or schema.target
    if target is None:
        raise Refused("--target is missing: which column is to be predicted")
    return Encoder(schema, target)


def _settings(
    request: Request, encoder: Encoder, task: str, online: bool
) -> tuple[tasks.Settings, int | None]:
    if request.epsilon is None:
        raise Refused("--epsilon is missing: how much privacy may be spent, for example 1")
    if not online and (request.window, request.horizon) != (None, None):
        raise Refused("--window and --horizon are for streams: leave them out with --offline")
    horizon, size = request.horizon, None
    assert request.data is not None
    if online:
        # The number of records is the same for neighbours, so it may be read off the data.
        size = count_records(request.data, request.kind)
        if size == 0:
            raise Refused(f"{request.data} holds no records")
        if horizon is None and request.window is None and not request.endless:
            horizon = size
        if size is not None and horizon is not None and size > horizon:
            raise Refused(f"{request.data} holds {size} records, more than --horizon {horizon}")
    given = {
        name: getattr(request, name)
        for name in ("delta", "neighbours", "feature_norm", "seed")
        if getattr(request, name) is not None
    }
    from reticent.privacy import Budget

    settings = tasks.Settings(
        **{"feature_norm": encoder.largest_norm, **given},
        task=task,
        online=online,
        epsilon=request.epsilon,
        window=request.window,
        horizon=horizon,
    )
    # refused here, before a folder is made, if it cannot be had
    Budget(settings.epsilon, settings.delta, settings.neighbours, settings.window)
    return settings, size


def _run(
    request: Request,
    console: Console,
    settings: tasks.Settings,
    encoder: Encoder,
    every: int,
    data: str,
) -> Run:
    return Run(
        settings,
        encoder,
        data=data,
        kind=request.kind,
        every=every,
        bad=request.bad,
        folder=request.out,
        decisions=request.decisions or str(request.out / DECISIONS),
        console=console,
    )


def _resumed(request: Request, console: Console) -> int:
    state = checkpoint.load(request.out)
    settings = tasks.Settings(**state["settings"])
    for name in _BUDGET_OPTIONS:
        given, had = getattr(request, name), getattr(settings, name)
        if given is not None and given != had:
            raise Refused(
                f"--{name.replace('_', '-')} {given} is not what the run began with, {had}; what was "
                "promised at the start cannot change: leave it out"
            )
    schema = Schema.from_dict(state["schema"])
    if request.schema is not None and Schema.load(request.schema).columns != schema.columns:
        raise Refused(f"--schema {request.schema} is not what the run began with; leave it out")
    data = request.data or state["position"]["data"]
    encoder = Encoder(schema, state["target"])
    run = _run(request, console, settings, encoder, int(state["every"]), data)
    run.resume(state, new_records=request.new_records)
    if run.finished:
        console.note(f"the horizon of {run.seen:,} records is used up; nothing more is learnt")
    else:
        console.note(f"continuing after {run.seen:,} records, at no extra privacy cost")
    return _follow(request, console, run, settings.horizon)


def _follow(request: Request, console: Console, run: Run, size: int | None) -> int:
    run.learn(size)
    if run.stopped:
        again = ["reticent", "learn", run.data, "--resume", "--out", str(request.out)]
        words = (
            f"stopped after {run.seen:,} records; the state is in {request.out / checkpoint.NAME}, "
            f"as secret as the data\ncontinue with: {shlex.join(again)}"
        )
        console.result({"stopped": True, "records": run.seen, "continue": again}, words)
        return run.stopped
    if run.model is None:
        raise Refused(f"{run.data} holds no records")
    status = _finish(
        request, console, run.model, run.diagnostics, run.seconds, run.every, run.decisions
    )
    if not request.keep_state:
        checkpoint.forget(request.out)
    return status


def _offline(request: Request, console: Console, settings: tasks.Settings, encoder: Encoder) -> int:
    assert request.data is not None
    if request.bad == "blank":
        raise Refused("--bad-records blank is for streams: mend the table, or learn with --online")
    names = [column.name for column in (*encoder.columns, encoder.target)]
    source = open_source(request.data, request.kind, names=names)
    if source.header is not None:
        unused = encoder.check_header(source.header)
        if unused:
            console.note(f"not in the schema, so not used: {', '.join(unused)}")
    import numpy as np

    parts, codes, labels = [], [], []
    started = time.perf_counter()
    with Rate("reading", None, shown=console.watched) as rate:
        while not source.ended:
            columns, got = source.read(8192)
            records = encoder.encode(columns, got)
            if records.bad:
                row = min(records.bad)
                raise Refused(
                    f"record {rate.done + row + 1}: column {encoder.target.name!r} is "
                    f"{records.bad[row]}; nothing was learnt"
                )
            parts.append(records.X)
            codes.append(records.codes)
            labels.append(records.y)
            rate.at(rate.done + got)
    X, y = np.concatenate(parts), np.concatenate(labels)
    if not len(X):
        raise Refused(f"{request.data} holds no records")
    estimator = tasks.build(settings, encoder).fit(X, y)
    model = tasks.to_model(estimator, settings, encoder, len(X))
    seconds = time.perf_counter() - started
    return _finish(request, console, model, None, seconds, None, None)


def _finish(
    request: Request,
    console: Console,
    model: Model,
    diagnostics: Any,
    seconds: float,
    every: int | None,
    decisions: str | None,
) -> int:
    from reticent.privacy import Guarantee

    guarantee = Guarantee.from_dict(model.guarantee)
    seconds = max(seconds, 1e-9)
    paths = {"model": str(request.out / MODEL)}
    model.save(request.out / MODEL)
    if decisions is not None and decisions != STDIN:
        paths["decisions"] = decisions
    if request.report:
        page = _report(request, model, diagnostics, seconds, every)
        if page is None:
            console.note("no report: plots need matplotlib, pip install matplotlib")
        else:
            paths["report"] = page
    rows = [
        ("records", f"{model.records:,} in {seconds:.1f} s ({model.records / seconds:,.0f}/s)"),
        ("guarantee", str(guarantee)),
        *paths.items(),
    ]
    summary = {
        "stopped": False,
        "records": model.records,
        "seconds": round(seconds, 3),
        "epsilon": model.how["epsilon"],
        "delta": model.how["delta"],
        "guarantee": str(guarantee),
        "seeded": guarantee.seeded,
        **paths,
    }
    console.result(summary, table(rows))
    return 0


def _report(
    request: Request, model: Model, diagnostics: Any, seconds: float, every: int | None
) -> str | None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return None
    from reticent.cli.learn_report import write

    path = request.out / REPORT
    command = shlex.join(["reticent", *sys.argv[1:]])
    shown = diagnostics if request.diagnostics else None
    write(path, model, shown, seconds=seconds, every=every, command=command)
    return str(path)
