"""Estimators and River twins of sparse records in very many columns."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import reticent
from reticent.estimators import OnlineLinearRegression, OnlineLogisticRegression
from reticent.estimators.dictionaries import SparselyHashed, placed
from reticent.estimators.sparse_stream import WIDE, SparseStream
from reticent.privacy import ForkError

COLUMNS = 2**18


def table(count=3000, columns=COLUMNS, seed=0):
    """Two columns of thirty, both of the half that is the label."""
    rng = np.random.default_rng(seed)
    half = rng.integers(0, 2, count)
    places = (rng.integers(0, 15, (count, 2)) + 15 * half[:, None]) * 8009 % columns
    ends = np.arange(0, 2 * count + 1, 2)
    X = sp.csr_array((np.full(2 * count, 0.5), places.ravel(), ends), shape=(count, columns))
    return X, np.where(half == 1, "yes", "no")


def logistic(**more):
    return OnlineLogisticRegression(
        **{"epsilon": 30.0, "classes": ["no", "yes"], "random_state": 0} | more
    )


def test_partial_fit_of_csr_in_memory_of_what_is_touched():
    X, y = table()
    model = logistic().partial_fit(X[:100], y[:100])
    model.predict(X[:10])  # compiled
    tracemalloc.start()
    model.partial_fit(X[100:], y[100:])
    found = model.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(model._stream, SparseStream)
    assert model._stream._learner.total.touched == 31
    assert peak < 2**22, "a dense vector alone would be 2 MiB, a dense row of noise as well"
    assert np.mean(found == y) > 0.85
    assert model.n_samples_seen_ == 3000
    assert "floating-point" in str(model.guarantee_)


def test_coefficients_as_a_whole_are_what_predictions_use():
    X, y = table(500)
    model = logistic().partial_fit(X, y)
    assert model.coef_.shape == (1, COLUMNS)
    np.testing.assert_allclose(
        X @ model.coef_[0] + model.intercept_[0], model.decision_function(X), atol=1e-10
    )
    public = model.release()
    np.testing.assert_allclose(public.decision_function(X), model.decision_function(X), atol=1e-10)
    with pytest.raises(ValueError, match="sparse records"):
        public.partial_fit(X, y)


def test_fit_takes_the_rows_as_horizon():
    X, y = table(500)
    model = logistic().fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.6
    with pytest.raises(ValueError, match="do not fit"):
        model.partial_fit(X, y)


def test_several_classes_and_regression():
    X, y = table(1000)
    three = logistic(classes=["no", "yes", "maybe"]).partial_fit(X, y)
    assert three.predict_proba(X[:5]).shape == (5, 3)
    assert set(three.predict(X)) <= {"no", "yes", "maybe"}
    line = OnlineLinearRegression(4.0, label_bounds=(0, 10), random_state=0)
    line.partial_fit(X, np.where(y == "yes", 9.0, 1.0))
    found = line.predict(X)
    assert found.min() >= 0
    assert found.max() <= 10
    np.testing.assert_allclose(
        np.clip(X @ line.coef_ + line.intercept_, 0, 10), line.predict(X), atol=1e-9
    )


def test_narrow_tables_stay_on_the_lattice_unless_asked():
    X, y = table(5, WIDE)
    assert not isinstance(logistic().partial_fit(X, y)._stream, SparseStream)
    asked = logistic(learner="sparse-leader").partial_fit(X.toarray(), y)
    assert isinstance(asked._stream, SparseStream)
    assert asked.predict(X.toarray()[:3]).shape == (3,)
    with pytest.raises(ValueError, match="regression"):
        logistic(learner="quadratic-leader").partial_fit(X, y)


def test_states_twins_and_pickles():
    X, y = table(400)
    whole, half = logistic(), logistic()
    whole.partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    half.partial_fit(X[:200], y[:200])
    state = half.state()
    assert state["steps"] == 200
    twin = OnlineLogisticRegression.from_state(state)
    twin.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(twin.decision_function(X), whole.decision_function(X))
    with pytest.raises(ForkError):
        half.predict(X)  # it draws noise, and the twin has gone on
    again = pickle.loads(pickle.dumps(twin))
    late = copy.deepcopy(twin)
    np.testing.assert_array_equal(again.decision_function(X), whole.decision_function(X))
    again.partial_fit(X[:1], y[:1])
    with pytest.raises(ForkError):
        late.partial_fit(X[:1], y[:1])


def test_bad_csr_is_refused_with_nothing_spent():
    X, y = table(10)
    bad = X.copy()
    bad.data[3] = np.nan
    model = logistic()
    with reticent.Ledger(reticent.Budget(9.0, 1e-5)) as ledger:
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(bad, y)
        assert ledger.spent is None or ledger.spent.epsilon(1e-5) == 0.0


def test_unsorted_and_repeated_indices_are_one_record():
    model, other = logistic(), logistic()
    y = np.array(["yes"])
    sorted_row = sp.csr_array(([0.5, 0.5], ([0, 0], [3, 9])), shape=(1, COLUMNS))
    wild = sp.csr_array((1, COLUMNS))
    wild.indptr, wild.indices = np.array([0, 3]), np.array([9, 3, 3])
    wild.data = np.array([0.5, 0.25, 0.25])
    model.partial_fit(sorted_row, y)
    other.partial_fit(wild, y)
    totals = [sorted(m._stream._learner.total._rows[:3, 0].tolist()) for m in (model, other)]
    np.testing.assert_allclose(*totals)


def test_names_one_by_one_are_rows_of_a_matrix():
    """One compiled call by names, and the loop over rows: the same numbers to the last bit, also beyond first room."""
    river = pytest.importorskip("reticent.estimators.river")
    rng = np.random.default_rng(0)
    records = [
        {
            f"w{place}": value
            for place, value in zip(rng.integers(0, 3000, n), rng.random(n), strict=True)
        }
        for n in rng.integers(0, 60, 400)
    ]
    labels = [bool(label) for label in rng.integers(0, 2, 400)]
    one, rows = (
        river.OnlineLogisticRegression(dimension=COLUMNS, seed=0, horizon=400) for _ in "12"
    )
    stream, reader = None, SparselyHashed(COLUMNS)
    for record, label in zip(records, labels, strict=True):
        shown = one.predict_proba_one(record) if stream else None
        one.learn_one(record, label)
        if stream is None:
            rows.learn_one(record, label)
            stream = rows._stream
            continue
        places, values = placed(reader.one(record), COLUMNS)
        row = sp.csr_array((values, places, [0, len(places)]), shape=(1, COLUMNS))
        z = stream.predictors(row)[0, 0]
        assert shown[True] == pytest.approx(1.0 / (1.0 + np.exp(-z)), rel=1e-12)
        stream.learn(row, np.array([1.0 if label else -1.0]))
    for learnt in (one._stream._learner.total, stream._learner.total):
        assert learnt.steps == 400
    np.testing.assert_array_equal(
        one._stream._learner.total._rows[: one._stream._learner.total.touched],
        stream._learner.total._rows[: stream._learner.total.touched],
    )
    with pytest.raises(ValueError, match="do not fit"):
        one.learn_one(records[0], True)
    assert one.clipped == rows.clipped


def test_river_twin_of_hashed_names():
    river = pytest.importorskip("reticent.estimators.river")
    X, y = table(1500)
    records = [
        {f"w{place}": 0.5 for place in X.indices[a:b]}
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    model = river.OnlineLogisticRegression(30.0, dimension=2**22, seed=0)
    assert model.predict_one(records[0]) is False
    for record, label in zip(records, y == "yes", strict=True):
        model.learn_one(record, bool(label))
    found = [model.predict_one(record) for record in records]
    assert np.mean(np.array(found) == (y == "yes")) > 0.8
    assert model._stream._learner.total.touched <= 31
    twin = river.OnlineLogisticRegression.from_state(model.state())
    assert twin.predict_proba_one(records[0]) == model.predict_proba_one(records[0])
    twin.learn_one(records[0], True)
    with pytest.raises(ForkError):
        model.predict_one({"new": 1.0})
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be finite; nothing was learnt"):
            twin.learn_one({"a": value}, True)
    with pytest.raises(ValueError, match="dimension"):
        river.OnlineLogisticRegression(features=["a"], learner="sparse-leader")


def test_river_frames():
    pandas = pytest.importorskip("pandas")
    river = pytest.importorskip("reticent.estimators.river")
    model = river.OnlineLinearRegression(4.0, dimension=2**20, seed=0, label_bounds=(0, 1))
    frame = pandas.DataFrame({"a": [0.5, 0.1], "kind": ["x", "y"]})
    model.learn_many(frame, pandas.Series([0.2, 0.9]))
    assert model.predict_many(frame).shape == (2,)
    assert model.predict_one({"a": 0.5, "kind": "x"}) == pytest.approx(model.predict_many(frame)[0])


@pytest.mark.parametrize("kind", ["logistic", "linear", "lasso"])
def test_a_table_with_unsorted_and_repeated_indices_is_that_of_the_sums(kind):
    """A row that names a column twice holds the sum; measured apart, its parts could be longer than the norm."""
    rng = np.random.default_rng(0)
    count = 2000
    columns = rng.integers(0, 6, (count, 4))
    values = rng.uniform(-1.0, 1.0, (count, 4))
    loose = sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, 4 * count + 1, 4)))
    loose = sp.csr_array((loose.data, loose.indices, loose.indptr), shape=(count, 6))
    tidy = loose.copy()
    tidy.sum_duplicates()
    y = np.where(np.asarray(tidy @ np.arange(6.0)) > 0.0, 1, 0)
    model = {
        "logistic": reticent.PrivateLogisticRegression(
            classes=[0, 1], feature_norm=1.0, random_state=0
        ),
        "linear": reticent.PrivateLinearRegression(
            feature_norm=1.0, label_bounds=(0, 1), random_state=0
        ),
        "lasso": reticent.PrivateLasso(feature_norm=1.0, label_bounds=(0, 1), random_state=0),
    }[kind]
    assert loose.nnz > tidy.nnz
    here, there = clone(model).fit(tidy, y), clone(model).fit(loose, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-6)
    assert there.clipped_ == here.clipped_
