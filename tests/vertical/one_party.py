"""Requests to one party, and what it answers."""

from __future__ import annotations

from dataclasses import asdict

import reticent
from reticent.vertical import messages
from reticent.vertical.messages import Consider, Ready, Refusal, Step

RUN = bytes(range(16))


def ask(party, message):
    return messages.decode(party.handle(message.encode()))


def begin(party, plan, run=RUN):
    answer = ask(party, plan.request(run, 1))
    assert isinstance(answer, Ready), answer
    return answer


def consider(plan, run=RUN, **fields):
    return Consider(run=run, **({"sequence": 0} | asdict(plan) | fields))


def step(sequence, run=RUN, **fields):
    return Step(run=run, sequence=sequence, **({"round": 0, "last": False} | fields))


def refused(party, message, reason):
    answer = ask(party, message)
    assert isinstance(answer, Refusal)
    assert answer.reason == reason, answer.text
    return answer.text


def restart(make_party, folder, **changes):
    given = {"folder": folder, "seed": None, "noise_precision": "lattice",
             "ledger": reticent.Budget(5.0, 1e-6)}  # fmt: skip
    return make_party(**(given | changes))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
