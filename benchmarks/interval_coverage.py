"""Coverage of the 95 % intervals of ``summary()``.

python benchmarks/interval_coverage.py [--simulations 2000] [--minutes 60] [--jobs 1] [--only TEXT] [--out FOLDER]:
linear regression, and logistic regression with and without a capped loss.

- well-specified: n in {1e3, 1e4, 1e5} and p in {2, 10, 50} at epsilon = 1, delta = 1e-6;
- clipped, misspecified: at n = 1e4, p = 2; about what the interval says that it is about, and about the coefficients
  that made the records;
- fresh: other tables (correlated features, rare classes, errors of two values) at epsilon = 4, delta = 1e-5, which
  nobody looked at when the shares of the budget and the thresholds of refusal were chosen.

A row has the share of intervals that hold their target (a mean over coefficients, the intercept included), the least
over coefficients, how much of the variance is privacy's, and how many runs were refused an interval. Simulations of all
rows take turns, so that all have about as many when time is up. Rows go to ``coverage.json`` in the folder, by default
benchmarks/results. A row that is there already goes on where it ended if the code still gives the intervals that its
first simulation gave, and begins anew if not; ``--page`` writes all rows from there to docs/intervals.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from reticent import PrivateLinearRegression, PrivateLogisticRegression
from reticent.estimators import NoIntervals, private
from reticent.losses import CappedLogistic

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "intervals.md"
BEGIN, END = "<!-- generated: coverage -->", "<!-- end generated -->"
MODELS = ("linear", "logistic", "capped logistic")
CAPS = {"logistic": 1.0, "capped logistic": 0.5}
FRESH = (
    (20_000, 20),
    (10_000, 20),
    (7000, 20),
    (5000, 6),
    (2500, 6),
    (1000, 6),
    (5000, 3),
    (1500, 3),
    (500, 3),
)
"""Records and features of fresh tables: from plenty to so few that many runs are refused."""
BUDGETS = {"fresh": (4.0, 1e-5)}
LARGE = 1_000_000  # records that stand for the population
CHUNK = 25  # simulations that one process makes at a time
ENOUGH = 100  # refused so often at first, and never not: refused
SAME = 1e-3  # what processors may add up differently, in standard errors


class Case(NamedTuple):
    """A row of the table."""

    model: str
    data: str
    n: int
    p: int

    def __str__(self) -> str:
        return f"{self.model}, {self.data}, n={self.n}, p={self.p}."


def cases() -> list[Case]:
    """All rows, the slow ones first."""
    sizes = [(n, p) for n in (100_000, 10_000, 1000) for p in (50, 10, 2)]
    rows = [Case(model, "well-specified", n, p) for n, p in sizes for model in MODELS]
    rows += [Case(m, data, 10_000, 2) for m in MODELS for data in ("clipped", "misspecified")]
    return rows + [Case(model, "fresh", n, p) for n, p in FRESH for model in MODELS]


def truth(case: Case) -> np.ndarray:
    """Coefficients and the intercept that make the records."""
    p = case.p
    if case.data == "fresh":
        beta = np.random.default_rng(p).normal(size=p)
        beta *= (0.6 if case.model == "linear" else 3.0) / np.linalg.norm(beta)
        return np.append(beta, -0.2 if case.model == "linear" else -1.2)
    signs = (-1.0) ** np.arange(p) / np.sqrt(np.arange(1, p + 1))
    return np.append(0.5 * signs, 0.1) if case.model == "linear" else np.append(2.0 * signs, 0.3)


def records(case: Case, n: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features within norm 1, unless they are to be clipped, and labels."""
    model, data, _, p = case
    X = rng.random((n, p))
    X *= 2.0
    X -= 1.0
    if data == "fresh":
        X = 0.6 * X + 0.4 * rng.uniform(-1, 1, (n, 1))
    X *= (1.6 if data == "clipped" else 1.0) / math.sqrt(p)
    beta = truth(case)
    z = X @ beta[:p] + beta[p]
    bent = data == "misspecified"
    if bent:
        z += 0.5 * (X[:, 0] ** 2 - 1.0 / 6.0) * (1.0 if model == "linear" else 4.0)
    if model == "linear":
        if data == "fresh":
            return X, z + rng.choice([-0.15, 0.15], n)
        # errors whose variance depends on a feature, where the model is wrong
        return X, z + rng.uniform(-0.2, 0.2, n) * (np.abs(X[:, 0]) * 2.0 if bent else 1.0)
    cap = CAPS[model]
    share = expit(z) if cap == 1.0 or bent else CappedLogistic(cap).probability(z)
    return X, (rng.random(n) < share).astype(int)


