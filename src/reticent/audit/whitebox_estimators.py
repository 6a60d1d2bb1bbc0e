"""White-box lines of the feature-distributed protocol, the estimators and the scaler."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from reticent import vertical
from reticent.audit import densities, minimisers
from reticent.audit.whitebox import Exact, least_fault
from reticent.audit.whitebox_matching import Outcome, Pair, pushed, silent
from reticent.audit.whitebox_records import (
    BOTH,
    HUGE,
    TINY,
    Case,
    FloatArray,
    Run,
    case,
    labelled,
    products,
    tables,
    wrong,
)
from reticent.estimators import (
    OnlineLinearRegression,
    OnlineLogisticRegression,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
    PrivateSearchCV,
)
from reticent.estimators.bounds import Search, counted, power
from reticent.estimators.class_counts import ClassCounts
from reticent.estimators.curvature import Curvature
from reticent.estimators.finding import First
from reticent.estimators.private_regressors import sum_of_labels
from reticent.estimators.scaling import Scaling, counts_of_norms
from reticent.estimators.summary import SquaredLabels
from reticent.estimators.units import to_unit
from reticent.losses import CappedLogistic, Logistic
from reticent.noise import Source, release
from reticent.privacy import Budget, Entry, Gaussian, Guarantee, Laplace, Ledger
from reticent.solve.blocks import Form, InMemory
from reticent.vertical import messages
from reticent.vertical.plan import Terms, promise

_MANY = 128  # so many rows put one score far ahead of the others, where Laplace noise tells most


class _Generous(Ledger):
    """Pays for everything without a look: what is audited is the messages, not the accounts."""

    def spend(self, guarantee: Guarantee, what: str) -> Entry:
        return Entry(what, guarantee, "")


def _asked(party: vertical.Party, request: messages.Message) -> Any:
    answer = messages.decode(party.handle(request.encode()))
    if isinstance(answer, messages.Refusal):
        raise RuntimeError(f"a request was refused: {answer.text}")
    return answer


def _told(plan: vertical.Plan, terms: Terms) -> Run:
    """All that a party says to a coordinator that pushes every record's slope to its clip."""
    claim = promise(plan, terms)
    budget = Budget(1e6, 1e-3, terms.neighbours)

    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        party = vertical.Party(
            "honest",
            X,
            ids=range(len(X)),
            ledger=_Generous(budget, adaptive=True),
            key=bytes(16),
            labels=y,
        )
        _asked(party, plan.request(bytes(16), 1))
        sequence, seen = 2, []
        for t in range(plan.rounds):
            push = np.full(plan.sketch_size, 1e6 if t % 2 == 0 else -1e6)
            step = messages.Step(run=bytes(16), sequence=sequence, round=t, last=False, others=push)
            choice = _asked(party, step)
            seen += [[choice.column, choice.sign], choice.value, choice.sketch]
            sequence += 1
        if plan.columns and plan.value_scale:
            fetch = messages.Fetch(run=bytes(16), sequence=sequence, column=choice.column)
            seen.append(_asked(party, fetch).sketch)
            sequence += 1
        if plan.labels == "send":
            seen.append(_asked(party, messages.AskLabels(run=bytes(16), sequence=sequence)).sketch)
        return Outcome(seen, claim)

    return run


def _rows(neighbours: str, rows: int, places: Iterable[int] = (0,)) -> Iterator[Pair]:
    for place in places:
        for size in (1.0, 3.0, HUGE, TINY):
            X, y = np.zeros((rows, 2)), np.zeros(rows)
            X[:, 0] = float(rows == _MANY)
            other, labels = X.copy(), y.copy()
            X[place], y[place] = (size, -size), size
            other[place] = 0.0
            if neighbours == "replace":
                other[place], labels[place] = -X[place], -y[place]
            yield Pair((X, y), (other, labels), f"row {place} holds {size:g}")


