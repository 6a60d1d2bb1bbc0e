"""Private linear regression and LASSO on a table, with scikit-learn's interface.

Least squares from noisy sufficient statistics, with rounds of clipped residuals where delta > 0
(docs/algorithms/sufficient-statistics.md), or objective perturbation of Huber's loss; the LASSO by Frank-Wolfe
steps to noisily chosen corners of the l1 ball (docs/algorithms/frank-wolfe.md), whose noise grows
with the logarithm of the number of features only.

Labels are moved and scaled from ``label_bounds`` to [-1, 1] before anything is learnt; radius and
regularizer are in those units.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from reticent import checks, erm
from reticent.erm.groups import Groups
from reticent.erm.problem import IGNORANCE
from reticent.erm.rounded_sums import UNIT, UNITS
from reticent.estimators import parameters
from reticent.estimators.bounds import SHARE, Search, counted
from reticent.estimators.finding import label_bounds, warn_of_flat_labels
from reticent.estimators.label_scale import LabelScale, moved
from reticent.estimators.mixins import Bounded, FiniteLabels, FloatArray, lazily
from reticent.estimators.private import PrivateEstimator, Table
from reticent.estimators.scaling import NoisySum, too_large
from reticent.estimators.summary import Moments, NoIntervals, SquaredLabels, Summary, summarise
from reticent.estimators.units import clip_entries
from reticent.estimators.validation import real_labels
from reticent.losses import ClipCounts, Huber, Squared
from reticent.losses.records import row_norms
from reticent.privacy import Budget, Guarantee
from reticent.sets import L1Ball
from reticent.solve.blocks import ByEntries, CountBeyond, Form, InMemory, Lazy, Within, summed

STATISTICS = "sufficient-statistics"
BOOSTED, OBJECTIVE = "boosted-statistics", "objective-perturbation"
LINEAR_SOLVERS = ("auto", BOOSTED, STATISTICS, "adassp", OBJECTIVE, "gradient-descent")
LASSO_SOLVERS = ("auto", "frank-wolfe", STATISTICS)
_METHODS = {BOOSTED: "boosted", STATISTICS: "joint", "adassp": "adassp"}
_SPREAD = 100.0
_LEVELS = (0.01, 0.03, 0.1, 0.3)
"""Of the budget for the sum of the labels: the first at which it is clear, else the last."""
_CLEAR, _TELLING = 0.05, 0.5
"""Noise on the mean label, in units of the half of its bounds, that is clear, and that still tells something."""
_LIKELY = 1.0 / 3.0
"""The likely distance of the mean label from the middle of its bounds, in the same units."""
_RISK = 0.1
"""What noise may cost a fit of labels that were moved and scaled, as a share of what the zero decision loses. Labels
fill their bounds then, and their variance is a quarter of the largest at most: between a quarter of both."""
_ROUNDS = 196.0
"""Rounds of residuals are for tables where n mu is so large: below that noise on their sums of squares hides from them
how much smaller than labels residuals are (docs/algorithms/sufficient-statistics.md)."""
_MOST_COLUMNS = 2000
"""More columns than this make a matrix of products that is slow to solve with."""


class PrivateRegressor(Bounded, RegressorMixin, PrivateEstimator):
    """What the two regressors share."""

    _moved = False
    """Whether the labels of the last fit were moved by what was released about them."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from a table. Each call is a release of its own and spends the whole budget.

        Parameters
        ----------
        X : array, data frame, sparse matrix or table of `reticent.tables.open`
            The records. Single precision, memory maps and files are read as they are.
        y : array, or labels of `reticent.tables.open`
            Their labels.
        sample_weight : array, optional
            Clipped to [0, ``weight_bound``].
        groups : array, optional
            An id of its person for each record (whole numbers, text or bytes). All records of one person
            are then protected together, and the number of persons is public.
        """
        with self._all_or_nothing():
            self._forget()
            X, y = lazily(X, y)
            if isinstance(X, Lazy):
                return self._fit_lazy(X, y, sample_weight, groups)
            X, y = self._features(X, y, reset=True, numeric=True)
            y = real_labels(column_or_1d(y, warn=True))
            common = self._common()
            given, bound = self._weights(sample_weight, X.shape[0], None, 1.0)
            persons = Groups.of(groups, X.shape[0], self.max_records)
            count = X.shape[0] if persons is None else persons.count
            counts = counted(given, persons)
            asked = parameters.OR_PRIVATE["label_bounds"](self.label_bounds, "label_bounds")
            both = asked == parameters.PRIVATE == self.feature_norm
            search = self._search(
                common["budget"], count, X.shape[1], SHARE * (2.0 / 3.0 if both else 1.0)
            )
            of_labels = None
            if asked == parameters.PRIVATE:
                of_labels = Search.of(
                    common["budget"],
                    count,
                    1,
                    share=SHARE * (1.0 / 3.0 if both else 1.0),
                    precision=self.noise_precision,
                )
            beside = [item for made in (of_labels, search) if made for item in made.releases]
            scaling = self._scaling_for(common["budget"], count, X)
            beside += scaling.releases if scaling else ()
            level = (
                None if too_large(count, X.shape[1]) else self._label_sum(common["budget"], count)
            )
            beside += [level.release] if level else []
            self._moved = level is not None and self._moves(common["budget"], count, X.shape[1])
            spread = None
            if self._moved:
                spread = LabelScale.of(common["budget"], count, X.shape[1], self.noise_precision)
            beside += spread.releases if spread else ()
            squares = self._squared_labels(common["budget"])
            if squares is not None:
                if given is not None or persons is not None:
                    raise ValueError("intervals=True takes neither sample_weight nor groups")
                beside.append(squares.release)
            whole, found = None, None
            if beside:
                blank = np.zeros(X.shape[0])
                whole = self._reserve(
                    beside,
                    common,
                    X,
                    given is not None,
                    bound,
                    blank,
                    persons,
                    (1, 1.0) if level and not self._moved else None,
                )
            source = self._beside_source(common)
            if of_labels is not None:
                found = label_bounds(of_labels.intervals(y[:, None], counts, source))
                warn_of_flat_labels(*found)
            self._set_units(X, counts, search, source, scaling)
            labels, beyond = self._to_unit(y, found)
            middle, size = 0.0, 1.0
            table = replace(self._table(X, sample_weight, None, 1.0), groups=persons)
            if level is not None:
                total = level.draw(sum_of_labels(labels, counts), source)
                # pulled to the middle where noise is as large as what is likely
                trust = _LIKELY**2 / (_LIKELY**2 + (level.deviation / count) ** 2)
                rest = np.clip(trust * total / count, -1.0, 1.0)
                if self._moved:
                    middle = float(rest[0])
                    if spread is not None:
                        doubt = level.deviation / count
                        middle, size = spread.found(labels, middle, doubt, counts, source)
                    labels = moved(labels, middle, size)
                else:
                    table = replace(table, rest=rest, rest_bound=1.0)
            if table.factors is not None:
                labels = labels * table.factors
            fit = self._paid(whole, lambda: self._solve(table, labels, common))
            self._finish(fit, table, beyond, whole, middle, size)
            if squares is not None:
                square = squares.draw(labels, source)
                self._moments = Moments(**fit.released, squares=square, count=table.count)
                self._constant_feature = table.scaling
            return self

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
        """What intervals need beside the fit; None without them."""
        return None

    def _label_sum(self, budget: Budget, count: int) -> NoisySum | None:
        """The sum of the labels, from which the intercept starts; None where it does not."""
        return None

    def _moves(self, budget: Budget, count: int, columns: int) -> bool:
        """Whether labels are moved by their mean and scaled, where it is released."""
        return False

    def _squared(self, table: Table, labels: Any) -> tuple[Squared, Any, Any, dict[str, Any]]:
        """The loss, the records and how they count.

        Weights go into records and labels as their square roots, unless persons are protected.
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
    """The sum of labels within [-1, 1], before noise; null records have the weight 0."""
    return np.array([np.sum(labels if weights is None else labels * weights)])


