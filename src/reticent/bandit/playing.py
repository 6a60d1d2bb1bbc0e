"""Many plays against losses that are known: the simulation behind ``run``, batch by batch.

Linear losses <a, x> and quadratic ones (scale/2) ||x - a||^2 are played by compiled loops, with the same arithmetic
as ask() and tell(). Any other loss, and any function, is played by calling these two.

The learner sees only values here, too. The rows are read only to compute the values of the points that it plays, and
its regret.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reticent import checks
from reticent.bandit import kernels
from reticent.bandit.responses import Projection
from reticent.checks import FloatArray
from reticent.losses import Linear, Loss, Quadratic, best_fixed
from reticent.losses.kernels import LINEAR, QUADRATIC
from reticent.sets import ConvexSet
from reticent.state.persons import Digests, as_array
from reticent.sums.running import refuse_ids
from reticent.trace import Diary, Play
from reticent.trace.play import pages_of

if TYPE_CHECKING:
    from reticent.bandit.base import Bandit


_CHUNK = 65536
_ALL = np.empty(0, np.bool_)


@dataclass
class RowsInHindsight:
    """The best fixed decision against the rows of a run, computed on demand. Reads private data."""

    set: ConvexSet
    loss: Loss
    rows: FloatArray

    def point(self) -> FloatArray:
        if type(self.loss) is Linear and self.loss.ridge == 0.0:
            best = self.set.linear_minimizer(self.rows.sum(axis=0))
        elif type(self.loss) is Quadratic:
            # the sum of squared distances is smallest where the distance from the mean of the centres is
            mean = self.rows.mean(axis=0)
            if self.set.can_project:
                best = self.set.project(mean)
            else:
                norm = max(1.0, 2.0 * float(np.linalg.norm(mean)))
                best = best_fixed(self.set, replace(self.loss, feature_norm=norm), mean[None]).point
        else:
            best = best_fixed(self.set, self.loss, self.rows).point
        return np.reshape(best, -1)

    def losses(self) -> FloatArray:
        best = self.point()
        if type(self.loss) is Linear and self.loss.ridge == 0.0:
            return self.rows @ best
        if type(self.loss) is Quadratic:
            return 0.5 * self.loss.scale * np.sum((self.rows - best) ** 2, axis=1)
        return np.array([self.loss.value(best, row, None) for row in self.rows])


def run(learner: Bandit, losses: Any, count: int | None, loss: Any, keep: int, person: Any) -> Play:
    """Implementation of `Bandit.run`."""
    start = time.perf_counter()
    loss = Linear() if loss is None else loss
    rows, count = _rows(losses, loss, count, learner.set.dim)
    with learner._lock:
        learner._check_turn()
    if learner.horizon is not None and learner.steps + count > learner.horizon:
        raise ValueError(
            f"{count} plays do not fit: {learner.horizon - learner.steps} of the horizon of {learner.horizon} "
            "are left; build the learner with a larger horizon, or without one"
        )
    persons, whose = learner._persons, None
    names = None if person is None else as_array(person)
    if persons is None:
        refuse_ids(None, person)
    else:
        whose = persons.digests(person, count)
        persons.check_room(whose, learner._total.steps + 1)
    diary = Diary(keep, count, learner.set.dim, every_loss=True)
    before = learner.clipped
    form = _form(loss)
    if rows is not None and form is not None:
        _in_chunks(learner, form, rows, whose, diary)
    else:
        for t in range(count):
            point = learner.ask()
            flat = np.asarray(point).reshape(-1)
            if rows is None:
                value = checks.number(losses(t, point), f"losses({t}, x)", secret=True)
            else:
                value = loss.value(flat.copy(), rows[t], None)
            learner.tell(value, point, None if names is None else names[t])
            diary.write(flat[None] if diary.wait == 0 else diary.pages(0), np.array([value]))
    return diary.close(
        learner.set.shape,
        clipped=learner.clipped - before,
        seconds=time.perf_counter() - start,
        guarantee=learner.guarantee,
        learner=type(learner).__name__,
        comparator=None if rows is None else RowsInHindsight(learner.set, loss, rows),
    )


def _rows(losses: Any, loss: Any, count: int | None, dim: int) -> tuple[FloatArray | None, int]:
    """The rows that the losses depend on, None if they are a function, and the number of plays."""
    if callable(losses):
        if count is None:
            raise ValueError("count must be the number of plays if losses is a function, got None")
        return None, checks.integer(count, "count", low=0)
    if not isinstance(loss, Loss):
        raise TypeError(f"loss must be a reticent.losses.Loss, got {loss!r}")
    rows = checks.matrix(losses, "losses", dim)
    if count is None:
        return rows, len(rows)
    count = checks.integer(count, "count", low=0, high=len(rows))
    return rows[:count], count


def _in_chunks(
    learner: Bandit, form: tuple[int, float], rows: FloatArray, whose: Digests | None, diary: Diary
) -> None:
    """Play all rows by compiled loops, and enter them in the diary."""
    for first in range(0, len(rows), _CHUNK):
        some = rows[first : first + _CHUNK]
        pages, values = diary.pages(len(some)), np.empty(len(some))
        with learner._lock:
            learner._check_turn()
            mine = whose if whose is None else whose[first : first + _CHUNK]
            _compiled(learner, _Plays(form, some, mine, diary.wait, diary.every, pages, values))
        diary.write(pages, values)


def _form(loss: Any) -> tuple[int, float] | None:
    if type(loss) is Linear and loss.ridge == 0.0:
        return LINEAR, 1.0
    if type(loss) is Quadratic:
        return QUADRATIC, float(loss.scale)
    return None


@dataclass(slots=True)
class _Plays:
    """Plays that are still to be made by a compiled loop.

    Attributes
    ----------
    form : (int, float)
        Kind and scale of the losses.
    rows : array
        What they depend on, a row for each play.
    whose : Digests or None
        The person of each play, if persons are protected.
    wait : int
        Number of plays before the first one whose point is kept.
    every : int
        One in so many points is kept.
    pages : array
        Where these points are written.
    values : array
        Where the losses are written.
    """

    form: tuple[int, float]
    rows: FloatArray
    whose: Digests | None
    wait: int
    every: int
    pages: FloatArray
    values: FloatArray

    def first(self, count: int) -> _Plays:
        """The first plays."""
        whose = None if self.whose is None else self.whose[:count]
        rows, values = self.rows[:count], self.values[:count]
        return _Plays(self.form, rows, whose, self.wait, self.every, self.pages, values)

    def after(self, count: int) -> _Plays:
        """The plays after the first ones."""
        whose = None if self.whose is None else self.whose[count:]
        turned, wait = pages_of(count, self.wait, self.every)
        rows, pages, values = self.rows[count:], self.pages[turned:], self.values[count:]
        return _Plays(self.form, rows, whose, wait, self.every, pages, values)


def _compiled(learner: Bandit, plays: _Plays) -> None:
    """Make all plays."""
    learner._shelve()
    while len(plays.rows):
        due = learner._prepare_play()
        if _is_swift(learner):
            played = _swift(learner, plays)
        else:
            played = min(due, len(plays.rows), learner._directions.ready())
            _stretch(learner, plays.first(played))
        plays = plays.after(played)


def _count(learner: Bandit, played: int) -> None:
    """Count plays before they are made: an interrupt may lose them, but must not let them be made again."""
    learner._directions.row += played
    learner._asked += played
    learner._answered += played
    learner._moves += 2 * played
    learner._lease.furthest = learner._moves


def _counts(learner: Bandit, whose: Digests | None, step: int, pace: int) -> NDArray[np.bool_]:
    """Which records count; empty if all do."""
    if whose is None:
        return _ALL
    assert learner._persons is not None
    return learner._persons.admit(whose, step, pace)


def _stretch(learner: Bandit, plays: _Plays) -> None:
    """Make plays of one round."""
    plan, directions, count = learner._plan, learner._directions, len(plays.rows)
    learner._response.work_on(count)  # first, because a user-defined set may fail
    here = slice(directions.row, directions.row + count)
    outer = directions.outer[here]
    learner._in_round += count
    _count(learner, count)
    counts = _counts(learner, plays.whose, learner._total.steps + 1, 0)
    kind, scale = plays.form
    learner.clipped += kernels.batch(kind)(
        scale, plays.rows, learner._base, plan.smoothing, outer, directions.inner[here],
        learner._centring.baseline, learner._centring.clip, plan.unit, plan.watch,
        counts, learner._pending, *learner._gauge, plays.values,
    )  # fmt: skip
    places = np.arange(plays.wait, count, plays.every)
    plays.pages[: len(places)] = learner._base + plan.smoothing * outer[places]


def _is_swift(learner: Bandit) -> bool:
    """Whether the next rounds have one play each, and a compiled projection."""
    plan = learner._plan
    return (
        isinstance(learner._response, Projection)
        and learner.set.kernel is not None
        and plan.batch == 1
        and not learner.stale
        and learner._round < min(plan.sums + 1, plan.rounds)
    )


def _swift(learner: Bandit, plays: _Plays) -> int:
    """Make as many plays as possible in rounds of one play each; return their number."""
    plan, directions, geometry = learner._plan, learner._directions, learner._geometry
    rounds = min(plan.sums, plan.rounds - 1) - learner._round + 1
    most = min(rounds, len(plays.rows), directions.ready())
    before_these = learner._total.steps
    total, noise, step, base = learner._total._lend(most)
    count = len(noise)
    plays = plays.first(count)
    here = slice(directions.row, directions.row + count)
    kind, params = learner.set.kernel  # type: ignore[misc]
    basis = geometry.basis if geometry.basis is not None else np.empty((0, 0))
    scale = plan.scale
    before = learner._sum_of_gradients - scale * learner._last
    released, point = np.zeros(geometry.dim), learner._point.copy()
    first = learner._round
    learner._sums_in_total = first + count - 1
    learner._set_round(first + count, 0)
    _count(learner, count)
    counts = _counts(learner, plays.whose, before_these + 1, 1)
    learner.clipped += kernels.projected(plays.form[0], kind)(
        plays.form[1], plays.rows, np.array(params), geometry.center, plan.shrink, basis,
        plan.smoothing, directions.outer[here], directions.inner[here],
        learner._centring.baseline, learner._centring.clip, plan.unit, before, scale * base,
        np.array(plan.schedule), float(first), counts, learner._pending, *learner._gauge,
        total, noise, scale * step, point, released, plays.wait, plays.every, plays.pages, plays.values,
    )  # fmt: skip
    learner._sum_of_gradients, learner._last = released, (released - before) / scale
    learner._point = learner._response.point = point
    learner._rebase()
    return count
