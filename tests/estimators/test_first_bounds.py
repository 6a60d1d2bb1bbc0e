"""Bounds from the first records of a stream: parallel to the learner, fixed afterwards, the same after a restart."""

from __future__ import annotations

import math
import pickle
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import OnlineLinearRegression, OnlineLogisticRegression
from reticent.estimators.first_bounds import First, NothingFound
from reticent.estimators.stream import Stream
from reticent.privacy import Budget, ForkError, Ledger

COUNT = 3476  # of first records, for three features and labels


def table(rows: int = 12_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal([1e6, 3.0, 0.0], [1e5, 0.1, 1e-4], (rows, 3))
    return X, 40 + 2e-4 * (X[:, 0] - 1e6) + 1e5 * X[:, 2] + rng.normal(0, 5, rows)


def linear(**more) -> OnlineLinearRegression:
    return OnlineLinearRegression(
        **{"feature_norm": "private", "label_bounds": "private", "random_state": 0} | more
    )


@pytest.mark.parametrize(
    "more", [{}, {"delta": 0.0}, {"neighbours": "replace"}, {"window": 5000}], ids=str
)
def test_one_guarantee(more) -> None:
    X, y = table()
    budget = Budget(
        2.0, more.get("delta", 1e-6), more.get("neighbours", "zero-out"), more.get("window")
    )
    model = linear(epsilon=2.0, **more)
    with Ledger(budget) as ledger:
        for k in range(0, len(X), 3000):
            model.partial_fit(X[k : k + 3000], y[k : k + 3000])
    assert len(ledger.entries) == 1
    assert model.guarantee_.meets(budget)
    assert model.n_samples_seen_ == len(X)
    assert model.score(X, y) > 0.5 if budget.delta else np.isfinite(model.score(X, y))


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(0.5), Budget(1.0, 1e-6, "replace")])
@pytest.mark.parametrize(("features", "labels"), [(True, False), (False, True), (True, True)])
def test_the_search_costs_the_budget(budget: Budget, features: bool, labels: bool) -> None:
    """Recomputed from the printed scales: a record is in one place of each histogram."""
    first = First.of(budget, 4, features, labels, None)
    replaced = budget.neighbours == "replace"
    squares = pures = 0.0
    for release in first.releases:
        places = (4 if "4 columns" in release.mechanism else 1) * (2 if replaced else 1)
        scale = float(release.noise.split()[-1])
        squares += release.count * places / scale**2
        pures += release.count * places / scale
    spent = math.sqrt(squares) / budget.mu if budget.delta else pures / budget.epsilon
    assert (
        0.9999 < spent < 1.0 + 2e-5
    )  # rounding to the lattice has a part of it; scales are printed to six digits


def test_no_record_enters_both() -> None:
    """What the first records are decides bounds alone, and what later ones are does not touch the bounds."""
    X, y = table()
    base = linear().partial_fit(X, y)
    # another value in the same places of all histograms: nothing may change
    other = X.copy()
    middle = np.flatnonzero(np.abs(X[:COUNT, 1] - 3.0) < 0.001)[0]
    other[middle, 1] += 1e-9
    labels = y.copy()
    assert np.array_equal(linear().partial_fit(other, y).coef_, base.coef_)
    far, labels = X.copy(), y.copy()
    far[COUNT:] *= 1000.0
    labels[COUNT:] *= -3.0
    moved = linear().partial_fit(far, labels)
    assert moved._bounds == base._bounds
    assert np.array_equal(moved._units.scale, base._units.scale)
    assert not np.array_equal(moved.coef_, base.coef_)
    assert base._stream.plan.first.count == COUNT


def test_until_bounds_are_found_nothing_is_said() -> None:
    X, y = table()
    model = linear().partial_fit(X[: COUNT - 1], y[: COUNT - 1])
    assert not model.coef_.any()
    assert not model.predict(X[:5]).any()
    model.gap()  # counts as one of the first records
    assert model._found is not None
    assert model.n_samples_seen_ == COUNT
    model.partial_fit(X[COUNT:], y[COUNT:])
    assert model.coef_.any()


