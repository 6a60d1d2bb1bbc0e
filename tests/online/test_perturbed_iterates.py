"""Perturbed iterates, against plain references; and the stability that their privacy rests on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import reticent
from reticent import losses, online, sets

from . import reference
from .cases import BUDGET, records

DIM = 4
STEPS = 2000


def slope_of(loss):
    return {
        losses.Logistic: reference.logistic_slope,
        losses.Squared: reference.squared_slope,
        losses.Hinge: reference.hinge_slope,
    }[type(loss)]


def implicit(x, a, y, loss, project, weight, before):
    """The minimum over the set of l + (before/2) ||u - x||^2, by bisection over the slope."""
    slope = slope_of(loss)
    prior = before * x / weight

    def after(t):
        return project(prior - t / weight * a)

    low, high = -10.0, 10.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if slope(float(a @ after(middle)), y) > middle:
            low = middle
        else:
            high = middle
    return after(0.5 * (low + high))


def iterates(A, y, loss, project, noise, kind, gaps=(), center=None):
    """Clean and noisy iterates of IGD or of gradient descent with the corrected steps."""
    alpha, smooth = loss.ridge, loss.data_smoothness
    x = np.zeros(DIM) if center is None else center.copy()
    noisy = [x.copy()]
    for t in range(1, len(A) + 1):
        a, label = A[t - 1], y[t - 1]
        if kind == "implicit":
            weight, before = alpha * (t + 1), alpha * t
            step = (x, a, label, loss, project, weight, before)
            x = project(before * x / weight) if t - 1 in gaps else implicit(*step)
        else:
            step = min(1 / (alpha * t), 2 / (2 * alpha + smooth))
            g = 0.0 if t - 1 in gaps else slope_of(loss)(float(a @ x), label)
            x = project(x - step * (g * a + alpha * x))
        noisy.append(project(x + noise[t - 1]))
    return np.array(noisy)


def drawn(learner, steps):
    """The noise that a learner is going to add: its iterates at the center, without data."""
    noise, rows = learner._noise, []
    while sum(len(r) for r in rows) < steps:
        count = learner._ready()
        scale = noise.grid[noise.row :, None] if learner.noise_precision == "lattice" else 1.0
        rows.append(noise.rows[noise.row :] * scale)
        learner.run(np.zeros((count, learner.dim)), np.ones(count), present=np.zeros(count, bool))
    return np.concatenate(rows)[:steps]


@pytest.mark.parametrize("radius", [0.5, 50.0])
@pytest.mark.parametrize("kind", ["implicit", "gradient"])
@pytest.mark.parametrize("loss", [losses.Logistic(ridge=0.1), losses.Squared(ridge=0.2)])
def test_equals_its_reference(loss, kind, radius):
    inner = online.ImplicitGradient() if kind == "implicit" else online.GradientDescent()
    make = lambda: online.PerturbedIterates(  # noqa: E731
        sets.L2Ball(DIM, radius), loss, inner=inner, budget=BUDGET, horizon=STEPS, seed=5,
        noise_precision="float",
    )  # fmt: skip
    A, y = records(STEPS)
    noise = drawn(make(), STEPS)
    play = make().run(A, y, keep=STEPS)
    wanted = iterates(A, y, loss, reference.l2_ball(radius), noise, kind)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


def test_on_the_lattice_and_with_gaps():
    loss = losses.Logistic(ridge=0.1)
    make = lambda: online.PerturbedIterates(  # noqa: E731
        sets.Box(-0.2, 0.3, dim=DIM), loss, budget=BUDGET, horizon=500, seed=5
    )
    A, y = records(500)
    noise, learner = drawn(make(), 500), make()
    present = np.random.default_rng(1).random(500) < 0.7
    gaps = set(np.flatnonzero(~present).tolist())
    play = learner.run(A, y, present=present, keep=500)
    wanted = iterates(
        A, y, loss, reference.box(-0.2, 0.3), noise, "implicit", gaps, np.full(DIM, 0.05)
    )
    # rounding to the lattice: half a step, the coarsest of which belongs to the first decision
    np.testing.assert_allclose(
        play.decisions, wanted[:-1], rtol=0, atol=learner.deviation(1) * 2.0**-30
    )


def test_the_implicit_step_is_the_minimum_it_says():
    """Against a general optimiser, on a set where the minimum is on the boundary."""
    loss = losses.Logistic(ridge=0.3)
    rng = np.random.default_rng(2)
    for _ in range(5):
        a = rng.standard_normal(DIM)
        a /= np.linalg.norm(a)
        learner = online.PerturbedIterates(
            sets.L2Ball(DIM, 0.3), loss, budget=BUDGET, horizon=5, seed=0, noise_precision="float"
        )
        learner.observe((a, 1.0))
        x = learner._memory[1].copy()
        result = minimize(
            lambda u, a=a: loss.value(u, a, 1.0) + 0.5 * 0.3 * float(u @ u),  # A_0 = alpha, x_1 = 0
            np.zeros(DIM),
            constraints={"type": "ineq", "fun": lambda u: 0.09 - u @ u},
            tol=1e-14,
        )
        np.testing.assert_allclose(x, result.x, atol=1e-5)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("kind", ["implicit", "gradient", "projected"])
def test_one_record_moves_the_iterates_as_far_as_it_may_and_no_farther(kind, neighbours):
    """Over random and extreme neighbouring streams; linear losses attain the bound of implicit steps."""
    rng = np.random.default_rng(3)
    inner = {
        "implicit": online.ImplicitGradient(),
        "projected": online.ImplicitGradient(projected=True),
        "gradient": online.GradientDescent(),
    }[kind]
    steps = 40
    largest = 0.0
    for trial in range(60):
        loss = [
            losses.Linear(ridge=0.5), losses.Logistic(ridge=0.2), losses.Squared(ridge=1.0),
            losses.SmoothHinge(0.2, ridge=0.1),
        ][trial % 4]  # fmt: skip
        convex = sets.L2Ball(3, [0.2, 30.0][trial // 4 % 2])
        learners = [
            online.PerturbedIterates(
                convex, loss, inner=inner, budget=BUDGET.with_(neighbours=neighbours), horizon=steps
            )
            for _ in range(2)
        ]
        A, y = loss.sample_records(rng, steps, 3)
        where = int(rng.integers(0, 5))
        other, present = A.copy(), np.ones(steps, bool)
        labels = y.copy()
        if neighbours == "zero-out":
            present[where] = False
        else:
            other[where] = -A[where] if trial % 3 else loss.sample_records(rng, 1, 3)[0][0]
        bound, _ = learners[0]._reach.of(0, steps, learners[0]._reach.start)
        for t in range(steps):
            learners[0].observe((A[t], y[t]))
            if present[t]:
                learners[1].observe((other[t], labels[t]))
            else:
                learners[1].observe(None)
            apart = float(np.linalg.norm(learners[0]._memory[1] - learners[1]._memory[1]))
            assert apart <= bound[t] * (1 + 1e-12)
            largest = max(largest, apart / bound[t])
    assert largest > 0.99


def test_skipping_the_regulariser_at_a_gap_would_break_the_promise():
    """Why a gap is a step: without it, one record moves an iterate by twice its bound."""
    alpha, steps = 1.0, 400

    def last(slope, skip):
        x = 0.0
        for t in range(1, steps):
            x = (alpha * t * x + 1.0) / (alpha * (t + 1))
        return x if skip else (alpha * steps * x - slope) / (alpha * (steps + 1))

    bound = 1.0 / (alpha * (steps + 1))
    assert abs(last(1.0, False) - last(0.0, False)) == pytest.approx(bound, rel=1e-9)
    assert abs(last(1.0, False) - last(1.0, True)) > 1.99 * bound


@pytest.mark.parametrize("inner", [online.ImplicitGradient(), online.GradientDescent()])
def test_an_added_regulariser_keeps_losses_without_a_ridge_stable(inner):
    rng = np.random.default_rng(0)
    pair = [
        online.PerturbedIterates(
            sets.L2Ball(3), losses.Logistic(), inner=inner, budget=BUDGET, horizon=60,
            added_regularizer="auto",
        )
        for _ in range(2)
    ]  # fmt: skip
    A, y = losses.Logistic().sample_records(rng, 60, 3)
    bound, _ = pair[0]._reach.of(0, 60, pair[0]._reach.start)
    weights = 2 * pair[0].added_regularizer / np.sqrt(np.arange(1, 61))
    strength = np.cumsum(weights) + (weights[0] if inner == online.ImplicitGradient() else 0)
    np.testing.assert_allclose(bound, pair[0].lipschitz / strength, rtol=1e-9)
    for t in range(60):
        pair[0].observe((A[t], y[t]))
        pair[1].observe(None if t == 2 else (A[t], y[t]))
        apart = np.linalg.norm(pair[0]._memory[1] - pair[1]._memory[1])
        assert apart <= bound[t]


class Sloppy(sets.ConvexSet):
    """A ball whose projection stops at a tolerance: it rounds where it should not."""

    dim = 3
    diameter = 2.0
    norm_bound = 1.0
    center = np.zeros(3)

    def linear_minimizer(self, g):
        return -g / np.linalg.norm(g)

    def project(self, x):
        return 1e-4 * np.rint(1e4 * x / max(1.0, np.linalg.norm(x)))


def test_a_projection_with_a_tolerance_breaks_the_stability_and_is_refused():
    """By a plain loop: late iterates, which a record may hardly move, move by the tolerance instead."""
    convex, alpha, steps = Sloppy(), 1.0, 20_000
    worlds = np.zeros((2, 3))
    for t in range(1, steps + 1):
        for number, slope in enumerate((1.0, 0.999) if t == 1 else (0.5, 0.5)):
            moved = alpha * t * worlds[number] - slope * np.array([1.0, 0.0, 0.0])
            worlds[number] = convex.project(moved / (alpha * (t + 1)))
    apart = np.linalg.norm(worlds[0] - worlds[1])
    assert apart > 3.9 * 1.0 / (alpha * (steps + 1))
    for inner in (online.ImplicitGradient(), online.GradientDescent()):
        for own in (Sloppy(), sets.Ellipsoid(np.eye(3) * 4.0), sets.HyperSimplex(3, 1)):
            with (
                reticent.Ledger(BUDGET) as ledger,
                pytest.raises(
                    ValueError, match=r"exact up to rounding.*FollowTheRegularizedLeader"
                ),
            ):
                online.PerturbedIterates(
                    own, losses.Logistic(ridge=1.0), inner=inner, budget=BUDGET, horizon=9
                )
            assert ledger.entries == ()
    # what the message recommends
    online.FollowTheRegularizedLeader(Sloppy(), losses.Logistic(), budget=BUDGET, horizon=9)


def test_what_cannot_be_promised_is_refused():
    ball, loss = sets.L2Ball(3), losses.Logistic(ridge=1.0)
    own = losses.CustomLoss(lambda x, a, y: 0.0, lambda x, a, y: a, lipschitz=1.0)
    with pytest.raises(TypeError, match="generalised linear"):
        online.PerturbedIterates(ball, own, budget=BUDGET, horizon=9)
    with pytest.raises(ValueError, match="not strongly convex"):
        online.PerturbedIterates(ball, losses.Logistic(), budget=BUDGET, horizon=9)
    with pytest.raises(ValueError, match="delta > 0"):
        online.PerturbedIterates(ball, loss, budget=reticent.Budget(1.0), horizon=9)
    with pytest.raises(ValueError, match="smooth loss"):
        online.PerturbedIterates(
            ball, losses.Hinge(ridge=1.0), inner=online.GradientDescent(), budget=BUDGET, horizon=9
        )
    with pytest.raises(ValueError, match="full precision"):
        online.PerturbedIterates(
            ball, losses.Hinge(ridge=1.0), inner=online.ImplicitGradient(projected=False),
            budget=BUDGET, horizon=9,
        )  # fmt: skip
    with pytest.raises(TypeError, match="inner must be"):
        online.PerturbedIterates(ball, loss, inner="implicit", budget=BUDGET, horizon=9)
    with pytest.raises(ValueError, match="needs a horizon"):
        online.PerturbedIterates(ball, loss, budget=BUDGET, schedule="optimal")
    with pytest.raises(ValueError, match="schedule must be one of"):
        online.PerturbedIterates(ball, loss, budget=BUDGET, schedule="best", horizon=9)
    learner = online.PerturbedIterates(ball, loss, budget=BUDGET, horizon=9)
    with pytest.raises(TypeError, match="must stay secret"):
        learner.update(np.zeros(3))
    assert learner.steps == 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("radius", [0.5, 1.0, 20.0])
def test_the_added_regulariser_minimises_its_model(epsilon, radius):
    """Pull, curved noise and noise cut off at the boundary, minimised by brute force."""
    T, mu = 5000, reticent.Budget(epsilon, 1e-6).mu
    for loss in (losses.Logistic(), losses.Linear()):
        learner = online.PerturbedIterates(
            sets.L2Ball(3, radius), loss, added_regularizer="auto", horizon=T, seed=0,
            budget=reticent.Budget(epsilon, 1e-6),
        )  # fmt: skip
        L = learner.lipschitz
        bend = min(0.25, L / radius) if isinstance(loss, losses.Logistic) else 0.0
        slope = bend * radius or L
        grid = np.exp(np.linspace(np.log(1e-4), np.log(1e4), 400_001))
        cost = (
            2.0 * grid * radius**2 * np.sqrt(T)
            + 0.733 * slope * L / (4.0 * grid * mu) * T
            + 2.25 * bend * (L / (4.0 * grid * mu)) ** 2 * T
        )
        assert learner.added_regularizer == pytest.approx(grid[cost.argmin()], rel=1e-3)


def test_a_number_is_no_participation():
    with pytest.raises(TypeError, match=r"participation must be a privacy\.Participation.*got 3"):
        online.PerturbedIterates(
            sets.L2Ball(2),
            losses.Logistic(ridge=0.1),
            budget=reticent.Budget(1.0, 1e-6),
            horizon=50,
            participation=3,
        )
