"""The Gaussian trade-off against 120 digits, dp-accounting and published figures."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from reticent.privacy import gaussian

EPSILONS = [0.0, 1e-4, 1e-2, 0.5, 1.0, 8.0, 100.0, 1e4, 1e7]
DELTAS = [1e-300, 1e-100, 1e-20, 1e-6, 1e-3, 0.1, 0.5]


def reference(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(120 if mu > 1e-20 else 700):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        a, b = e / m - m / 2, e / m + m / 2
        root = mpmath.sqrt(2)
        return mpmath.erfc(a / root) / 2 - mpmath.exp(e) * mpmath.erfc(b / root) / 2


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1e-3, 0.1, 2.3, 20.0, 1e3, 1e5, 1e6])
def test_log_delta_over_the_whole_range(epsilon: float) -> None:
    mus = [*(10.0 ** np.arange(-9, 5.25, 0.5)), 1.3, 1.41421, 1.41422, 2.0, 5.0]
    mus += [math.sqrt(2 * epsilon) * f for f in (0.9, 0.999, 1.0, 1.001, 1.1) if epsilon > 0]
    for mu in map(float, mus):
        exact = reference(epsilon, mu)
        assert exact > 0
        with mpmath.workdps(120):
            error = abs(mpmath.mpf(gaussian.log_delta(epsilon, mu)) - mpmath.log(exact))
            allowed = gaussian._margin(float(mpmath.log(exact)))
        # a quarter of the margin that the roots step back by
        assert error < allowed / 4, (epsilon, mu)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_the_largest_and_never_above_the_truth(epsilon: float, delta: float) -> None:
    mu = gaussian.mu(epsilon, delta)
    assert reference(epsilon, mu) <= delta
    assert reference(epsilon, mu * (1 + 1e-9)) > delta


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.05, 1.0, 30.0, 1e3])
def test_epsilon_is_the_smallest_and_never_below_the_truth(mu: float, delta: float) -> None:
    epsilon = gaussian.epsilon(delta, mu)
    assert reference(epsilon, mu) <= delta
    if epsilon > 0:
        assert reference(epsilon * (1 - 1e-9), mu) > delta
    else:
        assert reference(0.0, mu) <= delta


def test_known_figures() -> None:
    figures = {(1, 1e-6): 0.236704, (1, 1e-5): 0.268051, (0.1, 1e-5): 0.0325208,
               (3, 1e-6): 0.647727, (8, 1e-6): 1.531545}  # fmt: skip
    for (epsilon, delta), mu in figures.items():
        assert gaussian.mu(epsilon, delta) == pytest.approx(mu, rel=2e-6)


def test_against_dp_accounting() -> None:
    from dp_accounting import gaussian_mechanism
    from dp_accounting.pld import privacy_loss_distribution

    for epsilon, delta in [(0.1, 1e-5), (1.0, 1e-6), (3.0, 1e-9), (8.0, 1e-3)]:
        sigma = gaussian_mechanism.get_sigma_gaussian(epsilon, delta, tol=1e-12)
        assert 1.0 / gaussian.mu(epsilon, delta) == pytest.approx(sigma, rel=1e-6)
        distribution = privacy_loss_distribution.from_gaussian_mechanism(sigma)
        assert distribution.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=1e-3)


def test_limits() -> None:
    assert gaussian.delta(1.0, 0.0) == 0.0
    assert gaussian.epsilon(0.0, 0.0) == 0.0
    assert gaussian.epsilon(0.0, 1e-9) == math.inf
    assert gaussian.epsilon(1.0, 5.0) == 0.0
    assert gaussian.delta(1e7, 1e-9) == 5e-324  # never 0: Gaussian noise is not pure
    assert gaussian.delta(0.0, 1e5) == 1.0
    assert gaussian.log_delta(0.0, 0.0) == -math.inf
    # delta close to 1, where a budget is nearly empty of promise
    mu = gaussian.mu(1.0, 1 - 1e-9)
    assert gaussian.delta(1.0, mu) <= 1 - 1e-9


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (gaussian.delta, (-1.0, 1.0)),
        (gaussian.delta, (1.0, -1.0)),
        (gaussian.delta, (math.nan, 1.0)),
        (gaussian.delta, (1.0, math.inf)),
        (gaussian.epsilon, (-1e-9, 1.0)),
        (gaussian.epsilon, (1.1, 1.0)),
        (gaussian.mu, (1.0, 1.0)),
        (gaussian.mu, (-1.0, 0.1)),
        (gaussian.mu, (math.inf, 0.1)),
    ],
)
def test_bad_input(function, arguments) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        function(*arguments)


def test_bad_types_and_zero_delta() -> None:
    with pytest.raises(TypeError, match="epsilon"):
        gaussian.delta("1", 1.0)
    with pytest.raises(TypeError, match="mu"):
        gaussian.delta(1.0, True)
    with pytest.raises(ValueError, match="choose delta > 0"):
        gaussian.mu(1.0, 0.0)


@pytest.mark.parametrize("mu", [1e-3, 0.0076, 0.3, 2.0, 30.0])
def test_delta_is_never_below_the_truth(mu: float) -> None:
    for share in [
        *np.linspace(0.0, 35.0, 40),
        37.6,
        38.2,
        38.35,
    ]:  # the last ones give about 1e-310
        epsilon = 0.5 * mu * mu + float(share) * mu
        assert mpmath.mpf(gaussian.delta(epsilon, mu)) >= reference(epsilon, mu)


@pytest.mark.parametrize("mu", [5e-324, 1e-320, 1e-310])
def test_tiny_mu(mu: float) -> None:
    assert gaussian.epsilon(1e-6, mu) == 0.0
    assert gaussian.delta(0.0, mu) >= mu / math.sqrt(2 * math.pi)
    assert gaussian.delta(1.0, mu) == 5e-324


@pytest.mark.parametrize("mu", [1e10, 1e16, 1e19, 1e100, 1e151, 1e308])
@pytest.mark.parametrize("delta", [5e-324, 1e-6, 0.5, 1 - 1e-16])
def test_enormous_mu(mu: float, delta: float) -> None:
    epsilon = gaussian.epsilon(delta, mu)
    with mpmath.workdps(700):
        if epsilon < math.inf:  # Phi(-a) alone is an upper bound, close to the truth for such a mu
            a = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
            assert mpmath.erfc(a / mpmath.sqrt(2)) / 2 <= delta * (1 + 1e-8)
            assert epsilon <= (0.5 * mu * mu + 40.0 * mu) * (1 + 1e-14)
    assert gaussian.delta(1.0, mu) == 1.0


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("delta", [1 - 1e-12, 1 - 1e-15, 1 - 1e-16])
def test_mu_for_a_delta_close_to_one(epsilon: float, delta: float) -> None:
    mu = gaussian.mu(epsilon, delta)
    assert reference(epsilon, mu) <= delta
    assert reference(epsilon, mu + 3.0) > delta
