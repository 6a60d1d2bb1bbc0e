"""Predictors turned into log-odds by counts of a model's own predictions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from reticent.estimators import PrivateLinearSVC, PrivateLogisticRegression
from reticent.estimators.counts import PredictorCounts, edges
from reticent.losses import CappedLogistic
from reticent.noise import Source
from reticent.privacy import Budget

WORDS = "counts of predictors by class"


def records(count=4000, columns=3, size=4.0, seed=0):
    """Rows within norm 1, and labels by a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, columns)) / math.sqrt(columns)
    z = size * X @ np.ones(columns)
    return X, (rng.random(count) < expit(z)).astype(int), z


def model(**changes):
    given = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1], "random_state": 0}
    return PrivateLogisticRegression(feature_norm=1.0, **(given | changes))


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_record_is_counted_once(neighbours, delta):
    made = PredictorCounts.of(Budget(1.0, delta, neighbours), 10**5, 4, True, "float")
    places = 1.0 if neighbours == "zero-out" else 2.0
    assert made.release.sensitivity == pytest.approx(places if delta == 0.0 else math.sqrt(places))
    z = np.array([-9.0, -0.2, 0.0, 0.2, 9.0, 1e300, np.nan])
    numbers = np.array([0, 1, 0, 1, 1, 0, 0])
    quiet = PredictorCounts.of(Budget(1e9, delta, neighbours), 7, 4, True, "float")
    seen = quiet.seen(z, numbers, 0.0, 1.0, None, Source(0))
    assert seen.shape == (2, 16)
    assert seen.sum(axis=1).round(2).tolist() == [4.0, 3.0]
    assert np.flatnonzero(seen[1].round(2)).tolist() == [6, 9, 15]  # -0.2, 0.2 and beyond the end
    few = PredictorCounts.of(Budget(1e9, delta, neighbours), 7, 4, False, "float")
    seen = few.seen(z, numbers, 0.0, 1.0, None, Source(0))
    assert seen.round(2).tolist() == [[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 1.0]]


def test_shares_are_chosen_by_public_numbers():
    """The noise of all counts together: small enough if a tenth of the budget can do that.

    A fiftieth of the records for 32 counts, where columns are centered and these tell something, an eighth for 8.
    """
    budget, found = Budget(1.0, 1e-6), []
    for centered in (True, False):
        for count in (100, 150, 300, 1000, 3000, 10_000, 10**6):
            made = PredictorCounts.of(budget, count, 5, centered, "float")
            for cells in (32.0, 8.0)[not centered :]:
                noise = {s: math.sqrt(cells / s) / budget.mu / count for s in (0.02, 0.05, 0.1)}
                enough = 0.02 if cells == 32.0 else 0.125
                if noise[0.1] <= 0.25:
                    share = next((s for s in noise if noise[s] <= enough), 0.1)
                    assert made.counts.classes == cells
                    assert made.release.curve.mu**2 == pytest.approx(share * budget.mu**2)
                    break
            else:
                assert made is None
            found.append(made and made.counts.classes)
    assert {None, 8, 32} == set(found)


@pytest.mark.parametrize(("true", "level"), [(0.3, 0.0), (1.0, -2.0), (2.5, 1.0)])
def test_the_line_is_that_of_a_logistic_regression(true, level):
    """With next to no noise and many records, but for the width of the intervals; another library is the judge."""
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 1.0, 200_000)
    y = (rng.random(len(z)) < expit(level + true * z)).astype(int)
    made = PredictorCounts.of(Budget(1e3, 1e-6), len(z), 4, True, "float")
    seen = made.seen(z + 0.7, y, 0.7, 4.0, None, Source(0))
    judge = LogisticRegression(C=1e6).fit(z[:, None], y)
    for usual in (0.5, 1.0):
        for guess in (level, level + 0.5):
            found = made.line(seen, guess, 4.0, usual, y.mean(), 1e-3)
            assert found[0] == pytest.approx(judge.intercept_[0], abs=0.15)
            assert found[1] == pytest.approx(judge.coef_[0, 0], rel=0.07)


