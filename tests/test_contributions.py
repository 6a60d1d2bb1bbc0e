"""No record contributes more than its bound, whatever its entries: every total, learner, bandit and solver.

White-box: what a record adds is read off the exact total, the clean iterate or the vector that noise is
about to be put on, with the record and with the null record in its place, and compared with what the
guarantee was calibrated to. Records hold zeros, denormals, numbers whose squares vanish or overflow,
the largest doubles, and random magnitudes.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import bandit, erm, losses, online, sets, sums
from reticent.erm import oracles, rounded_sums, solver
from reticent.erm.problem import OfflineProblem
from reticent.erm.reading import read
from reticent.estimators import PrivateScaler, scalers
from reticent.noise import Source, door, release
from reticent.online import iterate_kernels
from reticent.solve import blocks
from reticent.vertical.columns import Columns

LARGEST = 1.7976931348623157e308
EXTREMES = [0.0, 5e-324, 1e-160, 1.0, 1e160, LARGEST]
EXTREMES += [-entry for entry in EXTREMES]
DIMS = [1, 2, 7, 100]
BUDGET = reticent.Budget(1.0, 1e-6)
PURE = reticent.Budget(1.0)
WINDOW = reticent.Budget(1.0, 1e-6, window=16)


def rows_for(dim, count=24, seed=0):
    """The worst rows first, then mixed ones, then random magnitudes."""
    rng = np.random.default_rng([seed, dim])
    rows = [np.full(dim, LARGEST), np.full(dim, 1.7e308), np.resize([LARGEST, -LARGEST], dim)]
    rows += [np.full(dim, 1e160), np.full(dim, 5e-324), np.full(dim, 1.0), np.zeros(dim)]
    while len(rows) < count:
        rows.append(rng.choice(EXTREMES, dim))
        rows.append(10.0 ** rng.uniform(-323, 308, dim) * rng.choice([-1.0, 1.0], dim))
    return np.array(rows[:count])


def exact_norm(vector, step=1.0) -> Fraction:
    """The square of the Euclidean length, exactly."""
    unit = Fraction(step)
    return sum(((Fraction(int(e)) if isinstance(e, np.integer) else Fraction(float(e))) * unit) ** 2
               for e in vector)  # fmt: skip


def assert_within(total, before, norm, slack=0.0):
    """What has been added to an exact total since is at most the norm; steps of a power of two."""
    moved = total._total - before
    assert exact_norm(moved, total._noise.step) <= (Fraction(norm) * (1 + Fraction(slack))) ** 2


# Running totals ---------------------------------------------------------------------------------

TOTALS = {
    "tree": lambda d, norm: sums.Tree(d, 400, budget=BUDGET, norm=norm),
    "tree, plain": lambda d, norm: sums.Tree(d, 400, budget=BUDGET, norm=norm, estimator="plain"),
    "tree, gamma": lambda d, norm: sums.Tree(d, 400, budget=PURE, norm=norm, noise="gamma"),
    "tree, laplace": lambda d, norm: sums.Tree(d, 400, budget=PURE, norm=norm, noise="laplace"),
    "window tree": lambda d, norm: sums.WindowTree(d, budget=WINDOW, norm=norm),
    "correlated": lambda d, norm: sums.Correlated(d, 400, budget=BUDGET, norm=norm),
    "correlated, window": lambda d, norm: sums.Correlated(d, None, budget=WINDOW, norm=norm),
    "independent": lambda d, norm: sums.Independent(d, budget=BUDGET, norm=norm),
    "much budget": lambda d, norm: sums.Tree(
        d, 400, budget=reticent.Budget(50.0, 1e-2), norm=norm, noise="gaussian"
    ),
}


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("norm", [1e-100, 4.3e-16, 1.0, 1e100])
@pytest.mark.parametrize("name", TOTALS)
def test_running_totals(name, norm, dim):
    total = TOTALS[name](dim, norm)
    rows = rows_for(dim)
    for row in rows:
        before = total._total.copy()
        total.add(row)
        assert_within(total, before, norm)
    # and many at once: the total after each is what `run` made of it
    for row in rows:
        before = total._total.copy()
        total.run(row[None])
        assert_within(total, before, norm)


@pytest.mark.parametrize("name", ["tree", "correlated"])
def test_totals_in_floating_point(name):
    kind = {"tree": sums.Tree, "correlated": sums.Correlated}[name]
    total = kind(7, 400, budget=BUDGET, norm=2.0, noise_precision="float")
    for row in rows_for(7):
        before = total._total.copy()
        total.add(row)
        # the difference of two doubles near 50 is off by some 1e-14
        assert float(np.linalg.norm(total._total - before)) <= 2.0 + 1e-12


# Learners ---------------------------------------------------------------------------------------

SMALL = {"feature_norm": 4.3e-16}
LEARNERS = {
    "ftrl": lambda d: online.FollowTheRegularizedLeader(
        sets.L2Ball(d), losses.Logistic(), budget=BUDGET, horizon=400
    ),
    "ftrl, small norm": lambda d: online.FollowTheRegularizedLeader(
        sets.L2Ball(d), losses.Logistic(**SMALL), budget=BUDGET, horizon=400
    ),
    "ftrl, hinge, pure": lambda d: online.FollowTheRegularizedLeader(
        sets.Box(-1, 1, dim=d), losses.Hinge(), budget=PURE, horizon=400
    ),
    "ftrl, squared": lambda d: online.FollowTheRegularizedLeader(
        sets.L2Ball(d, 3.0), losses.Squared(feature_norm=5.0), budget=BUDGET, horizon=400
    ),
    "approximate leader": lambda d: online.FollowTheApproximateLeader(
        sets.L2Ball(d), losses.Logistic(ridge=0.1), budget=WINDOW
    ),
    "local linear": lambda d: online.FollowTheApproximateLeader(
        sets.Simplex(d + 1), losses.Logistic(ridge=0.1), budget=WINDOW, step="local-linear"
    ),
    "python rule": lambda d: online.Learner(
        sets.L2Ball(d), Steady(), losses.Logistic(), budget=BUDGET, horizon=400
    ),
    "quadratic": lambda d: online.QuadraticLeader(
        min(d, 7), losses.Squared(ridge=0.1), budget=BUDGET, horizon=400
    ),
    "quadratic, replace": lambda d: online.QuadraticLeader(
        sets.L2Ball(min(d, 7)), losses.Squared(), budget=BUDGET.with_(neighbours="replace"),
        horizon=400,
    ),
}  # fmt: skip


class Steady(online.Rule):
    """Stays where it is: a rule of the user's own, so that the loop is Python's."""

    def prepare(self, problem):
        self.problem = problem

    def start(self):
        return self.problem.center

    def step(self, moment):
        return moment.decision


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name, dim):
    learner = LEARNERS[name](dim)
    total = learner.total
    for i, row in enumerate(rows_for(learner.dim)):
        label = float((-1) ** i)
        for learn in (
            lambda row=row, label=label: learner.observe((row, label)),
            lambda row=row, label=label: learner.run(row[None], [label]),
            lambda row=row, label=label: learner.run(sp.csr_array(row[None]), [label]),
        ):
            before = total._total.copy()
            learn()
            assert_within(total, before, total.norm)
        if not isinstance(learner, online.QuadraticLeader):
            before = total._total.copy()
            learner.update(row)
            assert_within(total, before, total.norm)
    assert np.isfinite(learner.decision).all()


ITERATES = {
    "implicit": (online.ImplicitGradient(), losses.Logistic(ridge=0.5)),
    "implicit, strong": (online.ImplicitGradient(), losses.Logistic(ridge=100.0)),
    "implicit, hinge": (online.ImplicitGradient(), losses.Hinge(ridge=0.5)),
    "implicit, small norm": (online.ImplicitGradient(), losses.Logistic(ridge=0.5, **SMALL)),
    "gradient": (online.GradientDescent(), losses.Logistic(ridge=0.5)),
    "gradient, squared": (online.GradientDescent(), losses.Squared(ridge=0.5)),
}


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", ITERATES)
def test_perturbed_iterates(name, dim):
    """How far a record moves the clean iterates, beside a gap in its place, for as long as it matters."""
    inner, loss = ITERATES[name]
    rng = np.random.default_rng(dim)
    others = rng.standard_normal((6, dim))
    for row in rows_for(dim, count=16):
        pair = [
            online.PerturbedIterates(
                sets.L2Ball(dim, 30.0), loss, inner=inner, budget=BUDGET, horizon=20, seed=1
            )
            for _ in range(2)
        ]
        pair[0].observe((row, 1.0))
        pair[1].observe(None)
        reaches, _ = pair[0]._reach.of(0, 7, pair[0]._reach.start)
        for t in range(7):
            clean = [learner._memory[iterate_kernels.ITERATE] for learner in pair]
            assert np.isfinite(clean).all()
            assert float(np.linalg.norm(clean[0] - clean[1])) <= reaches[t] * (1.0 + 1e-12)
            if t < 6:
                for learner in pair:
                    learner.observe((others[t] * (LARGEST / 8), -1.0))


# Bandits ----------------------------------------------------------------------------------------

BANDITS = {
    "projection-free": lambda d: bandit.ProjectionFreeBandit(
        sets.L2Ball(d, radius=10.0), budget=BUDGET, lipschitz=1.0, horizon=4000
    ),
    "projection-free, pure": lambda d: bandit.ProjectionFreeBandit(
        sets.L1Ball(d), budget=PURE, lipschitz=1.0, horizon=4000
    ),
    "projected": lambda d: bandit.ProjectedBandit(
        sets.L2Ball(d), budget=BUDGET, lipschitz=1.0, horizon=4000
    ),
    "middle": lambda d: bandit.ProjectionFreeBandit(
        sets.L2Ball(d), budget=BUDGET, lipschitz=1.0, horizon=4000, centring="middle"
    ),
}


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", BANDITS)
def test_bandits(name, dim):
    learner = BANDITS[name](dim)

    def inside():
        return learner._total._total + learner._pending

    norm, step = learner._total.norm, learner._total._noise.step
    for row in rows_for(dim):
        before = inside()
        learner.run(row[None])
        assert exact_norm(inside() - before, step) <= Fraction(norm) ** 2
        assert np.isfinite(learner.decision).all()
    for value in EXTREMES:
        learner.ask()
        before = inside()
        learner.tell(value)
        assert exact_norm(inside() - before, step) <= Fraction(norm) ** 2


# Offline solvers --------------------------------------------------------------------------------


def losses_for_solvers():
    return [losses.Logistic(), losses.Squared(feature_norm=2.0), losses.Logistic(**SMALL),
            losses.Huber(1.0, feature_norm=1e90), losses.Hinge(feature_norm=1e-90)]  # fmt: skip


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("form", ["dense", "sparse", "user's own prepare"])
def test_records_and_their_gradients_as_a_solver_sees_them(form, which, dim):
    loss = losses_for_solvers()[which]
    if form == "user's own prepare":
        loss = careless(type(loss), loss)
    X = rows_for(dim, count=20)
    y = np.resize([1.0, -1.0], len(X))
    given = sp.csr_array(X) if form == "sparse" else X.copy()
    problem = read(loss, sets.L2Ball(dim), given, y, BUDGET, noise_precision="lattice")
    A = problem.A.toarray() if sp.issparse(problem.A) else problem.A
    for row in A:
        assert exact_norm(row) <= Fraction(problem.feature_norm) ** 2
    rng = np.random.default_rng(dim)
    x = np.asarray(problem.set.project(rng.standard_normal(dim)))
    for i in range(len(X)):
        one = read(loss, sets.L2Ball(dim), given[[i]] if form == "sparse" else X[[i]], y[[i]],
                   BUDGET, noise_precision="lattice")  # fmt: skip
        room = (Fraction(problem.norm) * (1 + Fraction(2.0**-50))) ** 2
        assert exact_norm(one.gradient_sum(x)) <= room
        assert exact_norm(one.gradient_sum(x, np.array([0]))) <= room


@pytest.mark.parametrize("dim", [2, 7])
def test_entries_as_frank_wolfe_sees_them(dim):
    loss = losses.Squared(feature_norm=0.5)
    X, y = rows_for(dim), np.ones(24)
    for given in (X, sp.csr_array(X)):
        problem = read(loss, sets.L1Ball(dim), given, y, BUDGET, noise_precision="lattice",
                       by_entries=True)  # fmt: skip
        values = problem.A.data if sp.issparse(problem.A) else problem.A
        assert (np.abs(values) <= 0.5).all()
        assert not np.shares_memory(values, X)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_entries_that_a_users_own_prepare_makes_larger(form):
    """They entered scores at six times the stated bound."""

    class Sixfold(losses.Squared):
        def prepare(self, A, y=None):
            A, y, counts = super().prepare(A, y)
            return 6.0 * A, 6.0 * y, counts

    X, y = form(np.array([[0.4, -0.1], [0.0, 7.0]])), np.array([0.5, 1.0])
    problem = read(Sixfold(feature_norm=0.5), sets.L1Ball(2), X, y, BUDGET,
                   noise_precision="lattice", by_entries=True)  # fmt: skip
    A = problem.A.toarray() if sp.issparse(problem.A) else problem.A
    assert A.tolist() == [[0.5, -0.5], [0.0, 0.5]]
    assert problem.y.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["gradient descent", "sufficient statistics", "adassp"])
def test_labels_of_records_in_blocks(name, unnoised):
    """They were used as they are: a label of 1e6 moved A'y by far more than its sensitivity."""
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (31, 2))
    clean = []
    for size in (1.0, 1e6):
        y = np.resize([1.0, -1.0], 31)
        y[0] *= size
        given = blocks.InMemory(rows, y, form=blocks.Form(length=1.0))
        unnoised.clear()
        fit = SOLVERS[name](losses.Huber(), sets.L2Ball(2), given, budget=BUDGET, seed=3)
        clean.append(list(unnoised))
    for with_it, without, item in zip(*clean, fit.guarantee.releases, strict=False):
        assert float(np.linalg.norm(with_it - without)) <= item.sensitivity


