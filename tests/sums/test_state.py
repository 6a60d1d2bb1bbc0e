"""Saved states: the same stream, bit for bit, continued once; and how they are kept on disk."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.privacy import ForkError
from reticent.state import files, lease
from reticent.sums import kernels, mechanism

from . import reference
from .reference import CASES, GAUSSIAN

PRECISIONS = ("lattice", "float")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))


def fresh_process():
    """What a new process remembers of streams seen before: nothing."""
    lease._known.clear()


def through_bytes(total):
    return type(total).from_state(files.loads(files.dumps(total.state())))


# The same stream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("endless", [True, False])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_chunks_steps_and_restored_states_give_the_same_totals(
    name, precision, endless, monkeypatch
):
    """Across the ends of blocks (5 steps) and epochs (4, 8, 16, ...)."""
    monkeypatch.setattr(mechanism, "_BLOCK", 11)
    monkeypatch.setattr(mechanism, "_FIRST_EPOCH", 4)
    steps = 40
    seed = sum(name.encode())
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, 0.6, (steps, 2))
    rows[rng.random(steps) < 0.1] *= 1e5

    def build():
        horizon = None if endless else steps
        return CASES[name](2, horizon, noise_precision=precision, seed=seed)

    whole = build()
    known = whole.run(rows)
    assert np.isfinite(known).all()

    stepwise = build()
    assert np.array_equal([stepwise.add(row) for row in rows], known)

    chunked, at = build(), 0
    while at < steps:
        size = int(rng.integers(0, 9))
        assert np.array_equal(chunked.run(rows[at : at + size]), known[at : at + size])
        at += size

    restored, at = build(), 0
    while at < steps:
        restored = through_bytes(restored)
        size = int(rng.integers(1, 4))
        if size == 1:
            assert np.array_equal(restored.add(rows[at]), known[at])
        else:
            assert np.array_equal(restored.run(rows[at : at + size]), known[at : at + size])
        at += size
    for total in (stepwise, chunked, restored):
        assert (total.steps, total.clipped) == (whole.steps, whole.clipped)
        ours, theirs = total.state(), whole.state()
        assert files.dumps(ours | {"id": 0}) == files.dumps(theirs | {"id": 0})
    assert restored.guarantee == whole.guarantee
    assert restored.error(steps) == whole.error(steps)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_a_state_at_every_step_of_the_real_blocks(name, precision):
    """Without patches: a state at the start, in the middle and at the end of the horizon."""
    rows = np.random.default_rng(8).normal(0, 0.4, (300, 3))
    known = CASES[name](3, 300, noise_precision=precision).run(rows)
    total = CASES[name](3, 300, noise_precision=precision)
    for start, end in ((0, 0), (0, 1), (1, 150), (150, 299), (299, 300)):
        total = through_bytes(total)
        fresh_process()
        assert np.array_equal(total.run(rows[start:end]), known[start:end])
    total = through_bytes(total)
    with pytest.raises(ValueError, match="horizon"):
        total.add(rows[0])


def test_an_unseeded_stream_goes_on_with_its_own_noise(monkeypatch):
    """Two restored twins in two processes would use the same noise: the key travels with the state."""
    monkeypatch.setattr(mechanism, "_BLOCK", 4)
    total = sums.Tree(2, 64, budget=GAUSSIAN)
    total.run(np.zeros((5, 2)))
    state = total.state()
    known = total.run(np.zeros((59, 2)))
    fresh_process()
    back = sums.Tree.from_state(state)
    assert not back.guarantee.seeded
    assert np.array_equal(back.run(np.zeros((59, 2))), known)


@pytest.mark.parametrize("name", CASES)
def test_a_state_survives_a_refused_contribution(name):
    """The refusal comes before any noise is drawn; the state after it continues the same stream."""
    known = CASES[name](2, 20).run(np.zeros((20, 2)))
    total = CASES[name](2, 20)
    with pytest.raises(ValueError, match="finite"):
        total.add(np.array([np.nan, 0.0]))
    total = through_bytes(total)
    assert np.array_equal(total.run(np.zeros((20, 2))), known)


def test_a_state_is_a_copy():
    total = CASES["window-tree-gaussian-6"](2)
    total.run(np.zeros((9, 2)))
    state = total.state()
    before = files.dumps(state)
    total.run(np.ones((9, 2)))
    assert files.dumps(state) == before
    fresh_process()
    back = sums.WindowTree.from_state(state)
    back.run(np.ones((9, 2)))
    assert files.dumps(state) == before


def test_restoring_charges_no_ledger():
    with reticent.Ledger(GAUSSIAN) as ledger:
        total = sums.Tree(2, 8, budget=GAUSSIAN)
        state = total.state()
        assert len(ledger.entries) == 1
        for _ in range(3):
            sums.Tree.from_state(state)
        copy.deepcopy(total)
        assert len(ledger.entries) == 1
        with pytest.raises(reticent.privacy.BudgetExceeded):
            sums.Tree(2, 8, budget=GAUSSIAN)


@pytest.mark.parametrize("kind", [sums.WindowTree, sums.Correlated])
def test_an_endless_window_total_is_small(kind):
    total = kind(1000, budget=reticent.Budget(1.0, 1e-6, window=65536), seed=0)
    assert len(files.dumps(total.state())) < 1_000_000
    total.run(np.zeros((3, 1000)))
    assert len(files.dumps(total.state())) < 1_000_000


# Forks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_state_is_continued_once(name):
    total = CASES[name](1, 20)
    total.add([0.1])
    state = total.state()
    twin = type(total).from_state(state)
    twin.add([0.2])
    with pytest.raises(ForkError, match="continued"):
        type(total).from_state(state)
    before = files.dumps(total.state())
    with pytest.raises(ForkError, match="continued"):
        total.add([0.3])
    with pytest.raises(ForkError, match="continued"):
        total.run([[0.3]])
    assert files.dumps(total.state()) == before
    assert twin.add([0.4]).shape == (1,)
    assert twin.steps == 3


def test_the_original_may_go_on_and_then_its_state_is_spent():
    total = CASES["correlated"](1, 20)
    state = total.state()
    twin = sums.Correlated.from_state(state)
    total.add([0.1])
    with pytest.raises(ForkError, match="continued"):
        twin.add([0.1])
    with pytest.raises(ForkError, match="continued"):
        sums.Correlated.from_state(state)
    total.add([0.1])


def test_restored_twins_of_one_state():
    total = CASES["tree-gaussian-plain"](1, 20)
    total.add([0.1])
    state = total.state()
    del total
    gc.collect()
    first, second = sums.Tree.from_state(state), sums.Tree.from_state(state)
    second.add([0.2])
    with pytest.raises(ForkError):
        first.add([0.2])
    # an older state of the same stream, read again
    with pytest.raises(ForkError):
        sums.Tree.from_state(state)


def test_a_state_that_comes_back_from_elsewhere_is_ahead():
    """Continued in another process and handed back: the one left behind here is refused."""
    total = CASES["tree-gaussian-plain"](1, 20)
    state = total.state()
    fresh_process()
    elsewhere = sums.Tree.from_state(state)
    elsewhere.run([[0.1], [0.2]])
    returned = elsewhere.state()
    fresh_process()
    total.state()
    back = sums.Tree.from_state(returned)
    assert back.steps == 2
    with pytest.raises(ForkError):
        total.add([0.1])
    back.add([0.3])


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda total: pickle.loads(pickle.dumps(total))]
)
@pytest.mark.parametrize("name", ["tree-gamma-honaker", "window-tree-laplace-6", "correlated"])
def test_of_copies_the_first_to_continue_wins(name, clone):
    known = CASES[name](2, 20).run(np.zeros((20, 2)))
    for winner in (0, 1):
        total = CASES[name](2, 20)
        total.run(np.zeros((7, 2)))
        twins = [total, clone(total)]
        assert np.array_equal(twins[winner].run(np.zeros((13, 2))), known[7:])
        with pytest.raises(ForkError):
            twins[1 - winner].add(np.zeros(2))


def in_child(work):
    """Exit status of a forked child: 0 if every attempt was refused as a fork."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(attempt):
    try:
        attempt()
    except ForkError:
        return True
    return False


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_forked_child_is_refused_and_its_parent_goes_on(precision):
    total = CASES["correlated"](2, 20, noise_precision=precision)
    known = CASES["correlated"](2, 20, noise_precision=precision).run(np.zeros((20, 2)))
    total.run(np.zeros((5, 2)))

    def work():
        # nor by way of a copy: that would be the same fork
        return (
            refused(lambda: total.add(np.zeros(2)))
            and refused(lambda: total.run(np.zeros((2, 2))))
            and refused(lambda: copy.copy(total).add(np.zeros(2)))
            and refused(lambda: pickle.loads(pickle.dumps(total)).add(np.zeros(2)))
            and refused(lambda: type(total).from_state(total.state()).add(np.zeros(2)))
        )

    assert in_child(work) == 0
    assert np.array_equal(total.run(np.zeros((15, 2))), known[5:])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_build_totals_of_its_own():
    def work():
        total = sums.Tree(2, 8, budget=GAUSSIAN)
        return bool(np.isfinite(total.run(np.zeros((8, 2)))).all())

    assert in_child(work) == 0


