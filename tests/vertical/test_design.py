"""The design of a run: how many rounds it has."""

from __future__ import annotations

import numpy as np
import pytest

import reticent


def test_default_rounds_grow_with_the_records():
    """More records, more rounds, about as n^(2/3) before sketching and never fewer."""
    from reticent.vertical.design import Design, Wish
    from reticent.vertical.messages import Welcome

    rounds = []
    for n in (1_000, 8_000, 64_000, 512_000):
        facts = {
            f"p{k}": Welcome(run=bytes(16), sequence=0, name=f"p{k}", rows=n, columns=100,
                             feature_bound=1.0, label_bound=1.0, has_labels=True, replace=False,
                             lattice=True, seeded=False, digest=bytes(32))
            for k in range(4)
        }  # fmt: skip
        wish = Wish(reticent.Budget(1.0, 1e-6), 1.0, "squared", "ball", None, 0, None, 0.2, None,
                    "clear", "exact", None, 0)  # fmt: skip
        rounds.append(Design(wish, facts, dict.fromkeys(facts, "own"), 1.0).rounds)
    slope = np.polyfit(np.log([1, 8, 64]), np.log(rounds[:3]), 1)[0]
    assert slope == pytest.approx(2 / 3, abs=0.05)
