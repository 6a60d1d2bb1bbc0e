"""Online learners: a record beside the bare drawing of its noise, beside River, and beside a loop in NumPy.

River's models are not private; they are what a stream costs without privacy, one Python call a
record. The loop in NumPy is private in floating point, by the plain tree, as one would write it in
an afternoon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from table import Table
from timing import Measured, Ratio, measure

from questions import Run
from questions.totals import BLOCK, BUDGET, bare, whole_blocks
from reticent import losses, online, sets

QUESTION = 3
HORIZON = 2**30  # beyond what any number of rounds can use up
# The one learner whose set-up takes as long as its horizon: still more than the most rounds use.
SHORTER = 2**24


def stream(steps: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((steps, dim))
    X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(rng.random(steps) < 0.5, 1.0, -1.0)


def dictionaries(X: np.ndarray, y: np.ndarray) -> list[tuple[dict[str, float], bool]]:
    names = [f"feature {i}" for i in range(X.shape[1])]
    return [
        (dict(zip(names, a.tolist(), strict=True)), bool(b > 0)) for a, b in zip(X, y, strict=True)
    ]


def each(call: Callable[..., Any], records: list[tuple[Any, Any]]) -> Callable[[], None]:
    def task() -> None:
        for x, y in records:
            call(x, y)

    return task


def only(call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, _: call(x)


def numpy_loop(X: np.ndarray, y: np.ndarray, radius: float = 5.0) -> Callable[[], None]:
    """DP-FTRL with the binary tree, a vector a level, logistic loss, projection onto a ball."""
    dim, levels = X.shape[1], HORIZON.bit_length()
    rng = np.random.default_rng(0)
    sigma, weight = np.sqrt(levels) / BUDGET.mu, 1000.0
    clean, noise = np.zeros((levels, dim)), np.zeros((levels, dim))
    state = {"t": 0, "x": np.zeros(dim)}

    def task() -> None:
        t, x = state["t"], state["x"]
        for a, b in zip(X, y, strict=True):
            t += 1
            g = -b / (1.0 + np.exp(b * (a @ x))) * a
            level = (t & -t).bit_length() - 1
            clean[level] = g + clean[:level].sum(axis=0)
            clean[:level] = 0.0
            noise[:level] = 0.0
            noise[level] = sigma * rng.standard_normal(dim)
            x = -(clean + noise).sum(axis=0) / weight
            size = np.sqrt(x @ x)
            if size > radius:
                x *= radius / size
        state["t"], state["x"] = t, x

    return task


def learners(dim: int, precision: str) -> dict[str, Callable[[], Any]]:
    """What makes each of them."""
    common = {"budget": BUDGET, "horizon": HORIZON, "noise_precision": precision}
    ball, ridge = sets.L2Ball(dim, 5.0), losses.Logistic(ridge=0.01)
    leader = partial(online.FollowTheApproximateLeader, ball, ridge, **common)
    shorter = common | {"horizon": SHORTER}
    return {
        "FTRL": partial(online.FollowTheRegularizedLeader, ball, losses.Logistic(), **common),
        "approximate leader": leader,
        "local linear steps": partial(leader, step="local-linear"),
        "perturbed iterates": partial(online.PerturbedIterates, ball, ridge, **shorter),
    }


def streams(run: Run) -> Table:
    from river import linear_model

    table = Table(
        "streams",
        QUESTION,
        "A stream in one call",
        ["learner", "dim", "precision", "events per second", "ratio to the noise alone", "target",
         "River / ours", "NumPy loop / ours"],
        "`run` with logistic loss on a ball. 'Ratio to the noise alone': time divided by that of merely drawing "
        "as much noise. River's "
        "`LogisticRegression.learn_one` is not private; the NumPy loop is DP-FTRL with a binary "
        "tree in floating point. Above 1 ours is faster.",
    )  # fmt: skip
    few = 500
    for dim in (10, 54):
        steps = whole_blocks(run.choose(300_000, 1_000_000), dim)
        X, y = stream(steps, dim)
        model = linear_model.LogisticRegression()
        tasks: dict[str, Callable[[], object]] = {
            "river": each(model.learn_one, dictionaries(X[:few], y[:few])),
            "numpy": numpy_loop(X[:few], y[:few]),
        }
        pairs = []
        for precision in ("float", "lattice"):
            tasks[f"{precision} bare"] = bare(precision, dim, steps)
            for name, make in learners(dim, precision).items():
                tasks[f"{precision} {name}"] = partial(make().run, X, y)
                pairs += [
                    (f"{precision} {name}", f"{precision} bare"),
                    ("river", f"{precision} {name}"),
                ]
        seconds = measure(tasks, pairs, seconds=run.choose(15, 80))
        for precision, target in (("float", 2.5), ("lattice", 1.3)):
            for name in learners(dim, precision):
                mine = seconds[f"{precision} {name}"]
                table.add(
                    name, dim, precision, Measured.of(steps / mine),
                    Ratio.of(mine, seconds[f"{precision} bare"]),
                    target if (name, dim) == ("FTRL", 54) else None,
                    Ratio.of(seconds["river"] / few, mine / steps),
                    Ratio.of(seconds["numpy"] / few, mine / steps),
                )  # fmt: skip
    return table


def one_at_a_time(run: Run) -> Table:
    from river import linear_model

    from reticent.estimators import river as twins

    table = Table(
        "one_at_a_time",
        QUESTION,
        "One record at a time",
        ["what", "dim", "µs per record", "ours / River", "target"],
        "One Python call per record, noise on the lattice. River's corresponding model, which is not "
        "private, learns the same records; below 1 ours "
        "is faster.",
    )  # fmt: skip
    # Noise is drawn in blocks; a round spans whole blocks or many, or else the rounds that meet one
    # and those that do not would be two kinds.
    count = run.choose(1, 3) * (BLOCK // 10)
    for dim in (10, 54):
        X, y = stream(count, dim)
        records = dictionaries(X, y)
        names = list(records[0][0])
        numbers = [(x, float(label) - 0.5) for x, label in records]
        arrays = list(zip(X, y.tolist(), strict=True))
        logistic, linear = linear_model.LogisticRegression(), linear_model.LinearRegression()
        ours = twins.OnlineLogisticRegression(features=names)
        leader = learners(dim, "lattice")["FTRL"]()
        tasks: dict[str, Callable[[], object]] = {
            "River, logistic": each(logistic.learn_one, records),
            "River, linear": each(linear.learn_one, numbers),
            "River, predict_proba_one": each(only(logistic.predict_proba_one), records),
            "learn_one, logistic": each(ours.learn_one, records),
            "learn_one, logistic, window 1024": each(
                twins.OnlineLogisticRegression(features=names, window=1024).learn_one, records
            ),
            "learn_one, logistic, hashed into 64": each(
                twins.OnlineLogisticRegression(dimension=64).learn_one, records
            ),
            "learn_one, linear": each(twins.OnlineLinearRegression(features=names).learn_one, numbers),
            "predict_proba_one": each(only(ours.predict_proba_one), records),
            "FTRL.update, gradients": each(only(leader.update), arrays),
            "FTRL.observe": each(only(leader.observe), [(pair, None) for pair in arrays]),
        }  # fmt: skip
        against = {
            "learn_one, linear": "River, linear",
            "predict_proba_one": "River, predict_proba_one",
        }
        mine = [name for name in tasks if not name.startswith("River")]
        pairs = [(name, against.get(name, "River, logistic")) for name in mine]
        seconds = measure(tasks, pairs, seconds=run.choose(10, 60))
        for name, other in pairs:
            target = None if name == "predict_proba_one" or "hashed" in name else 1.5
            micro = Measured.of(1e6 / count * seconds[name])
            table.add(name, dim, micro, Ratio.of(seconds[name], seconds[other]), target)
    return table
