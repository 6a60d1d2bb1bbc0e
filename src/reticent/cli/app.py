"""The `reticent` command line: its commands in the order of the help, with an example of each.

A command's function is only registered here. Its body is in a file of its own, which is imported when the command runs,
so that ``--help`` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from reticent.cli import claim_commands, consortium, serve, table_commands
from reticent.cli.options import example

app = typer.Typer(
    name="reticent",
    help="Learn from people's data without learning about any one person.",
    epilog="Begin with: reticent schema DATA --names-only, then reticent learn --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from reticent import __version__

        print(f"reticent {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_version
        ),
    ] = False,
) -> None:
    """Learn from people's data without learning about any one person."""


app.command(
    epilog=example(
        "reticent learn visits.csv --schema visits.toml --target spent --epsilon 1 --out run",
        "tail -F events.jsonl | reticent learn - --schema events.toml --epsilon 1 --window 1024",
    )
)(table_commands.learn)
app.command(
    epilog=example("reticent predict run/model.json new.csv --probabilities > answers.csv")
)(table_commands.predict)
app.command(
    epilog=example(
        "reticent explain run/model.json",
        "reticent explain --algorithm ftrl --epsilon 1 --horizon 100000 --dim 20 --plot noise.svg",
    )
)(claim_commands.explain)
app.command(
    epilog=example("reticent schema sample.csv --public-sample --target spent --out visits.toml")
)(table_commands.schema)
app.command(epilog=example("reticent audit --quick tree-gaussian-honaker"))(claim_commands.audit)
app.command(epilog=example("reticent doctor --json"))(claim_commands.doctor)
app.command(
    epilog=example(
        "reticent compare table.csv --schema table.toml --target spent --epsilon 0.1 --epsilon 1"
    )
)(table_commands.compare)
app.command(epilog=example("reticent reproduce online-2a"))(claim_commands.reproduce)
app.add_typer(consortium.app, name="vertical")
app.add_typer(serve.app, name="serve", epilog=example("reticent serve --data folder --port 8080"))