@pytest.mark.parametrize("name", ["gradient descent", "output perturbation", "adassp"])
def test_weights_of_records_in_blocks(name):
    """They were used as they are, beyond the bound to which the noise was calibrated."""
    given = blocks.InMemory(
        np.full((31, 2), 0.5), np.ones(31), np.full(31, 1e6), blocks.Form(length=1.0)
    )
    with pytest.raises(TypeError, match="weights of their own"):
        SOLVERS[name](losses.Huber(), sets.L2Ball(2), given, budget=BUDGET, seed=3)


@pytest.mark.parametrize(
    ("loss", "meaning"),
    [
        (losses.Logistic(), blocks.AsGiven()),
        (losses.Squared(label_bounds=(0.0, 1.0)), blocks.IsClass(3)),
        (losses.Squared(label_bounds=(-0.1, 0.1)), blocks.Within(0.0, 9.0)),
        (losses.Poisson(), blocks.Within(0.0, 9.0)),
    ],
)
def test_meanings_that_do_not_keep_labels_within_the_bounds(loss, meaning):
    class Elsewhere:
        """Records that are not in memory."""

        shape, form, clipped, units = (4, 2), blocks.Form(length=1.0), 0, blocks.UNITS
        labels_are = blocks.AsGiven()

        def meaning(self, labels):
            self.labels_are = labels
            return self

        def map(self, work): ...
        def thinned(self, every): ...
        def matrix(self): ...

    with pytest.raises(TypeError, match="may lie beyond the bounds"):
        read(loss, sets.L2Ball(2), Elsewhere(), meaning, BUDGET, noise_precision="lattice")