@pytest.mark.parametrize("noise", [0.0, 25.0])
def test_few_counts_tell_slopes_apart(noise):
    """430 records with a middle that is off, predictors that are ten times too small, or pure chance."""
    found = {}
    for true in (0.0, 10.0):
        slopes = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            z = rng.normal(0.0, 0.4, 430)
            y = (rng.random(430) < expit(0.8 + true * z)).astype(int)
            made = PredictorCounts.of(Budget(0.5, 1e-6), 430, 30, False, "float")
            counts = replace(made.counts, scale=max(noise, 1e-6))
            made = replace(made, counts=counts)
            seen = made.seen(z + 0.3, y, 0.2, 5.0, None, Source(seed))
            slopes.append(made.line(seen, 0.5, 5.0, 1.0, y.mean(), 0.04)[1])
        found[true] = float(np.median(slopes))
    assert found[10.0] > (5.0 if noise == 0.0 else 2.5)
    assert found[0.0] < (0.4 if noise == 0.0 else 1.0)


def test_noise_alone_leaves_the_slope():
    """Where counts tell nothing the slope is what it was, within the doubt there is: 10 records and noise of 50."""
    made = replace(PredictorCounts.of(Budget(1.0, 1e-6), 1500, 4, True, "float"), count=10)
    found = []
    for seed in range(50):
        noise = made.counts.deviation * np.random.default_rng(seed).standard_normal((2, 16))
        found.append(made.line(noise, 0.0, 2.0, 0.7, 0.5, 0.1)[1])
    assert 0.35 < np.median(found) < 1.4


def test_a_fit_has_them_in_its_one_guarantee():
    X, y, _ = records()
    fitted = model().fit(X, y)
    names = [release.mechanism for release in fitted.guarantee_.releases]
    assert names.count(WORDS) == 1
    assert fitted.guarantee_.epsilon(1e-6) <= 1.0
    assert fitted.guarantee_.epsilon(1e-6) > 0.98
    assert fitted.calibration_.startswith("predictors times")
    pure = model(delta=0.0).fit(X, y)
    assert WORDS in [release.mechanism for release in pure.guarantee_.releases]
    assert pure.guarantee_.pure <= 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {"scaling": "none"}, {"regularizer": 3.0}, {"intervals": True}, {"class_weight": {0: 0.5}},
        {"class_weight": "balanced"}, {"fit_intercept": False}, {"solver": "gradient-descent"},
        {"epsilon": 0.02},
    ],
)  # fmt: skip
def test_others_keep_their_link(changes):
    X, y, _ = records(1000)
    fitted = model(**changes).fit(X, y)
    assert WORDS not in [release.mechanism for release in fitted.guarantee_.releases]
    assert fitted.calibration_ == "none"
    weighted = model().fit(X, y, sample_weight=np.full(len(y), 0.5))
    assert weighted.calibration_ == "none"


def test_probabilities_are_those_of_log_odds():
    X, y, _ = records()
    fitted = model().fit(X, y)
    np.testing.assert_allclose(
        logit(fitted.predict_proba(X)[:, 1]), fitted.decision_function(X), atol=1e-9
    )
    assert fitted.influence == 0.5


def test_the_middle_keeps_its_probability(monkeypatch):
    """Scaled about the prediction for a record with mean features, whose odds the capped loss has right."""
    X, y, _ = records(8000, size=6.0)
    y = (y * (np.random.default_rng(5).random(len(y)) < 0.25)).astype(int)  # odds of 1 to 7
    kept = {}

    def usual(self, seen, level, reach, usual, rate, doubt):
        kept["slope"] = usual
        return level, usual * kept["times"]

    monkeypatch.setattr(PredictorCounts, "line", usual)
    levels = []
    for kept["times"] in (0.5, 1.0, 2.0):
        fitted = model(random_state=3).fit(X, y)
        levels.append(fitted.decision_function(fitted._units.center[None])[0])
    assert np.ptp(levels) < 1e-6
    assert levels[0] == pytest.approx(logit(y.mean()), abs=0.5)
    assert 0.5 <= kept["slope"] <= 1.0
    # the link of the capped loss, written anew: half the slope at the border, the whole slope far from it
    loss = CappedLogistic(0.5)
    assert logit(loss.probability(np.array([1e-6])))[0] == pytest.approx(0.5e-6, rel=1e-3)
    assert fitted._odds(-12.0)[1] == pytest.approx(1.0)


