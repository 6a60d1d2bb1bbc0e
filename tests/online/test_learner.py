"""A learner with a custom rule over any running total."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets, sums
from reticent.online.rules import ProjectedLeader
from reticent.sets.kernels import BOX

from .cases import BUDGET, DIM, records


class Lazy(online.Rule):
    def step(self, moment):
        return self.problem.set.project(-moment.total / (10.0 + moment.t))


class Same(ProjectedLeader):
    """A built-in rule as a user would write it: without its number."""

    kernel = None


@pytest.mark.parametrize("precision", ["float", "lattice"])
def test_a_rule_of_ones_own_plays_what_the_built_in_one_does(precision):
    A, y = records(400)
    plays = [
        online.Learner(
            sets.L2Ball(DIM), rule(0.3, 5.0), losses.Logistic(ridge=0.1), budget=BUDGET, horizon=400,
            seed=1, noise_precision=precision,
        ).run(A, y, keep=400)
        for rule in (ProjectedLeader, Same)
    ]  # fmt: skip
    np.testing.assert_array_equal(plays[0].decisions, plays[1].decisions)


@pytest.mark.parametrize(
    ("word", "budget", "kind"),
    [
        ("auto", BUDGET, sums.CorrelatedMechanism),
        ("auto", BUDGET.with_(window=9), sums.CorrelatedMechanism),
        ("auto", reticent.Budget(1.0), sums.TreeMechanism),
        ("auto", reticent.Budget(1.0, window=9), sums.WindowTreeMechanism),
        ("correlated", BUDGET, sums.CorrelatedMechanism),
        ("tree", BUDGET, sums.TreeMechanism),
        ("window-tree", BUDGET.with_(window=9), sums.WindowTreeMechanism),
        ("independent", reticent.Budget(1.0), sums.IndependentMechanism),
        (sums.Tree, BUDGET, sums.TreeMechanism),
        (sums.TreeMechanism, BUDGET, sums.TreeMechanism),
        (lambda *a, **k: sums.Tree(*a, estimator="plain", **k), BUDGET, sums.TreeMechanism),
    ],
)
def test_any_running_total(word, budget, kind):
    learner = online.Learner(
        sets.L2Ball(DIM), Lazy(), losses.Logistic(), budget=budget, horizon=50, total=word, seed=0
    )
    assert type(learner.total.mechanism) is kind
    learner.run(*records(50))
    assert learner.steps == 50
    assert learner.guarantee is learner.total.guarantee


def test_a_total_that_is_ready_made():
    loss, ball = losses.Logistic(), sets.L2Ball(DIM)
    L = loss.data_lipschitz(ball)
    ready = sums.Tree(DIM, 50, budget=BUDGET, norm=L, seed=1)
    mine = online.Learner(ball, Lazy(), loss, budget=BUDGET, horizon=50, total=ready)
    built = online.Learner(ball, Lazy(), loss, budget=BUDGET, horizon=50, total="tree", seed=1)
    mine.run(*records(50))
    built.run(*records(50))
    np.testing.assert_array_equal(mine.decision, built.decision)
    for wrong in (
        sums.Tree(DIM + 1, 50, budget=BUDGET, norm=L),
        sums.Tree(DIM, 51, budget=BUDGET, norm=L),
        sums.Tree(DIM, 50, budget=reticent.Budget(2.0, 1e-6), norm=L),
        sums.Tree(DIM, 50, budget=BUDGET, norm=2 * L),
        ready,
    ):
        with pytest.raises(ValueError, match="the total has"):
            online.Learner(ball, Lazy(), loss, budget=BUDGET, horizon=50, total=wrong)


def test_a_total_that_a_function_makes_must_fit_too():
    """The function of the learner's arguments could ignore the budget, and the learner spent ten times as much."""
    ball, loss = sets.L2Ball(DIM), losses.Logistic()

    def richer(dim, horizon, *, budget, **more):
        return sums.Tree(dim, horizon, budget=budget.with_(epsilon=10.0), **more)

    with pytest.raises(ValueError, match="the total has budget epsilon = 10"):
        online.Learner(ball, Lazy(), loss, budget=BUDGET, horizon=50, total=richer)
    online.Learner(ball, Lazy(), loss, budget=BUDGET, horizon=50, total=sums.Tree)


