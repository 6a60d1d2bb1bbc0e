"""Worst cases of selection by noisy scores.

A selection is hardest to hide if one candidate's score goes up and all others go down, and that candidate is rarely
selected: its probability then grows by almost the factor e^epsilon, while the normalising constant hardly changes
(docs/lattice.md explains how a selection is made).

If scores move in one direction only (``monotone``), the gap between two scores moves half as far; the pair here keeps
all other scores fixed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.audit.registry import Pair, register
from reticent.noise import Source, exponential_mechanism, report_noisy_max
from reticent.privacy import Budget

_CHOOSERS = {
    "gumbel": exponential_mechanism,
    "laplace": report_noisy_max,
    "exponential": report_noisy_max,
}


def selection_pair(
    name: str,
    noise: str,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    neighbours: str = "zero-out",
    monotone: bool = False,
    candidates: int = 3,
    share: float = 0.08,
    sensitivity: float = 1.0,
) -> Pair:
    """The worst case of one choice.

    Parameters
    ----------
    candidates
        Number of candidates.
    share
        Approximate probability with which the candidate that gains is selected in the first world.
    """
    budget = Budget(epsilon, delta, neighbours)
    given: dict[str, Any] = {"sensitivity": sensitivity, "budget": budget, "monotone": monotone}
    if noise != "gumbel":
        given["noise"] = noise
    # the relation determines how far a score may move; here that is `sensitivity` under either
    choice = _CHOOSERS[noise](np.zeros(candidates), **given, source=Source())
    pure = choice.guarantee.pure
    assert pure is not None
    scale = (1.0 if monotone else 2.0) * sensitivity / pure
    low = scale * math.log(share * (candidates - 1) / (1.0 - share))
    world_a = np.zeros(candidates)
    world_a[0] = low
    world_b = world_a + (0.0 if monotone else -sensitivity)
    world_b[0] = low + sensitivity
    source = Source()

    def run(world: NDArray[np.float64], size: int) -> NDArray[np.int64]:
        return np.array(
            [_CHOOSERS[noise](world, **given, source=source).index for _ in range(size)]
        )

    return Pair(
        name,
        run,
        world_a,
        world_b,
        claim=choice.guarantee,
        delta=delta,
        batch=5000,
        why="a rarely chosen candidate gains while all others lose",
        subject=choice,
        selection=0.2,
    )


def _register(name: str, noise: str, **options: Any) -> None:
    changes_of = ({"neighbours": "zero-out"}, {"neighbours": "replace"}, {"monotone": True})

    @register(name, variants=changes_of, **options)
    def build(**changes: Any) -> Pair:
        return selection_pair(name, noise, **changes)


_register("exponential-mechanism", "gumbel")
_register("report-noisy-max-laplace", "laplace")
_register("report-noisy-max-exponential", "exponential")
