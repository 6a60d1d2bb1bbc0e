"""The table of the white-box audit: every public mechanism, learner, solver, estimator and scaler, each as data.

A case is a way to run something on data, and the neighbours that are hardest to hide: records at and beyond every
bound, at the first, a middle and the last place. Sets are large, losses have their full slope, and a few records of
two dimensions suffice, so that a case takes milliseconds.

To add one, write a function ``run(data, source)`` that returns an ``Outcome`` and a list of ``Pair``, and yield a
``Case`` from the family it belongs to.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import bandit, erm, losses, online, sets, sums, vertical
from reticent.audit import densities, minimisers
from reticent.audit.hooks import listening
from reticent.audit.whitebox import Exact, Outcome, Pair, Start, judge, pushed, search, silent
from reticent.audit.whitebox import Loss as Separation
from reticent.estimators import (
    OnlineLinearRegression,
    OnlineLogisticRegression,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
)
from reticent.noise import Source, exponential_mechanism, report_noisy_max
from reticent.privacy import Budget, Entry, Guarantee, Ledger
from reticent.vertical import messages
from reticent.vertical.plan import Terms, promise

FloatArray = NDArray[np.float64]
Run = Callable[[Any, Source], Outcome]

HUGE = 1.797e308
TINY = 5e-324
FAR = 1e9  # a set so large that no decision is ever cut off
BOTH = ("zero-out", "replace")


@dataclass(frozen=True)
class Case:
    """One line of the table: a name, its setting, how to compute it, and whether a quick audit does."""

    name: str
    setting: str
    check: Callable[[], Exact]
    quick: bool = True


# Records that are hard to hide ------------------------------------------------------------------


def extremes(dim: int, norm: float = 1.0) -> list[tuple[FloatArray, str]]:
    """Vectors at and beyond a bound on the norm, and some that are hard to measure."""
    first = np.zeros(dim)
    first[0] = norm
    signs = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0)
    mixed = np.full(dim, TINY)
    mixed[0] = HUGE
    return [
        (first, "at the bound"),
        (3.0 * first, "three times too long"),
        (1e200 * first, "of norm 1e200"),
        (HUGE * first / norm, "1.797e308 in one entry"),
        (np.full(dim, HUGE), "1.797e308 in every entry"),
        (HUGE * signs, "1.797e308 with mixed signs"),
        (mixed, "1.797e308 beside 5e-324"),
        (np.full(dim, TINY), "5e-324 in every entry"),
        (np.full(dim, norm / math.sqrt(dim)), "at the bound, spread evenly"),
    ]


def others(vector: FloatArray, neighbours: str) -> list[tuple[FloatArray, str]]:
    """What takes a record's place: nothing, or the records that are farthest from it."""
    if neighbours == "zero-out":
        return [(np.zeros_like(vector), "blanked")]
    return [(-vector, "turned round")]


