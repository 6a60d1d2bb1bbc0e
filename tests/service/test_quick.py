"""Quick commands, which the event loop carries out and the engine's thread commits: the same answers, no earlier."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent.service import chain, streams
from reticent.service import engine as engines
from reticent.service.engine import Engine, Group
from reticent.service.problems import Problem
from reticent.service.sealing import Ring
from reticent.service.sqlite import SqliteStore

from .test_groups import NOW, _Careless, asked, batch, kept


class Loop:
    """An event loop that turns when the test says so, in the thread of the test."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.sent = 0
        self.answers: dict[int, tuple[Any, BaseException | None]] = {}
        engine.attach(self.calls.put, self.deliver)

    def deliver(self, group: Group) -> None:
        def each() -> None:
            for done, answer, error in group:
                done(answer, error)
            self.engine.look()

        self.calls.put(each)

    def send(self, *commands: Any) -> list[int]:
        """Submit commands in one turn of the loop; the numbers of their answers."""
        numbers = []
        for command in commands:
            number, self.sent = self.sent, self.sent + 1
            numbers.append(number)
            self.engine.submit(command, lambda *found, at=number: self.answers.update({at: found}))
        return numbers

    def turn(self, seconds: float = 30.0) -> None:
        """Wait for one call, and make it."""
        self.calls.get(timeout=seconds)()

    def until(self, numbers: list[int]) -> list[tuple[Any, BaseException | None]]:
        """Turn until these are answered."""
        while not all(number in self.answers for number in numbers):
            self.turn()
        return [self.answers[number] for number in numbers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Engine]]:
    made: list[Engine] = []

    def begin(name: str) -> Engine:
        store = SqliteStore(tmp_path / f"{name}.sqlite")
        engine = Engine(store, Ring([bytes(32)]), clock=lambda: NOW)
        engine.witness = chain.witness
        made.append(engine)
        return engine

    yield begin
    for engine in made:
        engine.stop()
        engine.store.close()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which thread carried out each group, in order."""
    found: list[int] = []
    plain = Engine._carry

    def carry(self: Engine, commands: Any) -> Any:
        found.append(threading.get_ident())
        return plain(self, commands)

    monkeypatch.setattr(Engine, "_carry", carry)
    return found


def test_the_loop_leaves_what_the_thread_leaves(
    make: Callable[[str], Engine], threads: list[int]
) -> None:
    which = asked("s", seed=5)
    sends = [streams.Send("s", batch(which, [k, k + 100], dice=k)) for k in (1, 2, 2, 3)]
    here, there = make("a"), make("b")
    for engine in (here, there):
        engine.call(streams.Create(which))
    loop, sizes = Loop(here), []
    here.observed = lambda seconds, count: sizes.append(count)
    threads.clear()
    found = loop.until(loop.send(*sends))
    assert threads == [threading.get_ident()]
    assert sizes == [4]  # one transaction, and one sync of the disk
    assert [answer for answer, error in found] == [there.call(command) for command in sends]
    for one, two in zip(kept(here)[:2], kept(there)[:2], strict=True):
        assert one == two  # keys and the bytes of decisions; the log has an entry for each commit
    with here.store.read() as rows:
        assert not chain.verify(rows).wrong
    # a repeat finds what was there, whoever carries it out
    (again, error), *_ = loop.until(loop.send(sends[0]))
    assert (again["repeated"], again["decision_number"], error) == (2, 1, None)


def test_nothing_is_seen_before_it_is_durable(make: Callable[[str], Engine]) -> None:
    engine, which = make("a"), asked("s", seed=4)
    engine.call(streams.Create(which))
    loop, head, gate = Loop(engine), engine.live("s").head, threading.Event()
    steps: list[str] = []

    def committed(mark: int, charges: int) -> None:
        assert gate.wait(30)
        steps.append("anchor")

    engine.committed = committed
    first = loop.send(streams.Send("s", batch(which, [1])))
    loop.turn()  # the loop has carried it out, and the thread is committing it
    second = loop.send(streams.Send("s", batch(which, [2])))
    loop.turn()  # the next one waits: it must be built on what is durable
    time.sleep(0.05)
    assert engine.live("s").head == head
    assert loop.calls.empty()
    assert not loop.answers
    assert engine.waiting() == 1
    gate.set()
    (one, _), (two, _) = loop.until(first + second)
    assert (one["steps"], two["steps"]) == (1, 2)
    assert steps == ["anchor", "anchor"]
    assert engine.live("s").head.steps == 2


def test_what_could_not_be_committed_is_taken_back(
    make: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first commit fails; then the thread tries the commands one by one, of which one fails again."""
    engine, which = make("a"), asked("s", seed=4)
    other = make("b")
    for one in (engine, other):
        one.call(streams.Create(which))
    loop = Loop(engine)
    sends = [streams.Send("s", batch(which, [k], dice=k)) for k in (1, 2, 3)]
    plain, seen = Engine._commit, []

    def commit(self: Engine, carried: Any) -> Any:
        seen.append(len(carried.answers))
        if len(seen) in (1, 3):
            plainly = carried.commit

            def fails() -> None:
                try:
                    raise OSError("the disk is gone")
                finally:
                    self.store._writer.write("ROLLBACK")  # type: ignore[attr-defined]
                    with pytest.raises(engines.StoreFailed):
                        plainly()

            carried.commit = fails
        return plain(self, carried)

    monkeypatch.setattr(Engine, "_commit", commit)
    found = loop.until(loop.send(*sends))
    assert seen == [3, 1, 1, 1]
    assert [error is None for _, error in found] == [True, False, True]
    assert isinstance(found[1][1], Problem)
    monkeypatch.undo()
    in_turn = [other.call(command) for command in (sends[0], sends[2])]
    assert [found[0][0], found[2][0]] == in_turn
    for mine, theirs in zip(kept(engine)[:2], kept(other)[:2], strict=True):
        assert mine == theirs


