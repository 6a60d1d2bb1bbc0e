"""The attack on low-order bits: are there outputs that only one of two neighbours can produce?

Mironov, *On significance of the least significant bits for differential privacy* (2012). Floating-point noise reaches
only few of the doubles near a value; adding the value shifts and rounds them to others. The position of the last set
bit of an output, or whether any state of the generator leads to it, then distinguishes the neighbours, whatever the
scale of the noise. See docs/lattice.md.

Testing that a generator is uniform does not find this. The noise may have exactly the right distribution function and
still reveal the value in its last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.audit.attack import mechanism
from reticent.audit.finding import Finding, as_curve
from reticent.audit.statistics import Score, Statistic
from reticent.checks import FloatArray, integer, number
from reticent.privacy import Curve, Guarantee

_NO_BIT = 1100.0  # above the place of any bit of a double


def last_bit(values: NDArray[Any]) -> FloatArray:
    """The position of the last set bit of each number: 1.0 gives 0, 0.75 gives -2.

    Parameters
    ----------
    values
        The numbers.

    Returns
    -------
    array
        One position for each number.

    Examples
    --------
    >>> last_bit(np.array([1.0, 0.75, 6.0]))
    array([ 0., -2.,  1.])
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64).reshape(-1))
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = whole & -whole
    with np.errstate(divide="ignore"):
        places = np.log2(np.abs(lowest).astype(np.float64))
    return np.where(lowest == 0, _NO_BIT, exponent - 53.0 + places)


def numbers(
    sampler: Callable[..., Any],
    *,
    claim: Guarantee | Curve | float,
    value: float = 1.0,
    runs: int = 20_000,
    delta: float | None = None,
    possible: Callable[[float, float], bool] | None = None,
    false_alarm: float = 1e-6,
    name: str = "last bits",
    progress: bool = False,
) -> Finding:
    """Attack the low-order bits of a noisy number.

    Parameters
    ----------
    sampler
        ``sampler(true, size)`` releases the number ``true`` ``size`` times, each with fresh noise.
    claim
        The claim about two inputs for which the true number is 0 and ``value``.
    value
        The other true number.
    runs
        Number of releases of each of the two numbers.
    delta
        The delta at which epsilon is bounded; by default 0 for a pure claim, else 1e-6.
    possible
        ``possible(output, true)`` says whether any state of the generator leads from the true number to this output.
        An output for which none does is impossible in that world.
    false_alarm
        Upper bound on the probability that the result exceeds the true epsilon.
    name : str
        Name for printing.
    progress : bool
        Whether to show the progress on standard error.

    Returns
    -------
    Finding
        ``how`` says which bits or outputs gave the number away.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def careless(true, size):
    ...     return true + rng.laplace(scale=10.0, size=size)
    >>> numbers(careless, claim=0.1).holds
    False
    >>> def careful(true, size):  # rounded to multiples of 2^-20, as is the true number
    ...     return true + np.rint(rng.laplace(scale=10.0, size=size) * 2**20) / 2**20
    >>> numbers(careful, claim=0.1).holds
    True
    """
    value = number(value, "value")
    runs = integer(runs, "runs", low=8)
    curve = as_curve(claim)
    assert curve is not None
    if delta is None:
        delta = 0.0 if curve.pure is not None else 1e-6
    scores: list[Statistic] = [
        Score(last_bit),
        Score(lambda rows: last_bit(rows - value)),
        # a small output has more places left to show
        Score(lambda rows: last_bit(rows) - np.log2(np.abs(rows.reshape(-1)) + 2.0**-1000)),
    ]
    if possible is not None:
        scores.append(Score(lambda rows: _possible(rows, value, possible)))
    return mechanism(
        sampler, 0.0, value, runs=runs, delta=delta, statistic=scores, claim=curve,
        false_alarm=false_alarm, batch=min(runs, 10_000), name=name, progress=progress,
    )  # fmt: skip


def _possible(
    rows: NDArray[Any], value: float, possible: Callable[[float, float], bool]
) -> FloatArray:
    outputs = rows.reshape(-1).tolist()
    return np.array([float(possible(y, value)) - float(possible(y, 0.0)) for y in outputs])


def grid(outputs: Any) -> float:
    """The largest power of two of which all outputs are multiples; 0 if there is none.

    Parameters
    ----------
    outputs
        The outputs.

    Returns
    -------
    float
        The power of two.

    Examples
    --------
    >>> grid([0.75, 3.0, -1.5])
    0.25
    """
    places = last_bit(np.asarray(outputs, dtype=np.float64))
    lowest = float(places.min())
    return 0.0 if lowest >= _NO_BIT else math.ldexp(1.0, int(lowest))
