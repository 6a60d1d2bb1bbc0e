"""A fit from files that is killed, with SIGKILL, at any pass: charged once, and one result."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import reticent
from reticent import tables
from reticent.state import files, locks

OPTIONS = {"classes": [0, 1], "feature_norm": 1.0, "random_state": 0}

SCRIPT = """
import json, os, signal, sys
import reticent
from reticent import tables

folder, fatal = sys.argv[1], int(sys.argv[2])
X, y = tables.open(folder + "/x.npy", target=folder + "/y.npy")
seen = []

def watch(size):
    seen.append(size)
    if len(seen) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

ledger = reticent.Ledger(reticent.Budget(1.5, 1e-5), folder + "/ledger")
with ledger, reticent.resumable(folder + "/fit.run"):
    model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0, random_state=0)
    model.fit(X.watched(watch), y)
print(json.dumps([model.coef_.tolist(), len(seen), len(ledger.entries)]))
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((20_000, 4)) / 3.0).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", (X @ [1.0, -2.0, 0.5, 0.0] > 0.1).astype(np.int8))
    return tmp_path


def opened(folder):
    return tables.open(folder / "x.npy", target=folder / "y.npy")


def test_a_fit_that_is_killed_again_and_again_is_charged_once_and_ends_as_it_would_have(folder):
    whole = reticent.PrivateLogisticRegression(**OPTIONS).fit(*opened(folder))

    def attempt(fatal):
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), str(fatal)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    # the budget is for one fit and a half: a second charge would be refused
    for fatal in (1, 2, 3, 4):
        assert attempt(fatal).returncode == -signal.SIGKILL
    done = attempt(0)
    assert done.returncode == 0, done.stderr
    coefficients, passes, entries = json.loads(done.stdout)
    assert entries == 1
    np.testing.assert_allclose(coefficients, whole.coef_, rtol=1e-6)
    # the result is kept: once more, it is the same to the bit, and only the check reads the table
    again, more, entries = json.loads(attempt(0).stdout)
    assert again == coefficients
    assert entries == 1
    assert more < passes


def test_a_run_goes_on_from_where_it_stood(folder):
    X, y = opened(folder)
    reads: list[int] = []

    def watch(size):
        reads.append(size)
        if len(reads) == stop:
            raise KeyboardInterrupt

    stop = 0
    with reticent.resumable(folder / "all"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(X.watched(watch), y)
    needed, stop = len(reads), len(reads)
    reads.clear()
    with pytest.raises(KeyboardInterrupt), reticent.resumable(folder / "some"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(X.watched(watch), y)
    reads.clear()
    stop = -1
    with reticent.resumable(folder / "some"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(X.watched(watch), y)
    assert len(reads) < needed


@pytest.mark.parametrize("kind", ["linear", "descent"])
def test_other_solvers_are_replayed(folder, kind):
    def model():
        if kind == "linear":
            return reticent.PrivateLinearRegression(feature_norm=1.0, label_bounds=(0, 1))
        return reticent.PrivateLogisticRegression(
            classes=[0, 1], feature_norm=1.0, solver="gradient-descent"
        )

    X, y = opened(folder)
    count = 0

    def watch(size):
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt

    ledger = reticent.Ledger(reticent.Budget(1.5, 1e-5))
    with ledger, pytest.raises(KeyboardInterrupt), reticent.resumable(folder / "run"):
        model().fit(X.watched(watch), y)
    found = []
    for _ in range(2):
        with ledger, reticent.resumable(folder / "run"):
            found.append(model().fit(X, y).coef_)
    assert np.array_equal(*found)
    assert len(ledger.entries) == 1


def test_a_file_is_readable_by_its_owner_only_and_forgets_the_noise(folder):
    with reticent.resumable(folder / "run"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(*opened(folder))
    for name in ("run", "run.key", "run.lock"):
        assert os.stat(folder / name).st_mode & 0o077 == 0
    state = reticent.load_state(folder / "run")
    assert state["source"] is None
    assert state["points"] == {}


def test_what_is_not_the_same_fit_is_refused_and_costs_nothing(folder):
    ledger = reticent.Ledger(reticent.Budget(1.5, 1e-5))
    with ledger, reticent.resumable(folder / "run"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(*opened(folder))
    other = reticent.PrivateLogisticRegression(**OPTIONS | {"epsilon": 0.5})
    with (
        pytest.raises(ValueError, match=r"differs in: .*budget"),
        ledger,
        reticent.resumable(folder / "run"),
    ):
        other.fit(*opened(folder))
    for name in ("x.npy", "y.npy"):
        np.save(folder / name, np.load(folder / name)[::-1])
        with (
            pytest.raises(ValueError, match="differs in: records"),
            ledger,
            reticent.resumable(folder / "run"),
        ):
            reticent.PrivateLogisticRegression(**OPTIONS).fit(*opened(folder))
    for scaling in ("none", "auto"):
        whole = reticent.PrivateLogisticRegression(**OPTIONS, scaling=scaling)
        with (
            pytest.raises(ValueError, match="needs a table in files"),
            ledger,
            reticent.resumable(folder / "in memory"),
        ):
            whole.fit(np.load(folder / "x.npy"), np.load(folder / "y.npy"))
    with (
        pytest.raises(ValueError, match="file of one fit"),
        ledger,
        reticent.resumable(folder / "two"),
    ):
        model = reticent.PrivateLogisticRegression(**OPTIONS | {"epsilon": 0.1})
        model.fit(*opened(folder))
        model.fit(*opened(folder))
    with (
        pytest.raises(ValueError, match="another process"),
        reticent.resumable(folder / "run"),
        reticent.resumable(folder / "run"),
    ):
        pass
    assert len(ledger.entries) == 2


def test_labels_that_change_between_passes_are_noticed(folder):
    X, y = opened(folder)
    count = 0

    def watch(size):
        nonlocal count
        count += 1
        if count == 2:
            np.save(folder / "y.npy", 1 - np.load(folder / "y.npy"))

    with pytest.raises(tables.TableError, match=r"y\.npy was changed"):
        reticent.PrivateLogisticRegression(**OPTIONS).fit(X.watched(watch), y)


@pytest.mark.skipif(locks.fcntl is None, reason="this system does not lock files")
def test_a_file_system_without_locks_is_not_taken_for_another_process(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with (
        pytest.raises(OSError, match=r"could not be locked .* such as a local disk"),
        reticent.resumable(tmp_path / "run"),
    ):
        pass
    with pytest.raises(OSError, match=r"could not be locked"):
        files.File(tmp_path / "state").save({"steps": 1})
