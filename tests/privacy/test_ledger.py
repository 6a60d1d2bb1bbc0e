"""Ledgers refuse what would exceed, in one process, in several, and across crashes."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import reticent
from reticent.privacy import (
    BoundedRange,
    Budget,
    BudgetExceeded,
    ForkError,
    Gaussian,
    Guarantee,
    Laplace,
    Ledger,
    ObjectivePerturbation,
    Profile,
    Pure,
    Release,
    SubsampledGaussian,
    ZeroConcentrated,
    calibration,
    charge,
    compose,
    gaussian,
)
from reticent.privacy.composition import Composition, Filter


def of(curve, count: int = 1, **options) -> Guarantee:
    return Guarantee([Release("sum", curve, 1.0, "some", count)], **options)


def fill(ledger: Ledger, guarantee: Guarantee) -> int:
    done = 0
    while True:
        try:
            ledger.spend(guarantee, f"number {done}")
        except BudgetExceeded:
            return done
        done += 1


def test_gaussian_entries_fill_the_budget_exactly() -> None:
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget)
    assert ledger.spent is None
    assert fill(ledger, of(Gaussian(budget.mu / math.sqrt(10.0)))) == 10
    assert len(ledger.entries) == 10
    assert ledger.spent.meets(budget)
    assert ledger.spent.gdp == pytest.approx(budget.mu)
    assert ledger.remaining == "nothing"


def test_pure_entries_fill_the_budget_exactly() -> None:
    assert fill(Ledger(Budget(1.0)), of(Pure(0.1))) == 10
    assert fill(Ledger(Budget(1.0)), of(BoundedRange(0.25))) == 4
    ledger = Ledger(Budget(1.0))
    ledger.spend(of(Pure(0.4)), "half")
    assert ledger.remaining == "pure epsilon = 0.6"
    with pytest.raises(BudgetExceeded, match=r"'more'.*Left: pure epsilon = 0\.6.*lower its"):
        ledger.spend(of(Pure(0.7)), "more")
    with pytest.raises(BudgetExceeded):
        ledger.spend(of(Gaussian(1e-6)), "gaussian noise is never pure")
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("curve", [BoundedRange(0.05), Laplace(0.05), ZeroConcentrated(0.001)])
def test_equal_entries(curve) -> None:
    budget = Budget(1.0, 1e-6)
    often = fill(Ledger(budget), of(curve))
    assert compose([(curve, often)]).epsilon(1e-6) <= 1.0 + 1e-9
    assert compose([(curve, often + 1)]).epsilon(1e-6) > 1.0
    adaptive = fill(Ledger(budget, adaptive=True), of(curve))
    assert adaptive <= often
    # equal entries lose nothing to the best order, which is fixed by the first of them

    def by_divergence(n: int) -> float:
        return Profile(lambda e: 1.0, lambda a: n * curve.rdp(a)).epsilon(1e-6)

    assert by_divergence(adaptive) <= 1.0 + 1e-9
    assert by_divergence(adaptive + 1) > 1.0


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("first", [Gaussian(0.1), BoundedRange(0.05), Pure(0.1), Laplace(0.3)])
def test_mixtures_never_exceed_composition(first, adaptive: bool) -> None:
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget, adaptive=adaptive)
    ledger.spend(of(first), "first")
    for k in range(200):
        curve = [Gaussian(0.05), BoundedRange(0.04), Pure(0.03)][k % 3]
        try:
            ledger.spend(of(curve), f"entry {k}")
        except BudgetExceeded:
            break
    else:
        pytest.fail("the ledger never refused")
    assert ledger.spent.meets(budget)
    assert len(ledger.entries) > 5
    if not adaptive:  # and it refused only what exceeds
        assert not (ledger.spent + of(curve)).meets(budget)


def test_no_entry_is_lost_in_rounding() -> None:
    """A cost far below the last digit of what is spent is counted, for there may be millions like it."""
    planned = Composition(Budget(1.0, 1e-6))
    planned.add(Gaussian(0.2))
    planned.add(Gaussian(1e-12))
    assert planned.total.gdp > 0.2
    adaptive = Filter(Budget(1.0, 1e-6))
    adaptive.add(Gaussian(0.2))
    spent = adaptive._used
    adaptive.add(Gaussian(1e-12))
    assert adaptive._used > spent
    pure = Filter(Budget(1.0))
    pure.add(Pure(0.5))
    pure.add(Pure(1e-18))
    assert pure._pure > 0.5


def test_what_is_left_fits_and_more_does_not() -> None:
    for adaptive in (False, True):
        for first in (Gaussian(0.1), BoundedRange(0.2), Pure(0.5), ZeroConcentrated(0.01)):
            tally = (Filter if adaptive else Composition)(Budget(1.0, 1e-6))
            tally.add(first)
            assert tally.fits(Gaussian(tally.room * (1 - 1e-9)))
            assert not tally.fits(Gaussian(tally.room * 1.001))


def test_adaptive_rules_against_a_greedy_adversary() -> None:
    """A two-armed adversary that looks at the loss so far and takes the worse continuation.

    The first release is Gaussian; then, as the ledger allows, either one more Gaussian one or pure
    ones, whichever hurts more at the loss that was reached. Exact by integration over the first.
    """
    budget = Budget(1.0, 1e-6)
    first = 0.7 * budget.mu
    for make, honest in [(lambda: Filter(budget), True), (lambda: Composition(budget), False)]:
        tally = make()
        tally.add(Gaussian(first))
        mu = tally.room
        pure = 0.0  # the largest single pure release that fits
        for k in range(400, 0, -1):
            if tally.fits(Pure(k / 400)):
                pure = k / 400
                break
        z = np.linspace(-10, 12, 40_001)
        left = budget.epsilon - (first * z + first**2 / 2)  # what epsilon is left at each loss
        sticks = np.exp(gaussian.log_delta_at(np.abs(left) / mu - mu / 2, mu))
        by_gaussian = np.where(left >= 0, sticks, -np.expm1(left) + np.exp(left) * sticks)
        p = 1 / (1 + math.exp(-pure))
        by_pure = sum(
            w * np.maximum(-np.expm1(left - s), 0) for w, s in ((p, pure), (1 - p, -pure))
        )
        worst = np.maximum(by_gaussian, by_pure)
        delta = float((worst * np.exp(-z * z / 2)).sum() * (z[1] - z[0]) / math.sqrt(2 * math.pi))
        if honest:
            assert delta <= budget.delta * (1 + 1e-6)
        else:
            # plain composition is not meant for this adversary, and would be wrong by this much
            assert budget.delta < delta < 2 * budget.delta


def test_a_fit_that_takes_the_whole_budget_is_accepted() -> None:
    budget = Budget(1.0, 1e-6)
    scale = calibration.gumbel(budget, 1.0, 100)
    pure = calibration.gamma(budget, 1.0, 20)
    for guarantee in (of(BoundedRange(2 / scale), 100), of(Pure(1 / pure), 20),
                      of(Gaussian(budget.mu)), of(Pure(1.0))):  # fmt: skip
        for adaptive in (False, True):
            ledger = Ledger(budget, adaptive=adaptive)
            ledger.spend(guarantee, "everything")
            with pytest.raises(BudgetExceeded):
                ledger.spend(of(Gaussian(0.05)), "more")


def test_halves_add_up_whatever_their_noise() -> None:
    # (eps/2, delta/2) twice is (eps, delta), by the plainest composition there is
    budget, half = Budget(1.0, 1e-6), Budget(0.5, 5e-7)
    sigma = calibration.objective_perturbation(half, 1.0, 0.1)
    halves = [of(Gaussian(half.mu)), of(Pure(0.5)),
              of(BoundedRange(2 / calibration.gumbel(half, 1.0, 50)), 50),
              of(ObjectivePerturbation(1 / sigma, 0.1))]  # fmt: skip
    for first in halves:
        for second in halves:
            ledger = Ledger(budget)
            ledger.spend(first, "first")
            ledger.spend(second, "second")
            assert ledger.spent.epsilon(1e-6) <= 1.0 + 1e-6


def test_sampled_and_unknown_curves() -> None:
    ledger = Ledger(Budget(3.0, 1e-6))
    step = of(SubsampledGaussian(0.01, 1.0, 1000))
    assert fill(ledger, step) >= 2
    assert ledger.spent.meets(ledger.budget)
    ledger = Ledger(Budget(3.0, 1e-6), adaptive=True)
    ledger.spend(of(Profile(lambda e: 0.0 if e > 1 else 1.0)), "only a profile")
    with pytest.raises(BudgetExceeded):
        ledger.spend(of(Gaussian(0.01)), "cannot be added to it adaptively")
    mixed = Ledger(Budget(3.0, 1e-6), adaptive=True)
    mixed.spend(of(BoundedRange(0.1)), "one kind")
    mixed.spend(of(Gaussian(0.1)), "another")
    assert any("holds without this assumption" in line for line in mixed.spent.caveats)
    planned = Ledger(Budget(3.0, 1e-6))
    planned.spend(of(Profile(lambda e: 0.0 if e > 1 else 1.0)), "only a profile")
    planned.spend(of(Gaussian(0.01)), "adds up if planned")
    assert any("adaptive=True" in line for line in planned.spent.caveats)


@pytest.mark.parametrize("adaptive", [False, True])
def test_fits_says_what_spend_would_do_and_records_nothing(tmp_path: Path, adaptive: bool) -> None:
    path = tmp_path / "ledger"
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget, path, adaptive=adaptive)
    other = Ledger(budget, path, adaptive=adaptive)
    size = of(Gaussian(budget.mu / math.sqrt(3.0)))
    for spender, number in ((ledger, 1), (other, 2), (other, 3)):
        bytes_before = path.read_bytes()
        assert ledger.fits(size)
        assert not ledger.fits(of(Gaussian(1.01 * budget.mu)))
        assert path.read_bytes() == bytes_before
        assert len(ledger.entries) == number - 1
        spender.spend(size, f"number {number}")
    assert not ledger.fits(size)  # the other object spent the rest
    with pytest.raises(BudgetExceeded):
        ledger.spend(size, "one more")
    memory = Ledger(Budget(1.0), adaptive=adaptive)
    assert memory.fits(of(Pure(1.0)))
    assert not memory.fits(of(Pure(1.1)))
    assert memory.entries == ()
    with pytest.raises(ValueError, match=r"\(replace\)"):
        memory.fits(of(Pure(0.1), neighbours="replace"))
    with pytest.raises(TypeError, match="guarantee"):
        memory.fits(0.1)


def test_active_ledger() -> None:
    fit = of(Gaussian(0.1))
    charge(fit, "no ledger, no charge")
    with Ledger(Budget(1.0, 1e-6)) as outer:
        charge(fit, "outer")
        with Ledger(Budget(0.5, 1e-6)) as inner:
            charge(fit, "both")
            with pytest.raises(BudgetExceeded):
                charge(of(Gaussian(0.15)), "too much for the inner one")
        charge(fit, "outer again")
        with pytest.raises(BudgetExceeded):
            charge(Guarantee.none("no noise"), "not private")
    charge(of(Gaussian(10.0)), "after the ledger")
    assert [entry.what for entry in inner.entries] == ["both"]
    assert [entry.what for entry in outer.entries][:2] == ["outer", "both"]
    assert outer.entries[-1].what == "outer again"


def test_one_ledger_in_several_threads() -> None:
    ledger = Ledger(Budget(1.0))
    entered, leave = threading.Barrier(3), threading.Event()

    def work() -> None:
        with pytest.raises(BudgetExceeded):
            charge(of(Pure(100.0)), "a new thread owes to the ledger around it")
        with ledger:
            entered.wait(10)
            charge(of(Pure(0.1)), "from a thread")
            leave.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    with ledger, ledger:
        for thread in threads:
            thread.start()
        entered.wait(10)
        leave.set()
    for thread in threads:
        thread.join()
    charge(of(Pure(100.0)), "none is active here any more")
    assert len(ledger.entries) == 2


def test_an_exception_ends_the_ledger() -> None:
    ledger = Ledger(Budget(1.0))
    with pytest.raises(KeyError), ledger:
        raise KeyError("x")
    charge(of(Pure(100.0)), "no ledger any more")
    assert ledger.entries == ()


def test_words() -> None:
    ledger = Ledger(Budget(1.0, 1e-6))
    assert "mu = 0.2367 in all, epsilon = " in ledger.remaining
    ledger.spend(of(Gaussian(0.1)), "first fit")
    ledger.spend(of(Gaussian(0.1), seeded=True), "second fit")
    text = str(ledger)
    for words in ("budget: epsilon = 1", "1  first fit", "0.1-GDP", "seeded", "left: room for"):
        assert words in text
    assert repr(Ledger(Budget(1.0), adaptive=True)).endswith("adaptive=True)")
    assert ledger.spent.seeded


def test_wrong_promises_and_bad_input() -> None:
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match=r"\(replace\)"):
        ledger.spend(of(Gaussian(0.1), neighbours="replace"), "x")
    with pytest.raises(ValueError, match="for 5 outputs"):
        ledger.spend(of(Gaussian(0.1), window=5), "x")
    with pytest.raises(ValueError, match="what"):
        ledger.spend(of(Gaussian(0.1)), " ")
    with pytest.raises(TypeError, match="Guarantee"):
        ledger.spend(Gaussian(0.1), "x")
    with pytest.raises(TypeError, match="Budget"):
        Ledger(1.0)
    assert ledger.entries == ()
    with ledger, pytest.raises(ValueError, match="replace"):
        charge(of(Gaussian(0.1), neighbours="replace"), "x")


def test_threads_never_exceed() -> None:
    ledger = Ledger(Budget(1.0))
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.append(fill(ledger, of(Pure(0.05)))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == len(ledger.entries) == 20


# --- the file -----------------------------------------------------------------------------------


def test_a_file_of_an_earlier_version_is_refused_in_words(tmp_path: Path) -> None:
    """The terms of Tacit, this project's former name: fading and what is protected were not among them."""
    path = tmp_path / "ledger"
    Ledger(Budget(1.0, 1e-6), path=path)
    former = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "zero-out", "window": None}
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE about SET value = ? WHERE name = 'terms'",
            (json.dumps(former | {"adaptive": False}),),
        )
    connection.close()
    with pytest.raises(ValueError, match=r"earlier version.*stays spent.*new ledger at another"):
        Ledger(Budget(1.0, 1e-6), path=path)


