"""`reticent learn`: learn a private model from a table or a stream, and write its decisions and a report.

Every run spends a new budget. A second run on the same records is a second release, so an output folder that holds a
run is not overwritten by accident.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from reticent.cli import checkpoint, tasks
from reticent.cli.console import Console, Rate, table
from reticent.cli.errors import Refused
from reticent.cli.options import Bad, LearnOptions, word
from reticent.cli.streaming import DECISIONS, StreamingRun
from reticent.state.runs import RunFile, resumable
from reticent.tables import (
    Encoded,
    Encoder,
    Model,
    Schema,
    batches,
    count_records,
    open_encoded,
    open_records,
)
from reticent.tables.sources import STDIN, join, stored_size
from reticent.trace import NoIntervals, Summary

MODEL, REPORT, RUN, SUMMARY = "model.json", "report.html", "fit.reticent", "summary.json"
_EVERY = 1000
_LARGE = 2**29
"""Size in bytes from which on a table is read from its files in every pass."""


def learn(options: LearnOptions) -> int:
    """Run the command and return its exit status."""
    if options.json and options.decisions == STDIN:
        raise Refused("--json and --decisions - both write to standard output; choose one")
    # decisions on standard output are the result, so the summary is not printed
    console = Console(quiet=options.quiet or options.decisions == STDIN, as_json=options.json)
    if options.stream is not None and options.to is None:
        raise Refused("--stream needs --to, the address of a service")
    if options.resume and options.to is None:
        return _resume(options, console)
    if options.data is None:
        raise Refused("DATA is missing: a file, a folder, or - for standard input")
    encoder = tasks.encoder_of(options.schema, options.target, options.person)
    if options.to is not None:
        from reticent.cli.sending import send

        return send(options, encoder, console)
    return _begin(options, encoder, console)


def _resume(options: LearnOptions, console: Console) -> int:
    folder = options.out
    if not folder.is_dir():
        raise Refused(f"there is nothing to resume: {folder} is not a folder")
    if (folder / RUN).exists():
        raise Refused(
            "to continue an interrupted --offline run, run the same command again without --resume"
        )
    with checkpoint.locked(folder):
        return _resumed(options, console)


def _begin(options: LearnOptions, encoder: Encoder, console: Console) -> int:
    online = options.online is not False
    task = tasks.task_of(encoder, word(options.task), online)
    _check_folder(options)
    settings, size = _settings(options, encoder, task, online, console)
    options.out.mkdir(parents=True, exist_ok=True)
    with checkpoint.locked(options.out):
        # checked again, because another run may have ended before the lock was taken
        _check_folder(options)
        _forget(options)
        if not online:
            return _offline(options, console, settings, encoder)
        every = options.every or _EVERY
        if settings.window is not None and every > 1:
            console.note(
                f"a record is protected until {settings.window:,} records have arrived, that is for "
                f"{settings.window // every:,} whole decisions at --every {every:,}"
            )
        with console.starting():
            run = StreamingRun(replace(options, every=every), settings, encoder, console)
        return _follow(run, size)


def _check_folder(options: LearnOptions) -> None:
    checkpoint.refuse_former(options.out)
    there = [name for name in (checkpoint.NAME, MODEL) if (options.out / name).exists()]
    if there and not options.overwrite:
        raise Refused(
            f"{options.out} already holds a run ({there[0]}); use --resume to continue it, or another --out "
            f"(or --overwrite) for a new run, which spends a second budget if the records are the same"
        )
    if options.out.exists() and not options.out.is_dir():
        raise Refused(f"--out {options.out} is a file; name a folder")
    if options.decisions in (None, STDIN) or options.overwrite:
        return
    elsewhere = Path(str(options.decisions))
    if elsewhere.is_file() and elsewhere.stat().st_size:
        raise Refused(
            f"--decisions {elsewhere} exists already; name another file, or use --overwrite to replace it"
        )


def _forget(options: LearnOptions) -> None:
    checkpoint.forget(options.out)
    if options.overwrite:
        RunFile(options.out / RUN).forget()
    for name in (MODEL, DECISIONS, REPORT, SUMMARY):
        (options.out / name).unlink(missing_ok=True)


def _participation(options: LearnOptions, encoder: Encoder, online: bool) -> dict[str, Any]:
    """Check and return the options that bound how many of a person's records count."""
    given = {name: getattr(options, name) for name in ("max_records", "min_gap")}
    if encoder.person is None:
        said = next((name for name, value in given.items() if value is not None), None)
        if said is not None:
            raise Refused(
                f"--{said.replace('_', '-')} needs --person, the column that identifies the person a record "
                "is about; without it, single records are protected"
            )
        return {}
    if not online and options.min_gap is not None:
        raise Refused("--min-gap is for streams: omit it with --offline")
    if online and given == {"max_records": None, "min_gap": None}:
        raise Refused(
            f"column {encoder.person!r} identifies persons: state how many records of a person count "
            "(--max-records), or how far apart they must be (--min-gap); to protect single records "
            "instead, declare it as 'ignore'"
        )
    return {"person": encoder.person, **given}


