"""Values, gradients, constants and implicit steps of the built-in losses."""

from __future__ import annotations

import math
import pickle

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp

from reticent import losses, sets

from . import reference

RIDGED = reference.cases(ridge=0.3, feature_norm=2.0)
ALL = [*reference.cases(), *RIDGED]


def ids(case):
    return f"{case}-{case.loss.ridge:g}"


def data(case, n=40, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, dim))
    A *= (case.loss.feature_norm * rng.uniform(0.2, 1, n) / np.linalg.norm(A, axis=1))[:, None]
    return A, case.labels(rng, n), rng.standard_normal(dim) * 1.5


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_values_are_the_plain_formula(case):
    A, y, x = data(case)
    expected = case.phi(A @ x, y) + 0.5 * case.loss.ridge * x @ x
    np.testing.assert_allclose(case.loss.values(x, A, y), expected, rtol=1e-12)
    np.testing.assert_allclose(case.loss.mean_value(x, A, y), expected.mean(), rtol=1e-12)
    one = [case.loss.value(x, a, b) for a, b in zip(A, y, strict=True)]
    np.testing.assert_allclose(one, expected, rtol=1e-12)


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_gradients_are_finite_differences(case):
    A, y, x = data(case, seed=3)
    h = 1e-6
    for a, b in zip(A, y, strict=True):
        z = np.array([[(x + s * h * e) @ a for s in (1, -1)] for e in np.eye(4)])
        norms = np.array([[(x + s * h * e) @ (x + s * h * e) for s in (1, -1)] for e in np.eye(4)])
        values = case.phi(z, b) + 0.5 * case.loss.ridge * norms
        slope = (values[:, 0] - values[:, 1]) / (2 * h)
        np.testing.assert_allclose(case.loss.gradient(x, a, b), slope, rtol=1e-6, atol=2e-8)


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_mean_gradient_is_the_mean_dense_and_sparse(case):
    A, y, x = data(case)
    A[np.abs(A) < 0.3] = 0.0
    each = np.mean([case.loss.gradient(x, a, b) for a, b in zip(A, y, strict=True)], axis=0)
    np.testing.assert_allclose(case.loss.mean_gradient(x, A, y), each, rtol=1e-12, atol=1e-15)
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_array):
        S = kind(A)
        np.testing.assert_allclose(case.loss.mean_gradient(x, S, y), each, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(case.loss.values(x, S, y), case.loss.values(x, A, y), rtol=1e-12)
        row = sp.csr_array(A)[[3]]
        assert case.loss.value(x, row, y[3]) == pytest.approx(case.loss.value(x, A[3], y[3]))


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_constants_bound_what_is_seen(case):
    # losses.check is itself tested on planted errors in test_checking.py.
    report = losses.check(case.loss, samples=400, dim=3)
    assert report.passed
    ball = sets.L2Ball(3, radius=1.5)
    assert losses.check(case.loss, set=ball, samples=400).passed


@pytest.mark.parametrize("case", ALL, ids=ids)
@pytest.mark.parametrize("radius", [0.4, 3.0])
def test_constants_are_attained(case, radius):
    loss = case.loss
    ball = sets.L2Ball(3, radius)
    F = loss.feature_norm
    a = F * np.eye(3)[0]
    labels = {-1.0, 1.0}
    if hasattr(loss, "label_bounds"):
        labels = set(np.linspace(*loss.label_bounds, 9))
    line = [s * radius * np.eye(3)[0] for s in np.linspace(-1, 1, 201)]
    parts = [
        float(np.linalg.norm(loss.gradient(x, a, y) - loss.ridge * x)) for x in line for y in labels
    ]
    assert max(parts) <= loss.data_lipschitz(ball) * (1 + 1e-12)
    assert max(parts) == pytest.approx(loss.data_lipschitz(ball), rel=1e-12)
    assert loss.lipschitz(ball) == pytest.approx(
        loss.data_lipschitz(ball) + loss.ridge * radius, rel=1e-15
    )
    assert loss.data_lipschitz(ball) <= loss.data_lipschitz()
    assert loss.strong_convexity == loss.ridge
    if case.smooth and not isinstance(loss, losses.Poisson):
        turns = [
            np.linalg.norm(loss.gradient(x + 1e-5 * a, a, y) - loss.gradient(x, a, y)) / (1e-5 * F)
            for x in [s * 3 * np.eye(3)[0] for s in np.linspace(-1, 1, 101)]
            for y in labels
        ]
        assert max(turns) == pytest.approx(loss.smoothness, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_curvature_bounds_what_frank_wolfe_sees(case):
    loss = case.loss
    rng = np.random.default_rng(7)
    for region in (sets.L2Ball(3, 1.3), sets.L1Ball(3, 2.0), sets.Simplex(3)):
        bound = loss.curvature(region)
        if not case.smooth:
            assert bound == math.inf
            continue
        A, y = loss.sample_records(rng, 200, 3)
        seen = 0.0
        for a, b in zip(A, y, strict=True):
            x, s = region.sample(rng), region.linear_minimizer(rng.standard_normal(3))
            step = rng.uniform(0.05, 1)
            rise = loss.value(x + step * (s - x), a, b) - loss.value(x, a, b)
            seen = max(seen, 2 / step**2 * (rise - step * loss.gradient(x, a, b) @ (s - x)))
        assert seen <= bound * (1 + 1e-9) + 1e-12
    if isinstance(loss, losses.Squared):
        # Attained from one end of the ball to the other.
        ball, a = sets.L2Ball(3, 1.3), loss.feature_norm * np.eye(3)[0]
        x, s = -1.3 * np.eye(3)[0], 1.3 * np.eye(3)[0]
        rise = loss.value(s, a, 0.0) - loss.value(x, a, 0.0) - loss.gradient(x, a, 0.0) @ (s - x)
        assert 2 * rise == pytest.approx(loss.curvature(ball), rel=1e-12)


def test_constants_that_do_not_exist_are_infinite():
    assert losses.Squared().lipschitz() == math.inf
    assert losses.Logistic(ridge=0.1).lipschitz() == math.inf
    assert losses.Logistic(ridge=0.1).data_lipschitz() == 1.0
    assert losses.Hinge().smoothness == math.inf
    assert losses.Quantile().smoothness == math.inf
    assert losses.Squared().data_lipschitz(sets.WholeSpace(3)) == math.inf


def prox_gradient(case, x, a, y, step, ridge, project, rounds=4000):
    """The implicit step by plain projected gradient descent on the strongly convex problem."""
    kind = case.loss.gradient
    top = case.loss.data_smoothness + ridge + 1 / step
    u = project(x)
    for _ in range(rounds):
        g = kind(u, a, y) + (ridge - case.loss.ridge) * u + (u - x) / step
        u = project(u - g / top)
    return u


@pytest.mark.parametrize("case", ALL, ids=ids)
@pytest.mark.parametrize("step", [0.05, 1.0, 30.0])
def test_implicit_steps_are_minimisers(case, step):
    # In high precision, no move of 1e-9 in any of many directions does better: the step is then
    # right to some 1e-9, at kinks too, since what it minimises is strongly convex.
    mp.mp.dps = 50
    A, y, x = data(case, n=3, dim=4, seed=11)
    rng = np.random.default_rng(1)
    for a, b in zip(A, y, strict=True):
        u = case.loss.implicit_step(x, a, b, step=step)
        directions = np.vstack([np.eye(4), x, a, u, x - u, rng.standard_normal((12, 4))])
        fa, fx = [mp.mpf(v) for v in a], [mp.mpf(v) for v in x]

        def prox(v, fa=fa, fx=fx, b=b):
            phi = case.exact(mp.fdot(fa, v), mp.mpf(float(b)))
            ridge = mp.mpf(case.loss.ridge) / 2 * mp.fdot(v, v)
            return phi + ridge + sum((p - q) ** 2 for p, q in zip(v, fx, strict=True)) / 2 / step

        fu = [mp.mpf(v) for v in u]
        here = prox(fu)
        for h in directions / np.maximum(np.linalg.norm(directions, axis=1), 1e-12)[:, None]:
            for size in (1e-9, -1e-9):
                moved = [p + mp.mpf(size) * mp.mpf(q) for p, q in zip(fu, h, strict=True)]
                assert prox(moved) >= here


@pytest.mark.parametrize("case", [case for case in ALL if case.smooth], ids=ids)
def test_implicit_steps_to_the_last_digits(case):
    A, y, x = data(case, n=4, dim=3, seed=12)
    for a, b in zip(A, y, strict=True):
        for step, ridge in ((0.3, None), (0.7, 0.9)):
            u = case.loss.implicit_step(x, a, b, step=step, ridge=ridge)
            weight = case.loss.ridge if ridge is None else ridge
            known = prox_gradient(case, x, a, b, step, weight, lambda v: v)
            np.testing.assert_allclose(u, known, atol=1e-10)


@pytest.mark.parametrize("case", [case for case in ALL if case.smooth], ids=ids)
@pytest.mark.parametrize(
    "region", [sets.L2Ball(3, 0.5), sets.Simplex(3), sets.LinfBall(3, 0.3)], ids=str
)
def test_implicit_steps_within_a_set(case, region):
    A, y, x = data(case, n=4, dim=3, seed=13)
    for a, b in zip(A, y, strict=True):
        u = case.loss.implicit_step(x, a, b, step=0.5, set=region)
        known = prox_gradient(case, x, a, b, 0.5, case.loss.ridge, region.project)
        np.testing.assert_allclose(u, known, atol=1e-8)
        assert region.contains(u)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Quantile(0.2, ridge=0.1)], ids=repr)
