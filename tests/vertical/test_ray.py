"""The Ray transport, on a real Ray of one machine.

Ray is not among the extras (it is 260 MB, and its versions pin Python's closely), so this is skipped where it
is absent. To run it: ``pip install ray`` into the environment, or ``pip install --target FOLDER ray`` and
``PYTHONPATH=$PYTHONPATH:FOLDER pytest tests/vertical/test_ray.py``.
"""

from __future__ import annotations

import functools
import os
import sys
import time

import numpy as np
import pytest

import reticent
from reticent import vertical
from reticent.vertical.ray import RayActors

CUTS = {"north": slice(0, 4), "east": slice(4, 8), "south": slice(8, 12)}


def test_without_ray_the_transport_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="needs Ray"):
        RayActors({})


@pytest.fixture(scope="module")
def ray():
    found = pytest.importorskip("ray", reason="Ray is not installed")
    found.init(
        num_cpus=4,  # what its scheduler may hand out, not what the machine has
        include_dashboard=False,
        object_store_memory=80_000_000,
        logging_level="error",
        log_to_driver=False,
    )
    yield found
    found.shutdown()


def test_parties_in_actors_answer_as_parties_in_this_process(ray, table) -> None:
    A, y = table
    given = {
        "ids": list(range(len(A))), "ledger": reticent.Budget(8.0, 1e-6), "key": bytes(range(16)),
        "labels": y, "seed": 7, "noise_precision": "float",
    }  # fmt: skip
    makers = {
        name: functools.partial(vertical.Party, name, A[:, cut], **given)
        for name, cut in CUTS.items()
    }
    found = [
        vertical.Coordinator(transport).run(
            budget=reticent.Budget(2.0, 1e-6), rounds=10, radius=0.9, seed=0
        )
        for transport in (
            RayActors(makers, num_cpus=1),
            vertical.InProcess({name: make() for name, make in makers.items()}),
        )
    ]
    assert np.array_equal(found[0].point, found[1].point)
    assert found[0].guarantee.epsilon(1e-6) == found[1].guarantee.epsilon(1e-6)
    assert found[0].traffic.total_uplink == found[1].traffic.total_uplink


@pytest.mark.parametrize(
    ("make", "timeout", "reason"),
    [
        (functools.partial(os._exit, 1), 60.0, "Actor"),
        (functools.partial(time.sleep, 60.0), 1.0, "GetTimeoutError"),
    ],
    ids=["dead", "silent"],
)
def test_a_party_that_dies_or_is_silent_is_lost(ray, make, timeout: float, reason: str) -> None:
    actors = RayActors({"north": make}, timeout=timeout, num_cpus=1)
    with pytest.raises(vertical.PartyLost, match=reason):
        vertical.Coordinator(actors).run(budget=reticent.Budget(2.0, 1e-6))
