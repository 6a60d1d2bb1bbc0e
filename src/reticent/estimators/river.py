"""Private linear models with River's interface, which learn from one dictionary at a time.

The learners are those of `reticent.estimators`. Features are declared, or their names are hashed into a fixed
dimension, because the dimension of what is released is public and must not depend on the records.

``clone`` makes a fresh model with a fresh budget, but ``copy.deepcopy`` and pickles are twins of one stream: the first
that learns continues it, and the others are refused.


Examples
--------
>>> from river import compose, datasets, evaluate, metrics
>>> from reticent.estimators.river import OnlineLogisticRegression
>>> names = list(next(iter(datasets.Phishing()))[0])
>>> center = compose.FuncTransformer(lambda x: {name: 2 * value - 1 for name, value in x.items()})
>>> learner = OnlineLogisticRegression(epsilon=1.0, features=names, feature_norm=3.0, seed=0)
>>> score = evaluate.progressive_val_score(
...     datasets.Phishing(), center | learner, metrics.Accuracy()
... )
>>> score.get() > 0.75
True
>>> print(learner.guarantee)
epsilon = 1 at delta = 1e-6 (0.2368-GDP); one record is blanked (zero-out), protected for ever; seeded...
"""

from __future__ import annotations

import gc
import sys
from abc import abstractmethod
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax

from reticent.estimators import kernels as k
from reticent.estimators import parameters
from reticent.estimators.dictionaries import Declared, FloatArray, Hashed, Record, SparselyHashed
from reticent.estimators.first_bounds import found_first
from reticent.estimators.mixins import shares
from reticent.estimators.scaling import from_unit, to_unit
from reticent.estimators.sparse_stream import SparseStream, begun, chosen, restored
from reticent.estimators.stream import Stream, plan_of
from reticent.losses import ClipCounts
from reticent.losses.records import clip_labels
from reticent.privacy import Guarantee
from reticent.state.files import check_kind
from reticent.state.lease import Lease
from reticent.state.persons import read

try:
    from river import base
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "reticent.estimators.river needs River; install it with: pip install river"
    ) from error

from reticent.estimators import pipelines

__all__ = ["OnlineLinearRegression", "OnlineLogisticRegression"]

_VERSION = 2
_NO_PREDICTORS = np.zeros(1)
# Objects that are shared between models: classes, modules, functions and kernels.
_SHARED = (type, ModuleType, FunctionType, type(k.sigmoid))


