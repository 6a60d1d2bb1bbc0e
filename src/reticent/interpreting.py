"""What kernels do before they are compiled: their first, small calls are interpreted.

Compiling a kernel takes from a tenth of a second to several seconds. A first fit of a small table, or the first
records of a stream, would spend nearly all of their time on it. A :class:`Kernel` is therefore carried out by Python
until that has taken about as long as compiling it would: at worst, a process takes twice the time of the better way.

Both ways give the same numbers to the last bit, because both evaluate the same source in the same order: kernels are
compiled without permission to reorder sums, and :class:`_Math` gives functions of :mod:`math` the results that they
have in compiled code. So results do not depend on what a process did before.

An interpreted kernel is as hard to interrupt as a compiled one. Python runs the handlers of signals, such as that of
Ctrl-C, in the main thread, between two instructions; a total to which half a record had been added would no longer be
what its guarantee says, and a handler could save it. The work is therefore done in another thread. The caller waits in
a way that lets no handler run before it is done.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.extending import typeof_impl

_PER_NUMBER = 1e-6  # seconds that an interpreted kernel takes for a number it is given, before that is measured
_MANY = 1000  # numbers whose time can be measured
_PER_CALL = 1e-4  # seconds for the thread
_LOADING = (
    0.01  # seconds of interpreting that a kernel is worth whose machine code only has to be loaded
)


_at_once = False


def compile_at_once() -> None:
    """Let this process compile kernels when they are first called, as a service does before it takes requests."""
    global _at_once
    _at_once = True


class Kernel:
    """A compiled function whose first, small calls are carried out without compiling it.

    Compiled functions may call it as they may call any other.

    Parameters
    ----------
    machine_code : numba dispatcher
        The function, compiled when it is first called.
    patience : float
        Seconds that a process may spend on carrying out the function without machine code.
    meanwhile : callable, optional
        What to call in place of the machine code; by default the function itself is interpreted.
    mark : Path, optional
        File that says that the machine code is on disk; made after the first call that uses machine code.
    """

    def __init__(
        self,
        machine_code: Any,
        patience: float,
        meanwhile: Callable[..., Any] | None = None,
        mark: Path | None = None,
    ) -> None:
        functools.update_wrapper(self, machine_code.py_func)
        self.machine_code = machine_code
        self.py_func = machine_code.py_func
        self.patience = patience
        self._meanwhile = meanwhile
        self._mark = mark
        self._left: float | None = None  # seconds; None until the first call
        self._per_number = _PER_NUMBER

    def __call__(self, *arguments: Any) -> Any:
        if self._left is None:
            stored = self._mark is not None and self._mark.exists()
            self._left = min(self.patience, _LOADING) if stored else self.patience
        numbers = sum(a.size for a in arguments if isinstance(a, np.ndarray))
        expected = _PER_CALL + self._per_number * numbers
        if expected <= self._left and not _at_once:
            if not (self._meanwhile or all(map(_same_arithmetic, arguments))):
                return self.machine_code(*arguments)
            done, result = _uninterrupted(self._without, expected, numbers, arguments)
            if done:
                return result
        result = self.machine_code(*arguments)
        if self._mark is not None:
            with contextlib.suppress(OSError):
                self._mark.touch()
        # From now on a call costs hardly more than one of the machine code itself: it reaches it through the type.
        self.__class__ = type("Kernel", (Kernel,), {"__call__": staticmethod(self.machine_code)})
        return result

    def _without(self, expected: float, numbers: int, arguments: tuple[Any, ...]) -> Any:
        begun = time.thread_time()
        function = self._meanwhile or twin(self.py_func)
        try:
            with np.errstate(all="ignore", divide="raise"):
                result = _as_numba_returns(function(*arguments))
        except FloatingPointError:
            raise ZeroDivisionError("division by zero") from None
        spent = time.thread_time() - begun
        if self._meanwhile:  # it leaves its work to others
            spent = expected
        elif numbers >= _MANY:
            self._per_number = 2.0 * spent / numbers
        self._left = max(0.0, (self._left or 0.0) - spent - _PER_CALL)
        return result

    def __reduce__(self) -> Any:
        return Kernel, (self.machine_code, self.patience, self._meanwhile, self._mark)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel: Kernel, context: Any) -> Any:
    """Compiled code that mentions a kernel calls its machine code."""
    return numba.types.Dispatcher(kernel.machine_code)


# Arrays and numbers of NumPy whose arithmetic is the same in Python and in machine code. That of narrower ones is not:
# NumPy multiplies a float32 by a number of Python in single precision, Numba in double precision.
_SAME = frozenset(map(np.dtype, (np.float64, np.int64, np.int32, np.uint8, np.bool_)))


def _same_arithmetic(argument: Any) -> bool:
    return not isinstance(argument, np.ndarray | np.generic) or argument.dtype in _SAME


def _as_numba_returns(value: Any) -> Any:
    """Numbers of NumPy as those of Python, as compiled functions return them."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_as_numba_returns, value)) if isinstance(value, tuple) else value


