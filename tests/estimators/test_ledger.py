"""Clones are charged to the ledger they were made in, wherever scikit-learn fits them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import reticent
from reticent import Budget, Ledger, PrivateLogisticRegression
from reticent.estimators import PrivateScaler
from reticent.privacy import BudgetExceeded, LedgerError
from reticent.privacy import ledger as module

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(120, 3))
y = (X[:, 0] > 0).astype(int)
GRID = {"fit_intercept": [True, False]}


def model(**options) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(classes=[0, 1], **({"epsilon": 0.5} | options))


def solve_there(times: int) -> list:
    """Solvers in joblib's workers: nothing of this process is cloned or known there."""
    solve = joblib.delayed(reticent.erm.gradient_descent)
    loss, ball = reticent.losses.Logistic(), reticent.sets.L2Ball(3)
    budget = Budget(0.5, 1e-6)
    calls = (solve(loss, ball, X, 2 * y - 1, budget=budget, steps=2) for _ in range(times))
    return list(joblib.Parallel()(calls))


@pytest.fixture
def shared(tmp_path: Path) -> Ledger:
    return Ledger(Budget(30.0, 1e-3), tmp_path / "ledger")


BACKENDS = ["loky", "threading", "multiprocessing", "sequential"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_searches_cost_what_they_cost(shared: Ledger, backend: str) -> None:
    with shared, joblib.parallel_config(backend, n_jobs=2):
        cross_val_score(model(), X, y, error_score="raise")
        assert len(shared.entries) == 5
        GridSearchCV(model(), GRID, error_score="raise").fit(X, y)
        assert len(shared.entries) == 5 + 11
        RandomizedSearchCV(model(), GRID, n_iter=1, cv=2, error_score="raise").fit(X, y)
        assert len(shared.entries) == 16 + 3
        # a search inside a search, and a pipeline: both clone what is inside them
        search = RandomizedSearchCV(model(), GRID, n_iter=1, cv=2, error_score="raise")
        cross_val_score(search, X, y, cv=2, error_score="raise")
        assert len(shared.entries) == 19 + 2 * 3
        before = len(shared.entries)
        cross_val_score(make_pipeline(PrivateScaler(), model()), X, y, cv=2, error_score="raise")
        assert len(shared.entries) == before + 4
        assert len(solve_there(3)) == 3
        assert len(shared.entries) == before + 7
    assert shared.spent.meets(shared.budget)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_fit_that_would_exceed_the_budget_raises(tmp_path: Path, backend: str) -> None:
    with Ledger(Budget(2.0, 1e-5), tmp_path / "ledger") as ledger:
        with joblib.parallel_config(backend, n_jobs=2), pytest.raises(BudgetExceeded):
            cross_val_score(model(epsilon=1.0), X, y, error_score="raise")
        assert 1 <= len(ledger.entries) <= 4
        assert ledger.spent.meets(ledger.budget)


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_a_ledger_in_memory_refuses_other_processes(backend: str) -> None:
    with Ledger(Budget(30.0, 1e-3)) as ledger, joblib.parallel_config(backend, n_jobs=2):
        with pytest.raises(RuntimeError, match=r"[gG]ive (it|the ledger) a path"):
            cross_val_score(model(), X, y, error_score="raise")
        with pytest.raises(ValueError, match=r"[gG]ive (it|the ledger) a path"):
            cross_val_score(model(), X, y)  # scikit-learn sums up what failed
        with pytest.raises(RuntimeError, match=r"[gG]ive (it|the ledger) a path"):
            solve_there(2)
    assert not ledger.entries


def test_a_clone_tells_two_ledgers_apart() -> None:
    """Threads of two tenants, each with a ledger, hand their clones to a pool that has none."""
    both, fitted = threading.Barrier(2), threading.Barrier(2)
    counts = {}

    def tenant(times: int) -> None:
        with Ledger(Budget(30.0, 1e-3)) as ledger:
            both.wait(60)
            with joblib.parallel_config("threading", n_jobs=2):
                cross_val_score(model(), X, y, cv=times, error_score="raise")
            counts[times] = len(ledger.entries)
            fitted.wait(60)

    threads = [threading.Thread(target=tenant, args=(times,)) for times in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {2: 2, 3: 3}


def test_a_clone_stays_with_its_ledger_and_a_new_estimator_does_not() -> None:
    with Ledger(Budget(30.0, 1e-3)) as ledger:
        copy = clone(model())
    copy.fit(X, y)
    clone(copy).fit(X, y)
    assert len(ledger.entries) == 2
    with Ledger(Budget(30.0, 1e-3)) as other:  # who enters a ledger has decided
        copy.fit(X, y)
        clone(copy).fit(X, y)
    assert len(other.entries) == 2
    model(**{k: v for k, v in copy.get_params().items() if k != "classes"}).fit(X, y)
    assert len(ledger.entries) == 2


def test_what_a_clone_looks_like() -> None:
    with Ledger(Budget(30.0, 1e-3)):
        search = GridSearchCV(model(), GRID, cv=2).fit(X, y)
        best = search.best_estimator_
        assert "_ledgers" not in vars(best.release())
        inside = pickle.dumps(best)
        fitted = pickle.dumps(model().fit(X, y))  # not a clone
    assert best.get_params().keys() == model().get_params().keys()
    assert "ledger" not in repr(best).lower()
    outside = pickle.dumps(best)
    for data in (outside, fitted):
        assert not vars(pickle.loads(data)).get("_ledgers")
    with Ledger(Budget(30.0, 1e-3)) as late:
        unfitted = clone(model())
    pickle.loads(pickle.dumps(unfitted)).fit(X, y)  # as a slow queue would send it to a worker
    assert len(late.entries) == 1
    # what was pickled inside the ledger predicts anywhere, and is fitted under the ledger only
    script = """
import pickle, sys
import numpy as np
from reticent.privacy import LedgerError
inside, outside = pickle.load(sys.stdin.buffer)
X, y = np.eye(3), np.array([0, 1, 1])
for data in inside, outside:
    model = pickle.loads(data)
    model.predict(X)
    try:
        model.fit(X, y)
        print("free")
    except LedgerError as error:
        print("give the ledger a path" in str(error))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], input=pickle.dumps((inside, outside)),
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == [b"True", b"free"]


def test_a_clone_outside_any_ledger_warns_once_a_process(monkeypatch) -> None:
    monkeypatch.setattr(module, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model().fit(X, y)
        with Ledger(Budget(30.0, 1e-3)):
            clone(model()).fit(X, y)
        assert not [w for w in caught if w.category is reticent.RepeatedFitWarning]
        cross_val_score(model(), X, y, cv=3)
        clone(PrivateScaler()).fit(X)
    said = [str(w.message) for w in caught if w.category is reticent.RepeatedFitWarning]
    assert len(said) == 1
    assert "reticent.Ledger(" in said[0]
    assert "of one fit" in said[0]


def test_the_file_of_a_ledger_that_is_gone(tmp_path: Path) -> None:
    with Ledger(Budget(30.0, 1e-3), tmp_path / "ledger"):
        data = pickle.dumps(clone(model()))
    script = "import pickle, sys; pickle.load(sys.stdin.buffer).fit([[0.1], [0.2]], [0, 1])"
    (tmp_path / "ledger").unlink()
    done = subprocess.run(
        [sys.executable, "-c", script], input=data, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert LedgerError.__name__.encode() in done.stderr
    assert b"does not exist" in done.stderr
    assert not (tmp_path / "ledger").exists()
