"""Private bounds: counts recomputed by hand, extremes of magnitude, one guarantee and one charge with the fit.

The statistical assertions fail by chance with probability below 1e-6: thresholds are 1e-6 and 1e-3 per search by
design, and the tests ask for far less than what typical noise leaves.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

import reticent
from reticent.erm.problem import Groups
from reticent.estimators import (
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
    parameters,
)
from reticent.estimators import bounds as module
from reticent.estimators.bounds import BoundsSearch
from reticent.estimators.counts import ClassCounts, counted
from reticent.noise import Source
from reticent.privacy import (
    Budget,
    BudgetExceeded,
    DefaultBoundWarning,
    Gaussian,
    Guarantee,
    Ledger,
    ObjectivePerturbation,
    compose,
)

BUDGETS = [
    Budget(1.0, 1e-6), Budget(1.0, 1e-6, "replace"), Budget(1.0), Budget(1.0, 0.0, "replace")
]  # fmt: skip


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_counts_move_by_what_is_stated(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    """All counts of a search, before noise, for a table and each of many neighbours."""
    rng = np.random.default_rng(0)
    search = BoundsSearch.of(budget, 10**6, 3, rows=False)
    seen: list[np.ndarray] = []

    def honest(self: BoundsSearch, counts: np.ndarray, scale: float, source: Source) -> np.ndarray:
        seen.append(counts.copy())
        return 1e9 * (counts > 0)  # the same intervals in both worlds: each stage given the last

    monkeypatch.setattr(BoundsSearch, "_noisy", honest)
    X = rng.standard_normal((40, 3)) * 10.0 ** rng.integers(-3, 4, (40, 3))
    worst = 0.0
    for place in range(40):
        present = np.ones(40)
        other = X.copy()
        if budget.neighbours == "replace":
            other[place] = -X[(place + 7) % 40]
        else:
            present[place] = 0.0
        stages = []
        for table, mask in ((X, None), (other, present)):
            seen.clear()
            search.intervals(table, mask, Source(0))
            stages.append(seen[0])
        difference = stages[0] - stages[1]
        size = np.linalg.norm(difference) if budget.delta else np.abs(difference).sum()
        assert size <= search._moved * (1 + 1e-12)
        worst = max(worst, size)
    assert worst == pytest.approx(search._moved)  # and the bound is reached


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_what_a_search_costs(budget: Budget) -> None:
    """From the printed scales and plain sensitivities, without the library's composition."""
    search = BoundsSearch.of(budget, 10**6, 5, rows=True)
    total = 0.0
    for release in search.releases:
        scale = float(release.noise.split()[-1])
        columns = 5 if "column" in release.mechanism else 1
        places = columns * (1 if budget.neighbours == "zero-out" else 2)
        if budget.delta:
            total += release.count * places / scale**2
        else:
            total += release.count * places / scale
    level = math.sqrt(total) if budget.delta else total
    whole = Guarantee.of(budget, search.releases)
    claimed = whole.gdp if budget.delta else whole.pure
    assert level <= claimed * (1 + 1e-5)  # the printed scale has six digits
    assert level == pytest.approx(claimed, rel=1e-3)  # the lattice of many counts
    share = (claimed / budget.mu) ** 2 if budget.delta else claimed / budget.epsilon
    assert share <= 0.1 * (1 + 1e-9)


def found(values: np.ndarray, epsilon: float = 8.0) -> tuple[float, float]:
    search = BoundsSearch.of(Budget(epsilon, 1e-6), len(values), 1)
    columns = search.intervals(np.asarray(values, float)[:, None], None, Source(1))
    return float(columns.low[0]), float(columns.high[0])


@pytest.mark.parametrize("size", [1e-300, 5e-324, 1e-5, 1.0, 1e9, 1e300, 1.797e308])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_any_magnitude(size: float, sign: float) -> None:
    share = np.random.default_rng(0).uniform(0.5, 1.0, 20_000)
    values = sign * size * share
    low, high = found(values)
    assert np.isfinite([low, high]).all()
    inside = np.mean((values >= low) & (values <= high))
    assert inside > 0.97
    assert max(abs(low), abs(high)) <= 2.0 * size * (1 + 1e-12) or size > 1e307


