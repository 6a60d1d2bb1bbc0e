"""Locks on open files, which keep processes apart. On Windows they do nothing."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


def lock(handle: int) -> None:
    """Lock a file for this process alone, as soon as no other process holds its lock."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX)


def try_lock(handle: int) -> bool:
    """Lock a file for this process alone; False if another process holds its lock."""
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
