"""A mechanism with prescribed noise, and the noise of the other world for which its outputs are exactly the same.

Every release is linear in its own draws and depends on the past only through earlier outputs, which are equal in both
worlds; so the noise is found by Newton's method, with the response to each draw measured. If no noise can match an
output, epsilon is infinite. Scales are recorded at the sampler (:mod:`reticent.audit.hooks`), so neither calibration
nor clipping is trusted, and there are no false alarms. If the noise consists of whole lattice steps, the match has to
be exact, to the last bit of every output: any remainder would reveal the world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, qr
from scipy.optimize import linprog

from reticent.audit import densities
from reticent.audit.hooks import Draw, NoisyChoice, Tape, listening
from reticent.checks import FloatArray
from reticent.noise import Source
from reticent.privacy import BoundedRange, Curve, Gaussian, Guarantee, Pure, compose

TOLERANCE = 1e-9
"""A claim is refuted if the computed value exceeds it by more than this share."""

_STEP = 2.0**-8  # by how many scales a draw is moved to measure its response
_ITERATIONS = 60
_EACH = 48  # among more draws than this, those that matter are found by a search
_PROGRAMME = 1e-5  # tolerance of a linear programme on measured responses
_UNSEEN = 1e-6  # in standard deviations: noise must explain a larger difference between outputs


@dataclass(frozen=True)
class Outcome:
    """What a run of one of the library's own cases returns: its output, and the guarantee it states."""

    output: Any
    guarantee: Guarantee | Curve


@dataclass(frozen=True)
class InputPair:
    """Two neighbouring inputs, and a few words that say what is extreme about them."""

    data: Any
    neighbour: Any
    why: str = ""


@dataclass(frozen=True)
class Separation:
    """What separates two worlds whose outputs are the same: how far each draw moves, and the selections."""

    mu: float
    pure: float
    choices: tuple[Curve, ...]
    leak: str = ""
    tolerance: float = TOLERANCE

    @property
    def curve(self) -> Curve:
        parts: list[tuple[Curve, int]] = [(curve, 1) for curve in self.choices]
        if self.mu > 0.0:
            parts.append((Gaussian(self.mu), 1))
        if self.pure > 0.0:
            parts.append((Pure(self.pure), 1))
        return compose(parts) if parts else Pure(0.0)

    def with_noise_divided_by(self, factor: float) -> Separation:
        """The loss of the same moves with less noise: the logarithm of every ratio grows in proportion."""
        choices = tuple(
            type(curve)(factor * curve.value) for curve in self.choices if isinstance(curve, Pure)
        )
        return replace(self, mu=factor * self.mu, pure=factor * self.pure, choices=choices)


Start = Callable[[Draw], FloatArray]
"""A function that computes the noise of the first world from what was drawn."""


def silent(made: Draw) -> FloatArray:
    """No noise, so that every learner stays far from the border of its set."""
    return np.zeros_like(made.values)


def pushed(by: float) -> Start:
    """Every draw equals the same multiple of its scale, which pushes decisions far to one side."""

    def start(made: Draw) -> FloatArray:
        return np.broadcast_to(by * made.scales[:, None], made.values.shape)

    return start


@dataclass
class _Played:
    tape: Tape
    transcript: FloatArray
    output: FloatArray
    guarantee: Guarantee | Curve | None


