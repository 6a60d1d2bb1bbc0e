"""The checker: replays what clients were told was counted through the library, and compares every output.

It knows the journals of the clients, the public specifications with their seeds, and what the service answers at
the end; it reads neither the store nor any code of the service. The noise of a stream with a stated seed belongs to
its steps, so the same records in the same order must give the same decisions to the last bit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import reticent
from reticent import sums
from reticent.tables import Encoder, Schema


@dataclass
class Verdict:
    """What was checked, and what was wrong."""

    requests: int = 0
    records: int = 0
    decisions: int = 0
    seen: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = (
            f"{self.requests:,} requests, {self.records:,} records counted once each, {self.decisions:,} decisions "
            f"equal to the replay, {self.seen:,} outputs seen by clients equal to them"
        )
        return said if not self.wrong else f"{len(self.wrong)} WRONG: " + "; ".join(self.wrong[:10])


@dataclass
class _Request:
    stream: str
    fresh: list[dict[str, Any]]
    numbers: set[int] = field(default_factory=set)
    accepted: int = 0


def check(journals: Iterable[Path], specifications: list[dict[str, Any]], ask: Any) -> Verdict:
    """Check all streams.

    Parameters
    ----------
    journals : iterable of paths
        What the clients wrote down.
    specifications : list of dict
        What the streams were created with, the seed included.
    ask : callable
        ``ask(path)`` is the body of a GET request to the service.
    """
    verdict = Verdict()
    requests: dict[str, _Request] = {}
    seen: dict[tuple[str, int], set[tuple[int, str]]] = defaultdict(set)
    for journal in journals:
        for line in journal.read_text(encoding="utf-8").splitlines():
            _read(json.loads(line), requests, seen, verdict)
    for specification in specifications:
        _stream(specification, requests, seen, ask, verdict)
    _ledgers(specifications, ask, verdict)
    verdict.requests = len(requests)
    return verdict


def _read(note: dict[str, Any], requests: Any, seen: Any, verdict: Verdict) -> None:
    what = note["what"]
    if what == "intent":
        requests[note["request"]] = _Request(note["stream"], note["fresh"])
    elif what == "answer":
        request, answer = requests[note["request"]], note["answer"]
        request.numbers.add(answer["decision_number"])
        request.accepted += answer["accepted"]
        if answer["accepted"] not in (0, len(request.fresh)):
            verdict.wrong.append(f"{note['request']}: {answer['accepted']} of {len(request.fresh)}")
    elif what == "saw":
        seen[note["stream"], note["number"]].add((note["steps"], note["bytes"]))
        verdict.seen += 1
    elif what == "wrong":
        verdict.wrong.append(json.dumps(note))


def _stream(
    specification: dict[str, Any], requests: Any, seen: Any, ask: Any, verdict: Verdict
) -> None:
    name = specification["name"]
    wrong = verdict.wrong
    last = json.loads(ask(f"/v1/streams/{name}"))
    stored = []
    for number in range(last["decision_number"] + 1):
        body = ask(f"/v1/streams/{name}/decisions/{number}")
        start = body.index(b'"decision":') + len(b'"decision":')
        _, end = json.JSONDecoder().raw_decode(body[start:].decode())
        stored.append((json.loads(body)["steps"], body[start : start + end].decode()))
    every = specification.get("publish") == "every"
    owner: dict[int, Any] = {}
    for identity, request in requests.items():
        if request.stream != name:
            continue
        if len(request.numbers) != 1:
            wrong.append(f"{identity}: answered with the decisions {sorted(request.numbers)}")
            continue
        if request.accepted > len(request.fresh):
            wrong.append(f"{identity}: accepted more than once")
        (number,) = request.numbers
        if number in owner:
            wrong.append(f"{name}: decision {number} belongs to two requests")
        owner[number] = request
        verdict.records += len(request.fresh)
    model: Any = (_Total if specification["kind"] == "total" else _Replay)(specification)
    at = 0
    order = sorted(owner)
    for number in order:
        fresh = owner[number].fresh
        first = number - len(fresh) + 1 if every else number
        if first != at + 1:
            wrong.append(
                f"{name}: decisions {at + 1} to {first - 1} belong to no acknowledged request"
            )
            return
        parts = [[one] for one in fresh] if every else [fresh]
        for offset, part in enumerate(parts):
            model.learn(part)
            if first + offset >= len(stored):
                wrong.append(f"{name}: decision {first + offset} was acknowledged and is not there")
                return
            steps, body = stored[first + offset]
            if steps != model.steps:
                wrong.append(
                    f"{name}: decision {first + offset} after {steps} steps, not {model.steps}"
                )
                return
            if not model.agrees(json.loads(body)):
                wrong.append(f"{name}: decision {first + offset} differs from the replay")
                return
            verdict.decisions += 1
        at = number
    if at != last["decision_number"] or last["steps"] != model.steps:
        wrong.append(
            f"{name}: {last['steps']} steps and decision {last['decision_number']}, "
            f"where {model.steps} records were acknowledged, the last in decision {at}"
        )
    for (stream, number), found in seen.items():
        if stream != name:
            continue
        if number >= len(stored):
            wrong.append(f"{name}: a client saw decision {number}, which is not there")
        elif found != {stored[number]}:
            wrong.append(f"{name}: clients saw other bytes of decision {number}")


class _Replay:
    """The library's own estimator, fed in the order of the decisions."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self.encoder = Encoder(Schema.from_dict(specification["schema"]))
        budget = specification["budget"]
        given = {
            "epsilon": budget["epsilon"],
            "delta": budget["delta"],
            "window": budget.get("window"),
            "horizon": specification.get("horizon"),
            "feature_norm": self.encoder.largest_norm,
            "random_state": specification["seed"],
        }
        if self.encoder.classes is None:
            bounds = self.encoder.target.bounds
            self.model: Any = reticent.OnlineLinearRegression(label_bounds=bounds, **given)
        else:
            classes = list(self.encoder.classes)
            self.model = reticent.OnlineLogisticRegression(classes=classes, **given)
        self.steps = 0

    def learn(self, records: list[dict[str, Any]]) -> None:
        if not records:  # a journal that lost them: the count of steps tells
            return
        target = self.encoder.target.name
        columns = {c.name: [r["x"][c.name] for r in records] for c in self.encoder.columns}
        encoded = self.encoder.encode(columns | {target: [r["y"] for r in records]}, len(records))
        assert not encoded.bad
        self.model.partial_fit(encoded.X, encoded.y)
        self.steps += len(records)

    def agrees(self, decision: dict[str, Any]) -> bool:
        """Whether a decision has these coefficients and intercepts, bit for bit."""
        mine = (np.atleast_2d(self.model.coef_), np.atleast_1d(self.model.intercept_))
        theirs = (decision["coefficients"], decision["intercepts"])
        return all(
            np.asarray(a, np.float64).tobytes() == np.asarray(b, np.float64).tobytes()
            for a, b in zip(mine, theirs, strict=True)
        )


