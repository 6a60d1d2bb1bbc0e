"""Private linear regression on a stream of records, with scikit-learn's interface.

The learner is the regularised leader of [chapter], Algorithm 4, on Huber's loss, with a regulariser computed from
public numbers; or the quadratic leader of [online], Algorithm 4, whose last decision is a private ridge regression.
Labels are mapped from ``label_bounds`` to [-1, 1] and features are scaled to norm 1 before learning; ``ridge`` and
``coefficient_norm`` are in those units.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from reticent.estimators import parameters
from reticent.estimators.mixins import Bounded, FloatArray, real_labels
from reticent.estimators.online import OnlineEstimator
from reticent.estimators.parameters import PRIVATE
from reticent.estimators.scaling import from_unit
from reticent.estimators.stream import Stream

__all__ = ["OnlineLinearRegression"]


class OnlineLinearRegression(Bounded, RegressorMixin, OnlineEstimator):
    """Differentially private linear regression that learns record by record.

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
        finds an interval of each feature and the norm of the rows from the first records, which are then not learnt
        from. Default: 1.
    label_bounds : (low, high) or "private"
        Labels beyond these bounds are clipped, and predictions stay within them. State bounds that are known without
        looking at the data; "private" finds them from the first records, and predictions are 0 until then.
        Default: (-1, 1).
    fit_intercept : bool
        Whether to learn an intercept. Default: True.
    intercept_scaling : float, optional
        Size of the constant feature from which the intercept is learnt, relative to ``feature_norm``; noise is
        calibrated to the norm of both together. Default: 0.3.
    influence : float
        Gradients are clipped to this fraction of their largest possible norm, and noise is calibrated to it; a smaller
        value limits the influence of records far from their prediction. The quadratic leader ignores it. Default: 0.5.
    ridge : float, optional
        Coefficient of half the squared norm of the coefficients in the loss of each record. Default: none in addition
        to the learner's own regulariser; 0.01 for the quadratic and the sparse leader.
    coefficient_norm : float, optional
        Radius of the ball that holds the coefficients, with features in units of ``feature_norm``. The sparse leader
        bounds each coefficient instead. Default: 16; 3 for the quadratic and the sparse leader.
    learner : {"auto", "regularized-leader", "quadratic-leader", "sparse-leader"}
        "regularized-leader" uses gradients and is fast. "quadratic-leader" sums products of features and solves a
        linear system per record; its regret grows with the logarithm of the horizon. "sparse-leader"
        (`reticent.online.SparseLeader`) needs time and memory in proportion to the nonzeros of the records; its noise
        is in floating point, and ``guarantee_`` says so. "auto" chooses it for sparse matrices with more than 16,384
        columns, else the regularised leader. Measurements: docs/estimators.md. Default: "auto".
    horizon : int, optional
        Upper bound on the number of records. Default: None (unknown); ``fit`` then uses the number of rows.
    window : int, optional
        Number of outputs for which a record is protected. Default: None (for ever).
    fade : list of (age, epsilon) or (age, power), optional
        A guarantee that weakens with age instead of ending, for endless streams; see `reticent.Budget`.
    max_records : int, optional
        Protect persons instead of records: at most this many records of a person count, in the whole stream or within
        the window. ``fit`` and ``partial_fit`` then need ``person``, an id for each record.
    min_gap : int, optional
        With persons: least number of steps between two records of the same person that count.
    max_persons : int, optional
        Upper bound on the number of persons kept track of at a time. Default: None (limited by memory only).
    random_state : int or RandomState, optional
        None uses a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.
    scaling : {"none", "auto"}
        "auto" finds centres and spreads of the columns, and the norm of the rows after centring and scaling, from the
        first records, which are then not learnt from. No record is in both releases, so this costs no budget, only
        these records: as many as it takes despite the noise, at most a tenth of ``horizon``, or 5,000 without one. If
        that is not enough, or with ``max_records`` or ``fade``, nothing is scaled. Default: "none".

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients, in the units of the features.
    intercept_ : float
        Intercept; the middle of ``label_bounds`` if ``fit_intercept=False``.
    guarantee_ : reticent.Guarantee
        Guarantee for everything that was or will be released from this stream.
    n_samples_seen_ : int
        Number of records of the stream so far.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it.

    See Also
    --------
    PrivateLinearRegression : Learns from a complete table, with less noise.
    reticent.online.FollowTheRegularizedLeader : The default learner.


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
        """Learn from a table as a new stream in random order; forgets what was learnt before.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records.
        y : array of shape (n_samples,)
            Labels.
        person : array, optional
            Id of the person of each record (integers, text or bytes); needed if persons are protected.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._all_or_nothing():
            X, y = self._features(X, y, reset=True, numeric=True)
            return self._learn(X, column_or_1d(y, warn=True), fresh=True, whole=True, person=person)

    def partial_fit(self, X: Any, y: Any, person: Any = None) -> Self:
        """Learn from more records. If any of them is not valid, all are refused and nothing changes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records.
        y : array of shape (n_samples,)
            Labels.
        person : array, optional
            Id of the person of each record (integers, text or bytes); needed if persons are protected. Records beyond
            ``max_records``, or closer together than ``min_gap``, are blanked.

        Returns
        -------
        self
            The estimator.
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
        self._encode([], fresh=True)

    def _encode(self, y: Any, fresh: bool) -> tuple[FloatArray, int]:
        stated = parameters.OR_PRIVATE["label_bounds"](self.label_bounds, "label_bounds")
        if stated == PRIVATE if fresh else self._finds_labels:
            return real_labels(y), 0
        # what was learnt so far is in units of the bounds of the first records
        return self._to_unit(y, None if fresh else self._bounds)

    @property
    def _finds_labels(self) -> bool:
        """Whether this stream, or the one that it started from, finds the bounds of the labels."""
        first, found = self._shape["first"], self._found
        return bool(first and first["labels"]) or bool(found and found["labels"])

    def _publish(self, stream: Stream) -> None:
        if self._finds_labels:
            self._label_bounds(None if stream.found is None else stream.found.labels)
        coefficients, intercepts = stream.line
        self._set_line(coefficients[0], intercepts[0])

    def _from_unit(self, z: FloatArray) -> FloatArray:
        return np.asarray(from_unit(z, *self._bounds))
