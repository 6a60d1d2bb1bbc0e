"""Dictionaries as vectors: declared features, and names that are hashed the same way in every process."""

from __future__ import annotations

import enum

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import murmurhash3_32

from reticent.estimators.dictionaries import Declared, Hashed, SparselyHashed, murmur, placed


def test_whole_numbers_and_booleans_are_numbers():
    read = Declared(["a", "b"])
    np.testing.assert_array_equal(read.one({"a": 1, "b": True}), [1.0, 1.0])
    np.testing.assert_array_equal(read.one({"a": np.float32(0.5)}), [0.5, 0.0])
    np.testing.assert_array_equal(read.one({"a": 2**70}), [2.0**70, 0.0])
    np.testing.assert_array_equal(Declared(["a"]).one({"a": 3.0, "z": 9.0}), [3.0])
    np.testing.assert_array_equal(Declared(["a"]).one({}), [0.0])
    with pytest.raises(TypeError, match=r"'a' must be a number .* of type int"):
        read.one({"a": 10**400})


def test_hashing_is_the_same_in_every_process():
    read = Hashed(64)
    # MurmurHash3_32, seed 0, of "a" and of "colour=red": published test values of the algorithm
    assert read.place("a")[0] == 0x3C2569B2 % 64
    assert read.place("a")[1] == -1.0
    x = read.one({"a": 2.0, "colour": "red"})
    y = np.zeros(64)
    y[read.place("a")[0]] += 2.0 * read.place("a")[1]
    y[read.place("colour=red")[0]] += read.place("colour=red")[1]
    np.testing.assert_array_equal(x, y)
    frame = pd.DataFrame({"a": [2.0, 1.0], "colour": ["red", "blue"]})
    np.testing.assert_array_equal(read.many(frame)[0], x)


def test_the_column_of_a_name_does_not_depend_on_earlier_records():
    """1 and True are equal, and the second took the column of whichever an earlier record had."""

    class Text(enum.Enum):
        A = "a"

    class Mixed(str, enum.Enum):  # noqa: UP042 (its text is not its value)
        A = "a"

    for first, then in (
        (1, True),
        (True, 1),
        (1.0, 1),
        ("a", Mixed.A),
        (Mixed.A, "a"),
        ("a", Text.A),
    ):
        read = Hashed(1000)
        read.one({first: 5.0})
        np.testing.assert_array_equal(read.one({then: 5.0}), Hashed(1000).one({then: 5.0}))


def test_places_are_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("reticent.estimators.dictionaries._REMEMBERED", 10)
    read = Hashed(8)
    for number in range(100):
        read.one({f"name {number}": 1.0})
    assert len(read._places) == 10


def test_names_are_hashed_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    for _ in range(300):
        name = "".join(map(chr, rng.integers(1, 3000, rng.integers(0, 12))))
        text = np.frombuffer(name.encode(), np.uint8)
        assert murmur(text, 0, len(text)) == murmurhash3_32(name, 0, True)


@pytest.mark.parametrize("more", [{}, {"with \0 in it": 3.0}])
def test_sparse_and_dense_readers_agree(more):
    record = {"a": 1, "b": 2.5, "c": "red", 7: True, "": np.float32(2.0)} | more
    for part in (record, {"a": 0.25, "": 1.5, "abcde": -2.0} | more, {}, more):
        places, values = placed(SparselyHashed(1000).one(part), 1000)
        dense = np.zeros(1000)
        np.add.at(dense, places, values)
        np.testing.assert_array_equal(dense, Hashed(1000).one(part))
    with pytest.raises(TypeError, match="must be a number"):
        SparselyHashed(1000).one({"a": None} | more)
    with pytest.raises(TypeError, match="must be a number"):
        SparselyHashed(1000).one({"a": 10**400} | more)
