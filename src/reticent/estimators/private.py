"""Base class of the offline scikit-learn estimators, between their parameters and the solvers of `reticent.erm`.

Rows are clipped to ``feature_norm`` and divided by it, a constant feature is appended for the intercept, weights are
clipped to their bound, and a solver does the rest. docs/estimators.md explains which solver is chosen and why.

What is released beside a fit, such as bounds found privately or class counts, shares its budget. The cost of a fit
depends on public numbers only, so a rehearsal on an empty table of the same shape has the same guarantee, and
everything is charged at once, before any noise is drawn.

Noise is calibrated to the norm of features and constant together, sqrt(1 + t^2) for a constant t, so an intercept
always costs something. The default t = p^(-1/4) minimises ``(1 + t^2)(p + 1/t^2)``, the variance of the noise in a
prediction including the intercept.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from reticent import checks
from reticent.erm import Fit
from reticent.erm.passes import surveyed
from reticent.erm.problem import Groups
from reticent.erm.solver import Rehearsed, SolverPlan, is_rehearsal, rehearsing
from reticent.estimators import parameters
from reticent.estimators.bounds import Search
from reticent.estimators.counts import counted
from reticent.estimators.finding import NothingFound
from reticent.estimators.mixins import PRECISIONS, FittedEstimator, FloatArray, set_features
from reticent.estimators.scaling import ROOM, Scaling, Units, too_large
from reticent.estimators.summary import INTERCEPT, Carried, NoIntervals
from reticent.losses import ClipCounts
from reticent.losses.records import row_norms
from reticent.noise import Source
from reticent.privacy import (
    Budget,
    Guarantee,
    Release,
    charge,
    compose,
    gaussian,
    uncharged,
    with_remarks,
)
from reticent.privacy.curves import Curve
from reticent.privacy.guarantee import changed, with_details
from reticent.solve.blocks import Form, InMemory, LabelCheck, Lazy, Records

NOISE_PRECISIONS = ("lattice", "float")
SCALINGS = ("auto", "none")
DIAGNOSTICS = ("clipped_",)
_TRIES = 40
"""Number of rehearsals after which a budget is taken to be too small."""
_OPTIONAL = ("_errors", "_moments", "_constant_feature")
"""What some fits release beside the coefficients."""
_STATED = ("epsilon", "delta", "neighbours", "feature_norm", "max_records")


@dataclass(frozen=True)
class Table:
    """The solver's input: clipped records, weights, and public numbers."""

    rows: Any
    norm: float  # largest norm of a row, including its constant feature
    scaling: float  # the constant feature; 0 for no intercept
    weights: FloatArray | None
    weight_bound: float
    scaled: int  # how many rows were clipped
    groups: Groups | None = None  # if persons are protected
    rest: FloatArray | None = None  # predictors for features of zero, towards which the ridge pulls
    rest_bound: float = 0.0
    factors: FloatArray | None = None  # by which rows, constants and labels were multiplied

    @property
    def public(self) -> int:
        """Number of records, or of persons if persons are protected."""
        return self.count if self.groups is None else self.groups.count

    @property
    def unit(self) -> str:
        return "record" if self.groups is None else "person"

    @property
    def weighting(self) -> dict[str, Any]:
        """Weights and groups, as keyword arguments of a solver."""
        return {"weights": self.weights, "weight_bound": self.weight_bound, "groups": self.groups}

    @property
    def pulls(self) -> dict[str, Any]:
        """The point towards which the ridge pulls, as keyword arguments of objective perturbation."""
        if self.rest is None:
            return {}
        center = np.zeros((len(self.rest), self.columns))
        center[:, -1] = self.rest / self.scaling
        return {"center": center, "center_bound": self.rest_bound / self.scaling * ROOM}

    @property
    def start(self) -> FloatArray | None:
        """The point towards which the ridge pulls, for one output and solvers that need no bound on it."""
        return self.pulls["center"][0] if self.pulls else None

    @property
    def count(self) -> int:
        return int(self.rows.shape[0])

    @property
    def columns(self) -> int:
        return int(self.rows.shape[1])


@dataclass(frozen=True)
class Population:
    """How the records of a table in memory count."""

    weights: FloatArray | None  # as given and clipped
    bound: float
    persons: Groups | None  # if persons are protected
    count: int  # number of records, or of persons if persons are protected; public
    shares: Any  # weights of the records in a count, as `counted` returns them


