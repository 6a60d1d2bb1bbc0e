"""Private logistic regression and support vector classification on a table, with scikit-learn's interface.

The solver is objective perturbation (docs/algorithms/objective-perturbation.md) with the capped logistic loss or a
smooth hinge. With more than two classes there is one classifier per class, against the rest; together they spend the
budget, composed exactly: each gets ``mu / sqrt(K)``, or ``epsilon / K`` if delta = 0.

``influence`` does not change the privacy guarantee. It bounds the gradient of a misclassified record, and the noise is
proportional to it.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from reticent import checks, erm
from reticent.estimators import parameters
from reticent.estimators.bounds import SHARE, Search
from reticent.estimators.counts import RARE, SHARES, ClassCounts, PredictorCounts
from reticent.estimators.curvature import Curvature, Errors
from reticent.estimators.mixins import LEAK, Classes, FloatArray, KnownClasses, lazily, shares
from reticent.estimators.private import (
    Population,
    PrivateEstimator,
    Table,
    class_factors,
    releases_of,
)
from reticent.estimators.scaling import ROOM, Scaling, too_large
from reticent.estimators.summary import Summary, summarise
from reticent.losses import CappedLogistic, ClipCounts, Logistic, SmoothHinge
from reticent.noise import Source
from reticent.privacy import (
    Budget,
    Guarantee,
    PrivacyLeakWarning,
    Release,
    remarked,
    with_remarks,
)
from reticent.solve.blocks import Form, InMemory, IsClass, Lazy

OBJECTIVE = "objective-perturbation"
_OTHERS: dict[str, Callable[..., erm.Fit]] = {
    "gradient-descent": erm.gradient_descent,
    "output-perturbation": erm.output_perturbation,
}
SOLVERS = ("auto", OBJECTIVE, *_OTHERS)
_RARE = 0.005
"""Noise of the class counts, as a share of the records, at which a rare class is still visible."""
_CLEAR = 0.1
"""Classes are not counted if the noise would exceed this share of the records."""
_TYPICAL = math.pi / math.sqrt(3.0)
"""Standard deviation of the logistic distribution."""
TARGETS = ("parameter", "regularised")


@dataclass(frozen=True)
class _ClassReleases:
    """What is released beside the fit of a classifier, and the stated weights of the classes."""

    search: Search | None
    scaling: Scaling | None
    counts: ClassCounts
    balanced: bool  # whether the counts give the weights of the classes
    rates: bool  # whether they give the base rates, towards which the ridge pulls
    judged: PredictorCounts | None
    curvature: Curvature | None
    factors: FloatArray | None  # the weight of each record's class
    most: float  # the largest weight of a class

    @property
    def releases(self) -> list[Release]:
        return releases_of(
            self.search,
            self.scaling,
            self.counts if self.balanced or self.rates else None,
            self.judged,
            self.curvature,
        )


class PrivateClassifier(Classes, ClassifierMixin, PrivateEstimator):
    """Base of `PrivateLogisticRegression` and `PrivateLinearSVC`."""

    class_weight: Any
    _solvers = SOLVERS

    @abstractmethod
    def _loss(self, norm: float, plain: bool) -> Any:
        """The loss for objective perturbation; with ``plain``, the loss for other solvers."""

    @abstractmethod
    def _at_rest(self, rates: FloatArray) -> FloatArray:
        """The constant predictors with the smallest expected loss for classes with these rates."""

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
            declared = parameters.CHECKS["classes"](self.classes, "classes")
            X, y = lazily(X, y)
            lazy = isinstance(X, Lazy)
            if not lazy:
                X, y = self._checked(X, y, reset=True)
            read = y.distinct() if lazy and declared is None else y
            self._set_classes(read if declared is None else declared)
            if declared is None:
                warnings.warn(LEAK, PrivacyLeakWarning, stacklevel=2)
            with remarked(*((LEAK,) if declared is None else ())):
                if lazy:
                    common, whole = self._common(), None
                    self._refuse_intervals("needs a table in memory; read it into an array first")
                    table = self._lazy_table(X, y, sample_weight, groups)
                    fit = self._solve(table, None, common)
                else:
                    fit, table, whole = self._fit_beside(X, self._numbers(y), sample_weight, groups)
            weights = self._publish(fit, table, whole)
            self.coef_, self.intercept_ = self._coefficients(weights, table)
            self._straighten()
            self.clipped_ = ClipCounts(table.scaled, 0, table.count)
            return self

    def _fit_beside(
        self, X: Any, numbers: Any, sample_weight: Any, groups: Any
    ) -> tuple[erm.Fit, Table, Guarantee | None]:
        """The fit, together with the private bounds, counts and matrices that it needs."""
        common = self._common()
        people = self._population(sample_weight, groups, X.shape[0])
        beside = self._beside(common["budget"], people, X, numbers)
        whole, limit = None, math.log(4.0 * people.count)
        if beside.releases:
            weighted = beside.balanced or people.weights is not None or beside.factors is not None
            outputs = len(self.classes_) if len(self.classes_) > 2 else 1
            whole = self._reserve(
                beside.releases,
                common,
                X,
                weighted,
                people.bound * beside.most,
                np.zeros(X.shape[0], np.int64),
                people.persons,
                (outputs, limit) if beside.rates else None,
            )
        source = self._beside_source(common)
        counts, factors = beside.counts, beside.factors
        if beside.balanced:
            factors = counts.factors(counts.seen(numbers, people.shares, source))[numbers]
        self._set_units(X, people.shares, beside.search, source, beside.scaling)
        weights = _product(people.weights, factors)
        table = replace(self._table(X, weights, people.bound * beside.most), groups=people.persons)
        if beside.rates:
            rates = counts.rates(counts.seen(numbers, people.shares, source), people.count)
            known = self._weighed(rates, people.count)
            rest = self._at_rest(known[1:] if len(known) == 2 else known)
            table = replace(table, rest=np.clip(rest, -limit, limit), rest_bound=limit)
        fit = self._paid(whole, lambda: self._solve(table, numbers, common))
        if whole is not None:
            whole = with_remarks(whole)
        if beside.judged is not None:
            rate, doubt = float(known[1]), counts.doubt / people.count
            self._judge(beside.judged, fit, table, numbers, people.shares, source, rate, doubt)
        if beside.curvature is not None:
            seen = beside.curvature.draw(table.rows, numbers, fit.point, source)
            self._errors = Errors(fit.point, **fit.released, **seen)
            self._constant_feature = table.scaling
        return fit, table, whole

    def _beside(self, budget: Budget, people: Population, X: Any, numbers: Any) -> _ClassReleases:
        """What will be released beside the fit, decided by public numbers."""
        count, columns = people.count, X.shape[1]
        search = self._search(budget, count, columns, SHARE)
        balanced = self.class_weight == "balanced"
        counts = self._counts(budget, count, SHARES if self._free and not balanced else SHARES[:1])
        factors, most = None, 1.0
        if not balanced:
            factors, most = class_factors(self.class_weight, self.classes_, numbers)
        scaling = self._scaling_for(budget, count, X)
        rates = not balanced and self._wants_rates(counts, count, columns)
        plain = people.weights is None and self.class_weight is None
        # with max_records the weights of a person's records add up to an unknown number
        entire = people.persons is None or self.max_records is None
        judged = None
        if rates and plain and entire:
            judged = self._predictor_counts(budget, count, columns, scaling is not None)
        curvature = self._curvature(budget, X.shape, plain and people.persons is None)
        return _ClassReleases(
            search, scaling, counts, balanced, rates, judged, curvature, factors, most
        )

    def _counts(self, budget: Budget, count: int, shares: tuple[float, ...]) -> ClassCounts:
        """Class counts with the smallest share of the budget at which a rare class is visible, or the largest."""
        for share in shares:
            made = ClassCounts.of(budget, len(self.classes_), self.noise_precision, share)
            if made.scale <= _RARE * count:
                break
        return made

    def _wants_rates(self, counts: ClassCounts, count: int, columns: int) -> bool:
        """Whether the ridge pulls towards the base rates of the classes. Uses public numbers only."""
        if too_large(count, columns):
            return False
        if self._asked_scaling == "none" or not self.fit_intercept:
            return False
        return self.solver in ("auto", OBJECTIVE) and counts.scale <= _CLEAR * count

    def _predictor_counts(
        self, budget: Budget, count: int, columns: int, centered: bool
    ) -> PredictorCounts | None:
        """Counts that calibrate probabilities, or None. Uses public numbers only."""
        return None

    def _weighed(self, rates: FloatArray, count: int) -> FloatArray:
        """Rates of the classes, as records of each class count."""
        if not isinstance(self.class_weight, Mapping):
            return rates
        rates = rates * [self.class_weight.get(c, 1.0) for c in self.classes_.tolist()]
        return np.clip(rates / rates.sum(), 0.5 / count, 1.0 - 0.5 / count)

    def _judge(
        self,
        judged: PredictorCounts,
        fit: erm.Fit,
        table: Table,
        numbers: Any,
        shares: Any,
        source: Source,
        rate: float,
        doubt: float,
    ) -> None:
        """Count the fit's own predictors, and keep the line that turns them into log-odds."""
        # Rows have a norm of at most 1, so every predictor is within ``reach`` of that of mean features: the fit's
        # intercept if columns are centred, else most likely the predictor that suits the base rate.
        assert table.rest is not None
        reach = float(np.linalg.norm(fit.point[:-1]))
        middle = float(fit.point[-1] * table.scaling if judged.centered else table.rest[0])
        z = np.asarray(table.rows.matrix() @ fit.point)
        by_class = judged.seen(z, numbers, middle, reach, shares, source)
        level, usual = self._odds(middle)
        if abs(level) <= RARE:
            self._judged = middle, *judged.line(by_class, level, reach, usual, rate, doubt)

    def _odds(self, middle: float) -> tuple[float, float]:
        """The log-odds at a predictor, and their slope there."""
        return middle, 1.0

    def _straighten(self) -> None:
        """Rescale coefficients so that predictors are log-odds, if their slope was learnt."""

    def _curvature(self, budget: Budget, shape: tuple[int, int], alike: bool) -> Curvature | None:
        """The additional release that intervals need; None without them."""
        return None

    def _refuse_intervals(self, words: str) -> None:
        if getattr(self, "intervals", False):
            raise ValueError(f"intervals=True {words}")

    def _solve(self, table: Table, numbers: Any, common: dict[str, Any]) -> erm.Fit:
        asked = self.solver
        count = len(self.classes_)
        self._choose_solver(table, common["budget"])
        rows, names = table.rows, self.classes_
        if numbers is not None:
            rows, names = _labelled(rows, numbers, table.norm), np.arange(count)
        if self.solver_ == OBJECTIVE:
            all_classes = [IsClass(name) for name in names]
            fit = erm.objective_perturbation(
                self._loss(table.norm, plain=False),
                None,
                rows,
                all_classes if count > 2 else all_classes[1],
                regularizer=self.regularizer,
                for_direction=self._asked_scaling == "auto" and self._free,
                **table.pulls,
                **table.weighting,
                **common,
            )
            return _lengthened(fit, table)
        self._check_other(table)
        if asked == "gradient-descent":
            common |= table.weighting
        loss = self._loss(table.norm, plain=True)
        return _OTHERS[asked](loss, None, rows, IsClass(names[1]), **common)

    def _choose_solver(self, table: Table, budget: Budget) -> None:
        asked = self.solver
        self.solver_ = OBJECTIVE if asked == "auto" else asked
        self.solver_reason_ = "asked for"
        if asked == "auto":
            noise = "Gamma" if budget.delta == 0.0 else "Gaussian"
            self.solver_reason_ = (
                f"a smooth margin loss with {table.public} {table.unit}s and {table.columns} columns: one "
                f"{noise} linear term per classifier, so the noise does not grow with the number of steps"
            )

    def _check_other(self, table: Table) -> None:
        """Refuse what only objective perturbation can do."""
        weighted = table.weights is not None or table.groups is not None
        weighted = weighted and self.solver != "gradient-descent"
        if len(self.classes_) > 2 or weighted or self.regularizer is not None:
            raise ValueError(
                f"solver={self.solver!r} works for two classes and without regularizer only, and of the other solvers "
                f"only 'gradient-descent' takes weights or groups; use solver={OBJECTIVE!r}"
            )

    def _check_of_labels(self) -> KnownClasses:
        return KnownClasses(self.classes_)


