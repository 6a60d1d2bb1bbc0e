"""The claims attacked: many runs with and without one record, seen through the decisions that are played.

The pairs are those of `reticent.audit.pairs_bandit`. A bound above the claim has a probability of at
most 1e-6 where the claim is true. Learners are seeded wherever a share of the claim is asked for,
so that the bound is the same every time.
"""

from __future__ import annotations

import pytest

import reticent
from reticent import audit, bandit, sets
from reticent.audit import pairs_bandit, registry  # noqa: F401  the former registers the pairs
from reticent.audit.registry import worst_case

NAMES = ("projection-free", "laplace", "gamma", "doubling", "projected")


def attack(name, runs, **changes):
    pair = worst_case(f"bandit-{name}", **changes)
    found = pair.attack(runs)
    assert found.false_alarm == 1e-6
    assert found.holds, found
    return found


def test_the_claim_holds_and_half_of_it_is_reached():
    """The default noise at epsilon = 1, delta = 1e-6."""
    found = attack("projection-free", 24_000, epsilon=1.0, seed=1)
    assert found.claim.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert 0.5 <= found.epsilon <= 1.0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("projection-free", {"neighbours": "replace"}),
        ("projection-free", {"centring": "adaptive"}),
        ("projection-free", {"stale": False}),
        ("projection-free", {"total": "tree"}),
        ("projection-free", {"total": "independent", "stale": False}),
        ("projected", {}),
        ("projected", {"neighbours": "replace"}),
    ],
)
def test_gaussian(name, changes):
    """At epsilon = 8, where fewer runs show as much."""
    found = attack(name, 1200, seed=1, **changes)
    assert found.claim.epsilon(1e-6) == pytest.approx(8.0, rel=1e-6)
    assert found.tightness >= 0.5


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("noise", ["laplace", "gamma"])
def test_pure(noise, neighbours):
    found = attack(noise, 2500, epsilon=2.0, neighbours=neighbours, seed=1)
    assert found.tightness >= 0.5


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_late_records(neighbours):
    """A late record enters one batch; under replacement the worlds may disagree about which."""
    attack("projection-free", 1200, neighbours=neighbours, late=1)


@pytest.mark.parametrize("changes", [{}, {"late": 300}, {"neighbours": "replace", "late": 300}])
def test_doubling(changes):
    """A record of the first epoch, or one that comes as late as in the second, costs no more."""
    found = attack("doubling", 350, **changes)
    # An attack on honest noise falls short of this with a probability far below 1e-6: one that did
    # would be blind.
    assert found.tightness > 0.05


def test_an_attack_finds_noise_that_is_too_small():
    """The same attack refutes a claim of a third of the epsilon, so it is no blunt tool."""
    pair = worst_case("bandit-gamma", epsilon=3.0, seed=1)
    found = pair.attack(2000, claim=1.0)
    assert not found.holds
    assert found.epsilon <= 3.0


def test_an_attack_finds_records_that_are_not_clipped(monkeypatch):
    """Values far outside their range, with both clippings taken away."""
    pair = worst_case("bandit-projected", seed=1)
    learner = pair.subject
    monkeypatch.setattr(type(learner.total), "_gauge", (1e9, learner.total._per_step))

    def tell(self, value, ticket=None, tell=bandit.Bandit.tell):
        if value is not None and abs(value) > 1.0:
            self._factor, value = 5.0 * self._factor, value / 5.0
        tell(self, value, ticket)

    monkeypatch.setattr(bandit.Bandit, "tell", tell)
    assert not pair.attack(600).holds


@pytest.mark.parametrize("name", NAMES)
def test_registered_pairs(name):
    for changes in registry.variants(f"bandit-{name}"):
        pair = worst_case(f"bandit-{name}", **changes)
        assert audit.guarantee(pair.subject, delta=pair.delta).holds


@pytest.mark.parametrize("facts", [{}, {"budget": reticent.Budget(1.0)}, {"horizon": None}])
def test_the_guarantee_by_every_road_the_audit_knows(facts):
    """Linear algebra over the totals, linear programmes, numeric integration, dp-accounting."""
    facts = {"budget": reticent.Budget(1.0, 1e-6), "horizon": 400} | facts
    learner = bandit.ProjectionFreeBandit(sets.L1Ball(3), lipschitz=1.0, **facts)
    agreement = audit.guarantee(learner)
    assert agreement.holds, agreement
