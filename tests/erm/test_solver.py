"""What all nine solvers share: nothing is drawn before it is charged, and nothing is charged in vain."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import reticent
from reticent import erm, losses, sets
from reticent.erm.solver import Allowance, SolverPlan, solve
from reticent.noise import Source
from reticent.privacy import BudgetExceeded, Gaussian, Release
from reticent.sets.kernels import BOX

from .reference import records

BUDGET = reticent.Budget(1.0, 1e-6)
LOGISTIC, RIDGE, SQUARED = losses.Logistic(), losses.Logistic(ridge=0.05), losses.Squared()
SOLVERS = {
    "gradient_descent": (LOGISTIC, sets.L2Ball(4), {"steps": 3}),
    "ftrl": (LOGISTIC, sets.L2Ball(4), {"order": "given"}),
    "frank_wolfe": (LOGISTIC, sets.L1Ball(4), {"steps": 3}),
    "objective_perturbation": (LOGISTIC, None, {}),
    "output_perturbation": (RIDGE, sets.L2Ball(4), {}),
    "localisation": (RIDGE, sets.L2Ball(4), {"steps": 3}),
    "averaged_iterate": (LOGISTIC, sets.L2Ball(4), {}),
    "exponential_mechanism": (LOGISTIC, sets.L2Ball(4), {"net": np.zeros((2, 4))}),
    "sufficient_statistics": (SQUARED, None, {}),
}


def call(name, budget=BUDGET, **more):
    loss, where, options = SOLVERS[name]
    A, y = records(count=300)
    return getattr(erm, name)(loss, where, A, y, budget=budget, **options, **more)


@pytest.fixture
def draws(monkeypatch):
    """The calls of every method of a generator that gives random bits away, and of the ledger."""
    events = []

    def watch(owner, name):
        true = getattr(owner, name)

        def watched(self, *arguments, **more):
            events.append(name)
            return true(self, *arguments, **more)

        monkeypatch.setattr(owner, name, watched)

    for name in ("words", "normals", "fine_bits"):
        watch(Source, name)
    watch(reticent.Ledger, "spend")
    return events


def test_these_are_all():
    functions = {name for name in erm.__all__ if inspect.isfunction(getattr(erm, name))}
    assert functions == set(SOLVERS)


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_is_drawn_before_it_is_charged(name, draws):
    with reticent.Ledger(BUDGET) as ledger:
        fit = call(name)
    assert draws[0] == "spend"
    assert draws.count("spend") == 1
    assert len(draws) > 1
    assert ledger.entries[0].guarantee.epsilon(1e-6) == fit.guarantee.epsilon(1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_budget_that_is_spent_draws_nothing(name, draws):
    with reticent.Ledger(reticent.Budget(0.1, 1e-7)), pytest.raises(BudgetExceeded):
        call(name)
    assert draws == ["spend"]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_bad_callback_costs_nothing(name, draws):
    with (
        reticent.Ledger(BUDGET) as ledger,
        pytest.raises(TypeError, match="callback must be callable"),
    ):
        call(name, callback=3)
    assert draws == []
    assert ledger.entries == ()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("ends", [{"window": 10}, {"fade": [(10, 1.0), (100, 2.0)]}])
def test_a_promise_that_ends_or_fades_is_refused(name, ends, draws):
    with (
        reticent.Ledger(BUDGET.with_(**ends)) as ledger,
        pytest.raises(ValueError, match=f"budget.{next(iter(ends))} must be None"),
    ):
        call(name, BUDGET.with_(**ends))
    assert draws == []
    assert ledger.entries == ()


def test_what_cannot_be_continued_is_refused():
    A, y = records(count=50)
    stopped = erm.frank_wolfe(
        LOGISTIC, sets.L1Ball(4), A, y, budget=BUDGET, steps=5, callback=lambda moment: True
    )
    with pytest.raises(ValueError, match="cannot be continued"):
        erm.frank_wolfe(LOGISTIC, sets.L1Ball(4), A, y, budget=None, resume=stopped)


def test_a_plan_pays_unless_its_guarantee_is_its_own():
    with pytest.raises(ValueError, match="needs guarantee="):
        SolverPlan(problem=None, is_paid=True)


def three_steps(claimed=1.0, count=3, draws=1, states=True):
    """A solver of a user's own: noisy gradients, with a plan that may state too little."""

    def planned(problem):
        moved = problem.sensitivity
        scale = problem.noise_scale(
            moved, problem.level / np.sqrt(3), problem.dim, problem.largest_sum
        )

        def step(run, t):
            x = run.arrays["point"]
            for _ in range(draws):
                total = run.noisy(problem.gradient_sum(x), scale / claimed)
            return run.note(t, problem.set.project(x - total / problem.count))

        release = problem.release("noisy sums", moved, scale, problem.dim, count)
        start = {"point": np.zeros(problem.dim)}
        return SolverPlan(
            problem=problem, step=step, releases=[release] * states, steps=3, arrays=start
        )

    A, y = records(count=300)
    return solve("mine", planned, LOGISTIC, sets.L2Ball(4), A, y, budget=BUDGET, seed=0)