def test_twins_in_two_threads_never_both_take_a_step(monkeypatch):
    """While one twin is in the middle of its step, the other one tries."""
    total = CASES["tree-gaussian-plain"](1, 20)
    twin = copy.copy(total)
    released, refusals = [], []
    others = []

    def attempt(which, value):
        try:
            released.append(which.add(np.array([value])))
        except ForkError:
            refusals.append(value)

    original = kernels.add

    def slow(*arguments):
        if not others:
            others.append(threading.Thread(target=attempt, args=(twin, 0.4)))
            others[0].start()
            others[0].join(timeout=0.5)
        return original(*arguments)

    monkeypatch.setattr(kernels, "add", slow)
    attempt(total, 0.2)
    others[0].join()
    assert len(released) == 1
    assert len(refusals) == 1


def test_states_of_another_kind_or_version_are_refused():
    total = CASES["tree-gaussian-plain"](2, 8)
    state = total.state()
    for kind in (sums.WindowTree, sums.Correlated, sums.Independent):
        with pytest.raises(ValueError, match="Tree"):
            kind.from_state(state)
    for wrong in (None, 3, b"bytes", {}, {"kind": "Learner"}):
        with pytest.raises(ValueError, match="must be a state of Tree"):
            sums.Tree.from_state(wrong)
    with pytest.raises(ValueError, match="version"):
        sums.Tree.from_state({**state, "version": 99})
    # none of these attempts spent it
    total.add([0.1, 0.1])


def test_nothing_of_a_state_is_shown():
    total = CASES["tree-gaussian-plain"](1, 4)
    total.add([0.25])
    text = repr(total)
    assert "step 1" in text
    assert str(total._total[0]) not in text


def test_reference_and_package_agree_on_what_is_tested():
    assert {type(build(1, 4)).__name__ for build in reference.CASES.values()} == {
        "Correlated", "Independent", "Tree", "WindowTree",
    }  # fmt: skip
