"""From a budget to the scale of the noise.

Gaussian noise is calibrated to the exact trade-off (Balle and Wang, *Improving the Gaussian mechanism*, Algorithm 1, in
closed form for any composition), other noise by a search over the scale with the accounting of
:mod:`reticent.privacy.compose`.

Sensitivities are those *under the neighbouring relation*: pass ``budget.sensitivity(norm)``, never the norm itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from reticent.checks import integer, number, positive, real_array
from reticent.privacy.budget import Budget
from reticent.privacy.composition import meets
from reticent.privacy.curves import BoundedRange, Curve, Laplace, Pure
from reticent.privacy.guarantee import Guarantee, Release
from reticent.privacy.objective import ObjectivePerturbation

_ROUND_UP = 1.0 + 2.0**-50


def gaussian(budget: Budget, sensitivities: ArrayLike) -> float:
    """Standard deviation of Gaussian noise for several releases that meet a budget together.

    Parameters
    ----------
    budget : Budget
        What all releases may spend together; its delta must be above 0.
    sensitivities : array_like of float
        The l2 sensitivity of each release.

    Returns
    -------
    float
        The standard deviation, rounded up; 0 if nothing can move.

    Examples
    --------
    >>> round(gaussian(Budget(1.0, 1e-6), 1.0), 4)
    4.2247
    >>> round(gaussian(Budget(1.0, 1e-6), [3.0, 4.0]) / gaussian(Budget(1.0, 1e-6), 5.0), 12)
    1.0
    """
    values = real_array(sensitivities, "sensitivities")
    if values.size == 0 or not (np.isfinite(values).all() and (values >= 0.0).all()):
        raise ValueError(
            f"sensitivities must be one or more finite numbers, each 0 or more; got {sensitivities!r}"
        )
    largest = float(values.max())
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(float(((values / largest) ** 2).sum())) / budget.mu * _ROUND_UP


def gamma(budget: Budget, sensitivity: float, count: int = 1) -> float:
    """Scale c of noise whose density is proportional to ``exp(-||noise|| / c)``.

    The norm is the one in which ``sensitivity`` is measured. For the Euclidean norm in d dimensions the radius is Gamma
    distributed with shape d and scale c.

    Parameters
    ----------
    budget : Budget
        What all releases may spend together.
    sensitivity : float
        Sensitivity of each release in that norm.
    count : int
        Number of releases.

    Returns
    -------
    float
        The scale.

    Examples
    --------
    >>> gamma(Budget(0.5), 1.0, count=11)
    22.0
    """
    return _by_epsilon(budget, sensitivity, count, Pure)


def laplace(budget: Budget, sensitivity: float, count: int = 1) -> float:
    """Scale of Laplace noise.

    Parameters
    ----------
    budget : Budget
        What all releases may spend together.
    sensitivity : float
        The l1 sensitivity of each release.
    count : int
        Number of releases.

    Returns
    -------
    float
        The scale.

    Examples
    --------
    >>> laplace(Budget(0.5), 1.0), laplace(Budget(0.5, 1e-6), 1.0, count=100) < 200 / 2
    (2.0, True)
    """
    return _by_epsilon(budget, sensitivity, count, Laplace)


def gumbel(budget: Budget, sensitivity: float, count: int = 1) -> float:
    """Scale of Gumbel noise on scores, which makes the largest noisy score the exponential mechanism's choice.

    Parameters
    ----------
    budget : Budget
        What all choices may spend together.
    sensitivity : float
        How far any one score may move, up or down.
    count : int
        Number of choices.

    Returns
    -------
    float
        The scale.

    Examples
    --------
    >>> round(gumbel(Budget(1.0, 1e-6), 1.0, count=99), 1)
    44.8
    """
    return 2.0 * _by_epsilon(budget, sensitivity, count, BoundedRange)


def _by_epsilon(
    budget: Budget, sensitivity: float, count: int, kind: Callable[[float], Curve]
) -> float:
    sensitivity = number(sensitivity, "sensitivity", low=0.0)
    count = integer(count, "count", low=1)
    if budget.delta == 0.0:
        return sensitivity * count / budget.epsilon

    def build(scale: float) -> Guarantee:
        release = Release("calibration", kind(1.0 / scale), 1.0, "trial", count)
        return Guarantee([release], budget.neighbours, budget.window)

    return sensitivity * calibrate(budget, build, start=count / budget.epsilon)


def objective_perturbation(
    budget: Budget, norm: float, log_determinant: float, *, persons: bool = False, count: int = 1
) -> float:
    """Standard deviation of the linear term that makes a generalised linear fit private.

    Parameters
    ----------
    budget : Budget
        What the fits may spend together; its delta must be above 0.
    norm : float
        Bound on the norm of one record's gradient; this function applies the neighbouring relation itself.
    log_determinant : float
        ``log(1 + curvature / regularisation)``; ``count`` times it must be below epsilon.
    persons : bool
        Whether persons with several records are protected; then both bounds are those of a person.
    count : int
        Number of fits with independent noise, if ``persons`` is true.

    Returns
    -------
    float
        The standard deviation.

    Raises
    ------
    ValueError
        The regularisation is too weak for epsilon, or delta is 0.

    Examples
    --------
    >>> import math
    >>> round(objective_perturbation(Budget(1.0, 1e-6), 1.0, math.log(1.5)), 2)
    6.85
    """
    norm = number(norm, "norm", low=0.0)
    c = number(log_determinant, "log_determinant", low=0.0)
    if count * c >= budget.epsilon:
        raise ValueError(
            f"count * log_determinant must be below epsilon = {budget.epsilon:g}, got {count * c:g}; "
            "regularise more, or raise epsilon"
        )
    if budget.delta == 0.0:
        raise ValueError(
            "delta must be above 0 for Gaussian noise, got a budget with delta = 0; choose "
            "delta > 0, or the gamma noise of pure objective perturbation"
        )
    if norm == 0.0:
        return 0.0

    def build(sigma: float) -> Guarantee:
        curve = ObjectivePerturbation(
            1.0 / sigma, c, budget.neighbours, count=count, persons=persons
        )
        release = Release("calibration", curve, None, "trial")
        return Guarantee([release], budget.neighbours, budget.window)

    return norm * calibrate(budget, build, start=1.0 / budget.mu)


def calibrate(
    budget: Budget,
    build: Callable[[float], Guarantee],
    *,
    start: float = 1.0,
    tolerance: float = 1e-9,
) -> float:
    """The smallest multiplier of the noise at which ``build(multiplier)`` meets the budget.

    Parameters
    ----------
    budget : Budget
        What may be spent.
    build : callable
        Maps a multiplier to the guarantee that it would give, which must become more private as the multiplier grows.
    start : float
        A first guess, which only saves time.
    tolerance : float
        Relative distance to the smallest multiplier. The result always meets the budget.

    Returns
    -------
    float
        The multiplier.

    Raises
    ------
    ValueError
        No multiplier meets the budget.

    Examples
    --------
    >>> from reticent.privacy import Gaussian
    >>> def build(m):
    ...     return Guarantee([Release("sum", Gaussian(1.0 / m), 1.0, f"gaussian, sd {m}")])
    >>> round(calibrate(Budget(1.0, 1e-6), build), 4)
    4.2247
    """
    start = positive(start, "start")
    tolerance = number(tolerance, "tolerance", low=1e-12, high=0.1)

    @functools.cache  # the root finder asks again at both ends
    def excess(logarithm: float) -> float:
        guarantee = build(math.exp(logarithm))
        if (guarantee.neighbours, guarantee.window) != (budget.neighbours, budget.window):
            raise ValueError(
                "build must return guarantees with the budget's neighbours and window, neighbours="
                f"{budget.neighbours!r} and window={budget.window}; got neighbours="
                f"{guarantee.neighbours!r} and window={guarantee.window}"
            )
        epsilon = guarantee.epsilon(budget.delta)
        # Bounded for the root finder; the sign says exactly whether the budget is met.
        size = math.log(min(max(epsilon / budget.epsilon, 1e-9), 1e9))
        if budget.fade is not None or guarantee.ages:
            met = guarantee.meets(budget)
        else:
            met = meets(guarantee.curve, budget, epsilon)
        return min(size, 0.0) if met else max(size, 1e-15)

    step, reach = math.log(4.0), 70.0
    low = high = math.log(start)
    if excess(high) > 0.0:
        while excess(high) > 0.0:
            low, high = high, high + step
            if high > math.log(start) + reach:
                raise ValueError(
                    f"no multiplier up to {math.exp(low):.3g} meets the budget ({budget}); some "
                    "part does not become private as the noise grows; with delta = 0, Gaussian "
                    "noise never does: use delta > 0 or pure noise"
                )
    else:
        low -= step
        while excess(low) <= 0.0:
            low, high = low - step, low
            if low < math.log(start) - reach:
                return math.exp(high)  # almost no noise is already private enough
    root = float(brentq(excess, low, high, xtol=0.25 * tolerance, rtol=1e-15, maxiter=200))
    move = 0.25 * tolerance
    while excess(root) > 0.0:
        root, move = min(root + move, high), 2.0 * move
    return math.exp(root)
