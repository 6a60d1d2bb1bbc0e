"""The algorithms whose iterates are perturbed, and how stable they are.

Implicit gradient steps (Kulis and Bartlett 2010; [online], (20)) and projected gradient steps (Zinkevich 2003;
[online], Algorithm 3, with corrected step sizes). One record moves the t-th iterate by at most (moved gradient)/A_t,
where A_t is all the strong convexity so far. The proofs, and the effect of rounding, are in
docs/algorithms/perturbed-iterates.md.

Clipping the gradient vector would destroy the stability of gradient steps, because a clipped gradient need not be
monotone. Clipping the slope of a generalised linear loss does not, so that is what is done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from reticent.losses import GeneralizedLinear
from reticent.online import iterate_kernels as k
from reticent.sets import ConvexSet


@dataclass(frozen=True)
class ImplicitGradient:
    """Implicit gradient descent: x' = argmin of l_t(x) + ||x - x_t||^2 / (2 step) (Kulis and Bartlett 2010).

    Parameters
    ----------
    projected : bool, optional
        Whether to minimise over the whole space and then project, instead of minimising over the set. Both are
        equally stable. By default the minimum is over the set for smooth losses, as in [online], (20), and projected
        for losses with kinks, whose minimum over a set cannot be found to full precision.
    """

    projected: bool | None = None


@dataclass(frozen=True)
class GradientDescent:
    """Projected gradient descent with steps min(1/(alpha t), 2/(alpha + smoothness)); smooth losses only."""


def kind_of(inner: Any, loss: Any) -> int:
    """The number by which the compiled loop identifies the inner algorithm."""
    if not isinstance(loss, GeneralizedLinear):
        raise TypeError(
            f"loss must be a generalised linear loss of reticent.losses, got {loss!r}: privacy depends on the "
            "stability of the iterates, which is proved for these losses; use "
            "FollowTheApproximateLeader for a loss of your own"
        )
    kinked = not math.isfinite(loss.data_smoothness)
    if isinstance(inner, GradientDescent):
        if kinked:
            raise ValueError(
                f"GradientDescent needs a smooth loss, got {loss!r}; use ImplicitGradient"
            )
        return k.GRADIENT
    if not isinstance(inner, ImplicitGradient):
        raise TypeError(f"inner must be ImplicitGradient() or GradientDescent(), got {inner!r}")
    projected = kinked if inner.projected is None else inner.projected
    if kinked and not projected:
        raise ValueError(
            f"projected=False needs a smooth loss, because the minimum of {loss!r} over a set cannot be found to "
            "full precision; leave out projected, or use a smooth loss"
        )
    return k.PROJECTED_IMPLICIT if projected else k.IMPLICIT


def drift(set: ConvexSet, loss: GeneralizedLinear, lipschitz: float, added: float) -> float:
    """What the rounding of one step can add, for both of two neighbouring streams together, to every later iterate.

    A step consists of a few vector operations, an inner product and a projection: the error of each is at most about
    dim + 8 units of its size, and the solution for the slope has as large an error again, and some units of its
    argument.
    """
    away = float(np.linalg.norm(set.center))
    strength = loss.ridge + 2.0 * added
    radius = set.norm_bound
    if not math.isfinite(radius):
        radius = lipschitz / loss.ridge + away
    size = radius + away + lipschitz / strength
    bend = loss.data_smoothness if math.isfinite(loss.data_smoothness) else 0.0
    # the slope's error is that of its argument times the curvature, divided by A
    size *= 1.0 + min(1.0, bend / strength)
    units = set.dim + 8.0 + loss.feature_norm * radius
    return 2.0 * 8.0 * units * size * 2.0**-53


def balanced_addition(
    set: ConvexSet, loss: GeneralizedLinear, lipschitz: float, mu: float, horizon: int | None
) -> float:
    """The added regulariser a that balances its pull with the noise.

    With a radius R and curvature b along a record, these are 2 a R^2 sqrt(T) and 2.25 b (L/(4 a mu))^2 T. If the best
    decision is on the boundary with a slope g across it, the noise that the projection cuts off costs 0.733 g L/(4 a
    mu) T more. Nothing is known about g; it is taken to be b R, which is what the curvature can change across the
    set, or L if there is no curvature.
    """
    T = float(horizon or 2**20)
    R = min(float(set.diameter), set.norm_bound + float(np.linalg.norm(set.center)))
    if not math.isfinite(R):
        raise ValueError("added_regularizer='auto' needs a bounded set; pass a number instead")
    bend = min(loss.data_smoothness, lipschitz / R)
    noise = lipschitz / (4.0 * mu * R)
    slope = bend if bend > 0.0 else lipschitz / R
    cut, bent = 0.733 * slope * noise * math.sqrt(T), 4.5 * bend * noise**2 * math.sqrt(T)
    # the sum of all three is smallest where 2 a^3 = cut a + bent, whose root is near the larger of these
    low = max(math.sqrt(0.5 * cut), (0.5 * bent) ** (1 / 3))
    return float(brentq(lambda a: 2.0 * a**3 - cut * a - bent, 0.5 * low, 2.0 * low, rtol=1e-12))
