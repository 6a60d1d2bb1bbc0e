"""What kernels do before they are compiled: their first, small calls are interpreted.

Compiling a kernel takes from a tenth of a second to several seconds. A first fit of a small table, or the first
records of a stream, would spend nearly all of their time on it. A :class:`Kernel` is therefore carried out by Python
until that has taken about as long as compiling it would: at worst, a process takes twice the time of the better way.

Both ways give the same numbers to the last bit, because both evaluate the same source in the same order on numbers of
the same precision, and kernels are compiled without permission to reorder sums. Where Python would do something else,
such as raise an error where machine code computes infinity or wraps around, interpreting stops, and machine code does
the work from the beginning. So results do not depend on what a process did before.

Interpreting can be interrupted by the handler of a signal, such as that of Ctrl-C, and can fail; a total to which half
a record had been added would no longer be what its guarantee says. The interpreted kernel therefore works on copies of
the arrays that it is given, and what it changed in them is written back in a single step at the end. Up to there
nothing has happened, and from there on all of it has.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import operator
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
_PER_CALL = 2e-5  # seconds
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
            if self._meanwhile:  # it leaves its work to others, who take as long as expected
                self._left -= expected
                return self._meanwhile(*arguments)
            done, result = self._interpret(numbers, arguments)
            if done:
                return result
        result = self.machine_code(*arguments)
        if self._mark is not None:
            with contextlib.suppress(OSError):
                self._mark.touch()
        # From now on a call costs hardly more than one of the machine code itself: it reaches it through the type.
        self.__class__ = type("Kernel", (Kernel,), {"__call__": staticmethod(self.machine_code)})
        return result

    def _interpret(self, numbers: int, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Whether Python could do what machine code would, and the result; if not, nothing has changed."""
        if not all(map(_same_arithmetic, arguments)):
            return False, None
        begun = time.thread_time()
        work = _Copies(arguments)
        try:
            with np.errstate(all="call", under="ignore", call=_stop):
                result = _as_numba_returns(twin(self.py_func)(*work.copies))
        except (ArithmeticError, ValueError) as error:
            if not _is_of_a_kernel(error):
                raise
            return False, None
        spent = time.thread_time() - begun
        if numbers >= _MANY:
            self._per_number = 2.0 * spent / numbers
        self._left = max(0.0, (self._left or 0.0) - spent - _PER_CALL)
        return work.write_back(), result

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
    """Numbers of NumPy as those of Python, and plain arrays, as compiled functions return them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    return tuple(map(_as_numba_returns, value)) if isinstance(value, tuple) else value


class _Copies:
    """Copies of the arrays among the arguments of a call.

    The originals are read only once, and written only where the copies have changed, because other threads may use
    them meanwhile.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.copies = list(arguments)
        self._arrays: list[tuple[Any, bytes, bytearray, Any]] = []
        for i, array in enumerate(arguments):
            if isinstance(array, np.ndarray):
                before = array.tobytes()
                buffer = bytearray(before)
                copy: Any = _Array(array.shape, array.dtype, buffer)
                self._arrays.append((array, before, buffer, copy))
                self.copies[i] = copy
            elif isinstance(array, np.generic):
                self.copies[i] = array.item()

    def write_back(self) -> bool:
        """Change the originals as the copies were changed, all at once; False if that is not possible."""
        originals = [array for array, *_ in self._arrays]
        changed = [
            (array, copy) for array, before, buffer, copy in self._arrays if buffer != before
        ]
        for array, _ in changed:
            # one that shares memory with another array would have changed that too
            others = sum(np.may_share_memory(array, other) for other in originals)
            if others > 1 or not array.flags.writeable:
                return False
        # Python runs the handlers of signals between its instructions; this is one, which calls C functions only.
        writes = map(
            operator.setitem,
            [a for a, _ in changed],
            itertools.repeat(...),
            [c for _, c in changed],
        )
        collections.deque(writes, maxlen=0)
        return True


_INTERPRETED = "reticent.interpreted"  # the name of the scopes of interpreted kernels


class _UnlikeMachineCode(ArithmeticError):
    """A kernel came to what Python does otherwise."""


def _stop(kind: str, flag: int) -> None:
    """Called by NumPy if a number overflows, is divided by zero or is not defined."""
    if sys._getframe(1).f_globals.get("__name__") == _INTERPRETED:  # not the handler of a signal
        raise _UnlikeMachineCode(kind)


def _is_of_a_kernel(error: BaseException) -> bool:
    """Whether a kernel raised an error, rather than the handler of a signal."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    there = at is not None and at.tb_frame.f_globals.get("__name__") == _INTERPRETED
    return there or isinstance(error, _UnlikeMachineCode)


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
        scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": _INTERPRETED}
        scope["int"] = _int64
        made[function] = FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
        )  # before its globals, since kernels may call each other
        for name in function.__code__.co_names:
            if name in function.__globals__:
                scope[name] = _meaning(function.__globals__[name], made)
    return made[function]


class _Array(np.ndarray[Any, Any]):
    """An array whose entries are numbers of Python: these, unlike NumPy's, are never divided by 0."""

    def __getitem__(self, place: Any) -> Any:
        value = _entry(self, place)
        return value if type(value) is _Array else value.item()


_entry = np.ndarray.__getitem__


class _NumPy:
    """NumPy as interpreted kernels see it."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if name in ("empty", "zeros", "full"):
            value = functools.partial(_as_array, value)
        setattr(self, name, value)
        return value


def _as_array(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return make(*arguments, **named).view(_Array)


_NUMPY = _NumPy()


def _int64(value: Any) -> int:
    """``int`` as interpreted kernels see it."""
    if not -(2.0**63) <= value < 2.0**63:
        raise _UnlikeMachineCode("a number of more than 64 bits")
    return int(value)


def twin_of_factory(factory: Callable[..., Any]) -> None:
    """Let interpreted kernels use the twins of the kernels that a factory makes."""
    _factories[factory] = functools.cache(lambda *kinds: _meaning(factory(*kinds)))


_factories: dict[Any, Callable[..., Any]] = {}


def _meaning(value: Any, made: dict[Any, Any] | None = None) -> Any:
    """What the value of a global name means in compiled code; ``made`` are twins that are not finished yet."""
    if value is np:
        return _NUMPY
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
