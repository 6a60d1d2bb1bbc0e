"""What a learner lost, and what it lost beyond the best fixed decision (Zinkevich 2003).

The one thing a reader would get wrong: losses and regret are read off private data. They are
diagnostics for whoever holds the data; no guarantee covers publishing them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent import _checks
from reticent.losses.base import FloatArray
from reticent.losses.hindsight import BestFixed


def cumulative(losses: Any) -> FloatArray:
    """The running total of the losses.

    Examples
    --------
    >>> cumulative([1.0, 0.5, 0.25]).tolist()
    [1.0, 1.5, 1.75]
    """
    played = _checks.real_array(losses, "losses")
    return np.cumsum(_checks.vector(played, "losses", played.size))


def regret(played: Any, best: BestFixed | Any) -> float:
    """The total loss of what was played less that of the comparator.

    Parameters
    ----------
    played : array
        The loss of each round.
    best : BestFixed or array
        From `best_fixed`, or the losses of any other comparator, one for each round. The true
        regret may exceed the one against a `BestFixed` by at most its total gap.
    """
    curve = regret_curve(played, best)
    return float(curve[-1]) if len(curve) else 0.0


def regret_curve(played: Any, best: BestFixed | Any) -> FloatArray:
    """The running regret against the comparator that is best over all rounds."""
    losses = _checks.real_array(played, "played")
    losses = _checks.vector(losses, "played", losses.size)
    against = best.losses if isinstance(best, BestFixed) else best
    return np.cumsum(losses - _checks.vector(against, "best", losses.size))
