"""Private classifiers: without noise, several classes, probabilities, and labels."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import reticent
from reticent.estimators import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from reticent.privacy import PrivacyLeakWarning

CLASSIFIERS = (PrivateLogisticRegression, PrivateLinearSVC)


def logistic_reference(A, y, weights, cap, ridge):
    """The weighted capped logistic minimum by a general-purpose method."""
    border = np.log(cap / (1 - cap))

    def value(x):
        z = y * (A @ x)
        kept = np.maximum(z, -border)
        loss = np.logaddexp(0, -kept) + cap * (kept - z)
        slope = -y * np.minimum(1 / (1 + np.exp(z)), cap) * weights
        return weights @ loss + 0.5 * ridge * x @ x, A.T @ slope + ridge * x

    start = np.zeros(A.shape[1])
    return minimize(value, start, jac=True, method="L-BFGS-B",
                    options={"ftol": 0, "gtol": 1e-10, "maxiter": 5000}).x  # fmt: skip


def test_without_noise_it_is_the_weighted_minimum(binary):
    X, y = binary
    w = np.linspace(-0.5, 3.0, len(y))
    model = PrivateLogisticRegression(
        1e7, 1e-6, feature_norm=0.9, classes=["no", "yes"], influence=0.6, regularizer=3.0,
        weight_bound=2.0, class_weight={"yes": 1.5}, intercept_scaling=0.5, random_state=0,
        scaling="none",
    ).fit(X, y, sample_weight=w)  # fmt: skip
    norms = np.linalg.norm(X, axis=1)
    A = np.c_[X * np.minimum(1, 0.9 / norms)[:, None] / 0.9, np.full(len(y), 0.5)]
    signs = np.where(y == "yes", 1.0, -1.0)
    weights = np.clip(w, 0, 2) * np.where(y == "yes", 1.5, 1.0)
    x = logistic_reference(A, signs, weights, 0.6, 3.0)
    np.testing.assert_allclose(model.coef_[0], x[:4] / 0.9, atol=2e-3)
    assert model.intercept_[0] == pytest.approx(0.5 * x[4], abs=2e-3)
    assert model.clipped_ == (int((norms > 0.9).sum()), 0, len(y))
    assert "weights within [0, 3]" in model.guarantee_.explain()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_several_classes_share_the_budget(several, kind):
    X, y = several
    for fields in ({}, {"delta": 0.0}, {"neighbours": "replace"}):
        model = kind(epsilon=2.0, classes=[0, 10, 20, 30], random_state=0, **fields).fit(X, y)
        assert model.score(X, y) > 0.9
        assert model.coef_.shape == (4, 3)
        asked = reticent.Budget(
            2.0, fields.get("delta", 1e-6), fields.get("neighbours", "zero-out")
        )
        assert model.guarantee_.meets(asked)
        assert not model.guarantee_.meets(asked.with_(epsilon=0.97 * 2.0))
        split = "1/4 of epsilon" if fields.get("delta") == 0.0 else "1/sqrt(4) of mu"
        assert split in model.guarantee_.explain()
        assert not model.guarantee_.caveats


def test_probabilities(binary, several):
    for X, y in (binary, several):
        model = PrivateLogisticRegression(
            4.0, classes=sorted(set(y.tolist())), feature_norm=2.0, random_state=0
        ).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, atol=1e-300)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes(binary, kind):
    X, y = binary
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        model = kind(random_state=0).fit(X, y)
    assert "read off the labels" in model.guarantee_.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = kind(classes=["no", "yes"], random_state=0).fit(X[:50], ["no"] * 50)
        assert alone.classes_.tolist() == ["no", "yes"]
        assert not alone.guarantee_.caveats
        # nor a word on how many of the classes are there
        kind(classes=list(range(20)), random_state=0).fit(X[:30], np.arange(30) % 20)
    with pytest.raises(ValueError, match=r"y\[0\], a str_, is not one of the classes") as caught:
        kind(classes=["no", "maybe"]).fit(X, np.full(len(y), "secret"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("solver", ["auto", "gradient-descent", "output-perturbation"])
def test_a_ledger_hears_of_classes_that_were_read_off_the_labels(binary, solver):
    X, y = binary
    with reticent.Ledger(reticent.Budget(4.0, 1e-5)) as ledger:
        with pytest.warns(reticent.PrivacyLeakWarning):
            model = PrivateLogisticRegression(solver=solver, random_state=0).fit(X, y)
        PrivateLogisticRegression(classes=np.unique(y), random_state=0).fit(X, y)
    first, second = ledger.entries
    assert any("classes" in line for line in first.guarantee.caveats)
    assert model.guarantee_.caveats == first.guarantee.caveats
    assert not second.guarantee.caveats


def test_labels_that_cannot_be_compared_are_refused_in_words():
    X, y = np.zeros((3, 2)), np.array([0, "x", None], dtype=object)
    with (
        reticent.Ledger(reticent.Budget(9.0, 0.1)) as ledger,
        pytest.raises(ValueError, match="cannot be compared"),
    ):
        PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    assert ledger.entries == ()
