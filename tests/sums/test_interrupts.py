"""An interrupt may lose noise or a record, but never have noise used for two outputs, or too little of it.

Python delivers a signal when a compiled call returns; here the call itself raises on its way out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.sums import correlated, kernels, mechanism
from reticent.sums.process import Process

BUDGET = reticent.Budget(1.0, 1e-6)


def cut_short(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, *, first: bool) -> None:
    """Make one call of a function raise KeyboardInterrupt, before it does anything or when it is done."""
    real, calls = getattr(where, name), [0]

    def call(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            return real(*arguments, **more)
        if not first:
            real(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(where, name, call)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["add", "run"])
def test_noise_at_hand_is_used_once(
    monkeypatch: pytest.MonkeyPatch, name: str, first: bool
) -> None:
    total = sums.Tree(2, 100, budget=BUDGET, seed=0)
    total.run(np.ones((3, 2)) / 2)
    used = total._row
    cut_short(monkeypatch, kernels, name, first=first)
    with pytest.raises(KeyboardInterrupt):
        if name == "add":
            total.add(np.ones(2) / 2)
        else:
            total.run(np.ones((4, 2)) / 2)
    assert total.steps == total._row == total._lease.furthest == used + (1 if name == "add" else 4)


def test_a_refused_contribution_leaves_the_noise_for_the_next() -> None:
    calm = sums.Correlated(2, 100, budget=BUDGET, seed=0)
    other = sums.Correlated(2, 100, budget=BUDGET, seed=0)
    row = np.array([0.3, 0.1])
    for t in range(5):
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="contribution"):
                other.add(np.array([bad, 0.0]))
        assert other.steps == other._lease.furthest == t
        np.testing.assert_array_equal(calm.add(row), other.add(row))


def test_a_longer_epoch_never_gets_the_noise_of_a_shorter_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = sums.Tree(1, None, budget=BUDGET, seed=0)
    other = sums.Tree(1, None, budget=BUDGET, seed=0)
    rows = np.full((mechanism._FIRST_EPOCH, 1), 0.5)
    np.testing.assert_array_equal(calm.run(rows), other.run(rows))
    scale = calm._noise.scale
    with monkeypatch.context() as patch:
        cut_short(patch, sums.TreeMechanism, "process", first=True)
        with pytest.raises(KeyboardInterrupt):
            other.add(rows[0])
    np.testing.assert_array_equal(calm.add(rows[0]), other.add(rows[0]))
    assert other._noise.scale == calm._noise.scale > scale


def test_noise_that_was_remembered_but_never_came_is_not_built_upon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = sums.Correlated(2, 100, budget=BUDGET, seed=0)
    with monkeypatch.context() as patch:
        cut_short(patch, correlated, "_filter", first=False)
        with pytest.raises(KeyboardInterrupt):
            total.add(np.zeros(2))
    for go_on in (lambda: total.add(np.zeros(2)), total.state):
        with pytest.raises(RuntimeError, match="interrupted while it drew noise"):
            go_on()
    assert total.steps == 0


def test_an_interrupt_before_that_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    total = sums.Correlated(2, 100, budget=BUDGET, seed=0)
    with monkeypatch.context() as patch:
        cut_short(patch, Process, "check", first=True)
        with pytest.raises(KeyboardInterrupt):
            total.add(np.zeros(2))
    assert np.isfinite(total.add(np.zeros(2))).all()
