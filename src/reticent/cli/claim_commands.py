"""The commands about Reticent itself: its guarantees, whether they hold, and whether it runs well on this machine.

Each body is imported when it runs, so that ``--help`` is quick.

`reticent audit` and `reticent doctor` exit with status 1 if a claim was refuted or a check failed; this is a result,
not an error.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.cli.options import Epsilon, Jobs, Json, Neighbours, On, Quiet, leave, positive

ALGORITHMS = (
    "tree", "window-tree", "correlated", "ftrl", "approximate-leader", "quadratic-leader",
    "perturbed-iterates", "gradient-descent", "objective-perturbation", "frank-wolfe",
)  # fmt: skip
"""The algorithms of `reticent.cli.answers`, which takes too long to import for tab completion."""


def _complete_algorithm(incomplete: str) -> list[str]:
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def _complete_figure(incomplete: str) -> list[str]:
    # one file per figure, whose name ends in a number; importing them all takes too long for tab completion
    files = (Path(__file__).parents[1] / "papers" / "figures").glob("*_[0-9]*.py")
    names = sorted(file.stem.replace("_", "-") for file in files)
    return [name for name in names if name.startswith(incomplete)]


def explain(
    model: Annotated[
        Path | None, typer.Argument(help="Model file that `reticent learn` wrote.")
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help=f"Algorithm to explain instead of a model: {', '.join(ALGORITHMS)}.",
            autocompletion=_complete_algorithm,
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Annotated[
        float, typer.Option(help="Privacy parameter delta; 0 is pure privacy.")
    ] = 1e-6,
    horizon: Annotated[
        int | None, typer.Option(help="Number of records.", callback=positive)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Number of outputs for which a record is protected.", callback=positive),
    ] = None,
    dim: Annotated[int, typer.Option(help="Number of features.", min=1)] = 10,
    norm: Annotated[float, typer.Option(help="Largest norm of a record.", callback=positive)] = 1.0,
    radius: Annotated[
        float, typer.Option(help="Radius of the set of decisions.", callback=positive)
    ] = 1.0,
    ridge: Annotated[
        float, typer.Option(help="Ridge of the loss, for algorithms that need strong convexity.")
    ] = 0.01,
    neighbours: Annotated[
        Neighbours,
        typer.Option(help="Neighbouring data: one record is blanked (zero-out), or replaced."),
    ] = Neighbours.zero_out,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the plot to this SVG, PNG or PDF file.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Explain a guarantee and what it costs.

    Shows in words and in one plot the guarantee, the noise, the error to expect, and the noise that the paper
    prescribes.
    """
    console = Console(quiet=quiet, as_json=json)
    if (model is None) == (algorithm is None):
        raise Refused("give either a MODEL, or --algorithm with --epsilon and --horizon")
    if model is not None:
        from reticent.cli.explain import explain_model

        leave(explain_model(model, plot=plot, console=console))
        return
    if epsilon is None:
        raise Refused("--epsilon is missing: the privacy parameter of the budget, for example 1")
    from reticent.cli.answers import Question
    from reticent.cli.explain import explain_settings

    question = Question(
        str(algorithm), epsilon, delta, neighbours.value, window, horizon, dim, norm, radius, ridge
    )
    leave(explain_settings(question, plot=plot, console=console))


def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of the worst cases to attack.  [default: all]")
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Spend about 25 seconds on each attack (--full) or about 1.5 (--quick).",
        ),
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs of each case, regardless of how long they take.", min=8),
    ] = None,
    jobs: Jobs = None,
    on: On = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a report to this HTML file.")
    ] = None,
    mine: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Audit your own mechanisms instead: a function that returns tuples (run, data, neighbour, claim).",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Audit the privacy claims of Reticent, or of your own mechanisms.

    Exits with status 1 if a claim is refuted.
    """
    from reticent.cli.auditing import audit as body
    from reticent.cli.auditing import audit_mine

    console = Console(quiet=quiet, as_json=json)
    if mine is not None:
        if names or full or any(given is not None for given in (runs, jobs, on, out)):
            raise Refused(
                "--mine cannot be combined with names, --full, --runs, --jobs, --on or --out"
            )
        leave(audit_mine(mine, console=console))
        return
    leave(
        body(
            names or [],
            full=full,
            runs=runs,
            jobs=jobs,
            on=on,
            out=out,
            command=command_line(),
            console=console,
        )
    )


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["reticent", *sys.argv[1:]])


def doctor(quiet: Quiet = False, json: Json = False) -> None:
    """Check this machine.

    Shows versions, compiled code, entropy, speed and disk; exits with status 1 if a check fails.
    """
    from reticent.cli.doctor import doctor as body

    leave(body(Console(quiet=quiet, as_json=json)))


def reproduce(
    figure: Annotated[
        str | None,
        typer.Argument(
            help="Name of the figure.  [default: list them]", autocompletion=_complete_figure
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Run more seeds and longer streams, for hours instead of minutes."
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write the results to.")
    ] = Path("reticent-reproduce"),
    jobs: Jobs = None,
    on: On = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Reproduce a figure of the papers.

    Runs it as published, corrected, and with our defaults. Without a name, lists the figures.
    """
    from reticent.cli.reproduce import reproduce as body

    leave(body(figure, full, out, quiet, json, jobs=jobs, on=on))
