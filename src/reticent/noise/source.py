"""The source of randomness: AES in counter mode, secure unless a seed is given, with keys that only move forward.

Whoever draws from a source divides its stream into intervals (:meth:`Source.ratchet`). Each interval has keys of its
own, and all that is kept for the future is the key of the next one. With K_i the 32-byte key of interval i and H
keyed BLAKE2b with 64 bytes of output,

    H(K_i) = K_(i+1) | key of the words of interval i | key of its further bits,

so going back from K_(i+1) to K_i, or to anything drawn in interval i, means inverting BLAKE2b. Therefore
:meth:`Source.state` reveals what will be drawn and nothing of what was drawn: docs/saved-states.md.

A source is never copied by accident. After ``os.fork`` the child's unseeded sources get new keys from the operating
system, so that two processes never share noise. (A fork from C, of which Python is not told, is noticed at the next
draw.)

Considered: NumPy's PCG64 (fast, but predictable from its outputs), ChaCha20 of randomgen (16 ns per normal here, four
times the AES counter), the ``secrets`` module (a system call for each draw).
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from reticent import checks
from reticent.compiling import compiled

_PURPOSE = b"reticent ratchet"
_live: weakref.WeakSet[Source] = weakref.WeakSet()
_generation = 0


def generation() -> int:
    """The number of forks between the original process and this one; it changes in a child and never in a parent."""
    return _generation


def _after_fork() -> None:
    global _generation
    _generation += 1
    for source in list(_live):
        source._take_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@compiled
def _fill_normals(generator, out):
    for i in range(out.size):
        out[i] = generator.standard_normal()


# Keys ---------------------------------------------------------------------------------------------


def _substitutions() -> NDArray[np.uint8]:
    """The S-box of AES (FIPS 197, section 5.1.1): inverses in GF(256), then an affine map."""
    power, value = np.zeros(255, np.int64), 1
    for exponent in range(255):
        power[exponent] = value
        value ^= value << 1 ^ (0x11B if value & 0x80 else 0)  # times 3, which generates the field
    log = np.empty(256, np.int64)
    log[power] = np.arange(255)
    box = np.empty(256, np.uint8)
    for value in range(256):
        inverse = power[-log[value] % 255] if value else 0
        box[value] = 0x63
        for turn in range(5):
            box[value] ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
    return box


_BOX = _substitutions()


_TURNED = np.array([13, 14, 15, 12])


def _schedules(keys: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The round keys of AES-128 (FIPS 197, section 5.2) for each row of 16 bytes."""
    rounds = np.empty((11, len(keys), 16), np.uint8)
    words = rounds.view(np.uint32)
    rounds[0] = keys
    constant = 1
    for number in range(1, 11):
        first = _BOX.take(rounds[number - 1].take(_TURNED, axis=1))
        first[:, 0] ^= constant
        row = words[number]
        row[...] = words[number - 1]
        row[:, :1] ^= first.view(np.uint32)
        np.bitwise_xor.accumulate(row, axis=1, out=row)
        constant = constant << 1 ^ (0x11B if constant & 0x80 else 0)
    return rounds.transpose(1, 0, 2).reshape(-1, 176)


_AHEAD = 16  # intervals whose keys are computed at a time
_FRESH = AESCounter(
    key=0
).state  # the state of a generator that has not drawn yet, apart from its keys


def _round_keys(keys: list[bytes]) -> list[NDArray[np.uint64]]:
    rows = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16)
    return list(_schedules(rows).view(np.uint64))


def _rekey(generator: AESCounter, rounds: NDArray[np.uint64]) -> None:
    """Give a generator another key, which is several times faster than creating a new one."""
    generator.state = {**_FRESH, "s": {**_FRESH["s"], "seed": rounds}}


