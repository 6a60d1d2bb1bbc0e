"""Bandits that protect persons, that fade, and that have one endless total: who counts, and what is promised."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import reticent
from reticent import bandit, losses, sets
from reticent.bandit import plan
from reticent.privacy import Participation
from reticent.state.files import dumps, loads

from .reference import BUDGET, PURE

FADE = reticent.Budget(1.0, 1e-6, fade=[(64, 1.0), (4096, 2.0)])


def make(rule=None, convex=None, kind=bandit.ProjectionFreeBandit, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-1.0, 1.0), "horizon": 400} | more
    return kind(convex or sets.L1Ball(3), participation=rule, **facts)


def clean(learner):
    """The exact total of all records so far, those of the round under way included."""
    total = learner._total
    steps = total._total + learner._pending
    return total._base + steps * total._noise.step


def rounds_of(plays, batch):
    return np.arange(plays) // batch + 1


def reference_rule(steps, ids, rule):
    """Which records count, a person at a time and in plain Python."""
    kept = np.zeros(len(ids), bool)
    for name in set(ids.tolist()):
        last, count = None, 0
        for at in np.flatnonzero(ids == name):
            near = last is not None and steps[at] - last < rule.min_gap
            if not near and (rule.max_records is None or count < rule.max_records):
                kept[at], last, count = True, steps[at], count + 1
    return kept


# Who counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Participation(2), Participation(3, 4), Participation(1)], ids=str)
def test_one_record_of_a_person_counts_in_a_round(rule):
    """In the exact total are the directions of those that count, and of no others."""
    rng = np.random.default_rng(1)
    learner = make(rule, seed=0, centring="middle")
    ids, values = rng.integers(0, 25, size=300), rng.uniform(-1.0, 1.0, size=300)
    kept = reference_rule(rounds_of(300, learner.batch), ids, rule)
    expected = np.zeros(3)
    for value, name, counts in zip(values.tolist(), ids.tolist(), kept.tolist(), strict=True):
        learner.ask()
        expected += counts * learner._plan.factor * value * learner._direction
        learner.tell(value, person=name)
    assert 0 < kept.sum() < 300
    assert clean(learner) == pytest.approx(expected, abs=1e-5)
    assert learner.guarantee.unit == "person"


@pytest.mark.parametrize("horizon", [400, None])
@pytest.mark.parametrize("kind", [bandit.ProjectionFreeBandit, bandit.ProjectedBandit])
def test_run_is_ask_and_tell(kind, horizon):
    """Compiled and one by one, in one piece and with a save between, the same records count."""
    rng = np.random.default_rng(2)
    rows, ids = rng.uniform(-0.5, 0.5, size=(380, 3)), rng.integers(0, 60, size=380)
    rule = Participation(3, 2)
    facts = {"rule": rule, "seed": 5, "kind": kind, "horizon": horizon}
    whole, single, parts = make(**facts), make(**facts), make(**facts)
    whole.run(rows, person=ids, keep=380)
    for row, name in zip(rows, ids.tolist(), strict=True):
        point = single.ask()
        single.tell(float(row @ point), person=name)
    parts.run(rows[:123], person=ids[:123])
    parts = kind.from_state(loads(dumps(parts.state())))
    parts.run(rows[123:], person=ids[123:])
    for each in (whole, single, parts):
        each.ask()  # which ends the round that is full
    assert single.decision == pytest.approx(whole.decision, abs=1e-9)
    assert np.array_equal(parts.decision, whole.decision)
    assert len(whole._persons) == len(single._persons) == len(parts._persons)
    assert np.abs(clean(single) - clean(whole)).max() < 1e-6 * whole._plan.norm


def test_late_answers_count_in_the_round_they_come_in():
    rule = Participation(2)
    learner = make(rule, seed=0, centring="middle")
    first, second = learner.ask(), learner.ask()
    learner.tell(1.0, first, person="ann")
    before = clean(learner)
    learner.tell(1.0, second, person="ann")  # the same round
    assert np.array_equal(clean(learner), before)
    late = learner.ask()
    for _ in range(learner.batch):
        learner.ask()
    learner.tell(1.0, late, person="ann")
    assert not np.array_equal(clean(learner), before)
    with pytest.raises(ValueError, match="answered"):
        learner.tell(1.0, second, person="ann")


def test_two_worlds_differ_as_the_rule_allows():
    """All records of one person blanked: at most k rounds change, b apart, each by the norm at most, in integers."""
    rule = Participation(3, 2)
    batches = {}
    for told in (True, False):
        learner = make(rule, seed=3, centring="middle")
        seen, last = [], None
        for t in range(300):
            learner.ask()
            if learner._total.steps != last:
                last = learner._total.steps
                seen.append(learner._total._total.copy())
            mine = t % 3 == 0
            learner.tell(1.0 if told or not mine else None, person="ann" if mine else f"{t}")
        batches[told] = np.diff(np.array(seen), axis=0)
    moved = batches[True] - batches[False]
    where = np.flatnonzero(moved.any(axis=1))
    assert len(where) == 3
    assert np.diff(where).min() >= 2
    bound = (learner._plan.norm / learner._total._noise.step) ** 2
    assert all(sum(int(v) ** 2 for v in row) <= bound for row in moved)


# What is promised ---------------------------------------------------------------------------------


def coefficients(parameters, n):
    """c_k by long division: running sums of the series 1 / b."""
    lag = np.arange(n)
    b = sum(
        w * (1.0 - gap) ** np.maximum(lag - 1, 0)
        for gap, w in zip(parameters.gap, parameters.weight, strict=True)
    )
    b[0] = 1.0
    inverse = np.zeros(n)
    inverse[0] = 1.0
    for k in range(1, n):
        inverse[k] = -np.dot(b[1 : k + 1], inverse[k - 1 :: -1])
    return np.cumsum(inverse)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_the_cost_of_a_person_by_a_second_computation(neighbours):
    rule = Participation(4, 5)
    learner = make(rule, horizon=2500, budget=BUDGET.with_(neighbours=neighbours))
    total = learner._total
    c = coefficients(total.mechanism.parameters, total.horizon)
    moved = np.zeros(total.horizon)
    for start in range(0, 20, 5):
        moved[start:] += c[: total.horizon - start]
    twice = 1.0 if neighbours == "zero-out" else 2.0
    mu = twice * learner._plan.norm * np.linalg.norm(moved) / total.error(1)
    assert mu == pytest.approx(learner.guarantee.gdp, rel=1e-6)
    assert learner.guarantee.meets(learner.budget)
    one = make(horizon=2500, budget=learner.budget)
    assert 1.0 < total.error(40) / one._total.error(40) * one._plan.norm / learner._plan.norm < 4.0


def test_a_record_for_ever_by_a_second_computation():
    """Endless: the mu of 2,000 rounds stays below what is promised for all, and comes near it."""
    learner = make(horizon=None)
    total = learner._total
    c = coefficients(total.mechanism.parameters, 2000)
    mu = learner._plan.norm * np.linalg.norm(c) / total.error(1)
    assert mu <= learner.guarantee.at(2000).gdp * (1 + 1e-9)
    assert mu == pytest.approx(learner.guarantee.at(2000).gdp, rel=1e-6)
    assert learner.guarantee.at(2000).gdp < learner.guarantee.gdp <= BUDGET.mu * (1 + 1e-9)


def test_one_total_through_all_epochs():
    """Records of every epoch are in one exact total, and enter the sum of gradients with their own radius."""
    learner = make(
        horizon=None, seed=4, centring="middle", budget=reticent.Budget(1e5, 1e-3), stale=False
    )
    total, expected = learner._total, np.zeros(3)
    radii, sums = set(), np.zeros(3)
    for t in range(256 + 512 + 1024 + 1):
        learner.ask()
        if t in (256, 768, 1792):
            assert learner._sum_of_gradients == pytest.approx(expected, rel=1e-2, abs=1.0)
        radii.add(learner.smoothing)
        value = math.sin(t)
        expected += 3 / learner.smoothing * value * learner._direction
        sums += learner._plan.unit * value * learner._direction
        learner.tell(value)
    assert learner._total is total
    assert len(radii) == 4
    assert total.steps == 16 + 23 + 32
    assert clean(learner) == pytest.approx(sums, rel=1e-6, abs=1e-3)
    assert learner.guarantee.meets(learner.budget)


def test_a_late_value_weighs_what_its_own_radius_says():
    learner = make(horizon=None, seed=0, centring="middle")
    first = learner.ask()
    direction, radius = learner._direction.copy(), learner.smoothing
    for _ in range(300):
        learner.ask()
        learner.tell(None)
    before = clean(learner)
    learner.tell(1.0, first)
    moved = (clean(learner) - before) * learner._plan.scale
    assert learner.smoothing < radius
    assert moved == pytest.approx(3 / radius * direction, rel=1e-4, abs=1e-3)


def test_a_promise_that_fades():
    learner = make(budget=FADE, horizon=None)
    found = learner.guarantee
    assert found.meets(FADE)
    assert found.epsilon(1e-6, age=64) == pytest.approx(1.0, abs=1e-3)
    assert found.epsilon(1e-6, age=4096) <= 2.0 + 1e-9
    assert found.epsilon(1e-6, age=4096) > found.epsilon(1e-6, age=64)
    assert "released total" in found.explain()
    persons = make(Participation(None, 16), budget=FADE, horizon=None)
    assert persons.guarantee.meets(FADE)
    assert persons.guarantee.unit == "person"
    known = make(budget=FADE)
    assert known.guarantee.meets(FADE)
    quiet, loud = (make(budget=b, horizon=None)._total.error(10**6) for b in (FADE, BUDGET))
    assert quiet < loud


@pytest.mark.parametrize("horizon", [None, 400])
def test_states_of_persons_and_fading(horizon):
    learner = make(Participation(2, 3), budget=FADE, horizon=horizon, seed=1)
    for t in range(390):
        learner.ask()
        learner.tell(0.1, person=t % 50)
    twin = type(learner).from_state(loads(dumps(learner.state())))
    assert twin.guarantee == learner.guarantee
    assert twin.participation == learner.participation
    other = make(Participation(2, 3), budget=FADE, horizon=horizon, seed=1)
    for t in range(390):
        other.ask()
        other.tell(0.1, person=t % 50)
    for _ in range(5):
        assert np.array_equal(twin.ask(), other.ask())
        twin.tell(0.2, person=7)
        other.tell(0.2, person=7)


# Bad input ----------------------------------------------------------------------------------------


def test_bad_ids_leave_the_ticket_open():
    learner = make(Participation(2, 3, max_persons=2), seed=0)
    ticket = learner.ask()
    for wrong in (None, 1.5, float("nan"), "", b"", True):
        with pytest.raises((ValueError, TypeError), match="person"):
            learner.tell(0.5, ticket, person=wrong)
    learner.tell(0.5, ticket, person="ann")
    learner.ask()
    learner.tell(0.5, person="bob")
    third = learner.ask()
    with pytest.raises(ValueError, match="whole numbers, but the stream began with text"):
        learner.tell(0.5, person=7)
    with pytest.raises(ValueError, match="max_persons=2"):
        learner.tell(0.5, person="eve")
    with pytest.raises(ValueError, match="max_persons=2"):
        learner.run(np.zeros((3, 3)), person=["ann", "bob", "eve"])
    assert learner.outstanding == 1
    learner.tell(None, third)  # a null record is nobody's
    assert (learner.answered, len(learner._persons)) == (3, 2)
    with pytest.raises(ValueError, match="one id for each of the 2 records"):
        learner.run(np.zeros((2, 3)), person=["ann"])
    plain = make(seed=0)
    plain.ask()
    with pytest.raises(ValueError, match="single records are protected"):
        plain.tell(0.5, person="ann")
    with pytest.raises(ValueError, match="single records are protected"):
        plain.run(np.zeros((2, 3)), person=["ann", "bob"])
    assert plain.outstanding == 1


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"rule": Participation(2), "horizon": None, "total": "tree"}, "one total per epoch"),
        ({"rule": Participation(2), "horizon": None, "budget": PURE}, "one total per epoch"),
        ({"rule": Participation(2), "budget": None, "private": False}, "leave out one of them"),
        ({"rule": Participation(None, 4), "horizon": None}, "give max_records"),
        ({"rule": Participation(2), "calibration": "published"}, "prescribes noise for records"),
        ({"budget": FADE, "total": "tree"}, "fade"),
        ({"budget": BUDGET.with_(window=9)}, r"fade=\[\(9, 1\)\]"),
    ],
)
def test_refused(facts, match):
    with reticent.Ledger(BUDGET, unit="person") as ledger:
        with pytest.raises(ValueError, match=match):
            make(**facts)
        assert ledger.entries == ()
    with pytest.raises(TypeError, match="Participation"):
        make((2, 3))


def test_a_batch_that_is_too_large_ends_the_learner():
    """A learner whose rounds grow beyond what the exact total has room for says so, and stays as it was."""
    learner = make(horizon=None, batches=1, stale=False)
    learner._epoch = 12
    learner._plan = dataclasses.replace(learner._plan, plays=plan.FIRST_EPOCH)
    for _ in range(plan.FIRST_EPOCH):
        learner.ask()
        learner.tell(0.0)
    with pytest.raises(ValueError, match="1,048,576"):
        learner.ask()


def test_the_exact_total_never_overflows():
    """Batches of the largest size, at full length, for a long time: the total stays exact."""
    learner = make(horizon=None, centring="middle")
    total = learner._total
    most = math.floor(learner._plan.norm / total._noise.step) * (
        plan.LARGEST_BATCH + learner.patience
    )
    assert most <= 2**50
    for _ in range(200):
        batch = total._blank()
        batch[0] = most
        total._absorb(batch)
        assert np.abs(total._total).max() <= 2**31
    whole = int(total._base[0] / total._noise.step) + int(total._total[0])
    assert whole == 200 * most


def test_regret_of_persons_is_below_the_naive_way():
    """k records of a person, evenly spread, cost less noise than k times one: less regret, on average of 6 runs."""
    rng = np.random.default_rng(0)
    T, k = 8192, 16
    center = np.array([0.5, -0.3, 0.0])
    rows = center + 0.05 * rng.standard_normal((T, 3))
    ids = np.arange(T) % (T // k)

    def regret(**more):
        found = []
        for seed in range(6):
            learner = make(horizon=T, seed=seed, noise_precision="float", values=(0.0, 2.0), **more)
            ids_ = ids if more.get("rule") else None
            found.append(learner.run(rows, loss=losses.Quadratic(), person=ids_).regret())
        return np.mean(found)

    rounds = math.isqrt(T - 1) + 1
    weak = reticent.privacy.gaussian.epsilon(1e-6, reticent.Budget(4.0, 1e-6).mu / k)
    ours = regret(rule=Participation(k, rounds // k - 1), budget=reticent.Budget(4.0, 1e-6))
    naive = regret(budget=reticent.Budget(weak, 1e-6))
    assert ours < naive
