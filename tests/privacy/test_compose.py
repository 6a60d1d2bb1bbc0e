"""Compositions against brute force over all outcomes, integration and dp-accounting."""

from __future__ import annotations

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from reticent.privacy import (
    BoundedRange,
    Gaussian,
    Laplace,
    NoPrivacy,
    ObjectivePerturbation,
    Profile,
    Pure,
    Renyi,
    Worst,
    ZeroConcentrated,
    compose,
    curves,
    gaussian,
    parallel,
)


def brute_force(sizes: list[float], epsilon: float) -> float:
    """delta of several randomised responses, over all 2^k outcomes."""
    total = 0.0
    for truths in itertools.product((True, False), repeat=len(sizes)):
        p = math.prod(
            1 / (1 + math.exp(-s if t else s)) for s, t in zip(sizes, truths, strict=True)
        )
        loss = sum(s if t else -s for s, t in zip(sizes, truths, strict=True))
        total += p * max(0.0, -math.expm1(epsilon - loss))
    return total


@pytest.mark.parametrize("sizes", [[0.5], [0.1] * 8, [1.0, 0.3, 0.3, 0.01], [2.0, 2.0, 0.5]])
def test_pure_composition_is_exact(sizes: list[float]) -> None:
    curve = compose([Pure(s) for s in sizes])
    assert curve.pure == pytest.approx(sum(sizes))
    for share in (0.0, 0.2, 0.5, 0.9):
        e = share * sum(sizes)
        assert curve.delta(e) == pytest.approx(brute_force(sizes, e), rel=1e-9)
        delta = curve.delta(e)
        assert curve.epsilon(delta) == pytest.approx(e, rel=1e-6, abs=1e-9)
        assert brute_force(sizes, curve.epsilon(delta)) <= delta * (1 + 1e-9)
    assert curve.delta(1.01 * sum(sizes)) == 0.0


@pytest.mark.parametrize(
    "parts",
    [
        [Pure(0.3), (Laplace(0.1), 4)],
        [Pure(0.3), Gaussian(0.2)],
        [ObjectivePerturbation(0.2, 0.1, one_sided=True), Gaussian(0.001)],
        [ObjectivePerturbation(0.2, 0.1), Gaussian(0.1)],
        [ZeroConcentrated(0.1), Gaussian(0.1)],
    ],
)
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-3, 1.0])
def test_an_epsilon_is_proved_if_and_only_if_it_is_large_enough(parts, delta: float) -> None:
    curve = compose(parts)
    epsilon = curve.epsilon(delta)
    assert curve._proves(epsilon, delta)
    if epsilon < math.inf:
        assert curve._proves(epsilon * (1 + 1e-9), delta)
        assert not curve._proves(epsilon * (1 - 1e-9) - 1e-300, delta)


