"""Time several things side by side, so that a noisy machine treats them alike.

The one thing a reader would get wrong: absolute times mean little on a shared machine; ratios of runs that were
interleaved do. A ratio is the median over rounds, its spread the distance between the quartiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def interleaved(tasks: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, np.ndarray]:
    """Seconds of each task in each round, after one round to warm up."""
    for task in tasks.values():
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Median and interquartile distance of first / second, round by round."""
    low, middle, high = np.quantile(first / second, [0.25, 0.5, 0.75])
    return float(middle), float(high - low)
