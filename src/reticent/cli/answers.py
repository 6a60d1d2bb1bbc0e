"""What a guarantee costs: the noise of each algorithm, the error to expect, and the noise of the paper.

Learners and solvers are built for the requested settings and state their own guarantee and noise; nothing is calibrated
here. Solvers that need records get made-up ones, because neither guarantee nor noise depends on the content of records.

A number given with "at most" is a theorem for the stated norms (its formula is on the algorithm's page under
docs/algorithms/); a number given with "about" is the estimate by which defaults are chosen.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reticent.cli.errors import Refused

_MOST_NUMBERS = 4_000_000
_POINTS = 60


@dataclass(frozen=True)
class Question:
    """The algorithm and the settings to explain."""

    algorithm: str
    epsilon: float
    delta: float = 1e-6
    neighbours: str = "zero-out"
    window: int | None = None
    horizon: int | None = None
    dim: int = 10
    norm: float = 1.0
    radius: float = 1.0
    ridge: float = 0.01

    @property
    def budget(self) -> Any:
        from reticent.privacy import Budget

        return Budget(self.epsilon, self.delta, self.neighbours, self.window)

    @property
    def length(self) -> int:
        """The number of records to which the numbers refer."""
        return self.horizon or max(4 * (self.window or 0), 10_000)


@dataclass
class Answer:
    """The answer, in numbers and sentences."""

    guarantee: Any
    noise: str
    expect: list[str]
    steps: Any = None
    curves: dict[str, Any] = field(default_factory=dict)
    axis: str = "standard deviation of the noise"
    unit: str = "records"
    log: bool = True
    published: Any = None
    compared: str = ""


def answer(question: Question) -> Answer:
    """Compute the answer to a question."""
    if question.algorithm not in ALGORITHMS:
        raise Refused(
            f"--algorithm {question.algorithm!r} is not known; use one of {', '.join(ALGORITHMS)}"
        )
    # a published formula that is not private warns when it is built, but here it is the subject
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ALGORITHMS[question.algorithm](question)


# Running totals --------------------------------------------------------------------------------------


def _total(question: Question, word: str) -> Answer:
    from reticent import papers, sums
    from reticent.privacy.prescribed import Calibration

    q = question
    kinds: dict[str, type[sums.Mechanism]] = {
        "tree": sums.TreeMechanism,
        "window-tree": sums.WindowTreeMechanism,
        "correlated": sums.CorrelatedMechanism,
    }
    if word == "window-tree" and q.window is None:
        raise Refused("--algorithm window-tree needs a --window")
    pure: dict[str, Any] = {"noise": "gamma"} if q.delta == 0 and word != "correlated" else {}
    built = kinds[word](q.dim, q.horizon, budget=q.budget, norm=q.norm, **pure)
    ours = _errors(built, q.length)
    worst = float(ours[1].max())
    out = Answer(
        guarantee=built.guarantee,
        noise=f"each coordinate of a total has noise of standard deviation up to {worst:.4g}",
        expect=[
            f"every one of the {q.dim} coordinates of every total is off by less than {1.96 * worst:.4g} "
            "95% of the time; the noise has mean zero",
            f"one record contributes at most {q.norm:g}, so it takes about {worst / q.norm:.0f} records "
            f"that all point the same way to match the noise",
        ],
        steps=ours[0],
        curves={"reticent": ours[1]},
    )
    if q.delta == 0:
        return out
    if q.window is not None:
        formula = papers.window_tree_gaussian(q.epsilon, q.delta, window=q.window, norm=q.norm)
        twin: sums.Mechanism = sums.WindowTreeMechanism(
            q.dim,
            q.horizon,
            budget=q.budget,
            norm=q.norm,
            calibration=Calibration("published", "window-tree"),
        )
    else:
        formula = papers.private_sum(q.epsilon, q.delta, horizon=q.length, norm=q.norm)
        twin = sums.TreeMechanism(
            q.dim,
            q.length,
            budget=q.budget,
            norm=q.norm,
            estimator="plain",
            calibration=Calibration("published", "tree"),
        )
    return _with_published(out, formula, _errors(twin, q.length)[1])


# Online learners -------------------------------------------------------------------------------------


def _ftrl(question: Question) -> Answer:
    from reticent import losses, online, sets

    q = question
    ball, loss = sets.L2Ball(q.dim, radius=q.radius), losses.Logistic(feature_norm=q.norm)
    learner = online.FollowTheRegularizedLeader(ball, loss, budget=q.budget, horizon=q.horizon)
    return of_regularized(learner, q)


def of_regularized(learner: Any, question: Question) -> Answer:
    """The answer for a regularised leader that has already been built."""
    from reticent import online, papers

    q = question
    steps, errors = _errors(learner.total, q.length)
    out = Answer(learner.guarantee, _total_noise(errors), [], steps, {"reticent": errors})
    if q.horizon is None:
        out.expect.append(_about(learner, errors, steps, q))
        return out
    rule, T, L = learner.rule, q.horizon, learner.lipschitz
    held = rule.anchor + rule.growth * np.sqrt(np.arange(1.0, T + 1.0))
    late = L * (1.0 / rule.fresh - 1.0)  # the largest lag of an average behind the totals
    apart = L / 2 + late + math.sqrt(q.dim) * float(errors.max())
    bound = held[-1] * q.radius**2 / 2 + L * apart * float(np.sum(1.0 / held))
    out.expect = _regret("at most", bound, T, "worst case, proved")
    out.expect.append(_about(learner, errors, steps, q))
    if q.delta == 0 or q.window is not None or learner.guarantee.unit == "person":
        return out  # the paper's noise protects single records only
    formula = papers.ftrl(q.epsilon, q.delta, horizon=T, norm=L)
    twin = online.FollowTheRegularizedLeader(
        learner.set, learner.loss, budget=q.budget, horizon=T, lipschitz=L, calibration="published"
    )
    return _with_published(out, formula, _errors(twin.total, T)[1])


def _approximate(question: Question) -> Answer:
    from reticent import losses, online, papers, sets

    q = question
    ball = sets.L2Ball(q.dim, radius=q.radius)
    loss = losses.Logistic(feature_norm=q.norm, ridge=q.ridge)
    learner = online.FollowTheApproximateLeader(ball, loss, budget=q.budget, horizon=q.horizon)
    steps, errors = _errors(learner.total, q.length)
    out = Answer(learner.guarantee, _total_noise(errors), [], steps, {"reticent": errors})
    out.expect.append(_about(learner, errors, steps, q))
    window = q.window or q.horizon
    if window is None:
        return out
    printed: dict[str, Any] = {
        "window": window,
        "norm": learner.lipschitz,
        "strong_convexity": learner.strong_convexity,
        "diameter": 2.0 * q.radius,
    }
    if q.delta > 0:
        formula = papers.window_tree_gaussian(q.epsilon, q.delta, **printed)
    else:
        formula = papers.window_tree_gamma(q.epsilon, **printed)
    # in the paper, protection for ever over a horizon is a window as long as the horizon
    twin = online.FollowTheApproximateLeader(
        learner.set,
        learner.loss,
        budget=dataclasses.replace(q.budget, window=window),
        horizon=q.horizon,
        lipschitz=learner.lipschitz,
        calibration="published",
    )
    return _with_published(out, formula, _errors(twin.total, q.length)[1])


def _quadratic(question: Question) -> Answer:
    from reticent import losses, online, papers, sets

    q = question
    known = {"budget": q.budget, "horizon": q.horizon}
    ball = sets.L2Ball(q.dim, radius=q.radius)
    loss = losses.Squared(feature_norm=q.norm, ridge=q.ridge)
    learner = online.QuadraticLeader(ball, loss, **known)
    steps, errors = _errors(learner.total, q.length)
    words = (
        f"the sums of products of features have noise of standard deviation up to {errors.max():.4g} "
        "in an entry of the diagonal"
    )
    out = Answer(learner.guarantee, words, [], steps, {"reticent": errors})
    out.expect.append(
        f"a direction is learnt once the squares of the features along it add up to more than the noise, "
        f"after about {errors.max() / q.norm**2:.0f} records that all lie along it"
    )
    out.expect.append("regret grows with a power of ln T; its page has measured figures")
    if q.delta > 0 and q.window is None and q.horizon is not None:
        formula = papers.quadratic_leader(q.epsilon, q.delta, horizon=q.horizon, norm=q.norm)
        twin = online.QuadraticLeader(ball, loss, calibration="published", **known)
        return _with_published(out, formula, _errors(twin.total, q.length)[1])
    return out


def _perturbed(question: Question) -> Answer:
    from reticent import losses, online, sets

    q = question
    ball = sets.L2Ball(q.dim, radius=q.radius)
    loss = losses.Logistic(feature_norm=q.norm, ridge=q.ridge)
    known = {"budget": q.budget, "horizon": q.horizon}
    learner = online.PerturbedIterates(ball, loss, **known)
    steps = _steps(q.length)
    ours = np.array([learner.deviation(int(t)) for t in steps])
    out = Answer(
        learner.guarantee,
        f"the decision after t records has noise of standard deviation {ours[0]:.4g} in a coordinate at "
        f"first and {ours[-1]:.4g} in the end (the set has radius {q.radius:g})",
        [],
        steps,
        {"reticent": ours},
    )
    extra = learner.lipschitz * math.sqrt(q.dim) * float(np.trapezoid(ours, steps))
    out.expect = _regret("from the noise, at most", extra, q.length, "beside the clean algorithm's")
    if q.horizon is not None and q.window is None:
        twin = online.PerturbedIterates(ball, loss, schedule="published", **known)
        theirs = np.array([twin.deviation(int(t)) for t in steps])
        return _with_published(out, twin._plan.formula, theirs)
    return out


# Offline solvers -------------------------------------------------------------------------------------


def _solver(question: Question, word: str) -> Answer:
    from reticent import erm, losses, papers, sets

    q = question
    if q.window is not None:
        raise Refused(f"--window is for streams, but {word} sees all records at once")
    if q.horizon is None:
        raise Refused(f"{word} needs --horizon, the number of records")
    n = q.horizon
    if n * q.dim > _MOST_NUMBERS:
        raise Refused(f"--horizon times --dim may be at most {_MOST_NUMBERS:,} for {word}")
    X = np.zeros((n, q.dim))
    X[:, 0] = q.norm
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    square = losses.Squared(feature_norm=q.norm)
    if word == "frank-wolfe":
        corners = sets.L1Ball(q.dim, radius=q.radius)
        fit = erm.frank_wolfe(square, corners, X, y, budget=q.budget, radius=q.radius)
    else:
        solve = getattr(erm, word.replace("-", "_"))
        fit = solve(losses.Logistic(feature_norm=q.norm), None, X, y, budget=q.budget)
    release, known = fit.guarantee.releases[0], fit.trace.settings
    often = "once" if release.count == 1 else f"{release.count} times"
    out = Answer(fit.guarantee, f"{release.mechanism}: {release.noise}, {often}", [])
    if word == "gradient-descent":
        out.expect.append(
            f"excess risk of a record of about {known['predicted excess risk']:.4g}, by theory, over "
            f"{known['set']}; that of guessing is {math.log(2):.4g}"
        )
    elif word == "objective-perturbation":
        out.expect.append(
            f"a ridge of {known['regularizer']:.4g} on the summed loss of {n:,} records, over {known['set']}"
        )
    else:
        scale = float(release.noise.split()[-1])
        off = scale * math.log(2 * q.dim) / n
        out.expect.append(
            f"each of {known['steps']} steps picks one of {2 * q.dim} corners whose slope is, on average, "
            f"at most {off:.4g} per record above that of the best"
        )
    if q.delta == 0:
        return out
    if word == "gradient-descent":
        formula = papers.gradient_descent(q.epsilon, q.delta, steps=release.count, norm=q.norm)
    elif word == "objective-perturbation":
        formula = papers.objective_perturbation_gaussian(
            q.epsilon, q.delta, norm=q.norm, smoothness=0.25 * q.norm**2
        )
    else:
        steep = q.norm * (1.0 + q.radius * q.norm)
        formula = papers.frank_wolfe_laplace(
            q.epsilon, q.delta, steps=release.count, n=n, norm=steep, radius=q.radius
        )
    return _trade_off(out, formula, release, q)


def _trade_off(out: Answer, formula: Any, release: Any, q: Question) -> Answer:
    """The best trade-off that an attacker can reach, against our noise and against the paper's."""
    from reticent.report.page import least_misses

    ours, theirs = float(release.noise.split()[-1]), float(np.ravel(formula.scale)[0])
    out.published = formula
    out.compared = f"its scale is {theirs:.4g}, ours {ours:.4g}"
    out.steps = np.linspace(0.0, 1.0, 101)
    out.unit, out.log = "false alarms of an attacker", False
    out.axis = "misses that the attacker cannot avoid"
    out.curves = {
        "reticent": least_misses(out.guarantee.epsilon, out.steps),
        "the paper's noise": least_misses(formula.curve(q.neighbours).epsilon, out.steps),
    }
    return out


