"""Buffered linear Toeplitz coefficients: the correlated noise of a running total, optimised.

The noise of a total is ``B z`` with fresh ``z`` and ``B`` lower-triangular Toeplitz with generating
function ``b(x) = 1 + sum_j om_j x / (1 - th_j x) = prod_j (1 - ze_j x) / (1 - th_j x)``: one buffer
for each ``j`` (Dvijotham, McMahan, Pillutla, Steinke and Thakurta, "Efficient and
near-optimal noise generation for streaming differential privacy", 2024). The strategy
``C = B^-1 A``, ``A`` the lower triangle of ones, has first column ``c``, the running sums of the
coefficients of ``1 / b``. Here ``th_1 > ze_1 > th_2 > ze_2 > ... > 0``, so that every weight is
positive, every sum is a sum of positive terms, and ``c`` is positive and decreasing. Formulae:
docs/algorithms/correlated.md.

The one thing a reader would get wrong: the parameters are ``1 - th`` and ``1 - ze``, on the grid of
multiples of 2^-53 where ``1 - (1 - a) == a``, so the decay that a loop multiplies by and the gap
that the privacy guarantee is computed from are the same number; never round one without the other.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tacit._checks import FloatArray, choice, integer, number

LARGEST_SIZE = 2**40
MOST_BUFFERS = 12

_VERSION = 1
_AUTOMATIC_BUFFERS = 6
_TOLERANCE = (
    1e-3  # a buffer must earn this much of the error, for it costs time and memory at each step
)
_WORST = 1.02  # no automatic choice is further than this from the square root
_NARROWEST = 1e-9  # between neighbouring logarithms, so that no logarithm of zero is taken


def _geometric(
    gap: FloatArray, log_ratio: FloatArray, terms: float
) -> tuple[FloatArray, FloatArray]:
    """``sum_{m < terms} r^m`` and its slope in the gap, for ``r = 1 - gap = exp(log_ratio)``."""
    if math.isinf(terms):
        return 1 / gap, -1 / gap**2
    terms = float(terms)  # any whole number, however large
    total = -np.expm1(terms * log_ratio) / gap
    return total, (terms * np.exp((terms - 1) * log_ratio) - total) / gap


def _double_geometric(
    gap: FloatArray, log_ratio: FloatArray, terms: int
) -> tuple[FloatArray, FloatArray]:
    """``sum_{s < terms} sum_{m < s} r^m`` and its slope in the gap."""
    single, slope = _geometric(gap, log_ratio, terms)
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


def _pairs(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``1 - r_i r_j`` and ``log(r_i r_j)`` of all pairs, from ``1 - r``, without cancellation."""
    log_ratio = np.log1p(-gap)
    product = gap[:, None] + gap - gap[:, None] * gap
    return product, log_ratio[:, None] + log_ratio


