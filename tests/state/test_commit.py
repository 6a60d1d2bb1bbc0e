"""Commit, then reveal: a result is seen once the state that produced it is safe, or never."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import reticent
from reticent import bandit, losses, online, sets, sums
from reticent.privacy import ForkError
from reticent.state import files, lease

BUDGET = reticent.Budget(1.0, 1e-6)
X = np.random.default_rng(1).normal(0, 0.4, (40, 3))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def river_model():
    pytest.importorskip("river")
    from reticent.estimators.river import OnlineLogisticRegression

    return OnlineLogisticRegression(features=["a", "b", "c"], classes=[-1.0, 1.0], seed=1)


def read(model):
    return np.array(list(model.weights.values()))


# how to make one, take the t-th step, and read what is released afterwards
STREAMS = {
    "total": (
        lambda: sums.Tree(3, 40, budget=BUDGET, seed=1),
        lambda s, t: s.add(X[t]),
        lambda s: s.steps,
    ),
    "learner": (
        lambda: online.FollowTheRegularizedLeader(
            sets.L2Ball(3), losses.Logistic(), budget=BUDGET, horizon=40, seed=1
        ),
        lambda s, t: s.run(X[t : t + 1], Y[t : t + 1]).decisions if t % 2 else s.observe((X[t], Y[t])),
        lambda s: s.decision,
    ),
    "iterates": (
        lambda: online.PerturbedIterates(
            sets.L2Ball(3), losses.Logistic(ridge=0.5), budget=BUDGET, horizon=40, seed=1
        ),
        lambda s, t: s.observe((X[t], Y[t])),
        lambda s: s.decision,
    ),
    "bandit": (
        lambda: bandit.ProjectedBandit(sets.L2Ball(3), BUDGET, horizon=40, seed=1),
        lambda s, t: np.array(s.ask()) if t % 2 == 0 else s.tell(0.1 * X[t, 0]),
        lambda s: s.decision,
    ),
    "estimator": (
        lambda: reticent.OnlineLogisticRegression(classes=[-1.0, 1.0], random_state=1),
        lambda s, t: s.partial_fit(X[t : t + 1], Y[t : t + 1]).coef_,
        lambda s: s.coef_,
    ),
    "river": (
        river_model,
        lambda s, t: s.learn_one(dict(zip("abc", X[t].tolist(), strict=True)), Y[t]),
        read,
    ),
}  # fmt: skip
names = pytest.mark.parametrize("name", STREAMS)


@names
def test_goes_on_from_the_file_as_if_nothing_had_happened(name, tmp_path):
    make, step, read = STREAMS[name]
    calm, path = make(), tmp_path / "state"
    known = [step(calm, t) for t in range(20)]
    safe = reticent.committed(make(), path)
    for t in range(12):
        np.testing.assert_equal(step(safe, t), known[t])
    kind = type(calm)
    for t in range(12, 20):  # a crash after every step
        lease._known.clear()
        safe = reticent.committed(kind.from_state(reticent.load_state(path)), path)
        np.testing.assert_equal(step(safe, t), known[t])
    np.testing.assert_equal(read(safe), read(calm))


class Memory:
    """A store of the user's own."""

    def __init__(self):
        self.states, self.broken = [], False

    def save(self, state):
        if self.broken:
            raise OSError("the database is away")
        self.states.append(files.dumps(state))


@names
def test_a_result_is_withheld_if_its_state_cannot_be_saved(name):
    make, step, read = STREAMS[name]
    store, stream = Memory(), make()
    safe = reticent.committed(stream, store)
    before = len(store.states)
    for t in range(4):
        step(safe, t)
        assert len(store.states) == before + t + 1
    saved = store.states[-1]
    store.broken = True
    with pytest.raises(OSError, match="away"):
        step(safe, 4)
    store.broken = False
    for attempt in (lambda: step(safe, 5), lambda: read(safe), lambda: safe.state()):
        with pytest.raises(ForkError, match="cannot continue in this process"):
            attempt()
    with pytest.raises(ForkError, match="could not be committed"):
        step(stream, 5)  # nor around it
    with pytest.raises(ForkError):
        step(type(stream).from_state(files.loads(saved)), 4)
    assert store.states[-1] == saved
    # in a new process the last committed state goes on, with the noise that nobody has seen
    lease._known.clear()
    calm = make()
    known = [step(calm, t) for t in range(5)]
    np.testing.assert_equal(step(type(stream).from_state(files.loads(saved)), 4), known[4])


