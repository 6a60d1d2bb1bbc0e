"""Experts against a plain reference, their sensitivity, their guarantee and their regret bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets, sums

from . import reference

BUDGET = reticent.Budget(1.0, 1e-6)
DIM, STEPS = 6, 2000
MU = 0.236704  # of a Gaussian mechanism with epsilon = 1 at delta = 1e-6


def some_costs(steps=STEPS, dim=DIM, seed=0):
    rng = np.random.default_rng(seed)
    costs = rng.random((steps, dim))
    costs[:, 1] *= 0.7
    return costs


def plain(costs, noise, temperature, step=None):
    """Weights of all steps: costs centred, summed, noisy, exponentiated."""
    total, out = np.zeros(costs.shape[1]), [np.full(costs.shape[1], 1.0 / costs.shape[1])]
    for t, row in enumerate(costs, start=1):
        total = total + reference.truncate(np.clip(row, 0.0, 1.0) - 0.5, step)
        noisy = total + noise[t - 1]
        if temperature(t) == 0.0:
            weights = np.eye(len(row))[noisy.argmin()]
        else:
            weights = np.exp(-(noisy - noisy.min()) / temperature(t))
        out.append(weights / weights.sum())
    return np.array(out)


@pytest.mark.parametrize("precision", ["float", "lattice"])
@pytest.mark.parametrize("temperature", [None, 0.0, 25.0])
def test_equals_its_reference(precision, temperature):
    made = {"budget": BUDGET, "horizon": STEPS, "seed": 7, "noise_precision": precision}
    learner = online.Experts(DIM, temperature=temperature, **made)
    bare = sums.Correlated(DIM, norm=math.sqrt(DIM) / 2, **made)
    noise = reference.noise_of(bare, STEPS)
    costs = some_costs()
    play = learner.run(costs, keep=STEPS)
    step = learner.total._noise.step if precision == "lattice" else None
    wanted = plain(costs, noise, learner.rule.temperature, step)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(learner.decision, wanted[-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(play.losses, np.einsum("ij,ij->i", costs, wanted[:-1]), atol=1e-9)


def test_the_python_loop_plays_the_same_and_gaps_are_ties():
    class Own(sets.Simplex):
        kernel = None

    made = {"budget": BUDGET, "horizon": STEPS, "seed": 3}
    costs, present = some_costs(300), np.random.default_rng(1).random(300) < 0.8
    compiled = online.Experts(DIM, **made)
    python = online.Experts(Own(DIM), **made)
    play = compiled.run(costs, present=present, keep=300)
    same = python.run(costs, present=present, keep=300)
    np.testing.assert_array_equal(play.decisions, same.decisions)
    single = online.Experts(DIM, **made)
    for row, there in zip(costs, present, strict=True):
        # a gap is what costs that are all the same would be
        single.update(row if there else np.full(DIM, 0.5))
    np.testing.assert_array_equal(single.decision, compiled.decision)


def test_one_record_moves_the_total_by_half_of_root_d():
    """At every corner of the cube, blanked and replaced; and no corner is shortened by more than rounding."""
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    moved = {}
    for corner in corners:
        learner = online.Experts(4, budget=BUDGET, horizon=1, seed=0, noise_precision="float")
        learner.update(corner)
        moved[tuple(corner)] = learner.total._total.copy()
    lengths = [np.linalg.norm(v) for v in moved.values()]
    apart = [np.linalg.norm(v - w) for v in moved.values() for w in moved.values()]
    assert max(lengths) <= 1.0
    assert min(lengths) > 1.0 - 1e-9
    assert max(apart) <= 2.0


@pytest.mark.parametrize(("neighbours", "times"), [("zero-out", 1.0), ("replace", 2.0)])
def test_the_guarantee_follows_from_the_noise(neighbours, times):
    budget = reticent.Budget(1.0, 1e-6, neighbours)
    n, d = 64, 9
    learner = online.Experts(d, budget=budget, horizon=n, seed=0, noise_precision="float")
    # variance of the last total over mu: sum of squares of the square root's coefficients, twice
    f = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, n) - 1) / (2 * np.arange(1, n))]))
    best = times * math.sqrt(d) / 2 * (f @ f) / MU
    assert learner.total.error(n) == pytest.approx(best, rel=0.02)
    assert learner.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize("dim", [2, 30])
def test_regret_is_below_its_bound(epsilon, dim):
    """Mean of 20 runs; 7 standard errors are exceeded by chance with odds below 1e-9."""
    T, rng = 4000, np.random.default_rng(5)
    costs = (rng.random((T, dim)) < 0.5).astype(float)
    costs[:, 0], costs[:, 1] = np.arange(T) % 2, (np.arange(T) + 1) % 2
    regrets = []
    for seed in range(20):
        learner = online.Experts(
            dim, budget=reticent.Budget(epsilon, 1e-6), horizon=T, seed=seed, noise_precision="float"
        )  # fmt: skip
        play = learner.run(costs, keep_records=False)
        regrets.append(float(play.losses.sum()) - costs.sum(axis=0).min())
    wide = math.sqrt(2 * math.log(dim))
    bound = learner.total.error(T) * wide + learner.rule.temperature(T) * math.log(dim)
    for t in range(1, T):
        c, s = learner.rule.temperature(t), learner.total.error(t)
        bound += min(1 / (8 * c) if c else math.inf, wide / (4 * s))
    slack = 7.0 * np.std(regrets) / math.sqrt(20)
    assert np.mean(regrets) < bound + slack


def test_the_leader_is_followed_while_there_is_noise_enough():
    loud = online.Experts(100, budget=reticent.Budget(0.01, 1e-6), horizon=1000, seed=0)
    assert {loud.rule.temperature(t) for t in (1, 100, 1000)} == {0.0}
    quiet = online.Experts(100, budget=reticent.Budget(20.0, 1e-6), seed=0)
    begins = int(quiet.rule.begins)
    assert quiet.rule.temperature(begins - 1) == 0.0
    assert quiet.rule.temperature(4 * begins) == pytest.approx(math.sqrt(begins / math.log(100)))
    assert quiet.total.error(begins) < 0.5 * math.sqrt(begins)
    assert quiet.total.error(begins // 2) >= 0.5 * math.sqrt(begins // 2)


def test_what_cannot_work_is_refused_and_what_is_beyond_is_cut():
    for wrong in (1, 0, -3):
        with pytest.raises(ValueError, match="set"):
            online.Experts(wrong, budget=BUDGET)
    with pytest.raises(ValueError, match="Simplex of mass 1"):
        online.Experts(sets.L2Ball(3), budget=BUDGET)
    with pytest.raises(TypeError, match="Costs"):
        online.Experts(3, losses.Linear(), budget=BUDGET)
    with pytest.raises(ValueError, match="temperature"):
        online.Experts(3, budget=BUDGET, temperature=-1.0)
    learner = online.Experts(3, budget=BUDGET, horizon=10, seed=0)
    twin = online.Experts(3, budget=BUDGET, horizon=10, seed=0)
    for bad in ([np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [0.0, 0.0], ["a", "b", "c"]):
        with pytest.raises((ValueError, TypeError)):
            learner.update(bad)
    assert learner.steps == 0
    np.testing.assert_array_equal(
        learner.update([1.797e308, -1.797e308, 5e-324]), twin.update([1.0, 0.0, 5e-324])
    )
    assert (learner.clipped, twin.clipped) == (1, 0)
