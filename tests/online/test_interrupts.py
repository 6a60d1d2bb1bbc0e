"""A learner that was interrupted, or whose set failed, never plays two decisions with the same noise."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets
from reticent.online import iterate_kernels, kernels, quadratic_kernels
from reticent.privacy import ForkError

BUDGET = reticent.Budget(1.0, 1e-6)
A = np.eye(3) * 0.9
Y = np.array([1.0, -1.0, 1.0])


def leader() -> Any:
    return online.FollowTheRegularizedLeader(
        sets.L2Ball(3), losses.Logistic(), budget=BUDGET, horizon=50, seed=0
    )


def quadratic() -> Any:
    return online.QuadraticLeader(
        sets.L2Ball(3), losses.Squared(), budget=BUDGET, horizon=50, seed=0
    )


def iterates(**more: Any) -> Any:
    return online.PerturbedIterates(
        sets.L2Ball(3), losses.Logistic(ridge=0.5), budget=BUDGET, horizon=50, seed=0, **more
    )


def interrupted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, act: Any) -> None:
    """Do something whose compiled call finishes, and is interrupted as it returns.

    A module has factories of kernels; a learner keeps the kernel of its single steps.
    """
    real = getattr(where, name)

    def finishing(kernel: Any) -> Any:
        def call(*arguments: Any) -> None:
            kernel(*arguments)
            raise KeyboardInterrupt

        return call

    kept = isinstance(where, online.OnlineLearner)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, finishing(real) if kept else lambda *k: finishing(real(*k)))
        with pytest.raises(KeyboardInterrupt):
            act()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("build", "where"),
    [(leader, kernels), (quadratic, quadratic_kernels), (iterates, iterate_kernels)],
)
def test_what_was_played_is_counted(
    monkeypatch: pytest.MonkeyPatch, build: Any, where: Any, alone: bool
) -> None:
    calm, learner = build(), build()
    start = learner.state()
    if alone:
        place, name = {
            kernels: (learner, "_observe_kernel"),
            quadratic_kernels: (quadratic_kernels, "play"),
            iterate_kernels: (iterate_kernels, "observe"),
        }[where]
        interrupted(monkeypatch, place, name, lambda: learner.observe((A[0], Y[0])))
        calm.run(A[:1], Y[:1])
    else:
        interrupted(monkeypatch, where, "play", lambda: learner.run(A, Y))
        calm.run(A, Y)
    assert learner.steps == calm.steps == (1 if alone else 3)
    np.testing.assert_array_equal(learner.decision, calm.decision)
    with pytest.raises(ForkError):  # the noise of the first decisions has been seen
        type(learner).from_state(start)
    np.testing.assert_array_equal(learner.observe((A[2], 1.0)), calm.observe((A[2], 1.0)))
    np.testing.assert_array_equal(
        copy.copy(learner).observe((A[1], 1.0)), copy.copy(calm).observe((A[1], 1.0))
    )


def test_an_interrupted_draw_does_not_make_later_noise_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from reticent.online import schedules

    calm, learner = iterates(), iterates()

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schedules.lattice, "gaussian", stop)
        with pytest.raises(KeyboardInterrupt):
            learner.observe((A[0], 1.0))
    # the interval that was begun is lost; the noise of the next one is as large
    decision = learner.observe((A[0], 1.0))
    assert np.isfinite(decision).all()
    assert not np.array_equal(decision, calm.observe((A[0], 1.0)))
    np.testing.assert_array_equal(learner._noise.grid, calm._noise.grid)


@pytest.mark.parametrize("when", ["deviations", "drawing"])
@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_an_interrupted_draw_leaves_the_noise_as_it_was(
    precision: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reticent.noise.source import Source
    from reticent.online import schedules

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_BLOCK", 4 * 3)  # four steps at a time
    learner = iterates(noise_precision=precision)
    for _ in range(4):
        learner.observe((A[0], 1.0))
    noise = learner._noise
    arrays = noise.rows, noise.grid, noise.row
    with monkeypatch.context() as patch:
        if when == "deviations":
            patch.setattr(schedules.Schedule, "deviations", stop)
        elif precision == "lattice":
            patch.setattr(schedules.lattice, "gaussian", stop)
        else:
            patch.setattr(Source, "normals", stop)
        with pytest.raises(KeyboardInterrupt):
            learner.observe((A[0], 1.0))
    assert all(x is y for x, y in zip((noise.rows, noise.grid, noise.row), arrays, strict=True))
    calm = iterates(noise_precision=precision)
    for _ in range(5):
        calm.observe((A[0], 1.0))
    twin = type(learner).from_state(learner.state())
    decision = twin.observe((A[0], 1.0))
    np.testing.assert_array_equal(twin._noise.grid, calm._noise.grid)
    if when == "deviations":  # before the next interval was begun
        np.testing.assert_array_equal(decision, calm.decision)
