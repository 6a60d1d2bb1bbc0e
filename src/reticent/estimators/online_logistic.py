"""Private logistic regression on a stream of records, with scikit-learn's interface.

The learner is the regularised leader of [chapter], Algorithm 4, on the logistic loss, or on the softmax loss for
several classes, with a regulariser computed from public numbers (:mod:`reticent.estimators.stream`).

The list of classes is published with the model. Read from the labels it would be an unprotected release: pass
``classes=``.
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
    """Differentially private logistic regression that learns record by record.

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
        features by numbers that are known without looking at the data. "private" finds an interval of each feature and
        the norm of the rows from the first records, which are then not learnt from. Default: 1.
    classes : list, optional
        All labels that can occur. Without it ``fit`` reads them from the data, with a `reticent.PrivacyLeakWarning`,
        and ``partial_fit`` needs them in its first call.
    fit_intercept : bool
        Whether to learn an intercept, as the coefficient of a constant feature. Default: True.
    intercept_scaling : float
        Size of the constant feature relative to ``feature_norm``. Noise is calibrated to the norm of both,
        sqrt(1 + intercept_scaling^2) feature_norm; the smaller it is, the more slowly the intercept is learnt.
        Default: 0.3.
    influence : float
        Gradients are clipped to this fraction of their largest possible norm, and noise is calibrated to it. 1 clips
        nothing and learns the logistic loss; a smaller value limits the influence of misclassified records.
        Default: 0.5.
    ridge : float, optional
        Coefficient of half the squared norm of the coefficients in the loss of each record, with features in units of
        ``feature_norm``. Default: none in addition to the learner's own regulariser; 0.001 for the sparse leader,
        which needs one.
    coefficient_norm : float, optional
        Largest Euclidean norm of all coefficients together, in the same units; the sparse leader bounds each
        coefficient instead. Default: 50; 10 for the sparse leader.
    learner : {"auto", "regularized-leader", "sparse-leader"}
        "regularized-leader" follows averaged totals of gradients. "sparse-leader" (`reticent.online.SparseLeader`)
        needs time and memory in proportion to the nonzeros of the records, whatever the number of columns; its
        coefficients are bounded one by one instead of in a ball, and its noise is in floating point, as ``guarantee_``
        says. "auto" chooses it for sparse matrices with more than 16,384 columns, else the regularised leader.
        Default: "auto".
    horizon : int, optional
        Upper bound on the number of records. Without it ``fit`` uses the number of rows, and a stream of
        ``partial_fit`` is endless, with somewhat more noise. ``partial_fit`` after such a ``fit`` starts a new stream
        from the coefficients that ``fit`` released, with the same budget for its own records.
    window : int, optional
        Number of outputs for which a record is protected, counting its own; fewer need less noise. Every record counts
        as one output, however many a call of ``partial_fit`` takes. Default: None (for ever). See `reticent.Budget`.
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
    coef_ : array of shape (1 or n_classes, n_features)
        Coefficients, in the units of the features.
    intercept_ : array of shape (1 or n_classes,)
        Intercepts.
    classes_ : array
        The classes, sorted.
    guarantee_ : reticent.Guarantee
        Guarantee for everything that was or will be released from this stream.
    n_samples_seen_ : int
        Number of records of the stream so far.
    clipped_ : ClipCounts
        How many records were clipped. A diagnostic that reads private data: do not publish it.

    See Also
    --------
    PrivateLogisticRegression : Learns from a complete table, with less noise.
    reticent.online.FollowTheRegularizedLeader : The default learner.

    Notes
    -----
    *The regulariser* follows from epsilon, delta, the horizon if there is one, the number of records so far, the
    dimension and the norms above: docs/algorithms/ftrl.md.

    *Several classes* are learnt with one softmax loss. The gradients of all classes for a record are clipped jointly to
    the norm that a single one would have. They are one release with the whole budget, so each coefficient has the same
    noise with ten classes as with two.

    ``score`` reads private data and is a diagnostic. A pickle of an estimator that can still learn is as secret as the
    data; :meth:`release` returns a copy that is safe to share.


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
            X, y = self._checked(X, y, reset=True)
            declared = parameters.CHECKS["classes"](self.classes, "classes")
            self._leaky = declared is None
            self._set_classes(y if declared is None else declared)
            if self._leaky:
                warnings.warn(LEAK, PrivacyLeakWarning, stacklevel=2)
            with remarked(*((LEAK,) if self._leaky else ())):
                return self._learn(X, y, fresh=True, whole=True, person=person)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, person: Any = None) -> Self:
        """Learn from more records. If any of them is not valid, all are refused and nothing changes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records.
        y : array of shape (n_samples,)
            Labels.
        classes : list, optional
            All labels that can occur; needed in the first call if the constructor was not given ``classes``.
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
            X, y = self._checked(X, y, reset=first)
            if first:
                self._declare(classes)
            elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"classes={classes!r} differs from the classes of the stream, {self.classes_.tolist()}"
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

    def _encode(self, y: Any, fresh: bool) -> tuple[FloatArray, int]:
        number = self._numbers(y)
        labels = number.astype(np.float64)
        return (2.0 * labels - 1.0 if len(self.classes_) == 2 else labels), 0

    def _publish(self, stream: Stream) -> None:
        self.coef_, self.intercept_ = stream.line

    def _stated(self, guarantee: Guarantee) -> Guarantee:
        return with_caveats(guarantee, [LEAK]) if self._leaky else guarantee

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, from the logistic function or the softmax.

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
        return shares(expit(z)) if z.shape[1] == 1 else np.asarray(softmax(z, axis=1))
