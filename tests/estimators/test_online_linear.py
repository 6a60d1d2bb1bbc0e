"""Online linear regression: it learns, and what becomes of its labels."""

import numpy as np
import pytest

import reticent
from reticent.estimators import OnlineLinearRegression


@pytest.mark.parametrize("learner", ["regularized-leader", "quadratic-leader"])
def test_linear_regression_learns(regression, learner):
    X, y = regression
    model = OnlineLinearRegression(
        epsilon=2.0, label_bounds=(10, 30), learner=learner, random_state=0
    )
    model.fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.coef_.shape == (3,)
    assert isinstance(model.intercept_, float)
    assert model.clipped_ == (0, 0, 5000)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.guarantee_.meets(reticent.Budget(2.0, 1e-6))


def test_labels_are_clipped_and_predictions_stay_within(regression):
    X, y = regression
    model = OnlineLinearRegression(label_bounds=(19, 21), random_state=0).fit(X, y)
    assert model.clipped_.labels == int(((y < 19) | (y > 21)).sum())
    assert model.predict(100 * X).min() >= 19
    assert model.predict(100 * X).max() <= 21


def test_bad_labels_of_a_regression_change_nothing(regression):
    X, y = regression
    model = OnlineLinearRegression(label_bounds=(10, 30), random_state=0).partial_fit(X, y)
    before = model.coef_.copy()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError):
            model.partial_fit(X[:2], [20.0, bad])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_samples_seen_ == 5000


def test_a_table_of_the_quadratic_leader_can_be_learnt_on(regression):
    X, y = regression
    model = OnlineLinearRegression(
        epsilon=4.0, label_bounds=(10, 30), learner="quadratic-leader", random_state=0
    )
    before = model.fit(X, y).score(X, y)
    assert model.partial_fit(X[:1], y[:1]).score(X, y) > before - 0.2
    assert model.guarantee_.meets(reticent.Budget(4.0, 1e-6))


@pytest.mark.parametrize("horizon", [1000, None])
@pytest.mark.parametrize("other", [(-3.0, 9.0), "private"])
def test_bounds_of_labels_that_change_after_the_first_records_do_not_mix_units(
    regression, horizon, other
):
    X, y = regression
    known = {"label_bounds": (-1, 1), "random_state": 0, "horizon": horizon}
    model, twin = (OnlineLinearRegression(**known).partial_fit(X[:300], y[:300]) for _ in "ab")
    model.set_params(label_bounds=other)
    for part in (slice(300, 500), slice(500, 600)):
        assert np.array_equal(
            model.partial_fit(X[part], y[part]).coef_, twin.partial_fit(X[part], y[part]).coef_
        )
    assert np.array_equal(model.predict(X), twin.predict(X))
    assert model.clipped_ == twin.clipped_
