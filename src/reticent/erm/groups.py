"""The persons of a table, and the weight of each of their records.

Each of a person's m records has weight 1/m, so that the person's contribution is an average of possible contributions
of single records; or a person's first records count in full and later ones not at all. Proofs for each solver:
docs/algorithms/persons.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.state.persons import read

_HAIR = 1.0 - 2.0**-30
"""Upper bound on the sum of a person's weights 1/m, so that rounding cannot make a person count more than 1."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The persons of a table.

    Parameters
    ----------
    factors : array
        Weight of each record.
    count : int
        Number of persons; public, unlike the number of records.
    most : float
        Largest possible sum of one person's factors.
    max_records : int or None
        Number of records of a person that count; None: all, with weight 1/m each.
    """

    factors: FloatArray
    count: int
    most: float
    max_records: int | None

    @classmethod
    def of(cls, groups: Any, records: int, max_records: int | None) -> Groups | None:
        """Persons from ids, one per record; None without ids. A `Groups` is returned unchanged."""
        if isinstance(groups, Groups):
            return groups
        if groups is None:
            if max_records is not None:
                raise ValueError(
                    f"max_records={max_records!r} needs groups, the id of the person of each record; without groups "
                    "records are protected, not persons"
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
        """How a person's records count, for the guarantee."""
        if self.max_records is None:
            return f"{self.count} persons; each of a person's m records has weight 1/m"
        return f"{self.count} persons; of each the first {self.max_records} records count"

    def directions(self, dim: int) -> int:
        """The largest dimension of the span of one person's records."""
        return dim if self.max_records is None else min(dim, self.max_records)
