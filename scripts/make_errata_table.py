"""Write the table of claimed against true epsilon into docs/errata.md.

    python scripts/make_errata_table.py           # rewrite the generated part of the page
    python scripts/make_errata_table.py --check   # exit with 1 if the page is out of date

Only the lines between the two markers are generated, so whatever is written around them is kept;
edit the settings here, never the table there.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reticent import papers
from reticent.papers.formulas import bandit, chapter, online, vertical, window
from reticent.privacy.prescribed import Prescription

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errata.md"
BEGIN = "<!-- generated: claimed-and-true -->"
END = "<!-- end generated -->"
COLUMNS = (
    "noise",
    "setting",
    "claimed epsilon",
    "claimed delta",
    "true, zero-out",
    "true, replace",
)

INTRODUCTION = f"""# What the papers claim, and what their noise gives

Reticent builds on five papers. All five are worth reading, and everything here rests on their ideas.
Like most papers of their length, they contain errors, a few of which change how private a result
is. We list these errors with respect, so that nobody has to find them again:

- {window.PAPER}
- {bandit.PAPER}
- {online.PAPER}
- {vertical.PAPER}
- {chapter.PAPER}

The table below takes every amount of noise that these papers print, exactly as printed, and compares
the epsilon that the paper claims with the epsilon that this noise gives.

- *zero-out*: one record is blanked. *replace*: one record becomes any other. Each heading says
  which of the two its paper uses.
- Both columns are at the claimed delta. A plain number is exact: some data attain it. A number
  after `<=` is the best upper bound that we can prove.
- **Bold**: the number exceeds what the paper claims for these neighbours. A bold number after `<=`
  means that the claim is not proved, not that it is refuted. A claim for *replace* covers *zero-out*
  as well; a claim for *zero-out* says nothing about *replace*.
- A number far below the claim means more noise than the claim needs.

`reticent.papers` holds the formulas; `calibration="exact"`, the default, uses none of them.
"""

Row = tuple[str, str, Prescription]


def _row(make: Callable[..., Prescription], *claim: float, **setting: Any) -> Row:
    """A formula's name, its setting in words, and the formula evaluated."""
    words = [f"epsilon={claim[0]:g}", *(f"delta={d:g}" for d in claim[1:])]
    words += [f"{key}={_short(value)}" for key, value in setting.items()]
    return f"`{make.__name__}`", ", ".join(words), make(*claim, **setting)


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int | str) else f"{value:g}"


def _window_rows() -> Iterator[Row]:
    for w in (1, 4, 64, 1024, 65536):
        yield _row(papers.window_tree_gaussian, 1.0, 1e-6, window=w)
    yield _row(papers.window_tree_gaussian, 8.0, 1e-6, window=64)
    for convexity in (0.0, 0.1, 0.5, 1.0):
        constants = {"strong_convexity": convexity, "diameter": 1.0}
        yield _row(papers.window_tree_gamma, 1.0, window=64, **constants)
    yield _row(papers.window_tree_gamma, 1.0, window=100)


def _bandit_rows() -> Iterator[Row]:
    for logarithm in ("natural", "binary"):
        for t in (64, 1024, 10**6):
            yield _row(papers.tree_aggregation_laplace, 1.0, horizon=t, logarithm=logarithm)
    for t in (2, 64, 10**6):
        yield _row(papers.tree_aggregation_gaussian, 1.0, 1e-6, horizon=t)
    for t, n in ((10**4, 5), (10**6, 10), (10**6, 100)):
        yield _row(papers.bandit_laplace, 1.0, horizon=t, dim=n)
    yield _row(papers.bandit_laplace, 1.0, horizon=10**4, dim=5, values="non-negative")
    for t, n in ((10**4, 5), (10**6, 10), (10**6, 100)):
        yield _row(papers.bandit_gaussian, 1.0, 1e-6, horizon=t, dim=n)


def _online_rows() -> Iterator[Row]:
    iterates = papers.perturbed_iterates
    for inner in online.INNERS:
        yield _row(iterates, 1 / 3, 5e-7, horizon=1000, inner=inner)
    yield _row(iterates, 1 / 3, 5e-7, horizon=10**5, inner="gradient")
    yield _row(iterates, 10 / 3, 5e-7, horizon=1000, inner="gradient")
    other = {"inner": "gradient", "reading": "product-of-logarithms"}
    yield _row(iterates, 1 / 3, 1e-5, horizon=1000, **other)
    yield _row(iterates, 1.0, 1e-5, horizon=1000, **other)
    yield _row(iterates, 10 / 3, 5e-7, horizon=1000, **other)
    for epsilon in (0.1, 1.0):
        yield _row(papers.horizon_free, epsilon, 1e-6, horizon=10**6, inner="gradient")
    for logarithm in ("natural", "binary"):
        for t in (1, 2, 16, 1024, 10**5):
            yield _row(papers.private_sum, 1.0, 1e-6, horizon=t, logarithm=logarithm)
    for logarithm in ("natural", "binary"):
        for norm in (1.0, 10.0):
            setting = {"horizon": 1024, "norm": norm, "logarithm": logarithm}
            yield _row(papers.quadratic_leader, 1.0, 1e-6, **setting)
    for alpha in (0.01, 0.1, 1.0):
        setting = {"horizon": 1000, "strong_convexity": alpha, "radius": 1.0}
        yield _row(papers.averaged_iterate, 1.0, 1e-6, **setting)


