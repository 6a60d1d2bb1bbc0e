"""The noise of the window tree mechanism, as printed by Lou and Cheung.

Lemmas 1 and 3, Theorems 1 and 2 of *Projection-free Online Empirical Risk Minimization with Privacy-preserving and
Privacy Expiration*; docs/errata.md lists their errors.

The printed sensitivity ``L + mu D`` is the Lipschitz constant of the surrogate loss. A gradient clipped to ``L`` moves
by ``L`` (zero-out) or ``2 L`` (replace), whatever ``mu`` and ``D`` are.
"""

from __future__ import annotations

import math

from reticent.checks import fraction, integer, number, positive
from reticent.privacy.curves import Pure
from reticent.privacy.prescribed import Prescription

PAPER = (
    "Projection-free Online Empirical Risk Minimization with Privacy-preserving and Privacy "
    "Expiration (Jian Lou, Yiu-ming Cheung)"
)


def _printed_sensitivity(norm: float, strong_convexity: float, diameter: float) -> float:
    norm = positive(norm, "norm")
    convexity = number(strong_convexity, "strong_convexity", low=0.0)
    return norm + convexity * number(diameter, "diameter", low=0.0)


def window_tree_gaussian(
    epsilon: float,
    delta: float,
    *,
    window: int,
    norm: float = 1.0,
    strong_convexity: float = 0.0,
    diameter: float = 0.0,
) -> Prescription:
    """Gaussian noise of every node of the window tree, Theorem 2.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    window
        Number of outputs for which a record is protected, W.
    norm
        Norm to which each contribution is clipped, L.
    strong_convexity
        The mu of the printed sensitivity L + mu D; 0 gives Lemma 3 with L alone.
    diameter
        The D of the printed sensitivity L + mu D; 0 gives Lemma 3 with L alone.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    window = integer(window, "window", low=1)
    printed = _printed_sensitivity(norm, strong_convexity, diameter)
    levels = (window - 1).bit_length() + 1  # ceil(log2 W) + 1 without rounding
    sigma = math.sqrt(8.0) * printed * levels * math.log(2.0 / delta) / epsilon
    # dyadic nodes longer than the window are never used: one node of each size up to W
    mu = math.sqrt(window.bit_length()) * float(norm) / sigma
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="sigma = sqrt(8) (L + mu D) (ceil(log2 W) + 1) ln(2/delta) / epsilon",
        where=f"{PAPER}, Lemma 3 (13) and Theorem 2 (16)",
        claimed=(epsilon, delta),
        relation="replace",
    )


def window_tree_gamma(
    epsilon: float,
    *,
    window: int,
    norm: float = 1.0,
    strong_convexity: float = 0.0,
    diameter: float = 0.0,
) -> Prescription:
    """Gamma noise of every node of the window tree, Theorem 1.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    window
        Number of outputs for which a record is protected, W.
    norm
        Norm to which each contribution is clipped, L.
    strong_convexity
        The mu of the printed sensitivity L + mu D; 0 gives Lemma 1 with L alone.
    diameter
        The D of the printed sensitivity L + mu D; 0 gives Lemma 1 with L alone.
    """
    epsilon = positive(epsilon, "epsilon")
    window = integer(window, "window", low=1)
    printed = _printed_sensitivity(norm, strong_convexity, diameter)
    scale = printed * ((window - 1).bit_length() + 1) / epsilon
    true = window.bit_length() * float(norm) / scale
    return Prescription(
        scale=scale,
        noise="gamma",
        formula="scale = (L + mu D) (ceil(log2 W) + 1) / epsilon",
        where=f"{PAPER}, Lemma 1 (11) and Theorem 1 (15)",
        claimed=(epsilon, 0.0),
        relation="replace",
        zero_out=Pure(true),
        replace=Pure(2.0 * true),
    )
