"""What privacy is asked for: epsilon, delta, who counts as a neighbour, and for how long.

The one thing a reader would get wrong: the neighbouring relation is not a detail. Under
``"replace"`` a record may turn into any other one, so whatever is clipped to a norm moves by up to
twice that norm; use :meth:`Budget.sensitivity` and never a factor of one's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from reticent._checks import choice, integer, number
from reticent.privacy import gaussian

NEIGHBOURS = ("zero-out", "replace")

_RELATION = {
    "zero-out": "one record is blanked (zero-out)",
    "replace": "one record is replaced by any other (replace)",
}


def relation(neighbours: str, window: int | None) -> str:
    """The neighbouring relation and the window, in words."""
    length = (
        "for ever"
        if window is None
        else f"for {window} outputs from the record's own, one a record"
    )
    return f"{_RELATION[neighbours]}, protected {length}"


def check_scope(neighbours: object, window: object) -> tuple[str, int | None]:
    """The two things that must agree before guarantees may be compared or added."""
    word = choice(neighbours, "neighbours", NEIGHBOURS)
    return word, None if window is None else integer(window, "window", low=1)


@dataclass(frozen=True)
class Budget:
    """How much privacy a run may spend.

    Parameters
    ----------
    epsilon
        Finite and above 0. Smaller is more private.
    delta
        In [0, 1); 0 asks for pure differential privacy. Well below one over the number of people.
    neighbours
        ``"zero-out"``: one record becomes the null record, which contributes nothing, and the
        length stays. ``"replace"``: one record becomes any other; about twice as strong.
    window
        How many outputs a record is protected for, counted from the one it first enters; ``None``
        protects it for ever. Every record makes an output, released or not: who releases each
        hundredth protects a record in a hundredth as many of these.

    Examples
    --------
    >>> budget = Budget(1.0, 1e-6)
    >>> print(budget)
    epsilon = 1, delta = 1e-06; one record is blanked (zero-out), protected for ever
    >>> round(budget.mu, 6)
    0.236704
    >>> budget.sensitivity(3.0), budget.with_(neighbours="replace").sensitivity(3.0)
    (3.0, 6.0)
    """

    epsilon: float
    delta: float = 0.0
    neighbours: str = "zero-out"
    window: int | None = None

    def __post_init__(self) -> None:
        epsilon = number(self.epsilon, "epsilon", low=0.0, open_low=True)
        delta = number(self.delta, "delta", low=0.0, high=1.0, open_high=True)
        neighbours, window = check_scope(self.neighbours, self.window)
        for name, value in zip(("epsilon", "delta", "neighbours", "window"),
                               (epsilon, delta, neighbours, window), strict=True):  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def mu(self) -> float:
        """The largest mu of a Gaussian release that this budget allows."""
        if self.delta == 0.0:
            raise ValueError(
                "delta must be above 0 for Gaussian noise, got a budget with delta = 0; choose "
                "delta > 0 (say Budget(epsilon, 1e-6)), or pure noise such as gamma or laplace"
            )
        return gaussian.mu(self.epsilon, self.delta)

    def sensitivity(self, norm: float) -> float:
        """How far one record can move a sum of contributions that are clipped to ``norm``."""
        norm = number(norm, "norm", low=0.0)
        return norm if self.neighbours == "zero-out" else 2.0 * norm

    def with_(self, **changes: object) -> Budget:
        """The same budget with some fields changed."""
        fields = {"epsilon": self.epsilon, "delta": self.delta,
                  "neighbours": self.neighbours, "window": self.window}  # fmt: skip
        unknown = sorted(set(changes) - set(fields))
        if unknown:
            raise TypeError(f"a Budget has no field {unknown[0]!r}; it has {', '.join(fields)}")
        return Budget(**{**fields, **changes})  # type: ignore[arg-type]

    def __str__(self) -> str:
        return (
            f"epsilon = {self.epsilon:g}, delta = {self.delta:g}; "
            f"{relation(self.neighbours, self.window)}"
        )