def test_one_that_fails_does_not_fail_the_others(make: Callable[[str], Engine]) -> None:
    engine, which = make("a"), asked("s", seed=3)
    engine.call(streams.Create(which))
    loop, careless = Loop(engine), _Careless()
    careless.quick = True  # type: ignore[attr-defined]
    (taken, nobody), (nothing, refused) = loop.until(
        loop.send(streams.Send("s", batch(which, [1])), careless)
    )
    assert (taken["accepted"], nobody) == (1, None)
    assert nothing is None
    assert isinstance(refused, Problem)
    assert refused.status == 500
    assert engine.live("s").head.steps == 1
    with engine.store.read() as rows:
        assert rows.fact("left behind") is None


class _Long:
    """Keeps the thread at work until it is told to end."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def apply(self, turn: Any) -> str:
        assert self.open.wait(30)
        return "done"


def test_while_the_thread_is_at_work_the_loop_does_nothing(
    make: Callable[[str], Engine], threads: list[int]
) -> None:
    engine, which = make("a"), asked("s", seed=3)
    engine.call(streams.Create(which))
    loop, long = Loop(engine), _Long()
    threads.clear()
    numbers = loop.send(long, streams.Send("s", batch(which, [1])))
    loop.turn()
    long.open.set()
    (word, _), (taken, _) = loop.until(numbers)
    assert word == "done"
    assert taken["accepted"] == 1
    assert threading.get_ident() not in threads


def test_what_comes_while_the_loop_carries_out_waits_for_its_commit(
    make: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, which = make("a"), asked("s", seed=3)
    engine.call(streams.Create(which))
    loop, plain, order = Loop(engine), Engine._carry, []
    other = streams.Send("s", batch(which, list(range(2, 40))))  # too many for the loop

    def carry(self: Engine, commands: Any) -> Any:
        order.append([len(command.batch) for command in commands])
        if len(order) == 1:
            loop.send(other)
            time.sleep(0.05)
        return plain(self, commands)

    monkeypatch.setattr(Engine, "_carry", carry)
    first = loop.send(streams.Send("s", batch(which, [1])))
    loop.turn()
    (one, _), (two, _) = loop.until(first + [1])
    assert order == [[1], [38]]
    assert (one["steps"], two["steps"]) == (1, 39)


def test_stopping_carries_out_what_waits(make: Callable[[str], Engine]) -> None:
    engine, which = make("a"), asked("s", seed=3)
    engine.call(streams.Create(which))
    loop = Loop(engine)
    numbers = loop.send(*(streams.Send("s", batch(which, [k])) for k in (1, 2)))
    engine.stop()
    assert [answer["steps"] for answer, error in loop.until(numbers)] == [1, 2]
    with pytest.raises(Problem) as caught:
        loop.send(streams.Send("s", batch(which, [3])))
    assert caught.value.name == "stopping"
    while not loop.calls.empty():
        loop.turn()
    assert engine.live("s").head.steps == 2
