"""A plot made of characters, for terminals.

It is a sketch with some sixty columns. Numbers are in the text around it, and a drawing to keep
comes from ``--plot``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_MARKS = "*o+x"


def draw(
    x: Any,
    curves: Mapping[str, Any],
    *,
    across: str,
    along: str,
    log: bool = True,
    width: int = 60,
    height: int = 12,
) -> str:
    """Curves over common numbers, as lines of text.

    Examples
    --------
    >>> print(draw([1, 10], {"a": [1, 100]}, across="t", along="a", width=8, height=3))
    a
         100 |      **
             |  ****
           1 |**
             +--------
              1 .. 10, t (both logarithmic)
    """
    scale = np.log if log else np.asarray
    right = np.asarray(x, dtype=float)
    values = {name: np.asarray(y, dtype=float) for name, y in curves.items()}
    low = min(float(y.min()) for y in values.values())
    high = max(float(y.max()) for y in values.values())
    if log and low <= 0.0:
        low = min(float(y[y > 0].min()) for y in values.values())
    span = float(scale(high) - scale(low)) or 1.0
    grid = [[" "] * width for _ in range(height)]
    places = np.linspace(scale(right[0]), scale(right[-1]), width)
    for mark, y in zip(_MARKS, values.values(), strict=False):
        heights = np.interp(places, scale(right), scale(np.maximum(y, low) if log else y))
        for column, value in enumerate(heights):
            share = (float(value) - float(scale(low))) / span
            row = height - 1 - math.floor(share * (height - 1) + 0.5)
            grid[min(max(row, 0), height - 1)][column] = mark
    lines = [along if len(values) == 1 else f"{along}   " + _legend(values)]
    for number, cells in enumerate(grid):
        label = {0: f"{high:.3g}", height - 1: f"{low:.3g}"}.get(number, "")
        lines.append(f"{label:>8} |{''.join(cells)}".rstrip())
    lines.append(f"{'':>8} +{'-' * width}")
    ending = " (both logarithmic)" if log else ""
    lines.append(f"{'':>8}  {right[0]:g} .. {right[-1]:,g}, {across}{ending}")
    return "\n".join(lines)


def _legend(values: Mapping[str, Any]) -> str:
    return "  ".join(f"{mark} {name}" for mark, name in zip(_MARKS, values, strict=False))
