"""Online learners: how their regret grows, and how they do on the papers' own experiments and on real streams.

    python benchmarks/online_regret.py [growth | synthetic | window | covertype | flights | blog | electricity]

Real data is looked for in the folder that RETICENT_DATA names, else in ../shared/data beside the checkout; a part whose
data is not there says so and is skipped. Losses, regret and accuracy are read off the data: not private.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import reticent
from reticent import losses, online, sets
from reticent.papers.figures.data import CARRIERS
from reticent.papers.figures.online_2a import NoNoise

DELTA = 1e-6


def data(name: str) -> Path | None:
    folder = os.environ.get("RETICENT_DATA") or Path(__file__).parents[2] / "shared" / "data"
    path = Path(folder) / name
    if not path.exists():
        print(f"{name} is not in {folder}: this part is skipped")
        return None
    return path


# ------------------------------------------------------------------------------------------------ growth


def fit(x: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Slope of the mean of Y (repeats by horizons) over x, and its 95 % interval's half width by repeats."""
    centered = x - x.mean()
    slopes = (Y @ centered) / (centered @ centered)
    return float(slopes.mean()), float(1.96 * slopes.std(ddof=1) / math.sqrt(len(slopes)))


def classes(T: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((T, dim))
    A /= np.linalg.norm(A, axis=1)[:, None]
    w = np.ones(dim) / math.sqrt(dim)
    return A, np.where(A @ w + 0.3 * rng.standard_normal(T) > 0, 1.0, -1.0)


def growth(repeats: int = 20) -> None:
    horizons = 2 ** np.arange(8, 17)
    dim, ball = 5, sets.L2Ball(5, 1.0)
    budget, window = reticent.Budget(1.0, DELTA), reticent.Budget(1.0, DELTA, window=64)
    strong, plain = losses.Logistic(ridge=0.5), losses.Logistic()
    hard = losses.Linear()
    common = {"noise_precision": "float"}

    def ftal(step):
        return lambda T, s: online.FollowTheApproximateLeader(
            ball, strong, step=step, budget=window, seed=s, **common
        )

    cases = {
        "approximate leader, window 64": (ftal("projection"), strong, "log", None),
        "local linear steps, window 64": (ftal("local-linear"), strong, "log", None),
        "approximate leader, for ever": (
            lambda T, s: online.FollowTheApproximateLeader(
                ball, strong, budget=budget, horizon=T, seed=s, **common
            ), strong, "log", None,
        ),
        "FTRL, logistic": (
            lambda T, s: online.FollowTheRegularizedLeader(
                ball, plain, budget=budget, horizon=T, seed=s, **common
            ), plain, "power", 0.5,
        ),
        "FTRL, random linear losses": (
            lambda T, s: online.FollowTheRegularizedLeader(
                ball, hard, budget=budget, horizon=T, seed=s, **common
            ), hard, "power", 0.5,
        ),
        "implicit iterates, ridge": (
            lambda T, s: online.PerturbedIterates(
                ball, strong, budget=budget, horizon=T, seed=s, **common
            ), strong, "power", 0.5,
        ),
        "gradient iterates, ridge": (
            lambda T, s: online.PerturbedIterates(
                ball, strong, inner=online.GradientDescent(), budget=budget, horizon=T, seed=s, **common
            ), strong, "power", 0.5,
        ),
        "implicit iterates, added regulariser": (
            lambda T, s: online.PerturbedIterates(
                ball, plain, added_regularizer="auto", budget=budget, horizon=T, seed=s, **common
            ), plain, "power", 2 / 3,
        ),
        "approximate leader, no noise": (
            lambda T, s: online.FollowTheApproximateLeader(
                ball, strong, budget=budget, horizon=T, total=NoNoise, anchor=0.0, **common
            ), strong, "log", None,
        ),
        "FTRL, no noise, random linear losses": (
            lambda T, s: online.FollowTheRegularizedLeader(
                ball, hard, budget=budget, horizon=T, total=NoNoise,
                regularizer=math.sqrt(T), **common,
            ), hard, "power", 0.5,
        ),
    }  # fmt: skip
    print(
        f"\ngrowth of the regret over T = 2^8, ..., 2^16, {repeats} repeats, dim {dim}, epsilon 1"
    )
    for name, (build, loss, kind, theorem) in cases.items():
        regret = np.empty((repeats, len(horizons)))
        for s in range(repeats):
            A, y = classes(int(horizons[-1]), dim, s)
            if isinstance(loss, losses.Linear):
                A = A * y[:, None]
                A = A * np.random.default_rng(s).choice([-1.0, 1.0], len(A))[:, None]
            for h, T in enumerate(horizons):
                play = build(int(T), s).run(A[:T], y[:T], keep=1, keep_records=False)
                best = losses.best_fixed(ball, loss, A[:T], y[:T], gap=1e-5)
                regret[s, h] = play.total_loss - best.total
        mean = regret.mean(axis=0)
        half = len(horizons) // 2
        power, width = fit(np.log(horizons[half:]), np.log(np.maximum(regret[:, half:], 1e-9)))
        whole, _ = fit(np.log(horizons), np.log(np.maximum(mean, 1e-9))[None].repeat(2, 0))
        numbers = " ".join(f"{v:7.1f}" for v in mean)
        line = f"{name:38} {numbers}  exponent {whole:.3f}, later half {power:.3f} +- {width:.3f}"
        if kind == "log":
            slope, spread = fit(np.log(horizons), regret)
            residual = mean - np.polyval(np.polyfit(np.log(horizons), mean, 1), np.log(horizons))
            bend = 1 - residual.var() / mean.var()
            line += f"; against ln T: slope {slope:.2f} +- {spread:.2f}, R^2 {bend:.3f} (aim: exponent below 0.15)"
        else:
            line += f" (theorem: {theorem:.3f})"
        print(line, flush=True)


# ------------------------------------------------------------------------------------------------ [online] G.1


def synthetic(repeats: int = 3) -> None:
    print("\n[online] G.1: d = 10, T = 100,000, alpha = 1, delta = 1e-6: average regret of PQFTL")
    aims = {0.01: 5.3e-2, 0.1: 5.7e-3, 1.0: 5.6e-4, 10.0: 6.7e-5}
    T, d = 100_000, 10
    loss = losses.Squared(ridge=1.0)
    rng = np.random.default_rng(0)
    star = rng.standard_normal(d)
    star /= np.linalg.norm(star)
    A = rng.standard_normal((T, d)) / math.sqrt(d)
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1))[:, None]
    y = np.clip(A @ star + 0.01 * rng.standard_normal(T), -1, 1)
    best = losses.best_fixed(None, loss, A, y, gap=1e-10)

    def average(**more):
        out = []
        for s in range(repeats):
            learner = online.QuadraticLeader(
                d, loss, horizon=T, seed=s, noise_precision="float", **more
            )
            out.append((learner.run(A, y, keep=1, keep_records=False).total_loss - best.total) / T)
        return float(np.mean(out)), float(np.std(out))

    clean, _ = average(budget=reticent.Budget(1.0, DELTA), total=NoNoise, weight=1.0, damping=0.0)
    print(
        f"{'epsilon':>8}{'published':>12}{'exact tree':>12}{'plain BLT':>12}{'ours':>12}{'spread':>10}"
        f"{'aim (BLT)':>11}{'published/ours':>15}   without noise {clean:.1e}"
    )
    for epsilon, aim in aims.items():
        budget = reticent.Budget(epsilon, DELTA)
        plain = {"weight": 1.0, "damping": 0.0}
        paper, _ = average(budget=budget, calibration="published", damping=0.0)
        tree, _ = average(budget=budget, total="tree", **plain)
        blt, _ = average(budget=budget, **plain)
        ours, spread = average(budget=budget)
        print(
            f"{epsilon:8}{paper:12.1e}{tree:12.1e}{blt:12.1e}{ours:12.1e}{spread:10.0e}{aim:11.1e}"
            f"{paper / ours:15.0f}",
            flush=True,
        )