class _Online:
    """Base of both River models: a reader of records, and a stream that begins with the first record."""

    _stream: Stream | None = None
    person: Any

    if TYPE_CHECKING:

        def _get_params(self) -> dict[str, Any]: ...

    @abstractmethod
    def _classes(self) -> int | None:
        """Number of classes; None if labels are numbers."""

    def _prepare(self) -> None:
        """Check the parameters at construction, because River's models can predict at once."""
        values = parameters.checked(self._get_params(), private=True)
        parameters.budget(values)
        if (self.person is None) != (parameters.participation(values) is None):
            raise ValueError(
                f"person={self.person!r} is the name of the field with the person's id, and max_records or min_gap "
                "limits how often a person may take part: give both, or neither"
            )
        features = values["features"]
        hashed = features is None
        columns = values["dimension"] if hashed else len(features)
        self._sparse = chosen(values["learner"], hashed, columns)
        if self._sparse and not hashed:
            raise ValueError(
                "learner='sparse-leader' hashes the names of features; use dimension instead of features"
            )
        self._reader: Declared | Hashed
        self._reader = (
            Declared(features)
            if not hashed
            else (SparselyHashed if self._sparse else Hashed)(columns)
        )
        self._stream = None

    def _values(self, x: Record) -> Any:
        """The features of a record, without the person's id."""
        if self.person is not None and self.person in x:
            x = {name: value for name, value in x.items() if name != self.person}
        return self._reader.one(x)

    def _whose(self, x: Record) -> Any:
        """The person's id, if persons are protected; an invalid id is refused before a stream begins."""
        if self.person is None:
            return None
        who = x.get(self.person)
        read([who])
        return who

    def _ready(self, first: Any) -> Stream:
        """The stream, which begins with its first record; refused after a pipeline step that learns from records."""
        stream = self._stream
        pipelines.check(self, 2, far=stream is None)
        return self._begin(first) if stream is None else stream

    def _begin(self, first: Any) -> Stream:
        """Charge the budget of a new stream, unless its first records would be refused anyway."""
        if self._sparse:
            if not np.isfinite(first.data if sp.issparse(first) else first[1]).all():
                raise ValueError("features must be finite")
        elif not np.isfinite(first).all():
            where = np.unique(np.argwhere(~np.isfinite(first))[:, -1]).tolist()
            raise ValueError(f"features must be finite; those in columns {where} are not")
        values = parameters.checked(self._get_params(), private=True)
        columns, horizon = self._reader.columns, values["horizon"]
        hashed = values["features"] is None
        first = found_first(values, columns, horizon, around_zero=True, sparse=hashed)
        self._stream = begun(
            plan_of(
                values,
                columns,
                self._classes(),
                first,
                horizon=horizon,
                seed=values["seed"],
                sparse=self._sparse,
            )
        )
        return self._stream

    @property
    def guarantee(self) -> Guarantee | None:
        """Guarantee for every record and all predictions together; None before the first record."""
        return None if self._stream is None else self._stream.guarantee

    @property
    def clipped(self) -> ClipCounts:
        """How many records were clipped. Reads private data: do not publish it."""
        return ClipCounts(0, 0, 0) if self._stream is None else self._stream.clipped

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes that the model holds, for River's memory reports.

        River's own count follows every reference. From a compiled kernel that leads through the whole compiler, which
        holds weak references to objects that may be gone by then.
        """
        seen: dict[int, Any] = {}
        pending: list[Any] = [self]
        while pending:
            fresh = {id(found): found for found in pending if not issubclass(type(found), _SHARED)}
            for known in fresh.keys() & seen.keys():
                del fresh[known]
            seen |= fresh
            pending = gc.get_referents(*fresh.values())
        return sum(map(sys.getsizeof, seen.values()))

    @property
    def _lease(self) -> Lease | None:
        return None if self._stream is None else self._stream.lease

    @property
    def _position(self) -> Any:
        return (None, 0) if self._stream is None else self._stream.position

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue exactly from here, as plain data for `reticent.save_state`.

        A secret: it holds clean sums and the key of future noise. Of all restored, copied or unpickled twins in a
        process, the first that learns may continue the stream; the others are refused.

        Returns
        -------
        dict
            Argument of :meth:`from_state`.
        """
        if self._stream is None:
            raise ValueError(
                f"this {type(self).__name__} has learnt nothing yet and has no state; construct it again instead"
            )
        identity, steps = self._position
        parameters = {
            name: list(value) if isinstance(value, tuple | set | frozenset) else value
            for name, value in self._get_params().items()
        }
        return {
            "version": _VERSION,
            "kind": type(self).__name__,
            "id": identity,
            "steps": self._stream.seen if self._sparse else steps,
            **({"moves": steps} if self._sparse else {}),
            "parameters": parameters,
            "stream": self._stream.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Any:
        """A model that continues from a state; it refuses to learn if the stream was continued beyond this state.

        Parameters
        ----------
        state : dict
            The result of :meth:`state` or of `reticent.load_state`.

        Returns
        -------
        model
            A model equal to the one that gave the state.
        """
        check_kind(state, cls, _VERSION)
        model = cls(**state["parameters"])
        model._stream = restored(state["stream"])
        return model

    @property
    def weights(self) -> dict[Any, float] | FloatArray:
        """Coefficients by feature, for one output and declared features; else an array of outputs by columns."""
        rows: FloatArray = np.zeros((1, self._reader.columns))
        if self._stream is not None:
            rows, _ = self._stream.line
        if len(rows) == 1 and isinstance(self._reader, Declared):
            return dict(zip(self._reader.features, rows[0].tolist(), strict=True))
        return rows

    def _frame(self, X: Any) -> Any:
        if self.person is not None and self.person in X.columns:
            X = X.drop(columns=self.person)
        rows: Any = self._reader.many(X)
        if self._sparse:
            if not np.isfinite(rows.data).all():
                raise ValueError("features must be finite")
            return rows
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise ValueError(f"features must be finite; row {bad[0]} is not")
        return rows

    def _persons_of(self, X: Any) -> Any:
        if self.person is None:
            return None
        if self.person not in X.columns:
            raise ValueError(f"the records need a column {self.person!r} with the persons' ids")
        read(X[self.person])
        return X[self.person]

    def _predictors_many(self, X: Any) -> FloatArray:
        rows, stream = self._frame(X), self._stream
        if stream is None:
            return np.zeros((rows.shape[0], 1))
        if isinstance(stream, SparseStream):
            return stream.predictors(rows)
        return np.array([stream.predictors_one(row) for row in rows]).reshape(len(rows), -1)


class OnlineLogisticRegression(_Online, base.MiniBatchClassifier):
    """Differentially private logistic regression for River.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon of the budget for the whole stream. Default: 1.
    delta
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours
        Whether one record is blanked (``"zero-out"``, the default) or replaced by another (``"replace"``).
    features
        Names of the features; others are ignored, and absent ones are 0. Default: None, which hashes names.
    dimension
        Number of columns to which names are hashed if ``features`` is None. Default: 64.
    classes
        All labels that can occur, known without looking at the data. Default: (False, True).
    feature_norm
        Feature vectors with a larger Euclidean norm are scaled down to it. ``"private"`` finds the scale of each
        feature and the norm from the first records, which are then not learnt from; a feature that appears only later
        gets the median of the scales. Default: 1.
    fit_intercept
        Whether to learn an intercept, as the coefficient of a constant feature. Default: True.
    intercept_scaling
        Size of the constant feature relative to ``feature_norm``. Default: 0.3.
    influence
        Gradients are clipped to this fraction of their largest possible norm, and noise is calibrated to it.
        Default: 0.5.
    ridge
        Coefficient of half the squared norm of the coefficients in the loss of each record, in units of
        ``feature_norm``. Default: none in addition to the learner's own regulariser; 0.001 for the sparse leader.
    coefficient_norm
        Largest Euclidean norm of all coefficients together, in units of ``feature_norm``; the sparse leader bounds each
        coefficient instead. Default: 50; 10 for the sparse leader.
    learner
        ``"regularized-leader"``, or ``"sparse-leader"``, which needs time and memory in proportion to the size of a
        record and has noise in floating point, as the guarantee says. ``"auto"``, the default, chooses the latter for
        names hashed to more than 16,384 columns.
    horizon
        Upper bound on the number of records; without it the stream is endless, with somewhat more noise.
    window
        Number of outputs for which a record is protected, counting its own; fewer need less noise. Default: for ever.
    fade
        A guarantee that weakens with age instead of ending; see `reticent.Budget`.
    person
        Name of the field with the person's id, if persons are protected; it is not used as a feature.
    max_records
        With persons: largest number of records of a person that count, in the whole stream or within the window.
    min_gap
        With persons: least number of steps between two records of the same person that count.
    max_persons
        Upper bound on the number of persons kept track of at a time. Default: None (limited by memory only).
    seed
        Seed of the noise, for experiments only; the guarantee says so. None, the default, uses a cryptographic
        generator.
    scaling
        ``"auto"`` finds centres and spreads of declared features, and the norm of the rows after centring and scaling,
        from the first records, which are then not learnt from; if that takes more than a tenth of ``horizon``, or more
        than 5,000 records without one, nothing is scaled. Default: ``"none"``.

    See Also
    --------
    reticent.estimators.OnlineLogisticRegression : The same model with scikit-learn's interface.

    Notes
    -----
    More than two classes are learnt with one softmax loss in one release with the whole budget; see
    `reticent.estimators.OnlineLogisticRegression`.


    Examples
    --------
    >>> model = OnlineLogisticRegression(features=["a", "b"], seed=0)
    >>> for _ in range(3000):
    ...     model.learn_one({"a": 1.0}, True)
    ...     model.learn_one({"b": 1.0}, False)
    >>> model.predict_one({"a": 1.0}), model.predict_one({"b": 0.5})
    (True, False)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        neighbours: str = "zero-out",
        features: Any = None,
        dimension: int = 64,
        classes: Any = (False, True),
        feature_norm: float | str = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        influence: float = 0.5,
        ridge: float | None = None,
        coefficient_norm: float | None = None,
        learner: str = "auto",
        horizon: int | None = None,
        window: int | None = None,
        fade: Any = None,
        person: Any = None,
        max_records: int | None = None,
        min_gap: int | None = None,
        max_persons: int | None = None,
        seed: int | None = None,
        scaling: str = "none",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.features = features
        self.dimension = dimension
        self.classes = classes
        self.feature_norm = feature_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.influence = influence
        self.ridge = ridge
        self.coefficient_norm = coefficient_norm
        self.learner = learner
        self.horizon = horizon
        self.window = window
        self.fade = fade
        self.person = person
        self.max_records = max_records
        self.min_gap = min_gap
        self.max_persons = max_persons
        self.seed = seed
        self.scaling = scaling
        self._prepare()
        parameters.refuse_quadratic(self._get_params())
        self._order = parameters.CHECKS["classes"](list(classes), "classes")
        count = len(self._order)
        self._several = count > 2
        codes = (-1.0, 1.0) if count == 2 else tuple(map(float, range(count)))
        self._codes = dict(zip(self._order, codes, strict=True))

    @property
    def _multiclass(self) -> bool:
        return self._several

    def _classes(self) -> int | None:
        return len(self._order)

    def _code(self, y: Any) -> float:
        code = self._codes.get(y)
        if code is None:
            raise ValueError(
                f"y, a {type(y).__name__}, is not one of the classes {self._order}; nothing was "
                "learnt from it"
            )
        return code

    def learn_one(self, x: Record, y: Any) -> None:
        code = self._codes.get(y)
        if code is None:
            code = self._code(y)
        values = self._values(x)
        who = self._whose(x)
        self._ready(values).learn_one(values, code, person=who)

    def learn_many(self, X: Any, y: Any) -> None:
        codes = np.array([self._code(label) for label in y.tolist()])
        rows, who = self._frame(X), self._persons_of(X)
        self._ready(rows).learn(rows, codes, person=who)

    def _probabilities(self, z: FloatArray) -> FloatArray:
        """Probabilities of all classes from linear predictors, one row per record."""
        count = len(self._order)
        if self._stream is None:
            return np.full((len(z), count), 1.0 / count)
        if count == 2:
            return shares(expit(z))
        return np.asarray(softmax(z, axis=1))

    def predict_proba_one(self, x: Record, **kwargs: Any) -> dict[Any, float]:
        values, stream = self._values(x), self._stream
        if stream is not None and not self._multiclass:
            p = k.sigmoid(stream.predictor_one(values))
            return {self._order[0]: 1.0 - p, self._order[1]: p}
        z = _NO_PREDICTORS if stream is None else stream.predictors_one(values)
        each = self._probabilities(z[None])[0]
        return dict(zip(self._order, each.tolist(), strict=True))

    def predict_one(self, x: Record, **kwargs: Any) -> Any:
        # called most often, so it skips what is not needed
        values, stream = (
            self._reader.one(x) if self.person is None else self._values(x),
            self._stream,
        )
        if stream is None:
            return self._order[0]
        if not self._several:
            return self._order[stream.predictor_one(values) > 0.0]
        return self._choose(stream.predictors_one(values)[None])[0]

    def _choose(self, z: FloatArray) -> list[Any]:
        places = (z[:, 0] > 0.0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)
        return [self._order[place] for place in places]

    def predict_proba_many(self, X: Any) -> Any:
        import pandas

        p = self._probabilities(self._predictors_many(X))
        return pandas.DataFrame(p, columns=list(self._order), index=X.index)

    def predict_many(self, X: Any) -> Any:
        import pandas

        return pandas.Series(self._choose(self._predictors_many(X)), index=X.index)


class OnlineLinearRegression(_Online, base.MiniBatchRegressor):
    """Differentially private linear regression for River.

    Parameters
    ----------
    epsilon
        Privacy parameter epsilon of the budget for the whole stream. Default: 1.
    delta
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours
        Whether one record is blanked (``"zero-out"``, the default) or replaced by another (``"replace"``).
    features
        Names of the features; others are ignored, and absent ones are 0. Default: None, which hashes names.
    dimension
        Number of columns to which names are hashed if ``features`` is None. Default: 64.
    label_bounds
        Labels beyond these bounds are clipped, and predictions stay within them. ``"private"`` finds them from the
        first records; predictions are 0 until then. Default: (-1, 1).
    feature_norm
        Feature vectors with a larger Euclidean norm are scaled down to it. ``"private"`` finds the scale of each
        feature and the norm from the first records, which are then not learnt from. Default: 1.
    fit_intercept
        Whether to learn an intercept. Default: True.
    intercept_scaling
        Size of the constant feature relative to ``feature_norm``. Default: 0.3.
    influence
        Gradients are clipped to this fraction of their largest possible norm, and noise is calibrated to it; the
        quadratic leader ignores it. Default: 0.5.
    ridge
        Coefficient of half the squared norm of the coefficients in the loss of each record, with labels scaled to
        [-1, 1]. Default: 0 in addition to the learner's own regulariser; 0.01 for the quadratic and the sparse leader.
    coefficient_norm
        Largest Euclidean norm of the coefficients, with labels scaled to [-1, 1]; the sparse leader bounds each
        coefficient instead. Default: 16; 3 for the quadratic and the sparse leader.
    learner
        ``"auto"``, ``"regularized-leader"``, ``"quadratic-leader"`` or ``"sparse-leader"``; see
        `reticent.estimators.OnlineLinearRegression`.
    horizon
        Upper bound on the number of records; without it the stream is endless, with somewhat more noise.
    window
        Number of outputs for which a record is protected, counting its own. Default: for ever.
    fade
        A guarantee that weakens with age instead of ending; see `reticent.Budget`.
    person
        Name of the field with the person's id, if persons are protected; it is not used as a feature.
    max_records
        With persons: largest number of records of a person that count, in the whole stream or within the window.
    min_gap
        With persons: least number of steps between two records of the same person that count.
    max_persons
        Upper bound on the number of persons kept track of at a time. Default: None (limited by memory only).
    seed
        Seed of the noise, for experiments only; the guarantee says so. None, the default, uses a cryptographic
        generator.
    scaling
        ``"auto"`` finds centres and spreads of declared features from the first records, which are then not learnt
        from. Default: ``"none"``.

    See Also
    --------
    reticent.estimators.OnlineLinearRegression : The same model with scikit-learn's interface.


    Examples
    --------
    >>> model = OnlineLinearRegression(features=["a"], label_bounds=(0, 10), ridge=0.01, seed=0)
    >>> for step in range(6000):
    ...     model.learn_one({"a": step % 2}, 4.0 + 2.0 * (step % 2))
    >>> abs(model.predict_one({"a": 1.0}) - 6.0) < 0.5
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        neighbours: str = "zero-out",
        features: Any = None,
        dimension: int = 64,
        label_bounds: tuple[float, float] | str = (-1, 1),
        feature_norm: float | str = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        influence: float = 0.5,
        ridge: float | None = None,
        coefficient_norm: float | None = None,
        learner: str = "auto",
        horizon: int | None = None,
        window: int | None = None,
        fade: Any = None,
        person: Any = None,
        max_records: int | None = None,
        min_gap: int | None = None,
        max_persons: int | None = None,
        seed: int | None = None,
        scaling: str = "none",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.features = features
        self.dimension = dimension
        self.label_bounds = label_bounds
        self.feature_norm = feature_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.influence = influence
        self.ridge = ridge
        self.coefficient_norm = coefficient_norm
        self.learner = learner
        self.horizon = horizon
        self.window = window
        self.fade = fade
        self.person = person
        self.max_records = max_records
        self.min_gap = min_gap
        self.max_persons = max_persons
        self.seed = seed
        self.scaling = scaling
        self._prepare()
        stated = parameters.OR_PRIVATE["label_bounds"](label_bounds, "label_bounds")
        # predictions are 0 until bounds have been found
        ends: tuple[float, float] = (0.0, 0.0) if stated == parameters.PRIVATE else stated
        self._low, self._high = ends

    def _classes(self) -> int | None:
        return None

    def learn_one(self, x: Record, y: Any) -> None:
        label = y if type(y) is float and self._low <= y <= self._high else parameters.label(y)
        values = self._values(x)
        if self.label_bounds == parameters.PRIVATE:
            self._ready(values).learn_one(values, label, person=self._whose(x))
            return
        unit = (label - self._low) / (self._high - self._low) * 2.0 - 1.0
        beyond = not self._low <= label <= self._high
        if not -1.0 <= unit <= 1.0:
            unit = 1.0 if unit > 0.0 else -1.0
        who = self._whose(x)
        self._ready(values).learn_one(values, unit, beyond, who)

    def learn_many(self, X: Any, y: Any) -> None:
        labels = np.array([parameters.label(value) for value in y.tolist()])
        rows, who = self._frame(X), self._persons_of(X)
        stream = self._ready(rows)
        if self.label_bounds == parameters.PRIVATE:
            stream.learn(rows, labels, person=who)
            return
        inside, beyond = clip_labels(labels, self._low, self._high)
        stream.learn(rows, to_unit(inside, self._low, self._high), beyond, who)

    @property
    def _ends(self) -> tuple[float, float]:
        """Bounds of the labels, stated or found."""
        found = None if self._stream is None else self._stream.found
        return (self._low, self._high) if found is None or found.labels is None else found.labels

    def predict_one(self, x: Record) -> float:
        values = self._values(x)
        z = 0.0 if self._stream is None else self._stream.predictor_one(values)
        low, high = self._ends
        return min(high, max(low, from_unit(z, low, high)))

    def predict_many(self, X: Any) -> Any:
        import pandas

        ends, z = self._ends, self._predictors_many(X)[:, 0]
        return pandas.Series(np.clip(from_unit(z, *ends), *ends), index=X.index)
