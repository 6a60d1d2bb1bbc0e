"""The table of persons against a dictionary, hashlib, and the bounds that it must enforce."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from reticent.privacy import Participation
from reticent.state import Persons
from reticent.state.files import dumps, loads
from reticent.state.persons import read


def reference(ids, k, b, window, first):
    """The rule, in plain Python: a person's own records and nothing else."""
    kept, last, count = [], {}, {}
    for step, name in enumerate(ids, first):
        if name in last and window is not None and step - last[name] >= max(window, b):
            count[name] = 0
        good = name not in last or (step - last[name] >= b and (k is None or count[name] < k))
        if good:
            last[name], count[name] = step, count.get(name, 0) + 1
        kept.append(good)
    return kept


RULES = [
    (1, 1, None),
    (3, 1, None),
    (2, 7, None),
    (None, 5, None),
    (2, 1, 20),
    (3, 4, 30),
    (1, 50, 20),
]


@pytest.mark.parametrize(("k", "b", "window"), RULES)
def test_the_rule(k, b, window):
    rng = np.random.default_rng(0)
    ids = rng.geometric(0.01, size=6000)
    table = Persons(Participation(k, b), window)
    kept = []
    for part in np.split(ids, [1, 2, 700, 703, 5000]):
        kept += table.admit(table.digests(part), 1 + len(kept)).tolist()
    assert kept == reference(ids.tolist(), k, b, window, 1)
    for name in np.unique(ids):  # the bounds themselves, whatever the rule
        steps = np.flatnonzero((ids == name) & kept)
        assert len(steps) < 2 or np.diff(steps).min() >= b
        if k is not None and window is None:
            assert len(steps) <= k
        if k is not None and window is not None:
            assert all(np.sum((steps >= s) & (steps < s + window)) <= k for s in steps)


def test_what_others_do_changes_nothing():
    rng = np.random.default_rng(1)
    mine = rng.random(3000) < 0.05
    results = []
    for seed in (2, 3):
        others = np.random.default_rng(seed).integers(1, 50_000, size=3000)
        table = Persons(Participation(5, 11), window=400)
        results.append(table.admit(table.digests(np.where(mine, 0, others)), 1)[mine])
    assert results[0].tolist() == results[1].tolist()


IDS = {
    "ints": [1, 2, -5, 2**62],
    "large": [2**64 - 1, 5],
    "text": ["a", "ü" * 40, "x" * 100, "𝄞"],
    "bytes": [b"a", b"q" * 300, b"\x00a"],
}


@pytest.mark.parametrize("name", IDS)
def test_digests_are_keyed_blake2(name):
    table = Persons(Participation(2))
    _, rows, lengths = read(IDS[name])
    key = table._key.tobytes()
    for row, length, found in zip(rows, lengths, table.digests(IDS[name]).values, strict=True):
        exact = hashlib.blake2b(row[:length].tobytes(), key=key, digest_size=16).digest()
        assert found.tobytes() == exact
    assert len(np.unique(table.digests(IDS[name]).values)) == 2 * len(IDS[name])