def test_implicit_steps_at_kinks_within_a_set(loss):
    import cvxpy as cp

    rng = np.random.default_rng(14)
    region = sets.L2Ball(3, 0.8)
    for _ in range(6):
        a = rng.standard_normal(3)
        a /= np.linalg.norm(a)
        x, y = rng.standard_normal(3), float(rng.choice((-1, 1)))
        step = float(rng.uniform(0.2, 5))
        u = loss.implicit_step(x, a, y, step=step, set=region)
        v = cp.Variable(3)
        if isinstance(loss, losses.Hinge):
            phi = cp.pos(1 - y * a @ v)
        else:
            phi = cp.maximum(0.2 * (y - a @ v), -0.8 * (y - a @ v))
        total = phi + loss.ridge / 2 * cp.sum_squares(v) + cp.sum_squares(v - x) / (2 * step)
        cp.Problem(cp.Minimize(total), [cp.norm(v) <= 0.8]).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(u, v.value, atol=2e-4)

        # Values tell more than the points of an interior-point solver: nothing it found is better.
        def prox(w, a=a, y=y, x=x, step=step):
            return loss.value(w, a, y) + (w - x) @ (w - x) / (2 * step)

        assert prox(u) <= prox(region.project(v.value)) + 1e-12


def test_a_null_record_pulls_nowhere():
    for case in RIDGED:
        if isinstance(case.loss, losses.Linear):
            continue
        y = case.labels(np.random.default_rng(0), 1)[0]
        x = np.array([1.0, -2.0])
        np.testing.assert_array_equal(case.loss.gradient(x, np.zeros(2), y), 0.3 * x)