@pytest.mark.parametrize(("size", "count"), [(0.01, 100), (0.1, 50), (0.5, 1000)])
def test_optimal_homogeneous_composition(size: float, count: int) -> None:
    # Kairouz, Oh and Viswanath, Theorem 3.3, in many digits: at epsilon = (k - 2i) size
    curve = compose([(Pure(size), count)])
    for i in (0, count // 8, count // 4, count // 3):
        with mpmath.workdps(80):
            e = mpmath.mpf(size)
            terms = [
                mpmath.binomial(count, j)
                * (mpmath.exp((count - j) * e) - mpmath.exp((count - 2 * i + j) * e))
                for j in range(i)
            ]
            exact = float(mpmath.fsum(terms) / (1 + mpmath.exp(e)) ** count)
        # the loss of this mechanism sits on the lattice, where rounding may take either side
        assert curve.delta((count - 2 * i) * size) == pytest.approx(exact, rel=1e-8, abs=1e-15)


def test_many_pure_releases_stay_below_their_other_bounds() -> None:
    curve = compose([(Pure(1e-3), 10**6)])
    epsilon = curve.epsilon(1e-6)
    # by the central limit theorem nearly 1-GDP with the mean loss of randomised response
    assert epsilon == pytest.approx(gaussian.epsilon(1e-6, 1.0), rel=1e-3)
    assert epsilon < ZeroConcentrated(curve.zcdp).epsilon(1e-6)
    assert epsilon < gaussian.epsilon(1e-6, curve.gdp_bound)


def test_gaussian_composition_is_exact() -> None:
    curve = compose([Gaussian(0.1), (Gaussian(0.2), 6), Pure(0.0)])
    assert isinstance(curve, Gaussian)
    assert curve.mu == pytest.approx(0.5)
    assert compose([]) == Pure(0.0)
    assert compose([(Gaussian(1.0), 0)]) == Pure(0.0)
    assert compose([BoundedRange(0.5)]) == BoundedRange(0.5)


@pytest.mark.parametrize(("mu", "sizes"), [(0.3, [0.5]), (1.5, [0.2, 0.2]), (0.05, [1.0, 0.3])])
def test_pure_and_gaussian_together_by_integration(mu: float, sizes: list[float]) -> None:
    curve = compose([Gaussian(mu), *map(Pure, sizes)])
    for e in (0.0, 0.3, 1.0, 2.0):
        exact = 0.0
        for truths in itertools.product((1, -1), repeat=len(sizes)):
            p = math.prod(1 / (1 + math.exp(-t * s)) for t, s in zip(truths, sizes, strict=True))
            loss = float(np.dot(truths, sizes))

            def excess(z: float, loss: float = loss, e: float = e) -> float:
                return stats.norm.pdf(z) * max(0.0, -math.expm1(e - loss - mu * z - mu * mu / 2))

            start = (e - loss - mu * mu / 2) / mu
            exact += p * integrate.quad(excess, start, max(start, 0) + 12, epsabs=0, limit=200)[0]
        assert curve.delta(e) == pytest.approx(exact, rel=1e-6)
        if exact < 0.5:
            assert curve.epsilon(exact) == pytest.approx(e, rel=1e-5, abs=1e-6)


def test_against_dp_accounting() -> None:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    pure = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.05, 0.0))
    both = pure.self_compose(40).compose(pld.from_gaussian_mechanism(1 / 0.4))
    ours = compose([(Pure(0.05), 40), Gaussian(0.4)])
    assert ours.epsilon(1e-6) == pytest.approx(both.get_epsilon_for_delta(1e-6), rel=2e-3)
    # Laplace noise composes by divergences: never below the truth, and close to it
    for size, count, slack in [(0.1, 30, 1.15), (1.0, 10, 1.3), (0.01, 1000, 1.15)]:
        exact = pld.from_laplace_mechanism(1 / size).self_compose(count).get_epsilon_for_delta(1e-6)
        ours = compose([(Laplace(size), count)]).epsilon(1e-6)
        assert exact * (1 - 1e-3) <= ours <= slack * exact


def test_selection_figures() -> None:
    # one hundred and one thousand Frank-Wolfe steps at (1, 1e-6)
    assert compose([(BoundedRange(2 / 44.8), 99)]).epsilon(1e-6) == pytest.approx(1.0, abs=1e-3)
    assert compose([(BoundedRange(2 / 143.1), 999)]).epsilon(1e-6) == pytest.approx(1.0, abs=1e-3)
    # optimal composition of arbitrary pure steps
    laplace = 2 / (math.sqrt(8 * 100 * math.log(1e6)))
    assert compose([(Pure(laplace), 100)]).epsilon(1e-6) == pytest.approx(0.774, abs=2e-2)