def columns() -> Iterator[Case]:
    """The feature-distributed protocol: one party against all others, and whole runs."""
    rows = 4
    for neighbours in BOTH:
        terms = Terms(neighbours=neighbours)
        moved = terms.moved(1.0)
        plan = partial(
            vertical.Plan, clip=2.0, selection_scale=8.0 * moved, sketch_scale=4.0 * moved
        )
        plans = {
            "choices and values": plan(
                rows=rows, rounds=3, columns=1, value_scale=9.0 * moved, sketch_size=rows
            ),
            "choices, laplace": plan(
                rows=_MANY, rounds=2, columns=0, sketch_size=_MANY, selection="laplace"
            ),
            "unsketched columns": plan(rows=rows, rounds=1, columns=1, sketch_size=rows),
            "sketches": plan(rows=rows, rounds=1, columns=1, sketch_size=2, sketch_spread=2),
            "labels": plan(
                rows=rows,
                rounds=0,
                columns=0,
                labels="send",
                label_scale=3.0 * moved,
                sketch_size=2,
                sketch_spread=2,
            ),
        }
        for words, made in plans.items():
            yield case(
                f"Party, {words}, {neighbours}",
                _told(made, terms),
                partial(_rows, neighbours, made.rows, (0, made.rows - 1)),
                delta=1e-3,
            )
        # an honest coordinator pushes no slope to its clip: what one run shows is far below the claim
        for variant in ("ball", "product"):
            yield case(
                f"Coordinator, {variant}, {neighbours}",
                _coordinated(Budget(2.0, 1e-3, neighbours), variant),
                partial(_rows, neighbours, rows),
                delta=1e-3,
                quick=False,
            )
        yield case(
            f"one_shot_sketch, {neighbours}",
            _sketched(Budget(1.0, 1e-6, neighbours)),
            partial(_rows, neighbours, rows),
        )


def _coordinated(budget: Budget, variant: str) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        parties = {
            name: vertical.Party(
                name,
                X[:, [k]],
                ids=range(len(X)),
                ledger=_Generous(budget, adaptive=True),
                key=bytes(16),
                labels=y,
            )
            for k, name in enumerate(("a", "b"))
        }
        found = vertical.Coordinator(vertical.InProcess(parties)).run(
            budget=budget, rounds=2, columns=1, variant=variant, seed=0
        )
        return Outcome(found.point, found.guarantee)

    return run


def _sketched(budget: Budget) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        found = vertical.one_shot_sketch(
            [X[:, :1], X[:, 1:]], y, budget=budget, sketch_size=2, radius=1.0
        )
        return Outcome(found.point, found.guarantee)

    return run


# Estimators -------------------------------------------------------------------------------------


def _fitted(make: Callable[[], Any], *names: str) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(*data)
        return Outcome([getattr(model, name) for name in names], model.guarantee_)

    return run


def _minimiser(setting: str, make: Callable[[], Any], here: Any, there: Any) -> Case:
    pair = Pair(here, there, "a record three times too long")
    check = partial(minimisers.minimiser, setting, _fitted(make, "coef_"), [pair])
    return Case(setting, check)


