"""The private LASSO where there are more features than records: excess risk against epsilon.

    python lasso_accuracy.py [real] [law] [--seeds 5]

Real data: `PrivateLasso` (delta = 1e-6, zero-out, l1 ball of radius 1, entries within 1, no
intercept) beside Frank-Wolfe with the published noise, which is true to its own formula at the same
number of steps, and beside the best decision without privacy, known up to a duality gap that is
counted against us. ``zero`` is what deciding 0 loses. Law: on synthetic records the excess risk falls
as (n epsilon)^(-2/3) (Talwar, Thakurta and Zhang, *Nearly optimal private LASSO*); the fitted exponent
is printed. Results go to results/lasso.json.

The one thing a reader would get wrong: the published noise divides by n where the loss is a sum, so
it is far too small to be private; the last column is the epsilon that it really gives.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from erm_accuracy import EPSILONS, cell, folder, lasso_sets

import tacit
from tacit import erm, losses, sets
from tacit.estimators import PrivateLasso

RESULTS = Path(__file__).parent / "results"
DELTA = 1e-6
LOSS = losses.Squared()


def keep(part: str, content: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "lasso.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {part: content}, indent=1) + "\n")


def least_loss(X: Any, y: np.ndarray, steps: int = 400) -> float:
    """A lower bound on the least mean loss over the unit l1 ball."""
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(X.shape[1]), X, y, budget=None, steps=steps)
    return LOSS.mean_value(fit.point, X, y) - float(np.min(fit.trace.diagnostics["gap"]))


def private(X: Any, y: np.ndarray, epsilon: float, seed: int) -> PrivateLasso:
    return PrivateLasso(
        epsilon, DELTA, fit_intercept=False, solver="frank-wolfe", random_state=seed
    ).fit(X, y)


def real(seeds: int) -> None:
    print(f"{'data':11s} {'n x p':>13s} {'zero':>7s} {'epsilon':>7s} {'private':>14s} {'steps':>6s} "
          f"{'published noise':>15s} {'its true epsilon':>16s}")  # fmt: skip
    rows = []
    for name, load in lasso_sets().items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{name:11s} skipped: no such file in {folder()}; set TACIT_DATA")
            continue
        n, p = X.shape
        least = least_loss(X, y)
        zero = LOSS.mean_value(np.zeros(p), X, y) - least
        for epsilon in EPSILONS:
            ours = [private(X, y, epsilon, seed) for seed in range(seeds)]
            steps = ours[0].settings_["steps"]
            budget = tacit.Budget(epsilon, DELTA)
            printed = [
                erm.frank_wolfe(LOSS, sets.L1Ball(p), X, y, budget=budget, seed=seed, steps=steps,
                                calibration="published")
                for seed in range(seeds)
            ]  # fmt: skip
            row: dict[str, Any] = {
                "data": name, "n": n, "p": p, "epsilon": epsilon, "zero": zero, "steps": steps,
                "excess": [LOSS.mean_value(model.coef_, X, y) - least for model in ours],
                "published": [LOSS.mean_value(fit.point, X, y) - least for fit in printed],
                "true epsilon of published": printed[0].guarantee.epsilon(DELTA),
            }  # fmt: skip
            rows.append(row)
            print(f"{name:11s} {n:6d}x{p:<6d} {zero:7.4f} {epsilon:7g} {cell(row['excess']):>14s} "
                  f"{steps:6} {cell(row['published']):>15s} "
                  f"{row['true epsilon of published']:16.4g}", flush=True)  # fmt: skip
    keep("real", rows)


def law(seeds: int) -> None:
    """Independent signs, and labels that a corner-to-corner mixture of five fits without error."""
    p, epsilon, sizes = 200, 1.0, (1000, 2000, 4000, 8000, 16000)
    means = []
    weights = np.where(np.arange(p) < 5, 0.2, 0.0)
    print(
        f"\nsynthetic, p = {p}, epsilon = {epsilon:g}, deciding 0 loses 0.1\n{'n':>7s} excess risk"
    )
    for n in sizes:
        X = np.random.default_rng(n).choice([-1.0, 1.0], size=(n, p))
        y = X @ weights
        values = [LOSS.mean_value(private(X, y, epsilon, s).coef_, X, y) for s in range(seeds)]
        means.append(float(np.mean(values)))
        print(f"{n:7d} {cell(values)}", flush=True)
    slope = float(np.polyfit(np.log(sizes), np.log(means), 1)[0])
    print(f"fitted exponent of n: {slope:.2f}; the law says -0.67")
    keep("law", {"n": sizes, "excess": means, "exponent": slope})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["real", "law"])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    if "real" in arguments.parts:
        real(arguments.seeds)
    if "law" in arguments.parts:
        law(arguments.seeds)


if __name__ == "__main__":
    main()
