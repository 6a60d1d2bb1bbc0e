"""The rounds of a run at one party: a column selected, a sketch sent, the labels' sketch sent.

The user node's part in Algorithm 2 of Lou and Cheung, with the signs, scales and sensitivities of
docs/algorithms/vertical.md, exact selections, noise on a lattice, and each sketch sent once. Three changes are ours: a
record's slope is clipped, which bounds the sensitivity whatever the coordinator sends; a party computes the predictions
of its own columns from the columns themselves, which costs no privacy; and once it has sent as many columns as agreed,
it selects only among these.

This module keeps no state. Noise is drawn and a new memory is returned; :class:`reticent.vertical.Party` stores it
before the answer leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.corner_selection import Corners
from reticent.noise import Source, release, select
from reticent.vertical.columns import Columns, slopes
from reticent.vertical.messages import (
    AskLabels,
    Choice,
    Fetch,
    Message,
    RequestRefused,
    Sketch,
    Step,
)
from reticent.vertical.party_memory import Memory
from reticent.vertical.plan import Plan, Terms
from reticent.vertical.sketch import SignSketch

LARGEST = 1e100
"""Larger numbers from a coordinator are refused, so that no slope is infinite."""

FAINT = 0.1
"""Noise below this on unsketched columns hardly changes a logistic slope."""


@dataclass(frozen=True)
class Round:
    """A party in an open run, before a request.

    Parameters
    ----------
    columns
        The party's columns.
    labels
        The labels, if the party holds them.
    terms
        The party's own bounds on both.
    plan
        The plan that was charged.
    memory
        What has been asked and answered so far.
    source
        Generator of the noise.
    """

    columns: Columns
    labels: FloatArray | None
    terms: Terms
    plan: Plan
    memory: Memory
    source: Source

    def answer(self, message: Message) -> tuple[Memory, Message]:
        """The memory after a request, and what to say to it."""
        if isinstance(message, Step):
            return self._step(message)
        if isinstance(message, Fetch):
            return self._fetch(message)
        assert isinstance(message, AskLabels)
        return self._send_labels(message)

    def _step(self, message: Step) -> tuple[Memory, Message]:
        plan, memory = self.plan, self.memory
        if memory.rounds >= plan.rounds:
            raise RequestRefused(
                "plan", f"all {plan.rounds} rounds that were charged have been taken"
            )
        if message.labels.size:
            memory = memory.with_(labels=self._sized(message.labels, "labels"))
        scores = self.columns.scores(self._slopes(message, memory.labels))
        if not message.last and plan.columns and len(memory.shared) >= plan.columns:
            allowed = np.array(sorted(memory.shared), np.int64)
        else:
            allowed = np.arange(self.columns.shape[1])
        place, sign = self._choose(scores[allowed])
        column = int(allowed[place])
        value = np.empty(0)
        if plan.value_scale > 0.0:
            value = self._noisy(np.array([-sign * scores[column]]), plan.value_scale)
        memory = memory.with_(rounds=memory.rounds + 1, chosen=memory.chosen | {column})
        sent = np.empty(0)
        # With values the coordinator uses one party's column only, and requests that separately.
        wanted = plan.columns and plan.value_scale == 0.0 and not message.last
        if wanted and column not in memory.shared:
            sent = self._draw_sketch(column)
            memory = memory.with_(shared={**memory.shared, column: sent})
        answer = Choice(
            run=message.run,
            sequence=message.sequence,
            column=column,
            sign=int(sign),
            value=value,
            sketch=sent,
        )
        return memory, answer

    def _fetch(self, message: Fetch) -> tuple[Memory, Message]:
        plan, memory = self.plan, self.memory
        if message.column not in memory.chosen:
            raise RequestRefused(
                "plan", "only a column that was chosen in this run may be asked for"
            )
        sent = memory.shared.get(message.column)
        if sent is None:
            if len(memory.shared) >= plan.columns:
                raise RequestRefused(
                    "plan", f"all {plan.columns} columns that were charged have been sent"
                )
            sent = self._draw_sketch(message.column)
            memory = memory.with_(shared={**memory.shared, message.column: sent})
        return memory, Sketch(run=message.run, sequence=message.sequence, sketch=sent)

    def _send_labels(self, message: AskLabels) -> tuple[Memory, Message]:
        plan, memory = self.plan, self.memory
        if plan.labels != "send":
            raise RequestRefused("plan", "the plan does not ask for the labels' sketch")
        sent = memory.sent_labels
        if sent is None:
            sent = self._noisy(plan.sketch().apply(self.labels), plan.label_scale)
            memory = memory.with_(sent_labels=sent)
        return memory, Sketch(run=message.run, sequence=message.sequence, sketch=sent)

    # What a step is made of

    def _slopes(self, message: Step, labels: FloatArray | None) -> FloatArray:
        """Each record's clipped slope: a function of this record and of public numbers only."""
        plan, sketch = self.plan, self.plan.sketch()
        rows, columns = self.columns.shape
        others = np.zeros(rows)
        if message.others.size:
            others = sketch.estimate(self._sized(message.others, "others"))
        places, weights = message.places, message.weights
        if len(places) != len(weights) or (places >= columns).any():
            raise RequestRefused(
                "malformed", "places and weights of the model do not fit the columns"
            )
        if (np.abs(weights) > LARGEST).any():
            raise RequestRefused("malformed", f"a weight of the model is beyond {LARGEST:g}")
        own = np.zeros(rows)
        if plan.own == "clear":
            own = self.columns.predictions(places, weights)
        target = self._target(sketch, labels)
        # Unsketched columns with little noise make each record's prediction almost exact.
        faint = sketch.is_identity and plan.sketch_scale < FAINT * self.terms.feature_bound
        free = slopes(plan.loss, own, others, target, faint=faint)
        # a slope that is nan becomes 0: the record then contributes nothing
        return np.nan_to_num(np.clip(free, -plan.clip, plan.clip), nan=0.0)

    def _target(self, sketch: SignSketch, labels: FloatArray | None) -> FloatArray:
        if self.plan.labels != "sketched":
            assert self.labels is not None
            return self.labels
        if labels is None:
            raise RequestRefused("plan", "the sketch of the labels has not come yet")
        return sketch.estimate(labels)

    def _sized(self, vector: FloatArray, name: str) -> FloatArray:
        if len(vector) != self.plan.sketch_size:
            raise RequestRefused("malformed", f"{name} must have {self.plan.sketch_size} numbers")
        if (np.abs(vector) > LARGEST).any():
            raise RequestRefused("malformed", f"a number in {name} is beyond {LARGEST:g}")
        return vector

    def _choose(self, scores: FloatArray) -> tuple[int, float]:
        scale = self.plan.selection_scale
        if self.plan.selection == "laplace":
            best = select(np.concatenate([-scores, scores]), scale, self.source, "laplace")
            return best % len(scores), -1.0 if best >= len(scores) else 1.0
        # Always a new one: the blocks it remembers would make a restarted party draw differently.
        return Corners(len(scores), True, self.source).pick(scores, scale)

    def _draw_sketch(self, column: int) -> FloatArray:
        values = self.columns.column(column)
        return self._noisy(self.plan.sketch().apply(values), self.plan.sketch_scale)

    def _noisy(self, vector: FloatArray, scale: float) -> FloatArray:
        precision = "lattice" if self.terms.lattice else "float"
        return release.noisy(vector, scale, self.source, precision=precision)
