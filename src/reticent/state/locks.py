"""Locks on open files, which keep processes apart. On Windows they do nothing."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


def lock(handle: int) -> None:
    """Lock a file for this process alone, as soon as no other process holds its lock."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise without_locks(error) from None


def try_lock(handle: int) -> bool:
    """Lock a file for this process alone; False if another process holds its lock."""
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise without_locks(error) from None
    return True


def without_locks(error: OSError, place: str = "it") -> OSError:
    """The error for a file that cannot be locked, although no other process holds its lock."""
    return OSError(
        error.errno,
        f"a file could not be locked ({error.strerror}), so nothing would keep another process from working on the "
        f"same data; move {place} to a file system that locks files, such as a local disk",
    )
