"""Find the buffered linear Toeplitz filter with the least error for a size, or look it up.

The product of error and sensitivity has a closed form in the filter's parameters (``toeplitz.py``),
so a search takes a fraction of a second; the usual sizes are shipped in a table.

The one thing a reader would get wrong: a table or a cache cannot break a promise. The guarantee is
computed from whatever filter is used.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from reticent._checks import FloatArray, choice, integer, number
from reticent.sums.toeplitz import (
    LARGEST_SIZE,
    MOST_BUFFERS,
    Toeplitz,
    _double_geometric,
    _geometric,
    _interleave,
    _pairs,
    square_root_error,
)

_VERSION = 1
_AUTOMATIC_BUFFERS = 6
# a buffer must earn this much of the error, for it costs time and memory at each step
_TOLERANCE = 1e-3
_WORST = 1.02  # no automatic choice is further than this from the square root
_NARROWEST = 1e-9  # between neighbouring logarithms, so that no logarithm of zero is taken


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
    environment variable ``RETICENT_CACHE``, else ``~/.cache/reticent``); else it is optimised from the
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
        folder = Path(os.environ.get("RETICENT_CACHE") or Path.home() / ".cache" / "reticent")
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
