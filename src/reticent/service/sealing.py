"""Encryption at rest: what is secret in the store is sealed with AES-GCM under a key that is kept elsewhere.

A key ring holds the key in use and, during a change of keys, older ones. Each sealed value names its key and
is bound to its place, so that a value that was moved to another row does not open.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NAME = 8
_NONCE = 12
VARIABLE = "RETICENT_SERVICE_KEY"


class Damaged(ValueError):
    """A sealed value that does not open."""


class Ring:
    """Keys by name, of which the first seals and all open.

    Parameters
    ----------
    keys : sequence of bytes
        Each 32 bytes; the first is the one in use.

    Examples
    --------
    >>> ring = Ring([bytes(32)])
    >>> ring.open(ring.seal(b"sums", b"stream 1"), b"stream 1")
    b'sums'
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"keys must be one or more of {KEY_BYTES} bytes each")
        self._ciphers = {_name(key): AESGCM(key) for key in keys}
        self._first = _name(keys[0])
        self._secret = keys[0]

    @property
    def name(self) -> bytes:
        """Which key seals: a hash that says nothing of the key."""
        return self._first

    def seal(self, data: bytes, place: bytes) -> bytes:
        """Encrypt for one place."""
        nonce = os.urandom(_NONCE)
        return self._first + nonce + self._ciphers[self._first].encrypt(nonce, data, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """Decrypt what :meth:`seal` made for the same place."""
        cipher = self._ciphers.get(sealed[:_NAME])
        if cipher is None:
            raise Damaged("it was sealed under a key that is not at hand")
        try:
            return cipher.decrypt(sealed[_NAME : _NAME + _NONCE], sealed[_NAME + _NONCE :], place)
        except InvalidTag:
            raise Damaged("its seal is broken") from None

    def derive(self, purpose: bytes) -> bytes:
        """A key for one other purpose, from the key in use."""
        return hashlib.blake2b(purpose, key=self._secret, digest_size=KEY_BYTES).digest()


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_NAME, person=b"reticent ring").digest()


def read_key(text: str, where: str) -> bytes:
    """A key as 64 hexadecimal digits."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"{where} must hold a key of {2 * KEY_BYTES} hexadecimal digits; "
            "`openssl rand -hex 32` makes one"
        )
    return key


def master_key(file: Path | None, default: Path, fresh: bool) -> bytes:
    """The service's key: from a file that was named, from the environment, or from the default file.

    Parameters
    ----------
    file : path or None
        A file that the command line names.
    default : path
        Where the key is otherwise; created with mode 0600 if the folder is fresh.
    fresh : bool
        Whether nothing has been sealed yet, so that a new key may be made.
    """
    if file is not None:
        return read_key(file.read_text(encoding="utf-8"), str(file))
    named = os.environ.get(VARIABLE)
    if named:
        return read_key(named, f"the environment variable {VARIABLE}")
    if not default.exists():
        if not fresh:
            raise ValueError(
                f"the key of this folder is missing: there is no {default}; name its file with --key-file, "
                f"or put it into the environment variable {VARIABLE}"
            )
        handle = os.open(default, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(os.urandom(KEY_BYTES).hex() + "\n")
            out.flush()
            os.fsync(handle)
    return read_key(default.read_text(encoding="utf-8"), str(default))
