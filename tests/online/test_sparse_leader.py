"""The sparse leader against a plain dense reference with the same noise; states, persons, bad input."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import losses, online
from reticent.estimators.stream import Softmax
from reticent.online import sparse_kernels as k
from reticent.privacy import ForkError, Participation
from reticent.sums import on_demand_kernels as demand

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic(ridge=1e-2)


def made(columns=40, **more):
    more = {"budget": BUDGET, "horizon": 1000, "seed": 0, "radius": 3.0} | more
    return online.SparseLeader(columns, more.pop("loss", LOSS), **more)


def rows(count, columns=40, features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((count, columns), density=features / columns, rng=rng, format="csr")
    X.data = rng.uniform(-1.0, 1.0, X.nnz)
    return X, np.where(rng.random(count) < 0.5, 1.0, -1.0)


def noise_of(learner):
    """The noise of every coordinate that was touched, at the step for which it was drawn last."""
    total = learner.total
    return {
        int(row[demand.COORDINATE]): (int(row[demand.NEXT]) - 1, row[demand.NOISE] * total._scale)
        for row in total._rows[: total.touched]
    }


def test_decisions_are_those_of_the_dense_leader_with_the_same_noise():
    """All noise is read off at every step; totals, weights and predictors are computed anew from the records."""
    X, y = rows(60)
    learner = made()
    knobs = learner._knobs
    total = np.zeros(40)
    for t in range(60):
        x = np.zeros(40)
        if t:
            learner.decision  # noqa: B018 - brings every coordinate up to date
            noise = noise_of(learner)
            assert all(step == t for step, _ in noise.values())
            noisy = total + np.array([noise[j][1] for j in range(40)])
            x = np.clip(-noisy / (LOSS.ridge * t + knobs[k.ANCHOR]), -3.0, 3.0)
            np.testing.assert_allclose(learner.decision, x, atol=1e-12)
        a = X[[t]].toarray()[0]
        a /= max(1.0, np.linalg.norm(a))
        play = learner.run(X[[t]], y[t : t + 1])
        assert play.losses[0] == pytest.approx(np.logaddexp(0.0, -y[t] * (a @ x)), rel=1e-10)
        total += -y[t] / (1.0 + math.exp(y[t] * (a @ x))) * a
    held = {int(row[demand.COORDINATE]): row[demand.TOTAL] for row in learner.total._rows[:40]}
    np.testing.assert_allclose([held[j] for j in range(40)], total, atol=1e-12)


def test_one_by_one_and_all_at_once_are_the_same():
    X, y = rows(50)
    one, other = made(), made()
    one.run(X, y)
    for t in range(50):
        row = X[[t]]
        other.observe((row.indices, row.data, y[t]))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_a_prediction_draws_once_and_learning_uses_the_same_noise():
    X, y = rows(20)
    one, other = made(), made()
    for learner in (one, other):
        learner.run(X, y)
    np.testing.assert_array_equal(one.predict(X), one.predict(X))
    assert one._position[1] > other._position[1]


def test_repeated_and_unsorted_entries_are_one_feature():
    plain, twice = made(), made()
    y = np.array([1.0])
    for _ in range(3):
        plain.run(sp.csr_array(([1.0, 0.5], ([0, 0], [2, 7])), shape=(1, 40)), y)
        parts = sp.csr_array((1, 40))
        parts.indptr, parts.indices = np.array([0, 3]), np.array([7, 2, 2])
        parts.data = np.array([0.5, 0.75, 0.25])
        twice.run(parts, y)
    totals = [
        {
            int(r[demand.COORDINATE]): r[demand.TOTAL]
            for r in made_of.total._rows[: made_of.total.touched]
        }
        for made_of in (plain, twice)
    ]
    # the first record is seen before any noise
    assert totals[0].keys() == totals[1].keys()
    first, second = made(), made()
    first.run(sp.csr_array(([3.0], ([0], [2])), shape=(1, 40)), y)
    parts.indptr, parts.indices, parts.data = np.array([0, 3]), np.array([2, 2, 2]), np.ones(3)
    second.run(parts, y)
    for learner in (first, second):
        assert abs(learner.total._rows[0, demand.TOTAL]) == pytest.approx(0.5)
        assert learner.clipped == 1


def test_the_constant_feature_is_the_intercept():
    loss = losses.Logistic(feature_norm=math.hypot(1.0, 0.5), ridge=1e-2)
    learner = made(loss=loss, constant=0.5)
    empty = sp.csr_array((30, 40))
    learner.run(empty, np.ones(30))
    assert learner.total.touched == 1
    assert len(learner.decision) == 41


def test_memory_and_work_do_not_depend_on_the_columns():
    learner = made(2**40)
    where = np.array([[5, 2**39], [2**39, 2**40 - 1]])
    X = sp.csr_array((2, 2**40))
    X.indptr, X.indices, X.data = np.array([0, 2, 4]), where.ravel(), np.full(4, 0.5)
    learner.run(X, np.array([1.0, -1.0]))
    assert learner.total.touched == 3
    assert learner.predict(X).shape == (2, 1)


def test_state_and_twins():
    X, y = rows(40)
    whole, halves = made(), made()
    whole.run(X, y)
    halves.run(X[:20], y[:20])
    state = halves.state()
    assert state["steps"] == 20
    del halves
    halves = online.SparseLeader.from_state(state)
    halves.run(X[20:], y[20:])
    np.testing.assert_array_equal(whole.predict(X), halves.predict(X))
    twin, other = pickle.loads(pickle.dumps(halves)), copy.deepcopy(halves)
    halves.run(X[:1], y[:1])
    for late in (twin, other):
        with pytest.raises(ForkError):
            late.predict(X[:1])


def test_a_saved_file_goes_on(tmp_path):
    X, y = rows(10)
    learner = made()
    safe = reticent.committed(learner, tmp_path / "sparse.state")
    safe.run(X, y)
    shown = safe.predict(X)  # a prediction that draws is saved before it is shown
    saved = reticent.load_state(tmp_path / "sparse.state")
    assert saved["moves"] == learner._position[1]
    del safe, learner
    again = online.SparseLeader.from_state(saved)
    np.testing.assert_array_equal(again.predict(X), shown)


def test_persons_are_blanked():
    X, y = rows(20)
    learner = made(participation=Participation(max_records=2, min_gap=1))
    learner.run(X, y, person=np.zeros(20, np.int64))
    assert learner.steps == 20
    other = made(participation=Participation(max_records=2, min_gap=1))
    other.run(X[:2], y[:2], person=np.zeros(2, np.int64))
    assert learner.total.touched == other.total.touched
    with pytest.raises(ValueError, match="person"):
        made().run(X, y, person=np.zeros(20))


def test_regret_is_computed_against_the_ball():
    X, y = rows(30)
    play = made().run(X, y)
    assert np.isfinite(play.regret())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": losses.Logistic()}, "ridge above 0"),
        ({"loss": losses.Quadratic()}, "linear predictor"),
        ({"constant": 1.0}, "below the loss's feature_norm"),
        ({"budget": reticent.Budget(1.0, 0.0)}, "delta > 0"),
        ({"columns": 0}, "columns"),
        ({"radius": -1.0}, "radius"),
        ({"loss": losses.Squared(ridge=1.0)}, "lipschitz"),
    ],
)
def test_bad_arguments(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        made(**change)


def test_bad_records_change_nothing():
    learner = made()
    X, y = rows(3)
    bad = X.copy()
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        learner.run(bad, y)
    with pytest.raises(ValueError, match="40 columns"):
        learner.run(sp.csr_array((3, 41)), y)
    with pytest.raises(TypeError, match="sparse"):
        learner.run(X.toarray(), y)
    with pytest.raises(ValueError, match="outside"):
        learner.observe(([40], [1.0], 1.0))
    with pytest.raises(ValueError, match=r"label|y"):
        learner.observe(([4], [1.0], 0.3))
    with pytest.raises(ValueError, match="do not fit"):
        made(horizon=2).run(X, y)
    assert learner.steps == 0


def test_several_classes_are_the_softmax_with_one_joint_clip():
    """The dense leader with the same noise, written out; gradients of all classes are cut together."""
    X, _ = rows(60)
    y = np.random.default_rng(1).integers(0, 3, 60).astype(float)
    loss, limit = Softmax(3, 1.0, 1e-2), 0.5
    learner = made(loss=loss, lipschitz=limit)
    total = np.zeros(120)
    for t in range(60):
        x = np.zeros(120)
        if t:
            learner.decision  # noqa: B018 - brings every coordinate up to date
            noise = noise_of(learner)
            noisy = total + np.array([noise[j][1] for j in range(120)])
            x = np.clip(-noisy / (loss.ridge * t + learner._knobs[k.ANCHOR]), -3.0, 3.0)
            np.testing.assert_allclose(learner.decision, x, atol=1e-12)
        a = X[[t]].toarray()[0]
        a /= max(1.0, np.linalg.norm(a))
        play = learner.run(X[[t]], y[t : t + 1])
        z = x.reshape(3, 40) @ a
        p = np.exp(z) / np.exp(z).sum()
        assert play.losses[0] == pytest.approx(-math.log(p[int(y[t])]), rel=1e-10)
        g = np.outer(p - (np.arange(3) == y[t]), a).ravel()
        total += g * limit / max(limit, np.linalg.norm(g))
    held = {int(row[demand.COORDINATE]): row[demand.TOTAL] for row in learner.total._rows[:120]}
    np.testing.assert_allclose([held[j] for j in range(120)], total, atol=1e-8)
    assert learner.clipped > 0
    for release in learner.guarantee.releases:
        assert release.sensitivity == pytest.approx(limit, rel=1e-6)


def test_a_refused_record_does_not_count_for_its_person():
    learner = made(participation=Participation(max_records=1))
    for wrong in (40, -1):
        with pytest.raises(ValueError, match="outside 0 to 39"):
            learner.observe(([wrong], [1.0], 1.0), person=5)
    learner.observe(([3], [1.0], 1.0), person=5)
    assert learner.total.touched == 1
    learner.observe(([4], [1.0], 1.0), person=5)
    assert learner.total.touched == 1
