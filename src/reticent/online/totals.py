"""Which running total a learner keeps: chosen by a word, the user's own, or with prescribed noise.

By default correlated Gaussian noise where delta allows it, and a tree of Gamma noise (a window tree
where records expire) for pure privacy; see docs/algorithms/running-totals.md for what each costs.

A calibration other than ``"exact"`` changes how much noise there is, never what the guarantee says: that is
computed from the real noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from reticent import _checks, sums
from reticent.privacy import Budget, Guarantee, PrivacyLeakWarning
from reticent.privacy.prescribed import Calibration
from reticent.sums import RunningTotal

WORDS = ("auto", "correlated", "tree", "window-tree", "independent")


def choose(
    total: Any,
    dim: int,
    horizon: int | None,
    *,
    budget: Budget,
    norm: float,
    seed: int | None,
    noise_precision: str,
    classes: dict[str, Any] | None = None,
    **more: Any,
) -> RunningTotal:
    """A fresh running total: a word, a class or factory of totals, or one that is ready-made."""
    if isinstance(total, RunningTotal):
        return _ready_made(total, dim, horizon, budget, norm)
    make: Callable[..., RunningTotal]
    if callable(total):
        make = total
    else:
        word = _checks.choice(total, "total", WORDS)
        if word == "auto":
            pure = "tree" if budget.window is None else "window-tree"
            word = "correlated" if budget.delta > 0 else pure
        make = (classes or CLASSES)[word]
        if word != "correlated" and budget.delta == 0:
            more = {"noise": "gamma"} | more
    built = make(
        dim, horizon, budget=budget, norm=norm, seed=seed, noise_precision=noise_precision, **more
    )
    if not isinstance(built, RunningTotal):
        raise TypeError(f"total must make a reticent.sums.RunningTotal, but made {built!r}")
    warn_of(built.guarantee)
    return built


def prescribed(
    total: Any, word: str, calibration: str, mechanism: str, *, facts: dict[str, Any], **more: Any
) -> RunningTotal:
    """A fresh running total whose noise a calibration prescribes for a learner.

    Parameters
    ----------
    total
        What the user asked for; only ``"auto"`` and ``word`` go with prescribed noise.
    word
        The kind of total that the formula is for.
    calibration
        The calibration's name.
    mechanism
        Whose formula.
    facts
        What the formula needs to know about the learner.
    **more
        What the total is built with.
    """
    if not (isinstance(total, str) and total in ("auto", word)):
        raise ValueError(
            f"calibration={calibration!r} prescribes the noise of a {word}: leave total out, got {total!r}"
        )
    rule = Calibration(calibration, mechanism, tuple(facts.items()))
    return choose(word, calibration=rule, **more)


def warn_of(guarantee: Guarantee) -> None:
    """A false claim about privacy is a warning as well as a caveat."""
    for caveat in guarantee.caveats:
        warnings.warn(caveat, PrivacyLeakWarning, stacklevel=4)


def _ready_made(
    total: RunningTotal, dim: int, horizon: int | None, budget: Budget, norm: float
) -> RunningTotal:
    for name, mine, wanted in (
        ("dim", total.dim, dim),
        ("horizon", total.horizon, horizon),
        ("budget", total.budget, budget),
        ("norm", total.norm, norm),
        ("steps", total.steps, 0),
    ):
        if mine != wanted:
            raise ValueError(
                f"the total has {name} {mine}, the learner needs {wanted}; build it with that, or "
                "pass its class and let the learner build it"
            )
    return total


CLASSES: dict[str, type[RunningTotal]] = {
    "correlated": sums.Correlated,
    "tree": sums.Tree,
    "window-tree": sums.WindowTree,
    "independent": sums.Independent,
}
KNOWN: dict[str, type[RunningTotal]] = {cls.__name__: cls for cls in CLASSES.values()}


def of_kind(kind: str, given: Any = None) -> type[RunningTotal]:
    """The class of a total that a saved state names."""
    if given is not None:
        if not (isinstance(given, type) and issubclass(given, RunningTotal)):
            raise TypeError(f"total must be a class of running totals, got {given!r}")
        return given
    if kind not in KNOWN:
        raise ValueError(
            f"the state was saved with a running total of the user's own, {kind}; "
            "give its class again: from_state(state, total=...)"
        )
    return KNOWN[kind]