def products_survive(
    budget: Budget, count: int, columns: int, unit: str = "record"
) -> tuple[bool, str]:
    """Whether noise leaves A'A useful, and a sentence that says so. Reads public numbers only.

    The noise's largest eigenvalue is about ``2 sqrt(p) F^2 / mu``, and A'A has the mean eigenvalue
    ``n F^2 / p`` where features fill the ball; of real features the eigenvalues spread over two orders
    of magnitude, and the small ones must survive too.
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
        Privacy parameter epsilon of the budget.
    delta : float
        Privacy parameter delta of the budget; 0 asks for pure privacy.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another.
    feature_norm : float or "private"
        Feature vectors longer than this (Euclidean norm) are scaled down to it. "private" finds an
        interval of each column and the norm of rows scaled by them with a share of the budget, a
        tenth where records are many; features then need no scaling.
    label_bounds : (low, high) or "private"
        Labels beyond these are clipped, and predictions stay within. State what is known, not what
        the labels turned out to be; "private" finds them with a share of the budget.
    fit_intercept : bool
        Whether to learn an intercept.
    weight_bound : float
        What ``sample_weight`` is clipped to, from above; noise is proportional to it.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding; "float" is for simulations, and the guarantee
        says so.
    verbose : int
        Whether to show progress.
    random_state : int or RandomState, optional
        None is a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.
    intercept_scaling : float, optional
        The constant feature that the intercept is learnt from, as a share of ``feature_norm``; by default
        what is best for sufficient statistics, about ``(2 p) ** -0.25``.
    max_records : int, optional
        How many of a person's records count, the first ones, where ``fit`` is given ``groups``; by
        default each of a person's m records has the weight 1/m.
    regularizer : float, optional
        A fixed ridge of the summed loss, labels and features scaled. By default sufficient
        statistics choose it after the release, from what was released.
    solver : str
        "auto", "boosted-statistics", "sufficient-statistics", "adassp", "objective-perturbation" or
        "gradient-descent". "auto" takes boosted statistics, or objective perturbation where records are few for
        the budget and the columns; where delta = 0, sufficient statistics if
        noise leaves A'A useful; and else, or with more than 2,000 columns, objective perturbation of
        Huber's loss. That depends on the numbers of records and columns and on the budget alone;
        ``solver_reason_`` says why.

    intervals : bool
        Whether :meth:`summary` shall have what it needs: the sum of squared labels is released as well,
        with a twentieth of the budget, the solver is sufficient statistics, and features are not scaled.
    scaling : {"auto", "none"}
        "auto" spends a small share of the budget, 4 to 16 percent (and up to 30 on the mean label alone where
        there are a few hundred records and epsilon is small), on means and spreads of the columns, on
        the norm of rows centered and scaled by them, and on the mean label, where the numbers of records
        and columns and the budget say that this pays; ``scaling_`` says what was done and why. With delta = 0,
        2 to 7 percent more go to how far labels are from their mean, which noise is then proportional to.
        Coefficients are in the units of the features as they came.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    guarantee_, solver_, solver_reason_, scaling_, settings_, clipped_
        As in `PrivateLogisticRegression`.

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

    def _table(self, X: Any, sample_weight: Any, factors: FloatArray | None, most: float) -> Table:
        """Rows that are too long after scaling count less, with their labels: a line stays a line."""
        if self._units.first is None:
            return super()._table(X, sample_weight, factors, most)
        self._units = replace(self._units, weighed=True)
        constant, norm = self._constant(X.shape[1]), self._units.norm
        made = self._units.scaled(np.ascontiguousarray(X, np.float64))
        shares = np.minimum(1.0, norm / np.maximum(row_norms(made), norm))
        rows = Form(norm, 1.0, constant).applied(made)
        rows[:, X.shape[1] :] *= shares[:, None]
        weights, bound = self._weights(sample_weight, X.shape[0], factors, most)
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

    def _label_sum(self, budget: Budget, count: int) -> NoisySum | None:
        if self._asked_scaling == "none" or not self.fit_intercept:
            return None
        if self.solver in ("adassp", "gradient-descent"):
            return None
        moved = budget.sensitivity(1.0) * (1.0 + 4.0 * UNITS * UNIT * count)
        for share in _LEVELS:
            total = NoisySum.of(
                "sum of the labels", budget, share, moved, 1, float(count), self.noise_precision
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
        """Coefficients with standard errors and intervals, sampling error and privacy error apart.

        From what was released only: it spends nothing, and the model's guarantee covers it. Needs
        ``intervals=True``, and refuses (`NoIntervals`) where noise leaves no interval to trust.

        Parameters
        ----------
        level : float
            Of the intervals.
        encoder : reticent.tables.Encoder, optional
            What made the features of a table with a schema. Coefficients are then those of the table's columns,
            per unit of a number and of each value of a category against the first one that the schema lists.
        """
        check_is_fitted(self)
        moments = getattr(self, "_moments", None)
        if moments is None:
            raise ValueError(
                "a summary needs a model that was fitted with intervals=True, which releases the sum of "
                "squared labels too; fitting again spends the budget again"
            )
        low, high = self._bounds
        half, middle = 0.5 * high - 0.5 * low, 0.5 * low + 0.5 * high
        if not half > 0.0:
            raise NoIntervals(
                f"there are no intervals where no label but {low:g} stood out of the noise; state label_bounds"
            )
        carried = self._carried(self._constant_feature, encoder, half, middle)
        about = (
            "about the least-squares coefficients of the population that the records are a sample of, after "
            "clipping, with errors of constant variance"
        )
        return summarise(moments, carried, level, about, self.guarantee_)

    def _scaling(self, columns: int) -> float:
        if self.intercept_scaling is None and self.fit_intercept:
            # Noise on A'A grows with the squared norm: (1 + t^2)^2 (p + 1/t^2) is least here.
            return math.sqrt((math.sqrt(1.0 + 8.0 * columns) - 1.0) / (4.0 * columns))
        return super()._scaling(columns)

    def _chosen(self, budget: Budget, table: Table) -> tuple[str, str]:
        """The solver for a table of this shape, and why. Reads public numbers only."""
        if table.columns > _MOST_COLUMNS:
            return OBJECTIVE, f"{table.columns} columns are too many for a matrix of products"
        if budget.delta > 0.0 and self._moved:
            return OBJECTIVE, (
                f"{table.public} {table.unit}s are few for the budget: noise would hide from rounds of residuals how "
                "small these are"
            )
        if budget.delta > 0.0:
            return BOOSTED, (
                "delta > 0: rounds of residuals add up like Gaussian noise, and noise is proportional to the "
                "size of residuals instead of that of labels"
            )
        # Without delta every round would pay in full, and one release is better.
        fine, words = products_survive(budget, table.public, table.columns, table.unit)
        return (STATISTICS if fine else OBJECTIVE), words

    def _solve(self, table: Table, labels: Any, common: dict[str, Any]) -> erm.Fit:
        asked = checks.choice(self.solver, "solver", LINEAR_SOLVERS)
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
                f"solver={self.solver_!r} takes no regularizer; use solver={STATISTICS!r}"
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
        Privacy parameter epsilon of the budget.
    delta : float
        Privacy parameter delta of the budget; 0 asks for pure privacy.
    radius : float, optional
        The largest sum of absolute coefficients, with labels scaled to [-1, 1] and features in
        units of ``feature_norm``. By default it grows with the number of records and the budget, from 1 to
        16, and is less than 1 where these say that noise would choose the coefficients of a larger one.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another.
    feature_norm : float
        The largest absolute value of any *single* feature; larger ones are clipped. Over an l1 ball
        nothing else about a record matters. "private" finds it with a share of the budget.
    label_bounds : (low, high)
        Labels beyond these are clipped, and predictions stay within.
    fit_intercept : bool
        Whether to learn an intercept.
    steps : int, optional
        Of Frank-Wolfe; by default as many as balance the two parts of the bound on the excess risk.
    solver : {"auto", "frank-wolfe", "sufficient-statistics"}
        "auto" takes sufficient statistics where there are few features and many records, else
        Frank-Wolfe.
    weight_bound : float
        What ``sample_weight`` is clipped to, from above; noise is proportional to it.
    max_records : int, optional
        How many of a person's records count, the first ones, where ``fit`` is given ``groups``; by
        default each of a person's m records has the weight 1/m.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding; "float" is for simulations, and the
        guarantee says so.
    verbose : int
        Whether to show progress.
    random_state : int or RandomState, optional
        None is a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says
        so.

    Attributes
    ----------
    coef_, intercept_, guarantee_, solver_, solver_reason_, settings_, clipped_
        As in `PrivateLinearRegression`.

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

    def _table(self, X: Any, sample_weight: Any, factors: FloatArray | None, most: float) -> Table:
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
        weights, bound = self._weights(sample_weight, X.shape[0], factors, most)
        # entries are within [-1, 1] then, so that no row is as long as this
        form = Form(norm, 2.0 * math.sqrt(X.shape[1]), constant)
        rows = form.applied(clip_entries(X, norm))
        return Table(rows, self._row_norm(constant), constant, weights, bound, scaled)

    def _lazy_rows(self, X: Lazy, y: Any, constant: float) -> ByEntries:
        inner = X.records(y, Form(), self._check_of_labels())
        if inner.units != UNITS:
            raise TypeError(
                "PrivateLasso does not read arrays of a device: its bound on rounding is that of the host's sums. "
                "Copy the table to the host, or use PrivateLinearRegression"
            )
        norm = self._units.norm
        clipped = int(summed(inner.map(CountBeyond(norm)))[0])
        return ByEntries(inner, norm, constant, clipped)

    def _constant(self, columns: int) -> float:
        return 1.0 if self.fit_intercept else 0.0

    def _row_norm(self, constant: float) -> float:
        return 1.0

    _by_entries = True  # clipped: entries, not rows

    def _sizes(self, X: Any) -> FloatArray:
        largest = abs(X).max(axis=1)
        return np.asarray(largest.toarray().ravel() if sp.issparse(X) else largest, np.float64)

    def _clip(self, X: Any) -> Any:
        return self._units.unscaled(clip_entries(self._units.scaled(X), self._units.norm))

    def _facts(self, table: Table) -> tuple[str, ...]:
        first, *rest = super()._facts(table)
        return (first.replace("features clipped to norm", "each feature clipped to"), *rest)

    def _solve(self, table: Table, labels: Any, common: dict[str, Any]) -> erm.Fit:
        asked = checks.choice(self.solver, "solver", LASSO_SOLVERS)
        given = self.radius
        radius = None if given is None else parameters.CHECKS["radius"](given, "radius")
        ball = L1Ball(table.columns, 1.0 if radius is None else radius)  # of sufficient statistics
        loss, rows, targets, weighting = self._squared(table, labels)
        self.solver_, self.solver_reason_ = asked, "asked for"
        if asked == "auto":
            fine, words = products_survive(
                common["budget"], table.public, table.columns, table.unit
            )
            # Corners cost about sqrt(log p) of noise, products of features about p^(3/2).
            self.solver_ = STATISTICS if fine else "frank-wolfe"
            self.solver_reason_ = words
        if self.solver_ == "frank-wolfe":
            bounded: Any = loss
            if table.groups is not None or table.weights is None:  # else weights are in the records
                # the same for residuals within 1, and slopes that do not grow with the radius
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
        """Below which length of rows a dense solver is better, by bounds on what noise costs either way."""
        known: Any = fit.trace.settings
        size, steps = float(known["radius"]), float(known["steps"])
        count, columns = table.public, table.columns
        pure = budget.delta == 0.0
        corner = 2.0 * steps / budget.epsilon if pure else math.sqrt(steps) / budget.mu
        cost = 2.0 * size**2 / steps + size * corner * math.log(2.0 * columns) / count
        noise = columns / budget.epsilon if pure else math.sqrt(columns) / budget.mu
        length = cost * count / (noise * size)
        # as short as a row with one feature; or a rehearsal, before a norm is found
        if length <= 1.0 or not hasattr(self, "_units"):
            return ""
        return (
            f"; rows of Euclidean norm below about {length * self._units.norm:.2g} are learnt better by "
            "PrivateLinearRegression with that feature_norm"
        )
