"""Calibrations by name: looked up, never imported by who uses them, and open to others."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest

import reticent
from reticent import online, sets, sums
from reticent.privacy import Gaussian, prescribed
from reticent.privacy.prescribed import Calibration, Prescription, gaussian_curve

BUDGET = reticent.Budget(1.0, 1e-6)


@pytest.fixture
def loud():
    """A calibration of the user's own: 1.7 times the exact noise of a plain tree, claimed to be epsilon."""

    @prescribed.register("loud", "tree")
    def tree(budget, *, noise, horizon, norm, dim):
        mu = budget.mu / 1.7
        return Prescription(
            scale=horizon.bit_length() ** 0.5 * norm / mu,
            noise=noise,
            formula="1.7 times what is needed",
            where="this test",
            claimed=(budget.epsilon, budget.delta),
            relation="zero-out",
            zero_out=gaussian_curve(mu),
            replace=gaussian_curve(2 * mu),
        )

    yield tree
    del prescribed._FORMULAS["loud", "tree"]


def test_without_a_calibration_by_name_nobody_imports_the_papers() -> None:
    code = (
        "import sys, reticent; from reticent import sums, online, bandit, erm, vertical, estimators; "
        "budget = reticent.Budget(1.0, 1e-6); sums.Tree(1, 8, budget=budget); "
        "assert 'reticent.papers' not in sys.modules; "
        "sums.Tree(1, 8, budget=budget, calibration='published'); "
        "assert 'reticent.papers' in sys.modules; "
        "assert 'reticent.papers.figures' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_calibration_of_ones_own_scales_the_noise(loud) -> None:
    exact = sums.Tree(2, 64, budget=BUDGET, estimator="plain")
    known = {"budget": BUDGET, "estimator": "plain", "calibration": "loud", "seed": 0}
    total, twin = sums.Tree(2, 64, **known), sums.Tree(2, 64, **known)
    assert total.error(1) == pytest.approx(1.7 * exact.error(1), rel=1e-6)
    assert total.guarantee.gdp == pytest.approx(BUDGET.mu / 1.7, rel=1e-6)
    assert total.guarantee.caveats == ()
    restored = sums.Tree.from_state(twin.state())
    assert restored.mechanism.calibration.name == "loud"
    records = np.full((3, 2), 0.5)
    assert np.array_equal(restored.run(records), total.run(records))


def test_a_claim_that_does_not_hold_is_a_caveat_of_the_guarantee(loud) -> None:
    budget = BUDGET.with_(neighbours="replace")
    total = sums.Tree(2, 64, budget=budget, estimator="plain", calibration="loud")
    truth = total.guarantee.epsilon(1e-6)
    assert truth > 1.0
    (caveat,) = total.guarantee.caveats
    assert caveat.startswith("loud noise (this test)")
    said = float(caveat.split("under 'replace' neighbours it gives ")[1])
    assert truth <= said <= 1.001 * truth


def test_what_a_caveat_states_is_not_less_than_the_truth() -> None:
    mu = 1.0049  # its epsilon, 4.98104..., was printed as 4.981
    claim = Prescription.gaussian(
        mu, scale=1.0, formula="none", where="this test", claimed=(1.0, 1e-6), relation="zero-out"
    )
    truths = [Gaussian(mu).epsilon(1e-6), 2.34561, 0.99991]
    for truth in truths:
        claim = dataclasses.replace(claim, claimed=(0.5 * truth, 1e-6))
        (caveat,) = claim.doubts("zero-out", truth)
        assert truth <= float(caveat.split("it gives ")[1]) <= 1.001 * truth


def test_a_claim_without_meaning_is_not_doubted() -> None:
    """Papers state deltas of 1 and more, such as 2 delta, for some settings; such a claim is true of anything."""
    empty = Prescription.gaussian(
        3.0, scale=1.0, formula="none", where="this test", claimed=(1.0, 1.2), relation="zero-out"
    )
    assert empty.doubts("zero-out") == ()
    assert empty.claim_is_proved()


def test_a_calibration_without_a_formula_says_what_there_is(loud) -> None:
    with pytest.raises(ValueError, match=r"'loud' has no formula for 'window-tree'; it has tree"):
        sums.WindowTree(1, budget=BUDGET.with_(window=8), calibration="loud")
    with pytest.raises(ValueError, match=r"calibration .*'exact', 'published', 'loud'"):
        sums.Tree(1, 8, budget=BUDGET, calibration="quiet")
    with pytest.raises(ValueError, match="'loud' prescribes the noise of a tree; leave out total"):
        online.FollowTheRegularizedLeader(
            sets.L2Ball(2), budget=BUDGET, horizon=8, lipschitz=1.0, total="correlated",
            calibration="loud",
        )  # fmt: skip


def test_refused_before_the_ledger_is_charged(loud) -> None:
    with reticent.Ledger(BUDGET) as ledger:
        for horizon, noise in ((None, "gaussian"), (8, "gamma")):
            with pytest.raises(ValueError, match="there is no published formula"):
                sums.Tree(1, horizon, budget=BUDGET, noise=noise, calibration="published")
        assert ledger.entries == ()


def test_a_calibration_is_plain_data_and_back() -> None:
    one = Calibration("published", "window-tree", (("diameter", 2.0),))
    assert Calibration.read(one.to_dict(), "tree") == one == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(Calibration.read(one, "tree"))
    assert Calibration.read("exact", "tree").is_exact


def test_a_learner_with_prescribed_noise_survives_its_state() -> None:
    """The total's formula needs facts of the learner, which the state must hold."""
    known = {
        "budget": reticent.Budget(1.0, 1e-6, window=16), "lipschitz": 1.0, "strong_convexity": 0.5,
        "seed": 0, "calibration": "published",
    }  # fmt: skip
    one, twin = (online.FollowTheApproximateLeader(sets.L2Ball(2), **known) for _ in range(2))
    restored = type(twin).from_state(twin.state())
    assert restored.total.error(3) == one.total.error(3) > 0.0
    assert restored.guarantee.epsilon(1e-6) == one.guarantee.epsilon(1e-6)
    for learner in (one, restored):
        learner.update(np.array([0.5, -0.5]))
    assert np.array_equal(one.decision, restored.decision)
