"""The private LASSO where there are more features than records: excess risk against epsilon.

    python lasso_accuracy.py [real] [law] [radius] [--seeds 5]

Real data: Frank-Wolfe (delta = 1e-6, zero-out, l1 ball of radius 1, entries within 1, no
intercept) beside Frank-Wolfe with the published noise in the whole ball, with as many steps as are
best there, and beside the best decision without privacy, known up to a duality gap that is
counted against us. ``zero`` is what deciding 0 loses. Law: the excess risk over the ball falls as
(n epsilon)^(-2/3) in the worst case (Talwar, Thakurta and Zhang, *Nearly optimal private LASSO*); the
exponent is fitted on records where Frank-Wolfe's 1/T is tight, and on easy ones, which are no test of it.
Results go to results/lasso.json.

The published noise divides by n where the loss is a sum, so it is far too small to be private; the
last column is the epsilon that it really gives.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from erm_accuracy import EPSILONS, cell, folder, lasso_sets, sparse

import reticent
from reticent import erm, losses, sets
from reticent.estimators import PrivateLasso, PrivateLinearRegression

RESULTS = Path(__file__).parent / "results"
DELTA = 1e-6
LOSS = losses.Squared()
COLUMNS = 4000


def keep(part: str, content: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "lasso.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {part: content}, indent=1) + "\n")


def least_loss(X: Any, y: np.ndarray, steps: int = 400) -> float:
    """A lower bound on the least mean loss over the unit l1 ball."""
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(X.shape[1]), X, y, budget=None, steps=steps)
    return LOSS.mean_value(fit.point, X, y) - float(np.min(fit.trace.diagnostics["gap"]))


def private(X: Any, y: np.ndarray, epsilon: float, seed: int) -> erm.Fit:
    """In the unit ball, or a smaller one."""
    budget = reticent.Budget(epsilon, DELTA)
    return erm.frank_wolfe(LOSS, sets.L1Ball(X.shape[1]), X, y, budget=budget, seed=seed)


def real(seeds: int) -> None:
    print(f"{'data':11s} {'n x p':>13s} {'zero':>7s} {'epsilon':>7s} {'private':>14s} {'steps':>6s} "
          f"{'published noise':>15s} {'its true epsilon':>16s}")  # fmt: skip
    rows = []
    for name, load in lasso_sets().items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{name:11s} skipped: no such file in {folder()}; set RETICENT_DATA")
            continue
        n, p = X.shape
        least = least_loss(X, y)
        zero = LOSS.mean_value(np.zeros(p), X, y) - least
        for epsilon in EPSILONS:
            ours = [private(X, y, epsilon, seed) for seed in range(seeds)]
            steps = ours[0].trace.settings["steps"]
            budget = reticent.Budget(epsilon, DELTA)
            printed = [
                erm.frank_wolfe(LOSS, sets.L1Ball(p), X, y, budget=budget, seed=seed,
                                calibration="published")
                for seed in range(seeds)
            ]  # fmt: skip
            row: dict[str, Any] = {
                "data": name, "n": n, "p": p, "epsilon": epsilon, "zero": zero, "steps": steps,
                "set": ours[0].trace.settings["set"],
                "steps of published": printed[0].trace.settings["steps"],
                "excess": [LOSS.mean_value(model.point, X, y) - least for model in ours],
                "published": [LOSS.mean_value(fit.point, X, y) - least for fit in printed],
                "true epsilon of published": printed[0].guarantee.epsilon(DELTA),
            }  # fmt: skip
            rows.append(row)
            print(f"{name:11s} {n:6d}x{p:<6d} {zero:7.4f} {epsilon:7g} {cell(row['excess']):>14s} "
                  f"{steps:6} {cell(row['published']):>15s} "
                  f"{row['true epsilon of published']:16.4g}", flush=True)  # fmt: skip
    keep("real", rows)


def level_columns(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Every column is 1 in a twentieth of the records, at random places; every label is 1.

    For x >= 0 of norm 1 the mean loss is about (0.9025 + 0.0475 |x|_2^2) / 2: the best decision is
    the middle of a face of the ball, spread over all the columns, while T steps give no more than T
    of them, so that |x|_2^2 >= 1/T. That is where Frank-Wolfe's 1/T is tight.
    """
    rng, each = np.random.default_rng([n, seed]), n // 20
    places = [np.sort(rng.choice(n, each, replace=False, shuffle=False)) for _ in range(COLUMNS)]
    starts = each * np.arange(COLUMNS + 1)
    X = sp.csc_array((np.ones(each * COLUMNS), np.concatenate(places), starts), shape=(n, COLUMNS))
    return sp.csr_array(X), np.ones(n)