def test_an_id_is_the_same_in_every_container():
    table = Persons(Participation(2))

    def digest(ids):
        return table.digests(ids).values[0].tolist()

    assert len({tuple(digest(ids)) for ids in (
        [7], (7,), np.array([7], np.uint8), np.array([7, -1]), np.array([7], object),
        np.array([7], np.uint64), [np.int16(7)],
    )}) == 1  # fmt: skip
    assert digest(["ab"]) == digest(np.array(["ab", "longer"])) == digest(np.array(["ab"], object))
    assert digest([-1]) != digest([2**64 - 1])
    assert digest(["7"]) != digest([7]) != digest([b"7"])
    pandas = pytest.importorskip("pandas")
    assert digest(pandas.Series([7, 8])) == digest([7])
    assert digest(pandas.Series(["ab", "c"], dtype="category")) == digest(["ab"])
    assert digest(pandas.array([7, 8], dtype="Int64")) == digest([7])
    arrow = pytest.importorskip("pyarrow")
    assert digest(arrow.array(["ab", "c"])) == digest(["ab"])
    assert digest(arrow.chunked_array([[7], [8]])) == digest([7])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (None, "id for each record"),
        ([1, None], r"person\[1\] is missing"),
        ([float("nan")], r"person\[0\] is missing"),
        (np.array([1.0, np.nan]), r"person\[1\] is missing"),
        (["a", ""], r"person\[1\] is missing"),
        ([b"", b"x"], r"person\[0\] is missing"),
        ([1, "a"], "one type"),
        ([b"a", "a"], "one type"),
        ([True, False], "one type"),
        ([1, True], "one type"),
        ([1.5], "one type"),
        (np.array([1.0, 2.0]), "whole numbers, text or bytes"),
        (np.array([True]), "whole numbers, text or bytes"),
        ([(1, 2)], "one type"),
        (np.array([[1, 2]]), "vector of ids"),
        ([2**65], "64-bit"),
        ([-1, 2**63], "64-bit"),
        ([object()], "one type"),
        (np.ma.masked_array([1, 2], mask=[False, True]), r"person\[1\] is missing"),
        ("ab", "a list or an array"),
        (b"ab", "a list or an array"),
        ({1, 2}, "a list or an array"),
        ({"a": 1}, "a list or an array"),
        (iter([1, 2]), "a list or an array"),
        (7, "a list or an array"),
    ],
)
def test_bad_ids(ids, words):
    table = Persons(Participation(2))
    with pytest.raises((ValueError, TypeError), match=words):
        table.digests(ids)
    assert len(table) == 0
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"person\[1\] is missing"):
        table.digests(pandas.array([1, None], dtype="Int64"))
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"person\[1\] is missing"):
        table.digests(arrow.array(["a", None]))


def test_masked_ids_of_null_records_may_be_anything():
    table = Persons(Participation(2))
    there = np.array([True, False])
    ids = np.ma.masked_array([1, 2], mask=[False, True])
    assert table.admit(table.digests(ids, there=there), 1).tolist() == [True, False]
    with pytest.raises(ValueError, match="missing"):
        table.digests(ids, there=~there)


def test_a_stream_has_ids_of_one_kind():
    table = Persons(Participation(2))
    table.admit(table.digests([1, 2]), 1)
    with pytest.raises(ValueError, match="began with whole numbers"):
        table.digests(["1"])
    with pytest.raises(ValueError, match="each of the 3 records"):
        table.digests([1, 2], 3)


def test_more_persons_than_declared():
    table = Persons(Participation(2, 3, max_persons=3))
    table.admit(table.digests([1, 2, 1]), 1)
    before = table.state()
    with pytest.raises(
        ValueError, match="2 new persons in addition to 2 known ones, more than max_persons=3"
    ):
        table.admit(table.digests([1, 3, 4, 4]), 4)
    assert table.state()["entries"].tolist() == before["entries"].tolist()
    table.admit(table.digests([1, 3, 3, 3, 1]), 4)
    windowed = Persons(Participation(2, max_persons=2), window=5)
    for step in range(1, 2000, 3):  # those who are away are forgotten
        windowed.admit(windowed.digests([step, step]), step)


def test_memory_follows_those_who_matter():
    table = Persons(Participation(2, 5), window=1000)
    for block in range(40):
        ids = np.arange(block * 5000, (block + 1) * 5000)
        table.admit(table.digests(ids), 1 + 5000 * block)
    assert len(table._entries) <= 2**14
    million = Persons(Participation(4, 100))
    million.admit(million.digests(np.arange(1_000_000)), 1)
    assert len(million) == 1_000_000
    assert million._keys.nbytes + million._entries.nbytes <= 100e6


