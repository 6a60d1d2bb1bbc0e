"""Least squares from noisy statistics: by hand, by Monte Carlo, and beside AdaSSP."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import erm, losses, sets
from reticent.erm.sufficient_statistics import best_ridge, joint_sensitivity
from reticent.noise import Source
from reticent.noise.release import noisy

from .reference import gaussian_epsilon, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Squared()


def test_against_plain_algebra():
    A, y = records(count=2000, regression=True)
    fit = erm.sufficient_statistics(LOSS, None, A, y, budget=BUDGET, regularizer=5.0, seed=2)
    release = fit.guarantee.releases[0]
    noise = noisy(np.zeros(14), release.sensitivity / release.curve.mu, Source(2))
    E = np.zeros((4, 4))
    E[np.triu_indices(4)] = noise[:10]
    E = (E + E.T) / math.sqrt(2)
    E[np.diag_indices(4)] = noise[:10][[0, 4, 7, 9]]
    weight = math.sqrt(2.0)  # for both statistics, without a bounded set
    want = np.linalg.solve(A.T @ A + weight * E + 5.0 * np.eye(4), A.T @ y + weight * noise[10:])
    np.testing.assert_allclose(fit.point, want, atol=1e-6)


def test_joint_sensitivity_by_search():
    # Random and optimised pairs of records never exceed it, and some come close.
    rng = np.random.default_rng(0)
    for F, Y, matrix, vector in ((1.0, 1.0, 1.0, 1.0), (2.0, 0.5, 1.0, 3.0), (1.0, 3.0, 2.0, 1.0)):
        bound = joint_sensitivity(F, Y, matrix, vector, replace=True)
        worst = 0.0
        for c in np.linspace(0, 1, 400):
            a, b = F * np.array([1.0, 0.0]), F * np.array([c, math.sqrt(1 - c * c)])
            for s, t in ((Y, -Y), (Y, Y), (Y, 0.0)):
                V = np.outer(a, a) - np.outer(b, b)
                worst = max(worst, np.hypot(np.linalg.norm(V) / matrix,
                                            np.linalg.norm(s * a - t * b) / vector))  # fmt: skip
        for _ in range(2000):
            a, b = rng.standard_normal((2, 3))
            a *= F * rng.random() ** 0.2 / np.linalg.norm(a)
            b *= F * rng.random() ** 0.2 / np.linalg.norm(b)
            s, t = rng.uniform(-Y, Y, 2)
            V = np.outer(a, a) - np.outer(b, b)
            worst = max(worst, np.hypot(np.linalg.norm(V) / matrix,
                                        np.linalg.norm(s * a - t * b) / vector))  # fmt: skip
        assert 0.999 * bound < worst <= bound * (1 + 1e-12)
        alone = joint_sensitivity(F, Y, matrix, vector, replace=False)
        assert alone == pytest.approx(math.hypot(F * F / matrix, F * Y / vector))


def test_guarantee_by_hand():
    A, y = records(count=2000, regression=True)
    for budget, square in ((BUDGET, 1.0), (BUDGET.with_(neighbours="replace"), 4.5 / 2)):
        fit = erm.sufficient_statistics(LOSS, None, A, y, budget=budget, seed=0)
        scale = float(fit.guarantee.releases[0].noise.split()[-1])
        assert gaussian_epsilon(1e-6, math.sqrt(square) / scale) == pytest.approx(1.0, abs=1e-4)
        assert fit.guarantee.meets(budget)


def test_the_estimate_of_the_risk_is_unbiased():
    # E[estimate] = E[risk of the fitted point under the true statistics], fixed ridge; 4 standard
    # errors of 4000 repeats, seed fixed.
    rng = np.random.default_rng(0)
    A, y = records(count=300, regression=True)
    V, u, sV, su, ridge = A.T @ A, A.T @ y, 6.0, 4.0, 60.0
    gaps = []
    for _ in range(4000):
        N = sV * rng.standard_normal((4, 4))
        Vn, un = V + (N + N.T) / 2, u + su * rng.standard_normal(4)
        M = np.linalg.inv(Vn + ridge * np.eye(4))
        x = M @ un
        estimate = 0.5 * x @ Vn @ x - un @ x
        estimate += 0.5 * sV**2 * (np.trace(M) * x @ x + x @ M @ x) + su**2 * np.trace(M)
        gaps.append(estimate - (0.5 * x @ V @ x - u @ x))
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / math.sqrt(4000)


def test_the_ridge_grows_with_the_noise():
    A, y = records(count=3000, regression=True)
    V, u = A.T @ A, A.T @ y
    ridges = [best_ridge(V, u, noise, noise, 0.0) for noise in (0.1, 10.0, 200.0)]
    assert ridges[0] < 1.0
    assert ridges[0] < ridges[1] < ridges[2]


def test_at_least_as_good_as_adassp():
    # mean excess over 12 seeds; far ahead of the printed noise, and not behind the exact one
    for count, dim in ((3000, 4), (4000, 25)):
        A, y = records(count=count, dim=dim, regression=True)
        for epsilon in (0.3, 1.0, 5.0):
            budget = reticent.Budget(epsilon, 1e-6)

            def excess(budget=budget, A=A, y=y, **arguments):
                return np.mean([
                    LOSS.mean_value(
                        erm.sufficient_statistics(LOSS, None, A, y, budget=budget, seed=seed,
                                                  **arguments).point, A, y)
                    for seed in range(12)
                ]) - LOSS.mean_value(np.linalg.lstsq(A, y)[0], A, y)  # fmt: skip

            ours = excess()
            assert ours <= 0.8 * excess(method="adassp", calibration="published")
            assert ours <= 1.02 * excess(method="adassp")


def test_adassp_as_printed():
    A, y = records(count=2000, regression=True)
    fit = erm.sufficient_statistics(LOSS, None, A, y, budget=BUDGET, method="adassp", seed=0,
                                    calibration="published")  # fmt: skip
    unit = 3 * math.sqrt(math.log(6e6))
    for release in fit.guarantee.releases:
        assert float(release.noise.split()[-1]) == pytest.approx(unit, rel=1e-4)
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(gaussian_epsilon(1e-6, math.sqrt(3) / unit),
                                                        abs=1e-4)  # fmt: skip
    assert fit.guarantee.meets(BUDGET)
    strict = erm.sufficient_statistics(LOSS, None, A, y, budget=BUDGET.with_(neighbours="replace"),
                                       method="adassp", calibration="published", seed=0)  # fmt: skip
    truth = gaussian_epsilon(1e-6, math.sqrt(1 + 2 + 4) / unit)
    assert strict.guarantee.epsilon(1e-6) == pytest.approx(truth, abs=1e-4)


def test_without_noise_it_is_least_squares():
    A, y = records(count=2000, regression=True)
    for budget in (reticent.Budget(1e6, 1e-6), reticent.Budget(1e7)):
        fit = erm.sufficient_statistics(LOSS, None, A, y, budget=budget, seed=0)
        np.testing.assert_allclose(fit.point, np.linalg.lstsq(A, y)[0], atol=1e-3)
    for where in (sets.L2Ball(4, 0.3), sets.L1Ball(4, 0.4)):
        best = losses.best_fixed(where, LOSS, A, y, gap=1e-9)
        fit = erm.sufficient_statistics(
            LOSS, where, A, y, budget=reticent.Budget(1e6, 1e-6), seed=0
        )
        assert where.contains(fit.point)
        assert LOSS.mean_value(fit.point, A, y) - best.lower_bound < 1e-5


def test_sparse_records():
    A, y = records(regression=True)
    A[np.abs(A) < 0.3] = 0.0
    dense, sparse = (
        erm.sufficient_statistics(LOSS, None, data, y, budget=BUDGET, seed=3).point
        for data in (A, sp.csr_array(A))
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": losses.Logistic()}, "must be -1 or 1"),
        ({"loss": losses.Huber()}, "needs losses.Squared"),
        ({"method": "ridge"}, "method must be one of"),
        ({"calibration": "published"}, "method='adassp'"),
        ({"method": "adassp", "regularizer": 1.0}, "chooses its ridge"),
        ({"method": "adassp", "budget": reticent.Budget(1.0)}, "needs delta > 0"),
        ({"regularizer": -1.0}, "regularizer must be"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = records(regression=True)
    arguments = {"loss": LOSS, "set": None, "X": A, "y": y, "budget": BUDGET, **changes}
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.sufficient_statistics(**arguments)
    assert ledger.entries == ()


# Boosted.


def test_boosted_equals_its_reference():
    """Written anew: one noisy matrix, rounds of clipped residuals, the mean of the last half.

    The clip comes from six sums of squares, clipped at 1, 1/2, ..., 1/32, before each of the first two rounds.
    """
    A, y = records(count=2000, regression=True)
    y = np.clip(0.6 * y, -1, 1)
    fit = erm.sufficient_statistics(
        LOSS, None, A, y, budget=BUDGET, method="boosted", rounds=4, regularizer=5.0, seed=2
    )
    matrix, size, pull = (r.sensitivity / r.curve.mu for r in fit.guarantee.releases)
    source = Source(2)
    times = max(2.0, math.sqrt(2 * math.log(2000 * BUDGET.mu / 2)) - 1)

    def clipped(x, most):
        ends = [2.0**-k for k in range(6)]
        sums = [np.minimum(((y - A @ x) / end) ** 2, 1.0).sum() for end in ends]
        seen = np.array(sums) + noisy(np.zeros(6), size, source)
        last = max([k for k in range(6) if seen[k] + 2 * size <= 2000 / times**2], default=0)
        return min(most, times * ends[last] * math.sqrt(max(seen[last], size) / 2000))

    clip = clipped(np.zeros(4), 1.0)
    E = np.zeros((4, 4))
    E[np.triu_indices(4)] = noisy(np.zeros(10), matrix, source)
    E = (E + E.T) / np.where(np.eye(4) > 0, 2.0, math.sqrt(2.0))
    values, vectors = np.linalg.eigh(A.T @ A + E)
    inverse = vectors @ np.diag(1 / np.maximum(values + 5.0, math.sqrt(8) * matrix)) @ vectors.T
    x, points = np.zeros(4), []
    for t in range(4):
        if t == 1:
            clip = clipped(x, clip)
        v = A.T @ np.clip(y - A @ x, -clip, clip) + clip * noisy(np.zeros(4), pull, source) * -1
        x = x + inverse @ v
        points.append(x)
    np.testing.assert_allclose(fit.point, np.mean(points[2:], axis=0), atol=1e-5)
    assert fit.trace.settings["regularizer"] == 5.0


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_boosted_spends_the_budget_and_sensitivities_are_met(neighbours):
    A, y = records(count=300, regression=True)
    budget = reticent.Budget(1.0, 1e-6, neighbours)
    fit = erm.sufficient_statistics(LOSS, None, A, y, budget=budget, method="boosted", seed=0)
    matrix, size, pull = fit.guarantee.releases
    mu = math.sqrt(matrix.curve.mu**2 + 2 * size.curve.mu**2 + 8 * pull.curve.mu**2)
    assert (size.count, pull.count) == (2, 8)
    assert gaussian_epsilon(1e-6, mu) == pytest.approx(1.0, rel=1e-6)
    # two records at random, at the bounds: none moves anything by more than was accounted for
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = rng.standard_normal((2, 4))
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        r, q = rng.choice([-1.0, 1.0], 2)
        if neighbours == "zero-out":
            b, q = 0.0 * b, 0.0
        assert np.linalg.norm(np.outer(a, a) - np.outer(b, b)) <= matrix.sensitivity
        assert np.linalg.norm(r * a - q * b) <= pull.sensitivity
    limits = (1.0, 1.0) if neighbours == "zero-out" else (math.sqrt(2), 2.0)
    assert (matrix.sensitivity, pull.sensitivity) == pytest.approx(limits, rel=1e-4)
    # six shares of 1 at most, all of them 1 for a residual at the bound and 0 for a blanked record
    assert size.sensitivity == pytest.approx(math.sqrt(6.0), rel=1e-4)


def test_boosted_without_noise_is_least_squares_and_weights_are_records():
    rng = np.random.default_rng(3)
    A = rng.uniform(-1, 1, (3000, 3)) / math.sqrt(3)
    y = np.clip(A @ [0.5, -0.4, 0.2] + rng.uniform(-0.2, 0.2, 3000), -1, 1)
    free = {"budget": reticent.Budget(1e7, 1e-6), "method": "boosted", "seed": 0}
    fit = erm.sufficient_statistics(LOSS, None, A, y, **free)
    np.testing.assert_allclose(fit.point, np.linalg.lstsq(A, y)[0], atol=1e-4)
    w = rng.random(3000)
    fit = erm.sufficient_statistics(LOSS, None, A, y, weights=w, **free)
    roots = np.sqrt(w)
    want = np.linalg.lstsq(A * roots[:, None], y * roots)[0]
    np.testing.assert_allclose(fit.point, want, atol=1e-4)
    sparse = erm.sufficient_statistics(LOSS, None, sp.csr_array(A), y, weights=w, **free)
    np.testing.assert_allclose(sparse.point, fit.point, atol=1e-6)


def test_boosted_is_better_than_one_release_where_residuals_are_small():
    """Means of 10 seeds; the difference is 20 standard errors."""
    rng = np.random.default_rng(4)
    A = rng.uniform(-1, 1, (4000, 8)) / math.sqrt(8)
    y = A @ rng.standard_normal(8) * 0.5 + 0.02 * rng.standard_normal(4000)
    errors = {}
    for method in ("joint", "boosted"):
        fits = [
            erm.sufficient_statistics(LOSS, None, A, y, budget=BUDGET, method=method, seed=seed)
            for seed in range(10)
        ]
        errors[method] = np.mean([np.mean((y - A @ fit.point) ** 2) for fit in fits])
    assert errors["boosted"] < 0.8 * errors["joint"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 1}, "rounds"),
        ({"set": sets.L2Ball(4)}, "needs set=None"),
        ({"loss": losses.Squared(ridge=0.1)}, "without a ridge"),
        ({"calibration": "published"}, "adassp"),
        (
            {"loss": losses.Squared(label_bounds=(-5e-324, 5e-324))},
            "label_bounds of size 4.94066e-324",
        ),
        (
            {"loss": losses.Squared(label_bounds=(-1e200, 1e200))},
            "label_bounds of size 1e[+]200; rescale labels",
        ),
    ],
)
def test_boosted_refuses_what_it_cannot_do(changes, message):
    A, y = records(count=50, regression=True)
    given = {"loss": LOSS, "set": None, "X": A, "y": y, "budget": BUDGET, "method": "boosted"}
    with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
        with pytest.raises(ValueError, match=message):
            erm.sufficient_statistics(**(given | changes))
        assert ledger.entries == ()


@pytest.mark.parametrize(
    ("norm", "bound"), [(1e-90, 1e140), (1e100, 1e-140), (1.0, 1e-140), (1e100, 1e140)]
)
def test_boosted_does_not_depend_on_units(norm, bound):
    A, y = records(count=200, regression=True)
    y = np.clip(y, -1, 1)
    common = {"budget": BUDGET, "method": "boosted", "seed": 0}
    plain = erm.sufficient_statistics(LOSS, None, A, y, **common)
    loss = losses.Squared(feature_norm=norm, label_bounds=(-bound, bound))
    scaled = erm.sufficient_statistics(loss, None, norm * A, bound * y, **common)
    np.testing.assert_allclose(scaled.point / bound * norm, plain.point, rtol=1e-6)
    assert 1.0 - 1e-7 < scaled.guarantee.epsilon(1e-6) <= 1.0
