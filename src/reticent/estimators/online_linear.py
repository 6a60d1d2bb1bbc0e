"""Private linear regression that learns as records come, with scikit-learn's interface.

The regularised leader of [chapter], Algorithm 4, on Huber's loss, with a regulariser that is set by public
numbers; or the quadratic leader of [online], Algorithm 4, whose last decision is a private ridge regression.

Labels are moved and scaled from ``label_bounds`` to [-1, 1] before anything is learnt, and features
to norm 1; the ridge and the norm of the coefficients are in those units.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from reticent.estimators import parameters
from reticent.estimators.mixins import Bounded, FloatArray
from reticent.estimators.online import OnlineEstimator
from reticent.estimators.parameters import PRIVATE
from reticent.estimators.stream import Stream

__all__ = ["OnlineLinearRegression"]


class OnlineLinearRegression(Bounded, RegressorMixin, OnlineEstimator):
    """Differentially private linear regression, one record at a time or all at once.

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
        when predicting. "private" finds an interval of each feature and the norm of rows from the first
        records, which are then not learnt from.
    label_bounds : (low, high) or "private"
        Labels beyond these are clipped, and predictions stay within. State what is known, not what
        the labels turned out to be; "private" finds them from the first records, and predictions are 0 until then.
    fit_intercept : bool
        Whether to learn an intercept.
    intercept_scaling : float, optional
        The constant feature that the intercept is learnt from, as a share of ``feature_norm``;
        noise is calibrated to both together.
    influence : float
        Gradients are clipped to this share of the longest that they can be, and noise is calibrated to it;
        less bounds what a record far from its prediction can do. The quadratic leader does not use it.
    ridge : float, optional
        The weight of half the squared coefficients in every record's loss; by default none beside the
        regulariser that the learner chooses, and 0.01 for the quadratic and the sparse leader.
    coefficient_norm : float, optional
        Coefficients, with features in units of ``feature_norm``, stay within a ball of this radius;
        by default 16, and 3 for the quadratic and the sparse leader.
    learner : {"auto", "regularized-leader", "quadratic-leader", "sparse-leader"}
        The regularised leader sees gradients and is quick. The quadratic leader sums up products of
        features, and solves a linear system for every record; its regret grows with the logarithm
        of the horizon. What was measured: docs/estimators.md. ``"sparse-leader"`` takes time and memory in
        proportion to the nonzeros of the records, with noise in floating point, as ``guarantee_`` says
        (`reticent.online.SparseLeader`). ``"auto"`` takes it for sparse matrices of more than 16,384 columns,
        else the regularised leader.
    horizon : int, optional
        Upper bound on the number of records; None where it is unknown.
    window : int, optional
        A record is protected for so many outputs; by default for ever.
    fade : list of (age, epsilon) or (age, power), optional
        A promise that fades with age instead of ending, for endless streams; see `reticent.Budget`.
    max_records : int, optional
        Protect persons, not records: at most so many records of a person count, on the whole stream or
        within the window; ``fit`` and ``partial_fit`` then take ``person``, an id for each record.
    min_gap : int, optional
        With persons: at least so many steps from one record of a person that counts to the next.
    max_persons : int, optional
        Upper bound on the persons that are known at a time; by default memory is the limit.
    random_state : int or RandomState, optional
        None is a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says
        so.
    scaling : {"none", "auto"}
        "auto" finds centers and spreads of the columns, and the norm of rows centered and scaled by them, from the
        first records, which are then not learnt from; each record is in one release only, so this costs nothing
        but these records. As many as it takes to tell them from noise, at most a tenth of ``horizon``, or 5,000 where
        that is not known; otherwise, and where persons are protected or the promise fades, nothing is scaled.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    guarantee_, n_samples_seen_, clipped_
        As in `OnlineLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import OnlineLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2)) / np.sqrt(2)
    >>> y = 10 + X @ [3.0, -2.0] + 0.1 * rng.standard_normal(20_000)
    >>> model = OnlineLinearRegression(label_bounds=(5, 15), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        feature_norm: float | str = 1.0,
        label_bounds: tuple[float, float] | str = (-1, 1),
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        influence: float = 0.5,
        ridge: float | None = None,
        coefficient_norm: float | None = None,
        learner: str = "auto",
        horizon: int | None = None,
        window: int | None = None,
        fade: Any = None,
        max_records: int | None = None,
        min_gap: int | None = None,
        max_persons: int | None = None,
        random_state: Any = None,
        scaling: str = "none",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.feature_norm = feature_norm
        self.label_bounds = label_bounds
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.influence = influence
        self.ridge = ridge
        self.coefficient_norm = coefficient_norm
        self.learner = learner
        self.horizon = horizon
        self.window = window
        self.fade = fade
        self.max_records = max_records
        self.min_gap = min_gap
        self.max_persons = max_persons
        self.random_state = random_state
        self.scaling = scaling

    def fit(self, X: Any, y: Any, person: Any = None) -> Self:
        """Learn from a table, as a stream of its own in random order; what was learnt before is forgotten."""
        with self._all_or_nothing():
            X, y = self._features(X, y, reset=True, numeric=True)
            return self._learn(X, column_or_1d(y, warn=True), fresh=True, whole=True, person=person)

    def partial_fit(self, X: Any, y: Any, person: Any = None) -> Self:
        """Learn from more records; refused, with nothing changed, if any of them is bad.

        Parameters
        ----------
        X : array
            Records.
        y : array
            Their labels.
        person : array, optional
            Whose each record is (whole numbers, text or bytes), where persons are protected; records
            beyond ``max_records``, or closer than ``min_gap``, are blanked.
        """
        with self._all_or_nothing():
            first = not self._begun
            if not first:
                self._check_open()
            X, y = self._features(X, y, reset=first, numeric=True)
            return self._learn(
                X, column_or_1d(y, warn=True), fresh=first, whole=False, person=person
            )

    def _classes(self) -> int | None:
        return None

    def _label_scale(self) -> float:
        low, high = self._bounds
        return 0.5 * high - 0.5 * low

    def _declare(self) -> None:
        self._encode([])

    def _encode(self, y: Any) -> tuple[FloatArray, int]:
        if parameters.OR_PRIVATE["label_bounds"](self.label_bounds, "label_bounds") != PRIVATE:
            return self._to_unit(y)
        return np.asarray(y, dtype=np.float64), 0

    def _publish(self, stream: Stream) -> None:
        if self.label_bounds == PRIVATE:
            self._label_bounds(None if stream.found is None else stream.found.labels)
        coefficients, intercepts = stream.line
        self._set_line(coefficients[0], intercepts[0])

    def _from_unit(self, z: FloatArray) -> FloatArray:
        low, high = self._bounds
        half = 0.5 * (high - low)
        return low + half + half * z
