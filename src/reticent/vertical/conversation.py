"""One pass through a run from its first request to its last, and the numbering of requests.

These are the rounds of docs/algorithms/vertical.md as seen from the server. A pass may be a repetition: everything that
is sent is a function of the settings and of the answers so far, so a second pass sends the same bytes, and requests
that were answered are not even sent again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.privacy import Budget, Guarantee
from reticent.privacy.guarantee import with_caveats
from reticent.trace import Callback, Recorder
from reticent.vertical import messages
from reticent.vertical.design import Design, Noise, Wish, joined, terms_of
from reticent.vertical.fit import JointFit, Traffic
from reticent.vertical.messages import (
    AskLabels,
    Begin,
    Choice,
    Consider,
    Done,
    End,
    Fetch,
    Hello,
    MalformedMessage,
    Message,
    Proposal,
    Ready,
    Refusal,
    RefusedByParty,
    Sketch,
    Step,
    Welcome,
)
from reticent.vertical.plan import Plan, guarantee_of
from reticent.vertical.samplings import Elementary, Sampling, TauNice
from reticent.vertical.transport import Transport

NAME = "feature-distributed Frank-Wolfe"


class Conversation:
    """Numbers requests, remembers answers, counts bytes."""

    def __init__(
        self,
        transport: Transport,
        run: bytes,
        journal: dict[tuple[str, bytes], bytes],
    ) -> None:
        self.transport = transport
        self.names = transport.names
        self.run = run
        self.journal = journal
        self.next = dict.fromkeys(self.names, 1)
        self.up: list[list[int]] = []
        self.down: list[list[int]] = []

    def new_row(self) -> None:
        """Bytes from here on belong to the next round."""
        self.up.append([0] * len(self.names))
        self.down.append([0] * len(self.names))

    def ask(
        self, requests: Mapping[str, tuple[type[Message], dict[str, Any]]], expected: type[Message]
    ) -> dict[str, Any]:
        """Ask several parties at once, except those whose answers are known already."""
        sent, numbers = {}, {}
        for name, (kind, fields) in requests.items():
            numbers[name] = 0 if kind.before else self.next[name]
            sent[name] = kind(run=self.run, sequence=numbers[name], **fields).encode()
        missing = {name: sent[name] for name in sent if (name, sent[name]) not in self.journal}
        if missing:
            answers = self.transport.ask(missing)
            for name in missing:
                if not isinstance(answers.get(name), bytes):
                    raise MalformedMessage(f"the transport brought no answer of party {name!r}")
                self._read(name, numbers[name], answers[name], expected)
            for name in missing:
                self.journal[name, sent[name]] = answers[name]
        result = {}
        for name in requests:
            answer = self.journal[name, sent[name]]
            result[name] = self._read(name, numbers[name], answer, expected)
            place = self.names.index(name)
            self.up[-1][place] += len(answer)
            self.down[-1][place] += len(sent[name])
        for name, number in numbers.items():
            self.next[name] = number + 1 if number else self.next[name]
        return result

    def _read(self, name: str, number: int, answer: bytes, expected: type[Message]) -> Message:
        message = messages.decode(answer)
        if isinstance(message, Refusal):
            raise RefusedByParty(name, message.reason, message.text)
        if not isinstance(message, expected):
            raise MalformedMessage(
                f"party {name!r} answered with a {type(message).__name__}, a {expected.__name__} "
                "was due"
            )
        if (message.run, message.sequence) != (self.run, number):
            raise MalformedMessage(f"party {name!r} answered another request")
        return message


class Session:
    """One pass through a run, from its first request to its last."""

    def __init__(
        self,
        settings: dict[str, Any],
        sampling: Sampling | None,
        talk: Conversation,
        progress: bool,
        callback: Callback | None,
    ) -> None:
        self.settings = settings
        self.talk = talk
        self.names = talk.names
        self.progress, self.callback = progress, callback
        self.budget = Budget(**settings["budget"])
        self.variant = settings["variant"]
        self.radius = float(settings["radius"])
        count = len(self.names)
        self.sampling: Sampling = Elementary()
        if self.variant == "sampled":
            self.sampling = sampling or TauNice(max(1, count // 2))
        self.weights: dict[str, dict[int, float]] = {name: {} for name in self.names}
        self.sketches: dict[str, dict[int, FloatArray]] = {name: {} for name in self.names}
        self.label_sketch: FloatArray | None = None
        self.told_labels: set[str] = set()

    def prepare(self) -> None:
        """Find out who is there, and settle the plans, once for all attempts at the run."""
        self.talk.new_row()
        self.facts = self._introduce()
        if self.settings["plans"] is None:
            design = self._design()
            self.settings["rounds"] = design.rounds
            schedule = self._schedule(design.rounds)
            counts = {n: sum(k in some for some in schedule) for k, n in enumerate(self.names)}
            plans = design.plans(counts)
            self.settings["plans"] = {name: asdict(plan) for name, plan in plans.items()}
        self.plans = {name: Plan(**plan) for name, plan in self.settings["plans"].items()}

    def play(self) -> JointFit:
        rounds = int(self.settings["rounds"])
        schedule = self._schedule(rounds)
        # No party is charged before all have agreed and the guarantee of all together is checked.
        self._check(self._propose(Consider))
        guarantees = self._propose(Begin)
        whole = self._check(guarantees)
        self._fetch_labels()
        settings = {
            "rounds": rounds,
            "variant": self.variant,
            "radius": self.radius,
            "loss": self.settings["loss"],
            "parties": len(self.names),
            "sketch size": next(iter(self.plans.values())).sketch_size,
            "calibration": self.settings["calibration"],
        }
        recorder = Recorder(
            NAME, steps=rounds, settings=settings, callback=self.callback, progress=self.progress
        )
        p_min = self.sampling.p_min(len(self.names))
        with recorder:
            for t, drawn in enumerate(schedule):
                self.talk.new_row()
                size = 2.0 / (p_min * t + 2.0)
                self._round(t, [self.names[k] for k in drawn], size, t + 1 == rounds)
                values = {
                    "step size": size,
                    "uplink bytes": float(sum(self.talk.up[-1])),
                    "downlink bytes": float(sum(self.talk.down[-1])),
                }
                point = np.concatenate(list(self._points().values()))
                if recorder.note(t + 1, point, values):
                    break
        self.talk.new_row()
        self.talk.ask({name: (End, {}) for name in self.names}, Done)
        traffic = Traffic(
            tuple(self.names), np.array(self.talk.up, np.int64), np.array(self.talk.down, np.int64)
        )
        return JointFit(self._points(), whole, guarantees, recorder.close(), traffic, self.plans)

    # ------------------------------------------------------------ before the first round

    def _introduce(self) -> dict[str, Welcome]:
        facts: dict[str, Welcome] = self.talk.ask(
            {name: (Hello, {}) for name in self.names}, Welcome
        )
        first = facts[self.names[0]]
        wanted = self.budget.neighbours
        for name, said in facts.items():
            if said.name != name:
                raise ValueError(
                    f"the party reached as {name!r} calls itself {said.name!r}; use one name"
                )
            if said.rows != first.rows or said.digest != first.digest:
                raise ValueError(
                    f"the rows of {name!r} are not those of {first.name!r}: the ids, their order or the alignment key "
                    "differ. Sort the tables by id before the run, and give all parties the same key; nothing was spent"
                )
            theirs = "replace" if said.replace else "zero-out"
            if theirs != wanted:
                raise ValueError(
                    f"party {name!r} keeps a ledger for neighbours={theirs!r}, and the budget is "
                    f"for {wanted!r}; use one relation"
                )
        return facts

    def _design(self) -> Design:
        settings = self.settings
        noise = settings["noise"]
        wish = Wish(
            self.budget, self.radius, settings["loss"], self.variant, settings["rounds"],
            settings["columns"], settings["sketch_size"], settings["distortion"],
            settings["clip"], settings["own"], settings["calibration"],
            None if noise is None else Noise(**noise), int(settings["seed"]) % 2**63,
        )  # fmt: skip
        holders = [name for name in self.names if self.facts[name].has_labels]
        if not holders:
            raise ValueError("no party holds labels; at least one party must")
        labels = {name: "own" if name in holders else "sketched" for name in self.names}
        if len(holders) < len(self.names):
            labels[holders[0]] = "send"
        share = float(self.sampling.probabilities(len(self.names)).mean())
        return Design(wish, self.facts, labels, share)

    def _schedule(self, rounds: int) -> list[list[int]]:
        """Which parties take part in which round; public, so it amplifies nothing."""
        rng = np.random.default_rng([int(self.settings["seed"]), 1])
        return [self.sampling.draw(len(self.names), rng).tolist() for _ in range(rounds)]

    def _propose(self, kind: type[Proposal]) -> dict[str, Guarantee]:
        """The guarantee of each party, which follows from its plan and its terms; a party cannot state another."""
        requests = {name: (kind, asdict(plan)) for name, plan in self.plans.items()}
        ready: dict[str, Ready] = self.talk.ask(requests, Ready)
        guarantees = {}
        for name, said in ready.items():
            try:
                stated = json.loads(said.guarantee)
            except (ValueError, RecursionError):
                raise MalformedMessage(f"party {name!r} sent no guarantee") from None
            guarantee = guarantee_of(self.plans[name], terms_of(self.facts[name]))
            if not _alike(stated, json.loads(json.dumps(guarantee.to_dict()))):
                raise MalformedMessage(
                    f"party {name!r} states another guarantee than its plan has on the terms that it stated, which is "
                    f"{guarantee}; install the same version of reticent everywhere, or do not learn with this party"
                )
            guarantees[name] = guarantee
        return guarantees

    def _fetch_labels(self) -> None:
        senders = [name for name, plan in self.plans.items() if plan.labels == "send"]
        if senders:
            sent: dict[str, Sketch] = self.talk.ask({senders[0]: (AskLabels, {})}, Sketch)
            self.label_sketch = self._sized(senders[0], sent[senders[0]].sketch)

    def _check(self, guarantees: Mapping[str, Guarantee]) -> Guarantee:
        whole = replace(joined(list(guarantees.values())), asked=self.budget.delta)
        if self.settings["noise"] is None and self.settings["calibration"] == "exact":
            if not whole.meets(self.budget):
                raise RuntimeError(
                    f"the parties guarantee {whole}, which does not meet the budget ({self.budget})"
                )
            return whole
        if whole.meets(self.budget):
            return whole
        truth = whole.epsilon(self.budget.delta)
        line = (
            f"the noise does not meet the budget of epsilon = {self.budget.epsilon:g} at delta = "
            f"{self.budget.delta:g}: it gives {truth:.4g}"
        )
        return with_caveats(whole, [line])

    # ------------------------------------------------------------ rounds

    def _round(self, t: int, names: list[str], size: float, last: bool) -> None:
        if not names:
            return
        requests = {}
        for name in names:
            mine = self.weights[name]
            fields: dict[str, Any] = {
                "round": t,
                "last": last,
                "places": np.array(list(mine), np.int64),
                "weights": np.array(list(mine.values())),
                "others": self._others(name),
            }
            if self.plans[name].labels == "sketched" and name not in self.told_labels:
                fields["labels"] = self.label_sketch
            requests[name] = (Step, fields)
        choices: dict[str, Choice] = self.talk.ask(requests, Choice)
        self.told_labels |= set(names)
        for name, choice in choices.items():
            if choice.column >= self.facts[name].columns:
                raise MalformedMessage(f"party {name!r} chose a column that it does not have")
            if choice.sketch.size:
                self.sketches[name][choice.column] = self._sized(name, choice.sketch)
        if self.variant == "ball":
            self._move_ball(choices, size, last)
            return
        # Only the blocks of those who were asked move: see the errata on the shrunken set.
        for name, choice in choices.items():
            _shrink(self.weights[name], 1.0 - size)
            part = size * self.radius / len(self.names)
            _add(self.weights[name], choice.column, part * choice.sign)

    def _move_ball(self, choices: Mapping[str, Choice], size: float, last: bool) -> None:
        best = next(iter(choices))
        if len(self.names) > 1:
            for name, choice in choices.items():
                if choice.value.size != 1:
                    raise MalformedMessage(f"party {name!r} sent no value with its choice")
            best = max(choices, key=lambda name: float(choices[name].value[0]))
        choice = choices[best]
        fresh = choice.column not in self.sketches[best]
        if self.plans[best].columns and fresh and not last:
            got: dict[str, Sketch] = self.talk.ask(
                {best: (Fetch, {"column": choice.column})}, Sketch
            )
            self.sketches[best][choice.column] = self._sized(best, got[best].sketch)
        for name in self.names:
            _shrink(self.weights[name], 1.0 - size)
        _add(self.weights[best], choice.column, size * self.radius * choice.sign)

    def _others(self, name: str) -> FloatArray:
        """The sketched predictions that a party cannot compute itself.

        Without BLAS, so that a coordinator on another machine sends the same bytes.
        """
        total = np.zeros(self.plans[name].sketch_size)
        clear = self.plans[name].own == "clear"
        seen = False
        for other in self.names:
            if other == name and clear:
                continue
            for column, weight in self.weights[other].items():
                sketch = self.sketches[other].get(column)
                if sketch is not None and weight != 0.0:
                    total = total + weight * sketch
                    seen = True
        return total * self._trust(self.plans[name]) if seen else np.empty(0)

    def _trust(self, plan: Plan) -> float:
        """The weight of noisy sketches in the best linear estimate: prior variance over total variance.

        A priori, the contribution of others to a score has variance ``correlation^2``; noise and sketching add
        ``scale^2 / rows + 1 / size``, all times the squared norm of the model.
        """
        prior = self.settings["correlation"]
        if prior is None:
            return 1.0
        sketch = plan.sketch()
        bound = max(said.feature_bound for said in self.facts.values())
        scale = max(p.sketch_scale for p in self.plans.values()) / bound
        error = scale**2 / sketch.spread / sketch.rows
        if not sketch.is_identity:
            error += 1.0 / sketch.size
        return float(prior**2 / (prior**2 + error))

    def _sized(self, name: str, sketch: FloatArray) -> FloatArray:
        if sketch.size != self.plans[name].sketch_size:
            raise MalformedMessage(f"party {name!r} sent a sketch of the wrong length")
        return sketch

    def _points(self) -> dict[str, FloatArray]:
        points = {}
        for name in self.names:
            x = np.zeros(self.facts[name].columns)
            for column, weight in self.weights[name].items():
                x[column] = weight
            points[name] = x
        return points


def _alike(stated: Any, known: Any) -> bool:
    """Whether two guarantees as plain data are equal, up to the rounding of numbers on another machine."""
    if isinstance(known, dict):
        same = isinstance(stated, dict) and stated.keys() == known.keys()
        return same and all(_alike(stated[name], known[name]) for name in known)
    if isinstance(known, list):
        same = isinstance(stated, list) and len(stated) == len(known)
        return same and all(map(_alike, stated, known))
    if isinstance(known, float):
        return type(stated) in (int, float) and math.isclose(stated, known, rel_tol=1e-9)
    return type(stated) is type(known) and bool(stated == known)


def _shrink(weights: dict[int, float], factor: float) -> None:
    for column in list(weights):
        weights[column] *= factor
        if weights[column] == 0.0:
            del weights[column]


def _add(weights: dict[int, float], column: int, amount: float) -> None:
    total = weights.get(column, 0.0) + amount
    if not math.isfinite(total):
        raise ArithmeticError("a weight of the model is not finite")
    if total == 0.0:
        weights.pop(column, None)
    else:
        weights[column] = total