@pytest.mark.parametrize("columns", [1, 4])
def test_gaps_alone_look_like_gaps_and_a_record(columns: int) -> None:
    """Blanking the only one of the first records makes a neighbouring stream, which may not end in an error."""
    found = []
    for first in (np.full((1, columns), 0.5), None):
        model = OnlineLogisticRegression(classes=[0, 1], scaling="auto", random_state=0)
        model.gap(columns)
        count = model._stream.plan.first.count
        if first is None:
            model.gap()
        else:
            model.partial_fit(first, [1])
        for _ in range(count - 2):
            model.gap()
        assert model._found is not None
        scaling = model._stream.plan.first.scaling
        rows = np.zeros((0, columns)) if first is None else first
        found.append(scaling.sums(rows, 1.0, None))
    moved = float(np.linalg.norm(found[0] - found[1]))
    assert 0.0 < moved <= math.hypot(1.0, scaling.weight)


def test_piece_by_piece_is_all_at_once() -> None:
    X, y = table(5000)
    whole, parts = linear().partial_fit(X, y), linear()
    for k in range(0, 5000, 700):
        parts.partial_fit(X[k : k + 700], y[k : k + 700])
    assert np.allclose(whole.coef_, parts.coef_, rtol=1e-12)
    thin = linear().partial_fit(sp.csr_array(X), y)
    assert np.isfinite(thin.coef_).all()


@pytest.mark.parametrize("way", ["state", "pickle"])
def test_restarts_and_twins(way: str) -> None:
    """Replayed after a restart the same records give the same bounds, and of two twins one is refused."""
    X, y = table(5000)
    model = linear(random_state=None)
    model.partial_fit(X[:2000], y[:2000])

    def twin():
        if way == "pickle":
            return pickle.loads(pickle.dumps(model))
        return OnlineLinearRegression.from_state(model.state())

    one, two = twin(), twin()
    one.partial_fit(X[2000:], y[2000:])
    for late in (two, model):
        with pytest.raises(ForkError):
            late.partial_fit(X[2000:], y[2000:])
    again = twin_of_found = pickle.loads(pickle.dumps(one))
    assert again._bounds == one._bounds
    assert np.array_equal(twin_of_found.predict(X[:9]), one.predict(X[:9]))
    assert np.array_equal(one.release().predict(X[:9]), one.predict(X[:9]))


def test_the_same_noise_after_a_restart(tmp_path) -> None:
    X, y = table(5000)
    model = linear(random_state=None).partial_fit(X[:2000], y[:2000])
    reticent.save_state(model.state(), tmp_path / "a")
    kept = model._stream._kept.to_dict(3)
    saved = reticent.load_state(tmp_path / "a")["stream"]["kept"]
    assert saved["source"] == kept["source"]
    assert np.array_equal(saved["rows"], X[:2000])


def test_fit_and_then_more() -> None:
    X, y = table()
    model = linear().fit(X, y)
    before = model._bounds
    model.partial_fit(X[:10], y[:10])
    assert model._bounds == before
    assert model.guarantee_.meets(Budget(1.0, 1e-6))


def test_logistic() -> None:
    X, y = table(12_000)
    model = OnlineLogisticRegression(
        epsilon=4.0, feature_norm="private", classes=[0, 1], random_state=0
    )
    assert model.fit(X, (y > 40).astype(int)).score(X, (y > 40).astype(int)) > 0.8


