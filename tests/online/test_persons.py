"""Learners that protect persons: the same as a stream with the surplus left out, and bounds that hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets
from reticent.online.schedules import Reach
from reticent.privacy import Participation

BUDGET = reticent.Budget(1.0, 1e-6)
N = 600
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
X /= np.linalg.norm(X, axis=1)[:, None]
Y = np.sign(X @ [1.0, -1.0, 0.5])
IDS = RNG.integers(0, 90, size=N)
RULE = Participation(3, 20)


class Lazy(online.Rule):
    """A rule of the user's own: the loop is not compiled."""

    def step(self, moment):
        return -moment.total / (100.0 + moment.t)


def make(name: str, **more):
    more = {"budget": BUDGET, "horizon": N, "seed": 0, "participation": RULE} | more
    ball = sets.L2Ball(3)
    return {
        "regularized": lambda: online.FollowTheRegularizedLeader(ball, losses.Logistic(), **more),
        "approximate": lambda: online.FollowTheApproximateLeader(
            ball, losses.Logistic(ridge=0.01), **more
        ),
        "local-linear": lambda: online.FollowTheApproximateLeader(
            sets.Simplex(3), losses.Logistic(ridge=0.1), step="local-linear", **more
        ),
        "quadratic": lambda: online.QuadraticLeader(3, losses.Squared(ridge=0.01), **more),
        "iterates": lambda: online.PerturbedIterates(ball, losses.Logistic(ridge=0.1), **more),
        "own rule": lambda: online.Learner(ball, Lazy(), losses.Logistic(), **more),
    }[name]()


LEARNERS = ("regularized", "approximate", "local-linear", "quadratic", "iterates", "own rule")


def kept(ids, k, b):
    out, last, count = [], {}, {}
    for t, name in enumerate(ids):
        good = name not in last or (t - last[name] >= b and count[name] < k)
        if good:
            last[name], count[name] = t, count.get(name, 0) + 1
        out.append(good)
    return np.array(out)


@pytest.mark.parametrize("name", LEARNERS)
def test_surplus_records_are_gaps(name):
    """As if somebody else had blanked them: the same noise, the same decisions."""
    there = kept(IDS.tolist(), 3, 20)
    assert 0.2 < there.mean() < 0.9
    learner, other = make(name), make(name)
    play = learner.run(X, Y, person=IDS)
    # the other one is told of gaps, and of persons who never come back
    twin = other.run(X, Y, present=there, person=np.arange(N))
    assert np.array_equal(learner.decision, other.decision)
    assert np.array_equal(play.decisions, twin.decisions)
    assert learner.guarantee.unit == "person"
    assert learner.guarantee.meets(BUDGET)
    single = make(name)
    for a, y, who in zip(X[:50], Y[:50], IDS[:50].tolist(), strict=True):
        single.observe((a, y), person=who)
    half = make(name)
    half.run(X[:50], Y[:50], person=IDS[:50])
    assert np.array_equal(single.decision, half.decision)
    given = {"rule": Lazy()} if name == "own rule" else {}
    again = type(half).from_state(half.state(), **given)
    again.run(X[50:], Y[50:], person=IDS[50:])
    assert np.array_equal(again.decision, learner.decision)
    assert again.guarantee == half.guarantee


@pytest.mark.parametrize("name", ["regularized", "own rule"])
def test_gradients_of_persons(name):
    one, two = make(name), make(name)
    for k, who in enumerate([5, 5, 6, 5]):
        gradient = np.array([0.3, -0.1, 0.2]) * (k + 1)
        one.update(gradient, person=who)
        two.update(None if k in (1, 3) else gradient, person=k)
    assert np.array_equal(one.decision, two.decision)


def test_streams_of_chunks():
    parts = ((X[s : s + 100], Y[s : s + 100], None, IDS[s : s + 100]) for s in range(0, N, 100))
    learner, other = make("regularized"), make("regularized")
    learner.run(parts)
    other.run(X, Y, person=IDS)
    assert np.array_equal(learner.decision, other.decision)


def test_gaps_need_no_person():
    ids = np.array([None if k % 3 else int(i) for k, i in enumerate(IDS)], dtype=object)
    there = np.arange(N) % 3 == 0
    learner = make("regularized")
    learner.run(X, Y, present=there, person=ids)
    learner_two = make("regularized")
    learner_two.run(X, Y, present=there, person=np.where(there, IDS, 10**6 + np.arange(N)))
    assert np.array_equal(learner.decision, learner_two.decision)
    with pytest.raises(ValueError, match=r"person\[1\] is missing"):
        make("regularized").run(X, Y, person=ids)


