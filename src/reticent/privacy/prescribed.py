"""Noise prescribed by somebody else's formula, what is claimed for it, and what it really gives.

``calibration="exact"``, the default everywhere, uses nothing of this. Any other calibration is a named
collection of formulas, one for each mechanism, that is registered here; who runs a mechanism looks its
formula up by name and never imports the collection.

The truth of a prescription is computed from the exact sensitivities derived on the pages under
docs/algorithms/, never from the formula's own claim. A claim holds for a neighbouring relation: the same
noise has one true epsilon under ``"zero-out"`` and a larger one, more than twice it for Gaussian noise,
under ``"replace"``.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray, choice, number
from reticent.privacy.budget import NEIGHBOURS, Budget
from reticent.privacy.curves import Curve, Gaussian, NoPrivacy

EXACT = "exact"

_MODULES = {"published": "reticent.papers"}
"""The module that registers the formulas of a calibration, imported when one is first looked up."""
_FORMULAS: dict[tuple[str, str], Callable[..., Any]] = {}


@dataclass(frozen=True, eq=False)
class Prescription:
    """A prescribed amount of noise, evaluated for one setting.

    Parameters
    ----------
    scale
        The noise exactly as prescribed: a standard deviation (``"gaussian"``), the scale of the
        radius (``"gamma"``) or of each coordinate (``"laplace"``), or what the loss is divided by
        (``"exponential"``). An array where the noise changes with time or has several parts.
    noise
        Which of these it is.
    formula
        The formula in words, with its source's letters.
    where
        The source, and the place in it.
    claimed
        The (epsilon, delta) that the source states for this noise.
    relation
        The neighbouring relation of the source's statement.
    zero_out
        What the noise really costs under the relation ``"zero-out"``.
    replace
        What the noise really costs under the relation ``"replace"``.
    bounds
        The relations for which that is a proved upper bound, not known to be attained.
    regulariser
        The ridge that must go with the noise, where the mechanism needs one.
    calibration
        The name of the collection that it was looked up in.

    Examples
    --------
    >>> from reticent import papers
    >>> tree = papers.window_tree_gaussian(1.0, 1e-6, window=64)
    >>> print(f"{tree.scale:.1f}")
    287.3
    >>> print(f"{tree.true_epsilon():.3f} {tree.true_epsilon(neighbours='replace'):.3f}")
    0.031 0.065
    >>> tree.claim_is_proved()
    True
    """

    scale: float | FloatArray
    noise: str
    formula: str
    where: str
    claimed: tuple[float, float]
    relation: str
    zero_out: Curve
    replace: Curve
    bounds: tuple[str, ...] = ()
    regulariser: float | None = None
    calibration: str = "prescribed"

    @property
    def amount(self) -> float:
        """The noise as one number: the first where it has several parts; refused where there is none."""
        first = float(np.ravel(self.scale)[0])
        if not first > 0.0:
            raise ValueError(
                f"the {self.calibration} formula ({self.where}) adds no noise in this setting; "
                "use calibration='exact'"
            )
        return first

    @property
    def details(self) -> tuple[str, ...]:
        """Lines for `Release.details`: the formula and its source."""
        return f"{self.calibration} noise: {self.formula}", self.where

    def curve(self, neighbours: str = "zero-out") -> Curve:
        """What the noise really costs under one neighbouring relation."""
        word = choice(neighbours, "neighbours", NEIGHBOURS)
        return self.zero_out if word == "zero-out" else self.replace

    def true_epsilon(self, delta: float | None = None, neighbours: str = "zero-out") -> float:
        """The epsilon that the printed noise really gives, at the claimed delta where omitted.

        Exact unless ``neighbours`` is in ``bounds``; then the least upper bound proved here.
        Infinite where there is no noise, or where delta = 0 cannot be had. A claimed delta of 1 or
        more is a vacuous claim, and gives 0.
        """
        curve = self.curve(neighbours)
        if delta is None:
            return curve.epsilon(min(self.claimed[1], 1.0))
        return curve.epsilon(number(delta, "delta", low=0.0, high=1.0, open_high=True))

    def claim_is_proved(self, neighbours: str | None = None) -> bool:
        """Whether the paper's claim follows from the truth; by default for its own relation."""
        true = self.true_epsilon(neighbours=self.relation if neighbours is None else neighbours)
        return true <= self.claimed[0] * (1.0 + 1e-9)

    def doubts(
        self, neighbours: str, truth: float | None = None, setting: str | None = None
    ) -> tuple[str, ...]:
        """A sentence for the caveats of a guarantee, if the claim does not hold.

        Parameters
        ----------
        neighbours
            The neighbouring relation of the guarantee.
        truth
            The epsilon that the noise gives at the claimed delta, where the mechanism knows it better than
            the prescription does.
        setting
            What the truth depends on besides the relation, in a few words.
        """
        claimed, delta = self.claimed
        if truth is None:
            truth = self.true_epsilon(delta, neighbours)
        if truth <= claimed * (1.0 + 1e-9):
            return ()
        words = f"under {neighbours!r} neighbours" if setting is None else setting
        return (
            f"{self.calibration} noise ({self.where}): the paper claims epsilon = {claimed:g} at delta = "
            f"{delta:g}, but {words} it gives {truth:.4g}",
        )