def estimators() -> Iterator[Case]:
    """The faces: each estimator with each of its solvers, and the scaler."""
    rows = 4
    one, none = np.array([[3.0], [0.0]]), np.zeros((2, 1))
    y = np.array([1, 1])
    for neighbours in BOTH:
        b: dict[str, Any] = {"epsilon": 4.0, "neighbours": neighbours, "fit_intercept": False}
        other = none if neighbours == "zero-out" else -one
        logistic = partial(PrivateLogisticRegression, regularizer=100.0, **b)
        classifiers: dict[str, Any] = {
            "PrivateLogisticRegression": partial(logistic, classes=[-1, 1]),
            "PrivateLogisticRegression, pure": partial(logistic, classes=[-1, 1], delta=0.0),
            "PrivateLinearSVC": partial(PrivateLinearSVC, regularizer=300.0, classes=[-1, 1], **b),
        }
        for words, make in classifiers.items():
            yield _minimiser(f"{words}, {neighbours}", make, (one, y), (other, y))
        if neighbours == "zero-out":
            three = np.array([0, 1])
            yield _minimiser(
                "PrivateLogisticRegression, three classes, zero-out",
                partial(logistic, classes=[0, 1, 2]),
                (one, three),
                (none, three),
            )
            yield _minimiser(
                "PrivateLogisticRegression, sample weights, zero-out",
                partial(logistic, classes=[-1, 1], weight_bound=2.0),
                (one, y, np.array([9.0, 1.0])),
                (one, y, np.array([0.0, 1.0])),
            )
        small = b | {"epsilon": 1.0}
        yield case(
            f"PrivateLogisticRegression, gradient-descent, {neighbours}",
            _fitted(
                partial(
                    PrivateLogisticRegression, solver="gradient-descent", classes=[-1, 1], **small
                ),
                "coef_",
            ),
            partial(labelled, neighbours, rows, 2),
        )
        regression = partial(PrivateLinearRegression, **small)
        regressors: dict[str, Any] = {
            "PrivateLinearRegression, sufficient-statistics": partial(
                regression, solver="sufficient-statistics"
            ),
            "PrivateLinearRegression, adassp": partial(regression, solver="adassp"),
            "PrivateLinearRegression, gradient-descent": partial(
                regression, solver="gradient-descent"
            ),
            "PrivateLasso, frank-wolfe": partial(PrivateLasso, solver="frank-wolfe", **small),
            "PrivateLasso, sufficient-statistics": partial(
                PrivateLasso, solver="sufficient-statistics", **small
            ),
        }
        for words, make in regressors.items():
            yield case(
                f"{words}, {neighbours}",
                _fitted(make, "coef_"),
                partial(products, neighbours, rows),
            )
        high, low = np.array([7.0, 0.0]), np.array([-7.0, 0.0])
        there = (none, high) if neighbours == "zero-out" else (one, low)
        yield _minimiser(
            f"PrivateLinearRegression, objective-perturbation, {neighbours}",
            partial(
                PrivateLinearRegression, solver="objective-perturbation", regularizer=30.0, **b
            ),
            (one, high),
            there,
        )
        for delta in (1e-6, 0.0):
            scaler = partial(
                PrivateScaler, (-2.0, 2.0), epsilon=1.0, delta=delta, neighbours=neighbours
            )
            yield case(
                f"PrivateScaler, {neighbours}, {'gaussian' if delta else 'gamma'}",
                _fitted(scaler, "center_", "scale_"),
                partial(_moments, neighbours, rows),
            )
            yield case(
                f"private bounds, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _counted(Budget(1.0, delta, neighbours)),
                partial(_places, neighbours),
            )
            yield case(
                f"private bounds by powers of two, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _powers(Budget(1.0, delta, neighbours)), partial(_places, neighbours), taps=False,
            )  # fmt: skip
            yield case(
                f"row norms behind scaling, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _scaled_norms(Budget(1.0, delta, neighbours)), partial(_lengths, neighbours),
            )  # fmt: skip
            yield case(
                f"sum of the labels, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _level(Budget(1.0, delta, neighbours)), partial(_levels, neighbours),
            )  # fmt: skip
            yield case(
                f"scores of a search, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _scores(Budget(1.0, delta, neighbours)), partial(_answers, neighbours),
            )  # fmt: skip
            yield case(
                f"scaling, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _scaled(Budget(1.0, delta, neighbours)),
                partial(_lengths, neighbours),
            )
            yield case(
                f"scaling by the first records of a stream, {neighbours}, "
                f"{'gaussian' if delta else 'laplace'}",
                _scaled(Budget(1.0, delta, neighbours), of_stream=True),
                partial(_lengths, neighbours),
            )
            yield case(
                f"balanced classes, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _by_class(Budget(1.0, delta, neighbours)),
                partial(_classes, neighbours),
            )
            yield case(
                f"norms behind private bounds, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _norms(Budget(1.0, delta, neighbours)),
                partial(_norm_pairs, neighbours),
            )
            yield case(
                f"squared labels, {neighbours}, {'gaussian' if delta else 'laplace'}",
                _squares(Budget(1.0, delta, neighbours)),
                partial(_labels, neighbours),
            )
            for cap in (0.5, 1.0):
                yield case(
                    f"curvature and scores, cap {cap:g}, {neighbours}, {'gaussian' if delta else 'gamma'}",
                    _curved(Budget(1.0, delta, neighbours), cap),
                    partial(_margins, neighbours),
                )
            yield case(
                f"bounds from the first records of a stream, {neighbours}, "
                f"{'gaussian' if delta else 'laplace'}",
                _counted(Budget(1.0, delta, neighbours), of_stream=True),
                partial(_places, neighbours),
            )
        yield Case(f"PrivateSearchCV, {neighbours}", partial(_best_of, neighbours))
        yield from _online(neighbours)