@functools.cache
def target(case: Case) -> tuple[float, ...]:
    """What the intervals say that they are about: the best coefficients for records as they are clipped."""
    if case.data in ("well-specified", "fresh"):
        return tuple(truth(case))
    X, y = records(case, LARGE, np.random.default_rng(0))
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    A = np.column_stack([X, np.ones(len(X))])
    if case.model == "linear":
        return tuple(np.linalg.lstsq(A, np.clip(y, -1, 1), rcond=None)[0])
    cap = CAPS[case.model]
    border = math.log(cap / (1.0 - cap)) if cap < 1.0 else np.inf
    signed = A * np.where(y == 1, 1.0, -1.0)[:, None]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        m = signed @ x
        inside = np.maximum(m, -border)
        value = np.logaddexp(0.0, -inside) + np.where(m < -border, cap * (-border - m), 0.0)
        return float(value.mean()), -np.minimum(expit(-m), cap) @ signed / len(m)

    found = minimize(loss, truth(case), jac=True, method="BFGS", options={"gtol": 1e-7})
    return tuple(found.x)


def fitted(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A private model with what its intervals need."""
    epsilon, delta = BUDGETS.get(case.data, (1.0, 1e-6))
    common: dict[str, Any] = {
        "feature_norm": 1.0, "intervals": True, "noise_precision": "float", "random_state": seed,
    }  # fmt: skip
    if case.model == "linear":
        return PrivateLinearRegression(epsilon, delta, label_bounds=(-1, 1), **common).fit(X, y)
    return PrivateLogisticRegression(
        epsilon, delta, classes=[0, 1], influence=CAPS[case.model], **common
    ).fit(X, y)


@functools.cache
def calibration(case: Case) -> Any:
    """What fits of a case may spend beside the rest: public numbers decide, so that the first one knows for all."""
    known: list[Any] = []
    reserve = private.reserve

    def made(*given: Any) -> Any:
        if not known:
            known.append(reserve(*given))
        return known[0]

    return made


def summarised(case: Case, number: int) -> Any:
    """The summary of one simulation; None where it is refused."""
    rng = np.random.Generator(np.random.SFC64([case.n, case.p, number]))
    with patch.object(private, "reserve", calibration(case)):
        try:
            return fitted(case, *records(case, case.n, rng), number + 1).summary()
        except NoIntervals:
            return None


@functools.cache
def first(case: Case) -> list[list[float]] | None:
    """Intervals of the first simulation, by which a row is known to be of the present code."""
    found = summarised(case, 0)
    return None if found is None else found.interval.tolist()


def is_of_this_code(case: Case, row: dict[str, Any]) -> bool:
    """Whether the code still gives what a row of the file began with."""
    if "sums" not in row or "first" not in row:
        return False
    then, now = row["first"], first(case)
    if then is None or now is None:
        return then is now
    low, high = np.array(now).T
    return bool((np.abs(np.array(then) - now) <= SAME * (high - low)[:, None]).all())


def simulated(case: Case, aim: tuple[float, ...], numbers: range) -> dict[str, Any]:
    """Counts over simulations of these numbers."""
    beta, aims = truth(case), np.array(aim)
    hits, of_truth, share, refused = np.zeros(case.p + 1), np.zeros(case.p + 1), 0.0, 0
    for number in numbers:
        found = summarised(case, number)
        if found is None:
            refused += 1
            continue
        low, high = found.interval.T
        hits += (low <= aims) & (aims <= high)
        of_truth += (low <= beta) & (beta <= high)
        share += float(np.mean((found.privacy_error / found.standard_error) ** 2))
    return {"hits": hits, "of_truth": of_truth, "share": share, "refused": refused,
            "done": len(numbers)}  # fmt: skip


def as_row(case: Case, sums: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    given = sums["done"] - sums["refused"]
    row = {**case._asdict(), "simulations": sums["done"], "refused": sums["refused"]}
    if given:
        row |= {
            "coverage": sums["hits"].mean() / given, "least": sums["hits"].min() / given,
            "of the truth": sums["of_truth"].mean() / given, "privacy": sums["share"] / given,
        }  # fmt: skip
    row["first"] = first(case)
    row["sums"] = {**sums, "hits": sums["hits"].tolist(), "of_truth": sums["of_truth"].tolist()}
    return row


def begun(out: Path) -> dict[Case, dict[str, Any]]:
    """What the file holds, by case."""
    file = out / "coverage.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    return {Case(*(row[name] for name in Case._fields)): row for row in rows}


def measured(wanted: list[Case], simulations: int, minutes: float, jobs: int, out: Path) -> None:
    """All rows, by several processes; what is known so far is written once a minute."""
    end = time.monotonic() + 60.0 * minutes
    totals: dict[Case, dict[str, Any]] = {}
    for case, row in begun(out).items():
        if case in wanted and is_of_this_code(case, row):
            totals[case] = {
                name: np.array(value) if isinstance(value, list) else value
                for name, value in row["sums"].items()
            }
    starts = range(0, simulations, CHUNK)
    tasks = deque(
        (case, range(a, min(a + CHUNK, simulations)))
        for a in starts
        for case in wanted
        if case not in totals or a >= totals[case]["done"]
    )
    running: dict[Future[dict[str, Any]], Case] = {}
    written = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        aims = dict(zip(wanted, pool.map(target, wanted), strict=True))
        while tasks or running:
            while tasks and len(running) < 2 * jobs:
                case, numbers = tasks.popleft()
                so_far = totals.get(case, {"refused": 0, "done": 0})
                if so_far["refused"] == so_far["done"] >= ENOUGH or time.monotonic() > end:
                    continue
                running[pool.submit(simulated, case, aims[case], numbers)] = case
            for future in wait(running, return_when=FIRST_COMPLETED)[0] if running else ():
                case, new = running.pop(future), future.result()
                old = totals.get(case)
                totals[case] = new if old is None else {name: old[name] + new[name] for name in new}
            if time.monotonic() - written > 60.0 or not (tasks or running):
                kept(out, [as_row(case, totals[case]) for case in wanted if case in totals])
                written = time.monotonic()


def kept(out: Path, rows: list[dict[str, Any]]) -> None:
    """Rows beside those that the file holds already, in the order of the cases."""
    by_case = begun(out) | {Case(*(row[name] for name in Case._fields)): row for row in rows}
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(by_case[case]) for case in cases() if case in by_case]
    (out / "coverage.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def render(rows: list[dict[str, Any]]) -> str:
    """The tables in Markdown."""
    head = "| model | n | p | simulations | coverage | lowest | privacy's share of the variance | refused |"

    def cells(row: dict[str, Any]) -> str:
        first = f"| {row['model']} | {row['n']:,} | {row['p']} | {row['simulations']:,} |"
        if "coverage" not in row:
            return f"{first} refused | | | 100 % |"
        parts = [f"{row[name]:.1%}" for name in ("coverage", "least", "privacy")]
        parts.append(f"{row['refused'] / row['simulations']:.1%}")
        return f"{first} {' | '.join(part.replace('%', ' %') for part in parts)} |"

    ordered = sorted(rows, key=lambda row: (MODELS.index(row["model"]), row["n"], row["p"]))
    lines = [head, "|" + "---|" * 8]
    plain = [row for row in ordered if row["data"] == "well-specified"]
    lines += [cells(row) for row in plain]
    given = [row for row in plain if "coverage" in row]
    least = min(row["least"] for row in given)
    low, high = (end(row["coverage"] for row in given) for end in (min, max))
    words = (
        f"{len(given)} of the {len(plain)} rows have intervals. Their coverage lies between {low:.1%} and {high:.1%}; "
        f"the coverage of every single coefficient is at least {least:.1%}."
    )
    lines += [
        "",
        words.replace("%", " %"),
        "",
        "Clipped and misspecified records, n = 10,000 and p = 2:",
        "",
    ]
    lines += [
        "| model | records | simulations | coverage of its target "
        "| coverage of the coefficients that generated the records |"
    ]
    lines += ["|" + "---|" * 5]
    for row in ordered:
        if row["data"] in ("clipped", "misspecified") and "coverage" in row:
            parts = f"{row['coverage']:.1%} | {row['of the truth']:.1%}".replace("%", " %")
            lines.append(f"| {row['model']} | {row['data']} | {row['simulations']:,} | {parts} |")
    fresh = [cells(row) for row in ordered if row["data"] == "fresh"]
    if fresh:
        lines += ["", "Fresh tables, at epsilon = 4 and delta = 1e-5:", "", head, "|" + "---|" * 8]
        lines += fresh
    return "\n".join(lines)


def write_page() -> None:
    """The tables into docs/intervals.md."""
    rows = json.loads((RESULTS / "coverage.json").read_text())
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{render(rows)}\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose description holds this text")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    os.environ.setdefault("RETICENT_THREADS", "1")  # processes, not threads, share the cores
    wanted = [case for case in cases() if given.only in str(case)]
    small = [Case(model, "well-specified", 300, 2) for model in MODELS]
    for case in small:  # compiled once, before processes start that would all do so
        fitted(case, *records(case, case.n, np.random.default_rng(0)), 0)
    measured(wanted, given.simulations, given.minutes, given.jobs, given.out)


if __name__ == "__main__":
    main()
