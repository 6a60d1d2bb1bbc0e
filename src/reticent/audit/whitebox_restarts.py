"""White-box audit lines of what outlives a process: saved states, forks, and the keys of the noise.

A stream that was saved and restored must satisfy the guarantee of an uninterrupted one. The hooks count a repeated draw
as one draw, so noise that is used twice for different purposes appears as a difference that no noise explains.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from reticent import bandit, losses, online, sets, sums
from reticent.audit.hooks import listening
from reticent.audit.whitebox import Exact
from reticent.audit.whitebox_matching import InputPair, Outcome, pushed
from reticent.audit.whitebox_records import FAR, Case, Run, case, tables, wrong
from reticent.estimators import OnlineLogisticRegression
from reticent.noise import Source, release
from reticent.privacy import Budget, ForkError, Ledger
from reticent.state import files

_ROWS, _DIM = 6, 2
_SOURCES = 4096  # enough for keys of two bytes to repeat with probability 1 - e^-128


def _saved(stream: Any) -> Any:
    """The stream, restored from its saved state."""
    return type(stream).from_state(files.loads(files.dumps(stream.state())))


def _restarted(make: Callable[[], Any], step: Callable[[Any, Any], Any], places: Any) -> Run:
    """Records one by one, with a restart before each of the given places."""

    def run(data: Any, source: Source) -> Outcome:
        stream, seen = make(), []
        for k, record in enumerate(data):
            if k in places:
                stream = _saved(stream)
            seen.append(step(stream, record))
        stated = stream.guarantee_ if hasattr(stream, "guarantee_") else stream.guarantee
        return Outcome(seen, stated)

    return run


def _add(total: Any, row: Any) -> Any:
    return total.add(row if row.any() else None)


def _observe(learner: Any, row: Any) -> Any:
    return learner.observe(row if row.any() else None)


def _tell(learner: Any, value: Any) -> float:
    learner.ask()
    shown = learner.decision
    learner.tell(value)
    return math.log(shown[0] / shown[1])


def _learn(model: Any, row: Any) -> Any:
    model.partial_fit(row[None], np.ones(1))
    return [model.coef_, model.intercept_]


def _rows(neighbours: str = "zero-out") -> Iterator[InputPair]:
    for place in (0, 2, 3):
        for here, there, _, why in list(tables(neighbours, _ROWS, _DIM, (place,)))[1::8]:
            yield InputPair(here, there, why)


def _values() -> Iterator[InputPair]:
    for place in (0, 2):
        here: list[float | None] = [0.0] * _ROWS
        there = list(here)
        here[place], there[place] = 5.0, None
        yield InputPair(here, there, f"value {place} is 5")


def _wrong() -> Iterator[InputPair]:
    for here, there, _, why in wrong("zero-out", 4):
        yield InputPair(here, there, why)


def restarts() -> Iterator[Case]:
    """Streams that are saved and continued, states that are continued twice, and keys."""
    budget = Budget(1.0, 1e-6)
    window = budget.with_(window=_ROWS)
    totals: dict[str, Any] = {
        "Tree, Honaker": partial(sums.Tree, _DIM, _ROWS, budget=budget),
        "Tree, plain, laplace": partial(
            sums.Tree, _DIM, _ROWS, budget=Budget(1.0), estimator="plain", noise="laplace"
        ),
        "WindowTree": partial(sums.WindowTree, _DIM, budget=window),
        "Correlated": partial(sums.Correlated, _DIM, _ROWS, budget=budget),
        "Independent": partial(sums.Independent, _DIM, _ROWS, budget=budget),
    }
    for words, make in totals.items():
        yield case(f"{words}, restarted", _restarted(make, _add, (2, 3, 5)), _rows)
    ball, linear = sets.L2Ball(_DIM, FAR), losses.Linear()
    learners: dict[str, Any] = {
        "FollowTheRegularizedLeader": partial(
            online.FollowTheRegularizedLeader, ball, linear, regularizer=1.0, budget=budget,
            horizon=_ROWS,
        ),
        "PerturbedIterates": partial(
            online.PerturbedIterates, sets.L2Ball(_DIM, 1e3), losses.Linear(ridge=1.0),
            inner=online.ImplicitGradient(), budget=budget, horizon=_ROWS,
        ),
    }  # fmt: skip
    for words, make in learners.items():
        yield case(f"{words}, restarted", _restarted(make, _observe, (1, 3)), _rows)
    yield case(
        "ProjectionFreeBandit, restarted",
        _restarted(partial(
            bandit.ProjectionFreeBandit, sets.Simplex(2), budget, batches=_ROWS, mirror="entropy",
            centring="middle", horizon=_ROWS, lipschitz=1.0, values=(-1.0, 1.0), step=1e-3,
            smoothing=0.3,
        ), _tell, (1, 3)),
        _values,
    )  # fmt: skip
    yield case(
        "OnlineLogisticRegression, restarted",
        _restarted(partial(
            OnlineLogisticRegression, epsilon=1.0, delta=1e-6, horizon=4, fit_intercept=False,
            ridge=1.0, coefficient_norm=1e6, classes=[-1, 1],
        ), _learn, (1, 2)),
        _wrong, starts=(pushed(-40.0),),
    )  # fmt: skip
    for words, make in {**totals, **learners}.items():
        if words in ("Tree, Honaker", "Correlated", "FollowTheRegularizedLeader"):
            step = _observe if words in learners else _add
            yield Case(f"{words}, continued twice", partial(_twice, make, step))
    yield Case("Source, clock and process stopped", _keys)
    yield Case("Source, after a fork", _forked)
    yield Case("Source, saved state", _past)
    yield Case("noise of two runs", _two_runs)
    yield Case("Ledger, twice the budget", _overdrawn)


def _all_or_nothing(name: str, leak: str, how: str) -> Exact:
    """The result of a check of something that must not happen, and that would reveal everything if it did."""
    if leak:
        return Exact(name, 0.0, math.inf, 0.0, math.inf, False, leak, fault=1.0)
    return Exact(name, 0.0, 0.0, 0.0, 1.0, True, how, fault=1.0)


def _twice(make: Callable[[], Any], step: Callable[[Any, Any], Any]) -> Exact:
    """Only one of several continuations of a state may be allowed; two would reveal the difference of their records."""
    stream, row = make(), np.ones(_DIM)
    step(stream, row)
    state = files.dumps(stream.state())
    twins = []
    refused = 0
    for _ in range(2):
        try:
            twin = type(stream).from_state(files.loads(state))
            step(twin, row)
            twins.append(twin)
        except ForkError:
            refused += 1
    try:
        step(stream, row)
    except ForkError:
        refused += 1
    leak = "" if refused == 2 else f"{3 - refused} continuations of one state were allowed"
    return _all_or_nothing("continued twice", leak, "one of three continuations was allowed")


@contextlib.contextmanager
def _stopped() -> Iterator[None]:
    """Freeze the clock, the process id and Python's own generators, so that keys must come from somewhere else."""
    names = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
    with contextlib.ExitStack() as stack:
        for name in (*names, "process_time", "process_time_ns"):
            stack.enter_context(mock.patch.object(time, name, return_value=1))
        kept, old = random.getstate(), np.random.get_state()  # noqa: NPY002
        stack.callback(random.setstate, kept)
        stack.callback(np.random.set_state, old)
        yield


