"""The `tacit` command line: which commands there are, in the order of its help, with an example of each.

The one thing a reader would get wrong: a command's function is registered here and written elsewhere, and
its body is elsewhere again, imported when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import claim_commands, consortium, table_commands
from tacit.cli.options import example

app = typer.Typer(
    name="tacit",
    help="Learn from people's data without learning about any one person.",
    epilog="Begin with: tacit schema DATA --names-only, then tacit learn --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from tacit import __version__

        print(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which Tacit this is.", is_eager=True, callback=_version
        ),
    ] = False,
) -> None:
    """Learn from people's data without learning about any one person."""


app.command(
    epilog=example(
        "tacit learn visits.csv --schema visits.toml --target spent --epsilon 1 --out run",
        "tail -F events.jsonl | tacit learn - --schema events.toml --epsilon 1 --window 1024",
    )
)(table_commands.learn)
app.command(epilog=example("tacit predict run/model.json new.csv --probabilities > answers.csv"))(
    table_commands.predict
)
app.command(
    epilog=example(
        "tacit explain run/model.json",
        "tacit explain --algorithm ftrl --epsilon 1 --horizon 100000 --dim 20 --plot noise.svg",
    )
)(claim_commands.explain)
app.command(
    epilog=example("tacit schema sample.csv --public-sample --target spent --out visits.toml")
)(table_commands.schema)
app.command(epilog=example("tacit audit --quick tree-gaussian-honaker"))(claim_commands.audit)
app.command(epilog=example("tacit doctor --json"))(claim_commands.doctor)
app.command(
    epilog=example(
        "tacit compare table.csv --schema table.toml --target spent --epsilon 0.1 --epsilon 1"
    )
)(table_commands.compare)
app.command(epilog=example("tacit reproduce online-2a"))(claim_commands.reproduce)
app.add_typer(consortium.app, name="vertical")
