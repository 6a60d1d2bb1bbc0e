"""Scales meet the budget, and a tenth of a percent less does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.privacy import (
    BoundedRange,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    Pure,
    Release,
    SubsampledGaussian,
    ZeroConcentrated,
    calibration,
    compose,
    gaussian,
)
from reticent.privacy.composition import meets

BUDGETS = [Budget(1.0, 1e-6), Budget(0.05, 1e-9), Budget(8.0, 1e-3), Budget(30.0, 1e-12)]


def guarantee(*curves) -> Guarantee:
    return Guarantee([Release("test", curve, None, "some") for curve in curves])


@pytest.mark.parametrize("budget", BUDGETS)
def test_gaussian(budget: Budget) -> None:
    sensitivities = np.array([1.0, 2.0, 0.5])
    sigma = calibration.gaussian(budget, sensitivities)
    assert sigma == pytest.approx(math.sqrt(5.25) / gaussian.mu(budget.epsilon, budget.delta))
    assert guarantee(*(Gaussian(s / sigma) for s in sensitivities)).meets(budget)
    smaller = 0.999 * sigma
    assert not guarantee(*(Gaussian(s / smaller) for s in sensitivities)).meets(budget)
    assert calibration.gaussian(budget, 0.0) == 0.0
    assert calibration.gaussian(budget, 1e200) == pytest.approx(
        1e200 * calibration.gaussian(budget, 1.0)
    )


@pytest.mark.parametrize("budget", [*BUDGETS, Budget(1.0), Budget(0.1)])
@pytest.mark.parametrize("count", [1, 7, 300])
@pytest.mark.parametrize(
    ("scale_of", "curve", "factor"),
    [
        (calibration.gamma, Pure, 1.0),
        (calibration.laplace, Laplace, 1.0),
        (calibration.gumbel, BoundedRange, 2.0),
    ],
)
def test_pure_noise(budget: Budget, count: int, scale_of, curve, factor: float) -> None:
    scale = scale_of(budget, 3.0, count)

    def cost(b: float):
        return compose([(curve(factor * 3.0 / b), count)])

    assert cost(scale).epsilon(budget.delta) <= budget.epsilon * (1 + 1e-9)
    assert cost(0.999 * scale).epsilon(budget.delta) > budget.epsilon
    # never more noise than plain addition of epsilons needs
    assert scale <= factor * 3.0 * count / budget.epsilon * (1 + 1e-9)
    if budget.delta == 0.0:
        assert scale == pytest.approx(factor * 3.0 * count / budget.epsilon)


def test_selection_figures() -> None:
    assert calibration.gumbel(Budget(1.0, 1e-6), 1.0, 99) == pytest.approx(44.8, abs=0.05)
    assert calibration.gumbel(Budget(1.0, 1e-6), 1.0, 999) == pytest.approx(143.1, abs=0.05)
    # the tight divergences need a little less noise than the zCDP bound alone
    by_rho = calibration.calibrate(
        Budget(1.0, 1e-6), lambda b: guarantee(ZeroConcentrated(99 / (2 * b * b)))
    )
    assert 0.99 * by_rho < calibration.gumbel(Budget(1.0, 1e-6), 1.0, 99) <= by_rho


@pytest.mark.parametrize("budget", [*BUDGETS, Budget(1.0, 1e-6, "replace", 16)])
def test_mixture(budget: Budget) -> None:
    asked: list[float] = []

    def build(m: float) -> Guarantee:
        asked.append(m)
        return Guarantee(
            [Release("choose", BoundedRange(0.1 / m), 1.0, "gumbel", 40),
             Release("sum", Gaussian(0.5 / m), 1.0, "gaussian")],
            budget.neighbours, budget.window,
        )  # fmt: skip

    multiplier = calibration.calibrate(budget, build)
    assert len(asked) == len(set(asked)) < 60  # a guarantee may take a second
    assert build(multiplier).meets(budget)
    assert not build(0.999 * multiplier).meets(budget)
    assert not build((1 - 1e-7) * multiplier).meets(budget)
    # a known epsilon is compared with the budget as one that is computed for the purpose
    for m in asked[:10]:
        curve = build(m).curve
        assert meets(curve, budget, curve.epsilon(budget.delta)) == meets(curve, budget)


def test_subsampled() -> None:
    budget = Budget(2.0, 1e-5)

    def build(z: float) -> Guarantee:
        return guarantee(SubsampledGaussian(0.05, z, 60))

    z = calibration.calibrate(budget, build, start=1.0, tolerance=1e-4)
    assert build(z).meets(budget)
    assert not build(0.999 * z).meets(budget)


def test_a_pure_budget_by_search() -> None:
    multiplier = calibration.calibrate(Budget(0.7), lambda m: guarantee(Pure(1 / m), Pure(2 / m)))
    assert multiplier == pytest.approx(3 / 0.7, rel=1e-8)


def test_what_cannot_be_met() -> None:
    with pytest.raises(ValueError, match="Gaussian noise never does"):
        calibration.calibrate(Budget(1.0), lambda m: guarantee(Gaussian(1 / m)))
    with pytest.raises(ValueError, match="no multiplier"):
        calibration.calibrate(Budget(1.0, 1e-6), lambda m: guarantee(Pure(2.0)))
    with pytest.raises(ValueError, match="budget's neighbours and window"):
        calibration.calibrate(Budget(1.0, 1e-6, window=3), lambda m: guarantee(Pure(1 / m)))
    # what is private without noise needs next to none
    assert calibration.calibrate(Budget(1.0), lambda m: guarantee(Pure(0.5))) < 1e-20


def test_bad_input() -> None:
    budget = Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="gamma or laplace"):
        calibration.gaussian(Budget(1.0), 1.0)
    for bad in (-1.0, [1.0, math.nan], []):
        with pytest.raises((ValueError, TypeError)):
            calibration.gaussian(budget, bad)
    for function in (calibration.gamma, calibration.laplace, calibration.gumbel):
        with pytest.raises(ValueError, match="sensitivity"):
            function(budget, -1.0)
        with pytest.raises(ValueError, match="count"):
            function(budget, 1.0, 0)
    with pytest.raises(ValueError, match="start"):
        calibration.calibrate(budget, lambda m: guarantee(Pure(1 / m)), start=0.0)
