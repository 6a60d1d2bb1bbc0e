"""Which running total a learner keeps: chosen by a word, the user's own, or with a paper's own noise.

By default correlated Gaussian noise where delta allows it, and a tree of Gamma noise (a window tree
where records expire) for pure privacy; see docs/algorithms/running-totals.md for what each costs.

The one thing a reader would get wrong: ``calibration="published"`` changes how much noise there is,
never what the guarantee says. The guarantee of a published total is computed from its real noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from reticent import _checks, sums
from reticent.privacy import Budget, Guarantee, PrivacyLeakWarning, published
from reticent.sums import RunningTotal

WORDS = ("auto", "correlated", "tree", "window-tree", "independent")
CALIBRATIONS = ("exact", "published")


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


class LeaderTree(sums.Tree):
    """A tree with the noise that [chapter] prints for DP-FTRL (Theorem 6.13)."""

    def _formula(self, steps: int) -> published.Published:
        budget = self.budget
        return published.ftrl(budget.epsilon, budget.delta, horizon=steps, norm=self.norm)


class ExpiringTree(sums.WindowTree):
    """A window tree with the noise that [window] prints, sensitivity L + mu D and all (Theorems 1, 2)."""

    def __init__(
        self, *arguments: Any, strong_convexity: float, diameter: float, **more: Any
    ) -> None:
        self.strong_convexity = _checks.number(strong_convexity, "strong_convexity", low=0.0)
        self.diameter = _checks.number(diameter, "diameter", low=0.0)
        super().__init__(*arguments, **more)

    def _arguments(self) -> dict[str, Any]:
        mine = {"strong_convexity": self.strong_convexity, "diameter": self.diameter}
        return super()._arguments() | mine

    def _formula(self) -> published.Published:
        budget = self.budget
        printed = {
            "window": self._protected,
            "norm": self.norm,
            "strong_convexity": self.strong_convexity,
            "diameter": self.diameter,
        }
        if self.noise == "gaussian":
            return published.window_tree_gaussian(budget.epsilon, budget.delta, **printed)  # type: ignore[arg-type]
        return published.window_tree_gamma(budget.epsilon, **printed)  # type: ignore[arg-type]


CLASSES: dict[str, type[RunningTotal]] = {
    "correlated": sums.Correlated,
    "tree": sums.Tree,
    "window-tree": sums.WindowTree,
    "independent": sums.Independent,
}
KNOWN: dict[str, type[RunningTotal]] = {cls.__name__: cls for cls in CLASSES.values()}
KNOWN |= {"LeaderTree": LeaderTree, "ExpiringTree": ExpiringTree}


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