def _vertical_rows() -> Iterator[Row]:
    for k, t in ((4, 25), (1, 100), (10, 100)):
        setting = {"parties": k, "steps": t, "n": 1000, "scores": "scaled"}
        yield _row(papers.vertical_index, 1.0, 1e-6, **setting)
    yield _row(papers.vertical_index, 1.0, 1e-6, parties=4, steps=25, n=1000)
    # singular values and column norms as met with Gaussian sketches of 100 rows
    for message in vertical.MESSAGES:
        for n, top, column in ((1000, 4.15, 1.23), (10_000, 11.0, 1.27)):
            setting = {"parties": 4, "steps": 25, "n": n, "message": message}
            setting |= {"singular_value": top, "column_norm": column}
            yield _row(papers.vertical_sketch, 1.0, 1e-6, **setting)


def _chapter_rows() -> Iterator[Row]:
    for epsilon in (1.0, 8.0):
        yield _row(papers.exponential_mechanism, epsilon, diameter=1.0)
    for epsilon in (0.1, 1.0, 8.0):
        yield _row(papers.objective_perturbation_gamma, epsilon, smoothness=1.0)
    yield _row(papers.objective_perturbation_gamma, 1.0, smoothness=1.0, rank=3)
    for epsilon in (1.0, 8.0):
        yield _row(papers.objective_perturbation_gaussian, epsilon, 1e-6, smoothness=1.0)
    for epsilon, delta in ((0.1, 1e-5), (1.0, 1e-6), (8.0, 1e-6)):
        yield _row(papers.gradient_descent, epsilon, delta, steps=100)
    for n, t in ((100, 10**4), (100, 1000), (100, 100), (1000, 1000)):
        yield _row(papers.stochastic_gradient_descent, 1.0, 1e-6, steps=t, n=n)
    for n in (1, 2, 4, 1024):
        yield _row(papers.ftrl, 1.0, 1e-6, horizon=n)
    yield _row(papers.ftrl, 8.0, 1e-6, horizon=2)
    for n in (100, 10_000):
        yield _row(papers.frank_wolfe_laplace, 1.0, 1e-6, steps=100, n=n)
    for epsilon, delta, t in ((1.0, 1e-6, 100), (1.0, 1e-6, 1000), (8.0, 1e-6, 100),
                              (20.0, 1e-3, 50)):  # fmt: skip
        setting = {"steps": t, "n": 100, "loss": "average"}
        yield _row(papers.frank_wolfe_laplace, epsilon, delta, **setting)


SECTIONS: tuple[tuple[str, Callable[[], Iterator[Row]]], ...] = (
    (window.PAPER, _window_rows),
    (bandit.PAPER, _bandit_rows),
    (online.PAPER, _online_rows),
    (vertical.PAPER, _vertical_rows),
    (chapter.PAPER, _chapter_rows),
)


def figure(value: float) -> str:
    """Three digits, enough to compare and few enough to be the same on every machine."""
    if math.isinf(value):
        return "infinite"
    text = f"{value:.3g}"
    return f"{value:.0f}" if 1e3 <= value < 1e6 else text


def _truth(item: Prescription, neighbours: str) -> str:
    value, claim = item.true_epsilon(neighbours=neighbours), item.claimed[0]
    # a claim for replacement covers blanking too; a claim for blanking says nothing of replacement
    covered = neighbours == item.relation or item.relation == "replace"
    above = covered and value > claim * (1.0 + 1e-9)
    text = figure(value)
    if above and text == figure(claim):
        text = f"{value:.5g}"
    if neighbours in item.bounds:
        text = f"<= {text}"
    return f"**{text}**" if above else text


def table() -> str:
    """The generated part of the page, without its markers."""
    lines: list[str] = []
    for title, rows in SECTIONS:
        made = list(rows())
        relations = {item.relation for _, _, item in made}
        lines += [f"### {title}", "", f"Stated for *{' and '.join(sorted(relations))}*.", ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for name, setting, item in made:
            epsilon, delta = item.claimed
            cells = (name, setting, figure(epsilon), f"{delta:.3g}" if delta else "0",
                     _truth(item, "zero-out"), _truth(item, "replace"))  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def page(current: str | None) -> str:
    """The whole page, with everything outside the markers kept as it is."""
    generated = f"{BEGIN}\n\n{table()}\n{END}"
    if current is None:
        return f"{INTRODUCTION}\n## Claimed and true epsilon\n\n{generated}\n"
    if current.count(BEGIN) != 1 or current.count(END) != 1:
        raise SystemExit(f"{PAGE.name} must hold {BEGIN!r} and {END!r} once each; put them back")
    before, rest = current.split(BEGIN)
    _, after = rest.split(END)
    return before + generated + after


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write the page, or with ``--check`` only say whether it is up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if out of date")
    options = parser.parse_args(arguments)
    current = path.read_text(encoding="utf-8") if path.exists() else None
    if options.check and current is None:
        print(f"{path} does not exist; run {Path(__file__).name}", file=sys.stderr)
        return 1
    wanted = page(current)
    if wanted == current:
        return 0
    if options.check:
        print(f"{path} is out of date; run {Path(__file__).name}", file=sys.stderr)
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
