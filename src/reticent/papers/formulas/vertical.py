"""The noise of feature-distributed Frank-Wolfe, as printed by Lou and Cheung.

The two subroutines, private signed index and private active feature, of *Uplink Communication Efficient Differentially
Private Sparse Optimization with Feature-Wise Distributed Data*; docs/errata.md lists their errors.

The printed sketch noise is scaled by 1/n, but Algorithm 2 (line 12) adds it to ``J a`` and not to ``J a / n``. Added as
printed it hides almost nothing.
"""

from __future__ import annotations

import math

from reticent.checks import choice, fraction, integer, positive
from reticent.privacy.budget import NEIGHBOURS
from reticent.privacy.compose import compose
from reticent.privacy.curves import Pure
from reticent.privacy.prescribed import Prescription

PAPER = (
    "Uplink Communication Efficient Differentially Private Sparse Optimization with Feature-Wise "
    "Distributed Data (Jian Lou, Yiu-ming Cheung)"
)
SCORES = ("plain", "scaled")
MESSAGES = ("printed", "averaged")


def vertical_index(
    epsilon: float,
    delta: float,
    *,
    parties: int,
    steps: int,
    n: int,
    radius: float = 1.0,
    norm: float = 1.0,
    scores: str = "plain",
) -> Prescription:
    """Laplace noise of the private signed index, item A; the claim is (epsilon/2, delta/2).

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    parties
        The number of parties K.
    steps
        The number of iterations T.
    n
        The number of records.
    radius
        The radius eta of the l1 ball.
    norm
        A bound G on every coordinate of one record's gradient, so that a score of the average
        loss moves by G/n or 2G/n. The paper does not define its G.
    scores
        ``"plain"``: the noise is added to the coordinates of the gradient, as in line 10 of Algorithm 2. ``"scaled"``:
        it is added to eta/K times the coordinates, for which the formula seems to be meant.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    parties, steps = integer(parties, "parties", low=1), integer(steps, "steps", low=1)
    n = integer(n, "n", low=1)
    radius = positive(radius, "radius")
    norm = positive(norm, "norm")
    printed = 2.0 * norm * radius / (parties * n)
    scale = (
        printed * math.sqrt(2.0 * steps * math.log(2.0 / delta)) / (epsilon / (2.0 * parties) / 2.0)
    )
    factor = radius / parties if choice(scores, "scores", SCORES) == "scaled" else 1.0
    # a noisy maximum compares two scores, which one record may move in opposite directions: twice the move
    step = 2.0 * factor * norm / n / scale
    return Prescription(
        scale=scale,
        noise="laplace",
        formula="scale = (2 G eta / (K n)) sqrt(2 T log(1/(delta/2))) / ((epsilon/(2 K))/2)",
        where=f"{PAPER}, item A, Private signed index computation",
        claimed=(epsilon / 2.0, delta / 2.0),
        relation="replace",
        zero_out=compose([(Pure(step), parties * steps)]),
        replace=compose([(Pure(2.0 * step), parties * steps)]),
        bounds=NEIGHBOURS,
    )


def vertical_sketch(
    epsilon: float,
    delta: float,
    *,
    parties: int,
    steps: int,
    n: int,
    singular_value: float,
    column_norm: float,
    bound: float = 1.0,
    message: str = "printed",
) -> Prescription:
    """Gaussian noise of the sketched active features, item B; the claim is (epsilon/2, delta/2).

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon that the formula is for.
    delta
        Privacy parameter delta.
    parties
        The number of parties K.
    steps
        The number of iterations T.
    n
        The number of records.
    singular_value
        The largest singular value of the sketch J, which the formula uses.
    column_norm
        The largest norm of a column of J, on which the true epsilon depends.
    bound
        The largest absolute value of a feature.
    message
        The vector to which the noise is added: ``"printed"``, J a as in line 12 of Algorithm 2, or ``"averaged"``,
        J a / n, for which the formula seems to be meant.
    """
    epsilon = positive(epsilon, "epsilon")
    delta = fraction(delta, "delta")
    parties, steps = integer(parties, "parties", low=1), integer(steps, "steps", low=1)
    n = integer(n, "n", low=1)
    singular_value = positive(singular_value, "singular_value")
    column_norm = positive(column_norm, "column_norm")
    bound = positive(bound, "bound")
    root = math.sqrt(parties * steps)
    sigma = (
        singular_value
        * root
        * math.sqrt(2.0 * (math.log(1.0 / delta) + epsilon / 2.0))
        / (n * epsilon / 2.0)
    )
    move = bound * column_norm
    if choice(message, "message", MESSAGES) == "averaged":
        move /= n
    mu = root * move / sigma
    return Prescription.gaussian(
        mu,
        scale=sigma,
        formula="pi = sigma(J) sqrt(K T) sqrt(2 (ln(1/delta) + epsilon/2)) / (n epsilon/2)",
        where=f"{PAPER}, item B, Private active feature sharing",
        claimed=(epsilon / 2.0, delta / 2.0),
        relation="replace",
    )
