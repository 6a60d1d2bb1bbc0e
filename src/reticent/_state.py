"""A saved state: who may continue it, and how it is kept on disk.

Continuing one state twice would put the same noise on different data, or fresh noise on the same
data; either is a release nobody accounted for. So every total and learner holds a :class:`Lease`,
shared by all its twins in this process (restored, copied or unpickled), and only the first twin to
take a step may take it.

The one thing a reader would get wrong: a lease sees one process. A state file that is copied to
another machine and continued there is a fork that nobody can see; see docs/sharp-edges.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from reticent.privacy.errors import ForkError

FORMAT = 1
_MAGIC = b"reticent-state\n"
_leases: dict[str, Lease] = {}


class Lease:
    """How far the one stream of outputs that an id names has gone, in this process.

    ``lock`` is held while a step is taken, by whichever twin takes it.
    """

    __slots__ = ("furthest", "id", "lock")

    def __init__(self, identity: str | None = None, step: int = 0) -> None:
        self.id = identity or secrets.token_hex(16)
        self.furthest = step
        self.lock = threading.Lock()

    def publish(self) -> None:
        """Remember this lease: from now on there may be twins."""
        _leases[self.id] = self


def resume(identity: str, step: int) -> Lease | None:
    """The lease for a state at a given step, or None if the stream has already gone beyond it."""
    lease = _leases.get(identity)
    if lease is None:
        lease = Lease(identity, step)
        lease.publish()
    with lease.lock:  # else a twin that is taking a step right now could be set back
        if lease.furthest > step:
            return None
        lease.furthest = step
    return lease


def claim(identity: str, step: int, unit: str = "step") -> Lease:
    """The same, refused where the stream has already gone beyond it."""
    lease = resume(identity, step)
    if lease is None:
        raise ForkError(
            f"this state stands at {unit} {step}, but its stream was already continued beyond it; "
            "continuing it twice would reuse its noise on other data"
        )
    return lease


def overtaken(what: str, lease: Lease, step: int, unit: str = "step") -> ForkError:
    """What to say to an object whose twin has gone on."""
    return ForkError(
        f"this {what} stands at {unit} {step}, but its stream was already continued to {unit} "
        f"{lease.furthest} by a copy or a restored state; go on with that one"
    )


def copied(what: str) -> ForkError:
    """What to say to an object in the child of the process that made it."""
    return ForkError(
        f"this {what} was copied by a process fork; continuing it in the child would be a second "
        "release of the same data. Create it in the process that uses it, or hand over state() "
        "before the fork"
    )


def check_kind(state: Any, cls: type, version: int) -> None:
    """Refuse what is not a state of this class, or not of the version that is read here."""
    kind = state.get("kind") if isinstance(state, dict) else type(state).__name__
    if not isinstance(state, dict) or kind != cls.__name__:
        raise ValueError(f"this is not a state of {cls.__name__} but of {kind!r}")
    if state.get("version") != version:
        raise ValueError(
            f"the state has version {state.get('version')}, this version of Reticent reads {version}; "
            "continue it with the version that wrote it"
        )


def _split(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value))
        return {"__array__": [len(arrays) - 1, value.dtype.str, list(value.shape)]}
    if isinstance(value, dict):
        return {key: _split(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_split(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _join(value: Any, buffers: list[bytes]) -> Any:
    if isinstance(value, dict):
        if "__array__" in value:
            index, dtype, shape = value["__array__"]
            return np.frombuffer(buffers[index], np.dtype(dtype)).reshape(shape).copy()
        return {key: _join(item, buffers) for key, item in value.items()}
    return [_join(item, buffers) for item in value] if isinstance(value, list) else value


def dumps(state: dict[str, Any]) -> bytes:
    """A state as bytes: a JSON header, raw arrays and a checksum; no pickle, so reading runs no code."""
    arrays: list[np.ndarray] = []
    tree = _split(state, arrays)
    buffers = [array.tobytes() for array in arrays]
    header = json.dumps({"format": FORMAT, "sizes": [len(b) for b in buffers], "state": tree})
    body = len(header).to_bytes(8, "little") + header.encode() + b"".join(buffers)
    return _MAGIC + hashlib.sha256(body).digest() + body


def loads(data: bytes) -> dict[str, Any]:
    """The inverse of :func:`dumps`; a damaged or foreign file is a ValueError."""
    start = len(_MAGIC)
    body = data[start + 32 :]
    if not data.startswith(_MAGIC):
        raise ValueError("this is not a saved Reticent state: it does not begin with its mark")
    if hashlib.sha256(body).digest() != data[start : start + 32]:
        raise ValueError(
            "the saved state is damaged: its checksum does not match; use a whole copy"
        )
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    if header["format"] != FORMAT:
        raise ValueError(
            f"the saved state has format {header['format']}, this version of Reticent reads format {FORMAT}; "
            "continue it with the version that wrote it"
        )
    buffers, at = [], 8 + length
    for size in header["sizes"]:
        buffers.append(body[at : at + size])
        at += size
    return dict(_join(header["state"], buffers))


def save(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a state so that it is whole or absent after a crash, readable by its owner only (mode 0600).

    A state holds clean sums and the key of the noise: it is as secret as the data.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:  # mkstemp gives mode 0600
            file.write(dumps(state))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a state that :func:`save` wrote; warns if others could read it."""
    if os.stat(path).st_mode & 0o077:
        warnings.warn(
            f"{os.fspath(path)} can be read by others; it is as secret as the data: chmod 600 it",
            stacklevel=2,
        )
    return loads(Path(path).read_bytes())
