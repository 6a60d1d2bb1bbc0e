"""Worst cases of the offline solvers.

One fit is many runs: the j-th record points along the j-th coordinate, the set is a box, and the loss is linear or
generalised linear, so that each coordinate of the result depends only on its own record and its own noise. World a has
all the records blanked (or reversed), world b has all of them; each coordinate by itself is a pair of neighbours. No
internals are used: these are fits as any user runs them.

This needs noise with independent coordinates, that is, Gaussian noise. Solvers with other noise, and those that select,
would have to be run once per output, too slowly for an attack to have power; white-box lines cover them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from reticent import erm, losses, sets
from reticent.audit.registry import Pair, register
from reticent.privacy import Budget

_FAR = 1e9
_OVERLONG = 3.0
BOTH = ({"neighbours": "zero-out"}, {"neighbours": "replace"})


def canary_pair(
    name: str,
    fit: Callable[..., erm.Fit],
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    width: int = 1000,
) -> Pair:
    """The worst case of a solver with Gaussian noise: ``fit(X, y, budget)`` on one record per coordinate."""
    budget = Budget(epsilon, delta, neighbours)

    def solve(world: float, size: int) -> erm.Fit:
        X = sparse.csr_matrix(sparse.diags(np.full(size, world)))
        X.eliminate_zeros()
        return fit(X, np.ones(size), budget)

    example = solve(_OVERLONG, 8)
    return Pair(
        name,
        lambda world, size: np.ravel(solve(world, size).point),
        0.0 if neighbours == "zero-out" else -_OVERLONG,
        _OVERLONG,
        claim=example.guarantee,
        delta=delta,
        batch=width,
        why="each coordinate has a record of its own, as long as allowed, or blanked, or reversed",
        subject=example,
        selection=0.2,
    )


def _descent(X: Any, y: Any, budget: Budget) -> erm.Fit:
    count, dim = X.shape
    return erm.gradient_descent(
        losses.Linear(),
        sets.LinfBall(dim, _FAR),
        X,
        budget=budget,
        steps=3,
        step_size=float(count),
        average="last",
    )


def _perturbed_objective(X: Any, y: Any, budget: Budget) -> erm.Fit:
    # a large ridge and a sharp bend show all of the noise at large deltas, at which the claim is tested too
    return erm.objective_perturbation(
        losses.SmoothHinge(0.1), sets.WholeSpace(X.shape[1]), X, y, budget=budget, regularizer=300.0
    )


def _perturbed_output(X: Any, y: Any, budget: Budget) -> erm.Fit:
    return erm.output_perturbation(
        losses.Linear(), sets.LinfBall(X.shape[1], 100.0), X, y, budget=budget, regularizer=3.0
    )


def _averaged_iterate(X: Any, y: Any, budget: Budget) -> erm.Fit:
    return erm.averaged_iterate(
        losses.Linear(), sets.LinfBall(X.shape[1], 1e3), X, budget=budget, regularizer=1.0
    )


def _add(name: str, make: Callable[..., Pair], fit: Callable[..., erm.Fit], **options: Any) -> None:
    @register(name, variants=BOTH, **options)
    def build(**changes: Any) -> Pair:
        return make(name, fit, **changes)


_add("erm-gradient-descent", canary_pair, _descent, width=10_000)
_add(
    "erm-objective-perturbation",
    canary_pair,
    _perturbed_objective,
    epsilon=4.0,
    width=1000,
)
_add("erm-output-perturbation", canary_pair, _perturbed_output, epsilon=4.0, width=100)
_add("erm-averaged-iterate", canary_pair, _averaged_iterate, width=1000)
