"""What a guarantee means to people who do not know epsilon: how often the best attacker is right.

The attacker sees every output and knows every record but one. If each person flips a coin for whether their record
takes part, the best attacker is right about a share of at most ``(1 + delta(0)) / 2`` of them, where ``delta(0)`` is
the total variation distance that the guarantee allows; no test does better (Neyman and Pearson). Numbers are rounded
up, so that "at most" stays true.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reticent.checks import integer
from reticent.privacy.budget import Scope

if TYPE_CHECKING:
    from reticent.privacy.guarantee import Guarantee

_SLACK = 1e-9  # of a person, for rounding errors


@dataclass(frozen=True)
class Odds:
    """How often the best attacker is right, in whole people.

    Parameters
    ----------
    people : int
        Number of people who each flip a coin to decide whether their record, or all of their records, take part.
    right : int
        Number of people about whom the best attacker is right, at most.
    blind : int
        The same number for somebody who only guesses.
    unit : {"record", "person"}
        What takes part or does not: one record, or all of a person's records.
    age : int, optional
        Number of outputs that the attacker sees, counted from the record's own or from the person's first; None: all
        outputs, for ever.
    within : bool
        Whether only those records of a person take part that come within the outputs which the attacker sees; true for
        persons under a window.

    Examples
    --------
    >>> import reticent
    >>> total = reticent.sums.Tree(1, 100, budget=reticent.Budget(1.0, 1e-6), seed=0)
    >>> print(total.guarantee.odds())
    Let 1,000 people each flip a coin to decide whether their record takes part. An attacker who sees every output and
    knows all other records guesses right for at most 548 of them; one who guesses blindly, for about 500.
    """

    people: int
    right: int
    blind: int
    unit: str = "record"
    age: int | None = None
    within: bool = False

    def __str__(self) -> str:
        since = Scope(unit=self.unit).since
        seen = "every output" if self.age is None else f"{self.age:,} outputs from {since}"
        if self.within:
            theirs = (
                f"those of their records that come within {self.age:,} consecutive outputs take"
            )
            seen, others = "these outputs", "all other records"
        elif self.unit == "person":
            theirs, others = "all of their records take", "everyone else's records"
        else:
            theirs, others = "their record takes", "all other records"
        if self.right >= self.people:
            return (
                f"An attacker who sees {seen} and knows {others} may guess right for everyone: "
                "nothing is guaranteed."
            )
        return (
            f"Let {self.people:,} people each flip a coin to decide whether {theirs} part. An attacker who sees {seen} "
            f"and knows {others} guesses right for at most {self.right:,} of them; one who guesses blindly, for about "
            f"{self.blind:,}."
        )

    def plot(self, **options: Any) -> Any:
        """Draw a dot for each person; see `reticent.plots.odds`.

        Parameters
        ----------
        **options
            Passed on to `reticent.plots.odds`.
        """
        # imported here, because plots is a package above this one
        return importlib.import_module("reticent.plots.promise").odds(self, **options)


def odds_of(guarantee: Guarantee, people: int = 1000, age: int | None = None) -> Odds:
    """Compute what `Guarantee.odds` returns."""
    people = integer(people, "people", low=2)
    if age is None:  # the attacker sees what the guarantee covers, and no more
        age = guarantee.scope.last
    distance = min(1.0, guarantee.delta(0.0, age))
    right = math.ceil(people * (0.5 + 0.5 * distance) - _SLACK)
    within = guarantee.scope.within
    return Odds(people, min(people, right), people // 2, guarantee.unit, age, within)