def _best_of(neighbours: str) -> Exact:
    """The exact law of the best of a geometric number of runs, from the scales and the stopping that it runs with.

    A run releases a fit and a score, Gaussian both; a record moves the statistics of the fit as far as it can, and the
    sum of scores by 1. With F the law of a score, the best has the density ``f(s) g / (1 - (1-g) F(s))^2``, and the fit
    beside it that of a single one.
    """
    budget = Budget(1.0, 1e-6, neighbours)
    model = PrivateLinearRegression(
        solver="sufficient-statistics", feature_norm=1.0, label_bounds=(-1.0, 1.0)
    )
    tuned = PrivateSearchCV(
        model, {"regularizer": [1.0, 10.0]}, 1.0, 1e-6, neighbours=neighbours, verbose=0
    )
    asked, candidates, mean = tuned._asked()
    made = tuned._price(asked, candidates, mean, np.zeros((4, 2)), np.zeros(4))
    cost = made.costs[0].gdp
    assert cost is not None
    g, claim, s = 1.0 / mean, made.guarantee.curve, np.linspace(-12.0, 12.0, 4001)

    def law(x: FloatArray) -> FloatArray:
        """The logarithm of the density of the best score, in standard deviations of its noise."""
        more = 1.0 - (1.0 - g) * ndtr(x)
        return densities.normal_log_density(x) + math.log(g) - 2.0 * np.log(more)

    def delta(epsilon: float, divided_by: float) -> float:
        moved, mu = divided_by / made.scale, divided_by * float(cost or 0.0)
        found = []
        for sign in (1.0, -1.0):
            p, q = law(s), law(s - sign * moved)
            rest = epsilon - (p - q)  # what is left for the fit
            both = ndtr(-rest / mu + 0.5 * mu) - np.exp(rest + log_ndtr(-rest / mu - 0.5 * mu))
            found.append(float(np.sum(np.exp(p) * both) * (s[1] - s[0])))
        return max(found)

    def epsilon(divided_by: float = 1.0) -> float:
        return densities.epsilon_at(lambda e: delta(e, divided_by), budget.delta)

    claimed, value = claim.epsilon(budget.delta), epsilon()
    share = value / claimed
    fault = least_fault(lambda r: epsilon(r) > claimed * (1.0 + 1e-7))
    return Exact("PrivateSearchCV", claimed, value, budget.delta, share, share <= 1.0 + 1e-7,
                 "a record that moves fit and score as far as it can", fault=fault)  # fmt: skip


def _norms(budget: Budget) -> Run:
    """The last counts behind the norm of rows: 16 pieces."""
    search = Search.of(budget, 10**6, 0, rows=True)

    def run(data: Any, source: Source) -> Outcome:
        sizes, weights = data
        last, scale = search.releases[-1], float(search._scales(True)[-1])
        seen = search.norms_by_pieces(sizes, counted(weights, None), source, 4.0, scale)
        return Outcome(seen, Guarantee.of(budget, [replace(last, count=1)]))

    return run


def _norm_pairs(neighbours: str) -> Iterator[Pair]:
    for size in (1.0, HUGE, 3.0):
        sizes, weights = np.full(4, 0.7), np.ones(4)
        sizes[0] = size
        other, null = sizes.copy(), weights.copy()
        if neighbours == "zero-out":
            null[0] = 0.0
        else:
            other[0] = 1e-9
        yield Pair((sizes, weights), (other, null), f"a row of norm {size:g}")


