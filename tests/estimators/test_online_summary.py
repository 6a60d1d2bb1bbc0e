"""Summaries online: the noise of totals and of the last decision, against the noise itself."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import reticent
from reticent import OnlineLinearRegression, OnlineLogisticRegression, losses, online, sets, sums
from reticent.privacy import Budget
from reticent.trace import NoIntervals

BUDGET = Budget(1.0, 1e-6)


def test_total() -> None:
    """400 totals: variances agree within 7 standard deviations (false alarm 1e-11)."""
    found = []
    for seed in range(200):
        total = sums.Correlated(2, 64, budget=BUDGET, norm=1.0, seed=seed)
        seen = total.run(np.tile([0.6, 0.0], (40, 1)))[-1]
        found.append(total.summary(names=["a", "b"]))
        assert np.array_equal(found[-1].estimate, seen)
    errors = np.concatenate([f.estimate - [24.0, 0.0] for f in found])
    assert abs(np.var(errors) / found[0].privacy_error[0] ** 2 - 1) < 7 * math.sqrt(2 / 400)
    assert not found[0].sampling_error.any()
    assert found[0].guarantee.meets(BUDGET)
    assert "these records" in str(found[0])
    with pytest.raises(NoIntervals, match="nothing"):
        sums.Correlated(2, 64, budget=BUDGET, norm=1.0).summary()
    with pytest.raises(ValueError, match="names"):
        total.summary(names=["a"])


def test_not_normal_noise_has_wider_intervals() -> None:
    total = sums.Tree(1, 64, budget=Budget(1.0), norm=1.0, noise="gamma", seed=0)
    total.add([1.0])
    found = total.summary()
    half = found.interval[0, 1] - found.estimate[0]
    assert half == pytest.approx(total.error(1) / math.sqrt(0.05))
    assert "Chebyshev" in found.about


def test_run() -> None:
    """A run tells of the decision that it ended with, whatever is learnt afterwards."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (80, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    made = {"budget": BUDGET, "horizon": 100, "seed": 0}
    learner = online.FollowTheRegularizedLeader(sets.L2Ball(2), losses.Logistic(), **made)
    play = learner.run(X[:60], y[:60])
    then = learner.summary(names=["a", "b"])
    learner.run(X[60:], y[60:])
    assert (
        str(play.summary(names=["a", "b"])) == str(then) != str(learner.summary(names=["a", "b"]))
    )
    with pytest.raises(ValueError, match="level"):
        play.summary(level=2.0)
    with pytest.raises(NoIntervals, match="pickled"):
        pickle.loads(pickle.dumps(play)).summary()
    other = online.QuadraticLeader(sets.L2Ball(2), losses.Squared(), **made)
    with pytest.raises(NoIntervals, match="QuadraticLeader"):
        other.run(X, y).summary()


def test_decision_given_its_gradients() -> None:
    """The same gradients under 200 draws of noise: variances within 7 standard deviations (false alarm 1e-11)."""
    gradients = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
    found = []
    for seed in range(200):
        learner = online.FollowTheRegularizedLeader(
            sets.L2Ball(2, 1e6), budget=BUDGET, lipschitz=1.0, horizon=60, seed=seed
        )
        for g in gradients:
            learner.update(g)
        found.append(learner.summary())
        assert np.array_equal(found[-1].estimate, learner.decision)
    spread = np.var(np.array([f.estimate for f in found]), axis=0).mean()
    assert abs(spread / found[0].privacy_error[0] ** 2 - 1) < 7 * math.sqrt(2 / 400)


def test_decision_of_averaged_totals() -> None:
    """The same gradients under 200 draws of noise: the error is an upper bound, and not an idle one.

    The variance has a standard deviation of 0.07 of itself; the bar is 7 of these above the bound (false alarm 1e-11).
    """
    gradients = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
    found = []
    for seed in range(200):
        learner = online.FollowTheRegularizedLeader(
            sets.L2Ball(2, 1e3), losses.Logistic(), budget=BUDGET, horizon=60, seed=seed,
            averaging=True,
        )  # fmt: skip
        for g in gradients:
            learner.update(g)
        found.append(learner.summary())
    assert learner.rule.fresh < 1.0
    spread = np.var(np.array([f.estimate for f in found]), axis=0).mean()
    share = spread / found[0].privacy_error[0] ** 2
    assert 0.1 < share < 1 + 7 * math.sqrt(2 / 400)


def test_rules_that_are_not_linear_are_refused() -> None:
    learner = online.FollowTheApproximateLeader(
        sets.Simplex(3), losses.Quadratic(), step="local-linear", budget=BUDGET, horizon=9, seed=0
    )
    learner.observe(np.array([0.1, 0.2, 0.3]))
    with pytest.raises(NoIntervals, match="linear"):
        learner.summary()


@pytest.mark.parametrize("kind", ["linear", "binary", "several"])
def test_estimators(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    z = X @ [1.0, -0.5]
    if kind == "linear":
        model = OnlineLinearRegression(feature_norm=2.0, label_bounds=(-5, 5), random_state=0)
        y, scale = z, 5.0
    else:
        y = (z > 0).astype(int) if kind == "binary" else np.digitize(z, [-0.5, 0.5])
        model = OnlineLogisticRegression(
            feature_norm=2.0, classes=sorted(set(y.tolist())), random_state=0
        )
        scale = 1.0
    for rows in np.split(np.arange(4000), 4):
        model.partial_fit(X[rows], y[rows])
    found = model.summary()
    learner = model._stream._learner
    error = learner.decision_error()
    outputs = 3 if kind == "several" else 1
    assert len(found.names) == 3 * outputs
    assert np.allclose(found.privacy_error.reshape(outputs, 3)[:, :2], scale * error / 2.0)
    assert np.allclose(found.privacy_error.reshape(outputs, 3)[:, 2], scale * error * 0.3)
    assert np.allclose(found.estimate.reshape(outputs, 3)[:, :2], np.atleast_2d(model.coef_))
    assert found.guarantee.meets(BUDGET)
    assert "<table>" in found._repr_html_()
    for twin in (
        pickle.loads(pickle.dumps(model)),
        model.release(),
        type(model).from_state(model.state()),
    ):
        assert str(twin.summary()) == str(found)
    with reticent.Ledger(BUDGET) as ledger:
        model.summary()
    assert ledger.entries == ()


def test_refusals_of_estimators() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    made = {"label_bounds": (-1, 1), "random_state": 0}
    with pytest.raises(NoIntervals, match="quadratic"):
        OnlineLinearRegression(learner="quadratic-leader", **made).fit(X, X[:, 0]).summary()
    early = OnlineLinearRegression(feature_norm="private", **made).partial_fit(X, X[:, 0])
    with pytest.raises(NoIntervals, match="bounds"):
        early.summary()


def test_on_a_page() -> None:
    pytest.importorskip("matplotlib")
    from reticent.report import Page

    total = sums.Correlated(2, 64, budget=BUDGET, norm=1.0, seed=0)
    total.add([1.0, 0.0])
    page = Page("Totals")
    page.summary(total.summary(names=["visits", "<refunds>"]))
    text = page.html()
    assert "&lt;refunds&gt;" in text
    assert "covered by the guarantee" in text
    assert "<svg" in text
    assert not page.shows_diagnostics
