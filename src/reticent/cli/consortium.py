"""`reticent vertical`: learn from columns with different owners; a thin layer over `reticent.vertical.flare.commands`.

Each party sets its own budget at its site. A run is a request by the analyst, which a party refuses if it exceeds that
budget.
"""

from __future__ import annotations

import csv
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.console import Console, table
from reticent.cli.errors import FAILED, Refused
from reticent.cli.options import Json, Neighbours, Quiet, example, leave

app = typer.Typer(
    help="Learn from columns held by different owners.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Kit = Annotated[Path, typer.Argument(help="Folder of a start-up kit.")]
Log = Annotated[Path | None, typer.Option(help="File to write the engine's log to.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the noise, for experiments only.", min=0)]


def _commands() -> Any:
    from reticent.vertical.flare import commands

    return commands


@app.command(
    epilog=example(
        "reticent vertical provision kits --party clinic --party lab --host fl.example.org"
    )
)
def provision(
    folder: Annotated[
        Path, typer.Argument(help="New or empty folder; each kit becomes a folder in it.")
    ],
    party: Annotated[
        list[str], typer.Option(help="Name of a party; repeat the option for each party.")
    ],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    host: Annotated[
        str, typer.Option(help="Host name under which the parties reach the server.")
    ] = "localhost",
    port: Annotated[int, typer.Option(help="Port of the server.", min=1, max=65535)] = 8002,
    scheme: Annotated[str, typer.Option(help="Protocol: tcp, http or grpc.")] = "tcp",
    analyst: Annotated[
        str, typer.Option(help="Name of the analyst, who may submit runs.")
    ] = "analyst@example.org",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make start-up kits for the server, the parties and the analyst."""
    kits = _commands().provision(
        folder, party, name=name, host=host, port=port, scheme=scheme, analyst=analyst
    )
    rows = [(who, str(kit)) for who, kit in kits.items()]
    Console(quiet=quiet, as_json=json).result({"kits": dict(rows)}, table(rows))


@app.command("example", epilog=example("reticent vertical example tables --patients 20000"))
def example_tables(
    folder: Annotated[
        Path, typer.Argument(help="Folder to write north.csv, south.csv and west.csv to.")
    ],
    patients: Annotated[int, typer.Option(help="Number of rows of each table.", min=1)] = 20_000,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write tables of three made-up hospitals to try."""
    from reticent.vertical.flare.example import write

    said = write(folder, patients)
    Console(quiet=quiet, as_json=json).result({"tables": said}, "\n".join(said))


@app.command(epilog=example("reticent vertical serve kits/server --log server.log"))
def serve(kit: Kit, log: Log = None) -> None:
    """Run the server until it is stopped."""
    leave(int(_commands().serve(kit, log=log)))


@app.command(
    epilog=example(
        "reticent vertical party kits/clinic --data patients.csv --id-column patient --epsilon 4 --delta 1e-6"
    )
)
def party(
    kit: Kit,
    data: Annotated[
        Path | None, typer.Option(help="Table of the party: .csv, .parquet or .npz.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column that identifies the person a row is about.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column to predict, if this party holds it.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Column to use; repeat the option for each column.  [default: all]"),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy parameter epsilon of the party's budget for all runs together."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Privacy parameter delta of the same budget.")
    ] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option(help="Neighbouring data: one record is blanked (zero-out), or replaced."),
    ] = None,
    feature_bound: Annotated[
        float | None, typer.Option(help="Bound to clip the entries of columns to.")
    ] = None,
    label_bound: Annotated[float | None, typer.Option(help="Bound to clip labels to.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="File with the alignment key.  [default: the kit's]")
    ] = None,
    seed: Seed = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check and store the settings without starting.")
    ] = False,
    log: Log = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a party with its own data and its own budget.

    Runs until it is stopped.
    """
    said = {
        "data": data,
        "id_column": id_column,
        "label_column": label_column,
        "columns": column or None,
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": None if neighbours is None else neighbours.value,
        "feature_bound": feature_bound,
        "label_bound": label_bound,
        "key": None if key is None else str(key),
        "seed": seed,
    }
    if not check:
        leave(int(_commands().party(kit, log=log, **said)))
        return
    settings = _commands().check_party(kit, **said)
    data_words = {"data": str(settings.data), "budget": str(settings.budget)}
    words = f"{settings.data} will answer within {settings.budget}"
    Console(quiet=quiet, as_json=json).result(data_words, words)


@app.command(
    epilog=example(
        "reticent vertical run kits/analyst@example.org --epsilon 1 --delta 1e-6 --rounds 50"
    )
)
def run(
    kit: Kit,
    epsilon: Annotated[
        float, typer.Option(help="Privacy parameter epsilon requested from every party.")
    ],
    delta: Annotated[
        float, typer.Option(help="Privacy parameter delta requested from every party.")
    ],
    name: Annotated[
        str, typer.Option(help="Name of the run; a second run needs another name.")
    ] = "run",
    neighbours: Annotated[
        Neighbours,
        typer.Option(help="Neighbouring data: one record is blanked (zero-out), or replaced."),
    ] = Neighbours.zero_out,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run of that name.")
    ] = False,
    model: Annotated[Path, typer.Option(help="File to write the model to.")] = Path("model.json"),
    rounds: Annotated[int | None, typer.Option(help="Number of Frank-Wolfe rounds.", min=1)] = None,
    radius: Annotated[float | None, typer.Option(help="Radius of the l1 ball.")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss: squared or logistic.")] = None,
    variant: Annotated[
        str | None, typer.Option(help="Variant of the algorithm: ball, product or sampled.")
    ] = None,
    columns: Annotated[
        int | None,
        typer.Option(help="Largest number of columns of which a party may send sketches.", min=1),
    ] = None,
    sketch_size: Annotated[int | None, typer.Option(help="Size of a sketch.", min=1)] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 60.0,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Submit a run, follow it, and fetch the model."""
    console = Console(quiet=quiet, as_json=json)
    with console.starting():
        from reticent.vertical.flare.jobs import RunFailed

        commands = _commands()
    try:
        outcome = commands.run(
            kit, epsilon=epsilon, delta=delta, name=name, neighbours=neighbours.value,
            resume=resume, model=model, patience=patience, shown=console.watched, rounds=rounds,
            radius=radius, loss=loss, variant=variant, columns=columns, sketch_size=sketch_size,
            seed=seed,
        )  # fmt: skip
    except RunFailed as error:
        raise Refused(str(error), FAILED) from None
    console.result(dict(outcome), f"{outcome['summary']}\nmodel: {model}")


@app.command(epilog=example("reticent vertical weights kits/clinic model.json"))
def weights(
    kit: Kit,
    model: Annotated[Path, typer.Argument(help="Model file that a run wrote.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show a party's part of a model, with its columns' names."""
    found = _commands().weights(kit, model)
    rows = [(name, f"{value:+.6f}") for name, value in found.items()]
    words = table(rows) if rows else "no column of this party has a weight"
    Console(quiet=quiet, as_json=json).result({"weights": found}, words)


@app.command(
    epilog=example(
        "reticent vertical score kits/clinic model.json --data new.csv --name march --out clinic.part"
    )
)
def score(
    kit: Kit,
    model: Annotated[Path, typer.Argument(help="Model file that a run wrote.")],
    data: Annotated[
        Path, typer.Option(help="Table of the people to score: .csv, .parquet or .npz.")
    ],
    name: Annotated[str, typer.Option(help="Name of the batch, the same at all parties.")],
    out: Annotated[Path, typer.Option(help="File to write the party's masked part to.")],
    again: Annotated[
        bool,
        typer.Option("--again", help="Agree to score these people with one more model."),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a party's masked part of people's scores.

    Only the sum of all parties' parts is readable.
    """
    part = _commands().score(kit, model, data=data, name=name, out=out, again=again)
    words = (
        f"{out}: {len(part.masked)} people. By itself this part reveals nothing; with the parts of all "
        "other parties, it reveals each person's score."
    )
    said = {"people": len(part.masked), "file": str(out)}
    Console(quiet=quiet, as_json=json).result(said, words)


@app.command(
    epilog=example("reticent vertical predict model.json clinic.part lab.part --out scores.csv")
)
def predict(
    model: Annotated[Path, typer.Argument(help="Model file that a run wrote.")],
    parts: Annotated[list[Path], typer.Argument(help="File with the part of each party.")],
    out: Annotated[Path, typer.Option(help="CSV file to write the predictions to.")] = Path(
        "predictions.csv"
    ),
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Table of the same people, whose ids are written beside the predictions."
        ),
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with their ids.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Add up the parties' parts into predictions.

    Writes one line per person, in the order of the ids.
    """
    if (ids is None) != (id_column is None):
        raise Refused(
            "--ids and --id-column must be given together: a table, and its column of ids"
        )
    from reticent.vertical.flare.tables import read_ids

    found = _commands().predict(model, parts)
    who = range(len(found)) if ids is None else read_ids(ids, str(id_column))
    if len(who) != len(found):
        raise Refused(f"--ids {ids} has {len(who)} people, the parts have {len(found)}")
    # a score is about one person and carries no noise, so a new file is readable by its owner only
    with open(out, "w", newline="", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        lines = csv.writer(file)
        lines.writerow([id_column or "row", "prediction"])
        lines.writerows((person, float(value)) for person, value in zip(who, found, strict=True))
    said = {"people": len(found), "file": str(out)}
    Console(quiet=quiet, as_json=json).result(said, f"{out}: {len(found)} predictions")


@app.command(epilog=example("reticent vertical ledger kits/clinic"))
def ledger(kit: Kit, quiet: Quiet = False, json: Json = False) -> None:
    """Show what a party has spent, and what is left."""
    book = _commands().ledger(kit)
    spent = book.spent
    data = {
        "budget": str(book.budget),
        "entries": [
            {"what": entry.what, "at": entry.at, "guarantee": entry.guarantee.to_dict()}
            for entry in book.entries
        ],
        "spent": None if spent is None else spent.to_dict(),
        "left": book.remaining,
    }
    Console(quiet=quiet, as_json=json).result(data, str(book))
