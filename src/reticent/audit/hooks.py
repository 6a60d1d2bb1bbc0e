"""Noise as an input: while the hook is active, every draw of the library is recorded and can be prescribed.

This is the only file of the audit that knows how the library draws noise. It hooks in below all code that computes a
scale, so that each scale is recorded as it reached the draw: the lattice samplers and their kernels, their
floating-point counterparts, noisy selection, and the two functions through which noisy numbers leave (``release.noisy``
and the running totals), whose results are recorded in order.

Sources created while the hook is active are keyed by a counter. Two runs then share all randomness that is not
prescribed: Poisson samples, the order of records, a bandit's directions. A sampler still consumes its random words when
its values are prescribed, so this stays true. Drawing twice from the same place of the same stream (a block that a
restored total draws again, or noise that is reused) is one draw, and has one value.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.noise import lattice, release, selection
from reticent.noise.source import Source
from reticent.online import OnlineLearner, schedules
from reticent.privacy import gaussian
from reticent.sums import RunningTotal, on_demand, process
from reticent.sums import mechanism as mechanisms

_FIRST = 2**40  # hooked sources are numbered from here on, far from any likely seed
_AHEAD = 64  # how many numbers of noise are drawn in advance; all of them are recorded


@dataclass
class Draw:
    """One call of a sampler: a row of ``values`` has the scale of the same place in ``scales``.

    ``whole`` says whether the values are whole lattice steps. A row of kind ``"gamma"`` is one vector with density
    proportional to ``exp(-|x| / scale)``; the entries of the other kinds are independent.
    """

    kind: str
    scales: FloatArray
    values: FloatArray
    whole: bool


@dataclass
class NoisyChoice:
    """One noisy selection: the scores and the scale that reached it, and the chosen index."""

    noise: str
    scores: FloatArray
    scale: float
    index: int


@dataclass
class Tape:
    """Everything that was drawn, and all noisy vectors that were released, each in order."""

    draws: list[Draw] = field(default_factory=list)
    choices: list[NoisyChoice] = field(default_factory=list)
    seen: list[FloatArray] = field(default_factory=list)


Script = Callable[[int, Draw], FloatArray]
"""A function of the number of a draw and the values drawn, which returns the values to use instead."""


@dataclass
class _Recorder:
    tape: Tape
    script: Script | None
    indices: Sequence[int] | None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(_FIRST))
    depth: int = 0
    reached: dict[str, Any] = field(default_factory=dict)
    places: dict[bytes, tuple[int, FloatArray]] = field(default_factory=dict)

    def draw(
        self,
        kind: str,
        scales: Any,
        out: NDArray[Any],
        whole: bool,
        shape: tuple[int, int],
        place: bytes,
    ) -> None:
        """Record a draw, and overwrite it if its values are prescribed; ``place`` is its position in its stream."""
        rows = out.reshape(shape)
        honest = rows.astype(np.float64).ravel()
        earlier = self.places.setdefault(place, (len(self.tape.draws), honest))
        sizes = np.broadcast_to(np.asarray(scales, dtype=np.float64), shape[:1]).copy()
        made = Draw(kind, sizes, rows.astype(np.float64), whole)
        if self.script is not None:
            wanted = np.asarray(self.script(len(self.tape.draws), made), dtype=np.float64)
            wanted = wanted.reshape(shape).copy()
            if earlier[0] < len(self.tape.draws):  # the same noise again
                first = self.tape.draws[earlier[0]].values.ravel()
                common = min(honest.size, first.size)
                same = np.flatnonzero(honest[:common] == earlier[1][:common])
                wanted.reshape(-1)[same] = first[same]
            rows[...] = np.rint(wanted) if whole else wanted
            made.values = rows.astype(np.float64)
        self.tape.draws.append(made)

    @contextlib.contextmanager
    def inside(self) -> Iterator[bool]:
        """Whether this is the outermost of nested calls; only that one counts."""
        self.depth += 1
        try:
            yield self.depth == 1
        finally:
            self.depth -= 1

    def see(self, *arrays: Any) -> None:
        for array in arrays:
            self.tape.seen.append(np.array(array, dtype=np.float64).reshape(-1))


@contextlib.contextmanager
def listening(
    script: Script | None = None,
    indices: Sequence[int] | None = None,
    *,
    words: Callable[[int], NDArray[np.uint64]] | None = None,
    normals: bool = False,
    numbered: bool = True,
) -> Iterator[Tape]:
    """Record everything that is drawn in the block.

    Parameters
    ----------
    script : callable, optional
        Prescribes the values of each draw; by default they stay as drawn.
    indices : sequence of int, optional
        Prescribes the choice of each selection; by default it stays as chosen.
    words : callable, optional
        Replaces ``Source.words``: ``words(count)`` supplies randomness that is neither noise nor a selection, such as a
        Poisson sample.
    normals : bool
        Whether ``Source.normals`` is noise, and not public randomness such as a bandit's directions.
    numbered : bool
        Whether sources without a seed are keyed by a counter, and not by the operating system.
    """
    tape = Tape()
    recorder = _Recorder(tape, script, indices)
    with contextlib.ExitStack() as stack:
        for target, name, made in _patches(recorder, words, normals):
            if target is Source and name == "__init__" and not numbered:
                continue
            stack.callback(_put, target, name, _get(target, name))
            _put(target, name, made)
        yield tape


def _get(target: Any, name: str) -> Any:
    return target[name] if isinstance(target, dict) else getattr(target, name)


def _put(target: Any, name: str, value: Any) -> None:
    if isinstance(target, dict):
        target[name] = value
    else:
        setattr(target, name, value)


def _patches(
    recorder: _Recorder, words: Callable[[int], NDArray[np.uint64]] | None, normals: bool
) -> list[tuple[Any, str, Any]]:
    """The patches to apply; each wraps what it finds, so that a planted fault stays in effect below it."""
    found: list[tuple[Any, str, Any]] = [(Source, "__init__", _numbered(recorder))]
    for kind in ("gaussian", "laplace", "gamma"):
        for target in (lattice, process.SAMPLERS, release._SAMPLERS):
            found.append((target, kind, _sampler(recorder, kind, _get(target, kind))))
    found.append((process, "_float_draws", _float_draws(recorder, process._float_draws)))
    found.append((release, "_float_noise", _float_noise(recorder, release._float_noise)))
    found.append((selection, "_select", _select(recorder, selection._select)))
    # the kernels below the samplers, so that each scale is recorded as it reached them
    for target, kernel, places in (
        (lattice, "_gaussian_kernel", {"scales": 1}),
        (lattice, "_laplace_kernel", {"scales": 1}),
        (lattice, "_gamma_kernel", {"scales": 1}),
        (selection, "_bounds", {"scores": 0, "scale": 2}),
    ):
        found.append((target, kernel, _reaching(recorder, getattr(target, kernel), places)))
    if normals:
        found.append((Source, "normals", _normals(recorder, Source.normals)))
    if words is not None:
        found.append((Source, "words", lambda self, count: words(count)))
    for module in _modules(len(sys.modules)):
        if callable(getattr(module, "noisy", None)):
            found.append((module, "noisy", _leaving(recorder, module.noisy)))
    for owner, name in (
        (RunningTotal, "_add"),
        (RunningTotal, "run"),
        (RunningTotal, "_absorb"),
    ):
        found.append((owner, name, _leaving(recorder, getattr(owner, name))))
    found.append((OnlineLearner, "run", _played(recorder, OnlineLearner.run)))
    # only for speed: a mechanism is built anew for every run
    found.append((gaussian, "mu", _remembered(gaussian.mu)))
    found += [(module, "_BLOCK", _AHEAD) for module in (mechanisms, schedules, on_demand)]
    return found


@functools.lru_cache(maxsize=1)
def _modules(loaded: int) -> list[Any]:
    """The library's loaded modules; ``loaded`` is their number, so that the cache is renewed when more are loaded."""
    return [module for name, module in sys.modules.items() if name.startswith("reticent.")]


