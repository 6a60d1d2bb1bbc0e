"""Private linear regression and LASSO on a table, with scikit-learn's interface.

Linear regression uses noisy sufficient statistics, followed by rounds of clipped residuals if delta > 0
(docs/algorithms/sufficient-statistics.md), or objective perturbation of Huber's loss. The LASSO uses Frank-Wolfe steps
to privately chosen vertices of the l1 ball (docs/algorithms/frank-wolfe.md), whose noise grows only with the logarithm
of the number of features.

Labels are mapped from ``label_bounds`` to [-1, 1] before learning; ``radius`` and ``regularizer`` are in those units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from reticent import erm
from reticent.erm.problem import IGNORANCE
from reticent.erm.rounded_sums import UNIT, UNITS
from reticent.estimators import parameters
from reticent.estimators.bounds import SHARE, Search
from reticent.estimators.finding import label_bounds, warn_of_flat_labels
from reticent.estimators.label_scale import LabelScale, moved
from reticent.estimators.mixins import Bounded, FiniteLabels, FloatArray, lazily, real_labels
from reticent.estimators.private import Population, PrivateEstimator, Table, releases_of
from reticent.estimators.scaling import Scaling, clip_entries, too_large
from reticent.estimators.summary import Moments, NoIntervals, SquaredLabels, Summary, summarise
from reticent.losses import ClipCounts, Huber, Squared
from reticent.losses.records import row_norms
from reticent.noise import Source
from reticent.noise.release import NoisyVector
from reticent.privacy import Budget, Guarantee, Release
from reticent.sets import L1Ball
from reticent.solve.blocks import ByEntries, CountBeyond, Form, InMemory, Lazy, Within, summed

STATISTICS = "sufficient-statistics"
BOOSTED, OBJECTIVE = "boosted-statistics", "objective-perturbation"
LINEAR_SOLVERS = ("auto", BOOSTED, STATISTICS, "adassp", OBJECTIVE, "gradient-descent")
LASSO_SOLVERS = ("auto", "frank-wolfe", STATISTICS)
_METHODS = {BOOSTED: "boosted", STATISTICS: "joint", "adassp": "adassp"}
_SPREAD = 100.0
_LEVELS = (0.01, 0.03, 0.1, 0.3)
"""Shares of the budget for the sum of the labels: the first at which the noise is small enough, else the last."""
_CLEAR, _TELLING = 0.05, 0.5
"""Noise on the mean label, relative to half the width of its bounds: small enough, and the most that is useful."""
_LIKELY = 1.0 / 3.0
"""Assumed standard deviation of the mean label around the middle of its bounds, in the same units."""
_RISK = 0.1
"""Share of the loss at zero that noise may cost a fit of centred and scaled labels. Such labels fill their bounds, and
their variance is at most a quarter of the largest possible; the share lies between a quarter of both."""
_ROUNDS = 196.0
"""Rounds of residuals are for tables where n mu is at least this. Below it, the noise on the sums of squared residuals
hides how much smaller residuals are than labels (docs/algorithms/sufficient-statistics.md)."""
_MOST_COLUMNS = 2000
"""Above this number of columns, solving with the matrix of products is too slow."""


@dataclass(frozen=True)
class _LabelReleases:
    """What is released beside the fit of a regressor."""

    of_labels: Search | None
    search: Search | None
    scaling: Scaling | None
    level: NoisyVector | None  # the sum of the labels
    spread: LabelScale | None
    squares: SquaredLabels | None

    @property
    def releases(self) -> list[Release]:
        return releases_of(
            self.of_labels, self.search, self.scaling, self.level, self.spread, self.squares
        )


class PrivateRegressor(Bounded, RegressorMixin, PrivateEstimator):
    """Base of `PrivateLinearRegression` and `PrivateLasso`."""

    _moved = False
    """Whether the labels of the last fit were moved by what was released about them."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from a table. Each call is a release of its own and spends the whole budget.

        Parameters
        ----------
        X : array, data frame, sparse matrix or table of `reticent.tables.open`
            Records. Arrays in single precision, memory maps and files are read without a copy.
        y : array, or labels of `reticent.tables.open`
            Labels.
        sample_weight : array, optional
            Weights of the records, clipped to [0, ``weight_bound``].
        groups : array, optional
            Id of the person of each record (integers, text or bytes). All records of one person are then protected
            together, and the number of persons is public.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._all_or_nothing(), self._paying():
            self._forget()
            X, y = lazily(X, y)
            if isinstance(X, Lazy):
                return self._fit_lazy(X, y, sample_weight, groups)
            X, y = self._features(X, y, reset=True, numeric=True)
            y = real_labels(column_or_1d(y, warn=True))
            return self._fit_beside(X, y, sample_weight, groups)

    def _fit_beside(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit a table in memory, together with the private bounds and sums that it needs."""
        common = self._common()
        people = self._population(sample_weight, groups, X.shape[0])
        beside = self._beside(common["budget"], people, X)
        releases = beside.releases
        level, whole = beside.level, None
        if releases:
            blank = self._blank(X, people.weights is not None, people.bound, people.persons)
            if level is not None and not self._moved:
                blank = replace(blank, rest=np.zeros(1), rest_bound=1.0)
            common, whole = self._reserve(releases, blank, np.zeros(X.shape[0]), common)
        source = self._beside_source(common)
        found = None
        if beside.of_labels is not None:
            found = label_bounds(beside.of_labels.intervals(y[:, None], people.shares, source))
            warn_of_flat_labels(*found)
        self._set_units(X, people.shares, beside.search, source, beside.scaling)
        labels, beyond = self._to_unit(y, found)
        middle, size = 0.0, 1.0
        table = replace(self._table(X, people.weights, people.bound), groups=people.persons)
        if level is not None:
            rest = _mean_label(level, labels, people, source)
            if self._moved:
                middle = float(rest[0])
                if beside.spread is not None:
                    doubt = level.deviation / people.count
                    middle, size = beside.spread.found(labels, middle, doubt, people.shares, source)
                labels = moved(labels, middle, size)
            else:
                table = replace(table, rest=rest, rest_bound=1.0)
        if table.factors is not None:
            labels = labels * table.factors
        fit = self._paid(whole, lambda: self._solve(table, labels, common))
        self._finish(fit, table, beyond, whole, middle, size)
        if beside.squares is not None:
            square = beside.squares.draw(labels, source)
            self._moments = Moments(**fit.released, squares=square, count=table.count)
            self._constant_feature = table.scaling
        return self

    def _beside(self, budget: Budget, people: Population, X: Any) -> _LabelReleases:
        """What will be released beside the fit, decided by public numbers."""
        count, columns = people.count, X.shape[1]
        asked = parameters.OR_PRIVATE["label_bounds"](self.label_bounds, "label_bounds")
        both = asked == parameters.PRIVATE == self.feature_norm
        search = self._search(budget, count, columns, SHARE * (2.0 / 3.0 if both else 1.0))
        of_labels = None
        if asked == parameters.PRIVATE:
            share = SHARE * (1.0 / 3.0 if both else 1.0)
            of_labels = Search.of(budget, count, 1, share=share, precision=self.noise_precision)
        scaling = self._scaling_for(budget, count, X)
        level = None if too_large(count, columns) else self._label_sum(budget, count)
        self._moved = level is not None and self._moves(budget, count, columns)
        spread = None
        if self._moved:
            spread = LabelScale.of(budget, count, columns, self.noise_precision)
        squares = self._squared_labels(budget)
        if squares is not None and not (people.weights is None and people.persons is None):
            raise ValueError("intervals=True takes neither sample_weight nor groups")
        return _LabelReleases(of_labels, search, scaling, level, spread, squares)

    def _fit_lazy(self, X: Lazy, y: Any, sample_weight: Any, groups: Any) -> Self:
        common = self._common()
        self._moved = False
        if self._squared_labels(common["budget"]) is not None:
            raise ValueError("intervals=True needs a table in memory; read it into an array first")
        self._to_unit([])
        table = self._lazy_table(X, y, sample_weight, groups)
        fit = self._solve(table, Within(*self._bounds), common)
        self._finish(fit, table, int(table.rows.beyond), None)
        return self

    def _finish(
        self,
        fit: erm.Fit,
        table: Table,
        beyond: int,
        whole: Guarantee | None,
        middle: float = 0.0,
        size: float = 1.0,
    ) -> None:
        """Publish a fit of labels that were moved from a middle and divided by a size."""
        weights = self._publish(fit, table, whole)
        coefficients, intercepts = self._coefficients(weights, table)
        self._set_line(size * coefficients[0], middle + size * intercepts[0])
        self.clipped_ = ClipCounts(table.scaled, beyond, table.count)

    def _check_of_labels(self) -> FiniteLabels:
        return FiniteLabels(*self._bounds)

    def _squared_labels(self, budget: Budget) -> SquaredLabels | None:
        """The additional release that intervals need; None without them."""
        return None

    def _label_sum(self, budget: Budget, count: int) -> NoisyVector | None:
        """The noisy sum of the labels, from which the intercept starts; None if it starts from 0."""
        return None

    def _moves(self, budget: Budget, count: int, columns: int) -> bool:
        """Whether labels are moved by their mean and scaled, where it is released."""
        return False

    def _squared(self, table: Table, labels: Any) -> tuple[Squared, Any, Any, dict[str, Any]]:
        """The loss, the records, their labels and their weighting.

        Unless persons are protected, records and labels are multiplied by the square roots of the weights.
        """
        if table.groups is not None:
            return Squared(feature_norm=table.norm), table.rows, labels, table.weighting
        size = math.sqrt(table.weight_bound)
        loss = Squared(feature_norm=size * table.norm, label_bounds=(-size, size))
        if table.weights is None:
            return loss, table.rows, labels, {}
        roots = np.sqrt(table.weights)
        rows = table.rows.matrix() if isinstance(table.rows, InMemory) else table.rows
        rows = (
            sp.csr_array(sp.diags_array(roots) @ rows)
            if sp.issparse(rows)
            else (rows * roots[:, None])
        )
        return loss, rows, labels * roots, {}


def sum_of_labels(labels: FloatArray, weights: Any) -> FloatArray:
    """The sum of labels in [-1, 1], before noise; null records have weight 0."""
    return np.array([np.sum(labels if weights is None else labels * weights)])


def _mean_label(
    level: NoisyVector, labels: FloatArray, people: Population, source: Source
) -> FloatArray:
    """The noisy mean label, shrunk towards the middle by the ratio of the assumed variance to the total."""
    total = level.draw(sum_of_labels(labels, people.shares), source)
    trust = _LIKELY**2 / (_LIKELY**2 + (level.deviation / people.count) ** 2)
    return np.clip(trust * total / people.count, -1.0, 1.0)


def products_survive(
    budget: Budget, count: int, columns: int, unit: str = "record"
) -> tuple[bool, str]:
    """Whether the noise leaves A'A useful, and a sentence that says so. Uses public numbers only.

    The largest eigenvalue of the noise is about ``2 sqrt(p) F^2 / mu``, and the mean eigenvalue of A'A is ``n F^2 / p``
    if every row has norm F. Eigenvalues of real features spread over two orders of magnitude, and the small ones must
    exceed the noise too.
    """
    moved = math.sqrt(budget.sensitivity(1.0))
    entry = moved / budget.mu if budget.delta > 0.0 else moved * columns / budget.epsilon
    edge, mean = 2.0 * math.sqrt(columns) * entry, count / columns
    if columns > _MOST_COLUMNS:
        return False, f"{columns} columns are too many for a matrix of products"
    fine = _SPREAD * edge < mean
    words = f"noise of norm {edge:.3g} on A'A is {'' if fine else 'not '}small beside its mean"
    return fine, f"{words} eigenvalue {mean:.3g} ({count} {unit}s, {columns} columns)"


class PrivateLinearRegression(PrivateRegressor):
    """Differentially private linear regression on a table.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget. Default: 1.
    delta : float
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    feature_norm : float or "private"
        Feature vectors with a larger Euclidean norm are scaled down to it. "private" finds an interval of each column,
        and the norm of the rows after scaling by them, with a share of the budget: a tenth if there are many records,
        more if there are few. Features then need no scaling. Default: 1.
    label_bounds : (low, high) or "private"
        Labels beyond these bounds are clipped, and predictions stay within them. State bounds that are known without
        looking at the data; "private" finds them with a share of the budget. Default: (-1, 1).
    fit_intercept : bool
        Whether to learn an intercept. Default: True.
    weight_bound : float
        Upper bound to which ``sample_weight`` is clipped; noise is proportional to it. Default: 1.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and ``guarantee_`` says so. Default: "lattice".
    verbose : int
        Whether to show progress. Default: 0.
    random_state : int or RandomState, optional
        None uses a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.
    intercept_scaling : float, optional
        Size of the constant feature from which the intercept is learnt, relative to ``feature_norm``; noise is
        calibrated to the norm of both together. By default the best value for sufficient statistics, about
        ``(2 p) ** -0.25`` for p features.
    max_records : int, optional
        With ``groups`` in ``fit``: number of records of a person that count; later ones are ignored. Default: None;
        each of a person's m records then has weight 1/m.
    regularizer : float, optional
        Fixed ridge of the summed loss, with scaled labels and features. By default sufficient statistics choose it
        from what they have released.
    solver : str
        "auto", "boosted-statistics", "sufficient-statistics", "adassp", "objective-perturbation" or
        "gradient-descent". "auto" chooses boosted statistics, or objective perturbation if there are few records for
        the budget; if delta = 0, sufficient statistics, provided that the noise leaves A'A useful; otherwise, or with
        more than 2,000 columns, objective perturbation of Huber's loss. The choice depends on the numbers of records
        and columns and on the budget only; ``solver_reason_`` says why. Default: "auto".
    intervals : bool
        Whether to release what :meth:`summary` needs, the sum of squared labels, with a twentieth of the budget. The
        solver is then sufficient statistics, and features are not scaled. Default: False.
    scaling : {"auto", "none"}
        "auto" spends 4 to 16 percent of the budget on means and spreads of the columns, on the norm of the rows after
        centring and scaling, and on the mean label (up to 30 percent on the mean label alone with a few hundred records
        and a small epsilon), if the public numbers (records, columns, budget) indicate that this pays; ``scaling_``
        says what was done and why. With delta = 0, another 2 to 7 percent go to the distance of labels from their mean,
        to which noise is then proportional. Coefficients are in the units of the given features. Default: "auto".

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients, in the units of the features.
    intercept_ : float
        Intercept; the middle of the label bounds if ``fit_intercept=False``.
    guarantee_ : reticent.Guarantee
        Guarantee for all of these attributes except ``clipped_``; ``guarantee_.explain()`` says why it holds.
    solver_ : str
        Solver that ran.
    solver_reason_ : str
        Why that solver was chosen.
    scaling_ : str
        Whether features were centred and scaled, and why.
    settings_ : dict
        Settings of the solver.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it. Pickles omit it.

    See Also
    --------
    PrivateLasso : For many more features than records.
    OnlineLinearRegression : Learns from a stream of records.
    reticent.erm.sufficient_statistics : The default solver.


    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2)) / np.sqrt(2)
    >>> y = 10 + X @ [3.0, -2.0] + 0.1 * rng.standard_normal(20_000)
    >>> model = PrivateLinearRegression(label_bounds=(5, 15), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98, model.solver_
    (True, 'boosted-statistics')
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        feature_norm: float | str = parameters.FEATURE_NORM,
        label_bounds: tuple[float, float] | str = parameters.LABEL_BOUNDS,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        regularizer: float | None = None,
        solver: str = "auto",
        weight_bound: float = 1.0,
        max_records: int | None = None,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
        intervals: bool = False,
        scaling: str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.feature_norm = feature_norm
        self.label_bounds = label_bounds
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.regularizer = regularizer
        self.solver = solver
        self.weight_bound = weight_bound
        self.max_records = max_records
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state
        self.intervals = intervals
        self.scaling = scaling

    _bends = False
    _solvers = LINEAR_SOLVERS

    def _table(self, X: Any, weights: FloatArray | None, bound: float) -> Table:
        """Scale down rows that are too long after scaling, with constant and label: linear relations persist."""
        if self._units.first is None:
            return super()._table(X, weights, bound)
        self._units = replace(self._units, weighed=True)
        constant, norm = self._constant(X.shape[1]), self._units.norm
        made = self._units.scaled(np.ascontiguousarray(X, np.float64))
        shares = np.minimum(1.0, norm / np.maximum(row_norms(made), norm))
        rows = Form(norm, 1.0, constant).applied(made)
        rows[:, X.shape[1] :] *= shares[:, None]
        scaled = int(np.count_nonzero(shares < 1.0))
        return Table(
            rows, self._row_norm(constant), constant, weights, bound, scaled, factors=shares
        )

    def _squared_labels(self, budget: Budget) -> SquaredLabels | None:
        if not parameters.CHECKS["fit_intercept"](self.intervals, "intervals"):
            return None
        if self.solver not in ("auto", STATISTICS):
            raise ValueError(
                f"intervals=True needs solver='auto' or {STATISTICS!r}, got {self.solver!r}"
            )
        return SquaredLabels.of(budget, self.noise_precision)

    def _label_sum(self, budget: Budget, count: int) -> NoisyVector | None:
        if self._asked_scaling == "none" or not self.fit_intercept:
            return None
        if self.solver in ("adassp", "gradient-descent"):
            return None
        moved = budget.sensitivity(1.0) * (1.0 + 4.0 * UNITS * UNIT * count)
        for share in _LEVELS:
            total = NoisyVector.spending(
                share, budget, "sum of the labels", moved, 1, float(count), self.noise_precision
            )
            if total.deviation <= _CLEAR * count:
                break
        return total if total.deviation <= _TELLING * count else None

    def _moves(self, budget: Budget, count: int, columns: int) -> bool:
        # rounds find out how large residuals are by themselves
        if not self._free or self.intervals:
            return False
        rounds = budget.delta > 0.0 and count * budget.mu >= _ROUNDS
        return (
            self.solver == OBJECTIVE
            or budget.delta == 0.0
            or (self.solver == "auto" and not rounds)
        )

    def summary(self, level: float = 0.95, encoder: Any = None) -> Summary:
        """Coefficients with standard errors and intervals; sampling and privacy errors are listed separately.

        It uses released numbers only: it spends nothing, and the model's guarantee covers it. The model must have been
        fitted with ``intervals=True``.

        Parameters
        ----------
        level : float
            Nominal coverage of the intervals. Default: 0.95.
        encoder : reticent.tables.Encoder, optional
            Encoder that made the features. Coefficients are then those of the table's own columns: per unit of a
            number, and for each value of a category relative to the first one in the schema.

        Returns
        -------
        Summary
            Estimates, standard errors and intervals; prints as a table.

        Raises
        ------
        NoIntervals
            If the noise is too large for reliable intervals.
        """
        check_is_fitted(self)
        moments = getattr(self, "_moments", None)
        if moments is None:
            raise ValueError(
                "summary needs a model that was fitted with intervals=True, which also releases the sum of "
                "squared labels; fitting again spends the budget again"
            )
        low, high = self._bounds
        half, middle = 0.5 * high - 0.5 * low, 0.5 * low + 0.5 * high
        if not half > 0.0:
            raise NoIntervals(
                f"no intervals: no label but {low:g} stood out from the noise; state label_bounds"
            )
        carried = self._carried(self._constant_feature, encoder, half, middle)
        about = (
            "about the least-squares coefficients of the population that the records are a sample of, after "
            "clipping, with errors of constant variance"
        )
        return summarise(moments, carried, level, about, self.guarantee_)

    def _scaling(self, columns: int) -> float:
        if self.intercept_scaling is None and self.fit_intercept:
            # Noise on A'A grows with the squared norm: this t minimises (1 + t^2)^2 (p + 1/t^2).
            return math.sqrt((math.sqrt(1.0 + 8.0 * columns) - 1.0) / (4.0 * columns))
        return super()._scaling(columns)

    def _chosen(self, budget: Budget, table: Table) -> tuple[str, str]:
        """The solver for a table of this shape, and why. Uses public numbers only."""
        if table.columns > _MOST_COLUMNS:
            return OBJECTIVE, f"{table.columns} columns are too many for a matrix of products"
        if budget.delta > 0.0 and self._moved:
            return OBJECTIVE, (
                f"{table.public} {table.unit}s are few for the budget: noise would hide from rounds of residuals how "
                "small these are"
            )
        if budget.delta > 0.0:
            return BOOSTED, (
                "delta > 0: rounds of residuals compose like Gaussian noise, and the noise is proportional to the "
                "size of residuals instead of that of labels"
            )
        # With delta = 0 the epsilons of all rounds would add up, and one release is better.
        fine, words = products_survive(budget, table.public, table.columns, table.unit)
        return (STATISTICS if fine else OBJECTIVE), words

    def _solve(self, table: Table, labels: Any, common: dict[str, Any]) -> erm.Fit:
        asked = self.solver
        self.solver_, self.solver_reason_ = asked, "asked for"
        if asked == "auto":
            self.solver_, self.solver_reason_ = self._chosen(common["budget"], table)
            if self.intervals:
                self.solver_, self.solver_reason_ = STATISTICS, "intervals need one release of both"
        if self.solver_ in _METHODS:
            method = _METHODS[self.solver_]
            loss, rows, targets, weighting = self._squared(table, labels)
            return erm.sufficient_statistics(
                loss, None, rows, targets, method=method, regularizer=self.regularizer,
                center=table.start, **weighting, **common,
            )  # fmt: skip
        huber = Huber(1.0, feature_norm=table.norm)
        if self.solver_ == OBJECTIVE:
            return erm.objective_perturbation(
                huber,
                None,
                table.rows,
                labels,
                regularizer=self.regularizer,
                radius_share=_RISK if self._moved else IGNORANCE,
                **table.pulls,
                **table.weighting,
                **common,
            )
        if self.regularizer is not None:
            raise ValueError(
                f"solver={self.solver_!r} does not support regularizer; use solver={STATISTICS!r}"
            )
        return erm.gradient_descent(
            huber,
            None,
            table.rows,
            labels,
            **table.weighting,
            **common,
        )


class PrivateLasso(PrivateRegressor):
    """Differentially private least squares over an l1 ball, for many more features than records.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget. Default: 1.
    delta : float
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    radius : float, optional
        Largest sum of absolute coefficients, with labels scaled to [-1, 1] and features in units of ``feature_norm``.
        By default it grows with the number of records and the budget, from 1 to 16, and is below 1 if noise would
        determine the coefficients within a larger ball.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    feature_norm : float or "private"
        Largest absolute value of any *single* feature; larger ones are clipped. Over an l1 ball the noise depends on
        nothing else about a record. "private" finds it with a share of the budget. Default: 1.
    label_bounds : (low, high) or "private"
        Labels beyond these bounds are clipped, and predictions stay within them. "private" finds them with a share of
        the budget. Default: (-1, 1).
    fit_intercept : bool
        Whether to learn an intercept. Default: True.
    steps : int, optional
        Number of Frank-Wolfe steps. By default it balances the two parts of the bound on the excess risk.
    solver : {"auto", "frank-wolfe", "sufficient-statistics"}
        "auto" chooses sufficient statistics for few features and many records, else Frank-Wolfe. Default: "auto".
    weight_bound : float
        Upper bound to which ``sample_weight`` is clipped; noise is proportional to it. Default: 1.
    max_records : int, optional
        With ``groups`` in ``fit``: number of records of a person that count; later ones are ignored. Default: None;
        each of a person's m records then has weight 1/m.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and ``guarantee_`` says so. Default: "lattice".
    verbose : int
        Whether to show progress. Default: 0.
    random_state : int or RandomState, optional
        None uses a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients, in the units of the features.
    intercept_ : float
        Intercept.
    guarantee_ : reticent.Guarantee
        Guarantee for all of these attributes except ``clipped_``; ``guarantee_.explain()`` says why it holds.
    solver_ : str
        Solver that ran.
    solver_reason_ : str
        Why that solver was chosen.
    settings_ : dict
        Settings of the solver, such as radius and steps.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it. Pickles omit it.

    See Also
    --------
    PrivateLinearRegression : Better for few features and many records.
    reticent.erm.frank_wolfe : The solver for many features.


    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(1_500, 3_000))
    >>> y = 0.5 * X[:, 3] - 0.4 * X[:, 70]
    >>> model = PrivateLasso(epsilon=2.0, random_state=0).fit(X, y)
    >>> np.argsort(-np.abs(model.coef_))[:2].tolist(), model.solver_
    ([3, 70], 'frank-wolfe')
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        radius: float | None = None,
        neighbours: str = "zero-out",
        feature_norm: float | str = parameters.FEATURE_NORM,
        label_bounds: tuple[float, float] | str = parameters.LABEL_BOUNDS,
        fit_intercept: bool = True,
        steps: int | None = None,
        solver: str = "auto",
        weight_bound: float = 1.0,
        max_records: int | None = None,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.neighbours = neighbours
        self.feature_norm = feature_norm
        self.label_bounds = label_bounds
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.solver = solver
        self.weight_bound = weight_bound
        self.max_records = max_records
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state

    def _table(self, X: Any, weights: FloatArray | None, bound: float) -> Table:
        norm, constant = self._units.norm, self._constant(X.shape[1])
        X = self._units.scaled(X)
        values = X.data if sp.issparse(X) else X
        beyond = np.abs(values) > norm
        scaled = 0
        if beyond.any():
            scaled = int(
                np.count_nonzero(abs(X).max(axis=1).toarray() > norm)
                if sp.issparse(X)
                else beyond.any(axis=1).sum()
            )
        # entries are within [-1, 1], so no row is as long as this
        form = Form(norm, 2.0 * math.sqrt(X.shape[1]), constant)
        rows = form.applied(clip_entries(X, norm))
        return Table(rows, self._row_norm(constant), constant, weights, bound, scaled)

    def _lazy_rows(self, X: Lazy, y: Any, constant: float) -> ByEntries:
        inner = X.records(y, Form(), self._check_of_labels())
        if inner.units != UNITS:
            raise TypeError(
                "PrivateLasso does not support arrays on a device, because its rounding bound holds for sums on the "
                "host only. Copy the table to the host, or use PrivateLinearRegression"
            )
        norm = self._units.norm
        clipped = int(summed(inner.map(CountBeyond(norm)))[0])
        return ByEntries(inner, norm, constant, clipped)

    def _constant(self, columns: int) -> float:
        return 1.0 if self.fit_intercept else 0.0

    def _row_norm(self, constant: float) -> float:
        return 1.0

    _by_entries = True  # clipped: entries, not rows
    _solvers = LASSO_SOLVERS

    def _sizes(self, X: Any) -> FloatArray:
        largest = abs(X).max(axis=1)
        return np.asarray(largest.toarray().ravel() if sp.issparse(X) else largest, np.float64)

    def _clip(self, X: Any) -> Any:
        return self._units.unscaled(clip_entries(self._units.scaled(X), self._units.norm))

    def _facts(self, table: Table) -> tuple[str, ...]:
        first, *rest = super()._facts(table)
        return (first.replace("features clipped to norm", "each feature clipped to"), *rest)

    def _solve(self, table: Table, labels: Any, common: dict[str, Any]) -> erm.Fit:
        asked = self.solver
        given = self.radius
        radius = None if given is None else parameters.CHECKS["radius"](given, "radius")
        ball = L1Ball(table.columns, 1.0 if radius is None else radius)  # of sufficient statistics
        loss, rows, targets, weighting = self._squared(table, labels)
        self.solver_, self.solver_reason_ = asked, "asked for"
        if asked == "auto":
            fine, words = products_survive(
                common["budget"], table.public, table.columns, table.unit
            )
            # The noise is about sqrt(log p) for vertices and about p^(3/2) for products of features.
            self.solver_ = STATISTICS if fine else "frank-wolfe"
            self.solver_reason_ = words
        if self.solver_ == "frank-wolfe":
            bounded: Any = loss
            if table.groups is not None or table.weights is None:  # else weights are in the records
                # equal to the squared loss for residuals within 1; its slope does not grow with the radius
                bounded = Huber(1.0, feature_norm=loss.feature_norm)
            fit = erm.frank_wolfe(
                bounded, None, rows, targets, steps=self.steps, radius=radius, **weighting, **common
            )
            self.solver_reason_ += self._rival(table, common["budget"], fit)
            return fit
        wide = Squared(
            feature_norm=loss.feature_norm * math.sqrt(table.columns),
            label_bounds=loss.label_bounds,
        )
        if isinstance(rows, ByEntries):
            rows = replace(rows, form=Form(length=wide.feature_norm))
        return erm.sufficient_statistics(wide, ball, rows, targets, **weighting, **common)

    def _rival(self, table: Table, budget: Budget, fit: erm.Fit) -> str:
        """A remark on the length of rows below which a dense solver is better, by bounds on both errors."""
        known: Any = fit.trace.settings
        size, steps = float(known["radius"]), float(known["steps"])
        count, columns = table.public, table.columns
        pure = budget.delta == 0.0
        corner = 2.0 * steps / budget.epsilon if pure else math.sqrt(steps) / budget.mu
        cost = 2.0 * size**2 / steps + size * corner * math.log(2.0 * columns) / count
        noise = columns / budget.epsilon if pure else math.sqrt(columns) / budget.mu
        length = cost * count / (noise * size)
        if length <= 1.0:  # no row with an entry of 1 is that short
            return ""
        return (
            f"; rows of Euclidean norm below about {length * self._units.norm:.2g} are learnt better by "
            "PrivateLinearRegression with that feature_norm"
        )
