"""The squared distance: closed forms throughout."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import losses, sets
from reticent.losses import kernels


def test_quadratic():
    loss = losses.Quadratic(3.0, feature_norm=2.0)
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((20, 4)) * 0.3, rng.standard_normal(4)
    expected = 1.5 * np.sum((x - A) ** 2, axis=1)
    np.testing.assert_allclose(loss.values(x, A), expected, rtol=1e-12)
    np.testing.assert_allclose([loss.value(x, a) for a in A], expected, rtol=1e-12)
    np.testing.assert_allclose(loss.mean_gradient(x, A), 3 * (x - A.mean(axis=0)), rtol=1e-12)
    np.testing.assert_allclose(loss.gradient(x, A[0]), 3 * (x - A[0]), rtol=1e-12)
    u = loss.implicit_step(x, A[0], step=0.25)
    np.testing.assert_allclose(u, (x + 0.75 * A[0]) / 1.75, rtol=1e-12)
    assert (loss.ridge, loss.smoothness, loss.strong_convexity) == (3.0, 3.0, 3.0)
    assert loss.data_lipschitz() == 6.0
    assert loss.lipschitz(sets.L2Ball(4, 0.5)) == 7.5
    assert loss.value(A[0], A[0]) == 0.0


def test_labels_are_offsets_for_the_kernels_and_otherwise_ignored():
    loss = losses.Quadratic(2.0)
    A = np.array([[0.6, 0.8], [0.1, 0.0]])
    x = np.array([0.5, -0.5])
    rows, offsets, _ = loss.prepare(A, [7.0, 7.0])
    kind, params = loss.kernel
    for a, y in zip(rows, offsets, strict=True):
        by_kernel = kernels.phi(kind)(params, float(a @ x), y) + 0.5 * loss.ridge * float(x @ x)
        assert by_kernel == pytest.approx(loss.value(x, a), rel=1e-14)
        assert loss.value(x, a, 123.0) == loss.value(x, a)
    assert losses.Linear().prepare(A)[1].tolist() == [0.0, 0.0]
