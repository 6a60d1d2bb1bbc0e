"""Find unknown bounds of a stream privately from its first records, and keep them fixed from then on.

The first records are set aside until there are enough for the search; their number follows from the budget and the
number of features. They are counted in histograms (:mod:`reticent.estimators.bounds`) and never learnt from. No record
enters both the search and the learner, so each can spend the whole budget (parallel composition). Proof and costs:
docs/algorithms/private-bounds.md.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.estimators.bounds import BoundsSearch, ColumnStatistics
from reticent.estimators.parameters import LEAST_NORM, PRIVATE, budget, participation
from reticent.estimators.scaling import Scaling, Units
from reticent.losses.records import row_norms
from reticent.noise import Source, release
from reticent.privacy import Budget, Guarantee, Release

_LONGEST = 20_000
"""If intervals of all features would take more records of an endless stream than this, only a norm is found."""
_TIMES = 4
"""Records used, as a multiple of the fewest that a search needs; limited to a tenth of the horizon if that is known."""
_SHARES = (0.6, 0.4)
"""Shares of the budget for sums of features and squares and for counts of row norms, if features are scaled."""
_FIRST = 5_000
"""Most records of an endless stream used for centering and scaling; with a horizon, a tenth of it."""
_WORTH = 500.0
"""A stream with a horizon is scaled if the horizon is at least this multiple of the noise of one total times the square
root of the number of columns."""
_FLAT = 64.0
"""Labels are flat if their interval is at most this fraction of their size: around a bin edge, the finest interval has
four pieces of 2^-8 each."""
_LABELS = 1.0 / 3.0
"""Share of the search's budget for the labels if features are searched too."""


class NothingFound(ValueError):
    """Raised if a private search found no bound: no count stood out from the noise."""

    def __init__(self, name: str, why: str = "no count stood out from the noise") -> None:
        super().__init__(
            f"no {name} could be found: {why}. The budget was spent; state {name}, raise epsilon, or use more "
            "records"
        )


def label_bounds(known: ColumnStatistics) -> tuple[float, float]:
    """The interval of the labels that was found; its ends are equal if only one value stood out."""
    if not known.found[0]:
        raise NothingFound("label_bounds")
    return float(known.low[0]), float(known.high[0])


def warn_of_flat_labels(low: float, high: float) -> None:
    """Warn if the interval found for the labels is so narrow that predictions can hardly differ.

    The bounds are private outputs, so the warning may quote them.
    """
    if high - low > max(abs(low), abs(high)) / _FLAT:
        return
    words = (
        f"nearly all labels lie within [{low:g}, {high:g}], which is as narrow as a search resolves"
    )
    if low == high:
        words = f"no label but {low:g} stood out from the noise"
    warnings.warn(
        f"{words}: predictions stay within these bounds, and rarer labels are clipped. If smaller differences matter, "
        "subtract a known constant from the labels first; if rare labels matter, state label_bounds",
        UserWarning,
        stacklevel=checks.to_the_user(),
    )


