"""Where randomness comes from: one keyed AES counter generator per source, secure unless a seed is given.

The one thing a reader would get wrong: a source is never copied by accident. After ``os.fork`` the child's
unseeded sources are keyed anew from the operating system, so that two processes never share noise (a fork that Python
does not hear of, from C, is noticed at the next draw); whoever keeps noise in a buffer asks :func:`generation` whether
a fork has happened since.

Considered: NumPy's PCG64 (fast, but predictable from its outputs), ChaCha20 of randomgen (16 ns a normal here, four
times the AES counter), the ``secrets`` module (a system call for each draw).
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from reticent import _checks
from reticent._compile import compiled

_live: weakref.WeakSet[Source] = weakref.WeakSet()
_generation = 0


def generation() -> int:
    """How often this process has been forked off; it changes in a child and never in a parent."""
    return _generation


def _after_fork() -> None:
    global _generation
    _generation += 1
    for source in list(_live):
        source._take_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@compiled
def _fill_normals(generator, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = generator.standard_normal()


class Source:
    """A stream of random words.

    Parameters
    ----------
    seed : int or None
        ``None`` keys the generator with 32 bytes from the operating system. A whole number gives the same
        stream each time: for experiments only, since whoever knows the seed can take the noise off again.

    Examples
    --------
    >>> Source(seed=1).words(2) == Source(seed=1).words(2)
    array([ True,  True])
    >>> Source().seeded
    False
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None:
            seed = _checks.integer(seed, "seed", low=0)
        self.seeded = seed is not None
        # `fine` holds the bits beyond the first 64 of a draw; it is read only when those do not decide.
        if seed is None:
            self._rekey()
        else:
            keys = np.random.SeedSequence(seed).generate_state(4, np.uint64)
            self._key(int(keys[0]) | int(keys[1]) << 64, int(keys[2]) | int(keys[3]) << 64)
        _live.add(self)

    def _rekey(self) -> None:
        entropy = os.urandom(32)
        self._key(int.from_bytes(entropy[:16], "little"), int.from_bytes(entropy[16:], "little"))

    def _take_over(self) -> None:
        """In a new process: keys of its own, or with a seed the same stream, and locks that nobody holds."""
        if self.seeded:
            coarse, fine = _freeze(self._coarse.state), _freeze(self._fine.state)
            self._key(0, 0)
            self._coarse.state, self._fine.state = coarse, fine
        else:
            self._rekey()

    def _own(self) -> None:
        if self._process != os.getpid():
            self._take_over()

    def _key(self, coarse: int, fine: int) -> None:
        self._process = os.getpid()
        self._coarse = AESCounter(key=coarse)
        self._fine = AESCounter(key=fine)
        self.generator = np.random.Generator(self._coarse)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` uniformly random 64-bit words."""
        self._own()
        return np.asarray(self._coarse.random_raw(count))

    def fine_bits(self, words: int) -> int:
        """A uniformly random whole number of ``64 * words`` bits, from the second stream."""
        self._own()
        return int.from_bytes(np.asarray(self._fine.random_raw(words)).tobytes(), "little")

    def normals(self, out: NDArray[np.float64]) -> None:
        """Fill a contiguous array with normals in double precision: for simulations."""
        if not out.flags.c_contiguous:
            raise ValueError(
                "out must be C-contiguous, else the normals would land in a copy of it; "
                "pass np.empty(shape) and copy from that"
            )
        self._own()
        with self._coarse.lock:
            _fill_normals(self.generator, out.reshape(-1))

    def state(self) -> dict[str, Any]:
        """Everything needed to go on with the same stream; as secret as the noise itself."""
        self._own()
        with self._coarse.lock, self._fine.lock:
            return {
                "seeded": self.seeded,
                "coarse": _freeze(self._coarse.state),
                "fine": _freeze(self._fine.state),
            }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Source:
        source = cls.__new__(cls)
        source.seeded = bool(state["seeded"])
        source._key(0, 0)
        source._coarse.state = _thaw(state["coarse"])
        source._fine.state = _thaw(state["fine"])
        _live.add(source)
        return source

    def __copy__(self) -> Source:
        raise TypeError("a random source cannot be copied: the copy would repeat the same noise")

    def __deepcopy__(self, memo: object) -> Source:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("a random source cannot be pickled: use state() and treat it as a secret")


def _freeze(value: Any) -> Any:
    """A bit generator's state as nested dicts of arrays and numbers, detached from the generator."""
    if isinstance(value, dict):
        return {key: _freeze(item) for key, item in value.items()}
    return np.array(value) if isinstance(value, np.ndarray) else value


_thaw = _freeze
