"""Wrap arrays that are not in this process's memory in tables that an estimator's ``fit`` reads in blocks."""

from __future__ import annotations

from typing import Any


def adapted(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Arrays of Dask or of a device, ready for ``fit`` and ``predict``; anything else unchanged.

    Parameters
    ----------
    X : array or data frame
        One row per record.
    y : array, optional
        One label per record.

    Returns
    -------
    X, y
        Tables and labels that are read where they are stored.
    """
    from reticent.tables import clusters

    if clusters.is_dask(X):
        return clusters.on_cluster(X, y)
    try:
        from reticent.devices import records as devices
    except ImportError:  # without array-api-compat no other library is known
        return X, y
    return devices.on_device(X, y) if devices.is_device_array(X) else (X, y)
