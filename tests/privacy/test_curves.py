"""Every curve recomputed from its worst pair of distributions, and attacked by random pairs."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from reticent.privacy import (
    BoundedRange,
    Gaussian,
    Laplace,
    NoPrivacy,
    Profile,
    Pure,
    Renyi,
    ZeroConcentrated,
    curves,
    gaussian,
)

ALPHAS = [1 + 1e-5, 1.01, 1.5, 2.0, 3.7, 10.0, 100.0, 1e4, 1e8]
SIZES = [1e-6, 1e-3, 0.1, 0.7, 1.0, 1.3, 5.0, 30.0, 300.0]


def two_point_rdp(p: float, q: float, alpha: float) -> float:
    """Rényi divergence of two distributions on two points, in many digits."""
    with mpmath.workdps(400):
        a = mpmath.mpf(alpha)
        p, q = mpmath.mpf(p), mpmath.mpf(q)
        total = p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)
        return float(mpmath.log(total) / (a - 1))


def odds(epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        return 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def divergence(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    return float(special.logsumexp(alpha * np.log(p) + (1 - alpha) * np.log(q)) / (alpha - 1))


@pytest.mark.parametrize("epsilon", SIZES)
def test_pure_is_randomised_response(epsilon: float) -> None:
    curve, p = Pure(epsilon), odds(epsilon)
    for alpha in ALPHAS:
        with mpmath.workdps(400):
            exact = two_point_rdp(p, 1 - p, alpha)
        assert curve.rdp(alpha) == pytest.approx(exact, rel=1e-10)
        assert curve.rdp(alpha) <= curve.zcdp * alpha * (1 + 1e-9)
    assert curve.zcdp <= epsilon**2 / 2
    # the bound is reached as alpha -> 1, so no smaller rho is true
    assert curve.rdp(1 + 1e-7) == pytest.approx(curve.zcdp, rel=1e-5)
    for share in (0.0, 0.1, 0.9, 0.9999):
        e = share * epsilon
        with mpmath.workdps(400):
            exact = float(p - mpmath.exp(mpmath.mpf(e)) * (1 - p))
        assert curve.delta(e) == pytest.approx(exact, rel=1e-9)
        if curve.delta(e) < 0.999:
            assert curve.epsilon(curve.delta(e)) == pytest.approx(e, rel=1e-6, abs=1e-13)
    assert curve.delta(epsilon) == 0.0
    assert curve.epsilon() == curve.pure == epsilon
    assert curve.gdp is None


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0])
def test_gdp_bounds_hold_for_every_worst_pair(epsilon: float) -> None:
    for e in np.linspace(0, epsilon, 30):
        assert Pure(epsilon).delta(e) <= gaussian.delta(e, Pure(epsilon).gdp_bound) * (1 + 1e-9)
        bound = gaussian.delta(e, BoundedRange(epsilon).gdp_bound)
        assert BoundedRange(epsilon).delta(e) <= bound * (1 + 1e-9)
    for t in np.linspace(1e-6, epsilon - 1e-6, 999):
        q = math.expm1(epsilon - t) / math.expm1(epsilon)
        gap = stats.norm.ppf(q * math.exp(t)) - stats.norm.ppf(q)
        assert gap <= BoundedRange(epsilon).gdp_bound * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", SIZES)
def test_bounded_range_is_the_supremum_over_the_position(epsilon: float) -> None:
    curve = BoundedRange(epsilon)

    def at(t: mpmath.mpf, alpha: float) -> mpmath.mpf:
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        q = (mpmath.exp(-t) - mpmath.exp(-e)) / (1 - mpmath.exp(-e))
        total = q * mpmath.exp(a * t) + (1 - q) * mpmath.exp(a * (t - e))
        return mpmath.log(total) / (a - 1)

    with mpmath.workdps(50):
        for alpha in ALPHAS:
            low, high = mpmath.mpf(0), mpmath.mpf(epsilon)
            for _ in range(120):  # the function of t has one maximum
                left, right = (2 * low + high) / 3, (low + 2 * high) / 3
                low, high = (left, high) if at(left, alpha) < at(right, alpha) else (low, right)
            exact = float(at((low + high) / 2, alpha))
            assert curve.rdp(alpha) == pytest.approx(exact, rel=2e-8, abs=1e-300), alpha
            assert curve.rdp(alpha) <= curve.zcdp * alpha * (1 + 1e-9)
    assert curve.zcdp <= epsilon**2 / 8
    assert curve.rdp(5.0) <= Pure(epsilon).rdp(5.0) * (1 + 1e-12)
    t = np.linspace(0.0, epsilon, 20001)
    for e in (0.0, 0.3 * epsilon, 0.9 * epsilon):
        q = np.expm1(t - epsilon) / np.expm1(-epsilon) * np.exp(-t)
        brute = float(np.max(-q * np.expm1(e - t) * np.exp(t)))
        assert brute <= curve.delta(e) * (1 + 1e-9)
        assert curve.delta(e) == pytest.approx(brute, rel=1e-6)
        if brute < 0.999:
            assert curve.epsilon(curve.delta(e)) == pytest.approx(e, rel=1e-6, abs=1e-12)


def test_no_exponential_mechanism_exceeds_bounded_range() -> None:
    rng = np.random.default_rng(1)
    closest = 0.0
    for _ in range(400):
        size, n = rng.choice([0.1, 1.0, 4.0]), rng.integers(2, 12)
        scores = rng.normal(size=n) * rng.choice([0.1, 1.0, 5.0])
        moved = scores + rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=n)
        p, q = (np.exp(0.5 * size * s - 0.5 * size * s.max()) for s in (scores, moved))
        p, q = p / p.sum(), q / q.sum()
        curve = BoundedRange(size)  # every score moves by at most 1, at scale 2/size
        for alpha in (1.2, 2.0, 8.0, 64.0):
            assert divergence(p, q, alpha) <= curve.rdp(alpha) + 1e-12
            closest = max(closest, divergence(p, q, alpha) / curve.rdp(alpha))
        for e in (0.0, 0.2 * size, 0.6 * size):
            assert hockey_stick(p, q, e) <= curve.delta(e) + 1e-12
    assert closest > 0.95  # the attack is a real one


def test_no_pure_mechanism_exceeds_pure() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        size, n = rng.choice([0.1, 1.0, 4.0]), rng.integers(2, 9)
        q = rng.dirichlet(np.ones(n) * 0.5) + 1e-12
        q /= q.sum()
        p = q * np.exp(size * rng.choice([0.0, 1.0], size=n))
        p /= p.sum()  # ratios within a range of e^size, hence size-private
        for alpha in (1.2, 2.0, 8.0, 64.0):
            assert divergence(p, q, alpha) <= Pure(size).rdp(alpha) + 1e-12
        for e in (0.0, 0.3 * size, 0.8 * size):
            assert hockey_stick(p, q, e) <= Pure(size).delta(e) + 1e-12


@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 1.0, 6.0])
def test_laplace_by_integration(epsilon: float) -> None:
    curve = Laplace(epsilon)
    for alpha in (1.0001, 1.5, 4.0, 50.0):
        with mpmath.workdps(40):
            a, s = mpmath.mpf(alpha), mpmath.mpf(epsilon)
            middle = mpmath.quad(lambda x, a=a, s=s: mpmath.exp(-a * x - (1 - a) * (s - x)), [0, s])
            ends = mpmath.exp((a - 1) * s) + mpmath.exp(-a * s)
            exact = float(mpmath.log((ends + middle) / 2) / (a - 1))
        assert curve.rdp(alpha) == pytest.approx(exact, rel=1e-9)
        assert curve.rdp(alpha) <= Pure(epsilon).rdp(alpha) * (1 + 1e-12)
        assert curve.rdp(alpha) <= curve.zcdp * alpha
    for e in (0.0, 0.5 * epsilon, 0.99 * epsilon):
        x = 0.5 * (epsilon - e)  # where the loss is exactly e
        exact = stats.laplace.cdf(x) - math.exp(e) * stats.laplace.cdf(x, loc=epsilon)
        assert curve.delta(e) == pytest.approx(exact, rel=1e-9)
        assert curve.epsilon(curve.delta(e)) == pytest.approx(e, rel=1e-9, abs=1e-12)
    assert curve.pure == epsilon


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.1, 2.0), (3.0, 1.0)])
def test_a_laplace_vector_costs_no_more_than_one_number(first: float, second: float) -> None:
    def one(e: float, s: float) -> float:  # the hockey stick of one coordinate, any sign of e
        if e >= s:
            return 0.0
        return -math.expm1(e) if e <= -s else 1.0 - math.exp(0.5 * (e - s))

    whole = Laplace(first + second)
    for e in np.linspace(0.0, first + second, 9):
        kinks = [0.5 * (first - e - second), 0.5 * (first - e + second)]
        inside = [x for x in kinks if 0 < x < first]

        def both(x: float, e: float = e) -> float:
            return 0.5 * math.exp(-x) * one(e - (first - 2 * x), second)

        middle, _ = integrate.quad(both, 0, first, points=inside or None)
        ends = 0.5 * one(e - first, second) + 0.5 * math.exp(-first) * one(e + first, second)
        assert middle + ends <= whole.delta(e) + 1e-10
    for alpha in (1.1, 2.0, 30.0):
        parts = Laplace(first).rdp(alpha) + Laplace(second).rdp(alpha)
        assert parts <= whole.rdp(alpha) * (1 + 1e-12)


def test_gaussian_and_zcdp() -> None:
    curve = Gaussian(0.3)
    assert (curve.gdp, curve.pure) == (0.3, None)
    assert curve.zcdp == pytest.approx(0.045)
    assert curve.rdp(7.0) == pytest.approx(7 * 0.045)
    assert curve.delta(1.0) == gaussian.delta(1.0, 0.3)
    assert Gaussian(0.0).pure == 0.0
    concentrated = ZeroConcentrated(curve.zcdp)
    assert concentrated.gdp is None
    # 0.23670-GDP has epsilon 1 at delta 1e-6; its zCDP alone proves 1.078
    assert ZeroConcentrated(0.2367044**2 / 2).epsilon(1e-6) == pytest.approx(1.078, abs=5e-4)
    for delta in (1e-12, 1e-6, 1e-2):
        assert concentrated.epsilon(delta) >= curve.epsilon(delta)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.5, 20.0, 1e6])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 1e-3])
def test_conversion_finds_the_best_order(rho: float, delta: float) -> None:
    alpha = 1 + np.exp(np.linspace(math.log(1e-6), math.log(1e9), 400_001))
    bound = rho * alpha + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
    curve = ZeroConcentrated(rho)
    assert curve.epsilon(delta) == pytest.approx(max(0.0, bound.min()), rel=1e-6, abs=1e-12)
    if curve.epsilon(delta) > 0:
        assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=1e-3)


def test_renyi_table_is_above_the_truth_between_orders() -> None:
    orders = (1.5, 2.0, 4.0, 16.0)
    table = Renyi(orders, tuple(Pure(1.0).rdp(a) for a in orders))
    for alpha in np.linspace(1.01, 16.0, 300):
        assert table.rdp(alpha) >= Pure(1.0).rdp(alpha) - 1e-12
    assert table.rdp(2.0) == pytest.approx(Pure(1.0).rdp(2.0))
    assert table.rdp(16.1) == math.inf
    assert math.isfinite(table.epsilon(1e-6))


def test_profile() -> None:
    plain = Profile(lambda e: gaussian.delta(e, 0.3))
    assert plain.epsilon(1e-6) == pytest.approx(gaussian.epsilon(1e-6, 0.3), rel=1e-9)
    assert plain.rdp(3.0) == math.inf
    better = Profile(lambda e: 1.0, lambda alpha: 0.045 * alpha)
    assert better.epsilon(1e-6) == ZeroConcentrated(0.045).epsilon(1e-6)
    assert better.delta(1.0) == ZeroConcentrated(0.045).delta(1.0)
    assert Profile(lambda e: 0.5).epsilon(1e-6) == math.inf
    with pytest.raises(ValueError, match="cannot be stored as data"):
        plain.to_dict()
    with pytest.raises(TypeError, match="profile"):
        Profile(3.0)


def test_no_privacy() -> None:
    curve = NoPrivacy()
    assert curve.epsilon() == curve.epsilon(0.5) == curve.rdp(2.0) == math.inf
    assert curve.delta(100.0) == 1.0
    assert (curve.pure, curve.gdp, curve.zcdp) == (None, None, None)


@pytest.mark.parametrize(
    "curve",
    [Pure(1.5), Laplace(0.5), BoundedRange(0.1), Gaussian(0.1 + 0.2), ZeroConcentrated(1e-7),
     Renyi((2.0, 3.0), (0.1, 0.2)), NoPrivacy()],
)  # fmt: skip
def test_written_down_and_read_back(curve) -> None:
    assert curves.from_dict(json.loads(json.dumps(curve.to_dict()))) == curve
    assert hash(curve) == hash(curves.from_dict(curve.to_dict()))


def test_kinds_are_not_confused() -> None:
    assert Pure(1.0) != BoundedRange(1.0)
    assert repr(BoundedRange(1.0)) == "BoundedRange(epsilon=1.0)"
    for bad in ({"kind": "magic"}, {}, 3, {"kind": "gaussian", "rho": 1.0}):
        with pytest.raises(ValueError, match="curve"):
            curves.from_dict(bad)


@pytest.mark.parametrize("kind", [Pure, Laplace, BoundedRange, Gaussian, ZeroConcentrated])
def test_bad_parameters(kind) -> None:
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be"):
            kind(bad)
    with pytest.raises(TypeError, match="must be"):
        kind("1")


def test_bad_questions() -> None:
    curve = Gaussian(1.0)
    for alpha in (1.0, 0.5, math.nan):
        with pytest.raises(ValueError, match="alpha"):
            curve.rdp(alpha)
    with pytest.raises(ValueError, match="epsilon"):
        curve.delta(-0.1)
    with pytest.raises(ValueError, match="delta"):
        curve.epsilon(1.5)
    for orders, values in [((1.0,), (0.1,)), ((3.0, 2.0), (0.1, 0.2)), ((2.0,), (-0.1,)),
                           ((2.0,), (0.1, 0.2)), ((), ())]:  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            Renyi(orders, values)


def test_zero_costs_nothing() -> None:
    for curve in (Pure(0.0), Laplace(0.0), BoundedRange(0.0), Gaussian(0.0), ZeroConcentrated(0.0)):
        assert curve.epsilon() == curve.epsilon(1e-9) == curve.delta(0.0) == 0.0
        assert curve.rdp(3.0) == 0.0


def _delta_of(kind, epsilon: float, value: float) -> mpmath.mpf:
    """Delta of the worst pair, in many digits."""
    e, v = mpmath.mpf(epsilon), mpmath.mpf(value)
    if e >= v:
        return mpmath.mpf(0)
    if kind is Pure:
        return (1 - mpmath.exp(e - v)) / (1 + mpmath.exp(-v))
    if kind is Laplace:
        return 1 - mpmath.exp((e - v) / 2)
    return mpmath.expm1((e - v) / 2) ** 2 / -mpmath.expm1(-v)


@pytest.mark.parametrize("kind", [Pure, Laplace, BoundedRange])
@pytest.mark.parametrize("value", [1e-12, 5.3e-11, 2e-6, 0.03, 0.99, 1.01, 5.3, 30.0, 36.0, 700.0])
def test_neither_delta_nor_epsilon_is_rounded_down(kind, value: float) -> None:
    curve = kind(value)
    with mpmath.workdps(80):
        for share in [0.0, 1e-9, 0.2, 0.7, 0.99, 1 - 1e-9]:
            epsilon = share * value
            assert mpmath.mpf(curve.delta(epsilon)) >= _delta_of(kind, epsilon, value)
        largest = float(_delta_of(kind, 0.0, value))
        near_one = [1 - 1e-15, 1 - 1e-12, 1 - 1e-9, 1 - 1e-6]
        for delta in [1e-300, 1e-17, *(largest * x for x in (1e-6, 0.3, 0.9, 0.999999)), *near_one]:
            epsilon = curve.epsilon(delta)
            assert _delta_of(kind, epsilon, value) <= mpmath.mpf(delta), (delta, epsilon)
            assert epsilon <= value
            less = epsilon - 1e-13 * value  # and it is not much too large
            assert less <= 0.0 or _delta_of(kind, less, value) > mpmath.mpf(delta)
        assert curve.epsilon(min(largest * 1.001, 1.0)) == 0.0


@pytest.mark.parametrize(
    ("value", "alpha"), [(1e-9, 1.3e9), (9.7e-9, 1.16e8), (1e-6, 1.1e6), (3.0, 1 + 1.3e-6)]
)
def test_bounded_range_where_its_logarithms_cancel(value: float, alpha: float) -> None:
    with mpmath.workdps(60):
        e, a = mpmath.mpf(value), mpmath.mpf(alpha)

        def part(y: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(mpmath.sinh(y / 2) / (y / 2))

        exact = part(a * e) - part((a - 1) * e) + (part(a * e) - part(e)) / (a - 1)
        assert BoundedRange(value).rdp(alpha) == pytest.approx(float(exact), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("kind", [Pure, Laplace, BoundedRange, Gaussian])
@pytest.mark.parametrize("size", [5e-324, 1e-320, 1e-170, 1e-163])
def test_a_cost_that_underflows_is_not_nothing(kind, size: float) -> None:
    curve = kind(size)
    assert min(curve.zcdp, curve.rdp(2.0), curve.delta(0.0)) > 0.0
    assert ZeroConcentrated(curve.zcdp).pure is None


@pytest.mark.parametrize("kind", [Pure, Laplace, BoundedRange, ZeroConcentrated])
def test_an_enormous_cost_is_not_capped(kind) -> None:
    curve = kind(1e308)
    assert curve.epsilon(1e-6) >= 0.999 * 1e308
    assert curve.delta(1.0) == 1.0
    assert curve.zcdp >= 1e307
