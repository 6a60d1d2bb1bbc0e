"""Follow the approximate leader, by projection and by local linear steps, against the plain references."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets, sums

from . import reference
from .leaders import BUDGET, DIM, LOSSES, SETS, STEPS, bare, records, reference_of


@pytest.mark.parametrize("window", [None, 64])
@pytest.mark.parametrize("m", [None, 0.2, 0.01])
def test_approximate_leader_by_projection_equals_its_reference(window, m):
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=BUDGET.with_(window=window), horizon=STEPS, strong_convexity=m, seed=7,
        noise_precision="float",
    )  # fmt: skip
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    play = learner.run(A, y, keep=STEPS)
    wanted = reference_of(learner, A, y, slope, project, noise)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


def test_the_printed_form_of_the_approximate_leader():
    """[window], (10) with its missing 1/t: Proj((sum x - g/m)/t), g the gradients of the whole losses."""
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=BUDGET, horizon=STEPS, anchor=0.0, seed=7, noise_precision="float"
    )
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    m, x, g, sx = 0.05, np.zeros(DIM), np.zeros(DIM), np.zeros(DIM)
    learner.run(A, y)
    for t in range(STEPS):
        g = g + slope(A[t] @ x, y[t]) * A[t] + m * x
        sx = sx + x
        x = project((sx - (g + noise[t]) / m) / (t + 1))
    np.testing.assert_allclose(learner.decision, x, rtol=0, atol=1e-10)


def test_pftal_is_a_full_window_and_gamma_noise():
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=reticent.Budget(1.0), horizon=STEPS, seed=7, noise_precision="float"
    )
    assert isinstance(learner.total.mechanism, sums.TreeMechanism)
    assert learner.total.noise == "gamma"
    assert learner.guarantee.pure == pytest.approx(1.0, rel=1e-12)
    A, y = records()
    noise = reference.noise_of(bare(learner, sums.Tree, noise="gamma"), STEPS)
    play = learner.run(A, y, keep=STEPS)
    wanted = reference_of(learner, A, y, slope, project, noise)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("more", [{}, {"added_regularizer": 0.5}, {"added_regularizer": "auto"}])
def test_local_linear_leader_equals_its_reference_and_keeps_its_certificates(more):
    loss = losses.Quadratic(0.5)
    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.full(DIM, 0.3), size=STEPS) * 0.9
    learner = online.FollowTheApproximateLeader(
        sets.Simplex(DIM), loss, step="local-linear", budget=BUDGET.with_(window=32),
        horizon=STEPS, seed=7, noise_precision="float", **more,
    )  # fmt: skip
    rule = learner.rule
    noise = reference.noise_of(bare(learner), STEPS)

    def minimum(seen, played, m, weight, center):
        strength = m * len(played) + weight
        mean = (m * np.sum(played, axis=0) + weight * center) / strength
        return reference.simplex()(mean - seen / strength)

    wanted, certificates = reference.local_leader(
        A, np.zeros(STEPS), lambda z, y: -0.5, reference.local_simplex, learner.set.rho, noise,
        m=rule.curvature, ridge=0.5, anchor=rule.anchor_weight, center=np.full(DIM, 1 / DIM),
        minimum=minimum,
    )  # fmt: skip
    play = learner.run(A, keep=STEPS)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)
    bound_before, true_before, bound_after, true_after = certificates.T
    slack = 1e-9 * np.maximum(1.0, np.abs(bound_before))
    assert (true_before <= bound_before + slack).all()
    assert (true_after <= bound_after + slack).all()


def test_published_constants_are_the_papers():
    convex = sets.Simplex(5)
    loss = losses.Quadratic(1.0)
    learner = online.FollowTheApproximateLeader(
        convex, loss, step="local-linear", constants="published",
        budget=reticent.Budget(1.0, 1e-6, window=64), seed=7, noise_precision="float", failure=0.1,
    )  # fmt: skip
    rho2, d = convex.rho**2, 5
    alpha, c0 = 1 / (5 * rho2), (25 * rho2) ** 2
    steep = 1.0 + 1.0 * 1.0 + 1.0 * convex.diameter  # L (data and ridge) + mu D
    cw = 2 * alpha * math.sqrt(d) * 6**1.5 * math.log(1 / 0.1) / (1 - alpha)
    c1 = 26 * rho2 * steep * (1 + cw)
    noise = reference.noise_of(bare(learner), 300)
    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.ones(5), size=300) * 0.9
    learner.run(A)
    x1 = np.full(d, 0.2)
    x, g, sx = x1.copy(), np.zeros(d), np.zeros(d)
    for t in range(1, 301):
        g = g - A[t - 1]
        sx = sx + x
        seen = g + noise[t - 1] + sx
        eta = c1**2 / (t + c0)
        radius = math.sqrt(4 * eta / (t + c0)) + 2 * steep / (t + c0)
        gradient = seen + (t + c0) * x - sx - c0 * x1
        x = x + alpha * (reference.local_simplex(x, radius, gradient) - x)
    np.testing.assert_allclose(learner.decision, x, rtol=0, atol=1e-10)


def test_a_gap_keeps_the_clock_and_the_regulariser():
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    A, y = records(steps=300)
    present = np.random.default_rng(5).random(300) < 0.7
    make = lambda: online.FollowTheApproximateLeader(  # noqa: E731
        convex, loss, budget=BUDGET, horizon=300, strong_convexity=0.2, seed=7,
        noise_precision="float",
    )  # fmt: skip
    learner = make()
    noise = reference.noise_of(bare(learner), 300)
    holes = A.copy()
    holes[~present] = np.nan
    labels = y.copy()
    labels[~present] = 5.0
    play = learner.run(holes, labels, present=present, keep=300)
    gaps = set(np.flatnonzero(~present).tolist())
    wanted = reference_of(learner, A, y, slope, project, noise, gaps=gaps)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)
    assert (play.losses[~present] == 0).all()
    one = make()
    for t in range(300):
        if present[t]:
            one.observe((A[t], y[t]))
        elif t % 2:
            one.update(None)
        else:
            one.observe(None)
    np.testing.assert_array_equal(one.decision, learner.decision)


def test_a_false_published_claim_is_a_warning_and_a_caveat():
    with pytest.warns(reticent.PrivacyLeakWarning, match="claims epsilon = 1"):
        learner = online.FollowTheApproximateLeader(
            sets.L2Ball(3), losses.Logistic(ridge=0.001), calibration="published",
            budget=reticent.Budget(1.0, window=64, neighbours="replace"),
        )  # fmt: skip
    assert learner.guarantee.pure > 1.9
    assert "claims" in str(learner.guarantee)