class StandsStill(ProjectedLeader):
    def step(self, moment):
        return np.full(DIM, 0.125)


class Anchored(ProjectedLeader):
    def anchor_weight(self, t):
        return 1e12


@pytest.mark.parametrize(("rule", "point"), [(StandsStill, 0.125), (Anchored, 0.0)])
def test_an_overridden_step_is_taken_although_its_base_class_is_compiled(rule, point):
    """The compiled loop of the base class ran instead."""
    learner = online.Learner(
        sets.L2Ball(DIM), rule(0.0, 1.0), losses.Logistic(), budget=BUDGET, horizon=50
    )
    learner.run(*records(20))
    np.testing.assert_allclose(learner.decision, point, atol=1e-6)


def test_iterates_refuse_a_loss_or_set_that_is_not_what_it_claims():
    class Bent(losses.Logistic):
        def _bend_bound(self, reach):
            return 0.01

    class Outside(sets.LinfBall):
        kernel = BOX, np.array([1.0] * DIM + [-1.0] * DIM)  # the bounds in the wrong order

    true = {"set": sets.LinfBall(DIM), "loss": losses.Logistic(ridge=0.1)}
    for false in ({"loss": Bent(ridge=0.1)}, {"set": Outside(DIM)}):
        with (
            reticent.Ledger(BUDGET) as ledger,
            pytest.raises(ValueError, match="PerturbedIterates cannot use"),
        ):
            online.PerturbedIterates(**true | false, budget=BUDGET, horizon=9)
        assert ledger.entries == ()
    mixed = sets.Product([sets.L2Ball(2), Outside(DIM)])
    with pytest.raises(ValueError, match="'compiled kernel' failed"):
        online.PerturbedIterates(mixed, true["loss"], budget=BUDGET, horizon=9)


def test_a_rule_that_returns_nonsense_is_caught():
    class Nonsense(online.Rule):
        def step(self, moment):
            return moment.decision * np.nan

    learner = online.Learner(sets.L2Ball(DIM), Nonsense(), budget=BUDGET, lipschitz=1.0, horizon=9)
    with pytest.raises(ValueError, match="the rule's decision must be finite"):
        learner.update(np.zeros(DIM))
    assert np.isfinite(learner.decision).all()
    with pytest.raises(TypeError, match="rule must be"):
        online.Learner(sets.L2Ball(DIM), Lazy, budget=BUDGET, lipschitz=1.0)
    with pytest.raises(ValueError, match="total must be one of"):
        online.Learner(sets.L2Ball(DIM), Lazy(), budget=BUDGET, lipschitz=1.0, total="trees")
    with pytest.raises(ValueError, match="without a loss"):
        learner.run(np.zeros((3, DIM)))


def test_a_rule_sees_released_numbers_only():
    """What a rule is handed is the noisy total and decisions; the same total, read twice, says so."""
    seen = []

    class Spy(online.Rule):
        def step(self, moment):
            seen.append(moment)
            return moment.decision

    learner = online.Learner(
        sets.L2Ball(2), Spy(), budget=BUDGET, lipschitz=1.0, horizon=20, seed=4
    )
    twin = sums.Correlated(2, 20, budget=BUDGET, norm=1.0, seed=4)
    rng = np.random.default_rng(0)
    for t in range(20):
        g = rng.standard_normal(2) / 4
        learner.update(g)
        np.testing.assert_array_equal(seen[-1].total, twin.add(g))
        assert seen[-1].t == t + 1
    np.testing.assert_array_equal(seen[5].previous, seen[4].total)