class Machine:
    """A mechanism whose noise can be set.

    Parameters
    ----------
    run : callable
        ``run(data, source)`` returns its output (numbers, in any shape), or an :class:`Outcome`.
    taps : bool
        Whether the noisy vectors that the library released have to match (the output then has to be a function of
        them); otherwise the output itself has to.
    repeats : int
        Number of runs, with noise that differs by known amounts, that one common change of the draws must match. More
        than one is needed where a single output reveals less than the noisy numbers behind it.
    normals : bool
        Whether ``Source.normals`` is noise, and not public randomness.
    bits : bool
        Whether outputs must match to the last bit wherever all noise is whole lattice steps. False if one change has to
        match several runs, in which rounding may make a difference of one step.
    """

    def __init__(
        self,
        run: Callable[[Any, Source], Any],
        *,
        taps: bool = True,
        repeats: int = 1,
        normals: bool = False,
        bits: bool = True,
    ) -> None:
        self._run, self._taps, self._repeats, self._normals = run, taps, repeats, normals
        self._bits = bits and repeats == 1
        self._responses: dict[Any, tuple[NDArray[np.int64], FloatArray]] = {}

    def play(
        self,
        data: Any,
        start: Start = silent,
        values: list[FloatArray] | None = None,
        choices: list[NoisyChoice] | None = None,
    ) -> _Played:
        """Run the mechanism on the data, once or several times, with the given noise."""
        parts = [self._once(data, start, values, choices, k) for k in range(self._repeats)]
        whole = parts[0]
        for part in parts[1:]:
            whole.transcript = np.concatenate([whole.transcript, part.transcript])
            whole.output = np.concatenate([whole.output, part.output])
        return whole

    def _once(
        self,
        data: Any,
        start: Start,
        values: list[FloatArray] | None,
        choices: list[NoisyChoice] | None,
        repeat: int,
    ) -> _Played:
        rng = np.random.default_rng(repeat)

        def script(place: int, made: Draw) -> FloatArray:
            given = start(made) if values is None or place >= len(values) else values[place]
            if repeat:
                given = given + made.scales[:, None] * rng.normal(size=made.values.shape)
            return np.asarray(given, dtype=np.float64)

        indices = None if choices is None else [choice.index for choice in choices]
        with listening(script, indices, normals=self._normals) as tape:
            result = self._run(data, Source())
        stated = result.guarantee if isinstance(result, Outcome) else None
        output = _flat(result.output if isinstance(result, Outcome) else result)
        seen = _flat(tape.seen) if self._taps and tape.seen else output
        return _Played(tape, seen, output, stated)

    def compare(
        self, pair: InputPair, start: Start = silent
    ) -> tuple[Separation, Guarantee | Curve | None]:
        """The privacy loss between the two worlds of a pair, and the guarantee that the run states, if any."""
        here = self.play(pair.data, start)
        values = [draw.values for draw in here.tape.draws]
        there = self.play(pair.neighbour, start, values, here.tape.choices)
        leak = _structure(here, there)
        if leak:
            return Separation(math.inf, math.inf, (), leak), here.guarantee
        moved, there, leak = self._match(pair, start, here, there, values)
        choices = tuple(
            _choice(a, b) for a, b in zip(here.tape.choices, there.tape.choices, strict=True)
        )
        if leak:
            return Separation(math.inf, math.inf, choices, leak), here.guarantee
        loss = Separation(0.0, 0.0, choices)
        square, pure = 0.0, 0.0
        for draw, old, new in zip(here.tape.draws, values, moved, strict=True):
            units = (new - old) / draw.scales[:, None]
            if draw.kind == "gaussian":
                square += float(np.sum(units**2))
            elif draw.kind == "laplace":
                pure += float(np.sum(np.abs(units)))
            else:
                pure += float(np.sum(np.linalg.norm(units, axis=1)))
        if pure > 0.0:
            least = self._least_price(pair.data, start, here, values, moved)
            if least is not None:
                pure, loss = min(pure, least), replace(loss, tolerance=_PROGRAMME)
        return replace(loss, mu=math.sqrt(square), pure=pure), here.guarantee

    def _least_price(
        self,
        data: Any,
        start: Start,
        here: _Played,
        values: list[FloatArray],
        moved: list[FloatArray],
    ) -> float | None:
        """The cheapest change of the draws with the same effect, if more numbers are drawn than released.

        This is a linear programme; the rows of Gamma vectors move in parallel, since all of them hide one record.
        """
        where, response = self._response(data, start, here, values)
        draws = here.tape.draws
        if np.linalg.matrix_rank(response) == where.size or any(
            draw.kind == "gaussian" for draw in draws
        ):
            return None
        units = np.concatenate(
            [
                ((new - old) / draw.scales[:, None]).ravel()
                for draw, old, new in zip(draws, values, moved, strict=True)
            ]
        )
        offset = 0
        blocks = []
        for draw in draws:
            size = draw.values.size
            rows = units[offset : offset + size].reshape(draw.values.shape)
            if draw.kind == "laplace":
                block = np.eye(size)
            else:
                direction = np.linalg.svd(rows)[2][0]
                block = np.kron(np.eye(len(rows)), direction[:, None])
            blocks.append(block)
            offset += size
        basis = block_diag(*blocks)[where]
        used = np.flatnonzero(np.any(basis != 0.0, axis=0))
        matrix = response @ basis[:, used]
        typical = float(np.abs(matrix).max())
        answer = linprog(
            np.ones(2 * used.size),
            A_eq=np.hstack([matrix, -matrix]) / typical,
            b_eq=response @ units[where] / typical,
            bounds=(0, None),
            method="highs",
        )
        return float(answer.fun) if answer.success else None

    def _match(
        self, pair: InputPair, start: Start, here: _Played, there: _Played, values: list[FloatArray]
    ) -> tuple[list[FloatArray], _Played, str]:
        """Noise with which the other world produces the same output; else a sentence that says why there is none."""
        gap = here.transcript - there.transcript
        moved = [value.copy() for value in values]
        if not gap.any():
            return moved, there, _rest(here, there)
        if not values:
            return moved, there, "the output depends on the record, and no noise was drawn"
        where, response = self._response(pair.data, start, here, values)
        if not where.size:
            return moved, there, "the output depends on the record and on no draw"
        inverse = np.linalg.pinv(response, rcond=1e-11)
        sizes, whole = _sizes(here.tape.draws)
        flat = np.concatenate([value.ravel() for value in moved])
        for _ in range(_ITERATIONS):
            units = inverse @ gap
            change = units * sizes[where]
            change = np.where(whole[where], np.rint(change), change)
            if not change.any() or float(np.linalg.norm(units)) < 1e-13:
                break
            flat[where] += change
            moved = _shaped(flat, values)
            there = self.play(pair.neighbour, start, moved, here.tape.choices)
            leak = _structure(here, there)
            if leak:
                return moved, there, leak
            gap = here.transcript - there.transcript
        if leak := _left(gap, response, inverse):
            return moved, there, leak
        if gap.any() and whole.all() and self._bits:
            exact = self.same_bits(pair, start, here, values, (where, response))
            if exact is None:
                return moved, there, "the last bits of the output depend on the record"
            return moved, there, _rest(here, exact)
        return moved, there, _rest(here, there)

    def same_bits(
        self,
        pair: InputPair,
        start: Start,
        here: _Played,
        values: list[FloatArray],
        responses: tuple[NDArray[np.int64], FloatArray],
    ) -> _Played | None:
        """A run on the neighbour with exactly the same outputs, changing only as many draws as there are outputs.

        If more numbers are drawn than released, the cheapest change of all draws is not a whole number of lattice
        steps; a change of as many independent draws as there are outputs is.
        """
        where, response = responses
        order = qr(response, mode="r", pivoting=True)[1]
        chosen = order[: np.linalg.matrix_rank(response, rtol=1e-9)]
        inverse = np.linalg.pinv(response[:, chosen], rcond=1e-11)
        sizes, _ = _sizes(here.tape.draws)
        flat = np.concatenate([value.ravel() for value in values])

        def play(moves: FloatArray) -> tuple[_Played, float]:
            trial = flat.copy()
            trial[where[chosen]] += moves
            there = self.play(pair.neighbour, start, _shaped(trial, values), here.tape.choices)
            return there, float(np.linalg.norm(here.transcript - there.transcript))

        moves = np.zeros(chosen.size)
        there, off = play(moves)
        for _ in range(_ITERATIONS):
            change = inverse @ (here.transcript - there.transcript) * sizes[where[chosen]]
            if off == 0.0 or not np.rint(change).any():
                break
            moves += np.rint(change)
            there, off = play(moves)
        # measured responses may leave a draw or two one step off
        while off > 0.0:
            before = off
            for step in (*np.eye(chosen.size), *-np.eye(chosen.size)):
                trial, less = play(moves + step)
                if less < off:
                    moves, there, off = moves + step, trial, less
            if off == before:
                return None
        return there

    def _response(
        self, data: Any, start: Start, here: _Played, values: list[FloatArray]
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """The draws that matter, and the response of the output to a change of each by its scale."""
        key = (start, tuple(value.shape for value in values), here.transcript.size)
        if key in self._responses:
            return self._responses[key]
        sizes, _ = _sizes(here.tape.draws)
        base = np.concatenate([value.ravel() for value in values])
        steps = np.rint(sizes * _STEP)
        steps = np.where(steps > 0.0, steps, sizes * _STEP)

        def answer(places: NDArray[np.int64]) -> FloatArray:
            flat = base.copy()
            flat[places] += steps[places]
            played = self.play(data, start, _shaped(flat, values), here.tape.choices)
            return played.transcript - here.transcript

        where, columns = [], []
        for place, column in _search(np.arange(base.size), answer):
            where.append(place)
            columns.append(column / (steps[place] / sizes[place]))
        found = np.array(where, np.int64), np.array(columns).T.reshape(here.transcript.size, -1)
        self._responses[key] = found
        return found


def _search(
    places: NDArray[np.int64], answer: Callable[[NDArray[np.int64]], FloatArray]
) -> Iterator[tuple[int, FloatArray]]:
    """Find the draws that matter by bisection: a half of the draws that changes nothing together is left out."""
    if places.size == 0:
        return
    if places.size > _EACH or places.size == 1:
        column = answer(places)
        if not column.any():
            return
        if places.size == 1:
            yield int(places[0]), column
            return
        half = places.size // 2
        yield from _search(places[:half], answer)
        yield from _search(places[half:], answer)
        return
    for k in range(places.size):
        yield from _search(places[k : k + 1], answer)


def _flat(value: Any) -> FloatArray:
    """Flatten numbers of any nesting into one vector."""
    if isinstance(value, list | tuple):
        return np.concatenate([_flat(part) for part in value]) if value else np.empty(0)
    return np.asarray(value, dtype=np.float64).reshape(-1)


def _shaped(flat: FloatArray, like: list[FloatArray]) -> list[FloatArray]:
    ends = np.cumsum([value.size for value in like])[:-1]
    return [
        part.reshape(value.shape) for part, value in zip(np.split(flat, ends), like, strict=True)
    ]


def _sizes(draws: list[Draw]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The scale of every number that was drawn, and whether the number is a whole one."""
    scales = [np.repeat(draw.scales, draw.values.shape[1]) for draw in draws]
    whole = [np.full(draw.values.size, draw.whole) for draw in draws]
    return np.concatenate(scales), np.concatenate(whole)


def _structure(here: _Played, there: _Played) -> str:
    """A sentence if what is drawn, or the length of the output, depends on the record."""
    mine, other = here.tape, there.tape
    if [d.values.shape for d in mine.draws] != [d.values.shape for d in other.draws]:
        return "how many numbers are drawn depends on the record"
    if any(
        a.kind != b.kind or not np.array_equal(a.scales, b.scales)
        for a, b in zip(mine.draws, other.draws, strict=True)
    ):
        return "the scale of the noise depends on the record"
    if [c.scores.shape for c in mine.choices] != [c.scores.shape for c in other.choices]:
        return "how many candidates there are depends on the record"
    if any(a.scale != b.scale for a, b in zip(mine.choices, other.choices, strict=True)):
        return "the scale of a selection depends on the record"
    if here.transcript.shape != there.transcript.shape:
        return "the length of the output depends on the record"
    if not (np.isfinite(here.transcript).all() and np.isfinite(there.transcript).all()):
        return "an output is not finite"
    return ""


def _rest(here: _Played, there: _Played) -> str:
    """A sentence if something else in the output differs although all noisy numbers are the same in both worlds."""
    if not np.array_equal(here.transcript, there.transcript):
        return ""
    if here.output.shape != there.output.shape or not np.array_equal(here.output, there.output):
        return "the output is not a function of the noisy numbers alone"
    return ""


def _choice(here: NoisyChoice, there: NoisyChoice) -> Curve:
    """The privacy loss of one selection; for Gumbel noise, the range of its log-ratios."""
    if here.noise == "gumbel":
        shift = (here.scores - there.scores) / here.scale
        return BoundedRange(float(np.ptp(shift)))
    laws = [densities.law(c.noise, c.scores, c.scale) for c in (here, there)]
    return Pure(float(np.max(np.abs(np.log(laws[0]) - np.log(laws[1])))))


def _left(gap: FloatArray, response: FloatArray, inverse: NDArray[Any]) -> str:
    """Why no noise closes the gap between two outputs; empty if only rounding is left of it."""
    loose = gap - response @ (inverse @ gap)
    typical = float(np.max(np.linalg.norm(response, axis=0)))
    if not float(np.linalg.norm(loose)) <= _UNSEEN * typical:
        return "the output depends on the record beyond what its noise can hide"

    if not float(np.linalg.norm(inverse @ gap)) <= _UNSEEN:
        return "no noise of the neighbour gives the same output"
    return ""
