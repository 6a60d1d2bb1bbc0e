"""Records in the memory of a device: passes run there, sums come back, noise and accounting stay on the host.

`OnDevice` is the counterpart of `reticent.solve.blocks.InMemory` for arrays of PyTorch, CuPy or any other library of
the array API. If CuPy is installed and the array is on an NVIDIA device, gradients come from one fused kernel
(`reticent.devices.cuda`); everything else uses plain array operations (`reticent.devices.plain`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import array_api_compat
import numpy as np

from reticent.checks import FloatArray
from reticent.devices import cuda, plain
from reticent.erm import passes
from reticent.erm.passes import surveyed
from reticent.solve.blocks import (
    AS_IT_IS,
    UNLIMITED,
    AsGiven,
    Form,
    IsClass,
    LabelCheck,
    Meaning,
    Pass,
    Within,
    checksum,
    ends,
    rows_per_block,
)

_LEAST = 1e-140
"""Squares of rows of this norm are far above the smallest doubles, even in what underflows."""
_NUMBERS = 2**26
"""Numbers in double precision that a pass processes at a time: half a gigabyte."""


def is_device_array(X: Any) -> bool:
    """Whether X is an array of a library that follows the array API, and not NumPy's own.

    Parameters
    ----------
    X : object
        Any object.

    Examples
    --------
    >>> is_device_array(np.ones(3)), is_device_array([1.0])
    (False, False)
    """
    others = (
        array_api_compat.is_numpy_array,
        array_api_compat.is_dask_array,
        array_api_compat.is_pydata_sparse_array,
    )
    return array_api_compat.is_array_api_obj(X) and not any(is_other(X) for is_other in others)


def on_device(X: Any, y: Any = None) -> tuple[DeviceRows, DeviceLabels | None]:
    """Arrays of a device as a table.

    Parameters
    ----------
    X : array
        One row per record, of a library that follows the array API.
    y : array, optional
        One label per record, of the same library on the same device, or in the host's memory.
    """
    xp = array_api_compat.array_namespace(X)
    if X.ndim != 2 or int(X.shape[0]) == 0 or int(X.shape[1]) == 0:
        raise ValueError(
            f"X must have one row for each record and at least one column, got shape {tuple(X.shape)}"
        )
    if not xp.isdtype(X.dtype, ("real floating", "integral", "bool")):
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}; convert it to float32")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64 if xp.isdtype(X.dtype, "integral") else xp.float32)
    if y is None:
        return DeviceRows(X), None
    if not is_device_array(y):
        host = np.asarray(y)
        if host.dtype.kind not in "iufb":
            raise TypeError(
                f"labels on a device must be numbers, got {host.dtype}; encode them, and list the numbers in classes="
            )
        y = like(X, host)
    if tuple(y.shape) != (int(X.shape[0]),):
        raise ValueError(
            f"y must have one label for each of the {int(X.shape[0])} rows, got shape {tuple(y.shape)}"
        )
    places = array_api_compat.device(X), array_api_compat.device(y)
    if type(y) is not type(X) or places[0] != places[1]:
        raise ValueError(
            f"X is on {places[0]} ({type(X).__module__}) and y on {places[1]} ({type(y).__module__}); move one of them "
            "to the device of the other"
        )
    return DeviceRows(X), DeviceLabels(y)


@dataclass(frozen=True, eq=False)
class DeviceLabels:
    """Labels on a device.

    Parameters
    ----------
    array : array
        One label for each record.
    """

    array: Any

    def distinct(self) -> Any:
        """All values there are, sorted, on the host."""
        xp = array_api_compat.array_namespace(self.array)
        return np.unique(to_host(xp.unique_values(self.array)))

    def in_memory(self) -> Any:
        """All labels, on the host."""
        return to_host(self.array)


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Features on a device.

    Parameters
    ----------
    array : array
        One row for each record.
    """

    array: Any
    names: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.array.shape[0]), int(self.array.shape[1])

    def blocks(self) -> Iterator[Any]:
        """The rows on the host, some at a time."""
        rows = rows_per_block(self.shape[1])
        for start, stop in ends(self.shape[0], rows):
            yield to_host(self.array[start:stop, :])

    def records(self, labels: Any, form: Form, check: LabelCheck) -> OnDevice:
        """Records for a solver: one pass reads and checks all of them."""
        if not isinstance(labels, DeviceLabels):
            raise TypeError("y must be given with X")
        beyond = 0.0
        if check.by_value:
            check(labels.distinct(), 0)
        else:
            for start, stop in ends(self.shape[0], 2**22):
                beyond += check(to_host(labels.array[start:stop]), start)
        table = OnDevice(self.array, labels.array, None, form, beyond=beyond)
        return replace(table, clipped=surveyed(table))


