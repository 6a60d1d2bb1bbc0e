"""White-box audit lines of online learners. Sets are so large that decisions reveal the noisy totals behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import losses, online, sets
from reticent.audit.whitebox_matching import InputPair, Outcome, pushed
from reticent.audit.whitebox_records import (
    BOTH,
    FAR,
    HUGE,
    TINY,
    Case,
    FloatArray,
    Run,
    case,
    tables,
    wrong,
)
from reticent.noise import Source
from reticent.privacy import Budget, Participation


def _learner(make: Callable[[], online.OnlineLearner], compiled: bool = True) -> Run:
    """Run a learner on records, labels and flags of which are present, in one call or one by one."""

    def run(data: Any, source: Source) -> Outcome:
        X, y, present = data
        learner = make()
        if compiled:
            play = learner.run(X, y, present=present, keep=len(X), keep_records=False)
            return Outcome([play.decisions, learner.decision], learner.guarantee)
        seen = []
        for k in range(len(X)):
            record = X[k] if y is None else (X[k], y[k])
            seen.append(learner.observe(record if present[k] else None))
        return Outcome(seen, learner.guarantee)

    return run


def _stream(
    neighbours: str, here: FloatArray, there: FloatArray, place: int, why: str, y: Any = None
) -> InputPair:
    """Streams of records in which a blanked record is a gap."""
    present = np.ones(len(here), dtype=bool)
    missing = present.copy()
    missing[place] = neighbours != "zero-out"
    return InputPair((here, y, present), (there, y, missing), why)


def _streams(neighbours: str, rows: int, dim: int) -> Iterator[InputPair]:
    for found in tables(neighbours, rows, dim):
        yield _stream(neighbours, *found)


def _moving(neighbours: str, window: int, dim: int) -> Iterator[InputPair]:
    for place in (0, window, window + 1):
        for found in [*tables(neighbours, place + window, dim, (place,))][1:8:3]:
            yield _stream(neighbours, *found)


def _wrong(neighbours: str, rows: int) -> Iterator[InputPair]:
    for found in wrong(neighbours, rows):
        yield _stream(neighbours, *found, y=np.ones(rows))


def _squares(neighbours: str, rows: int) -> Iterator[InputPair]:
    """Records with labels at and beyond the bounds, for squared losses in one dimension."""
    present = np.ones(rows, dtype=bool)
    for place in (0, rows - 1):
        for size, label in ((1.0, 1.0), (3.0, 7.0), (HUGE, HUGE), (TINY, 1.0), (1.0, 0.0)):
            X, y = np.zeros((rows, 1)), np.zeros(rows)
            X[place], y[place] = size, label
            other, labels, missing = np.zeros((rows, 1)), np.zeros(rows), present.copy()
            if neighbours == "zero-out":
                missing[place] = False
            else:
                other[place], labels[place] = size, -label
            words = f"row {place} is {size:g} with label {label:g}"
            yield InputPair((X, y, present), (other, labels, missing), words)


class _Towards(online.Rule):
    """A rule of a user's own: a step against the noisy total."""

    def prepare(self, problem: online.OnlineProblem) -> None:
        self._center = np.asarray(problem.center)

    def start(self) -> FloatArray:
        return self._center

    def step(self, moment: online.Released) -> FloatArray:
        return np.asarray(self._center - 0.1 * moment.total)


class _PlainSimplex(sets.Simplex):
    """A simplex as a user would write it: without a kernel."""

    kernel = None  # type: ignore[assignment]


def _costs(neighbours: str, rows: int, dim: int) -> Iterator[InputPair]:
    """Costs at the corners of the unit cube and beyond, blanked or turned into the opposite corner."""
    for place in (0, rows - 1):
        for high, low in ((1.0, 0.0), (7.0, -7.0), (HUGE, -HUGE), (TINY, 0.0)):
            here, there = np.full((rows, dim), 0.5), np.full((rows, dim), 0.5)
            here[place] = np.where(np.arange(dim) % 2 == 0, high, low)
            there[place] = high + low - here[place]
            why = f"costs of row {place} are {high:g} and {low:g}"
            yield _stream(neighbours, here, there, place, why)


def _logits(make: Callable[[], online.OnlineLearner], play: Callable[[Any], Run] = _learner) -> Run:
    """Weights of experts as logits: at a fixed temperature they show the noisy total, up to a common constant."""
    inner = play(make)

    def run(data: Any, source: Source) -> Outcome:
        found = inner(data, source)
        weights = np.vstack([np.atleast_2d(part) for part in found.output])[1:]
        return Outcome(np.log(weights[:, 1:] / weights[:, :1]), found.guarantee)

    return run


