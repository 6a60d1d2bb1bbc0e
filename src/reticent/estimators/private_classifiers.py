"""Private logistic regression and support vector classification on a table, with scikit-learn's interface.

Objective perturbation (docs/algorithms/objective-perturbation.md) with the capped logistic loss, or
with a smooth hinge. Several classes are one classifier each against the rest; all of them together
spend the budget, composed exactly: each has ``mu / sqrt(K)``, or ``epsilon / K`` where delta = 0.

``influence`` is not a tuning knob for privacy, which is the same for any value. It says how hard a
record that the model gets wrong may pull, and the noise is proportional to it.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from reticent import checks, erm
from reticent.erm.groups import Groups
from reticent.estimators import parameters
from reticent.estimators.bounds import SHARE, counted
from reticent.estimators.class_counts import SHARES, ClassCounts
from reticent.estimators.curvature import Curvature, Errors
from reticent.estimators.mixins import LEAK, Classes, FloatArray, KnownClasses, lazily, shares
from reticent.estimators.private import PrivateEstimator, Table, class_factors
from reticent.estimators.probabilities import RARE, PredictorCounts
from reticent.estimators.scaling import too_large
from reticent.estimators.summary import Summary, summarise
from reticent.estimators.units import ROOM
from reticent.losses import CappedLogistic, ClipCounts, Logistic, SmoothHinge
from reticent.noise import Source
from reticent.privacy import Budget, Guarantee, PrivacyLeakWarning, remarked, with_remarks
from reticent.solve.blocks import Form, InMemory, IsClass, Lazy

OBJECTIVE = "objective-perturbation"
_OTHERS: dict[str, Callable[..., erm.Fit]] = {
    "gradient-descent": erm.gradient_descent,
    "output-perturbation": erm.output_perturbation,
}
SOLVERS = ("auto", OBJECTIVE, *_OTHERS)
_RARE = 0.005
"""Noise of the counts of the classes, as a share of the records, beside which a rare class is seen."""
_CLEAR = 0.1
"""Noise may be this share of the records, or counts of the classes are left out."""
_TYPICAL = math.pi / math.sqrt(3.0)
"""Standard deviation of logistic noise."""
TARGETS = ("parameter", "regularised")


class PrivateClassifier(Classes, ClassifierMixin, PrivateEstimator):
    """What the two classifiers share."""

    class_weight: Any
    _solvers = SOLVERS

    @abstractmethod
    def _loss(self, norm: float, plain: bool) -> Any:
        """The loss for objective perturbation; the plain one for other solvers."""

    @abstractmethod
    def _at_rest(self, rates: FloatArray) -> FloatArray:
        """The predictors that suit classes of these rates best where nothing else is known."""

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
        """The fit, after bounds and counts of classes that were asked for are found."""
        common = self._common()
        budget: Budget = common["budget"]
        given, bound = self._weights(sample_weight, X.shape[0])
        persons = Groups.of(groups, X.shape[0], self.max_records)
        count = X.shape[0] if persons is None else persons.count
        shares = counted(given, persons)
        search = self._search(budget, count, X.shape[1], SHARE)
        balanced = self.class_weight == "balanced"
        counts = self._counts(budget, count, SHARES if self._free and not balanced else SHARES[:1])
        factors, most = None, 1.0
        if not balanced:
            factors, most = class_factors(self.class_weight, self.classes_, numbers)
        scaling = self._scaling_for(budget, count, X)
        rates = not (balanced or too_large(count, X.shape[1])) and self._wants_rates(counts, count)
        beside = [
            *(search.releases if search else ()),
            *(scaling.releases if scaling else ()),
            *([counts.release] if balanced or rates else ()),
        ]
        judged = None
        # the first so many records of a person count a part each, and nobody knows what that adds up to
        entire = persons is None or self.max_records is None
        if rates and self.class_weight is None and given is None and entire:
            judged = self._predictor_counts(budget, count, X.shape[1], scaling is not None)
            beside += [judged.release] if judged else []
        alike = given is None and persons is None and self.class_weight is None
        curvature = self._curvature(budget, X.shape, alike)
        beside += [curvature.release] if curvature else []
        whole, limit = None, math.log(4.0 * count)
        if beside:
            weighted = balanced or given is not None or factors is not None
            blank = np.zeros(X.shape[0], np.int64)
            outputs = len(self.classes_) if len(self.classes_) > 2 else 1
            whole = self._reserve(
                beside,
                common,
                X,
                weighted,
                bound * most,
                blank,
                persons,
                (outputs, limit) if rates else None,
            )
        source = self._beside_source(common)
        if balanced:
            factors = counts.factors(counts.seen(numbers, shares, source))[numbers]
        self._set_units(X, shares, search, source, scaling)
        weights = factors if given is None else given if factors is None else given * factors
        table = replace(self._table(X, weights, bound * most), groups=persons)
        if rates:
            known = self._weighed(counts.rates(counts.seen(numbers, shares, source), count), count)
            rest = self._at_rest(known[1:] if len(known) == 2 else known)
            table = replace(table, rest=np.clip(rest, -limit, limit), rest_bound=limit)
        fit = self._paid(whole, lambda: self._solve(table, numbers, common))
        if whole is not None:
            whole = with_remarks(whole)
        if judged is not None:
            doubt = counts.doubt / count
            self._judge(judged, fit, table, numbers, shares, source, float(known[1]), doubt)
        if curvature is not None:
            seen = curvature.draw(table.rows, numbers, fit.point, source)
            self._errors = Errors(fit.point, **fit.released, **seen)
            self._constant_feature = table.scaling
        return fit, table, whole

    def _counts(self, budget: Budget, count: int, shares: tuple[float, ...]) -> ClassCounts:
        """Counts of the classes with the first share of the budget at which a rare one is seen, or the last."""
        for share in shares:
            made = ClassCounts.of(budget, len(self.classes_), self.noise_precision, share)
            if made.scale <= _RARE * count:
                break
        return made

    def _wants_rates(self, counts: ClassCounts, count: int) -> bool:
        """Whether the ridge shall pull to the rates of the classes. Reads public numbers only."""
        if self._asked_scaling == "none" or not self.fit_intercept:
            return False
        return self.solver in ("auto", OBJECTIVE) and counts.scale <= _CLEAR * count

    def _predictor_counts(
        self, budget: Budget, count: int, columns: int, centered: bool
    ) -> PredictorCounts | None:
        """What probabilities are corrected by; None where they are not. Reads public numbers only."""
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
        # rows are within a norm of 1, so that no predictor is further from that of mean features; which predictor
        # that is, the fit's intercept says where columns are centered, else most likely what suits the base rate
        assert table.rest is not None
        reach = float(np.linalg.norm(fit.point[:-1]))
        middle = float(fit.point[-1] * table.scaling if judged.centered else table.rest[0])
        z = np.asarray(table.rows.matrix() @ fit.point)
        by_class = judged.seen(z, numbers, middle, reach, shares, source)
        level, usual = self._odds(middle)
        if abs(level) <= RARE:
            self._judged = middle, *judged.line(by_class, level, reach, usual, rate, doubt)

    def _odds(self, middle: float) -> tuple[float, float]:
        """The log-odds that a predictor stands for, and how they grow with it thereabouts."""
        return middle, 1.0

    def _straighten(self) -> None:
        """Turn predictors into log-odds by what was learnt about them."""

    def _curvature(self, budget: Budget, shape: tuple[int, int], alike: bool) -> Curvature | None:
        """What intervals need beside the fit; None without them."""
        return None

    def _refuse_intervals(self, words: str) -> None:
        if getattr(self, "intervals", False):
            raise ValueError(f"intervals=True {words}")

    def _solve(self, table: Table, numbers: Any, common: dict[str, Any]) -> erm.Fit:
        asked = self.solver
        count = len(self.classes_)
        self.solver_ = OBJECTIVE if asked == "auto" else asked
        self.solver_reason_ = "asked for"
        if asked == "auto":
            noise = "Gamma" if common["budget"].delta == 0.0 else "Gaussian"
            self.solver_reason_ = (
                f"a smooth loss of a margin with {table.public} {table.unit}s and {table.columns} columns: one "
                f"{noise} linear term for each classifier, whose noise does not grow with the number "
                "of steps"
            )
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
        weighted = not (table.weights is None and table.groups is None)
        weighted = weighted and asked != "gradient-descent"
        if count > 2 or weighted or self.regularizer is not None:
            raise ValueError(
                f"solver={asked!r} takes two classes and no regularizer, and only "
                f"'gradient-descent' of the others takes weights or groups; use solver={OBJECTIVE!r}"
            )
        if asked == "gradient-descent":
            common |= table.weighting
        loss = self._loss(table.norm, plain=True)
        return _OTHERS[asked](loss, None, rows, IsClass(names[1]), **common)

    def _check_of_labels(self) -> KnownClasses:
        return KnownClasses(self.classes_)


def _lengthened(fit: erm.Fit, table: Table) -> erm.Fit:
    """With what a ridge for the direction took of the way from where it pulls to."""
    shrunk = fit.released.get("shrunk", 1.0)
    if shrunk == 1.0:
        return fit
    rest = table.pulls["center"].reshape(fit.point.shape) if table.pulls else 0.0
    return replace(fit, point=rest + (fit.point - rest) / shrunk)


def _labelled(rows: Any, numbers: Any, norm: float) -> InMemory:
    """Records with the numbers of their classes; rows that only stand for some may be an array."""
    if not isinstance(rows, InMemory):
        rows = InMemory(rows, form=Form(length=norm / ROOM), clipped=0)
    return replace(rows, labels=numbers)


class PrivateLogisticRegression(PrivateClassifier):
    """Differentially private logistic regression on a table.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget.
    delta : float
        Privacy parameter delta of the budget; 0 asks for pure privacy.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another.
    feature_norm : float or "private"
        Feature vectors longer than this (Euclidean norm) are scaled down to it, when learning and
        when predicting. Scale features by what is known of them (`DomainScaler`), not by what they
        turned out to be. "private" finds an interval of each column and the norm of rows scaled by
        them with a share of the budget, a tenth where records are many.
    classes : list, optional
        All labels there can be. Without it they are read off the data, with a
        `reticent.PrivacyLeakWarning` and a caveat in ``guarantee_``.
    fit_intercept : bool
    intercept_scaling : float, optional
        The constant feature that the intercept is learnt from, as a share of ``feature_norm``; noise
        is calibrated to both together. By default ``p ** -0.25`` for p features, which makes the
        noise in a prediction least.
    influence : float
        In [1/2, 1]: the largest pull of a record, which the noise is proportional to. 1 is the
        logistic loss; at the default, 1/2, a record on the wrong side pulls no harder than one at
        the border (`reticent.losses.CappedLogistic`).
    regularizer : float, optional
        The weight of half the squared coefficients in the *summed* loss, with features in units of
        ``feature_norm``. By default chosen by theory from the number of records, the number of
        features and the budget; with ``scaling="auto"`` for the direction of the coefficients, whose
        length is then restored by a public factor.
    solver : {"auto", "objective-perturbation", "gradient-descent", "output-perturbation"}
        ``solver_`` says which one "auto" took, and ``solver_reason_`` why.
    class_weight : dict or "balanced", optional
        Weights by class, 1 where a class is not named; they are public. "balanced" counts the classes
        with noise, out of the same budget, and gives each record the count of the rarest class over
        that of its own.
    weight_bound : float
        What ``sample_weight`` is clipped to, from above; noise is proportional to it.
    max_records : int, optional
        How many of a person's records count, the first ones, where ``fit`` is given ``groups``; by
        default each of a person's m records has the weight 1/m.
    noise_precision : {"lattice", "float"}
        "float" is for simulations.
    verbose : int
        Whether to show progress.
    random_state : int or RandomState, optional
        ``None`` is a cryptographic generator. Anything else is for experiments, and ``guarantee_``
        says so.
    scaling : {"auto", "none"}
        "auto" spends a small share of the budget, 5 to 17 percent, on means and spreads of the columns, on
        the norm of rows centered and scaled by them, and on the rates of the classes, where the numbers
        of records and columns and the budget say that this pays; ``scaling_`` says what was done and
        why. Coefficients are in the units of the features as they came. With two classes, another 2 to 10
        percent go to counts of the model's own predictions, which turn predictors into log-odds.
    intervals : bool
        Whether :meth:`summary` shall have what it needs: the curvature of the loss and the products of its
        scores are released as well, with a quarter of the budget. Two classes, objective perturbation.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1 or n_classes, n_features) and (1 or n_classes,)
    classes_ : array
        Sorted.
    guarantee_ : reticent.Guarantee
        What is promised about all of these; ``guarantee_.explain()`` says why.
    solver_, solver_reason_, settings_
        What was run.
    scaling_ : str
        Whether features were centered and scaled, and why.
    calibration_ : str
        What predictors were multiplied by to be log-odds, or "none": where records are few for the budget, a class is
        rare, or weights or a regularizer were given.
    clipped_ : ClipCounts
        How many records were beyond the bounds. A diagnostic that reads private data: do not
        publish it. Pickles leave it out.

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
        """Coefficients with standard errors and intervals, sampling error and privacy error apart.

        From what was released only: it spends nothing, and the model's guarantee covers it. Needs
        ``intervals=True``, and refuses (`NoIntervals`) where noise leaves no interval to trust.

        Parameters
        ----------
        level : float
            Of the intervals.
        target : {"parameter", "regularised"}
            What the intervals are about: the minimiser of the expected loss, or of the expected loss with
            the ridge that was fitted. The estimate of the first is corrected for the ridge, that of the
            second is ``coef_``.
        encoder : reticent.tables.Encoder, optional
            What made the features of a table with a schema. Coefficients are then those of the table's columns,
            per unit of a number and of each value of a category against the first one that the schema lists.
        """
        check_is_fitted(self)
        errors = getattr(self, "_errors", None)
        if errors is None:
            raise ValueError(
                "a summary needs a model that was fitted with intervals=True, which releases curvature and "
                "products of scores too; fitting again spends the budget again"
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
        # within the standard deviation of logistic noise, where most of what there is to tell lies
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
        """Probabilities of the classes; those of several classifiers are divided by their sum."""
        z = self._predictors(X)
        return shares(
            expit(z) if self.influence_ == 1.0 else CappedLogistic(self.influence_).probability(z)
        )

    def predict_log_proba(self, X: Any) -> FloatArray:
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))