@dataclass(frozen=True)
class Toeplitz:
    """Parameters of one noise filter; public numbers, not secret, and hashable.

    Parameters
    ----------
    gap
        ``1 - th_j``, increasing, each in (0, 1). Rounded to the grid described above.
    inverse_gap
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
            given = [number(value, name, low=0, high=1) for value in getattr(self, name)]
            object.__setattr__(self, name, tuple(1 - (1 - value) for value in given))
        if len(self.gap) != len(self.inverse_gap):
            raise ValueError(
                f"gap and inverse_gap must have the same length, got {len(self.gap)} and "
                f"{len(self.inverse_gap)}; give one 1 - th and one 1 - ze for each buffer"
            )
        nodes = [0.0, *_interleave(self.gap, self.inverse_gap), 1.0]
        if self.gap and not all(low < high for low, high in pairwise(nodes)):
            raise ValueError(
                "gap and inverse_gap must interlace on multiples of 2^-53, 0 < gap[0] < "
                f"inverse_gap[0] < gap[1] < ... < 1, got {self.gap} and {self.inverse_gap}; "
                "drop pairs that coincide"
            )

    @property
    def buffers(self) -> int:
        return len(self.gap)

    @property
    def decay(self) -> tuple[float, ...]:
        """``th_j``, exactly 1 - gap: what a buffer of the noise is multiplied by at each step."""
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
    def gain(self) -> float:
        """``b(1)``, the sum of all noise coefficients; its inverse is the limit of ``c_k``."""
        return math.prod(z / a for a, z in zip(self.gap, self.inverse_gap, strict=True))

    @property
    def _settling(self) -> FloatArray:
        """``p_j`` in ``c_k = 1 / gain + sum_j p_j ze_j^k``."""
        return np.array(self.inverse_weight) / np.array(self.inverse_gap)

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
        result = np.full(n, 1 / self.gain)
        for a, weight in zip(self.inverse_gap, self._settling, strict=True):
            result += weight * np.exp(lag * math.log1p(-a))
        result[:1] = 1
        return result

    def squared_sensitivity(self, lags: int) -> float:
        """``sum_{k < lags} c_k^2``, in closed form."""
        lags = integer(lags, "lags", low=0)
        p, gap, limit = self._settling, np.array(self.inverse_gap), 1 / self.gain
        single = _geometric(gap, np.log1p(-gap), lags)[0]
        double = _geometric(*_pairs(gap), lags)[0]
        return float(lags * limit**2 + 2 * limit * (p @ single) + p @ double @ p)

    def absolute_sensitivity(self, lags: int) -> float:
        """``sum_{k < lags} c_k`` (all are positive), in closed form."""
        lags = integer(lags, "lags", low=0)
        gap = np.array(self.inverse_gap)
        return float(lags / self.gain + self._settling @ _geometric(gap, np.log1p(-gap), lags)[0])

    def squared_error(self, t: float) -> float:
        """``sum_{k < t} b_k^2``: the variance of the noise at step t, in closed form.

        ``t=math.inf`` gives the stationary variance of an endless stream.
        """
        steps = t if t == math.inf else integer(t, "t", low=0)
        if steps == 0:
            return 0.0
        om = np.array(self.weight)
        return float(1 + om @ _geometric(*_pairs(np.array(self.gap)), steps - 1)[0] @ om)

    def mean_squared_error(self, n: int) -> float:
        """The mean of ``squared_error(t)`` over t = 1, ..., n, in closed form."""
        n = integer(n, "n", low=1)
        om = np.array(self.weight)
        return float(1 + om @ _double_geometric(*_pairs(np.array(self.gap)), n)[0] @ om / n)

    def to_dict(self) -> dict[str, list[float]]:
        return {"gap": list(self.gap), "inverse_gap": list(self.inverse_gap)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[float]]) -> Toeplitz:
        return cls(gap=tuple(values["gap"]), inverse_gap=tuple(values["inverse_gap"]))


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

    Examples
    --------
    >>> square_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    n = integer(n, "n", low=0)
    k = np.arange(1, max(n, 1), dtype=np.float64)
    return np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))[:n]


def square_root_error(n: int, objective: str = "max") -> float:
    """Noise times sensitivity of the square-root factorisation, the yardstick of every filter here.

    ``"max"``: ``sum_{k < n} f_k^2``, for the last step. ``"mean"``: with the mean variance of steps
    1, ..., n. Exact to rounding for every n: these are Landau's constants, with a known series.

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


