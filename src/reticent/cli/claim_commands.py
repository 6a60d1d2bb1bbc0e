"""The commands about Reticent itself: what it promises, whether that holds, and whether it runs well here.

Each body is imported when it runs, so that ``--help`` is quick.

`reticent audit` and `reticent doctor` say no with an exit status of 1, which is an answer, and not
an error.
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
"""As in `reticent.cli.answers`, which is too slow to import for a tab."""


def _complete_algorithm(incomplete: str) -> list[str]:
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def _complete_figure(incomplete: str) -> list[str]:
    # one file per figure, whose name ends in a number; importing them all is too slow for a tab
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
            help=f"Instead of a model: {', '.join(ALGORITHMS)}.",
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
        typer.Option(help="Number of outputs that a record is protected for.", callback=positive),
    ] = None,
    dim: Annotated[int, typer.Option(help="Number of features.", min=1)] = 10,
    norm: Annotated[float, typer.Option(help="Largest norm of a record.", callback=positive)] = 1.0,
    radius: Annotated[
        float, typer.Option(help="Radius of the set of decisions.", callback=positive)
    ] = 1.0,
    ridge: Annotated[
        float, typer.Option(help="Ridge of the loss, where strong convexity is needed.")
    ] = 0.01,
    neighbours: Annotated[
        Neighbours,
        typer.Option(help="Neighbouring data: one record is blanked (zero-out), or replaced."),
    ] = Neighbours.zero_out,
    plot: Annotated[
        Path | None, typer.Option(help="SVG, PNG or PDF file to draw the plot to as well.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say what is promised and what it costs.

    Shows in words and one plot the promise, the noise, what to expect, and what the paper would have added.
    """
    console = Console(quiet=quiet, as_json=json)
    if (model is None) == (algorithm is None):
        raise Refused("give either a MODEL, or --algorithm with --epsilon and --horizon")
    if model is not None:
        from reticent.cli.explain import explain_model

        leave(explain_model(model, plot=plot, console=console))
        return
    if epsilon is None:
        raise Refused("--epsilon is missing: how much privacy may be spent, for example 1")
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
        typer.Option("--full/--quick", help="Spend about 25 seconds on each attack, or about 1.5."),
    ] = False,
    runs: Annotated[
        int | None, typer.Option(help="Number of runs of each case, however long they take.", min=8)
    ] = None,
    jobs: Jobs = None,
    on: On = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write a report to as well.")
    ] = None,
    mine: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Audit mechanisms of your own: a function that returns tuples (run, data, neighbour, claim).",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack Reticent's own claims, or yours.

    Exits with 1 if one is refuted.
    """
    from reticent.cli.auditing import audit as body
    from reticent.cli.auditing import audit_mine

    console = Console(quiet=quiet, as_json=json)
    if mine is not None:
        if names or full or any(given is not None for given in (runs, jobs, on, out)):
            raise Refused(
                "--mine stands alone: leave out names, --full, --runs, --jobs, --on and --out"
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

    Shows versions, compiled code, entropy, speed and disk; exits with 1 if something is wrong.
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

    Measures it as published, corrected, and with our defaults; without a name, lists the figures.
    """
    from reticent.cli.reproduce import reproduce as body

    leave(body(figure, full, out, quiet, json, jobs=jobs, on=on))
