"""The messages between a coordinator and a party, as bytes and back.

The messages of Algorithm 2 of Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse
Optimization with Feature-Wise Distributed Data*, corrected, and those that begin and end a run; see
docs/algorithms/vertical.md. A message consists of a mark, a version, a kind, the length of the rest, and its fields in
order, little-endian. Decoding runs no code and trusts nothing: every length is bounded before anything is allocated,
every number must be finite, and no byte may be left over.

The bytes are compared, not only the values. A party takes a repeated sequence number for a repeated request only if the
whole request is the same, so the encoding is canonical: one message, one byte string.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.vertical.codec import FieldReader, MalformedMessage, read, write

VERSION = 1
MAX_BYTES = 64 * 2**20
"""Largest length of a message, in bytes."""

_MARK = b"TV"
_HEAD = struct.Struct("<2sBBI")

IntArray = NDArray[np.uint32]


class RefusedByParty(RuntimeError):
    """A party answered a request with a :class:`Refusal`.

    Attributes
    ----------
    name
        The party.
    code
        One of :data:`REFUSALS`.
    """

    def __init__(self, name: str, code: str, text: str) -> None:
        super().__init__(f"party {name!r} refused ({code}): {text}")
        self.name = name
        self.code = code


_AS = {
    kind: {"kind": kind}
    for kind in ("u8", "flag", "u32", "u64", "sign", "f64", "run", "digest", "text", "f64s", "u32s")
}


def _nothing() -> FloatArray:
    return np.empty(0)


def _nowhere() -> IntArray:
    return np.empty(0, np.uint32)


# ---------------------------------------------------------------- messages


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """Fields of all messages: the run to which they belong, and their number in it.

    Attributes
    ----------
    run : bytes
        16 bytes, drawn by the coordinator, that identify the run.
    sequence : int
        1, 2, ... for each party; 0 for requests before the run. An answer carries the number of its request.
    """

    code: ClassVar[int] = 0
    before: ClassVar[bool] = False
    """Whether it is asked before the run; then it has no consequences and is answered afresh each time."""

    run: bytes = field(metadata=_AS["run"])
    sequence: int = field(metadata=_AS["u32"])

    def encode(self) -> bytes:
        """The message as bytes."""
        body = b"".join(write(kind, getattr(self, name)) for name, kind in _layout(type(self)))
        data = _HEAD.pack(_MARK, VERSION, self.code, len(body)) + body
        if len(data) > MAX_BYTES:
            raise ValueError(
                f"a message may have at most {MAX_BYTES} bytes, this one has {len(data)}"
            )
        return data

    @classmethod
    def decode(cls, data: bytes, limit: int = MAX_BYTES) -> Self:
        """The message of this kind that the bytes hold, or :class:`MalformedMessage`."""
        message = decode(data, limit)
        if not isinstance(message, cls):
            raise MalformedMessage(
                f"a {cls.__name__} message was expected, this is a {type(message).__name__}"
            )
        return message


@dataclass(frozen=True, eq=False, kw_only=True)
class Hello(Message):
    """The first request, for a party's description of itself. Spends nothing."""

    code = 1
    before = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Welcome(Message):
    """A party's description of itself, all of it public.

    ``digest`` is the keyed hash of its row ids in order, for this run only.
    """

    code = 2

    name: str = field(metadata=_AS["text"])
    rows: int = field(metadata=_AS["u64"])
    columns: int = field(metadata=_AS["u32"])
    feature_bound: float = field(metadata=_AS["f64"])
    label_bound: float = field(metadata=_AS["f64"])
    has_labels: bool = field(metadata=_AS["flag"])
    replace: bool = field(metadata=_AS["flag"])
    lattice: bool = field(metadata=_AS["flag"])
    seeded: bool = field(metadata=_AS["flag"])
    digest: bytes = field(metadata=_AS["digest"])


@dataclass(frozen=True, eq=False, kw_only=True)
class Proposal(Message):
    """A proposal of a run with a plan; the fields are those of :class:`reticent.vertical.Plan`."""

    loss: str = field(metadata=_AS["text"])
    rows: int = field(metadata=_AS["u64"])
    rounds: int = field(metadata=_AS["u32"])
    columns: int = field(metadata=_AS["u32"])
    clip: float = field(metadata=_AS["f64"])
    selection: str = field(metadata=_AS["text"])
    selection_scale: float = field(metadata=_AS["f64"])
    value_scale: float = field(metadata=_AS["f64"])
    sketch_scale: float = field(metadata=_AS["f64"])
    label_scale: float = field(metadata=_AS["f64"])
    labels: str = field(metadata=_AS["text"])
    own: str = field(metadata=_AS["text"])
    sketch_size: int = field(metadata=_AS["u32"])
    sketch_spread: int = field(metadata=_AS["u32"])
    sketch_seed: int = field(metadata=_AS["u64"])


@dataclass(frozen=True, eq=False, kw_only=True)
class Consider(Proposal):
    """Would you begin this run? Spends nothing, and has no consequences."""

    code = 12
    before = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Begin(Proposal):
    """Begin the run: the party charges all of it to its own ledger, or refuses."""

    code = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Ready(Message):
    """The plan has been charged, or could be, if it was only to be considered.

    ``guarantee`` is the party's guarantee for its records, as JSON.
    """

    code = 4

    guarantee: str = field(metadata=_AS["text"])