@dataclass(frozen=True)
class _Problem:
    """What is to be small: noise times sensitivity for a kind ("horizon", "window") and a size."""

    kind: str
    size: int
    objective: str

    @classmethod
    def of(cls, horizon: int | None, window: int | None, objective: str) -> _Problem:
        if (horizon is None) == (window is None):
            raise ValueError(
                f"give one of horizon and window, got horizon={horizon!r} and window={window!r}"
            )
        choice(objective, "objective", ("max", "mean"))
        if window is not None:
            # The variance of an endless stream settles: its long-run mean is its maximum.
            return cls("window", integer(window, "window", low=1, high=LARGEST_SIZE), "max")
        return cls("horizon", integer(horizon, "horizon", low=1, high=LARGEST_SIZE), objective)

    @property
    def reference(self) -> float:
        return square_root_error(self.size, self.objective)

    @property
    def ceiling(self) -> float:
        """The largest -log(1 - th) considered: there a buffer forgets nothing within the size."""
        return min(math.log(self.size) + 10, 34.0)

    def value(self, noise: Toeplitz) -> float:
        if self.kind == "window":
            variance = noise.squared_error(math.inf)
        elif self.objective == "max":
            variance = noise.squared_error(self.size)
        else:
            variance = noise.mean_squared_error(self.size)
        return math.sqrt(noise.squared_sensitivity(self.size) * variance)

    def log_value(self, y: FloatArray) -> tuple[float, FloatArray]:
        """The logarithm of ``value`` and its gradient at the nodes ``y``.

        ``y`` is increasing: -log(1 - ze_k), -log(1 - th_k), ..., -log(1 - ze_1), -log(1 - th_1).
        """
        n = self.size
        inverse, direct = slice(0, None, 2), slice(1, None, 2)
        sign = np.where(np.arange(y.size) % 2 == 0, 1.0, -1.0)
        apart = y[:, None] - y
        np.fill_diagonal(apart, 1.0)
        # log |e^-y_i - e^-y_j| and its slope in y_i; weights are products of such differences.
        log_apart = np.log(-np.expm1(-np.abs(apart))) - np.minimum(y[:, None], y)
        pull = sign[:, None] * sign / np.expm1(apart)
        np.fill_diagonal(log_apart, 0.0)
        np.fill_diagonal(pull, 0.0)
        weight = np.exp(-sign * (log_apart @ sign))
        gap = np.exp(-y)

        a = gap[inverse]
        p, limit = weight[inverse] / a, math.exp(float(y @ sign))
        single, single_slope = _geometric(a, np.log1p(-a), n)
        double, double_slope = _geometric(*_pairs(a), n)
        sensitivity = n * limit**2 + 2 * limit * (p @ single) + p @ double @ p
        by_p = 2 * p * (limit * single + double @ p)
        by_limit = 2 * n * limit**2 + 2 * limit * (p @ single)
        by_a = -2 * p * a * (limit * single_slope + (double_slope * (1 - a)) @ p)
        slope = by_limit * sign
        slope[inverse] += by_a + by_p
        slope /= sensitivity
        by_weight = np.empty_like(y)
        by_weight[inverse] = by_p / sensitivity

        a, om = gap[direct], weight[direct]
        if self.objective == "mean":
            double, double_slope = (part / n for part in _double_geometric(*_pairs(a), n))
        else:
            steps = math.inf if self.kind == "window" else n - 1
            double, double_slope = _geometric(*_pairs(a), steps)
        variance = 1 + om @ double @ om
        by_weight[direct] = 2 * om * (double @ om) / variance
        slope[direct] -= 2 * om * a * ((double_slope * (1 - a)) @ om) / variance

        slope -= pull @ by_weight + by_weight * pull.sum(axis=1)
        return 0.5 * math.log(sensitivity * variance), 0.5 * slope

    def descend(self, y: FloatArray) -> FloatArray:
        """The local minimum below the nodes ``y``."""
        from scipy.optimize import minimize

        room = self.ceiling - y.size * _NARROWEST

        def nodes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            share = np.exp(x - max(0.0, float(x.max())))
            share /= share.sum() + math.exp(-max(0.0, float(x.max())))
            return np.cumsum(_NARROWEST + room * share), share

        def loss(x: FloatArray) -> tuple[float, FloatArray]:
            at, share = nodes(x)
            value, slope = self.log_value(at)
            by_share = room * np.cumsum(slope[::-1])[::-1]
            return value, share * (by_share - share @ by_share)

        widths = np.maximum(np.diff(y, prepend=0.0, append=self.ceiling) - _NARROWEST, 1e-4)
        start = np.log(widths[:-1] / widths[-1])
        options = {"gtol": 1e-7, "maxiter": 500}
        return nodes(minimize(loss, start, jac=True, method="BFGS", options=options).x)[0]

    def best(self, buffers: int, starts: Sequence[FloatArray] = ()) -> Toeplitz:
        """The best filter with at most so many buffers, from the given starts or from scratch."""
        if buffers == 0 or self.size == 1:
            return Toeplitz()
        if not starts:
            top = math.log(self.size)
            ends = ((0.1, top), (0.5, top + 1.5), (0.2, top - 1.0))
            starts = [np.linspace(low, max(high, 1.0), 2 * buffers) for low, high in ends]
        found = [self.descend(start) for start in starts]
        return self._prune(min(found, key=lambda y: self.log_value(y)[0]))

    def _prune(self, y: FloatArray) -> Toeplitz:
        """Drop each pair of a pole and a zero that all but cancel."""
        allowed = self.log_value(y)[0] + 1e-7
        at = 0
        while at + 1 < y.size and y.size > 2:
            less = np.delete(y, [at, at + 1])
            same = 1 - math.exp(-y[at]) == 1 - math.exp(-y[at + 1])
            if same or self.log_value(less)[0] <= allowed:
                y = less
            else:
                at += 1
        gap = np.exp(-y[::-1])
        return Toeplitz(gap=tuple(gap[0::2].tolist()), inverse_gap=tuple(gap[1::2].tolist()))