class PrivateEstimator(FittedEstimator, ABC):
    """Base of the scikit-learn estimators that use the solvers of `reticent.erm`."""

    delta: Any
    epsilon: Any
    feature_norm: Any
    fit_intercept: Any
    intercept_scaling: Any
    max_records: Any
    neighbours: Any
    noise_precision: Any
    regularizer: Any
    solver: Any
    verbose: Any
    weight_bound: Any
    guarantee_: Guarantee
    clipped_: ClipCounts
    solver_: str
    solver_reason_: str
    scaling_: str
    _protected: int
    """How many records were learnt from, or persons where these are protected; public."""
    _fitted_with: dict[str, Any]
    """The parameters that a description of the fit states, as they were when it was made."""
    _solvers: ClassVar[tuple[str, ...]]
    """What ``solver`` may be."""
    _bends = True
    """Whether features of rows that are too long after scaling are clipped; if not, the row, its constant and its label
    are scaled down together."""

    @property
    def _precisions(self) -> list[Any]:  # type: ignore[override]
        # private searches for bounds count in double precision
        bounds = (self.feature_norm, getattr(self, "label_bounds", None))
        return PRECISIONS[:1] if any(isinstance(one, str) for one in bounds) else PRECISIONS

    def _forget(self) -> None:
        """Drop what only an earlier fit released: the guarantee of this one does not cover it."""
        for name in _OPTIONAL:
            self.__dict__.pop(name, None)

    def _budget(self) -> Budget:
        """The budget that the parameters state; validates all parameters."""
        budget = Budget(self.epsilon, self.delta, self.neighbours)
        parameters.OR_PRIVATE["feature_norm"](self.feature_norm, "feature_norm")
        parameters.warn_of_defaults(vars(self))
        parameters.CHECKS["fit_intercept"](self.fit_intercept, "fit_intercept")
        checks.choice(self.noise_precision, "noise_precision", NOISE_PRECISIONS)
        checks.choice(self._asked_scaling, "scaling", SCALINGS)
        checks.choice(self.solver, "solver", self._solvers)
        return budget

    def _common(self) -> dict[str, Any]:
        """Arguments shared by all solvers."""
        return {
            "budget": self._budget(),
            "seed": self._seed(),
            "noise_precision": self.noise_precision,
            "progress": bool(self.verbose),
        }

    def _scaling(self, columns: int) -> float:
        if not self.fit_intercept:
            return 0.0
        given = self.intercept_scaling
        if given is None:
            return float(columns) ** -0.25
        return parameters.CHECKS["intercept_scaling"](given, "intercept_scaling")

    def _table(self, X: Any, weights: FloatArray | None, bound: float) -> Table:
        """Rows scaled to norm 1 with the constant feature appended; ``weights`` are within [0, bound]."""
        t = self._constant(X.shape[1])
        form = Form(self._units.norm, 1.0, t)
        rows = InMemory(self._units.scaled(X), form=form)
        scaled = surveyed(rows)
        rows = replace(rows, clipped=scaled)
        return Table(rows, self._row_norm(t), t, weights, bound, scaled)

    def _lazy_table(self, X: Lazy, y: Any, sample_weight: Any, groups: Any) -> Table:
        """The solver's input for a table that is not in memory, and its labels."""
        if y is None:
            raise TypeError("y must be given with X")
        weighted = (sample_weight, getattr(self, "class_weight", None), groups)
        if any(given is not None for given in weighted):
            raise ValueError(
                "a table that is not in memory takes no sample_weight, class_weight or groups; leave them out, or "
                "read the table into memory"
            )
        asked = (self.feature_norm, getattr(self, "label_bounds", None))
        if any(isinstance(one, str) for one in asked):
            raise ValueError(
                "private bounds are not found for a table that is not in memory; state feature_norm "
                "and label_bounds, or read the table into memory"
            )
        set_features(self, X)
        self.scaling_ = "none: the table is not in memory"
        if self._asked_scaling == "none":
            self.scaling_ = "none: asked for"
        self._set_units(None, None, None, Source(0))
        t = self._constant(X.shape[1])
        rows = self._lazy_rows(X, y, t)
        assert rows.clipped is not None
        return Table(rows, self._row_norm(t), t, None, 1.0, rows.clipped)

    def _lazy_rows(self, X: Lazy, y: Any, constant: float) -> Records:
        """The records of a table that is not in memory, clipped as they are read."""
        return X.records(y, Form(self._units.norm, 1.0, constant), self._check_of_labels())

    @abstractmethod
    def _check_of_labels(self) -> LabelCheck:
        """A picklable check of labels, which runs where they are stored."""

    @abstractmethod
    def _solve(self, table: Table, labels: Any, common: dict[str, Any]) -> Fit:
        """The fit, by the solver that was requested or chosen."""

    def _constant(self, columns: int) -> float:
        """The constant feature for a table with this many columns; 0 for none."""
        return self._scaling(columns)

    def _row_norm(self, constant: float) -> float:
        """Norm of a row of norm 1 with its constant feature."""
        return math.hypot(1.0, constant) * ROOM

    def _weights(self, sample_weight: Any, count: int) -> tuple[FloatArray | None, float]:
        """Weights that were given, clipped, and their bound; None and 1 without them."""
        bound = checks.number(self.weight_bound, "weight_bound", low=0.0, open_low=True)
        if sample_weight is None:
            return None, 1.0
        checks.refuse_masked(sample_weight, "sample_weight")
        weights = np.asarray(sample_weight)
        if weights.ndim == 0:
            weights = np.full(count, weights)
        return np.clip(checks.vector(weights, "sample_weight", count), 0.0, bound), bound

    def _population(self, sample_weight: Any, groups: Any, rows: int) -> Population:
        weights, bound = self._weights(sample_weight, rows)
        persons = Groups.of(groups, rows, self.max_records)
        count = rows if persons is None else persons.count
        return Population(weights, bound, persons, count, counted(weights, persons))

    def _facts(self, table: Table) -> tuple[str, ...]:
        """Lines for the guarantee."""
        lines = [f"features clipped to norm {self._units.norm:g}, then divided by it"]
        if self._units.first is not None:
            lines[0] = (
                f"features clipped to norm {self._units.first:g}, moved and scaled as found, clipped to norm "
                f"{self._units.norm:.4g}"
                f"{', constant and label scaled down alike' * self._units.weighed}, then divided by it"
            )
        elif self._units.scale is not None:
            lines[0] = f"each feature clipped to an interval that was found; {lines[0]}"
        if table.scaling:
            lines[0] += f"; intercept from a constant feature {table.scaling:.4g}"
        if table.weights is not None:
            lines.append(
                f"records weighted, weights within [0, {table.weight_bound:g}]; the null record has "
                "weight 0"
            )
        if table.groups is not None:
            lines.append(table.groups.words)
        return tuple(lines)

    def _search(self, budget: Budget, count: int, columns: int, share: float) -> Search | None:
        """The search for bounds of the features; None if they are stated."""
        if self.feature_norm != parameters.PRIVATE:
            return None
        return Search.of(
            budget,
            count,
            columns,
            rows=True,
            share=share,
            precision=self.noise_precision,
        )

    @property
    def _free(self) -> bool:
        """Whether the fit chooses its ridge: a stated one may cost a fixed amount that leaves little for the rest."""
        return getattr(self, "regularizer", None) is None

    @property
    def _asked_scaling(self) -> str:
        # intervals assume unscaled features and a ridge centred at 0
        return "none" if getattr(self, "intervals", False) else getattr(self, "scaling", "none")

    def _scaling_for(self, budget: Budget, count: int, X: Any) -> Scaling | None:
        """How features will be centred and scaled, decided by public numbers; None if they will not be."""
        found, why = None, "asked for"
        if self._asked_scaling == "auto":
            if self.feature_norm == parameters.PRIVATE:
                why = "intervals of the columns are found instead"
            elif sp.issparse(X):
                why = "features are sparse, and centering would fill them"
            elif too_large(count, X.shape[1]):
                why = "the table is read as it is, without a copy"
            elif not self.fit_intercept:
                why = "centering needs an intercept"
            else:
                found, why = Scaling.of(
                    budget,
                    count,
                    X.shape[1],
                    self.noise_precision,
                    self._bends,
                    frugal=not self._free,
                )
        self.scaling_ = f"{'none' if found is None else 'columns centered and scaled'}: {why}"
        return found

    def _set_units(
        self,
        X: Any,
        counts: Any,
        search: Search | None,
        source: Source,
        scaling: Scaling | None = None,
    ) -> None:
        """Set the units of the features: stated, or found privately."""
        if search is None:
            stated = float(self.feature_norm)
            self._units = Units(stated)
            if scaling is not None:
                self._units = scaling.units(X, stated, counts, source)
            return
        units = Units(1.0)
        if search.columns:
            units = Units.of(search.intervals(X, counts, source), 1.0, sp.issparse(X))
        norm = search.norm(self._sizes(units.scaled(X)), counts, source)
        if norm is None:
            raise NothingFound("feature_norm")
        # if rows are zero, any norm will do
        self._units = replace(units, norm=max(norm, parameters.LEAST_NORM) if norm else 1.0)

    def _sizes(self, X: Any) -> FloatArray:
        """The quantity of every row that ``feature_norm`` bounds."""
        return row_norms(X)

    def _blank(self, X: Any, weighted: bool, bound: float, groups: Groups | None) -> Table:
        """A table of zeros of the shape of X, of which the cost of a fit is asked."""
        t = self._constant(X.shape[1])
        # sparse if X is: solvers may treat sparse matrices differently
        rows = (sp.csr_array if sp.issparse(X) else np.zeros)((X.shape[0], X.shape[1] + (t > 0.0)))
        weights = np.zeros(X.shape[0]) if weighted else None
        return Table(rows, self._row_norm(t), t, weights, bound, 0, groups)

    def _reserve(
        self, beside: list[Release], blank: Table, labels: Any, common: dict[str, Any]
    ) -> tuple[dict[str, Any], Guarantee]:
        """Charge the fit together with the other releases; returns the fit's share of the budget among its arguments.

        Parameters
        ----------
        beside : list of Release
            The other releases.
        blank : Table
            A table of zeros of the same shape.
        labels : array
            Labels for it.
        common : dict
            Arguments of the solver, with the whole budget.

        Returns
        -------
        dict
            These arguments with the budget of the fit.
        Guarantee
            The guarantee of everything together.
        """
        budget: Budget = common["budget"]
        rest, plan = reserve(
            budget, beside, lambda rest: self._solve(blank, labels, {**common, "budget": rest})
        )
        whole = with_remarks(
            Guarantee.of(
                budget,
                (*beside, *plan.releases),
                lattice=plan.problem.precision == "lattice",
                seeded=common["seed"] is not None,
                caveats=plan.caveats,
                unit=plan.problem.unit,
            )
        )
        if is_rehearsal():
            raise Rehearsed(lambda: whole)
        charge(whole, f"{type(self).__name__} with {beside[0].mechanism}")
        return {**common, "budget": rest}, whole

    def _beside_source(self, common: dict[str, Any]) -> Source:
        """Generator of the noise of the other releases, independent of the fit's own."""
        seed = common["seed"]
        if seed is None:
            return Source()
        return Source(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))

    @staticmethod
    def _paid(whole: Guarantee | None, solve: Callable[[], Fit]) -> Fit:
        """The fit; not charged again if it was charged together with other releases."""
        return solve() if whole is None else uncharged(solve)

    def _publish(self, fit: Fit, table: Table, whole: Guarantee | None = None) -> FloatArray:
        """Set all fitted attributes except the coefficients; return one row of weights per output."""
        if whole is not None:
            costs = [[release.curve for release in g.releases] for g in (whole, fit.guarantee)]
            if costs[0][-len(costs[1]) :] != costs[1]:
                raise RuntimeError(
                    "the cost of the fit differs from that of its rehearsal; this is a bug in reticent"
                )
        made = with_details(fit.guarantee, self._facts(table))
        if whole is not None:
            beside = whole.releases[: -len(made.releases)]
            made = changed(whole, releases=beside + made.releases)
        self.guarantee_ = made
        self._protected = table.public
        self._fitted_with = {name: getattr(self, name) for name in _STATED}
        self.settings_ = dict(fit.trace.settings)
        return np.atleast_2d(np.asarray(fit.point))

    def _coefficients(self, weights: FloatArray, table: Table) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts in the units of the given features."""
        columns = self.n_features_in_
        if not table.scaling:
            return self._units.back(weights, np.zeros(len(weights)))
        return self._units.back(weights[:, :columns], weights[:, columns] * table.scaling)

    def _carried(
        self, constant: float, encoder: Any, times: float = 1.0, middle: float = 0.0
    ) -> Carried:
        """The affine map from learnt weights to coefficients, for labels scaled by ``times`` around ``middle``."""
        columns = self.n_features_in_
        names = [f"x{k}" for k in range(columns)]
        if len(getattr(encoder, "names", ())) == columns:
            names = encoder.names
        names = [str(name) for name in getattr(self, "feature_names_in_", names)]
        unit = np.eye(columns + (constant > 0.0))
        weights, intercepts = self._units.back(
            unit[:, :columns], unit[:, -1] * constant if constant else np.zeros(columns)
        )
        matrix, shift = weights.T, np.zeros(columns + (constant > 0.0))
        if constant:
            names, matrix = [*names, INTERCEPT], np.vstack([matrix, intercepts])
            shift[-1] = middle
        empty = [name for name, row in zip(names, matrix, strict=True) if not row.any()]
        if empty:
            raise NoIntervals(
                f"there is no interval for {empty[0]!r}: nothing but 0 stood out from the noise in that column. Leave "
                "the column out; fitting again spends the budget again"
            )
        carried = Carried(tuple(names), times * matrix, shift)
        return carried if encoder is None else carried.to_columns(encoder)

    def release(self) -> Self:
        """A copy that holds only what the guarantee covers and is safe to share.

        Returns
        -------
        estimator
            A fitted estimator of the same class, without diagnostics such as ``clipped_``.
        """
        check_is_fitted(self)
        copy = type(self)(**self.get_params(deep=False))
        kept = {name: value for name, value in self.__getstate__().items() if name != "_ledgers"}
        copy.__dict__.update(kept)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in DIAGNOSTICS:
            state.pop(name, None)
        return state


def releases_of(*parts: Any) -> list[Release]:
    """All that is released beside a fit, with its cost, in this order; a part that is None releases nothing."""
    made: list[Release] = []
    for part in parts:
        if part is not None:
            made += part.releases if hasattr(part, "releases") else [part.release]
    return made


def class_factors(value: Any, classes: Any, numbers: Any) -> tuple[FloatArray | None, float]:
    """The weight of each record's class, and the largest weight of any class."""
    if value is None:
        return None, 1.0
    if not isinstance(value, Mapping):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of weights by class, got {value!r}"
        )
    known = list(classes.tolist())
    for name in value:
        if name not in known:
            raise ValueError(
                f"class_weight has the key {name!r}, which is not one of the classes {known}"
            )
    table = np.array(
        [checks.number(value.get(c, 1.0), f"class_weight[{c!r}]", low=0.0) for c in known]
    )
    if table.max() == 0.0:
        raise ValueError(f"class_weight must contain a weight above 0, got {value!r}")
    return table[numbers], float(table.max())


