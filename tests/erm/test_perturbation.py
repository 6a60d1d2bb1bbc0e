"""Noise and ridge of a perturbed objective: public numbers only, and a ridge for the direction."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import erm, losses, sets
from reticent.erm.perturbation import PublicNumbers, exact
from reticent.erm.reading import read

from .reference import records

PURE = reticent.Budget(1.0)
GAUSSIAN = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN.with_(neighbours="replace")])
@pytest.mark.parametrize(
    ("loss", "where"),
    [(LOSS, None), (losses.SmoothHinge(0.5), sets.L2Ball(4)), (losses.Huber(), sets.WholeSpace(4))],
)
def test_noise_and_ridge_depend_on_public_numbers_only(loss, where, budget):
    A, y = records()
    for groups in (None, np.arange(len(A)) // 3):
        first, second = (
            read(loss, where, rows, labels, budget, noise_precision="lattice", groups=groups)
            for rows, labels in ((A, y), (np.zeros_like(A), -y))
        )
        assert PublicNumbers.of(first) == PublicNumbers.of(second)
        assert exact(PublicNumbers.of(first), None, 1) is exact(PublicNumbers.of(second), None, 1)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("count", [300, 3000, 10**6])
def test_a_ridge_for_the_direction_and_what_it_takes_of_the_length(count, delta):
    """Stronger where records are few for their columns, the same where they are many; a public factor says how much."""
    p, budget = 12, reticent.Budget(0.5, delta)
    X, y = np.zeros((count, p)), np.ones(count)
    both = [
        erm.objective_perturbation(
            losses.Logistic(), None, X, y, budget=budget, seed=0, for_direction=on
        )
        for on in (False, True)
    ]
    usual, ridge = (fit.released["ridge"] for fit in both)
    mean = 0.25 * count * 0.25 / p  # a quarter of the largest curvature, 1/4 for each record
    assert "shrunk" not in both[0].released
    left = min(1.0, (usual + mean) / (ridge + mean))
    assert both[1].released["shrunk"] == pytest.approx(left)
    assert both[1].guarantee.epsilon(delta) <= 0.5
    if count == 300:
        assert both[1].released["shrunk"] < 0.6
        assert both[1].released["linear_noise"] < both[0].released["linear_noise"]
    elif count == 10**6:
        assert both[1].released["shrunk"] > 0.99


def test_a_ridge_for_the_direction_turns_less():
    """Columns of very different spread: the angle to the best direction, means of 20 seeds."""
    found = {True: [], False: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((400, 16)) / (1.0 + np.arange(16.0))
        X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
        y = np.sign(X[:, 0] + 0.2 * rng.standard_normal(400))
        for on, kept in found.items():
            fit = erm.objective_perturbation(
                losses.Logistic(),
                None,
                X,
                y,
                budget=reticent.Budget(0.3, 1e-6),
                seed=seed,
                for_direction=on,
            )
            kept.append(np.corrcoef(X @ fit.point, X[:, 0])[0, 1])
    assert np.mean(found[True]) > np.mean(found[False])


@pytest.mark.parametrize(
    "changes",
    [
        {"regularizer": 3.0}, {"set": sets.L2Ball(2, 1.0)}, {"loss": losses.Huber(1.0)},
        {"calibration": "published"},
    ],
)  # fmt: skip
def test_a_ridge_for_the_direction_is_for_defaults(changes):
    given = {"loss": losses.Logistic(), "set": None} | changes
    with pytest.raises(ValueError, match="for_direction=True needs"):
        erm.objective_perturbation(
            given.pop("loss"), given.pop("set"), np.zeros((9, 2)), np.ones(9), budget=GAUSSIAN,
            seed=0, for_direction=True, **given,
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::reticent.LooseBudgetWarning")
@pytest.mark.parametrize("delta", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 30.0])
def test_a_large_delta_for_a_replaced_record(epsilon, delta):
    """The smaller terms of the bound are not small there; the calibration ended as a bug in reticent."""
    budget = reticent.Budget(epsilon, delta, "replace")
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 3))
    y = np.sign(X[:, 0])
    loss = losses.CappedLogistic(0.5)
    fit = erm.objective_perturbation(loss, None, X, y, budget=budget, seed=0)
    assert fit.guarantee.meets(budget)
    if delta < 0.1:
        assert fit.guarantee.epsilon(delta) > 0.9 * epsilon
