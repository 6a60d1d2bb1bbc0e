"""Labels that are moved and scaled before a pure fit, by what is released about them."""

import math

import numpy as np
import pytest

import reticent
from reticent.estimators import PrivateLinearRegression
from reticent.estimators.label_scale import LabelScale, counts_of_distances, sum_of_clipped
from reticent.noise import Source
from reticent.privacy import Budget

WIDE = {"feature_norm": 1.0, "label_bounds": (-1000.0, 2000.0), "random_state": 0}


def _labels(count=20_000, middle=-0.33, spread=0.03, seed=0):
    """Most of them near a middle, a few far out."""
    rng = np.random.default_rng(seed)
    made = middle + spread * rng.standard_t(4, count) / math.sqrt(2.0)
    return np.clip(made, -1.0, 1.0)


def _table(count=15_000, columns=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (count, columns)) / math.sqrt(columns)
    z = X @ rng.standard_normal(columns)
    return X, 10.0 + 40.0 * (z / z.std() + rng.standard_normal(count))


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_a_record_is_counted_once_and_adds_one_number(neighbours, delta):
    """The largest change over all pairs of labels on a grid, in the norm that the noise is for."""
    made = LabelScale.of(Budget(1.0, delta, neighbours), 10_000, 5)
    order = 1 if delta == 0.0 else 2
    grid = np.linspace(-1.0, 1.0, 101)
    worst = [0.0, 0.0]
    for a in grid:
        one = np.array([a])
        here = counts_of_distances(one, 0.3, None), sum_of_clipped(one, 0.3, 0.2, None)
        assert here[0].sum() == 1.0
        for b in grid if neighbours == "replace" else (None,):
            other = (0.0 * here[0], 0.0 * here[1])
            if b is not None:
                two = np.array([b])
                other = counts_of_distances(two, 0.3, None), sum_of_clipped(two, 0.3, 0.2, None)
            for k in (0, 1):
                worst[k] = max(worst[k], np.linalg.norm(here[k] - other[k], order))
    for k, release in enumerate((made.distances, made.rest)):
        assert worst[k] <= release.moved
        assert worst[k] >= release.moved * (1.0 - 1e-6)


def test_null_records_and_persons_count_as_much_as_they_weigh():
    labels, weights = np.array([0.5, -0.2, 0.1]), np.array([0.5, 0.5, 0.0])
    assert counts_of_distances(labels, 0.0, weights).sum() == 1.0
    assert sum_of_clipped(labels, 0.0, 1.0, weights)[0] == pytest.approx(0.15)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_without_noise_it_is_the_mean_and_a_few_standard_deviations(delta):
    """Against the mean and the deviation of the labels themselves, found without counts."""
    labels = _labels()
    made = LabelScale.of(Budget(1e4, delta), len(labels), 8)
    middle, clip = made.found(labels, -0.3, 0.03, None, Source(0))
    assert middle == pytest.approx(labels.mean(), abs=0.002)
    assert 0.8 * made.times < clip / labels.std() < 1.2 * made.times


def test_noise_neither_widens_beyond_the_bounds_nor_hides_what_is_there():
    labels = _labels()
    made = LabelScale.of(Budget(0.1), len(labels), 8)
    found = np.array([made.found(labels, -0.3, 0.03, None, Source(seed)) for seed in range(200)])
    assert (found[:, 1] <= 1.0).all()
    assert (found[:, 1] >= 2.0**-6).all()
    assert np.mean(np.abs(found[:, 0] - labels.mean()) < 0.03) > 0.9
    ratio = found[:, 1] / labels.std()
    assert 1.0 < np.median(ratio) < 6.0
    assert np.mean(ratio > 0.7) > 0.95


def test_it_is_left_out_where_counts_are_noise():
    assert LabelScale.of(Budget(0.1), 300, 8) is None
    assert LabelScale.of(Budget(0.1), 10_000, 8) is not None