@pytest.mark.parametrize("other", [blocks.AsGiven(), blocks.Within(0.0, 9.0)])
def test_several_problems_are_several_classes(other):
    """The labels of the others than the first were used as they are."""
    inside = blocks.InMemory(np.ones((4, 2)), np.arange(4), None, blocks.Form(length=1.0))
    for meanings in ([blocks.IsClass(1), other], [other, blocks.IsClass(1)]):
        with pytest.raises(TypeError, match="must be IsClass"):
            erm.objective_perturbation(losses.Logistic(), None, inside, meanings, budget=BUDGET)


@pytest.mark.parametrize("margins", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("sampler", ["net", "exact"])
def test_rows_of_the_exponential_mechanism(sampler, margins, monkeypatch):
    """It used the caller's rows, which could be longer than the loss's norm by 1.5 margins, or change."""
    X = np.array([[1.0 + margins * door.margin(1)], [0.5]])
    seen, honest = [], OfflineProblem.A.fget

    def spy(self):
        seen.append(honest(self))
        return seen[-1]

    monkeypatch.setattr(OfflineProblem, "A", property(spy))
    if not margins:
        monkeypatch.setattr(solver, "charge", lambda *arguments: X.fill(341.0))
    erm.exponential_mechanism(losses.Quantile(), sets.L2Ball(1), X, [0.5, 1.0], budget=BUDGET, seed=0,
                              net=[[-1.0], [1.0]] if sampler == "net" else None)  # fmt: skip
    assert seen
    for A in seen:
        assert max(map(exact_norm, A)) <= (Fraction(1) + Fraction(door.margin(1))) ** 2


SOLVERS = {
    "gradient descent": lambda *a, **k: erm.gradient_descent(*a, steps=2, **k),
    "gradient descent, sampled":
        lambda *a, **k: erm.gradient_descent(*a, steps=1, sampling=1.0, **k),
    "frank-wolfe": lambda *a, **k: erm.frank_wolfe(*a, steps=1, oracle="gradient", **k),
    "averaged iterate": lambda *a, **k: erm.averaged_iterate(*a, shuffle=False, regularizer=10.0, **k),
    "averaged iterate, gradient":
        lambda *a, **k: erm.averaged_iterate(*a, shuffle=False, regularizer=10.0, inner="gradient", **k),
    "output perturbation": erm.output_perturbation,
    "localisation": lambda loss, *a, **k: erm.localisation(losses.Logistic(ridge=0.1), *a, **k),
    "sufficient statistics":
        lambda loss, *a, **k: erm.sufficient_statistics(losses.Squared(), *a, **k),
    "adassp":
        lambda loss, *a, **k: erm.sufficient_statistics(losses.Squared(), *a, method="adassp", **k),
}  # fmt: skip


@pytest.fixture
def unnoised(monkeypatch):
    """The vectors that a solver puts noise on."""
    honest, seen = release.noisy, []

    def spy(vector, *arguments, **more):
        seen.append(np.array(vector))
        return honest(vector, *arguments, **more)

    for module in (solver, oracles):
        monkeypatch.setattr(module, "noisy", spy)
    return seen


@pytest.mark.parametrize("dim", [1, 2, 7, 100])
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers(name, dim, unnoised):
    """The first vector that noise goes on, with a record and with zeros in its place."""
    rng = np.random.default_rng(dim)
    others = rng.standard_normal((30, dim))
    y = np.resize([1.0, -1.0], 31)
    for row in rows_for(dim, count=8 if dim < 100 else 4):
        clean = []
        for record in (row, np.zeros(dim)):
            unnoised.clear()
            X = np.vstack([record, others])
            fit = SOLVERS[name](losses.Logistic(), sets.L2Ball(dim), X, y, budget=BUDGET, seed=3)
            clean.append(unnoised[0])
        moved = fit.guarantee.releases[0].sensitivity
        assert float(np.linalg.norm(clean[0] - clean[1])) <= moved


SUMMING = sorted(SOLVERS.keys() - {"output perturbation", "localisation"})
"""Solvers that add records up; one that minimises needs records that stay as they are."""


@pytest.mark.parametrize("worse", [LARGEST, 1e160, 341.0, math.nan, math.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", SUMMING)
def test_records_changed_once_a_solver_has_paid(name, form, worse, unnoised, monkeypatch):
    """Where nothing has to be clipped a solver reads the caller's memory, which may change."""
    rng, y = np.random.default_rng(0), np.resize([1.0, -1.0], 31)
    others = rng.uniform(-0.5, 0.5, (30, 2))
    honest = solver.charge
    clean = []
    for changed in (True, False):
        # the last one: what an earlier one did to an iterate has shrunk by the end
        X = form(np.vstack([others, [0.5, 0.5] if changed else [0.0, 0.0]]))

        def charge(*arguments, X=X, changed=changed):
            honest(*arguments)
            if changed:
                (X.data if sp.issparse(X) else X.ravel())[-2:] = worse

        monkeypatch.setattr(solver, "charge", charge)
        unnoised.clear()
        fit = SOLVERS[name](losses.Logistic(), sets.L2Ball(2), X, y, budget=BUDGET, seed=3)
        clean.append(list(unnoised))
    # each release's first vector: a later one is at a point that depends on the first
    for with_it, without, item in zip(*clean, fit.guarantee.releases, strict=False):
        assert float(np.linalg.norm(with_it - without)) <= item.sensitivity


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 1e-300), (-8e307, 8e307), (0.0, 1e160)])
@pytest.mark.parametrize("dim", [1, 7])
def test_private_scaler(dim, bounds, monkeypatch):
    seen, honest = [], scalers.release.noisy
    monkeypatch.setattr(
        scalers.release, "noisy", lambda v, *a, **k: seen.append(np.array(v)) or honest(v, *a, **k)
    )
    for row in rows_for(dim, count=16):
        X = np.vstack([row, np.zeros((3, dim))])
        made = PrivateScaler(bounds, random_state=0).fit(X)
        X[0] = 0.5 * (bounds[0] + bounds[1])  # the null record lies in the middle
        PrivateScaler(bounds, random_state=0).fit(X)
        moved = made.guarantee_.releases[0].sensitivity
        assert float(np.linalg.norm(seen[-1] - seen[-2])) <= moved


