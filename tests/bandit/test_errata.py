"""What [bandit] prints wrongly, each as a test that the printed version would fail; see docs/errata.md."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import bandit, sets

from .reference import BUDGET, drive, frank_wolfe, ingredients, play


def learner_on(convex, horizon, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-1.0, 1.0), "seed": 1} | more
    return bandit.ProjectionFreeBandit(convex, horizon=horizon, **facts)


def test_the_printed_sign_walks_uphill():
    """Line 14 minimises 1/2 |x|^2 - <eta s, x>; with that sign the loss grows."""
    convex, plays = sets.L1Ball(2), 4000
    a = np.array([1.0, 0.0])
    learner = learner_on(convex, plays, noise_precision="float", centring="middle", step=0.01)
    data = ingredients(learner, 1, plays)
    facts = dict(
        **data,
        eta=lambda R, squares, loudness: 0.01,
        respond=lambda slope, start: frank_wolfe(
            convex.linear_minimizer, data["center"], slope, start, data["batch"]
        ),
    )
    points = drive(learner, lambda t, x: float(a @ x), plays)
    printed = play(lambda t, x: float(a @ x), **facts, sign=-1.0)
    ours = points[plays // 2 :] @ a
    assert ours.mean() < -0.3
    assert (printed.points[plays // 2 :] @ a).mean() > 0.3


@pytest.mark.parametrize("stale", [True, False])
def test_staleness(stale):
    """A round answers to all rounds but the last two, or but the last one where it is not stale."""
    first_moved = {}
    for changed in (1, 2, 3):  # the round whose values are changed
        rounds = []
        for value in (0.9, -0.9):
            learner = learner_on(sets.L1Ball(3), 64, stale=stale, centring="middle")
            assert (learner.rounds, learner.batch) == (8, 8)
            seen = []
            for r in range(1, 9):
                for _ in range(8):
                    learner.ask()
                    learner.tell(value if r == changed else 0.0)
                seen.append(learner.decision)
            rounds.append(seen)
        differs = [r + 1 for r in range(8) if not np.array_equal(rounds[0][r], rounds[1][r])]
        first_moved[changed] = differs[0]
    lag = 2 if stale else 1
    assert first_moved == {r: r + lag for r in (1, 2, 3)}


def test_first_decisions_are_the_center():
    learner = learner_on(sets.Simplex(4), 64)
    for _ in range(16):
        learner.ask()
        np.testing.assert_allclose(learner.decision, 0.25)
        learner.tell(0.5)


@pytest.mark.parametrize(("stale", "sums"), [(True, 98), (False, 99)])
def test_nodes_of_the_tree(stale, sums):
    """Only sums that a decision is made of are released: a record is in bit_length of these nodes."""
    learner = learner_on(sets.L1Ball(2), 10_000, total="tree", stale=stale, centring="middle")
    assert learner._total.horizon == sums
    pure = learner_on(sets.L1Ball(2), 10_000, budget=reticent.Budget(1.0), stale=stale)
    (release,) = pure.guarantee.releases
    assert release.count == sums.bit_length() == 7


def test_no_factor_for_the_batch():
    """Lemma 7 counts a whole batch; a record is one term of it, so the noise has no T_batch."""
    few = learner_on(sets.L1Ball(5), 10_000, smoothing=0.1, batches=100, centring="middle")
    (release,) = few.guarantee.releases
    assert release.sensitivity == pytest.approx(5 * 2 / (2 * 0.1), rel=1e-12)
    many = learner_on(sets.L1Ball(5), 10**6, smoothing=0.1, batches=100, centring="middle")
    assert many.guarantee.releases[0].sensitivity == pytest.approx(50.0, rel=1e-12)
    assert many._total.error(98) == pytest.approx(few._total.error(98), rel=1e-6)


def test_range_of_values_reaches_outside_the_set():
    """Where points may leave the set, values go up to L (D + zeta), not L D."""
    facts = {"values": None, "smoothing": 0.25, "lipschitz": 2.0}
    over = learner_on(sets.L1Ball(3), 100, feasibility="overflow", **facts)
    assert (over._plan.low, over._plan.high) == (0.0, 2.0 * (2.0 + 0.25))
    inside = learner_on(sets.L1Ball(3), 100, **facts)
    assert (inside._plan.low, inside._plan.high) == (0.0, 4.0)


def test_gradient_estimate():
    """Lemma 3(3): the mean of n / zeta f(x + zeta u) u is the gradient, with n / zeta, not zeta / L.

    Mean of 2e5 vectors of norm at most 3 / 0.5: by the vector Bernstein inequality the error exceeds
    0.1 with probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    n, zeta, count = 3, 0.5, 200_000
    a = np.array([0.3, -0.5, 0.1])
    u = rng.standard_normal((count, n))
    u /= np.linalg.norm(u, axis=1)[:, None]
    estimate = n / zeta * np.mean((zeta * u @ a)[:, None] * u, axis=0)
    np.testing.assert_allclose(estimate, a, atol=0.1)
    assert np.linalg.norm(zeta * np.mean((zeta * u @ a)[:, None] * u, axis=0) - a) > 0.3