@pytest.mark.parametrize("inner", [online.ImplicitGradient(), online.GradientDescent()])
def test_perturbed_iterates_by_their_own_count(inner):
    """The bound on each iterate, against clean iterates with a person and without, worst of many."""
    n, rule = 24, Participation(3, 4)
    learner = online.PerturbedIterates(
        sets.L2Ball(1, 100.0), losses.Huber(1.0, ridge=0.5), inner=inner, budget=BUDGET, horizon=n,
        participation=rule, noise_precision="float", seed=0,
    )  # fmt: skip
    reach: Reach = learner._reach
    reaches, _ = reach.of(0, n, reach.start)
    one, _ = Reach(reach.inner, reach.ridge, reach.added, reach.moved, 0.0).of(0, n, reach.start)
    counted = np.minimum(3, -(-np.arange(1, n + 1) // 4))
    assert reaches == pytest.approx(counted * one, rel=1e-12)
    deviations = learner._plan.deviations(0, reaches)
    assert learner.guarantee.gdp == pytest.approx(np.sqrt(np.sum((reaches / deviations) ** 2)))
    assert learner.guarantee.gdp == pytest.approx(BUDGET.mu, rel=1e-9)
    for places in itertools.combinations(range(n), 3):
        if min(np.diff(places)) < 4:
            continue
        moved = np.zeros(n)  # each record moves every later iterate by L / A_t, all one way
        for place in places:
            moved[place:] += one[place:]
        assert (moved <= reaches * (1 + 1e-12)).all()


def test_perturbed_iterates_in_a_window():
    learner = online.PerturbedIterates(
        sets.L2Ball(2), losses.Logistic(ridge=0.1), budget=BUDGET.with_(window=50),
        participation=Participation(None, 20), seed=0,
    )  # fmt: skip
    reaches, _ = learner._reach.of(0, 200, learner._reach.start)
    ratios = reaches / learner._plan.deviations(0, reaches)
    assert np.sqrt(np.sum(ratios[:50] ** 2)) <= learner.guarantee.gdp * (1 + 1e-9)
    assert learner._reach._records(np.array([1.0])) == 3.0
    assert learner.guarantee.unit == "person"


def test_what_is_refused():
    for ids in (None, IDS[:-1], IDS.astype(float), [None] * N, ["a", 1] * (N // 2)):
        learner = make("regularized")
        with pytest.raises((ValueError, TypeError), match="person"):
            learner.run(X, Y, person=ids)
        assert learner.steps == 0
    plain = make("regularized", participation=None)
    with pytest.raises(ValueError, match="single records are protected"):
        plain.run(X, Y, person=IDS)
    with pytest.raises(ValueError, match="single records are protected"):
        plain.observe((X[0], Y[0]), person=3)
    crowded = make("regularized", participation=Participation(3, 20, max_persons=5))
    with pytest.raises(ValueError, match="max_persons=5"):
        crowded.run(X, Y, person=IDS)
    assert crowded.steps == 0
    mechanism = make("regularized").total.mechanism
    with pytest.raises(ValueError, match="participation"):
        make("regularized", total=mechanism.with_(participation=None))


def test_a_person_counts_once_although_a_run_ended_in_an_error():
    counted = []

    def gradient(x, a, y):
        if a[1]:
            raise RuntimeError("a loss that fails")
        if a[0]:
            counted.append(learner.steps + 1)
        return a

    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(2),
        losses.CustomLoss(lambda x, a, y: 0.0, gradient, lipschitz=1.0, smoothness=1.0),
        budget=reticent.Budget(1.0, 1e-6, window=1000),
        participation=Participation(max_records=1),
    )
    X = np.zeros((16_000, 2))
    X[0, 0] = X[1, 1] = 1.0
    for others in (1, 2):
        ids = np.arange(16_000) + others * 10**6
        ids[0] = 7
        with pytest.raises(RuntimeError, match="a loss that fails") as error:
            learner.run(X, np.zeros(16_000), person=ids)
        assert error.value.__notes__ == [
            "The first 1 of these records have been counted: do not pass them again."
        ]
    assert counted == [1]