class PrivateLinearSVC(PrivateClassifier):
    """Differentially private linear support vector classification on a table.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon of the budget.
    delta : float
        Privacy parameter delta of the budget; 0 asks for pure privacy.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it, when learning and
        when predicting.
    classes : list, optional
        All labels there can be. Without it they are read off the data, with a
        `reticent.PrivacyLeakWarning` and a caveat in ``guarantee_``.
    fit_intercept : bool
        Whether to learn an intercept.
    intercept_scaling : float, optional
        The constant feature that the intercept is learnt from, as a share of ``feature_norm``;
        noise is calibrated to both together.
    width : float
        The hinge's kink is a parabola over margins from 1 - width to 1: noise needs a smooth loss.
    regularizer : float, optional
        The weight of half the squared coefficients in the summed loss; by default chosen by theory
        from public numbers.
    solver : str
        Which solver; ``solver_`` says which one "auto" took, and ``solver_reason_`` why.
    class_weight : dict or "balanced", optional
        Weights by class, 1 where a class is not named; "balanced" counts the classes privately.
    weight_bound : float
        What ``sample_weight`` is clipped to, from above; noise is proportional to it.
    max_records : int, optional
        At most so many records of one person count.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding; "float" is for simulations, and the
        guarantee says so.
    verbose : int
        Whether to show progress.
    random_state : int or RandomState, optional
        None is a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says
        so.
    scaling : {"auto", "none"}
        "auto" spends a small share of the budget, 5 to 17 percent, on means and spreads of the columns, on
        the norm of rows centered and scaled by them, and on the rates of the classes, where the numbers
        of records and columns and the budget say that this pays; ``scaling_`` says what was done and
        why. Coefficients are in the units of the features as they came.

    Attributes
    ----------
    coef_, intercept_, classes_, guarantee_, solver_, solver_reason_, settings_, clipped_
        As in `PrivateLogisticRegression`.

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