@dataclass(frozen=True)
class First:
    """Description of what is found from the first records of a stream. Uses public numbers only.

    Parameters
    ----------
    budget : Budget
        Budget of the stream. The search spends the same budget on other records.
    count : int
        Number of records that are used.
    columns : int
        Number of features whose interval is found; 0 if only the norm of the rows is.
    features : bool
        Whether bounds of the features are found.
    labels : bool
        Whether bounds of the labels are found.
    around_zero : bool
        Whether zeros stay zeros, as they must if records may omit features.
    norm : float, optional
        Stated norm of features that are centred and scaled; None if they are not.

    Examples
    --------
    >>> first = First.of(Budget(1.0, 1e-6), columns=10, features=True, labels=True, horizon=None)
    >>> first.count, first.columns
    (6520, 10)
    """

    budget: Budget
    count: int
    columns: int
    features: bool
    labels: bool
    around_zero: bool = False
    norm: float | None = None

    @classmethod
    def scaled(
        cls, budget: Budget, columns: int, norm: float, labels: bool, horizon: int | None
    ) -> First | None:
        """Centring and scaling from the fewest records that determine means and spreads despite the noise, or None.

        None if that takes more than a tenth of the horizon, or more than 5,000 records of an endless stream; and if the
        noise in so many columns would outweigh the gain (docs/algorithms/scaling.md).
        """
        most = _FIRST
        if horizon is not None:
            each = columns / budget.epsilon if budget.delta == 0.0 else columns**0.5 / budget.mu
            worth = horizon >= _WORTH * columns**0.5 * budget.sensitivity(each)
            most = horizon // 10 if worth else 0
        count = 64
        while count <= most:
            made = cls(budget, count, columns, False, labels, norm=norm)
            if made.scaling.clear and all(search.needed <= count for search in made.searches):
                return made
            count = max(count + 1, int(1.25 * count))
        return None

    @property
    def scaling(self) -> Scaling:
        """How features are centred and scaled; only if :attr:`norm` is given."""
        share = (1.0 - _LABELS if self.labels else 1.0) * (1.0 - 2.0**-40)
        each = tuple((part * share,) for part in _SHARES)
        # clipping many rows does little harm: the noise of a running total is far larger than that of a fit
        made, _ = Scaling.of(
            self.budget,
            self.count,
            self.columns,
            bent=False,
            shares=(each[0], each[1]),
            forced=True,
        )
        assert made is not None
        return made

    @classmethod
    def of(
        cls,
        budget: Budget,
        columns: int,
        features: bool,
        labels: bool,
        horizon: int | None,
        around_zero: bool = False,
    ) -> First:
        """A search with as many records as its counts need to stand out from their noise."""
        if budget.fade is not None:
            raise ValueError(
                "private bounds cannot be combined with fade: the guarantee fades, but what the search releases "
                "would be as old as the stream; "
                "state feature_norm and label_bounds, or use window="
            )
        need = [
            max(search.needed for search in cls(budget, 1, some, features, labels).searches)
            for some in ((columns, 0) if features else (0,))
        ]
        most = _LONGEST if horizon is None else horizon // 4
        chosen = columns if features and need[0] <= most else 0
        count = need[0] if chosen or not features else need[1]
        # with more records the bounds clip less
        count = min(
            _TIMES * count, _TIMES * count if horizon is None else max(count, horizon // 10)
        )
        if horizon is not None and count > horizon // 2:
            raise ValueError(
                f"finding bounds privately takes {count} records with this budget ({budget}), more than half of "
                f"horizon={horizon}; state feature_norm and label_bounds, or raise epsilon"
            )
        return cls(budget, count, chosen, features, labels, around_zero)

    def _search(self, columns: int, rows: bool, share: float) -> BoundsSearch:
        noise, level = release.share_of(self.budget, share)
        level *= 1.0 - 2.0**-40
        return BoundsSearch(columns, rows, level, noise, self.budget.neighbours, "lattice")

    @property
    def searches(self) -> list[BoundsSearch]:
        """The searches for the features and for the labels, in this order, if asked for."""
        both, made = (self.features or self.norm is not None) and self.labels, []
        if self.features:
            made.append(self._search(self.columns, True, 1.0 - _LABELS if both else 1.0))
        if self.labels:
            made.append(self._search(1, False, _LABELS if both else 1.0))
        return made

    @property
    def releases(self) -> tuple[Release, ...]:
        """What is released about these records, with its cost."""
        scaling = () if self.norm is None else self.scaling.releases
        return (*scaling, *(item for search in self.searches for item in search.releases))

    def guarantee(self, seeded: bool) -> Guarantee:
        """The guarantee for these records."""
        return replace(Guarantee.of(self.budget, self.releases), seeded=seeded)

    def found(self, rows: FloatArray, labels: FloatArray, source: Source) -> Found:
        """The bounds. :attr:`releases` must have been charged, and ``source`` must not be used for anything else."""
        searches, units, bounds = self.searches, None, None
        if self.norm is not None:
            units = self.scaling.units(rows, self.norm, None, source)
        if self.features:
            search, units = searches.pop(0), Units(1.0)
            if search.columns:
                known = _spread(search.intervals(rows, None, source))
                units = Units.of(known, 1.0, self.around_zero)
            norm = search.norm(row_norms(units.scaled(rows)), None, source)
            if norm is None:
                raise NothingFound("feature_norm")
            if norm == 0.0:  # later rows may have any size
                raise NothingFound("feature_norm", "only rows of zeros stood out from the noise")
            units = replace(units, norm=max(norm, LEAST_NORM))
        if self.labels:
            bounds = label_bounds(searches.pop().intervals(labels[:, None], None, source))
            if not bounds[0] < bounds[1]:
                raise NothingFound(
                    "label_bounds", f"no label but {bounds[0]:g} stood out from the noise"
                )
        return Found(units, bounds)


def _spread(known: ColumnStatistics) -> ColumnStatistics:
    """The intervals found, and one of the usual size for each column in which nothing was found.

    A feature that appears only later is then learnt from too, clipped to that interval. Uses released numbers only.
    """
    half = 0.5 * known.high - 0.5 * known.low
    usual = float(np.median(half[half > 0.0])) if (half > 0.0).any() else 1.0
    empty = (half == 0.0) & (known.low == 0.0)
    return replace(
        known, low=np.where(empty, -usual, known.low), high=np.where(empty, usual, known.high)
    )


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds that were found; the stream's guarantee covers them.

    Attributes
    ----------
    units : Units or None
        Units of the features; None if ``feature_norm`` was stated.
    labels : (low, high) or None
        Bounds of the labels; None if ``label_bounds`` were stated.
    """

    units: Units | None
    labels: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a saved state."""
        units = None if self.units is None else dict(vars(self.units))
        return {"units": units, "labels": None if self.labels is None else list(self.labels)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Found:
        """The inverse of :meth:`to_dict`."""
        units, labels = data["units"], data["labels"]
        return cls(
            None if units is None else Units(**units),
            None if labels is None else (float(labels[0]), float(labels[1])),
        )


def found_first(
    values: dict[str, Any],
    columns: int,
    horizon: int | None,
    known: bool = False,
    around_zero: bool = False,
    sparse: bool = False,
) -> dict[str, Any]:
    """``feature_norm`` and ``first`` of a stream's plan, from checked parameters.

    Parameters
    ----------
    values : dict
        Checked parameters.
    columns : int
        Number of features.
    horizon : int or None
        Upper bound on the number of records; None if unknown.
    known : bool
        Whether an earlier stream has found the bounds already. Default: False.
    around_zero : bool
        Whether zeros stay zeros. Default: False.
    sparse : bool
        Whether the learner is the sparse leader, whose features are not centred. Default: False.

    Returns
    -------
    dict
        Keyword arguments of a stream's plan.
    """
    features = values["feature_norm"] == PRIVATE
    labels = values.get("label_bounds") == PRIVATE
    made: dict[str, Any] = {"feature_norm": 1.0 if features else values["feature_norm"]}
    if known:
        return made
    asked = values["scaling"] == "auto" and not features and not sparse
    if asked and participation(values) is None and budget(values).fade is None:
        first = First.scaled(budget(values), columns, made["feature_norm"], labels, horizon)
        if first is not None:
            return {**made, "first": first}
    if not (features or labels):
        return made
    if participation(values) is not None:
        raise ValueError(
            "private bounds cannot be combined with protected persons (max_records, min_gap): a person may have "
            "records among the first ones and among later ones, and both costs would add up; state feature_norm "
            "and label_bounds"
        )
    first = First.of(budget(values), columns, features, labels, horizon, around_zero)
    return {**made, "first": first}


@dataclass(eq=False)
class FirstRecords:
    """The first records, until there are enough, and the generator of the noise. As secret as the data.

    The generator is part of a saved state, so that replaying records after a crash finds the same bounds again instead
    of drawing fresh noise for the same records.
    """

    source: Source
    rows: list[FloatArray] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a record is kept, and while bounds are found: by two threads they would be released twice."""

    def add(self, row: FloatArray, label: float) -> None:
        """Store one record."""
        self.rows.append(np.array(row, dtype=np.float64))
        self.labels.append(float(label))

    def table(self, columns: int) -> tuple[FloatArray, FloatArray]:
        """All stored records as arrays of features and labels."""
        rows = np.array(self.rows).reshape(len(self.rows), columns)
        return rows, np.array(self.labels, dtype=np.float64)

    def to_dict(self, columns: int) -> dict[str, Any]:
        """Plain data, for a saved state. A secret."""
        rows, labels = self.table(columns)
        return {"source": self.source.state(), "rows": rows, "labels": labels}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FirstRecords:
        """The inverse of :meth:`to_dict`."""
        return cls(Source.from_state(data["source"]), list(data["rows"]), list(data["labels"]))
