"""Records in the memory of a device: passes run there, sums come back, noise and accounting stay on the host.

`OnDevice` is to arrays of PyTorch, CuPy or any other library of the array API what `reticent.solve.blocks.InMemory` is
to arrays of NumPy. Where CuPy is there and the array lies on an NVIDIA device, gradients come from one fused kernel
(`reticent.devices.cuda`); everything else is plain array operations (`reticent.devices.plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from reticent._checks import FloatArray
from reticent.devices import cuda, plain
from reticent.erm import _passes, _sums
from reticent.solve.blocks import AS_IT_IS, AsGiven, Form, IsClass, Meaning, Pass, Within

_NUMBERS = 2**26
"""Numbers in double precision that a pass works on at a time: half a gigabyte."""


def is_device_array(X: Any) -> bool:
    """Whether X is an array that is not NumPy's, of a library that follows the array API.

    Examples
    --------
    >>> is_device_array(np.ones(3)), is_device_array([1.0])
    (False, False)
    """
    return array_api_compat.is_array_api_obj(X) and not array_api_compat.is_numpy_array(X) and (
        not array_api_compat.is_dask_array(X) and not array_api_compat.is_pydata_sparse_array(X)
    )


def to_host(array: Any) -> Any:
    """A NumPy array with the same numbers, in memory of its own."""
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
    """1 where a label is this class, else -1, as small integers in memory of our own."""
    xp = array_api_compat.array_namespace(labels)
    return xp.astype(labels == name, xp.int8) * 2 - 1


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Records in arrays of a device.

    Parameters
    ----------
    rows : array
        One row for each record, in single or double precision.
    labels : array, optional
        One number for each record, on the same device.
    weights : array, optional
        One for each record, of NumPy or on the same device.
    form : Form
        How a row becomes the features of a loss.
    labels_are : AsGiven, IsClass or Within
        What the labels stand for.
    """

    rows: Any
    labels: Any = None
    weights: Any = None
    form: Form = AS_IT_IS
    labels_are: Meaning = AsGiven()  # noqa: RUF009 (frozen)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self.form.dim(int(self.rows.shape[1]))

    @cached_property
    def _xp(self) -> Any:
        return array_api_compat.array_namespace(self.rows)

    @cached_property
    def _fused(self) -> Any:
        """The rows as CuPy sees them, where the fused kernel can read them."""
        return cuda.view(self.rows)

    @property
    def units(self) -> float:
        """Of 2^-53: how far rounding may take a sum from the exact one, relative to the sum of norms."""
        return plain.UNITS  # no less than the kernel's: which of the two runs must not change the noise

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

    def map(self, work: Pass) -> Iterator[FloatArray]:
        """The results of a pass, for parts of the records; each part is a sum over at most 2^14 rows."""
        run = _RUNS.get(type(work)) or _RUNS.get(work)  # type: ignore[call-overload]
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
            "this solver reads all records at once, on the host: call fit with a NumPy array, or choose a solver that "
            "goes by passes (objective-perturbation, sufficient-statistics, gradient-descent)"
        )

    def chunks(self, numbers: int = _NUMBERS) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
        """Rows in their form, a constant included, labels, weights, and which were cut and which finite."""
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


def _clipped_slopes(table: OnDevice, loss: _passes.Scalar, z: Any, y: Any, w: Any) -> Any:
    xp = table._xp
    found = plain.slopes(xp, loss.kind, loss.params, z, y)
    bound = loss.bound if np.isfinite(loss.bound) else None
    found = found if bound is None else xp.clip(found, min=-bound, max=bound)
    found = xp.where(xp.isnan(found), xp.zeros_like(found), found)
    return found if w is None else found * w


