"""A ledger follows the work into threads and processes, or refuses it there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import reticent
from reticent.privacy import (
    Budget,
    BudgetExceeded,
    ForkError,
    Guarantee,
    Ledger,
    LedgerError,
    Pure,
    Release,
    charge,
    scope,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def of(epsilon: float) -> Guarantee:
    return Guarantee([Release("sum", Pure(epsilon), 1.0, "gamma")])


def pay(epsilon: float = 0.1) -> str:
    """Charge, in whichever process this runs; what came of it, in words."""
    try:
        charge(of(epsilon), "a fit")
    except (LedgerError, BudgetExceeded, ForkError) as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def in_thread(work: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    """Announcements of this test alone, seen by its children and by nobody else."""
    folder = tmp_path_factory.mktemp("announced")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    tempfile.tempdir = None
    assert not scope._open


# Threads -----------------------------------------------------------------------------------------


def test_a_thread_pays_from_the_ledger_around_it() -> None:
    with Ledger(Budget(1.0)) as outer, Ledger(Budget(0.5)) as inner:
        assert in_thread(pay) == "done"
        assert in_thread(lambda: pay(0.45)).startswith("BudgetExceeded")
        assert len(outer.entries) == 2  # the outer one is asked first, as in one thread
    assert len(inner.entries) == 1
    assert in_thread(lambda: pay(100.0)) == "done"
    assert len(outer.entries) == 2


def test_the_error_says_why_this_ledger_was_asked() -> None:
    with Ledger(Budget(1.0)), ThreadPoolExecutor(1) as pool:
        with pytest.raises(BudgetExceeded) as caught:
            pool.submit(charge, of(2.0), "a fit").result()
        assert "another thread" in caught.value.__notes__[0]


def test_everything_that_releases_is_charged_in_a_thread() -> None:
    budget = Budget(1.0, 1e-6)
    A, y = np.full((50, 2), 0.5), np.full(50, 0.5)
    works: list[Callable[[], object]] = [
        lambda: reticent.sums.Tree(2, 10, budget=budget),
        lambda: reticent.online.FollowTheRegularizedLeader(
            reticent.sets.L2Ball(2), reticent.losses.Logistic(), budget=budget, horizon=10
        ),
        lambda: reticent.bandit.ProjectionFreeBandit(
            reticent.sets.L2Ball(2), budget=budget, horizon=10
        ),
        lambda: reticent.erm.gradient_descent(
            reticent.losses.Squared(), reticent.sets.L2Ball(2), A, y, budget=budget
        ),
        lambda: reticent.PrivateLinearRegression().fit(A, y),
    ]
    with Ledger(Budget(100.0, 1e-2)) as ledger:
        for done, work in enumerate(works, 1):
            in_thread(work)
            assert len(ledger.entries) == done


def test_what_was_paid_is_not_charged_again_in_a_thread() -> None:
    total = reticent.sums.Tree(2, 10, budget=Budget(1.0, 1e-6))
    state = total.state()
    with Ledger(Budget(0.01, 1e-9)) as ledger:
        in_thread(lambda: type(total).from_state(state))
    assert not ledger.entries


def test_two_ledgers_in_two_threads_leave_a_third_unclear() -> None:
    barrier = threading.Barrier(3)

    def tenant(ledger: Ledger) -> str:
        with ledger:
            barrier.wait(30)
            outcome = pay()
            barrier.wait(30)
            barrier.wait(30)
        return outcome

    ledgers = [Ledger(Budget(1.0)), Ledger(Budget(1.0))]
    with ThreadPoolExecutor(2) as pool:
        tenants = [pool.submit(tenant, ledger) for ledger in ledgers]
        barrier.wait(30)
        barrier.wait(30)
        refused = pay()
        with Ledger(Budget(1.0)) as own:
            assert pay() == "done"
        barrier.wait(30)
        assert [t.result() for t in tenants] == ["done", "done"]
    assert refused.startswith("LedgerError")
    assert "with ledger:" in refused
    assert [len(ledger.entries) for ledger in (*ledgers, own)] == [1, 1, 1]


def test_a_thread_that_outlives_the_ledger_stays_with_it() -> None:
    go, outcome = threading.Event(), []

    def late() -> None:
        go.wait(30)
        outcome.append(pay())

    with Ledger(Budget(1.0)) as ledger:
        thread = threading.Thread(target=late)
        thread.start()
    assert pay() == "done"  # this thread was there before
    go.set()
    thread.join()
    assert outcome == ["done"]
    assert len(ledger.entries) == 1


def test_contexts_that_travel_are_left_alone() -> None:
    async def work() -> None:
        await asyncio.to_thread(pay)
        await asyncio.get_running_loop().run_in_executor(None, pay)

    with Ledger(Budget(1.0)) as ledger:
        asyncio.run(work())
    assert len(ledger.entries) == 2


def test_a_generator_that_ends_elsewhere_closes_its_ledger() -> None:
    ledger = Ledger(Budget(1.0))

    def steps():
        with ledger:
            yield

    generator = steps()
    in_thread(lambda: next(generator))
    assert scope._open
    generator.close()
    assert not scope._open


# Processes ---------------------------------------------------------------------------------------


WORKER = """
import subprocess, sys
from reticent.privacy import Guarantee, Pure, Release, charge
for line in sys.stdin:
    where, epsilon = line.split()
    if where == "below":
        done = subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1]], input="here " + epsilon,
                              capture_output=True, text=True, check=True)
        print(done.stdout, end="", flush=True)
        continue
    try:
        charge(Guarantee([Release("sum", Pure(float(epsilon)), 1.0, "gamma")]), "a fit")
        print("done", flush=True)
    except RuntimeError as error:
        print(type(error).__name__, error, flush=True)
