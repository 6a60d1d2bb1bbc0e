"""`reticent predict`: predictions of a model file for some records.

For everyone except the person whom it is about, a prediction is post-processing of the model. What it reveals about its
own record is as private as that record.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.tables import Encoded, Model, batches, open_records


def predict(
    path: Path,
    data: str,
    *,
    kind: str | None,
    out: Path | None,
    probabilities: bool,
    score: bool,
    console: Console,
) -> int:
    """Run the command and return its exit status."""
    try:
        _predict(path, data, kind, out, probabilities, score, console)
    except BrokenPipeError:
        return (
            141  # the status that a shell reports when the reader of the output has closed the pipe
        )
    return 0


def _predict(
    path: Path,
    data: str,
    kind: str | None,
    out: Path | None,
    probabilities: bool,
    score: bool,
    console: Console,
) -> None:
    model = Model.load(path)
    if probabilities and model.classes is None:
        raise Refused("--probabilities needs a classifier; this model predicts a number")
    encoder = model.encoder
    source, _ = open_records(data, encoder, kind, labels=score)
    tally = np.zeros(2)
    place: Any = os.dup(sys.stdout.fileno()) if out is None else out
    with open(place, "w", encoding="utf-8", newline="") as file:
        writer = _Writer(file, model, probabilities, console.as_json)
        for records in batches(source, encoder, labels=score):
            guesses = model.predict(records.X)
            writer.write(records.X, guesses)
            if source.live:
                file.flush()
            if score:
                _judge(tally, records, guesses, model)
    if score and tally[0]:
        value = tally[1] / tally[0]
        words = f"accuracy {value:.4f}"
        if model.classes is None:
            words = f"root mean square error {np.sqrt(value):.6g}"
        console.note(f"{words} over {int(tally[0]):,} records (diagnostic: reads private data)")


def _judge(tally: Any, records: Encoded, guesses: Any, model: Model) -> None:
    rows = records.good
    tally[0] += len(rows)
    if model.classes is not None:
        tally[1] += np.count_nonzero(guesses[rows] == records.y[rows])
    else:
        tally[1] += float(np.sum((guesses[rows] - records.y[rows]) ** 2))


class _Writer:
    """Writes predictions as CSV with a header, or as JSON lines."""

    def __init__(self, file: IO[str], model: Model, probabilities: bool, as_json: bool) -> None:
        self.file, self.model = file, model
        self.probabilities, self.as_json = probabilities, as_json
        self.classes = model.classes or ()
        self._csv: Any = csv.writer(file, lineterminator="\n")
        if not as_json:
            more = [f"probability of {name}" for name in self.classes] if probabilities else []
            self._csv.writerow([f"predicted {model.target}", *more])

    def write(self, X: Any, guesses: Any) -> None:
        odds = self.model.probabilities(X) if self.probabilities else None
        for row, guess in enumerate(guesses.tolist()):
            chances = [] if odds is None else [round(p, 6) for p in odds[row].tolist()]
            if self.as_json:
                line: dict[str, Any] = {"prediction": guess}
                if chances:
                    line["probabilities"] = dict(zip(self.classes, chances, strict=True))
                self.file.write(json.dumps(line) + "\n")
            else:
                self._csv.writerow([guess, *chances])
