"""The commands that read a table: learn, predict, schema, compare, with their options.

Each body is imported when it runs, so that ``--help`` is quick.

The one thing a reader would get wrong: options default to "not said" where `--resume` must tell what was
said from what was not; the defaults that apply are in the help.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.cli.options import (
    Bad,
    DataFormat,
    Json,
    Neighbours,
    Quiet,
    Task,
    leave,
    positive,
    word,
)


def learn(
    data: Annotated[
        str | None,
        typer.Argument(help="A file, a folder, or - for a live stream on standard input."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", "-s", help="TOML or JSON: types and public bounds of the columns."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to be predicted.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="Privacy budget.", callback=positive)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of the budget; 0 is pure privacy.  [default: 1e-6]")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            help="Protect a record until so many records have come, its own included.",
            callback=positive,
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Most records that will come.  [default: those in the file; a stream is endless]",
            callback=positive,
        ),
    ] = None,
    endless: Annotated[
        bool, typer.Option("--endless", help="A file to which more will be added.")
    ] = False,
    task: Annotated[
        Task | None, typer.Option(help="What to learn.  [default: by the target's type]")
    ] = None,
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline",
            help="Record by record, or from the whole table at once.  [default: online]",
            show_default=False,
        ),
    ] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option(
            help="Who is a neighbour: one record blanked, or replaced.  [default: zero-out]"
        ),
    ] = None,
    feature_norm: Annotated[
        float | None,
        typer.Option(
            help="Shorten longer records to this norm.  [default: the square root of the number of columns]",
            callback=positive,
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            help="Write a decision after so many records.  [default: 1000]", callback=positive
        ),
    ] = None,
    bad_records: Annotated[
        Bad, typer.Option(help="Records without a usable target: stop, or count as a gap.")
    ] = Bad.stop,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for model, decisions, report, state.")
    ] = Path("reticent-run"),
    decisions: Annotated[
        str | None,
        typer.Option(
            help="Where decisions go; - is standard output.  [default: OUT/decisions.jsonl]"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in OUT, at no extra privacy cost.")
    ] = False,
    new_records: Annotated[
        bool,
        typer.Option("--new-records", help="With --resume: DATA holds none of the records before."),
    ] = False,
    keep_state: Annotated[
        bool, typer.Option("--keep-state", help="Keep the state at the end, to learn on later.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Forget the run in OUT; spends a new budget.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write OUT/report.html.")] = True,
    diagnostics: Annotated[
        bool, typer.Option(help="Show diagnostics, which read private data, in the report.")
    ] = True,
    seed: Annotated[
        int | None, typer.Option(help="For experiments: noise that can be taken off again.", min=0)
    ] = None,
    format: DataFormat = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn a private linear model from a table or a live stream."""
    from reticent.cli.learn import Request
    from reticent.cli.learn import learn as body

    request = Request(
        data=data, schema=schema, target=target, task=word(task), online=online, epsilon=epsilon,
        delta=delta, neighbours=word(neighbours), window=window, horizon=horizon, endless=endless,
        feature_norm=feature_norm, seed=seed, every=every, bad=bad_records.value,
        kind=word(format), out=out, decisions=decisions, resume=resume, new_records=new_records,
        keep_state=keep_state, overwrite=overwrite, diagnostics=diagnostics, report=report,
    )  # fmt: skip
    if json and decisions == "-":
        raise Refused("--json and --decisions - both want standard output; choose one")
    # decisions on standard output are the result; the summary then goes nowhere
    leave(body(request, Console(quiet=quiet or decisions == "-", as_json=json)))


def predict(
    model: Annotated[Path, typer.Argument(help="What `reticent learn` wrote.")],
    data: Annotated[str, typer.Argument(help="A file, a folder, or - for standard input.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file.  [default: standard output]")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Those of all classes too.")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="DATA has the target: say how good (a diagnostic).")
    ] = False,
    format: DataFormat = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with a model.

    One line a record: CSV, or with --json JSON lines.
    """
    from reticent.cli.predict import predict as body

    console = Console(quiet=quiet, as_json=json)
    leave(
        body(
            model, data, kind=word(format), out=out, probabilities=probabilities, score=score,
            console=console,
        )
    )  # fmt: skip


def schema(
    data: Annotated[str, typer.Argument(help="A file, a folder, or - for standard input.")],
    public_sample: Annotated[
        bool, typer.Option("--public-sample", help="DATA is public: its bounds may be published.")
    ] = False,
    names_only: Annotated[
        bool, typer.Option("--names-only", help="A template that reads no record.")
    ] = False,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to be predicted.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A new file.  [default: standard output]")
    ] = None,
    format: DataFormat = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draft a schema from public data.

    One that was read off private data leaks: use a public sample, or names only.
    """
    from reticent.cli.drafting import draft

    leave(
        draft(
            data, public_sample=public_sample, names_only=names_only, target=target,
            kind=word(format), out=out, console=Console(quiet=quiet, as_json=json),
        )
    )  # fmt: skip


def compare(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to be predicted.")],
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="Types and public bounds of the columns.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", "-e", help="A budget; may be given again.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Of every budget.")] = 1e-6,
    repeats: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 5,
    jobs: Annotated[int | None, typer.Option(help="Cores.  [default: all]", min=1)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "reticent-compare"
    ),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare learners and solvers on a table.

    All that suit it, at several budgets, on all cores.
    """
    from reticent.cli.compare import compare as body

    epsilons = epsilon or [0.1, 1.0, 8.0]
    leave(body(data, target, schema, epsilons, delta, repeats, jobs, out, quiet, json))
