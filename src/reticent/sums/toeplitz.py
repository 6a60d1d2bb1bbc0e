"""Coefficients of buffered linear Toeplitz noise, the correlated noise of running totals.

The noise of a total is ``B z`` with fresh ``z``, where ``B`` is lower-triangular Toeplitz with the generating
function ``b(x) = 1 + sum_j om_j x / (1 - th_j x) = prod_j (1 - ze_j x) / (1 - th_j x)`` and has one buffer for each
``j`` (Dvijotham, McMahan, Pillutla, Steinke and Thakurta, "Efficient and near-optimal noise generation for streaming
differential privacy", 2024). The strategy ``C = B^-1 A``, with ``A`` the lower triangle of ones, has the first column
``c``, the running sums of the coefficients of ``1 / b``. Here ``th_1 > ze_1 > th_2 > ze_2 > ... > 0``, so that every
weight is positive, every sum consists of positive terms, and ``c`` is positive and decreasing. Formulas:
docs/algorithms/correlated.md.

The parameters are ``1 - th`` and ``1 - ze``, on the grid of multiples of 2^-53, on which ``1 - (1 - a) == a``. So the
decay that a loop multiplies by and the gap from which the guarantee is computed are the same number; never round one
without the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from reticent.checks import FloatArray, choice, integer, items, number
from reticent.privacy.ages import Decay, geometric, pairs

LARGEST_SIZE = 2**40
MOST_BUFFERS = 12


def _double_geometric(
    gap: FloatArray, log_ratio: FloatArray, terms: int
) -> tuple[FloatArray, FloatArray]:
    """``sum_{s < terms} sum_{m < s} r^m`` and its derivative with respect to the gap."""
    single, slope = geometric(gap, log_ratio, terms)
    total = (terms - single) / gap
    total_slope = -(slope + total) / gap
    # The difference above cancels where terms * gap is small; there the binomial series
    # sum_j C(terms, j + 2) (-gap)^j converges in a few terms.
    small = terms * gap < 0.5
    if np.any(small):
        tiny = gap[small]
        term = np.full_like(tiny, terms * (terms - 1) / 2)
        value, scaled = np.zeros_like(tiny), np.zeros_like(tiny)
        for j in range(16):
            value += term
            scaled += j * term
            term = term * (-tiny * (terms - j - 2) / (j + 3))
        total[small], total_slope[small] = value, scaled / tiny
    return total, total_slope


@dataclass(frozen=True)
class Toeplitz:
    """Parameters of a noise filter: public numbers, and hashable.

    Parameters
    ----------
    gap : tuple of float
        ``1 - th_j``, increasing, each in [0, 1), rounded to the grid described above. A gap of 0 is a buffer that
        does not decay, a plain sum of the innovations: then ``c_k`` tends to 0 and ``squared_sensitivity(math.inf)``
        is finite, so that records are protected for ever, whatever the length of the stream.
    inverse_gap : tuple of float
        ``1 - ze_j``, interlacing: ``gap[0] < inverse_gap[0] < gap[1] < inverse_gap[1] < ... < 1``.

    Examples
    --------
    >>> noise = Toeplitz(gap=(0.25,), inverse_gap=(0.75,))
    >>> noise.decay, noise.weight, noise.inverse_decay, noise.inverse_weight
    ((0.75,), (0.5,), (0.25,), (0.5,))
    >>> noise.noise_coefficients(4)
    array([1.     , 0.5    , 0.375  , 0.28125])
    >>> noise.sensitivity_coefficients(4)
    array([1.     , 0.5    , 0.375  , 0.34375])
    """

    gap: tuple[float, ...] = ()
    inverse_gap: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("gap", "inverse_gap"):
            values = items(getattr(self, name), name, "numbers")
            given = [number(value, f"each of {name}", low=0, high=1) for value in values]
            kept = tuple(1 - (1 - value) for value in given)
            if any(value > 0.0 == rounded for value, rounded in zip(given, kept, strict=True)):
                raise ValueError(f"{name} must be 0 or at least 2^-53, got {tuple(given)}")
            object.__setattr__(self, name, kept)
        if len(self.gap) != len(self.inverse_gap):
            raise ValueError(
                f"gap and inverse_gap must have the same length, got {len(self.gap)} and "
                f"{len(self.inverse_gap)}; give one 1 - th and one 1 - ze for each buffer"
            )
        nodes = [*_interleave(self.gap, self.inverse_gap), 1.0]
        if self.gap and not all(low < high for low, high in pairwise(nodes)):
            raise ValueError(
                "gap and inverse_gap must interlace on multiples of 2^-53, 0 <= gap[0] < "
                f"inverse_gap[0] < gap[1] < ... < 1, got {self.gap} and {self.inverse_gap}; "
                "drop pairs that coincide"
            )

    @property
    def buffers(self) -> int:
        return len(self.gap)

    @property
    def decay(self) -> tuple[float, ...]:
        """``th_j``, exactly 1 - gap: the factor by which a buffer of the noise is multiplied at each step."""
        return tuple(1 - a for a in self.gap)

    @property
    def inverse_decay(self) -> tuple[float, ...]:
        """``ze_j``, exactly 1 - inverse_gap: the same for the inverse filter."""
        return tuple(1 - a for a in self.inverse_gap)

    @cached_property
    def weight(self) -> tuple[float, ...]:
        """``om_j > 0`` in ``b(x) = 1 + sum_j om_j x / (1 - th_j x)``."""
        return _residues(self.gap, self.inverse_gap)

    @cached_property
    def inverse_weight(self) -> tuple[float, ...]:
        """``om'_j > 0`` in ``1 / b(x) = 1 - sum_j om'_j x / (1 - ze_j x)``."""
        return _residues(self.inverse_gap, self.gap)

    @cached_property
    def limit(self) -> float:
        """The limit of ``c_k``: ``1 / b(1)``, the reciprocal of the sum of all noise coefficients."""
        return math.prod(a / z for a, z in zip(self.gap, self.inverse_gap, strict=True))

    @cached_property
    def sensitivity(self) -> Decay:
        """``c_k = limit + sum_j p_j ze_j^k``, with ``p_j = om'_j / (1 - ze_j)``."""
        settling = (w / z for w, z in zip(self.inverse_weight, self.inverse_gap, strict=True))
        return Decay(self.limit, tuple(settling), self.inverse_gap)

    def noise_coefficients(self, n: int) -> FloatArray:
        """``b_0, ..., b_{n-1}``."""
        n = integer(n, "n", low=0)
        lag = np.arange(n, dtype=np.float64) - 1
        result = np.zeros(n)
        for a, weight in zip(self.gap, self.weight, strict=True):
            result += weight * np.exp(lag * math.log1p(-a))
        result[:1] = 1
        return result

    def sensitivity_coefficients(self, n: int) -> FloatArray:
        """``c_0, ..., c_{n-1}``: how much one unit record moves each innovation, by lag."""
        n = integer(n, "n", low=0)
        lag = np.arange(n, dtype=np.float64)
        result = np.full(n, self.limit)
        for a, weight in zip(self.inverse_gap, self.sensitivity.weights, strict=True):
            result += weight * np.exp(lag * math.log1p(-a))
        result[:1] = 1
        return result

    def squared_sensitivity(self, lags: float) -> float:
        """``sum_{k < lags} c_k^2`` in closed form; ``lags=math.inf`` for all lags."""
        return self.sensitivity.sum_of_squares(_count(lags, "lags"))

    def absolute_sensitivity(self, lags: float) -> float:
        """``sum_{k < lags} c_k`` (all terms are positive) in closed form."""
        return self.sensitivity.sum(_count(lags, "lags"))

    def squared_error(self, t: float) -> float:
        """``sum_{k < t} b_k^2`` in closed form: the variance of the noise at step t.

        ``t=math.inf`` gives the stationary variance of an endless stream.
        """
        steps = _count(t, "t")
        if steps == 0:
            return 0.0
        om = np.array(self.weight)
        return float(1 + om @ geometric(*pairs(np.array(self.gap)), steps - 1)[0] @ om)

    def mean_squared_error(self, n: int) -> float:
        """The mean of ``squared_error(t)`` over t = 1, ..., n, in closed form."""
        n = integer(n, "n", low=1)
        om = np.array(self.weight)
        return float(1 + om @ _double_geometric(*pairs(np.array(self.gap)), n)[0] @ om / n)

    def to_dict(self) -> dict[str, list[float]]:
        return {"gap": list(self.gap), "inverse_gap": list(self.inverse_gap)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[float]]) -> Toeplitz:
        return cls(gap=tuple(values["gap"]), inverse_gap=tuple(values["inverse_gap"]))


