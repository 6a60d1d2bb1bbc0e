"""One owner: whatever way a stream is copied, one object in one process takes its next step."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import reticent
from reticent import bandit, losses, online, sets, sums
from reticent.privacy import ForkError
from reticent.state import files, lease

BUDGET = reticent.Budget(1.0, 1e-6)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def a_total():
    total = sums.Tree(1, 20, budget=BUDGET)
    total.add([0.1])
    return total, lambda twin, value: twin.add([value])


def a_learner():
    learner = online.PerturbedIterates(
        sets.L2Ball(2), losses.Logistic(ridge=0.5), budget=BUDGET, horizon=20
    )
    learner.observe((np.array([0.5, 0.0]), 1.0))
    return learner, lambda twin, value: twin.observe((np.array([value, 0.0]), 1.0))


def a_bandit():
    learner = bandit.ProjectedBandit(sets.L2Ball(2), BUDGET, horizon=20)
    learner.ask()
    return learner, lambda twin, value: twin.tell(value)


def an_estimator(**more):
    model = reticent.OnlineLogisticRegression(classes=[0, 1], **more)
    model.partial_fit([[0.5, 0.0], [0.0, 0.5]], [0, 1])
    return model, lambda twin, value: twin.partial_fit([[value, 0.0]], [1]).coef_


MAKERS = {"total": a_total, "iterates": a_learner, "bandit": a_bandit, "estimator": an_estimator}


@pytest.mark.parametrize("name", MAKERS)
def test_threads_that_restore_one_state_never_both_continue_it(name):
    """Nothing is known of the stream, as in a new process; two threads restore it at once and go on."""
    stream, step = MAKERS[name]()
    state = files.dumps(stream.state())
    del stream
    gc.collect()
    kind = type(MAKERS[name]()[0])
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for attempt in range(300 if name == "total" else 60):
            lease._known.clear()
            barrier, taken, refused = threading.Barrier(2), [], []

            def go(value, barrier=barrier, taken=taken, refused=refused):
                barrier.wait()
                try:
                    twin = kind.from_state(files.loads(state))
                    step(twin, value)
                    taken.append(value)
                except ForkError:
                    refused.append(value)

            threads = [threading.Thread(target=go, args=(value,)) for value in (0.2, 0.4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (len(taken), len(refused)) == (1, 1), f"attempt {attempt}"
    finally:
        sys.setswitchinterval(pause)


def test_threads_that_look_for_one_lease_find_one():
    """The reader that dawdles between looking and writing is what the lock is for."""
    identity, found = "0" * 31 + "1", []

    class Slow(dict):
        def get(self, key):
            value = super().get(key)
            threading.Event().wait(0.05)
            return value

    known = lease._known
    lease._known = Slow()
    try:
        threads = [
            threading.Thread(target=lambda: found.append(lease.find(identity, 3))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        lease._known = known
    assert len({id(one) for one in found}) == 1


def test_an_id_that_is_none_is_refused():
    for identity in (None, 3, "", "x" * 32, "0" * 31):
        with pytest.raises(ValueError, match="damaged"):
            lease.find(identity, 0)


# Forks --------------------------------------------------------------------------------------------


def in_child(work):
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(into, work())
        except BaseException as error:
            os.write(into, type(error).__name__.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        found = file.read()
    os.waitpid(child, 0)
    return found


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "twin_of",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: type(model).from_state(files.loads(files.dumps(model.state()))),
    ],
    ids=["deepcopy", "pickle", "state"],
)
@pytest.mark.parametrize("river", [False, True])
def test_workers_forked_off_a_restored_estimator_share_no_noise(twin_of, river):
    """The learner is restored at its first step, after the fork; the refusal must come all the same."""
    if river:
        pytest.importorskip("river")
        from reticent.estimators.river import OnlineLogisticRegression

        model = OnlineLogisticRegression(features=["a"])
        model.learn_one({"a": 0.5}, True)

        def step(twin, value):
            twin.learn_one({"a": value}, True)
    else:
        model, step = an_estimator()
    twin = twin_of(model)
    del model

    def work(value):
        step(twin, value)
        return b"went on"

    assert in_child(lambda: work(0.2)) == b"ForkError"
    assert in_child(lambda: work(0.4)) == b"ForkError"
    # nor by way of a copy of the copy
    assert in_child(lambda: step(twin_of(twin), 0.4) or b"went on") == b"ForkError"
    step(twin, 0.3)


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_of_a_parent_and_a_child_the_first_to_continue_a_state_wins(name):
    stream, step = MAKERS[name]()
    kind, state = type(stream), stream.state()
    (taken, take), (wait, go) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        twin = kind.from_state(state)
        step(twin, 0.2)
        os.write(take, b"x")
        os.read(wait, 1)  # keeps the stream until the parent has tried
        os._exit(0)
    try:
        os.read(taken, 1)
        with pytest.raises(ForkError, match="another process"):
            step(stream, 0.3)
        with pytest.raises(ForkError, match="another process"):
            step(kind.from_state(state), 0.3)
    finally:
        os.write(go, b"x")
        os.waitpid(child, 0)
        for end in (taken, take, wait, go):
            os.close(end)
    # The other way round: the parent goes on with a stream of its own, and holds it.
    stream, step = MAKERS[name]()
    state = stream.state()
    step(stream, 0.2)
    assert in_child(lambda: step(kind.from_state(state), 0.3) or b"went on") == b"ForkError"


SCRIPT = """
import sys, reticent
from reticent.privacy import ForkError
for path in sys.argv[1:]:
    try:
        reticent.sums.Tree.from_state(reticent.load_state(path)).add([0.3])
        print("went on")
    except ForkError as error:
        print("refused", error)
