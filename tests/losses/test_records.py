"""Clipping: what is beyond the bounds comes back on them, is counted, and nothing else moves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reticent import losses


@given(arrays(float, (6, 3), elements=st.floats(-1e200, 1e200)), st.floats(1e-3, 1e3))
@settings(max_examples=200, deadline=None)
def test_features_are_brought_to_the_norm(A, bound):
    before = A.copy()
    loss = losses.Linear(feature_norm=bound)
    rows, _, counts = loss.prepare(A)
    assert np.array_equal(A, before)
    exact = np.array([np.linalg.norm(a / max(np.abs(a).max(), 1e-300)) for a in A])
    exact *= np.abs(A).max(axis=1)
    assert (np.linalg.norm(rows, axis=1) <= bound).all()
    inside = exact <= bound * (1 - 1e-12)
    assert np.array_equal(rows[inside], A[inside])
    assert counts.features <= np.count_nonzero(~inside)
    assert counts.features >= np.count_nonzero(exact > bound * (1 + 1e-12))
    outside = exact > bound * (1 + 1e-12)
    # entries next to the smallest double have no digits to compare
    expected = A[outside] * (bound / exact[outside])[:, None]
    np.testing.assert_allclose(rows[outside], expected, atol=1e-300)
    again, _, later = loss.prepare(rows)
    assert later.features == 0
    assert np.array_equal(again, rows)
    sparse, _, sparse_counts = loss.prepare(sp.csr_array(A))
    np.testing.assert_allclose(sparse.toarray(), rows, rtol=1e-12)
    assert sparse_counts.features == counts.features


def test_nothing_is_copied_without_need():
    A = np.full((4, 2), 0.1)
    assert losses.Logistic().prepare(A, [1, -1, 1, 1])[0] is A


def test_labels_of_regression_are_clipped_and_counted():
    A = np.zeros((4, 2))
    _, y, counts = losses.Squared(label_bounds=(0.0, 2.0)).prepare(A, [-1, 0.5, 2, 7])
    assert y.tolist() == [0.0, 0.5, 2.0, 2.0]
    assert counts == (0, 2, 4)
    assert "2 had labels clipped (not private)" in str(counts)


def test_one_record():
    a, y = losses.Squared().prepare_record([3.0, 4.0], 5)
    np.testing.assert_allclose(a, [0.6, 0.8])
    assert y == 1.0
    a, y = losses.Hinge().prepare_record(sp.csr_array([[0.0, 2.0]]), -1)
    np.testing.assert_allclose(a, [0.0, 1.0])
    with pytest.raises(ValueError, match="vector of features"):
        losses.Hinge().prepare_record([[1.0]], 1)


def test_sparse_duplicates_and_float32():
    twice = sp.coo_array(([0.5, 0.5], ([0, 0], [1, 1])), shape=(1, 3))
    rows, _, counts = losses.Linear(feature_norm=0.9).prepare(twice)
    np.testing.assert_allclose(rows.toarray(), [[0, 0.9, 0]])
    assert counts.features == 1
    assert losses.Linear().prepare(np.ones((2, 2), np.float32))[0].dtype == np.float64


@pytest.mark.parametrize(
    ("A", "y", "error", "words"),
    [
        (np.zeros(3), [1], ValueError, "one row for each record"),
        (np.zeros((0, 3)), [], ValueError, "at least one row"),
        ([[1.0, np.nan]], [1], ValueError, "A must be finite; row 0"),
        ([[1.0, 2.0], [np.inf, 1.0]], [1, 1], ValueError, "row 1"),
        (sp.csr_array([[1.0, 0.0], [0.0, np.nan]]), [1, 1], ValueError, "row 1"),
        ([["a", "b"]], [1], TypeError, "real numbers"),
        (sp.csr_array([[True]]), [1], TypeError, "sparse matrix of dtype bool"),
        ([[1.0 + 1j]], [1], TypeError, "real numbers"),
        ([[1.0]], None, ValueError, "y is missing"),
        ([[1.0]], [1, 1], ValueError, "length 1"),
        ([[1.0]], [np.nan], ValueError, "y must be finite"),
        ([[1.0]], [2], ValueError, "-1 or 1"),
        ([[1.0], [1.0]], [0, 1], ValueError, r"2 \* y - 1"),
        ([[1.0]], [True], TypeError, r"2 \* y - 1"),
        ([[1.0]], ["yes"], TypeError, "y must hold real numbers"),
    ],
)
def test_bad_records(A, y, error, words):
    with pytest.raises(error, match=words):
        losses.Logistic().prepare(A, y)


@pytest.mark.parametrize("norm", [1e-200, 1e-101, 1e101, 1e200])
def test_norms_whose_squares_a_double_cannot_hold_are_refused(norm: float):
    # the square of a row is compared with that of the norm: 0 <= 0 would let any short row by
    with pytest.raises(ValueError, match="feature_norm must be at least 1e-100"):
        losses.Linear(feature_norm=norm)
