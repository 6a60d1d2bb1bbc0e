"""Persons in a table: weights, sensitivities and divergences, recomputed independently."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import norm

import reticent
from reticent import erm, losses, sets
from reticent.erm.problem import Groups
from reticent.erm.reading import read
from reticent.privacy import ObjectivePerturbation

BUDGETS = [
    reticent.Budget(1.0, 1e-6),
    reticent.Budget(1.0),
    reticent.Budget(1.0, 1e-6, neighbours="replace"),
    reticent.Budget(1.0, neighbours="replace"),
]
RNG = np.random.default_rng(0)
N = 900
IDS = RNG.integers(0, 200, size=N)
X = RNG.standard_normal((N, 4))
X *= (RNG.random(N) / np.linalg.norm(X, axis=1))[:, None]
Y = np.where(X @ [2.0, -1.0, 0.0, 0.5] > 0, 1.0, -1.0)


def test_weights_of_a_person():
    found = Groups.of(list("abacab"), 6, None)
    assert found.count == 3
    assert found.factors == pytest.approx([1 / 3, 1 / 2, 1 / 3, 1.0, 1 / 3, 1 / 2], rel=1e-8)
    first = Groups.of(list("abacab"), 6, 2)
    assert first.factors.tolist() == [1, 1, 1, 1, 0, 1]
    assert first.most == 2.0
    for ids in (IDS, RNG.integers(0, 5, size=10_000)):
        groups = Groups.of(ids, len(ids), None)
        assert np.bincount(ids, weights=groups.factors).max() <= 1.0
        for k in (1, 3):
            groups = Groups.of(ids, len(ids), k)
            assert np.bincount(ids, weights=groups.factors).max() <= k


def persons(problem, x):
    """The gradient of each person, from the formula and not from the solver."""
    gradients = np.array(
        [problem.loss.gradient(x, a, b) for a, b in zip(problem.A, problem.y, strict=True)]
    )
    weighted = gradients * problem.weights[:, None]
    return np.array([weighted[name == IDS].sum(axis=0) for name in np.unique(IDS)])


@pytest.mark.parametrize("max_records", [None, 1, 3])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.CappedLogistic(), losses.Huber(1.0)])
def test_what_a_person_moves(loss, max_records):
    weights = RNG.uniform(0, 3, size=N)
    problem = read(
        loss, sets.L2Ball(4, 5.0), X, Y, BUDGETS[0], noise_precision="lattice", weights=weights,
        weight_bound=2.0, groups=IDS, max_records=max_records,
    )  # fmt: skip
    assert (problem.count, problem.records, problem.unit) == (len(np.unique(IDS)), N, "person")
    for _ in range(5):
        x = problem.set.sample(np.random.default_rng(0))
        each = persons(problem, x)
        assert np.linalg.norm(each, axis=1).max() <= problem.norm
        assert problem.gradient_sum(x) == pytest.approx(each.sum(axis=0), rel=1e-9, abs=1e-9)


SOLVERS = {
    "objective": lambda **k: erm.objective_perturbation(losses.CappedLogistic(), None, X, Y, **k),
    "classes": lambda **k: erm.objective_perturbation(
        losses.Logistic(), None, X, np.where(RNG.integers(0, 3, N)[:, None] == np.arange(3), 1.0, -1.0), **k
    ),
    "huber": lambda **k: erm.objective_perturbation(losses.Huber(1.0), None, X, Y, **k),
    "descent": lambda **k: erm.gradient_descent(losses.Logistic(), sets.L2Ball(4), X, Y, steps=3, **k),
    "statistics": lambda **k: erm.sufficient_statistics(losses.Squared(), None, X, Y, **k),
    "sparse": lambda **k: erm.sufficient_statistics(losses.Squared(), None, sp.csr_array(X), Y, **k),
    "corners": lambda **k: erm.frank_wolfe(losses.Squared(), sets.L1Ball(4), X, Y, steps=3, **k),
    "sparse corners": lambda **k: erm.frank_wolfe(
        losses.Squared(), sets.L1Ball(4), sp.csr_array(X), Y, steps=3, **k
    ),
}  # fmt: skip


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_promises_are_about_persons(name, budget):
    for max_records in (None, 3):
        with reticent.Ledger(budget, unit="person") as ledger:
            fit = SOLVERS[name](budget=budget, groups=IDS, max_records=max_records, seed=0)
        assert fit.guarantee.unit == "person"
        assert fit.guarantee.meets(budget)
        assert fit.guarantee.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-12)
        assert len(ledger.entries) == 1
        assert np.isfinite(fit.point).all()
        with reticent.Ledger(budget) as other, pytest.raises(ValueError, match="one kind"):
            SOLVERS[name](budget=budget, groups=IDS, max_records=max_records, seed=0)
        assert other.entries == ()


@pytest.mark.parametrize("name", ["objective", "descent", "statistics", "corners"])
def test_public_numbers_do_not_depend_on_a_persons_records(name):
    """Settings and promise are the same where one person has a hundred records more."""
    global X, Y
    ids = {}
    seen = []
    before = X, Y
    try:
        for extra in (0, 100):
            rows = np.concatenate([np.arange(N), np.zeros(extra, int)])
            X, Y, ids = before[0][rows], before[1][rows], IDS[rows]
            fit = SOLVERS[name](budget=BUDGETS[0], groups=ids, seed=0)
            settings = {k: v for k, v in fit.trace.settings.items() if name != "statistics"}
            settings.pop("iterations", None)
            seen.append((fit.guarantee, settings))
    finally:
        X, Y = before
    assert seen[0][0] == seen[1][0]
    public = ("regularizer", "noise", "steps", "step size", "set")
    assert [seen[0][1].get(k) for k in public] == [seen[1][1].get(k) for k in public]


def test_statistics_of_a_person_stay_within_their_bound():
    """A'A and A'y of one person, by hand, against the joint sensitivity that the noise is for."""
    from reticent.erm.sufficient_statistics import _bounds, _rooted

    for max_records in (None, 3):
        problem = _rooted(
            read(losses.Squared(), None, X, Y, BUDGETS[0], noise_precision="lattice", groups=IDS,
                 max_records=max_records)
        )  # fmt: skip
        F, L = _bounds(problem)
        for name in np.unique(IDS):
            A, y = problem.A[name == IDS], problem.y[name == IDS]
            assert np.linalg.norm(A.T @ A) <= F * F
            assert np.linalg.norm(A.T @ y) <= F * L
        if max_records is None:  # least squares where each record of a person counts 1/m
            weights = Groups.of(IDS, N, None).factors
            assert problem.A.T @ problem.y == pytest.approx((X * weights[:, None]).T @ Y)


def absolute_moment(alpha: float, s: float) -> float:
    """log E exp((alpha - 1) s |Z|) by numerical integration."""
    value, _ = quad(
        lambda z: 2 * norm.pdf(z) * math.exp((alpha - 1) * s * z), 0, 40 + 2 * alpha * s, limit=400
    )
    return math.log(value)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_divergence_of_objective_perturbation(alpha, neighbours):
    """c + s^2/2 + log E exp((alpha - 1) s |Z|) / (alpha - 1), the proof's own terms."""
    s, c, count = 0.3, 0.2, 2
    curve = ObjectivePerturbation(s, c, neighbours, count=count, persons=True)
    wide = s if neighbours == "zero-out" else 2 * s
    exact = c + wide**2 / 2 + absolute_moment(alpha, wide) / (alpha - 1)
    assert curve._rdp(alpha) == pytest.approx(count * exact, rel=1e-7)
    with pytest.raises(ValueError, match="one_sided"):
        ObjectivePerturbation(s, c, neighbours, one_sided=True, persons=True)
    alone = ObjectivePerturbation(s, c, neighbours)
    assert curve.epsilon(1e-6) >= alone.epsilon(1e-6)


