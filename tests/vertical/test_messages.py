"""Messages: there and back, and everything that is not one refused."""

from __future__ import annotations

import struct
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.vertical import MalformedMessage, messages
from reticent.vertical.messages import (
    Begin,
    Choice,
    Consider,
    Fetch,
    Hello,
    Refusal,
    Sketch,
    Step,
    Welcome,
)
from reticent.vertical.plan import Plan

RUN = bytes(range(16))
EXAMPLES = [
    Hello(run=RUN, sequence=0),
    Welcome(run=RUN, sequence=0, name="clinic ä", rows=10**10, columns=3, feature_bound=1.5,
            label_bound=2.0, has_labels=True, replace=False, lattice=True, seeded=False,
            digest=bytes(32)),
    Plan(rows=9, rounds=2, columns=1, clip=2.0, selection_scale=0.5, sketch_scale=3.0,
         sketch_size=4).request(RUN, 1),
    Step(run=RUN, sequence=7, round=3, last=True, places=[0, 2**32 - 1], weights=[0.5, -1e-300],
         others=np.linspace(-1, 1, 5)),
    Choice(run=RUN, sequence=7, column=3, sign=-1, value=[0.25]),
    Fetch(run=RUN, sequence=8, column=3),
    Sketch(run=RUN, sequence=8, sketch=np.arange(4.0)),
    Refusal(run=RUN, sequence=8, reason="plan", text="no"),
]  # fmt: skip


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_there_and_back(message):
    data = message.encode()
    again = type(message).decode(data)
    assert again.encode() == data
    assert (again.run, again.sequence) == (message.run, message.sequence)
    for name in message.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(message, name))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_piece_missing_or_too_much_is_refused(message):
    data = message.encode()
    for cut in range(len(data)):
        with pytest.raises(MalformedMessage):
            messages.decode(data[:cut])
    with pytest.raises(MalformedMessage):
        messages.decode(data + b"\0")
    # the same with a head that agrees with the length
    for cut in range(8, len(data)):
        short = data[:4] + struct.pack("<I", cut - 8) + data[8:cut]
        with pytest.raises(MalformedMessage):
            messages.decode(short)
    with pytest.raises(MalformedMessage, match="left over"):
        messages.decode(data[:4] + struct.pack("<I", len(data) - 7) + data[8:] + b"\0")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(EXAMPLES), st.integers(0, 10**6))
def test_noise_is_never_anything_but_refused_or_read(junk, message, place):
    data = bytearray(message.encode())
    place %= len(data)
    data[place : place + len(junk)] = junk
    for candidate in (junk, bytes(data)):
        try:
            read = messages.decode(candidate)
        except MalformedMessage:
            continue
        assert messages.decode(read.encode()).encode() == read.encode()


def test_what_is_refused_and_how_it_says_so():
    data = bytearray(Hello(run=RUN, sequence=0).encode())
    wrong = bytearray(data)
    wrong[2] = 9
    with pytest.raises(MalformedMessage, match=r"version 9.*same version"):
        messages.decode(bytes(wrong))
    wrong = bytearray(data)
    wrong[3] = 77
    with pytest.raises(MalformedMessage, match="77 is not a known kind"):
        messages.decode(bytes(wrong))
    with pytest.raises(MalformedMessage, match="longer than 10"):
        messages.decode(bytes(data), limit=10)
    with pytest.raises(MalformedMessage, match="must be bytes"):
        messages.decode("hello")
    with pytest.raises(MalformedMessage, match="Fetch message was expected"):
        Fetch.decode(bytes(data))


def test_numbers_that_are_not_finite_do_not_travel():
    with pytest.raises(ValueError):
        Sketch(run=RUN, sequence=1, sketch=[np.nan]).encode()
    data = Sketch(run=RUN, sequence=1, sketch=[1.0]).encode()
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(MalformedMessage, match="not finite"):
            messages.decode(data[:-8] + struct.pack("<d", bad))


def test_a_length_that_lies_allocates_nothing():
    body = RUN + struct.pack("<II", 1, 2**32 - 1)
    data = b"TV" + bytes([messages.VERSION, Sketch.code]) + struct.pack("<I", len(body)) + body
    with pytest.raises(MalformedMessage, match="ends before"):
        messages.decode(data)
    # a signed index must have a sign, and a flag is 0 or 1
    data = bytearray(Choice(run=RUN, sequence=1, column=3, sign=1).encode())
    data[8 + 16 + 4 + 4] = 0
    with pytest.raises(MalformedMessage, match="sign"):
        messages.decode(bytes(data))


def test_what_does_not_fit_is_not_written():
    with pytest.raises(ValueError, match="does not fit"):
        Fetch(run=RUN, sequence=-1, column=0).encode()
    with pytest.raises(ValueError, match="run must be 16 bytes"):
        Hello(run=b"short", sequence=0).encode()
    with pytest.raises(ValueError):
        Step(run=RUN, sequence=0, round=0, last=False, places=[-1]).encode()
    with pytest.raises(ValueError, match="text"):
        Refusal(run=RUN, sequence=0, reason="plan", text="x" * 70_000).encode()


def test_a_plan_travels_whole():
    plan = Plan(rows=90, rounds=2, columns=1, clip=2.5, selection_scale=0.5, sketch_scale=3.0,
                value_scale=0.25, label_scale=4.0, labels="send", own="sketched", sketch_size=40,
                sketch_spread=3, sketch_seed=2**60, loss="logistic", selection="laplace")  # fmt: skip
    begin = plan.request(RUN, 1)
    assert Plan.of(Begin.decode(begin.encode())) == plan
    asked = Consider(run=RUN, sequence=1, **asdict(plan))
    assert Plan.of(Consider.decode(asked.encode())) == plan
    # they differ in their kind, and in nothing else
    assert asked.encode()[4:] == begin.encode()[4:]
    assert asked.encode()[3] != begin.encode()[3]


def test_a_refusal_has_one_of_the_known_reasons():
    for reason in messages.REFUSALS:
        data = Refusal(run=RUN, sequence=1, reason=reason, text="no").encode()
        assert Refusal.decode(data).reason == reason
    with pytest.raises(MalformedMessage, match="reason must be one of malformed, budget"):
        Refusal(run=RUN, sequence=1, reason="busy", text="no")
    data = Refusal(run=RUN, sequence=1, reason="plan", text="no").encode()
    with pytest.raises(MalformedMessage, match="reason must be one of") as caught:
        messages.decode(data.replace(b"plan", b"mood"))
    assert "mood" not in str(caught.value)
