"""Encryption at rest: secrets in the store are encrypted with AES-GCM under a key that is kept elsewhere.

A key ring holds the current key and, while the key is being changed, the previous one. Values are encrypted with
derived keys, a new one for each process and each 2^28 values, so that random nonces do not collide (NIST SP 800-38D,
section 8.3, allows 2^32). An encrypted value is bound to its place: moved to another row it cannot be decrypted.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reticent.service.store import Reading

KEY_BYTES = 32
_NAME, _SALT, _NONCE = 8, 16, 12
_MOST = 2**28
VARIABLE = "RETICENT_SERVICE_KEY"


class Damaged(ValueError):
    """An encrypted value that cannot be decrypted."""


class Ring:
    """A ring of keys: the first encrypts, and all decrypt.

    Parameters
    ----------
    keys : list of bytes
        Keys of 32 bytes each; the first is the current one.


    Examples
    --------
    >>> ring = Ring([bytes(32)])
    >>> ring.open(ring.seal(b"sums", b"stream 1"), b"stream 1")
    b'sums'
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"keys must be one or more of {KEY_BYTES} bytes each")
        self._keys = {_name(key): key for key in keys}
        self.name = _name(keys[0])
        self._ciphers: dict[bytes, AESGCM] = {}
        self._begin()

    def _begin(self) -> None:
        self._head = self.name + os.urandom(_SALT)
        self._sealed = 0

    def _cipher(self, head: bytes) -> AESGCM:
        found = self._ciphers.get(head)
        if found is None:
            key = self._keys.get(head[:_NAME])
            if key is None:
                raise Damaged("it was encrypted under a key that is not available")
            derived = hashlib.blake2b(
                head[_NAME:], key=key, digest_size=KEY_BYTES, person=b"reticent seal"
            )
            if len(self._ciphers) > 4096:
                self._ciphers.clear()
            found = self._ciphers[head] = AESGCM(derived.digest())
        return found

    def seal(self, data: bytes, place: bytes) -> bytes:
        """Encrypt a value for one place."""
        if self._sealed == _MOST:
            self._begin()
        self._sealed += 1
        nonce = os.urandom(_NONCE)
        return self._head + nonce + self._cipher(self._head).encrypt(nonce, data, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """Decrypt what :meth:`seal` made for the same place."""
        start = _NAME + _SALT
        cipher = self._cipher(sealed[:start])
        try:
            return cipher.decrypt(sealed[start : start + _NONCE], sealed[start + _NONCE :], place)
        except InvalidTag:
            raise Damaged("it was changed, or belongs elsewhere") from None


def state_place(stream: int) -> bytes:
    """The place to which the encrypted state of a stream is bound."""
    return b"state of stream %d" % stream


def person_place(stream: int, generation: int, part: int) -> bytes:
    """The place to which an encrypted part of a table is bound."""
    return b"persons of stream %d, %d, %d" % (stream, generation, part)


def unopened(rows: Reading, ring: Ring) -> list[str]:
    """The streams with values that cannot be decrypted."""
    bad = []
    for stream in rows.streams():
        state = rows.state(stream.id)
        if state is None:  # the stream was deleted
            continue
        try:
            ring.open(state.sealed, state_place(stream.id))
            for generation, part, sealed in rows.persons(stream.id):
                ring.open(sealed, person_place(stream.id, generation, part))
        except Damaged:
            bad.append(stream.name)
    return bad


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_NAME, person=b"reticent ring").digest()


def read_key(text: str, where: str) -> bytes:
    """Parse a key of 64 hexadecimal digits."""
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


def key_from_file(path: Path) -> bytes:
    """Read a key from a file."""
    try:
        return read_key(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the key file {path} cannot be read: {error}") from None


def new_key_file(path: Path) -> bytes:
    """Create a key in a new file that only its owner can read."""
    if path.exists():
        raise FileExistsError(f"{path} exists already; a new key needs a new file")
    key = os.urandom(KEY_BYTES)
    # atomically: half a key would block the next start
    draft = path.with_name(path.name + ".draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(key.hex() + "\n")
        out.flush()
        os.fsync(handle)
    draft.rename(path)
    return key


def named_key(file: Path | None) -> bytes | None:
    """The key from a named file, or from the environment; None if there is neither."""
    if file is not None:
        return key_from_file(file)
    named = os.environ.get(VARIABLE)
    return read_key(named, f"the environment variable {VARIABLE}") if named else None


def master_key(file: Path | None, default: Path, fresh: bool) -> bytes:
    """The service's key: from a named file, from the environment, or from the default file.

    Parameters
    ----------
    file : path or None
        File named on the command line.
    default : path
        Default location of the key; created with mode 0600 if the folder is new.
    fresh : bool
        Whether nothing has been encrypted yet, so that a new key may be created.
    """
    named = named_key(file)
    if named is not None:
        return named
    if default.exists():
        return key_from_file(default)
    if not fresh:
        raise ValueError(
            f"the key of this folder is missing: there is no {default}; name its file with --key-file, "
            f"or put it into the environment variable {VARIABLE}"
        )
    return new_key_file(default)