def _by_parts(xp: Any, left: Any, right: Any) -> Iterator[FloatArray]:
    """left' right of every 2^14 rows: two matrices, or a vector and a matrix."""
    whole = int(left.shape[0]) // plain.ROWS * plain.ROWS
    flat = left.ndim == 1
    left = left[:, None] if flat else left
    if whole:
        a = xp.reshape(left[:whole, :], (-1, plain.ROWS, int(left.shape[1])))
        b = xp.reshape(right[:whole, :], (-1, plain.ROWS, int(right.shape[1])))
        for part in to_host(xp.matmul(xp.matrix_transpose(a), b)):
            yield part[0] if flat else part
    if whole < int(left.shape[0]):
        part = to_host(xp.matmul(xp.matrix_transpose(left[whole:, :]), right[whole:, :]))
        yield part[0] if flat else part


def _slope_sum(table: OnDevice, work: _passes.SlopeSum) -> Iterator[FloatArray]:
    if table._fused is not None and work.loss.kind in cuda.KINDS:
        yield from cuda.slope_sums(
            table._fused, table._labels, table._weights, work.x, table.form, work.loss.kind, work.loss.params,
            work.loss.bound,
        )  # fmt: skip
        return
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        yield from _by_parts(table._xp, _clipped_slopes(table, work.loss, z, y, w), rows)


def _values(table: OnDevice, work: _passes.Values) -> Iterator[FloatArray]:
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        found = plain.values(table._xp, work.loss.kind, work.loss.params, z, y)
        found = found * w if work.weighted and w is not None else found
        yield np.array([float(table._xp.sum(found))])


def _along(table: OnDevice, work: _passes.Along) -> Iterator[FloatArray]:
    if table._fused is not None and work.loss.kind in cuda.KINDS:
        for part in _slope_sum(table, _passes.SlopeSum(work.loss, work.x)):
            yield np.array([part @ work.d])
        return
    for rows, y, w, _, _ in table.chunks():
        z = table.predictors_of(rows, work.x)
        found = _clipped_slopes(table, work.loss, z, y, w) * table.predictors_of(rows, work.d)
        yield np.array([float(table._xp.sum(found))])


def _bends(table: OnDevice, loss: _passes.Scalar, rows: Any, x: FloatArray, y: Any, w: Any) -> Any:
    found = plain.bends(table._xp, loss.kind, loss.params, table.predictors_of(rows, x), y)
    return found if w is None else found * w


def _curvature(table: OnDevice, work: _passes.Curvature) -> Iterator[FloatArray]:
    xp = table._xp
    for rows, y, w, _, _ in table.chunks():
        roots = xp.sqrt(_bends(table, work.loss, rows, work.x, y, w))
        scaled = rows * roots[:, None]
        scaled = xp.astype(scaled, xp.float32) if work.single else scaled
        yield to_host(xp.matmul(xp.matrix_transpose(scaled), scaled)).astype(np.float64)


def _curvature_times(table: OnDevice, work: _passes.CurvatureTimes) -> Iterator[FloatArray]:
    for rows, y, w, _, _ in table.chunks():
        found = _bends(table, work.loss, rows, work.x, y, w) * table.predictors_of(rows, work.v)
        yield from _by_parts(table._xp, found, rows)


def _survey(table: OnDevice, work: _passes.Survey) -> Iterator[FloatArray]:
    xp, start = table._xp, 0
    for rows, _, _, beyond, finite in table.chunks():
        refused = int(xp.sum(xp.astype(~finite, xp.int64)))
        first = int(xp.argmax(xp.astype(~finite, xp.int8))) if refused else 0
        yield np.array([int(xp.sum(xp.astype(beyond, xp.int64))), refused, start + first])
        start += int(rows.shape[0])


def _products(table: OnDevice, work: Pass) -> Iterator[FloatArray]:
    xp = table._xp
    for rows, y, _, _, _ in table.chunks(_NUMBERS // 4):
        yield from _by_parts(xp, rows, xp.concat([rows, y[:, None]], axis=1))


_RUNS: dict[Any, Callable[[OnDevice, Any], Iterator[FloatArray]]] = {
    _passes.SlopeSum: _slope_sum,
    _passes.Values: _values,
    _passes.Along: _along,
    _passes.Curvature: _curvature,
    _passes.CurvatureTimes: _curvature_times,
    _passes.Survey: _survey,
    _sums.products: _products,
}
"""The device's own way of every pass."""