def _keys() -> Exact:
    with _stopped():
        firsts = set()
        for _ in range(_SOURCES):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            firsts.add(bytes(Source().words(2)))
    leak = "" if len(firsts) == _SOURCES else "two sources began with the same words"
    return _all_or_nothing("keys", leak, f"{_SOURCES} sources began with different words")


def _forked() -> Exact:
    if not hasattr(os, "fork"):
        return _all_or_nothing("fork", "", "this system has no fork")
    source = Source()
    source.words(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, bytes(source.words(2)))
        finally:
            os._exit(0)
    os.close(writing)
    theirs = os.read(reading, 16)
    os.close(reading)
    os.waitpid(child, 0)
    leak = "" if theirs and theirs != bytes(source.words(2)) else "a child drew its parent's noise"
    return _all_or_nothing("fork", leak, "parent and child drew different words")


def _past() -> Exact:
    """A saved state must not reveal what was drawn before it was saved."""
    source = Source()
    drawn = bytes(source.words(4))
    later = Source.from_state(source.state())
    again = bytes(later.words(4))
    leak = "a saved state drew again what had been drawn" if again == drawn else ""
    if any(bytes(later.words(4)) == drawn for _ in range(64)):
        leak = "a saved state drew again what had been drawn"
    return _all_or_nothing("saved state", leak, "earlier draws do not come again")


def _two_runs() -> Exact:
    """Run everything that draws noise twice on the same data: no noise may occur twice, anywhere in any stream."""
    budget, rows = Budget(1.0, 1e-6), np.eye(4)
    runs: dict[str, Callable[[], Any]] = {
        "release": lambda: release.noisy(rows[0], 1.0, Source()),
        "Tree": lambda: sums.Tree(4, 4, budget=budget).run(rows),
        "Correlated": lambda: sums.Correlated(4, 4, budget=budget).run(rows),
        "Independent": lambda: sums.Independent(4, 4, budget=budget).run(rows),
        "leader": lambda: online.FollowTheRegularizedLeader(
            sets.L2Ball(4, 1.0), losses.Linear(), regularizer=1.0, budget=budget, horizon=4
        ).run(rows),
        "estimator": lambda: OnlineLogisticRegression(
            epsilon=1.0, delta=1e-6, horizon=4, classes=[0, 1]
        ).partial_fit(rows, [0, 1, 0, 1]),
    }
    leak, seen = "", 0
    for words, run in runs.items():
        values: list[set[float]] = []
        for _ in range(2):
            with listening(numbered=False) as tape:
                run()
            values.append({float(v) for draw in tape.draws for v in draw.values.ravel()} - {0.0})
        seen += len(values[0])
        if not values[0]:
            leak = f"{words} drew no noise"
        # a scale is about 2^30 lattice steps: a few values may coincide, but not half of them
        if 2 * len(values[0] & values[1]) > len(values[0]):
            leak = f"two runs of {words} had the same noise"
    return _all_or_nothing("two runs", leak, f"{seen} numbers of noise, none of them twice")


def _overdrawn() -> Exact:
    """A second running total with the whole budget of a ledger must be refused."""
    budget = Budget(1.0, 1e-6)
    spent = 0
    with Ledger(budget):
        for make in (sums.Correlated, sums.Tree):
            with contextlib.suppress(ValueError, RuntimeError):
                make(2, 4, budget=budget)
                spent += 1
    leak = "" if spent == 1 else f"{spent} totals were paid for with the budget of one"
    return _all_or_nothing("overdrawn", leak, "the second total was refused")
