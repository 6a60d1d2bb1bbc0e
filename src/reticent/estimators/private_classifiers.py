"""Private logistic regression and support vector classification on a table, with scikit-learn's interface.

Objective perturbation (docs/algorithms/objective-perturbation.md) with the capped logistic loss, or
with a smooth hinge. Several classes are one classifier each against the rest; all of them together
spend the budget, composed exactly: each has ``mu / sqrt(K)``, or ``epsilon / K`` where delta = 0.

The one thing a reader would get wrong: ``influence`` is not a tuning knob for privacy, which is the
same for any value. It says how hard a record that the model gets wrong may pull, and the noise is
proportional to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin

from reticent import _checks, erm
from reticent.estimators import parameters
from reticent.estimators.face import LEAK, Classes, FloatArray, shares
from reticent.estimators.private import PrivateEstimator, Table, class_factors
from reticent.losses import CappedLogistic, ClipCounts, Logistic, SmoothHinge
from reticent.privacy import PrivacyLeakWarning, remarked
from reticent.solve.blocks import IsClass, Lazy

OBJECTIVE = "objective-perturbation"
_OTHERS: dict[str, Callable[..., erm.Fit]] = {
    "gradient-descent": erm.gradient_descent,
    "output-perturbation": erm.output_perturbation,
}
SOLVERS = ("auto", OBJECTIVE, *_OTHERS)


class PrivateClassifier(Classes, ClassifierMixin, PrivateEstimator):
    """What the two classifiers share."""

    def _loss(self, norm: float, plain: bool) -> Any:
        """The loss for objective perturbation; the plain one for other solvers."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a table. Each call is a release of its own and spends the whole budget.

        Parameters
        ----------
        X : array, data frame, sparse matrix or table of `reticent.tables.open`
            The records. Single precision, memory maps and files are read as they are.
        y : array, or labels of `reticent.tables.open`
            Their labels.
        sample_weight : array, optional
            Clipped to [0, ``weight_bound``].
        """
        with self._all_or_nothing():
            declared = parameters.CHECKS["classes"](self.classes, "classes")  # type: ignore[attr-defined]
            if isinstance(X, Lazy):
                self._take_columns(X)
                numbers: Any = np.zeros(0, dtype=np.int64)
                self._set_classes(y.distinct() if declared is None else declared)
            else:
                X, y = self._checked(X, y, reset=True)
                self._set_classes(y if declared is None else declared)
                numbers = self._numbers(y)  # refuses labels that are not among them
            if declared is None:
                warnings.warn(LEAK, PrivacyLeakWarning, stacklevel=2)
            factors, most = class_factors(self.class_weight, self.classes_, numbers)  # type: ignore[attr-defined]
            common = self._common()
            table = self._table(X, y, sample_weight, factors, most)
            with remarked(*((LEAK,) if declared is None else ())):
                fit = self._solve(table, common)
            weights = self._publish(fit, table)
            self.coef_, self.intercept_ = self._coefficients(weights, table)
            self.clipped_ = ClipCounts(table.scaled, 0, table.count)
            return self

    def _look_at(self, y: Any, start: int) -> float:
        self._places(y, start)
        return 0.0

    def _solve(self, table: Table, common: dict[str, Any]) -> erm.Fit:
        asked = _checks.choice(self.solver, "solver", SOLVERS)  # type: ignore[attr-defined]
        count = len(self.classes_)
        common["weight_bound"] = table.weight_bound
        self.solver_ = OBJECTIVE if asked == "auto" else asked
        self.solver_reason_ = "asked for"
        if asked == "auto":
            noise = "Gamma" if common["budget"].delta == 0.0 else "Gaussian"
            self.solver_reason_ = (
                f"a smooth loss of a margin with {table.count} records and {table.columns} columns: one "
                f"{noise} linear term for each classifier, whose noise does not grow with the number "
                "of steps"
            )
        if self.solver_ == OBJECTIVE:
            one = IsClass(self.classes_[1])
            return erm.objective_perturbation(
                self._loss(table.norm, plain=False), None, table.records,
                [IsClass(name) for name in self.classes_] if count > 2 else one,
                regularizer=self.regularizer, **common,  # type: ignore[attr-defined]
            )  # fmt: skip
        weighted = table.is_weighted and asked != "gradient-descent"
        if count > 2 or weighted or self.regularizer is not None:  # type: ignore[attr-defined]
            raise ValueError(
                f"solver={asked!r} takes two classes and no regularizer, and only "
                f"'gradient-descent' of the others takes weights; use solver={OBJECTIVE!r}"
            )
        if not table.is_weighted:
            common.pop("weight_bound")
        loss = self._loss(table.norm, plain=True)
        return _OTHERS[asked](loss, None, table.records, IsClass(self.classes_[1]), **common)


class PrivateLogisticRegression(PrivateClassifier):
    """Differentially private logistic regression on a table.

    Parameters
    ----------
    epsilon, delta, neighbours
        The budget; ``delta=0`` asks for pure privacy. See `reticent.Budget`.
    feature_norm : float
        Feature vectors longer than this (Euclidean norm) are scaled down to it, when learning and
        when predicting. Scale features by what is known of them (`DomainScaler`), not by what they
        turned out to be.
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
        features and the budget.
    solver : {"auto", "objective-perturbation", "gradient-descent", "output-perturbation"}
        ``solver_`` says which one "auto" took, and ``solver_reason_`` why.
    class_weight : dict, optional
        Weights by class, 1 where a class is not named. They are public; "balanced" would read
        private counts and is refused.
    weight_bound : float
        What ``sample_weight`` is clipped to, from above; noise is proportional to it.
    noise_precision : {"lattice", "float"}
        "float" is for simulations.
    verbose : int
        Whether to show progress.
    random_state : int or RandomState, optional
        ``None`` is a cryptographic generator. Anything else is for experiments, and ``guarantee_``
        says so.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1 or n_classes, n_features) and (1 or n_classes,)
    classes_ : array
        Sorted.
    guarantee_ : reticent.Guarantee
        What is promised about all of these; ``guarantee_.explain()`` says why.
    solver_, solver_reason_, settings_
        What was run.
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
        feature_norm: float = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        influence: float = 0.5,
        regularizer: float | None = None,
        solver: str = "auto",
        class_weight: Any = None,
        weight_bound: float = 1.0,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
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
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self, norm: float, plain: bool) -> Any:
        cap = _checks.number(self.influence, "influence", low=0.5, high=1.0)
        self.influence_ = 1.0 if plain else cap
        if self.influence_ == 1.0:
            return Logistic(feature_norm=norm)
        return CappedLogistic(cap, feature_norm=norm)

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
    width : float
        The hinge's kink is a parabola over margins from 1 - width to 1: noise needs a smooth loss.
    epsilon, delta, neighbours, feature_norm, classes, fit_intercept, intercept_scaling, regularizer
        As in `PrivateLogisticRegression`, as are ``solver``, ``class_weight``, ``weight_bound``,
        ``noise_precision``, ``verbose`` and ``random_state``.

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
        feature_norm: float = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        width: float = 1.0,
        regularizer: float | None = None,
        solver: str = "auto",
        class_weight: Any = None,
        weight_bound: float = 1.0,
        noise_precision: str = "lattice",
        verbose: int = 0,
        random_state: Any = None,
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
        self.noise_precision = noise_precision
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self, norm: float, plain: bool) -> Any:
        return SmoothHinge(self.width, feature_norm=norm)
