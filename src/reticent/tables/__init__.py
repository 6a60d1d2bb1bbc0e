"""Tables for estimators: schemas, encoders, sources of records, and model files.

A :class:`Schema` states what is known about the columns without looking at the records, an :class:`Encoder` turns
records into features according to it, and a :class:`Model` is what `reticent learn` writes and `reticent predict`
reads. This package draws no noise and spends no privacy. Support for tables in files needs compiled code, which is
loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reticent.tables.drafting import draft
from reticent.tables.encoder import Contrasts, Encoded, Encoder
from reticent.tables.model import Model
from reticent.tables.schema import Column, Schema, TableError
from reticent.tables.sources import (
    Source,
    batches,
    count_records,
    open_records,
    open_source,
    read,
)

if TYPE_CHECKING:
    from reticent.tables.formats import open, open_encoded
    from reticent.tables.stored import StoredLabels, StoredRows

__all__ = [
    "Column",
    "Contrasts",
    "Encoded",
    "Encoder",
    "Model",
    "Schema",
    "Source",
    "StoredLabels",
    "StoredRows",
    "TableError",
    "batches",
    "count_records",
    "draft",
    "open",
    "open_encoded",
    "open_records",
    "open_source",
    "read",
]

_STORED = {
    "StoredLabels": "stored",
    "StoredRows": "stored",
    "open": "formats",
    "open_encoded": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in _STORED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"reticent.tables.{_STORED[name]}"), name)
