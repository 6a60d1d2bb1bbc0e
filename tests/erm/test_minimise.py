"""The minimiser within its stated distance of the optimum, whatever the records: kinks, equal rows, many columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq, minimize

import reticent
from reticent import erm, losses, sets
from reticent.erm.minimise import minimise
from reticent.erm.perturbation import PublicNumbers, apart
from reticent.erm.problem import OfflineProblem
from reticent.erm.reading import read
from reticent.losses import kernels

from .reference import records

PURE = reticent.Budget(1.0)
GAUSSIAN = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


@pytest.mark.parametrize(
    "where", [sets.Box(-0.4 * np.ones(4), 0.3 * np.ones(4)), sets.L1Ball(4, 0.7), sets.Simplex(4)]
)
def test_the_minimiser_is_where_its_certificate_says(where):
    A, y = records()
    problem = read(losses.Logistic(), where, A, y, PURE, noise_precision="lattice")
    b = np.array([3.0, -20.0, 1.0, 0.0])
    found = minimise(problem, b, 2.0, 1e-8)
    tight = minimise(problem, b, 2.0, 1e-10)
    assert np.linalg.norm(found.point - tight.point) <= found.distance + tight.distance

    def value(x):
        return np.logaddexp(0, -y * (A @ x)).sum() + x @ x + b @ x

    rng = np.random.default_rng(0)
    for _ in range(200):
        other = where.sample(rng)
        assert value(tight.point) <= value(other) + 1e-9


def test_many_columns_and_sparse_records():
    rng = np.random.default_rng(0)
    A = sp.random_array((60, 4000), density=0.01, rng=rng, format="csr")
    A = A / np.maximum(1.0, sp.linalg.norm(A, axis=1).max())
    y = rng.choice([-1.0, 1.0], 60)
    b, dense = rng.standard_normal(4000), A.toarray()
    shift = brentq(lambda s: np.linalg.norm(_wide(dense, y, 3.0 + s, b)) - 0.5, 0, 1e4)
    for where, more in ((sets.WholeSpace(4000), 0.0), (sets.L2Ball(4000, 0.5), shift)):
        problem = read(LOSS, where, A, y, PURE, noise_precision="lattice")
        found = minimise(problem, b, 3.0, 1e-8)
        np.testing.assert_allclose(found.point, _wide(dense, y, 3.0 + more, b), atol=1e-7)


def _wide(A, y, ridge, b):
    def value(x):
        z = y * (A @ x)
        g = A.T @ (-y / (1 + np.exp(z))) + ridge * x + b
        return np.logaddexp(0, -z).sum() + 0.5 * ridge * x @ x + b @ x, g

    return minimize(value, -b / ridge, jac=True, method="L-BFGS-B",
                    options={"ftol": 0, "gtol": 1e-11, "maxiter": 5000}).x  # fmt: skip


@pytest.mark.parametrize("seed", range(12, 30))
def test_kinks_do_not_stop_the_minimiser(seed):
    # Whether a run ends with a certificate must not depend on the records: of these, a fifth once
    # went back and forth over the kinks of the loss, too little a gain at a time to be noticed.
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2000, 5))
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = rng.choice([-1.0, 1.0], 2000)
    problem = read(losses.Huber(1e-3), None, A, y, GAUSSIAN, noise_precision="lattice")
    ridge, scale = 2000 / 2.0**18, 0.1 * problem.norm
    b = scale * rng.standard_normal(5)
    tolerance, _ = apart(PublicNumbers.of(problem), scale, ridge)
    found = minimise(problem, b, ridge, tolerance)
    slopes = np.clip(A @ found.point - y, -1e-3, 1e-3)
    assert np.linalg.norm(A.T @ slopes + ridge * found.point + b) <= tolerance
    assert found.distance <= tolerance / ridge


def test_second_derivatives_that_rounding_spoils_cost_time_only(monkeypatch):
    A, y = records(count=9000)
    problem = read(LOSS, None, A, y, GAUSSIAN, noise_precision="lattice")
    b = np.array([3.0, -20.0, 1.0, 0.0])
    want = minimise(problem, b, 2.0, 1e-6)
    true, spoilt = OfflineProblem.gram, []

    def spoil(self, z, kind=np.float64):
        H = true(self, z, kind)
        if kind is np.float32 or len(spoilt) < 4:
            spoilt.append(kind)
            H[0, 0] = -5.0
        return H

    monkeypatch.setattr(OfflineProblem, "gram", spoil)
    found = minimise(problem, b, 2.0, 1e-6)
    assert np.float32 in spoilt
    assert np.float64 in spoilt
    assert np.linalg.norm(found.point - want.point) <= found.distance + want.distance


@pytest.mark.parametrize(
    "where", [sets.WholeSpace(18), sets.L2Ball(18), sets.Box([-1.0] * 18, [1.0] * 18)]
)
@pytest.mark.parametrize("loss", [LOSS, losses.CappedLogistic(0.5), losses.SmoothHinge(0.01)])
def test_records_that_are_all_the_same(where, loss):
    # Second derivatives of rank one: not every routine for eigenvalues gets along with them.
    rng = np.random.default_rng(0)
    A = np.tile(rng.standard_normal(18), (9000, 1))
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = rng.choice([-1.0, 1.0], 9000)
    problem = read(loss, where, A, y, PURE, noise_precision="lattice")
    b = rng.standard_normal(18)
    tolerance, _ = apart(PublicNumbers.of(problem), 1.0, 3.0)
    found = minimise(problem, b, 3.0, tolerance)
    kind, params = loss.kernel
    slopes = np.array(
        [kernels.dphi(kind)(params, z, label) for z, label in zip(A @ found.point, y, strict=True)]
    )
    gradient = A.T @ slopes + 3.0 * found.point + b
    away = where.project(found.point - gradient / 3.0) - found.point
    assert np.linalg.norm(away) <= 4.0 * tolerance


@pytest.mark.parametrize("seed", range(12))
def test_the_certificate_is_reached_whatever_the_records(seed):
    # That a run fails would tell something of the records, so it must not: columns of all sizes,
    # equal rows, more columns than records, kinks, and borders where rounding hides a good step.
    rng = np.random.default_rng(seed)
    for _ in range(25):
        n, p = int(10 ** rng.uniform(0, 2)), int(10 ** rng.uniform(0, 1.6))
        A = rng.standard_normal((n, p)) * np.exp(rng.normal(0, rng.choice([0, 3]), p))
        A = [A, np.abs(A), A[:1] + 0 * A, A * (rng.random((n, p)) < 0.1)][rng.integers(4)]
        y = rng.choice([-1.0, 1.0], n)
        loss = [LOSS, losses.CappedLogistic(0.5), losses.SmoothHinge(0.01), losses.Huber(0.1)]
        where = [
            None,
            sets.L2Ball(p, float(10 ** rng.uniform(-2, 2))),
            sets.Box([-1.0] * p, [1.0] * p),
        ]
        budget = reticent.Budget(float(10 ** rng.uniform(-2, 4)), float(rng.choice([0.0, 1e-6])))
        fit = erm.objective_perturbation(
            loss[rng.integers(4)], where[rng.integers(3)], A, y, budget=budget, seed=seed
        )
        assert np.isfinite(fit.point).all()
