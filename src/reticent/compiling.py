"""Compile kernels, and cache them so that no cached kernel outlives a change of the sources.

Numba decides whether a cached kernel is fresh by looking only at the file in which the function is defined. A kernel
contains the kernels that it calls, so after a change in another file (a corrected clipping bound, say) the old machine
code would still run. Here the name of the cache folder contains a digest of every file that defines kernels and of
whatever else the machine code depends on, so any change makes all earlier kernels unreachable.

Cached kernels are code. They are kept only where nobody else could have written them: in a folder of mode 0700 owned
by this user, below folders that are owned by this user or root and that others cannot change. Where no such folder
exists, each process compiles its kernels anew, which is slow but works.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import itertools
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import carray, types
from numba.core.bytecode import FunctionIdentity
from numba.extending import intrinsic, overload

from reticent.compile_notice import watch
from reticent.interpreting import Kernel, compile_at_once, twin_of_factory

try:
    import fcntl
except ImportError:  # Windows: folders are not locked there, and so never removed
    fcntl = None  # type: ignore[assignment]

_PACKAGE = Path(__file__).parent
__all__ = ["COMPILED", "Kernel", "carray", "compile_at_once", "compiled", "pointer", "specialised"]

_settings: Any = numba.config
COMPILED = not _settings.DISABLE_JIT
"""Whether kernels are compiled; if they are not, :data:`pointer` cannot be used."""
_SIZE = 12  # bytes of a digest
_PATIENCE = 100  # attempts, 10 ms apart, to lock a folder that another process is deleting

# Reentrant, because decorating one kernel may import another module of kernels.
_deciding = threading.RLock()
_held: list[
    int
] = []  # descriptors of the folders in use; closed, and thereby unlocked, when the process ends


def _as_pointer(context, address):
    """Implement ``pointer(address)`` in a kernel: an integer becomes the address with that value."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


pointer: Any = intrinsic(_as_pointer)


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    patience: float = 0.0,
    meanwhile: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Compile a function of arrays and numbers. It runs without holding the interpreter's lock.

    A compiled function may use constants and other compiled functions, but only from files that themselves use this
    decorator, since the cache's digest covers no others. It may close over integers (see :func:`specialised`).

    Parameters
    ----------
    function : callable, optional
        The function to compile. If omitted, a decorator is returned, so both ``@compiled`` and
        ``@compiled(fastmath=...)`` work.
    patience : float
        Seconds that a process may interpret the function before it is compiled, which takes up to several seconds. Both
        ways must give the same numbers to the last bit (``tests/test_interpreting.py`` compares them), so this is not
        for functions that need 64-bit integers to wrap around, pointers, linear algebra or ``fastmath``, nor for those
        that take a generator, whose lock the caller holds. They write squares as products and other powers as
        ``math.pow``, sort with ``kind="mergesort"``, and return no array that they were given.
    meanwhile : callable, optional
        What is called for that long in place of interpreting the function.
    **options
        Passed on to :func:`numba.njit`. ``nogil`` and ``cache`` are set here.

    Returns
    -------
    callable
        The function, compiled when it is first called with arguments of new types; or the decorator.

    Raises
    ------
    TypeError
        The function closes over something other than integers, which cannot be cached.
    """
    if function is None:
        return lambda decorated: compiled(
            decorated, patience=patience, meanwhile=meanwhile, **options
        )
    chosen = None if _settings.DISABLE_JIT else folder()
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(isinstance(cell, int) for cell in cells):
        raise TypeError(
            f"{function.__qualname__} closes over {cells}; a compiled function may close over integers only"
        )
    if cells:  # machine code finds functions by name, and a factory's kernels all have the same
        function.__qualname__ += "".join(f"_{int(cell)}" for cell in cells)
    made, mark = None, None
    if chosen is not None:
        if cells:  # numba would keep all of them in one index, which concurrent writers can corrupt
            chosen /= _digest(repr(cells).encode())
        mark = (
            chosen
            / f"{_digest(function.__module__.encode(), function.__qualname__.encode())}.compiled"
        )
        # Another thread may reload numba's settings meanwhile, so check where the cache was really placed.
        for _ in range(3):
            with _cache_in(chosen), contextlib.suppress(RuntimeError):
                cached = numba.njit(nogil=True, cache=True, **options)(function)
                if chosen in Path(str(cached.stats.cache_path)).parents:
                    made = cached
                    break
    if made is None:
        made, mark = numba.njit(nogil=True, **options)(function), None
    # Intel's vector library, which Numba uses where it is installed, does not round functions as Python does
    if patience and COMPILED and not _settings.USING_SVML:
        return Kernel(made, patience, meanwhile, mark)
    return made


def specialised(factory: Callable[..., Any]) -> Any:
    """Turn a factory of kernels into one that makes and caches a kernel for each choice of integers.

    ``factory(kind, ...)`` defines a compiled function that closes over its arguments. The compiler sees them as
    constants, so branches for other kinds cost nothing, not even time to compile. Kernels are cached between processes
    only if they close over nothing but integers. A kernel that needs another specialised kernel therefore calls its
    factory in its own body, ``other(kind)(x)``; that call, too, is evaluated at compile time.

    Parameters
    ----------
    factory : callable
        Takes integers and returns a function decorated with :func:`compiled`.

    Returns
    -------
    callable
        The factory; it makes each kernel once.
    """

    @cache
    @functools.wraps(factory)
    def make(*kinds: int) -> Any:
        if not all(isinstance(kind, int) for kind in kinds):
            raise TypeError(f"{factory.__name__} takes integers only, got {kinds!r}")
        return factory(*kinds)

    @overload(make, prefer_literal=True, strict=False)
    def make_while_compiling(*kinds):
        made = make(*(kind.literal_value for kind in kinds))
        return lambda *kinds: made

    twin_of_factory(make)
    return make


@cache
def folder() -> Path | None:
    """The folder in which this process caches its kernels, or ``None`` if none can be both written and trusted.

    The environment variable ``NUMBA_CACHE_DIR`` names the parent folder; by default it is the package's ``__pycache__``
    or, if that cannot be used, the user's cache folder. Caches of the same installation with other sources are deleted
    once no process uses them.
    """
    try:
        sources = _sources()
    except OSError:  # the package is inside an archive
        return None
    name = f"{sources}-{_facts()}"
    with _deciding:
        for parent in _parents():
            home = parent / f"reticent-{_digest(os.fsencode(_PACKAGE))}"
            try:
                _make_private(home)
                chosen = _hold(home / name)
            except OSError:
                continue
            _remove_old(home, sources)
            return chosen
    return None


def _digest(*parts: bytes) -> str:
    hasher = hashlib.blake2b(digest_size=_SIZE)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.hexdigest()


def _sources() -> str:
    """A digest of all files of this package that define kernels, recognised by their import of this module."""
    parts = []
    for place, subfolders, files in os.walk(_PACKAGE, onerror=_raise):
        subfolders[:] = sorted(set(subfolders) - {"__pycache__"})
        for name in sorted(files):
            if name.endswith(".py"):
                content = Path(place, name).read_bytes()
                if b"reticent.compiling" in content:
                    parts += [os.fsencode(Path(place, name).relative_to(_PACKAGE)), content]
    return _digest(*parts)


def _raise(error: OSError) -> None:
    raise error


def _facts() -> str:
    """A digest of what machine code depends on besides the sources, the processor and numba's version."""
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"
    ]
    versions = [sys.version, numba.__version__, llvmlite.__version__, np.__version__]
    return _digest(*(fact.encode(errors="surrogateescape") for fact in versions + settings))


