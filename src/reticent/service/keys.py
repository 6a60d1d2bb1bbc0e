"""Keys that identify repeated records and batches, and digests that identify their content.

A key that is a UUID of version 7 contains the time at which it was made. It is stored unchanged, in order of time, and
forgotten after a stated period; an older key is refused, because nobody could say whether it was counted. Any other key
has no age and is never forgotten; a keyed hash of it is stored, because ids are often about people.

The clock only decides what is forgotten. What has been forgotten is recorded, and a key from before that time is
refused whatever the clock says later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

_TIMED, _TICKET, _OTHER = b"\x07", b"\x01", b"\x00"
_SIZE = 16
_MANY = b"\x01"  # prefix of digests of many records; other digests, and those of earlier versions, have none
_PIECE = 2**30  # number of bytes that are authenticated at a time
_FEW = 8  # up to this many keys, packing one by one is faster
_DASHES = (8, 13, 18, 23)
_DIGITS = [place for place in range(36) if place not in _DASHES]
MOST = 200
"""Largest length of a key, in characters."""


class Keys:
    """Encoding of the keys of one service.

    Parameters
    ----------
    secret : bytes
        Key of the hashes.

    Examples
    --------
    >>> keys = Keys(bytes(32))
    >>> keys.pack("018bcfe5-687b-7000-8000-000000000000")[:1]
    b'\\x07'
    >>> len(keys.pack("visit 17"))
    17
    """

    def __init__(self, secret: bytes) -> None:
        self._plain = hashlib.blake2b(key=secret, digest_size=_SIZE, person=b"reticent key")
        self._body = hashlib.blake2b(key=secret, digest_size=_SIZE, person=b"reticent body")
        self._mark = hashlib.blake2b(key=secret, digest_size=32, person=b"reticent mark")
        self._many = AESGCM(
            hashlib.blake2b(key=secret, digest_size=32, person=b"reticent many").digest()
        )

    def pack(self, key: str) -> bytes:
        """A key in the form in which it is stored."""
        if len(key) == 36 and key[14] == "7" and key[8] == key[13] == key[18] == key[23] == "-":
            try:
                number = bytes.fromhex(key.replace("-", ""))
            except ValueError:
                number = b""
            if len(number) == _SIZE:
                return _TIMED + number
        hashed = self._plain.copy()
        hashed.update(key.encode("utf-8", "surrogatepass"))
        return _OTHER + hashed.digest()

    def ticket(self, number: int) -> bytes:
        """The key of a bandit's ticket, which no key that a client chooses is equal to."""
        return _TICKET + number.to_bytes(_SIZE)

    def pack_all(self, keys: list[str]) -> list[bytes]:
        """Many keys in the form in which they are stored."""
        if len(keys) > _FEW:
            with contextlib.suppress(ValueError):
                return _timed(keys)
        return [self.pack(key) for key in keys]

    def digests(self, rows: NDArray[np.float64]) -> list[bytes]:
        """Digests of the rows of an array."""
        raw, size = rows.tobytes(), rows.shape[1] * rows.itemsize
        begun, out = self._body, []
        for start in range(0, len(raw), size):
            hashed = begun.copy()
            hashed.update(raw[start : start + size])
            out.append(hashed.digest())
        return out

    def digest(self, *parts: Any) -> bytes:
        """Digest of a body, given as parts of bytes or arrays."""
        hashed = self._body.copy()
        for part in parts:
            hashed.update(part)
        return hashed.digest()

    def digest_of_many(self, *parts: Any) -> bytes:
        """Digest of a large body, given as parts of bytes or arrays, twenty times as fast as :meth:`digest`.

        The tag of AES-GCM with a fixed nonce is a universal hash under a secret key: two different bodies that were
        chosen without seeing tags have the same tag with a probability of at most 2^-100. No tag is stored or shown,
        only a keyed hash of it, which reveals nothing except whether two bodies are the same.
        """
        tags = []
        for part in parts:
            plain = memoryview(part).cast("B")
            for at in range(0, len(plain), _PIECE):
                tags.append(self._many.encrypt(bytes(12), b"", plain[at : at + _PIECE]))
            tags.append(len(plain).to_bytes(8))
        return _MANY + self.digest(*tags)

    def sign(self, text: bytes) -> bytes:
        """A signature that only this service can make."""
        hashed = self._mark.copy()
        hashed.update(text)
        return hashed.digest()


def _timed(keys: list[str]) -> list[bytes]:
    """Keys that contain their time, all at once; ValueError if any does not."""
    if set(map(len, keys)) != {36}:
        raise ValueError
    letters = np.frombuffer("".join(keys).encode("ascii"), np.uint8).reshape(-1, 36)
    if (letters[:, _DASHES] != ord("-")).any() or (letters[:, 14] != ord("7")).any():
        raise ValueError
    numbers = bytes.fromhex(letters[:, _DIGITS].tobytes().decode())
    if len(numbers) != _SIZE * len(keys):  # there were spaces among the digits
        raise ValueError
    return [_TIMED + numbers[at : at + _SIZE] for at in range(0, len(numbers), _SIZE)]


def made(key: bytes) -> float | None:
    """When a packed key was made, in seconds since 1970; None if it does not contain a time."""
    return int.from_bytes(key[1:7]) / 1000.0 if key[:1] == _TIMED else None


def span(end: float) -> tuple[bytes, bytes]:
    """Packed keys that were made before a time, as a half-open range."""
    return _TIMED, _TIMED + max(0, int(end * 1000.0)).to_bytes(6)


def new_key() -> str:
    """A fresh key that contains its time: a UUID of version 7 (RFC 9562, section 5.7).


    Examples
    --------
    >>> made(Keys(bytes(32)).pack(new_key())) > 1.7e9
    True
    """
    number = int.from_bytes(os.urandom(10)) | time.time_ns() // 1_000_000 << 80
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 2 << 62))
