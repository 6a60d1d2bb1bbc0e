"""The table of persons of a stream: it decides whose records still count, from that person's own records alone.

A person is represented by a 128-bit keyed BLAKE2b digest of their id, never by the id. The table is part of a
stream's saved state and as secret as the data: anyone who has its key can test whether a given person is in it. The
rule, and why it may depend on nothing but a person's own records: docs/algorithms/persons.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import integer
from reticent.compiling import compiled
from reticent.privacy.participation import Participation

_KEY = 32
_COUNT = 24  # bits of an entry that count a person's records; the other bits are the step of the last one
_LAST = 2**40 - 1
_FULL = 0.7
_SMALLEST = 1024
_EVERYWHERE = np.empty(0, np.bool_)
_INITIAL = np.array(
    [0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
     0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179],
    np.uint64,
)  # fmt: skip


# BLAKE2b (RFC 7693), compiled, because hashlib needs a call of half a microsecond or more for each id.


@compiled
def _turn(x, bits):
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))


@compiled
def _mix(a, b, c, d, x, y):
    a = a + b + x
    d = _turn(d ^ a, 32)
    c = c + d
    b = _turn(b ^ c, 24)
    a = a + b + y
    d = _turn(d ^ a, 16)
    c = c + d
    b = _turn(b ^ c, 63)
    return a, b, c, d


@compiled
def _round(v, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15):
    # words in variables, not in an array, so that they stay in registers: three times as fast
    v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15 = v
    v0, v4, v8, v12 = _mix(v0, v4, v8, v12, s0, s1)
    v1, v5, v9, v13 = _mix(v1, v5, v9, v13, s2, s3)
    v2, v6, v10, v14 = _mix(v2, v6, v10, v14, s4, s5)
    v3, v7, v11, v15 = _mix(v3, v7, v11, v15, s6, s7)
    v0, v5, v10, v15 = _mix(v0, v5, v10, v15, s8, s9)
    v1, v6, v11, v12 = _mix(v1, v6, v11, v12, s10, s11)
    v2, v7, v8, v13 = _mix(v2, v7, v8, v13, s12, s13)
    v3, v4, v9, v14 = _mix(v3, v4, v9, v14, s14, s15)
    return v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15


@compiled
def _compress(h, m, length, last):
    i = _INITIAL
    v = (
        h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], i[0], i[1], i[2], i[3],
        i[4] ^ np.uint64(length), i[5], ~i[6] if last else i[6], i[7],
    )  # fmt: skip
    a, b, c, d, e, f, g, j = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    k, n, o, p, q, r, s, t = m[8], m[9], m[10], m[11], m[12], m[13], m[14], m[15]
    v = _round(v, a, b, c, d, e, f, g, j, k, n, o, p, q, r, s, t)
    v = _round(v, s, o, e, k, n, t, r, g, b, q, a, c, p, j, f, d)
    v = _round(v, p, k, q, a, f, c, t, r, o, s, d, g, j, b, n, e)
    v = _round(v, j, n, d, b, r, q, p, s, c, g, f, o, e, a, t, k)
    v = _round(v, n, a, f, j, c, e, o, t, s, b, p, q, g, k, d, r)
    v = _round(v, c, q, g, o, a, p, k, d, e, r, j, f, t, s, b, n)
    v = _round(v, q, f, b, t, s, r, e, o, a, j, g, d, n, c, k, p)
    v = _round(v, r, p, j, s, q, b, d, n, f, a, t, e, k, g, c, o)
    v = _round(v, g, t, s, n, p, d, a, k, q, c, r, j, b, e, o, f)
    v = _round(v, o, c, k, e, j, g, b, f, t, p, n, s, d, q, r, a)
    v = _round(v, a, b, c, d, e, f, g, j, k, n, o, p, q, r, s, t)
    v = _round(v, s, o, e, k, n, t, r, g, b, q, a, c, p, j, f, d)
    for at in range(8):
        h[at] ^= v[at] ^ v[at + 8]


@compiled
def _digests(messages, lengths, key, out):
    """128 bits of keyed BLAKE2b for each row of bytes, up to the row's own length (at least 1)."""
    m = np.zeros(16, np.uint64)
    keyed, h = _INITIAL.copy(), np.empty(8, np.uint64)
    keyed[0] ^= np.uint64(0x01010000) ^ np.uint64(key.size << 8) ^ np.uint64(16)
    for i in range(key.size):
        m[i >> 3] |= np.uint64(key[i]) << np.uint64(8 * (i & 7))
    _compress(keyed, m, 128, False)
    for r in range(messages.shape[0]):
        h[:] = keyed
        start = 0
        while True:
            end = min(start + 128, lengths[r])
            m[:] = np.uint64(0)
            for i in range(start, end):
                at = i - start
                m[at >> 3] |= np.uint64(messages[r, i]) << np.uint64(8 * (at & 7))
            _compress(h, m, 128 + end, end == lengths[r])
            if end == lengths[r]:
                break
            start = end
        out[r, 0], out[r, 1] = h[0], h[1]


