"""A private running total in the memory of a device, for vectors as long as embedding tables.

It runs what `reticent.sums.CorrelatedMechanism` describes, in single precision: innovations from ChaCha12 (Bernstein),
keyed by the operating system; buffers and totals in one sweep over memory. The lattice is refused: what a device's
fused operations round is not certified. A key is used for one step and then replaced by a hash of it, so that a later
state tells nothing of earlier noise.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from reticent import _checks
from reticent.noise import door
from reticent.privacy import Guarantee, charge
from reticent.state.lease import Lease, claim
from reticent.sums import CorrelatedMechanism

CAVEAT = "noise drawn on a device in single precision (ChaCha12, Box and Muller)"
_PURPOSE = b"device total"
_SOURCE = Path(__file__).with_name("total.cu")
_SPREAD, _MANY, _PIECES = 128, 16, 264
_VERSION = 1


def next_key(key: bytes) -> bytes:
    """The key of the step after; there is no way back."""
    return hashlib.blake2b(key, digest_size=32, person=_PURPOSE).digest()


@functools.cache
def _module(buffers: int, wide: int, long: bool) -> Any:
    import cupy

    given = {"K": buffers, "T": "float", "WIDE": wide, "LONG": int(long)}
    head = "".join(f"#define {name} {value}\n" for name, value in given.items())
    return cupy.RawModule(code=head + _SOURCE.read_text(), options=("--std=c++17",))


class DeviceTotal:
    """A private running total on an NVIDIA device.

    Parameters
    ----------
    mechanism : CorrelatedMechanism
        What was decided before the first record; ``noise_precision`` must be ``"float"``.
    seed : int, optional
        Of the noise, for experiments; the guarantee says so. None is keyed by the operating system.

    Attributes
    ----------
    steps : int
        How many vectors there have been.
    clipped : int
        How many were scaled down to the norm. A diagnostic: it reads private data.
    guarantee : Guarantee
        What is promised.
    """

    def __init__(self, mechanism: CorrelatedMechanism, *, seed: int | None = None) -> None:
        self._take_on(mechanism, seed is not None)
        key = os.urandom(32)
        if seed is not None:
            number = _checks.integer(seed, "seed", low=0)
            key = hashlib.blake2b(str(number).encode(), digest_size=32).digest()
        import cupy

        charge(self.guarantee, f"correlated noise of dimension {mechanism.dim} on a device")
        self._key, self.steps, self.clipped, self._lease = key, 0, 0, Lease()
        self._total = cupy.zeros(mechanism.dim, dtype=cupy.float32)
        self._buffers = cupy.zeros(
            (len(mechanism.parameters.gap), mechanism.dim), dtype=cupy.float32
        )

    def _take_on(self, mechanism: CorrelatedMechanism, seeded: bool) -> None:
        if not isinstance(mechanism, CorrelatedMechanism):
            raise TypeError(
                f"mechanism must be a reticent.sums.CorrelatedMechanism, got {mechanism!r}"
            )
        if mechanism.noise_precision != "float":
            raise ValueError(
                "noise on a lattice is not certified on a device; describe the total with noise_precision='float', and "
                "the guarantee will say so, or run it on the host"
            )
        try:
            import cupy

            cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            raise ImportError(
                f"a total on a device needs CuPy and an NVIDIA device ({error})"
            ) from error
        self.mechanism = mechanism
        promise = replace(mechanism.guarantee, seeded=seeded)
        self.guarantee: Guarantee = replace(promise, caveats=(*promise.caveats, CAVEAT))
        gap, weight = mechanism.parameters.gap, mechanism.parameters.weight
        places = max(1, len(gap))
        self._filter = np.zeros(1, dtype=[("gap", "f8", (places,)), ("weight", "f8", (places,))])
        self._filter["gap"][0, : len(gap)], self._filter["weight"][0, : len(gap)] = gap, weight
        self._limit = door.limit_for(mechanism.norm, mechanism.dim)
        self._sigma = np.float32(mechanism.scale() * (1.0 + 2.0**-23))

    def error(self, t: int) -> float:
        """The standard deviation of each coordinate of the noise after t vectors."""
        return self.mechanism.error(t)

    def add(self, vector: Any) -> Any:
        """Add one vector; returns the noisy total, as an array of the same library.

        Parameters
        ----------
        vector : array
            Of CuPy or PyTorch, on the device, in single precision.
        """
        return self._play(vector, 1)[0]

    def run(self, vectors: Any) -> Any:
        """Add several vectors, one row each; returns all noisy totals.

        Parameters
        ----------
        vectors : array of shape (steps, dim)
            Of CuPy or PyTorch, on the device, in single precision.
        """
        return self._play(vectors, 2)

    def _play(self, given: Any, axes: int) -> Any:
        import cupy

        if not hasattr(given, "__cuda_array_interface__"):
            raise TypeError(f"vectors must lie on the device, got {type(given)}; move them there")
        rows = cupy.asarray(given)
        if rows.ndim != axes or rows.shape[-1] != self.mechanism.dim or rows.dtype != cupy.float32:
            raise ValueError(
                f"vectors must be float32 of dimension {self.mechanism.dim}, got {rows.dtype} of shape {rows.shape}"
            )
        rows = cupy.ascontiguousarray(rows.reshape(-1, self.mechanism.dim))
        with self._lease.lock:
            return _like(given, self._steps(rows))

    def _steps(self, rows: Any) -> Any:
        import cupy

        count, dim = rows.shape
        if self._lease.furthest != self.steps:
            self._lease.check(self.steps, "total")
        if self.steps + count > self.mechanism.last_step:
            raise ValueError(
                f"{count} more steps go beyond the horizon of {self.mechanism.last_step}; build it with a larger "
                "one, or with horizon=None"
            )
        if count == 0:
            return cupy.empty((0, dim), dtype=cupy.float32)
        blocks = -(-dim // (_SPREAD * _MANY))
        wide = 4 if dim % 4 == 0 and rows.data.ptr % 16 == 0 else 1
        module = _module(len(self._buffers), wide, count > 1)
        keys, key = [], self._key
        for _ in range(count):
            keys.append(key)
            key = next_key(key)
        words = cupy.asarray(np.frombuffer(b"".join(keys), dtype=np.uint32))
        warps = blocks * (_SPREAD // 32)
        out = cupy.empty((count, dim), dtype=cupy.float32)
        room = cupy.empty(count * (_PIECES + 1 + warps))
        parts, scaled = room[: count * _PIECES], room[count * _PIECES : count * (_PIECES + 1)]
        measured, seen = room[count * (_PIECES + 1) :], cupy.empty(2 * count)
        run = module.get_function
        # from here on the noise of these steps is spent, whatever happens
        self._lease.furthest = self.steps + count
        self._key, self.steps = key, self.steps + count
        run("squares")((_PIECES, count), (256,), (rows, np.int64(dim), parts))
        run("factors")(
            (count,), (32,), (parts, np.int32(_PIECES), np.float64(self._limit), scaled, seen)
        )
        run("play")(
            (blocks,), (_SPREAD,),
            (rows, np.int64(count), np.int64(dim), scaled, words, self._sigma, self._filter, self._total, self._buffers,
             out, measured),
        )  # fmt: skip
        run("close")((count,), (256,), (measured, np.int64(warps), seen[count:]))
        norms, added = np.sqrt(seen.get().reshape(2, count))
        if not (added <= self.mechanism.norm).all():
            self._lease.spoil()
            raise RuntimeError(
                "vectors were changed while they were being added; nothing is released, and this total cannot go on"
            )
        if not np.isfinite(norms).all():
            raise ValueError(
                f"vector {int(np.flatnonzero(~np.isfinite(norms))[0])} is not finite: it counts as a null record, and "
                f"the totals of these {count} steps are not released"
            )
        self.clipped += int((norms > self._limit).sum())
        return out

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on, the clean total included: a secret."""
        with self._lease.lock:
            self._lease.check(self.steps, "total")
            return {
                "kind": type(self).__name__, "version": _VERSION, "mechanism": self.mechanism.to_dict(),
                "key": self._key.hex(), "steps": self.steps, "clipped": self.clipped, "id": self._lease.id,
                "seeded": self.guarantee.seeded, "total": self._total.get(), "buffers": self._buffers.get(),
            }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The total that :meth:`state` described, which goes on; it was charged when it began."""
        if state.get("kind") != cls.__name__ or state.get("version") != _VERSION:
            raise ValueError(
                "this is not a state of a total on a device, or one of another version"
            )
        self = cls.__new__(cls)
        self._take_on(CorrelatedMechanism.from_dict(state["mechanism"]), bool(state["seeded"]))
        import cupy

        self._lease = claim(state["id"], state["steps"], "total")
        self._key, self.steps = bytes.fromhex(state["key"]), int(state["steps"])
        self.clipped = int(state["clipped"])
        self._total = cupy.asarray(state["total"])
        self._buffers = cupy.asarray(state["buffers"])
        return self


def _like(given: Any, made: Any) -> Any:
    """An array of the library that the caller brought."""
    if type(given).__module__.split(".")[0] == "torch":
        import torch

        return torch.from_dlpack(made)
    return made


def chacha_normals(key: bytes, block: int, sigma: float, rounds: int = 12) -> Any:
    """The sixteen normals of one block, on the host: what the device must draw. For tests.

    Examples
    --------
    >>> chacha_normals(bytes(32), 0, 1.0).shape
    (16,)
    """
    words = chacha_words(key, block, rounds)
    u = (words[::2].astype(np.float64) + 0.5) * 2.0**-32
    radius = sigma * np.sqrt(-2.0 * np.log(np.minimum(u, 0.99999994)))
    angle = math.pi * words[1::2].astype(np.float64) * 2.0**-31
    out = np.empty(16)
    out[::2], out[1::2] = radius * np.cos(angle), radius * np.sin(angle)
    return out


def chacha_words(key: bytes, block: int, rounds: int) -> Any:
    """One block of ChaCha (Bernstein 2008): sixteen words; 64-bit counter, nonce 0."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key)]
    start += [block & 0xFFFFFFFF, block >> 32, 0, 0]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for one, two, three, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[one] = (x[one] + x[two]) & 0xFFFFFFFF
            v = x[three] ^ x[one]
            x[three] = ((v << turn) | (v >> (32 - turn))) & 0xFFFFFFFF

    for _ in range(rounds // 2):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return np.array([(a + b) & 0xFFFFFFFF for a, b in zip(x, start, strict=True)], dtype=np.uint32)
