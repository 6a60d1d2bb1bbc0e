"""Interpreted kernels give what compiled ones give, to the last bit, and are as hard to interrupt.

The comparison runs this file as a script in two processes: in one every kernel that may be interpreted always is, in
the other all are compiled at once.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import Budget, bandit, compiling, erm, interpreting, losses, online, sets, sums
from reticent.bandit import kernels as bandit_kernels
from reticent.bandit.geometry import Geometry
from reticent.bandit.mirror import Euclidean
from reticent.bandit.responses import ConditionalGradient
from reticent.erm import rounded_sums
from reticent.losses import kernels as phis
from reticent.noise import door
from reticent.noise.source import Source
from reticent.online import kernels as online_kernels
from reticent.sets import kernels as set_kernels
from reticent.solve.blocks import Form, InMemory

BUDGET = Budget(2.0, 1e-5)
PURE = Budget(2.0)
EXTREMES = np.array(
    [0.0, -0.0, 5e-324, 1e-310, 1e-160, 1.0, -3.5, 1e154, 1.7e308, np.inf, -np.inf, np.nan]
)
ROWS, DIM = 60, 13  # loops take eight numbers at a time, then four, then one


def table() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, DIM)) * 10.0 ** rng.integers(-3, 3, size=(ROWS, 1))
    X[7], X[8], X[9] = 1e200, 1e-200, 0.0
    signs = np.where(X[:, 0] + 0.1 * rng.normal(size=ROWS) > 0, 1.0, -1.0)
    return X, signs, np.clip(X[:, 1], -1, 1)


LOSSES = {
    "logistic": losses.Logistic(),
    "capped": losses.CappedLogistic(0.5),
    "hinge": losses.Hinge(),
    "smooth hinge": losses.SmoothHinge(0.5),
    "squared": losses.Squared(),
    "huber": losses.Huber(0.3),
    "quantile": losses.Quantile(0.3),
    "poisson": losses.Poisson(label_bounds=(0.0, 3.0)),
}
SETS = {
    "ball": sets.L2Ball(DIM, radius=0.7),
    "box": sets.Box(-np.ones(DIM), 0.5 * np.ones(DIM)),
    "simplex": sets.Simplex(DIM),
    "cross": sets.L1Ball(DIM, radius=0.7),
    "product": sets.Product([sets.L2Ball(6), sets.Simplex(4), sets.L1Ball(3)]),
}


POINTS = {
    set_kernels.UNCONSTRAINED: np.empty(0),
    set_kernels.L2BALL: np.array([0.7]),
    set_kernels.BOX: np.repeat([-1.0, 0.5], DIM),
    set_kernels.L1BALL: np.array([0.7]),
    set_kernels.SIMPLEX: np.array([1.0]),
    set_kernels.PRODUCT: np.array(
        [2.0, set_kernels.L2BALL, 6, 1, 0.8, set_kernels.SIMPLEX, 7, 1, 1.0]
    ),
}


@compiling.compiled(patience=1.0)
def elementary(x):
    """Functions of `math` where Python raises and C does not."""
    return (
        math.exp(x), math.log(x), math.log1p(x), math.sqrt(x), math.ldexp(x, 2000), math.ldexp(x, -2000),
        math.frexp(x)[0], math.copysign(2.0, x), abs(x), min(x, 1.0), max(1.0, x), min(1.0, x), max(x, 1.0),
    )  # fmt: skip


def totals() -> dict[str, Any]:
    X, _, _ = table()
    made: dict[str, Any] = {}
    for noise, budget in (("gaussian", BUDGET), ("laplace", PURE), ("gamma", PURE)):
        for precision in ("lattice", "float"):
            common = {"noise": noise, "noise_precision": precision, "seed": 3}
            kinds = {
                "Tree": lambda c=common, b=budget: sums.Tree(DIM, 100, budget=b, **c),
                "plain Tree": lambda c=common, b=budget: sums.Tree(
                    DIM, 100, budget=b, estimator="plain", **c
                ),
                "WindowTree": lambda c=common, b=budget: sums.WindowTree(
                    DIM, budget=b.with_(window=11), **c
                ),
                "Independent": lambda c=common, b=budget: sums.Independent(DIM, 100, budget=b, **c),
            }
            if noise == "gaussian":
                kinds["Correlated"] = lambda c=common, b=budget: sums.Correlated(
                    DIM, 100, budget=b, **{k: v for k, v in c.items() if k != "noise"}
                )
            for name, start in kinds.items():
                made[f"{name}, {noise}, {precision}"] = start
    found = {}
    for name, start in made.items():
        total = start()
        found[name] = [np.array(total.add(row)) for row in X[:9]] + [
            total.run(X[9:]),
            total.clipped,
        ]
    return found


def learners() -> dict[str, Any]:
    X, signs, y = table()
    found: dict[str, Any] = {}

    def play(name: str, learner: Any, labels: Any) -> None:
        some = [np.array(learner.observe((X[r], labels[r]))) for r in range(9)]
        play = learner.run(X[9:], labels[9:])
        found[name] = [some, play.decisions, play.losses, learner.decision, learner.clipped]

    for name, loss in LOSSES.items():
        labels = y if name in ("squared", "huber", "quantile", "poisson") else signs
        for where in SETS if name == "logistic" else ["ball"]:
            learner: Any = online.FollowTheRegularizedLeader(
                SETS[where], loss, budget=BUDGET, horizon=100, seed=1
            )
            play(f"FTRL {name} {where}", learner, labels)
        curved = dataclasses.replace(loss, ridge=0.1)
        for inner in (online.ImplicitGradient(), online.GradientDescent()):
            if name in ("hinge", "quantile") and isinstance(inner, online.GradientDescent):
                continue  # not smooth
            play(
                f"perturbed {name} {type(inner).__name__}",
                online.PerturbedIterates(
                    SETS["ball"], curved, inner=inner, budget=BUDGET, horizon=100, seed=1
                ),
                labels,
            )
    ridge = losses.Logistic(ridge=0.1)
    for where in ("ball", "box", "simplex", "cross"):
        for step in ("projection", "local-linear"):
            learner = online.FollowTheApproximateLeader(
                SETS[where], ridge, budget=BUDGET, horizon=100, step=step, seed=1
            )
            play(f"PFTAL {where} {step}", learner, signs)
    linear = online.FollowTheRegularizedLeader(
        SETS["ball"], losses.Linear(), budget=BUDGET, horizon=100, seed=1
    )
    found["gradients"] = [np.array(linear.update(row)) for row in X[:20]]
    averaging = online.FollowTheRegularizedLeader(
        SETS["ball"], losses.Logistic(), budget=BUDGET, horizon=100, averaging=True, seed=1
    )
    play("averaging", averaging, signs)
    more: dict[str, Any] = {"added_regularizer": 0.3}, {"constants": "published"}
    for where, step in (("ball", "projection"), ("box", "local-linear"), ("cross", "local-linear")):
        for options in more[: 1 + (step == "local-linear")]:
            learner = online.FollowTheApproximateLeader(
                SETS[where], dataclasses.replace(ridge, ridge=0.2), budget=BUDGET, horizon=100,
                strong_convexity=0.1, step=step, seed=1, **options,
            )  # fmt: skip
            play(f"PFTAL {where} {step} {options}", learner, signs)
    costs = np.clip(np.abs(np.tile(X, (5, 1))), 0, 1)
    for budget in (BUDGET, Budget(1000.0)):
        experts = online.Experts(DIM, budget=budget, horizon=len(costs), seed=1)
        found[f"experts {budget}"] = experts.run(costs).decisions
    return found


def bandits() -> dict[str, Any]:
    X, _, _ = table()
    found: dict[str, Any] = {}
    for kind, more in ((bandit.ProjectionFreeBandit, {}), (bandit.ProjectedBandit, {})):
        for where in SETS:
            if where in ("simplex", "product") and kind is bandit.ProjectedBandit:
                continue
            played = kind(SETS[where], budget=BUDGET, lipschitz=1.0, horizon=200, seed=2, **more)
            asked = []
            for r in range(40):
                asked.append(np.array(played.ask()))
                played.tell(float(np.sin(r)) * (1.0 if r % 7 else 1e300))
            found[f"{kind.__name__} {where}"] = asked
            for loss in (losses.Linear(), losses.Quadratic()):
                played = kind(
                    SETS[where], budget=BUDGET, lipschitz=1.0, horizon=200, seed=2, **more
                )
                play = played.run(np.clip(X, -0.4, 0.4), loss=loss)
                found[f"{kind.__name__} {where} {loss}"] = [play.decisions, play.losses]
    return found


def fits() -> dict[str, Any]:
    X, signs, y = table()
    X = np.clip(X, -5, 5)
    found: dict[str, Any] = {}
    labels = (signs > 0).astype(int)
    for rows, name in ((X, "dense"), (sp.csr_array(X), "sparse")):
        options: dict[str, Any] = {"epsilon": 4.0, "random_state": 0}
        makers = {
            "logistic": reticent.PrivateLogisticRegression(classes=[0, 1], **options),
            "svc": reticent.PrivateLinearSVC(classes=[0, 1], **options),
        }
        for kind, model in makers.items():
            found[f"{kind} {name}"] = model.fit(rows, labels).coef_
        found[f"regression {name}"] = (
            reticent.PrivateLinearRegression(label_bounds=(-1, 1), **options).fit(rows, y).coef_
        )
    model = reticent.PrivateLasso(label_bounds=(-1, 1), **options).fit(X, y)
    found["lasso"] = model.coef_
    common: dict[str, Any] = {"budget": BUDGET, "steps": 5, "seed": 0}
    descent = erm.gradient_descent(losses.Logistic(), SETS["ball"], X, signs, **common)
    walk = erm.frank_wolfe(losses.Logistic(), SETS["cross"], X, signs, **common)
    found["steps"] = [descent.point, walk.point]
    for name, loss in LOSSES.items():
        if name in ("hinge", "quantile"):
            continue
        best = losses.best_fixed(
            SETS["ball"], loss, X, np.abs(signs) if name == "poisson" else signs
        )
        found[f"best {name}"] = [best.point, best.value]
    return found


def kernels() -> dict[str, Any]:
    """Kernels called with numbers that no public call lets through."""
    found: dict[str, Any] = {}
    rng = np.random.default_rng(8)
    rows = rng.choice(EXTREMES, size=(400, 3)) * rng.choice([1.0, 1e-5, 3.0], size=(400, 1))
    for scale in (1.0, 1e-300, 2.0**40, 1.7e308, 0.0):
        for limit in (1.0, 1e-200, 1e160, 7e-310):
            out = np.empty_like(rows)
            counts = door.bounded_rows(rows, scale, limit, out)
            found[f"rows {scale} {limit}"] = [counts, out, door.count_beyond(rows, limit)]
    indptr = np.arange(0, rows.size + 1, 3)
    out = np.empty(rows.size)
    found["sparse rows"] = [door.bounded_sparse_rows(indptr, rows.reshape(-1), 2.0, 1.0, out), out]
    z, y = np.repeat(EXTREMES, EXTREMES.size), np.tile(EXTREMES, EXTREMES.size)
    z, y = np.append(z, [710.0, -710.0, 36.0, 1e-9] * 2), np.append(y, [1.0] * 4 + [-1.0] * 4)
    for kind, params in ((k, np.array([0.4, 0.3])) for k in range(9)):
        fine = np.isfinite(z) & np.isfinite(y) & (abs(z) < 1e100) & (abs(y) < 1e100)
        for name in ("phi", "dphi", "d2phi"):
            one = getattr(phis, name)(kind)
            some = [one(params, a, b) for a, b in zip(z[fine], y[fine], strict=True)]
            all_ = getattr(phis, f"{name}_all")(kind)(params, z[fine], y[fine])
            found[f"{name} {kind}"] = [np.array(some), all_]
        found[f"mean {kind}"] = phis.phi_mean(kind)(params, z[fine], y[fine])
        steps = [
            phis.implicit_scalar(kind)(params, a, b, c)
            for a in (-3.0, 0.0, 0.7)
            for b in (-1.0, 1.0)
            for c in (0.0, 0.1, 50.0)
        ]
        found[f"implicit {kind}"] = np.array(steps)
    form = Form(unit=0.5, length=1.0, constant=0.25)
    for A in (np.clip(np.nan_to_num(rows), -1e200, 1e200), rows[np.isfinite(rows).all(axis=1)]):
        for matrix in (A, sp.csr_array(A)):
            block = next(iter(InMemory(matrix, np.ones(len(A)), form=form).map(_itself)))
            x = np.array([0.3, -0.2, 1.5, 0.1])
            params = np.array([0.4, 0.3])
            found[f"sums {len(A)} {sp.issparse(matrix)}"] = [
                rounded_sums.summed_slopes(block, x, phis.CAPPED_LOGISTIC, params, 0.4),
                rounded_sums.predictors(block, x),
                rounded_sums.survey(block),
                rounded_sums.weighted(block, np.linspace(-1, 1, len(A))),
            ]
    for kind, params in POINTS.items():
        for k in range(40):
            x, g = rng.normal(size=DIM) * 10.0 ** rng.integers(-2, 2), rng.normal(size=DIM)
            g = rng.integers(-1, 2, size=DIM) * 1.0 if k % 3 == 0 else g
            out, best = x.copy(), np.empty(DIM)
            set_kernels.project_inplace(kind)(params, out, np.empty(2 * DIM))
            set_kernels.linear_minimizer_inplace(kind)(params, g, best)
            found[f"set {kind} {k}"] = [out, best]
            if kind in set_kernels.LOCAL_KINDS:
                local = np.empty(DIM)
                radius = rng.uniform(0.0, 1.0)
                set_kernels.local_linear_minimizer_inplace(kind)(params, out, radius, g, local)
                found[f"set {kind} {k} local"] = local
    steep = 2.0 ** -np.arange(1000.0)
    set_kernels.project_simplex(1e-30, steep, np.empty(1000))
    found["steep"] = steep
    source = Source(seed=4)
    noise = np.empty((7, 3))
    source.normals(noise)
    found["normals"] = noise
    found["math"] = [elementary(x) for x in [*EXTREMES.tolist(), -1.0, 709.9, -745.2, 0.3, -0.3]]
    return found


def _itself(block: Any) -> Any:
    return block


def results() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {f.__name__: f() for f in (totals, learners, bandits, fits, kernels)}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The results of all cases, and the kernels that were interpreted, by an interpreting and a compiling process."""
    found = []
    for mode in ("interpret", "compile"):
        out = tmp_path_factory.mktemp(mode) / "results.pickle"
        subprocess.run([sys.executable, __file__, mode, str(out)], check=True)
        found.append(pickle.loads(out.read_bytes()))
    return found


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every array and number by its place."""
    if isinstance(value, dict):
        return {k: v for key in value for k, v in flat(value[key], f"{name}/{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for i, one in enumerate(value) for k, v in flat(one, f"{name}/{i}").items()}
    return {name: np.asarray(value)}


def test_interpreted_and_compiled_kernels_agree_to_the_last_bit(both):
    (interpreted, _), (machine_code, _) = both
    ours, theirs = flat(interpreted), flat(machine_code)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 500
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype, name
        same = np.array_equal(value, theirs[name], equal_nan=value.dtype.kind == "f")
        assert same, (name, value, theirs[name])


def test_every_kernel_with_patience_was_compared(both):
    """Kernels are told apart by file and line, because those of different factories may have the same name."""
    (_, seen), (_, none) = both
    wanted = set()
    for path in Path(reticent.__file__).parent.rglob("*.py"):
        if path == Path(compiling.__file__):
            continue
        found = asked = 0
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "compiled":
                asked += "patience" in [word.arg for word in node.keywords]
            for mark in getattr(node, "decorator_list", []):
                if "patience" in [word.arg for word in getattr(mark, "keywords", [])]:
                    wanted.add((str(path), node.decorator_list[0].lineno, node.name))
                    found += 1
        assert found == asked, (
            f"{path}: compiled(patience=...) must be a decorator, to be found here"
        )
    assert not none
    assert len(wanted) > 50
    assert wanted <= seen, sorted(wanted - seen)


@pytest.fixture(autouse=True)
def patiently(monkeypatch):
    """Whatever an earlier test of this process asked for."""
    monkeypatch.setattr(interpreting, "_at_once", False)


def slowly(x):
    for i in range(x.size):
        x[i] += 1.0


def patient(function, patience=100.0):
    # not cached: machine code of an earlier run would soon be used instead
    return interpreting.Kernel(numba.njit(nogil=True)(function), patience)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_a_signal_does_not_stop_a_kernel_halfway():
    """KeyboardInterrupt reaches the caller, but only when the kernel is done, or before it has begun."""

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    rng = np.random.default_rng(0)
    interrupted = []
    try:
        kernel = patient(slowly)
        for _ in range(150):
            x = np.zeros(5000)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3))
                kernel(x)
                done = True
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                done = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            time.sleep(0.0005)
            assert (x == x[0]).all()
            assert x[0] in ([1.0] if done else [0.0, 1.0])
            interrupted.append(not done)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert sum(interrupted) > 10


def test_an_error_reaches_the_caller():
    def wrong(x):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        patient(wrong)(np.zeros(3))


def test_a_kernel_is_compiled_when_its_patience_is_over():
    kernel = patient(slowly, patience=0.02)
    x = np.zeros(1000)
    while type(kernel) is interpreting.Kernel:
        kernel(x)
        assert x[0] < 1000
    assert x[0] > 2
    assert kernel.machine_code.signatures
    kernel(x)
    assert (x == x[0]).all()


def test_a_large_call_is_compiled_at_once():
    kernel = patient(slowly, patience=0.02)
    kernel(np.zeros(10**6))
    assert kernel.machine_code.signatures


def test_kernels_are_compiled_at_once_on_request():
    compiling.compile_at_once()
    kernel = patient(slowly)
    kernel(np.zeros(3))
    assert kernel.machine_code.signatures


def test_a_kernel_with_machine_code_on_disk_is_soon_loaded(tmp_path):
    code = (
        "import numpy as np, sys, time\n"
        "from reticent import interpreting\n"
        "from reticent.noise import door\n"
        "rows, n = np.ones((50, 4)), 0\n"
        "while type(door.bounded_rows) is interpreting.Kernel:\n"
        "    door.bounded_rows(rows, 1.0, 1.0, np.empty((50, 4)))\n"
        "    n += 1\n"
        "print(n)\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    calls = [
        int(subprocess.check_output([sys.executable, "-c", code], env=environment))
        for _ in range(2)
    ]
    assert calls[1] < calls[0] / 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_interprets_too():
    kernel, x = patient(slowly), np.zeros(100)
    kernel(x)
    child = os.fork()
    if child == 0:
        kernel(x)
        os._exit(int(not (x == 2.0).all()))
    assert os.waitpid(child, 0)[1] == 0


def test_threads_interpret_at_the_same_time():
    kernel, arrays = patient(slowly), [np.zeros(3000) for _ in range(8)]
    threads = [threading.Thread(target=kernel, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((x == 1.0).all() for x in arrays)


def agree(function: Any, *arguments: Any) -> None:
    """A function does the same to the last bit, interpreted and compiled."""
    found = []
    for way in (interpreting.twin(function.py_func), getattr(function, "machine_code", function)):
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        value = way(*mine)
        found.append([np.asarray(x).tobytes() for x in (value, *mine) if x is not None])
    assert found[0] == found[1], arguments


@pytest.mark.parametrize("kind", [set_kernels.L1BALL, set_kernels.SIMPLEX])
def test_equal_slopes_are_taken_in_the_same_order(kind):
    rng = np.random.default_rng(0)
    for dim in (5, 17, 40):
        for _ in range(20):
            x = rng.dirichlet(np.ones(dim))
            slopes = rng.integers(-1, 2, size=dim).astype(float)
            minimize = set_kernels.local_linear_minimizer_inplace(kind)
            agree(minimize, np.ones(1), x, rng.uniform(0, 0.3), slopes, np.empty(dim))


def test_squares_are_rounded_alike():
    rng = np.random.default_rng(0)
    step = online_kernels.local_step(set_kernels.L2BALL, 0)
    knobs = np.ones(online_kernels.KNOBS)
    for _ in range(10_000):
        memory = 0.01 * rng.normal(size=(online_kernels.MEMORY_ROWS, 2))
        knobs[[online_kernels.T, online_kernels.ANCHOR]] = rng.uniform(0.5, 2.0, size=2)
        knobs[[online_kernels.CERTIFIED, online_kernels.RHO]] = rng.uniform(0.5, 2.0, size=2)
        agree(step, memory, knobs, np.ones(1))


def test_rows_in_single_precision_are_measured_in_double_precision():
    rows = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
    found = []
    for kernel in (
        interpreting.Kernel(door.bounded_rows.machine_code, 100.0),
        door.bounded_rows.machine_code,
    ):
        out = np.empty(rows.shape)
        found.append((kernel(rows, 1 / 3, 0.7, out), out))
        assert np.linalg.norm(out, axis=1).max() <= 0.7 * (1.0 + door.margin(7))
    assert found[0][0] == found[1][0]
    assert found[0][1].tobytes() == found[1][1].tobytes()
    phi = interpreting.Kernel(phis.phi(phis.SQUARED).machine_code, 100.0)
    z, y = np.float32(0.1), np.float32(0.3)
    assert phi(np.ones(1), z, y) == phi.machine_code(np.ones(1), z, y)


def test_a_division_by_zero_is_an_error_in_both():
    project = set_kernels.project_inplace(set_kernels.SIMPLEX)
    for kernel in (interpreting.Kernel(project.machine_code, 100.0), project.machine_code):
        with pytest.raises(ZeroDivisionError):
            kernel(np.ones(1), np.array([np.nan, 1.0]), np.zeros(4))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no such signals")
def test_a_handler_sees_all_that_a_kernel_does_or_nothing():
    """Otherwise a handler could save half a record, or leave it behind."""
    seen, armed = [], False

    def handle(number, frame):
        seen.append(x.copy())
        if armed:
            raise KeyboardInterrupt

    def shaken(x):
        for i in range(x.size):
            x[i] += 1.0
            if i % 500 == 0:
                os.kill(os.getpid(), signal.SIGUSR1)
                os.kill(os.getpid(), signal.SIGUSR2)

    kernel = patient(shaken)
    before = [signal.signal(number, handle) for number in (signal.SIGUSR1, signal.SIGUSR2)]
    try:
        for _ in range(30):
            x, armed = np.zeros(5000), True
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    kernel(x)
                except KeyboardInterrupt:
                    armed = False
            armed = False
            time.sleep(0.001)
            assert (x == x[0]).all()
    finally:
        armed = False
        for number, handler in zip((signal.SIGUSR1, signal.SIGUSR2), before, strict=True):
            signal.signal(number, handler)
    assert len(seen) >= 30
    assert all((x == x[0]).all() for x in seen)


@contextlib.contextmanager
def handled(handle):
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def shaken(x):
    x[0] += 1.0
    os.kill(os.getpid(), signal.SIGUSR1)
    x[1] += 1.0


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signals")
@pytest.mark.parametrize("error", [RuntimeError, ValueError, ZeroDivisionError, KeyboardInterrupt])
def test_an_error_of_a_handler_is_not_lost(error):
    """A handler may raise what sends a kernel to its machine code."""

    def handle(number, frame):
        raise error("time is up")

    kernel, x = interpreting.Kernel(SimpleNamespace(py_func=shaken), 100.0), np.zeros(2)
    with handled(handle), pytest.raises(error, match="time is up"):
        kernel(x)
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signals")
def test_a_handler_computes_as_usual():
    """What it divides by zero stops neither it nor the kernel, and what it changes is not overwritten."""

    def handle(number, frame):
        seen.append(zero / zero)
        read[0] = 5.0

    def reading(x, y):
        x[0] += y[0]
        os.kill(os.getpid(), signal.SIGUSR1)
        x[1] += y[0]

    kernel = interpreting.Kernel(SimpleNamespace(py_func=reading), 100.0)
    zero, seen, x, read = np.float64(0.0), [], np.zeros(2), np.ones(1)
    with handled(handle):
        kernel(x, read)
    assert np.isnan(seen).all()
    assert len(seen) == 1
    assert x.tolist() == [1.0, 1.0]
    assert read[0] == 5.0


def test_kernels_need_no_threads():
    """With gevent or eventlet a thread does not run while its starter waits for it."""
    code = (
        "import _thread\n"
        "_thread.start_new_thread = lambda *arguments: None\n"
        "import numpy as np\n"
        "from reticent.noise import door\n"
        "print(door.count_beyond(np.ones((3, 3)), 1.0))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120, check=True
    )
    assert found.stdout.strip() == b"3"


def quotient(x, y):
    x[0] = 1.0
    x[0] += y[0] / y[1]
    x[1] = x[0] + float(int(y[0]))


@pytest.mark.parametrize(
    "y",
    [
        (0.0, 0.0),
        (1.0, 0.0),
        (math.inf, 0.0),
        (math.nan, -0.0),
        (1e300, 1e-300),
        (1e30, 1.0),
        (3.0, 4.0),
    ],
)
def test_what_python_does_otherwise_is_left_to_machine_code(y):
    kernel, found = patient(quotient), []
    for way in (kernel, kernel.machine_code):
        x = np.zeros(2)
        try:
            way(x, np.array(y))
        except ZeroDivisionError:
            found.append(None)
        found.append(x.tobytes())
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_plain_arrays_and_numbers_are_returned():
    kernel = interpreting.Kernel(phis.phi_all(phis.SQUARED).machine_code, 100.0)
    assert type(kernel(np.ones(1), np.ones(3), np.zeros(3))) is np.ndarray
    assert type(kernel) is interpreting.Kernel
    found = interpreting.Kernel(door.bounded_rows.machine_code, 100.0)(
        np.ones((2, 2)), 1.0, 1.0, np.empty((2, 2))
    )
    assert [type(one) for one in found] == [int, int]


def test_arguments_may_share_memory():
    def twice(x, y):
        for i in range(y.size):
            x[i] += 1.0
            y[i] += x[i]

    both = []
    for way in (patient(twice), numba.njit(twice)):
        x = np.arange(6.0)
        way(x, x[1:])
        both.append(x.tolist())
    assert both[0] == both[1]


def test_arrays_of_any_layout_are_changed():
    rows = np.arange(12.0).reshape(3, 4)
    for x in (
        rows.copy(),
        np.asfortranarray(rows),
        rows[::-1, ::2].copy()[::-1],
        rows[:, :0].copy(),
    ):
        kernel, before = patient(raised), x.copy()
        kernel(x)
        assert not kernel.machine_code.signatures
        assert (x == before + 1.0).all()
    rows.flags.writeable = False
    with pytest.raises(numba.TypingError):
        patient(raised)(rows)


def raised(x):
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += 1.0


def test_many_steps_of_the_conditional_gradient_do_not_remain_interpreted(monkeypatch):
    """What a kernel is expected to cost depends on the sizes of arrays only, so no call takes very many steps."""
    made = bandit_kernels.conditional_gradient(set_kernels.L2BALL)
    counts, points = [], []

    def counted(*arguments):
        counts.append(arguments[5])
        return made(*arguments)

    for kernel in (made, counted):
        monkeypatch.setattr(bandit_kernels, "conditional_gradient", lambda kind, k=kernel: k)
        geometry = Geometry(np.zeros(3), 1.0, None, 1.0, 2.0)
        response = ConditionalGradient(sets.L2Ball(3), geometry, Euclidean())
        response.start(np.array([0.3, -0.2, 2.0]), 50_000)
        response.work_on(50_000)
        points.append(response.point)
        assert not response.is_busy
    assert sum(counts) == 50_000
    assert max(counts) * 3 <= 20_000
    assert points[0].tobytes() == points[1].tobytes()


def test_threads_may_call_a_kernel_for_the_first_time_at_once(monkeypatch):
    """No thread gets a twin whose globals are not all there yet."""
    honest = interpreting._meaning

    def slow(*arguments):
        time.sleep(0.005)
        return honest(*arguments)

    monkeypatch.setattr(interpreting, "_meaning", slow)
    monkeypatch.setattr(interpreting, "_twins", {})
    kernel, errors = interpreting.Kernel(door.bounded_rows.machine_code, 100.0), []

    def call():
        try:
            kernel(np.ones((2, 2)), 1.0, 1.0, np.empty((2, 2)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
        time.sleep(0.004)
    for thread in threads:
        thread.join()
    assert not errors


def test_a_deep_stack_does_not_stop_a_kernel_halfway():
    def deep(x):
        for i in range(x.size):
            x[i] = deeper(x[i])

    def deepest(value):
        return value + 1.0

    def deeper(value):
        return deepest(value)

    kernel, halves = interpreting.Kernel(SimpleNamespace(py_func=deep), 100.0), []

    def descend(depth):
        if depth:
            descend(depth - 1)
            return
        x = np.zeros(3)
        x[0] = 1.0
        with contextlib.suppress(RecursionError):
            kernel(x)
        halves.append(x.tolist() not in ([1.0, 0.0, 0.0], [2.0, 1.0, 1.0]))

    def all_depths():
        for depth in range(sys.getrecursionlimit() - 60, sys.getrecursionlimit()):
            with contextlib.suppress(RecursionError):
                descend(depth)

    thread = threading.Thread(target=all_depths)
    thread.start()
    thread.join()
    assert len(halves) > 10
    assert not any(halves)


def test_a_kernel_can_be_called_while_the_interpreter_ends():
    code = (
        "import sys, numpy as np\n"
        "from reticent.noise import door\n"
        "class Late:\n"
        "    def __init__(self):\n"
        "        self.kernel, self.rows, self.out = door.count_beyond, np.ones((3, 3)), sys.__stdout__\n"
        "    def __del__(self):\n"
        "        self.out.write(str(self.kernel(self.rows, 1.0)))\n"
        "        self.out.flush()\n"
        "import builtins\n"
        "builtins.late = Late()\n"
        "door.count_beyond(np.ones((3, 3)), 1.0)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=True
    )
    assert found.stdout == b"3", found.stderr


def test_kernels_can_be_pickled():
    kernel = interpreting.Kernel(phis.phi(phis.SQUARED).machine_code, 100.0)
    for at_once in (False, True):
        twin = pickle.loads(pickle.dumps(kernel))
        assert twin(np.ones(1), 0.5, 1.0) == 0.125
        if not at_once:
            kernel._left = 0.0
            kernel(np.ones(1), 0.5, 1.0)
            assert type(kernel) is not interpreting.Kernel


def always(self: interpreting.Kernel, *arguments: Any) -> Any:
    """In place of ``Kernel.__call__``: use machine code only where Python would do something else."""
    self._left = 1.0
    if self._meanwhile:
        code = self.py_func.__code__
        CALLED.add((code.co_filename, code.co_firstlineno, code.co_name))
        return self._meanwhile(*arguments)
    sys.setprofile(called)
    try:
        done, result = self._interpret(0, arguments)
    finally:
        sys.setprofile(None)
    if done:
        CALLED.update(RUNNING)
    RUNNING.clear()
    return result if done else self.machine_code(*arguments)


CALLED: set[tuple[str, int, str]] = set()
RUNNING: set[tuple[str, int, str]] = set()


def called(frame: Any, event: str, argument: Any) -> None:
    """Note which functions are interpreted."""
    if event == "call" and frame.f_globals.get("__name__") == interpreting._INTERPRETED:
        code = frame.f_code
        RUNNING.add((code.co_filename, code.co_firstlineno, code.co_name))


def main(mode: str, out: str) -> None:
    if mode == "compile":
        compiling.compile_at_once()
    else:
        interpreting.Kernel.__call__ = always  # type: ignore[method-assign]
    Path(out).write_bytes(pickle.dumps((results(), CALLED)))


if __name__ == "__main__":
    main(*sys.argv[1:])