@compiled
def _place(first, second, keys, entries):
    """The place of a person in the table, or the free place where they would be added."""
    mask = entries.size - 1
    at = np.int64(first & np.uint64(mask))
    while entries[at] != 0 and not (keys[at, 0] == first and keys[at, 1] == second):
        at = (at + 1) & mask
    return at


@compiled
def _unknown(digests, keys, entries, out):
    for r in range(digests.shape[0]):
        out[r] = entries[_place(digests[r, 0], digests[r, 1], keys, entries)] == 0


@compiled
def _admit(digests, there, step, pace, keys, entries, room, most, gap, afresh, out):
    """Decide which records count, from a step on; stop before a record of a new person for whom there is no room.

    ``pace`` is 1 if each record is a step, and 0 if all records belong to the same step. ``there`` is empty, or says
    which rows contain a record at all. ``most`` is 0 if there is no limit, and ``afresh`` is 0 if counts never start
    afresh.
    """
    added = 0
    for r in range(digests.shape[0]):
        if there.size and not there[r]:
            continue
        at = _place(digests[r, 0], digests[r, 1], keys, entries)
        now = np.int64(step + pace * r)
        entry = entries[at]
        if entry == 0:
            if added == room:
                return r, added
            added += 1
            keys[at, 0], keys[at, 1] = digests[r, 0], digests[r, 1]
            count = np.int64(0)
            kept = True
        else:
            # unsigned shifts, because the step uses the other 40 bits including the highest
            count = np.int64(entry & np.uint64((1 << _COUNT) - 1))
            since = now - np.int64(entry >> np.uint64(_COUNT))
            if afresh and since >= afresh:
                count = np.int64(0)
            kept = since >= gap and (most == 0 or count < most)
        out[r] = kept
        if kept:
            count = count + 1 if most else np.int64(1)
            entries[at] = (np.uint64(now) << np.uint64(_COUNT)) | np.uint64(count)
    return digests.shape[0], added


@compiled
def _count(entries, since):
    """The number of persons with a record that counted after a step."""
    count = 0
    for r in range(entries.size):
        count += entries[r] != 0 and np.int64(entries[r] >> np.uint64(_COUNT)) > since
    return count


@compiled
def _look_up(digests, keys, entries, out):
    for r in range(digests.shape[0]):
        out[r] = entries[_place(digests[r, 0], digests[r, 1], keys, entries)]


@compiled
def _insert(digests, values, since, keys, entries):
    """Copy these persons into a table, except those without a record that counted after a step."""
    for r in range(values.size):
        if values[r] != 0 and np.int64(values[r] >> np.uint64(_COUNT)) > since:
            at = _place(digests[r, 0], digests[r, 1], keys, entries)
            keys[at, 0], keys[at, 1] = digests[r, 0], digests[r, 1]
            entries[at] = values[r]


@dataclass(frozen=True, eq=False)
class Digests:
    """Hashed ids of one kind, under a table's key.

    Parameters
    ----------
    kind : str
        What the ids were: whole numbers, text or bytes.
    values : array
        The digests, one row of two words for each id.
    there : array of bool
        Which rows contain a record at all; empty if all do.
    """

    kind: str
    values: NDArray[np.uint64]
    there: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> Digests:
        return Digests(self.kind, self.values[rows], self.there[rows])


@dataclass(frozen=True, eq=False)
class Changes:
    """What must be written of a table that is stored apart from its stream's state.

    Parameters
    ----------
    whole : bool
        Whether this is the whole table; otherwise it adds to what was written before.
    digests : array
        Digests of persons.
    entries : array
        Their entries.
    """

    whole: bool
    digests: NDArray[np.uint64]
    entries: NDArray[np.uint64]


