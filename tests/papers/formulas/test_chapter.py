"""The printed noise of the chapter on private optimisation and its true epsilon, recomputed independently."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import binom

from reticent import papers

from .reference import close, composed_epsilon, gaussian_epsilon, pld_epsilon, tree_mu


def test_exponential_mechanism_attains():
    item = papers.exponential_mechanism(1.0, norm=2.0, diameter=3.0)
    assert item.scale == 12.0

    # Linear losses on [0, 3]: many copies of a slope that pushes to the left, one record changed.
    def log_density(slope: float) -> float:  # at the right end
        rate = slope / item.scale
        return -rate * 3.0 - math.log(-math.expm1(-rate * 3.0) / rate)

    many = 3000.0
    assert close(log_density(many - 2.0) - log_density(many), item.true_epsilon(), 1e-2)
    assert close(log_density(many - 2.0) - log_density(many + 2.0),
                 item.true_epsilon(neighbours="replace"), 1e-2)  # fmt: skip
    assert log_density(many - 2.0) - log_density(many + 2.0) <= 1.0


def huber_slope(theta: np.ndarray | float, knee: float, slope: float) -> np.ndarray:
    return np.clip(slope * (theta - knee), -1.0, 1.0)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_objective_perturbation_gamma_attains(epsilon):
    item = papers.objective_perturbation_gamma(epsilon, smoothness=1.0)
    ridge = 1.0 / (1.0 - math.exp(-epsilon / 2))
    assert close(item.regulariser, ridge, 1e-12)
    assert close(item.true_epsilon(), epsilon / 2 + math.log1p(1 / ridge), 1e-12)
    theta = np.linspace(-20, 20, 400_001)

    def log_density(knees: list[float]) -> np.ndarray:
        force = ridge * theta + sum((huber_slope(theta, k, 1.0) for k in knees), np.zeros(1))
        inside = sum(((np.abs(theta - k) < 1.0).astype(float) for k in knees), np.zeros(1))
        return -np.abs(force) / item.scale + np.log(ridge + inside)

    def apart(knees: list[float], others: list[float]) -> float:
        difference = log_density(knees) - log_density(others)
        return float(np.abs(difference).max())

    blanked = max(apart([], [knee]) for knee in np.linspace(-8, 8, 33))
    assert blanked <= item.true_epsilon() + 1e-9
    assert close(blanked, item.true_epsilon(), 1e-3)
    replaced = max(apart([a], [b]) for a in np.linspace(-8, 8, 17) for b in (-7.3, 0.2, 6.0))
    assert replaced <= item.true_epsilon(neighbours="replace") + 1e-9
    if epsilon == 1.0:
        assert close(item.regulariser, 2.54)
        assert close(item.true_epsilon(), 0.832)


@pytest.mark.parametrize(
    ("epsilon", "delta", "regulariser", "share"),
    [(1.0, 1e-3, 2.0, 0.02), (4.0, 1e-2, 0.5, 0.02), (1.0, 1e-3, 200.0, 0.4)],
)
def test_objective_perturbation_gaussian_against_integration(epsilon, delta, regulariser, share):
    item = papers.objective_perturbation_gaussian(
        epsilon, delta, smoothness=1.0, regulariser=regulariser
    )
    assert close(item.scale**2, (8 * math.log(2 / delta) + 4 * epsilon) / epsilon**2, 1e-12)
    assert item.regulariser == regulariser
    ridge, sigma = regulariser, float(item.scale)
    wide = 8 * sigma / ridge
    theta = np.linspace(-wide, wide, 200_001)

    def density(knees: list[float]) -> np.ndarray:
        force = ridge * theta + sum((huber_slope(theta, k, 1.0) for k in knees), np.zeros(1))
        inside = sum(((np.abs(theta - k) < 1.0).astype(float) for k in knees), np.zeros(1))
        return (
            np.exp(-0.5 * (force / sigma) ** 2)
            * (ridge + inside)
            / (sigma * math.sqrt(2 * math.pi))
        )

    def hockey(p: np.ndarray, q: np.ndarray, at: float) -> float:
        return float(np.maximum(p - math.exp(at) * q, 0.0).sum() * (theta[1] - theta[0]))

    blank = density([])
    knees = np.linspace(-wide - 2, wide + 2, 61)
    densities = [density([float(knee)]) for knee in knees]
    at = item.true_epsilon()
    worst = max(max(hockey(blank, p, at), hockey(p, blank, at)) for p in densities)
    assert share * delta < worst <= delta * (1 + 1e-3)
    at = item.true_epsilon(neighbours="replace")
    few = densities[::6]
    assert max(hockey(p, q, at) for p in few for q in few) <= delta * (1 + 1e-3)
    assert at < 2.2 * item.true_epsilon()


def test_objective_perturbation_gaussian_figure():
    item = papers.objective_perturbation_gaussian(1.0, 1e-6, smoothness=1.0)
    assert close(item.scale, 10.96)
    assert item.claim_is_proved()
    ratio, c = 1 / item.scale, math.log(1.5)
    expected = max(c + gaussian_epsilon(ratio, 1e-6), gaussian_epsilon(ratio, 5e-7))
    assert close(item.true_epsilon(), expected, 1e-9)
    # the Renyi road for replacement, its moment by integration
    order, s = 30.0, 2 * ratio
    density = lambda z: math.exp((order - 1) * s * abs(z) - z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    moment = c + s * s / 2 + math.log(quad(density, -60, 60, limit=400)[0]) / (order - 1)
    closed = c + order * s * s / 2 + (math.log(2) + log_ndtr((order - 1) * s)) / (order - 1)
    assert close(moment, closed, 1e-6)
    bound = moment + math.log1p(-1 / order) - (math.log(1e-6) + math.log(order)) / (order - 1)
    assert item.replace.epsilon(1e-6) <= bound + 1e-9


@pytest.mark.parametrize(
    ("epsilon", "delta", "zero_out", "replace"),
    [(1.0, 1e-6, 0.7613, 1.610), (0.1, 1e-5, 0.0611, 0.1306), (8.0, 1e-6, 6.086, 13.90)],
)
def test_gradient_descent(epsilon, delta, zero_out, replace):
    for steps in (1, 100):
        item = papers.gradient_descent(epsilon, delta, steps=steps, norm=5.0)
        assert close(item.true_epsilon(), zero_out, 1e-3)
        assert close(item.true_epsilon(neighbours="replace"), replace, 1e-3)
    mu = epsilon / math.sqrt(2 * (math.log(1 / delta) + epsilon))
    assert close(item.true_epsilon(), gaussian_epsilon(mu, delta), 1e-9)
    assert close(item.true_epsilon(), pld_epsilon(mu, delta), 1e-3)


def test_stochastic_gradient_descent_by_convolution():
    item = papers.stochastic_gradient_descent(1.0, 1e-6, steps=100, n=100, norm=2.0)
    assert close(item.true_epsilon(), 6.24)
    assert not item.claim_is_proved()
    # The loss of one step on a grid, rounded down and up, and 100 of them by FFT.
    z, q, step = float(item.scale) / 200.0, 0.01, 1e-3
    y = np.linspace(-1 - 14 * z, 1 + 14 * z, 1_500_001)
    width = y[1] - y[0]
    blank = -0.5 * (y / z) ** 2 - 0.5 * math.log(2 * math.pi * z * z)
    up, down = (
        np.logaddexp(math.log1p(-q) + blank, math.log(q) + blank + (2 * side * y - 1) / (2 * z * z))
        for side in (1, -1)
    )
    for neighbours, pairs in (("zero-out", ((up, blank), (blank, up))), ("replace", ((up, down),))):
        bounds = []
        for rounding in (np.floor, np.ceil):
            worst = 0.0
            for p, r in pairs:
                index = rounding((p - r) / step).astype(int)
                size = 1 << 20
                masses = np.bincount(index - index.min(), np.exp(p) * width, minlength=size)
                # the sum is read modulo the grid, from a place below all but a tiny part of it
                total = np.fft.irfft(np.fft.rfft(masses) ** 100, size)
                start = -size // 2
                total = np.roll(total, 100 * int(index.min()) - start)
                loss = (np.arange(size) + start) * step
                keep = total > 1e-16  # below that it is the rounding of the transform
                loss, total = loss[keep], total[keep]
                grid = np.linspace(5, 8, 601)
                deltas = [float((total * -np.expm1(np.minimum(e - loss, 0.0))).sum()) for e in grid]
                worst = max(worst, float(grid[np.argmax(np.array(deltas) <= 1e-6)]))
            bounds.append(worst)
        true = item.true_epsilon(neighbours=neighbours)
        assert bounds[0] - 0.01 <= true <= bounds[1] + 0.01
        assert bounds[1] - bounds[0] < 0.12


def test_stochastic_gradient_descent_figures():
    for n, steps, true in ((100, 10**4, 0.771), (100, 1000, 0.876), (1000, 1000, 107.5)):
        item = papers.stochastic_gradient_descent(1.0, 1e-6, steps=steps, n=n)
        assert close(item.true_epsilon(), true)
        from dp_accounting.pld import privacy_loss_distribution as pld

        optimistic = pld.from_gaussian_mechanism(
            float(item.scale) / n, sampling_prob=1 / n, pessimistic_estimate=False,
            value_discretization_interval=1e-4 * max(1.0, (n / float(item.scale)) ** 2) / 5,
            use_connect_dots=False,
        ).self_compose(steps).get_epsilon_for_delta(1e-6)  # fmt: skip
        assert optimistic <= item.true_epsilon()


@pytest.mark.parametrize(
    ("horizon", "epsilon", "true"),
    [(2, 1.0, 1.106), (2, 8.0, 9.13), (4, 1.0, 0.947), (1024, 1.0, 0.801)],
)
def test_ftrl(horizon, epsilon, true):
    item = papers.ftrl(epsilon, 1e-6, horizon=horizon)
    assert close(item.true_epsilon(), true, 1e-3)
    if horizon < 100:
        assert close(item.zero_out.mu, tree_mu(horizon) / item.scale, 1e-9)
        less = papers.ftrl(epsilon, 1e-6, horizon=horizon, released=horizon - 1)
        assert less.claim_is_proved()
    assert math.isinf(papers.ftrl(epsilon, 1e-6, horizon=1).true_epsilon())


def test_frank_wolfe_figures():
    printed = papers.frank_wolfe_laplace(1.0, 1e-6, steps=100, n=100, norm=2.0, radius=3.0)
    assert close(printed.scale, 6.0 * 1.0513, 1e-3)
    assert close(printed.true_epsilon(), 185.26, 1e-3)
    assert close(printed.true_epsilon(), composed_epsilon(200 / 105.1304, 99, 1e-6), 1e-5)
    assert papers.frank_wolfe_laplace(1.0, 1e-6, steps=100, n=10**4).true_epsilon() > 4950
    for epsilon, delta, steps, true in ((1.0, 1e-6, 100, 0.774), (8.0, 1e-6, 100, 7.690),
                                        (20.0, 1e-3, 50, 27.14)):  # fmt: skip
        item = papers.frank_wolfe_laplace(epsilon, delta, steps=steps, n=77, loss="average")
        assert close(item.true_epsilon(), true, 1e-3)
        step = 2 * epsilon / math.sqrt(8 * steps * math.log(1 / delta))
        assert close(item.true_epsilon(), composed_epsilon(step, steps - 1, delta), 1e-6)
    assert not item.claim_is_proved()


def test_frank_wolfe_as_printed_is_really_broken():
    """Two vertices, a linear loss: 99 noisy comparisons tell one record apart, exactly computed."""
    item = papers.frank_wolfe_laplace(1.0, 1e-6, steps=100, n=100)

    def first_wins(gap: float) -> float:  # P[gap + Lap - Lap > 0], unit scale
        tail = 0.5 * math.exp(-abs(gap)) * (1 + abs(gap) / 2)
        return 1 - tail if gap > 0 else tail

    move = 2 / float(item.scale)  # one vertex up, one down
    with_record, without = first_wins(move / 2), first_wins(-move / 2)
    wins = np.arange(100)
    log_p, log_q = binom.logpmf(wins, 99, with_record), binom.logpmf(wins, 99, without)
    lower = 20.0  # at epsilon = 20 the hockey stick is still far above the claimed delta
    delta = float(np.maximum(np.exp(log_p) - np.exp(lower + log_q), 0.0).sum())
    assert delta > 0.5
    assert item.true_epsilon() > lower > item.claimed[0]
