"""Many small tasks over the cores of one machine, with a progress line.

Considered: joblib, which scikit-learn brings; the standard library's pool does the same here, and
stops at once when interrupted.

Tasks come back in their own order, not in the order in which they finish, so that a result does not
depend on how many cores there were.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from reticent.trace.progress import Progress

T = TypeVar("T")

FEW = 3  # tasks for which starting another interpreter does not pay


def _quiet_worker() -> None:
    # One thread of linear algebra in each process: the cores are taken by the processes.
    threadpool_limits(1)


def sweep(
    work: Callable[..., T],
    tasks: Sequence[tuple[Any, ...]],
    *,
    label: str,
    jobs: int | None = None,
    shown: bool = False,
) -> list[T]:
    """Call ``work(*task)`` for every task and give back what each returned, in order.

    Parameters
    ----------
    work
        A function of a module, so that another process can find it.
    tasks
        Its arguments, plain data.
    jobs
        How many processes; by default as many as there are cores, and none but this one for a few
        tasks.
    shown
        Whether to draw a progress line on standard error.

    Examples
    --------
    >>> sweep(pow, [(2, 3), (3, 2)], label="powers")
    [8, 9]
    """
    cores = jobs if jobs is not None else len(os.sched_getaffinity(0)) if hasattr(
        os, "sched_getaffinity") else os.cpu_count() or 1  # fmt: skip
    with Progress(label, size=len(tasks), shown=shown) as progress:
        if cores == 1 or len(tasks) <= FEW:
            found = []
            with threadpool_limits(1):  # the same sums in the same order as in a pool
                for task in tasks:
                    found.append(work(*task))
                    progress.advance(1)
            return found
        # A fresh interpreter each: forking a process that has threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(
            min(cores, len(tasks)), mp_context=context, initializer=_quiet_worker
        )
        try:
            places: dict[Future[T], int] = {
                pool.submit(work, *task): place for place, task in enumerate(tasks)
            }
            results: dict[int, T] = {}
            for future in as_completed(places):
                results[places[future]] = future.result()
                progress.advance(1)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [results[place] for place in range(len(tasks))]