def _product(weights: FloatArray | None, factors: FloatArray | None) -> FloatArray | None:
    """The product of two weights of each record; None means that all weights are 1."""
    if weights is None or factors is None:
        return factors if weights is None else weights
    return weights * factors


def _lengthened(fit: erm.Fit, table: Table) -> erm.Fit:
    """Undo the public factor by which a ridge chosen for the direction shrinks the coefficients."""
    shrunk = fit.released.get("shrunk", 1.0)
    if shrunk == 1.0:
        return fit
    rest = table.pulls["center"].reshape(fit.point.shape) if table.pulls else 0.0
    return replace(fit, point=rest + (fit.point - rest) / shrunk)


def _labelled(rows: Any, numbers: Any, norm: float) -> InMemory:
    """Records with the indices of their classes; in a rehearsal, rows may be a plain array."""
    if not isinstance(rows, InMemory):
        rows = InMemory(rows, form=Form(length=norm / ROOM), clipped=0)
    return replace(rows, labels=numbers)


class PrivateLogisticRegression(PrivateClassifier):
    """Differentially private logistic regression on a table.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget. Default: 1.
    delta : float
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    feature_norm : float or "private"
        Feature vectors with a larger Euclidean norm are scaled down to it, in training and in prediction. Scale
        features by numbers that are known without looking at the data (`DomainScaler`). "private" finds an interval of
        each column, and the norm of the rows after scaling by them, with a share of the budget: a tenth if there are
        many records, more if there are few. Default: 1.
    classes : list, optional
        All labels that can occur. Without it they are read from the data, with a `reticent.PrivacyLeakWarning` and a
        caveat in ``guarantee_``.
    fit_intercept : bool
        Whether to learn an intercept. Default: True.
    intercept_scaling : float, optional
        Size of the constant feature from which the intercept is learnt, relative to ``feature_norm``; noise is
        calibrated to the norm of both together. Default: ``p ** -0.25`` for p features, which minimises the noise in a
        prediction.
    influence : float
        Largest slope of the loss, in [1/2, 1]; the noise is proportional to it. 1 is the logistic loss; with 1/2, a
        misclassified record has no larger gradient than one on the decision boundary
        (`reticent.losses.CappedLogistic`). Default: 0.5.
    regularizer : float, optional
        Coefficient of half the squared norm of the coefficients in the *summed* loss, with features in units of
        ``feature_norm``. By default it is computed from the numbers of records and features and the budget; with
        ``scaling="auto"`` it is chosen for the direction of the coefficients, and a public factor restores their
        length.
    solver : {"auto", "objective-perturbation", "gradient-descent", "output-perturbation"}
        Solver; ``solver_`` names the one that "auto" chose, and ``solver_reason_`` says why. Default: "auto".
    class_weight : dict or "balanced", optional
        Public weights by class, 1 for classes not listed. "balanced" counts the classes with noise, within the same
        budget, and weights each record by the count of the rarest class divided by that of its own.
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
    scaling : {"auto", "none"}
        "auto" spends 5 to 17 percent of the budget on means and spreads of the columns, on the norm of the rows after
        centring and scaling, and on the rates of the classes, if the public numbers (records, columns, budget) indicate
        that this pays; ``scaling_`` says what was done and why. With two classes, another 2 to 10 percent go to counts
        of the model's own predictions, which turn predictors into log-odds. Coefficients are in the units of the given
        features. Default: "auto".
    intervals : bool
        Whether to release what :meth:`summary` needs, the curvature of the loss and the products of its scores, with a
        quarter of the budget. Requires two classes and objective perturbation. Default: False.

    Attributes
    ----------
    coef_ : array of shape (1 or n_classes, n_features)
        Coefficients, in the units of the features.
    intercept_ : array of shape (1 or n_classes,)
        Intercepts.
    classes_ : array
        The classes, sorted.
    guarantee_ : reticent.Guarantee
        Guarantee for all of these attributes except ``clipped_``; ``guarantee_.explain()`` says why it holds.
    solver_ : str
        Solver that ran.
    solver_reason_ : str
        Why that solver was chosen.
    settings_ : dict
        Settings of the solver, such as its ridge.
    scaling_ : str
        Whether features were centred and scaled, and why.
    calibration_ : str
        Factor that turned predictors into log-odds, or "none" if there are too few records for the budget, a class is
        rare, or weights or a regularizer were given.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it. Pickles omit it.

    See Also
    --------
    OnlineLogisticRegression : Learns from a stream of records.
    PrivateSearchCV : Chooses parameters within one budget.
    reticent.erm.objective_perturbation : The default solver.


    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5_000, 3)) / np.sqrt(3)
    >>> y = np.where(X @ [1.0, -2.0, 0.5] + 0.1 > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"], random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    >>> model.guarantee_.epsilon(1e-6) <= 1.0
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        feature_norm: float | str = parameters.FEATURE_NORM,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        influence: float = 0.5,
        regularizer: float | None = None,
        solver: str = "auto",
        class_weight: Any = None,
        weight_bound: float = 1.0,
        max_records: int | None = None,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
        scaling: str = "auto",
        intervals: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.feature_norm = feature_norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.influence = influence
        self.regularizer = regularizer
        self.solver = solver
        self.class_weight = class_weight
        self.weight_bound = weight_bound
        self.max_records = max_records
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state
        self.scaling = scaling
        self.intervals = intervals

    def _curvature(self, budget: Budget, shape: tuple[int, int], alike: bool) -> Curvature | None:
        if not parameters.CHECKS["fit_intercept"](self.intervals, "intervals"):
            return None
        if self.solver not in ("auto", OBJECTIVE):
            self._refuse_intervals(f"needs solver='auto' or {OBJECTIVE!r}, got {self.solver!r}")
        if len(self.classes_) > 2:
            self._refuse_intervals(
                f"needs two classes, got {len(self.classes_)}; fit one against the rest"
            )
        if not alike:
            self._refuse_intervals("takes no sample_weight, class_weight or groups")
        t = self._constant(shape[1])
        loss = self._loss(self._row_norm(t), plain=False)
        return Curvature.of(budget, loss, shape[1] + (t > 0.0), shape[0], self.noise_precision)

    def summary(
        self, level: float = 0.95, target: str = "parameter", encoder: Any = None
    ) -> Summary:
        """Coefficients with standard errors and intervals; sampling and privacy errors are listed separately.

        It uses released numbers only: it spends nothing, and the model's guarantee covers it. The model must have been
        fitted with ``intervals=True``.

        Parameters
        ----------
        level : float
            Nominal coverage of the intervals. Default: 0.95.
        target : {"parameter", "regularised"}
            What the intervals are for: the minimiser of the expected loss, or of the expected loss plus the fitted
            ridge. The estimate of the first is corrected for the ridge; that of the second is ``coef_``.
            Default: "parameter".
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
        errors = getattr(self, "_errors", None)
        if errors is None:
            raise ValueError(
                "summary needs a model that was fitted with intervals=True, which also releases curvature and "
                "products of scores; fitting again spends the budget again"
            )
        checks.choice(target, "target", TARGETS)
        carried = self._carried(self._constant_feature, encoder)
        words = "log-odds" if self.influence_ == 1.0 else "minimiser of the capped logistic loss"
        about = (
            f"about the {words} in the population that the records are a sample of, after clipping"
        )
        if target == "regularised":
            about += f", with the ridge of {errors.ridge:.4g} that was fitted"
        errors = replace(errors, regularised=target == "regularised")
        return summarise(errors, carried, level, about, self.guarantee_)

    def _loss(self, norm: float, plain: bool) -> Any:
        cap = checks.number(self.influence, "influence", low=0.5, high=1.0)
        self.influence_ = 1.0 if plain else cap
        if self.influence_ == 1.0:
            return Logistic(feature_norm=norm)
        return CappedLogistic(cap, feature_norm=norm)

    def _predictor_counts(
        self, budget: Budget, count: int, columns: int, centered: bool
    ) -> PredictorCounts | None:
        if len(self.classes_) > 2 or not self._free:
            return None
        return PredictorCounts.of(budget, count, columns, centered, self.noise_precision)

    def _odds(self, middle: float) -> tuple[float, float]:
        if self.influence_ == 1.0:
            return middle, 1.0
        # the mean slope within one standard deviation of the logistic distribution
        loss = CappedLogistic(self.influence_)
        low, here, high = logit(loss.probability(middle + _TYPICAL * np.arange(-1.0, 2.0)))
        return float(here), float(high - low) / (2.0 * _TYPICAL)

    def _straighten(self) -> None:
        found = self.__dict__.pop("_judged", None)
        self.calibration_ = "none"
        if found is not None:
            middle, level, slope = found
            self.coef_ = slope * self.coef_
            self.intercept_ = level + slope * (self.intercept_ - middle)
            self.influence_ = 1.0  # predictors are log-odds now
            about = f"{middle:.4g}, which stands for log-odds of {level:.4g}"
            self.calibration_ = f"predictors times {slope:.4g} about {about}"

    def _at_rest(self, rates: FloatArray) -> FloatArray:
        if self.influence == 1.0:
            return logit(rates)
        return CappedLogistic(self.influence).predictor(rates)

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities; with more than two classes, one-against-the-rest probabilities scaled to sum to 1.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        z = self._predictors(X)
        return shares(
            expit(z) if self.influence_ == 1.0 else CappedLogistic(self.influence_).probability(z)
        )

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Log-probabilities, in the order of ``classes_``.
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))