def _count(value: float, name: str) -> float:
    return value if value == math.inf else integer(value, name, low=0)


def _interleave(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [value for pair in zip(first, second, strict=True) for value in pair]


def _residues(own: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    # Differences of numbers on the grid are exact, so only the products round.
    return tuple(
        abs(
            (other[j] - a)
            * math.prod((other[i] - a) / (own[i] - a) for i in range(len(own)) if i != j)
        )
        for j, a in enumerate(own)
    )


def square_root(n: int) -> FloatArray:
    """``f_0, ..., f_{n-1}``, the coefficients of ``(1 - x)^(-1/2)``: the square-root factorisation.

    Parameters
    ----------
    n : int
        Number of coefficients.

    Returns
    -------
    array
        The coefficients.

    Examples
    --------
    >>> square_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    n = integer(n, "n", low=0)
    k = np.arange(1, max(n, 1), dtype=np.float64)
    return np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))[:n]


def square_root_error(n: int, objective: str = "max") -> float:
    """Noise times sensitivity of the square-root factorisation, with which all filters here are compared.

    Exact up to rounding for every n: these are Landau's constants, which have a known asymptotic series.

    Parameters
    ----------
    n : int
        Number of steps.
    objective : {"max", "mean"}
        ``"max"``: ``sum_{k < n} f_k^2``, for the last step. ``"mean"``: with the mean variance of steps 1, ..., n.

    Returns
    -------
    float
        The product.

    Examples
    --------
    >>> round(square_root_error(1024), 4), round(square_root_error(1024, "mean"), 4)
    (3.2726, 3.1098)
    """
    n = integer(n, "n", low=1)
    choice(objective, "objective", ("max", "mean"))
    if n <= 256:
        f = square_root(n + 1)
        total, last = float(np.sum(f[:n] ** 2)), n * float(f[n]) ** 2
    else:
        x = 1 / n
        series = x * (-1 / 4 + x * (5 / 192 + x * (3 / 128 - x * (341 / 122880 + x * 75 / 8192))))
        total = (math.log(n) + np.euler_gamma + 4 * math.log(2) + series) / math.pi
        root = 1 - x * (
            1 / 8 - x * (1 / 128 + x * (5 / 1024 - x * (21 / 32768 + x * 399 / 262144)))
        )
        last = root**2 / math.pi
    if objective == "max":
        return total
    # (k + 1)^2 f_{k+1}^2 - k^2 f_k^2 = (k + 1/4) f_k^2, so sum k f_k^2 = n^2 f_n^2 - total / 4.
    return math.sqrt(total * (total * (1 + 1 / (4 * n)) - last))