def test_a_saved_table_goes_on():
    rng = np.random.default_rng(4)
    ids = rng.integers(0, 3000, size=20_000)
    whole, first = Persons(Participation(3, 10)), Persons(Participation(3, 10))
    expected = whole.admit(whole.digests(ids), 1)
    begun = first.admit(first.digests(ids[:9000]), 1)
    again = Persons.from_state(loads(dumps(first.state())))
    rest = again.admit(again.digests(ids[9000:]), 9001)
    assert np.concatenate([begun, rest]).tolist() == expected.tolist()
    assert first.state()["key"].tolist() == again.state()["key"].tolist()
    assert first.state()["key"].tolist() != whole.state()["key"].tolist()


def test_nobody_is_named_in_a_state():
    table = Persons(Participation(3))
    table.admit(table.digests(["a-very-special-name"]), 1)
    assert b"special" not in dumps(table.state())
    assert b"a\x00\x00\x00-\x00" not in dumps(table.state())


@pytest.mark.parametrize("step", [2**31, 2**39 - 3, 2**39, 2**40 - 9])
def test_late_steps_count_like_early_ones(step):
    """The step of a record takes 40 bits, and the uppermost is no sign."""
    ids = ["ann", "ann", "bob", "ann", "bob", "ann"]
    for window in (None, 4):
        early, late = (Persons(Participation(2), window) for _ in range(2))
        expected = early.admit(early.digests(ids), 1)
        assert np.array_equal(late.admit(late.digests(ids), step), expected)
        again = Persons.from_state(late.state())
        assert len(again) == 2
        more = early.admit(early.digests(["ann"]), 7)
        assert np.array_equal(again.admit(again.digests(["ann"]), step + 6), more)


def test_steps_end():
    table = Persons(Participation(2))
    with pytest.raises(ValueError, match="begin another stream"):
        table.admit(table.digests(["ann", "bob"]), 2**40 - 1)
    assert len(table) == 0


@pytest.mark.parametrize(("k", "b", "window"), RULES)
def test_a_table_that_is_kept_apart_goes_on_from_its_changes(k, b, window):
    rng = np.random.default_rng(2)
    ids = rng.geometric(0.0005, size=12_000)
    table = Persons(Participation(k, b), window)
    table.keep_apart()
    kept, parts, rows = [], [], 0
    for turn, part in enumerate(np.array_split(ids, 60)):
        kept += table.admit(table.digests(part), 1 + len(kept)).tolist()
        found = table.changes()
        if found.whole:
            parts, rows = [], 0
        else:
            assert len(found.entries) == len(part)  # neither more nor less than what came
        parts.append(found)
        rows += len(found.entries)
        if turn % 7 == 6:  # as after a crash
            state = table.state()
            assert len(state["entries"]) == 0
            with pytest.raises(ValueError, match="without its table of persons"):
                Persons.from_state(state)
            state |= {
                "apart": False,
                "digests": np.concatenate([one.digests for one in parts]),
                "entries": np.concatenate([one.entries for one in parts]),
            }
            size = len(table)
            table = Persons.from_state(loads(dumps(state)))
            assert len(table) <= max(size, 1) or window is not None or k is None
            table.keep_apart(rows)
    assert kept == reference(ids.tolist(), k, b, window, 1)


def test_what_a_change_costs_does_not_grow_with_the_table():
    table = Persons(Participation(max_records=1))
    table.keep_apart()
    written = []
    for first in range(0, 200_000, 100):
        table.admit(table.digests(np.arange(first, first + 100)), 1 + first)
        written.append(len(table.changes().entries))
    assert np.median(written) == 100
    # all of it was written now and then: a few rows for each record on average
    assert sum(written) < 6 * 200_000


@pytest.mark.parametrize("rule", [Participation(min_gap=1000), Participation(max_records=1)])
def test_rows_that_are_never_played_make_nobody_forgotten(rule):
    """Many records are admitted at once, and an error may end the call after the first of them."""
    table = Persons(rule, window=1000)
    many = np.arange(16_000)  # the table grows on the way
    assert table.admit(table.digests(many), step=1)[0]
    assert not table.admit(table.digests(many[:1]), step=2)[0]