def test_adaptive_choices_never_exceed_bounded_range() -> None:
    # Two rounds of choices among two; the second depends on the first. All positions of the range.
    rng = np.random.default_rng(3)
    size = 1.0
    curve = compose([(BoundedRange(size), 2)])

    def pair(t: float) -> tuple[np.ndarray, np.ndarray]:
        q = (math.exp(-t) - math.exp(-size)) / (1 - math.exp(-size))
        return np.array([q * math.exp(t), 1 - q * math.exp(t)]), np.array([q, 1 - q])

    bounds = {e: curve.delta(e) for e in (0.0, 0.4, 1.0, 1.7)}
    for _ in range(300):
        (p0, q0), (p1, q1), (p2, q2) = (pair(t) for t in rng.uniform(0, size, 3))
        p = np.concatenate([p0[0] * p1, p0[1] * p2])
        q = np.concatenate([q0[0] * q1, q0[1] * q2])
        for e, bound in bounds.items():
            assert np.maximum(p - math.exp(e) * q, 0).sum() <= bound + 1e-12


def test_mixture_is_the_least_of_valid_bounds() -> None:
    curve = compose([Gaussian(0.2), (BoundedRange(0.02), 100)])
    assert curve.pure is None
    assert curve.gdp is None
    assert curve.zcdp == pytest.approx(0.02 + 100 * 0.02**2 / 8)
    assert curve.rdp(5.0) == pytest.approx(0.1 + 100 * BoundedRange(0.02).rdp(5.0))
    by_rho = ZeroConcentrated(curve.zcdp).epsilon(1e-6)
    assert curve.epsilon(1e-6) <= by_rho
    # next to a tiny selection, the Gaussian part keeps its exact curve
    nearly = compose([Gaussian(0.2), BoundedRange(1e-4)])
    assert nearly.epsilon(1e-6) == pytest.approx(gaussian.epsilon(1e-6, 0.2), rel=1e-3)
    assert nearly.epsilon(1e-6) >= gaussian.epsilon(1e-6, 0.2)
    assert curve.delta(curve.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-3)


def test_profiles_add_epsilons_and_deltas() -> None:
    profile = Profile(lambda e: gaussian.delta(e, 0.3))
    both = compose([(profile, 2), Gaussian(0.1)])
    epsilon = both.epsilon(1e-6)
    exact = gaussian.epsilon(1e-6, math.sqrt(2 * 0.09 + 0.01))
    assert exact <= epsilon < 3 * exact
    assert both.delta(epsilon) >= gaussian.delta(epsilon, math.sqrt(0.19))
    assert both.delta(epsilon) <= 1.03e-6
    assert gaussian.delta(1e-3, math.sqrt(0.19)) <= both.delta(1e-3) < 1.0


def test_disjoint_records() -> None:
    assert parallel(Gaussian(1.0), Gaussian(2.0), Gaussian(1.5)) == Gaussian(2.0)
    assert parallel(Pure(1.0), Pure(1.0)) == Pure(1.0)
    assert parallel() == Pure(0.0)
    assert isinstance(parallel(NoPrivacy(), Pure(1.0)), NoPrivacy)
    worst = parallel(Gaussian(0.3), Pure(1.0), Gaussian(0.2))
    assert isinstance(worst, Worst)
    assert (worst.pure, worst.gdp) == (None, None)
    assert worst.zcdp == Pure(1.0).zcdp
    for delta in (1e-9, 1e-3):
        each = [Gaussian(0.3).epsilon(delta), Pure(1.0).epsilon(delta)]
        assert worst.epsilon(delta) == max(each)
    for e in (0.0, 0.5, 2.0):
        assert worst.delta(e) == max(Gaussian(0.3).delta(e), Pure(1.0).delta(e))
    # composed with something else it is at least the worst of the two compositions
    total = compose([worst, Gaussian(0.5)])
    for other in (Gaussian(0.3), Pure(1.0)):
        assert total.epsilon(1e-6) >= compose([other, Gaussian(0.5)]).epsilon(1e-6) * (1 - 1e-9)
    assert parallel(Pure(1.0), BoundedRange(2.0)).pure == 2.0


