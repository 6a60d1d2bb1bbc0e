"""A published amount of noise, what its paper claims for it, and what it really gives.

The noise is one of the formulas of this sub-package; the truth is computed from the exact
sensitivities derived on the pages under docs/algorithms/, never from the paper's.

The one thing a reader would get wrong: a claim holds for a neighbouring relation. The same noise
has one true epsilon under ``"zero-out"`` and a larger one, more than twice it for Gaussian noise,
under ``"replace"``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from reticent._checks import FloatArray, choice, number
from reticent.privacy.budget import NEIGHBOURS
from reticent.privacy.curves import Curve, Gaussian, NoPrivacy


@dataclass(frozen=True, eq=False)
class Published:
    """One published formula, evaluated.

    Parameters
    ----------
    scale
        The noise exactly as printed: a standard deviation (``"gaussian"``), the scale of the
        radius (``"gamma"``) or of each coordinate (``"laplace"``), or what the loss is divided by
        (``"exponential"``). An array where the noise changes with time.
    noise
        Which of these it is.
    formula
        The formula in words, with the paper's letters.
    where
        The paper, and the place in it.
    claimed
        The (epsilon, delta) that the paper states for this noise.
    relation
        The neighbouring relation of the paper's statement.
    zero_out, replace
        What the noise really costs under each relation.
    bounds
        The relations for which that is a proved upper bound, not known to be attained.
    regulariser
        The ridge that must go with the noise, where the mechanism needs one.

    Examples
    --------
    >>> from reticent.privacy import published
    >>> tree = published.window_tree_gaussian(1.0, 1e-6, window=64)
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


def gaussian_curve(mu: float) -> Curve:
    """All releases together as one Gaussian mechanism; an infinite ratio is no noise at all."""
    return NoPrivacy() if math.isinf(mu) else Gaussian(mu)


def ratio(sensitivity: float, scale: float) -> float:
    """Sensitivity in units of the noise; infinite where there is no noise."""
    if sensitivity == 0.0:
        return 0.0
    return math.inf if scale == 0.0 else sensitivity / scale
