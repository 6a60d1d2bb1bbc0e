"""Which running total a learner keeps: chosen by a word, the user's own, or with prescribed noise.

By default correlated Gaussian noise where delta allows it, and a tree of Gamma noise (a window tree
where records expire) for pure privacy; see docs/algorithms/running-totals.md for what each costs.

A calibration other than ``"exact"`` changes how much noise there is, never what the guarantee says: that is
computed from the real noise.
"""

from __future__ import annotations

import warnings
from typing import Any

from reticent import checks, sums
from reticent.privacy import Budget, Guarantee, Participation, PrivacyLeakWarning
from reticent.privacy.prescribed import Calibration
from reticent.sums import Mechanism, RunningTotal

WORDS = ("auto", "correlated", "tree", "window-tree", "independent")

MECHANISMS: dict[str, type[Mechanism]] = {
    "correlated": sums.CorrelatedMechanism,
    "tree": sums.TreeMechanism,
    "window-tree": sums.WindowTreeMechanism,
    "independent": sums.IndependentMechanism,
}


def describe(
    total: Any,
    dim: int,
    horizon: int | None,
    *,
    budget: Budget,
    norm: float,
    noise_precision: str,
    **more: Any,
) -> Mechanism:
    """The description that a word stands for, or one of the user's own, with what the learner needs.

    Parameters
    ----------
    total : str, Mechanism or class of mechanisms
        What the user asked for.
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions.
    budget : Budget
        What may be spent.
    norm : float
        Bound on the Euclidean norm of a contribution.
    noise_precision : {"lattice", "float"}
        Whether noise lands on a lattice.
    **more
        Further fields of the description.
    """
    if isinstance(total, Mechanism):
        _check_fit(total, dim, horizon, budget, norm, more.get("participation"))
        return total
    make = total
    if isinstance(total, str):
        word = checks.choice(total, "total", WORDS)
        if word == "auto":
            pure = "tree" if budget.window is None else "window-tree"
            word = "correlated" if budget.delta > 0 else pure
        make = MECHANISMS[word]
        if word != "correlated" and budget.delta == 0:
            more = {"noise": "gamma"} | more
    if not _is_class(make, Mechanism):
        raise TypeError(
            f"total must be one of {', '.join(WORDS)}, a reticent.sums.Mechanism or a class of these, a "
            f"RunningTotal, or what makes one when it is called, got {total!r}"
        )
    made: Mechanism = make(
        dim, horizon, budget=budget, norm=norm, noise_precision=noise_precision, **more
    )
    return made


def choose(
    total: Any, dim: int, horizon: int | None, *, budget: Budget, seed: int | None, **needs: Any
) -> Mechanism | RunningTotal:
    """A description to start a total from, a total that is ready-made, or what a factory makes."""
    if isinstance(total, RunningTotal):
        _check_fit(
            total.mechanism,
            dim,
            horizon,
            budget,
            needs["norm"],
            needs.get("participation"),
            steps=total.steps,
        )
        return total
    if not callable(total) or _is_class(total, Mechanism):
        return describe(total, dim, horizon, budget=budget, **needs)
    made = total(dim, horizon, budget=budget, seed=seed, **needs)
    if not isinstance(made, RunningTotal):
        raise TypeError(f"total must make a reticent.sums.RunningTotal, but made {made!r}")
    return made


def prescribed(
    total: Any, word: str, calibration: str, mechanism: str, *, facts: dict[str, Any], **needs: Any
) -> Mechanism | RunningTotal:
    """The description of a running total whose noise a calibration prescribes for a learner.

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
    **needs
        What the total is described by, and its seed.
    """
    if not (isinstance(total, str) and total in ("auto", word)):
        raise ValueError(
            f"calibration={calibration!r} prescribes the noise of a {word}: leave total out, got {total!r}"
        )
    rule = Calibration(calibration, mechanism, tuple(facts.items()))
    return choose(word, calibration=rule, **needs)


def warn_of(guarantee: Guarantee) -> None:
    """A false claim about privacy is a warning as well as a caveat."""
    for caveat in guarantee.caveats:
        warnings.warn(caveat, PrivacyLeakWarning, stacklevel=4)


def _is_class(value: Any, kind: type) -> bool:
    return isinstance(value, type) and issubclass(value, kind)


def _check_fit(
    mechanism: Mechanism,
    dim: int,
    horizon: int | None,
    budget: Budget,
    norm: float,
    participation: Participation | None,
    steps: int = 0,
) -> None:
    for name, mine, wanted in (
        ("dim", mechanism.dim, dim),
        ("horizon", mechanism.horizon, horizon),
        ("budget", mechanism.budget, budget),
        ("norm", mechanism.norm, norm),
        ("participation", mechanism.participation, participation),
        ("steps", steps, 0),
    ):
        if mine != wanted:
            raise ValueError(
                f"the total has {name} {mine}, the learner needs {wanted}; build it with that, or "
                "pass its class and let the learner build it"
            )


def restore(state: dict[str, Any], given: Any = None) -> RunningTotal:
    """The running total of a saved state; ``given`` is the class of a mechanism of the user's own."""
    if given is not None:
        made = given.describe if _is_class(given, RunningTotal) else given
        if not _is_class(made, Mechanism):
            raise TypeError(f"total must be a class of mechanisms, got {given!r}")
        return RunningTotal.from_state(state, made)
    known = {kind.__name__.removesuffix("Mechanism"): kind for kind in MECHANISMS.values()}
    if state["kind"] not in known:
        raise ValueError(
            f"the state was saved with a running total of the user's own, {state['kind']}; "
            "give its class again: from_state(state, total=...)"
        )
    return RunningTotal.from_state(state, known[state["kind"]])
