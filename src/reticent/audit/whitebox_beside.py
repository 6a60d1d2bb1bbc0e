"""White-box audit lines of what estimators release in addition to a fit: bounds, scales, counts, scores, curvature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from reticent.audit import densities
from reticent.audit.whitebox import Exact, least_fault
from reticent.audit.whitebox_matching import InputPair, Outcome
from reticent.audit.whitebox_records import (
    HUGE,
    TINY,
    Case,
    FloatArray,
    Run,
    case,
)
from reticent.estimators import (
    PrivateLinearRegression,
    PrivateSearchCV,
)
from reticent.estimators.bounds import BoundsSearch, power
from reticent.estimators.counts import ClassCounts, PredictorCounts, counted
from reticent.estimators.curvature import Curvature
from reticent.estimators.first_bounds import First
from reticent.estimators.label_scale import LabelScale, counts_of_distances, sum_of_clipped
from reticent.estimators.private_regressors import sum_of_labels
from reticent.estimators.scaling import Scaling, counts_of_norms, to_unit
from reticent.estimators.summary import SquaredLabels
from reticent.losses import CappedLogistic, Logistic
from reticent.noise import Source, release
from reticent.privacy import Budget, Gaussian, Guarantee, Laplace
from reticent.solve.blocks import Form, InMemory


def releases(neighbours: str, delta: float) -> Iterator[Case]:
    """Everything that an estimator releases in addition to its fit, under one budget and one relation."""
    budget, noise = Budget(1.0, delta, neighbours), "gaussian" if delta else "laplace"
    lines: dict[str, tuple[Run, Callable[[str], Iterator[InputPair]]]] = {
        "private bounds": (_counted(budget), _places),
        "row norms behind scaling": (_scaled_norms(budget), _lengths),
        "sum of the labels": (_level(budget), _levels),
        "distances of labels and their clipped sum": (_spread(budget), _levels),
        "scores of a search": (_scores(budget), _answers),
        "scaling": (_scaled(budget), _lengths),
        "scaling by the first records of a stream": (_scaled(budget, of_stream=True), _lengths),
        "balanced classes": (_by_class(budget), _classes),
        "predictors by class": (_judged(budget), _predictors),
        "norms behind private bounds": (_norms(budget), _norm_pairs),
        "squared labels": (_squares(budget), _labels),
        "bounds from the first records of a stream": (_counted(budget, of_stream=True), _places),
    }
    for words, (run, pairs) in lines.items():
        yield case(f"{words}, {neighbours}, {noise}", run, partial(pairs, neighbours))
    yield case(
        f"private bounds by powers of two, {neighbours}, {noise}",
        _powers(budget),
        partial(_places, neighbours),
        taps=False,  # thousands of counts are drawn, but only a few are part of the output
    )
    for cap in (0.5, 1.0):
        yield case(
            f"curvature and scores, cap {cap:g}, {neighbours}, {'gaussian' if delta else 'gamma'}",
            _curved(budget, cap),
            partial(_margins, neighbours),
        )


def best_of(neighbours: str) -> Exact:
    """The exact law of the best of a geometric number of runs, from the scales and the stopping probability in use.

    A run releases a fit and a score, both Gaussian; a record moves the statistics of the fit as far as possible, and
    the sum of scores by 1. Let F be the distribution function of a score, f its density and g the stopping probability.
    Then the best score has the density ``f(s) g / (1 - (1-g) F(s))^2``, and its fit the density of a single fit.
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
    """The last counts from which the norm of rows is found: 16 pieces."""
    search = BoundsSearch.of(budget, 10**6, 0, rows=True)

    def run(data: Any, source: Source) -> Outcome:
        sizes, weights = data
        last, scale = search.releases[-1], float(search._scales(True)[-1])
        seen = search.norms_by_pieces(sizes, counted(weights, None), source, 4.0, scale)
        return Outcome(seen, Guarantee.of(budget, [replace(last, count=1)]))

    return run


