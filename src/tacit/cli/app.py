"""The commands and their options; each body is imported when it runs, so that ``--help`` is quick.

The one thing a reader would get wrong: options default to "not said" where `--resume` must tell what was
said from what was not; the defaults that apply are in the help.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.console import Console
from tacit.cli.errors import Refused
from tacit.cli.options import (
    Bad,
    DataFormat,
    Json,
    Neighbours,
    Quiet,
    Task,
    example,
    positive,
    word,
)

app = typer.Typer(
    name="tacit",
    help="Learn from people's data without learning about any one person.",
    epilog="Begin with: tacit schema DATA --names-only, then tacit learn --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


ALGORITHMS = (
    "tree", "window-tree", "correlated", "ftrl", "approximate-leader", "quadratic-leader",
    "perturbed-iterates", "gradient-descent", "objective-perturbation", "frank-wolfe",
)  # fmt: skip
"""As in `tacit.cli.explaining`, which is too slow to import for a tab."""


def _complete_algorithm(incomplete: str) -> list[str]:
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def _complete_figure(incomplete: str) -> list[str]:
    # one file a figure, whose name ends in a number; importing them all is too slow for a tab
    files = (Path(__file__).parent / "reproduce").glob("*_[0-9]*.py")
    names = sorted(file.stem.replace("_", "-") for file in files)
    return [name for name in names if name.startswith(incomplete)]


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


def _exit(status: int) -> None:
    if status:
        raise typer.Exit(status)


@app.command(
    epilog=example(
        "tacit learn visits.csv --schema visits.toml --target spent --epsilon 1 --out run",
        "tail -F events.jsonl | tacit learn - --schema events.toml --epsilon 1 --window 1024",
    )
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
        typer.Option(help="Protect a record for so many outputs only.", callback=positive),
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
    ] = Path("tacit-run"),
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
    from tacit.cli.learn import Request
    from tacit.cli.learn import learn as body

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
    _exit(body(request, Console(quiet=quiet or decisions == "-", as_json=json)))


@app.command(epilog=example("tacit predict run/model.json new.csv --probabilities > answers.csv"))
def predict(
    model: Annotated[Path, typer.Argument(help="What `tacit learn` wrote.")],
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
    from tacit.cli.predict import predict as body

    console = Console(quiet=quiet, as_json=json)
    _exit(
        body(
            model, data, kind=word(format), out=out, probabilities=probabilities, score=score,
            console=console,
        )
    )  # fmt: skip


@app.command(
    epilog=example(
        "tacit explain run/model.json",
        "tacit explain --algorithm ftrl --epsilon 1 --horizon 100000 --dim 20 --plot noise.svg",
    )
)
def explain(
    model: Annotated[Path | None, typer.Argument(help="What `tacit learn` wrote.")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help=f"Instead of a model: {', '.join(ALGORITHMS)}.",
            autocompletion=_complete_algorithm,
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="Privacy budget.", callback=positive)
    ] = None,
    delta: Annotated[float, typer.Option(help="Of the budget; 0 is pure privacy.")] = 1e-6,
    horizon: Annotated[
        int | None, typer.Option(help="How many records there are.", callback=positive)
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Outputs that a record is protected for.", callback=positive)
    ] = None,
    dim: Annotated[int, typer.Option(help="How many features.", min=1)] = 10,
    norm: Annotated[
        float, typer.Option(help="The largest norm of a record.", callback=positive)
    ] = 1.0,
    radius: Annotated[
        float, typer.Option(help="Of the set of decisions.", callback=positive)
    ] = 1.0,
    ridge: Annotated[
        float, typer.Option(help="Of the loss, where strong convexity is needed.")
    ] = 0.01,
    neighbours: Annotated[
        Neighbours, typer.Option(help="Who is a neighbour.")
    ] = Neighbours.zero_out,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw it into an SVG, PNG or PDF file.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say what is promised and what it costs.

    In words and one plot: the promise, the noise, what to expect, what the paper would have added.
    """
    console = Console(quiet=quiet, as_json=json)
    if (model is None) == (algorithm is None):
        raise Refused("give either a MODEL, or --algorithm with --epsilon and --horizon")
    if model is not None:
        from tacit.cli.explain import explain_model

        _exit(explain_model(model, plot=plot, console=console))
        return
    if epsilon is None:
        raise Refused("--epsilon is missing: how much privacy may be spent, for example 1")
    from tacit.cli.explain import explain_settings
    from tacit.cli.explaining import Question

    question = Question(
        str(algorithm), epsilon, delta, neighbours.value, window, horizon, dim, norm, radius, ridge
    )
    _exit(explain_settings(question, plot=plot, console=console))


@app.command(
    epilog=example("tacit schema sample.csv --public-sample --target spent --out visits.toml")
)
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
    from tacit.cli.drafting import draft

    _exit(
        draft(
            data, public_sample=public_sample, names_only=names_only, target=target,
            kind=word(format), out=out, console=Console(quiet=quiet, as_json=json),
        )
    )  # fmt: skip


@app.command(epilog=example("tacit audit --quick tree-gaussian-honaker"))
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="Worst cases to attack.  [default: all]")
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="A million runs of each world, or a minute or two."),
    ] = False,
    runs: Annotated[
        int | None, typer.Option(help="Runs of each world, whatever they cost.", min=8)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write a page.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack Tacit's own claims; exit with 1 if one falls."""
    from tacit.cli.auditing import audit as body

    console = Console(quiet=quiet, as_json=json)
    _exit(body(names or [], full=full, runs=runs, out=out, command=command_line(), console=console))


@app.command(epilog=example("tacit doctor --json"))
def doctor(quiet: Quiet = False, json: Json = False) -> None:
    """Check this machine.

    Versions, compiled code, entropy, speed, disk; exit with 1 if something is wrong.
    """
    from tacit.cli.doctor import doctor as body

    _exit(body(Console(quiet=quiet, as_json=json)))


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["tacit", *sys.argv[1:]])


# Commands with a home of their own ------------------------------------------------------------------


def _compare(
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
        "tacit-compare"
    ),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare learners and solvers on a table.

    All that suit it, at several budgets, on all cores.
    """
    from tacit.cli.compare import compare as body

    epsilons = epsilon or [0.1, 1.0, 8.0]
    _exit(body(data, target, schema, epsilons, delta, repeats, jobs, out, quiet, json))


def _reproduce(
    figure: Annotated[
        str | None,
        typer.Argument(help="Which one.  [default: list them]", autocompletion=_complete_figure),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Hours instead of minutes.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "tacit-reproduce"
    ),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Reproduce a figure of the papers.

    As published, corrected, and ours; without a name, list them.
    """
    from tacit.cli.reproduce.command import reproduce as body

    _exit(body(figure, full, out, quiet, json))


def _is_there(module: str) -> bool:
    # find_spec would import the packages above it, which is slow
    return (Path(__file__).parents[1] / module).exists()


def _mount(name: str, module: str, body: Callable[..., None], line: str) -> None:
    """Register a command whose module is there; an older install may not have it."""
    if _is_there(module):
        app.command(name, epilog=example(line))(body)


_mount(
    "compare",
    "cli/compare",
    _compare,
    "tacit compare table.csv --schema table.toml --target spent --epsilon 0.1 --epsilon 1",
)
_mount("reproduce", "cli/reproduce", _reproduce, "tacit reproduce online-2a")

if _is_there("vertical/flare/commands.py"):
    from tacit.cli import consortium

    app.add_typer(consortium.app, name="vertical")
