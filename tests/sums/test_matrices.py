"""The matrices of trees are the incidence of their nodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.sums import matrices

GAUSSIAN = reticent.Budget(1.0, 1e-6)
PURE = reticent.Budget(1.0)


def dyadic(first, last):
    nodes = []
    while first <= last:
        size = 1
        while (first - 1) % (2 * size) == 0 and first + 2 * size - 1 <= last:
            size *= 2
        nodes.append((first, first + size - 1))
        first += size
    return nodes


def incidence(rows):
    memo = {}
    for node in (node for nodes in rows for node in nodes):
        memo.setdefault(node, len(memo))
    matrix = np.zeros((len(rows), len(memo)))
    for t, nodes in enumerate(rows):
        matrix[t, [memo[node] for node in nodes]] = 1.0
    return matrix


def same_columns(first, second):
    def ordered(matrix):
        return matrix[:, np.lexsort(matrix[::-1])]

    return first.shape == second.shape and np.allclose(ordered(first), ordered(second))


@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_the_matrix_of_a_tree_is_the_incidence_of_its_nodes(precision):
    total = sums.Tree(2, 13, budget=GAUSSIAN, estimator="plain", noise_precision=precision)
    found = matrices.mix(total.mechanism, 13)
    assert same_columns(found.matrix, incidence([dyadic(1, t) for t in range(1, 14)]))
    assert np.allclose(found.scales, math.sqrt(4) / GAUSSIAN.mu)


@pytest.mark.parametrize("window", [1, 4, 6])
def test_the_matrix_of_a_window_tree_is_the_incidence_of_its_nodes(window):
    total = sums.WindowTree(2, budget=PURE.with_(window=window), noise="gamma")
    steps = 4 * window
    rows = [dyadic(max(0, t - window) + 1, t) for t in range(1, steps + 1)]
    found = matrices.mix(total.mechanism, steps).matrix
    assert same_columns(found[:, found.any(axis=0)], incidence(rows))
