"""How often one person may take part, and what all of a person's records cost together.

Neighbours differ in all records of one person. If a person has at most k records, any two of them at least b steps
apart, these cost less than k times one record (docs/algorithms/persons.md). The limits hold because
:class:`reticent.state.Persons` enforces them; nothing relies on the data to respect them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray, integer, real_array

MOST_RECORDS = 2**20
"""Largest number of records of one person for which costs are computed."""


@dataclass(frozen=True)
class Participation:
    """How many records a person may have, and how far apart.

    Parameters
    ----------
    max_records : int or None
        Number of records of one person that count, on the whole stream or, if the guarantee has a window, within the
        window. None: as many as ``min_gap`` allows, for guarantees that end or fade.
    min_gap : int
        Smallest number of steps from one of them to the next; 1 allows consecutive steps.
    max_persons : int, optional
        Number of persons that may be known at a time; further persons are refused with an error. By default only
        memory limits it. It does not affect the guarantee.

    Examples
    --------
    >>> seldom = Participation(max_records=16, min_gap=4096)
    >>> print(seldom)
    at most 16 records of a person, at least 4,096 steps apart
    >>> seldom.records_within(10_000), seldom.records_within(10**6)
    (3, 16)
    """

    max_records: int | None = 1
    min_gap: int = 1
    max_persons: int | None = None

    def __post_init__(self) -> None:
        if self.max_records is not None:
            most = integer(self.max_records, "max_records", low=1, high=MOST_RECORDS)
            object.__setattr__(self, "max_records", most)
        object.__setattr__(self, "min_gap", integer(self.min_gap, "min_gap", low=1, high=2**40))
        if self.max_persons is not None:
            limit = integer(self.max_persons, "max_persons", low=1)
            object.__setattr__(self, "max_persons", limit)
        if self.max_records is None and self.min_gap == 1:
            raise ValueError(
                "max_records=None with min_gap=1 bounds nothing: one person could fill the stream; "
                "give max_records, or a larger min_gap with a window or fade"
            )

    @classmethod
    def of(cls, max_records: Any, min_gap: Any, max_persons: Any = None) -> Participation | None:
        """The participation for a user's arguments; None if they limit nothing and single records are protected.

        Parameters
        ----------
        max_records : int or None
            Number of records of one person that count, on the whole stream or within the window.
        min_gap : int or None
            Smallest number of steps from one of a person's records to the next; None: 1.
        max_persons : int or None
            Number of persons that may be known at a time; None: limited by memory only.
        """
        if max_records is None and min_gap is None:
            if max_persons is not None:
                raise ValueError(
                    f"max_persons={max_persons!r} needs max_records or min_gap: without them single records "
                    "are protected, and persons are not distinguished"
                )
            return None
        return cls(max_records, 1 if min_gap is None else min_gap, max_persons)

    def records_within(self, steps: float) -> int:
        """The largest number of records that one person may have among consecutive steps.

        Parameters
        ----------
        steps : float
            Number of consecutive steps; may be infinite.

        Returns
        -------
        int
            The number of records.
        """
        if self.max_records == 1:
            return 1
        room = math.inf if math.isinf(steps) else max(1, -(-int(steps) // self.min_gap))
        most = room if self.max_records is None else min(room, self.max_records)
        if most > MOST_RECORDS:
            raise ValueError(
                f"a person could have {most:,} records within {steps:,} steps, more than "
                f"the {MOST_RECORDS:,} that are supported; give max_records, or a larger min_gap"
            )
        return int(most)

    def starts(self, steps: float) -> tuple[FloatArray, FloatArray]:
        """Place a person's records as early as possible among consecutive steps.

        Parameters
        ----------
        steps : float
            Number of consecutive steps.

        Returns
        -------
        array
            The index of each record: 0, 1, ...
        array
            For each record, the number of steps from its own, which is included, to the last.
        """
        number = np.arange(self.records_within(steps), dtype=np.float64)
        return number, steps - self.min_gap * number

    def __str__(self) -> str:
        apart = f"at least {self.min_gap:,} steps apart"
        if self.max_records is None:
            return f"records of a person {apart}"
        records = "1 record" if self.max_records == 1 else f"{self.max_records:,} records"
        return f"at most {records} of a person" + (f", {apart}" if self.min_gap > 1 else "")


ONE_RECORD = Participation()


def check_participation(value: Any) -> Participation:
    """Refuse what is not a :class:`Participation`."""
    if not isinstance(value, Participation):
        raise TypeError(
            f"participation must be a privacy.Participation(max_records, min_gap), got {value!r}"
        )
    return value


def squared_cost(coefficients: FloatArray, participation: Participation) -> float:
    """The largest ``||sum_i v_i shift(c, t_i)||^2`` over unit vectors ``v_i`` and steps ``t_i`` that are allowed.

    Parameters
    ----------
    coefficients : array
        ``c_0, c_1, ...``: how far a record moves each innovation from its own on, up to the last one that counts.
        They must be at least 0 and must not increase; otherwise the worst placement is unknown.
    participation : Participation
        The steps at which a person may have records.

    Returns
    -------
    float
        The squared norm.

    Examples
    --------
    >>> from reticent.sums.toeplitz import square_root
    >>> c = square_root(65_536)
    >>> one = squared_cost(c, Participation())
    >>> round(math.sqrt(squared_cost(c, Participation(16, 4096)) / one), 2)
    6.83
    """
    c = real_array(coefficients, "coefficients")
    if (
        c.ndim != 1
        or not len(c)
        or not np.isfinite(c).all()
        or c[-1] < 0.0
        or (np.diff(c) > 0).any()
    ):
        raise ValueError(
            "coefficients must be finite, at least 0 and must not increase: otherwise the earliest steps "
            "may not be the worst ones for a person's records, and nothing is proved"
        )
    total = np.zeros(len(c))
    for k in range(participation.records_within(len(c))):
        start = k * participation.min_gap
        total[start:] += c[: len(c) - start]
    return float(total @ total)


def tree_squares(levels: int, participation: Participation, steps: float) -> int:
    """An upper bound on ``sum_N m_N^2`` over the nodes N of a tree, where m_N is the number of a person's records in N.

    A node of size 2^j contains at most ``q = (2^j - 1) // min_gap + 1`` records of a person, and each record is in at
    most one node of each level. The sum of squares is largest if nodes are filled one after the other.

    Parameters
    ----------
    levels : int
        Number of levels of the tree.
    participation : Participation
        The steps at which a person may have records.
    steps : float
        Number of steps within which they come.

    Returns
    -------
    int
        The bound.

    Examples
    --------
    >>> tree_squares(5, Participation(4), 16), tree_squares(5, Participation(), 16)
    (60, 5)
    """
    most = participation.records_within(steps)
    total = 0
    for level in range(levels):
        in_one = ((1 << level) - 1) // participation.min_gap + 1
        full, rest = divmod(most, in_one)
        total += full * in_one**2 + rest**2
    return total


def tree_count(levels: int, participation: Participation, steps: float) -> int:
    """An upper bound on ``sum_N m_N``, for pure privacy: each record is in at most one node of each level.

    Parameters
    ----------
    levels : int
        Number of levels of the tree.
    participation : Participation
        The steps at which a person may have records.
    steps : float
        Number of steps within which they come.

    Returns
    -------
    int
        The bound.

    Examples
    --------
    >>> tree_count(5, Participation(4), 16)
    20
    """
    return levels * participation.records_within(steps)