def test_hard_columns() -> None:
    rng = np.random.default_rng(0)
    n = 50_000
    low, high = found(np.full(n, 7.0))
    assert low <= 7.0 <= high
    assert high - low < 0.1
    assert found(np.zeros(n)) == (0.0, 0.0)
    low, high = found(rng.standard_cauchy(n))  # heavy tails: neither useless nor infinite
    assert 10.0 < high < 1e5
    assert -1e5 < low < -10.0
    low, high = found(rng.uniform(1930, 2010, n))  # far from 0
    assert 1915 < low < 1945
    assert 1995 < high < 2025
    low, high = found(np.where(np.arange(n) < 5, 1e300, rng.uniform(0, 1, n)))  # a few outliers
    assert high < 1.2
    low, high = found(np.concatenate([np.full(n, -1.797e308), np.full(n, 1.797e308)]))
    assert low < -1e308
    assert high > 1e308


def test_few_records_are_refused_before_anything_is_spent() -> None:
    with pytest.raises(ValueError, match=r"or 'private' to find them .*; got 'found'"):
        PrivateScaler("found").fit(np.zeros((9, 2)))
    X, y = np.zeros((40, 3)), np.zeros(40)
    with Ledger(Budget(1.0, 1e-6)) as ledger, pytest.raises(ValueError, match="too few"):
        PrivateLinearRegression(label_bounds="private", feature_norm=1.0).fit(X, y)
    assert ledger.entries == ()


def table(rows: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal([1e6, 3.0, -1e-4], [1e5, 1.0, 1e-5], (rows, 3))
    y = 40.0 + 2e-4 * (X[:, 0] - 1e6) - 5.0 * (X[:, 1] - 3.0) + rng.normal(0, 2.0, rows)
    return X, y


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_everything_private(neighbours: str, delta: float) -> None:
    X, y = table()
    budget = Budget(2.0, delta, neighbours)
    model = PrivateLinearRegression(
        2.0, delta, neighbours=neighbours, feature_norm="private", label_bounds="private",
        random_state=0,
    )  # fmt: skip
    with Ledger(budget) as ledger:
        model.fit(X, y)
    assert len(ledger.entries) == 1
    assert model.guarantee_.meets(budget)
    assert model.guarantee_.epsilon(delta) > 0.99 * 2.0  # nothing is thrown away
    assert ledger.entries[0].guarantee.epsilon(delta) == model.guarantee_.epsilon(delta)
    if delta:
        squares = [(r.sensitivity / float(r.noise.split()[-1])) ** 2 * r.count
                   for r in model.guarantee_.releases]  # fmt: skip
        assert math.sqrt(sum(squares)) == pytest.approx(model.guarantee_.gdp, rel=1e-4)
        assert model.score(X, y) > 0.85
    # coefficients speak of the features as they came
    inside = X[np.abs(X[:, 1] - 3.0) < 0.1]
    by_hand = np.clip(inside @ model.coef_ + model.intercept_, *model._bounds)
    assert np.allclose(np.median(by_hand - model.predict(inside)), 0.0, atol=0.5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_classifiers(make: type, delta: float, sparse: bool) -> None:
    X, y = table()
    X, labels = X - [1e6, 3.0, -1e-4], y > 40.0
    rows = sp.csr_array(X) if sparse else X
    model = make(1.0, delta, feature_norm="private", classes=[False, True],
                 class_weight="balanced", random_state=0)  # fmt: skip
    with Ledger(Budget(1.0, delta)) as ledger:
        model.fit(rows, labels)
    assert len(ledger.entries) == 1
    assert model.guarantee_.meets(Budget(1.0, delta))
    assert model.score(rows, labels) > 0.85


def test_lasso() -> None:
    X, y = table()
    model = PrivateLasso(4.0, feature_norm="private", label_bounds="private", radius=4.0,
                         random_state=0).fit(X, y)  # fmt: skip
    assert model.guarantee_.meets(Budget(4.0, 1e-6))
    assert model.score(X, y) > 0.5


def test_nothing_is_drawn_that_is_not_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(5000)

    def never(*args: object) -> None:
        raise AssertionError("a histogram was made")

    monkeypatch.setattr(BoundsSearch, "_noisy", never)
    model = PrivateLinearRegression(1.0, feature_norm="private", label_bounds="private")
    with Ledger(Budget(0.5, 1e-6)) as ledger, pytest.raises(BudgetExceeded):
        model.fit(X, y)
    assert ledger.entries == ()
    assert not hasattr(model, "coef_")


def test_scaler() -> None:
    X, _ = table()
    X = np.column_stack([X, np.zeros(len(X)), np.full(len(X), 1e200)])
    for budget in BUDGETS:
        scaler = PrivateScaler("private", epsilon=1.0, delta=budget.delta,
                               neighbours=budget.neighbours, random_state=0)  # fmt: skip
        with Ledger(budget) as ledger:
            Z = scaler.fit_transform(X)
        assert len(ledger.entries) == 1
        assert scaler.guarantee_.meets(budget)
        assert np.isfinite(Z).all()
        assert np.abs(Z[:, :3].mean(axis=0)).max() < 0.5
        assert not Z[:, 3].any()


def test_a_default_warns_once_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "_said", set())
    X, y = np.zeros((50, 2)), np.zeros(50)
    with pytest.warns(DefaultBoundWarning) as caught:
        PrivateLinearRegression().fit(X, y)
    messages = [str(item.message) for item in caught]
    assert len(messages) == 2
    assert {item.filename for item in caught} == {__file__}  # it shows the user's line
    assert any("feature_norm='private'" in text for text in messages)
    assert any("label_bounds='private'" in text for text in messages)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DefaultBoundWarning)
        PrivateLinearRegression().fit(1e9 * (X + 1), y + 7.0)
        monkeypatch.setattr(parameters, "_said", set())
        PrivateLinearRegression(feature_norm=float("1"), label_bounds=tuple([-1, 1])).fit(X, y)