def _check_intervals(encoder: Encoder, task: str, online: bool) -> None:
    """Refuse --intervals if there can be no intervals, whatever the records are."""
    if online or task == "lasso" or encoder.person is not None or len(encoder.classes or ()) > 2:
        raise Refused(
            "--intervals is available for regression and for two classes, with --offline and without persons"
        )


def _stream_size(options: LearnOptions, console: Console) -> tuple[int | None, int | None]:
    """The horizon of a stream, and the number of its records if that is known."""
    assert options.data is not None
    # The number of records is the same for neighbours, so it may be read off the data.
    with Rate("counting", None, shown=console.watched) as rate:
        size = count_records(options.data, word(options.format), watch=rate.at)
    if size == 0:
        raise Refused(f"{options.data} holds no records")
    horizon = options.horizon
    bounded = options.window is not None or options.fade is not None
    if horizon is None and not bounded and not options.endless:
        horizon = size
    if size is not None and horizon is not None and size > horizon:
        raise Refused(f"{options.data} holds {size} records, more than --horizon {horizon}")
    return horizon, size


def _settings(
    options: LearnOptions, encoder: Encoder, task: str, online: bool, console: Console
) -> tuple[tasks.LearnSettings, int | None]:
    if options.epsilon is None:
        raise Refused("--epsilon is missing: the privacy parameter of the budget, for example 1")
    if not online and (options.window, options.fade, options.horizon) != (None, None, None):
        raise Refused("--window, --fade and --horizon are for streams: omit them with --offline")
    if options.intervals:
        _check_intervals(encoder, task, online)
    horizon, size = options.horizon, None
    if online:
        horizon, size = _stream_size(options, console)
    given = {
        name: getattr(options, name)
        for name in ("delta", "feature_norm", "seed")
        if getattr(options, name) is not None
    }
    if options.neighbours is not None:
        given["neighbours"] = options.neighbours.value
    settings = tasks.LearnSettings(
        **{"feature_norm": encoder.largest_norm, **given},
        task=task,
        online=online,
        epsilon=options.epsilon,
        window=options.window,
        fade=options.fade,
        horizon=horizon,
        intervals=options.intervals,
        **_participation(options, encoder, online),
    )
    # anything impossible is refused here, before a folder is created
    _ = settings.budget, settings.participation
    return settings, size


def _resumed(options: LearnOptions, console: Console) -> int:
    state = checkpoint.load(options.out)
    settings = tasks.LearnSettings(**state["settings"])
    for name in tasks.FIXED:
        given, had = getattr(options, name), getattr(settings, name)
        if given is not None and given != had:
            raise Refused(
                f"--{name.replace('_', '-')} {given} differs from {had}, with which the run began; a "
                f"guarantee cannot be changed once a run has begun: omit the option"
            )
    schema = Schema.from_dict(state["schema"])
    if options.schema is not None and Schema.from_file(options.schema).columns != schema.columns:
        raise Refused(
            f"--schema {options.schema} differs from the schema with which the run began; omit "
            f"the option"
        )
    if settings.person is not None:
        schema = schema.with_person(settings.person)
    data = options.data or state["position"]["data"]
    options = replace(options, data=data, every=int(state["every"]))
    run = StreamingRun(options, settings, Encoder(schema, state["target"]), console)
    run.resume(state)
    if run.finished:
        console.note(
            f"the horizon of {run.seen:,} records has been reached; no more records are learnt"
        )
    else:
        console.note(f"continuing after {run.seen:,} records, at no extra privacy cost")
    return _follow(run, settings.horizon)


def _follow(run: StreamingRun, size: int | None) -> int:
    run.learn(size)
    options, state = run.options, run.options.out / checkpoint.NAME
    if run.stopped:
        again = ["reticent", "learn", run.data, "--resume", "--out", str(options.out)]
        words = (
            f"stopped after {run.seen:,} records; the state, which is as secret as the data, is in "
            f"{state}\ncontinue with: {shlex.join(again)}"
        )
        run.console.result({"stopped": True, "records": run.seen, "continue": again}, words)
        return run.stopped
    if run.model is None:
        raise Refused(f"{run.data} holds no records")
    # what was learnt before a resumption took time that nobody measured here
    learnt = run.seen - run.before
    options = replace(options, decisions=run.decisions)
    status = _finish(options, run.console, run.model, run.diagnostics, run.seconds, learnt=learnt)
    if not options.keep_state:
        checkpoint.forget(options.out)
    return status