def _weighed(neighbours: str, rows: Any, another: Any, why: str, place: int = 0) -> InputPair:
    """Records of weight 1, one of which loses its weight, or is replaced by another one."""
    other, weights = rows.copy(), np.ones(len(rows))
    null = weights.copy()
    if neighbours == "zero-out":
        null[place] = 0.0
    else:
        other[place] = another
    return InputPair((rows, weights), (other, null), why)


def _norm_pairs(neighbours: str) -> Iterator[InputPair]:
    for size in (1.0, HUGE, 3.0):
        sizes = np.array([size, 0.7, 0.7, 0.7])
        yield _weighed(neighbours, sizes, 1e-9, f"a row of norm {size:g}")


def _squares(budget: Budget) -> Run:
    sums = SquaredLabels.of(budget, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        return Outcome(sums.draw(data, source), Guarantee.of(budget, [sums.release]))

    return run


def _labels(neighbours: str) -> Iterator[InputPair]:
    """Labels lie within [-1, 1] here; a blanked record's is 0."""
    for label in (1.0, -1.0, 0.3):
        y = np.array([label, 0.5, 0.0])
        other = y.copy()
        other[0] = 0.0
        yield InputPair(y, other, f"a label {label:g} becomes 0")


def _curved(budget: Budget, cap: float) -> Run:
    """Both matrices for intervals, at previously released coefficients, in two dimensions."""
    loss = Logistic() if cap == 1.0 else CappedLogistic(cap)
    both = Curvature.of(budget, loss, 2, 4, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        X, numbers, x = data
        seen = both.draw(InMemory(X, form=Form(length=1.0)), numbers, x, source)
        return Outcome([seen["curvature"], seen["scores"]], Guarantee.of(budget, [both.release]))

    return run


def _margins(neighbours: str) -> Iterator[InputPair]:
    """A record at each of several margins, too long or not, blanked or replaced by one at a right angle."""
    for margin in (0.0, 0.05, -0.1, -0.3, -0.5, -1.0, -40.0):
        for size in (1.0, 3.0, HUGE):
            X, numbers = np.zeros((4, 2)), np.array([1, 0, 1, 0])
            X[0] = size, 0.0
            other = X.copy()
            other[0] = (0.0, 0.0) if neighbours == "zero-out" else (0.0, size)
            x = np.full(2, margin)
            yield InputPair(
                (X, numbers, x), (other, numbers, x), f"a row of {size:g} at margin {margin:g}"
            )


def _counted(budget: Budget, of_stream: bool = False) -> Run:
    """The last counts from which private bounds are found: two columns, 16 pieces each."""
    search = BoundsSearch.of(budget, 10**6, 2)
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
"""The bins, of 4,197 powers of two and signs, in which the values of :func:`_places` are counted."""


def _powers(budget: Budget) -> Run:
    """The first counts from which private bounds are found, of two columns."""
    search = BoundsSearch.of(budget, 10**6, 2)

    def run(data: Any, source: Source) -> Outcome:
        X, weights = data
        seen = search.by_powers(X, counted(weights, None), source)
        return Outcome(seen[:, _SEEN], Guarantee.of(budget, [search.releases[0]]))

    return run


def _places(neighbours: str) -> Iterator[InputPair]:
    """A record is counted once per column; a null record, of weight 0, is not counted."""
    for size in (1.0, HUGE, TINY, -3.0, 0.0):
        X = np.ones((4, 2))
        X[0] = size
        yield _weighed(neighbours, X, 1e-9, f"a record of {size:g}")


def _scaled(budget: Budget, of_stream: bool = False) -> Run:
    """The sums of two columns and of their squares that ``scaling="auto"`` releases."""
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
    """The counts of row norms that ``scaling="auto"`` releases, of rows centered and scaled by released numbers."""
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
    """The sum of the clipped labels, from which the intercept starts."""
    total = PrivateLinearRegression(label_bounds=(-2.0, 2.0))._label_sum(budget, 10**6)
    assert total is not None

    def run(data: Any, source: Source) -> Outcome:
        labels, weights = data
        inside = to_unit(np.clip(labels, -2.0, 2.0), -2.0, 2.0)
        seen = total.draw(sum_of_labels(inside, counted(weights, None)), source)
        return Outcome(seen, Guarantee.of(budget, [total.release]))

    return run


def _spread(budget: Budget) -> Run:
    """Counts of the distances of labels from a previously released mean, and the sum of clipped differences from it."""
    made = LabelScale.of(budget, 10**6, 2)
    assert made is not None

    def run(data: Any, source: Source) -> Outcome:
        labels, weights = data
        inside = to_unit(np.clip(labels, -2.0, 2.0), -2.0, 2.0)
        counts = counted(weights, None)
        seen = made.distances.draw(counts_of_distances(inside, 0.1, counts), source)
        left = made.rest.draw(sum_of_clipped(inside, 0.1, 0.5, counts), source)
        return Outcome([seen, left], Guarantee.of(budget, made.releases))

    return run


def _levels(neighbours: str) -> Iterator[InputPair]:
    for label in (2.0, -HUGE, TINY):
        yield _weighed(neighbours, np.array([label, 0.5, 0.0]), -label, f"a label {label:g}")


def _scores(budget: Budget) -> Run:
    """The score of one run of a search, at a previously released model that predicts the other records correctly."""
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


def _answers(neighbours: str) -> Iterator[InputPair]:
    """A record that the model predicts as wrongly as possible, or correctly; blanked, its row and label are 0."""
    for label in (-1.0, -HUGE, 1.0):
        X, y = np.array([[1.0], [0.5], [0.0]]), np.array([label, 0.5, 0.0])
        other, labels = X.copy(), y.copy()
        other[0], labels[0] = (0.0, 0.0) if neighbours == "zero-out" else (1.0, 1.0)
        yield InputPair((X, y), (other, labels), f"a label {label:g} where 1 is predicted")


def _lengths(neighbours: str) -> Iterator[InputPair]:
    """Rows of norm at most 2; the worst pair for replacement is at the angle derived in docs/algorithms/scaling.md."""
    high, low = math.radians(75.0), math.radians(15.0)
    firsts = [(math.cos(high), math.sin(high)), (-1.0, 1.0), (HUGE, HUGE), (TINY, TINY), (1.0, 0.0)]
    for first in firsts:
        X = np.full((4, 2), 0.5)
        X[0] = np.multiply(first, 2.0 if first[0] < HUGE else 1.0)
        another = -2.0 * math.cos(low), -2.0 * math.sin(low)
        yield _weighed(neighbours, X, another, f"a record of {X[0]}")


def _by_class(budget: Budget) -> Run:
    counts = ClassCounts.of(budget, 3, "lattice")

    def run(data: Any, source: Source) -> Outcome:
        numbers, weights = data
        seen = counts.seen(numbers, counted(weights, None), source)
        return Outcome(seen, Guarantee.of(budget, [counts.release]))

    return run


def _judged(budget: Budget) -> Run:
    """Counts of a model's predictions in 16 intervals for each class."""
    counts = PredictorCounts.of(budget, 10**6, 2, True, "lattice")
    assert counts is not None

    def run(data: Any, source: Source) -> Outcome:
        z, numbers, weights = data
        seen = counts.seen(z, numbers, 0.5, 2.0, counted(weights, None), source)
        return Outcome(seen.ravel(), Guarantee.of(budget, [counts.release]))

    return run


def _predictors(neighbours: str) -> Iterator[InputPair]:
    """A record inside the intervals and beyond, blanked, or replaced by one of the other class elsewhere."""
    for first in (0.0, 2.4, -1.6, HUGE, -HUGE, math.nan):
        z, numbers, weights = np.array([first, 0.1, 1.0]), np.array([1, 0, 1]), np.ones(3)
        other, classes, null = z.copy(), numbers.copy(), weights.copy()
        if neighbours == "zero-out":
            null[0] = 0.0
        else:
            other[0], classes[0] = -1.1, 0
        yield InputPair(
            (z, numbers, weights), (other, classes, null), f"a record with predictor {first:g}"
        )


def _classes(neighbours: str) -> Iterator[InputPair]:
    numbers = np.array([0, 1, 1, 2])
    for place, number in enumerate(numbers):
        why = f"the class of record {place}"
        yield _weighed(neighbours, numbers, (number + 1) % 3, why, place)