def price(estimator: Any, X: Any, y: Any, groups: Any = None) -> Guarantee:
    """The guarantee that ``estimator.fit(X, y, groups=groups)`` would give; charges nothing and draws no noise."""
    try:
        with rehearsing():
            estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    except Rehearsed as end:
        return end.guarantee()
    raise TypeError(f"{type(estimator).__name__} cannot state the cost of a fit in advance")


@functools.lru_cache(maxsize=256)
def _epsilon(curve: Curve, delta: float) -> float:
    return curve.epsilon(delta)


def reserve(
    budget: Budget, releases: Sequence[Release], rehearse: Callable[[Budget], object]
) -> tuple[Budget, SolverPlan]:
    """The largest budget that these releases leave for a fit, and the plan of that fit.

    Parameters
    ----------
    budget : Budget
        Budget of the releases and the fit together.
    releases : sequence of Release
        The other releases: pure if the budget's delta is 0, else Gaussian.
    rehearse : callable
        ``rehearse(budget)`` rehearses the fit on an empty table.

    Returns
    -------
    tuple
        The budget of the fit, and its plan, of which only the cost is used.

    Raises
    ------
    ValueError
        If the releases leave too little for the fit.
    """
    costs = [(release.curve, release.count) for release in releases]
    beside = compose(costs)
    if budget.delta == 0.0:
        assert beside.pure is not None
        epsilon = budget.epsilon - beside.pure
    else:
        assert beside.gdp is not None
        epsilon = gaussian.epsilon(budget.delta, math.sqrt(budget.mu**2 - beside.gdp**2))
    before = None  # the epsilon tried last, and by how much the total exceeded the budget
    for _ in range(_TRIES):
        rest = budget.with_(epsilon=epsilon * (1.0 - 2.0**-40))
        plan = _plan_of(rehearse, rest)
        whole = compose([*costs, *((release.curve, release.count) for release in plan.releases)])
        excess = _epsilon(whole, budget.delta) - budget.epsilon
        if excess <= 1e-12 * budget.epsilon:
            return rest, plan
        # The first guess takes the fit to be Gaussian. Objective perturbation is not, so the total overshoots. The
        # first step down assumes that the total changes by as much as the fit's part; later steps use the slope.
        slope = 1.0 if before is None else (before[1] - excess) / (before[0] - epsilon)
        before = epsilon, excess
        epsilon -= max(1.01 * excess / min(max(slope, 0.1), 1.0), 1e-6 * budget.epsilon)
        if epsilon <= 0.0:
            break
    raise ValueError(
        f"the budget ({budget}) is too small to share between the fit and {releases[0].mechanism}; "
        "raise epsilon, or state the bounds that would be found privately. Nothing was spent"
    )


def _plan_of(rehearse: Callable[[Budget], object], budget: Budget) -> SolverPlan:
    """The plan of the solver in a rehearsal with a budget."""
    plan = None
    try:
        with rehearsing():
            rehearse(budget)
    except Rehearsed as end:
        plan = end.plan
    assert plan is not None
    return plan