def five_columns(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Independent signs, and labels that a mixture of five corners fits without error: easy."""
    X = np.random.default_rng([n, seed]).choice([-1.0, 1.0], size=(n, 200))
    return X, X[:, :5] @ np.full(5, 0.2)


def least_by_products(X: Any, y: np.ndarray, gap: float) -> float:
    """A lower bound on the least mean loss, within ``gap``, by accelerated projected descent."""
    n, p = X.shape
    G, b = (X.T @ X).toarray() / n, X.T @ y / n
    ball, step = sets.L1Ball(p), 1.0 / float(np.abs(G).sum(axis=0).max())
    x = z = np.zeros(p)
    t = 1.0
    for k in range(20_000):
        new = ball.project(z - step * (G @ z - b))
        is_back = (z - new) @ (new - x) > 0.0
        later = 1.0 if is_back else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        z = new + (t - 1.0) / later * (new - x)
        x, t = new, later
        if k % 20 == 0:
            g = G @ x - b
            left = float(g @ x + np.abs(g).max())
            if left < gap:
                return 0.5 * float(y @ y) / n + float(0.5 * x @ (g - b)) - left
    raise RuntimeError(f"a gap of {left:g} is left")


def law(seeds: int) -> None:
    """Fresh records and fresh noise for every seed; the exponent is fitted seed by seed."""
    designs: dict[str, tuple[Callable[..., Any], float, tuple[int, ...]]] = {
        "level": (level_columns, 4.0, (1000, 3200, 10_000, 32_000, 100_000)),
        "five": (five_columns, 1.0, (1000, 2000, 4000, 8000, 16_000)),
    }
    found = {}
    for name, (draw, epsilon, sizes) in designs.items():
        print(f"\n{name} columns, epsilon = {epsilon:g}\n{'n':>7s} {'zero':>7s} {'steps':>5s} "
              f"{'radius':>6s} excess risk")  # fmt: skip
        excess, zeros, steps = [], [], []
        for n in sizes:
            values = []
            for seed in range(seeds):
                X, y = draw(n, seed)
                least = least_by_products(X, y, 3e-7) if name == "level" else 0.0
                model = private(X, y, epsilon, seed)
                values.append(LOSS.mean_value(model.point, X, y) - least)
            zeros.append(0.5 * float(y @ y) / n - least)
            steps.append(model.trace.settings["steps"])
            radius = model.trace.settings["set"].split("radius=")[1].rstrip(")")
            excess.append(values)
            print(f"{n:7d} {zeros[-1]:7.4f} {steps[-1]:5d} {radius:>6s} {np.mean(values):.5f} "
                  f"± {np.std(values) / math.sqrt(seeds):.5f}", flush=True)  # fmt: skip
        slopes = np.polyfit(np.log(sizes), np.log(np.array(excess)), 1)[0]
        error = float(np.std(slopes, ddof=1) / math.sqrt(seeds)) if seeds > 1 else math.nan
        print(f"fitted exponent of n: {slopes.mean():.3f} ± {error:.3f}; the law says -0.667")
        found[name] = {
            "epsilon": epsilon, "columns": X.shape[1], "n": sizes, "zero": zeros, "steps": steps,
            "excess": excess, "exponent": float(slopes.mean()), "standard error": error,
        }  # fmt: skip
    keep("law", found)


def radius(seeds: int) -> None:
    """Test R2 by radius, and that of a dense solver, on 6,000 records of a9a and labels of -1 and 1."""
    X, y = sparse("a9a")
    for epsilon in (1.0, 4.0):
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(X.shape[0])[:8000]
            train, test = order[:6000], order[6000:]
            common: dict[str, Any] = {"label_bounds": (-1, 1), "random_state": seed}
            entrants = {
                f"radius {size}": PrivateLasso(
                    epsilon, DELTA, radius=size, feature_norm=1.0, solver="frank-wolfe", **common
                )
                for size in (1.0, 2.0, 4.0, None)
            }
            entrants["dense"] = PrivateLinearRegression(epsilon, DELTA, feature_norm=4.0, **common)
            for name, model in entrants.items():
                score = model.fit(X[train], y[train]).score(X[test], y[test])
                found.setdefault(name, []).append(score)
        words = ", ".join(f"{name} {np.mean(scores):.3f}" for name, scores in found.items())
        chosen = entrants["radius None"].settings_["radius"]
        print(f"a9a, epsilon {epsilon:g}: {words}; None is {chosen:.3g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["real", "law"])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    if "real" in arguments.parts:
        real(arguments.seeds)
    if "law" in arguments.parts:
        law(arguments.seeds)
    if "radius" in arguments.parts:
        radius(arguments.seeds)


if __name__ == "__main__":
    main()
