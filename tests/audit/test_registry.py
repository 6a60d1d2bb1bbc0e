"""The registry of worst cases: all families, those of a user, and unknown names."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import audit
from reticent.audit import registry


def test_every_family_is_there():
    names = audit.names()
    for family in ("tree", "window-tree", "correlated", "independent", "exponential-mechanism",
                   "report-noisy-max", "online", "erm", "bandit", "vertical"):  # fmt: skip
        assert any(name.startswith(family) for name in names), family


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_the_pair_of_a_total_attains_the_claimed_mu(neighbours):
    """By linear algebra, no simulation: the record and the totals that are looked at are the worst."""
    for name in (
        "tree-gaussian-honaker",
        "correlated",
        "correlated-window",
        "window-tree-gaussian",
    ):
        pair = audit.worst_case(name, neighbours=neighbours)
        ratio = pair.statistic[0]
        assert ratio.mu == pytest.approx(pair.claim.gdp, rel=1e-5)


def test_the_claim_is_that_of_an_ordinary_total():
    pair = audit.worst_case("tree-gaussian-plain", epsilon=2.0, delta=1e-5)
    assert pair.subject.dim == 1
    assert pair.claim.epsilon(1e-5) == pytest.approx(2.0, rel=1e-6)


def test_a_mechanism_of_the_user_s_own():
    rng = np.random.default_rng(0)

    @audit.register("mine", variants=({}, {"scale": 1.0}), scale=2.0)
    def build(*, scale):
        def run(world, size):
            return world + rng.laplace(scale=scale, size=size)

        return audit.Pair("mine", run, 0.0, 1.0, claim=1.0 / scale, delta=0.0, batch=5000)

    try:
        assert "mine" in audit.names()
        report = audit.run_all(names=["mine"], runs=10_000)
        assert [line.setting for line in report.lines] == ["", "scale=1.0"]
        assert report.holds
        assert audit.worst_case("mine", scale=4.0).claim == 0.25
    finally:
        audit.unregister("mine")
    assert "mine" not in audit.names()


def test_what_a_user_registers_first_is_kept(monkeypatch):
    monkeypatch.setattr(registry, "_loaded", [])
    before = dict(registry._BUILDERS)
    try:
        audit.register("correlated")(lambda: "mine")
        registry._load()
        assert audit.worst_case("correlated") == "mine"
    finally:
        registry._BUILDERS.clear()
        registry._BUILDERS.update(before)


def test_unknown_names_are_refused_with_what_there_is():
    with pytest.raises(ValueError, match="tree-gaussian-plain"):
        audit.worst_case("tree-gaussian")
    with pytest.raises(TypeError, match="name"):
        audit.register("")
