"""The exponential mechanism: its law by numeric integration, its guarantees by the worst pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare

import reticent
from reticent import erm, losses, sets
from reticent.erm.exponential_mechanism import spread
from reticent.erm.reading import read
from reticent.losses import kernels
from reticent.privacy import Gaussian

from .reference import gaussian_delta, records

PURE = reticent.Budget(1.0)
GAUSSIAN = reticent.Budget(1.0, 1e-6)


def line(count=40, seed=0):
    rng = np.random.default_rng(seed)
    return np.ones((count, 1)), rng.uniform(-0.6, 0.9, count)


def prepared(loss, where, A, y, budget=PURE):
    return read(loss, where, A, y, budget, noise_precision="lattice")


@dataclass(frozen=True)
class Added(losses.Huber):
    """A loss with a number of its own: its least value and the rounding of its values are not known."""

    kind: ClassVar[int] = 99


def test_a_loss_that_was_added_is_refused_until_its_values_are_proved():
    A, y = records(dim=2)
    with reticent.Ledger(PURE) as ledger, pytest.raises(ValueError, match=r"interval_loss\.py"):
        erm.exponential_mechanism(Added(), sets.L2Ball(2), A, y, budget=PURE)
    assert ledger.entries == ()
    problem = prepared(Added(), sets.L2Ball(2), A, y)
    assert spread(problem) == problem.norm * problem.set.diameter


def test_a_net_is_the_finite_exponential_mechanism():
    A, y = line()
    net = np.linspace(-1, 1, 6)[:, None]
    loss, where = losses.Squared(), sets.Box([-1.0], [1.0])
    fit = erm.exponential_mechanism(loss, where, A, y, budget=PURE, net=net, seed=0)
    k = fit.trace.settings["k"]
    F = 0.5 * ((y - net) ** 2).sum(axis=1)
    law = np.exp(-k * (F - F.min()))
    law /= law.sum()
    found = [
        int(np.argmin(np.abs(net[:, 0] - erm.exponential_mechanism(
            loss, where, A, y, budget=PURE, net=net, seed=seed).point[0])))
        for seed in range(2000)
    ]  # fmt: skip
    seen = np.bincount(found, minlength=6)
    kept = law * 2000 > 5
    assert chisquare(seen[kept], law[kept] * seen[kept].sum() / law[kept].sum()).pvalue > 1e-6
    # range of (y - x)^2 / 2 over the box: 2; plus rounding
    assert fit.guarantee.releases[0].sensitivity == pytest.approx(2.0, abs=1e-9)
    assert fit.guarantee.releases[0].sensitivity > 2.0
    assert k == pytest.approx(0.5, rel=1e-6)


def test_spread_is_the_range_of_one_records_loss():
    A, y = records(dim=2)
    for loss in (losses.Logistic(), losses.Hinge(), losses.Squared(), losses.Quantile(0.2),
                 losses.Huber(0.5), losses.SmoothHinge(0.7)):  # fmt: skip
        problem = prepared(loss, sets.L2Ball(2, 1.4), A, y)
        kind, params = loss.kernel
        bound = spread(problem)
        for label in (-1.0, 1.0):
            values = [kernels.phi(kind)(params, z, label) for z in np.linspace(-1.4, 1.4, 1001)]
            assert max(values) - min(values) <= bound * (1 + 1e-9)
        assert bound <= problem.norm * 2.8 * (1 + 1e-9)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared(label_bounds=(0.0, 1e8))])
@pytest.mark.parametrize("radius", [1e-200, 1e-16, 3e-15, 1e-9, 0.3])
def test_the_spread_is_no_smaller_on_small_sets(loss, radius):
    # Two nearly equal losses cancel; in exact arithmetic a record's loss ranges over at least this.
    where = sets.L2Ball(1, radius)
    problem = prepared(loss, where, np.ones((1, 1)), [1.0])
    found = Fraction(spread(problem))
    if isinstance(loss, losses.Squared):
        r, y = Fraction(radius), 10**8
        assert found >= ((r + y) ** 2 - (y - r) ** 2) / 2
    else:
        # log(1 + e^z) - log(1 + e^-z) = z
        assert found >= Fraction(radius)
    assert found <= problem.norm * where.diameter * (1 + 1e-12)


def test_pure_guarantee_by_numeric_integration():
    # log-ratio of the two densities for the worst record in one dimension, zero-out and replace
    A, y = line(count=5)
    where, loss = sets.Box([-1.0], [1.0]), losses.Squared()
    for neighbours in ("zero-out", "replace"):
        budget = PURE.with_(neighbours=neighbours)
        fit = erm.exponential_mechanism(loss, where, A, y, budget=budget, version="plain", seed=0)
        k = fit.trace.settings["k"]

        def log_density(labels, x, k=k):
            def F(u):
                return 0.5 * sum((b - u) ** 2 for b in labels)

            whole = quad(lambda u: math.exp(-k * F(u)), -1, 1)[0]
            return -k * F(x) - math.log(whole)

        base = list(y)
        other = [*base, 1.0] if neighbours == "zero-out" else base
        with_one = [*base, -1.0] if neighbours == "zero-out" else [*base[:-1], 1.0]
        without = base if neighbours == "zero-out" else [*base[:-1], -1.0]
        ratios = [
            log_density(with_one, x) - log_density(without, x) for x in np.linspace(-1, 1, 41)
        ]
        assert max(np.abs(ratios)) <= 1.0
        assert max(ratios) - min(ratios) > 0.9
        assert other
        assert fit.guarantee.pure <= 1.0


def test_regularised_guarantee_by_numeric_integration():
    # The hockey stick of the two densities never exceeds the Gaussian one of the stated mu.
    A, y = line(count=4)
    where, loss = sets.Box([-1.0], [1.0]), losses.Quantile(0.5)
    fit = erm.exponential_mechanism(
        loss, where, A, y, budget=GAUSSIAN, version="regularized", seed=0
    )
    k, ridge = fit.trace.settings["k"], fit.trace.settings["ridge"]
    curve = fit.guarantee.releases[0].curve
    assert isinstance(curve, Gaussian)
    assert curve.mu == pytest.approx(0.5 * math.sqrt(k / ridge), rel=1e-9)
    grid = np.linspace(-1, 1, 20_001)

    def density(labels):
        F = sum(0.5 * np.abs(b - grid) for b in labels) + ridge / 2 * grid**2
        d = np.exp(-k * (F - F.min()))
        return d / np.trapezoid(d, grid)

    for label in (-1.0, 1.0, 0.3):
        p, q = density([*y, label]), density(y)
        for epsilon in (0.01, 0.05, 0.2):
            for a, b in ((p, q), (q, p)):
                stick = np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), grid)
                assert stick <= gaussian_delta(epsilon, curve.mu) + 1e-8


def test_auto_prefers_the_smaller_bound():
    A, y = records(count=300, dim=2)
    loss = losses.Logistic()
    pure = erm.exponential_mechanism(
        loss, sets.L2Ball(2), A, y, budget=reticent.Budget(8.0), seed=0
    )
    assert pure.trace.settings["version"] == "plain"
    for fit in (pure, erm.exponential_mechanism(loss, sets.L2Ball(2), A, y, seed=0,
                                                budget=reticent.Budget(8.0, 1e-6))):  # fmt: skip
        assert fit.guarantee.meets(reticent.Budget(8.0, 1e-6))


def test_without_noise_it_finds_the_optimum():
    A, y = records(count=300, dim=2)
    loss = losses.Logistic()
    best = losses.best_fixed(sets.L2Ball(2, 2.0), loss, A, y, gap=1e-8)
    for budget in (reticent.Budget(1e5), reticent.Budget(1e5, 1e-6)):
        fit = erm.exponential_mechanism(loss, sets.L2Ball(2, 2.0), A, y, budget=budget, seed=0)
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-3


def test_published_exponent_tells_the_truth():
    A, y = line()
    loss, where = losses.Quantile(0.5), sets.Box([-1.0], [1.0])
    fit = erm.exponential_mechanism(loss, where, A, y, budget=PURE, calibration="published", seed=0)
    assert fit.trace.settings["k"] == pytest.approx(1 / (2 * 0.5 * 2.0), rel=1e-6)
    assert fit.guarantee.pure == pytest.approx(0.5, rel=1e-6)


def test_a_chain_promises_nothing():
    A, y = records(count=200, dim=5)
    fit = erm.exponential_mechanism(losses.Logistic(), sets.L2Ball(5), A, y, budget=reticent.Budget(50.0),
                                    sampler="chain", chain_steps=3000, seed=0)  # fmt: skip
    assert not math.isfinite(fit.guarantee.epsilon(0.5))
    assert "Markov chain of 3000 steps" in fit.guarantee.explain()
    assert "pure epsilon = 50" in fit.guarantee.explain()
    zero = losses.Logistic().mean_value(np.zeros(5), A, y)
    assert losses.Logistic().mean_value(fit.point, A, y) < zero
    with reticent.Ledger(PURE) as ledger, pytest.raises(reticent.privacy.BudgetExceeded):
        erm.exponential_mechanism(
            losses.Logistic(), sets.L2Ball(5), A, y, budget=PURE, sampler="chain"
        )
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "soft"}, "version must be one of"),
        ({"version": "regularized"}, "version='regularized'"),
        ({"sampler": "net"}, "needs net="),
        ({"net": [[5.0, 0.0]]}, "net must lie in"),
        ({"net": [[0.0, 0.0, 0.0]]}, "net must have shape"),
        ({"set": sets.L1Ball(2)}, "sampler='exact' needs"),
        ({"set": sets.WholeSpace(2)}, "bounded set"),
        ({"chain_steps": 0}, "chain_steps"),
        ({"loss": losses.CustomLoss(lambda x, a, y: 0.0, lambda x, a, y: x, lipschitz=1.0)},
         "generalised linear"),
    ],
)  # fmt: skip
def test_bad_input_spends_nothing(changes, message):
    A, y = records(dim=2)
    arguments = {"loss": losses.Logistic(), "set": sets.L2Ball(2), "X": A, "y": y, "budget": PURE}
    with reticent.Ledger(PURE) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.exponential_mechanism(**{**arguments, **changes})
    assert ledger.entries == ()


def test_a_net_a_hair_outside_the_set_is_accounted_for():
    # What a record can move is taken from the points themselves, and holds for any record.
    A, y = line()
    net = np.array([[-1.0 - 9e-10], [0.2], [1.0 + 9e-10]])
    loss, where = losses.Squared(), sets.Box([-1.0], [1.0])
    fit = erm.exponential_mechanism(loss, where, A, y, budget=PURE, net=net, seed=0)
    moved = 0.0
    for a in np.linspace(-1, 1, 21):
        for label in np.linspace(-1, 1, 21):
            values = 0.5 * (a * net[:, 0] - label) ** 2
            moved = max(moved, float(np.ptp(values)))
    assert fit.guarantee.releases[0].sensitivity >= PURE.sensitivity(moved)
    near = erm.exponential_mechanism(
        loss, where, A, y, budget=PURE, net=net[1:2] + [[0.0], [0.1]], seed=0
    )
    assert near.trace.settings["k"] > 5 * fit.trace.settings["k"]
