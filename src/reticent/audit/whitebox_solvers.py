"""White-box audit lines of everything that sees all the data: offline solvers, perturbed objectives, selections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from reticent import erm, losses, sets
from reticent.audit import densities, minimisers
from reticent.audit.hooks import NoisyChoice, listening
from reticent.audit.whitebox import Exact, least_fault
from reticent.audit.whitebox_matching import InputPair, Outcome, pushed, silent
from reticent.audit.whitebox_records import (
    BOTH,
    FAR,
    HUGE,
    Case,
    FloatArray,
    case,
    fit,
    instead,
    labelled,
    products,
    tables,
    worst,
)
from reticent.noise import Source, exponential_mechanism, report_noisy_max
from reticent.privacy import Budget, Guarantee

_NET = ((-1.0, -1.0), (0.0, 0.0), (1.0, 1.0), (1.0, -1.0))
_QUADRATURE = 1e-6  # tolerance of numeric integration


def _boosted(budget: Budget, data: Any, source: Source) -> Outcome:
    """Every boosted round in one dimension, where the released matrix is a single number, its own eigenvalue."""
    seen: list[float] = []
    found = erm.sufficient_statistics(
        losses.Squared(),
        None,
        *data,
        budget=budget,
        method="boosted",
        rounds=2,
        regularizer=1.0,
        callback=lambda moment: seen.extend([float(moment.point[0]), *moment.values.values()]),
    )
    return Outcome(np.array(seen), found.guarantee)


def _opposite(neighbours: str, rows: int) -> Iterator[InputPair]:
    """One record with its label at the bound or beyond, blanked or with the opposite label."""
    for size, label in ((1.0, 1.0), (3.0, 7.0), (HUGE, HUGE), (-1.0, 1.0), (1.0, 0.0)):
        X, y = np.zeros((rows, 1)), np.zeros(rows)
        X[0], y[0] = size, label
        other, labels = np.zeros((rows, 1)), np.zeros(rows)
        if neighbours == "replace":
            other[0], labels[0] = size, -label
        yield InputPair((X, y), (other, labels), f"a record {size:g} with label {label:g}")


def solvers() -> Iterator[Case]:
    """Every offline solver whose releases are linear in their noise, and those that select."""
    rows, dim = 4, 2
    ball, box, linear = sets.L2Ball(dim, FAR), sets.LinfBall(dim, 1e3), losses.Linear()
    hinge = losses.SmoothHinge(0.1)
    for neighbours in BOTH:
        pairs = partial(labelled, neighbours, rows, dim)
        for delta in (1e-6, 0.0):
            budget = Budget(1.0, delta, neighbours)
            words = f"{neighbours}, {'gaussian' if delta else 'gamma'}"
            average = partial(erm.averaged_iterate, linear, box, regularizer=1.0)
            leader = partial(erm.ftrl, linear, ball, regularizer=1.0, order="given")
            noisy: dict[str, Any] = {
                "gradient_descent, 3 steps": partial(
                    erm.gradient_descent, linear, ball, steps=3, step_size=1.0, average="last"
                ),
                "ftrl, one pass": leader,
                "ftrl, 3 passes": partial(leader, passes=3),
                "ftrl, resampled": partial(leader, order="resample", passes=2),
                "output_perturbation": partial(
                    erm.output_perturbation, linear, box, regularizer=1.0
                ),
                "averaged_iterate, last": partial(average, average="last"),
                "averaged_iterate, uniform": partial(average, average="uniform"),
                "averaged_iterate, weighted, gradient": partial(
                    average, average="weighted", inner="gradient"
                ),
                "frank_wolfe, noisy gradient": partial(
                    erm.frank_wolfe, linear, sets.L2Ball(dim, 10.0), steps=3, oracle="gradient"
                ),
                "localisation": partial(
                    erm.localisation,
                    losses.SmoothHinge(0.1, ridge=1.0),
                    sets.L2Ball(dim, 100.0),
                    steps=2,
                ),
            }
            for name, solve in noisy.items():
                for precision in ("lattice", "float") if neighbours == "zero-out" else ("lattice",):
                    yield case(
                        f"{name}, {words}, {precision}",
                        fit(partial(solve, budget=budget, noise_precision=precision)),
                        pairs,
                        starts=(silent, pushed(3.0)) if name == "localisation" else (silent,),
                        quick=precision == "lattice" or (name.startswith("grad") and delta > 0.0),
                    )
            wolfe = partial(erm.frank_wolfe, linear, steps=3)
            choices: dict[str, Any] = {
                "frank_wolfe, l1 ball": partial(
                    erm.frank_wolfe, linear, sets.L1Ball(dim, 2.0), steps=3
                ),
                "frank_wolfe, simplex": partial(wolfe, sets.Simplex(dim)),
                "frank_wolfe, listed vertices": partial(
                    wolfe, sets.LinfBall(dim, 1.0), oracle="vertices"
                ),
                "exponential_mechanism, net": partial(
                    erm.exponential_mechanism,
                    linear,
                    sets.Box([-1.0] * dim, [1.0] * dim),
                    version="plain",
                    net=_NET,
                ),
            }
            for name, solve in choices.items():
                yield case(f"{name}, {words}", fit(partial(solve, budget=budget)), pairs)
            statistics = partial(erm.sufficient_statistics, losses.Squared(), None, budget=budget)
            yield case(
                f"sufficient_statistics, joint, {words}",
                fit(statistics),
                partial(products, neighbours, rows),
            )
        budget = Budget(1.0, 1e-6, neighbours)
        yield case(
            f"sufficient_statistics, adassp, {neighbours}",
            fit(
                partial(
                    erm.sufficient_statistics,
                    losses.Squared(),
                    None,
                    budget=budget,
                    method="adassp",
                )
            ),
            partial(products, neighbours, rows),
        )
        yield case(
            f"sufficient_statistics, boosted, {neighbours}",
            partial(_boosted, budget),
            partial(_opposite, neighbours, rows),
        )
        heavy = partial(
            erm.gradient_descent,
            hinge,
            ball,
            budget=budget,
            steps=2,
            step_size=1.0,
            average="last",
            weight_bound=2.0,
        )
        yield case(
            f"gradient_descent, weights, {neighbours}",
            fit(lambda X, y, w, heavy=heavy: heavy(X, y, weights=w)),
            partial(_weighted, neighbours, rows, dim),
        )
        yield Case(
            f"gradient_descent, Poisson sampling, {neighbours}",
            partial(_sampling, neighbours),
            neighbours == "zero-out",
        )


def _weighted(neighbours: str, rows: int, dim: int) -> Iterator[InputPair]:
    for X, other, place, why in tables(neighbours, rows, dim):
        weights, y = np.ones(rows), np.ones(rows)
        weights[place] = 1e6
        yield InputPair((X, y, weights), (other, y, weights), f"{why}, weight 1e6")


def _sampling(neighbours: str) -> Exact:
    """One step over a Poisson sample: how often a record is in it, and how far it moves the sum.

    The random words are prescribed too, evenly spread over their range, so that the share of records in the sample is
    the probability of being in it. The hockey stick of one step follows by numeric integration.
    """
    delta = 1e-6
    budget = Budget(1.0, delta, neighbours)

    def solve(
        X: FloatArray, words: Callable[[int], Any], noise: float = 0.0
    ) -> tuple[Any, erm.Fit]:
        with listening(lambda place, made: np.full(made.values.shape, noise), words=words) as tape:
            found = erm.gradient_descent(
                losses.Linear(),
                sets.L2Ball(1, FAR),
                X,
                budget=budget,
                steps=1,
                step_size=1.0,
                sampling=0.25,
                average="last",
            )
        return tape, found

    def evenly(size: int) -> Any:
        return (np.arange(size, dtype=np.uint64) << np.uint64(52)) + np.uint64(2**51)

    def everyone(size: int) -> Any:
        return np.ones(size, np.uint64)

    count = 4096
    tape, found = solve(np.ones((count, 1)), evenly)
    rate = float(np.rint(abs(tape.seen[0][0]))) / count
    here = np.zeros((4, 1))
    here[0] = 3.0
    there = here.copy()
    there[0], _ = instead(here[0], neighbours)
    first, second = solve(here, everyone)[0], solve(there, everyone)[0]
    # how one scale of noise moves the released number
    noisy = solve(here, everyone, float(first.draws[0].scales[0]))[0]
    scale = abs(float(noisy.seen[0][0] - first.seen[0][0]))
    moved = abs(float(first.seen[0][0] - second.seen[0][0])) / scale
    ratio = moved if neighbours == "zero-out" else 0.5 * moved

    def epsilon(divided_by: float = 1.0) -> float:
        return densities.epsilon_at(
            lambda e: densities.sampled_stick(divided_by * ratio, rate, neighbours, e), delta
        )

    value, claimed = epsilon(), found.guarantee.epsilon(delta)
    share = value / claimed
    how = f"sampled with probability {rate:.4f}, moved by {moved:.4f} scales"
    fault = least_fault(lambda r: epsilon(r) > claimed * (1.0 + _QUADRATURE))
    return Exact("Poisson sampling", claimed, value, delta, share, share <= 1.0 + _QUADRATURE, how,
                 fault=fault)  # fmt: skip


# Objective perturbation -------------------------------------------------------------------------


def _alone(neighbours: str, dim: int = 1) -> list[InputPair]:
    """A table of one record beyond the bound and a null record, and the table with it blanked or reversed."""
    X, y = np.zeros((2, dim)), np.ones(2)
    X[0, 0] = 3.0
    other = X.copy()
    other[0], words = instead(X[0], neighbours)
    return [InputPair((X, y), (other, y), f"a record three times too long, {words}")]


def perturbed() -> Iterator[Case]:
    """Exact densities of perturbed minimisers, in one and two dimensions, and of several at once."""
    hinge = losses.SmoothHinge(0.1)
    solve = partial(erm.objective_perturbation, hinge, None)
    settings: list[tuple[str, Any, Budget]] = []
    for neighbours in BOTH:
        for delta in (1e-6, 0.0):
            budget = Budget(4.0, delta, neighbours)
            # with a large ridge the noise determines the loss, with a small one the determinant
            settings += [
                (f"SmoothHinge, ridge {ridge:g}", partial(solve, regularizer=ridge), budget)
                for ridge in (300.0, 6.0)
            ]
    blank = Budget(4.0, 1e-6)
    settings += [
        ("CappedLogistic", partial(
            erm.objective_perturbation, losses.CappedLogistic(), None, regularizer=3.0), blank),
        ("Huber", partial(
            erm.objective_perturbation, losses.Huber(), sets.Box([-50.0], [50.0]), regularizer=3.0
        ), blank),
    ]  # fmt: skip
    for words, make, budget in settings:
        setting = f"{words}, {budget.neighbours}, {'gaussian' if budget.delta else 'gamma'}"
        run = fit(partial(make, budget=budget))
        yield Case(setting, partial(minimisers.minimiser, setting, run, _alone(budget.neighbours)))
    plane = partial(erm.objective_perturbation, losses.Logistic(), None, regularizer=3.0)
    yield Case(
        "Logistic, two dimensions, zero-out, gaussian",
        partial(
            minimisers.minimiser,
            "two dimensions",
            fit(partial(plane, budget=blank)),
            _alone("zero-out", 2),
            plane=True,
        ),
    )
    labels = np.array([[1.0, -1.0], [1.0, 1.0]])
    one, none = np.array([[3.0], [0.0]]), np.zeros((2, 1))
    for noise, budget in (("gaussian", blank), ("gamma", Budget(4.0))):
        yield Case(
            f"SmoothHinge, two problems at once, zero-out, {noise}",
            partial(
                minimisers.minimiser,
                "two problems",
                fit(partial(solve, budget=budget, regularizer=100.0)),
                [InputPair((one, labels), (none, labels), "a record three times too long")],
            ),
        )
    heavy = partial(solve, budget=blank, regularizer=100.0, weight_bound=2.0)
    weights = np.array([1e6, 1.0])
    yield Case(
        "SmoothHinge, weights, zero-out, gaussian",
        partial(
            minimisers.minimiser,
            "weights",
            fit(lambda X, y: heavy(X, y, weights=weights)),
            _alone("zero-out"),
        ),
    )


# Selections -------------------------------------------------------------------------------------


def _selection(noise: str, budget: Budget, monotone: bool) -> Exact:
    """The exact law of one choice in two worlds, from the scores and the scale that reached it.

    A rarely chosen candidate gains while all others lose (or stay, if scores are monotone).
    """
    sensitivity = 2.0
    given: dict[str, Any] = {"sensitivity": sensitivity, "budget": budget, "monotone": monotone}

    def choose(scores: FloatArray) -> tuple[NoisyChoice, Guarantee]:
        with listening() as tape:
            if noise == "gumbel":
                chosen = exponential_mechanism(scores, **given)
            else:
                chosen = report_noisy_max(scores, noise=noise, **given)
        return tape.choices[0], chosen.guarantee

    def epsilon(
        here: NoisyChoice, there: NoisyChoice, delta: float, divided_by: float = 1.0
    ) -> float:
        p, q = (densities.law(c.noise, c.scores, c.scale / divided_by) for c in (here, there))
        return max(_epsilon(p, q, delta), _epsilon(q, p, delta))

    def found() -> Iterator[tuple[Exact, NoisyChoice, NoisyChoice]]:
        for behind in (0.0, 3.0, 20.0, 100.0):
            for count in (2, 3, 8):
                here = np.zeros(count)
                here[0] = -behind
                there = here - (0.0 if monotone else sensitivity)
                there[0] = here[0] + sensitivity
                (a, claim), (b, _) = choose(here), choose(there)
                how = f"{count} candidates, the first {behind:g} behind"
                for delta in (0.0, 1e-3, 0.05):
                    claimed = claim.epsilon(delta)
                    value = epsilon(a, b, delta)
                    share = value / claimed if claimed > 0.0 else 0.0
                    line = Exact(noise, claimed, value, delta, share, share <= 1.0 + 1e-7, how)
                    yield line, a, b

    line, a, b = max(found(), key=lambda item: item[0].tightness)
    fault = least_fault(lambda r: epsilon(a, b, line.delta, r) > line.claimed * (1.0 + 1e-7))
    return replace(line, fault=fault)


def _epsilon(p: FloatArray, q: FloatArray, delta: float) -> float:
    if delta == 0.0:
        return float(np.max(np.log(p / q)))
    ones = np.ones(p.size)
    return densities.epsilon_at(lambda e: densities.stick(np.log(p), np.log(q), ones, e), delta)


def _density(neighbours: str) -> Exact:
    """The density from which the exponential mechanism states that it draws, on a fine grid.

    Many other records put nearly all of the density at one end; the log-ratio at the other end is then the largest that
    a record can cause.
    """
    budget, loss = Budget(1.0, 0.0, neighbours), losses.Linear()
    grid = np.linspace(-1.0, 1.0, 2001)

    def law(changed: float) -> tuple[FloatArray, Guarantee]:
        A = np.ones((60, 1))
        A[0] = changed
        with listening():
            drawn = erm.exponential_mechanism(
                loss, sets.Box([-1.0], [1.0]), A, budget=budget, version="plain"
            )
        k = float(drawn.trace.settings["k"])  # type: ignore[arg-type]
        clean, labels, _ = loss.prepare(A, None)
        values = [len(A) * loss.mean_value(np.array([x]), clean, labels) for x in grid]
        log_p = -k * np.array(values)
        log_p -= log_p.max()
        return log_p - np.log(np.sum(np.exp(log_p))), drawn.guarantee

    def found() -> Iterator[Exact]:
        for row in (-1.0, -3.0, -HUGE):
            (p, claim), (q, _) = law(row), law(0.0 if neighbours == "zero-out" else -row)
            value, claimed = _ratio(p, q), claim.epsilon(0.0)
            share = value / claimed
            how = f"a record {row:g} among 59 of 1"
            # the logarithm of a density is proportional to its exponent, except for the normalising constant
            fault = least_fault(partial(_exceeds, p, q, claimed))
            yield Exact(
                "density", claimed, value, 0.0, share, share <= 1.0 + 1e-7, how, fault=fault
            )

    return worst(found())


def _ratio(p: FloatArray, q: FloatArray) -> float:
    """The largest logarithm of a ratio of two densities on a grid, given up to a constant each."""
    p, q = (x - logsumexp(x) for x in (p, q))
    return float(np.max(np.abs(p - q)))


def _exceeds(p: FloatArray, q: FloatArray, claimed: float, factor: float) -> bool:
    return _ratio(factor * p, factor * q) > claimed * (1.0 + 1e-7)


def selections() -> Iterator[Case]:
    """The exponential mechanism and report-noisy-max, by their exact laws, and a draw from a density."""
    for noise in ("gumbel", "laplace", "exponential"):
        for neighbours, monotone in (("zero-out", False), ("replace", False), ("zero-out", True)):
            yield Case(
                f"{noise}, {neighbours}{', monotone' if monotone else ''}",
                partial(_selection, noise, Budget(1.0, 0.0, neighbours), monotone),
            )
    for neighbours in BOTH:
        yield Case(
            f"erm.exponential_mechanism, exact draw, {neighbours}", partial(_density, neighbours)
        )
