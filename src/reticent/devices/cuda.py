"""Passes over records on an NVIDIA device: one kernel that reads every row once, compiled by CuPy for what is asked.

Records of CuPy, PyTorch or any other library enter without a copy by ``__cuda_array_interface__``. Where CuPy is not
installed, or rows are wider than a warp's registers, `reticent.devices.plain` does the same with plain
array operations.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.losses import kernels
from reticent.solve.blocks import Form

KINDS = (
    kernels.LOGISTIC, kernels.SQUARED, kernels.SMOOTH_HINGE, kernels.HUBER, kernels.POISSON, kernels.CAPPED_LOGISTIC,
)  # fmt: skip
"""Losses that the kernel knows."""
WIDEST = 1024
"""Columns that the registers of a warp can hold."""
UNITS = 1024.0
"""Of 2^-53 and of the sum of absolute values: a bound on the rounding of each coordinate of a sum.

256 rows in a register and their products, 5 rounds between groups, 4 warps, blocks 256 at a time on the device (twice
for more than 6.7e7 records) and at most 256 in pairs on the host; and room to spare.
"""
_PER_REGISTER, _WARPS, _FOLD = 256, 4, 256
_SOURCE = Path(__file__).with_name("pass.cu")
_C_TYPES = {
    "float32": "float", "float64": "double", "int8": "signed char", "uint8": "unsigned char",
    "int16": "short", "int32": "int", "int64": "long long",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a row is dealt out to threads.

    Parameters
    ----------
    lanes : int
        Threads that share a row.
    numbers : int
        Numbers of the row that each of them holds.
    wide : int
        Numbers that are loaded at once.
    groups : int
        Rows that each of them holds at the same time.
    resident : int
        Blocks of threads that share a multiprocessor.
    """

    lanes: int
    numbers: int
    wide: int
    groups: int
    resident: int

    @classmethod
    def of(cls, columns: int, stride: int, address: int, itemsize: int) -> Layout:
        """For so many columns; wide loads where rows are aligned for them.

        Examples
        --------
        >>> Layout.of(50, 50, 512, 4)
        Layout(lanes=8, numbers=8, wide=2, groups=4, resident=4)
        >>> Layout.of(500, 500, 512, 4)
        Layout(lanes=32, numbers=16, wide=4, groups=4, resident=2)
        """
        wide = 16 // itemsize
        while wide > 1 and (columns % wide or stride % wide or address % (wide * itemsize)):
            wide //= 2
        lanes = 4
        while lanes < 32 and lanes * 8 < columns:
            lanes *= 2
        numbers = -(-columns // (lanes * wide)) * wide
        # Measured on an H200: many threads with few rows each where rows are short, else few with many.
        room, resident = (128, 4) if numbers * itemsize <= 32 else (256, 2)
        groups = 1
        while 2 * groups <= lanes and 2 * groups * numbers * itemsize <= room:
            groups *= 2
        return cls(lanes, numbers, wide, groups, resident)

    @property
    def rows_per_block(self) -> int:
        return _PER_REGISTER * (32 // self.lanes) * _WARPS


def view(rows: Any) -> Any:
    """The same memory as CuPy sees it; None where the fused kernel cannot read it."""
    if not hasattr(rows, "__cuda_array_interface__") and not hasattr(rows, "__dlpack__"):
        return None
    try:
        import cupy

        seen = cupy.asarray(rows)
    except Exception:  # no CuPy, no such device, an array on the host: plain operations will do
        return None
    right = str(seen.dtype) in ("float32", "float64") and seen.strides[1] == seen.itemsize
    return seen if right and 0 < seen.shape[1] <= WIDEST else None


@functools.cache
def _module(layout: Layout, columns: int, kind: int, types: tuple[str, ...], weighted: bool) -> Any:
    import cupy

    given = {
        "T": types[0], "L": types[1], "W": types[2], "D": columns, "LANES": layout.lanes, "V": layout.numbers,
        "WIDE": layout.wide, "R": layout.groups, "RESIDENT": layout.resident, "KIND": kind, "WEIGHTED": int(weighted),
    }  # fmt: skip
    head = "".join(f"#define {name} {value}\n" for name, value in given.items())
    return cupy.RawModule(code=head + _SOURCE.read_text(), options=("--std=c++17",))


def slope_sums(
    X: Any,
    labels: Any,
    weights: Any,
    x: FloatArray,
    form: Form,
    kind: int,
    params: FloatArray,
    bound: float,
) -> FloatArray:
    """Sums of the rows by their slopes at x, for at most 256 parts of the records.

    Parameters
    ----------
    X : cupy.ndarray
        One row for each record, as they came.
    labels : array
        On the same device.
    weights : array or None
        On the same device.
    x : array
        The point, its entry for the constant feature included.
    form : Form
        How a row becomes the features of a loss.
    kind : int
        Of the loss, as in `reticent.losses.kernels`.
    params : array
        Its parameters.
    bound : float
        Slopes are clipped to this.

    Returns
    -------
    array of shape (parts, dim)
    """
    import cupy

    with cupy.cuda.Device(X.device.id):
        rows, columns = X.shape
        stride = X.strides[0] // X.itemsize
        labels = cupy.asarray(labels)
        weights = X if weights is None else cupy.asarray(weights)
        layout = Layout.of(columns, stride, X.data.ptr, X.itemsize)
        types = tuple(_C_TYPES[str(a.dtype)] for a in (X, labels, weights))
        module = _module(layout, columns, kind, types, weights is not X)
        blocks = -(-rows // layout.rows_per_block)
        partial = cupy.empty((blocks, columns + 1))
        p = np.zeros(2)
        p[: len(params)] = params[:2]
        offset = form.constant * float(x[columns]) if form.constant else 0.0
        numbers = map(np.float64, (offset, form.unit, form.length, p[0], p[1], min(bound, 1e300)))
        module.get_function("sums")(
            (blocks,), (_WARPS * 32,),
            (X, np.int64(rows), np.int64(stride), labels, weights, cupy.asarray(x[:columns]), *numbers, partial),
        )  # fmt: skip
        while len(partial) > _FOLD:
            folded = cupy.empty((-(-len(partial) // _FOLD), columns + 1))
            grid = (len(folded), -(-(columns + 1) // 64))
            module.get_function("fold")(grid, (64,), (partial, np.int64(len(partial)), folded))
            partial = folded
        parts = partial.get()
    if not form.constant:
        return parts[:, :columns]
    parts[:, columns] *= form.constant
    return parts
