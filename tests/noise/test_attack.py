"""The attack on the low-order bits (Mironov 2012), mounted on our own running totals.

An attacker knows everything but whether one record is there: the noisy total is 0 + noise or 1 + noise, at an epsilon
so small that no test should do much better than a coin. In floating point the set of noise values is sparse, and
adding 1 shifts it to another set, so most outputs are possible in one of the two worlds only. On the lattice both
worlds have the same outputs.

False alarms: Hoeffding's inequality at 1e-7 for each share that is tested, a dozen in all.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums

EPSILON = 0.1
NORM = 1.0 + 2.0**-20  # so that a record of 1 passes as it is
TRIALS = 500  # for each of the two worlds
CHANCE = math.exp(EPSILON) / (1 + math.exp(EPSILON))  # what epsilon allows
MARGIN = math.sqrt(math.log(1e7) / (2 * 2 * TRIALS))


def independent(precision, seed):
    return sums.Independent(1, 1, budget=reticent.Budget(EPSILON), norm=NORM, noise="laplace",
                            noise_precision=precision, seed=seed)  # fmt: skip


def tree(precision, seed):
    return sums.Tree(1, 1, budget=reticent.Budget(EPSILON), norm=NORM, noise="laplace", estimator="plain",
                     noise_precision=precision, seed=seed)  # fmt: skip


def outputs(build, precision):
    """The first total, with a record of 0 and with one of 1."""
    worlds = []
    for value in (0.0, 1.0):
        seeds = range(int(value) * TRIALS, int(value) * TRIALS + TRIALS)
        worlds.append([float(build(precision, seed).add([value])[0]) for seed in seeds])
    return worlds


def standard_laplace(u):
    """What NumPy makes of a uniform double, which is a multiple of 2^-53."""
    return -math.log(2.0 - u - u) if u >= 0.5 else math.log(u + u)


def possible(output, value, scale):
    """Whether any uniform double leads from the value to the output; only the nearest few can."""
    size = (output - value) / scale
    near = round(2**53 * (1 - 0.5 * math.exp(-size) if size >= 0 else 0.5 * math.exp(size)))
    uniforms = range(max(1, near - 8), min(2**53, near + 9))
    return any(value + scale * standard_laplace(k * 2.0**-53) == output for k in uniforms)


def guess(output, scale, coin):
    zero, one = possible(output, 0.0, scale), possible(output, 1.0, scale)
    return coin if zero == one else int(one)


def success(worlds, scale):
    coins = np.random.default_rng(5).integers(0, 2, (2, TRIALS)).tolist()
    right = sum(
        guess(output, scale, coin) == world
        for world in (0, 1)
        for output, coin in zip(worlds[world], coins[world], strict=True)
    )
    return right / (2 * TRIALS)


@pytest.mark.parametrize("build", [independent, tree])
def test_floating_point_noise_gives_the_record_away(build):
    worlds, scale = outputs(build, "float"), NORM / EPSILON
    # every output is explained by the world that it came from, and most of them by no other
    for world, found in enumerate(worlds):
        assert all(possible(output, float(world), scale) for output in found)
        impossible = sum(not possible(output, float(1 - world), scale) for output in found)
        assert impossible > 0.6 * TRIALS
    assert success(worlds, scale) > 0.8 > CHANCE + 2 * MARGIN
    guarantee = build("float", None).guarantee
    assert not guarantee.lattice
    assert "floating-point noise" in str(guarantee)


@pytest.mark.parametrize("build", [independent, tree])
def test_the_same_attack_does_no_better_than_chance_on_the_lattice(build):
    worlds, scale = outputs(build, "lattice"), NORM / EPSILON
    assert success(worlds, scale) < CHANCE + MARGIN
    assert build("lattice", None).guarantee.lattice


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "gamma"])
@pytest.mark.parametrize("record", [0.0, 1.0, 1 / 3, 1e-9, 1e-300])
def test_all_outputs_of_both_worlds_are_multiples_of_one_step(noise, record):
    budget = reticent.Budget(EPSILON, 1e-6)
    for build in (sums.Independent, sums.Tree):
        totals = build(1, 2000, budget=budget, noise=noise, seed=3)
        found = totals.run(np.full((2000, 1), record))
        step = totals._noise.step
        assert math.frexp(step)[0] == 0.5
        assert (np.abs(found) < 2.0**52 * step).all()  # so that the quotient is the whole number
        assert (found / step == np.rint(found / step)).all()
        # and they use the step: both parities occur, as for a fair coin (7 deviations, below 1e-11)
        odd = float((np.rint(np.diff(found[:, 0]) / step) % 2).mean())
        assert abs(odd - 0.5) < 7 * 0.5 / math.sqrt(1999)


def last_bits_are_zero(output):
    """Whether an output is a multiple of 2^-53, as 1 + noise is whenever the noise is not tiny."""
    return output * 2.0**53 == round(output * 2.0**53)


def test_floating_point_gaussians_have_telltale_last_bits_too():
    """Small outputs of the world with a record of 1 are multiples of 2^-53; of the other, one in six is on average.

    That half of some hundred of these would be has a probability below 1e-10.
    """
    budget = reticent.Budget(8.0, 1e-6)
    shares = {}
    for precision in ("float", "lattice"):
        for value in (0.0, 1.0):
            found = [
                float(sums.Independent(1, 1, budget=budget, noise_precision=precision, seed=seed).add([value])[0])
                for seed in range(400)
            ]  # fmt: skip
            small = [output for output in found if abs(output) < 0.25]
            assert len(small) > 20
            shares[precision, value] = np.mean([last_bits_are_zero(output) for output in small])
    assert shares["float", 1.0] == 1
    assert shares["float", 0.0] < 0.5
    assert shares["lattice", 0.0] == shares["lattice", 1.0] == 1