"""


def test_a_second_process_that_continues_a_file_is_refused(tmp_path):
    """Also by way of a copy of the file; once the first lets go, the next may continue what it saved."""
    path, twin = tmp_path / "total.state", tmp_path / "copy.state"
    total, step = a_total()
    reticent.save_state(total.state(), path)
    step(total, 0.2)
    for suffix in ("", ".key"):
        shutil.copy(f"{path}{suffix}", f"{twin}{suffix}")

    def other(*paths):
        command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    lines = other(path, twin).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("refused") and "another process" in line for line in lines)
    reticent.save_state(total.state(), path)
    del total
    gc.collect()
    assert other(path) == "went on\n"


def test_no_place_for_the_lock_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETICENT_LOCKS", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(lease, "_descriptor", None)
    total, step = a_total()
    total.state()
    with pytest.raises(OSError, match="RETICENT_LOCKS"):
        step(total, 0.2)


@pytest.mark.skipif(lease.fcntl is None, reason="this system does not lock files")
def test_a_file_system_without_locks_is_said(monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lease.fcntl, "lockf", refuse)
    total, step = a_total()
    total.state()
    with pytest.raises(OSError, match=r"could not be locked .* RETICENT_LOCKS"):
        step(total, 0.2)
    monkeypatch.undo()
    step(total, 0.2)
    assert total.steps == 2


def test_the_lock_file_belongs_to_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(lease, "_descriptor", None)
    total, step = a_total()
    total.state()
    step(total, 0.2)
    assert (tmp_path / "locks" / "streams.lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700


def test_many_streams_need_one_descriptor():
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    totals = [a_total() for _ in range(300)]
    for total, step in totals:
        total.state()
        step(total, 0.2)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2


# Parts --------------------------------------------------------------------------------------------


def test_a_restored_bandit_refuses_another_set():
    learner = bandit.ProjectionFreeBandit(sets.Simplex(3), BUDGET, horizon=100)
    state = files.loads(files.dumps(learner.state()))
    with pytest.raises(ValueError, match="whose arguments differ"):
        bandit.ProjectionFreeBandit.from_state(state, set=sets.Simplex(3, mass=100.0))
    with pytest.raises(ValueError, match="must be the Simplex"):
        bandit.ProjectionFreeBandit.from_state(state, set=sets.L1Ball(3))
    twin = bandit.ProjectionFreeBandit.from_state(state, set=sets.Simplex(3))
    assert sets.Simplex(3).contains(twin.ask())
