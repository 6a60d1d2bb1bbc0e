"""Attacks on parties by hostile coordinators: honest ones stand, planted bugs fall.

An honest party would be refuted by one of these attacks with probability at most 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest

from reticent import audit
from reticent.audit import pairs_vertical, registry
from reticent.noise import release
from reticent.vertical import plan as plans
from reticent.vertical import rounds as module


def pair(name, **changes):
    builder, options, _ = registry._BUILDERS[name]
    return builder(**(options | changes))


NAMES = ("vertical-labels", "vertical-coalition", "vertical-coordinator")


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("name", NAMES)
def test_the_claims_stand(name, neighbours):
    case = pair(name, neighbours=neighbours)
    found = case.attack(20_000 if case.batch else 200)
    assert found.holds, found
    assert audit.guarantee(case.subject).holds
    if case.batch:
        assert found.tightness > 0.5


def test_a_party_that_does_not_clip_slopes_is_found_out(monkeypatch):
    """The coordinator's made-up predictions would then shout the record through the scores."""
    case = pair("vertical-coalition")
    honest = np.clip

    def trusting(values, low, high):
        return values if high == 2.0 else honest(values, low, high)

    monkeypatch.setattr(module.np, "clip", trusting)
    found = case.bet(4000)
    assert not found.holds
    assert found.epsilon > found.claimed


def test_a_party_that_does_not_clip_labels_is_found_out(monkeypatch):
    case = pair("vertical-labels")
    monkeypatch.setattr(module.np, "clip", lambda values, low, high: values)
    assert not case.attack(20_000).holds


@pytest.mark.parametrize("name", ["vertical-labels"])
def test_half_the_noise_is_found_out(name, monkeypatch):
    case = pair(name)
    honest = release.noisy

    def quiet(vector, scale, source, **options):
        return honest(vector, 0.5 * scale, source, **options)

    monkeypatch.setattr(module.release, "noisy", quiet)
    assert not case.attack(20_000).holds


def test_forgetting_the_factor_of_replacement_is_found_out(monkeypatch):
    monkeypatch.setattr(plans.Terms, "moved", lambda self, norm: norm)
    assert not pair("vertical-labels", neighbours="replace").attack(20_000).holds


def test_a_sketch_drawn_anew_for_every_request_would_leak():
    """Why sketches are cached: the mean of k fresh ones has noise sqrt(k) times smaller."""
    rng = np.random.default_rng(0)
    claim = plans.guarantee_of(
        plans.Plan(rows=10, rounds=0, columns=1, clip=1.0, selection_scale=1.0, sketch_scale=3.0,
                   sketch_size=10),
        plans.Terms(),
    )  # fmt: skip

    def run(world, size, copies):
        return (world + 3.0 * rng.normal(size=(copies, size))).mean(axis=0)

    given = {"runs": 20_000, "batch": 10_000, "delta": 1e-6, "claim": claim}
    once = audit.mechanism(lambda w, s: run(w, s, 1), 0.0, 1.0, **given)
    often = audit.mechanism(lambda w, s: run(w, s, 9), 0.0, 1.0, **given)
    assert once.holds
    assert not often.holds


def test_the_pairs_are_registered_once_the_module_is_named():
    assert set(NAMES) <= set(registry._BUILDERS)
    assert pairs_vertical.BOTH[1] == {"neighbours": "replace"}
