"""Commands that share a transaction: each is answered as if it had come alone, and a refused one leaves nothing."""

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
from reticent.service.engine import Engine
from reticent.service.problems import Problem
from reticent.service.records import Batch, Reader
from reticent.service.sealing import Ring
from reticent.service.specification import Specification
from reticent.service.sqlite import SqliteStore

from .running import specification

NOW = 1.8e9


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


class _Gate:
    """Keeps the engine busy, so that whatever is sent meanwhile becomes one group."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def apply(self, turn: Any) -> None:
        assert self.open.wait(30)


def together(engine: Engine, commands: list[Any]) -> list[tuple[Any, BaseException | None]]:
    """The answers of commands that are carried out in one transaction."""
    gate, groups = _Gate(), []
    answers: list[tuple[Any, BaseException | None]] = []
    ready = threading.Event()

    def done(answer: Any, error: BaseException | None) -> None:
        answers.append((answer, error))
        if len(answers) == len(commands):
            ready.set()

    engine.observed = lambda seconds, count: groups.append(count)
    engine.submit(gate, lambda answer, error: None)
    while engine.waiting():
        time.sleep(0.001)
    for command in commands:
        engine.submit(command, done)
    gate.open.set()
    assert ready.wait(30)
    assert groups == [1, len(commands)]
    return answers


def asked(name: str, **more: Any) -> Specification:
    return Specification.from_dict(specification(name, **more))


def batch(which: Specification, numbers: list[int], dice: int = 0) -> Batch:
    encoder = runners.encoder_of(which)
    rng = np.random.default_rng(dice)
    out = []
    for number in numbers:
        x = {column.name: round(float(rng.uniform(-1, 1)), 3) for column in encoder.columns}
        out.append(json.dumps({"id": f"record {number}", "x": x, "y": True}))
    return Reader(encoder, keys.Keys(bytes(32))).lines("\n".join(out).encode())


def kept(engine: Engine) -> tuple[Any, ...]:
    """Everything that is in the store but states, which are sealed under random numbers."""
    with engine.store.read() as rows:
        tables = ("keys", "outputs", "log", "entries")
        return tuple(list(rows.whole(table)[1]) for table in tables)  # type: ignore[attr-defined]


def test_one_key_twice_at_once_counts_once(make: Callable[[str], Engine]) -> None:
    engine, which = make("a"), asked("s", seed=1)
    engine.call(streams.Create(which))
    first = batch(which, [1])
    same, other, new = batch(which, [1]), batch(which, [1], dice=7), batch(which, [2])
    found = together(engine, [streams.Send("s", one) for one in (first, same, other, new)])
    (one, _), (two, _), (nothing, refused), (last, _) = found
    assert (one["accepted"], one["repeated"], one["decision_number"]) == (1, 0, 1)
    assert (two["accepted"], two["repeated"], two["decision_number"]) == (0, 1, 1)
    assert nothing is None
    assert isinstance(refused, Problem)
    assert refused.status == 409
    assert (last["accepted"], last["decision_number"], last["steps"]) == (1, 2, 2)
    assert engine.live("s").head.steps == 2
    with engine.store.read() as rows:
        assert not chain.verify(rows).wrong


def test_a_group_leaves_what_its_commands_leave_one_by_one(make: Callable[[str], Engine]) -> None:
    engines = [make("a"), make("b")]
    which = asked("s", seed=5)
    sends = [batch(which, [k, k + 100], dice=k) for k in (1, 2, 2, 3)]
    for engine in engines:
        engine.call(streams.Create(which))
    at_once = together(engines[0], [streams.Send("s", one) for one in sends])
    in_turn = [engines[1].call(streams.Send("s", one)) for one in sends]
    assert [answer for answer, error in at_once] == in_turn
    for one, two in zip(kept(engines[0])[:2], kept(engines[1])[:2], strict=True):
        assert one == two  # keys and the bytes of decisions; the log has an entry for each commit


def test_what_is_refused_is_not_remembered(make: Callable[[str], Engine]) -> None:
    """Keys of records that were refused can be sent again; what was there before is answered all the same."""
    engine = make("a")
    which = asked("s", seed=2, budget={"epsilon": 1.0, "delta": 1e-6}, horizon=3)
    engine.call(streams.Create(which))
    full, fits = batch(which, [1, 2, 3, 4]), batch(which, [1, 2, 3])
    (nothing, refused), (taken, _) = together(
        engine, [streams.Send("s", full), streams.Send("s", fits)]
    )
    assert nothing is None
    assert isinstance(refused, Problem)
    assert refused.name == "horizon-used-up"
    assert taken["accepted"] == 3
    before = kept(engine)
    again, one_more = together(
        engine, [streams.Send("s", fits), streams.Send("s", batch(which, [9]))]
    )
    assert again[0]["repeated"] == 3
    assert again[0]["decision_number"] == taken["decision_number"]
    assert isinstance(one_more[1], Problem)
    assert kept(engine) == before
    engine.call(streams.Close("s"))
    assert engine.call(streams.Send("s", fits))["repeated"] == 3
    with pytest.raises(Problem) as caught:
        engine.call(streams.Send("s", batch(which, [9])))
    assert caught.value.name == "stream-closed"


def test_a_question_that_is_asked_twice_at_once_has_one_answer(
    make: Callable[[str], Engine],
) -> None:
    engine = make("a")
    simplex = {"set": {"kind": "Simplex", "dim": 2}, "horizon": 16}
    which = Specification.from_dict(
        {"name": "b", "kind": "bandit", "budget": {"epsilon": 1.0, "delta": 1e-6}, "seed": 3} | simplex
    )  # fmt: skip
    engine.call(streams.Create(which))
    one, two, other = together(
        engine, [streams.Ask("b", b"k"), streams.Ask("b", b"k"), streams.Ask("b", b"l")]
    )
    assert one == two
    assert one[0] != other[0]
    assert engine.call(streams.Ask("b", b"k")) == one[0]


def test_nothing_is_seen_of_a_group_that_could_not_be_committed(
    make: Callable[[str], Engine],
) -> None:
    engine, which = make("a"), asked("s", seed=4)
    engine.call(streams.Create(which))
    engine.call(streams.Send("s", batch(which, [1])))
    before, head = kept(engine), engine.live("s").head
    right = engine.witness

    def broken(turn: Any) -> None:
        raise OSError("the disk is gone")

    engine.witness = broken
    sends = [streams.Send("s", batch(which, [k])) for k in (2, 3)]
    for command in sends:
        with pytest.raises(Problem) as caught:
            engine.call(command)
        assert caught.value.status == 503
    assert kept(engine) == before
    assert engine.live("s").head == head
    engine.witness = right
    assert [engine.call(command)["steps"] for command in sends] == [2, 3]


class _Careless:
    """Says that it refuses before it writes, and does not."""

    stream, careful = "s", True

    def apply(self, turn: Any) -> None:
        turn.rows.set_about("left behind", "1")
        raise Problem(409, "refused", "no")


def test_whoever_writes_and_refuses_leaves_nothing(make: Callable[[str], Engine]) -> None:
    """Also of those who said that they would not; the others of the group are carried out all the same."""
    engine, which = make("a"), asked("s", seed=3)
    engine.call(streams.Create(which))
    gate, answers, ready = _Gate(), [], threading.Event()
    engine.submit(gate, lambda answer, error: None)
    for command in (streams.Send("s", batch(which, [1])), _Careless()):
        engine.submit(
            command, lambda *found: (answers.append(found), len(answers) == 2 and ready.set())
        )
    gate.open.set()
    assert ready.wait(30)
    (taken, nobody), (nothing, refused) = answers
    assert (taken["accepted"], nobody) == (1, None)
    assert nothing is None
    assert refused.status == 500
    assert engine.live("s").head.steps == 1
    with engine.store.read() as rows:
        assert rows.fact("left behind") is None
