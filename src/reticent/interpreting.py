"""What kernels do before they are compiled: their first, small calls are interpreted.

Compiling a kernel takes from a tenth of a second to several seconds. A first fit of a small table, or the first
records of a stream, would spend nearly all of their time on it. A :class:`Kernel` is therefore interpreted by Python
until that has taken about as long as compiling it would: at worst, a process takes twice the time of the better choice.

Both ways give the same numbers to the last bit, because both evaluate the same source in the same order: kernels are
compiled without permission to reorder sums, and :class:`_Math` gives functions of :mod:`math` the results that they
have in compiled code. So results do not depend on what a process did before.

An interpreted kernel is as hard to interrupt as a compiled one. Python runs the handlers of signals, such as that of
Ctrl-C, in the main thread, between two instructions; a total to which half a record had been added would no longer be
what its guarantee says. The work is therefore done in another thread, for which the main thread waits.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.extending import typeof_impl

_PER_NUMBER = 2e-6
"""Rough upper bound on the seconds that an interpreted kernel takes for each number in its arguments."""
_PER_CALL = 1e-4
"""Seconds that it takes to start the thread of a call."""
_LOADING = 0.01
"""Seconds that a kernel may be interpreted if its machine code is on disk and only has to be loaded."""

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

    def __call__(self, *arguments: Any) -> Any:
        if self._left is None:
            stored = self._mark is not None and self._mark.exists()
            self._left = min(self.patience, _LOADING) if stored else self.patience
        numbers = sum(a.size for a in arguments if isinstance(a, np.ndarray))
        expected = _PER_CALL + _PER_NUMBER * numbers
        if expected <= self._left and not _at_once:
            done, result = _uninterrupted(self._without, expected, arguments)
            if done:
                return result
        result = self.machine_code(*arguments)
        if self._mark is not None:
            with contextlib.suppress(OSError):
                self._mark.touch()
        # From now on the type itself calls the machine code, so a call costs hardly more than calling that directly.
        self.__class__ = type("Kernel", (Kernel,), {"__call__": staticmethod(self.machine_code)})
        return result

    def _without(self, expected: float, arguments: tuple[Any, ...]) -> Any:
        begun = time.thread_time()
        function = self._meanwhile or twin(self.py_func)
        with np.errstate(all="ignore"):
            result = _as_numba_returns(function(*arguments))
        # a stand-in leaves its work to others
        spent = expected if self._meanwhile else time.thread_time() - begun
        self._left = max(0.0, (self._left or 0.0) - spent - _PER_CALL)
        return result

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel: Kernel, context: Any) -> Any:
    """Compiled code that mentions a kernel calls its machine code."""
    return numba.types.Dispatcher(kernel.machine_code)


def _as_numba_returns(value: Any) -> Any:
    """Numbers of NumPy as those of Python, as compiled functions return them."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_as_numba_returns, value)) if isinstance(value, tuple) else value


def _uninterrupted(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Whether the function was called, and what it returned; nothing interrupts it once it has begun."""
    if threading.current_thread() is not threading.main_thread():
        return True, function(*arguments)
    begun, done = _thread.allocate_lock(), _thread.allocate_lock()
    done.acquire()
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        if begun.acquire(blocking=False):
            try:
                results.append(function(*arguments))
            except BaseException as error:  # raised below, in the thread that called
                errors.append(error)
            finally:
                done.release()

    started = False
    interruption: BaseException | None = None
    while not (results or errors):
        try:
            if not started:
                started = True
                try:
                    _thread.start_new_thread(work, ())
                except RuntimeError:  # no more threads
                    if begun.acquire(blocking=False):
                        return False, None
            done.acquire()
        except BaseException as error:  # from the handler of a signal
            if begun.acquire(blocking=False):
                raise  # the work had not begun, and never will
            interruption = error
    if interruption is not None:
        raise interruption
    if errors:
        raise errors[0]
    return True, results[0]


# Interpreting a kernel. Its globals are replaced by what they mean in compiled code.

_twins: dict[Any, Any] = {}


def twin(function: FunctionType) -> Any:
    """The function as Python carries it out in place of machine code: the functions that it calls are replaced too."""
    if function not in _twins:
        scope: dict[str, Any] = {"__builtins__": __builtins__}
        made = FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
        )
        _twins[function] = made  # before its globals, since kernels may call each other
        names = {name for name in function.__code__.co_names if name in function.__globals__}
        scope |= {name: _meaning(function.__globals__[name]) for name in names}
    return _twins[function]


def twin_of_factory(factory: Callable[..., Any]) -> None:
    """Let interpreted kernels use the twins of the kernels that a factory makes."""
    _factories[factory] = functools.cache(lambda *kinds: _meaning(factory(*kinds)))


_factories: dict[Any, Callable[..., Any]] = {}


def _meaning(value: Any) -> Any:
    """What the value of a global name means in compiled code."""
    if value is math:
        return _C
    if isinstance(value, ModuleType) and value.__name__.startswith("reticent."):
        return _Module(value)
    if callable(value):
        if value in _factories:
            return _factories[value]
        if isinstance(getattr(value, "py_func", None), FunctionType):
            return twin(value.py_func)
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