@pytest.mark.parametrize(
    "false", [{"count": 1}, {"draws": 2}, {"claimed": 1.001}], ids=["count", "draws", "scale"]
)
def test_a_step_draws_only_what_the_releases_state(false):
    assert three_steps().guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(RuntimeError, match="the plan's releases do not pay"):
        three_steps(**false)


def test_larger_draws_leave_the_allowance_of_smaller_ones():
    releases = [Release("a", Gaussian(1.0), 1.0, ""), Release("b", Gaussian(0.2), 1.0, "")]
    for order in ((1.0, 5.0), (5.0, 1.0)):
        allowance = Allowance(releases)
        for scale in order:
            allowance.take(scale)
        with pytest.raises(RuntimeError, match="0 left of scale 5; 0 left of scale 1"):
            allowance.take(9.0)


def test_a_plan_without_releases_is_refused_before_it_is_charged():
    with reticent.Ledger(BUDGET) as ledger, pytest.raises(ValueError, match="states no releases"):
        three_steps(states=False)
    assert ledger.entries == ()


def test_bounds_that_are_false_are_refused_where_the_guarantee_needs_them():
    """Slopes 100 times as large as stated gave the exponential mechanism an epsilon above 2 instead of 1."""

    class Steep(losses.Huber):
        def _slope_bound(self, reach):
            return 0.01

    class Bent(losses.Huber):
        def _bend_bound(self, reach):
            return 0.001

    class Outside(sets.LinfBall):
        kernel = BOX, np.array([1.0, 1.0, -1.0, -1.0])  # the bounds in the wrong order

    A, y = np.array([[0.5, 0.0], [0.0, 0.3]]), np.array([1.0, -1.0])
    box, net = sets.LinfBall(2), np.array([[-1.0, 0.0], [1.0, 0.0]])
    for loss, where in ((Steep(), box), (Bent(), box), (losses.Huber(), Outside(2))):
        for solver in (erm.objective_perturbation, erm.output_perturbation, erm.averaged_iterate):
            with reticent.Ledger(BUDGET) as ledger, pytest.raises(ValueError, match="cannot use"):
                solver(loss, where, A, y, budget=BUDGET)
            assert ledger.entries == ()
        if where is box:
            with pytest.raises(ValueError, match="exponential mechanism cannot use"):
                erm.exponential_mechanism(loss, where, A, y, budget=BUDGET, net=net)
        erm.gradient_descent(loss, box, A, y, budget=BUDGET, steps=2)  # which clips

    class Fine(losses.Huber):
        """A loss whose bounds hold."""

    erm.objective_perturbation(Fine(0.5), box, A, y, budget=BUDGET)


def test_only_the_skeleton_charges():
    """A solver's file neither charges nor promises by itself."""
    folder = Path(erm.__file__).parent
    for name in SOLVERS:
        tree = ast.parse((folder / f"{name}.py").read_text())
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "solve" in called, name
        assert not called & {"charge", "noisy"}, name
