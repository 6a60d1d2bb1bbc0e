"""Find the buffered linear Toeplitz filter with the smallest error for a given length, or look it up.

The product of error and sensitivity has a closed form in the filter's parameters (``toeplitz.py``), so a search takes
a fraction of a second. The filters for common lengths are shipped in a table.

A wrong table or cache cannot break a guarantee, because the guarantee is computed from whatever filter is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from reticent.checks import FloatArray, choice, integer, number, positive
from reticent.privacy.ages import geometric, pairs
from reticent.privacy.participation import ONE_RECORD, Participation
from reticent.sums.toeplitz import (
    LARGEST_SIZE,
    MOST_BUFFERS,
    Toeplitz,
    _double_geometric,
    _interleave,
    square_root_error,
)

_VERSION = 1
_AUTOMATIC_BUFFERS = 6
# a buffer must reduce the error by this share, because it costs time and memory at each step
_TOLERANCE = 1e-3
_WORST = 1.02  # largest ratio of an automatically chosen filter to the square root
_FOR_EVER = 700.0  # -log(1 - th) of a buffer that does not decay, to the precision of a double
_NARROWEST = (
    1e-9  # smallest difference of neighbouring logarithms, so that no logarithm of zero is taken
)
_SHORT = (
    2**20
)  # endless filters for streams up to this length count from 2^3 steps on, others from 2^8
_MOST_RECORDS = 256  # of a person; with more the search would take too long


@dataclass(frozen=True)
class _Problem:
    """What is minimised: noise times sensitivity.

    ``kind`` is "horizon" (each record protected in all of ``size`` steps), "window" (for ``size`` steps of an endless
    stream), "fade" (at each age of ``profile``, relative to the mu that is allowed there, on an endless stream) or
    "endless" (for ever, without a horizon: the worst ratio to the square root over 2^8 to ``size`` steps, or from 2^3
    on if ``size`` is at most 2^20). ``participation`` says what is protected: a record, or a person with several.
    """

    kind: str
    size: int
    objective: str
    profile: tuple[tuple[int, float], ...] = ()
    participation: Participation = ONE_RECORD

    @classmethod
    def of(
        cls,
        horizon: int | None,
        window: int | None,
        objective: str,
        fade: Iterable[tuple[int, float]] | None = None,
        endless: int | None = None,
    ) -> _Problem:
        given = {"horizon": horizon, "window": window, "fade": fade, "endless": endless}
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError(
                "give exactly one of horizon, window, fade and endless; got "
                + ", ".join(f"{name}={value!r}" for name, value in given.items())
            )
        choice(objective, "objective", ("max", "mean"))
        if horizon is not None:
            size = integer(horizon, "horizon", low=1, high=LARGEST_SIZE)
            return cls("horizon", size, objective)
        # The variance of an endless stream converges, so its long-run mean equals its maximum.
        if window is not None:
            return cls("window", integer(window, "window", low=1, high=LARGEST_SIZE), "max")
        if endless is not None:
            return cls("endless", integer(endless, "endless", low=2**9, high=LARGEST_SIZE), "max")
        assert fade is not None
        pairs = tuple(
            (
                integer(age, "age", low=1, high=LARGEST_SIZE),
                positive(mu, "mu"),
            )
            for age, mu in fade
        )
        if not pairs or any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(pairs)):
            raise ValueError(
                "fade must be pairs (age, mu) whose ages increase and whose mu does not decrease; "
                f"got {pairs}"
            )
        return cls("fade", pairs[-1][0], "max", pairs)

    @property
    def reference(self) -> float:
        """The value of the square root; infinite if it is no reference."""
        if self.kind in ("fade", "endless") or self.participation != ONE_RECORD:
            return math.inf
        return square_root_error(self.size, self.objective)

    @property
    def ceiling(self) -> float:
        """The largest -log(1 - th) considered: such a buffer hardly decays within the size."""
        return min(math.log(self.size) + 10, 34.0)

    @property
    def _ages(self) -> list[tuple[float, float]]:
        """Numbers of lags over which records are protected, and the mu that is allowed for each."""
        if self.kind == "fade":
            return [(float(age), mu) for age, mu in self.profile]
        return [(math.inf if self.kind == "endless" else float(self.size), 1.0)]

    @property
    def _times(self) -> list[tuple[float, float]]:
        """Steps at which the error counts, and the value with which it is compared."""
        if self.kind == "endless":
            low, top = 3.0 if self.size <= _SHORT else 8.0, math.log2(self.size)
            grid = [round(2.0**e) for e in np.linspace(low, top, int(4 * (top - low)) + 1)]
            return [(float(n), square_root_error(n)) for n in grid]
        return [(math.inf if self.kind in ("window", "fade") else float(self.size), 1.0)]

    def value(self, noise: Toeplitz) -> float:
        squares = noise.sensitivity.sum_of_squares
        sensitivity = max(
            math.sqrt(squares(_whole(a), self.participation)) / mu for a, mu in self._ages
        )
        if self.objective == "mean":
            return sensitivity * math.sqrt(noise.mean_squared_error(self.size))
        return sensitivity * max(
            math.sqrt(noise.squared_error(_whole(t))) / against for t, against in self._times
        )

    def log_value(self, y: FloatArray, sharpness: float = math.inf) -> tuple[float, FloatArray]:
        """The logarithm of ``value`` and its gradient at the nodes ``y``.

        ``y`` is increasing: -log(1 - ze_k), -log(1 - th_k), ..., -log(1 - ze_1), -log(1 - th_1); for an endless
        stream without the last one, which is infinite. If several ages or times count, their maximum is smoothed,
        less so for a larger ``sharpness``.
        """
        endless = self.kind == "endless"
        nodes = np.append(y, _FOR_EVER) if endless else y
        inverse, direct = slice(0, None, 2), slice(1, None, 2)
        sign = np.where(np.arange(nodes.size) % 2 == 0, 1.0, -1.0)
        apart = nodes[:, None] - nodes
        np.fill_diagonal(apart, 1.0)
        # log |e^-y_i - e^-y_j| and its slope in y_i; weights are products of such differences.
        log_apart = np.log(-np.expm1(-np.abs(apart))) - np.minimum(nodes[:, None], nodes)
        with np.errstate(over="ignore"):
            pull = sign[:, None] * sign / np.expm1(apart)
        np.fill_diagonal(log_apart, 0.0)
        np.fill_diagonal(pull, 0.0)
        weight = np.exp(-sign * (log_apart @ sign))
        gap = np.exp(-nodes)
        by_weight, slope = np.zeros_like(nodes), np.zeros_like(nodes)

        a = gap[inverse]
        p, limit = weight[inverse] / a, 0.0 if endless else math.exp(float(nodes @ sign))
        parts = []
        for n, mu in self._ages:
            single, single_slope = geometric(a, np.log1p(-a), n)
            double, double_slope = geometric(*pairs(a), n)
            whole = 0.0 if limit == 0.0 else n * limit**2
            sensitivity = whole + 2 * limit * (p @ single) + p @ double @ p
            by_p = 2 * p * (limit * single + double @ p)
            by_limit = 2 * whole + 2 * limit * (p @ single)
            by_a = -2 * p * a * (limit * single_slope + (double_slope * (1 - a)) @ p)
            own = by_limit * sign
            own[inverse] += by_a + by_p
            mine = np.zeros_like(nodes)
            mine[inverse] = by_p
            parts.append(
                (0.5 * math.log(sensitivity) - math.log(mu), own / sensitivity, mine / sensitivity)
            )
        log_sensitivity, share = _soft_maximum([part[0] for part in parts], sharpness)
        slope += sum(w * part[1] for w, part in zip(share, parts, strict=True))
        by_weight += sum(w * part[2] for w, part in zip(share, parts, strict=True))

        a, om = gap[direct], weight[direct]
        parts = []
        for t, against in self._times:
            if self.objective == "mean":
                double, double_slope = (x / t for x in _double_geometric(*pairs(a), int(t)))
            else:
                double, double_slope = geometric(*pairs(a), t if t == math.inf else t - 1)
            variance = 1 + om @ double @ om
            own, mine = np.zeros_like(nodes), np.zeros_like(nodes)
            mine[direct] = 2 * om * (double @ om) / variance
            own[direct] = -2 * om * a * ((double_slope * (1 - a)) @ om) / variance
            parts.append((0.5 * math.log(variance) - math.log(against), own, mine))
        log_error, share = _soft_maximum([part[0] for part in parts], sharpness)
        slope += sum(w * part[1] for w, part in zip(share, parts, strict=True))
        by_weight += sum(w * part[2] for w, part in zip(share, parts, strict=True))

        slope -= pull @ by_weight + by_weight * pull.sum(axis=1)
        return log_sensitivity + log_error, 0.5 * slope[: y.size]

    def descend(self, y: FloatArray) -> FloatArray:
        """The local minimum found from the nodes ``y``."""
        from scipy.optimize import minimize

        room = self.ceiling - y.size * _NARROWEST

        def nodes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            share = np.exp(x - max(0.0, float(x.max())))
            share /= share.sum() + math.exp(-max(0.0, float(x.max())))
            return np.cumsum(_NARROWEST + room * share), share

        def loss(x: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
            at, share = nodes(x)
            value, slope = self.log_value(at, sharpness)
            by_share = room * np.cumsum(slope[::-1])[::-1]
            return value, share * (by_share - share @ by_share)

        widths = np.maximum(np.diff(y, prepend=0.0, append=self.ceiling) - _NARROWEST, 1e-4)
        x = np.log(widths[:-1] / widths[-1])
        options = {"gtol": 1e-7, "maxiter": 500}
        smooth = len(self._ages) == 1 and len(self._times) == 1
        for sharpness in (math.inf,) if smooth else (20.0, 200.0, 2e3, 2e4, 2e5):
            x = minimize(loss, x, (sharpness,), jac=True, method="BFGS", options=options).x
        return nodes(x)[0]

    def best(self, buffers: int, starts: Sequence[FloatArray] = ()) -> Toeplitz:
        """The best filter with at most ``buffers`` buffers, from the given starting points or from default ones."""
        if buffers == 0 or self.size == 1:
            return Toeplitz()
        if not starts:
            top = math.log(self.size)
            ends = ((0.1, top), (0.5, top + 1.5), (0.2, top - 1.0))
            free = 2 * buffers - (self.kind == "endless")
            starts = [np.linspace(low, max(high, 1.0), free) for low, high in ends]
        found = [self.descend(start) for start in starts]
        return self._prune(min(found, key=lambda y: self.log_value(y)[0]))

    def refine(self, start: Toeplitz) -> Toeplitz:
        """A filter for persons with several records, found from one for single records.

        If nothing better is found, the start is returned.
        """
        from scipy.optimize import minimize

        fixed = 1 if start.gap and start.gap[0] == 0.0 else 0  # a plain sum remains a plain sum
        ages = [(_whole(a), mu) for a, mu in self._ages]
        steps, against = np.array(self._times[:: 4 if fixed else 1]).T

        def build(x: FloatArray) -> Toeplitz:
            gap = np.append(np.zeros(fixed), np.exp(-np.cumsum(np.exp(x))[::-1]))
            return Toeplitz(tuple(gap[0::2].tolist()), tuple(gap[1::2].tolist()))

        def cost(x: FloatArray, sharpness: float) -> float:
            try:
                noise = build(x)
            except ValueError:  # two nodes have met
                return 1e3
            squares = noise.sensitivity.sum_of_squares
            mine = [0.5 * math.log(squares(a, self.participation)) - math.log(mu) for a, mu in ages]
            if self.objective == "mean":
                errors = [0.5 * math.log(noise.mean_squared_error(self.size))]
            else:
                errors = 0.5 * np.log(_squared_errors(noise, steps) / against**2)
            return _soft_maximum(mine, sharpness)[0] + _soft_maximum(errors, sharpness)[0]

        nodes = -np.log(np.array(_interleave(start.gap, start.inverse_gap))[fixed:])[::-1]
        x = np.log(np.diff(nodes, prepend=0.0))
        smooth = len(ages) == 1 and len(steps) == 1
        with np.errstate(all="ignore"):
            for sharpness in (math.inf,) if smooth else (30.0, 500.0):
                options = {"gtol": 1e-6 if smooth else 1e-4, "maxiter": 200 if smooth else 50}
                x = minimize(cost, x, (sharpness,), method="BFGS", options=options).x
        try:
            found = build(x)
        except ValueError:
            return start
        return found if self.value(found) < (1.0 - 1e-4) * self.value(start) else start

    def _prune(self, y: FloatArray) -> Toeplitz:
        """Drop each pair of a pole and a zero that nearly cancel."""
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
        if self.kind == "endless":
            gap = np.append(0.0, gap)
        return Toeplitz(gap=tuple(gap[0::2].tolist()), inverse_gap=tuple(gap[1::2].tolist()))


def _whole(n: float) -> float:
    """Convert an integral float to an int, which `Toeplitz` requires; infinity stays."""
    return n if n == math.inf else int(n)


def _squared_errors(noise: Toeplitz, steps: FloatArray) -> FloatArray:
    """`Toeplitz.squared_error` at many steps at once."""
    om, (gap, log_ratio) = np.array(noise.weight), pairs(np.array(noise.gap))
    terms = steps[:, None, None] - 1.0
    sums = np.where(
        gap == 0.0, terms, -np.expm1(terms * log_ratio) / np.where(gap == 0.0, 1.0, gap)
    )
    return np.asarray(1.0 + (sums @ om) @ om)


def _soft_maximum(
    values: Sequence[float] | FloatArray, sharpness: float
) -> tuple[float, FloatArray]:
    """A smooth upper bound on the largest value, and its derivative with respect to each of them."""
    array = np.array(values)
    top = float(array.max())
    if len(array) == 1 or sharpness == math.inf:
        return top, (np.arange(len(array)) == int(array.argmax())).astype(float)
    share = np.exp(sharpness * (array - top))
    total = float(share.sum())
    return top + math.log(total) / sharpness, share / total


def optimise(
    *,
    horizon: int | None = None,
    window: int | None = None,
    fade: Iterable[tuple[int, float]] | None = None,
    endless: int | None = None,
    objective: str = "max",
    buffers: int | None = None,
) -> Toeplitz:
    """The filter with the smallest product of noise and sensitivity, computed afresh.

    Exactly one of ``horizon``, ``window``, ``fade`` and ``endless`` must be given.

    Parameters
    ----------
    horizon : int, optional
        Number of steps; each record is protected in all of them.
    window : int, optional
        Number of steps of an endless stream for which each record is protected.
    fade : iterable of (int, float), optional
        Pairs (age, mu) on an endless stream: at most this mu at each of these ages.
    endless : int, optional
        Each record is protected for ever, and the horizon is unknown. The error of the filter is within some factor
        of that of the square root for every horizon from 2^8 to this one (from 2^3 if this is at most 2^20), and this
        factor is minimised.
    objective : {"max", "mean"}
        For a horizon: the error of the last step ("max", the largest of all) or the root of the mean variance over
        the steps ("mean"). For a window it is the error of the endless stream.
    buffers : int, optional
        Largest number of buffers; those that nearly cancel are dropped. By default the smallest number that comes
        within one part in a thousand of what six can do, and more than six (beyond some 2^30 steps) only if the
        product would otherwise be more than 2 % above that of the square root.

    Returns
    -------
    Toeplitz
        The filter.

    Examples
    --------
    >>> noise = optimise(horizon=64, buffers=2)
    >>> round(math.sqrt(noise.squared_sensitivity(64) * noise.squared_error(64)), 4)
    2.3913
    """
    return _optimise(_Problem.of(horizon, window, objective, fade, endless), buffers)


def _optimise(problem: _Problem, buffers: int | None) -> Toeplitz:
    if buffers is not None:
        return problem.best(integer(buffers, "buffers", low=0, high=MOST_BUFFERS))
    first = 1 if problem.kind == "endless" else 0
    found = [problem.best(k) for k in range(first, _AUTOMATIC_BUFFERS + 1)]
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
    fade: Iterable[tuple[int, float]] | None = None,
    endless: int | None = None,
    objective: str = "max",
    buffers: int | None = None,
    participation: Participation = ONE_RECORD,
) -> Toeplitz:
    """The filter of :func:`optimise`, looked up if it is known already.

    It is looked up first in the table shipped with the library, then in the user's cache (the folder named by the
    environment variable ``RETICENT_CACHE``, else ``~/.cache/reticent``). Otherwise it is optimised, starting from the
    nearest length in the table, and stored. A cache that cannot be read or written costs time, and one that was
    tampered with costs accuracy, never privacy: the guarantee is computed from whatever filter is used.

    Parameters
    ----------
    horizon : int, optional
        Number of steps; each record is protected in all of them. Give exactly one of this, ``window``, ``fade`` and
        ``endless``.
    window : int, optional
        Number of steps of an endless stream for which each record is protected.
    fade : iterable of (int, float), optional
        Pairs (age, mu) on an endless stream: at most this mu at each of these ages.
    endless : int, optional
        Each record is protected for ever, and the horizon is unknown; the error is near the optimum up to this length.
    objective : {"max", "mean"}
        For a horizon: whether the largest error or the root of the mean variance is minimised.
    buffers : int, optional
        Largest number of buffers; by default the smallest number that comes close to the optimum.
    participation : Participation
        If persons may have several records, up to 256 of them, the filter is adapted to that, starting from the one
        for single records.

    Returns
    -------
    Toeplitz
        The filter.

    Examples
    --------
    >>> toeplitz(window=1024).buffers
    3
    """
    problem = _Problem.of(horizon, window, objective, fade, endless)
    if buffers is not None:
        buffers = integer(buffers, "buffers", low=0, high=MOST_BUFFERS)
    if problem.size == 1 or buffers == 0:
        return Toeplitz()
    lags = max(a for a, _ in problem._ages)
    if 1 < participation.records_within(lags) <= _MOST_RECORDS:
        return _for_persons(replace(problem, participation=participation), buffers)
    return _for_records(problem, buffers)


def _for_records(problem: _Problem, buffers: int | None) -> Toeplitz:
    known = _table().get((problem.kind, problem.objective), {})
    shipped = known.get(problem.size)
    if shipped is not None and buffers in (None, shipped.buffers):
        return shipped
    return _kept(_cache_path(problem, buffers), problem, buffers)


@lru_cache(maxsize=256)
def _kept(path: Path | None, problem: _Problem, buffers: int | None) -> Toeplitz:
    """The filter in the cache, which is read once per process; if it is not there, it is found and stored."""
    found = _load(path, problem, buffers)
    if found is None:
        known = _table().get((problem.kind, problem.objective), {})
        found = _from_nearest(problem, buffers, known) or _optimise(problem, buffers)
        _store(path, problem, found)
    return found


@lru_cache(maxsize=256)
def _for_persons(problem: _Problem, buffers: int | None) -> Toeplitz:
    path = _cache_path(problem, buffers)
    found = _load(path, problem, buffers)
    if found is None:
        start = _for_records(replace(problem, participation=ONE_RECORD), buffers)
        found = problem.refine(start) if start.gap else start
        _store(path, problem, found)
    return found


def _from_nearest(
    problem: _Problem, buffers: int | None, known: Mapping[int, Toeplitz]
) -> Toeplitz | None:
    if not known or buffers is not None or problem.kind == "endless":
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
    ages = hashlib.sha256(repr(problem.profile).encode()).hexdigest()[:16]
    size = f"{problem.size}-{ages}" if problem.profile else str(problem.size)
    rule = problem.participation
    persons = "" if rule == ONE_RECORD else f"-{rule.max_records}-{rule.min_gap}"
    name = f"{problem.kind}-{size}-{problem.objective}{persons}-{buffers or 'auto'}.json"
    try:
        folder = Path(os.environ.get("RETICENT_CACHE") or Path.home() / ".cache" / "reticent")
    except RuntimeError:  # no home
        return None
    return folder / "toeplitz" / name


def _load(path: Path | None, problem: _Problem, buffers: int | None) -> Toeplitz | None:
    """The filter in the cache; None if it is missing, of another version, damaged or poor."""
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
