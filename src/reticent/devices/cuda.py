"""Passes over records on an NVIDIA device: one fused kernel that reads every row once, compiled by CuPy.

Records of CuPy, PyTorch or any other library are used without a copy through ``__cuda_array_interface__``. If CuPy is
not installed, or rows are wider than a warp's registers, `reticent.devices.plain` does the same with plain array
operations.
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
    kernels.LOGISTIC,
    kernels.SQUARED,
    kernels.SMOOTH_HINGE,
    kernels.HUBER,
    kernels.POISSON,
    kernels.CAPPED_LOGISTIC,
)
"""Losses that the kernel supports."""
WIDEST = 1024
"""Largest number of columns that the registers of a warp can hold."""
UNITS = 1024.0
"""Bound on the rounding of each coordinate of a sum, in units of 2^-53 times the sum of absolute values.

256 rows in a register and their products, 5 rounds between groups, 4 warps, blocks 256 at a time on the device (twice
for more than 6.7e7 records) and at most 256 in pairs on the host; and a safety margin.
"""
_PER_REGISTER, _WARPS, _FOLD = 256, 4, 256
_SOURCE = Path(__file__).with_name("pass.cu")
_C_TYPES = {
    "<f4": "float",
    "<f8": "double",
    "|i1": "signed char",
    "|u1": "unsigned char",
    "<i2": "short",
    "<i4": "int",
    "<i8": "long long",
}
_GIVEN = np.dtype(
    [("count", "i8"), *((name, "f8") for name in ("offset", "unit", "length", "p0", "p1", "bound"))]
)
"""`Numbers` of the kernel: passing one argument by value is faster than passing seven."""
_AS_ONE = np.dtype(f"V{_GIVEN.itemsize}")
_ROOM = 96 * 2**10 + 8 * (WIDEST + 1)


@dataclass(frozen=True)
class Layout:
    """How a row is distributed over threads.

    Parameters
    ----------
    lanes : int
        Threads that share a row.
    numbers : int
        Numbers of the row per thread.
    wide : int
        Numbers that are loaded at once.
    groups : int
        Rows that each thread holds at the same time.
    stages : int
        Batches of rows that fit on the multiprocessor: one is being processed, the others are being loaded.
    """

    lanes: int
    numbers: int
    wide: int
    groups: int
    stages: int

    @classmethod
    def of(
        cls, columns: int, stride: int, address: int, itemsize: int, room: int = _ROOM
    ) -> Layout:
        """For so many columns and bytes of shared memory; wide loads where rows are aligned for them.

        Examples
        --------
        >>> Layout.of(50, 50, 512, 4)
        Layout(lanes=8, numbers=8, wide=2, groups=8, stages=3)
        >>> Layout.of(500, 500, 512, 4)
        Layout(lanes=32, numbers=16, wide=4, groups=4, stages=3)
        >>> Layout.of(500, 500, 512, 4, room=48 * 2**10)
        Layout(lanes=32, numbers=16, wide=4, groups=2, stages=2)
        """
        wide = 16 // itemsize
        while wide > 1 and (columns % wide or stride % wide or address % (wide * itemsize)):
            wide //= 2
        # Measured on an H200 for 4 to 1,000 columns: few lanes, and as many rows as registers hold, are fastest.
        lanes = 2 if columns * itemsize <= 48 else 4
        while lanes < 32 and lanes * 8 < columns:
            lanes *= 2
        numbers = -(-columns // (lanes * wide)) * wide
        row, room = _WARPS * 32 * numbers * itemsize, room - 8 * (columns + 1)
        groups = 1
        while (
            2 * groups <= lanes
            and 2 * groups * numbers * itemsize <= 256
            and numbers * (2 * groups + 2) <= 112
            and 2 * (2 * groups * row) <= room
        ):
            groups *= 2
        return cls(lanes, numbers, wide, groups, 3 if 3 * groups * row <= room else 2)

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory that a block of threads needs for its batches."""
        return _WARPS * 32 * self.numbers * self.groups * self.stages * itemsize

    @property
    def rows_per_block(self) -> int:
        return _PER_REGISTER * (32 // self.lanes) * _WARPS


def views(rows: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any] | None:
    """The same memory as CuPy arrays; None if the fused kernel cannot read it.

    Parameters
    ----------
    rows : array
        One row per record.
    labels : array
        One number per record.
    weights : array or None
        One weight per record.
    """
    if not hasattr(rows, "__cuda_array_interface__") and not hasattr(rows, "__dlpack__"):
        return None
    try:
        import cupy

        seen = cupy.asarray(rows), cupy.asarray(labels)
        weights = None if weights is None else cupy.asarray(weights)
    except Exception:  # no CuPy, no such device, an array on the host: plain operations will do
        return None
    X = seen[0]
    right = str(X.dtype) in ("float32", "float64") and X.strides[1] == X.itemsize
    right = right and all(a is None or a.strides == (a.itemsize,) for a in (seen[1], weights))
    if not right or not 0 < X.shape[1] <= WIDEST:
        return None
    layout, room = _layout(X), _room(X.device.id)
    return (*seen, weights) if layout.shared(X.itemsize) + 8 * (X.shape[1] + 1) <= room else None


def _layout(X: Any) -> Layout:
    stride = X.strides[0] // X.itemsize
    return Layout.of(X.shape[1], stride, X.data.ptr, X.itemsize, _room(X.device.id))


@functools.cache
def _kernels(
    device: int,
    layout: Layout,
    shared: int,
    columns: int,
    stride: int,
    kind: int,
    types: tuple[str, ...],
    weighted: bool,
) -> tuple[Any, Any]:
    """The two kernels, compiled for this device and for arrays like these."""
    import cupy

    given = {
        "T": types[0], "L": types[1], "W": types[2], "D": columns, "STRIDE": f"{stride}ll", "LANES": layout.lanes,
        "V": layout.numbers, "WIDE": layout.wide, "R": layout.groups, "STAGES": layout.stages, "KIND": kind,
        "WEIGHTED": int(weighted),
    }  # fmt: skip
    head = "".join(f"#define {name} {value}\n" for name, value in given.items())
    module = cupy.RawModule(code=head + _SOURCE.read_text(), options=("--std=c++17",))
    sums = module.get_function("sums")
    sums.max_dynamic_shared_size_bytes = shared
    return sums, module.get_function("fold")


@functools.cache
def _room(device: int) -> int:
    """Bytes of shared memory that a block of threads may have on a device; no more than is of use."""
    import cupy

    return min(_ROOM, cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"] - 1024)


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
    """The sum of the rows times their slopes at x.

    Parameters
    ----------
    X : cupy.ndarray
        One row per record, as given.
    labels : cupy.ndarray
        Labels, on the same device.
    weights : cupy.ndarray or None
        Weights, on the same device.
    x : array
        Point, including its entry for the constant feature.
    form : Form
        How a row becomes the features of a loss.
    kind : int
        Kind of the loss, from `reticent.losses.kernels`.
    params : array
        Parameters of the loss.
    bound : float
        Bound to which slopes are clipped.

    Returns
    -------
    array of shape (dim,)
        The sum, on the host.
    """
    import cupy

    device = X.device.id
    with cupy.cuda.Device(device):
        rows, columns = X.shape
        stride = X.strides[0] // X.itemsize
        layout = _layout(X)
        weighted = weights is not None
        weights = weights if weighted else X
        types = tuple(_C_TYPES[a.dtype.str] for a in (X, labels, weights))
        shared = layout.shared(X.itemsize)
        sums, fold = _kernels(device, layout, shared, columns, stride, kind, types, weighted)
        blocks = -(-rows // layout.rows_per_block)
        partial = cupy.empty((blocks, columns + 1))
        offset = form.constant * float(x[columns]) if form.constant else 0.0
        p0, p1, *_ = *params[:2], 0.0, 0.0
        given = (rows, offset, form.unit, form.length, p0, p1, min(bound, 1e300))
        sums(
            (blocks,), (_WARPS * 32,),
            (X, labels, weights, cupy.asarray(x[:columns]), partial, np.array(given, _GIVEN).view(_AS_ONE)),
            shared_mem=shared,
        )  # fmt: skip
        while len(partial) > _FOLD:
            folded = cupy.empty((-(-len(partial) // _FOLD), columns + 1))
            grid = (len(folded), -(-(columns + 1) // 64))
            fold(grid, (64,), (partial, np.int64(len(partial)), folded))
            partial = folded
        parts = partial.get()
    while len(parts) > 1:
        even = len(parts) // 2 * 2
        parts = np.concatenate([parts[:even:2] + parts[1:even:2], parts[even:]])
    total: FloatArray = parts[0]
    if not form.constant:
        return total[:columns]
    total[columns] *= form.constant
    return total
