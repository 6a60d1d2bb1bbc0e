"""The commands that read a table: learn, predict, schema, compare, with their options.

Each body is imported when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Console
from reticent.cli.options import (
    DataFormat,
    Jobs,
    Json,
    LearnOptions,
    On,
    Quiet,
    SchemaFile,
    Target,
    leave,
    takes,
    word,
)


@takes(LearnOptions)
def learn(options: LearnOptions) -> None:
    """Learn a private linear model from a table or a live stream."""
    with Console(quiet=options.quiet).starting():
        from reticent.cli.learn import learn as body

    leave(body(options))


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that `reticent learn` wrote.")],
    data: Annotated[str, typer.Argument(help="File or folder to read; - is standard input.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write to.  [default: standard output]"),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write the probabilities of all classes too.")
    ] = False,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="Compare the predictions with the target in DATA and print their accuracy or error (a diagnostic).",
        ),
    ] = False,
    format: DataFormat = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with a model.

    Writes one line per record, as CSV or, with --json, as JSON lines.
    """
    console = Console(quiet=quiet, as_json=json)
    with console.starting():
        from reticent.cli.predict import predict as body
    leave(
        body(
            model,
            data,
            kind=word(format),
            out=out,
            probabilities=probabilities,
            score=score,
            console=console,
        )
    )


def schema(
    data: Annotated[str, typer.Argument(help="File or folder to read; - is standard input.")],
    public_sample: Annotated[
        bool,
        typer.Option(
            "--public-sample",
            help="State that DATA is public, so that anybody may see its bounds.",
        ),
    ] = False,
    names_only: Annotated[
        bool,
        typer.Option(
            "--names-only",
            help="Write a template with the column names, without reading any record.",
        ),
    ] = False,
    target: Target = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="New file to write to.  [default: standard output]"),
    ] = None,
    format: DataFormat = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draft a schema from public data.

    A schema derived from private data reveals it: use a public sample, or only the column names.
    """
    from reticent.cli.schema import schema as body

    leave(
        body(
            data,
            public_sample=public_sample,
            names_only=names_only,
            target=target,
            kind=word(format),
            out=out,
            console=Console(quiet=quiet, as_json=json),
        )
    )


def compare(
    data: Annotated[Path, typer.Argument(help="CSV, JSON lines or Parquet: a file or a folder.")],
    target: Target = None,
    schema: SchemaFile = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon",
            "-e",
            help="Privacy parameter epsilon of a budget; may be given several times.  [default: 0.1, 1 and 8]",
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Privacy parameter delta of every budget.")] = 1e-6,
    repeats: Annotated[
        int, typer.Option(help="Number of runs of each learner at each budget.", min=1)
    ] = 5,
    jobs: Jobs = None,
    on: On = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write the results to.")
    ] = Path("reticent-compare"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare learners and solvers on a table.

    Runs every learner and solver that suits the table, at several budgets, on all cores.
    """
    with Console(quiet=quiet, as_json=json).starting():
        from reticent.cli.compare import compare as body

    epsilons = epsilon or [0.1, 1.0, 8.0]
    leave(body(data, target, schema, epsilons, delta, repeats, jobs, on, out, quiet, json))
