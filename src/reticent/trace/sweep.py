"""Run many small tasks on the cores of one machine, or on a Dask cluster, with a progress line.

Results come back in the order of the tasks, not in the order in which they finish, so they do not depend on the
number of cores. A task is run again if its worker is lost. Tasks draw noise from seeds of their own or make up their
data, and are charged to no budget.

Considered: joblib, which scikit-learn brings; the pool of the standard library does the same here, and stops at once
when interrupted.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from reticent.trace.trace import Progress

T = TypeVar("T")

WAIT = "10s"  # how long to wait for a scheduler
FEW = 3  # number of tasks up to which starting other interpreters does not pay


def _quiet_worker() -> None:
    # One thread of linear algebra in each process, because the processes already use all cores.
    threadpool_limits(1)


def _on_one_thread(work: Callable[..., T], *task: Any) -> T:
    with threadpool_limits(1):
        return work(*task)


def sweep(
    work: Callable[..., T],
    tasks: Sequence[tuple[Any, ...]],
    *,
    label: str,
    jobs: int | None = None,
    on: str | None = None,
    shown: bool = False,
) -> list[T]:
    """Call ``work(*task)`` for every task and return the results in order.

    Parameters
    ----------
    work : callable
        A function at the top level of a module, so that other processes can import it.
    tasks : sequence of tuple
        The arguments of each call, as plain data.
    label : str
        What the progress line says.
    jobs : int, optional
        Number of processes; by default the number of cores, and only this process for a few tasks.
    on : str, optional
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers do the work instead; they need
        the same version of the library.
    shown : bool
        Whether to draw a progress line on standard error.

    Returns
    -------
    list
        What each call returned.

    Examples
    --------
    >>> sweep(pow, [(2, 3), (3, 2)], label="powers")
    [8, 9]
    """
    cores = (
        jobs
        if jobs is not None
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    with Progress(label, size=len(tasks), shown=shown) as progress:
        if on is not None:
            return _on_cluster(work, tasks, on, lambda: progress.advance(1))
        if cores == 1 or len(tasks) <= FEW:
            found = []
            for task in tasks:
                # on one thread, so that sums are added in the same order as in a pool
                found.append(_on_one_thread(work, *task))
                progress.advance(1)
            return found
        # Spawn, because forking a process that has threads may hang.
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


def _on_cluster(
    work: Callable[..., T], tasks: Sequence[tuple[Any, ...]], address: str, done: Callable[[], None]
) -> list[T]:
    try:
        from distributed import Client
        from distributed import as_completed as as_finished
    except ImportError:
        raise ImportError("work on a cluster needs Dask: pip install dask distributed") from None
    try:
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}); give its address, such as "
            "tcp://10.0.0.1:8786"
        ) from None
    with client:
        _check_versions(client)
        # pure=False: equal tasks are still tasks of their own
        futures = [client.submit(_on_one_thread, work, *task, pure=False) for task in tasks]
        try:
            for future in as_finished(futures, loop=client.loop):
                future.result()  # raise the error of a failed task at once
                done()
            return [future.result() for future in futures]
        finally:
            client.cancel(futures)


def _check_versions(client: Any) -> None:
    """Refuse workers with another version, whose numbers may differ."""
    found = client.run(_version)
    if not found:
        raise ValueError("the Dask scheduler has no workers; start some with `dask worker ADDRESS`")
    other = sorted({version for version in found.values() if version != _version()})
    if other:
        raise ValueError(
            f"workers of the cluster have reticent {', '.join(other)}, but this process has {_version()}; "
            "install the same version everywhere"
        )


def _version() -> str:
    from reticent.version import __version__

    return __version__