def _offline(
    options: LearnOptions, console: Console, settings: tasks.LearnSettings, encoder: Encoder
) -> int:
    assert options.data is not None
    if options.bad_records == Bad.blank:
        raise Refused("--bad-records blank is for streams: repair the table, or use --online")
    source, unused = open_records(options.data, encoder, word(options.format))
    if unused:
        console.note(f"ignored, because not in the schema: {', '.join(unused)}")
    started = time.perf_counter()
    if stored_size(source) > _LARGE and settings.task != "lasso" and not encoder.person:
        return _from_files(options, console, settings, encoder, started)
    parts: list[Encoded] = []
    with Rate("reading", None, shown=console.watched) as rate:
        for records in batches(source, encoder):
            if records.bad:
                row = min(records.bad)
                raise Refused(
                    f"record {rate.done + row + 1}: {records.bad[row]}; nothing was learnt"
                )
            parts.append(records)
            rate.at(rate.done + len(records.X))
    whole = join(parts)
    if not len(whole.X):
        raise Refused(f"{options.data} holds no records")
    more = {} if whole.persons is None else {"groups": whole.persons}
    with Rate("learning", None, shown=console.watched):
        estimator = tasks.build(settings, encoder).fit(whole.X, whole.y, **more)
    model = Model.from_estimator(estimator, encoder, records=len(whole.X))
    seconds = time.perf_counter() - started
    return _finish(
        replace(options, every=None),
        console,
        model,
        None,
        seconds,
        _summary(estimator, encoder, console) if settings.intervals else None,
    )


def _summary(estimator: Any, encoder: Encoder, console: Console) -> Summary | None:
    """Coefficients with intervals; None, with a warning, if these cannot be computed."""
    try:
        found: Summary = estimator.summary(encoder=encoder)
    except NoIntervals as error:
        console.note(f"no summary: {error}")
        return None
    return found


def _from_files(
    options: LearnOptions,
    console: Console,
    settings: tasks.LearnSettings,
    encoder: Encoder,
    started: float,
) -> int:
    """Learn from a table that is too large for memory; every pass reads it again."""
    assert options.data is not None
    X, y = open_encoded(options.data, encoder, word(options.format))
    console.note(f"reading {X.table.size / 2**20:,.0f} MiB from files in every pass")
    with resumable(options.out / RUN) as run:
        resumed = run.resumed
        if resumed:
            console.note(
                "continuing the run that was interrupted here; its budget is already charged"
            )
        with Rate("bytes read", None, shown=console.watched) as rate:
            watched = X.watched(lambda size: rate.at(rate.done + size))
            estimator = tasks.build(settings, encoder).fit(watched, y)
        model = Model.from_estimator(estimator, encoder, records=len(X))
        status = _finish(
            replace(options, every=None),
            console,
            model,
            None,
            time.perf_counter() - started,
            learnt=0 if resumed else None,  # some of the work was done before
        )
        run.forget()
    return status


def _finish(
    options: LearnOptions,
    console: Console,
    model: Model,
    diagnostics: Any,
    seconds: float,
    summary: Summary | None = None,
    *,
    learnt: int | None = None,
) -> int:
    """Write what was learnt; ``learnt`` says how many records the seconds are for, all of them by default."""
    guarantee = model.guarantee
    learnt = model.records if learnt is None else learnt
    rate = learnt / seconds if learnt and seconds > 0.0 else None
    paths = {"model": str(options.out / MODEL)}
    model.save(options.out / MODEL)
    if model.how["online"] and options.decisions != STDIN:
        paths["decisions"] = options.decisions or str(options.out / DECISIONS)
    if summary is not None:
        paths["summary"] = str(options.out / SUMMARY)
        Path(paths["summary"]).write_text(json.dumps(summary.to_dict(), indent=1) + "\n")
    if options.report:
        with Rate("drawing the report", None, shown=console.watched):
            page = _report(options, model, diagnostics, rate, summary)
        if page is None:
            console.note("no report, because plots need matplotlib: pip install matplotlib")
        else:
            paths["report"] = page
    count, unit = model.learnt_from.split()
    words = count if learnt in (0, model.records) else f"{count}, {learnt:,} of them now"
    if rate is not None:
        words += f" in {seconds:.1f} s ({rate:,.0f}/s)"
    rows = [
        (unit, words),
        ("guarantee", str(guarantee)),
        *paths.items(),
    ]
    done = {
        "stopped": False,
        unit: model.records,
        "seconds": round(seconds, 3),
        "epsilon": model.how["epsilon"],
        "delta": model.how["delta"],
        "guarantee": str(guarantee),
        "seeded": guarantee.seeded,
        **paths,
    }
    words = table(rows) if summary is None else f"{table(rows)}\n\n{summary}"
    console.result(done, words)
    return 0


def _report(
    options: LearnOptions,
    model: Model,
    diagnostics: Any,
    rate: float | None,
    summary: Summary | None,
) -> str | None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return None
    from reticent.cli.learn_report import write

    path = options.out / REPORT
    command = shlex.join(["reticent", *sys.argv[1:]])
    shown = diagnostics if options.diagnostics else None
    write(path, model, shown, rate=rate, every=options.every, command=command, summary=summary)
    return str(path)
