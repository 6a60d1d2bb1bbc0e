"""The result of an attack: a lower bound on epsilon, its confidence, and the claim it is compared with.

A lower bound below the claim proves nothing about the mechanism. It says that this attack, with this number of runs,
did not refute the claim.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.privacy import (
    BoundedRange,
    Composed,
    Curve,
    Gaussian,
    Guarantee,
    Laplace,
    ObjectivePerturbation,
    Pure,
    compose,
    gaussian,
)

POWER = 0.5
"""A line that reaches less than this share of its claim says "no power" instead of "holds"."""


def as_curve(claim: Guarantee | Curve | float | None) -> Curve | None:
    """The claim as a privacy curve; a number is a pure epsilon."""
    if claim is None or isinstance(claim, Curve):
        return claim
    if isinstance(claim, Guarantee):
        return claim.curve
    if isinstance(claim, int | float) and not isinstance(claim, bool):
        return Pure(float(claim))
    raise TypeError(
        f"claim must be a Guarantee, a privacy curve, a pure epsilon or None, got {claim!r}"
    )


def part_of(claim: Curve, share: float) -> Curve | None:
    """The guarantee for noise divided by ``share``: every mu and every epsilon times ``share``; None if unknown.


    Examples
    --------
    >>> from reticent.privacy import Gaussian, Laplace, compose
    >>> part_of(compose([Gaussian(1.0), Laplace(2.0)]), 0.5)
    Composed(parts=((Gaussian(mu=0.5), 1), (Laplace(epsilon=1.0), 1)))
    """
    if share == 1.0:
        return claim
    if isinstance(claim, Composed):
        parts = [(part_of(part, share), count) for part, count in claim.parts]
        known = [(part, count) for part, count in parts if part is not None]
        return compose(known) if len(known) == len(parts) else None
    if isinstance(claim, Gaussian):
        return Gaussian(share * claim.mu)
    for kind in (Pure, Laplace, BoundedRange):
        if type(claim) is kind:
            return kind(share * claim.pure)
    if isinstance(claim, ObjectivePerturbation):
        return dataclasses.replace(
            claim, mu=share * claim.mu, log_determinant=share * claim.log_determinant
        )
    return None


def epsilon_of_part(claim: Curve, share: float, delta: float) -> float:
    """The epsilon at delta of this share of a claim; a share of the claim's epsilon if its parts are unknown."""
    part = part_of(claim, share)
    return share * claim.epsilon(delta) if part is None else part.epsilon(delta)


@dataclass(frozen=True)
class Roc:
    """An attacker's shares of false alarms and of misses for every threshold, with a confidence band.

    ``half_width`` is the largest error of each share at any threshold, except with the false-alarm probability.
    """

    false_alarms: FloatArray
    misses: FloatArray
    half_width: float


@dataclass(frozen=True)
class Finding:
    """The outcome of an attack.

    Attributes
    ----------
    name
        What was attacked.
    epsilon
        Lower bound on epsilon at ``delta``; larger than the truth with probability at most ``false_alarm``. Infinite if
        the noise repeats itself. For a Gaussian claim it includes what ``gdp`` implies.
    delta
        The delta at which epsilon is bounded.
    gdp
        Lower bound on the mu of Gaussian differential privacy; None if it was not computed.
    claim
        The claimed privacy curve, if one was given.
    runs
        Number of runs in each world.
    false_alarm
        Exact bound on the probability that any of the above exceeds the truth.
    repeated
        Whether runs that should be independent had the same noise.
    how
        The event, or the reason, behind the bound.
    roc
        The measured trade-off, for :meth:`plot`.
    control
        For attacks that reach either all of a claim or nothing: a fault that the same attack refuted. The reached share
        of the claim then says nothing about power.
    """

    name: str
    epsilon: float
    delta: float
    gdp: float | None
    claim: Curve | None
    runs: int
    false_alarm: float
    repeated: bool = False
    how: str = ""
    roc: Roc | None = None
    control: str = ""

    @functools.cached_property
    def claimed(self) -> float | None:
        """The claimed epsilon at ``delta``; None if there was no claim."""
        return None if self.claim is None else self.claim.epsilon(self.delta)

    @property
    def holds(self) -> bool:
        """Whether the claim was not refuted; True if there was none."""
        return not self.repeated and (self.claimed is None or self.epsilon <= self.claimed)

    @property
    def tightness(self) -> float | None:
        """The bound relative to the claim; None if there was no claim or the ratio is meaningless."""
        claimed = self.claimed
        if self.control or claimed is None or claimed == 0.0 or math.isinf(claimed):
            return None
        return self.epsilon / claimed

    @property
    def fault(self) -> float:
        """Approximately the smallest divisor of the noise that would be noticed; infinite if none would be.

        The bound on epsilon, or on mu if the claim is Gaussian, grows at least in proportion as noise shrinks.
        """
        stated = None if self.claim is None else self.claim.gdp
        share = self.gdp / stated if self.gdp and stated else self.tightness
        return 1.0 / share if share else math.inf

    @property
    def verdict(self) -> str:
        """``"holds"``, ``"REFUTED"``, or ``"no power"`` if less than half of the claim was reached."""
        if not self.holds:
            return "REFUTED"
        return "holds" if self.tightness is None or self.tightness >= POWER else "no power"

    def __str__(self) -> str:
        bound = f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}"
        if self.repeated:
            bound = "the noise repeats itself: epsilon is infinite"
        parts = [f"{self.name}: {bound}"]
        if self.claimed is not None:
            verdict = "the claim stands" if self.holds else "THE CLAIM IS FALSE"
            parts.append(f"claimed {self.claimed:.4g}, {verdict}")
        parts.append(f"{self.runs} runs a world, false alarm <= {self.false_alarm:g}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name, "epsilon": self.epsilon, "delta": self.delta, "gdp": self.gdp,
            "claimed": self.claimed, "holds": self.holds, "tightness": self.tightness,
            "runs": self.runs, "false_alarm": self.false_alarm, "repeated": self.repeated,
            "how": self.how, "control": self.control,
        }  # fmt: skip

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off between false alarms and misses: claimed, and measured with its band.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes; ``ax.figure.savefig(path)`` saves the figure.
        """
        from reticent.plots.tradeoff import COARSE, FINE, claimed_misses, trade_off

        if self.roc is None:
            raise ValueError(f"the attack on {self.name} kept no trade-off curve to draw")
        claims = {}
        if self.claim is not None:
            grid = np.linspace(0.0, 1.0, 401)
            # compositions of different kinds of releases are slow, so they are drawn with fewer points
            exact = self.claim.gdp is not None or self.claim.pure is not None
            lines = claimed_misses(self.claim.delta, grid, FINE if exact else COARSE)
            claims["claimed"] = (grid, lines)
        return trade_off(
            self.roc.false_alarms,
            self.roc.misses,
            self.roc.half_width,
            claims=claims,
            title=f"{self.name}: {self.runs} runs of each world",
            ax=ax,
        )


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon at delta of mu-GDP, as a lower bound: 0 where it says nothing."""
    if mu <= 0.0 or delta <= 0.0:
        return math.inf if mu > 0.0 else 0.0
    return math.inf if math.isinf(mu) else gaussian.epsilon(delta, mu)