class Source:
    """A stream of random words.

    Parameters
    ----------
    seed : int or None
        ``None`` (the default) keys the generator with 32 bytes from the operating system. An integer gives the same
        stream each time, for experiments only, since anyone who knows the seed can subtract the noise.

    Examples
    --------
    >>> Source(seed=1).words(2) == Source(seed=1).words(2)
    array([ True,  True])
    >>> Source().seeded
    False

    A state leads forward only: it continues with the next interval.

    >>> source = Source()
    >>> drawn = source.words(2)
    >>> later = Source.from_state(source.state())
    >>> source.ratchet()
    >>> later.words(2) == source.words(2)
    array([ True,  True])
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None:
            seed = checks.integer(seed, "seed", low=0)
        self._set_up(seed is not None)
        if seed is None:
            self._next = os.urandom(32)
        else:
            self._next = np.random.SeedSequence(seed).generate_state(4, np.uint64).tobytes()

    def _set_up(self, seeded: bool) -> None:
        self.seeded = seeded
        self._process = os.getpid()
        self._coarse = AESCounter(key=0)
        # `fine` provides the bits beyond the first 64 of a draw, and is read only if those do not settle it.
        self._fine = AESCounter(key=0)
        self._fine_key: bytes | None = None
        self._begun = False
        self._turn = threading.Lock()
        self._ahead: list[tuple[bytes, bytes, NDArray[np.uint64]]] = []
        self._generator = np.random.Generator(self._coarse)
        _live.add(self)

    def _take_over(self) -> None:
        """In a new process: get new keys, or with a seed keep the same stream, and replace locks that nobody holds."""
        coarse, fine = _freeze(self._coarse.state), _freeze(self._fine.state)
        begun, key = self._begun, self._fine_key
        self._set_up(self.seeded)
        if self.seeded:
            self._coarse.state, self._fine.state = coarse, fine
            self._begun, self._fine_key = begun, key
        else:
            self._next = os.urandom(32)

    def _ready(self) -> None:
        """Before a draw, make sure that the source belongs to this process and that an interval has begun."""
        if self._process != os.getpid():
            self._take_over()
        if not self._begun:
            with self._turn:
                if not self._begun:  # else another thread has begun it
                    self._advance()

    def ratchet(self) -> None:
        """Begin the next interval; after that, nothing that was drawn before can be drawn again."""
        if self._process != os.getpid():
            self._take_over()
        with self._turn:
            self._advance()

    def _advance(self) -> None:
        if not self._ahead:
            self._look_ahead()
        self._next, self._fine_key, rounds = self._ahead.pop()
        _rekey(self._coarse, rounds)
        self._begun = True

    def _look_ahead(self) -> None:
        """Compute the keys of the next intervals, the nearest last."""
        chain, parts = self._next, []
        for _ in range(_AHEAD):
            out = hashlib.blake2b(key=chain, digest_size=64, person=_PURPOSE).digest()
            chain = out[:32]
            parts.append(out)
        rounds = _round_keys([out[32:48] for out in parts])
        self._ahead = [
            (out[:32], out[48:], row) for out, row in zip(parts[::-1], rounds[::-1], strict=True)
        ]

    @property
    def generator(self) -> np.random.Generator:
        """The same words through NumPy's interface, for simulations and for random numbers that are not noise."""
        self._ready()
        return self._generator

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next uniformly random 64-bit words of the interval.

        Parameters
        ----------
        count : int
            Number of words.
        """
        self._ready()
        return np.asarray(self._coarse.random_raw(count))

    def fine_bits(self, words: int) -> int:
        """A uniformly random integer, from the interval's second stream.

        Parameters
        ----------
        words : int
            Length of the integer in words of 64 bits.
        """
        self._ready()
        with self._fine.lock:
            if self._fine_key is not None:
                _rekey(self._fine, _round_keys([self._fine_key])[0])
                self._fine_key = None
        return int.from_bytes(np.asarray(self._fine.random_raw(words)).tobytes(), "little")

    def normals(self, out: NDArray[np.float64]) -> None:
        """Fill an array with normals in double precision, for simulations.

        Parameters
        ----------
        out : array
            The C-contiguous array of doubles to fill.
        """
        if not out.flags.c_contiguous:
            raise ValueError(
                "out must be C-contiguous, otherwise the normals would be written to a copy of it; "
                "pass np.empty(shape) and copy from that"
            )
        self._ready()
        with self._coarse.lock:
            _fill_normals(self._generator, out.reshape(-1))

    def state(self, *, within: bool = False) -> dict[str, Any]:
        """The state with which the next interval begins.

        It is a secret, but reveals nothing of what was drawn so far.

        Parameters
        ----------
        within : bool
            Whether to continue within the current interval, at its current position. Such a state reveals what was
            drawn in this interval, and nothing of earlier ones.
        """
        if within:
            self._ready()
        elif self._process != os.getpid():
            self._take_over()
        state: dict[str, Any] = {"seeded": self.seeded, "next": self._next.hex()}
        if within:
            with self._coarse.lock, self._fine.lock:
                key = self._fine_key
                state["coarse"] = _freeze(self._coarse.state)
                state["fine"] = _freeze(self._fine.state) if key is None else key.hex()
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Source:
        """A source that continues where a state was taken.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned. The source continues with the next interval, or, for a state taken with
            ``within=True``, within the interval in which it was taken.
        """
        source = cls.__new__(cls)
        source._set_up(bool(state["seeded"]))
        source._next = bytes.fromhex(state["next"])
        if "coarse" in state:
            source._begun = True
            source._coarse.state = _freeze(state["coarse"])
            if isinstance(state["fine"], str):
                source._fine_key = bytes.fromhex(state["fine"])
            else:
                source._fine.state = _freeze(state["fine"])
        return source

    def __copy__(self) -> Source:
        raise TypeError("a random source cannot be copied: the copy would repeat the same noise")

    def __deepcopy__(self, memo: object) -> Source:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("a random source cannot be pickled; use state(), and treat it as a secret")


def _freeze(value: Any) -> Any:
    """A bit generator's state as nested dicts of copied arrays and numbers."""
    if isinstance(value, dict):
        return {key: _freeze(item) for key, item in value.items()}
    return np.array(value) if isinstance(value, np.ndarray) else value
