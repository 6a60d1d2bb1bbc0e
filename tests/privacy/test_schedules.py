"""Promises by age, of persons and of scaled fits under random schedules, recomputed from their definitions.

Filters are expanded as power series and summed in many digits (mpmath); compositions are held against the privacy
loss distributions of dp-accounting.
"""

from __future__ import annotations

import re

import mpmath
import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.estimators import PrivateLinearRegression, PrivateScaler
from reticent.privacy import Guarantee, Laplace, Participation, Pure, Release
from reticent.privacy.ages import Filtered
from reticent.sums.toeplitz import Toeplitz

DELTA = 1e-5


def series(filter_: Toeplitz, n: int) -> list[mpmath.mpf]:
    """c_0, ..., c_{n-1}: running sums of 1/b, from b(x) = prod (1 - ze x) / (1 - th x)."""
    c = [mpmath.mpf(1)] + [mpmath.mpf(0)] * (n - 1)
    for th, ze in zip(filter_.decay, filter_.inverse_decay, strict=True):
        for k in range(1, n):  # divided by 1 - ze x
            c[k] += mpmath.mpf(ze) * c[k - 1]
        for k in range(n - 1, 0, -1):  # times 1 - th x
            c[k] -= mpmath.mpf(th) * c[k - 1]
    for k in range(1, n):
        c[k] += c[k - 1]
    return c


def cost(c, rule: Participation, age: int, reach: float, slack: float) -> mpmath.mpf:
    """mu of a person whose records come as early as the rule allows, in the outputs up to an age."""
    total = [mpmath.mpf(0)] * age
    for record in range(rule.records_within(age)):
        for t in range(record * rule.min_gap, age):
            total[t] += c[t - record * rule.min_gap]
    return mpmath.sqrt(mpmath.fsum((reach * m + slack) ** 2 for m in total))


def delta_of(mu, epsilon: float) -> mpmath.mpf:
    """The hockey stick of N(mu, 1) and N(0, 1)."""
    e = mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize("seed", range(8))
