"""The model file: what was learnt, for whom it may be used and what is promised about it, in plain JSON.

The one thing a reader would get wrong: everything in this file is covered by its guarantee or was
public before. Nothing that only a diagnostic knows (accuracy, clipped records) is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.cli.errors import Refused
from reticent.cli.schema import Schema

FORMAT = "reticent-model"
VERSION = 1

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A linear model of encoded records.

    Parameters
    ----------
    task
        ``"classification"`` or ``"regression"``.
    target
        The column it predicts.
    schema
        How records are encoded.
    features
        Names of the encoded features.
    coefficients, intercepts
        One row, or one number, for each output.
    feature_norm
        Encoded records longer than this are scaled down, as when learning.
    classes
        Sorted labels of a classification.
    label_bounds
        Predictions of a regression stay within.
    guarantee
        As data; see `reticent.Guarantee.to_dict`.
    records
        How many records were learnt from.
    how
        Which estimator, with which settings.
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
    guarantee: Mapping[str, Any]
    records: int
    how: Mapping[str, Any] = field(default_factory=dict)

    def outputs(self, X: FloatArray) -> FloatArray:
        """The linear predictor of every output."""
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        factors = np.minimum(1.0, self.feature_norm / np.maximum(norms, 1e-300))
        return np.asarray((X * factors[:, None]) @ self.coefficients.T + self.intercepts)

    def predict(self, X: FloatArray) -> Any:
        """Labels, or numbers within the bounds."""
        z = self.outputs(X)
        if self.classes is None:
            assert self.label_bounds is not None
            return np.clip(z[:, 0], *self.label_bounds)
        best = (z[:, 0] > 0.0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)
        return np.array(self.classes, dtype=object)[best]

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Of the classes, in their order."""
        p = self._chances(self.outputs(X))
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
        """Plain data; a checksum goes with it in the file."""
        from reticent import __version__

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
            "guarantee": dict(self.guarantee),
            "records": self.records,
            # who knows the seed takes the noise off, and this file may leave
            "how": {name: value for name, value in self.how.items() if name != "seed"},
        }

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        data = self.to_dict()
        data["checksum"] = _checksum(data)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(data, indent=1, allow_nan=False), encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a file that :meth:`save` wrote; anything else is refused."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Refused(f"the model {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise Refused(f"{path} is not a model of `reticent learn`: it is not JSON") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise Refused(f"{path} is not a model of `reticent learn`")
        if data.get("version") != VERSION:
            raise Refused(
                f"the model {path} has version {data.get('version')}, this Reticent reads {VERSION}; "
                "use the Reticent that wrote it"
            )
        if data.pop("checksum", None) != _checksum(data):
            raise Refused(f"the model {path} was changed or damaged: its checksum does not match")
        return cls.from_dict(data, path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], path: Path) -> Model:
        """The model in plain data."""
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
                guarantee=data["guarantee"],
                records=int(data["records"]),
                how=data["how"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"the model {path} is incomplete ({error!r})") from None
        shape = (len(model.intercepts), len(model.features))
        if model.coefficients.shape != shape or not np.isfinite(model.coefficients).all():
            raise Refused(f"the model {path} has coefficients that do not fit its features")
        return model


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
