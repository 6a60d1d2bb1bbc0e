"""The attack on low-order bits: it succeeds on floating point and fails on the lattice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import audit, sums
from reticent.audit.pairs_sums import side_by_side

BUDGETS = {"laplace": reticent.Budget(0.1), "gaussian": reticent.Budget(1.0, 1e-6)}


def total_sampler(noise, precision, kind=sums.IndependentMechanism):
    alone = kind(1, 1, budget=BUDGETS[noise], noise=noise, noise_precision=precision)

    def sample(value, size):
        return sums.RunningTotal(side_by_side(alone, size)).add(np.full(size, value))

    return sample


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", [sums.IndependentMechanism, sums.TreeMechanism])
def test_floating_point_is_broken_and_the_lattice_is_not(noise, kind):
    claim = kind(1, 1, budget=BUDGETS[noise], noise=noise).guarantee
    broken = audit.numbers(total_sampler(noise, "float", kind), claim=claim)
    assert not broken.holds
    assert broken.epsilon > 2.0 * BUDGETS[noise].epsilon
    whole = audit.numbers(total_sampler(noise, "lattice", kind), claim=claim)
    assert whole.holds
    assert audit.grid(total_sampler(noise, "lattice", kind)(1.0, 1000)) >= 2.0**-40
    assert audit.grid(total_sampler(noise, "float", kind)(0.0, 1000)) < 2.0**-50


def standard_laplace(u):
    """What NumPy makes of a uniform double, which is a multiple of 2^-53."""
    return -math.log(2.0 - u - u) if u >= 0.5 else math.log(u + u)


def test_impossible_outputs_say_more_than_last_bits():
    """Told how NumPy makes Laplace numbers, the attack asks whether any uniform leads to an output."""
    rng = np.random.default_rng(0)
    scale = 10.0

    def sampler(value, size):
        return value + scale * rng.laplace(size=size)

    def possible(output, value):
        size = (output - value) / scale
        near = round(2**53 * (1 - 0.5 * math.exp(-size) if size >= 0 else 0.5 * math.exp(size)))
        uniforms = range(max(1, near - 8), min(2**53, near + 9))
        return any(value + scale * standard_laplace(k * 2.0**-53) == output for k in uniforms)

    blind = audit.numbers(sampler, claim=0.1, runs=2000)
    seeing = audit.numbers(sampler, claim=0.1, runs=2000, possible=possible)
    assert seeing.epsilon > blind.epsilon + 1.0
    assert not seeing.holds


def test_the_place_of_the_last_bit():
    values = np.array([1.0, -1.0, 0.75, 3.0, 96.0, 2.0**-1074, 1.0 + 2.0**-52, 0.0])
    assert audit.last_bit(values).tolist() == [0.0, 0.0, -2.0, 0.0, 5.0, -1074.0, -52.0, 1100.0]
    rng = np.random.default_rng(1)
    for x in rng.normal(size=200):
        numerator, denominator = float(x).as_integer_ratio()
        assert audit.last_bit(np.array([x]))[0] == -math.log2(denominator)
        assert numerator % 2 == 1
    assert audit.grid([0.0, 0.0]) == 0.0


def test_bad_input_is_refused():
    with pytest.raises(TypeError):
        audit.numbers(total_sampler("laplace", "float"))
    with pytest.raises(ValueError, match="runs"):
        audit.numbers(total_sampler("laplace", "float"), claim=1.0, runs=2)
    with pytest.raises(TypeError, match="value"):
        audit.numbers(total_sampler("laplace", "float"), claim=1.0, value="one")
