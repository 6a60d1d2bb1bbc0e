"""Check that all parties have the same rows in the same order, without revealing whose rows they are.

Anyone could test names against an unkeyed hash of ids. The key is known to the parties only; the coordinator compares
digests that it cannot compute.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np


def alignment_digest(ids: bytes, key: bytes, run: bytes) -> bytes:
    """The digest that a party publishes in one run: equal for equal ids, order and key."""
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
            raise TypeError(f"ids must be strings or integers, got a {type(value).__name__}")
        data = ("s" if isinstance(value, str) else "i").encode() + str(value).encode()
        whole.update(len(data).to_bytes(8, "little") + data)
        seen.add(data)
        count += 1
    if count != rows:
        raise ValueError(f"ids must have one entry for each of the {rows} rows, got {count}")
    if len(seen) != rows:
        raise ValueError(
            f"ids must be unique, and {rows - len(seen)} of them are repeated: several rows of one person are not "
            "protected together here. Give each person one row (for example the mean of the person's rows); otherwise "
            "the guarantee for a row is not one for a person"
        )
    return whole.digest()