class _Total:
    """The library's own running total, of records that are encoded by hand."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self.columns = specification["schema"]["columns"]
        budget = reticent.Budget(**specification["budget"])
        size = len(self.columns)
        self.total = sums.Correlated(
            size, None, budget=budget, norm=np.sqrt(size), seed=specification["seed"]
        )
        self.steps, self.latest = 0, np.zeros(size)

    def learn(self, records: list[dict[str, Any]]) -> None:
        if not records:
            return
        cells = [[record["x"][name] for name in self.columns] for record in records]
        V = np.clip(2.0 * np.array(cells, np.float64) - 1.0, -1.0, 1.0)
        self.latest = self.total.run(np.where(np.isnan(V), 0.0, V))[-1]
        self.steps += len(records)

    def agrees(self, decision: dict[str, Any]) -> bool:
        """Whether a decision has these totals, bit for bit."""
        return bool(np.array(decision["totals"], np.float64).tobytes() == self.latest.tobytes())


def _ledgers(specifications: list[dict[str, Any]], ask: Any, verdict: Verdict) -> None:
    """Every stream was charged, once, at least what its own guarantee says."""
    ledgers = {one["name"]: one for one in json.loads(ask("/v1/ledgers"))["ledgers"]}
    for specification in specifications:
        name = specification["name"]
        ledger = ledgers.get(specification.get("ledger") or name)
        entries = [] if ledger is None else ledger["entries"]
        about = [entry for entry in entries if entry["what"].split()[-1] == name]
        if len(about) != 1:
            verdict.wrong.append(f"{name}: charged {len(about)} times")
            continue
        terms = json.loads(ask(f"/v1/streams/{name}"))["guarantee"]["terms"]
        delta = specification["budget"]["delta"]
        epsilon = reticent.Guarantee.from_dict(terms).epsilon(delta=delta)
        if epsilon > specification["budget"]["epsilon"] * (1 + 1e-9):
            verdict.wrong.append(f"{name}: epsilon {epsilon}, more than was asked for")
        if about[0]["cost"] != reticent.Guarantee.from_dict(terms).summary:
            verdict.wrong.append(f"{name}: the ledger was charged {about[0]['cost']}")
