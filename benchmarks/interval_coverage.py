"""Coverage of the 95 % intervals of ``summary()``, at epsilon = 1 and delta = 1e-6.

python benchmarks/interval_coverage.py [--simulations 2000] [--seconds 600] [--only TEXT]: for n in {1e3, 1e4, 1e5} and
p in {2, 10, 50}, of linear regression and of logistic regression with and without a capped loss, well-specified: the share
of intervals that hold the true coefficient (a mean over coefficients, the intercept included), the least over
coefficients, how much of the variance is privacy's, and how many runs were refused an interval. Then clipped and
misspecified records at n = 1e4, p = 2: the same about what the interval says that it is about, and about the
coefficients that made the records. A row ends after so many seconds of processor time. Rows go to
benchmarks/results/coverage.json, and from there to docs/intervals.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from reticent import PrivateLinearRegression, PrivateLogisticRegression
from reticent.estimators import NoIntervals
from reticent.losses import CappedLogistic

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "coverage.json"
PAGE = ROOT / "docs" / "intervals.md"
BEGIN, END = "<!-- generated: coverage -->", "<!-- end generated -->"
MODELS = ("linear", "logistic", "capped logistic")
DATA = ("well-specified", "clipped", "misspecified")
CAPS = {"logistic": 1.0, "capped logistic": 0.5}
LARGE = 1_000_000  # records that stand for the population
ENOUGH = 20  # refused so often at first, and never not: refused


def truth(model: str, p: int) -> np.ndarray:
    """Coefficients and the intercept that make the records."""
    signs = (-1.0) ** np.arange(p) / np.sqrt(np.arange(1, p + 1))
    return np.append(0.5 * signs, 0.1) if model == "linear" else np.append(2.0 * signs, 0.3)


def records(model: str, data: str, n: int, p: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features within norm 1, unless they are to be clipped, and labels."""
    X = rng.uniform(-1, 1, (n, p)) * ((1.6 if data == "clipped" else 1.0) / math.sqrt(p))
    beta = truth(model, p)
    z = X @ beta[:p] + beta[p]
    bent = data == "misspecified"
    if bent:
        z += 0.5 * (X[:, 0] ** 2 - 1.0 / 6.0) * (1.0 if model == "linear" else 4.0)
    if model == "linear":
        # errors whose variance depends on a feature, where the model is wrong
        return X, z + rng.uniform(-0.2, 0.2, n) * (np.abs(X[:, 0]) * 2.0 if bent else 1.0)
    cap = CAPS[model]
    share = expit(z) if cap == 1.0 or bent else CappedLogistic(cap).probability(z)
    return X, (rng.random(n) < share).astype(int)


@functools.cache
def population(model: str, data: str, p: int) -> tuple[float, ...]:
    """What the intervals say that they are about: the best coefficients for records as they are clipped."""
    X, y = records(model, data, LARGE, p, np.random.default_rng(0))
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    A = np.column_stack([X, np.ones(len(X))])
    if model == "linear":
        return tuple(np.linalg.lstsq(A, np.clip(y, -1, 1), rcond=None)[0])
    border = math.log(CAPS[model] / (1.0 - CAPS[model])) if CAPS[model] < 1.0 else np.inf
    signed = A * np.where(y == 1, 1.0, -1.0)[:, None]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        m = signed @ x
        inside = np.maximum(m, -border)
        value = np.logaddexp(0.0, -inside) + np.where(m < -border, CAPS[model] * (-border - m), 0.0)
        return float(value.mean()), -np.minimum(expit(-m), CAPS[model]) @ signed / len(m)

    found = minimize(loss, truth(model, p), jac=True, method="BFGS", options={"gtol": 1e-7})
    return tuple(found.x)


def fitted(model: str, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    common: dict[str, Any] = {
        "feature_norm": 1.0, "intervals": True, "noise_precision": "float", "random_state": seed,
    }  # fmt: skip
    if model == "linear":
        return PrivateLinearRegression(1.0, 1e-6, label_bounds=(-1, 1), **common).fit(X, y)
    return PrivateLogisticRegression(
        1.0, 1e-6, classes=[0, 1], influence=CAPS[model], **common
    ).fit(X, y)


def coverage(
    model: str, data: str, n: int, p: int, simulations: int, seconds: float
) -> dict[str, Any]:
    """One row of the table."""
    beta = truth(model, p)
    target = beta if data == "well-specified" else np.array(population(model, data, p))
    hits, of_truth, share, refused, done = np.zeros(p + 1), np.zeros(p + 1), 0.0, 0, 0
    start = time.process_time()
    while done < simulations and (done < 30 or time.process_time() - start < seconds):
        if refused == done == ENOUGH:
            break
        rng = np.random.default_rng([n, p, done])
        X, y = records(model, data, n, p, rng)
        done += 1
        try:
            found = fitted(model, X, y, done).summary()
        except NoIntervals:
            refused += 1
            continue
        low, high = found.interval.T
        hits += (low <= target) & (target <= high)
        of_truth += (low <= beta) & (beta <= high)
        share += float(np.mean((found.privacy_error / found.standard_error) ** 2))
    given = done - refused
    row = {"model": model, "data": data, "n": n, "p": p, "simulations": done, "refused": refused}
    if given:
        row |= {
            "coverage": hits.mean() / given, "least": hits.min() / given,
            "of the truth": of_truth.mean() / given, "privacy": share / given,
        }  # fmt: skip
    return row


def render(rows: list[dict[str, Any]]) -> str:
    """The tables in Markdown."""
    head = "| model | n | p | simulations | coverage | least | privacy's share of the variance | refused |"
    lines = [head, "|" + "---|" * 8]

    def cells(row: dict[str, Any]) -> str:
        first = f"| {row['model']} | {row['n']:,} | {row['p']} | {row['simulations']:,} |"
        if "coverage" not in row:
            return f"{first} refused | | | 100 % |"
        parts = [f"{row[name]:.1%}" for name in ("coverage", "least", "privacy")]
        parts.append(f"{row['refused'] / row['simulations']:.1%}")
        return f"{first} {' | '.join(part.replace('%', ' %') for part in parts)} |"

    lines += [cells(row) for row in rows if row["data"] == DATA[0]]
    lines += ["", "Clipped and misspecified, n = 10,000 and p = 2:", ""]
    lines += [
        "| model | records | simulations | about its target | about the coefficients that made the records |"
    ]
    lines += ["|" + "---|" * 5]
    for row in rows:
        if row["data"] != DATA[0] and "coverage" in row:
            parts = f"{row['coverage']:.1%} | {row['of the truth']:.1%}".replace("%", " %")
            lines.append(f"| {row['model']} | {row['data']} | {row['simulations']:,} | {parts} |")
    return "\n".join(lines)


def write(rows: list[dict[str, Any]]) -> None:
    """Into the file of results and the page."""
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{render(rows)}\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--only", default="", help="rows whose description holds this text")
    given = parser.parse_args()
    cases = [
        (m, DATA[0], n, p) for m in MODELS for n in (1000, 10_000, 100_000) for p in (2, 10, 50)
    ]
    cases += [(m, data, 10_000, 2) for m in MODELS for data in DATA[1:]]
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    by_case = {(row["model"], row["data"], row["n"], row["p"]): row for row in kept}
    for case in cases:
        if given.only not in f"{case[0]}, {case[1]}, n={case[2]}, p={case[3]}.":
            continue
        by_case[case] = coverage(*case, given.simulations, given.seconds)
        print(by_case[case], flush=True)
        write([by_case[each] for each in cases if each in by_case])


if __name__ == "__main__":
    main()
