"""Base polytopes: greedy against a linear program, and functions that are not submodular."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from reticent import sets


def graph_cut(nodes: int, seed: int):
    weights = np.triu(np.random.default_rng(seed).integers(0, 4, (nodes, nodes)), 1)
    weights = weights + weights.T
    return lambda mask: float(weights[np.ix_(mask, ~mask)].sum())


def test_greedy_solves_the_linear_program_over_all_constraints():
    rng = np.random.default_rng(0)
    for seed in range(5):
        f = graph_cut(5, seed)
        base = sets.BasePolytope(f, 5, granularity=1)
        rows, bounds = [], []
        for size in range(1, 5):
            for chosen in combinations(range(5), size):
                mask = np.isin(np.arange(5), chosen)
                rows.append(mask.astype(float))
                bounds.append(f(mask))
        everything = np.ones(5, dtype=bool)
        for _ in range(5):
            g = rng.standard_normal(5)
            lp = linprog(g, rows, bounds, [np.ones(5)], [f(everything)], bounds=(None, None))
            assert g @ base.linear_minimizer(g) == pytest.approx(lp.fun, abs=1e-7)
        assert len(base.vertices()) >= 1


def test_the_uniform_matroid_is_the_hypersimplex():
    base = sets.BasePolytope(lambda mask: float(min(mask.sum(), 2)), 5, granularity=1)
    hyper = sets.HyperSimplex(5, 2)
    assert base.diameter == pytest.approx(hyper.diameter)
    assert base.inner_ball[1] == pytest.approx(hyper.inner_ball[1], abs=1e-8)
    assert np.array_equal(np.unique(base.vertices(), axis=0), np.unique(hyper.vertices(), axis=0))


def test_large_ground_sets_use_samples_and_the_oracle_only():
    f = graph_cut(13, 3)
    base = sets.BasePolytope(f, 13, granularity=1)
    center, radius = base.inner_ball
    assert radius > 0.0
    assert base.contains(center)
    assert not base.contains(center + 100 * (np.arange(13) - 6))
    rng = np.random.default_rng(1)
    x, g = base.sample(rng), rng.standard_normal(13)
    p = base.local_linear_minimizer(x, 0.05, g)
    assert base.contains(p, 1e-8)
    assert np.linalg.norm(p - x) <= base.rho * 0.05
    assert g @ p <= g @ x


def test_increasing_returns_are_found():
    with pytest.raises(sets.NotSubmodular, match=r"S = \[\], i = 0, j = 1"):
        sets.BasePolytope(lambda mask: float(mask.sum() ** 2), 4)
    with pytest.raises(sets.NotSubmodular, match="is less than"):
        sets.BasePolytope(lambda mask: float(mask.sum() ** 2), 30)

    def nearly(mask: np.ndarray) -> float:  # one bad pair among small sets
        return float(np.sqrt(mask.sum()) + 0.5 * (mask[2] and mask[5] and mask.sum() == 2))

    with pytest.raises(sets.NotSubmodular):
        sets.BasePolytope(nearly, 8)


def test_bad_functions_are_refused():
    with pytest.raises(ValueError, match=r"empty set\) must be 0, got 1"):
        sets.BasePolytope(lambda mask: 1.0, 3)
    with pytest.raises(ValueError, match="finite number; on elements"):
        sets.BasePolytope(lambda mask: np.inf if mask[1] else 0.0, 3)
    with pytest.raises(TypeError, match="callable"):
        sets.BasePolytope(3, 3)
    with pytest.raises(ValueError, match="not a multiple"):
        sets.BasePolytope(lambda mask: 0.5 * min(mask.sum(), 1), 3, granularity=1)
    without = sets.BasePolytope(lambda mask: float(np.sqrt(mask.sum())), 3)
    with pytest.raises(sets.LocalLinearMinimizerUnavailable, match="granularity"):
        without.local_linear_minimizer(without.center, 0.1, np.ones(3))
