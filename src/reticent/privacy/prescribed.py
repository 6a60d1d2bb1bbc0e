"""Noise prescribed by a published formula: what is claimed for it, and what it really gives.

``calibration="exact"``, the default everywhere, uses nothing in this module. Any other calibration is a named
collection of formulas, one for each mechanism, registered here; a mechanism looks its formula up by name and never
imports the collection.

The true cost of a prescription is computed from the exact sensitivities derived on the pages under docs/algorithms/,
never from the formula's own claim. A claim holds for a neighbouring relation: the same noise has one true epsilon
under ``"zero-out"`` and a larger one, more than twice as large for Gaussian noise, under ``"replace"``.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from reticent.checks import FloatArray, choice, number
from reticent.privacy.budget import NEIGHBOURS, Budget, rounded_up
from reticent.privacy.curves import Curve, Gaussian, NoPrivacy

EXACT = "exact"

_MODULES = {"published": "reticent.papers"}
"""The module that registers a calibration's formulas, imported when one of them is first looked up."""
_FORMULAS: dict[tuple[str, str], Callable[..., Any]] = {}


@dataclass(frozen=True, eq=False)
class Prescription:
    """A prescribed amount of noise, evaluated in one setting.

    Parameters
    ----------
    scale : float or array
        The noise exactly as prescribed: a standard deviation (``"gaussian"``), the scale of the radius (``"gamma"``)
        or of each coordinate (``"laplace"``), or what the loss is divided by (``"exponential"``). An array if the
        noise changes with time or has several parts.
    noise : str
        Which of these it is.
    formula : str
        The formula, in the source's letters.
    where : str
        The source, and the place in it.
    claimed : (float, float)
        The (epsilon, delta) that the source states for this noise.
    relation : str
        The neighbouring relation of that statement.
    zero_out : Curve
        What the noise really costs under the relation ``"zero-out"``.
    replace : Curve
        What the noise really costs under the relation ``"replace"``.
    bounds : tuple of str
        The relations for which that cost is a proved upper bound, not known to be attained.
    regulariser : float, optional
        The ridge that must go with the noise, if the mechanism needs one.
    calibration : str
        Name of the collection in which it was looked up.

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

    @classmethod
    def gaussian(cls, mu: float, **fields: Any) -> Self:
        """Gaussian noise under which blanking a record costs ``mu`` in all, and replacing one exactly twice as much.

        Parameters
        ----------
        mu : float
            The cost of all releases together as one Gaussian mechanism; infinite if there is no noise.
        **fields
            The other fields.
        """
        zero_out, replace = gaussian_curve(mu), gaussian_curve(2.0 * mu)
        return cls(noise="gaussian", zero_out=zero_out, replace=replace, **fields)

    @property
    def amount(self) -> float:
        """The noise as one number, the first if it has several parts; ValueError if the formula adds no noise."""
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
        """What the noise really costs under one neighbouring relation.

        Parameters
        ----------
        neighbours : {"zero-out", "replace"}
            The neighbouring relation.
        """
        word = choice(neighbours, "neighbours", NEIGHBOURS)
        return self.zero_out if word == "zero-out" else self.replace

    def true_epsilon(self, delta: float | None = None, neighbours: str = "zero-out") -> float:
        """The epsilon that the prescribed noise really gives.

        It is exact unless ``neighbours`` is in ``bounds``; then it is the smallest upper bound that is proved here.

        Parameters
        ----------
        delta : float, optional
            Privacy parameter delta; by default the claimed one.
        neighbours : {"zero-out", "replace"}
            The neighbouring relation.

        Returns
        -------
        float
            Epsilon. Infinite if there is no noise, or if delta = 0 is impossible. A claimed delta of 1 or more makes
            the claim vacuous, and gives 0.
        """
        curve = self.curve(neighbours)
        if delta is None:
            return curve.epsilon(min(self.claimed[1], 1.0))
        return curve.epsilon(number(delta, "delta", low=0.0, high=1.0, open_high=True))

    def claim_is_proved(self, neighbours: str | None = None) -> bool:
        """Whether the source's claim follows from the true cost.

        Parameters
        ----------
        neighbours : {"zero-out", "replace"}, optional
            The neighbouring relation; by default that of the claim.
        """
        true = self.true_epsilon(neighbours=self.relation if neighbours is None else neighbours)
        return true <= self.claimed[0] * (1.0 + 1e-9)

    def doubts(
        self, neighbours: str, truth: float | None = None, setting: str | None = None
    ) -> tuple[str, ...]:
        """A caveat for a guarantee if the claim does not hold, in a tuple that is empty if it does.

        Parameters
        ----------
        neighbours : {"zero-out", "replace"}
            The neighbouring relation of the guarantee.
        truth : float, optional
            The epsilon that the noise gives at the claimed delta, if the mechanism knows a better value than the
            prescription.
        setting : str, optional
            What the true epsilon depends on besides the relation, in a few words.
        """
        claimed, delta = self.claimed
        if truth is None:
            truth = self.true_epsilon(neighbours=neighbours)
        if truth <= claimed * (1.0 + 1e-9):
            return ()
        words = f"under {neighbours!r} neighbours" if setting is None else setting
        return (
            f"{self.calibration} noise ({self.where}): the paper claims epsilon = {claimed:g} at delta = "
            f"{delta:g}, but {words} it gives {rounded_up(truth, 4)}",
        )


@dataclass(frozen=True)
class Calibration:
    """Which formula scales the noise of a mechanism: the exact calibration, or one that is looked up.

    It is hashable, and can be written to and read from a saved state as plain data.

    Parameters
    ----------
    name : str
        ``"exact"``, or the name of a registered collection of formulas.
    mechanism : str
        Which formula of the collection.
    facts : tuple of (str, Any)
        Further arguments of the formula, by name.

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
        """Whether this is the exact calibration, which looks nothing up."""
        return self.name == EXACT

    def prescribe(self, budget: Budget, **facts: Any) -> Prescription:
        """The prescribed noise for a budget.

        Parameters
        ----------
        budget : Budget
            What may be spent.
        **facts
            What the formula needs to know about the mechanism, in addition to :attr:`facts`.
        """
        return prescribe(self.name, self.mechanism, budget, **facts | dict(self.facts))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a saved state."""
        return {"name": self.name, "mechanism": self.mechanism, "facts": dict(self.facts)}

    @classmethod
    def read(cls, value: Any, mechanism: str) -> Calibration:
        """The calibration that a user or a saved state named.

        Parameters
        ----------
        value : str, mapping or Calibration
            A name, the data of :meth:`to_dict`, or a calibration.
        mechanism : str
            The mechanism, if ``value`` is a name.
        """
        if isinstance(value, Mapping):
            known = tuple(dict(value.get("facts", {})).items())
            value = cls(value.get("name", ""), str(value.get("mechanism", mechanism)), known)
        elif not isinstance(value, cls):
            value = cls(value, mechanism)
        check(value.name)
        return value


def names() -> tuple[str, ...]:
    """The names of all calibrations, ``"exact"`` first."""
    return (EXACT, *dict.fromkeys([*_MODULES, *(name for name, _ in _FORMULAS)]))


def check(calibration: Any) -> str:
    """Check that there is a calibration of this name, and return the name.

    Parameters
    ----------
    calibration : str
        What the user passed.
    """
    return choice(calibration, "calibration", names())


def register(
    calibration: str, mechanism: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function as a collection's formula for a mechanism.

    Parameters
    ----------
    calibration : str
        Name of the collection; a new name creates one.
    mechanism : str
        Name of the mechanism, such as ``"tree"``.
    """

    def enter(formula: Callable[..., Any]) -> Callable[..., Any]:
        _FORMULAS[calibration, mechanism] = formula
        return formula

    return enter


def find(calibration: str, mechanism: str) -> Callable[..., Any]:
    """The formula of a collection for a mechanism.

    Parameters
    ----------
    calibration : str
        Name of the collection.
    mechanism : str
        Name of the mechanism.

    Raises
    ------
    ValueError
        The collection has no formula for the mechanism.
    """
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
    calibration : str
        Name of the collection.
    mechanism : str
        Which formula of the collection.
    budget : Budget
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
    """The cost of all releases together as one Gaussian mechanism.

    Parameters
    ----------
    mu : float
        Sensitivity divided by the standard deviation of the noise; infinite if there is no noise at all.
    """
    return NoPrivacy() if math.isinf(mu) else Gaussian(mu)


def ratio(sensitivity: float, scale: float) -> float:
    """The sensitivity divided by the scale of the noise; infinite if there is no noise.

    Parameters
    ----------
    sensitivity : float
        How far one record moves what is released.
    scale : float
        Scale of the noise.
    """
    if sensitivity == 0.0:
        return 0.0
    return math.inf if scale == 0.0 else sensitivity / scale