def test_losses_are_values():
    loss = losses.Huber(0.5, feature_norm=2.0, ridge=0.1)
    assert loss == losses.Huber(threshold=0.5, feature_norm=2.0, ridge=0.1)
    assert loss != losses.Huber(0.6, feature_norm=2.0, ridge=0.1)
    assert hash(loss) == hash(pickle.loads(pickle.dumps(loss)))
    assert "threshold=0.5" in repr(loss)
    again = pickle.loads(pickle.dumps(loss))
    assert again.value(np.ones(2), np.ones(2), 0.0) == loss.value(np.ones(2), np.ones(2), 0.0)
    with pytest.raises(AttributeError):
        loss.ridge = 3.0
    _, params = loss.kernel
    params[:] = 99.0
    assert loss.kernel[1][0] == 0.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: losses.Logistic(feature_norm=0.0), "feature_norm"),
        (lambda: losses.Logistic(ridge=-1.0), "ridge"),
        (lambda: losses.Logistic(ridge=math.nan), "ridge"),
        (lambda: losses.Squared(label_bounds=(1.0, -1.0)), "label_bounds"),
        (lambda: losses.Squared(label_bounds=3.0), "pair"),
        (lambda: losses.Huber(threshold=0.0), "threshold"),
        (lambda: losses.Quantile(level=1.0), "level"),
        (lambda: losses.SmoothHinge(width=-1.0), "width"),
        (lambda: losses.CappedLogistic(0.4), "cap"),
        (lambda: losses.CappedLogistic(1.0), "cap"),
        (lambda: losses.Poisson(label_bounds=(-1.0, 2.0)), "counts"),
        (lambda: losses.Poisson(1.0, label_bounds=(0.0, 10.0)), "predictor_bound >= 2.303"),
        (lambda: losses.Quadratic(0.0), "scale"),
    ],
)
def test_parameters_that_make_no_sense(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_link_of_the_capped_loss_makes_the_predictor_best():
    for cap in (0.5, 0.6, 0.95):
        loss = losses.CappedLogistic(cap)
        for z in np.linspace(-6, 6, 61):
            p = float(loss.probability(np.array([z]))[0])
            slopes = [loss.gradient(np.array([z]), np.ones(1), y)[0] for y in (1.0, -1.0)]
            assert p * slopes[0] + (1 - p) * slopes[1] == pytest.approx(0.0, abs=1e-12)


def test_arguments_that_do_not_fit():
    loss = losses.Logistic()
    with pytest.raises(ValueError, match=r"x of shape \(3,\)"):
        loss.values(np.zeros(3), np.zeros((4, 2)), np.ones(4))
    with pytest.raises(ValueError, match="y is missing"):
        loss.value(np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="length 4"):
        loss.values(np.zeros(2), np.zeros((4, 2)), np.ones(3))
    with pytest.raises(ValueError, match="step"):
        loss.implicit_step(np.zeros(2), np.ones(2), 1.0, step=0.0)
    with pytest.raises(NotImplementedError):
        loss.implicit_step(np.zeros(9), np.ones(9), 1.0, step=1.0, set=sets.Birkhoff(3))


class Prepared(losses.Huber):
    def prepare(self, A, y=None):
        return super().prepare(A, y)


class Labelled(losses.Huber):
    def _prepare_labels(self, y, A):
        return np.asarray(A)[:, 0], 0


class Steeper(losses.Huber):
    threshold = 2.0


@pytest.mark.parametrize(
    ("loss", "apart"),
    [
        *((kind(), True) for kind in (losses.Logistic, losses.Hinge, losses.Squared, losses.Huber)),
        (losses.CappedLogistic(), True),
        (losses.SmoothHinge(), True),
        (losses.Quantile(), True),
        (losses.Poisson(), True),
        (Steeper(), True),
        *((kind(), False) for kind in (losses.Linear, losses.Costs, losses.Quadratic)),
        (Prepared(), False),
        (Labelled(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_loss_says_whether_rows_and_labels_are_prepared_apart(loss, apart):
    assert loss.prepares_apart is apart