def to_host(array: Any) -> Any:
    """A copy as a NumPy array."""
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy().copy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    return np.array(np.from_dlpack(array))


def like(array: Any, numbers: Any) -> Any:
    """Numbers of the host as an array of the same library, on the same device."""
    xp = array_api_compat.array_namespace(array)
    return xp.asarray(np.ascontiguousarray(numbers), device=array_api_compat.device(array))


def signs(labels: Any, name: Any) -> Any:
    """1 for labels of this class, else -1, as small integers in a private copy."""
    xp = array_api_compat.array_namespace(labels)
    value = name.item() if isinstance(name, np.generic) else name
    return xp.astype(labels == value, xp.int8) * 2 - 1


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Records in arrays of a device.

    Parameters
    ----------
    rows : array
        One row per record, in single or double precision.
    labels : array, optional
        One number per record, on the same device.
    weights : array, optional
        One weight per record, of NumPy or on the same device.
    form : Form
        How a row becomes the features of a loss.
    labels_are : AsGiven, IsClass or Within
        Meaning of the labels.
    clipped : int, optional
        Number of rows that are longer than their form allows, if it has been counted.
    beyond : float
        Number of labels beyond their bounds.
    """

    rows: Any
    labels: Any = None
    weights: Any = None
    form: Form = AS_IT_IS
    labels_are: Meaning = AsGiven()  # noqa: RUF009 (frozen)
    clipped: int | None = None
    beyond: float = 0.0  # what the check of the labels added up to

    def __post_init__(self) -> None:
        limit = self.form.unit * self.form.length
        if not _LEAST <= limit <= UNLIMITED:
            raise ValueError(
                f"rows on a device are clipped to norms between {_LEAST:g} and {UNLIMITED:g}, got {limit:g}: other "
                "squares underflow or overflow, and rows would not be clipped. Rescale the features and feature_norm, "
                "or copy the records to the host"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self.form.dim(int(self.rows.shape[1]))

    @cached_property
    def _xp(self) -> Any:
        return array_api_compat.array_namespace(self.rows)

    @cached_property
    def _fused(self) -> tuple[Any, Any, Any] | None:
        """Rows, labels and weights as CuPy sees them, where the fused kernel can read them."""
        return cuda.views(self.rows, self._labels, self._weights)

    @property
    def units(self) -> float:
        """Bound on the rounding of a sum, in units of 2^-53 times the sum of norms."""
        return (
            plain.UNITS
        )  # no less than the kernel's: the noise must not depend on which of the two runs

    @cached_property
    def _labels(self) -> Any:
        """What the labels stand for, in memory of our own: signs as small integers, else doubles."""
        if self.labels is None:
            return None
        xp, means = self._xp, self.labels_are
        if isinstance(means, IsClass):
            return signs(self.labels, means.name)
        y = xp.astype(self.labels, xp.float64, copy=True)
        if isinstance(means, Within):
            y = xp.clip(y, min=means.low, max=means.high)
            y = xp.clip((y - means.low) / (means.high - means.low) * 2.0 - 1.0, min=-1.0, max=1.0)
        return y

    @cached_property
    def _weights(self) -> Any:
        if self.weights is None or is_device_array(self.weights):
            return self.weights
        return like(self.rows, self.weights)

    @cached_property
    def identity(self) -> list[int]:
        """Checksums that identify the records; the records are copied to the host once for that."""
        others = (a for a in (self.labels, self._weights) if a is not None)
        blocks = itertools.chain(DeviceRows(self.rows).blocks(), map(to_host, others))
        return [checksum(np.ascontiguousarray(block)) for block in blocks]

    def map(self, work: Pass) -> Iterator[FloatArray]:
        """The results of a pass, for parts of the records; each part is the sum over some of them."""
        run = _RUNS.get(type(work))
        if run is None:
            raise TypeError(f"{work!r} has no device code; move the records to the host")
        return iter(run(self, work))

    def thinned(self, every: int) -> OnDevice:
        xp = self._xp

        def some(array: Any) -> Any:
            return None if array is None else xp.asarray(array[::every], copy=True)

        rows = xp.asarray(self.rows[::every, :], copy=True)
        return replace(self, rows=rows, labels=some(self.labels), weights=some(self._weights))

    def meaning(self, labels: Meaning) -> OnDevice:
        return replace(self, labels_are=labels)

    def matrix(self) -> Any:
        raise TypeError(
            "this solver needs all records in the host's memory: call fit with a NumPy array, or choose a solver "
            "that works by "
            "passes (objective-perturbation, sufficient-statistics, gradient-descent)"
        )

    def chunks(self, numbers: int = _NUMBERS) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
        """Rows in their form, with the constant, labels, weights, and which rows were clipped or are not finite."""
        xp, (count, dim) = self._xp, self.shape
        size = plain.ROWS * max(1, numbers // (plain.ROWS * dim))
        for start in range(0, count, size):
            here = slice(start, min(count, start + size))
            rows, beyond, finite = plain.rows_in_form(xp, self.rows[here, :], self.form)
            if self.form.constant:
                column = xp.astype(finite, xp.float64)[:, None] * self.form.constant
                rows = xp.concat([rows, column], axis=1)
            y = None if self._labels is None else xp.astype(self._labels[here], xp.float64)
            w = None if self._weights is None else xp.astype(self._weights[here], xp.float64)
            yield rows, y, w, beyond, finite

    def predictors_of(self, rows: Any, x: FloatArray) -> Any:
        return rows @ like(self.rows, x)


def _clipped_slopes(table: OnDevice, loss: passes.Scalar, z: Any, y: Any, w: Any) -> Any:
    xp = table._xp
    found = plain.slopes(xp, loss.kind, loss.params, z, y)
    bound = loss.bound if np.isfinite(loss.bound) else None
    found = found if bound is None else xp.clip(found, min=-bound, max=bound)
    found = xp.where(xp.isnan(found), xp.zeros_like(found), found)
    return found if w is None else found * w


def _by_parts(xp: Any, left: Any, right: Any) -> Iterator[FloatArray]:
    """Parts of left' right: two matrices, or a vector and a matrix. See `plain.UNITS` for how they are added."""
    flat = left.ndim == 1
    left = left[:, None] if flat else left
    wide, dim = int(left.shape[1]), int(right.shape[1])
    count, start = int(left.shape[0]), 0
    for size in (plain.ROWS * plain.PARTS, plain.ROWS, 1):
        stop = start + (count - start) // size * size if size > 1 else count
        if stop == start:
            continue
        many, rows = ((stop - start) // size, plain.ROWS) if size > 1 else (1, stop - start)
        shape = (many * max(1, size // plain.ROWS), rows)
        a = xp.reshape(left[start:stop, :], (*shape, wide))
        b = xp.reshape(right[start:stop, :], (*shape, dim))
        parts = xp.reshape(xp.matmul(xp.matrix_transpose(a), b), (many, -1, wide, dim))
        for part in to_host(xp.sum(parts, axis=1)):
            yield part[0] if flat else part
        start = stop


def _slope_sum(table: OnDevice, work: passes.SlopeSum) -> Iterator[FloatArray]:
    if table._fused is not None and work.loss.kind in cuda.KINDS:
        loss = work.loss
        yield cuda.slope_sums(*table._fused, work.x, table.form, loss.kind, loss.params, loss.bound)
        return
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        yield from _by_parts(table._xp, _clipped_slopes(table, work.loss, z, y, w), rows)


def _values(table: OnDevice, work: passes.Values) -> Iterator[FloatArray]:
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        found = plain.values(table._xp, work.loss.kind, work.loss.params, z, y)
        found = found * w if work.weighted and w is not None else found
        yield np.array([float(table._xp.sum(found))])


def _slope_squares(table: OnDevice, work: passes.SlopeSquares) -> Iterator[FloatArray]:
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        found = _clipped_slopes(table, work.loss, z, y, None)
        yield from _by_parts(table._xp, found if w is None else found * w, found[:, None])


def _along(table: OnDevice, work: passes.Along) -> Iterator[FloatArray]:
    if table._fused is not None and work.loss.kind in cuda.KINDS:
        for part in _slope_sum(table, passes.SlopeSum(work.loss, work.x)):
            yield np.array([part @ work.d])
        return
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        found = _clipped_slopes(table, work.loss, z, y, w) * table.predictors_of(rows, work.d)
        yield np.array([float(table._xp.sum(found))])


def _bends(table: OnDevice, loss: passes.Scalar, rows: Any, x: FloatArray, y: Any, w: Any) -> Any:
    found = plain.bends(table._xp, loss.kind, loss.params, table.predictors_of(rows, x), y)
    return found if w is None else found * w


def _curvature(table: OnDevice, work: passes.Hessian) -> Iterator[FloatArray]:
    xp = table._xp
    for rows, y, w, _, _ in table.chunks():
        roots = xp.sqrt(_bends(table, work.loss, rows, work.x, y, w))
        scaled = rows * roots[:, None]
        scaled = xp.astype(scaled, xp.float32) if work.single else scaled
        yield to_host(xp.matmul(xp.matrix_transpose(scaled), scaled)).astype(np.float64)


def _curvature_times(table: OnDevice, work: passes.HessianTimes) -> Iterator[FloatArray]:
    for rows, y, w, _, _ in table.chunks():
        found = _bends(table, work.loss, rows, work.x, y, w) * table.predictors_of(rows, work.v)
        yield from _by_parts(table._xp, found, rows)


def _survey(table: OnDevice, work: passes.Survey) -> Iterator[FloatArray]:
    xp, start = table._xp, 0
    for rows, _, _, beyond, finite in table.chunks():
        refused = int(xp.sum(xp.astype(~finite, xp.int64)))
        first = int(xp.argmax(xp.astype(~finite, xp.int8))) if refused else 0
        yield np.array([int(xp.sum(xp.astype(beyond, xp.int64))), refused, start + first])
        start += int(rows.shape[0])


def _products(table: OnDevice, work: Pass) -> Iterator[FloatArray]:
    xp = table._xp
    for rows, y, _, _, _ in table.chunks(_NUMBERS // 4):
        for part in _by_parts(xp, rows, xp.concat([rows, y[:, None]], axis=1)):
            yield np.concatenate([part[:, :-1].ravel(), part[:, -1]])


_RUNS: dict[Any, Callable[[OnDevice, Any], Iterator[FloatArray]]] = {
    passes.SlopeSum: _slope_sum,
    passes.SlopeSquares: _slope_squares,
    passes.Values: _values,
    passes.Along: _along,
    passes.Hessian: _curvature,
    passes.HessianTimes: _curvature_times,
    passes.Survey: _survey,
    passes.Products: _products,
}
"""The implementation of every pass on a device."""
