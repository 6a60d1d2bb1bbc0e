"""Choose the running total of a learner: by name, a user-defined one, or one with prescribed noise.

By default it has correlated Gaussian noise if delta allows it, and for pure privacy it is a tree (or a window tree,
if the budget has a window) with Gamma noise; docs/algorithms/running-totals.md says what each costs.

A calibration other than ``"exact"`` changes the amount of noise, but the guarantee is always computed from the actual
noise.
"""

from __future__ import annotations

import warnings
from typing import Any

from reticent import checks, sums
from reticent.privacy import Budget, Guarantee, Participation, PrivacyLeakWarning
from reticent.privacy.prescribed import Calibration
from reticent.sums import Mechanism, RunningTotal

MECHANISMS: dict[str, type[Mechanism]] = {
    "correlated": sums.CorrelatedMechanism,
    "tree": sums.TreeMechanism,
    "window-tree": sums.WindowTreeMechanism,
    "independent": sums.IndependentMechanism,
}
WORDS = ("auto", *MECHANISMS)


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
    """The description with a given name, or a user-defined one, with what the learner needs.

    Parameters
    ----------
    total : str, Mechanism or class of mechanisms
        What the user passed.
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions.
    budget : Budget
        What may be spent.
    norm : float
        Bound on the Euclidean norm of a contribution.
    noise_precision : {"lattice", "float"}
        Whether the noise is on a lattice.
    **more
        Further fields of the description.

    Returns
    -------
    Mechanism
        The description.
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
            f"RunningTotal, or a function that makes one, got {total!r}"
        )
    made: Mechanism = make(
        dim, horizon, budget=budget, norm=norm, noise_precision=noise_precision, **more
    )
    return made


def choose(
    total: Any, dim: int, horizon: int | None, *, budget: Budget, seed: int | None, **needs: Any
) -> Mechanism | RunningTotal:
    """A description from which to start a total, a total that the user made, or what a user's function makes."""
    made = total
    if not isinstance(total, RunningTotal):
        if not callable(total) or _is_class(total, Mechanism):
            return describe(total, dim, horizon, budget=budget, **needs)
        made = total(dim, horizon, budget=budget, seed=seed, **needs)
        if not isinstance(made, RunningTotal):
            raise TypeError(
                f"total must return a reticent.sums.RunningTotal, but returned {made!r}"
            )
    _check_fit(
        made.mechanism,
        dim,
        horizon,
        budget,
        needs["norm"],
        needs.get("participation"),
        steps=made.steps,
    )
    return made


def prescribed(
    total: Any, word: str, calibration: str, mechanism: str, *, facts: dict[str, Any], **needs: Any
) -> Mechanism | RunningTotal:
    """The description of a running total whose noise a calibration prescribes for a learner.

    Parameters
    ----------
    total : str
        What the user passed; prescribed noise allows only ``"auto"`` and ``word``.
    word : str
        The kind of total that the formula is for.
    calibration : str
        Name of the calibration.
    mechanism : str
        The mechanism whose formula is used.
    facts : dict
        What the formula needs to know about the learner.
    **needs
        The fields of the description, and the seed.
    """
    if not (isinstance(total, str) and total in ("auto", word)):
        raise ValueError(
            f"calibration={calibration!r} prescribes the noise of a {word}; leave out total, got {total!r}"
        )
    rule = Calibration(calibration, mechanism, tuple(facts.items()))
    return choose(word, calibration=rule, **needs)


def warn_of(guarantee: Guarantee) -> None:
    """Issue each caveat as a warning too, because it says that a claim about privacy is false."""
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
                f"the total has {name} {mine}, but the learner needs {wanted}; build the total with that, or "
                "pass its class and let the learner build it"
            )


def restore(state: dict[str, Any], given: Any = None) -> RunningTotal:
    """The running total of a saved state; ``given`` is the class of a user-defined mechanism."""
    if given is not None:
        made = given.describe if _is_class(given, RunningTotal) else given
        if not _is_class(made, Mechanism):
            raise TypeError(f"total must be a class of mechanisms, got {given!r}")
        return RunningTotal.from_state(state, made)
    known = {kind.__name__.removesuffix("Mechanism"): kind for kind in MECHANISMS.values()}
    if state["kind"] not in known:
        raise ValueError(
            f"the state was saved with a user-defined running total, {state['kind']}; "
            "pass its class again: from_state(state, total=...)"
        )
    return RunningTotal.from_state(state, known[state["kind"]])