def test_the_determinant_of_a_person():
    """Enumerated: the worst of many spectra is the flat one, and rank one would be too little."""
    from reticent.erm.perturbation import PublicNumbers, _determinant

    problem = read(losses.Logistic(), None, X, Y, BUDGETS[1], noise_precision="lattice", groups=IDS)
    public = PublicNumbers.of(problem)
    ridge, rng = 0.05, np.random.default_rng(3)
    claimed = _determinant(public, ridge)
    worst = 0.0
    for _ in range(300):
        rows = rng.standard_normal((6, 4))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        W = ridge * np.eye(4) + np.diag(rng.exponential(0.05, 4))
        E = rows.T @ rows / 6 * public.bend
        worst = max(worst, np.linalg.slogdet(W + E)[1] - np.linalg.slogdet(W)[1])
    flat = np.linalg.slogdet((ridge + public.bend / 4) * np.eye(4))[1] - 4 * math.log(ridge)
    assert worst <= claimed
    assert flat == pytest.approx(claimed, rel=1e-9)
    assert worst > math.log1p(public.bend / ridge)  # what one record can do


def test_pure_objective_perturbation_of_persons_in_one_dimension():
    """Exact densities of the minimiser with a person and without, on a grid."""
    a = np.array([0.9, -0.4, 1.0])
    y = np.array([1.0, 1.0, -1.0])
    others, labels = np.array([0.5, -1.0]), np.array([1.0, 1.0])
    loss, ridge = losses.Logistic(), 0.4
    problem = read(
        loss, None, np.concatenate([others, a])[:, None], np.concatenate([labels, y]), reticent.Budget(1.0),
        noise_precision="float", groups=[0, 1, 2, 2, 2],
    )  # fmt: skip
    from reticent.erm.perturbation import PublicNumbers, _determinant

    scale = 2.0
    claimed = problem.norm / scale + _determinant(PublicNumbers.of(problem), ridge)
    x = np.linspace(-30, 30, 4001)

    def density(rows, targets, weights):
        z = rows[:, None] * x
        slope = -targets[:, None] / (1 + np.exp(targets[:, None] * z)) * rows[:, None]
        p = 1 / (1 + np.exp(-z))
        bend = p * (1 - p) * rows[:, None] ** 2
        b = -(weights[:, None] * slope).sum(axis=0) - ridge * x
        return -np.abs(b) / scale + np.log((weights[:, None] * bend).sum(axis=0) + ridge)

    full = density(
        np.concatenate([others, a]),
        np.concatenate([labels, y]),
        np.array([1, 1, 1 / 3, 1 / 3, 1 / 3]),
    )
    without = density(others, labels, np.ones(2))
    assert np.abs(full - without).max() <= claimed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"groups": IDS[:-1]}, "one id for each of the 900 records"),
        ({"groups": [None] * N}, r"groups\[0\] is missing"),
        ({"groups": [1, "a"] * (N // 2)}, "groups must hold ids of one type"),
        ({"groups": IDS.astype(float)}, "groups must hold whole numbers"),
        ({"max_records": 3}, "max_records=3 needs groups"),
        ({"groups": IDS, "max_records": 0}, "max_records must be at least 1"),
    ],
)
@pytest.mark.parametrize("name", ["objective", "descent", "statistics", "corners"])
def test_bad_groups_cost_nothing(name, arguments, words):
    with (
        reticent.Ledger(BUDGETS[0], unit="person") as ledger,
        pytest.raises((ValueError, TypeError), match=words),
    ):
        SOLVERS[name](budget=BUDGETS[0], **arguments)
    assert ledger.entries == ()


def test_what_is_not_proved_is_refused():
    with pytest.raises(ValueError, match="sampling and groups cannot be combined"):
        erm.gradient_descent(
            losses.Logistic(), sets.L2Ball(4), X, Y, budget=BUDGETS[0], sampling=0.1, groups=IDS
        )
    with pytest.raises(ValueError, match="calibration='exact'"):
        erm.objective_perturbation(
            losses.Logistic(), None, X, Y, budget=BUDGETS[0], calibration="published", groups=IDS
        )  # fmt: skip
    own = losses.CustomLoss(
        lambda x, a, y: 0.0, lambda x, a, y: 0 * x, lipschitz=1.0, smoothness=1.0
    )
    with pytest.raises(ValueError, match="weights and groups need a generalised linear loss"):
        erm.gradient_descent(own, sets.L2Ball(4), X, Y, budget=BUDGETS[0], groups=IDS)


def test_one_more_record_does_not_change_the_slopes_of_other_persons():
    """At the kink of the hinge, one more record of one person moved the sum by 506 times its sensitivity."""
    count, dim, rng = (
        1024,
        64,
        np.random.default_rng(0),
    )  # just as many numbers as were summed in turn
    moved = []
    for _ in range(30):
        row, x = rng.normal(size=(2, dim))
        row /= 1.01 * np.linalg.norm(row)
        x /= row @ x  # on the kink, up to rounding
        sums, squares = [], []
        for more in (1, 0):
            rows = np.vstack([np.tile(row, (count - 1, 1)), np.zeros((1 + more, dim))])
            ids = np.append(np.arange(count - 1) // 3, np.full(1 + more, 10_000))
            known = {"noise_precision": "lattice", "groups": ids}
            ball, labels = sets.L2Ball(dim, 1e3), np.ones(len(rows))
            problem = read(losses.Hinge(), ball, rows, labels, BUDGETS[0], **known)
            sums.append(problem.gradient_sum(x))
            squares.append(problem.slope_squares(x))
        moved.append(float(np.linalg.norm(sums[0] - sums[1])))
        assert squares[0] == pytest.approx(squares[1], abs=1e-6)
    assert max(moved) <= problem.sensitivity


@pytest.mark.parametrize("solver", [erm.gradient_descent, erm.frank_wolfe])
def test_a_run_that_protected_records_does_not_continue_as_one_that_protects_persons(solver):
    """The fit said that persons were protected, also in the steps in which all records were those of one person."""
    known = {"budget": BUDGETS[1], "steps": 8, "seed": 0}
    rows, labels = X[:50], Y[:50]
    part = solver(
        losses.Logistic(), sets.L1Ball(4), rows, labels, callback=lambda m: m.step == 3, **known
    )
    assert not part.finished
    apart = np.arange(50)
    with pytest.raises(ValueError, match=r"another plan \(differs in: unit\)"):
        solver(losses.Logistic(), sets.L1Ball(4), rows, labels, groups=apart, resume=part, **known)
    whole = solver(losses.Logistic(), sets.L1Ball(4), rows, labels, resume=part, **known)
    assert whole.finished
    assert whole.guarantee.unit == "record"
