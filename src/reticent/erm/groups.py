"""Which records are one person's, and how much each of them counts.

Each of a person's m records counts 1/m, so that what the person contributes is an average of what single
records could; or a person's first records count in full, and all that follow do not count. Proofs, by
solver: docs/algorithms/persons.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.state.persons import read

_HAIR = 1.0 - 2.0**-30
"""Weights 1/m add up to this at most, so that no rounding of theirs can make a person count more than 1."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The persons of a table.

    Parameters
    ----------
    factors : array
        How much each record counts.
    count : int
        Number of persons; public, unlike the number of records.
    most : float
        What one person's factors can add up to, at most.
    max_records : int or None
        How many records of a person count; None: all of them.
    """

    factors: FloatArray
    count: int
    most: float
    max_records: int | None

    @classmethod
    def of(cls, groups: Any, records: int, max_records: int | None) -> Groups | None:
        """From ids, one per record; None without ids. What was made before is taken as it is."""
        if isinstance(groups, Groups):
            return groups
        if groups is None:
            if max_records is not None:
                raise ValueError(
                    f"max_records={max_records!r} needs groups, an id of its person for each record; "
                    "without groups one record is protected, not a person"
                )
            return None
        _, rows, lengths = read(groups, "groups")
        if len(lengths) != records:
            raise ValueError(
                f"groups must hold one id for each of the {records} records, got {len(lengths)} ids"
            )
        whole = np.ascontiguousarray(rows).view([("", np.void, rows.shape[1])]).ravel()
        _, person, sizes = np.unique(whole, return_inverse=True, return_counts=True)
        if max_records is None:
            return cls(_HAIR / sizes[person], len(sizes), 1.0, None)
        most = checks.integer(max_records, "max_records", low=1)
        order = np.argsort(person, kind="stable")
        place = np.empty(records, np.int64)
        place[order] = np.arange(records) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls((place < most).astype(np.float64), len(sizes), float(most), most)

    @property
    def words(self) -> str:
        """What is done to a person's records, for the guarantee."""
        if self.max_records is None:
            return f"{self.count} persons; each of a person's m records has the weight 1/m"
        return f"{self.count} persons; of each the first {self.max_records} records count"

    def directions(self, dim: int) -> int:
        """The most directions in which one person can act."""
        return dim if self.max_records is None else min(dim, self.max_records)
