"""Sums over records: their rounding errors against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from reticent import losses
from reticent.erm.rounded_sums import UNIT, UNITS, gram, predictors, summed_slopes, weighted_rows
from reticent.solve.blocks import InMemory


def exact_sum(A, w):
    return [
        float(sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(column, w, strict=True)))
        for column in A.T
    ]


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1000])
def test_weighted_rows_within_the_bound(count):
    rng = np.random.default_rng(count)
    A = rng.standard_normal((count, 3)) * 10.0 ** rng.integers(-6, 7, (count, 1))
    w = rng.standard_normal(count)
    bound = UNITS * UNIT * (np.abs(w) @ np.abs(A))
    for data in (A, sp.csr_array(A)):
        assert (np.abs(weighted_rows(data, w) - exact_sum(A, w)) <= bound).all()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_summed_slopes_within_the_bound(count, weighted):
    # Squared losses have slopes that rational numbers can say: <a, x> - y, clipped.
    rng = np.random.default_rng(count)
    A = rng.standard_normal((count, 7)) * 10.0 ** rng.integers(-6, 3, (count, 1))
    y, x, limit = rng.standard_normal(count), rng.standard_normal(7), 1.5
    weights = rng.uniform(0, 2, count) if weighted else None
    block = next(InMemory(A, y, weights).blocks())
    z, total = predictors(block, x), summed_slopes(block, x, *losses.Squared().kernel, limit)
    exact_x, size = [Fraction(float(v)) for v in x], float(np.linalg.norm(x))
    slopes, unsure = [], []
    for i, row in enumerate(A):
        exact_z = sum(Fraction(float(a)) * v for a, v in zip(row, exact_x, strict=True))
        off = 9 * UNIT * float(np.linalg.norm(row)) * size
        assert abs(float(Fraction(float(z[i])) - exact_z)) <= off
        factor = Fraction(float(weights[i])) if weighted else Fraction(1)
        slope = max(min(exact_z - Fraction(float(y[i])), Fraction(limit)), -Fraction(limit))
        slopes.append(factor * slope)
        unsure.append(float(factor) * (off + 2 * UNIT * (limit + abs(y[i]))))
    sizes = np.abs([float(slope) for slope in slopes]) + np.array(unsure)
    for j in range(7):
        exact = sum(s * Fraction(float(a)) for s, a in zip(slopes, A[:, j], strict=True))
        bound = (UNITS * UNIT * sizes + unsure) @ np.abs(A[:, j])
        assert abs(float(Fraction(float(total[j])) - exact)) <= bound


def test_gram_within_the_bound():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((500, 4)), rng.standard_normal(500)
    for data in (A, sp.csr_array(A)):
        V, u = gram(data, y)
        want = np.array([exact_sum(A, A[:, j]) for j in range(4)])
        assert (np.abs(V - want) <= UNITS * UNIT * (np.abs(A).T @ np.abs(A))).all()
        assert (np.abs(u - exact_sum(A, y)) <= UNITS * UNIT * (np.abs(y) @ np.abs(A))).all()


def test_cancelling_sums_keep_their_digits():
    A = np.full((256, 1), 1e16)
    A[0::2] *= -1.0
    A = np.concatenate([A, [[1.0]]])
    assert weighted_rows(A, np.ones(257))[0] == 1.0
