"""Streams: chunks, gaps, bad records, sparse rows; and what a run leaves behind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import losses, online, sets
from reticent.losses.kernels import MARGIN

from .cases import BUDGET, DIM, LEARNERS, records


@pytest.mark.parametrize("name", LEARNERS)
def test_however_the_stream_is_cut_the_decisions_are_the_same(name):
    A, y = records(700)
    whole = LEARNERS[name](seed=1)
    play = whole.run(A, y, keep=700)
    pieces = LEARNERS[name](seed=1)
    cuts = [0, 1, 2, 50, 300, 300, 699, 700]
    stream = pieces.run(((A[i:j], y[i:j]) for i, j in pairwise(cuts)), keep=350)
    np.testing.assert_array_equal(pieces.decision, whole.decision)
    assert stream.count == play.count == 700
    assert stream.losses is None
    assert stream.total_loss == pytest.approx(play.total_loss, rel=1e-12)
    np.testing.assert_array_equal(stream.decisions, play.decisions[stream.steps - 1])
    np.testing.assert_allclose(
        stream.cumulative_losses, np.cumsum(play.losses)[stream.steps - 1], rtol=1e-12
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_a_bad_record_changes_nothing_and_the_stream_goes_on(name):
    A, y = records(400)
    clean, learner = LEARNERS[name](seed=1), LEARNERS[name](seed=1)
    clean.run(A, y)
    learner.run(A[:100], y[:100])
    before, steps = learner.decision, learner.steps

    def refused(kind, X, labels=None):
        with pytest.raises(kind):
            learner.run(X, labels)
        with pytest.raises(kind):
            learner.observe((np.asarray(X)[-1], None if labels is None else labels[-1]))
        assert learner.steps == steps
        np.testing.assert_array_equal(learner.decision, before)

    holes = A[:5].copy()
    holes[4, 2] = np.nan
    refused(ValueError, holes, y[:5])
    holes[4, 2] = np.inf
    refused(ValueError, holes, y[:5])
    refused(ValueError, A[:5, :3], y[:5])
    refused(TypeError, A[:5].astype(complex), y[:5])
    refused(TypeError, A[:5].astype(str), y[:5])
    if not isinstance(learner.loss, losses.Linear):  # which has no labels
        refused(ValueError, A[:5], np.full(5, np.nan))
        refused(ValueError, A[:5], None)
        with pytest.raises(ValueError):
            learner.run(A[:5], y[:4])
    if learner.loss.kernel[0] in MARGIN:  # other labels are clipped
        refused(ValueError, A[:5], np.full(5, 3.0))
    with pytest.raises(ValueError, match="present"):
        learner.run(A[:5], y[:5], present=[1, 0, 1, 1, 1])
    assert learner.steps == steps
    learner.run(A[100:], y[100:])
    np.testing.assert_array_equal(learner.decision, clean.decision)


def test_a_bad_chunk_stops_a_stream_where_it_stands():
    A, y = records(300)
    learner, clean = LEARNERS["ftrl"](seed=1), LEARNERS["ftrl"](seed=1)
    bad = A[100:200].copy()
    bad[50] = np.nan
    with pytest.raises(ValueError, match="finite"):
        learner.run(iter([(A[:100], y[:100]), (bad, y[100:200]), (A[200:], y[200:])]))
    clean.run(A[:100], y[:100])
    assert learner.steps == 100
    np.testing.assert_array_equal(learner.decision, clean.decision)
    with pytest.raises(ValueError, match="leave out y, present and person"):
        learner.run(iter([]), y)
    with pytest.raises(ValueError, match="chunk 0"):
        learner.run(iter([(A, y, None, None, None)]))


def test_bad_gradients_are_refused():
    learner = LEARNERS["ftrl"](seed=1)
    for bad, kind in (
        ([np.nan] * DIM, ValueError),
        (np.full(DIM, np.inf), ValueError),
        (np.zeros(DIM + 1), ValueError),
        (np.zeros(DIM, complex), TypeError),
        ("abcd", TypeError),
    ):
        with pytest.raises(kind):
            learner.update(bad)
    assert learner.steps == 0
    learner.update(np.full(DIM, 1e308))  # far too long: clipped, and counted
    assert learner.steps == 1
    assert learner.clipped == 1


def test_records_beyond_the_bounds_are_clipped_and_counted():
    A, y = records(200)
    inside, outside = LEARNERS["ftrl"](seed=1), LEARNERS["ftrl"](seed=1)
    unit = A / np.linalg.norm(A, axis=1)[:, None]
    inside.run(unit * (1 - 2.0**-40), y)
    play = outside.run(unit * 50.0, y)
    assert play.clipped >= 200
    np.testing.assert_allclose(outside.decision, inside.decision, atol=1e-9)
    assert "not covered by the guarantee" in str(play)


def test_sparse_rows_are_the_same_records():
    A, y = records(300)
    A[np.abs(A) < 0.3] = 0.0
    dense, sparse = LEARNERS["ftrl"](seed=1), LEARNERS["ftrl"](seed=1)
    dense.run(A, y)
    play = sparse.run(sp.csr_array(A), y)
    np.testing.assert_array_equal(dense.decision, sparse.decision)
    assert np.isfinite(play.regret())


def test_the_horizon_is_kept():
    A, y = records(20)
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(DIM), losses.Logistic(), budget=BUDGET, horizon=10
    )
    with pytest.raises(ValueError, match="20 records do not fit: 10"):
        learner.run(A, y)
    assert learner.steps == 0
    learner.run(A[:10], y[:10])
    for call in (lambda: learner.observe((A[0], y[0])), lambda: learner.update(None)):
        with pytest.raises(ValueError, match="horizon"):
            call()
    assert learner.steps == 10


def test_regret_is_what_best_fixed_says():
    A, y = records(500)
    learner = LEARNERS["ftrl"](seed=1)
    present = np.ones(500, bool)
    present[::7] = False
    play = learner.run(A, y, present=present)
    best = losses.best_fixed(learner.set, learner.loss, A[present], y[present])
    assert play.regret() == pytest.approx(play.total_loss - best.total, abs=1e-9)
    steps, curve = play.regret_curve()
    assert steps[-1] == 500
    assert curve[-1] == pytest.approx(play.regret(), abs=1e-9)
    forgotten = LEARNERS["ftrl"](seed=1).run(A, y, keep_records=False)
    with pytest.raises(ValueError, match="keep_records"):
        forgotten.regret()
    kept = LEARNERS["ftrl"](seed=1).run(
        iter([(A[:200], y[:200]), (A[200:], y[200:])]), keep_records=True
    )
    assert kept.regret() == pytest.approx(LEARNERS["ftrl"](seed=1).run(A, y).regret(), abs=1e-9)


def test_losses_of_the_users_own_run_in_the_python_loop():
    A, y = records(200)
    own = losses.CustomLoss(
        lambda x, a, y: float(np.log1p(np.exp(-y * (a @ x)))),
        lambda x, a, y: -y / (1 + np.exp(y * (a @ x))) * a,
        lipschitz=losses.Logistic().data_lipschitz(sets.L2Ball(DIM, 2.0)),
        smoothness=0.25,
    )
    built_in, custom = (
        online.FollowTheRegularizedLeader(
            sets.L2Ball(DIM, 2.0), loss, budget=BUDGET, horizon=200, seed=1, noise_precision="float"
        )
        for loss in (losses.Logistic(), own)
    )
    first, second = built_in.run(A, y), custom.run(A, y)
    np.testing.assert_allclose(built_in.decision, custom.decision, rtol=0, atol=1e-12)
    np.testing.assert_allclose(first.losses, second.losses, rtol=0, atol=1e-12)


def test_matrix_sets_show_matrices():
    learner = online.FollowTheApproximateLeader(
        sets.NuclearBall((3, 2)), losses.Quadratic(), step="local-linear",
        budget=BUDGET.with_(window=8), seed=0,
    )  # fmt: skip
    assert learner.decision.shape == (3, 2)
    rng = np.random.default_rng(0)
    play = learner.run(rng.standard_normal((30, 6)) * 0.1)
    assert play.decisions.shape == (30, 3, 2)
    learner.update(np.zeros((3, 2)))
    assert learner.set.contains(learner.decision)


def test_empty_runs_are_harmless():
    learner = LEARNERS["ftrl"](seed=1)
    play = learner.run(np.zeros((0, DIM)), np.zeros(0))
    assert play.count == 0
    assert play.mean_loss == 0.0
    assert learner.steps == 0
    assert learner.run(iter([])).count == 0


def test_a_ledger_is_charged_once_when_the_learner_is_built():
    with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
        learner = LEARNERS["ftrl"]()
        spent = len(ledger.entries)
        learner.run(*records(50))
        type(learner).from_state(learner.state())
        assert len(ledger.entries) == spent == 1
        with pytest.raises(reticent.privacy.BudgetExceeded):
            LEARNERS["ftrl"]()


@pytest.mark.parametrize("name", ["label", "column", "text"])
def test_refusals_do_not_quote_records(name):
    """An error may end up in a log that many can read."""
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(2), losses.Logistic(), budget=BUDGET, horizon=9
    )
    sparse = online.SparseLeader(20, losses.Logistic(ridge=0.1), budget=BUDGET)
    give = {
        "label": lambda: learner.observe((np.ones(2), 77.125)),
        "column": lambda: sparse.observe(([77.125], [1.0], 1.0)),
        "text": lambda: sparse.observe((["77.125"], [1.0], 1.0)),
    }[name]
    with pytest.raises(ValueError, match="must be") as refusal:
        give()
    assert "77" not in str(refusal.value)


def test_a_total_on_demand_does_not_quote_coordinates():
    total = reticent.sums.OnDemand(
        reticent.sums.CorrelatedMechanism(9, 9, budget=BUDGET, noise_precision="float")
    )
    for wrong in ([7712], ["7712"]):
        with pytest.raises(ValueError, match="indices must be") as refusal:
            total.add(wrong, [1.0])
        assert "77" not in str(refusal.value)