def optimise(
    *,
    horizon: int | None = None,
    window: int | None = None,
    objective: str = "max",
    buffers: int | None = None,
) -> Toeplitz:
    """The filter with the smallest product of noise and sensitivity, computed afresh.

    Parameters
    ----------
    horizon
        Number of steps, each record protected in all of them.
    window
        Each record is protected for this many steps of an endless stream. Give one of the two.
    objective
        For a horizon: the error of the last step ("max", the largest of all) or the root of the
        mean variance over the steps ("mean"). The error of a window is that of the endless stream.
    buffers
        At most so many; those that all but cancel are dropped. None: the fewest that come within
        one part in a thousand of what six can do, and more than six only (beyond some 2^30 steps)
        where the product would otherwise be over 2 % above that of the square root.

    Examples
    --------
    >>> noise = optimise(horizon=64, buffers=2)
    >>> round(math.sqrt(noise.squared_sensitivity(64) * noise.squared_error(64)), 4)
    2.3913
    """
    problem = _Problem.of(horizon, window, objective)
    if buffers is not None:
        return problem.best(integer(buffers, "buffers", low=0, high=MOST_BUFFERS))
    found = [problem.best(k) for k in range(_AUTOMATIC_BUFFERS + 1)]
    while (
        min(problem.value(each) for each in found) > _WORST * problem.reference
        and len(found) <= MOST_BUFFERS
    ):
        found.append(problem.best(len(found)))
    values = [problem.value(each) for each in found]
    enough = min((1 + _TOLERANCE) * min(values), max(_WORST * problem.reference, min(values)))
    return next(each for each, value in zip(found, values, strict=True) if value <= enough)


def toeplitz(
    *,
    horizon: int | None = None,
    window: int | None = None,
    objective: str = "max",
    buffers: int | None = None,
) -> Toeplitz:
    """The filter of :func:`optimise`, looked up where it is known already.

    First in the table shipped with the library, then in the user's cache (the folder named by the
    environment variable ``TACIT_CACHE``, else ``~/.cache/tacit``); else it is optimised from the
    nearest size of the table, and stored. A cache that cannot be read or written costs time, and
    one that was tampered with costs accuracy, never privacy: the guarantee is computed from
    whatever filter is used.

    Examples
    --------
    >>> toeplitz(window=1024).buffers
    3
    """
    problem = _Problem.of(horizon, window, objective)
    if buffers is not None:
        buffers = integer(buffers, "buffers", low=0, high=MOST_BUFFERS)
    if problem.size == 1 or buffers == 0:
        return Toeplitz()
    known = _table().get((problem.kind, problem.objective), {})
    shipped = known.get(problem.size)
    if shipped is not None and buffers in (None, shipped.buffers):
        return shipped
    path = _cache_path(problem, buffers)
    found = _load(path, problem, buffers)
    if found is None:
        found = _from_nearest(problem, buffers, known) or optimise(
            horizon=horizon, window=window, objective=objective, buffers=buffers
        )
        _store(path, problem, found)
    return found


def _from_nearest(
    problem: _Problem, buffers: int | None, known: Mapping[int, Toeplitz]
) -> Toeplitz | None:
    if not known or buffers is not None:
        return None
    near = min(known, key=lambda size: abs(math.log(size / problem.size)))
    nodes = _interleave(known[near].gap, known[near].inverse_gap)
    scale = problem.ceiling / _Problem(problem.kind, near, problem.objective).ceiling
    found = problem.best(known[near].buffers, [-np.log(np.array(nodes[::-1])) * scale])
    return found if problem.value(found) <= _WORST * problem.reference else None


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], dict[int, Toeplitz]]:
    try:
        text = resources.files(__package__).joinpath("toeplitz_table.json").read_text("utf-8")
    except FileNotFoundError:  # while scripts/make_toeplitz_table.py makes it
        return {}
    table = json.loads(text)
    return {
        (kind, objective): {int(size): Toeplitz.from_dict(each) for size, each in entries.items()}
        for kind, objectives in table["filters"].items()
        for objective, entries in objectives.items()
    }


def _cache_path(problem: _Problem, buffers: int | None) -> Path | None:
    name = f"{problem.kind}-{problem.size}-{problem.objective}-{buffers or 'auto'}.json"
    try:
        folder = Path(os.environ.get("TACIT_CACHE") or Path.home() / ".cache" / "tacit")
    except RuntimeError:  # no home
        return None
    return folder / "toeplitz" / name


def _load(path: Path | None, problem: _Problem, buffers: int | None) -> Toeplitz | None:
    """What the cache holds, or None if it is missing, of another version, damaged or poor."""
    if path is None:
        return None
    try:
        entry: Any = json.loads(path.read_text("utf-8"))
        if entry["version"] != _VERSION:
            return None
        found = Toeplitz.from_dict(entry)
        value, stored = problem.value(found), number(entry["value"], "value")
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None
    poor = buffers is None and value > _WORST * problem.reference
    too_many = found.buffers > (MOST_BUFFERS if buffers is None else buffers)
    return None if poor or too_many or not math.isclose(value, stored, rel_tol=1e-9) else found


def _store(path: Path | None, problem: _Problem, found: Toeplitz) -> None:
    if path is None:
        return
    entry = {"version": _VERSION, "value": problem.value(found), **found.to_dict()}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A rename is atomic: another process sees the whole entry or none.
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(entry, file)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
