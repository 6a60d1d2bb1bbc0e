"""The door against exact arithmetic: nothing beyond the limit passes, and nothing within it is changed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.noise import door

EXTREMES = [0.0, 5e-324, 2.3e-308, 1e-160, 1.0, 1e160, 1.7976931348623157e308]
EXTREMES += [-value for value in EXTREMES]
LIMITS = [5e-324, 1e-300, 1e-170, 4.3e-16, 1.0, 3.7e9, 1e120, 1.7e308]
SCALES = [5e-324, -1e-200, 1.0, -3.7, 2.0**31, 1e200, 1.7e308, 0.0]


def square(v) -> Fraction:
    """The exact square of the Euclidean length."""
    return sum((Fraction(float(entry)) ** 2 for entry in v), Fraction(0))


def vectors(rng, dim, count):
    """Entries from the extremes, and of random magnitudes."""
    for i in range(count):
        if i % 2:
            yield rng.choice(EXTREMES, dim)
        else:
            sizes = 10.0 ** rng.uniform(-323, 308, dim)
            yield sizes * rng.choice([-1.0, 1.0], dim)


def allowed(limit: float, dim: int) -> Fraction:
    return (Fraction(limit) * (1 + Fraction(door.margin(dim)))) ** 2


@pytest.mark.parametrize("dim", [1, 2, 7, 100])
@pytest.mark.parametrize("limit", LIMITS)
def test_nothing_beyond_the_limit_passes(dim, limit):
    rng = np.random.default_rng(dim)
    out = np.empty(dim)
    for v in vectors(rng, dim, 24):
        for scale in SCALES:
            code = door.bounded(v, scale, limit, out)
            assert code in (door.WHOLE, door.CLIPPED, door.REFUSED)
            assert square(out) <= allowed(limit, dim)
            if code == door.REFUSED:  # finite numbers are refused only where a limit has no digits
                assert limit < 1e-290


@pytest.mark.parametrize("dim", [1, 2, 7, 100])
@pytest.mark.parametrize("norm", [1e-100, 4.3e-16, 1.0, 1e100])
@pytest.mark.parametrize("ratio", [2.0**-20, 2.0**20, 2.0**40])
def test_what_enters_an_exact_total(dim, norm, ratio):
    """In whole steps, with the limit that running totals use: at most the norm, with no slack at all."""
    rng = np.random.default_rng(dim)
    per_step = 2.0 ** math.floor(math.log2(ratio / norm))
    limit = door.limit_for(norm, dim) * per_step
    work = np.empty(dim)
    for v in vectors(rng, dim, 60):
        total = np.zeros(dim, np.int64)
        door.admit(v, per_step, limit, total, work)
        assert sum(int(entry) ** 2 for entry in total) <= (Fraction(norm) * Fraction(per_step)) ** 2


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 12, 13, 100])
def test_rows_measured_with_their_product(dim):
    """`dot_and_copy`, `passes` and `admit_product` as the learners' loop puts them together."""
    rng = np.random.default_rng(dim)
    norm = 1.0
    for v in vectors(rng, dim, 200):
        slope = float(rng.choice([5e-324, 1e-160, -1.0, 0.3, 1e160, 1.7e308]))
        per_step = 2.0 ** float(rng.integers(-40, 300))
        limit = door.limit_for(norm, dim) * per_step
        if limit >= 2.0**60:
            limit = 2.0**60
        total, copy, work = np.zeros(dim, np.int64), np.empty(dim), np.empty(dim)
        x = rng.standard_normal(dim)
        z, measured = door.dot_and_copy(v[None], 0, x, copy)
        assert np.array_equal(copy, v)
        if np.abs(v).max() < 1e300:
            assert z == pytest.approx(float(v @ x), rel=0, abs=1e-14 * float(np.abs(v) @ np.abs(x)))
        scale = slope * per_step
        most = door.largest_square(limit) * (1.0 - 4.0 * door.margin(dim))
        if door.passes(measured, scale, most):
            total += (copy * scale).astype(np.int64)
        else:
            door.admit_product(copy, slope, per_step, limit, total, work)
        assert sum(int(entry) ** 2 for entry in total) <= allowed(limit, dim)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(1e-320, 1.7e308),
)
@settings(max_examples=400, deadline=None)
def test_any_doubles(entries, scale, limit):
    v = np.array(entries)
    out = np.empty(v.size)
    code = door.bounded(v, scale, limit, out)
    assert square(out) <= allowed(limit, v.size)
    true = square(v) * Fraction(scale) ** 2
    if code != door.REFUSED and limit >= 1e-290:
        slack = Fraction(4 * door.shortening(v.size))
        if true <= (Fraction(limit) * (1 - slack)) ** 2:
            assert code == door.WHOLE
            exact = [float(Fraction(entry) * Fraction(scale)) for entry in entries]
            size = max(map(abs, exact))
            np.testing.assert_allclose(out, exact, rtol=1e-15, atol=max(1e-15 * size, 1e-323))
        elif true >= (Fraction(limit) * (1 + slack)) ** 2:
            assert code == door.CLIPPED
            assert square(out) >= (Fraction(limit) * (1 - slack)) ** 2 * Fraction(1 - 1e-9)
            assert (np.sign(out) * np.sign(v) * np.sign(scale) >= 0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dim", [1, 4, 9])
def test_what_is_not_finite_adds_nothing(bad, dim):
    for place in range(dim):
        v = np.full(dim, 0.1)
        v[place] = bad
        out = np.empty(dim)
        assert door.bounded(v, 1.0, 1.0, out) == door.REFUSED
        assert not out.any()
        total = np.zeros(dim, np.int64)
        assert door.admit(v, 2.0**30, 2.0**30, total, out) == door.REFUSED
        assert not total.any()
        assert not door.finite(v)
    assert door.bounded(np.ones(dim), bad, 1.0, np.empty(dim)) == door.REFUSED
    assert door.finite(np.full(dim, 1.7e308))


def test_vectors_within_the_limit_pass_unchanged():
    rng = np.random.default_rng(0)
    for dim in (1, 3, 4, 8, 54):
        v = rng.standard_normal(dim)
        v *= 0.999 / np.linalg.norm(v)
        out = np.empty(dim)
        assert door.bounded(v, 1.0, 1.0, out) == door.WHOLE
        assert np.array_equal(out, v)
        assert door.bounded(2.0 * v, 1.0, 1.0, out) == door.CLIPPED
        np.testing.assert_allclose(out, v / 0.999, rtol=1e-11)
        # as long as the limit up to rounding: shortened by a hair, which does not count as clipped
        assert door.bounded(v * (1.0 + 1e-16) / 0.999, 1.0, 1.0, out) == door.WHOLE


def test_rows_and_sparse_rows():
    rng = np.random.default_rng(1)
    rows = np.array(list(vectors(rng, 5, 40)))
    rows[7] = math.nan
    out = np.empty_like(rows)
    clipped, refused = door.bounded_rows(rows, 1.0, 1.0, out)
    one = np.empty(5)
    codes = []
    for row, got in zip(rows, out, strict=True):
        codes.append(door.bounded(row, 1.0, 1.0, one))
        assert np.array_equal(one, got)
    assert (clipped, refused) == (codes.count(door.CLIPPED), codes.count(door.REFUSED))
    assert refused == 1
    data = np.empty(rows.size)
    starts = np.arange(0, rows.size + 1, 5)
    assert door.bounded_sparse_rows(starts, rows.ravel(), 1.0, 1.0, data) == (clipped, refused)
    assert np.array_equal(data.reshape(rows.shape), out)
    finite = np.delete(rows, 7, axis=0)
    assert door.count_beyond(finite, 1.0) >= clipped
    assert door.count_beyond(out, 1.0) == 0
