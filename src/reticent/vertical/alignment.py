"""Whether all parties have the same rows in the same order, without showing whose they are.

An unkeyed hash of ids would let anyone try names on it. The key belongs to the parties; the
coordinator compares what it cannot compute.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np


def alignment_digest(ids: bytes, key: bytes, run: bytes) -> bytes:
    """What a party shows of its ids in one run: the same for the same ids, order and key."""
    return hmac.new(key, run + ids, hashlib.sha256).digest()


def hash_ids(ids: Iterable[str | int], rows: int) -> bytes:
    """A digest of the ids, their kinds and their order."""
    whole = hashlib.sha256()
    count = 0
    seen = set()
    for value in ids:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"ids must be texts or whole numbers, got a {type(value).__name__}")
        data = ("s" if isinstance(value, str) else "i").encode() + str(value).encode()
        whole.update(len(data).to_bytes(8, "little") + data)
        seen.add(data)
        count += 1
    if count != rows:
        raise ValueError(f"ids must name each of the {rows} rows, got {count}")
    if len(seen) != rows:
        raise ValueError(
            f"ids must differ from each other, {rows - len(seen)} of them are repeated: the rows of one "
            "person are not protected together here; give one row each (the mean of a person's rows, "
            "say), or the guarantee for a row is not one for a person"
        )
    return whole.digest()