def _on_demand(make: Callable[[], online.SparseLeader], every: int) -> Run:
    """Records of a sparse learner one by one; all its weights are read after every ``every`` of them."""

    def run(data: Any, source: Source) -> Outcome:
        X, _, present = data
        learner, seen = make(), []
        for k in range(len(X)):
            learner.observe((np.arange(X.shape[1]), X[k], None) if present[k] else None)
            if (k + 1) % every == 0:
                seen.append(learner.decision)
        return Outcome(seen, learner.guarantee)

    return run


def learners() -> Iterator[Case]:
    """Every online learner."""
    rows, dim = 6, 2
    ball = sets.L2Ball(dim, FAR)
    linear, strong = losses.Linear(), losses.Linear(ridge=1.0)
    leader = partial(online.FollowTheRegularizedLeader, ball, linear, regularizer=1.0)
    for neighbours in BOTH:
        budget, pure = Budget(1.0, 1e-6, neighbours), Budget(1.0, 0.0, neighbours)
        streams = partial(_streams, neighbours, rows, dim)
        leaders: dict[str, Any] = {
            "FollowTheRegularizedLeader": partial(leader, budget=budget, horizon=rows),
            "FollowTheRegularizedLeader, pure": partial(leader, budget=pure, horizon=rows),
            "FollowTheApproximateLeader": partial(
                online.FollowTheApproximateLeader,
                ball,
                strong,
                step="projection",
                budget=budget,
                horizon=rows,
            ),
        }
        for words, make in leaders.items():
            for compiled in (True, False):
                yield case(
                    f"{words}, {neighbours}, {'run' if compiled else 'one by one'}",
                    _learner(make, compiled),
                    streams,
                    quick=compiled or neighbours == "replace",
                )
        yield case(
            f"FollowTheRegularizedLeader, window of 4, {neighbours}",
            _learner(partial(leader, budget=Budget(1.0, 1e-6, neighbours, 4))),
            partial(_moving, neighbours, 4, dim),
        )
        # pushed far to the wrong side, the slope of a logistic loss attains its bound
        yield case(
            f"FollowTheRegularizedLeader, logistic, {neighbours}",
            _learner(partial(
                online.FollowTheRegularizedLeader, ball, losses.Logistic(), regularizer=1e-3,
                budget=budget, horizon=4,
            )),
            partial(_wrong, neighbours, 4), starts=(pushed(-6.0),),
        )  # fmt: skip
        # decisions of local steps reveal little of the totals behind them; a set without a kernel shows the totals
        yield case(
            f"FollowTheApproximateLeader, local-linear, {neighbours}",
            _learner(partial(
                online.FollowTheApproximateLeader, _PlainSimplex(3), strong, step="local-linear",
                budget=budget, horizon=4,
            ), compiled=False),
            partial(_streams, neighbours, 4, 3),
        )  # fmt: skip
        yield case(
            f"Learner with a custom rule, {neighbours}",
            _learner(
                partial(online.Learner, ball, _Towards(), linear, budget=budget, horizon=rows)
            ),
            streams,
        )
        inners = (("implicit", online.ImplicitGradient()), ("gradient", online.GradientDescent()))
        for words, inner in inners:
            for precision in ("lattice", "float"):
                yield case(
                    f"PerturbedIterates, {words}, {neighbours}, {precision}",
                    _learner(partial(
                        online.PerturbedIterates, sets.L2Ball(dim, 1e3), strong, inner=inner,
                        budget=budget, horizon=rows, noise_precision=precision,
                    )),
                    streams, normals=precision == "float", quick=precision == "lattice",
                )  # fmt: skip
        yield case(
            f"Experts, {neighbours}",
            _logits(partial(online.Experts, 4, budget=budget, horizon=4, temperature=50.0)),
            partial(_costs, neighbours, 4, 4),
        )
        # if a blanked record's coordinates are read later only, the draws of the two worlds do not correspond one to
        # one; tests/sums/test_on_demand.py compares their laws
        sparse = partial(online.SparseLeader, dim, strong, radius=FAR, budget=budget, horizon=rows)
        for every in (1, 2) if neighbours == "replace" else (1,):
            yield case(
                f"SparseLeader, read after every {('record', 'second record')[every - 1]}, {neighbours}",
                _on_demand(sparse, every),
                streams,
                normals=True,
            )
        # one decision reveals less than the two totals behind it; several, with known differences in noise, reveal both
        yield case(
            f"QuadraticLeader, {neighbours}",
            _learner(
                partial(
                    online.QuadraticLeader,
                    sets.L2Ball(1, 1e6),
                    losses.Squared(ridge=0.5),
                    budget=budget,
                    horizon=3,
                )
            ),
            partial(_squares, neighbours, 3),
            repeats=4,
        )
    yield from learners_of_persons()