class PrivateLinearSVC(PrivateClassifier):
    """Differentially private linear support vector classification on a table.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget. Default: 1.
    delta : float
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    feature_norm : float or "private"
        Feature vectors with a larger Euclidean norm are scaled down to it, in training and in prediction. "private"
        finds an interval of each column, and the norm of the rows after scaling by them, with a share of the budget.
        Default: 1.
    classes : list, optional
        All labels that can occur. Without it they are read from the data, with a `reticent.PrivacyLeakWarning` and a
        caveat in ``guarantee_``.
    fit_intercept : bool
        Whether to learn an intercept. Default: True.
    intercept_scaling : float, optional
        Size of the constant feature from which the intercept is learnt, relative to ``feature_norm``; noise is
        calibrated to the norm of both together. Default: ``p ** -0.25`` for p features.
    width : float
        Width of the parabola that replaces the kink of the hinge, over margins from 1 - width to 1; objective
        perturbation needs a smooth loss. Default: 1.
    regularizer : float, optional
        Coefficient of half the squared norm of the coefficients in the summed loss. By default it is computed from
        public numbers.
    solver : {"auto", "objective-perturbation", "gradient-descent", "output-perturbation"}
        Solver; ``solver_`` names the one that "auto" chose, and ``solver_reason_`` says why. Default: "auto".
    class_weight : dict or "balanced", optional
        Public weights by class, 1 for classes not listed; "balanced" counts the classes with noise, within the same
        budget.
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
    scaling : {"auto", "none"}
        "auto" spends 5 to 17 percent of the budget on means and spreads of the columns, on the norm of the rows after
        centring and scaling, and on the rates of the classes, if the public numbers (records, columns, budget) indicate
        that this pays; ``scaling_`` says what was done and why. Coefficients are in the units of the given features.
        Default: "auto".

    Attributes
    ----------
    coef_ : array of shape (1 or n_classes, n_features)
        Coefficients, in the units of the features.
    intercept_ : array of shape (1 or n_classes,)
        Intercepts.
    classes_ : array
        The classes, sorted.
    guarantee_ : reticent.Guarantee
        Guarantee for all of these attributes except ``clipped_``.
    solver_ : str
        Solver that ran.
    solver_reason_ : str
        Why that solver was chosen.
    settings_ : dict
        Settings of the solver, such as its ridge.
    scaling_ : str
        Whether features were centred and scaled, and why.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it.

    See Also
    --------
    PrivateLogisticRegression : Estimates probabilities too.


    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5_000, 3)) / np.sqrt(3)
    >>> y = (X @ [1.0, -2.0, 0.5] + 0.1 > 0).astype(int)
    >>> PrivateLinearSVC(classes=[0, 1], random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        feature_norm: float | str = parameters.FEATURE_NORM,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        width: float = 1.0,
        regularizer: float | None = None,
        solver: str = "auto",
        class_weight: Any = None,
        weight_bound: float = 1.0,
        max_records: int | None = None,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
        scaling: str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.feature_norm = feature_norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.width = width
        self.regularizer = regularizer
        self.solver = solver
        self.class_weight = class_weight
        self.weight_bound = weight_bound
        self.max_records = max_records
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state
        self.scaling = scaling

    def _at_rest(self, rates: FloatArray) -> FloatArray:
        return 2.0 * rates - 1.0

    def _loss(self, norm: float, plain: bool) -> Any:
        return SmoothHinge(self.width, feature_norm=norm)