def test_an_error_in_the_middle_reveals_nothing(tmp_path):
    class Fragile(online.Rule):
        def step(self, moment):
            if moment.t == 3:
                raise RuntimeError("the rule failed")
            return np.zeros(3)

    learner = online.Learner(
        sets.L2Ball(3), Fragile(), losses.Logistic(), budget=BUDGET, horizon=40
    )
    path = tmp_path / "state"
    safe = reticent.committed(learner, path)
    safe.observe((X[0], Y[0]))
    with pytest.raises(RuntimeError, match="rule failed"):
        safe.run(X[1:10], Y[1:10])
    with pytest.raises(ForkError, match="cannot continue"):
        safe.observe((X[1], Y[1]))
    for go_on in (lambda: learner.observe((X[1], Y[1])), learner.retry):
        with pytest.raises(ForkError, match="could not be committed"):
            go_on()
    assert reticent.load_state(path)["steps"] == 1


def test_what_is_refused_changes_nothing(tmp_path):
    total = sums.Tree(3, 40, budget=BUDGET)
    path = tmp_path / "state"
    safe = reticent.committed(total, path)
    safe.add(X[0])
    data = path.read_bytes()
    with pytest.raises(ValueError, match="finite"):
        safe.add([np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="do not fit"):
        safe.run(np.zeros((100, 3)))
    assert path.read_bytes() == data
    assert (safe.steps, safe.error(1), safe.guarantee) == (1, total.error(1), total.guarantee)
    assert path.read_bytes() == data  # reading is no step
    safe.add(X[1])
    assert path.read_bytes() != data


def test_an_interrupt_while_saving_leaves_one_of_the_two_states(tmp_path, monkeypatch):
    import os

    path = tmp_path / "state"
    safe = reticent.committed(sums.Tree(3, 40, budget=BUDGET), path)
    safe.add(X[0])

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            safe.add(X[1])
    assert reticent.load_state(path)["steps"] == 1
    with pytest.raises(ForkError):
        safe.add(X[1])


def test_another_stream_is_not_overwritten(tmp_path):
    path = tmp_path / "state"
    reticent.committed(sums.Tree(3, 40, budget=BUDGET), path).add(X[0])
    with pytest.raises(ValueError, match="another stream"):
        reticent.committed(sums.Tree(3, 40, budget=BUDGET), path)
    with pytest.raises(ValueError, match="another stream"):
        reticent.committed(reticent.OnlineLogisticRegression(classes=[0, 1]), path)
    assert reticent.load_state(path)["steps"] == 1


def test_a_later_state_is_not_overwritten(tmp_path):
    path = tmp_path / "state"
    total = sums.Tree(3, 40, budget=BUDGET)
    early = files.dumps(total.state())
    reticent.committed(total, path).add(X[0])
    lease._known.clear()
    with pytest.raises(ForkError, match="later state"):
        reticent.committed(sums.Tree.from_state(files.loads(early)), path)


def test_what_cannot_be_committed_is_refused(tmp_path):
    with pytest.raises(TypeError, match="stream must be"):
        reticent.committed(3, tmp_path / "state")
    with pytest.raises(TypeError, match="store must be"):
        reticent.committed(sums.Tree(3, 40, budget=BUDGET), 3)
    safe = reticent.committed(sums.Tree(3, 40, budget=BUDGET), tmp_path / "state")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(safe)
    with pytest.raises(AttributeError):
        safe._total  # noqa: B018
    assert {"add", "run", "error"} <= set(dir(safe))
    assert "committed to" in repr(safe)


def test_threads_see_committed_results_only(tmp_path):
    """While a step waits for its state to be saved, nobody reads the decision that it led to."""
    entered, proceed = threading.Event(), threading.Event()

    class Slow(Memory):
        def save(self, state):
            if self.states:
                entered.set()
                proceed.wait(30)
            super().save(state)

    learner = STREAMS["learner"][0]()
    store = Slow()
    safe = reticent.committed(learner, store)
    seen = []
    stepping = threading.Thread(target=lambda: safe.observe((X[0], Y[0])))
    reading = threading.Thread(target=lambda: seen.append((safe.decision, len(store.states))))
    stepping.start()
    entered.wait(30)
    reading.start()
    reading.join(0.2)
    assert not seen
    proceed.set()
    stepping.join()
    reading.join()
    np.testing.assert_array_equal(seen[0][0], learner.decision)
    assert seen[0][1] == 2