def _parents() -> Iterator[Path]:
    """Folders in which the cache may be placed, in order of preference."""
    if _settings.CACHE_DIR:
        yield Path(_settings.CACHE_DIR).absolute()
    yield Path(importlib.util.cache_from_source(__file__)).parent
    if sys.platform == "win32":
        user = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        user = os.path.expanduser("~/Library/Caches")
    else:
        user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(user):
        yield Path(user)


def _make_private(home: Path) -> None:
    """Make a folder that only this user can read and write; raise ``OSError`` where that is not possible."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    if hasattr(os, "geteuid"):
        _check_trust(home)
    tempfile.TemporaryFile(dir=home).close()


def _check_trust(home: Path) -> None:
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{home} is not a folder that only this user can read and write")
    for above in home.resolve().parents:
        found = above.stat()
        strangers = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if strangers or found.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"other users could replace folders in {above}")


def _lock(path: Path, exclusive: bool) -> int:
    """Open and lock a folder without waiting; ``BlockingIOError`` where another process holds it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _hold(path: Path) -> Path:
    """Make a folder and keep other processes from deleting it for the lifetime of this process."""
    for _ in range(_PATIENCE):
        path.mkdir(mode=0o700, exist_ok=True)
        if fcntl is None:
            return path
        try:
            descriptor = _lock(path, exclusive=False)
        except (
            BlockingIOError,
            FileNotFoundError,
        ):  # being deleted by a process with other sources
            time.sleep(0.01)
            continue
        except OSError:  # a file system without locks, where nothing is deleted either
            return path
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                _held.append(descriptor)
                return path
        os.close(descriptor)  # it was deleted between opening and locking
    raise TimeoutError(f"{path} is being deleted by another process")


def _remove_old(home: Path, sources: str) -> None:
    """Delete the caches of other sources that no running process uses."""
    if fcntl is None:
        return
    for old in home.iterdir():
        if old.name.startswith(f"{sources}-"):
            continue
        with contextlib.suppress(OSError):
            descriptor = _lock(old, exclusive=True)
            try:
                shutil.rmtree(old, ignore_errors=True)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def _cache_in(chosen: Path) -> Iterator[None]:
    """Cache functions that are decorated inside this block in the given folder."""
    with _deciding:
        before = _settings.CACHE_DIR
        _settings.CACHE_DIR = str(chosen)
        try:
            yield
        finally:
            _settings.CACHE_DIR = before


def _number_apart() -> None:
    """Number this process's functions so that no other process uses the same numbers.

    Numba distinguishes functions of the same name by a number that starts at 1 in every process, and cached machine
    code keeps the number. Code from two processes could then contain different functions under one name, and loading
    both would mix them up: the first definition, or its table of constants, would serve both.
    """
    if hasattr(FunctionIdentity, "_unique_ids"):
        FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))


_number_apart()
watch(folder)