# Common parts ----------------------------------------------------------------------------------------


def _steps(length: int) -> Any:
    """Numbers of records, evenly spaced in logarithms, and those at which a tree has the most noisy nodes."""
    spread = np.geomspace(1, length, _POINTS).astype(int)
    worst = [((length + 1) >> k << k) - 1 for k in range(length.bit_length())]
    return np.unique([*spread, *(t for t in worst if t > 0)])


def _errors(total: Any, length: int) -> tuple[Any, Any]:
    steps = _steps(length)
    return steps, np.array([total.error(int(t)) for t in steps])


def _total_noise(errors: Any) -> str:
    return (
        "the running total of gradients has noise of standard deviation up to "
        f"{errors.max():.4g} in each coordinate"
    )


def _regret(words: str, value: float, records: int, note: str) -> list[str]:
    return [
        f"regret {words} {value:.4g} over {records:,} records, {value / records:.4g} per record ({note})"
    ]


def _about(learner: Any, errors: Any, steps: Any, q: Question) -> str:
    """An estimate of the regret from pull, movement and noise, by which a leader's default is chosen."""
    rule, problem = learner.rule, learner.rule.problem
    t = np.arange(1, q.length + 1, dtype=float)
    s = np.interp(t, steps, errors)
    m, L = rule.curvature, learner.lipschitz
    reach = problem.reach if m == 0 else min(problem.reach, L / m)
    if problem.bend > 0.0:  # the distance at which the regulariser's rule expects the best decision
        reach = min(reach, math.sqrt(q.dim) * problem.steepness / (2.0 * problem.bend))
    # without a horizon the regulariser grows; its value at the end is the one it was chosen for
    held = m * t + rule.anchor + rule.growth * t**rule.power
    pull = 0.5 * float(held[-1] - m * t[-1]) * reach**2
    movement = float(np.sum(L**2 / (2 * held)))
    noise = float(np.sum((problem.bend + m * q.dim) * s**2 / (2 * held**2)))
    if rule.anchor > 0.0:  # a bound on the cost of noise for all decisions together
        noise = min(noise, q.dim * float(s[-1]) ** 2 / (2 * rule.anchor))
    return _regret(
        "about",
        pull + movement + noise,
        q.length,
        f"regulariser {pull:.3g}, movement {movement:.3g}, noise {noise:.3g}; no bound",
    )[0]


def _with_published(out: Answer, formula: Any, theirs: Any) -> Answer:
    out.published = formula
    out.curves["the paper's noise"] = theirs
    ratio = float(np.max(theirs) / np.max(out.curves["reticent"]))
    out.compared = (
        f"in these units up to {np.max(theirs):.4g}, {ratio:.3g} times the noise used here"
    )
    return out


ALGORITHMS: dict[str, Callable[[Question], Answer]] = {
    "tree": lambda q: _total(q, "tree"),
    "window-tree": lambda q: _total(q, "window-tree"),
    "correlated": lambda q: _total(q, "correlated"),
    "ftrl": _ftrl,
    "approximate-leader": _approximate,
    "quadratic-leader": _quadratic,
    "perturbed-iterates": _perturbed,
    "gradient-descent": lambda q: _solver(q, "gradient-descent"),
    "objective-perturbation": lambda q: _solver(q, "objective-perturbation"),
    "frank-wolfe": lambda q: _solver(q, "frank-wolfe"),
}
