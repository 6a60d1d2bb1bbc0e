"""Linear regression at the same guarantee: ours, AdaSSP as printed and exactly calibrated, and diffprivlib.

Ours is the estimator at its defaults, which learns an intercept besides and keeps predictions within the label
bounds: on these records it may do better than least squares, which does neither. The joint sufficient statistics that
it takes where records are many stand beside it.

R2 below 0 is worse than predicting the mean; diffprivlib's is so where noise on the normal
equations has made them indefinite.
"""

from __future__ import annotations

from typing import Any

import erm_accuracy
import numpy as np
from table import Mean, Table, of_means, repeat

import reticent
from questions import Run
from questions.data import Missing, file, unit_rows
from reticent import erm, losses

QUESTION = 2
EPSILONS = (0.1, 1.0, 8.0)
WAYS = {
    "joint": {},
    "AdaSSP, exact": {"method": "adassp"},
    "AdaSSP, printed": {"method": "adassp", "calibration": "published"},
}


def scaled(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised, a constant added, rows of norm one, labels within one."""
    X = np.c_[(X - X.mean(0)) / X.std(0), np.ones(len(X))]
    return unit_rows(X), (y - y.mean()) / np.abs(y - y.mean()).max()


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    return scaled(*load_diabetes(return_X_y=True))


def drawn(count: int = 20_000, columns: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, columns))
    return scaled(X, X @ rng.standard_normal(columns) + rng.standard_normal(count))


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    path, target, dropped = erm_accuracy.regression_sets()[name]
    frame = pd.read_parquet(file(path))
    y = frame.pop(target or frame.columns[-1]).to_numpy(float)
    kept = frame.drop(columns=[c for c in dropped if c in frame]).select_dtypes("number")
    return scaled(kept.to_numpy(float), y)


def linear(run: Run) -> Table:
    table = Table(
        "linear", QUESTION, "Linear regression",
        ["data", "ε", "least squares", "ours", "our joint statistics", "AdaSSP, exact noise",
         "AdaSSP, printed noise", "diffprivlib", "ours / AdaSSP as printed", "ours − AdaSSP with exact noise"],
        "R² on all records; δ = 10⁻⁶, zero-out (diffprivlib: δ = 0 and replacement, the only guarantee "
        "it has). Rows have norm one including a constant; labels lie within 1. Ours is "
        "`PrivateLinearRegression` at its defaults, which adds an intercept and clips predictions. "
        "The ratio compares R² and is omitted where AdaSSP's R² is at most 0.05. In the last column, ours is better "
        "above 0.",
        settings=["diffprivlib: `LinearRegression` with `bounds_X` = ±1, `bounds_y` = ±1, with or "
                  "without an intercept, whichever is better."],
    )  # fmt: skip
    peer = run.peer("diffprivlib")
    sources = {"diabetes": diabetes, "drawn": drawn}
    sources |= {name: (lambda name=name: real(name)) for name in erm_accuracy.regression_sets()}
    seeds = run.choose(10, 20)
    for name, load in sources.items():
        try:
            X, y = load()
        except Missing as missing:
            table.settings.append(f"{name} is left out: {missing}")
            continue
        total = float(((y - y.mean()) ** 2).sum())

        def r2(x: np.ndarray, X: np.ndarray = X, y: np.ndarray = y, total: float = total) -> float:
            return float(1.0 - ((y - X @ x) ** 2).sum() / total)

        top = r2(np.linalg.lstsq(X, y)[0])
        path = peer.put(name, X=X, y=y)
        for epsilon in EPSILONS:
            budget = reticent.Budget(epsilon, 1e-6)

            def sample(
                seed: int, X: Any = X, y: Any = y, budget: Any = budget, r2: Any = r2
            ) -> dict[str, float]:
                common = {"budget": budget, "seed": seed}
                fits = {
                    way: erm.sufficient_statistics(losses.Squared(), None, X, y, **more, **common)
                    for way, more in WAYS.items()
                }
                model = reticent.PrivateLinearRegression(
                    budget.epsilon, budget.delta, random_state=seed
                )
                found = {"ours": float(model.fit(X, y).score(X, y))}
                return found | {way: r2(fit.point) for way, fit in fits.items()}

            pairs = [("ours", "AdaSSP, printed")]
            found = repeat(sample, pairs, least=seeds, most=100, seconds=run.choose(None, 120))
            asked = {"data": path, "epsilon": epsilon}
            theirs = max(
                (
                    [peer.ask("linear", intercept=b, seed=s, **asked)["r2"] for s in range(seeds)]
                    for b in (False, True)
                ),
                key=np.median,
            )
            printed = found["AdaSSP, printed"]
            share = of_means(found["ours"], printed) if np.mean(printed) > 0.05 else None
            gain = Mean.of(np.subtract(found["ours"], found["AdaSSP, exact"]))
            means = [Mean.of(values) for values in found.values()]
            table.add(name, epsilon, top, *means, Mean.of(theirs), share, gain)
    return table