class _Gate:
    """A lock that is closed until another thread opens it. Waiting for it cannot be interrupted.

    While a thread waits for one of Python's own locks, handlers of signals run. They do not while it waits for one of
    the locks below them, so handlers run when a kernel is done, as they do for compiled kernels.
    """

    def __init__(self) -> None:
        # arguments that are converted already: converting them may fail, near the limit of recursion
        lock = ctypes.c_void_p(_C_API.PyThread_allocate_lock())
        if not lock:
            raise MemoryError("no memory for a lock")
        self.wait = functools.partial(_C_API.PyThread_acquire_lock, lock, ctypes.c_int(1))
        self.open = functools.partial(_C_API.PyThread_release_lock, lock)
        self._free = functools.partial(_C_API.PyThread_free_lock, lock)
        self.wait()

    def __del__(self) -> None:
        if "_free" in self.__dict__:  # else a handler of a signal interrupted the constructor
            self._free()


def _c_api() -> Any:
    """The locks of Python's C interface; calling them, unlike through ``pythonapi``, lets other threads run."""
    library = ctypes.CDLL("python", handle=ctypes.pythonapi._handle)
    library.PyThread_allocate_lock.restype = ctypes.c_void_p
    return library


_C_API = _c_api()


class _Work:
    """A call in a thread of its own, where neither signals nor the depth of the caller's stack can stop it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.begun, self.done = _thread.allocate_lock(), _Gate()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        if not self.begun.acquire(blocking=False):
            return
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:  # raised in the thread that waits
            self.error = error
        finally:
            self.done.open()

    def give_up(self) -> bool:
        """Whether the work had not begun; then it never will."""
        return self.begun.acquire(blocking=False)


def _uninterrupted(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Whether the function was called, and what it returned; nothing interrupts it once it has begun."""
    if sys.is_finalizing():  # another thread would never run
        return True, function(*arguments)
    work = _Work(function, arguments)
    wait = work.done.wait
    try:
        _thread.start_new_thread(work.run, ())
    except BaseException as error:
        if not work.give_up():  # the handler of a signal came first
            wait()
            raise
        if isinstance(error, RuntimeError):  # no more threads
            return False, None
        raise
    # Python runs handlers only after calls and when it jumps back: nothing comes between the start and this.
    wait()
    if work.error is not None:
        raise work.error
    return True, work.result


# Interpreting a kernel. Its globals are replaced by what they mean in compiled code.

_twins: dict[Any, Any] = {}


def twin(function: FunctionType) -> Any:
    """The function as Python carries it out in place of machine code: the functions that it calls are replaced too."""
    if function not in _twins:
        made: dict[Any, Any] = {}
        _make_twin(function, made)
        _twins.update(made)  # only now, because another thread may take any of them at once
    return _twins[function]


def _make_twin(function: FunctionType, made: dict[Any, Any]) -> Any:
    if function in _twins:
        return _twins[function]
    if function not in made:
        scope: dict[str, Any] = {"__builtins__": __builtins__}
        made[function] = FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
        )  # before its globals, since kernels may call each other
        for name in function.__code__.co_names:
            if name in function.__globals__:
                scope[name] = _meaning(function.__globals__[name], made)
    return made[function]


def twin_of_factory(factory: Callable[..., Any]) -> None:
    """Let interpreted kernels use the twins of the kernels that a factory makes."""
    _factories[factory] = functools.cache(lambda *kinds: _meaning(factory(*kinds)))


_factories: dict[Any, Callable[..., Any]] = {}


def _meaning(value: Any, made: dict[Any, Any] | None = None) -> Any:
    """What the value of a global name means in compiled code; ``made`` are twins that are not finished yet."""
    if value is math:
        return _C
    if isinstance(value, ModuleType) and value.__name__.startswith("reticent."):
        return _Module(value)
    if callable(value):
        if value in _factories:
            return _factories[value]
        if isinstance(getattr(value, "py_func", None), FunctionType):
            return twin(value.py_func) if made is None else _make_twin(value.py_func, made)
    return value


class _Module:
    """A module as compiled code sees it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = _meaning(getattr(self._module, name))
        setattr(self, name, value)
        return value


class _Math:
    """The functions of :mod:`math` as in C and in compiled code: infinite or not a number where Python raises."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        value = _as_in_c(function) if callable(function) else function
        setattr(self, name, value)
        return value


def _as_in_c(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, *more: Any) -> Any:
        try:
            return function(x, *more)
        except OverflowError:
            return math.copysign(math.inf, x) if function is math.ldexp else math.inf
        except ValueError:
            pole = {math.log: 0.0, math.log1p: -1.0}.get(function)
            return -math.inf if x == pole else math.nan

    return call


_C = _Math()
