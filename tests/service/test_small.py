"""Small commands, which the event loop carries out itself where commits are quick: with the thread's own results."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent.service import chain, keys, runners, streams
from reticent.service import engine as engines
from reticent.service.engine import Engine, Group
from reticent.service.packing import unpack
from reticent.service.problems import Problem
from reticent.service.records import Batch, Reader
from reticent.service.sealing import Ring, state_place
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore
from reticent.service.store import StoreFailed

from .running import specification

KEYS = keys.Keys(bytes(32))
WHICH = Specification.from_dict(specification("s", seed=3))


class Loop:
    """An event loop that takes its turns when a test says so."""

    def __init__(self, path: Path, *, attached: bool = True) -> None:
        self.engine = Engine(SqliteStore(path), Ring([bytes(32)]), clock=lambda: 1.8e9)
        self.engine.witness = chain.witness
        self.next: list[Callable[[], None]] = []
        self.answers: list[tuple[Any, BaseException | None]] = []
        self.threads: list[str] = []  # where the groups were carried out
        self.engine.observed = lambda seconds, count: self.threads.append(
            threading.current_thread().name
        )
        if attached:
            self.engine.attach(self.next.append, self._deliver)
        self.engine.call(streams.Create(WHICH))
        self.threads.clear()

    def _deliver(self, group: Group) -> None:
        for done, answer, error in group:
            done(answer, error)

    def send(self, *numbers: int) -> None:
        self.engine.submit(streams.Send("s", batch(*numbers)), self.done)

    def done(self, answer: Any, error: BaseException | None) -> None:
        self.answers.append((answer, error))

    def turn(self, count: int) -> None:
        """Take a turn, and wait until so many answers are there."""
        ready, self.next[:] = list(self.next), []
        for function in ready:
            function()
        end = time.monotonic() + 30
        while len(self.answers) < count:
            assert time.monotonic() < end
            time.sleep(0.001)

    def kept(self) -> Any:
        """What is in the store, with the state opened."""
        with self.engine.store.read() as rows:
            tables = [list(rows.whole(name)[1]) for name in ("keys", "outputs", "log", "entries")]  # type: ignore[attr-defined]
            state = rows.state(1)
        assert state is not None
        sealed = unpack(self.engine.ring.open(state.sealed, state_place(1)))
        learner = sealed["stream"]["learner"]
        return tables, sealed["stream"]["weights"].tolist(), learner["total"]["total"].tolist()

    def close(self) -> None:
        self.engine.stop()
        self.engine.store.close()


def batch(*numbers: int) -> Batch:
    encoder = runners.encoder_of(WHICH)
    out = []
    for number in numbers:
        rng = np.random.default_rng(number)
        x = {column.name: round(float(rng.uniform(-1, 1)), 3) for column in encoder.columns}
        out.append(json.dumps({"id": f"record {number}", "x": x, "y": number % 3 == 0}))
    return Reader(encoder, KEYS).lines("\n".join(out).encode())


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Loop]]:
    monkeypatch.setattr(engines, "_QUICK", 60.0)  # commits take their time on a busy machine
    made: list[Loop] = []

    def begin(**options: Any) -> Loop:
        made.append(Loop(tmp_path / f"{len(made)}.sqlite", **options))
        return made[-1]

    yield begin
    for loop in made:
        loop.close()


def test_the_loop_and_the_thread_write_and_answer_the_same(make: Callable[..., Loop]) -> None:
    loop, thread = make(), make(attached=False)
    sent = [[1], [2, 3], [1], [4], [5]]
    for group in (sent[:1], sent[1:4], sent[4:]):
        before = len(loop.answers)
        for numbers in group:
            loop.send(*numbers)
        assert len(loop.answers) == before, "nothing is revealed before the commit"
        loop.turn(before + len(group))
    for count, numbers in enumerate(sent, 1):  # one by one, each in a transaction of its own
        thread.send(*numbers)
        thread.turn(count)
    assert loop.threads == [threading.current_thread().name] * 3
    assert set(thread.threads) == {"reticent-engine"}
    assert [answer for answer, _ in loop.answers] == [answer for answer, _ in thread.answers]
    (mine, *state), (other, *as_well) = loop.kept(), thread.kept()
    assert state == as_well
    assert mine[:2] == other[:2]  # keys and decisions; the log has an entry for each commit
    found = [chain.verify(rows) for one in (loop, thread) for rows in _reading(one)]
    assert [verdict.wrong for verdict in found] == [[], []]


def _reading(loop: Loop) -> Iterator[Any]:
    with loop.engine.store.read() as rows:
        yield rows


def test_what_comes_while_the_thread_is_at_work_is_left_to_it(make: Callable[..., Loop]) -> None:
    loop, gate = make(), threading.Event()

    class Hold:
        def apply(self, turn: Any) -> None:
            assert gate.wait(30)

    loop.engine.submit(Hold(), loop.done)
    while loop.engine.waiting():
        time.sleep(0.001)
    loop.send(1)
    loop.turn(0)
    assert not loop.answers
    gate.set()
    loop.turn(2)
    assert set(loop.threads) == {"reticent-engine"}


def test_where_commits_are_slow_the_thread_makes_them(
    make: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make()
    monkeypatch.setattr(engines, "_QUICK", 0.0)
    loop.send(1)
    assert not loop.next
    loop.turn(1)
    assert loop.threads == ["reticent-engine"]


def test_what_is_large_or_not_in_memory_is_for_the_thread(make: Callable[..., Loop]) -> None:
    loop = make()
    loop.send(*range(100))
    assert not loop.next
    loop.turn(1)
    loop.engine.drop("s")
    loop.send(200)
    assert not loop.next
    loop.turn(2)
    assert loop.threads == ["reticent-engine"] * 2
    loop.send(201)
    loop.turn(3)
    assert loop.threads[2:] == [threading.current_thread().name]


def test_a_commit_that_fails_in_the_loop_reveals_nothing_and_is_taken_back(
    make: Callable[..., Loop],
) -> None:
    loop = make()
    before = loop.kept()

    def refuse(turn: Any) -> None:
        raise StoreFailed("no room", full=True)

    loop.engine.witness = refuse
    loop.send(1)
    loop.send(2)
    loop.turn(2)
    for answer, error in loop.answers:
        assert answer is None
        assert isinstance(error, Problem)
        assert error.status == 507
    assert loop.kept() == before
    loop.engine.witness = chain.witness
    loop.send(1)
    loop.turn(3)
    assert loop.answers[2][0]["accepted"] == 1
    other = make(attached=False)
    other.send(1)
    other.turn(1)
    assert loop.kept()[1:] == other.kept()[1:], "the failed steps left no trace"


def test_what_waits_when_the_service_stops_is_answered(make: Callable[..., Loop]) -> None:
    loop = make()
    loop.send(1)
    loop.engine.stop()
    loop.turn(1)
    assert loop.answers[0][0]["accepted"] == 1
    with pytest.raises(Problem, match="stopping"):
        loop.send(2)
