"""State files, encrypted under a key that is replaced with every save; after a crash a file is complete or absent.

A state contains exact sums, so its file is as secret as the data, and old versions of the file (in the blocks of a
disk, a journal or a backup) are as secret as old data. Each version is therefore encrypted (AES-GCM) under its own
key, which is kept in a second file beside it, NAME.key, and is overwritten in place once the next version is safe.
Old versions without their key reveal nothing; docs/saved-states.md says what does.

The key file has two slots. A save writes a new key to the spare slot, then replaces the state file in one step, then
overwrites the old key, each synced before the next. Whatever a crash leaves can be opened with one of the two keys,
and the next save or load overwrites the other. All this happens under a lock on the key file, so a file NAME.part
that is found there was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reticent.state.locks import lock

FORMAT = 2
_MAGIC = b"reticent-state\n"
_SEALED = b"reticent-sealed\n"
_FORMER = b"tacit-state\n"  # before the project was renamed
_KEY = 32
_NAME = 16  # bytes of a key's hash, by which a state file says which key opens it
_SLOTS = (
    0,
    4096,
)  # offsets in the key file, in different blocks, so that writing one cannot damage the other
_ONCE = bytes(12)  # the nonce may be fixed, because a key encrypts only one message


def check_kind(state: Any, wanted: type | str, version: int) -> None:
    """Refuse what is not a state of this class or kind, or not of the version that is read here."""
    name = wanted if isinstance(wanted, str) else wanted.__name__
    kind = state.get("kind") if isinstance(state, dict) else type(state).__name__
    if not isinstance(state, dict) or kind != name:
        raise ValueError(f"state must be a state of {name}, got one of {kind!r}")
    if state.get("version") != version:
        raise ValueError(
            f"the state has version {state.get('version')}, but this version of Reticent reads {version}; "
            "continue it with the version of Reticent that wrote it"
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


def _refuse_former(head: bytes, what: str) -> None:
    """Refuse what begins like a state of the project under its former name."""
    if head.startswith(_FORMER):
        raise ValueError(
            f"{what} was saved by Tacit, the former name of this project, and cannot be continued here; continue it "
            "with the version that wrote it, or start anew, which spends another budget"
        )


def dumps(state: dict[str, Any]) -> bytes:
    """A state as bytes, not encrypted: a JSON header and raw arrays.

    It uses no pickle, so reading it runs no code.
    """
    arrays: list[np.ndarray] = []
    tree = _split(state, arrays)
    buffers = [array.tobytes() for array in arrays]
    header = json.dumps({"format": FORMAT, "sizes": [len(b) for b in buffers], "state": tree})
    body = len(header).to_bytes(8, "little") + header.encode() + b"".join(buffers)
    return _MAGIC + hashlib.sha256(body).digest() + body


def loads(data: bytes) -> dict[str, Any]:
    """The inverse of :func:`dumps`; raises ValueError for data that are damaged or of another kind."""
    start = len(_MAGIC)
    body = data[start + 32 :]
    _refuse_former(data, "this state")
    if not data.startswith(_MAGIC):
        raise ValueError("this is not a saved Reticent state: it does not begin with its signature")
    if hashlib.sha256(body).digest() != data[start : start + 32]:
        raise ValueError(
            "the saved state is damaged: its checksum does not match; use an intact copy"
        )
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    if header["format"] != FORMAT:
        raise ValueError(
            f"the saved state has format {header['format']}, but this version of Reticent reads format {FORMAT}; "
            "continue it with the version of Reticent that wrote it"
        )
    buffers, at = [], 8 + length
    for size in header["sizes"]:
        buffers.append(body[at : at + size])
        at += size
    return dict(_join(header["state"], buffers))


class File:
    """A state on disk, as written by :func:`reticent.save_state` and read by :func:`reticent.load_state`.

    Parameters
    ----------
    path : str or path
        Path of the state. Its key is beside it, in a file of the same name with ``.key`` appended. Both can be read
        by their owner only (mode 0600).

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = File(folder.name + "/numbers.state")
    >>> file.save({"number": 1})
    >>> file.save({"number": 2})
    >>> file.load()
    {'number': 2}
    >>> file.erase()
    >>> file.exists()
    False
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.key_path = self.path.with_name(self.path.name + ".key")
        self._part = self.path.with_name(self.path.name + ".part")

    def __repr__(self) -> str:
        return f"File({str(self.path)!r})"

    def exists(self) -> bool:
        """Whether there is a state."""
        return self.path.exists()

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state. When this returns, it has reached the disk; if it raises, the old state is still there.

        Parameters
        ----------
        state : dict
            The result of the method ``state()`` of a stream.
        """
        data = dumps(state)
        with self._keys(create=True) as (keys, _):
            with contextlib.suppress(FileNotFoundError):
                self._part.unlink()
            live = self._live(keys)
            spare = 1 if live == 0 else 0
            key = AESGCM.generate_key(8 * _KEY)
            _write(keys, spare, key)
            self._replace(_SEALED + _name(key) + _encrypt(key, data))
            _write(keys, 1 - spare, bytes(_KEY))

    def _replace(self, data: bytes) -> None:
        try:
            handle = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, 0o600)  # whatever the umask
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(self._part, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._part.unlink()
            raise
        sync(self.path.parent)

    def load(self) -> dict[str, Any]:
        """Read the state; warn if other users could read it or its key."""
        with open(self.path, "rb") as file:
            head = file.read(len(_MAGIC))
        _refuse_former(head, str(self.path))
        if head == _MAGIC:  # from before there were keys
            raise ValueError(
                f"{self.path} was saved by an earlier version of Reticent and cannot be read by this version; "
                "continue it with the version that wrote it"
            )
        with self._keys(create=False) as (keys, writable):
            for path in (self.path, self.key_path):
                if os.stat(path).st_mode & 0o077:
                    warnings.warn(
                        f"{path} can be read by other users; it is as secret as the data: chmod 600 {path}",
                        stacklevel=3,
                    )
            data = self.path.read_bytes()
            if not data.startswith(_SEALED):
                raise ValueError(
                    f"{self.path} is not a saved Reticent state: it does not begin with its signature"
                )
            live = self._live(keys)
            if live is None:
                raise ValueError(
                    f"{self.key_path} does not contain the key of this state; use a state file and a key file "
                    "that were copied at the same moment"
                )
            state = loads(_decrypt(_read(keys, live), data[len(_SEALED) + _NAME :]))
            if writable:  # clean up after a crash
                if any(_read(keys, 1 - live)):
                    _write(keys, 1 - live, bytes(_KEY))
                with contextlib.suppress(FileNotFoundError):
                    self._part.unlink()
        return state

    def erase(self) -> None:
        """Remove the state, its key first, so that a copy of the state file alone cannot be read.

        No error if it is absent.
        """
        if self.key_path.exists():
            with self._keys(create=False) as (keys, _):
                for slot in (0, 1):
                    _write(keys, slot, bytes(_KEY))
        for path in (self.path, self._part, self.key_path):
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _keys(self, *, create: bool) -> Iterator[tuple[int, bool]]:
        """The key file, locked, and whether it can be written to."""
        fresh, writable = create and not self.key_path.exists(), True
        try:
            handle = os.open(self.key_path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError:
            if create:
                raise
            raise ValueError(
                f"the key of this state is missing: {self.key_path} does not exist. Restore it: a state cannot be "
                "read without its key"
            ) from None
        except (PermissionError, OSError):
            if create:
                raise
            handle, writable = os.open(self.key_path, os.O_RDONLY), False
        try:
            lock(handle)
            if fresh:
                os.fchmod(handle, 0o600)
                os.fsync(handle)
                sync(self.path.parent)
            yield handle, writable
        finally:
            os.close(handle)

    def _live(self, keys: int) -> int | None:
        """The slot whose key opens the state that is there; None if neither does."""
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            head = file.read(len(_SEALED) + _NAME)
            for slot in (0, 1):
                if head == _SEALED + _name(_read(keys, slot)):
                    return slot
        return None


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_NAME, person=b"reticent key").digest()


def _read(keys: int, slot: int) -> bytes:
    return os.pread(keys, _KEY, _SLOTS[slot]).ljust(_KEY, b"\0")


def _write(keys: int, slot: int, key: bytes) -> None:
    if os.pwrite(keys, key, _SLOTS[slot]) != len(key):
        raise OSError(
            "the key of a state could not be written completely; check whether the disk is full"
        )
    os.fsync(keys)


def _encrypt(key: bytes, data: bytes) -> bytes:
    return AESGCM(key).encrypt(_ONCE, data, _SEALED)


def _decrypt(key: bytes, data: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(_ONCE, data, _SEALED)
    except InvalidTag:
        raise ValueError("the saved state is damaged; use an intact copy") from None


def sync(path: Path) -> None:
    """Wait until a file, or the list of the files in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a state so that after a crash it is complete or absent, readable by its owner only.

    A state contains exact sums and the key of future noise: it is as secret as the data. It is encrypted under a key
    that is replaced with every save and kept beside it, in ``PATH.key``; move both together.

    Parameters
    ----------
    state : dict
        What the method ``state()`` of a total, a learner, a bandit or an estimator returned.
    path : str or path
        Where to write it; an existing state is replaced.

    See Also
    --------
    reticent.load_state : Read it again.
    reticent.committed : Save every state before its outputs are seen.

    Examples
    --------
    >>> import tempfile
    >>> import reticent
    >>> folder = tempfile.TemporaryDirectory()
    >>> total = reticent.sums.Tree(2, 1000, budget=reticent.Budget(1.0, 1e-6))
    >>> reticent.save_state(total.state(), folder.name + "/total.state")
    >>> total = reticent.sums.Tree.from_state(reticent.load_state(folder.name + "/total.state"))
    >>> total.steps
    0
    >>> folder.cleanup()
    """
    if not isinstance(state, dict):
        raise TypeError(
            f"state must be what the method state() returns, got a {type(state).__name__}; pass its state(), as in "
            "save_state(learner.state(), path)"
        )
    File(path).save(state)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a state that :func:`save` wrote; warn if other users could read it.

    Parameters
    ----------
    path : str or path
        Path of the state; its key is read from ``PATH.key``.

    Returns
    -------
    dict
        The state, for ``from_state`` of the class that it belongs to.

    Raises
    ------
    ValueError
        The file is damaged, is not a state, is of another version, or its key is missing.

    See Also
    --------
    reticent.save_state : Write a state.
    """
    return File(path).load()
