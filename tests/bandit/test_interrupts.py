"""A record enters one batch once, whatever interrupts, and twins in threads are one learner."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest

import reticent
from reticent import bandit, sets
from reticent.bandit import kernels, rounds
from reticent.privacy import ForkError
from reticent.sums import RunningTotal, running

BUDGET = reticent.Budget(1.0, 1e-6)


def build(**options: Any) -> bandit.ProjectionFreeBandit:
    return bandit.ProjectionFreeBandit(
        sets.Simplex(3), **{"budget": BUDGET, "values": (0.0, 1.0), "seed": 0} | options
    )


def raising(real: Any, *, after: bool) -> Any:
    def call(*arguments: Any, **more: Any) -> Any:
        if after:
            real(*arguments, **more)
        raise KeyboardInterrupt

    return call


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_value_that_was_interrupted_cannot_be_told_again(
    monkeypatch: pytest.MonkeyPatch, after: bool, late: bool
) -> None:
    learner = build(horizon=100)
    ticket = learner.ask()
    if late:
        learner.ask()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "take", raising(kernels.take, after=after))
        with pytest.raises(KeyboardInterrupt):
            learner.tell(1.0, ticket)
    before = learner._pending.copy()
    with pytest.raises(ValueError, match="answered already"):
        learner.tell(1.0, ticket)
    np.testing.assert_array_equal(learner._pending, before)
    learner.ask()


def test_a_batch_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = build(horizon=100)
    batch = learner.batch
    for _ in range(batch):
        learner.ask()
        learner.tell(1.0)
    whole = learner._pending.copy()
    assert whole.any()
    learner.total._ready()  # noise is at hand, so that the first array made is the released total
    with monkeypatch.context() as patch:
        patch.setattr(running.np, "asarray", raising(np.asarray, after=True))
        with pytest.raises(KeyboardInterrupt):
            learner.ask()
    learner.ask()
    np.testing.assert_array_equal(learner.total._total, whole)
    assert not learner._pending.any()


@pytest.mark.parametrize("name", ["blank", "gauge"])
def test_no_record_is_clipped_to_the_norm_of_another_epoch(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    learner = build(horizon=None)
    learner.run(np.zeros((rounds.plan.FIRST_EPOCH, 3)))
    with monkeypatch.context() as patch:
        if name == "blank":
            patch.setattr(RunningTotal, "_blank", raising(None, after=False))
        else:
            patch.setattr(RunningTotal, "_gauge", property(raising(None, after=False)))
        with pytest.raises(KeyboardInterrupt):
            learner.ask()
    assert learner._gauge == learner.total._gauge
    learner.ask()
    assert learner._epoch == 1
    assert learner._gauge == learner.total._gauge


def test_twins_in_threads_are_one_learner() -> None:
    # without a lock that both hold, each can pass the check before the other has moved
    for _ in range(20):
        learner = build(horizon=4000)
        twins = [learner, copy.copy(learner)]
        assert twins[0]._lock is twins[1]._lock
        asked: list[int] = []
        gate = threading.Barrier(2)

        def play(twin: Any, gate: Any = gate, asked: list[int] = asked) -> None:
            gate.wait()
            for _ in range(50):
                try:
                    asked.append(twin.ask().number)
                except ForkError:
                    return

        threads = [threading.Thread(target=play, args=(twin,)) for twin in twins]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(asked)) == len(asked) == 50


def test_a_function_that_saves_the_state_as_it_goes() -> None:
    learner = build(horizon=100)
    states = []

    def loss(t: int, point: Any) -> float:
        states.append(learner.state())
        return float(point[0])

    learner.run(loss, 5)
    assert [state["moves"] for state in states] == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("kind", [bandit.ProjectionFreeBandit, bandit.ProjectedBandit])
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_was_interrupted_has_counted_what_it_played(
    monkeypatch: pytest.MonkeyPatch, kind: Any, after: bool
) -> None:
    """``steps`` covers every record that is in a batch or in the total, so none is played again."""
    rows = np.random.default_rng(0).standard_normal((400, 3)) / 4
    learner = kind(sets.L2Ball(3), budget=BUDGET, horizon=400, seed=0)
    learner.run(rows[:7])
    taken: list[int] = []

    def watch(name: str) -> None:
        real = getattr(kernels, name)

        def watched(*kinds: int) -> Any:
            def call(scale: Any, A: Any, *rest: Any) -> Any:
                if len(taken) == 1 and not after:
                    raise KeyboardInterrupt
                taken.append(len(A))
                found = real(*kinds)(scale, A, *rest)
                if len(taken) == 2:
                    raise KeyboardInterrupt
                return found

            return call

        patch.setattr(kernels, name, watched)

    with monkeypatch.context() as patch:
        watch("batch")
        watch("projected")
        with pytest.raises(KeyboardInterrupt):
            for first in range(7, 400, 50):
                learner.run(rows[first : first + 50])
    assert learner.steps >= 7 + sum(taken)
    if after:
        assert learner.steps == 7 + sum(taken)
    rest = learner.run(rows[learner.steps :])  # and it goes on
    assert np.isfinite(rest.decisions).all()
    assert learner.steps == learner.answered == 400
