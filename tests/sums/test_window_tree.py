"""The window tree against a memo of nodes: same noise for each node, same totals; and what it protects."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums

from . import reference


def budget(window, *, pure=False, neighbours="zero-out"):
    return reticent.Budget(1.0, 0.0 if pure else 1e-6, neighbours=neighbours, window=window)


def test_the_reference_cuts_a_window_of_four_as_the_paper_does():
    rows = [reference.dyadic(max(0, t - 4) + 1, t) for t in range(4, 9)]
    assert rows == [
        [(1, 4)],
        [(2, 2), (3, 4), (5, 5)],
        [(3, 4), (5, 6)],
        [(4, 4), (5, 6), (7, 7)],
        [(5, 8)],
    ]


@pytest.mark.parametrize("window", range(1, 41))
def test_every_node_has_one_noise_for_as_long_as_it_is_used(window, monkeypatch):
    steps = 200
    total = sums.WindowTree(2 * steps, budget=budget(window), noise_precision="float")
    found = reference.as_matrix(total, steps, monkeypatch, block=8) / total.error(1)
    known = reference.window_tree(steps, window)
    assert reference.same_columns(found, known)
    nodes = known.sum(axis=1)
    errors = [total.error(t) for t in range(1, steps + 1)]
    assert np.allclose(errors, np.sqrt(nodes) * total.error(1), rtol=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "gamma", "laplace"])
@pytest.mark.parametrize("window", [1, 2, 5, 8, 12])
def test_the_lattice_holds_the_same_nodes(window, noise, monkeypatch):
    steps = 60
    mine = budget(window, pure=noise != "gaussian")
    total = sums.WindowTree(2 * steps, budget=mine, noise=noise)
    found = reference.as_matrix(total, steps, monkeypatch)
    assert reference.same_columns(found / found.max(), reference.window_tree(steps, window))


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 7, 8, 11, 16, 24, 31, 32, 33, 48, 64])
def test_mu_is_that_of_the_worst_record(window, precision, neighbours, monkeypatch):
    steps = min(3 * window + 5, 140)
    mine = budget(window, neighbours=neighbours)
    total = sums.WindowTree(2 * steps, budget=mine, noise_precision=precision)
    matrix = reference.as_matrix(total, steps, monkeypatch)
    exact = mine.sensitivity(1.0) * reference.worst_mu(matrix, window)
    tolerance = 1e-9 if precision == "float" else 1e-6
    assert total.guarantee.gdp == pytest.approx(exact, rel=tolerance)
    assert total.guarantee.gdp >= exact * (1 - 1e-10)
    assert total.guarantee.meets(mine)


@pytest.mark.parametrize("window", [1, 2, 3, 6, 8, 13, 32, 64])
def test_mu_is_never_below_the_worst_record_on_any_shorter_run(window, monkeypatch):
    for steps in (1, 2, 3, 7, 16, 45, 64):
        total = sums.WindowTree(2 * steps, budget=budget(window), noise_precision="float")
        matrix = reference.as_matrix(total, steps, monkeypatch)
        assert total.guarantee.gdp >= reference.worst_mu(matrix, window) * (1 - 1e-12)


@pytest.mark.parametrize("horizon", [1, 3, 9, 24])
def test_a_horizon_within_the_window_needs_fewer_nodes(horizon, monkeypatch):
    total = sums.WindowTree(2 * horizon, horizon, budget=budget(64), noise_precision="float")
    matrix = reference.as_matrix(total, horizon, monkeypatch)
    assert reference.same_columns(matrix / total.error(1), reference.tree(horizon))
    assert total.guarantee.gdp == pytest.approx(reference.worst_mu(matrix, 64), rel=1e-9)
    assert total.guarantee.window == 64


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("window", [1, 2, 3, 8, 12, 33, 64])
def test_pure_epsilon_counts_the_nodes_of_a_record_and_is_attained(window, neighbours, monkeypatch):
    steps = 3 * window + 2
    mine = budget(window, pure=True, neighbours=neighbours)
    total = sums.WindowTree(2 * steps, budget=mine, noise="gamma")
    scale = reference.as_matrix(total, steps, monkeypatch).max()
    touched = []
    for record in range(1, steps + 1):
        used = set()
        for t in range(record, min(steps, record + window - 1) + 1):
            used |= set(reference.dyadic(max(0, t - window) + 1, t))
        touched.append(sum(first <= record <= last for first, last in used))
    assert total.guarantee.pure == pytest.approx(1.0, rel=1e-12)
    assert max(touched) * mine.sensitivity(1.0) / scale == pytest.approx(1.0, rel=1e-6)
    # The first block's outputs are an invertible map of its nodes, so record 1 attains it.
    block = 1 << (window.bit_length() - 1)
    moves = np.linalg.solve(reference.tree(block), np.ones(block))
    assert np.abs(moves).sum() == max(touched)


@pytest.mark.parametrize("order", [1, 3, 6])
def test_how_many_nodes_a_total_has(order):
    """For W = 2^K: K + 1 less the trailing zeros of t mod W, and one where t is a multiple of W."""
    window = 2**order
    total = sums.WindowTree(1, budget=budget(window))
    for t in range(window, 4 * window):
        rest = t % window
        nodes = order + 1 - ((rest & -rest).bit_length() - 1) if rest else 1
        assert total.error(t) ** 2 == pytest.approx(nodes * total.error(1) ** 2, rel=1e-12)


def test_error_of_pure_noise():
    total = sums.WindowTree(5, budget=budget(6, pure=True), noise="gamma", norm=2.0)
    assert total.error(1) == pytest.approx(3 * 2.0 * math.sqrt(6.0), rel=1e-12)
    total = sums.WindowTree(5, budget=budget(6, pure=True), noise="laplace", norm=2.0)
    assert total.error(1) == pytest.approx(3 * 2.0 * math.sqrt(5.0) * math.sqrt(2.0), rel=1e-12)


def test_a_window_that_is_not_a_power_of_two_costs_no_extra_level():
    scales = [sums.WindowTree(1, budget=budget(w)).error(1) for w in (32, 33, 63, 64)]
    assert scales[0] == scales[1] == scales[2] < scales[3]


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 8, 14, 30, 32, 62, 64, 100, 128])
def test_the_error_is_within_what_the_page_says(window):
    """h Delta/mu for powers of two, which is attained; for others up to sqrt(2) times that, and more than h."""
    budget = reticent.Budget(1.0, 1e-6, window=window)
    total = sums.WindowTreeMechanism(1, budget=budget, noise_precision="float")
    worst = max(total.error(t) for t in range(1, 5 * window + 2)) * total.guarantee.gdp
    height = window.bit_length()
    if window & (window - 1) == 0:
        assert worst == pytest.approx(height)
    else:
        assert worst <= math.sqrt(2.0) * height
    if window in (30, 62):
        assert worst > 1.0 + math.log2(window)