class Persons:
    """The table that decides whose records still count: a limited number of each person, far enough apart.

    A record counts if it is at least ``min_gap`` steps after the person's last one that counted, and if fewer than
    ``max_records`` have counted. With a window, the count starts afresh that many steps after the last one that
    counted, so that no window contains more than ``max_records``.

    Parameters
    ----------
    participation : Participation
        What a person may contribute.
    window : int, optional
        The window of the guarantee. Persons without a record that counted for that long are forgotten; without
        ``max_records``, those without one for ``min_gap`` steps.

    Examples
    --------
    >>> table = Persons(Participation(max_records=2, min_gap=2))
    >>> table.admit(table.digests(["ann", "ann", "bob", "ann", "ann"]), step=1).tolist()
    [True, False, True, True, False]
    >>> len(table)
    2
    """

    def __init__(
        self,
        participation: Participation,
        window: int | None = None,
    ) -> None:
        self.participation = participation
        self.window = None if window is None else integer(window, "window", low=1)
        self._key = np.frombuffer(secrets.token_bytes(_KEY), np.uint8)
        self._kind: str | None = None
        self._came: list[NDArray[np.uint64]] | None = (
            None  # new since the last changes, if stored apart
        )
        self._written = (
            0  # rows of changes since the whole table was last written; 0: never written
        )
        self._begin(_SMALLEST)

    def _begin(self, size: int) -> None:
        self._keys: NDArray[np.uint64] = np.zeros((size, 2), np.uint64)
        self._entries: NDArray[np.uint64] = np.zeros(size, np.uint64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def _forgets_after(self) -> int | None:
        """Number of steps without a record that counted after which a person is treated as new; None: never."""
        if self.participation.max_records is None:
            return self.participation.min_gap
        if self.window is None:
            return None
        return max(self.window, self.participation.min_gap)

    def digests(
        self, person: Any, count: int | None = None, there: NDArray[np.bool_] | None = None
    ) -> Digests:
        """Check and hash ids, without changing the table.

        Parameters
        ----------
        person : sequence
            One id per record, all of them whole numbers, all text or all bytes.
        count : int, optional
            Number of ids that there must be.
        there : array of bool, optional
            False for null records, whose ids may be anything.

        Returns
        -------
        Digests
            The hashed ids.
        """
        if there is not None:
            return self._some_digests(person, there)
        kind, messages, lengths = read(person)
        if count is not None and len(lengths) != count:
            raise ValueError(
                f"person must hold one id for each of the {count} records, got {len(lengths)} ids"
            )
        if self._kind not in (None, kind) and len(lengths):
            raise ValueError(
                f"person contains ids that are {kind}, but the stream began with {self._kind}: the same "
                "person would count twice; convert the ids to one type"
            )
        out = np.empty((len(lengths), 2), np.uint64)
        _digests(messages, lengths, self._key, out)
        return Digests(kind, out, _EVERYWHERE)

    def _some_digests(self, person: Any, there: NDArray[np.bool_]) -> Digests:
        values = person if person is None else np.asarray(_unmasked(person), object)
        if values is None or values.shape != there.shape:
            raise ValueError(f"person must hold one id for each of the {len(there)} records")
        some = self.digests(values[there])
        out = np.zeros((len(there), 2), np.uint64)
        out[there] = some.values
        return Digests(some.kind, out, there)

    def _new(self, digests: Digests) -> int:
        unknown = np.empty(len(digests), np.bool_)
        _unknown(digests.values, self._keys, self._entries, unknown)
        if digests.there.size:
            unknown &= digests.there
        return len(np.unique(digests.values[unknown], axis=0))

    def check_room(self, digests: Digests, step: int) -> None:
        """Refuse more persons than ``max_persons``, before anything is learnt from their records.

        Parameters
        ----------
        digests : Digests
            The persons of the next records.
        step : int
            Step of the first of these records.
        """
        most = self.participation.max_persons
        if most is None or self._used + len(digests) <= most:
            return
        new = self._new(digests)
        if self._used + new > most:
            self._rebuild(step)
            new = self._new(digests)
        if self._used + new > most:
            raise ValueError(
                f"person contains {new} new persons in addition to {self._used} known ones, more than "
                f"max_persons={most}; set a larger max_persons. Nothing was learnt from these records"
            )

    def admit(self, digests: Digests, step: int, pace: int = 1) -> NDArray[np.bool_]:
        """Decide which records count, and note those that do before they are used.

        Parameters
        ----------
        digests : Digests
            The persons of the records.
        step : int
            Step of the first record, counted from 1 and never less than in an earlier call.
        pace : {1, 0}
            1 if each record is a step of its own, 0 if all of them belong to the same step.

        Returns
        -------
        array of bool
            Which records count.
        """
        self.check_room(digests, step)
        if step + pace * len(digests) > _LAST:
            raise ValueError(
                f"persons can be tracked for {_LAST:,} steps, and this would be step "
                f"{step + pace * len(digests):,}; begin another stream"
            )
        if len(digests) and (digests.there.any() or not digests.there.size):
            self._kind = digests.kind
        rule = self.participation
        out = np.zeros(len(digests), np.bool_)
        done = 0
        while done < len(digests):
            room = int(_FULL * len(self._entries)) - self._used
            taken, added = _admit(
                digests.values[done:], digests.there[done:], step + pace * done, pace, self._keys, self._entries, room,
                rule.max_records or 0, rule.min_gap,
                max(self.window, rule.min_gap) if self.window else 0, out[done:],
            )  # fmt: skip
            self._used += added
            done += taken
            if done < len(digests):
                # not the step of the next row: the rows before it may never be played if an error ends the call
                self._rebuild(step)
        if self._came is not None:
            self._came.append(
                digests.values[digests.there] if digests.there.size else digests.values
            )
        return out

    def _rebuild(self, step: int) -> None:
        """Forget persons whose records no longer matter, and make room for more."""
        keys, entries = self._keys, self._entries
        since = -(2**62) if self._forgets_after is None else step - self._forgets_after
        self._fill(keys, entries, 1.25 * _count(entries, since), since)

    def _fill(
        self, keys: NDArray[np.uint64], entries: NDArray[np.uint64], room: float, since: int
    ) -> None:
        """Begin a table with capacity for ``room`` persons, and copy these into it."""
        size = _SMALLEST
        while size * _FULL < room:
            size *= 2
        self._begin(size)
        _insert(keys, entries, since, self._keys, self._entries)
        self._used = int(np.count_nonzero(self._entries))

    def keep_apart(self, written: int = 0) -> None:
        """Store the entries apart: from now on :meth:`state` leaves them out, and :meth:`changes` returns the new ones.

        Parameters
        ----------
        written : int
            Number of rows of changes from which this table was restored; 0 if the next changes must be the whole table.
        """
        self._came, self._written = [], written

    def changes(self) -> Changes:
        """What came since the last call, for a table that is stored apart.

        The number of rows reveals how many records came and how large the table is, but not who came again or whose
        records count. The whole table is written again before the rows of changes outnumber its places, so that on
        average a record costs about two rows.
        """
        assert self._came is not None, "keep_apart comes first"
        some = np.concatenate([np.empty((0, 2), np.uint64), *self._came])
        self._came = []
        if not self._written or self._written + len(some) > 2 * len(self._entries):
            self._written = len(self._entries)
            return Changes(True, self._keys.copy(), self._entries.copy())
        self._written += len(some)
        found = np.empty(len(some), np.uint64)
        _look_up(some, self._keys, self._entries, found)
        return Changes(False, some, found)

    def state(self) -> dict[str, Any]:
        """All that is known, as secret as the data.

        The order of the entries says nothing about the order of arrivals.
        """
        apart = self._came is not None
        there = np.zeros(len(self._entries), np.bool_) if apart else self._entries != 0
        return {
            "apart": apart,
            "participation": asdict(self.participation),
            "window": self.window,
            "kind": self._kind,
            "key": self._key.copy(),
            "digests": self._keys[there],
            "entries": self._entries[there],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Persons:
        """The table that :meth:`state` described.

        Parameters
        ----------
        state : mapping
            The result of :meth:`state`.
        """
        if state.get("apart"):
            raise ValueError(
                "this state was saved without its table of persons, so their records would count again; restore "
                "the table that was stored apart"
            )
        table = cls(Participation(**state["participation"]), state["window"])
        table._key, table._kind = np.array(state["key"], np.uint8), state["kind"]
        digests = np.array(state["digests"], np.uint64).reshape(-1, 2)
        entries = np.array(state["entries"], np.uint64)
        table._fill(digests, entries, len(entries) + 1, -1)
        if (
            len(entries) > table._used
        ):  # from changes that were stored apart, a person who came again has several entries
            table._fill(table._keys, table._entries, table._used + 1, -1)
        return table


_KINDS = {int: "whole numbers", str: "text", bytes: "bytes"}


def read(person: Any, name: str = "person") -> tuple[str, NDArray[np.uint8], NDArray[np.int64]]:
    """Ids as rows of bytes with their lengths, and what kind of ids they are.

    Whole numbers of any width give the same id; text and bytes end before their trailing zero bytes.
    """
    values = _plain(person, name)
    if values.ndim != 1:
        raise ValueError(f"{name} must be a vector of ids, got shape {values.shape}")
    if values.dtype.kind in "iu":
        rows = np.zeros((len(values), 10), np.uint8)
        rows[:, 0] = ord("i")
        rows[:, 1:9] = (
            np.ascontiguousarray(values).astype(np.uint64).view(np.uint8).reshape(-1, 8)
            if values.dtype.kind == "u"
            else np.ascontiguousarray(values, np.int64).view(np.uint8).reshape(-1, 8)
        )
        rows[:, 9] = values < 0
        return _KINDS[int], rows, np.full(len(rows), 10, np.int64)
    width = values.dtype.itemsize
    rows = np.zeros((len(values), 1 + width), np.uint8)
    rows[:, 0] = ord("s") if values.dtype.kind == "U" else ord("b")
    if width:
        native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
        rows[:, 1:] = native.view(np.uint8).reshape(-1, width)
    lengths = (rows.shape[1] - np.argmax(rows[:, ::-1] != 0, axis=1)).astype(np.int64)
    if (lengths == 1).any():
        raise _missing(name, int(np.argmax(lengths == 1)), "")
    if values.dtype.kind == "U":
        lengths = 1 + -(-(lengths - 1) // 4) * 4
    return _KINDS[str if values.dtype.kind == "U" else bytes], rows, lengths


def as_array(person: Any) -> NDArray[Any]:
    """Ids as an array that can be sliced and permuted; invalid ids stay as they are."""
    person = _unmasked(person)
    values = np.asarray(person)
    return values if values.dtype.kind in "iu" else np.asarray(person, object)


def _plain(person: Any, name: str) -> NDArray[Any]:
    """Ids as an array of whole numbers, text or bytes."""
    if person is None:
        raise ValueError(
            f"{name} must hold an id for each record, got None: the guarantee is about persons; pass "
            "person=ids, or build the learner without max_records and min_gap"
        )
    if isinstance(person, str | bytes | Mapping | Set) or not hasattr(person, "__len__"):
        raise TypeError(
            f"{name} must be a list or an array with one id for each record, got a "
            f"{type(person).__name__}"
        )
    person = _unmasked(person)
    values = _column(person)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _typed(values, name)
    items = list(values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values)
    if _one_kind(items, name) != {int}:
        return np.array(items) if items else np.empty(0, np.int64)
    return _whole_numbers(items, name)


def _whole_numbers(items: list[Any], name: str) -> NDArray[Any]:
    low, high = min(items), max(items)
    if low < -(2**63) or high >= 2**64 or (low < 0 and high >= 2**63):
        raise ValueError(
            f"{name} contains whole numbers that do not fit in one 64-bit type; pass them as text"
        )
    return np.array(items, np.uint64 if high >= 2**63 else np.int64)


def _column(person: Any) -> Any:
    """An Arrow column as a list, a data frame's as an array, and anything else as it is."""
    for convert in ("to_pylist", "to_numpy"):
        if hasattr(person, convert):
            return getattr(person, convert)()
    return person


def _typed(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Check an array that has a type: whole numbers, text or bytes."""
    if values.dtype.kind in "iuUS":
        return values
    where = np.flatnonzero(values != values)
    if where.size:
        raise _missing(name, int(where[0]), values.ravel()[where[0]])
    raise TypeError(
        f"{name} must hold whole numbers, text or bytes, got an array of {values.dtype}; "
        "numbers that differ by rounding would be different persons: convert the ids"
    )


def _one_kind(items: list[Any], name: str) -> set[Any]:
    """The single kind of id in a list, as a set, which is empty if the list is."""
    kinds = {type(item) for item in items}
    known = {_kind(kind) for kind in kinds}
    if bool not in kinds and None not in known and len(known) <= 1:
        return known
    for at, item in enumerate(items):
        if item is None or item is getattr(_pandas(), "NA", _NOTHING) or _is_nan(item):
            raise _missing(name, at, item)
    names = sorted(kind.__name__ for kind in kinds)
    raise TypeError(
        f"{name} must hold ids of one type, all whole numbers, all text or all bytes, got "
        f"{' and '.join(names)}"
    )


def _kind(kind: type) -> type | None:
    """The kind of id that a type belongs to; None if it is no id."""
    if issubclass(kind, np.integer):
        return int
    return next((known for known in _KINDS if issubclass(kind, known)), None)


def _unmasked(person: Any) -> Any:
    """A masked array with None where it is masked, because NumPy would show the values beneath."""
    if not isinstance(person, np.ma.MaskedArray):
        return person
    values = person.data.astype(object)
    values[np.ma.getmaskarray(person)] = None
    return values


_NOTHING = object()


def _pandas() -> Any:
    import sys

    return sys.modules.get("pandas")


def _is_nan(item: Any) -> bool:
    return isinstance(item, float | np.floating) and item != item


def _missing(name: str, at: int, item: Any) -> ValueError:
    return ValueError(
        f"{name}[{at}] is missing ({item!r}): a record without a person would not be protected; leave out "
        "such records, or give each an id of its own. Nothing was learnt from these records"
    )
