"""Online logistic regression: two classes, several, absent ones, and ones that were read off the labels."""

import numpy as np
import pytest

import reticent
from reticent.estimators import OnlineLogisticRegression
from reticent.privacy import PrivacyLeakWarning


def test_binary_learns_in_pieces(binary):
    X, y = binary
    model = OnlineLogisticRegression(epsilon=2.0, feature_norm=2.0, random_state=0)
    for start in range(0, 4000, 500):
        rows = slice(start, start + 500)
        model.partial_fit(X[rows], y[rows], classes=["no", "yes"])
    assert model.score(X, y) > 0.9
    assert model.n_samples_seen_ == 4000
    assert model.coef_.shape == (1, 4)
    assert model.guarantee_.meets(reticent.Budget(2.0, 1e-6))
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[(model.decision_function(X) > 0).astype(int)]
    )


def test_a_sorted_table_is_learnt_as_well_as_any(several):
    X, y = several
    order = np.argsort(y, kind="stable")
    model = OnlineLogisticRegression(classes=[0, 10, 20, 30], random_state=0)
    assert model.fit(X[order], y[order]).score(X, y) > 0.8


def test_several_classes_cost_what_two_do(several):
    X, y = several
    model = OnlineLogisticRegression(classes=[0, 10, 20, 30], random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.coef_.shape == (4, 3)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    assert model.guarantee_.gdp == pytest.approx(reticent.Budget(1.0, 1e-6).mu, rel=1e-9)
    assert "not split" in model.guarantee_.explain()


def test_classes_that_were_read_off_the_labels_are_a_leak(binary):
    X, y = binary
    model = OnlineLogisticRegression(random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        model.fit(X, y)
    assert any("classes" in line for line in model.guarantee_.caveats)
    model = OnlineLogisticRegression(random_state=0, classes=["yes", "no"]).fit(X, y)
    assert not model.guarantee_.caveats
    with pytest.raises(ValueError, match="first call of partial_fit"):
        OnlineLogisticRegression().partial_fit(X, y)


def test_a_class_may_be_absent(binary):
    X, _ = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0)
    model.fit(X[:50], ["no"] * 50)
    assert model.classes_.tolist() == ["no", "yes"]


def test_the_ledger_hears_that_the_classes_were_read_off_the_labels():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 2))
    y = (X[:, 0] > 0).astype(int)
    with reticent.Ledger(reticent.Budget(2.0, 1e-5)) as ledger:
        with pytest.warns(reticent.PrivacyLeakWarning):
            OnlineLogisticRegression(random_state=0).fit(X, y)
        OnlineLogisticRegression(epsilon=0.5, random_state=0, classes=[0, 1]).fit(X, y)
    first, second = ledger.entries
    assert any("read off the labels" in line for line in first.guarantee.caveats)
    assert not any("read off the labels" in line for line in second.guarantee.caveats)