_known: dict[Any, Any] = {}


def _remembered(function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        key = (function, arguments)
        if key not in _known:
            _known[key] = function(*arguments)
        return _known[key]

    return call


def _numbered(recorder: _Recorder) -> Any:
    honest = Source.__init__

    def made(self: Source, seed: int | None = None) -> None:
        honest(self, next(recorder.numbers) if seed is None else seed)
        self.seeded = seed is not None

    return made


def _place(source: Source) -> bytes:
    """The stream, and the position in it, of the next draw."""
    source._ready()
    state = source._coarse.state["s"]
    return b"".join(np.asarray(state[name]).tobytes() for name in sorted(state))


def _sampler(recorder: _Recorder, kind: str, honest: Any) -> Any:
    def draw(source: Source, scales: FloatArray, out: NDArray[np.int64]) -> None:
        recorder.reached.clear()
        place = _place(source)
        with recorder.inside() as outermost:
            honest(source, scales, out)
        if outermost:
            made = recorder.reached.get("scales", scales)
            recorder.draw(kind, made, out, True, out.shape, place)

    return draw


def _float_draws(recorder: _Recorder, honest: Any) -> Any:
    def draw(
        noise: str, source: Source, scales: FloatArray, fresh: FloatArray, *, varied: bool
    ) -> None:
        place = _place(source)
        with recorder.inside():
            honest(noise, source, scales, fresh, varied=varied)
        recorder.draw(noise, scales, fresh, False, fresh.shape, place)

    return draw


def _float_noise(recorder: _Recorder, honest: Any) -> Any:
    def draw(noise: str, source: Source, dim: int) -> FloatArray:
        place = _place(source)
        with recorder.inside():
            out = np.array(honest(noise, source, dim), dtype=np.float64)
        recorder.draw(noise, 1.0, out, False, (1, dim), place)
        return out

    return draw


def _normals(recorder: _Recorder, honest: Any) -> Any:
    def draw(self: Source, out: FloatArray) -> None:
        place = _place(self)
        with recorder.inside() as outermost:
            honest(self, out)
        if outermost and out.size:
            rows = out.reshape(-1, out.shape[-1]) if out.ndim > 1 else out.reshape(1, -1)
            recorder.draw("gaussian", 1.0, out, False, rows.shape, place)

    return draw


def _select(recorder: _Recorder, honest: Any) -> Any:
    def choose(scores: FloatArray, scale: float, source: Source, noise: str) -> int:
        recorder.reached.clear()
        index = int(honest(scores, scale, source, noise))
        scores = recorder.reached.get("scores", scores)
        scale = recorder.reached.get("scale", scale)
        place = len(recorder.tape.choices)
        if recorder.indices is not None and place < len(recorder.indices):
            index = int(recorder.indices[place])
        recorder.tape.choices.append(NoisyChoice(noise, np.array(scores), float(scale), index))
        return index

    return choose


def _reaching(recorder: _Recorder, honest: Any, places: dict[str, int]) -> Any:
    """Wrap a kernel so that some of its arguments are recorded."""

    def call(*arguments: Any) -> Any:
        recorder.reached.update({name: np.copy(arguments[at]) for name, at in places.items()})
        return honest(*arguments)

    return call


def _leaving(recorder: _Recorder, honest: Any) -> Any:
    """Wrap a function so that its result is recorded, unless another recorded function called it."""
    nested = [0]

    def call(*arguments: Any, **more: Any) -> Any:
        nested[0] += 1
        try:
            result = honest(*arguments, **more)
        finally:
            nested[0] -= 1
        if not nested[0]:
            recorder.see(result)
        return result

    return call


def _played(recorder: _Recorder, honest: Any) -> Any:
    def run(self: OnlineLearner, *arguments: Any, **more: Any) -> Any:
        play = honest(self, *arguments, **more)
        recorder.see(play.decisions, self.decision)
        return play

    return run
