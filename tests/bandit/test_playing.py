"""Many plays at once: the same as one by one, on every kind of set and loss; and every point feasible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reticent
from reticent import bandit, losses, sets

from .reference import BUDGET, PURE

TREES = sets.SpanningTreePolytope(list(itertools.combinations(range(4), 2)))
ROADS = sets.FlowPolytope(
    [("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t"), ("s", "t")], "s", "t"
)


class Diamond(sets.ConvexSet):
    dim, diameter = 2, 2.0

    def linear_minimizer(self, g):
        vertex = np.zeros(2)
        i = int(np.argmax(np.abs(g)))
        vertex[i] = -np.copysign(1.0, g[i])
        return vertex


SETS = {
    "l1": sets.L1Ball(5, 2.0),
    "simplex": sets.Simplex(4, 3.0),
    "box": sets.Box([-1.0, 2.0], [0.0, 5.0]),
    "l2": sets.L2Ball(3),
    "product": sets.Product([sets.Simplex(3), sets.L1Ball(2)]),
    "flow": ROADS,
    "trees": TREES,
    "birkhoff": sets.Birkhoff(3),
    "spectrahedron": sets.Spectrahedron(3),
    "nuclear": sets.NuclearBall((2, 3)),
    "subsets": sets.HyperSimplex(5, 2),
    "own": Diamond(),
}


def learner_on(convex, horizon=600, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-3.0, 3.0), "seed": 4}
    return bandit.ProjectionFreeBandit(convex, horizon=horizon, **(facts | more))


def rows_for(convex, count, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(convex.dim) + rng.standard_normal((count, convex.dim))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


@pytest.mark.parametrize("name", SETS)
def test_points_are_feasible_and_in_shape(name):
    convex = SETS[name]
    learner = learner_on(convex, 150, budget=reticent.Budget(100.0, 1e-3))
    rows = rows_for(convex, 150)
    for row in rows:
        x = learner.ask()
        assert x.shape == convex.shape
        assert convex.contains(x, 1e-8)
        assert convex.contains(learner.decision, 1e-8)
        learner.tell(float(row @ np.ravel(x)))
    basis = convex.affine_hull[1]
    assert learner._geometry.dim == (convex.dim if basis is None else basis.shape[1])


@pytest.mark.parametrize("name", ["l1", "simplex", "flow", "own"])
def test_overflow(name):
    """Points may leave the set by the smoothing radius, within its hull, and no farther."""
    convex = SETS[name]
    learner = learner_on(convex, 150, feasibility="overflow", smoothing=0.3)
    point, basis = convex.affine_hull
    outside = 0
    for _ in range(150):
        x = np.ravel(learner.ask())
        distance = np.linalg.norm(x - np.ravel(learner.decision))
        assert distance == pytest.approx(0.3, abs=1e-9)
        if basis is not None:
            along = x - point
            np.testing.assert_allclose(basis @ (basis.T @ along), along, atol=1e-9)
        outside += not convex.contains(x)
        learner.tell(0.1)
    assert outside > 0


@pytest.mark.parametrize("name", ["l1", "simplex", "flow", "trees", "own", "product"])
@pytest.mark.parametrize("form", ["linear", "quadratic"])
@pytest.mark.parametrize("horizon", [600, None])
def test_run_is_ask_and_tell(name, form, horizon):
    convex, count = SETS[name], 600
    rows = rows_for(convex, count)
    loss = losses.Linear() if form == "linear" else losses.Quadratic(0.5)
    learner, twin = learner_on(convex, horizon), learner_on(convex, horizon)
    first = learner.run(rows[:137], loss=loss, keep=10**6)
    second = learner.run(rows[137:], loss=loss, keep=10**6)
    points, values = [], []
    for row in rows:
        x = twin.ask()
        values.append(row @ x if form == "linear" else 0.25 * np.sum((x - row) ** 2))
        twin.tell(float(values[-1]))
        points.append(np.array(x))
    played = np.concatenate([first.decisions, second.decisions])
    np.testing.assert_allclose(played, points, atol=1e-7)
    np.testing.assert_allclose(np.concatenate([first.losses, second.losses]), values, atol=1e-7)
    assert (learner.steps, learner.answered, learner.clipped) == (600, 600, twin.clipped)
    assert (first.count, second.count) == (137, 463)
    assert first.guarantee is learner.guarantee


@pytest.mark.parametrize("name", ["l1", "simplex", "l2"])
@pytest.mark.parametrize("facts", [{}, {"budget": PURE}, {"budget": None, "private": False}])
@pytest.mark.parametrize("horizon", [700, None])
def test_projected_run_is_ask_and_tell(name, facts, horizon):
    convex = SETS[name]
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-2.0, 2.0), "seed": 4} | facts
    rows = rows_for(convex, 700)
    learner = bandit.ProjectedBandit(convex, horizon=horizon, **facts)
    twin = bandit.ProjectedBandit(convex, horizon=horizon, **facts)
    play = learner.run(rows, keep=100)
    points = []
    for row in rows:
        x = twin.ask()
        twin.tell(float(row @ x))
        points.append(np.array(x))
    np.testing.assert_allclose(play.decisions, np.array(points)[play.steps - 1], atol=1e-7)
    assert all(convex.contains(x) for x in play.decisions)
    if horizon is None:
        learner.ask()
    else:
        with pytest.raises(ValueError, match="horizon"):
            learner.ask()


def test_functions_and_other_losses():
    convex = SETS["l1"]
    rows = rows_for(convex, 200)
    by_rows = learner_on(convex).run(rows)
    by_function = learner_on(convex).run(lambda t, x: float(rows[t] @ x), 200)
    np.testing.assert_allclose(by_function.losses, by_rows.losses, atol=1e-9)
    ridge = losses.Linear(ridge=0.5)
    play = learner_on(convex).run(rows, loss=ridge)
    assert play.count == 200
    assert play.regret() > 0
    with pytest.raises(ValueError, match="not kept"):
        by_function.regret()


def test_regret_is_against_the_best_fixed_point():
    for name in ("l1", "flow"):
        convex = SETS[name]
        rows = rows_for(convex, 100)
        play = learner_on(convex).run(rows)
        vertices = convex.vertices()
        assert play.regret() == pytest.approx(
            play.losses.sum() - (vertices @ rows.sum(axis=0)).min(), rel=1e-9
        )
        centers = 0.3 * rows
        play = learner_on(convex).run(centers, loss=losses.Quadratic())
        rng = np.random.default_rng(0)
        others = [convex.sample(rng) for _ in range(300)]
        least = min(0.5 * np.sum((centers - x) ** 2) for x in others)
        best = play.losses.sum() - play.regret()
        assert best <= least + 1e-6
        assert best > 0.5 * np.sum((centers - centers.mean(axis=0)) ** 2) - 1e-9


def test_a_run_that_does_not_fit_changes_nothing():
    learner = learner_on(SETS["l1"], 100)
    with pytest.raises(ValueError, match="101 plays do not fit"):
        learner.run(np.zeros((101, 5)))
    with pytest.raises(ValueError, match="row 3"):
        learner.run(np.where(np.arange(10)[:, None] == 3, np.nan, np.zeros((10, 5))))
    with pytest.raises(ValueError, match="shape"):
        learner.run(np.zeros((10, 4)))
    with pytest.raises(ValueError, match="count"):
        learner.run(lambda t, x: 0.0)
    with pytest.raises(TypeError, match="loss"):
        learner.run(np.zeros((10, 5)), loss=3)
    assert learner.steps == 0
    learner.run(np.zeros((100, 5)))


def test_a_run_after_an_open_ticket():
    learner = learner_on(SETS["l1"])
    ticket = learner.ask()
    learner.run(np.zeros((50, 5)))
    assert (learner.steps, learner.outstanding) == (51, 1)
    learner.tell(0.4, ticket)
    assert learner.outstanding == 0


def test_projected_needs_a_projection():
    with pytest.raises(ValueError, match="ProjectionFreeBandit"):
        bandit.ProjectedBandit(ROADS, budget=BUDGET, lipschitz=1.0)


def test_the_decision_does_not_change_within_a_round():
    learner = learner_on(SETS["l1"], 400)
    decisions = []
    for _ in range(400):
        learner.ask()
        decisions.append(learner.decision)
        learner.tell(0.5)
    for r in range(20):
        part = np.array(decisions[20 * r : 20 * r + 20])
        np.testing.assert_array_equal(part, np.broadcast_to(part[0], part.shape))


# Regret: what the learner is for ---------------------------------------------------------------------


def average_regret(T, seeds, **facts):
    convex = sets.L1Ball(2)
    results = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = np.array([0.8, 0.6]) + rng.standard_normal((T, 2)) / np.sqrt(2)
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        learner = learner_on(
            convex, T, values=(-1.0, 1.0), seed=seed, noise_precision="float", **facts
        )
        results.append(learner.run(rows).regret() / T)
    return np.array(results)


def test_regret_falls_as_the_theorem_says():
    """Average regret over T = 2^12 and 2^16: the exponent of the regret is below 0.78.

    Its standard error follows from the spread of 96 runs of each length; five of these are left to the
    limit, a false alarm of less than 1e-6 for means that are nearly normal.
    """
    short, long = (average_regret(T, range(96)) for T in (2**12, 2**16))
    relative = [values.std(ddof=1) / np.sqrt(96) / values.mean() for values in (short, long)]
    exponent = 1 + np.log(long.mean() / short.mean()) / np.log(16)
    assert exponent + 5 * np.hypot(*relative) / np.log(16) < 0.78


def test_privacy_is_almost_free_and_the_published_noise_is_not():
    """Like for like, with values compared with the middle of their range, at T = 2^16."""
    private = average_regret(2**16, range(4), centring="middle").mean()
    clean = average_regret(2**16, range(4), budget=None, private=False, centring="middle").mean()
    printed = average_regret(2**16, range(4), calibration="published").mean()
    ours = average_regret(2**16, range(4)).mean()
    assert private < 1.25 * clean
    assert ours < clean
    assert printed > 4 * ours
