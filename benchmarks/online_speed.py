"""Online learners: what a record costs beside the bare drawing of its noise, and beside River.

    python benchmarks/online_speed.py [--steps 10000000]

Ratios only: each against the thing it is compared with, in the same run, interleaved. The targets stand beside
them. The last part shows that memory does not grow with the number of records.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numba import njit
from timing import interleaved, ratio

import tacit
from tacit import _state, losses, online, sets
from tacit.noise import lattice
from tacit.noise.source import Source

BUDGET = tacit.Budget(1.0, 1e-6)
HORIZON = 2**24


@njit(nogil=True)
def draw_normals(generator, out):
    for i in range(out.size):
        out[i] = generator.standard_normal()


def stream(steps: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((steps, dim))
    X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(rng.random(steps) < 0.5, 1.0, -1.0)


def river_loop(X: np.ndarray, y: np.ndarray):
    from river import linear_model

    model = linear_model.LogisticRegression()
    events = [
        ({i: float(v) for i, v in enumerate(row)}, bool(label > 0))
        for row, label in zip(X, y, strict=True)
    ]

    def loop() -> None:
        for features, label in events:
            model.learn_one(features, label)

    return loop


def learners(dim: int, precision: str) -> dict[str, online.OnlineLearner]:
    common = {"budget": BUDGET, "horizon": HORIZON, "noise_precision": precision}
    ball, ridge = sets.L2Ball(dim, 5.0), losses.Logistic(ridge=0.01)
    return {
        "FTRL": online.FollowTheRegularizedLeader(ball, losses.Logistic(), **common),
        "approximate leader": online.FollowTheApproximateLeader(ball, ridge, **common),
        "local linear steps": online.FollowTheApproximateLeader(
            ball, ridge, step="local-linear", **common
        ),
        "perturbed iterates": online.PerturbedIterates(ball, ridge, **common),
    }


def speed_of_run() -> None:
    print("\nrun, logistic loss, L2 ball: time / time to draw as many numbers of the noise")
    print(
        f"{'':24}{'dim':>6}{'precision':>11}{'ratio':>8}{'spread':>8}{'target':>8}{'River / run':>14}"
    )
    source = Source()
    for dim in (10, 54):
        steps = 1_000_000 // dim
        X, y = stream(steps, dim)
        few = 2000
        floats = np.empty((32768 // dim, dim))
        whole = np.empty((32768 // dim, dim), np.int64)
        scales = np.full(len(whole), 1.5 * lattice.STEPS)

        def bare_float(block=floats, steps=steps):
            for _ in range(steps // len(block)):
                draw_normals(source.generator, block.reshape(-1))

        def bare_lattice(block=whole, scales=scales, steps=steps):
            for _ in range(steps // len(block)):
                lattice.gaussian(source, scales, block)

        for precision, bare, target in (("float", bare_float, 2.5), ("lattice", bare_lattice, 1.3)):
            built = learners(dim, precision)
            tasks = {
                name: (lambda learner=learner, X=X, y=y: learner.run(X, y))
                for name, learner in built.items()
            }
            seconds = interleaved(
                {"bare": bare, "river": river_loop(X[:few], y[:few]), **tasks}, rounds=9
            )
            for name in tasks:
                middle, spread = ratio(seconds[name], seconds["bare"])
                faster, _ = ratio(seconds["river"] / few, seconds[name] / steps)
                goal = f"{target:8.1f}" if name == "FTRL" and dim == 54 else " " * 8
                print(
                    f"{name:24}{dim:6}{precision:>11}{middle:8.2f}{spread:8.2f}{goal}{faster:14.1f}"
                )
    print("targets at dim 54: River / run at least 10 in floating point, above 1 on the lattice")


def speed_of_one() -> None:
    print("\none record at a time: time / River's learn_one (target 1.5)")
    print(f"{'':24}{'dim':>6}{'precision':>11}{'update':>8}{'observe':>9}")
    for dim in (10, 54):
        few = 3000
        X, y = stream(few, dim)
        labels = y.tolist()
        for precision in ("float", "lattice"):
            tasks = {"river": river_loop(X, y)}
            for name, learner in learners(dim, precision).items():

                def observe(learner=learner, X=X, labels=labels):
                    for a, label in zip(X, labels, strict=True):
                        learner.observe((a, label))

                tasks[f"{name} observe"] = observe
                if not isinstance(learner, online.PerturbedIterates):

                    def update(learner=learner, X=X):
                        for a in X:
                            learner.update(a)

                    tasks[f"{name} update"] = update
            seconds = interleaved(tasks, rounds=7)
            for name in learners(dim, precision):
                by_update = seconds.get(f"{name} update")
                first = "" if by_update is None else f"{ratio(by_update, seconds['river'])[0]:8.2f}"
                second = ratio(seconds[f"{name} observe"], seconds["river"])[0]
                print(f"{name:24}{dim:6}{precision:>11}{first:>8}{second:9.2f}")
            print(f"River, us an event: {1e6 * np.median(seconds['river']) / few:.1f}")


def quadratic() -> None:
    print("\nquadratic leader: microseconds a record by either solve, and its noise alone")
    source = Source()
    for dim in (10, 90):
        X, y = stream(4000 if dim == 10 else 200, dim)
        built = {
            "eigenvalues cut": {"damping": 0.0},
            "Cholesky": {"damping": 1e9},
        }
        tasks = {}
        for name, more in built.items():
            learner = online.QuadraticLeader(
                dim, losses.Squared(ridge=1e-6), budget=BUDGET, horizon=HORIZON, **more
            )
            tasks[name] = lambda learner=learner, X=X, y=y: learner.run(X, y)
        size = learner.total.dim
        block = np.empty((max(1, 32768 // size), size), np.int64)
        scales = np.full(len(block), 1.5 * lattice.STEPS)

        def bare(block=block, scales=scales, X=X):
            for _ in range(-(-len(X) // len(block))):
                lattice.gaussian(source, scales, block)

        seconds = interleaved({"bare noise": bare, **tasks}, 5)
        each = (f"{n} {1e6 * np.median(v) / len(X):.1f}" for n, v in seconds.items())
        print(f"dim {dim:3}: {', '.join(each)}")


def memory(steps: int) -> None:
    print(f"\nmemory over {steps:,} records (dim 10, chunks of 100,000), megabytes")
    X, y = stream(100_000, 10)
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(10), losses.Logistic(), budget=BUDGET.with_(window=1024)
    )
    learner.run(X, y)
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    play = learner.run((X, y) for _ in range(steps // len(X)))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"peak before {before:.0f}, after {after:.0f}: grew by {after - before:.1f} (target: nothing)"
    )
    print(
        f"{len(play.steps)} decisions kept, state of {len(_state.dumps(learner.state())) / 1e6:.2f} MB, "
        f"{(time.perf_counter() - start) / steps * 1e9:.0f} ns a record"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000)
    arguments = parser.parse_args()
    speed_of_run()
    speed_of_one()
    quadratic()
    memory(arguments.steps)
