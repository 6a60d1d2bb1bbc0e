"""The compiled scalar losses against NumPy and high precision, in every range of their argument."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.losses import kernels

from . import reference

CASES = reference.cases()
POINTS = np.concatenate([np.linspace(-6, 6, 241), [-700.0, -40.0, 40.0, 700.0]])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_phi_is_the_plain_formula(case):
    rng = np.random.default_rng(1)
    kind, params = case.loss.kernel
    for y in case.labels(rng, 5) if case.loss.kind != kernels.LINEAR else [0.0]:
        got = np.array([kernels.phi(kind)(params, z, y) for z in POINTS])
        np.testing.assert_allclose(got, case.phi(POINTS, y), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_are_the_single_calls(case):
    rng = np.random.default_rng(2)
    kind, params = case.loss.kernel
    z = rng.normal(size=3000) * 2
    y = case.labels(rng, 3000)
    one = np.array([kernels.phi(kind)(params, a, b) for a, b in zip(z, y, strict=True)])
    assert np.array_equal(kernels.phi_all(kind)(params, z, y), one)
    assert kernels.phi_mean(kind)(params, z, y) == pytest.approx(math.fsum(one) / 3000, rel=1e-14)
    slopes = np.array([kernels.dphi(kind)(params, a, b) for a, b in zip(z, y, strict=True)])
    assert np.array_equal(kernels.dphi_all(kind)(params, z, y), slopes)
    bends = np.array([kernels.d2phi(kind)(params, a, b) for a, b in zip(z, y, strict=True)])
    assert np.array_equal(kernels.d2phi_all(kind)(params, z, y), bends)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_in_high_precision(case):
    rng = np.random.default_rng(3)
    kind, params = case.loss.kernel
    mp.mp.dps = 60
    h = mp.mpf(10) ** -15
    for z in rng.uniform(-5, 5, 40):
        y = float(case.labels(rng, 1)[0])
        zz, yy = mp.mpf(float(z)), mp.mpf(y)
        up, here, down = case.exact(zz + h, yy), case.exact(zz, yy), case.exact(zz - h, yy)
        slope = float((up - down) / (2 * h))
        bend = float((up - 2 * here + down) / (h * h))
        assert kernels.dphi(kind)(params, z, y) == pytest.approx(slope, rel=1e-13, abs=1e-14)
        assert kernels.d2phi(kind)(params, z, y) == pytest.approx(bend, rel=1e-10, abs=1e-10)


def test_logistic_keeps_its_digits_far_out():
    kind, params = kernels.LOGISTIC, np.zeros(1)
    mp.mp.dps = 60
    for m in (-745.0, -50.0, -1e-9, 0.0, 1e-9, 36.0, 37.0, 50.0, 700.0):
        exact = mp.log(1 + mp.exp(-mp.mpf(m)))
        slope = -1 / (1 + mp.exp(mp.mpf(m)))
        bend = -slope * (1 + slope)
        assert kernels.phi(kind)(params, m, 1.0) == pytest.approx(float(exact), rel=1e-14)
        assert kernels.dphi(kind)(params, m, 1.0) == pytest.approx(float(slope), rel=1e-14)
        assert kernels.d2phi(kind)(params, m, 1.0) == pytest.approx(float(bend), rel=1e-13)
    for m in (1e5, 1e300):
        assert kernels.phi(kind)(params, m, 1.0) == 0.0
        assert kernels.phi(kind)(params, -m, 1.0) == m
        assert kernels.dphi(kind)(params, -m, 1.0) == -1.0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_overflows(case):
    kind, params = case.loss.kernel
    rng = np.random.default_rng(4)
    for z in (-1e150, -1e8, 1e8, 1e150):
        for y in case.labels(rng, 3):
            numbers = (
                kernels.phi(kind)(params, z, y),
                kernels.dphi(kind)(params, z, y),
                kernels.d2phi(kind)(params, z, y),
                kernels.implicit_scalar(kind)(params, z, y, 1e6),
            )
            assert all(math.isfinite(number) for number in numbers)


def lowest(function, low, high):
    """The minimum of a unimodal function by thirds, in high precision and without derivatives."""
    low, high = mp.mpf(low), mp.mpf(high)
    for _ in range(260):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if function(left) < function(right):
            high = right
        else:
            low = left
    return (low + high) / 2


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_implicit_scalar_minimises(case):
    # The u that minimises phi(u) + (u - z)^2 / (2c) is z - c t.
    rng = np.random.default_rng(5)
    kind, params = case.loss.kernel
    mp.mp.dps = 80
    for _ in range(12):
        z = float(rng.normal() * 3)
        c = float(10 ** rng.uniform(-3, 2))
        y = float(case.labels(rng, 1)[0])
        t = kernels.implicit_scalar(kind)(params, z, y, c)
        best = lowest(
            lambda u, z=z, c=c, y=y: case.exact(u, mp.mpf(y)) + (u - z) ** 2 / (2 * mp.mpf(c)),
            z - 60 * c - 5,
            z + 60 * c + 5,
        )
        assert z - c * t == pytest.approx(float(best), rel=1e-10, abs=1e-10)


@given(
    st.floats(-1e4, 1e4),
    st.sampled_from([-1.0, 1.0]),
    st.floats(-12, 8).map(lambda e: 10.0**e),
)
@settings(max_examples=300, deadline=None)
def test_the_logistic_equation_holds_everywhere(z, y, c):
    t = kernels.implicit_scalar(kernels.LOGISTIC)(np.zeros(1), z, y, c)
    m, s = y * z, -y * t
    u = m + c * s
    # t = phi'(z - c t): the right side moves by at most the rounding of u times its slope.
    rounding = 1e-14 * (1.0 + abs(m) + c * s)
    assert s == pytest.approx(1 / (1 + math.exp(min(u, 700))), rel=4 * rounding + 1e-13)
    assert 0.0 <= s <= 1.0


@given(
    st.floats(-20, 20),
    st.floats(0, 10),
    st.floats(-12, 6).map(lambda e: 10.0**e),
)
@settings(max_examples=300, deadline=None)
def test_the_poisson_equation_holds_everywhere(z, y, c):
    params = np.array([3.0])
    t = kernels.implicit_scalar(kernels.POISSON)(params, z, y, c)
    mp.mp.dps = 50
    residual = mp.mpf(t) - (mp.e ** min(mp.mpf(z) - mp.mpf(c) * mp.mpf(t), 3) - mp.mpf(y))
    slope = 1 + c * math.exp(3.0)
    assert abs(float(residual)) <= 1e-14 * slope * (1 + abs(z) + abs(c * t)) * 25


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_step_leaves_the_gradient(case):
    kind, params = case.loss.kernel
    assert kernels.implicit_scalar(kind)(params, 0.3, 1.0, 0.0) == kernels.dphi(kind)(
        params, 0.3, 1.0
    )