# ------------------------------------------------------------------------------------------------ covertype


def covertype(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Lodgepole pine against the rest; columns scaled by their documented ranges, a constant appended."""
    import pandas as pd

    frame = pd.read_parquet(path)
    X = frame.iloc[:, :54].to_numpy(dtype=float)
    low = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0] + [0] * 44, dtype=float)
    high = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173] + [1] * 44, dtype=float)
    X = (X - low) / (high - low)
    X[:, :10] -= 0.5
    X = np.column_stack([X, np.ones(len(X))])
    X /= math.sqrt(10 * 0.25 + 2 + 1)  # no row is longer than 1
    return X, np.where(frame["Cover_Type"].to_numpy() == 2, 1.0, -1.0)


def shuffled(X: np.ndarray, y: np.ndarray, seed: int, count: int | None = None):
    order = np.random.default_rng(seed).permutation(len(X))[:count]
    return np.ascontiguousarray(X[order]), y[order]


def window(repeats: int = 10, T: int = 100_000) -> None:
    path = data("covertype.parquet")
    if path is None:
        return
    print(
        f"\ncovertype, T = {T:,}, W = 1024, epsilon 1, {repeats} seeds, ridge 0.01, radius 5: regret"
    )
    X, y = covertype(path)
    loss = losses.Logistic(ridge=0.01)
    ball = sets.L2Ball(X.shape[1], 5.0)
    cases = {
        "window, projection": (reticent.Budget(1.0, DELTA, window=1024), {}),
        "window, local linear": (reticent.Budget(1.0, DELTA, window=1024), {"step": "local-linear"}),
        "window, pure": (reticent.Budget(1.0, window=1024), {}),
        "for ever": (reticent.Budget(1.0, DELTA), {}),
        "PFTAL (for ever, pure)": (reticent.Budget(1.0), {}),
        "window, published noise": (
            reticent.Budget(1.0, DELTA, window=1024), {"calibration": "published", "anchor": 0.0},
        ),
    }  # fmt: skip
    regrets = {name: [] for name in cases}
    for seed in range(repeats):
        A, b = shuffled(X, y, seed, T)
        best = losses.best_fixed(ball, loss, A, b, gap=1e-5).total
        for name, (budget, more) in cases.items():
            learner = online.FollowTheApproximateLeader(
                ball, loss, budget=budget, horizon=T, seed=seed, noise_precision="float", **more
            )
            regrets[name].append(learner.run(A, b, keep=1, keep_records=False).total_loss - best)
    ours = np.array(regrets["window, projection"])
    for name, values in regrets.items():
        apart = np.array(values) - ours
        error = apart.std(ddof=1) / math.sqrt(repeats) if apart.any() else 1.0
        print(
            f"{name:26}{np.mean(values):10.0f} +- {np.std(values, ddof=1) / math.sqrt(repeats):6.0f}"
            f"   above the window learner by {apart.mean() / error:8.1f} standard errors (aim: more than 3)"
        )


def accuracy(repeats: int = 10, T: int = 200_000) -> None:
    path = data("covertype.parquet")
    if path is None:
        return
    print(
        f"\n[online] G.2: covertype, T = {T:,}, 10 % test, {repeats} runs: accuracy of the last decision, %"
    )
    X, y = covertype(path)
    loss = losses.Logistic(ridge=1e-3)
    ball = sets.L2Ball(X.shape[1], 10.0)
    plain, stable = (
        losses.Logistic(),
        losses.Logistic(ridge=0.05),
    )  # iterates are as stable as curved

    def learners(epsilon, s):
        budget = reticent.Budget(epsilon, DELTA)
        common = {"budget": budget, "horizon": T, "seed": s, "noise_precision": "float"}
        return {
            "published PIGD": online.PerturbedIterates(
                ball, stable, schedule="published", **common
            ),
            "our PIGD": online.PerturbedIterates(ball, stable, **common),
            "FTRL": online.FollowTheRegularizedLeader(ball, plain, **common),
            "approximate leader": online.FollowTheApproximateLeader(ball, loss, **common),
        }

    table: dict[str, dict[float, list[float]]] = {}
    for s in range(repeats):
        A, b = shuffled(X, y, s, int(T / 0.9) + 1)
        test, labels = A[T:], b[T:]
        free = online.FollowTheApproximateLeader(
            ball,
            loss,
            budget=reticent.Budget(1.0, DELTA),
            horizon=T,
            total=NoNoise,
            noise_precision="float",
        )
        free.run(A[:T], b[:T], keep=1, keep_records=False)
        right = np.mean(np.sign(test @ free.decision) == labels)
        table.setdefault("not private", {}).setdefault(math.inf, []).append(right)
        for epsilon in (0.1, 1.0, 10.0):
            for name, learner in learners(epsilon, s).items():
                learner.run(A[:T], b[:T], keep=1, keep_records=False)
                right = np.mean(np.sign(test @ learner.decision) == labels)
                table.setdefault(name, {}).setdefault(epsilon, []).append(right)
    for name, row in table.items():
        text = "  ".join(
            f"epsilon {e:g}: {100 * np.mean(v):.1f} +- {100 * np.std(v, ddof=1) / math.sqrt(repeats):.1f}"
            for e, v in row.items()
        )
        print(f"{name:20}{text}")


# ------------------------------------------------------------------------------------------------ regression, streams


def regression(name: str, X: np.ndarray, y: np.ndarray, repeats: int = 3) -> None:
    T, d = X.shape
    loss = losses.Squared(ridge=1e-4)
    ball = sets.L2Ball(d, 3.0)
    print(
        f"\n{name}: {T:,} records in order of time, dim {d}: mean squared error of each prediction before its label"
    )
    print(
        f"{'predicting the mean so far':30}{np.mean((y - np.r_[0, np.cumsum(y)[:-1] / np.arange(1, T)]) ** 2):10.5f}"
    )

    def show(label, learner, refresh=""):
        play = learner.run(X, y, keep=1, keep_records=False)
        print(f"{label:30}{refresh}{2 * play.mean_loss:10.5f}", flush=True)

    common = {"horizon": T, "noise_precision": "float", "refresh": 10}
    free = {"budget": reticent.Budget(1.0, DELTA), "total": NoNoise, "weight": 1.0}
    show("not private", online.QuadraticLeader(ball, loss, **free, **common))
    for epsilon in (0.1, 1.0, 10.0):
        budget = reticent.Budget(epsilon, DELTA)
        for label, more in (
            ("published", {"calibration": "published", "damping": 0.0}),
            ("ours", {}),
        ):
            errors = []
            for s in range(repeats):
                learner = online.QuadraticLeader(
                    ball, loss, budget=budget, seed=s, **more, **common
                )
                errors.append(2 * learner.run(X, y, keep=1, keep_records=False).mean_loss)
            print(
                f"{f'epsilon {epsilon:g}, {label}':30}{np.mean(errors):10.5f} +- {np.std(errors):.5f}",
                flush=True,
            )


def flights() -> None:
    path = data("nycflights13.parquet")
    if path is None:
        return
    import pandas as pd

    frame = (
        pd.read_parquet(path).dropna(subset=["arr_delay"]).sort_values("time_hour", kind="stable")
    )
    hour, month = frame["hour"].to_numpy(float), frame["month"].to_numpy(float)
    parts = [
        np.ones((len(frame), 1)),
        (frame["distance"].to_numpy(float) / 5000.0)[:, None],
        np.column_stack([np.sin(hour * math.pi / 12), np.cos(hour * math.pi / 12), hour / 24]),
        np.column_stack([np.sin(month * math.pi / 6), np.cos(month * math.pi / 6)]),
    ]
    for column, names in (("origin", ["EWR", "JFK", "LGA"]), ("carrier", CARRIERS)):
        parts.append(np.column_stack([(frame[column] == v).to_numpy(float) for v in names]))
    X = np.column_stack(parts) / math.sqrt(7)
    y = np.clip(frame["arr_delay"].to_numpy(float), -60, 180) / 180.0
    regression("arrival delay (units of three hours)", X, y)


def blog() -> None:
    path = data("blogfeedback.parquet")
    if path is None:
        return
    import pandas as pd

    frame = pd.read_parquet(path)
    X = np.log1p(np.abs(frame.iloc[:, :62].to_numpy(float)))
    X = np.column_stack([X / 8.0, np.ones(len(X))])
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    regression("comments on a blog (log scale)", X, np.log1p(frame["target"].to_numpy(float)) / 8.0)


def electricity(repeats: int = 10) -> None:
    path = data("electricity_elec2.parquet")
    if path is None:
        return
    import pandas as pd

    frame = pd.read_parquet(path)
    X = np.column_stack([frame.iloc[:, :6].to_numpy(float) - 0.5, np.ones(len(frame))]) / math.sqrt(
        2.5
    )
    y = np.where(frame["price_up"].to_numpy() == 1, 1.0, -1.0)
    T, loss, ball = len(X), losses.Logistic(), sets.L2Ball(7, 20.0)
    print(
        f"\nelectricity, {T:,} records in order of time, {repeats} seeds: prequential accuracy, %"
    )

    def share(learner):
        play = learner.run(X, y, keep=T, keep_records=False)
        return 100 * np.mean(np.sign(np.sum(play.decisions * X, axis=1)) == y)

    free = online.FollowTheRegularizedLeader(
        ball,
        loss,
        budget=reticent.Budget(1.0, DELTA),
        horizon=T,
        total=NoNoise,
        noise_precision="float",
    )
    print(f"{'not private':30}{share(free):8.2f}")
    for epsilon in (0.1, 1.0, 10.0):
        for window in (None, 1024):
            budget = reticent.Budget(epsilon, DELTA, window=window)
            common = {"budget": budget, "horizon": T, "noise_precision": "float"}
            values = [
                share(online.FollowTheRegularizedLeader(ball, loss, seed=s, **common))
                for s in range(repeats)
            ]
            label = f"epsilon {epsilon:g}, {'for ever' if window is None else 'window 1024'}"
            print(
                f"{label:30}{np.mean(values):8.2f} +- {np.std(values, ddof=1) / math.sqrt(repeats):.2f}"
            )


PARTS = {
    "growth": growth,
    "synthetic": synthetic,
    "window": window,
    "covertype": accuracy,
    "flights": flights,
    "blog": blog,
    "electricity": electricity,
}

if __name__ == "__main__":
    # the baseline without noise says each time that it guarantees nothing
    warnings.filterwarnings("ignore", "not private: a total without noise")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all by default")
    for part in parser.parse_args().parts or PARTS:
        start = time.perf_counter()
        PARTS[part]()
        print(f"({part}: {time.perf_counter() - start:.0f} s)")
