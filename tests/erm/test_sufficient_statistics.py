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
