"""The options of the commands, each defined once, and helpers to parse them.

Options with few values are enumerations, so that the shell completes them and the parser refuses other values before
anything heavy is imported.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


class Task(enum.StrEnum):
    classification = "classification"
    regression = "regression"
    lasso = "lasso"


class Neighbours(enum.StrEnum):
    zero_out = "zero-out"
    replaced = "replace"


class Format(enum.StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


class Bad(enum.StrEnum):
    stop = "stop"
    blank = "blank"


def positive(value: Any) -> Any:
    """Check that a number, if given, is above 0."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value} is not above 0")
    return value


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress, notes or summary.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Number of processes that share the work.  [default: one per core]", min=1),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of a Dask scheduler whose workers do the work instead, such as tcp://10.0.0.1:8786. "
        "They need this version of Reticent and the same files at the same paths.",
    ),
]
DataFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Format of the data.  [default: detected from the file's name or its first character]",
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Column to predict.  [default: the schema's target]"),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema", "-s", help="TOML or JSON file with the types and public bounds of the columns."
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon", "-e", help="Privacy parameter epsilon of the budget.", callback=positive
    ),
]


@dataclass(frozen=True)
class LearnOptions:
    """The options of `reticent learn`.

    None means that an option was not given, because `--resume` must distinguish given options from defaults. The help
    states the defaults.
    """

    data: Annotated[
        str | None,
        typer.Argument(help="File or folder to learn from; - is a live stream on standard input."),
    ] = None
    schema: SchemaFile = None
    target: Target = None
    epsilon: Epsilon = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="Privacy parameter delta of the budget; 0 asks for pure privacy.  [default: 1e-6]"
        ),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(
            help="Protect each record until this many records, including itself, have arrived.",
            callback=positive,
        ),
    ] = None
    fade: Annotated[
        str | None,
        typer.Option(
            metavar="AGE:EPSILON,...",
            help="Let the guarantee weaken with age instead of ending: at most this epsilon up to each age. "
            "The first epsilon must equal --epsilon.",
        ),
    ] = None
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Upper bound on the number of records.  [default: the number in the file; for a stream, none]",
            callback=positive,
        ),
    ] = None
    person: Annotated[
        str | None,
        typer.Option(
            help="Column that identifies the person a record is about; all records of a person are "
            "protected together.  [default: the schema's person column]"
        ),
    ] = None
    max_records: Annotated[
        int | None,
        typer.Option(
            help="Number of records of each person that count; needs --person.  [default with --offline: all, "
            "each with weight 1/m]",
            callback=positive,
        ),
    ] = None
    min_gap: Annotated[
        int | None,
        typer.Option(
            help="Smallest number of steps between two records of a person that count; needs --person.",
            callback=positive,
        ),
    ] = None
    endless: Annotated[
        bool, typer.Option("--endless", help="Expect more records to be added to the file later.")
    ] = False
    task: Annotated[
        Task | None,
        typer.Option(help="Kind of model to learn.  [default: chosen by the target's type]"),
    ] = None
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline",
            help="Learn record by record, or from the whole table at once.  [default: online]",
            show_default=False,
        ),
    ] = None
    neighbours: Annotated[
        Neighbours | None,
        typer.Option(
            help="Neighbouring data: one record is blanked (zero-out), or replaced.  [default: zero-out]"
        ),
    ] = None
    feature_norm: Annotated[
        float | None,
        typer.Option(
            help="Scale longer records down to this norm.  "
            "[default: the square root of the number of columns]",
            callback=positive,
        ),
    ] = None
    intervals: Annotated[
        bool | None,
        typer.Option(
            "--intervals",
            help="Also release what confidence intervals of the coefficients need, within the same budget, "
            "and write OUT/summary.json; needs --offline.",
        ),
    ] = None
    every: Annotated[
        int | None,
        typer.Option(
            help="Write a decision each time this many records have been learnt.  [default: 1000]",
            callback=positive,
        ),
    ] = None
    bad_records: Annotated[
        Bad,
        typer.Option(
            help="What to do with a record without a usable target: stop, or count it as a gap (blank)."
        ),
    ] = Bad.stop
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder to write the model, decisions, report and state to."
        ),
    ] = Path("reticent-run")
    decisions: Annotated[
        str | None,
        typer.Option(
            help="File to write the decisions to; - is standard output.  [default: OUT/decisions.jsonl]"
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in OUT, at no extra privacy cost.")
    ] = False
    new_records: Annotated[
        bool,
        typer.Option(
            "--new-records",
            help="State that DATA contains none of the earlier records; needs --resume.",
        ),
    ] = False
    keep_state: Annotated[
        bool,
        typer.Option(
            "--keep-state", help="Keep the final state, so that learning can continue later."
        ),
    ] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run in OUT and spend a new budget.")
    ] = False
    report: Annotated[bool, typer.Option(help="Write OUT/report.html.")] = True
    diagnostics: Annotated[
        bool, typer.Option(help="Show diagnostics, which read private data, in the report.")
    ] = True
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the noise, for experiments only: anyone who knows it can remove the noise.",
            min=0,
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            help="Send the records to the service at this address instead; the token is read from $RETICENT_TOKEN."
        ),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option(
            help="Stream of the service to send to; needs --to. With --epsilon, the stream is created."
        ),
    ] = None
    format: DataFormat = None
    quiet: Quiet = False
    json: Json = False


def takes(options: type) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Decorate the body of a command whose options are the fields of a dataclass."""
    hints = get_type_hints(options, include_extras=True)
    own = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name],
        )
        for one in fields(options)
    ]

    def decorate(body: Callable[[Any], None]) -> Callable[..., None]:
        @functools.wraps(body)
        def command(**said: Any) -> None:
            body(options(**said))

        command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        command.__annotations__ = hints
        return command

    return decorate


def word(value: enum.StrEnum | None) -> str | None:
    """The value of an enumeration member, or None."""
    return None if value is None else value.value


def example(*lines: str) -> str:
    """The examples at the end of a help text, with their line breaks kept."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\b\n" + "\n".join([title, *(f"  {line}" for line in lines)])


def leave(status: int) -> None:
    """Exit with a status, unless it is 0."""
    if status:
        raise typer.Exit(status)