@dataclass(frozen=True, eq=False, kw_only=True)
class AskLabels(Message):
    """To the one party that holds the labels: send their noisy sketch."""

    code = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Step(Message):
    """One round: select a signed column.

    Attributes
    ----------
    round : int
        Number of the round, from 0; for the log.
    last : bool
        Whether this is the last round, which needs no sketch because no gradient is computed after it.
    places : array
        Indices of the nonzero weights of the party's own part of the model.
    weights : array
        These weights.
    others : array
        Sketched predictions of everything that the party does not compute itself (length ``sketch_size``, or empty for
        zeros).
    labels : array
        Noisy sketch of the labels, in the first round of a party that has none; otherwise empty.
    """

    code = 6

    round: int = field(metadata=_AS["u32"])
    last: bool = field(metadata=_AS["flag"])
    places: IntArray = field(metadata=_AS["u32s"], default_factory=_nowhere)
    weights: FloatArray = field(metadata=_AS["f64s"], default_factory=_nothing)
    others: FloatArray = field(metadata=_AS["f64s"], default_factory=_nothing)
    labels: FloatArray = field(metadata=_AS["f64s"], default_factory=_nothing)


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice(Message):
    """The vertex ``sign * e_column`` that a party selected, with its value and sketch if requested.

    ``value`` is its noisy score, if the plan asks for values; ``sketch`` is the noisy sketch of the column, if the plan
    asks for it with the choice and it was not sent before.
    """

    code = 7

    column: int = field(metadata=_AS["u32"])
    sign: int = field(metadata=_AS["sign"])
    value: FloatArray = field(metadata=_AS["f64s"], default_factory=_nothing)
    sketch: FloatArray = field(metadata=_AS["f64s"], default_factory=_nothing)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fetch(Message):
    """To the party that won a round: send the sketch of a column that it selected."""

    code = 8

    column: int = field(metadata=_AS["u32"])


@dataclass(frozen=True, eq=False, kw_only=True)
class Sketch(Message):
    """A noisy sketch of a column or of the labels; always the same one, never drawn again."""

    code = 9

    sketch: FloatArray = field(metadata=_AS["f64s"])


@dataclass(frozen=True, eq=False, kw_only=True)
class End(Message):
    """The run is over; the party takes no further step in it."""

    code = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class Done(Message):
    """The answer to :class:`End`."""

    code = 11


REFUSALS = (
    "malformed",  # not a message, or not one that may be asked
    "budget",  # the site's own budget does not allow it
    "plan",  # outside of what was agreed and paid for when the run began
    "sequence",  # an old number with a new question, or a number too far ahead
    "data",  # the site's records do not fit the plan
    "internal",  # see the site's own log
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Refusal(Message):
    """Instead of an answer: a code of :data:`REFUSALS` and a sentence that says nothing about the records."""

    code = 255

    reason: str = field(metadata=_AS["text"])
    text: str = field(metadata=_AS["text"])

    def __post_init__(self) -> None:
        if self.reason not in REFUSALS:
            raise MalformedMessage(f"a refusal's reason must be one of {', '.join(REFUSALS)}")


KINDS: dict[int, type[Message]] = {
    kind.code: kind
    for kind in (
        Hello, Welcome, Consider, Begin, Ready, AskLabels, Step, Choice, Fetch, Sketch, End, Done,
        Refusal,
    )
}  # fmt: skip
REQUESTS = (Hello, Consider, Begin, AskLabels, Step, Fetch, End)


def _layout(kind: type[Message]) -> list[tuple[str, str]]:
    return [(entry.name, entry.metadata["kind"]) for entry in dataclasses.fields(kind)]


def decode(data: bytes, limit: int = MAX_BYTES) -> Message:
    """The message that the bytes hold, or :class:`MalformedMessage`.

    Parameters
    ----------
    data : bytes
        An encoded message.
    limit : int
        Largest accepted length in bytes; longer messages are refused unread.

    Examples
    --------
    >>> decode(Fetch(run=bytes(16), sequence=3, column=7).encode()).column
    7
    >>> decode(b"hello there")
    Traceback (most recent call last):
    ...
    reticent.vertical.codec.MalformedMessage: this does not begin like a message
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise MalformedMessage(f"a message must be bytes, got {type(data).__name__}")
    data = bytes(data) if len(data) <= limit else data
    if len(data) > limit:
        raise MalformedMessage(f"a message of {len(data)} bytes is longer than {limit}")
    if len(data) < _HEAD.size or bytes(data[:2]) != _MARK:
        raise MalformedMessage("this does not begin like a message")
    _, version, code, size = _HEAD.unpack_from(data)
    if version != VERSION:
        raise MalformedMessage(
            f"the message has version {version} and this side speaks version {VERSION}; "
            "install the same version of reticent everywhere"
        )
    if code not in KINDS:
        raise MalformedMessage(f"{code} is not a known kind of message")
    if size != len(data) - _HEAD.size:
        raise MalformedMessage("the message is not as long as it says")
    kind = KINDS[code]
    reader = FieldReader(bytes(data[_HEAD.size :]))
    fields = {name: read(how, reader) for name, how in _layout(kind)}
    if reader.at != len(reader.data):
        raise MalformedMessage("bytes are left over after the last field of the message")
    return kind(**fields)


class RequestRefused(Exception):
    """Why a party does not answer: raised anywhere below :meth:`Party.handle`, which makes a :class:`Refusal` of it.

    The text travels to the coordinator, so it may name the plan and the coordinator's own numbers, and
    nothing that was read from a record.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
