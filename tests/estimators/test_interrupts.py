"""A stream that was interrupted while it learnt is not learnt on: some records would count twice."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reticent.estimators import OnlineLinearRegression, OnlineLogisticRegression
from reticent.online import learner as learners
from reticent.online import quadratic_leader

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) / 3
Y = np.where(X[:, 0] > 0, 1, 0)


def logistic(**more: Any) -> Any:
    return OnlineLogisticRegression(classes=[0, 1], **more)


def several(**more: Any) -> Any:
    return OnlineLogisticRegression(classes=[0, 1, 2], **more)


def linear(**more: Any) -> Any:
    return OnlineLinearRegression(label_bounds=(0, 1), **more)


def quadratic(**more: Any) -> Any:
    return linear(learner="quadratic-leader", **more)


def interrupt(patch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    """Its compiled call finishes, and is interrupted as it returns; a module has factories of kernels."""
    real = getattr(where, name)

    def finishing(kernel: Any) -> Any:
        def call(*arguments: Any) -> None:
            kernel(*arguments)
            raise KeyboardInterrupt

        return call

    factory = isinstance(where, ModuleType)
    patch.setattr(where, name, (lambda *k: finishing(real(*k))) if factory else finishing(real))


@pytest.mark.parametrize(
    ("build", "where", "name"),
    [
        (logistic, learners.k, "play"),
        (linear, learners.k, "play"),
        (several, None, "_update_kernel"),
        (quadratic, quadratic_leader.k, "play"),
    ],
)
def test_the_same_records_cannot_be_learnt_again(
    monkeypatch: pytest.MonkeyPatch, build: Any, where: Any, name: str
) -> None:
    model = build().partial_fit(X[:20], Y[:20])
    before = (model.coef_.copy(), model.n_samples_seen_)
    with monkeypatch.context() as patch:
        interrupt(patch, where or model._stream._learner, name)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[20:], Y[20:])
    # what was published is what it was, but the records are in the stream
    np.testing.assert_array_equal(model.coef_, before[0])
    assert model.n_samples_seen_ == before[1]
    for twin in (model, model, pickle.loads(pickle.dumps(model))):
        with pytest.raises(RuntimeError, match=r"interrupted after .* of 40 records"):
            twin.partial_fit(X[20:], Y[20:])
    assert model.release().partial_fit(X[20:], Y[20:]).n_samples_seen_ == 60
    assert model.fit(X, Y).n_samples_seen_ == 60


def test_an_interrupt_after_the_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    model = logistic().partial_fit(X[:20], Y[:20])
    with monkeypatch.context() as patch:
        interrupt(patch, OnlineLogisticRegression, "_publish")
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[20:], Y[20:])
    with pytest.raises(RuntimeError, match="interrupted after 40 of 40 records"):
        model.partial_fit(X[20:], Y[20:])


def test_what_is_refused_before_a_record_is_taken_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = logistic(horizon=60).partial_fit(X[:20], Y[:20])
    with pytest.raises(ValueError, match="do not fit"):
        model.partial_fit(np.vstack([X, X]), np.concatenate([Y, Y]))
    with monkeypatch.context() as patch:
        patch.setattr(
            learners.TotalLearner, "_learn", lambda *_, **__: (_ for _ in ()).throw(OSError("no"))
        )
        with pytest.raises(OSError, match="no"):
            model.partial_fit(X[20:], Y[20:])
    assert model.partial_fit(X[20:], Y[20:]).n_samples_seen_ == 60