def test_filters_by_age_and_person(seed):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.uniform(0.0, 1.0, 2 * int(rng.integers(1, 5)))) ** 2
    nodes[0] = nodes[0] if seed % 2 else 0.0  # every other one forgets nothing: endless
    filter_ = Toeplitz(gap=tuple(nodes[::2]), inverse_gap=tuple(nodes[1::2]))
    rule = Participation(int(rng.integers(1, 6)), int(rng.integers(1, 30)))
    reach, slack = float(rng.uniform(0.05, 0.5)), float(rng.choice([0.0, 1e-4]))
    claimed = Filtered(filter_.sensitivity, reach, slack, None, rule)
    with mpmath.workdps(60):
        c = series(filter_, 120)
        for age in sorted({1, 120, *rng.integers(2, 120, 4).tolist()}):
            truth = cost(c, rule, age, reach, slack)
            assert claimed.mu(age) == pytest.approx(float(truth), rel=1e-11)
            epsilon = claimed.at(age).epsilon(DELTA)
            if epsilon > 0.0:
                assert float(delta_of(truth, epsilon)) == pytest.approx(DELTA, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_built_for_random_profiles(seed):
    """Fading and endless totals of persons: the noise that is drawn keeps every promise that is printed."""
    rng = np.random.default_rng(100 + seed)
    first = int(rng.integers(2, 20))
    pairs = [(first, 1.0), (first + int(rng.integers(10, 60)), 1.0 + float(rng.uniform(0.1, 2.0)))]
    neighbours = ("zero-out", "replace")[seed % 2]
    budget = reticent.Budget(1.0, DELTA, neighbours, fade=pairs if seed < 2 else None)
    rule = Participation(int(rng.integers(2, 5)), int(rng.integers(1, 12)))
    made = sums.CorrelatedMechanism(1, budget=budget, participation=rule)
    moved = 1.0 if neighbours == "zero-out" else 2.0
    with mpmath.workdps(60):
        c = series(made.parameters, 100)
        for age in {1, 100, *(a for a, _ in pairs)}:
            truth = float(delta_of(
                cost(c, rule, age, moved / made.scale(), 0.0), made.guarantee.epsilon(DELTA, age=age)
            ))  # fmt: skip
            # the promise includes what the lattice may add, which is little
            assert 0.9 * DELTA <= truth <= DELTA * (1.0 + 1e-9)
    for age, epsilon in pairs if budget.fade else []:
        assert made.guarantee.epsilon(DELTA, age=age) <= epsilon * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_compositions_at_equal_age(seed):
    """Several fading streams of persons and releases that are made once, against privacy loss distributions."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rng = np.random.default_rng(200 + seed)
    ages = ((4, 0.5), (40, 0.9))
    budget = reticent.Budget(0.5, DELTA, fade=ages)
    rule = Participation(3, 5)
    streams = [
        sums.CorrelatedMechanism(1, budget=budget, participation=rule, norm=float(norm))
        for norm in rng.uniform(0.5, 2.0, int(rng.integers(1, 3)))
    ]
    once = [Laplace(float(rng.uniform(0.05, 0.3))) for _ in range(int(rng.integers(0, 3)))]
    once += [Pure(float(rng.uniform(0.05, 0.2))) for _ in range(int(rng.integers(0, 2)))]
    whole = sum((s.guarantee for s in streams[1:]), start=streams[0].guarantee)
    for curve in once:
        whole = whole + Guarantee.of(budget, [Release("a count", curve, 1.0, "any")], unit="person")
    for age in (4, 17, 40):
        mu = float(np.sqrt(sum(s.guarantee.at(age).gdp ** 2 for s in streams)))
        distributions = [
            pld.from_gaussian_mechanism(1.0 / mu, pessimistic_estimate=False, value_discretization_interval=1e-3)
        ]  # fmt: skip
        for curve in once:
            make = pld.from_laplace_mechanism if isinstance(curve, Laplace) else None
            distributions.append(
                make(1.0 / curve.pure, pessimistic_estimate=False, value_discretization_interval=1e-3)
                if make
                else pld.from_randomized_response(
                    2.0 / (1.0 + np.exp(curve.pure)), 2, pessimistic_estimate=False,
                    value_discretization_interval=1e-3,
                )
            )  # fmt: skip
        least = distributions[0]
        for other in distributions[1:]:
            least = least.compose(other)
        attained = least.get_epsilon_for_delta(DELTA)
        assert attained * (1.0 - 2e-3) - 4e-3 <= whole.epsilon(DELTA, age=age)
        assert whole.epsilon(DELTA, age=age) <= attained * 1.02 + 4e-3


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_scaled_fits_from_what_they_say_they_drew(seed, groups):
    """Every release prints how far it moves and its noise; composed anew these are the guarantee, within the budget."""
    rng = np.random.default_rng(300 + seed)
    rows = rng.uniform(-1.0, 1.0, (800, 3))
    ids = rng.integers(0, 400, 800) if groups else None
    budget = {
        "epsilon": float(rng.uniform(3.0, 6.0)), "delta": DELTA,
        "neighbours": ("zero-out", "replace")[seed % 2],
    }  # fmt: skip
    y = np.clip(rows[:, 0] + 0.1 * rng.standard_normal(800), -1, 1)
    common = budget | {"solver": "sufficient-statistics"}
    for model in (
        PrivateLinearRegression(**common, feature_norm=2.0, label_bounds=(-1, 1), random_state=0),
        PrivateLinearRegression(**common, feature_norm="private", label_bounds="private", random_state=0),
        PrivateScaler(**budget, bounds=(-1, 1), random_state=0),
    ):  # fmt: skip
        guarantee = model.fit(rows, y, groups=ids).guarantee_
        square = 0.0
        for release in guarantee.releases:
            said = re.search(r"standard deviation ([0-9.e+-]+)", release.noise)
            assert said is not None, release
            square += release.count * (release.sensitivity / float(said.group(1))) ** 2
        assert guarantee.gdp == pytest.approx(np.sqrt(square), rel=1e-4)
        with mpmath.workdps(40):
            assert float(delta_of(mpmath.sqrt(square), budget["epsilon"])) <= DELTA * (1 + 1e-3)