def test_refusals_spend_nothing() -> None:
    X, y = table(3000)
    with Ledger(Budget(1.0, 1e-6)) as ledger:
        for wrong, message in (
            ({"max_records": 3}, "persons"), ({"horizon": 500}, "more than half"),
            ({"feature_norm": "secret"}, "feature_norm"), ({"label_bounds": "found"}, "label_bounds"),
        ):  # fmt: skip
            with pytest.raises((ValueError, TypeError), match=message):
                linear(**wrong).partial_fit(
                    X, y, **({"person": np.arange(3000)} if "max_records" in wrong else {})
                )
        with pytest.raises(ValueError, match="fades"):
            linear(fade=[(100, 1.0)]).partial_fit(X, y)
    assert ledger.entries == ()
    # what comes after zeros may have any size
    with pytest.raises(NothingFound, match=r"no feature_norm .* only rows of zeros"):
        linear(label_bounds=(0, 80)).partial_fit(np.zeros((9000, 3)), np.tile(y, 3))
    with pytest.raises(NothingFound, match=r"no label_bounds .* no label but 0"):
        linear(feature_norm=90.0).partial_fit(np.tile(X, (3, 1)), np.zeros(9000))


def test_river() -> None:
    river = pytest.importorskip("reticent.estimators.river")
    rng = np.random.default_rng(0)
    made = {"features": ["age", "pay", "late"], "feature_norm": "private", "label_bounds": "private",
            "seed": 0}  # fmt: skip
    one, many = river.OnlineLinearRegression(**made), river.OnlineLinearRegression(**made)
    pandas = pytest.importorskip("pandas")
    records = []
    for t in range(12_000):
        x = {"age": rng.uniform(20, 60), "pay": rng.uniform(1e4, 9e4)}
        if t > 6000:
            x["late"] = rng.uniform(-4e4, 4e4)  # nobody knew of it when bounds were found
        records.append((x, 10.0 + 1e-3 * x["pay"] + 1e-3 * x.get("late", 0.0)))
    assert one.predict_one(records[0][0]) == 0.0
    for x, label in records:
        one.learn_one(x, label)
    frame = pandas.DataFrame([x for x, _ in records]).fillna(0.0)
    many.learn_many(frame, pandas.Series([label for _, label in records]))
    assert one.weights.keys() == {"age", "pay", "late"}
    assert all(math.isclose(one.weights[k], many.weights[k], rel_tol=1e-9) for k in one.weights)
    assert one.weights["late"] > 0.0
    x = {"age": 40.0, "pay": 5e4, "late": 0.0}
    assert abs(one.predict_one(x) - 60.0) < 25.0
    assert one.predict_one(x) == pytest.approx(many.predict_many(pandas.DataFrame([x]))[0])
    twin = river.OnlineLinearRegression.from_state(one.state())
    assert twin.predict_one(x) == one.predict_one(x)
    assert one.guarantee.meets(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="finite"):
        one.learn_one({"age": math.inf}, 1.0)


def test_a_search_that_found_nothing_is_not_repeated(monkeypatch):
    """Another search of the same records would be another release, with noise of its own."""
    river = pytest.importorskip("reticent.estimators.river", reason="River is not installed")
    searches = []

    def nothing(self, rows, labels, source):
        searches.append(len(rows))
        raise NothingFound("feature_norm")

    monkeypatch.setattr(First, "found", nothing)
    model = river.OnlineLogisticRegression(epsilon=1.0, feature_norm="private", features=["a", "b"])
    with pytest.raises(NothingFound):
        for _ in range(50_000):
            model.learn_one({"a": 0.5, "b": -0.5}, True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="count some twice"):
            model.learn_one({"a": 0.5, "b": -0.5}, True)
    assert len(searches) == 1


def test_threads_find_bounds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that several threads bring while bounds are due: one search, and every record is counted once."""
    calls: list[int] = []
    real = First.found

    def found(self, rows, labels, source):
        calls.append(len(rows))
        return real(self, rows, labels, source)

    monkeypatch.setattr(First, "found", found)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            calls.clear()
            stream = Stream(linear(epsilon=8.0)._plan_for(2))
            count = stream.plan.first.count

            def bring(seed: int, stream: Stream = stream, count: int = count) -> None:
                for row in np.random.default_rng(seed).uniform(0, 1, (count // 8 + 20, 2)):
                    stream.learn_one(row, float(row[0]))

            threads = [threading.Thread(target=bring, args=(seed,)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert calls == [count]
            assert stream.seen == 8 * (count // 8 + 20)
    finally:
        sys.setswitchinterval(before)
