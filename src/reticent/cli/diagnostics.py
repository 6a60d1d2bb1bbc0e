"""How well a stream is predicted while it is learnt from: each record is predicted before it is used.

This is prequential evaluation (Dawid 1984): no record judges a decision that it has influenced. A decision is at most
``--every`` records old when it is judged.

All of this reads private data. No guarantee covers it; it is written only to the report, with a sentence that says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.tables import Encoded, Model

_KEPT = 2048


class Diagnostics:
    """Accuracy or root mean square error so far, of the model and of the best constant prediction so far."""

    def __init__(self, classes: tuple[str, ...] | None) -> None:
        self.classes = classes
        self.outside = 0
        self.blanked = 0
        self._sums = np.zeros(3)  # records; hits or squared errors of model and of constant

        self._seen = np.zeros(len(classes)) if classes else np.zeros(2)
        self._curve: list[list[float]] = []

    def judge(self, records: Encoded, model: Model | None, rows: NDArray[np.int64]) -> None:
        """Predict some records and compare with their labels.

        Without a model nothing is judged, and only the constant is updated.

        Parameters
        ----------
        records
            The records.
        model
            The latest model, or None if there is none yet.
        rows
            The records whose label can be used.
        """
        self.outside += records.outside
        codes = records.codes[rows]
        if not len(codes):
            return
        guess = None if model is None else model.predict(records.X[rows])
        if self.classes is not None:
            own = float(np.count_nonzero(guess == records.y[rows]))
            constant = float(np.count_nonzero(codes == self._seen.argmax()))
            self._seen += np.bincount(codes.astype(int), minlength=len(self._seen))
        else:
            own = 0.0 if guess is None else float(np.sum((codes - guess) ** 2))
            constant = float(np.sum((codes - self._seen[1] / max(1.0, self._seen[0])) ** 2))
            self._seen += [len(codes), float(codes.sum())]
        if guess is not None:
            self._sums += [len(codes), own, constant]

    def note(self, seen: int) -> None:
        """Store the scores after ``seen`` records."""
        count, own, constant = self._sums
        if count:
            values = np.array([own, constant]) / count
            if self.classes is None:
                values = np.sqrt(values)
            self._curve.append([float(seen), *values.tolist()])
            if len(self._curve) > _KEPT:
                del self._curve[1:-1:2]

    @property
    def curve(self) -> FloatArray:
        """The stored scores; columns are the number of records, the model's score so far and the constant's."""
        return np.array(self._curve).reshape(-1, 3)

    @property
    def name(self) -> str:
        return "accuracy so far" if self.classes else "root mean square error so far"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the state, which is secret."""
        return {
            "outside": self.outside,
            "blanked": self.blanked,
            "sums": self._sums,
            "seen": self._seen,
            "curve": self.curve,
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Continue from what :meth:`to_dict` returned."""
        self.outside, self.blanked = int(data["outside"]), int(data["blanked"])
        self._sums, self._seen = np.array(data["sums"]), np.array(data["seen"])
        self._curve = np.reshape(data["curve"], (-1, 3)).tolist()
