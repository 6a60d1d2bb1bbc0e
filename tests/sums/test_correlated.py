"""Correlated noise against its recursion written out, the matrix of it, and the published window tree."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import papers, sums
from reticent.noise import lattice
from reticent.sums import correlated, mechanism
from reticent.sums.toeplitz import Toeplitz

from . import reference

GAUSSIAN = reference.GAUSSIAN


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))


def test_the_noise_is_the_recursion_of_the_filter(monkeypatch):
    for window, horizon in ((None, 50), (12, None), (64, 40), (7, 50)):
        steps = 50 if horizon is None else horizon
        budget = GAUSSIAN.with_(window=window)
        total = sums.Correlated(steps, horizon, budget=budget, noise_precision="float")
        size = (
            {"window": window}
            if horizon is None or (window or 99) < horizon
            else {"horizon": horizon}
        )
        noise = correlated.toeplitz(**size)
        known = reference.buffered(noise.decay, noise.weight, steps)
        found = reference.as_matrix(total, steps, monkeypatch) / total.error(1)
        assert np.allclose(found, known, rtol=0, atol=1e-13)


@pytest.mark.parametrize("buffers", [1, 3, 6])
def test_the_lattice_runs_the_same_filter(buffers, monkeypatch):
    total = sums.Correlated(64, 64, budget=GAUSSIAN, buffers=buffers)
    noise = correlated.toeplitz(horizon=64, buffers=buffers)
    known = reference.buffered(noise.decay, noise.weight, 64)
    found = reference.as_matrix(total, 64, monkeypatch) / total.error(1)
    assert np.allclose(found, known, rtol=0, atol=4 * 2.0**-30)


@pytest.mark.parametrize("decay", [2.0**-20, 2.0**-12])
def test_slow_buffers_lose_nothing_on_the_lattice(decay, monkeypatch):
    """Buffers that hardly forget, over a long run: the sum stays that of the recursion, in whole steps."""
    steps = 3000
    slow = Toeplitz(gap=(decay, 0.3), inverse_gap=(0.2, 0.7))
    monkeypatch.setattr(correlated, "toeplitz", lambda **_: slow)
    total = sums.Correlated(3, steps, budget=GAUSSIAN)
    rng = np.random.default_rng(5)
    draws = np.rint(rng.standard_normal((steps, 3)) * 2.0**30).astype(np.int64)
    drawn = 0

    def fill(out, scales):
        nonlocal drawn
        out[:] = draws[drawn : drawn + len(out)]
        drawn += len(out)

    with monkeypatch.context() as patch:
        reference.set_noise(patch, fill)
        outputs = total.run(np.zeros((steps, 3))) / total._noise.step
    wide = draws.astype(np.longdouble)
    state = np.zeros((2, 3), np.longdouble)
    weight = np.array(slow.weight, np.longdouble)[:, None]
    gap = np.array(slow.gap, np.longdouble)[:, None]
    for t in range(steps):
        known = wide[t] + (weight * state).sum(axis=0)
        assert np.abs(outputs[t] - known).max() <= 0.51 + 2.0**-52 * np.abs(known).max()
        state = state - gap * state + wide[t]


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("objective", ["max", "mean"])
def test_mu_is_that_of_the_worst_record_over_a_horizon(
    objective, precision, neighbours, monkeypatch
):
    budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours)
    tolerance = 1e-9 if precision == "float" else 1e-6
    for n in (1, 2, 3, 5, 8, 16, 27, 40, 64):
        total = sums.Correlated(
            n, n, budget=budget, norm=2.5, objective=objective, noise_precision=precision
        )
        matrix = reference.as_matrix(total, n, monkeypatch)
        exact = budget.sensitivity(2.5) * reference.worst_mu(matrix)
        assert total.guarantee.gdp >= exact * (1 - 1e-10)
        assert total.guarantee.meets(budget)
        # rounding costs something in each coordinate: equal for one, a little above for many
        assert total.guarantee.gdp == pytest.approx(exact, rel=20 * tolerance)
        one = sums.Correlated(
            1, n, budget=budget, norm=2.5, objective=objective, noise_precision=precision
        )
        exact *= total.error(1) / one.error(1)
        assert one.guarantee.gdp == pytest.approx(exact, rel=tolerance)
        assert one.guarantee.gdp >= exact * (1 - 1e-10)
        errors = [total.error(t) for t in range(1, n + 1)]
        assert np.allclose(errors, np.linalg.norm(matrix, axis=1), rtol=1e-7)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_mu_is_that_of_the_worst_record_in_a_window(precision, neighbours, monkeypatch):
    tolerance = 1e-9 if precision == "float" else 1e-6
    for window in (1, 2, 3, 7, 8, 20, 33, 64):
        budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours, window=window)
        steps = min(3 * window, 2 * window + 40)
        total = sums.Correlated(steps, budget=budget, noise_precision=precision)
        matrix = reference.as_matrix(total, steps, monkeypatch)
        exact = budget.sensitivity(1.0) * reference.worst_mu(matrix, window)
        assert total.guarantee.gdp == pytest.approx(exact, rel=tolerance)
        assert total.guarantee.gdp >= exact * (1 - 1e-10)
        assert total.guarantee.meets(budget)
        # a run shorter than the window is never worse than promised
        short = matrix[: max(1, window // 2)]
        assert total.guarantee.gdp >= reference.worst_mu(short, window) * (1 - 1e-8)


@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_no_horizon_against_the_matrix(precision, monkeypatch):
    total = sums.Correlated(60, None, budget=GAUSSIAN, noise_precision=precision)
    matrix = reference.as_matrix(total, 60, monkeypatch)
    assert total.guarantee.at(60).gdp == pytest.approx(reference.worst_mu(matrix), rel=1e-6)
    assert total.guarantee.gdp > total.guarantee.at(60).gdp
    errors = [total.error(t) for t in range(1, 61)]
    assert np.allclose(errors, np.linalg.norm(matrix, axis=1), rtol=1e-6)


def test_rounding_is_accounted_for():
    """In many dimensions and over many steps the promise is kept by a little more noise."""
    budget = reticent.Budget(1.0, 1e-6)
    rough = sums.Correlated(10_000, 2**20, budget=budget)
    smooth = sums.Correlated(10_000, 2**20, budget=budget, noise_precision="float")
    assert rough.guarantee.meets(budget)
    assert rough.error(1) > smooth.error(1)
    assert rough.error(1) == pytest.approx(smooth.error(1), rel=1e-3)


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_two_worlds_with_the_same_totals_are_as_close_as_promised(window, neighbours, monkeypatch):
    """On a lattice so coarse that rounding matters: the innovations that tell the worlds apart, counted."""
    monkeypatch.setattr(lattice, "STEPS", 2.0**8)
    budget = reticent.Budget(8.0, 1e-6, neighbours=neighbours, window=window)
    steps, worst = 48, 0.0
    rng = np.random.default_rng(11)

    def build():
        return sums.Correlated(3, None if window else steps, budget=budget, seed=0)

    for _ in range(60):
        record = int(rng.integers(0, steps - 9))
        apart = reference.worlds_apart(build, steps, record, neighbours, rng, monkeypatch)
        end = steps if window is None else record + window
        worst = max(worst, float(np.linalg.norm(apart[:end])))
    promised = build().guarantee.gdp
    assert 0.9 * promised < worst <= promised
    assert promised <= budget.mu * (1 + 1e-12)


def test_a_hundred_times_less_noise_than_the_published_window_tree():
    """(1, 1e-6), W = 1024: the printed sigma at every node of a total, against the stationary error."""
    window = 1024
    sigma = math.sqrt(8.0) * (math.ceil(math.log2(window)) + 1) * math.log(2.0 / 1e-6)
    assert papers.window_tree_gaussian(1.0, 1e-6, window=window).scale == pytest.approx(sigma)
    nodes = [len(reference.dyadic(t - window + 1, t)) for t in range(2 * window, 3 * window)]
    total = sums.Correlated(1, budget=reticent.Budget(1.0, 1e-6, window=window))
    mine = total.error(10**7)
    assert sigma * math.sqrt(max(nodes)) == pytest.approx(1497, abs=1)
    assert mine == pytest.approx(14.0, abs=0.1)
    assert sigma * math.sqrt(max(nodes)) >= 100 * mine
    assert sigma * math.sqrt(np.mean(nodes)) >= 100 * mine
    exact = sums.WindowTree(1, budget=reticent.Budget(1.0, 1e-6, window=window))
    assert max(exact.error(t) for t in range(2 * window, 3 * window)) == pytest.approx(
        46.5, abs=0.1
    )


@pytest.mark.parametrize("size", [64, 1024, 16384, 65536, 2**20])
def test_within_two_per_cent_of_the_square_root(size):
    f = np.cumprod(np.concatenate(([1.0], 1 - 0.5 / np.arange(1, size))))
    best = float(f @ f)
    horizon = sums.Correlated(1, size, budget=GAUSSIAN)
    assert best * 0.98 <= horizon.error(size) * horizon.guarantee.gdp <= best * 1.02
    if size <= 65536:
        window = sums.Correlated(1, budget=GAUSSIAN.with_(window=size))
        assert window.error(100 * size) * window.guarantee.gdp <= best * 1.02


def test_an_endless_window_has_bounded_error():
    total = sums.Correlated(1, budget=GAUSSIAN.with_(window=64))
    assert total.error(10**4) == pytest.approx(total.error(10**9), rel=1e-9)


def test_a_filter_is_looked_up_a_few_times_at_most(monkeypatch):
    """Where no cache can be written each look-up may cost seconds."""
    calls = []
    original = correlated.toeplitz

    def counted(**size):
        calls.append(size)
        return original(**size)

    monkeypatch.setattr(correlated, "toeplitz", counted)
    total = sums.Correlated(2, 48, budget=GAUSSIAN)
    for t in range(1, 49):
        total.error(t)
    total.run(np.zeros((48, 2)))
    assert len(calls) <= 3


@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_a_restored_total_keeps_its_filter(precision, monkeypatch):
    """Another machine, another cache, another optimum: the stream that was begun goes on as it was promised."""
    total = sums.Correlated(2, 40, budget=GAUSSIAN, seed=3, noise_precision=precision)
    twin = sums.Correlated(2, 40, budget=GAUSSIAN, seed=3, noise_precision=precision)
    known = twin.run(np.zeros((40, 2)))
    total.run(np.zeros((15, 2)))
    state = total.state()
    gdp, error = total.guarantee.gdp, total.error(33)
    other = Toeplitz(gap=(0.05,), inverse_gap=(0.5,))
    monkeypatch.setattr(correlated, "toeplitz", lambda **_: other)
    monkeypatch.setattr(mechanism, "_BLOCK", 8)
    back = sums.Correlated.from_state(state)
    assert back.guarantee.gdp == gdp
    assert back.error(33) == error
    assert np.array_equal(back.run(np.zeros((25, 2))), known[15:])


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 54])
@pytest.mark.parametrize("horizon", [2**10, 2**22])
@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_the_filter_is_a_convolution_in_every_coordinate(dim, horizon, precision):
    """However coordinates are packed together: noise = coefficients * innovations, piece by piece."""
    total = sums.Correlated(
        dim, horizon, budget=reticent.Budget(1.0, 1e-6), noise_precision=precision, seed=0
    )
    rng = np.random.default_rng(dim)
    steps = 70
    fresh = rng.standard_normal((steps, dim))
    if precision == "lattice":
        fresh = np.rint(fresh * 2.0**30).astype(np.int64)
    b = total.mechanism.parameters.noise_coefficients(steps)
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    expected = np.where(lag >= 0, b[np.maximum(lag, 0)], 0.0) @ fresh.astype(float)
    found = np.concatenate(
        [total._noise.mix(fresh[:33].copy(), 0, 33), total._noise.mix(fresh[33:].copy(), 33, 37)]
    )
    assert found.dtype == fresh.dtype
    # on the lattice the known part is rounded to a whole step
    tolerance = 0.5 + 1e-3 if precision == "lattice" else 1e-12
    assert np.abs(found - expected).max() <= tolerance
