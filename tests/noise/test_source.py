"""The generator: reproducible with a seed, secure without, and never the same noise in two places."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import threading

import numpy as np
import pytest
from randomgen import AESCounter

from reticent.noise import source as source_module
from reticent.noise.source import Source, generation

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def read_all(pipe: int) -> bytes:
    parts = []
    while part := os.read(pipe, 1 << 16):
        parts.append(part)
    os.close(pipe)
    return b"".join(parts)


def in_child(fork, work) -> bytes:
    """What ``work`` returns when it runs in a forked process."""
    out, into = os.pipe()
    child = fork()
    if child == 0:
        status = 1
        try:
            os.write(into, work())
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    found = read_all(out)
    _, status = os.waitpid(child, 0)
    assert status == 0
    return found


def test_a_seed_gives_the_same_stream_each_time():
    one, two = Source(seed=7), Source(seed=7)
    assert one.seeded
    assert (one.words(1001) == two.words(1001)).all()
    assert one.fine_bits(3) == two.fine_bits(3)
    assert (one.words(5) == two.words(5)).all()
    a, b = np.empty((3, 4)), np.empty((3, 4))
    one.normals(a)
    two.normals(b)
    assert (a == b).all()


def test_other_seeds_and_no_seed_give_other_streams():
    # two equal words among 400: probability below 1e-14
    sources = [Source(seed=0), Source(seed=1), Source(), Source()]
    words = np.concatenate([source.words(100) for source in sources])
    assert len(set(words.tolist())) == 400
    assert [source.seeded for source in sources] == [True, True, False, False]
    fine = {source.fine_bits(1) for source in sources}
    assert len(fine) == 4
    assert not fine & set(words.tolist())


def test_words_are_uniform_bits():
    # each of 64 bits is set in 100,000 words within 6.3 standard deviations: false alarm below 64 * 3e-10
    words = Source(seed=3).words(100_000)
    for bit in range(64):
        share = float(((words >> np.uint64(bit)) & np.uint64(1)).mean())
        assert abs(share - 0.5) < 6.3 * 0.5 / np.sqrt(100_000)


def test_counts_of_words():
    assert Source(seed=0).words(0).shape == (0,)
    assert Source(seed=0).words(1).dtype == np.uint64
    together = Source(seed=0).words(6)
    apart = Source(seed=0)
    assert (np.concatenate([apart.words(1), apart.words(2), apart.words(3)]) == together).all()


@pytest.mark.parametrize("seed", [-1, 0.5, "7", True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises((TypeError, ValueError), match="seed"):
        Source(seed)


def test_normals_refuse_an_array_that_they_would_not_reach():
    out = np.zeros((4, 3)).T
    with pytest.raises(ValueError, match="C-contiguous"):
        Source(seed=0).normals(out)
    assert not out.any()


def test_copies_and_pickles_are_refused():
    source = Source(seed=0)
    for attempt in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(source)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(source, protocol)


@pytest.mark.parametrize("seed", [5, None])
@pytest.mark.parametrize("taken", [0, 1, 3, 17])
def test_a_state_goes_on_with_the_next_interval(seed, taken):
    source = Source(seed)
    source.words(taken)
    source.fine_bits(taken + 1)
    state = source.state()
    source.ratchet()
    words, fine = source.words(10), source.fine_bits(2)
    source.words(1000)  # the state must be detached from the generator
    again = Source.from_state(state)
    assert again.seeded is source.seeded
    assert (again.words(10) == words).all()
    assert again.fine_bits(2) == fine
    assert (Source.from_state(state).words(10) == words).all()


@forks
def test_forked_processes_share_no_noise():
    """No word of two children is a word of the other or of the parent, before the fork or after."""
    source, other = Source(), Source.from_state(Source().state())
    before = source.words(64)
    normals = np.empty(16)

    def work() -> bytes:
        drawn = np.empty(16)
        source.normals(drawn)
        rest = [source.words(64), other.words(64), np.array([source.fine_bits(1)], np.uint64)]
        return drawn.tobytes() + np.concatenate(rest).tobytes()

    first, second = in_child(os.fork, work), in_child(os.fork, work)
    source.normals(normals)
    rest = [source.words(64), other.words(64), np.array([source.fine_bits(1)], np.uint64), before]
    mine = np.concatenate([normals.view(np.uint64), *rest])
    found = [mine, *(np.frombuffer(part, np.uint64) for part in (first, second))]
    everything = np.concatenate(found)
    assert len(found[1]) == len(found[2]) == 16 + 64 + 64 + 1
    assert len(set(everything.tolist())) == everything.size


@forks
def test_a_child_of_a_child_shares_no_noise_either():
    source = Source()

    def grandchild() -> bytes:
        return in_child(os.fork, lambda: source.words(8).tobytes()) + source.words(8).tobytes()

    found = np.frombuffer(in_child(os.fork, grandchild), np.uint64)
    assert len(set(found.tolist()) | set(source.words(8).tolist())) == 24


@forks
def test_a_fork_that_python_does_not_see_is_noticed_at_the_next_draw():
    source = Source()
    fork = ctypes.PyDLL(None).fork
    child = np.frombuffer(in_child(fork, lambda: source.words(8).tobytes()), np.uint64)
    assert not set(child.tolist()) & set(source.words(8).tolist())


@forks
def test_a_seeded_source_repeats_its_stream_in_a_child_even_if_it_was_in_use():
    source = Source(seed=9)
    source.words(3)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with source._coarse.lock, source._fine.lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        child = in_child(os.fork, lambda: source.words(4).tobytes())
    finally:
        release.set()
        thread.join()
    assert child == source.words(4).tobytes()


@forks
def test_the_generation_changes_in_a_child_only():
    before = generation()
    assert in_child(os.fork, lambda: bytes([generation() - before])) == b"\x01"
    assert generation() == before


def test_threads_share_a_source_and_lose_nothing():
    """Each word of the stream goes to exactly one thread, whichever."""
    source = Source(seed=11)
    counts = [1, 2, 3, 7, 64, 1000]
    taken: list[list[np.ndarray]] = [[] for _ in range(8)]
    fine: list[list[int]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(k: int) -> None:
        start.wait(30)
        for count in counts * 20:
            taken[k].append(source.words(count))
            fine[k].append(source.fine_bits(1))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = 8 * 20 * sum(counts)
    words = np.concatenate([part for parts in taken for part in parts])
    twin = Source(seed=11)
    assert words.size == total
    assert (np.sort(words) == np.sort(twin.words(total))).all()
    assert len(set(words.tolist())) == total
    expected = [twin.fine_bits(1) for _ in range(8 * 20 * len(counts))]
    assert sorted(value for part in fine for value in part) == sorted(expected)


def test_threads_draw_different_normals():
    source = Source(seed=12)
    drawn = np.empty((8, 5000))

    def work(k: int) -> None:
        for i in range(0, 5000, 500):
            source.normals(drawn[k, i : i + 500])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("fine", [0, 3])
def test_a_state_within_an_interval_goes_on_at_its_place(fine):
    source = Source()
    source.ratchet()
    key = source.state()["next"]
    source.ratchet()
    source.words(5)
    for _ in range(fine):
        source.fine_bits(1)
    state = source.state(within=True)
    again = Source.from_state(state)
    assert (again.words(9) == source.words(9)).all()
    assert again.fine_bits(2) == source.fine_bits(2)
    source.ratchet()
    again.ratchet()
    assert (again.words(9) == source.words(9)).all()
    assert key not in repr(state)


def test_a_seeded_source_repeats_itself_whatever_is_asked_between():
    one, two = Source(seed=1), Source(seed=1)
    one.words(3)
    one.ratchet()
    two.ratchet()
    two.ratchet()
    two.state()
    assert (one.words(4) == two.words(4)).all()


def test_round_keys_are_those_of_the_standard():
    """FIPS 197, appendix A.1, and the generator's own schedule of random keys."""
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    known = "d014f9a8c9ee2589e13f0cc8b6630ca6"
    assert source_module._round_keys([key])[0].tobytes()[-16:].hex() == known
    keys = [np.random.default_rng(k).bytes(16) for k in range(100)]
    for key, rounds in zip(keys, source_module._round_keys(keys), strict=True):
        ours = AESCounter(key=0)
        source_module._rekey(ours, rounds)
        theirs = AESCounter(key=int.from_bytes(key, "little"))
        assert (ours.random_raw(5) == theirs.random_raw(5)).all()
