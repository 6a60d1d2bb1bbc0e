"""A private running total in the memory of a device, for vectors as long as embedding tables.

It runs what `reticent.sums.CorrelatedMechanism` describes: noise in single precision, from ChaCha12 (Bernstein) keyed
by the operating system; the clean total as integer multiples of a unit, so that additions are exact; buffers and total
in one sweep over memory. Noise on the lattice is refused, because the rounding of a device's fused operations is not
certified. A key is used for one step and then replaced by its hash, so that a later state reveals nothing about earlier
noise.
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

from reticent import checks
from reticent.privacy import Guarantee, charge
from reticent.privacy.guarantee import with_caveats
from reticent.state.lease import Lease, claim
from reticent.sums import CorrelatedMechanism
from reticent.sums.toeplitz import Toeplitz

CAVEAT = "noise drawn on a device in single precision (ChaCha12, Box and Muller)"
_PURPOSE = b"device total"
_SOURCE = Path(__file__).with_name("total.cu")
_SPREAD, _MANY, _PIECES = 128, 16, 528
_MARGIN = 2.0**-19
"""Vectors are clipped to the norm less this share of it, so that checking in single precision finds no excess."""
_MOST_AT_ONCE = 2**15
_BITS = 32
_MOST = 2**30
"""This many vectors are at most 2^62 units long, which leaves room for the noise in 64 bits."""
_SMALLEST = 2.0**-90
_VERSION = 2
_TO_HOST = 2  # cudaMemcpyDeviceToHost
_POINTERS = "rows", "out", "keys", "total", "buffers", "parts", "factors", "seen", "done"
_PLAN = np.dtype(
    [*((name, "u8") for name in _POINTERS), ("steps", "i8"), ("dim", "i8"), ("limit", "f8"), ("key", "u8", 4),
     ("sigma", "f4"), ("unit", "f4"), ("per", "f4")], align=True,
)  # fmt: skip
"""`Plan` of the kernels: passing one argument by value is much faster than passing twenty."""


def next_key(key: bytes) -> bytes:
    """The key of the next step; it cannot be inverted."""
    return hashlib.blake2b(key, digest_size=32, person=_PURPOSE).digest()


@functools.cache
def _module(filter: Toeplitz, wide: int, long: bool) -> Any:
    """The compiled kernels. The filter is part of the code, because its numbers would otherwise occupy registers."""
    import cupy

    gap, weight = (
        ", ".join(f"{np.float32(value)!s}f" for value in values or (0.0,))
        for values in (filter.gap, filter.weight)
    )
    given = {"K": filter.buffers, "GAP": gap, "WEIGHT": weight, "WIDE": wide, "LONG": int(long)}
    head = "".join(f"#define {name} {value}\n" for name, value in given.items())
    module = cupy.RawModule(code=head + _SOURCE.read_text(), options=("--std=c++17",))
    return module.get_function("survey"), module.get_function("play"), module.get_function("draw")


class DeviceTotal:
    """A private running total on an NVIDIA device.

    Parameters
    ----------
    mechanism : CorrelatedMechanism
        Description of the total; its ``noise_precision`` must be ``"float"``.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None is keyed by the operating system.

    Attributes
    ----------
    steps : int
        Number of vectors so far.
    clipped : int
        Number of vectors that were scaled down to the norm. A diagnostic that reads private data.
    guarantee : Guarantee
        Guarantee for all totals together.

    See Also
    --------
    reticent.sums.Correlated : The same total on the host.
    """

    def __init__(self, mechanism: CorrelatedMechanism, *, seed: int | None = None) -> None:
        self._take_on(mechanism, seed is not None)
        key = os.urandom(32)
        if seed is not None:
            number = checks.integer(seed, "seed", low=0)
            key = hashlib.blake2b(str(number).encode(), digest_size=32).digest()
        import cupy

        charge(self.guarantee, f"correlated noise of dimension {mechanism.dim} on a device")
        self._key, self.steps, self.clipped, self._lease = key, 0, 0, Lease()
        shape = (len(mechanism.parameters.gap), mechanism.dim)
        self._hold(np.zeros(mechanism.dim, dtype=np.int64), cupy.zeros(shape, dtype=cupy.float32))

    def _hold(self, total: Any, buffers: Any) -> None:
        """Allocate what the device needs."""
        import cupy
        import cupyx

        self._total, self._buffers = cupy.asarray(total), cupy.asarray(buffers)
        self._done = cupy.zeros(_MOST_AT_ONCE, dtype=cupy.uint32)
        self._answer = cupyx.empty_pinned(2 * _MOST_AT_ONCE)
        self._ready: tuple[Any, ...] = (0, 0)
        plan = self._plan
        plan["total"], plan["buffers"] = self._total.data.ptr, self._buffers.data.ptr
        plan["done"] = self._done.data.ptr

    def _take_on(self, mechanism: CorrelatedMechanism, seeded: bool) -> None:
        if not isinstance(mechanism, CorrelatedMechanism):
            raise TypeError(
                f"mechanism must be a reticent.sums.CorrelatedMechanism, got {mechanism!r}"
            )
        if mechanism.noise_precision != "float":
            raise ValueError(
                "noise on a lattice is not certified on a device; use a mechanism with noise_precision='float' (the "
                "guarantee "
                "will say so), or run it on the host"
            )
        if mechanism.participation is not None:
            raise ValueError(
                "a total on a device does not support persons; use a mechanism without participation, or run it on "
                "the host"
            )
        if not _SMALLEST <= mechanism.norm <= 1.0 / _SMALLEST:
            raise ValueError(
                f"norm must be from {_SMALLEST:.2g} to {1.0 / _SMALLEST:.2g} on a device, got {mechanism.norm}; scale "
                "the vectors"
            )
        try:
            import cupy

            cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            raise ImportError(
                f"a total on a device needs CuPy and an NVIDIA device ({error})"
            ) from error
        noise = mechanism.parameters
        gap = tuple(float(np.float32(value)) for value in noise.gap)
        self.mechanism = mechanism = replace(mechanism, filter=Toeplitz(gap, noise.inverse_gap))
        guarantee = replace(mechanism.guarantee, seeded=seeded)
        self.guarantee: Guarantee = with_caveats(guarantee, [CAVEAT])
        unit = unit_of(mechanism)
        extra = 1.0 + rounded_weights(mechanism.parameters) + 2.0**-22
        self._plan = plan = np.zeros((), _PLAN)
        self._argument = plan.view(
            f"V{_PLAN.itemsize}"
        )  # the same memory; fields would be looked up
        plan["dim"], plan["unit"], plan["per"] = mechanism.dim, unit, 1.0 / unit
        plan["limit"] = mechanism.norm * (1.0 - _MARGIN)
        plan["sigma"] = mechanism.scale() * extra
        # what is added is measured with a relative error of 2^-21; its square in units
        self._most_units = (mechanism.norm / unit * (1.0 - 2.0**-21)) ** 2

    def error(self, t: int) -> float:
        """The standard deviation of each coordinate of the noise after t vectors.

        Parameters
        ----------
        t : int
            Number of vectors.
        """
        return self.mechanism.error(t)

    def add(self, vector: Any) -> Any:
        """Add one vector; returns the noisy total, as an array of the same library.

        Parameters
        ----------
        vector : array
            A float32 array of CuPy or PyTorch on the device.

        Returns
        -------
        array
            The noisy total.
        """
        return self._play(vector, 1)

    def run(self, vectors: Any) -> Any:
        """Add several vectors, one per row; returns all noisy totals.

        Parameters
        ----------
        vectors : array of shape (steps, dim)
            A float32 array of CuPy or PyTorch on the device.

        Returns
        -------
        array of shape (steps, dim)
            The noisy totals.
        """
        return self._play(vectors, 2)

    def _play(self, given: Any, axes: int) -> Any:
        import cupy

        rows = given
        if not isinstance(given, cupy.ndarray):
            if not hasattr(given, "__cuda_array_interface__"):
                raise TypeError(
                    f"vectors must be on the device, got {type(given)}; move them there"
                )
            rows = cupy.asarray(given)
        if rows.ndim != axes or rows.shape[-1] != self.mechanism.dim or rows.dtype.char != "f":
            raise ValueError(
                f"vectors must be float32 of dimension {self.mechanism.dim}, got {rows.dtype} of shape {rows.shape}"
            )
        rows = rows if rows.flags.c_contiguous else cupy.ascontiguousarray(rows)
        with self._lease.lock:
            if axes == 1:
                return _like(given, self._steps(rows, 1))
            self._check(len(rows))
            parts = [rows[k : k + _MOST_AT_ONCE] for k in range(0, len(rows), _MOST_AT_ONCE)]
            out = [self._steps(part, len(part)) for part in parts]
        return _like(given, out[0] if len(out) == 1 else cupy.concatenate(out or [rows]))

    def _check(self, count: int) -> None:
        if self._lease.furthest != self.steps:
            self._lease.check(self.steps, "total")
        if self.steps + count > _MOST:
            raise ValueError(
                f"a total on a device counts at most {_MOST:,} vectors; start another one"
            )
        if self.steps + count > self.mechanism.last_step:
            raise ValueError(
                f"{count} more steps exceed the horizon of {self.mechanism.last_step}; use a larger horizon, or "
                "horizon=None"
            )

    def _get_ready(self, wide: int, count: int) -> None:
        """Kernels for so many vectors and memory for their norms, kept from call to call."""
        import cupy

        kernels = _module(self.mechanism.parameters, wide, count > 1)[:2]
        room = cupy.empty(count * (_PIECES + 3))
        self._ready = wide, count, kernels, room
        self._plan["steps"] = count
        for name, start in (("seen", 0), ("factors", 2), ("parts", 3)):
            self._plan[name] = room.data.ptr + 8 * count * start

    def _steps(self, rows: Any, count: int) -> Any:
        import cupy

        self._check(count)
        dim, plan, address = self.mechanism.dim, self._plan, rows.data.ptr
        wide = 4 if dim % 4 == 0 and address % 16 == 0 else 1
        if (wide, count) != self._ready[:2]:
            self._get_ready(wide, count)
        survey, play = self._ready[2]
        plan["rows"] = address
        survey((_PIECES, count), (256,), (self._argument,))  # changes no state
        stream, answer = cupy.cuda.get_current_stream(), self._answer[: 2 * count]
        try:
            out = cupy.empty(rows.shape, dtype=cupy.float32)
            keys = [self._key]
            for _ in range(count):
                keys.append(next_key(keys[-1]))
            words = np.frombuffer(b"".join(keys[:-1]), dtype=np.uint64)
            if count == 1:
                plan["key"] = words
            else:
                words = cupy.asarray(words)
                plan["keys"] = words.data.ptr
        except BaseException:
            stream.synchronize()  # the next call, on whatever stream, uses the same buffers
            raise
        plan["out"] = out.data.ptr
        answer.fill(math.nan)
        # All memory is allocated; from here on the noise of these steps is spent, whatever happens.
        self._lease.furthest = self.steps + count
        self.steps += count
        self._key = keys[-1]
        play((-(-dim // (_SPREAD * _MANY)),), (_SPREAD,), (self._argument,))
        cupy.cuda.runtime.memcpyAsync(
            answer.ctypes.data, int(plan["seen"]), answer.nbytes, _TO_HOST, stream.ptr
        )
        stream.synchronize()
        norms, squares = answer[:count], answer[count:]
        longest, most = answer.tolist() if count == 1 else (norms.max(), squares.max())
        if not most <= self._most_units:
            self._lease.spoil()
            raise RuntimeError(
                "vectors were changed while they were being added; nothing is released, and this total cannot continue"
            )
        if not longest < math.inf:
            raise ValueError(
                f"vector {int(np.flatnonzero(~np.isfinite(norms))[0])} is not finite: it counts as a null record, "
                "and the "
                f"totals of these {count} steps are not released"
            )
        if longest > self.mechanism.norm:
            self.clipped += int(np.count_nonzero(norms > self.mechanism.norm))
        return out

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue, including the clean total: a secret."""
        with self._lease.lock:
            self._lease.check(self.steps, "total")
            return {
                "kind": type(self).__name__, "version": _VERSION, "mechanism": self.mechanism.to_dict(),
                "key": self._key.hex(), "steps": self.steps, "clipped": self.clipped, "id": self._lease.id,
                "seeded": self.guarantee.seeded, "total": self._total.get(), "buffers": self._buffers.get(),
            }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The total that :meth:`state` described, which continues; it was charged when it began.

        Parameters
        ----------
        state : dict
            The result of :meth:`state`.
        """
        if state.get("kind") != cls.__name__ or state.get("version") != _VERSION:
            raise ValueError(
                "this is not a state of a total on a device, or one of another version"
            )
        self = cls.__new__(cls)
        self._take_on(CorrelatedMechanism.from_dict(state["mechanism"]), bool(state["seeded"]))
        self._lease = claim(state["id"], state["steps"], "total")
        self._key, self.steps = bytes.fromhex(state["key"]), int(state["steps"])
        self.clipped = int(state["clipped"])
        self._hold(state["total"], state["buffers"])
        return self


def unit_of(mechanism: CorrelatedMechanism) -> float:
    """The unit of the clean total and of the noise, a power of two.

    It is 2^-32 times a number that is at least the norm, and at least 2^-52 times the largest standard deviation of the
    noise, of which 64 bits then hold more than a thousand: noise that did not fit would leave the total unprotected.


    Examples
    --------
    >>> import reticent
    >>> budget = reticent.Budget(1.0, 1e-6)
    >>> mechanism = CorrelatedMechanism(1, 8, budget=budget, noise_precision="float")
    >>> unit_of(mechanism) == 2.0**-32
    True
    """
    last = int(min(mechanism.last_step, _MOST))
    noise = max(mechanism.error(1), mechanism.error(last))
    size = max(mechanism.norm, noise * 2.0**-20)
    return float(2.0 ** (math.ceil(math.log2(size)) - _BITS))


def rounded_weights(filter: Toeplitz) -> float:
    """The relative increase of mu if every weight is rounded to single precision.

    Weights ``(1 + e_j) om_j`` give the filter ``b (1 + sum_j e_j h_j)`` with ``h_j = om_j x / ((1 - th_j x) b)``. Its
    inverse differs from that of ``b`` by a factor whose coefficients, except for the leading 1, have an absolute sum of
    at most ``E / (1 - E)``, where ``E = 2^-24 sum_j |h_j|``; by Young's inequality the norm of the innovations that a
    record changes grows by at most that share. ``|h_j|`` is bounded by partial fractions over the poles ``1 / ze_i``.


    Examples
    --------
    >>> print(f"{rounded_weights(Toeplitz((0.25,), (0.75,))):.2g}")
    4e-08
    """
    total = 0.0
    for j, weight in enumerate(filter.weight):
        for i, pole in enumerate(filter.inverse_gap):
            residue = weight
            for m, other in enumerate(filter.inverse_gap):
                ze, gap = 1.0 - pole, filter.gap[m]
                residue *= 1.0 if m == j else (gap - pole) / ze
                residue /= 1.0 if m == i else (other - pole) / ze
            total += abs(residue) / pole
    share = 2.0**-24 * total
    return share / (1.0 - share)


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