def test_a_rare_class_keeps_its_link():
    """Counted, since that was decided before, and not used."""
    X, y, _ = records(20_000)
    y = (y * (np.random.default_rng(5).random(len(y)) < 0.001)).astype(int)
    fitted = model().fit(X, y)
    assert WORDS in [release.mechanism for release in fitted.guarantee_.releases]
    assert (fitted.calibration_, fitted.influence_) == ("none", 0.5)


def test_a_shrunken_fit_is_scaled_up_and_loses_less():
    """Labels that are easy to tell, few records: the ridge makes predictors too small. Means of 8 seeds."""
    losses = {"auto": [], "none": []}
    for seed in range(8):
        X, y, _ = records(1500, 8, 40.0, seed)
        for scaling, kept in losses.items():
            fitted = model(random_state=seed, scaling=scaling).fit(X, y)
            sure = np.clip(fitted.predict_proba(X)[:, 1], 1e-9, 1 - 1e-9)
            kept.append(-np.mean(np.where(y == 1, np.log(sure), np.log1p(-sure))))
    assert np.mean(losses["auto"]) < 0.9 * np.mean(losses["none"])


def test_columns_that_are_not_centered_are_scaled_up_too():
    """Labels that are easy to tell, too few records to center 30 columns: means of 8 seeds, unseen records."""
    losses = {"auto": [], "none": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        size = rng.normal(0.0, 0.2, 900)  # of what all columns measure, as those of a tumour
        X = np.clip(size[:, None] + rng.normal(-0.4, 0.1, (900, 30)), -1.0, 1.0) / math.sqrt(30.0)
        y = (size + rng.normal(0.0, 0.05, 900) < 0.05).astype(int)
        for scaling, kept in losses.items():
            fitted = model(epsilon=0.5, random_state=seed, scaling=scaling).fit(X[:450], y[:450])
            sure = np.clip(fitted.predict_proba(X[450:])[:, 1], 1e-9, 1 - 1e-9)
            kept.append(-np.mean(np.where(y[450:] == 1, np.log(sure), np.log1p(-sure))))
            names = [release.mechanism for release in fitted.guarantee_.releases]
            assert (WORDS in names) == (scaling == "auto")
            assert "sums of features and of their squares" not in names
            assert fitted.guarantee_.epsilon(1e-6) <= 0.5
    assert np.mean(losses["auto"]) < 0.8 * np.mean(losses["none"])


def test_persons_are_counted_as_one():
    X, y, _ = records(4000)
    persons = np.repeat(np.arange(2000), 2)
    fitted = model().fit(X, y, groups=persons)
    assert fitted.calibration_ != "none"
    assert fitted.guarantee_.epsilon(1e-6) <= 1.0
    # counts of parts of persons add up to nothing that is known
    assert model(max_records=1).fit(X, y, groups=persons).calibration_ == "none"


def test_several_classes_and_margins_have_none():
    X, y, _ = records()
    three = model(classes=[0, 1, 2]).fit(X, y + (X[:, 0] > 0.4))
    assert three.calibration_ == "none"
    svc = PrivateLinearSVC(1.0, feature_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    assert WORDS not in [release.mechanism for release in svc.guarantee_.releases]


@pytest.mark.parametrize("reach", [1e-9, 0.3, 3.999, 4.01, 30.0, 1e6])
def test_intervals(reach):
    """Symmetric, growing outwards, about a half wide in the middle at most, and as far as asked for."""
    ends = edges(reach)
    widths = np.diff(ends)
    np.testing.assert_allclose(ends, -ends[::-1], rtol=1e-9, atol=1e-12 * reach)
    assert ends[-1] == pytest.approx(reach)
    assert len(widths) == 16
    assert widths.min() > 0.0
    assert widths[8] < (0.6 if reach < 100.0 else 1.0)
    assert (np.diff(widths[8:]) >= -1e-12 * reach).all()