def test_one_guarantee_and_one_charge():
    X, y = _table()
    with reticent.Ledger(Budget(0.5)) as ledger:
        model = PrivateLinearRegression(0.5, 0.0, **WIDE).fit(X, y)
    names = [release.mechanism for release in model.guarantee_.releases]
    assert "counts of distances of labels" in names
    assert "sum of clipped labels" in names
    assert model.guarantee_.pure == pytest.approx(0.5, rel=1e-6)
    assert model.guarantee_.pure <= 0.5
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_wide_bounds_do_not_drown_a_line(epsilon):
    """Half of the variance is explained without privacy; before, noise was many times what there is to explain."""
    X, y = _table()
    scores = [
        PrivateLinearRegression(epsilon, 0.0, **{**WIDE, "random_state": seed}).fit(X, y).score(X, y)
        for seed in range(5)
    ]  # fmt: skip
    assert np.mean(scores) > (-0.1 if epsilon == 0.1 else 0.2)


def test_coefficients_are_in_units_of_labels():
    X, y = _table()
    model = PrivateLinearRegression(1e3, 0.0, **WIDE).fit(X, y)
    np.testing.assert_allclose(
        model.predict(X), np.clip(X @ model.coef_ + model.intercept_, -1000.0, 2000.0)
    )
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    assert model.intercept_ == pytest.approx(truth[-1], abs=2.0)
    assert np.corrcoef(model.coef_, truth[:-1])[0, 1] > 0.99


@pytest.mark.parametrize(
    "changes", [{"delta": 1e-6}, {"regularizer": 10.0}, {"scaling": "none"}, {"intervals": True}]
)
def test_others_keep_their_labels(changes):
    X, y = _table(2000, 3)
    given = {"epsilon": 1.0, "delta": 0.0, **WIDE, **changes}
    model = PrivateLinearRegression(**given).fit(X, y)
    names = [release.mechanism for release in model.guarantee_.releases]
    assert "counts of distances of labels" not in names


def test_persons_and_weights():
    X, y = _table(6000, 4)
    ids = np.arange(6000) // 2
    model = PrivateLinearRegression(1.0, 0.0, **WIDE).fit(X, y, groups=ids)
    assert model.guarantee_.unit == "person"
    assert "counts of distances of labels" in [r.mechanism for r in model.guarantee_.releases]
    weighed = PrivateLinearRegression(1.0, 0.0, **WIDE)
    weighed.fit(X, y, sample_weight=np.linspace(0.0, 1.0, 6000))
    assert weighed.guarantee_.pure <= 1.0


@pytest.mark.parametrize(
    ("count", "solver"), [(6_500, "objective-perturbation"), (8_000, "boosted-statistics")]
)
def test_rounds_are_for_tables_on_which_a_smaller_clip_can_be_found(count, solver):
    """mu = 0.0275 at epsilon = 0.1, and 196 / mu is about 7,100 records: between 139 and 277 over mu."""
    least = 2.0 * 4.0 * math.sqrt(6.0 / 0.02)
    few = count * Budget(0.1, 1e-6).mu < math.sqrt(2.0) * least
    assert few == (solver == "objective-perturbation")
    X, y = _table(count, 6)
    model = PrivateLinearRegression(0.1, 1e-6, **WIDE).fit(X, y)
    assert model.solver_ == solver
    names = [release.mechanism for release in model.guarantee_.releases]
    assert ("counts of distances of labels" in names) == (solver == "objective-perturbation")
    assert model.guarantee_.meets(Budget(0.1, 1e-6))


def test_few_records_are_not_far_below_their_mean():
    """With rounds the mean of these is -0.4 and less; the same records, half of whose variance is explained."""
    X, y = _table(3_000, 12)
    scores = {}
    for solver in ("auto", "boosted-statistics"):
        scores[solver] = np.mean([
            PrivateLinearRegression(
                0.1, 1e-6, solver=solver, **{**WIDE, "label_bounds": (-200.0, 200.0), "random_state": seed}
            ).fit(X, y).score(X, y)
            for seed in range(8)
        ])  # fmt: skip
    assert scores["auto"] > max(scores["boosted-statistics"], -0.1)