def test_file_outlives_the_ledger(tmp_path: Path) -> None:
    path, budget = tmp_path / "ledger", Budget(1.0, 1e-6)
    first = Ledger(budget, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger"]
    entry = first.spend(of(Gaussian(0.1), caveats=("c",)), "one")
    second = Ledger(budget, str(path))
    assert second.entries == (entry,)
    second.spend(of(BoundedRange(0.05)), "two")
    assert [e.what for e in first.entries] == ["one", "two"]  # sees what others spent
    assert str(path) in repr(first)
    before = path.read_bytes()
    with pytest.raises(BudgetExceeded):
        first.spend(of(Gaussian(1.0)), "too much")
    with pytest.raises(ValueError, match="cannot be stored as data"):
        first.spend(of(Profile(lambda e: 1e-9)), "cannot be stored")
    assert path.read_bytes() == before
    assert len(Ledger(budget, path).entries) == 2


def test_reopening_checks_the_terms(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger(Budget(1.0, 1e-6), path)
    for other in (Budget(2.0, 1e-6), Budget(1.0, 1e-6, "replace"), Budget(1.0, 1e-6, window=3)):
        with pytest.raises(ValueError, match=r"was opened for epsilon=1\.0"):
            Ledger(other, path)
    with pytest.raises(ValueError, match="adaptive=False"):
        Ledger(Budget(1.0, 1e-6), path, adaptive=True)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE about SET value = '99' WHERE name = 'format'")
    connection.close()
    with pytest.raises(ValueError, match="format '99'"):
        Ledger(Budget(1.0, 1e-6), path)


def test_damage_is_refused(tmp_path: Path) -> None:
    budget = Budget(1.0)
    good = tmp_path / "good"
    ledger = Ledger(budget, good)
    for k in range(3):
        ledger.spend(of(Pure(0.1)), f"entry {k}")
    content = good.read_bytes()
    for name, bad in {"empty": b"", "text": b"not a ledger at all" * 300,
                      "cut": content[: len(content) // 2],
                      "flipped": content[:100] + bytes(4000) + content[4100:]}.items():  # fmt: skip
        path = tmp_path / name
        path.write_bytes(bad)
        with pytest.raises(RuntimeError, match="stays spent"):
            Ledger(budget, path)
        assert path.read_bytes() == bad
    with sqlite3.connect(good) as connection:
        connection.execute("DELETE FROM entries WHERE id = 2")
    connection.close()
    with pytest.raises(RuntimeError, match="missing"):
        Ledger(budget, good)
    with sqlite3.connect(good) as connection:
        connection.execute("INSERT INTO entries VALUES (2, '', 'x', '{}')")
    connection.close()
    with pytest.raises(RuntimeError, match="cannot be read"):
        Ledger(budget, good)
    with pytest.raises(FileNotFoundError, match="existing folder"):
        Ledger(budget, tmp_path / "nowhere" / "ledger")


def test_a_deleted_file_is_not_started_afresh(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(Budget(1.0), path)
    path.unlink()
    with pytest.raises(RuntimeError, match="disappeared"):
        ledger.spend(of(Pure(0.1)), "x")
    assert not path.exists()


def test_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(Budget(1.0), path)
    ledger.spend(of(Pure(0.9)), "x")
    path.unlink()
    Ledger(Budget(1.0), path)  # somebody starts afresh
    with pytest.raises(RuntimeError, match="missing"):
        ledger.spend(of(Pure(0.05)), "y")


TRACED = """
import os, sys
from reticent.privacy import Budget, Guarantee, Ledger, Pure, Release
ledger = Ledger(Budget(1.0), sys.argv[1])
os.write(1, b"opened\\n")
for _ in range(2):
    ledger.spend(Guarantee([Release("sum", Pure(0.1), 1.0, "gamma")]), "x")
    os.write(1, b"acknowledged\\n")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, to see what is synced")
def test_an_acknowledged_entry_survives_a_power_cut(tmp_path: Path) -> None:
    """What SIGKILL cannot show: nothing is left in memory that the disk must know.

    Every write to a file, and every name made or removed in the folder, is followed by a sync of
    that file or of the folder before the call that acknowledges.
    """
    folder, log = tmp_path / "folder", tmp_path / "trace"
    folder.mkdir()
    calls = "write,pwrite64,ftruncate,fsync,fdatasync,openat,link,linkat,unlink,unlinkat,rename"
    done = subprocess.run(
        ["strace", "-f", "-y", "-e", f"trace={calls}", "-o", str(log),
         sys.executable, "-c", TRACED, str(folder / "ledger")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "ptrace" in done.stderr.lower() and done.returncode != 0:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    unsynced: set[str] = set()
    changed: set[str] = set()  # since the last acknowledgement
    acknowledged = 0
    for line in log.read_text().splitlines():
        found = re.match(r"\d+ +(\w+)\((.*)\) += (-?\d+)", line)
        if found is None or int(found[3]) < 0:
            continue
        call, arguments = found[1], found[2]
        if call == "write" and re.search(r'"(opened|acknowledged)', arguments):
            assert not unsynced, (acknowledged, unsynced)
            if "acknowledged" in arguments:
                acknowledged += 1
                assert {str(folder), str(folder / "ledger")} <= changed
            changed = set()
        if str(folder) not in line:
            continue
        opened = re.match(r"\d+<([^>]*)>", arguments)
        if call in ("fsync", "fdatasync"):
            assert opened is not None
            unsynced.discard(opened[1])
        elif call in ("link", "linkat", "unlink", "unlinkat", "rename") or "O_CREAT" in arguments:
            changed.add(str(folder))
            unsynced.add(str(folder))
            names = re.findall(r'"([^"]*)"', arguments)
            if call.startswith("unlink"):
                unsynced.discard(names[0])  # it is gone, and need not be on disk
        elif call != "openat":
            assert opened is not None
            changed.add(opened[1])
            unsynced.add(opened[1])
    assert acknowledged == 2


def test_a_process_killed_between_check_and_entry(tmp_path: Path) -> None:
    """The entry that nobody acknowledged is undone, and others can go on at once."""
    path = tmp_path / "ledger"
    script = """
import os, signal, sys
from reticent.privacy import Budget, Guarantee, Ledger, Pure, Release
from reticent.privacy.ledger import LedgerFile
real = LedgerFile.append
def append(self, connection, row):
    real(self, connection, row)
    os.kill(os.getpid(), signal.SIGKILL)
LedgerFile.append = append
Ledger(Budget(1.0), sys.argv[1]).spend(Guarantee([Release("sum", Pure(0.9), 1.0, "gamma")]), "x")
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    ledger = Ledger(Budget(1.0), path)
    assert ledger.entries == ()
    ledger.spend(of(Pure(0.9)), "after it")
    with pytest.raises(BudgetExceeded):
        ledger.spend(of(Pure(0.2)), "too much")


def test_another_journal_is_put_right(tmp_path: Path) -> None:
    """In WAL mode nothing syncs the folder; whoever changed the file, entries are safe again."""
    path = tmp_path / "ledger"
    ledger = Ledger(Budget(1.0), path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    ledger.spend(of(Pure(0.1)), "x")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert len(Ledger(Budget(1.0), path).entries) == 1


WORKER = """
import sys
from reticent.privacy import Budget, BudgetExceeded, Gaussian, Guarantee, Ledger, Pure, Release
path, size = sys.argv[1], float(sys.argv[2])
one = Guarantee([Release("sum", Pure(size), 1.0, "gamma")])
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(Budget(1.0), path)
done = 0
while True:
    try:
        ledger.spend(one, f"entry {done}")
    except BudgetExceeded:
        break
    done += 1
    print(done, flush=True)
print("done", done, flush=True)
"""


def start(path: Path, size: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), str(size)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_racing_never_exceed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    workers = [start(path, 0.02) for _ in range(2)]
    for worker in workers:  # both create the file at once
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    done = [int(worker.communicate(timeout=120)[0].split()[-1]) for worker in workers]
    assert sum(done) == 50
    ledger = Ledger(Budget(1.0), path)
    assert len(ledger.entries) == 50
    assert ledger.spent.pure == pytest.approx(1.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger"]


def test_a_killed_process_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for round_ in range(3):
        before = len(Ledger(Budget(1.0), path).entries)
        worker = start(path, 1e-5)
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
        for _ in range(20 + round_):
            worker.stdout.readline()
        os.kill(worker.pid, signal.SIGKILL)
        rest = worker.communicate(timeout=60)[0]
        acknowledged = 20 + round_ + sum(line.isdigit() for line in rest.split("\n")[:-1])
        after = len(Ledger(Budget(1.0), path).entries)
        assert acknowledged <= after - before <= acknowledged + 1


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_interrupt_while_others_entries_are_read_loses_none(tmp_path, monkeypatch, adaptive):
    """Whatever is in the list of entries has been counted; the other way round it may come twice."""
    path = tmp_path / "ledger"
    mine, theirs = (Ledger(Budget(1.0), path, adaptive=adaptive) for _ in range(2))
    theirs.spend(of(Pure(0.6)), "another process")
    tally = type(mine._tallies[0][1])
    for after in (False, True):

        def add(self, curve, real=tally.add, after=after):
            if after:
                real(self, curve)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(tally, "add", add)
            with pytest.raises(KeyboardInterrupt):
                _ = mine.entries
        assert not mine._entries
    with pytest.raises(BudgetExceeded):
        mine.spend(of(Pure(0.6)), "too much together")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_ledger_in_memory_does_not_pay_in_a_forked_process(tmp_path):
    script = """
import os, sys
from reticent.privacy import Budget, ForkError, Guarantee, Ledger, Pure, Release, charge
fit = Guarantee([Release("a fit", Pure(0.6), 1.0, "laplace")])
for path in (None, sys.argv[1]):
    with Ledger(Budget(1.0), path) as ledger:
        child = os.fork()
        if child == 0:
            try:
                charge(fit, "in the child")
            except ForkError:
                os._exit(7)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, len(ledger.entries))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "ledger")],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["7", "0", "0", "1"]
    assert issubclass(ForkError, RuntimeError)


def test_a_ledger_holds_a_profile(tmp_path) -> None:
    """Entries are added at equal age, and each age has room of its own."""
    budget = Budget(1.0, 1e-6, fade=[(64, 1.0), (10_000, 2.0)])
    half = Budget(0.5, 1e-6, fade=[(64, 0.5), (10_000, 1.9)])
    mu = {e: Budget(e, 1e-6).mu for e in (0.5, 1.0, 1.9, 2.0)}
    path = tmp_path / "ledger"
    with Ledger(budget, path) as ledger:
        total = reticent.sums.Correlated(1, budget=half)
        assert ledger.spent.ages == (64, 10_000)
        with pytest.raises(BudgetExceeded):  # there is room at age 64 only
            reticent.sums.Correlated(1, budget=half)
    assert 2 * mu[0.5] ** 2 < mu[1.0] ** 2
    assert 2 * mu[1.9] ** 2 > mu[2.0] ** 2
    again = Ledger(budget, path)
    assert again.spent.at(64).gdp == total.guarantee.at(64).gdp
    with pytest.raises(ValueError, match="one kind"):
        again.spend(reticent.sums.Correlated(1, 8, budget=Budget(0.1, 1e-6)).guarantee, "other")


def test_a_ledger_has_one_unit(tmp_path) -> None:
    release = Release("a sum", Gaussian(0.1), 1.0, "gaussian")
    person = Guarantee([release], unit="person")
    with pytest.raises(ValueError, match="one kind"):
        Ledger(Budget(1.0, 1e-6)).spend(person, "a sum")
    ledger = Ledger(Budget(1.0, 1e-6), tmp_path / "persons", unit="person")
    ledger.spend(person, "a sum")
    assert ledger.spent.unit == "person"
    assert "all records of one person" in str(ledger.spent)
    assert "protected: each person, all of their records together" in person.explain()
    assert "protected: each record by itself" in Guarantee([release]).explain()
    windowed = Guarantee([release], window=64, unit="person")
    assert "any 64 consecutive outputs" in str(windowed)
    with pytest.raises(ValueError, match="cannot be put in parallel"):
        Guarantee.parallel(person, Guarantee([release]))
    with pytest.raises(ValueError, match="cannot be added"):
        person + Guarantee([release])
    with pytest.raises(ValueError, match="unit"):
        Ledger(Budget(1.0, 1e-6), unit="family")