ESTIMATORS = {
    "logistic": lambda **k: reticent.OnlineLogisticRegression(classes=[0, 1], horizon=400, **k),
    "multiclass": lambda **k: reticent.OnlineLogisticRegression(
        classes=[0, 1, 2], horizon=400, **k
    ),
    "linear": lambda **k: reticent.OnlineLinearRegression(horizon=400, **k),
}


@pytest.mark.parametrize("norm", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_online_estimators(name, dim, norm):
    model = ESTIMATORS[name](feature_norm=norm, epsilon=1.0)
    model.partial_fit(np.zeros((1, dim)), [1])
    total = model._stream._learner.total
    for row in rows_for(dim):
        for X in (row[None], np.vstack([row, np.zeros(dim)])):
            before = total._total.copy()
            model.partial_fit(X, [1] * len(X))
            # the second record of the pair has no features, but an intercept of its own
            assert_within(total, before, total.norm * len(X))


@pytest.mark.parametrize("norm", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dim", [1, 7])
def test_tables_of_private_estimators(dim, norm, form):
    model = reticent.PrivateLogisticRegression(feature_norm=norm, classes=[0, 1])
    model._set_units(None, None, None, Source(0))
    table = model._table(form(rows_for(dim)), None, 1.0)
    rows = table.rows.form.applied(table.rows.rows)
    rows = rows.toarray() if sp.issparse(rows) else rows
    for row in rows:
        assert exact_norm(row) <= Fraction(table.norm) ** 2


def test_columns_of_a_party():
    for dim in (1, 7):
        X = rows_for(dim)
        for given in (X, sp.csr_array(X)):
            columns = Columns(given, 0.3)
            for i in range(len(X)):
                slopes = np.zeros(len(X))
                slopes[i] = -0.7
                assert (np.abs(columns.scores(slopes)) <= 0.3 * 0.7 * (1 + 1e-15)).all()


# Each of the figures that refuted the claim -----------------------------------------------------


def test_a_sentinel_value_in_every_feature():
    """A row of 1.7e308 contributed 6.47 times the norm of follow the regularised leader."""
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(100), losses.Logistic(), budget=BUDGET, horizon=10
    )
    learner.run(np.full((1, 100), 1.7e308), [1.0])
    moved = exact_norm(learner.total._total, learner.total._noise.step)
    assert Fraction(learner.total.norm * 0.49) ** 2 <= moved <= Fraction(learner.total.norm) ** 2


def test_clipping_by_a_factor_without_digits():
    """[1.7e308] was clipped to 1.95 times a bound of 4.3e-16: the quotient is a denormal number."""
    rows, _, counts = losses.Logistic(feature_norm=4.3e-16).prepare([[1.7e308]], [1.0])
    assert counts.features == 1
    assert 4.29e-16 <= rows[0, 0] <= 4.3e-16


def test_gradient_descent_and_objective_perturbation_on_a_sentinel():
    X, y = np.full((1, 100), 1.7e308), [1.0]
    problem = read(losses.Logistic(), sets.L2Ball(100), X, y, BUDGET, noise_precision="lattice")
    assert exact_norm(problem.A[0]) <= Fraction(problem.feature_norm) ** 2
    assert float(np.linalg.norm(problem.gradient_sum(np.zeros(100)))) <= problem.norm


def test_implicit_iterates_on_a_sentinel():
    """PGIGA moved 3.78 times as far as its noise was calibrated to."""
    learner = online.PerturbedIterates(
        sets.L2Ball(100, 30.0), losses.Logistic(ridge=100.0), budget=BUDGET, horizon=10
    )
    learner.run(np.full((1, 100), 1.7e308), [1.0])
    reach = learner._reach.of(0, 1, learner._reach.start)[0][0]
    assert float(np.linalg.norm(learner._memory[iterate_kernels.ITERATE])) <= reach


def test_a_value_of_a_bandit_that_is_no_number():
    """[1.7e308, -1.7e308] moved the total by the smallest 64-bit integer."""
    learner = bandit.ProjectionFreeBandit(
        sets.L2Ball(2, radius=10), budget=BUDGET, lipschitz=1.0, horizon=200, seed=0
    )
    X = np.tile([1.7e308, -1.7e308], (100, 1))
    for row in X:
        before = learner._total._total + learner._pending
        learner.run(row[None])
        moved = learner._total._total + learner._pending - before
        assert exact_norm(moved, learner._total._noise.step) <= Fraction(learner._total.norm) ** 2
    assert learner.clipped > 0


class Failing(Steady):
    """A rule that fails as often as it is told to."""

    failures = 1

    def step(self, moment):
        if self.failures:
            self.failures -= 1
            raise ArithmeticError("no decision today")
        return moment.decision + 1e-3


class Balky(sets.L2Ball):
    """A ball without a compiled projection, which fails once."""

    failures = 0
    kernel = None

    def _project(self, x):
        if self.failures:
            self.failures -= 1
            raise ArithmeticError("no projection today")
        return super()._project(x)


def failing_learner(kind):
    if kind == "rule":
        return online.Learner(
            sets.L2Ball(2), Failing(), losses.Squared(), budget=BUDGET, horizon=20, seed=0
        )
    learner = online.QuadraticLeader(Balky(2), losses.Squared(), budget=BUDGET, horizon=20, seed=0)
    learner.set.failures = 1
    return learner


@pytest.mark.parametrize("kind", ["rule", "projection"])
def test_a_record_is_not_counted_twice_after_an_error(kind):
    """The natural retry moved the total by 2.0 times the norm."""
    learner = failing_learner(kind)
    record = (np.array([0.6, 0.8]), 1.0)
    before = learner.decision
    with pytest.raises(ArithmeticError) as failure:
        learner.observe(record)
    assert "must not be passed again" in failure.value.__notes__[0]
    assert learner.steps == 1
    assert np.array_equal(learner.decision, before)
    counted = learner.total._total.copy()
    assert_within(learner.total, np.zeros_like(counted), learner.total.norm)
    for again in (
        lambda: learner.observe(record),
        lambda: learner.run(record[0][None], [1.0]),
        lambda: learner.observe(None),
        lambda: learner.update(None),
    ):
        with pytest.raises(RuntimeError, match="count it twice"):
            again()
    assert np.array_equal(learner.total._total, counted)
    assert learner.steps == 1
    state = learner.state()
    given = {"rule": Failing()} if kind == "rule" else {"set": learner.set}
    twin = type(learner).from_state(state, **given)
    with pytest.raises(RuntimeError, match="count it twice"):
        twin.observe(record)
    after = learner.retry()
    assert np.array_equal(after, learner.retry())  # nothing is left to do
    assert np.array_equal(learner.total._total, counted)
    learner.observe(record)
    assert learner.steps == 2
    assert_within(learner.total, counted, learner.total.norm)


@pytest.mark.parametrize("kind", ["rule", "projection"])
def test_a_step_that_was_retried_is_the_step_that_would_have_been(kind):
    """Decisions after an error and a retry are those without the error, and so is what follows."""
    fine, failed = failing_learner(kind), failing_learner(kind)
    (fine.rule if kind == "rule" else fine.set).failures = 0
    rng = np.random.default_rng(0)
    for a in rng.standard_normal((5, 2)):
        expected = fine.observe((a, 1.0))
        try:
            got = failed.observe((a, 1.0))
        except ArithmeticError:
            got = failed.retry()
        assert np.array_equal(got, expected)


def test_an_error_in_the_middle_of_many_records():
    learner = failing_learner("rule")
    learner.rule.failures = 0
    learner.run(np.full((3, 2), 0.1), np.ones(3))
    learner.rule.failures = 1
    with pytest.raises(ArithmeticError, match="no decision"):
        learner.run(np.full((3, 2), 0.1), np.ones(3))
    assert learner.steps == 4
    learner.retry()
    learner.run(np.full((2, 2), 0.1), np.ones(2))
    assert learner.steps == 6


class Meddling:
    """A lock that changes an array when it is taken: another thread, at the worst moment."""

    def __init__(self, lock, change):
        self.lock, self.change = lock, change

    def __enter__(self):
        self.change()
        return self.lock.__enter__()

    def __exit__(self, *what):
        return self.lock.__exit__(*what)


@pytest.mark.parametrize("worse", [LARGEST, 1e160, 341.0, math.nan, math.inf])
def test_contributions_changed_after_the_check(worse):
    """An array that was changed after `run` had looked at it contributed 341 times the norm."""
    total = sums.Tree(2, 20, budget=BUDGET)
    rows = np.array([[0.5, 0.5]])
    total._lease.lock = Meddling(total._lock, lambda: rows.fill(worse))
    total.run(rows)
    assert_within(total, np.zeros(2, np.int64), 1.0)
    assert total.clipped == 1


@pytest.mark.parametrize("worse", [LARGEST, 1e160, 341.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["ftrl", "quadratic", "implicit", "gradient"])
def test_records_changed_after_the_check(name, worse):
    dim = 2
    if name in ITERATES:
        inner, loss = ITERATES[name]
        learner = online.PerturbedIterates(
            sets.L2Ball(dim), loss, inner=inner, budget=BUDGET, horizon=20
        )
        lease = learner._lease
    else:
        learner = LEARNERS[name](dim)
        lease = learner.total._lease
    X, y = np.array([[0.5, 0.5]]), np.ones(1)

    def change():
        X.fill(worse)
        y.fill(worse)

    lease.lock = Meddling(lease.lock, change)
    learner.run(X, y)
    if name in ITERATES:
        reach = learner._reach.of(0, 1, learner._reach.start)[0][0]
        assert float(np.linalg.norm(learner._memory[iterate_kernels.ITERATE])) <= reach
    else:
        total = learner.total
        assert_within(total, np.zeros(total.dim, np.int64), total.norm)
    assert np.isfinite(learner.decision).all()


def test_a_memory_map_changed_during_a_run(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.full((4, 2), 0.1))
    mine, theirs = np.load(path, mmap_mode="r"), np.load(path, mmap_mode="r+")
    total = sums.Correlated(2, 20, budget=BUDGET)

    def change():
        theirs.fill(1e200)
        theirs.flush()

    total._lease.lock = Meddling(total._lock, change)
    total.run(mine)
    assert_within(total, np.zeros(2, np.int64), 4.0)
    assert total.clipped == 4


def careless(kind, like):
    """A subclass of a loss whose `prepare` leaves records as they are."""

    class Careless(kind):
        def prepare(self, A, y=None):
            return A, np.asarray(y, float), losses.ClipCounts(0, 0, A.shape[0])

    known = {"feature_norm": like.feature_norm, "ridge": like.ridge}
    return Careless(1.0, **known) if kind is losses.Huber else Careless(**known)


@pytest.mark.parametrize("row", [[6.8, 0.0], [1e160, 1e160], [LARGEST, -LARGEST]])
@pytest.mark.parametrize("label", [1.0, 50.0, -1e200])
def test_a_loss_whose_prepare_does_not_clip(row, label):
    """It contributed 6.8 times the norm."""
    X, y = np.array([row]), np.array([label])
    for loss in (careless(losses.Logistic, losses.Logistic(ridge=0.5)),):
        learner = online.FollowTheRegularizedLeader(sets.L2Ball(2), loss, budget=BUDGET, horizon=20)
        for _ in range(3):
            before = learner.total._total.copy()
            learner.run(X, y)
            assert_within(learner.total, before, learner.total.norm)
        for inner in (online.ImplicitGradient(), online.GradientDescent()):
            iterates = online.PerturbedIterates(
                sets.L2Ball(2), loss, inner=inner, budget=BUDGET, horizon=20
            )
            iterates.run(X, y)
            reach = iterates._reach.of(0, 1, iterates._reach.start)[0][0]
            moved = float(np.linalg.norm(iterates._memory[iterate_kernels.ITERATE]))
            assert moved <= reach
        problem = read(loss, sets.L2Ball(2), X, y, BUDGET, noise_precision="lattice")
        assert exact_norm(problem.A[0]) <= Fraction(problem.feature_norm) ** 2
        assert abs(problem.y[0]) <= 1.0


def test_what_the_offline_sums_cut():
    """Rows beyond the limit, whoever made them, are cut where they are added up."""
    A = np.array([[3.0, 4.0], [0.3, 0.4], [LARGEST, LARGEST], [math.nan, 1.0]])
    for form, weights in itertools.product((np.asarray, sp.csr_array), (np.ones(4), -np.ones(4))):
        for i in range(4):
            one = rounded_sums.weighted_rows(form(A[[i]]), weights[[i]], 1.0)
            assert float(np.linalg.norm(one)) <= 1.0 + 1e-15
            V, u = rounded_sums.gram(form(A[[i]]), weights[[i]], 1.0)
            assert float(np.linalg.norm(V)) <= 1.0 + 1e-15
            assert float(np.linalg.norm(u)) <= 1.0 + 1e-15