@dataclass(frozen=True)
class Calibration:
    """Which formula scales the noise of a mechanism: exactly, or one that is looked up.

    A description: it is hashable, prints as what it is, and plain data describe it in a saved state.

    Parameters
    ----------
    name
        ``"exact"``, or the name of a registered collection of formulas.
    mechanism
        Which formula of the collection.
    facts
        Further numbers that the formula needs, by name.

    Examples
    --------
    >>> import reticent
    >>> ours = Calibration("published", "tree")
    >>> found = ours.prescribe(
    ...     reticent.Budget(1.0, 1e-6), noise="gaussian", horizon=256, norm=1.0, dim=2
    ... )
    >>> print(f"{found.amount:.1f}, really epsilon = {found.true_epsilon(1e-6):.3f}")
    21.9, really epsilon = 0.557
    >>> Calibration.read(ours.to_dict(), "tree") == ours
    True
    """

    name: str
    mechanism: str
    facts: tuple[tuple[str, Any], ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.name == EXACT

    def prescribe(self, budget: Budget, **facts: Any) -> Prescription:
        """The prescribed noise for a budget and what the mechanism knows about itself."""
        return prescribe(self.name, self.mechanism, budget, **facts | dict(self.facts))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a saved state."""
        return {"name": self.name, "mechanism": self.mechanism, "facts": dict(self.facts)}

    @classmethod
    def read(cls, value: Any, mechanism: str) -> Calibration:
        """What a user or a saved state said: a name, plain data, or a calibration."""
        if isinstance(value, Mapping):
            known = tuple(dict(value.get("facts", {})).items())
            value = cls(value.get("name", ""), str(value.get("mechanism", mechanism)), known)
        elif not isinstance(value, cls):
            value = cls(value, mechanism)
        check(value.name)
        return value


def names() -> tuple[str, ...]:
    """All calibrations by name, ``"exact"`` first."""
    return (EXACT, *dict.fromkeys([*_MODULES, *(name for name, _ in _FORMULAS)]))


def check(calibration: Any) -> str:
    """The calibration's name, refused if there is none of that name."""
    return choice(calibration, "calibration", names())


def register(
    calibration: str, mechanism: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as a collection's formula for a mechanism.

    Parameters
    ----------
    calibration
        Name of the collection; a new name makes a new one.
    mechanism
        What its mechanism is called, such as ``"tree"``.
    """

    def enter(formula: Callable[..., Any]) -> Callable[..., Any]:
        _FORMULAS[calibration, mechanism] = formula
        return formula

    return enter


def find(calibration: str, mechanism: str) -> Callable[..., Any]:
    """A collection's formula for a mechanism."""
    if check(calibration) in _MODULES:
        importlib.import_module(_MODULES[calibration])
    if (calibration, mechanism) not in _FORMULAS:
        there = ", ".join(sorted(m for name, m in _FORMULAS if name == calibration))
        raise ValueError(
            f"calibration={calibration!r} has no formula for {mechanism!r}; it has {there or 'none'}; "
            "use calibration='exact'"
        )
    return _FORMULAS[calibration, mechanism]


def prescribe(calibration: str, mechanism: str, budget: Budget, **facts: Any) -> Prescription:
    """The noise that a collection prescribes for a mechanism.

    Parameters
    ----------
    calibration
        Name of the collection.
    mechanism
        Which formula of it.
    budget
        What may be spent.
    **facts
        What the formula needs to know about the mechanism.

    Raises
    ------
    ValueError
        There is no such formula, or it does not cover this setting; the message says what to change.
    """
    found: Prescription = find(calibration, mechanism)(budget, **facts)
    return dataclasses.replace(found, calibration=calibration)


def gaussian_curve(mu: float) -> Curve:
    """All releases together as one Gaussian mechanism; an infinite ratio is no noise at all."""
    return NoPrivacy() if math.isinf(mu) else Gaussian(mu)


def ratio(sensitivity: float, scale: float) -> float:
    """Sensitivity in units of the noise; infinite where there is no noise."""
    if sensitivity == 0.0:
        return 0.0
    return math.inf if scale == 0.0 else sensitivity / scale
