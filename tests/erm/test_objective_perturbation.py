"""Objective and output perturbation against a general-purpose minimiser with the same noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq, minimize
from scipy.stats import kstest

import reticent
from reticent import erm, losses, sets
from reticent.erm.minimise import minimise
from reticent.erm.perturbation import PublicNumbers, apart, exact
from reticent.erm.problem import OfflineProblem
from reticent.erm.reading import read
from reticent.losses import kernels
from reticent.noise import Source
from reticent.noise.release import noisy
from reticent.privacy import ObjectivePerturbation

from .reference import ball, gaussian_delta, gaussian_epsilon, logistic_minimum, records

PURE = reticent.Budget(1.0)
GAUSSIAN = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def scales(fit):
    """The two noise scales in full precision, from the costs that were accounted."""
    main, cover = fit.guarantee.releases
    ridge = fit.trace.settings["regularizer"]
    if isinstance(main.curve, ObjectivePerturbation):
        return main.sensitivity / main.curve.mu, cover.sensitivity / cover.curve.mu, ridge
    c = math.log1p(0.25 * (1 + 20 * 2.0**-52) ** 2 / ridge) * (1 + 2.0**-50)
    return main.sensitivity / (main.curve.pure - c), cover.sensitivity / cover.curve.pure, ridge


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN, GAUSSIAN.with_(neighbours="replace")])
def test_against_a_general_minimiser(budget):
    A, y = records()
    fit = erm.objective_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=budget, seed=5)
    first, second, ridge = scales(fit)
    noise = "gamma" if budget.delta == 0 else "gaussian"
    source = Source(5)
    b = noisy(np.zeros(4), first, source, noise=noise)
    final = noisy(np.zeros(4), second, source, noise=noise)
    np.testing.assert_allclose(fit.point, logistic_minimum(A, y, ridge, b) + final, atol=2e-6)


def test_on_a_ball():
    A, y = records(count=2000)
    fit = erm.objective_perturbation(LOSS, sets.L2Ball(4, 1.5), A, y, budget=GAUSSIAN,
                                     regularizer=2.0, seed=5)  # fmt: skip
    first, second, ridge = scales(fit)
    source = Source(5)
    b = noisy(np.zeros(4), first, source)
    final = noisy(np.zeros(4), second, source)

    def distance(shift):
        return np.linalg.norm(logistic_minimum(A, y, ridge + shift, b)) - 1.5

    shift = brentq(distance, 0.0, 1e4, xtol=1e-10) if distance(0.0) > 0 else 0.0
    want = logistic_minimum(A, y, ridge + shift, b)
    np.testing.assert_allclose(fit.point, ball(want + final, 1.5), atol=1e-6)
    # on the ball slopes are smaller, and so is the noise
    free = erm.objective_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=GAUSSIAN,
                                      regularizer=2.0, seed=5)  # fmt: skip
    assert first / scales(free)[0] == pytest.approx(1 / (1 + math.exp(-1.5)), rel=1e-6)


@pytest.mark.parametrize(
    "where", [sets.Box(-0.4 * np.ones(4), 0.3 * np.ones(4)), sets.L1Ball(4, 0.7), sets.Simplex(4)]
)
def test_the_minimiser_is_where_its_certificate_says(where):
    A, y = records()
    problem = read(losses.Logistic(), where, A, y, PURE, noise_precision="lattice")
    b = np.array([3.0, -20.0, 1.0, 0.0])
    found = minimise(problem, b, 2.0, 1e-8)
    tight = minimise(problem, b, 2.0, 1e-10)
    assert np.linalg.norm(found.point - tight.point) <= found.distance + tight.distance

    def value(x):
        return np.logaddexp(0, -y * (A @ x)).sum() + x @ x + b @ x

    rng = np.random.default_rng(0)
    for _ in range(200):
        other = where.sample(rng)
        assert value(tight.point) <= value(other) + 1e-9


def test_many_columns_and_sparse_records():
    rng = np.random.default_rng(0)
    A = sp.random_array((60, 4000), density=0.01, rng=rng, format="csr")
    A = A / np.maximum(1.0, sp.linalg.norm(A, axis=1).max())
    y = rng.choice([-1.0, 1.0], 60)
    b, dense = rng.standard_normal(4000), A.toarray()
    shift = brentq(lambda s: np.linalg.norm(_wide(dense, y, 3.0 + s, b)) - 0.5, 0, 1e4)
    for where, more in ((sets.WholeSpace(4000), 0.0), (sets.L2Ball(4000, 0.5), shift)):
        problem = read(LOSS, where, A, y, PURE, noise_precision="lattice")
        found = minimise(problem, b, 3.0, 1e-8)
        np.testing.assert_allclose(found.point, _wide(dense, y, 3.0 + more, b), atol=1e-7)


def _wide(A, y, ridge, b):
    def value(x):
        z = y * (A @ x)
        g = A.T @ (-y / (1 + np.exp(z))) + ridge * x + b
        return np.logaddexp(0, -z).sum() + 0.5 * ridge * x @ x + b @ x, g

    return minimize(value, -b / ridge, jac=True, method="L-BFGS-B",
                    options={"ftol": 0, "gtol": 1e-11, "maxiter": 5000}).x  # fmt: skip


def test_pure_guarantee_by_hand():
    A, y = records()
    for neighbours, factor in (("zero-out", 1), ("replace", 2)):
        budget = PURE.with_(neighbours=neighbours)
        fit = erm.objective_perturbation(LOSS, sets.L2Ball(4, 2.0), A, y, budget=budget, seed=0)
        main, cover = fit.guarantee.releases
        scale = float(main.noise.split()[-1])
        ridge = fit.trace.settings["regularizer"]
        slope = 1 / (1 + math.exp(-2.0))
        want = factor * slope / scale + math.log(1 + 0.25 / ridge)
        assert main.curve.pure == pytest.approx(want, rel=1e-4)
        assert main.curve.pure + cover.curve.pure <= 1.0
        assert main.curve.pure + cover.curve.pure > 0.999


@pytest.mark.parametrize("loss", [LOSS, losses.Huber(1.0)])
def test_gaussian_guarantee_by_hand(loss):
    A, y = records()
    fit = erm.objective_perturbation(loss, sets.WholeSpace(4), A, y, budget=GAUSSIAN,
                                     regularizer=2.0, seed=0)  # fmt: skip
    main, cover = fit.guarantee.releases
    bend = 0.25 if loss is LOSS else 1.0
    s, c = 1 / float(main.noise.split()[-1]), math.log(1 + bend / 2.0)
    rest = gaussian_epsilon(0.01 * 1e-6, cover.curve.mu)
    epsilon = 1.0 - rest
    delta = gaussian_delta(epsilon - c, s)
    if loss is not LOSS:  # its slope changes its sign
        delta = max(2 * gaussian_delta(epsilon, s), delta)
    assert delta <= 0.99e-6 * (1 + 1e-4)
    assert delta > 0.98e-6
    assert rest < 0.002  # what it costs that the minimiser is not exact


def test_one_dimension_has_the_stated_law():
    # The density of the output is that of the noise at -(derivative), times the second derivative.
    # 3000 fits; a false alarm has probability 1e-6.
    A, y = np.array([[1.0], [0.5]]), np.array([1.0, -1.0])
    budget = reticent.Budget(2.0)
    points, ridge, scale = [], None, None
    problem = read(LOSS, sets.WholeSpace(1), A, y, budget, noise_precision="lattice")
    fit = erm.objective_perturbation(LOSS, sets.WholeSpace(1), A, y, budget=budget, seed=0)
    scale, _, ridge = scales(fit)
    source = Source(1)
    for _ in range(3000):
        b = noisy(np.zeros(1), scale, source, noise="gamma")
        points.append(minimise(problem, b, ridge, 1e-7).point[0])

    def cumulative(x):
        slopes = -y[:, None] / (1 + np.exp(y[:, None] * A * x))
        derivative = (A * slopes).sum(0) + ridge * x
        # -b = derivative, b is Laplace, the map is increasing
        return np.where(derivative > 0, 1 - 0.5 * np.exp(-derivative / scale),
                        0.5 * np.exp(derivative / scale))  # fmt: skip

    assert kstest(points, cumulative).pvalue > 1e-6


def test_without_noise_it_reaches_the_optimum():
    A, y = records()
    for loss in (losses.Logistic(ridge=0.01), losses.Huber(ridge=0.01), losses.SmoothHinge()):
        labels = y
        best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, labels, gap=1e-9)
        for budget in (reticent.Budget(1e6), reticent.Budget(1e6, 1e-6)):
            fit = erm.objective_perturbation(loss, sets.L2Ball(4, 3.0), A, labels, budget=budget,
                                             seed=0)  # fmt: skip
            assert loss.mean_value(fit.point, A, labels) - best.lower_bound < 1e-3


def test_published_noise_tells_the_truth():
    A, y = records()
    fit = erm.objective_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=PURE, seed=0,
                                     calibration="published")  # fmt: skip
    scale, _, ridge = scales(fit)
    assert scale == pytest.approx(2.0, rel=1e-9)
    assert ridge == pytest.approx(0.25 / (1 - math.exp(-0.5)), rel=1e-9)
    assert fit.guarantee.releases[0].curve.pure == pytest.approx(0.832, abs=1e-3)
    strict = erm.objective_perturbation(LOSS, sets.WholeSpace(4), A, y, seed=0,
                                        budget=PURE.with_(neighbours="replace"),
                                        calibration="published")  # fmt: skip
    assert "it gives 1.33" in strict.guarantee.caveats[0]
    kst = erm.objective_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=GAUSSIAN, seed=0,
                                     calibration="published")  # fmt: skip
    want = math.sqrt(8 * math.log(2e6) + 4)
    assert scales(kst)[0] == pytest.approx(want, rel=1e-9)
    assert kst.guarantee.meets(GAUSSIAN)


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN, GAUSSIAN.with_(neighbours="replace")])
def test_several_columns_share_the_budget(budget):
    A, y = records()
    Y = np.c_[y, -y, np.sign(A[:, 0] + 1e-9)]
    fit = erm.objective_perturbation(LOSS, None, A, Y, budget=budget, seed=5)
    main, cover = fit.guarantee.releases
    ridge = fit.trace.settings["regularizer"]
    c = math.log1p(0.25 / ridge)
    moved = 2.0 if budget.neighbours == "replace" else 1.0
    if budget.delta == 0:
        scale = moved / (main.curve.pure - c)
        assert 3 * (main.curve.pure + cover.curve.pure) == pytest.approx(1.0, rel=1e-6)
    else:
        scale = 1.0 / main.curve.mu
        together = math.sqrt(3) * moved / scale
        epsilon = 1.0 - gaussian_epsilon(0.01e-6, math.sqrt(3) * cover.curve.mu)
        delta = math.exp(3 * c) * gaussian_delta(epsilon - 3 * c, together)
        assert delta == pytest.approx(0.99e-6, rel=1e-3)
    source, noise = Source(5), "gaussian" if budget.delta else "gamma"
    second = cover.sensitivity / (cover.curve.mu if budget.delta else cover.curve.pure)
    for k in range(3):
        b = noisy(np.zeros(4), scale, source, noise=noise)
        final = noisy(np.zeros(4), second, source, noise=noise)
        np.testing.assert_allclose(
            fit.point[k], logistic_minimum(A, Y[:, k], ridge, b) + final, atol=1e-5
        )


def test_weights_are_bounded_and_zero_is_the_null_record():
    A, y = records()
    w = np.linspace(-1.0, 4.0, len(y))
    loss, where = losses.CappedLogistic(0.7), sets.WholeSpace(4)
    problem = read(loss, where, A, y, PURE, noise_precision="lattice", weights=w,
                   weight_bound=2.0)  # fmt: skip
    b = np.array([3.0, -20.0, 1.0, 0.0])
    found = minimise(problem, b, 2.0, 1e-8).point
    kept, border = np.clip(w, 0.0, 2.0), math.log(0.7 / 0.3)

    def value(x):
        z = y * (A @ x)
        tail = math.log1p(math.exp(border)) - 0.7 * (z + border)
        return kept @ np.where(z < -border, tail, np.logaddexp(0, -z)) + x @ x + b @ x

    best = minimize(value, found, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(found, best.x, atol=1e-5)
    null = problem.weights == 0.0
    assert null.any()
    blank = np.where(null[:, None], 0.0, A)
    same = read(loss, where, blank, y, PURE, noise_precision="lattice", weights=w,
                weight_bound=2.0)  # fmt: skip
    np.testing.assert_allclose(minimise(same, b, 2.0, 1e-8).point, found, atol=1e-8)
    assert problem.norm == pytest.approx(2.0 * 0.7, rel=1e-12)
    pulls = [problem.gradient_sum(found, np.array([i])) for i in range(len(A))]
    assert np.linalg.norm(pulls, axis=1).max() <= problem.norm


def test_output_perturbation():
    A, y = records()
    for budget, factor in ((GAUSSIAN, 1.0), (GAUSSIAN.with_(neighbours="replace"), 2.0)):
        fit = erm.output_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=budget,
                                      regularizer=20.0, seed=5)  # fmt: skip
        release = fit.guarantee.releases[0]
        scale = release.sensitivity / release.curve.mu
        assert scale == pytest.approx(factor / 20.0 / GAUSSIAN.mu, rel=1e-5)
        final = noisy(np.zeros(4), scale, Source(5))
        want = logistic_minimum(A, y, 20.0, np.zeros(4)) + final
        np.testing.assert_allclose(fit.point, want, atol=1e-7)
    moved = []
    exact = logistic_minimum(A, y, 20.0, np.zeros(4))
    for i in range(0, 400, 20):
        blank = A.copy()
        blank[i] = 0.0
        moved.append(np.linalg.norm(logistic_minimum(blank, y, 20.0, np.zeros(4)) - exact))
    assert max(moved) <= 1 / 20.0


def test_output_perturbation_without_noise():
    A, y = records()
    loss = losses.Logistic(ridge=0.05)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, y, gap=1e-9)
    fit = erm.output_perturbation(loss, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(1e6, 1e-6),
                                  seed=0)  # fmt: skip
    assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": losses.Hinge()}, "smooth generalised linear"),
        ({"loss": losses.CustomLoss(lambda x, a, y: 0.0, lambda x, a, y: x, lipschitz=1.0)},
         "generalised linear"),
        ({"loss": losses.Squared(), "set": sets.WholeSpace(4)}, "not Lipschitz"),
        ({"loss": losses.Linear(), "set": None}, "cannot choose a radius"),
        ({"set": sets.NuclearBall((2, 2))}, "exact up to rounding"),
        ({"regularizer": 0.0}, "regularizer must be above"),
        ({"regularizer": 0.01}, "regularizer must be above"),
        ({"regularizer": -1.0}, "regularizer must be"),
        ({"budget": None}, "budget must be"),
        ({"X": np.ones(4)}, "must have one row"),
    ],
)  # fmt: skip
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": PURE, **changes}
    with reticent.Ledger(PURE) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.objective_perturbation(**arguments)
    assert ledger.entries == ()


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN.with_(neighbours="replace")])
@pytest.mark.parametrize(
    ("loss", "where"),
    [(LOSS, None), (losses.SmoothHinge(0.5), sets.L2Ball(4)), (losses.Huber(), sets.WholeSpace(4))],
)
def test_noise_and_ridge_depend_on_public_numbers_only(loss, where, budget):
    A, y = records()
    for groups in (None, np.arange(len(A)) // 3):
        first, second = (
            read(loss, where, rows, labels, budget, noise_precision="lattice", groups=groups)
            for rows, labels in ((A, y), (np.zeros_like(A), -y))
        )
        assert PublicNumbers.of(first) == PublicNumbers.of(second)
        assert exact(PublicNumbers.of(first), None, 1) is exact(PublicNumbers.of(second), None, 1)


@pytest.mark.parametrize("seed", range(12, 30))
def test_kinks_do_not_stop_the_minimiser(seed):
    # Whether a run ends with a certificate must not depend on the records: of these, a fifth once
    # went back and forth over the kinks of the loss, too little a gain at a time to be noticed.
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2000, 5))
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = rng.choice([-1.0, 1.0], 2000)
    problem = read(losses.Huber(1e-3), None, A, y, GAUSSIAN, noise_precision="lattice")
    ridge, scale = 2000 / 2.0**18, 0.1 * problem.norm
    b = scale * rng.standard_normal(5)
    tolerance, _ = apart(PublicNumbers.of(problem), scale, ridge)
    found = minimise(problem, b, ridge, tolerance)
    slopes = np.clip(A @ found.point - y, -1e-3, 1e-3)
    assert np.linalg.norm(A.T @ slopes + ridge * found.point + b) <= tolerance
    assert found.distance <= tolerance / ridge


def test_second_derivatives_that_rounding_spoils_cost_time_only(monkeypatch):
    A, y = records(count=9000)
    problem = read(LOSS, None, A, y, GAUSSIAN, noise_precision="lattice")
    b = np.array([3.0, -20.0, 1.0, 0.0])
    want = minimise(problem, b, 2.0, 1e-6)
    true, spoilt = OfflineProblem.gram, []

    def spoil(self, z, kind=np.float64):
        H = true(self, z, kind)
        if kind is np.float32 or len(spoilt) < 4:
            spoilt.append(kind)
            H[0, 0] = -5.0
        return H

    monkeypatch.setattr(OfflineProblem, "gram", spoil)
    found = minimise(problem, b, 2.0, 1e-6)
    assert np.float32 in spoilt
    assert np.float64 in spoilt
    assert np.linalg.norm(found.point - want.point) <= found.distance + want.distance


@pytest.mark.parametrize(
    "where", [sets.WholeSpace(18), sets.L2Ball(18), sets.Box([-1.0] * 18, [1.0] * 18)]
)
@pytest.mark.parametrize("loss", [LOSS, losses.CappedLogistic(0.5), losses.SmoothHinge(0.01)])
def test_records_that_are_all_the_same(where, loss):
    # Second derivatives of rank one: not every routine for eigenvalues gets along with them.
    rng = np.random.default_rng(0)
    A = np.tile(rng.standard_normal(18), (9000, 1))
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = rng.choice([-1.0, 1.0], 9000)
    problem = read(loss, where, A, y, PURE, noise_precision="lattice")
    b = rng.standard_normal(18)
    tolerance, _ = apart(PublicNumbers.of(problem), 1.0, 3.0)
    found = minimise(problem, b, 3.0, tolerance)
    kind, params = loss.kernel
    slopes = np.array(
        [kernels.dphi(kind)(params, z, label) for z, label in zip(A @ found.point, y, strict=True)]
    )
    gradient = A.T @ slopes + 3.0 * found.point + b
    away = where.project(found.point - gradient / 3.0) - found.point
    assert np.linalg.norm(away) <= 4.0 * tolerance


@pytest.mark.parametrize("seed", range(12))
def test_the_certificate_is_reached_whatever_the_records(seed):
    # That a run fails would tell something of the records, so it must not: columns of all sizes,
    # equal rows, more columns than records, kinks, and borders where rounding hides a good step.
    rng = np.random.default_rng(seed)
    for _ in range(25):
        n, p = int(10 ** rng.uniform(0, 2)), int(10 ** rng.uniform(0, 1.6))
        A = rng.standard_normal((n, p)) * np.exp(rng.normal(0, rng.choice([0, 3]), p))
        A = [A, np.abs(A), A[:1] + 0 * A, A * (rng.random((n, p)) < 0.1)][rng.integers(4)]
        y = rng.choice([-1.0, 1.0], n)
        loss = [LOSS, losses.CappedLogistic(0.5), losses.SmoothHinge(0.01), losses.Huber(0.1)]
        where = [
            None,
            sets.L2Ball(p, float(10 ** rng.uniform(-2, 2))),
            sets.Box([-1.0] * p, [1.0] * p),
        ]
        budget = reticent.Budget(float(10 ** rng.uniform(-2, 4)), float(rng.choice([0.0, 1e-6])))
        fit = erm.objective_perturbation(
            loss[rng.integers(4)], where[rng.integers(3)], A, y, budget=budget, seed=seed
        )
        assert np.isfinite(fit.point).all()


def test_a_norm_whose_square_vanishes_is_refused():
    # Squares of 1e-165 are 0 in floating point: such rows would pass for short ones, unclipped.
    A = np.full((20, 2), 1e-165)
    with (
        reticent.Ledger(GAUSSIAN) as ledger,
        pytest.raises(ValueError, match="feature_norm must be at least"),
    ):
        erm.objective_perturbation(
            losses.Logistic(feature_norm=1e-170), None, A, np.ones(20), budget=GAUSSIAN, seed=0
        )
    assert not ledger.entries


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("count", [300, 3000, 10**6])
def test_a_ridge_for_the_direction_and_what_it_takes_of_the_length(count, delta):
    """Stronger where records are few for their columns, the same where they are many; a public factor says how much."""
    p, budget = 12, reticent.Budget(0.5, delta)
    X, y = np.zeros((count, p)), np.ones(count)
    both = [
        erm.objective_perturbation(
            losses.Logistic(), None, X, y, budget=budget, seed=0, for_direction=on
        )
        for on in (False, True)
    ]
    usual, ridge = (fit.released["ridge"] for fit in both)
    mean = 0.25 * count * 0.25 / p  # a quarter of the largest curvature, 1/4 for each record
    assert "shrunk" not in both[0].released
    left = min(1.0, (usual + mean) / (ridge + mean))
    assert both[1].released["shrunk"] == pytest.approx(left)
    assert both[1].guarantee.epsilon(delta) <= 0.5
    if count == 300:
        assert both[1].released["shrunk"] < 0.6
        assert both[1].released["linear_noise"] < both[0].released["linear_noise"]
    elif count == 10**6:
        assert both[1].released["shrunk"] > 0.99


def test_a_ridge_for_the_direction_turns_less():
    """Columns of very different spread: the angle to the best direction, means of 20 seeds."""
    found = {True: [], False: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((400, 16)) / (1.0 + np.arange(16.0))
        X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
        y = np.sign(X[:, 0] + 0.2 * rng.standard_normal(400))
        for on, kept in found.items():
            fit = erm.objective_perturbation(
                losses.Logistic(),
                None,
                X,
                y,
                budget=reticent.Budget(0.3, 1e-6),
                seed=seed,
                for_direction=on,
            )
            kept.append(np.corrcoef(X @ fit.point, X[:, 0])[0, 1])
    assert np.mean(found[True]) > np.mean(found[False])


@pytest.mark.parametrize(
    "changes",
    [
        {"regularizer": 3.0}, {"set": sets.L2Ball(2, 1.0)}, {"loss": losses.Huber(1.0)},
        {"calibration": "published"},
    ],
)  # fmt: skip
def test_a_ridge_for_the_direction_is_for_defaults(changes):
    given = {"loss": losses.Logistic(), "set": None} | changes
    with pytest.raises(ValueError, match="for_direction=True needs"):
        erm.objective_perturbation(
            given.pop("loss"), given.pop("set"), np.zeros((9, 2)), np.ones(9), budget=GAUSSIAN,
            seed=0, for_direction=True, **given,
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::reticent.LooseBudgetWarning")
@pytest.mark.parametrize("delta", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 30.0])
def test_a_large_delta_for_a_replaced_record(epsilon, delta):
    """The smaller terms of the bound are not small there; the calibration ended as a bug in reticent."""
    budget = reticent.Budget(epsilon, delta, "replace")
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 3))
    y = np.sign(X[:, 0])
    loss = losses.CappedLogistic(0.5)
    fit = erm.objective_perturbation(loss, None, X, y, budget=budget, seed=0)
    assert fit.guarantee.meets(budget)
    if delta < 0.1:
        assert fit.guarantee.epsilon(delta) > 0.9 * epsilon


@pytest.mark.parametrize("seed", [3, 10, 16, 25, 29])
def test_the_minimum_of_a_loss_that_is_small_where_it_bends_is_certified(seed):
    """Steps were taken without a check, because the decrease of so small a loss looked negligible, and went in circles.

    A fit that fails after it was charged reveals something about the records.
    """
    rng = np.random.default_rng(seed)
    dim, count = int(rng.choice([2, 5])), int(rng.choice([50, 3000]))
    threshold = 10.0 ** rng.uniform(-6, -3)
    X = rng.normal(size=(count, dim))
    if rng.random() < 0.5:
        X[:, :] = 0
        X[np.arange(count), rng.integers(0, dim, count)] = rng.choice([-1, 1], count)
    y = rng.choice([-1.0, 1.0], count)
    where = [None, sets.L1Ball(dim, 0.02)][rng.integers(2)]
    budget = reticent.Budget(20.0, float(rng.choice([0, 1e-6])))
    fit = erm.objective_perturbation(losses.Huber(threshold), where, X, y, budget=budget, seed=seed)
    assert np.isfinite(fit.point).all()