def test_balanced_counts() -> None:
    numbers = np.repeat([0, 1, 2], [10_000, 2_000, 500])
    counts = ClassCounts.of(Budget(1.0, 1e-6), 3, "lattice")
    weights = counts.factors(counts.seen(numbers, None, Source(0)))
    assert weights.max() == 1.0
    assert np.allclose(weights, [0.05, 0.25, 1.0], rtol=0.5)
    present = counted(numbers != 2, None)  # a null record is counted nowhere
    assert counts.factors(counts.seen(numbers, present, Source(0)))[2] == 1.0
    for budget, moved in zip(BUDGETS, (1.0, math.sqrt(2.0), 1.0, 2.0), strict=True):
        assert ClassCounts.of(budget, 3, "float").moved == pytest.approx(moved)


def test_a_fit_and_a_gaussian_release_compose_by_densities() -> None:
    """Exact one-dimensional objective perturbation times a Gaussian release, integrated numerically."""
    sigma, ridge, mu = 2.5, 1.5, 0.3
    x = np.linspace(-12, 12, 4001)
    slope, bend = -1 / (1 + np.exp(x)), 1 / (2 + 2 * np.cosh(x))  # one logistic record, feature 1
    without = norm.pdf(-ridge * x, scale=sigma) * ridge
    with_it = norm.pdf(-(slope + ridge * x), scale=sigma) * (bend + ridge)
    g = np.linspace(-9, 9, 1801)
    here, there = norm.pdf(g), norm.pdf(g - mu)
    cell = (x[1] - x[0]) * (g[1] - g[0])
    fit = ObjectivePerturbation(1.0 / sigma, math.log1p(0.25 / ridge), one_sided=True)
    curve = compose([fit, Gaussian(mu)])
    for epsilon in (0.5, 1.0, 2.0):
        exact = max(
            cell * np.maximum(np.outer(p, a) - math.exp(epsilon) * np.outer(q, b), 0.0).sum()
            for p, q in ((with_it, without), (without, with_it))
            for a, b in ((here, there), (there, here))
        )
        assert exact <= curve.delta(epsilon) * (1 + 1e-6)
        shift, together = curve._shifted
        bound = math.exp(shift) * reticent.privacy.gaussian.delta(epsilon - shift, together)
        assert curve.delta(epsilon) <= bound * (1 + 1e-9)
    assert math.isclose(together, math.hypot(1.0 / sigma, mu))


