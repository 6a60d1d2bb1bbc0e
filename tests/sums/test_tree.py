"""The binary tree against explicit matrices: which noise is in which total, and what it protects."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.noise import lattice
from reticent.sums import mechanism

from . import reference

GAUSSIAN, PURE = reference.GAUSSIAN, reference.PURE
SIZES = (1, 2, 3, 4, 6, 7, 8, 13, 16, 31, 32, 33, 64)


def ordered(matrix):
    rounded = np.round(matrix, 5)
    return matrix[:, np.lexsort(rounded[::-1])]


@pytest.mark.parametrize("n", SIZES)
def test_plain_tree_uses_each_node_with_one_noise(n, monkeypatch):
    total = sums.Tree(n, n, budget=GAUSSIAN, estimator="plain", noise_precision="float")
    found = reference.as_matrix(total, n, monkeypatch)
    assert reference.same_columns(found / total.error(1), reference.tree(n))


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "gamma"])
def test_plain_tree_on_the_lattice_is_the_same_tree(noise, monkeypatch):
    n = 37
    budget = GAUSSIAN if noise == "gaussian" else PURE
    total = sums.Tree(n, n, budget=budget, estimator="plain", noise=noise)
    found = reference.as_matrix(total, n, monkeypatch)
    assert reference.same_columns(found / found.max(), reference.tree(n))


@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("n", SIZES)
def test_honaker_with_one_draw_a_step_has_the_covariance_of_all_nodes(n, precision, monkeypatch):
    total = sums.Tree(n, n, budget=GAUSSIAN, noise_precision=precision)
    found = reference.as_matrix(total, n, monkeypatch) / total.error(1)
    known = reference.honaker(n)
    tolerance = 1e-12 if precision == "float" else 1e-7
    assert np.allclose(found @ found.T, known @ known.T, rtol=0, atol=tolerance)


@pytest.mark.parametrize("noise", ["laplace", "gamma"])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 37])
def test_honaker_with_pure_noise_combines_all_nodes(n, noise, monkeypatch):
    total = sums.Tree(2 * n, n, budget=PURE, noise=noise)
    found = reference.as_matrix(total, n, monkeypatch)
    assert np.allclose(ordered(found / found[0, 0]), ordered(reference.honaker(n)), atol=1e-6)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("estimator", ["plain", "honaker"])
def test_mu_is_that_of_the_worst_record_for_every_horizon(estimator, neighbours, monkeypatch):
    budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours)
    reach = 0.7 if neighbours == "zero-out" else 1.4
    for n in range(1, 65):
        total = sums.Tree(
            n, n, budget=budget, norm=0.7, estimator=estimator, noise_precision="float"
        )
        exact = reach * reference.worst_mu(reference.as_matrix(total, n, monkeypatch))
        assert total.guarantee.gdp == pytest.approx(exact, rel=1e-9)
        assert total.guarantee.gdp == pytest.approx(budget.mu, rel=1e-9)
        assert total.guarantee.meets(budget)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("estimator", ["plain", "honaker"])
@pytest.mark.parametrize("n", SIZES)
def test_mu_on_the_lattice_is_never_below_that_of_the_worst_record(
    n, estimator, neighbours, monkeypatch
):
    budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours)
    total = sums.Tree(n, n, budget=budget, estimator=estimator)
    matrix = reference.as_matrix(total, n, monkeypatch)
    exact = budget.sensitivity(1.0) * reference.worst_mu(matrix)
    assert total.guarantee.gdp == pytest.approx(exact, rel=1e-6)
    assert total.guarantee.gdp >= exact * (1 - 1e-10)
    assert total.guarantee.meets(budget)


def test_honaker_is_calibrated_exactly_and_not_by_the_number_of_nodes():
    """Counting nodes would ask for sqrt(h): 7.2 % too much noise at n = 64."""
    exact = reference.worst_mu(reference.honaker(64))
    assert math.sqrt(7) / exact == pytest.approx(1.072, abs=5e-4)
    total = sums.Tree(1, 64, budget=GAUSSIAN, noise_precision="float")
    assert total.error(1) * GAUSSIAN.mu == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("estimator", ["plain", "honaker"])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_two_worlds_with_the_same_totals_are_as_close_as_promised(
    estimator, neighbours, monkeypatch
):
    """On a lattice so coarse that rounding matters: the innovations that tell the worlds apart, counted."""
    monkeypatch.setattr(lattice, "STEPS", 2.0**8)
    budget = reticent.Budget(8.0, 1e-6, neighbours=neighbours)
    steps, worst = 48, 0.0
    rng = np.random.default_rng(12)

    def build():
        return sums.Tree(3, steps, budget=budget, estimator=estimator, seed=0)

    for record in range(steps):
        apart = reference.worlds_apart(build, steps, record, neighbours, rng, monkeypatch)
        worst = max(worst, float(np.linalg.norm(apart)))
    promised = build().guarantee.gdp
    assert 0.95 * promised < worst <= promised
    assert promised <= budget.mu * (1 + 1e-12)


@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("n", [1, 5, 8, 21, 64])
def test_error_is_the_row_norm_of_the_matrix(n, precision, monkeypatch):
    for estimator in ("plain", "honaker"):
        total = sums.Tree(n, n, budget=GAUSSIAN, estimator=estimator, noise_precision=precision)
        rows = np.linalg.norm(reference.as_matrix(total, n, monkeypatch), axis=1)
        errors = [total.error(t) for t in range(1, n + 1)]
        assert np.allclose(errors, rows, rtol=1e-8 if precision == "lattice" else 1e-12)


@pytest.mark.parametrize("estimator", ["plain", "honaker"])
@pytest.mark.parametrize("noise", ["laplace", "gamma"])
def test_error_of_pure_noise_is_the_row_norm_times_one_draw(noise, estimator, monkeypatch):
    n, dim = 21, 40
    total = sums.Tree(dim, n, budget=PURE, norm=3.0, noise=noise, estimator=estimator)
    # five levels; the 1-norm of a vector of norm 3 is at most 3 sqrt(dim)
    scale = 5 * 3.0 * (math.sqrt(dim) if noise == "laplace" else 1.0)
    one = scale * math.sqrt(2.0 if noise == "laplace" else dim + 1.0)
    matrix = reference.as_matrix(total, n, monkeypatch)
    assert matrix[0, 0] == pytest.approx(scale, rel=1e-7)
    rows = np.linalg.norm(matrix / scale, axis=1)
    errors = [total.error(t) / one for t in range(1, n + 1)]
    assert np.allclose(errors, rows, rtol=1e-6)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 20, 64])
def test_pure_epsilon_is_attained(n, neighbours, monkeypatch):
    """In one dimension the outputs are an invertible map of the nodes: epsilon is the 1-norm of the nodes' moves."""
    budget = reticent.Budget(0.8, neighbours=neighbours)
    total = sums.Tree(n, n, budget=budget, noise="gamma", estimator="plain")
    matrix = reference.as_matrix(total, n, monkeypatch)
    moves = np.linalg.solve(matrix, np.tri(n))
    exact = budget.sensitivity(1.0) * np.abs(moves).sum(axis=0).max()
    assert total.guarantee.pure == pytest.approx(0.8, rel=1e-12)
    assert exact == pytest.approx(0.8, rel=1e-6)


