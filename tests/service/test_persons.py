"""The table of persons beside its state: what a commit writes, and that nobody counts again after a restart."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import reticent

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent.service import adopting, runners
from reticent.service import persons as apart
from reticent.service.doctor import OK, examine
from reticent.service.engine import Engine
from reticent.service.folder import Home, Options, open_home
from reticent.service.leases import Claim, Leases
from reticent.service.packing import pack, unpack
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.sealing import state_place
from reticent.service.specification import Specification
from reticent.service.streams import Create, Send

from .running import records, specification

RULE: dict[str, Any] = {
    "seed": 5, "max_records": 2, "horizon": 100_000, "budget": {"epsilon": 1.0, "delta": 1e-6},
}  # fmt: skip


class Running:
    """A service in this process, on a folder or a database."""

    def __init__(self, options: Options) -> None:
        self.home: Home = open_home(options)
        shared = options.database is not None
        self._leases = Leases("here", "http://here", 60.0) if shared else None
        self.engine = Engine(self.home.store, self.home.ring, leases=self._leases)
        assert self.home.anchor is not None
        self.engine.committed = self.home.anchor.commit
        self.asked = Specification.from_dict(specification("persons", **RULE))
        self.engine.call(Create(self.asked))
        if self._leases is not None:
            self.engine.call(Claim("persons", self._leases))
        self._reader = Reader(runners.encoder_of(self.asked), self.home.keys)

    def send(self, first: int, persons: list[str]) -> bytes:
        rows = [
            row | {"person": person}
            for row, person in zip(records(first, len(persons)), persons, strict=True)
        ]
        batch = self._reader.lines(b"\n".join(map(msgspec.json.encode, rows)))
        self.engine.call(Send("persons", batch))
        return self.engine.live("persons").head.body

    def close(self) -> None:
        self.engine.stop()
        self.home.close()


@pytest.fixture
def options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Callable[[], str | None]
) -> Options:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    (tmp_path / "key").write_text("ab" * 32)
    database = store()
    if database is None:
        return Options(tmp_path / "data", key_file=tmp_path / "key")
    return Options(None, key_file=tmp_path / "key", database=database)


def expected(batches: list[list[str]]) -> bytes:
    """The decision of the library's own learner, restarted never."""
    model = reticent.OnlineLogisticRegression(
        1.0, 1e-6, classes=["false", "true"], feature_norm=2.0**0.5, random_state=5, max_records=2, horizon=100_000
    )  # fmt: skip
    first = 0
    for persons in batches:
        rows = records(first, len(persons))
        model.partial_fit(
            [[row["x"]["a"], row["x"]["b"]] for row in rows],
            [str(row["y"]).lower() for row in rows],
            person=persons,
        )
        first += len(persons)
    return msgspec.json.encode(model.coef_.tolist())


def test_nobody_counts_again_after_a_restart_and_commits_stay_small(options: Options) -> None:
    here = Running(options)
    batches = [[f"p{k}" for k in range(3000)], ["p1", "p2", "new"], ["p1", "p7"], ["new", "new"]]
    first = 0
    sizes = []
    for number, persons in enumerate(batches):
        body = here.send(first, persons)
        first += len(persons)
        with here.home.store.read() as rows:
            stream = rows.stream("persons")
            assert stream is not None
            parts = rows.persons(stream.id)
            state = rows.state(stream.id)
            assert state is not None
            sizes.append(len(state.sealed) + len(parts[-1][2]))
        if number % 2 == 0:
            here.close()
            here = Running(options)
    assert max(sizes[1:]) < 20_000 < 3000 * 24  # not all persons again
    found = msgspec.json.decode(body)["coefficients"]
    assert msgspec.json.encode(found) == expected(batches)

    # a part that is gone, or one of another place, is noticed
    here.close()
    here = Running(options)
    with here.home.store.transaction() as rows:
        generation, part, sealed = rows.persons(stream.id)[-1]
        rows.add_persons(stream.id, generation, part - 1, sealed)
    with pytest.raises(Problem, match="was changed, or belongs elsewhere") as caught:
        here.send(first, ["later"])
    assert caught.value.name == "damaged-state"
    with here.home.store.transaction() as rows:
        rows.clear_persons(stream.id)
    with pytest.raises(Problem, match="table of persons is missing"):
        here.send(first, ["later"])
    here.close()


@pytest.mark.parametrize("store", ["folder"], indirect=True)
def test_keys_adoptions_and_earlier_versions(options: Options, tmp_path: Path) -> None:
    here = Running(options)
    persons = [f"p{k}" for k in range(50)]
    here.send(0, persons)
    here.home.change_key(bytes.fromhex("cd" * 32))
    here.close()
    (tmp_path / "key").write_text("cd" * 32)
    here = Running(options)
    here.send(50, persons)  # each for the second time
    levels = {finding.what: finding.level for finding in examine(options)}
    assert levels["states"] == OK

    # as a version wrote it that kept the table within the state
    stream = here.engine.live("persons").row.id
    with here.home.store.transaction() as rows:
        state = rows.state(stream)
        assert state is not None
        plain = unpack(here.home.ring.open(state.sealed, state_place(stream)))
        apart.read(rows, here.home.ring, stream, plain)
        rows.clear_persons(stream)
        sealed = here.home.ring.seal(pack(plain), state_place(stream))
        rows.save(stream, dataclasses.replace(state, sealed=sealed))
    here.close()
    here = Running(options)
    body = here.send(100, ["p1", "p2", "p3", "q"])
    found = msgspec.json.encode(msgspec.json.decode(body)["coefficients"])
    assert found == expected([persons, persons, ["p1", "p2", "p3", "q"]])
    here.close()

    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    copy = dataclasses.replace(options, data=tmp_path / "copy")
    adopting.adopt(copy)
    here = Running(copy)
    with here.home.store.read() as rows:
        assert rows.persons(stream) == []
    here.send(104, persons)
    here.close()