def _squares(budget: Budget) -> Run:
    sums = SquaredLabels.of(budget, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        return Outcome(sums.draw(data, source), Guarantee.of(budget, [sums.release]))

    return run


def _labels(neighbours: str) -> Iterator[Pair]:
    """Labels lie within [-1, 1] here; a blanked record's is 0."""
    for label in (1.0, -1.0, 0.3):
        y = np.array([label, 0.5, 0.0])
        other = y.copy()
        other[0] = 0.0
        yield Pair(y, other, f"a label {label:g} becomes 0")


def _curved(budget: Budget, cap: float) -> Run:
    """Both matrices at coefficients that were released before, in two dimensions."""
    loss = Logistic() if cap == 1.0 else CappedLogistic(cap)
    both = Curvature.of(budget, loss, 2, 4, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        X, numbers, x = data
        seen = both.draw(InMemory(X, form=Form(length=1.0)), numbers, x, source)
        return Outcome([seen["curvature"], seen["scores"]], Guarantee.of(budget, [both.release]))

    return run


def _margins(neighbours: str) -> Iterator[Pair]:
    """A record at every margin, too long or not, blanked or replaced by one at a right angle."""
    for margin in (0.0, 0.05, -0.1, -0.3, -0.5, -1.0, -40.0):
        for size in (1.0, 3.0, HUGE):
            X, numbers = np.zeros((4, 2)), np.array([1, 0, 1, 0])
            X[0] = size, 0.0
            other = X.copy()
            other[0] = (0.0, 0.0) if neighbours == "zero-out" else (0.0, size)
            x = np.full(2, margin)
            yield Pair(
                (X, numbers, x), (other, numbers, x), f"a row of {size:g} at margin {margin:g}"
            )


def _counted(budget: Budget, of_stream: bool = False) -> Run:
    """The last counts behind private bounds: two columns, 16 pieces each."""
    search = Search.of(budget, 10**6, 2)
    if of_stream:
        search = First.of(budget, 2, True, False, None).searches[0]

    def run(data: Any, source: Source) -> Outcome:
        X, weights = data
        last = next(item for item in search.releases if "2 columns by finer" in item.mechanism)
        ends = np.full(2, -4.0), np.full(2, 4.0)
        scale = float(search._scales(False)[-1])
        seen = search.by_pieces(X, counted(weights, None), source, *ends, scale)
        return Outcome(seen, Guarantee.of(budget, [replace(last, count=1)]))

    return run


_SEEN = np.unique(power(np.array([1.0, HUGE, TINY, -3.0, 0.0, 1e-9])))
"""Where the values of :func:`_places` are counted, of 4,197 powers of two and signs."""


def _powers(budget: Budget) -> Run:
    """The first counts behind private bounds, of two columns."""
    search = Search.of(budget, 10**6, 2)

    def run(data: Any, source: Source) -> Outcome:
        X, weights = data
        seen = search.by_powers(X, counted(weights, None), source)
        return Outcome(seen[:, _SEEN], Guarantee.of(budget, [search.releases[0]]))

    return run


def _places(neighbours: str) -> Iterator[Pair]:
    """A record is counted once per column; a null record, of weight 0, nowhere."""
    for size in (1.0, HUGE, TINY, -3.0, 0.0):
        X, weights = np.ones((4, 2)), np.ones(4)
        X[0] = size
        other, null = X.copy(), weights.copy()
        if neighbours == "zero-out":
            null[0] = 0.0
        else:
            other[0] = 1e-9
        yield Pair((X, weights), (other, null), f"a record of {size:g}")


def _scaled(budget: Budget, of_stream: bool = False) -> Run:
    """The sums of two columns and of their squares behind ``scaling="auto"``."""
    scaling, _ = Scaling.of(budget, 10**6, 2)
    if of_stream:
        first = First.scaled(budget, 2, 2.0, False, None)
        assert first is not None
        scaling = first.scaling
    assert scaling is not None

    def run(data: Any, source: Source) -> Outcome:
        X, weights = data
        seen = scaling.moments.draw(scaling.sums(X, 2.0, counted(weights, None)), source)
        return Outcome(seen, Guarantee.of(budget, [scaling.moments.release]))

    return run


def _scaled_norms(budget: Budget) -> Run:
    """The counts of row norms behind ``scaling="auto"``, of rows that were centered and scaled as was released."""
    scaling, _ = Scaling.of(budget, 10**6, 2)
    assert scaling is not None
    norms = scaling.norms
    assert norms is not None
    units = np.array([0.1, -0.1]), np.array([1.5, 0.5])

    def run(data: Any, source: Source) -> Outcome:
        X, weights = data
        edges = np.linspace(0.5, 3.0, norms.size - 1)
        counts = counts_of_norms(X, 2.0, *units, edges, counted(weights, None))
        return Outcome(norms.draw(counts, source), Guarantee.of(budget, [norms.release]))

    return run


def _level(budget: Budget) -> Run:
    """The sum of the labels that the intercept starts from, behind their bounds."""
    total = PrivateLinearRegression(label_bounds=(-2.0, 2.0))._label_sum(budget, 10**6)
    assert total is not None

    def run(data: Any, source: Source) -> Outcome:
        labels, weights = data
        inside = to_unit(np.clip(labels, -2.0, 2.0), -2.0, 2.0)
        seen = total.draw(sum_of_labels(inside, counted(weights, None)), source)
        return Outcome(seen, Guarantee.of(budget, [total.release]))

    return run


def _levels(neighbours: str) -> Iterator[Pair]:
    for label in (2.0, -HUGE, TINY):
        y, weights = np.array([label, 0.5, 0.0]), np.ones(3)
        other, null = y.copy(), weights.copy()
        if neighbours == "zero-out":
            null[0] = 0.0
        else:
            other[0] = -label
        yield Pair((y, weights), (other, null), f"a label {label:g}")


def _scores(budget: Budget) -> Run:
    """The score of one run of a search, at a model that was released before: a line that is right about the others."""
    model = PrivateLinearRegression(
        solver="sufficient-statistics", feature_norm=1.0, label_bounds=(-1.0, 1.0)
    )
    tuned = PrivateSearchCV(
        model, {"regularizer": [1.0]}, budget.epsilon, budget.delta, neighbours=budget.neighbours,
        verbose=0,
    )  # fmt: skip

    @cache
    def price() -> Any:
        asked, candidates, mean = tuned._asked()
        return tuned._price(asked, candidates, mean, np.zeros((4, 1)), np.zeros(4))

    def run(data: Any, source: Source) -> Outcome:
        (X, y), made = data, price()
        known = SimpleNamespace(predict=lambda rows: rows[:, 0], _bounds=(-1.0, 1.0))
        seen = made.score(tuned._sum_of_scores(known, X, y), source)
        pure = budget.delta == 0.0
        moved = release.widened(1.0, made.scale, 1, "laplace" if pure else "gaussian") / made.scale
        return Outcome(seen, Laplace(moved) if pure else Gaussian(moved))

    return run


def _answers(neighbours: str) -> Iterator[Pair]:
    """A record about which the line is as wrong as can be, or right; blanked, it is a row and a label of 0."""
    for label in (-1.0, -HUGE, 1.0):
        X, y = np.array([[1.0], [0.5], [0.0]]), np.array([label, 0.5, 0.0])
        other, labels = X.copy(), y.copy()
        other[0], labels[0] = (0.0, 0.0) if neighbours == "zero-out" else (1.0, 1.0)
        yield Pair((X, y), (other, labels), f"a label {label:g} where 1 is predicted")


def _lengths(neighbours: str) -> Iterator[Pair]:
    """Rows within a norm of 2; the worst to replace each other are at the angle of docs/algorithms/scaling.md."""
    high, low = math.radians(75.0), math.radians(15.0)
    firsts = [(math.cos(high), math.sin(high)), (-1.0, 1.0), (HUGE, HUGE), (TINY, TINY), (1.0, 0.0)]
    for first in firsts:
        X, weights = np.full((4, 2), 0.5), np.ones(4)
        X[0] = np.multiply(first, 2.0 if first[0] < HUGE else 1.0)
        other, null = X.copy(), weights.copy()
        if neighbours == "zero-out":
            null[0] = 0.0
        else:
            other[0] = -2.0 * math.cos(low), -2.0 * math.sin(low)
        yield Pair((X, weights), (other, null), f"a record of {X[0]}")


def _by_class(budget: Budget) -> Run:
    counts = ClassCounts.of(budget, 3, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        numbers, weights = data
        seen = counts.seen(numbers, counted(weights, None), source)
        return Outcome(seen, Guarantee.of(budget, [counts.release]))

    return run


def _classes(neighbours: str) -> Iterator[Pair]:
    numbers, weights = np.array([0, 1, 1, 2]), np.ones(4)
    for place in range(4):
        other, null = numbers.copy(), weights.copy()
        if neighbours == "zero-out":
            null[place] = 0.0
        else:
            other[place] = (numbers[place] + 1) % 3
        yield Pair((numbers, weights), (other, null), f"the class of record {place}")


def _moments(neighbours: str, rows: int) -> Iterator[Pair]:
    """Scaled to [-1, 1] a record adds its entries and their squares; a blanked one adds nothing."""
    for size in (2.0, 50.0, HUGE, TINY, 1.0, 0.7):
        for other in (0.0,) if neighbours == "zero-out" else (-size, 0.0, 2.0):
            X, Y = np.zeros((rows, 2)), np.zeros((rows, 2))
            X[0], Y[0] = size, other
            yield Pair((X,), (Y,), f"a record of {size:g} becomes {other:g}")


def _steps(neighbours: str, label: float) -> Iterator[Pair]:
    for here, there, _, why in (*tables(neighbours, 3, 2), *wrong(neighbours, 3)):
        y = np.full(len(here), label)
        yield Pair((here, y), (there, y), why)


def _online(neighbours: str) -> Iterator[Case]:
    """Stream estimators one record at a time, and their River twins; pushed to where slopes are largest."""
    common: dict[str, Any] = {
        "fit_intercept": False,
        "ridge": 1.0,
        "coefficient_norm": 1e6,
        "horizon": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "neighbours": neighbours,
    }

    def streamed(make: Callable[[], Any]) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for k in range(len(X)):
                model.partial_fit(X[k : k + 1], y[k : k + 1])
                seen.append([model.coef_, model.intercept_])
            return Outcome(seen, model.guarantee_)

        return run

    far, both = (pushed(-40.0),), (pushed(-40.0), pushed(40.0))
    logistic = partial(OnlineLogisticRegression, **common)
    yield case(
        f"OnlineLogisticRegression, {neighbours}",
        streamed(partial(logistic, classes=[-1, 1])),
        partial(_steps, neighbours, 1.0),
        starts=far,
    )
    yield case(
        f"OnlineLogisticRegression, three classes, {neighbours}",
        streamed(partial(logistic, classes=[0, 1, 2])),
        partial(_steps, neighbours, 1.0),
        starts=both,
    )
    yield case(
        f"OnlineLinearRegression, {neighbours}",
        streamed(partial(OnlineLinearRegression, **common)),
        partial(_steps, neighbours, 7.0),
        starts=(*far, silent),
    )
    try:
        from reticent.estimators import river
    except ImportError:  # River is an extra
        return

    def learnt(make: Callable[[], Any]) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for row, label in zip(X, y, strict=True):
                model.learn_one({"a": float(row[0]), "b": float(row[1])}, label)
                seen.append(_weights(model))
            return Outcome(seen, model.guarantee)

        return run

    yield case(
        f"river.OnlineLogisticRegression, {neighbours}",
        learnt(
            partial(river.OnlineLogisticRegression, features=["a", "b"], classes=(-1, 1), **common)
        ),
        partial(_steps, neighbours, 1.0),
        starts=far,
    )
    yield case(
        f"river.OnlineLinearRegression, {neighbours}",
        learnt(partial(river.OnlineLinearRegression, features=["a", "b"], **common)),
        partial(_steps, neighbours, 7.0),
        starts=(*far, silent),
    )


def _weights(model: Any) -> FloatArray:
    return np.array(list(model.weights.values()))
