"""The price of the best of a random number of runs: the papers' values, dp_accounting, and exact densities."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from reticent.privacy import (
    BestOf,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    ObjectivePerturbation,
    Profile,
    Pure,
    Release,
    compose,
    gaussian,
    parallel,
)
from reticent.privacy.curves import epsilon_from, from_dict

ONCE = Gaussian(Budget(1.0, 1e-6).mu)


def by_divergence(curve: BestOf, delta: float) -> float:
    return epsilon_from(curve.rdp, delta)


@pytest.mark.parametrize(("shape", "value"), [(0.0, 1.798), (1.0, 2.150)])
def test_published_values(shape: float, value: float) -> None:
    """A (1, 1e-6)-Gaussian base, ten runs expected, by Theorem 2 of Papernot and Steinke."""
    curve = BestOf(ONCE, 10.0, shape)
    assert round(by_divergence(curve, 1e-6), 3) == value
    assert curve.epsilon(1e-6) < value  # profiles are tighter


def test_poisson_is_dearer() -> None:
    """The Poisson law, not offered here: e + m d' + log(m)/(l - 1), d' at log(1 + 1/(l-1))."""

    def rdp(order: float) -> float:
        d = ONCE.delta(math.log1p(1.0 / (order - 1.0)))
        return ONCE.rdp(order) + 10.0 * d + math.log(10.0) / (order - 1.0)

    assert round(epsilon_from(rdp, 1e-6), 3) == 1.925
    assert BestOf(ONCE, 10.0).epsilon(1e-6) < 1.925


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [1.5, 10.0, 200.0])
def test_dp_accounting(shape: float, mean: float) -> None:
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting import dp_event, rdp

    orders = 1.0 + np.geomspace(0.01, 300.0, 400)
    accountant = rdp.RdpAccountant(orders)
    base = accounting.GaussianDpEvent(1.0 / ONCE.mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(base, mean, shape))
    theirs = accountant.get_epsilon(1e-6)
    ours = BestOf(ONCE, mean, shape)
    assert by_divergence(ours, 1e-6) <= theirs * (1 + 1e-9)
    assert by_divergence(ours, 1e-6) > 0.97 * theirs
    assert ours.epsilon(1e-6) <= theirs


def weights(curve: BestOf, below: np.ndarray) -> np.ndarray:
    """The derivative of the generating function of the number of runs, by its own series."""
    g, shape = curve.stopping, curve.shape
    k = np.arange(1, 1500)
    if shape == 0.0:
        log_p = k * math.log1p(-g) - np.log(k) - math.log(math.log(1.0 / g))
    else:
        steps = np.cumsum(np.log((k - 1 + shape) / k))
        log_p = k * math.log1p(-g) + steps - math.log(g**-shape - 1.0)
    p = np.exp(log_p)
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    assert (k * p).sum() == pytest.approx(curve.mean, rel=1e-4)
    return np.polynomial.polynomial.polyval(below, k * p)


@pytest.mark.parametrize("shape", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("mean", [3.0, 20.0])
@pytest.mark.parametrize("mu", [0.25, 1.0])
def test_exact_densities(shape: float, mean: float, mu: float) -> None:
    """A run that shows its score, a Gaussian: the law of the best is known, and so is its hockey stick."""
    curve = BestOf(Gaussian(mu), mean, shape)
    y = np.linspace(-8.0, 8.0 + mu, 3001)
    worlds = [norm.pdf(y - c) * weights(curve, norm.cdf(y - c)) for c in (0.0, mu)]
    step = y[1] - y[0]
    for epsilon in (0.3, 1.0, 2.0):
        exact = max(
            step * np.maximum(a - math.exp(epsilon) * b, 0.0).sum()
            for a, b in (worlds, worlds[::-1])
        )
        assert exact <= curve.delta(epsilon) * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize("mean", [2.0, 7.0, 60.0])
def test_scores_in_any_order(mean: float) -> None:
    """Runs with a few outputs, ranked arbitrarily: the law of the best is exact sums, and no promise is broken."""
    rng = np.random.default_rng(0)
    g = 1.0 / mean
    worst = 0.0
    for trial in range(300):
        size = int(rng.integers(2, 12))
        one = rng.dirichlet(np.full(size, rng.choice([0.1, 1.0, 10.0])))
        spread = rng.choice([0.05, 0.5, 2.0])
        two = one * np.exp(rng.uniform(-spread, spread, size))
        two /= two.sum()
        if trial % 3 == 0:  # by the likelihood ratio, which should be hardest
            order = np.argsort(two / one)
            one, two = one[order], two[order]

        def profile(e: float, a: np.ndarray = one, b: np.ndarray = two) -> float:
            return float(max(np.maximum(p - math.exp(e) * q, 0).sum() for p, q in ((a, b), (b, a))))

        # the best of K runs is among the first k outputs with probability f(F_k), f(z) = g z/(1 - (1-g) z)
        worlds = []
        for law in (one, two):
            z = np.minimum(np.cumsum(law), 1.0)
            worlds.append(np.diff(g * z / (1.0 - (1.0 - g) * z), prepend=0.0))
        curve = BestOf(Profile(profile), mean)
        for epsilon in (0.05, 0.2, 0.8, 2.0):
            exact = max(
                np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (worlds, worlds[::-1])
            )
            assert exact <= curve.delta(epsilon) * (1 + 1e-9) + 1e-12
            worst = max(worst, exact / curve.delta(epsilon))
    assert worst > 0.5  # and the promise is not idle


def test_pure() -> None:
    curve = BestOf(Pure(0.5), 10.0)
    assert curve.pure <= 3 * 0.5
    assert curve.pure == pytest.approx(0.5 + 2 * math.log(0.1 + 0.9 * math.exp(0.5)))
    assert curve.delta(curve.pure) == 0.0
    assert BestOf(Laplace(0.5), 10.0, 0.0).pure <= 2 * 0.5
    assert BestOf(Pure(0.0), 5.0).pure == 0.0
    # randomised response that shows its answer as its score: the largest ratio there is
    e, g = 0.5, 0.1
    yes = 1 / (1 + math.exp(-e))
    best = [
        1 - g * (1 - p) / (1 - (1 - g) * (1 - p)) for p in (yes, 1 - yes)
    ]  # that any run says yes
    assert math.log((1 - best[1]) / (1 - best[0])) <= curve.pure


def test_it_is_a_curve() -> None:
    base = parallel(compose([ObjectivePerturbation(0.2, 0.1, one_sided=True), Gaussian(0.1)]),
                    Gaussian(0.25))  # fmt: skip
    curve = BestOf(base, 4.0)
    assert from_dict(curve.to_dict()) == curve
    for delta in (1e-9, 1e-6, 1e-3):
        assert curve.delta(curve.epsilon(delta)) <= delta * (1 + 1e-6)
        assert curve.epsilon(delta) > base.epsilon(delta)
    with pytest.raises(ValueError, match="neighbours"):
        Guarantee([Release("search", curve, None, "some")], neighbours="replace")
    for wrong in ({"mean": 1.0}, {"mean": 2.0, "shape": -1.0}, {"mean": math.inf}):
        with pytest.raises(ValueError, match=r"mean|shape"):
            BestOf(ONCE, **wrong)
    assert BestOf(ONCE, 2.0).epsilon(1e-6) < BestOf(ONCE, 50.0).epsilon(1e-6)
    assert gaussian.epsilon(1e-6, ONCE.mu) < BestOf(ONCE, 1.0 + 1e-9).epsilon(1e-6) < 1.01


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 599.0, 650.0, 1e3, 1e6])
def test_pure_at_any_epsilon(epsilon: float) -> None:
    """The best of a geometric number of runs costs up to three times one; it said one plus 1,200 from 600 on."""
    best = BestOf(Pure(epsilon), 10.0)
    with mpmath.workdps(60):
        left_out = mpmath.mpf(1) / 10
        exact = epsilon + 2 * mpmath.log(left_out + (1 - left_out) * mpmath.exp(epsilon))
    assert best.pure == pytest.approx(float(exact), rel=1e-10)
    assert best.pure >= float(exact) * (1.0 - 1e-15)
    assert 0.0 < best.epsilon(1e-6) <= best.pure
    assert best.delta(0.5 * epsilon) <= 1.0


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0, 2.0, 50.0])
@pytest.mark.parametrize("mean", [1.0 + 1e-11, 1.0 + 1e-6, 1.5, 1e6])
@pytest.mark.parametrize("epsilon", [1e-5, 0.3, 3.0])
def test_randomised_response_whose_second_run_is_rare(shape, mean, epsilon) -> None:
    """The exact law of the best of K answers: the good one comes out unless all runs give the other."""
    curve = BestOf(Pure(epsilon), mean, shape)
    with mpmath.workdps(700):
        m, eta = mpmath.mpf(mean), mpmath.mpf(shape)

        def expected(log: mpmath.mpf) -> mpmath.mpf:
            g = mpmath.exp(log)
            slope = -log if eta == 0 else (1 - g**eta) / eta
            return (1 - g) / (g * slope)

        low, high = mpmath.mpf(-600), -(mpmath.mpf(10) ** -40)
        for _ in range(400):
            middle = (low + high) / 2
            low, high = (middle, high) if expected(middle) > m else (low, middle)
        g = mpmath.exp(low)

        def best(p: mpmath.mpf) -> mpmath.mpf:
            z = 1 - p
            if eta == 0:
                return 1 - mpmath.log(1 - (1 - g) * z) / mpmath.log(g)
            return 1 - ((1 - (1 - g) * z) ** -eta - 1) / (g**-eta - 1)

        truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        for p, q in [(truth, 1 - truth), (1 - truth, truth)]:
            a, b = best(p), best(q)
            for one, other in [(a, b), (1 - a, 1 - b)]:
                assert mpmath.log(one / other) <= curve.pure
                for share in (0.0, 0.5, 1.0, 1.0 + 1e-12, 1.5):
                    e = share * epsilon
                    assert one - mpmath.exp(e) * other <= curve.delta(e), (share, p)


def test_a_mean_that_no_parameter_gives_is_refused() -> None:
    with pytest.raises(ValueError, match="use a smaller mean, or a larger shape"):
        BestOf(Pure(1.0), 1e5, shape=-0.99)