def test_known_figures():
    """Variance times mu squared, mean and largest: 10.3 and 20 at n = 16, 55 and 110 at n = 1024; Honaker less."""
    for n, mean, largest in ((16, 10.3, 20.0), (1024, 55.0, 110.0)):
        plain = sums.Tree(1, n, budget=GAUSSIAN, estimator="plain", noise_precision="float")
        better = sums.Tree(1, n, budget=GAUSSIAN, noise_precision="float")
        variances = np.array([plain.error(t) for t in range(1, n + 1)]) ** 2 * GAUSSIAN.mu**2
        assert variances.mean() == pytest.approx(mean, abs=0.06)
        assert variances.max() == pytest.approx(largest, rel=1e-9)
        if n == 16:
            smaller = np.array([better.error(t) for t in range(1, n + 1)]) ** 2 * GAUSSIAN.mu**2
            assert smaller.mean() < 7.15
            assert smaller.max() < 13.95


@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("estimator", ["plain", "honaker"])
def test_epochs_cost_no_privacy(estimator, precision, monkeypatch):
    """Epochs of 4, 8, 16 and 32 steps: the worst record of all 60 outputs together has the mu of the budget."""
    monkeypatch.setattr(mechanism, "_FIRST_EPOCH", 4)
    n = 60
    total = sums.Tree(n, None, budget=GAUSSIAN, estimator=estimator, noise_precision=precision)
    matrix = reference.as_matrix(total, n, monkeypatch)
    assert total.guarantee.gdp == pytest.approx(reference.worst_mu(matrix), rel=1e-6)
    assert total.guarantee.gdp <= GAUSSIAN.mu * (1 + 1e-12)
    errors = [total.error(t) for t in range(1, n + 1)]
    assert np.allclose(errors, np.linalg.norm(matrix, axis=1), rtol=1e-6)


@pytest.mark.parametrize("noise", ["gamma", "laplace"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_promise_of_an_endless_tree_holds_in_every_epoch(noise, delta):
    """Trees of different heights that meet one budget differ elsewhere; what is promised must hold for all of them."""
    budget = reticent.Budget(1.0, delta)
    endless = sums.Tree(3, None, budget=budget, noise=noise)
    assert endless.guarantee.meets(budget)
    for steps in (2**8, 2**14, 2**20, 2**30):
        # what this epoch's own noise really is, from its error; then its exact composition
        one = math.sqrt(2.0) if noise == "laplace" else 2.0
        start = steps - 256
        before = endless.error(start) ** 2 if start else 0.0
        scale = math.sqrt(endless.error(start + 1) ** 2 - before) / one
        reach = math.sqrt(3.0) if noise == "laplace" else 1.0
        curve = reticent.privacy.compose(
            [(reticent.privacy.Pure(reach / scale), steps.bit_length())]
        )
        assert endless.guarantee.pure >= curve.pure * (1 - 1e-6)
        assert endless.guarantee.zcdp >= curve.zcdp * (1 - 1e-6)
        for point in (1e-12, 1e-9, 1e-6, 1e-3):
            assert endless.guarantee.epsilon(point) >= curve.epsilon(point) * (1 - 1e-6)
