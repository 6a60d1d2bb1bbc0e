"""The model file: what was learnt, its schema and its guarantee, in plain JSON.

Everything in this file is covered by its guarantee or was public before. It contains no diagnostics (such as accuracy
or numbers of clipped records), so it may be published.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.tables.encoder import Columns, Encoder, FloatArray
from reticent.tables.schema import Schema, TableError
from reticent.version import __version__

if TYPE_CHECKING:
    from reticent.privacy import Guarantee

FORMAT = "reticent-model"
_FORMER = "tacit-model"
VERSION = 1

_SETTINGS = ("epsilon", "delta", "neighbours", "window", "fade", "horizon", "feature_norm")
_OF_PERSONS = ("max_records", "min_gap")


@dataclass(frozen=True)
class Model:
    """A private linear model of a table, with its schema and its guarantee.

    :meth:`from_estimator` makes one, and :meth:`load` reads the ``model.json`` that `reticent learn` or :meth:`save`
    wrote.

    Parameters
    ----------
    task : {"classification", "regression"}
        What the model predicts.
    target : str
        Name of the predicted column.
    schema : Schema
        Schema by which records are encoded.
    features : tuple of str
        Names of the encoded features.
    coefficients : array of shape (outputs, features)
        One row per output: one output for a number or two classes, else one per class.
    intercepts : array of shape (outputs,)
        One intercept per output.
    feature_norm : float
        Norm to which encoded records are clipped, as in training.
    classes : tuple of str or None
        Labels of a classification, sorted.
    label_bounds : tuple of two floats or None
        Bounds of the predictions of a regression.
    terms : mapping
        The guarantee as plain data; see `reticent.Guarantee.to_dict`.
    records : int
        Number of records that were learnt from; the number of persons, if these are protected in a table, because the
        number of their records is not public.
    how : mapping
        The estimator and its settings.
    units : mapping, optional
        If features were centred and scaled: ``center`` and ``scale`` of each, and the ``norm`` to which records are
        then clipped; also ``low`` and ``high``, if an interval of each was found, to which it is clipped first.


    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import tables
    >>> schema = tables.Schema.from_dict(
    ...     {
    ...         "target": "spent",
    ...         "columns": {
    ...             "age": {"type": "number", "bounds": [0, 100]},
    ...             "spent": {"type": "boolean"},
    ...         },
    ...     }
    ... )
    >>> encoder = tables.Encoder(schema)
    >>> age = np.random.default_rng(0).uniform(0, 100, 2000)
    >>> records = encoder.encode({"age": age, "spent": age > 40})
    >>> estimator = reticent.PrivateLogisticRegression(
    ...     epsilon=2.0,
    ...     feature_norm=encoder.largest_norm,
    ...     classes=encoder.classes,
    ...     random_state=0,
    ... ).fit(records.X, records.y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> tables.Model.from_estimator(estimator, encoder, records=2000).save(path)
    >>> model = tables.Model.load(path)
    >>> model.predict({"age": [10, 90]}).tolist()
    ['false', 'true']
    >>> round(model.guarantee.epsilon(1e-6), 2)
    2.0
    """

    task: str
    target: str
    schema: Schema
    features: tuple[str, ...]
    coefficients: FloatArray
    intercepts: FloatArray
    feature_norm: float
    classes: tuple[str, ...] | None
    label_bounds: tuple[float, float] | None
    terms: Mapping[str, Any]
    records: int
    how: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, encoder: Encoder, *, records: int) -> Model:
        """The model that a fitted estimator of this library has learnt from encoded records.

        Parameters
        ----------
        estimator : estimator
            A fitted ``PrivateLogisticRegression``, ``PrivateLinearRegression``, ``PrivateLasso``,
            ``OnlineLogisticRegression`` or ``OnlineLinearRegression``.
        encoder : Encoder
            Encoder of the features on which it was fitted.
        records : int
            Number of records on which it was fitted; the number of persons, if these are protected in a table.
        """
        given = estimator._fitted_with  # its parameters may have been changed since
        classes = None
        if encoder.classes is not None:
            classes = tuple(str(label) for label in estimator.classes_)
        units, norm = _units_of(estimator, given["feature_norm"])
        how = _how(estimator, given, classes)
        if not how["online"] and estimator.guarantee_.unit == "person":
            records = estimator._protected
        coefficients = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        if coefficients.shape[1] != len(encoder.names):
            raise TableError(
                f"the estimator was fitted on {coefficients.shape[1]} features, and the schema makes "
                f"{len(encoder.names)}; pass the encoder that made its features"
            )
        return cls(
            task="classification" if classes else "regression",
            target=encoder.target.name,
            schema=encoder.schema,
            features=tuple(encoder.names),
            coefficients=coefficients,
            intercepts=np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
            feature_norm=norm,
            classes=classes,
            label_bounds=None
            if classes
            else (float(estimator._bounds[0]), float(estimator._bounds[1])),
            terms=estimator.guarantee_.to_dict(),
            records=records,
            how=how,
            units=units,
        )

    @property
    def learnt_from(self) -> str:
        """How many records in words, or how many persons."""
        persons = self.terms.get("unit") == "person" and not self.how.get("online")
        return f"{self.records:,} {'persons' if persons else 'records'}"

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for the records that were learnt from."""
        from reticent.privacy import Guarantee  # scipy: too slow to import for a prediction

        return Guarantee.from_dict(self.terms)

    @property
    def encoder(self) -> Encoder:
        """An encoder for the features of this model."""
        return Encoder(self.schema, self.target, persons=False)

    def outputs(self, records: Columns | FloatArray) -> FloatArray:
        """The linear predictors of every output, one row per record.

        Parameters
        ----------
        records : mapping of str to sequence, or array
            The cells of each column (a data frame works as well), or features from :attr:`encoder`.
        """
        X = self._features(records)
        if self.units is None or "low" not in self.units:
            X = _shortened(X, self.feature_norm)
        else:
            X = np.clip(X, np.array(self.units["low"]), np.array(self.units["high"]))
        if self.units is not None:
            center, scale = np.array(self.units["center"]), np.array(self.units["scale"])
            X = _shortened((X - center) / scale, float(self.units["norm"])) * scale + center
        return np.asarray(X @ self.coefficients.T + self.intercepts)

    def _features(self, records: Columns | FloatArray) -> FloatArray:
        if not isinstance(records, np.ndarray):
            encoder = self.encoder
            encoder.check_header(list(records), target=False)
            return encoder.encode(records, labels=False).X
        if records.ndim != 2 or records.shape[1] != len(self.features):
            raise TableError(
                f"records must be columns by name, or an array of {len(self.features)} encoded "
                f"features per record, got an array of shape {records.shape}"
            )
        return records

    def predict(self, records: Columns | FloatArray) -> Any:
        """The predicted labels, or numbers within the bounds.

        Parameters
        ----------
        records : mapping of str to sequence, or array
            The cells of each column (a data frame works as well), or features from :attr:`encoder`.
        """
        z = self.outputs(records)
        if self.classes is None:
            assert self.label_bounds is not None
            return np.clip(z[:, 0], *self.label_bounds)
        best = (z[:, 0] > 0.0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)
        return np.array(self.classes, dtype=object)[best]

    def probabilities(self, records: Columns | FloatArray) -> FloatArray:
        """The class probabilities, in the order of ``classes``, one row per record.

        Parameters
        ----------
        records : mapping of str to sequence, or array
            The cells of each column (a data frame works as well), or features from :attr:`encoder`.
        """
        if self.classes is None:
            raise TableError("this model predicts a number and has no probabilities; use predict")
        z = self.outputs(records)
        if self.how.get("link") == "softmax":
            p = np.exp(z - z.max(axis=1, keepdims=True))
            return np.asarray(p / p.sum(axis=1, keepdims=True))
        p = self._chances(z)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        p = np.maximum(p, np.finfo(float).tiny)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _chances(self, z: FloatArray) -> FloatArray:
        """By the link of the loss that was minimised; see `reticent.losses.CappedLogistic.probability`."""
        q = 0.5 - 0.5 * np.tanh(0.5 * np.abs(z))  # of the other side, by the logistic link
        cap = float(self.how.get("influence", 1.0))
        certain = np.where(q < 1.0 - cap, cap / (cap + q), 1.0 - q)
        return np.where(z >= 0.0, certain, 1.0 - certain)

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data; a checksum goes with it in the file."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "written_by": f"reticent {__version__}",
            "task": self.task,
            "target": self.target,
            "schema": self.schema.to_dict(),
            "features": list(self.features),
            "coefficients": self.coefficients.tolist(),
            "intercepts": self.intercepts.tolist(),
            "feature_norm": self.feature_norm,
            "classes": None if self.classes is None else list(self.classes),
            "label_bounds": None if self.label_bounds is None else list(self.label_bounds),
            "guarantee": dict(self.terms),
            "records": self.records,
            "units": self.units,
            # anyone who knows the seed can remove the noise, and this file may be published
            "how": {name: value for name, value in self.how.items() if name != "seed"},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically.

        Parameters
        ----------
        path : path
            File to write; an existing file is replaced.
        """
        path = Path(path)
        data = self.to_dict()
        data["checksum"] = _checksum(data)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(data, indent=1, allow_nan=False), encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a file that :meth:`save` or `reticent learn` wrote; anything else is refused.

        Parameters
        ----------
        path : path
            The file, usually ``model.json``.

        Raises
        ------
        TableError
            If the file cannot be read, is not a model file, or was changed since it was written.
        """
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise TableError(f"the model {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise TableError(f"{path} is not a model of `reticent learn`: it is not JSON") from None
        if isinstance(data, dict) and data.get("format") == _FORMER:
            raise TableError(
                f"{path} is a model of Tacit, the former name of this project, and cannot be read here; use the "
                "version that wrote it, or learn again, which spends another budget"
            )
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TableError(f"{path} is not a model of `reticent learn`")
        if data.get("version") != VERSION:
            raise TableError(
                f"the model {path} has version {data.get('version')}, this Reticent reads {VERSION}; "
                "use the Reticent that wrote it"
            )
        if data.pop("checksum", None) != _checksum(data):
            raise TableError(
                f"the model {path} was changed or damaged: its checksum does not match"
            )
        return cls.from_dict(data, f"the model {path}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "the model") -> Model:
        """A model from plain data, after checking it.

        Parameters
        ----------
        data : mapping
            The result of :meth:`to_dict`.
        where : str
            Name of the model in error messages.
        """
        try:
            model = cls(
                task=str(data["task"]),
                target=str(data["target"]),
                schema=Schema.from_dict(data["schema"]),
                features=tuple(data["features"]),
                coefficients=np.array(data["coefficients"], dtype=np.float64),
                intercepts=np.array(data["intercepts"], dtype=np.float64),
                feature_norm=float(data["feature_norm"]),
                classes=None if data["classes"] is None else tuple(data["classes"]),
                label_bounds=None if data["label_bounds"] is None else tuple(data["label_bounds"]),
                terms=data["guarantee"],
                records=int(data["records"]),
                how=data["how"],
                units=data.get("units"),
            )
        except TableError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"{where} is incomplete ({error!r})") from None
        shape = (len(model.intercepts), len(model.features))
        if model.coefficients.shape != shape or not np.isfinite(model.coefficients).all():
            raise TableError(f"{where} has coefficients that do not fit its features")
        if model.encoder.names != list(model.features):
            raise TableError(f"{where} does not fit its own schema")
        return model


def _how(
    estimator: Any, given: Mapping[str, Any], classes: tuple[str, ...] | None
) -> dict[str, Any]:
    """How an estimator has learnt: its settings and choices."""
    online = hasattr(estimator, "partial_fit")
    how = {"estimator": type(estimator).__name__, "online": online}
    how |= {name: given.get(name) for name in _SETTINGS}
    how |= {name: given[name] for name in _OF_PERSONS if given.get(name) is not None}
    for name in ("solver", "solver_reason"):
        if hasattr(estimator, f"{name}_"):
            how[name] = str(getattr(estimator, f"{name}_"))
    if hasattr(estimator, "influence_"):
        how["influence"] = float(estimator.influence_)
    if online and classes is not None and len(classes) > 2:
        how["link"] = "softmax"  # else one class against the rest
    return how


def _units_of(estimator: Any, norm: float | str) -> tuple[dict[str, Any] | None, float]:
    """The units found for the columns, if any, and the norm to which rows are clipped."""
    found: Any = estimator._units
    units = None
    if found.scale is not None and not found.weighed:
        arrays = {name: getattr(found, name) for name in ("low", "high", "center", "scale")}
        units = {name: array for name, array in arrays.items() if array is not None}
        units["norm"] = float(found.norm)
    if isinstance(norm, str):  # it was found
        norm = found.norm
        if getattr(estimator, "_by_entries", False):
            units = _by_entries(found, estimator.n_features_in_)
        if units is not None:  # of the longest row within the columns' intervals
            norm = math.hypot(*np.maximum(np.abs(units["low"]), np.abs(units["high"])))
    if units is not None:
        units = {k: value if k == "norm" else value.tolist() for k, value in units.items()}
    return units, float(norm)


def _by_entries(found: Any, columns: int) -> dict[str, Any]:
    """Units in which every entry is clipped separately, as intervals of the columns; rows may have any norm."""
    center = np.zeros(columns) if found.center is None else found.center
    scale = np.ones(columns) if found.scale is None else found.scale
    low, high = center - scale * found.norm, center + scale * found.norm
    if found.low is not None:
        low, high = np.maximum(low, found.low), np.minimum(high, found.high)
    norm = 2.0 * math.sqrt(columns) * float(found.norm)
    return {"low": low, "high": high, "center": center, "scale": scale, "norm": norm}


def _shortened(X: FloatArray, norm: float) -> FloatArray:
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    return np.asarray(X * np.minimum(1.0, norm / np.maximum(norms, 1e-300))[:, None])


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
