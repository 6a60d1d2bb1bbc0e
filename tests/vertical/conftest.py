"""Small tables and parties for the tests of the feature-distributed solvers."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent.vertical import InProcess, Party, Plan

KEY = bytes(range(16))


@pytest.fixture
def table():
    """Rows of signs in three blocks; four columns matter."""
    rng = np.random.default_rng(5)
    A = rng.choice([-1.0, 1.0], size=(400, 12))
    y = np.clip(0.4 * A[:, 1] - 0.3 * A[:, 6] + 0.2 * A[:, 10] + 0.1 * A[:, 11], -1, 1)
    return A, y


@pytest.fixture
def make_party(table):
    """A party that holds some columns of the table."""
    A, y = table

    def make(name="north", columns=slice(0, 4), **changes):
        given = {
            "ids": range(len(A)), "ledger": reticent.Budget(1e18, 1e-6), "key": KEY, "labels": y,
            "seed": 7, "noise_precision": "float",
        }  # fmt: skip
        return Party(name, A[:, columns], **(given | changes))

    return make


@pytest.fixture
def make_transport(make_party):
    def make(**changes):
        cuts = {"north": slice(0, 4), "east": slice(4, 8), "south": slice(8, 12)}
        parties = {
            name: make_party(name, cut, **({"seed": k} | changes))
            for k, (name, cut) in enumerate(cuts.items())
        }
        return InProcess(parties)

    return make


@pytest.fixture
def plan():
    """Next to no noise, so that answers can be compared with plain NumPy."""
    return Plan(
        rows=400, rounds=5, columns=3, clip=2.0, selection_scale=1e-6, value_scale=1e-6,
        sketch_scale=1e-6, sketch_size=50, sketch_seed=3,
    )  # fmt: skip


@pytest.fixture
def noisy(plan):
    return plan.with_(selection_scale=400.0, value_scale=400.0, sketch_scale=100.0)
