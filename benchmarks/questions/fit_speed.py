"""Whole fits: private logistic regression beside scikit-learn and diffprivlib, and the best fixed decision.

Scikit-learn and diffprivlib stop by their tolerance, ours by a certified bound, which the guarantee
accounts for; a faster fit that stops anywhere would give another guarantee.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from table import Table
from timing import Measured, Ratio, measure

import reticent
from questions import Run
from questions.data import Missing, classification
from reticent import erm, losses

QUESTION = 3
BUDGET = reticent.Budget(1.0, 0.0, "replace")


def fits(run: Run) -> Table:
    table = Table(
        "fits",
        QUESTION,
        "Logistic regression, a whole fit",
        ["data", "records", "columns", "ours, ms", "ours / scikit-learn", "target", "ours / diffprivlib", "target ",
         "our solver, ms", "our solver / scikit-learn", "our solver / diffprivlib"],
        "ε = 1, δ = 0 under replacement, diffprivlib's guarantee. Ours: "
        "`PrivateLogisticRegression` with its defaults and an intercept, beside theirs with an intercept. Our "
        "solver: `erm.objective_perturbation` with its defaults, beside theirs, both without an "
        "intercept. Below 1 ours is faster. scikit-learn's fit is not private.",
        settings=[
            "scikit-learn: `LogisticRegression(C=1)`, lbfgs, default tolerance.",
            "diffprivlib: `LogisticRegression(epsilon=1, data_norm=1, C=1)`, timed in its own process.",
        ],
    )  # fmt: skip
    peer = run.peer("diffprivlib")
    names = ("breast_cancer", "digits", "synthetic", *run.choose((), ("adult", "a9a", "covertype")))
    for name in names:
        try:
            X, y = classification(name)
        except Missing as missing:
            table.settings.append(f"{name} is left out: {missing}")
            continue
        path = peer.put(name, X=X, y=y)
        few = 20 if len(y) < 5000 else 2  # short timings differ from process to process

        def estimator(X: np.ndarray = X, y: np.ndarray = y, few: int = few) -> None:
            for seed in range(few):
                reticent.PrivateLogisticRegression(
                    1.0, 0.0, neighbours="replace", classes=(-1.0, 1.0), random_state=seed
                ).fit(X, y)

        def solver(X: np.ndarray = X, y: np.ndarray = y, few: int = few) -> None:
            for seed in range(few):
                erm.objective_perturbation(losses.Logistic(), None, X, y, budget=BUDGET, seed=seed)

        def scikit(intercept: bool, X: np.ndarray = X, y: np.ndarray = y, few: int = few) -> None:
            for _ in range(few):
                LogisticRegression(C=1.0, fit_intercept=intercept, max_iter=1000).fit(X, y)

        asked = {"data": path, "epsilon": 1.0, "C": 1.0, "seed": 0, "repeats": few}
        tasks = {
            "ours": estimator,
            "scikit": partial(scikit, True),
            "diffprivlib": partial(peer.clock, "logistic", intercept=True, **asked),
            "solver": solver,
            "scikit, plain": partial(scikit, False),
            "diffprivlib, plain": partial(peer.clock, "logistic", intercept=False, **asked),
        }
        pairs = [(mine, f"{other}{end}") for mine, end in (("ours", ""), ("solver", ", plain"))
                 for other in ("scikit", "diffprivlib")]  # fmt: skip
        seconds = measure(tasks, pairs, seconds=run.choose(12, 80))
        # Ours and scikit-learn's are of several fits, diffprivlib's worker answers for one.
        one = {k: v if k.startswith("diffprivlib") else v / few for k, v in seconds.items()}
        own = {k: Measured.of(1e3 * one[k]) for k in ("ours", "solver")}
        shares = [Ratio.of(one[a], one[b]) for a, b in pairs]
        table.add(
            name, len(y), X.shape[1], own["ours"], shares[0], 5.0, shares[1], 1.0,
            own["solver"], *shares[2:],
        )  # fmt: skip
    return table


def best_fixed(run: Run) -> Table:
    """The best decision in hindsight, to a certified gap, beside solvers without a certificate."""
    import warnings

    from best_fixed import GAP, RIDGE, random_records, scikit_logistic, scikit_ridge, smooth_peer

    table = Table(
        "best_fixed",
        QUESTION,
        "The best fixed decision in hindsight",
        ["loss", "records", "columns", "peer", "ours, s", "peer / ours", "peer's loss above our certified bound"],
        f"Not private. Ours stops at a certified relative gap of {GAP:g}; the peers stop at their own "
        "tolerance, and the last column says how far above our lower bound they ended. Read the last "
        "two columns together; above 1 ours is faster.",
    )  # fmt: skip
    count, columns = run.choose((20_000, 50), (500_000, 90))
    A, signs, response = random_records(count, columns)
    logistic, squared = losses.Logistic(ridge=RIDGE), losses.Squared(ridge=RIDGE)
    cases = (
        ("logistic, ridge", logistic, signs, "scikit-learn lbfgs", scikit_logistic(A, signs)),
        ("logistic, ridge", logistic, signs, "SciPy L-BFGS-B", smooth_peer(logistic, A, signs)),
        ("squared, ridge", squared, response, "scikit-learn Ridge", scikit_ridge(A, response)),
    )
    for name, loss, y, peer, solve in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", losses.GapWarning)
            ours = partial(losses.best_fixed, None, loss, A, y, gap=GAP, time_limit=300.0)
            tasks = {"ours": ours, "theirs": solve}
            seconds = measure(tasks, [("theirs", "ours")], rounds=7, seconds=run.choose(6, 100))
            above = loss.mean_value(solve(), A, y) / ours().lower_bound - 1.0
        share = Ratio.of(seconds["theirs"], seconds["ours"])
        own = Measured.of(seconds["ours"])
        table.add(name, count, columns, peer, own, share, Measured.of([above]))
    return table
