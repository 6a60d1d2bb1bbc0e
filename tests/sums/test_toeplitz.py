"""Closed forms against filtering, matrices and 50 digits."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.linalg import toeplitz as toeplitz_matrix

from reticent.sums.toeplitz import Toeplitz, square_root, square_root_error
from reticent.sums.toeplitz_search import optimise, toeplitz

from .reference import explicit


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))


def random_filter(seed: int, buffers: int, smallest: float = 1e-3) -> Toeplitz:
    rng = np.random.default_rng(seed)
    y = np.sort(rng.uniform(0.02, -math.log(smallest), 2 * buffers))[::-1]
    gap = np.exp(-y)
    return Toeplitz(tuple(gap[0::2]), tuple(gap[1::2]))


@pytest.mark.parametrize("buffers", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("n", [1, 2, 3, 50, 3000])
def test_closed_forms_match_filtering(buffers, n):
    for seed in range(4):
        noise = random_filter(seed, buffers)
        b, c = explicit(noise, n)
        np.testing.assert_allclose(noise.noise_coefficients(n), b, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(noise.sensitivity_coefficients(n), c, rtol=1e-9, atol=1e-13)
        assert noise.squared_sensitivity(n) == pytest.approx(np.sum(c**2), rel=1e-10)
        assert noise.absolute_sensitivity(n) == pytest.approx(np.sum(c), rel=1e-10)
        assert noise.squared_error(n) == pytest.approx(np.sum(b**2), rel=1e-10)
        assert noise.mean_squared_error(n) == pytest.approx(np.cumsum(b**2).mean(), rel=1e-10)


def test_the_step_by_step_loop_makes_these_coefficients():
    noise = random_filter(7, 3)
    z = np.random.default_rng(1).standard_normal(200)
    state, out = np.zeros(3), []
    for value in z:
        out.append(value + np.dot(noise.weight, state))
        state = np.array(noise.decay) * state + value
    np.testing.assert_allclose(out, np.convolve(noise.noise_coefficients(200), z)[:200], rtol=1e-9)
    state, back = np.zeros(3), []
    for value in out:
        back.append(value - np.dot(noise.inverse_weight, state))
        state = np.array(noise.inverse_decay) * state + value
    np.testing.assert_allclose(back, z, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 17, 64])
def test_strategy_matrix(n):
    noise = random_filter(3, 3)
    b, _ = explicit(noise, n)
    matrix = toeplitz_matrix(b, np.zeros(n))
    ones = np.tril(np.ones((n, n)))
    strategy = np.linalg.inv(matrix) @ ones
    np.testing.assert_allclose(strategy, solve_triangular(matrix, ones, lower=True), atol=1e-12)
    np.testing.assert_allclose(strategy[:, 0], noise.sensitivity_coefficients(n), atol=1e-12)
    norms = np.sum(strategy**2, axis=0)
    for column in range(n):
        assert norms[column] == pytest.approx(noise.squared_sensitivity(n - column), rel=1e-10)
    variances = np.sum(matrix**2, axis=1)
    for row in range(n):
        assert variances[row] == pytest.approx(noise.squared_error(row + 1), rel=1e-12)


def test_a_window_counts_only_the_protected_rows():
    n, window = 48, 11
    noise = toeplitz(window=window)
    matrix = toeplitz_matrix(noise.noise_coefficients(n), np.zeros(n))
    strategy = np.linalg.inv(matrix) @ np.tril(np.ones((n, n)))
    for record in range(n - window):
        protected = strategy[: record + window, record]
        # The innovations up to the last protected output, through the covariance of the outputs.
        shift = (np.arange(record + window) >= record).astype(float)
        covariance = (matrix @ matrix.T)[: record + window, : record + window]
        mu_squared = shift @ np.linalg.solve(covariance, shift)
        assert np.sum(protected**2) == pytest.approx(noise.squared_sensitivity(window), rel=1e-9)
        assert mu_squared == pytest.approx(noise.squared_sensitivity(window), rel=1e-9)


def fifty_digits(noise: Toeplitz, terms: int):
    """Both sums and the mean, from the exact binary parameters, by polynomials and 60 digits."""
    with mpmath.workdps(60):
        th = [1 - mpmath.mpf(a) for a in noise.gap]
        ze = [1 - mpmath.mpf(a) for a in noise.inverse_gap]

        def product(roots, x):
            return mpmath.fprod(1 - r * x for r in roots)

        def residues(poles, zeros):
            # b(x) = limit + sum_j R_j / (1 - pole_j x)
            return [
                product(zeros, 1 / r) / mpmath.fprod(1 - s / r for s in poles if s != r)
                for r in poles
            ]

        def geometric(r, m):
            return (1 - r**m) / (1 - r)

        # b_0 = 1, and b_m = sum_j R_j th_j^m for m >= 1.
        r = residues(th, ze)
        modes = list(zip(r, th, strict=True))
        pairs = [(x * y, s * t) for x, s in modes for y, t in modes]
        error = 1 + sum(w * q * geometric(q, terms - 1) for w, q in pairs)
        mean = 1 + sum(w * q * (terms - geometric(q, terms)) / (1 - q) for w, q in pairs) / terms
        # c has generating function prod (1 - th x) / ((1 - x) prod (1 - ze x)): a pole more, at 1.
        poles = [mpmath.mpf(1), *ze]
        p = residues(poles, th)
        sensitivity = mpmath.mpf(0)
        for x, s in zip(p, poles, strict=True):
            for y, t in zip(p, poles, strict=True):
                sensitivity += x * y * (terms if s * t == 1 else geometric(s * t, terms))
        absolute = terms * p[0] + sum(
            x * geometric(s, terms) for x, s in zip(p[1:], ze, strict=True)
        )
        return float(sensitivity), float(absolute), float(error), float(mean)


@pytest.mark.parametrize("terms", [3, 1000, 10**6, 2**24, 2**40])
@pytest.mark.parametrize(
    "noise",
    [
        Toeplitz((1e-7,), (2e-7,)),
        Toeplitz((1e-7, 1e-4, 0.3), (3e-7, 2e-2, 0.9)),
        Toeplitz((1e-7, 1.1e-7, 0.5), (1.05e-7, 1.2e-7, 0.5001)),
        Toeplitz((4.1e-13, 3e-9, 1e-5, 0.02), (1e-11, 2e-7, 1e-3, 0.2)),
    ],
)
def test_closed_forms_to_fifty_digits(noise, terms):
    found = (
        noise.squared_sensitivity(terms),
        noise.absolute_sensitivity(terms),
        noise.squared_error(terms),
        noise.mean_squared_error(terms),
    )
    assert found == pytest.approx(fifty_digits(noise, terms), rel=5e-14)


def test_shipped_filters_to_fifty_digits():
    for size, kind in [(2**16, "window"), (2**24, "window"), (2**40, "horizon")]:
        noise = toeplitz(**{kind: size})
        sensitivity, _, error, _ = fifty_digits(noise, size)
        assert noise.squared_sensitivity(size) == pytest.approx(sensitivity, rel=5e-14)
        assert noise.squared_error(size) == pytest.approx(error, rel=5e-14)
        stationary = fifty_digits(noise, 2**60)[2]
        assert noise.squared_error(math.inf) == pytest.approx(stationary, rel=5e-14)


def test_signs_and_monotonicity():
    for noise in [random_filter(seed, 1 + seed % 6) for seed in range(20)] + [
        toeplitz(window=100),
        toeplitz(horizon=1000, objective="mean"),
        toeplitz(horizon=2**20),
    ]:
        b, c = noise.noise_coefficients(5000), noise.sensitivity_coefficients(5000)
        assert b[0] == c[0] == 1
        assert (b > 0).all()
        assert (c > 0).all()
        assert (np.diff(c) <= 1e-15).all()
        assert all(w > 0 for w in noise.weight + noise.inverse_weight)
        inverse = np.diff(c, prepend=0.0)
        assert np.abs(inverse).sum() < 2
        # Exactly 2 - 1 / b(1) over all lags.
        total = 1 + sum(w / a for w, a in zip(noise.inverse_weight, noise.inverse_gap, strict=True))
        assert total == pytest.approx(2 - noise.limit, rel=1e-12)
        assert 1 / noise.limit == pytest.approx(
            1 + sum(w / a for w, a in zip(noise.weight, noise.gap, strict=True)), rel=1e-12
        )


def test_parameters_lie_on_the_grid_where_one_minus_is_exact():
    noise = Toeplitz((1e-13, 0.1), (0.3e-12, 0.7))
    for a, th in zip(noise.gap + noise.inverse_gap, noise.decay + noise.inverse_decay, strict=True):
        assert mpmath.mpf(1) - mpmath.mpf(a) == mpmath.mpf(th)
        assert (a * 2.0**53).is_integer()
    assert Toeplitz(noise.gap, noise.inverse_gap) == noise
    assert hash(Toeplitz(noise.gap, noise.inverse_gap)) == hash(noise)
    assert Toeplitz.from_dict(json.loads(json.dumps(noise.to_dict()))) == noise


def test_no_buffers_is_independent_noise():
    noise = Toeplitz()
    assert noise.buffers == 0
    assert noise.limit == 1
    assert (
        noise.squared_error(math.inf) == noise.squared_error(5) == noise.mean_squared_error(9) == 1
    )
    assert noise.squared_sensitivity(7) == noise.absolute_sensitivity(7) == 7
    assert noise.squared_sensitivity(0) == noise.squared_error(0) == 0
    np.testing.assert_array_equal(noise.noise_coefficients(3), [1, 0, 0])
    assert noise.noise_coefficients(0).shape == (0,)
    for size in ({"horizon": 1}, {"window": 1}, {"horizon": 1, "objective": "mean"}):
        assert optimise(**size) == toeplitz(**size) == noise
    assert toeplitz(horizon=50, buffers=0) == optimise(window=50, buffers=0) == noise


def test_square_root_and_its_error():
    f = square_root(5000)
    with mpmath.workdps(30):
        for k in (0, 1, 2, 77, 4999):
            assert f[k] == pytest.approx(
                float(mpmath.binomial(2 * k, k) / mpmath.mpf(4) ** k), rel=1e-13
            )
    sums = np.cumsum(f**2)
    for n in (1, 2, 3, 64, 256, 257, 300, 1024, 5000):
        assert square_root_error(n) == pytest.approx(sums[n - 1], rel=1e-13)
        mean = math.sqrt(sums[n - 1] * sums[:n].mean())
        assert square_root_error(n, "mean") == pytest.approx(mean, rel=1e-13)
    with mpmath.workdps(40):

        def square(k):
            return (mpmath.gamma(k + 0.5) / mpmath.gamma(k + 1)) ** 2 / mpmath.pi

        step = float(mpmath.sumem(square, [5000, 6000], tol=mpmath.mpf(10) ** -25))
    assert square_root_error(6001) - square_root_error(5000) == pytest.approx(step, rel=1e-11)
    constant = (np.euler_gamma + 4 * math.log(2)) / math.pi
    assert constant == pytest.approx(1.0663, abs=5e-5)
    n = 2**40
    assert square_root_error(n) == pytest.approx(math.log(n) / math.pi + constant, rel=1e-12)
    mean = square_root_error(n) * (square_root_error(n) - 1 / math.pi)
    assert square_root_error(n, "mean") ** 2 == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("gap", "inverse_gap"),
    [
        ((0.5,), ()),
        ((0.5,), (0.5,)),
        ((0.5,), (0.4,)),
        ((0.0,), (0.0,)),
        ((1e-20,), (0.4,)),
        ((0.5,), (1.0,)),
        ((0.1, 0.2), (0.3, 0.4)),
        ((math.nan,), (0.4,)),
        ((-0.1,), (0.4,)),
    ],
)
def test_bad_parameters(gap, inverse_gap):
    with pytest.raises(ValueError, match="gap"):
        Toeplitz(gap, inverse_gap)


def test_bad_lags():
    noise = toeplitz(horizon=8)
    for method in (noise.squared_sensitivity, noise.absolute_sensitivity, noise.squared_error,
                   noise.noise_coefficients, noise.sensitivity_coefficients):  # fmt: skip
        with pytest.raises(ValueError, match="at least 0"):
            method(-1)
        with pytest.raises(TypeError, match="whole number"):
            method(2.5)
    with pytest.raises(ValueError, match="at least 1"):
        noise.mean_squared_error(0)


def filtered(noise: Toeplitz, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """b and c by running the recursions, not by their closed forms."""
    unit = np.eye(1, lags)[0]
    b = np.zeros(lags)
    buffers = [0.0] * noise.buffers
    for t in range(lags):
        b[t] = unit[t] + sum(w * s for w, s in zip(noise.weight, buffers, strict=True))
        buffers = [d * s + unit[t] for d, s in zip(noise.decay, buffers, strict=True)]
    c = np.zeros(lags)
    for t in range(lags):
        c[t] = 1.0 - b[1 : t + 1] @ c[t - 1 :: -1][:t] if t else 1.0
    return b, c


def test_a_buffer_that_forgets_nothing():
    noise = Toeplitz(gap=(0.0, 0.02), inverse_gap=(0.004, 0.3))
    b, c = filtered(noise, 400)
    assert noise.limit == 0.0
    assert noise.noise_coefficients(400) == pytest.approx(b, rel=1e-11)
    assert noise.sensitivity_coefficients(400) == pytest.approx(c, rel=1e-9)
    for lags in (1, 2, 17, 400):
        assert noise.squared_error(lags) == pytest.approx(np.sum(b[:lags] ** 2), rel=1e-11)
        assert noise.squared_sensitivity(lags) == pytest.approx(np.sum(c[:lags] ** 2), rel=1e-9)
        assert noise.absolute_sensitivity(lags) == pytest.approx(np.sum(c[:lags]), rel=1e-9)
    assert noise.squared_error(math.inf) == math.inf
    far = noise.sensitivity_coefficients(20_000)
    assert noise.squared_sensitivity(math.inf) == pytest.approx(np.sum(far**2), rel=1e-12)