def _learner_of_persons(make: Callable[[], online.OnlineLearner], age: int | None = None) -> Run:
    """Run a learner on records with labels and the ids of their persons; the output is every decision."""

    def run(data: Any, source: Source) -> Outcome:
        X, y, ids, present = data
        learner = make()
        claim = learner.guarantee if age is None else learner.guarantee.at(age)
        play = learner.run(X, y, present=present, person=ids, keep=len(X), keep_records=False)
        return Outcome([play.decisions, learner.decision], claim)

    return run


def _people(
    neighbours: str,
    record: FloatArray,
    other: FloatArray,
    rows: int,
    rule: Participation,
    labels: tuple[float, float] | None = None,
    first: int = 0,
) -> Iterator[InputPair]:
    """One person with the same record at every step from the first on, blanked, or replaced by another person's."""
    ids, steps = np.arange(100, 100 + rows), np.arange(rows)
    everyone = np.ones(rows, dtype=bool)

    def stream(row: FloatArray, which: int, name: int, since: int) -> tuple[Any, Any, Any, Any]:
        X = np.where((steps >= since)[:, None], row, np.zeros_like(row))
        y = None if labels is None else np.where(steps >= since, labels[which], 0.0)
        return X, y, np.where(steps >= since, name, ids), everyone

    here = stream(record, 0, 7, first)
    if neighbours == "zero-out":
        gone = (*here[:3], steps < first)
        yield InputPair(here, gone, f"all records of a person blanked, {rule}")
        return
    yield InputPair(here, stream(other, 1, 7, first), f"all records of a person replaced, {rule}")
    late = stream(other, 1, 8, first + 1)
    yield InputPair(here, late, f"replaced by a person who comes later, {rule}")


def _sparse_of_persons(make: Callable[[], online.SparseLeader]) -> Run:
    """Records of a sparse learner one by one with their persons; all its weights are read after each."""

    def run(data: Any, source: Source) -> Outcome:
        X, _, ids, present = data
        learner, seen = make(), []
        for row, name, there in zip(X, ids.tolist(), present, strict=True):
            learner.observe((np.arange(len(row)), row, None) if there else None, name)
            seen.append(learner.decision)
        return Outcome(seen, learner.guarantee)

    return run


def learners_of_persons() -> Iterator[Case]:
    """Learners where a person has several records, more than may count, and guarantees by age."""

    rows, rule, ball = 7, Participation(2, 3), sets.L2Ball(1, FAR)
    linear, strong = losses.Linear(), losses.Linear(ridge=1.0)
    leader = partial(online.FollowTheRegularizedLeader, ball, linear, regularizer=1.0)
    for neighbours in BOTH:
        common: dict[str, Any] = {
            "budget": Budget(1.0, 1e-6, neighbours),
            "horizon": rows,
            "participation": rule,
        }
        makes: dict[str, Any] = {
            "FollowTheRegularizedLeader": partial(leader, **common),
            "FollowTheApproximateLeader": partial(
                online.FollowTheApproximateLeader, ball, strong, step="projection", **common
            ),
            "Learner with a custom rule": partial(
                online.Learner, ball, _Towards(), linear, **common
            ),
            "PerturbedIterates": partial(
                online.PerturbedIterates,
                sets.L2Ball(1, 1e3),
                strong,
                inner=online.ImplicitGradient(),
                **common,
            ),
        }
        long = np.array([3.0])
        people = partial(_people, neighbours, long, -long, rows, rule)
        for words, make in makes.items():
            yield case(
                f"{words} of persons, {neighbours}",
                _learner_of_persons(make),
                people,
                quick=neighbours == "replace",
            )
        yield case(
            f"SparseLeader of persons, {neighbours}",
            _sparse_of_persons(partial(online.SparseLeader, 1, strong, radius=FAR, **common)),
            people,
            normals=True,
            quick=neighbours == "replace",
        )
        corner = np.array([7.0, -7.0, 7.0, -7.0])
        yield case(
            f"Experts of persons, {neighbours}",
            _logits(partial(online.Experts, 4, temperature=50.0, **common), _learner_of_persons),
            partial(_people, neighbours, corner, -corner, rows, rule),
            quick=neighbours == "replace",
        )
        few, short = 4, Participation(2, 2)
        yield case(
            f"QuadraticLeader of persons, {neighbours}",
            _learner_of_persons(
                partial(
                    online.QuadraticLeader,
                    sets.L2Ball(1, 1e6),
                    losses.Squared(ridge=0.5),
                    **common | {"horizon": few, "participation": short},
                )
            ),
            partial(_people, neighbours, long, long, few, short, (7.0, -7.0)),
            repeats=4,
            quick=neighbours == "replace",
        )
    fading = Budget(1.0, 1e-6, fade=((4, 1.0), (12, 1.5)))
    for age in (4, 12):
        yield case(
            f"FollowTheRegularizedLeader of persons, fading, age {age}",
            _learner_of_persons(partial(leader, budget=fading, participation=rule), age),
            partial(_people, BOTH[0], long, -long, age + 3, rule, None, 3),
            quick=age == 4,
        )
