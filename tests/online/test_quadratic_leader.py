"""The quadratic leader, against NumPy and against its own bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import reticent
from reticent import losses, online, sets, sums

from .cases import BUDGET

DIM = 5
STEPS = 2000


def records(steps=STEPS, dim=DIM, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((steps, dim))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1) * 1.001)[:, None]
    return A, np.clip(A @ np.linspace(-1, 1, dim) + 0.1 * rng.standard_normal(steps), -0.99, 0.99)


def reference(A, y, noise, *, ridge, damping, weight, radius, safe, gaps=(), refresh=1):
    """Totals as a matrix and a vector, solved by NumPy; eigenvalues cut while noise may rule."""
    d = A.shape[1]
    V, u, x = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    upper = np.triu_indices(d)
    out = [x]
    for t in range(1, len(A) + 1):
        if t - 1 not in gaps:
            V = V + np.outer(A[t - 1], A[t - 1])
            u = u + y[t - 1] * A[t - 1]
        if t % refresh == 0:
            N = np.zeros((d, d))
            N[upper] = noise[t - 1, : len(upper[0])]
            N = (N + N.T) / math.sqrt(2) - np.diag(np.diag(N)) * (math.sqrt(2) - 1)
            noisy = V + N
            own = t * ridge + damping
            if own < safe:
                values, vectors = np.linalg.eigh(noisy)
                noisy = (vectors * np.maximum(values, 0)) @ vectors.T
            x = np.linalg.solve(noisy + own * np.eye(d), u + noise[t - 1, len(upper[0]) :] / weight)
            x = x * min(1.0, radius / np.linalg.norm(x))
        out.append(x)
    return np.array(out)


@pytest.mark.parametrize("ridge", [1.0, 0.01])
@pytest.mark.parametrize("refresh", [1, 7])
def test_equals_its_reference(ridge, refresh):
    learner = online.QuadraticLeader(
        DIM, losses.Squared(ridge=ridge), budget=reticent.Budget(5.0, 1e-6), horizon=STEPS, seed=3,
        noise_precision="float", refresh=refresh, damping=1.0,
    )  # fmt: skip
    A, y = records()
    total = sums.Correlated(
        learner.total.dim, STEPS, budget=learner.budget, norm=learner.total.norm, seed=3,
        noise_precision="float",
    )  # fmt: skip
    noise = total.run(np.zeros((STEPS, total.dim)))
    safe = 3 * total.error(STEPS) * math.sqrt(2 * DIM)
    gaps = {5, 6, 700}
    present = np.ones(STEPS, bool)
    present[list(gaps)] = False
    play = learner.run(A, y, present=present, keep=STEPS)
    wanted = reference(
        A, y, noise, ridge=ridge, damping=learner.damping, weight=learner.weight,
        radius=min(1 / ridge, 0.5 / math.sqrt(ridge)), safe=safe, gaps=gaps, refresh=refresh,
    )  # fmt: skip
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


def test_one_at_a_time_is_the_same():
    make = lambda: online.QuadraticLeader(  # noqa: E731
        sets.L2Ball(DIM, 0.4), losses.Squared(ridge=0.1), budget=BUDGET, horizon=300, seed=3
    )
    A, y = records(300)
    many, one = make(), make()
    play = many.run(A, y, keep=300)
    each = [one.decision] + [one.observe((A[t], y[t])) for t in range(300)]
    np.testing.assert_array_equal(play.decisions, each[:-1])
    slow = online.QuadraticLeader(
        sets.Ellipsoid(np.eye(DIM) / 0.16), losses.Squared(ridge=0.1), budget=BUDGET, horizon=300,
        seed=3, weight=many.weight, damping=many.damping,
    )  # fmt: skip
    assert slow.set.kernel is None
    np.testing.assert_allclose(slow.run(A, y, keep=300).decisions, play.decisions, atol=1e-7)
    with pytest.raises(TypeError, match="not from gradients"):
        one.update(np.zeros(DIM))


def stacked(v, y, w):
    upper = np.triu_indices(len(v))
    V = np.outer(v, v)[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    return np.concatenate([V, w * y * v])


@pytest.mark.parametrize("weight", [0.5, 1.0, 1.3, 2.0, 3.0])
def test_the_joint_move_under_replacement(weight):
    """By a search over pairs of records: 4.5 for equal weights, not 8 and not 6."""
    learner = online.QuadraticLeader(
        3, losses.Squared(ridge=1.0, feature_norm=1.5, label_bounds=(-2.0, 2.0)), horizon=50,
        budget=BUDGET.with_(neighbours="replace"), weight=weight, noise_precision="float",
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def record(z):
        v, y = z[:3], 2.0 * math.tanh(z[3])
        size = np.linalg.norm(v)
        return 1.5 * v / size * math.tanh(size), y

    def apart(z):
        (v, y), (other, label) = record(z[:4]), record(z[4:])
        return -float(np.sum((stacked(v, y, weight) - stacked(other, label, weight)) ** 2))

    found = max(-minimize(apart, 3 * rng.standard_normal(8), tol=1e-12).fun for _ in range(25))
    claimed = learner.total.mechanism.record_sensitivity**2
    assert found <= claimed * (1 + 1e-9)
    assert found >= claimed * (1 - 1e-3)
    if weight == 0.75:
        assert claimed == pytest.approx(4.5 * 1.5**4)
    assert learner.guarantee.gdp == pytest.approx(BUDGET.mu, rel=1e-9)


def test_equal_weights_give_four_and_a_half():
    learner = online.QuadraticLeader(
        3, losses.Squared(ridge=1.0), budget=BUDGET.with_(neighbours="replace"), weight=1.0,
        horizon=50, noise_precision="float",
    )  # fmt: skip
    assert learner.total.mechanism.record_sensitivity**2 == pytest.approx(4.5, rel=1e-9)
    on_lattice = online.QuadraticLeader(
        3, losses.Squared(ridge=1.0), budget=BUDGET.with_(neighbours="replace"), weight=1.0,
        horizon=50,
    )  # fmt: skip
    reach, step = on_lattice.total.mechanism.record_sensitivity, on_lattice.total._noise.step
    assert math.sqrt(4.5) + math.sqrt(on_lattice.total.dim) * step <= reach < math.sqrt(4.5) * 1.001


def test_contributions_are_what_the_noise_was_calibrated_to():
    """With no noise the total is V and u, and no record is longer than the norm."""
    learner = online.QuadraticLeader(
        DIM, losses.Squared(ridge=0.5), budget=BUDGET, horizon=50, noise_precision="float"
    )
    A, y = records(50)
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = np.sign(y)
    before = learner.total._total.copy()
    for a, label in zip(A, y, strict=True):
        learner.observe((a, label))
        moved = learner.total._total - before
        before = learner.total._total.copy()
        np.testing.assert_allclose(moved, stacked(a, label, learner.weight), atol=1e-12)
        assert np.linalg.norm(moved) <= learner.total.norm * (1 + 1e-12)
    assert learner.total.norm == pytest.approx(math.sqrt(1 + learner.weight**2), rel=1e-12)


def test_noise_on_the_matrix_is_symmetric():
    """Standard deviation s on the diagonal and s/sqrt(2) beside it: the isometry of the joint total."""
    from reticent.online import quadratic_kernels as k

    rng = np.random.default_rng(0)
    M, u = np.zeros((3, 3)), np.zeros(3)
    drawn = []
    for _ in range(20_000):
        k.unpack(rng.standard_normal(9), 2.0, M, u)
        np.testing.assert_array_equal(M, M.T)
        drawn.append(np.concatenate([np.diag(M), [M[0, 1], M[0, 2], M[1, 2]], u]))
    # chi-square with 20,000 degrees: a deviation of 5 % has probability below 1e-6
    np.testing.assert_allclose(
        np.var(drawn, axis=0), [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25], rtol=0.05
    )


def test_decisions_of_clean_totals_are_within_the_radius():
    """||x|| <= min(F Y/a, Y/(2 sqrt(a))), over the worst streams a search can find."""
    for ridge in (0.05, 1.0, 4.0):
        radius = min(1 / ridge, 0.5 / math.sqrt(ridge))
        worst = max(s / (ridge + s * s) for s in np.linspace(0.001, 1.0, 2000))
        assert worst <= radius * (1 + 1e-9)
        if ridge <= 1:
            assert worst >= 0.999 * radius
    learner = online.QuadraticLeader(
        DIM, losses.Squared(ridge=1.0), budget=reticent.Budget(0.01, 1e-6), horizon=100, damping=0.0
    )
    play = learner.run(*records(100), keep=100)
    assert np.linalg.norm(play.decisions, axis=1).max() <= 0.5 * (1 + 1e-12)


def test_published_pair_of_trees():
    learner = online.QuadraticLeader(
        DIM, losses.Squared(ridge=1.0), budget=reticent.Budget(0.5, 1e-6), horizon=1000,
        calibration="published", damping=0.0,
    )  # fmt: skip
    depth = math.log(1000)
    sigma = depth / 0.25 * math.sqrt(math.log(depth / 5e-7))
    assert learner.total._noise.scale == pytest.approx(sigma, rel=1e-12)
    assert learner.weight == 1.0
    assert learner.guarantee.gdp == pytest.approx(math.sqrt(10) * math.sqrt(2) / sigma, rel=1e-9)
    twin = type(learner).from_state(learner.state())
    assert twin.guarantee == learner.guarantee


@pytest.mark.parametrize("budget", [reticent.Budget(1.0), reticent.Budget(1.0, window=16),
                                    BUDGET.with_(window=16, neighbours="replace")])  # fmt: skip
def test_pure_and_window_budgets(budget):
    learner = online.QuadraticLeader(
        sets.L2Ball(3), losses.Squared(), budget=budget, horizon=200, seed=0
    )
    learner.run(*records(200, 3))
    assert learner.guarantee.epsilon(budget.delta) <= 1.0 + 1e-9
    assert np.linalg.norm(learner.decision) <= 1.0 + 1e-12


def test_what_cannot_work_is_refused():
    with pytest.raises(TypeError, match="squared losses"):
        online.QuadraticLeader(3, losses.Logistic(ridge=1.0), budget=BUDGET)
    with pytest.raises(ValueError, match="set must be bounded"):
        online.QuadraticLeader(3, losses.Squared(), budget=BUDGET)
    with pytest.raises(ValueError, match="labels other than 0"):
        online.QuadraticLeader(3, losses.Squared(ridge=1, label_bounds=(0, 0)), budget=BUDGET)
    with pytest.raises(ValueError, match="published"):
        online.QuadraticLeader(3, losses.Squared(ridge=1.0), budget=BUDGET, calibration="published")
    with pytest.raises(ValueError, match="refresh"):
        online.QuadraticLeader(3, losses.Squared(ridge=1.0), budget=BUDGET, refresh=0)
