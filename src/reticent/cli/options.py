"""What several commands share: options, the shape of a help text, and how they end.

The one thing a reader would get wrong: words with few values are enumerations, so that the shell
completes them and the parser refuses others before anything heavy is imported.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

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


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the result.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DataFormat = Annotated[
    Format | None,
    typer.Option("--format", help="Of the data; by default told from the name, or the stream."),
]


def word(value: enum.StrEnum | None) -> str | None:
    """What an enumeration stands for."""
    return None if value is None else value.value


def positive(value: Any) -> Any:
    """A number above 0, if there is one."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value} is not above 0")
    return value


def example(*lines: str) -> str:
    """The last lines of a help text, kept as they are."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\b\n" + "\n".join([title, *(f"  {line}" for line in lines)])


def leave(status: int) -> None:
    """End with a status, where all is not well."""
    if status:
        raise typer.Exit(status)