def test_merging_and_round_trip() -> None:
    curve = compose([Pure(0.1), (BoundedRange(0.2), 3), compose([Pure(0.1), Gaussian(0.3)])])
    assert dict(curve.parts) == {Gaussian(0.3): 1, Pure(0.1): 2, BoundedRange(0.2): 3}
    for one in (curve, parallel(curve, Pure(3.0)), compose([Renyi((2.0,), (0.1,)), Pure(0.1)])):
        again = curves.from_dict(json.loads(json.dumps(one.to_dict())))
        assert again == one
        assert again.epsilon(1e-6) == one.epsilon(1e-6)
    assert isinstance(compose([NoPrivacy(), Gaussian(1.0)]), NoPrivacy)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="compose takes privacy curves"):
        compose([0.5])
    with pytest.raises(ValueError, match="count"):
        compose([(Pure(1.0), -1)])
    with pytest.raises(TypeError, match="count"):
        compose([(Pure(1.0), 1.5)])
    with pytest.raises(TypeError, match="parallel takes privacy curves"):
        parallel(Pure(1.0), 2.0)


def test_huge_compositions_do_not_enumerate() -> None:
    many = compose([(Pure(0.001 * (1 + k / 7)), 1000) for k in range(8)])
    assert math.isfinite(many.epsilon(1e-6))
    assert many.epsilon(1e-6) <= ZeroConcentrated(many.zcdp).epsilon(1e-6)


def test_delta_is_never_rounded_down_to_zero() -> None:
    curve = compose([Gaussian(1e-6), Pure(0.4)])
    assert curve.delta(1.0) > 0.0
    assert curve.epsilon() == math.inf


@pytest.mark.parametrize("large", [700.0, 3500.0, 1e5, 9.9e6])
@pytest.mark.parametrize("kind", [Pure, BoundedRange])
def test_huge_pure_releases_are_not_sold_as_gaussian_ones(kind, large):
    """A mu whose quantile underflows used to stop at 75, and claimed 6064 where 9,904,000 is true."""
    together = compose([kind(large), kind(3.0)])
    # randomised response keeps both truths with probability near 1; a choice among two candidates
    # whose odds differ by e^epsilon leaks at least half of its epsilon that way
    least = (large + 3.0) * (1.0 if kind is Pure else 0.5) - 1.0
    assert least <= together.epsilon(1e-6) <= large + 3.0
    assert together.delta(0.99 * least) > 1e-6
    assert kind(large).gdp_bound ** 2 > 1.9 * least  # about mu^2/2 >= epsilon for that mu


@pytest.mark.parametrize("mu", [1e-170, 1e-200, 1e-300])
def test_gaussian_releases_whose_squares_vanish_are_still_counted(mu: float):
    together = compose([Gaussian(mu), (Gaussian(mu), 3)])
    assert together == Gaussian(2.0 * mu)
    assert together.pure is None
    assert together.delta(0.0) > 0.0
    # one of them among others, where only the bound on mu knows of it
    mixed = compose([Gaussian(mu), (ZeroConcentrated(1e-3), 1)])
    assert mixed.pure is None


def test_root_of_squares_against_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parts = [(10.0 ** rng.uniform(-150, 150), int(rng.integers(1, 9))) for _ in range(4)]
        with mpmath.workdps(40):
            exact = mpmath.sqrt(sum(count * mpmath.mpf(mu) ** 2 for mu, count in parts))
        found = compose([(Gaussian(mu), count) for mu, count in parts]).gdp
        assert abs(found / float(exact) - 1.0) < 1e-15


def test_gaussian_releases_of_any_size() -> None:
    assert compose([Gaussian(1.7e308), Gaussian(1.7e308)]).epsilon(0.5) == math.inf
    assert compose([Gaussian(1e200), Pure(1.0)]).epsilon(0.5) == math.inf
    tiny = compose([Gaussian(1e-320), Pure(1.0)])
    assert tiny.epsilon(1e-6) == pytest.approx(Pure(1.0).epsilon(1e-6))
    assert tiny.delta(0.5) >= Pure(1.0).delta(0.5) * (1 - 1e-15)
    assert tiny.pure is None