def test_pieces_cover_an_interval() -> None:
    values = np.array([0.0, 0.999, 1.0, -5.0, 7.0])
    assert module._piece(values, 0.0, 1.0).tolist() == [0, 15, 15, 0, 15]
    for value in (5e-324, 1e-310, 1.0, 1.5, 2.0, 1.797e308):
        for sign in (1.0, -1.0):
            place = int(module.power(np.array([sign * value]))[0])
            low, high = module._edges(place)
            assert low <= sign * value <= high


def test_a_person_counts_once() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 6000, 20_000)
    for most in (None, 2):
        groups = Groups.of(ids, len(ids), most)
        weights = counted(None, groups)
        totals = np.bincount(ids, weights)
        assert totals.max() <= 1.0
        assert np.array_equal(weights * 2.0**20, np.floor(weights * 2.0**20))
    X, y = table()
    budget = Budget(1.0, 1e-6)
    model = PrivateLinearRegression(feature_norm="private", label_bounds="private", random_state=0)
    with Ledger(budget, unit="person") as ledger:
        model.fit(X, y, groups=ids)
    assert len(ledger.entries) == 1
    assert model.guarantee_.unit == "person"
    assert model.guarantee_.meets(budget)
    classifier = PrivateLogisticRegression(feature_norm="private", class_weight="balanced",
                                           classes=[False, True], random_state=0)  # fmt: skip
    assert classifier.fit(X, y > 40, groups=ids).guarantee_.meets(budget)


@pytest.mark.parametrize("labels", ["noise", "a few far away", "linear"])
def test_never_much_worse_than_the_private_mean(labels: str) -> None:
    """With everything private, R squared is at most .02 below that of a private mean; at fixed seeds."""
    rng = np.random.default_rng(0)
    n = 4000
    X = rng.normal(1e3, 10.0, (n, 8)) * np.geomspace(1e-3, 1e3, 8)
    y = rng.normal(5.0, 1.0, n)
    if labels == "a few far away":
        y[:20] = 1e4
    if labels == "linear":
        y = y + 0.3 * (X[:, 0] - 1.0)
    private = PrivateLinearRegression(
        feature_norm="private", label_bounds="private", random_state=0
    ).fit(X, y)
    nothing = np.zeros((n, 1))
    mean = PrivateLinearRegression(feature_norm=1.0, label_bounds="private", random_state=1)
    assert private.score(X, y) >= mean.fit(nothing, y).score(nothing, y) - 0.02


LABELS = {
    "5": (np.full(8000, 5.0), 5.0, "as narrow as a search resolves"),
    "about 5": (5.0 + np.linspace(-1e-15, 1e-15, 8000), 5.0, "as narrow as a search resolves"),
    "-1e300": (np.full(8000, -1e300), -1e300, "as narrow as a search resolves"),
    "mostly 5": (np.r_[np.full(7992, 5.0), np.full(8, 1e6)], 5.0, "as narrow as a search resolves"),
    "0": (np.zeros(8000), 0.0, "no label but 0 stood out"),
    "mostly 0": (np.r_[np.zeros(7992), np.full(8, 1e6)], 0.0, "no label but 0 stood out"),
    "least": (np.full(8000, 5e-324), 5e-324, "no label but 4.94066e-324 stood out"),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("make", [PrivateLinearRegression, PrivateLasso])
def test_flat_labels(make: type, name: str) -> None:
    """Predictions are right to the precision of a search, and the fit says that they can hardly differ."""
    labels, value, words = LABELS[name]
    X = np.random.default_rng(0).uniform(-1, 1, (8000, 2))
    model = make(feature_norm="private", label_bounds="private", random_state=0)
    with Ledger(Budget(1.0, 1e-6)) as ledger, pytest.warns(UserWarning, match=words):
        model.fit(X, labels)
    assert len(ledger.entries) == 1
    assert np.allclose(model.predict(X), value, rtol=1.0 / 128.0, atol=0.0)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("width", [1e-300, 1e300, 1.7e308])
def test_labels_of_any_width(width: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8000, 2))
    labels = width * (0.9 * X[:, 0] + 0.1 * rng.uniform(-1, 1, 8000))
    model = PrivateLinearRegression(feature_norm=2.0, label_bounds="private", random_state=0)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = model.fit(X, labels).predict(X) / width
    assert np.corrcoef(found, labels / width)[0, 1] > 0.95


