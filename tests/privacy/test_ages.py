"""Descriptions of costs by age and of participation refuse wrong arguments when they are made."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.privacy import (
    Composed,
    Gaussian,
    Guarantee,
    ObjectivePerturbation,
    Pure,
    Release,
    Worst,
)
from reticent.privacy.ages import Decay, Filtered, OnDisjointRecords, Stepwise
from reticent.privacy.budget import Scope
from reticent.privacy.participation import Participation
from reticent.sums.toeplitz import Toeplitz

HALF = Decay(0.0, (1.0,), (0.5,))
SUM = Release("sum", Gaussian(1.0), 1.0, "gaussian")

WRONG = {
    "gap of 1": (lambda: Decay(0.0, (1.0,), (1.0,)), r"gaps must be .*1\), got 1.0"),
    "gap of 0": (lambda: Decay(0.0, (1.0,), (0.0,)), "gaps must be .* got 0.0"),
    "gap lost in squares": (lambda: Decay(0.0, (1.0,), (5e-324,)), "gaps must be .* got 5e-324"),
    "weight lost in squares": (lambda: Decay(0.0, (1e-200,), (0.5,)), "weights must be .* 1e-200"),
    "weight beyond squares": (lambda: Decay(0.0, (1e200,), (0.5,)), "weights must be .* 1e\\+200"),
    "limit lost in squares": (lambda: Decay(1e-200), "limit must be 0 or at least .* 1e-200"),
    "no coefficient": (lambda: Decay(0.0), "limit must be above 0 if there are no weights"),
    "a number for weights": (lambda: Decay(0.0, 1.0, (0.5,)), "weights must be a sequence.* 1.0"),
    "text for gaps": (
        lambda: Decay(0.0, (1.0,), "5"),
        "gaps must be a sequence of numbers, got '5'",
    ),
    "a bool for a weight": (lambda: Decay(0.0, (True,), (0.5,)), "weights must be .* True"),
    "no decay": (lambda: Filtered(0.5, 0.3), "decay must be a Decay.* got 0.5"),
    "huge reach": (lambda: Filtered(HALF, 1e200), "reach must be .* 1e\\+200"),
    "no participation": (
        lambda: Filtered(HALF, 0.3, participation=3),
        r"participation must be a privacy\.Participation.* got 3",
    ),
    "falling costs": (
        lambda: Stepwise([(1, Gaussian(1.0)), (5, Gaussian(0.5))]),
        "must not fall with age, got .*1.0.* at age 1 and .*0.5.* at age 5",
    ),
    "falling pure costs": (lambda: Stepwise([(1, Pure(1.0)), (5, Pure(0.5))]), "must not fall"),
    "no curve at an age": (lambda: Stepwise([(1, 0.5)]), "steps must hold privacy curves.* 0.5"),
    "no pair": (lambda: Stepwise([1]), r"steps must hold pairs \(age, curve\), got 1"),
    "no steps": (lambda: Stepwise(None), "steps must be a sequence of pairs.* None"),
    "no guarantees": (lambda: OnDisjointRecords(()), "guarantees must hold at least one"),
    "fewer than no runs": (
        lambda: OnDisjointRecords((((Gaussian(1.0), -1, None),),)),
        "count must be at least 0, got -1",
    ),
    "no ages of a part": (
        lambda: OnDisjointRecords((((Gaussian(1.0), 1, 5),),)),
        "ages must be an Ages object.* got 5",
    ),
    "ages that fall": (lambda: Scope(ages=(10**6, 5)), r"ages must increase, got \(1000000, 5\)"),
    "ages of a guarantee that fall": (
        lambda: Guarantee([SUM], ages=(10**6, 5)),
        r"ages must increase, got \(1000000, 5\)",
    ),
    "one age": (lambda: Scope(ages=5), "ages must be a sequence of whole numbers, got 5"),
    "too long a window": (lambda: reticent.Budget(1.0, 1e-6, window=2**41), "window must be"),
    "text for a flag": (lambda: Guarantee([SUM], lattice="False"), "lattice must be True or False"),
    "text for one-sided": (
        lambda: ObjectivePerturbation(0.1, 0.4, one_sided="False"),
        "one_sided must be True or False, got 'False'",
    ),
    "runs given back": (lambda: Composed(((Pure(1.0), -1),)), "count of parts must be .* got -1"),
    "the worst of nothing": (lambda: Worst(()), "options must hold at least one"),
    "a gap for a filter": (lambda: Toeplitz(0.5, (0.75,)), "gap must be a sequence of numbers"),
    "no number of epsilon": (
        lambda: reticent.Budget(np.complex128(1 + 1j)),
        "epsilon must be a real number",
    ),
    "a time for epsilon": (
        lambda: reticent.Budget(np.timedelta64(1)),
        "epsilon must be a real number",
    ),
    "more than a double": (lambda: reticent.Budget(10**400), "epsilon must be a finite number"),
    "an epsilon beyond formulas": (
        lambda: reticent.Budget(1e20, 1e-6),
        "epsilon must be .* 1e\\+20",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_at_construction(case):
    make, words = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"filter": (0.5, 0.75)}, "filter must be a sums.toeplitz.Toeplitz"),
        ({"horizon": 2**41, "filter": Toeplitz()}, "horizon must be between 1 and"),
        ({"buffers": 13}, "buffers must be between 1 and 12, got 13"),
        ({"sensitivity": 1e200}, "sensitivity must be"),
        ({"records": 10**400}, "records must be between"),
        ({"dim": 10**400}, "dim must be between"),
    ],
)
def test_a_mechanism_refuses_before_it_is_asked(wrong, words):
    given = {"dim": 1, "horizon": 64, "budget": reticent.Budget(1.0, 1e-6)} | wrong
    with pytest.raises((ValueError, TypeError), match=words):
        sums.CorrelatedMechanism(**given)


@pytest.mark.parametrize("gap", [1.0 - 2.0**-53, 0.999, 0.5, 1e-9])
@pytest.mark.parametrize("rule", [Participation(), Participation(5, 3), Participation(None, 40)])
def test_what_is_accepted_has_a_cost_at_every_age(gap, rule):
    costs = [
        Filtered(Decay(0.1, (0.9,), (gap,)), 0.2, participation=rule).mu(a) for a in (1, 9, 999)
    ]
    assert all(map(math.isfinite, costs))
    assert 0.0 < costs[0] <= costs[1] <= costs[2]