"""


def test_processes_that_are_spawned_pay_or_are_refused(tmp_path: Path) -> None:
    """One that was started before any ledger, and processes that it starts."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, WORKER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ask(where: str, epsilon: float) -> str:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{where} {epsilon}\n")
        worker.stdin.flush()
        return worker.stdout.readline()

    assert ask("here", 5.0) == "done\n"
    with Ledger(Budget(1.0)) as memory:
        for where in ("here", "below"):
            assert "give the ledger a path" in ask(where, 0.1)
    assert not memory.entries
    with Ledger(Budget(1.0), tmp_path / "ledger") as shared:
        assert ask("here", 0.6) == "done\n"
        assert ask("here", 0.6).startswith("BudgetExceeded")
        assert ask("below", 0.3) == "done\n"
        assert pay(0.2).startswith("BudgetExceeded")
    assert [entry.guarantee.pure for entry in shared.entries] == [0.6, 0.3]
    assert ask("here", 5.0) == ask("below", 5.0) == "done\n"
    assert len(shared.entries) == 2
    worker.communicate(timeout=60)


@needs_fork
def test_a_forked_worker_pays_from_the_ledger_that_is_open_now(tmp_path: Path) -> None:
    """A pool that was forked inside one ledger, or before any, and is used inside another."""
    first, second = (Ledger(Budget(1.0), tmp_path / name) for name in ("first", "second"))
    fork = multiprocessing.get_context("fork")
    with fork.Pool(1) as before:
        with first:
            pool = fork.Pool(1)
            assert pool.apply(pay) == before.apply(pay) == "done"
            assert len(first.entries) == 2
        with second:
            assert pool.apply(pay) == before.apply(pay) == "done"
        assert len(second.entries) == 2
        with Ledger(Budget(1.0)):
            assert before.apply(pay).startswith("LedgerError")
        assert before.apply(pay, (5.0,)) == "done"
        pool.terminate()
        pool.join()


@needs_fork
def test_a_fork_in_the_middle_of_an_entry(tmp_path: Path) -> None:
    """Threads spend without pause while children are forked that spend too: all are counted."""
    script = """
import os, sys, threading
from reticent.privacy import Budget, Guarantee, Ledger, Pure, Release, charge
one = Guarantee([Release("sum", Pure(1e-5), 1.0, "gamma")])
stop, done = threading.Event(), []
def work():
    while not stop.is_set():
        charge(one, "in a thread")
        done.append(1)
with Ledger(Budget(1.0), sys.argv[1]) as ledger:
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            charge(one, "in a child")
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    names = [entry.what for entry in ledger.entries]
    print(codes == [0] * 12, names.count("in a child") == 12, names.count("in a thread") == len(done))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "ledger")],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["True"] * 3


@needs_fork
def test_a_process_that_was_killed_says_nothing_any_more(own_folder: Path) -> None:
    script = """
import os, signal
from reticent.privacy import Budget, Ledger
with Ledger(Budget(1.0)):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    (folder,) = own_folder.iterdir()
    (left,) = folder.iterdir()
    # the same number comes again, as that of this process's parent
    left.rename(folder / str(os.getppid()))
    assert pay(5.0) == "done"
    (folder / str(os.getppid())).rename(left)
    with Ledger(Budget(1.0)):
        assert [path.name for path in folder.iterdir()] == [str(os.getpid())]
    assert not list(folder.iterdir())


def test_an_announcement_that_cannot_be_read_or_made(own_folder: Path, monkeypatch) -> None:
    with Ledger(Budget(1.0)):
        pass
    (folder,) = own_folder.iterdir()
    (folder / str(os.getppid())).write_text("{")
    assert pay().startswith("LedgerError")
    (folder / str(os.getppid())).unlink()
    folder.chmod(0o777)
    ledger = Ledger(Budget(1.0))
    with pytest.raises(LedgerError, match="TMPDIR"):
        ledger.__enter__()
    assert pay(5.0) == "done"
    assert not ledger.entries
    folder.chmod(0o700)


def test_a_ledger_sent_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="give the ledger a path"):
        pickle.dumps(Ledger(Budget(1.0)))
    ledger = Ledger(Budget(1.0), tmp_path / "ledger")
    data = pickle.dumps(ledger)
    assert pickle.loads(data) is ledger
    script = """
import pickle, sys
ledger = pickle.load(sys.stdin.buffer)
assert pickle.loads(pickle.dumps(ledger)) is ledger
from reticent.privacy import Guarantee, Pure, Release
print(ledger.spend(Guarantee([Release("sum", Pure(0.1), 1.0, "gamma")]), "there").what)
"""
    subprocess.run([sys.executable, "-c", script], input=data, check=True, timeout=60)
    assert [entry.what for entry in ledger.entries] == ["there"]
    (tmp_path / "ledger").rename(tmp_path / "moved")
    there = subprocess.run(
        [sys.executable, "-c", script], input=data, capture_output=True, check=False, timeout=60
    )
    assert b"does not exist" in there.stderr
    assert not (tmp_path / "ledger").exists()