def tables(
    neighbours: str,
    rows: int,
    dim: int,
    norm: float = 1.0,
    places: Iterable[int] | None = None,
    filler: float = 0.0,
) -> Iterator[tuple[FloatArray, FloatArray, str]]:
    """Pairs of tables that differ in one row; the other rows are zeros, or all point the same way."""
    base = np.zeros((rows, dim))
    base[:, -1] = filler
    first = True
    places = list((0, rows // 2, rows - 1) if places is None else places)
    for place in places:
        chosen = extremes(dim, norm)
        for vector, words in chosen if first else chosen[1:2]:
            for other, instead in others(vector, neighbours):
                here, there = base.copy(), base.copy()
                here[place], there[place] = vector, other
                yield here, there, f"row {place} {words}, {instead}"
        first = False
    # every row the same: a rule that looks at all rows together would treat the changed one otherwise
    here = np.zeros((rows, dim))
    here[:, 0] = norm
    there = here.copy()
    there[places[0]] = others(here[0], neighbours)[0][0]
    yield here, there, f"all rows the same, {others(here[0], neighbours)[0][1]}"


def _case(
    name: str,
    setting: str,
    run: Run,
    pairs: Callable[[], Iterable[Pair]],
    *,
    starts: Iterable[Start] = (silent,),
    quick: bool = True,
    **options: Any,
) -> Case:
    chosen = tuple(starts)

    def check() -> Exact:
        return search(run, pairs(), starts=chosen, name=name, **options)

    return Case(name, setting, check, quick)


def _budget(
    epsilon: float, delta: float, neighbours: str, window: int | None = None
) -> Budget:
    return Budget(epsilon, delta, neighbours, window)


# Running totals ---------------------------------------------------------------------------------


def _total(make: Callable[[], sums.RunningTotal], one_by_one: bool) -> Run:
    def run(data: FloatArray, source: Source) -> Outcome:
        total = make()
        if one_by_one:
            return Outcome([total.add(row if row.any() else None) for row in data], total.guarantee)
        return Outcome(total.run(data), total.guarantee)

    return run


def _stretched(neighbours: str, window: int, dim: int) -> Iterator[Pair]:
    """Streams that end where the promise does: ``window`` outputs after the record came, its own included."""
    for place in (0, window - 1, window, window + 1):
        made = list(tables(neighbours, place + window, dim, places=(place,)))
        for here, there, why in made if place == 0 else made[1:2]:
            yield Pair(here, there, why)


def _plain(neighbours: str, rows: int, dim: int) -> Iterator[Pair]:
    for here, there, why in tables(neighbours, rows, dim, places=range(0, rows, 2)):
        yield Pair(here, there, why)


def totals() -> Iterator[Case]:
    """Every running total, by kind of noise, relation, precision and life."""
    rows, dim, window = 8, 2, 4
    kinds: list[tuple[str, Callable[..., sums.RunningTotal], dict[str, Any], bool]] = [
        ("Tree, Honaker", sums.Tree, {"estimator": "honaker"}, False),
        ("Tree, plain", sums.Tree, {"estimator": "plain"}, False),
        ("Correlated", sums.Correlated, {}, False),
        ("Independent", sums.Independent, {}, False),
        ("Tree, plain, laplace", sums.Tree, {"estimator": "plain", "noise": "laplace"}, True),
        ("Tree, plain, gamma", sums.Tree, {"estimator": "plain", "noise": "gamma"}, True),
        ("Independent, laplace", sums.Independent, {"noise": "laplace"}, True),
        ("Independent, gamma", sums.Independent, {"noise": "gamma"}, True),
    ]
    for place, (words, make, options, pure) in enumerate(kinds):
        for neighbours in BOTH:
            for precision in ("lattice", "float"):
                if precision == "float" and neighbours == "replace":
                    continue
                budget = _budget(1.0, 0.0 if pure else 1e-6, neighbours)

                def build(
                    make: Any = make, options: Any = options, budget: Budget = budget,
                    precision: str = precision,
                ) -> sums.RunningTotal:  # fmt: skip
                    made: sums.RunningTotal = make(
                        dim, rows, budget=budget, noise_precision=precision, **options
                    )
                    return made

                yield _case(
                    "totals", f"{words}, {neighbours}, {precision}",
                    _total(build, one_by_one=place % 2 == 1),
                    lambda n=neighbours: _plain(n, rows, dim),
                    quick=precision == "lattice" or place == 0,
                )  # fmt: skip
    windows: list[tuple[str, Callable[..., sums.RunningTotal], dict[str, Any], bool]] = [
        ("WindowTree", sums.WindowTree, {}, False),
        ("WindowTree, laplace", sums.WindowTree, {"noise": "laplace"}, True),
        ("WindowTree, gamma", sums.WindowTree, {"noise": "gamma"}, True),
        ("Correlated, window", sums.Correlated, {}, False),
    ]
    for words, make, options, pure in windows:
        for neighbours in BOTH:
            budget = _budget(1.0, 0.0 if pure else 1e-6, neighbours, window)
            yield _case(
                "totals", f"{words} of {window}, {neighbours}",
                _total(lambda make=make, b=budget, o=options: make(dim, budget=b, **o), False),
                lambda n=neighbours: _stretched(n, window, dim),
            )  # fmt: skip
    budget = _budget(1.0, 1e-6, "zero-out")
    # the first epoch has 256 steps: only a stream of that length shows all of a record
    yield _case(
        "totals", "Correlated, first epoch of 256",
        _total(lambda: sums.Correlated(1, budget=budget), False),
        lambda: _epochs(256),
    )  # fmt: skip
    yield _case(
        "totals", "Tree, plain, two epochs", _total(
            lambda: sums.Tree(1, None, budget=budget, estimator="plain"), False
        ), lambda: _epochs(258, (0, 255, 256)),
    )  # fmt: skip


def _epochs(rows: int, places: Iterable[int] = (0,)) -> Iterator[Pair]:
    for place in places:
        here, there = np.zeros((rows, 1)), np.zeros((rows, 1))
        here[place] = 3.0
        yield Pair(here, there, f"row {place} three times too long, blanked")


# Online learners --------------------------------------------------------------------------------


def _streams(
    neighbours: str,
    rows: int,
    dim: int,
    *,
    window: int | None = None,
    label: float | None = None,
    filler: float = 0.0,
    norm: float = 1.0,
) -> Iterator[Pair]:
    """Streams of (records, labels, which are there); a blanked record is a gap."""
    if window is None:
        made = list(tables(neighbours, rows, dim, norm, filler=filler))
    else:
        made = [
            found
            for place in (0, window)
            for found in [*tables(neighbours, place + window, dim, norm, (place,), filler)][1:8:3]
        ]
    for here, there, why in made:
        changed = np.flatnonzero((here != there).any(axis=1))
        n = len(here)
        present = np.ones(n, dtype=bool)
        missing = present.copy()
        if neighbours == "zero-out":
            missing[changed] = False
        y = None if label is None else np.full(n, label)
        yield Pair((here, y, present), (there, y, missing), why)


def _learner(make: Callable[[], online.OnlineLearner], compiled: bool = True) -> Run:
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


class _Towards(online.Rule):
    """A rule of a user's own: a step against the noisy total."""

    def prepare(self, problem: online.Problem) -> None:
        self._center = np.asarray(problem.center)

    def start(self) -> FloatArray:
        return self._center

    def step(self, moment: online.Moment) -> FloatArray:
        return np.asarray(self._center - 0.1 * moment.total)


class _Plain(sets.Simplex):
    """A simplex as a user would write it: without a kernel."""

    @property
    def kernel(self) -> None:
        return None


def learners() -> Iterator[Case]:
    """Every online learner."""
    rows, dim = 6, 2
    ball = sets.L2Ball(dim, FAR)
    linear = losses.Linear()
    strong = losses.Linear(ridge=1.0)
    for neighbours in BOTH:
        budget, pure = _budget(1.0, 1e-6, neighbours), _budget(1.0, 0.0, neighbours)
        window = _budget(1.0, 1e-6, neighbours, 4)
        streams: dict[str, Any] = {
            "FollowTheRegularizedLeader": lambda b=budget: online.FollowTheRegularizedLeader(
                ball, linear, regularizer=1.0, budget=b, horizon=rows
            ),
            "FollowTheRegularizedLeader, pure": lambda b=pure: online.FollowTheRegularizedLeader(
                ball, linear, regularizer=1.0, budget=b, horizon=rows
            ),
            "FollowTheApproximateLeader": lambda b=budget: online.FollowTheApproximateLeader(
                ball, strong, step="projection", budget=b, horizon=rows
            ),
        }
        for words, make in streams.items():
            for compiled in (True, False):
                how = "run" if compiled else "one by one"
                yield _case(
                    "online", f"{words}, {neighbours}, {how}", _learner(make, compiled),
                    lambda n=neighbours: _streams(n, rows, dim),
                    quick=compiled or neighbours == "replace",
                )  # fmt: skip
        yield _case(
            "online", f"FollowTheRegularizedLeader, window of 4, {neighbours}",
            _learner(lambda b=window: online.FollowTheRegularizedLeader(
                ball, linear, regularizer=1.0, budget=b
            )),
            lambda n=neighbours: _streams(n, rows, dim, window=4),
        )  # fmt: skip
        # an adaptive learner: pushed far to the wrong side, the slope of a logistic loss is its bound
        yield _case(
            "online", f"FollowTheRegularizedLeader, logistic, {neighbours}",
            _learner(lambda b=budget: online.FollowTheRegularizedLeader(
                ball, losses.Logistic(), regularizer=0.001, budget=b, horizon=4
            )),
            lambda n=neighbours: _wrong(n, 4),
            starts=(pushed(-6.0),),
        )  # fmt: skip
        # decisions of a local step say little of the totals behind them, which an uncompiled set shows
        yield _case(
            "online", f"FollowTheApproximateLeader, local-linear, {neighbours}",
            _learner(lambda b=budget: online.FollowTheApproximateLeader(
                _Plain(3), losses.Linear(ridge=1.0), step="local-linear", budget=b, horizon=4
            ), compiled=False),
            lambda n=neighbours: _streams(n, 4, 3),
        )  # fmt: skip
        yield _case(
            "online", f"Learner with a rule of one's own, {neighbours}",
            _learner(lambda b=budget: online.Learner(
                ball, _Towards(), linear, budget=b, horizon=rows
            )),
            lambda n=neighbours: _streams(n, rows, dim),
        )  # fmt: skip
        inners: dict[str, Any] = {
            "implicit": online.ImplicitGradient(), "gradient": online.GradientDescent()
        }  # fmt: skip
        for words, inner in inners.items():
            for precision in ("lattice", "float"):
                yield _case(
                    "online", f"PerturbedIterates, {words}, {neighbours}, {precision}",
                    _learner(lambda b=budget, i=inner, p=precision: online.PerturbedIterates(
                        sets.L2Ball(dim, 1e3), strong, inner=i, budget=b, horizon=rows,
                        noise_precision=p,
                    )),
                    lambda n=neighbours: _streams(n, rows, dim),
                    normals=precision == "float", quick=precision == "lattice",
                )  # fmt: skip
        yield _case(
            "online", f"QuadraticLeader, {neighbours}",
            _learner(lambda b=budget: online.QuadraticLeader(
                sets.L2Ball(1, 1e6), losses.Squared(ridge=0.5), budget=b, horizon=3
            )),
            lambda n=neighbours: _squares(n),
            repeats=6,
        )  # fmt: skip


def _wrong(neighbours: str, rows: int) -> Iterator[Pair]:
    """Records that a decision far along (1, 1) gets wrong, and that nearly point away from each other."""
    along, across = np.array([1.0, 1.0]) / math.sqrt(2.0), np.array([1.0, -1.0]) / math.sqrt(2.0)
    first, second = -0.1 * along + 0.995 * across, -0.1 * along - 0.995 * across
    y, present = np.ones(rows), np.ones(rows, dtype=bool)
    for place in (1, rows - 1):
        for size in (1.0, 3.0, HUGE / 2.0):
            here, there, missing = np.zeros((rows, 2)), np.zeros((rows, 2)), present.copy()
            here[place] = size * first
            if neighbours == "replace":
                there[place] = size * second
            else:
                missing[place] = False
            yield Pair((here, y, present), (there, y, missing), f"row {place} on the wrong side")


def _squares(neighbours: str) -> Iterator[Pair]:
    """Records with labels at and beyond the bounds, for squared losses."""
    rows = 3
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
            yield Pair((X, y, present), (other, labels, missing), f"row {place}: {size:g}, {label:g}")


# Bandits ----------------------------------------------------------------------------------------


def _played(make: Callable[[], bandit.Bandit], see: Callable[[FloatArray], float]) -> Run:
    """Values told one by one (None: the null record); what is seen is every decision."""

    def run(data: Any, source: Source) -> Outcome:
        learner = make()
        seen = []
        for value in data:
            learner.ask()
            seen.append(see(learner.decision))
            learner.tell(value)
        return Outcome(seen, learner.guarantee)

    return run


def _logit(point: FloatArray) -> float:
    return math.log(point[0] / point[1])


def _first(point: FloatArray) -> float:
    return float(point[0])


def _values(neighbours: str, plays: int) -> Iterator[Pair]:
    for place in (0, 1, plays // 2):
        for size in (1.0, 5.0, HUGE) if place == 0 else (5.0,):
            here: list[float | None] = [0.0] * plays
            there = list(here)
            here[place], there[place] = size, None if neighbours == "zero-out" else -size
            yield Pair(here, there, f"value {place} is {size:g}")


def bandits() -> Iterator[Case]:
    """Both bandits; the batch of the last plays is never released, so the record comes early."""
    plays = 6
    common: dict[str, Any] = {"horizon": plays, "lipschitz": 1.0, "values": (-1.0, 1.0), "step": 1e-3}
    free = {"smoothing": 0.3, "batches": plays, "mirror": "entropy"}
    for neighbours in BOTH:
        budget, pure = _budget(1.0, 1e-6, neighbours), _budget(1.0, 0.0, neighbours)
        makes: dict[str, tuple[Callable[..., bandit.Bandit], Any]] = {
            "ProjectionFreeBandit, correlated": (lambda b=budget: bandit.ProjectionFreeBandit(
                sets.Simplex(2), b, centring="middle", **free, **common), _logit),
            "ProjectionFreeBandit, tree, not stale": (lambda b=budget: bandit.ProjectionFreeBandit(
                sets.Simplex(2), b, centring="middle", total="tree", stale=False, **free, **common
            ), _logit),
            "ProjectionFreeBandit, laplace": (lambda b=pure: bandit.ProjectionFreeBandit(
                sets.Simplex(2), b, centring="middle", noise="laplace", **free, **common), _logit),
            "ProjectionFreeBandit, gamma": (lambda b=pure: bandit.ProjectionFreeBandit(
                sets.Simplex(2), b, centring="middle", noise="gamma", **free, **common), _logit),
            "ProjectionFreeBandit, adaptive": (lambda b=budget: bandit.ProjectionFreeBandit(
                sets.Simplex(2), b, centring="adaptive", **free, **common), _logit),
            "ProjectedBandit": (lambda b=budget: bandit.ProjectedBandit(
                sets.Box([-1.0], [1.0]), b, smoothing=0.3, **common), _first),
        }  # fmt: skip
        for words, (make, see) in makes.items():
            yield _case(
                "bandit", f"{words}, {neighbours}", _played(make, see),
                lambda n=neighbours: _values(n, plays),
            )  # fmt: skip


# Solvers ----------------------------------------------------------------------------------------


def _labelled(
    neighbours: str,
    rows: int,
    dim: int,
    norm: float = 1.0,
    *,
    labels: tuple[float, ...] = (1.0,),
    flip: bool = False,
    places: Iterable[int] | None = None,
) -> Iterator[Pair]:
    """Tables with labels. Replacement turns the row round, or with ``flip`` the label."""
    for label in labels:
        for here, there, why in tables(neighbours, rows, dim, norm, places=places):
            y = np.full(rows, np.sign(label))
            other = y.copy()
            changed = np.flatnonzero((here != there).any(axis=1))
            y[changed] = label
            other[changed] = label
            if flip and neighbours == "replace":
                there, other[changed] = here, -label
            yield Pair((here, y), (there, other), f"{why}, label {label:g}")


def _fit(solve: Callable[..., erm.Fit]) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        fit = solve(*data)
        return Outcome(fit.point, fit.guarantee)

    return run


def solvers() -> Iterator[Case]:
    """Every offline solver whose output is linear in its noise, and those that choose."""
    rows, dim = 4, 2
    ball, box, linear = sets.L2Ball(dim, FAR), sets.LinfBall(dim, 1e3), losses.Linear()
    hinge = losses.SmoothHinge(0.1)
    for neighbours in BOTH:
        for delta in (1e-6, 0.0):
            for precision in ("lattice", "float") if neighbours == "zero-out" else ("lattice",):
                b = _budget(1.0, delta, neighbours)
                common: dict[str, Any] = {"budget": b, "noise_precision": precision}
                words = f"{neighbours}, {'gaussian' if delta else 'gamma'}, {precision}"
                solve: dict[str, Any] = {
                    "gradient_descent, 3 steps": lambda X, y, c=common: erm.gradient_descent(
                        linear, ball, X, steps=3, step_size=1.0, average="last", **c),
                    "ftrl, one pass": lambda X, y, c=common: erm.ftrl(
                        linear, ball, X, regularizer=1.0, order="given", **c),
                    "ftrl, 3 passes": lambda X, y, c=common: erm.ftrl(
                        linear, ball, X, regularizer=1.0, order="given", passes=3, **c),
                    "ftrl, resampled": lambda X, y, c=common: erm.ftrl(
                        linear, ball, X, regularizer=1.0, order="resample", passes=2, **c),
                    "output_perturbation": lambda X, y, c=common: erm.output_perturbation(
                        linear, box, X, regularizer=1.0, **c),
                    "averaged_iterate, last": lambda X, y, c=common: erm.averaged_iterate(
                        linear, box, X, regularizer=1.0, average="last", **c),
                    "averaged_iterate, uniform": lambda X, y, c=common: erm.averaged_iterate(
                        linear, box, X, regularizer=1.0, average="uniform", **c),
                    "averaged_iterate, weighted, gradient": lambda X, y, c=common: (
                        erm.averaged_iterate(linear, box, X, regularizer=1.0, average="weighted",
                                             inner="gradient", **c)),
                    "localisation": lambda X, y, c=common: erm.localisation(
                        losses.SmoothHinge(0.1, ridge=1.0), sets.L2Ball(dim, 100.0), X, y, steps=2,
                        **c),
                    "frank_wolfe, noisy gradient": lambda X, y, c=common: erm.frank_wolfe(
                        linear, sets.L2Ball(dim, 10.0), X, steps=3, oracle="gradient", **c),
                }  # fmt: skip
                for name, how in solve.items():
                    yield _case(
                        "erm", f"{name}, {words}", _fit(how),
                        lambda n=neighbours: _labelled(n, rows, dim),
                        starts=(silent, pushed(3.0)) if "localisation" in name else (silent,),
                        quick=precision == "lattice" or (name.startswith("grad") and delta > 0.0),
                    )  # fmt: skip
                if precision == "float":
                    continue
                choose: dict[str, Any] = {
                    "frank_wolfe, l1 ball": lambda X, y, c=common: erm.frank_wolfe(
                        linear, sets.L1Ball(dim, 2.0), X, steps=3, **c),
                    "frank_wolfe, simplex": lambda X, y, c=common: erm.frank_wolfe(
                        linear, sets.Simplex(dim), X, steps=3, **c),
                    "frank_wolfe, listed vertices": lambda X, y, c=common: erm.frank_wolfe(
                        linear, sets.LinfBall(dim, 1.0), X, steps=3, oracle="vertices", **c),
                    "exponential_mechanism, net": lambda X, y, c=common: erm.exponential_mechanism(
                        linear, sets.Box([-1.0] * dim, [1.0] * dim), X, version="plain",
                        net=[[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [1.0, -1.0]], **c),
                }  # fmt: skip
                for name, how in choose.items():
                    yield _case(
                        "erm", f"{name}, {words}", _fit(how),
                        lambda n=neighbours: _labelled(n, rows, dim),
                    )  # fmt: skip
                yield _case(
                    "erm", f"sufficient_statistics, joint, {words}",
                    _fit(lambda X, y, c=common: erm.sufficient_statistics(
                        losses.Squared(), None, X, y, **c)),
                    lambda n=neighbours: _products(n, rows),
                )  # fmt: skip
        b = _budget(1.0, 1e-6, neighbours)
        yield _case(
            "erm", f"sufficient_statistics, adassp, {neighbours}",
            _fit(lambda X, y, b=b: erm.sufficient_statistics(
                losses.Squared(), None, X, y, budget=b, method="adassp")),
            lambda n=neighbours: _products(n, rows),
        )  # fmt: skip
        yield _case(
            "erm", f"gradient_descent, weights, {neighbours}",
            _fit(lambda X, y, w, b=b: erm.gradient_descent(
                hinge, ball, X, y, budget=b, steps=2, step_size=1.0, average="last", weights=w,
                weight_bound=2.0)),
            lambda n=neighbours: _weighted(n, rows, dim),
        )  # fmt: skip
        yield Case("erm", f"gradient_descent, Poisson sampling, {neighbours}",
                   lambda n=neighbours: _sampling(n), neighbours == "zero-out")  # fmt: skip


def _products(neighbours: str, rows: int) -> Iterator[Pair]:
    """For squared losses: labels at and beyond the bounds, and the worst angle under replacement."""
    for X, other, why in tables(neighbours, rows, 2):
        changed = np.flatnonzero((X != other).any(axis=1))
        for label in (1.0, HUGE):
            y, labels = np.zeros(rows), np.zeros(rows)
            y[changed] = label
            if neighbours == "replace":
                labels[changed] = -label
            yield Pair((X, y), (other, labels), f"{why}, label {label:g}")
    if neighbours == "replace":
        for cosine in np.linspace(-1.0, 1.0, 41):
            X, other = np.zeros((rows, 2)), np.zeros((rows, 2))
            X[0], other[0] = (3.0, 0.0), (3.0 * cosine, 3.0 * math.sqrt(1.0 - cosine**2))
            y, labels = np.zeros(rows), np.zeros(rows)
            y[0], labels[0] = 1.0, -1.0
            yield Pair((X, y), (other, labels), f"two records with a cosine of {cosine:.2g}")


def _weighted(neighbours: str, rows: int, dim: int) -> Iterator[Pair]:
    for X, other, why in tables(neighbours, rows, dim):
        changed = np.flatnonzero((X != other).any(axis=1))
        weights = np.ones(rows)
        weights[changed] = 1e6
        y = np.ones(rows)
        yield Pair((X, y, weights), (other, y, weights), f"{why}, weight 1e6")


def _sampling(neighbours: str) -> Exact:
    """One step over a Poisson sample: how often a record is in it, and how far it moves the sum.

    The random words are prescribed too: evenly spread over all there are, so that the share of records in the
    sample is the probability of being in it. The hockey stick of one step follows by numeric integration.
    """
    name, rate, delta = "erm", 0.25, 1e-6
    budget = _budget(1.0, delta, neighbours)

    def solve(X: FloatArray, words: Callable[[int], Any], noise: float = 0.0) -> tuple[Any, erm.Fit]:
        with listening(lambda place, made: np.full(made.values.shape, noise), words=words) as tape:
            fit = erm.gradient_descent(
                losses.Linear(), sets.L2Ball(1, FAR), X, budget=budget, steps=1, step_size=1.0,
                sampling=rate, average="last",
            )  # fmt: skip
        return tape, fit

    count = 4096

    def spread(size: int) -> Any:
        return (np.arange(size, dtype=np.uint64) << np.uint64(52)) + np.uint64(2**51)

    tape, fit = solve(np.ones((count, 1)), spread)
    measured = float(np.rint(abs(tape.seen[0][0]))) / count

    def everyone(size: int) -> Any:
        return np.ones(size, np.uint64)

    worst, scale = 0.0, 1.0
    for here, there, _ in [*tables(neighbours, 4, 1)][1:2]:
        (first, _), (second, _) = solve(here, everyone), solve(there, everyone)
        unit = float(first.draws[0].scales[0])
        # one scale of noise, as the released number shows it
        third, _ = solve(here, everyone, unit)
        scale = abs(float(third.seen[0][0] - first.seen[0][0]))
        worst = max(worst, abs(float(first.seen[0][0] - second.seen[0][0])))
    ratio = worst / scale if neighbours == "zero-out" else 0.5 * worst / scale
    found = densities.epsilon_at(lambda e: densities.sampled_stick(ratio, measured, neighbours, e), delta)
    claimed = fit.guarantee.epsilon(delta)
    share = found / claimed
    how = f"sampled with probability {measured:.4f}, moved by {worst / scale:.4f} scales"
    return Exact(name, claimed, found, delta, share, share <= 1.0 + 1e-6, how)


# Objective perturbation, whose output is not linear in its noise ----------------------------------


def _margins(rows: int = 2, labels: float = 1.0, neighbours: str = "zero-out") -> Iterator[Pair]:
    """One record beyond the bound in one dimension, alone, and its absence or its opposite."""
    for size, words in ((3.0, "three times too long"),):
        X, other, y = np.zeros((rows, 1)), np.zeros((rows, 1)), np.full(rows, labels)
        X[0] = size
        if neighbours == "replace":
            other[0] = -size
        yield Pair((X, y), (other, y), f"a record {words}")


def perturbed() -> Iterator[Case]:
    """Exact densities of perturbed minimisers, in one and two dimensions, and of several at once."""
    hinge = losses.SmoothHinge(0.1)

    def solve(loss: Any, budget: Budget, **options: Any) -> Run:
        return _fit(lambda X, y, *w: erm.objective_perturbation(
            loss, None, X, y, budget=budget, **({"weights": w[0]} if w else {}), **options
        ))  # fmt: skip

    settings: list[tuple[str, Any, Budget, float]] = []
    for neighbours in BOTH:
        for delta in (1e-6, 0.0):
            # a large ridge shows the noise, a small one the determinant
            for ridge in (300.0, 6.0):
                settings.append((f"SmoothHinge, ridge {ridge:g}", hinge, _budget(4.0, delta, neighbours), ridge))
    settings.append(("CappedLogistic", losses.CappedLogistic(), _budget(4.0, 1e-6, "zero-out"), 3.0))
    settings.append(("Huber", losses.Huber(), _budget(4.0, 1e-6, "zero-out"), 3.0))
    for words, loss, budget, ridge in settings:
        noise = "gaussian" if budget.delta else "gamma"
        where = sets.Box([-50.0], [50.0]) if isinstance(loss, losses.Huber) else None
        run = _fit(lambda X, y, loss=loss, where=where, b=budget, r=ridge: erm.objective_perturbation(
            loss, where, X, y, budget=b, regularizer=r
        ))  # fmt: skip
        yield Case(
            "objective perturbation", f"{words}, {budget.neighbours}, {noise}",
            lambda run=run, n=budget.neighbours: minimisers.minimiser(
                "objective perturbation", run, _margins(neighbours=n)
            ),
        )  # fmt: skip
    budget = _budget(4.0, 1e-6, "zero-out")
    X, other = np.zeros((2, 2)), np.zeros((2, 2))
    X[0] = (3.0, 0.0)
    yield Case(
        "objective perturbation", "Logistic, two dimensions, zero-out, gaussian",
        lambda: minimisers.minimiser(
            "objective perturbation", solve(losses.Logistic(), budget, regularizer=3.0),
            [Pair((X, np.ones(2)), (other, np.ones(2)), "a record three times too long")], plane=True,
        ),
    )  # fmt: skip
    for noise, b in (("gaussian", budget), ("gamma", _budget(4.0, 0.0, "zero-out"))):
        labels = np.array([[1.0, -1.0], [1.0, 1.0]])
        one, none = np.array([[3.0], [0.0]]), np.zeros((2, 1))
        yield Case(
            "objective perturbation", f"SmoothHinge, two classes at once, zero-out, {noise}",
            lambda b=b, one=one, none=none, labels=labels: minimisers.minimiser(
                "objective perturbation", solve(hinge, b, regularizer=100.0),
                [Pair((one, labels), (none, labels), "a record three times too long")],
            ),
        )  # fmt: skip
    heavy = np.array([1e6, 1.0])
    yield Case(
        "objective perturbation", "SmoothHinge, weights, zero-out, gaussian",
        lambda: minimisers.minimiser(
            "objective perturbation", solve(hinge, budget, regularizer=100.0, weight_bound=2.0),
            [Pair((np.array([[3.0], [0.0]]), np.ones(2), heavy), (np.zeros((2, 1)), np.ones(2), heavy),
                  "a record three times too long, weight 1e6")],
        ),
    )  # fmt: skip


# Selections -------------------------------------------------------------------------------------


def _selection(noise: str, budget: Budget, monotone: bool) -> Exact:
    """The exact law of one choice in two worlds, from the scores and the scale that reached it.

    A candidate that is seldom chosen gains while all others lose (or, monotone, stay).
    """
    name, sensitivity = "selection", 2.0
    given: dict[str, Any] = {"sensitivity": sensitivity, "budget": budget, "monotone": monotone}

    def choose(scores: FloatArray) -> tuple[Any, Guarantee]:
        with listening() as tape:
            if noise == "gumbel":
                chosen = exponential_mechanism(scores, **given)
            else:
                chosen = report_noisy_max(scores, noise=noise, **given)
        return tape.choices[0], chosen.guarantee

    worst: Exact | None = None
    for low in (0.0, -3.0, -20.0, -100.0):
        for count in (2, 3, 8):
            here = np.zeros(count)
            here[0] = low
            there = here - (0.0 if monotone else sensitivity)
            there[0] = low + sensitivity
            (a, claim), (b, _) = choose(here), choose(there)
            laws = [densities.law(c.noise, c.scores, c.scale) for c in (a, b)]
            for delta in (0.0, 1e-3, 0.05):
                claimed = claim.epsilon(delta)
                found = max(_epsilon(*laws, delta), _epsilon(*laws[::-1], delta))
                share = found / claimed if claimed > 0.0 else 0.0
                if worst is None or share > worst.tightness:
                    how = f"{count} candidates, the first {-low:g} behind"
                    worst = Exact(name, claimed, found, delta, share, share <= 1.0 + 1e-7, how)
    assert worst is not None
    return worst


def _epsilon(p: FloatArray, q: FloatArray, delta: float) -> float:
    if delta == 0.0:
        return float(np.max(np.log(p / q)))
    ones = np.ones(p.size)
    return densities.epsilon_at(lambda e: densities.stick(np.log(p), np.log(q), ones, e), delta)


def selections() -> Iterator[Case]:
    """The exponential mechanism and report-noisy-max, by their exact laws, and a draw from a density."""
    for noise in ("gumbel", "laplace", "exponential"):
        for neighbours, monotone in (("zero-out", False), ("replace", False), ("zero-out", True)):
            budget = _budget(1.0, 0.0, neighbours)
            words = f"{noise}, {neighbours}{', monotone' if monotone else ''}"
            yield Case("selection", words,
                       lambda n=noise, b=budget, m=monotone: _selection(n, b, m))  # fmt: skip
    for neighbours in BOTH:
        yield Case("selection", f"erm.exponential_mechanism, exact draw, {neighbours}",
                   lambda n=neighbours: _density(n))  # fmt: skip


def _density(neighbours: str) -> Exact:
    """The density from which the exponential mechanism says that it draws, on a fine grid.

    Many other records put nearly all of it at one end; the log-ratio at the other is then all that a record can do.
    """
    budget = _budget(1.0, 0.0, neighbours)
    loss = losses.Linear()
    grid = np.linspace(-1.0, 1.0, 2001)
    worst: Exact | None = None
    for row in (-1.0, -3.0, -HUGE):
        laws = []
        for changed in (row, 0.0 if neighbours == "zero-out" else -row):
            A = np.ones((60, 1))
            A[0] = changed
            with listening():
                fit = erm.exponential_mechanism(
                    loss, sets.Box([-1.0], [1.0]), A, budget=budget, version="plain"
                )
            k = float(fit.trace.settings["k"])  # type: ignore[arg-type]
            clean, labels, _ = loss.prepare(A, None)
            values = [len(A) * loss.mean_value(np.array([x]), clean, labels) for x in grid]
            log_p = -k * np.array(values)
            laws.append(log_p - np.log(np.sum(np.exp(log_p - log_p.max()))) - log_p.max())
        found = float(np.max(np.abs(laws[0] - laws[1])))
        claimed = fit.guarantee.epsilon(0.0)
        share = found / claimed
        if worst is None or share > worst.tightness:
            worst = Exact("selection", claimed, found, 0.0, share, share <= 1.0 + 1e-7,
                          f"a record {row:g} among 59 of 1")  # fmt: skip
    assert worst is not None
    return worst


# Columns with different owners --------------------------------------------------------------------


class _Generous(Ledger):
    """Pays for everything without a look: what is audited is the messages, not the accounts."""

    def spend(self, guarantee: Guarantee, what: str) -> Entry:
        return Entry(what, guarantee, "")


def _asked(party: vertical.Party, request: messages.Message) -> Any:
    answer = messages.decode(party.handle(request.encode()))
    if isinstance(answer, messages.Refusal):
        raise RuntimeError(f"a request was refused: {answer.text}")
    return answer


def _told(plan: vertical.Plan, terms: Terms, rounds: int, fetch: bool, labels: bool) -> Run:
    """All that a party says to a coordinator that pushes every record's slope to its clip."""
    claim = promise(plan, terms)

    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        budget = Budget(1e6, 1e-3, terms.neighbours)
        party = vertical.Party(
            "honest", X, ids=range(len(X)), ledger=_Generous(budget), key=bytes(16), labels=y
        )
        _asked(party, plan.request(bytes(16), 1))
        sequence, seen = 2, []
        for t in range(rounds):
            push = np.full(plan.sketch_size, 1e6 if t % 2 == 0 else -1e6)
            choice = _asked(party, messages.Step(
                run=bytes(16), sequence=sequence, round=t, last=False, others=push
            ))  # fmt: skip
            seen += [[choice.column, choice.sign], choice.value, choice.sketch]
            sequence += 1
        if fetch:
            answer = _asked(
                party, messages.Fetch(run=bytes(16), sequence=sequence, column=choice.column)
            )
            seen.append(answer.sketch)
            sequence += 1
        if labels:
            seen.append(_asked(party, messages.AskLabels(run=bytes(16), sequence=sequence)).sketch)
        return Outcome(seen, claim)

    return run


def _columns(neighbours: str, rows: int, places: Iterable[int] = (0,)) -> Iterator[Pair]:
    for place in places:
        for size in (1.0, 3.0, HUGE, TINY):
            X, y = np.zeros((rows, 2)), np.zeros(rows)
            X[:, 0] = 1.0 if rows > 8 else 0.0
            other, labels = X.copy(), y.copy()
            X[place], y[place] = (size, -size), size
            if neighbours == "replace":
                other[place], labels[place] = -X[place], -y[place]
            else:
                other[place] = 0.0
            yield Pair((X, y), (other, labels), f"row {place} holds {size:g}")


def columns() -> Iterator[Case]:
    """The feature-distributed protocol: one party against all others, and a whole run."""
    rows, many = 4, 128  # the many put one score far ahead of the others, where Laplace noise tells most
    for neighbours in BOTH:
        terms = Terms(neighbours=neighbours)
        moved = terms.moved(1.0)
        common: dict[str, Any] = {"rows": rows, "clip": 2.0, "selection_scale": 8.0 * moved}
        plans: dict[str, tuple[vertical.Plan, int, bool, bool]] = {
            "choices and values": (vertical.Plan(
                rounds=3, columns=1, value_scale=9.0 * moved, sketch_scale=4.0 * moved,
                sketch_size=rows, **common), 3, True, False),
            "choices, laplace": (vertical.Plan(
                rounds=2, columns=0, sketch_scale=1.0, sketch_size=many, selection="laplace",
                **(common | {"rows": many})), 2, False, False),
            "sketches, unsketched": (vertical.Plan(
                rounds=1, columns=1, sketch_scale=4.0 * moved, sketch_size=rows,
                **common), 1, False, False),
            "sketches": (vertical.Plan(
                rounds=1, columns=1, sketch_scale=4.0 * moved, sketch_size=2, sketch_spread=2,
                **common), 1, False, False),
            "labels": (vertical.Plan(
                rounds=0, columns=0, sketch_scale=1.0, labels="send", label_scale=3.0 * moved,
                sketch_size=2, sketch_spread=2, **common), 0, False, True),
        }  # fmt: skip
        for words, (plan, rounds, fetch, labels) in plans.items():
            yield _case(
                "vertical", f"Party, {words}, {neighbours}",
                _told(plan, terms, rounds, fetch, labels),
                lambda n=neighbours, r=plan.rows: _columns(n, r, (0, r - 1)), delta=1e-3,
            )  # fmt: skip
        for variant in ("ball", "product"):
            yield _case(
                "vertical", f"Coordinator, {variant}, {neighbours}",
                _coordinated(_budget(2.0, 1e-3, neighbours), variant),
                lambda n=neighbours: _columns(n, rows), delta=1e-3,
            )  # fmt: skip
        yield _case(
            "vertical", f"one_shot_sketch, {neighbours}",
            lambda data, source, b=_budget(1.0, 1e-6, neighbours): _sketched(data, b),
            lambda n=neighbours: _columns(n, rows),
        )  # fmt: skip


def _coordinated(budget: Budget, variant: str) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        parties = {
            name: vertical.Party(name, X[:, [k]], ids=range(len(X)), ledger=_Generous(budget),
                                 key=bytes(16), labels=y)
            for k, name in enumerate(("a", "b"))
        }  # fmt: skip
        fit = vertical.Coordinator(vertical.InProcess(parties)).run(
            budget=budget, rounds=2, columns=1, variant=variant, seed=0
        )
        return Outcome(fit.point, fit.guarantee)

    return run


def _sketched(data: Any, budget: Budget) -> Outcome:
    X, y = data
    fit = vertical.one_shot_sketch(
        [X[:, :1], X[:, 1:]], y, budget=budget, sketch_size=2, radius=1.0, seed=None
    )
    return Outcome(fit.point, fit.guarantee)


# Estimators -------------------------------------------------------------------------------------


def _estimator(make: Callable[[], Any], see: Callable[[Any], Any]) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(*data)
        return Outcome(see(model), model.guarantee_)

    return run


def _coefficients(model: Any) -> Any:
    return [model.coef_, model.intercept_]


def _slope(model: Any) -> Any:
    return model.coef_


def estimators() -> Iterator[Case]:
    """The faces: each estimator with each of its solvers, and the scaler."""
    rows = 4
    one, none = np.array([[3.0], [0.0]]), np.zeros((2, 1))
    signs = np.array([1, 1])
    for neighbours in BOTH:
        b: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6, "neighbours": neighbours}
        other = none if neighbours == "zero-out" else -one
        wide = {"fit_intercept": False, "classes": [-1, 1], **b}
        classifiers: dict[str, Any] = {
            "PrivateLogisticRegression": lambda w=wide: PrivateLogisticRegression(
                regularizer=100.0, **w),
            "PrivateLogisticRegression, pure": lambda w=wide: PrivateLogisticRegression(
                regularizer=100.0, **(w | {"delta": 0.0})),
            "PrivateLinearSVC": lambda w=wide: PrivateLinearSVC(regularizer=300.0, **w),
        }  # fmt: skip
        for words, make in classifiers.items():
            yield Case("estimators", f"{words}, {neighbours}",
                       lambda m=make, o=other: minimisers.minimiser(
                           "estimators", _estimator(m, _slope),
                           [Pair((one, signs), (o, signs), "a record three times too long")]))  # fmt: skip
        if neighbours == "zero-out":
            three = wide | {"classes": [0, 1, 2]}
            yield Case("estimators", "PrivateLogisticRegression, three classes, zero-out",
                       lambda w=three: minimisers.minimiser(
                           "estimators", _estimator(
                               lambda: PrivateLogisticRegression(regularizer=100.0, **w), _slope),
                           [Pair((one, np.array([0, 1])), (none, np.array([0, 1])),
                                 "a record three times too long")]))  # fmt: skip
            yield Case("estimators", "PrivateLogisticRegression, sample weights, zero-out",
                       lambda w=wide: minimisers.minimiser(
                           "estimators", _estimator(
                               lambda: PrivateLogisticRegression(
                                   regularizer=100.0, weight_bound=2.0, **w), _slope),
                           [Pair((one, signs, np.array([9.0, 1.0])), (one, signs, np.array([0.0, 1.0])),
                                 "a record three times too long, weight 9 or 0")]))  # fmt: skip
        small = b | {"epsilon": 1.0}
        yield _case(
            "estimators", f"PrivateLogisticRegression, gradient-descent, {neighbours}",
            _estimator(lambda s=small: PrivateLogisticRegression(
                solver="gradient-descent", fit_intercept=False, classes=[-1, 1], **s), _slope),
            lambda n=neighbours: _classified(n, rows),
        )  # fmt: skip
        regressors: dict[str, Any] = {
            "PrivateLinearRegression, sufficient-statistics": lambda s=small: (
                PrivateLinearRegression(solver="sufficient-statistics", fit_intercept=False, **s)),
            "PrivateLinearRegression, adassp": lambda s=small: PrivateLinearRegression(
                solver="adassp", fit_intercept=False, **s),
            "PrivateLinearRegression, gradient-descent": lambda s=small: PrivateLinearRegression(
                solver="gradient-descent", fit_intercept=False, **s),
            "PrivateLasso, frank-wolfe": lambda s=small: PrivateLasso(
                solver="frank-wolfe", fit_intercept=False, **s),
            "PrivateLasso, sufficient-statistics": lambda s=small: PrivateLasso(
                solver="sufficient-statistics", fit_intercept=False, **s),
        }  # fmt: skip
        for words, make in regressors.items():
            yield _case(
                "estimators", f"{words}, {neighbours}", _estimator(make, _slope),
                lambda n=neighbours: _products(n, rows),
            )  # fmt: skip
        for delta in (1e-6, 0.0):
            yield _case(
                "estimators", f"PrivateScaler, {neighbours}, {'gaussian' if delta else 'gamma'}",
                _estimator(lambda s=small, d=delta: PrivateScaler((-2.0, 2.0), **(s | {"delta": d})),
                           lambda model: [model.center_, model.scale_]),
                lambda n=neighbours: _moments(n, rows),
            )  # fmt: skip
        yield from _online(neighbours)


def _classified(neighbours: str, rows: int) -> Iterator[Pair]:
    for X, other, why in tables(neighbours, rows, 2):
        y = np.ones(rows)
        yield Pair((X, y), (other, y), why)


def _moments(neighbours: str, rows: int) -> Iterator[Pair]:
    """Scaled to [-1, 1] a record adds its entries and their squares; a blanked one adds nothing."""
    for size in (2.0, 50.0, HUGE, TINY, 1.0):
        for other in (0.0,) if neighbours == "zero-out" else (-size, 0.0, 2.0):
            X, Y = np.zeros((rows, 2)), np.zeros((rows, 2))
            X[0], Y[0] = size, other
            yield Pair((X,), (Y,), f"a record of {size:g} becomes {other:g}")


def _online(neighbours: str) -> Iterator[Case]:
    """Stream estimators one record at a time, and their River twins; pushed to where slopes are largest."""
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbours": neighbours}
    common: dict[str, Any] = {
        "fit_intercept": False, "ridge": 1.0, "coefficient_norm": 1e6, "horizon": 3, **budget
    }  # fmt: skip

    def streamed(make: Callable[[], Any], labels: Any) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for k in range(len(X)):
                more = {} if labels is None else {"classes": labels}
                model.partial_fit(X[k : k + 1], y[k : k + 1], **more)
                seen.append(_flat_weights(model))
            return Outcome(seen, model.guarantee_)

        return run

    yield _case(
        "estimators", f"OnlineLogisticRegression, {neighbours}",
        streamed(lambda: OnlineLogisticRegression(classes=[-1, 1], **common), [-1, 1]),
        lambda n=neighbours: _steps(n), starts=(pushed(-40.0),),
    )  # fmt: skip
    yield _case(
        "estimators", f"OnlineLogisticRegression, three classes, {neighbours}",
        streamed(lambda: OnlineLogisticRegression(classes=[0, 1, 2], **common), [0, 1, 2]),
        lambda n=neighbours: _steps(n, 1), starts=(pushed(-40.0), pushed(40.0)),
    )  # fmt: skip
    yield _case(
        "estimators", f"OnlineLinearRegression, {neighbours}",
        streamed(lambda: OnlineLinearRegression(**common), None),
        lambda n=neighbours: _steps(n, 7.0), starts=(pushed(-40.0), silent), repeats=1,
    )  # fmt: skip
    try:
        from reticent.estimators import river
    except ImportError:
        return

    def learnt(make: Callable[[], Any]) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for row, label in zip(X, y, strict=True):
                model.learn_one({"a": float(row[0]), "b": float(row[1])}, label)
                seen.append(list(model.weights.values()))
            return Outcome(seen, model.guarantee)

        return run

    yield _case(
        "estimators", f"river.OnlineLogisticRegression, {neighbours}",
        learnt(lambda: river.OnlineLogisticRegression(
            features=["a", "b"], classes=(-1, 1), **common)),
        lambda n=neighbours: _steps(n), starts=(pushed(-40.0),),
    )  # fmt: skip
    yield _case(
        "estimators", f"river.OnlineLinearRegression, {neighbours}",
        learnt(lambda: river.OnlineLinearRegression(features=["a", "b"], **common)),
        lambda n=neighbours: _steps(n, 7.0), starts=(pushed(-40.0), silent),
    )  # fmt: skip


def _flat_weights(model: Any) -> FloatArray:
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


def _steps(neighbours: str, label: float = 1.0) -> Iterator[Pair]:
    for here, there, why in tables(neighbours, 3, 2):
        y = np.full(len(here), label)
        yield Pair((here, y), (there, y), why)
    for pair in _wrong(neighbours, 3):
        X, other = pair.data[0], pair.neighbour[0]
        y = np.full(len(X), label)
        yield Pair((X, y), (other, y), pair.why)


# The table ----------------------------------------------------------------------------------------

FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "white-box-totals": totals,
    "white-box-online": learners,
    "white-box-bandit": bandits,
    "white-box-erm": solvers,
    "white-box-objective-perturbation": perturbed,
    "white-box-selection": selections,
    "white-box-vertical": columns,
    "white-box-estimators": estimators,
}


def names() -> tuple[str, ...]:
    """The families of white-box lines."""
    return tuple(FAMILIES)


def cases(name: str) -> Iterator[Case]:
    """The lines of one family."""
    return FAMILIES[name]()
