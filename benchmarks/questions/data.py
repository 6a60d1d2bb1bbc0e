"""Data for the questions: bundled with scikit-learn, drawn here, or read from the folder of real data.

The folder is the one that RETICENT_DATA names, else ``../shared/data`` beside the checkout.

Rows are scaled to norm one beforehand, ours and the peers' alike, so that no library's clipping
decides.
"""

from __future__ import annotations

from typing import Any

import erm_accuracy
import numpy as np

CLASSIFICATION = erm_accuracy.CLASSIFICATION
unit_rows = erm_accuracy.unit_rows
split = erm_accuracy.split


class Missing(Exception):
    """A file of real data is not there."""


def _guarded(load: Any, name: str) -> Any:
    try:
        return load()
    except FileNotFoundError as error:
        raise Missing(f"there is no such file in the folder of RETICENT_DATA ({name})") from error


def sparse(name: str) -> tuple[Any, np.ndarray]:
    return _guarded(lambda: erm_accuracy.sparse(name), name)


def classification(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = _guarded(CLASSIFICATION[name], name)
    return unit_rows(X), y


def file(name: str) -> Any:
    path = erm_accuracy.folder() / name
    if not path.exists():
        raise Missing(f"there is no {name} in the folder of RETICENT_DATA")
    return path