def test_flat_labels_have_no_intervals() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (50_000, 2))
    model = PrivateLinearRegression(
        feature_norm=2.0, label_bounds="private", intervals=True, random_state=0
    )
    with pytest.warns(UserWarning, match="no label but 0"):
        model.fit(X, np.zeros(50_000))
    with pytest.raises(reticent.estimators.NoIntervals, match="no label but 0"):
        model.summary()


def test_a_search_over_flat_labels() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    model = PrivateLinearRegression(feature_norm=2.0, label_bounds="private")
    grid = {"regularizer": [1.0, 10.0]}
    search = reticent.PrivateSearchCV(model, grid, verbose=0, random_state=0).fit(
        X, np.zeros(20_000)
    )
    assert np.array_equal(search.predict(X), np.zeros(20_000))
    assert search.best_score_ == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("make", [PrivateLinearRegression, PrivateLogisticRegression])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [0.0, 5e-324, 5.0])
def test_constant_columns(make: type, value: float, sparse: bool) -> None:
    """One that is 0 has the coefficient 0; any other does no harm; and a table of nothing else is its intercept."""
    z = np.random.default_rng(0).uniform(-1, 1, 8000)
    labels = (z > 0).astype(int) if make is PrivateLogisticRegression else z
    more = {"classes": [0, 1]} if make is PrivateLogisticRegression else {"label_bounds": (-1, 1)}
    model = make(feature_norm="private", random_state=0, **more)
    wrap = sp.csr_array if sparse else np.asarray
    X = wrap(np.column_stack([np.full(8000, value), z]))
    assert model.fit(X, labels).score(X, labels) > 0.9
    if value == 0.0:
        assert np.ravel(model.coef_)[0] == 0.0
    X = wrap(np.full((8000, 2), value))
    found = model.fit(X, labels).predict(X)
    assert len(np.unique(found)) == 1
    assert make is PrivateLogisticRegression or abs(found[0]) < 0.1


_LEAST = 5e-324
_SMALLEST = {
    "0 and 2": np.array([0.0, 2.0]),
    "3 and 4": np.array([3.0, 4.0]),
    "0 to 8": np.arange(9.0),
    "about 1e-310": np.linspace(0.0, 1e-310 / _LEAST, 11),
}


@pytest.mark.parametrize("name", _SMALLEST)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_least_doubles_leave_no_trace(name: str, delta: float) -> None:
    """Half of such an interval is 0, and whether a fit failed of dividing by it was for one record to say."""
    X = _LEAST * np.random.default_rng(0).choice(_SMALLEST[name], (4000, 2))
    known: dict[str, Any] = {"epsilon": 8.0, "delta": delta, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        models = [
            PrivateLogisticRegression(feature_norm="private", classes=[0, 1], **known).fit(
                X, np.arange(4000) % 2
            ),
            *(
                make(feature_norm="private", label_bounds="private", **known).fit(X, X[:, 0])
                for make in (PrivateLinearRegression, PrivateLasso)
            ),
        ]
        for model in models:
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict(X).astype(float)).all()
        scaler = PrivateScaler("private", **known).fit(X)
    assert np.isfinite(scaler.transform(X)).all()
