"""Private logistic regression that learns as records come, with scikit-learn's interface.

The regularised leader of [chapter], Algorithm 4, on the logistic loss, or the softmax loss for several classes, with a
regulariser that is set by public numbers (:mod:`reticent.estimators.stream`).

The list of classes is part of what is released. Read off the labels it is a release that nothing
protects, so say it: ``classes=``.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from reticent.estimators import parameters
from reticent.estimators.mixins import LEAK, Classes, FloatArray, shares
from reticent.estimators.online import OnlineEstimator
from reticent.estimators.stream import Stream
from reticent.privacy import Guarantee, PrivacyLeakWarning, remarked
from reticent.privacy.guarantee import with_caveats


class OnlineLogisticRegression(Classes, ClassifierMixin, OnlineEstimator):
    """Differentially private logistic regression, one record at a time or all at once.

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
        when predicting. Scale features by what is known of them, not by what they turned out to be.
        "private" finds an interval of each feature and the norm of rows from the first records, which
        are then not learnt from.
    classes : list, optional
        All labels there can be. Without it ``fit`` reads them off the data, with a
        `reticent.PrivacyLeakWarning`, and ``partial_fit`` wants them in its first call.
    fit_intercept : bool
        Whether to learn an intercept, by a constant feature.
    intercept_scaling : float
        The constant feature, as a share of ``feature_norm``. Noise is calibrated to the norm of
        both, sqrt(1 + intercept_scaling^2) feature_norm; the smaller, the slower the intercept.
    influence : float
        Gradients are clipped to this share of the longest that they can be, and noise is calibrated to
        it: 1 clips nothing and learns the logistic loss, less bounds what a record far on the wrong side can do.
    ridge : float, optional
        Weight of half the squared coefficients in every record's loss, with features in units of
        ``feature_norm``; by default none beside the regulariser that the learner chooses, and 0.001 for the
        sparse leader, which needs one.
    coefficient_norm : float, optional
        The largest Euclidean norm of all coefficients together, in the same units; by default 50. For the sparse
        leader it bounds each coefficient by itself, and is 10.
    learner : {"auto", "regularized-leader", "sparse-leader"}
        The regularised leader follows averaged totals of gradients. ``"sparse-leader"`` takes time and memory in
        proportion to the nonzeros of the records, whatever the number of columns; its weights are bounded one by
        one instead of in a ball, and its noise is in floating point, as ``guarantee_`` says
        (`reticent.online.SparseLeader`). ``"auto"`` takes it for sparse matrices of more than 16,384 columns, else
        the regularised leader.
    horizon : int, optional
        How many records there may be. Without it ``fit`` takes the number of rows, and a stream of
        ``partial_fit`` is endless, with somewhat more noise. ``partial_fit`` after such a ``fit``
        starts a new stream from the coefficients that ``fit`` released, with the same budget for
        its own records.
    window : int, optional
        Protect each record only while this many come in, its own included, with less noise; see
        `reticent.Budget`. They count one by one, however many a call of ``partial_fit`` takes.
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
        ``None`` is a cryptographic generator. Anything else is for experiments, and ``guarantee_``
        says so.
    scaling : {"none", "auto"}
        "auto" finds centers and spreads of the columns, and the norm of rows centered and scaled by them, from the
        first records, which are then not learnt from; each record is in one release only, so this costs nothing
        but these records. As many as it takes to tell them from noise, at most a tenth of ``horizon``, or 5,000 where
        that is not known; otherwise, and where persons are protected or the promise fades, nothing is scaled.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1 or n_classes, n_features) and (1 or n_classes,)
    classes_ : array
        Sorted.
    guarantee_ : reticent.Guarantee
        For everything that was or will be released from this stream.
    n_samples_seen_ : int
    clipped_ : ClipCounts
        How many records were beyond the bounds. A diagnostic that reads private data: do not publish.

    Notes
    -----
    *The regulariser* follows from epsilon, delta, the horizon if there is one, the number of records so far, the
    dimension and the norms above: docs/algorithms/ftrl.md.

    *Several classes* are one softmax. The gradients of one record by all classes are clipped together to
    the norm that a single one would have, so that they are one release at the whole budget: nothing is split,
    and ten classes have the noise of two in each coefficient.

    ``score`` reads private data and is a diagnostic. A pickle of an estimator that can learn on is as
    secret as the data; :meth:`release` gives a copy that is not.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import OnlineLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 3)) / np.sqrt(3)
    >>> y = np.where(X @ [1.0, -2.0, 0.5] + 0.1 > 0, "yes", "no")
    >>> model = OnlineLogisticRegression(epsilon=1.0, classes=["no", "yes"], random_state=0)
    >>> for rows in np.split(np.arange(20_000), 20):
    ...     model = model.partial_fit(X[rows], y[rows])
    >>> model.score(X, y) > 0.9
    True
    >>> print(model.guarantee_)
    epsilon = 1 at delta = 1e-6 (0.2368-GDP); one record is blanked (zero-out), protected for ever; seeded...
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        feature_norm: float | str = 1.0,
        classes: Any = None,
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
        self.classes = classes
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
            X, y = self._checked(X, y, reset=True)
            declared = parameters.CHECKS["classes"](self.classes, "classes")
            self._leaky = declared is None
            self._set_classes(y if declared is None else declared)
            if self._leaky:
                warnings.warn(LEAK, PrivacyLeakWarning, stacklevel=2)
            with remarked(*((LEAK,) if self._leaky else ())):
                return self._learn(X, y, fresh=True, whole=True, person=person)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, person: Any = None) -> Self:
        """Learn from more records; refused, with nothing changed, if any of them is bad.

        Parameters
        ----------
        X, y
            Records and their labels.
        classes : list, optional
            All labels there can be: for the first call, where the constructor was not told.
        person : array, optional
            Whose each record is (whole numbers, text or bytes), where persons are protected; records
            beyond ``max_records``, or closer than ``min_gap``, are blanked.
        """
        with self._all_or_nothing():
            first = not self._begun
            if not first:
                self._check_open()
            X, y = self._checked(X, y, reset=first)
            if first:
                self._declare(classes)
            elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"classes={classes!r} is not what the stream began with, {self.classes_.tolist()}"
                )
            return self._learn(X, y, fresh=first, whole=False, person=person)

    def _declare(self, classes: Any = None) -> None:
        declared = self.classes if classes is None else classes
        if declared is None:
            raise ValueError(
                "classes must be given in the first call of partial_fit, or to the "
                "constructor: the list of all labels that can occur"
            )
        self._leaky = False
        self._set_classes(parameters.CHECKS["classes"](list(declared), "classes"))

    def _classes(self) -> int | None:
        return len(self.classes_)

    def _encode(self, y: Any) -> tuple[FloatArray, int]:
        number = self._numbers(y)
        labels = number.astype(np.float64)
        return (2.0 * labels - 1.0 if len(self.classes_) == 2 else labels), 0

    def _publish(self, stream: Stream) -> None:
        self.coef_, self.intercept_ = stream.line

    def _stated(self, guarantee: Guarantee) -> Guarantee:
        return with_caveats(guarantee, [LEAK]) if self._leaky else guarantee

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, by the logistic function or the softmax."""
        z = self._predictors(X)
        return shares(expit(z)) if z.shape[1] == 1 else np.asarray(softmax(z, axis=1))
