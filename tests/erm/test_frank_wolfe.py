"""Frank-Wolfe against plain loops."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard

import reticent
from reticent import erm, losses, sets
from reticent.noise import Source
from reticent.privacy import BoundedRange, ForkError

from .reference import draws, lasso, logistic_slope, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Squared()


def scale_of(fit):
    return float(fit.guarantee.releases[0].noise.split()[-1])


class Plain:
    """Every corner gets a Gumbel number of its own, from the same words as ``noise.select``."""

    def __init__(self, seed):
        self.source = Source(seed)

    def __call__(self, scores, scale):
        words = self.source.words(len(scores))
        uniforms = (words.astype(float) + 0.5) * 2.0**-64
        return int(np.argmax(scores / scale - np.log(-np.log1p(-uniforms))))


def test_against_a_plain_loop():
    A, y = lasso()
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(40, 0.8), A, y, budget=BUDGET, steps=25, seed=7)
    release = fit.guarantee.releases[0]
    scale = 2.0 * release.sensitivity / release.curve.value
    choose, x = Plain(7), np.zeros(40)
    for t in range(1, 26):
        g = A.T @ (A @ x - y)
        best = choose(0.8 * np.concatenate([-g, g]), scale)
        corner = np.zeros(40)
        corner[best % 40] = 0.8 if best < 40 else -0.8
        x += 2 / (t + 1) * (corner - x)
    np.testing.assert_allclose(fit.point, x, atol=1e-12)


def test_guarantee_by_a_second_road():
    A, y = lasso()
    for neighbours, factor in (("zero-out", 1.0), ("replace", 2.0)):
        budget = BUDGET.with_(neighbours=neighbours)
        fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=budget, steps=100, seed=0)
        moved = factor * 1.0 * (1.0 + 1.0)  # radius * entry * (prediction + label)
        release = fit.guarantee.releases[0]
        assert release.count == 100
        assert release.sensitivity == pytest.approx(moved, rel=1e-9)
        assert release.sensitivity > moved
        # zCDP of Gumbel noise is that of Gaussian noise of the same scale, and converts worse
        b = scale_of(fit) / moved
        rho = 100 / (2 * b * b)
        crude = rho + 2 * math.sqrt(rho * math.log(1e6))
        assert 1.0 < crude < 1.2
        assert b == pytest.approx(45.0, abs=0.3)  # 44.8 for 99 choices
        assert fit.guarantee.meets(budget)


def test_rounding_is_in_the_sensitivity():
    A, y = lasso()
    dense = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=BUDGET, steps=10, seed=0)
    sparse = erm.frank_wolfe(LOSS, sets.L1Ball(40), sp.csr_array(A), y, budget=BUDGET, steps=10,
                             seed=0)  # fmt: skip
    assert dense.guarantee.releases[0].sensitivity > 2.0 * (1 + 300 * 300 * 2.0**-53)
    extra = sparse.guarantee.releases[0].sensitivity - 2.0
    assert extra > 2 * 300 * 300 * 10 * 2.0**-53
    assert extra < 1e-8


def test_simplex_vertices_and_noisy_gradients():
    A, y = records(count=3000, dim=6, regression=True)
    box = sets.Box(-0.4 * np.ones(6), 0.4 * np.ones(6))
    corners = np.array(np.meshgrid(*[[-0.4, 0.4]] * 6)).reshape(6, -1).T
    for where in (sets.Simplex(6), box, sets.L2Ball(6, 0.7), sets.Polytope(corners)):
        best = losses.best_fixed(where, LOSS, A, y, gap=1e-7)
        fit = erm.frank_wolfe(LOSS, where, A, y, budget=reticent.Budget(8.0, 1e-5), seed=1)
        assert where.contains(fit.point)
        assert LOSS.mean_value(fit.point, A, y) - best.lower_bound < 0.05
        assert fit.guarantee.meets(reticent.Budget(8.0, 1e-5))


def test_noisy_gradient_against_a_plain_loop():
    A, y = records(count=500)
    loss = losses.Logistic(ridge=0.1)
    fit = erm.frank_wolfe(loss, sets.L2Ball(4), A, y, budget=BUDGET, steps=12, seed=3)
    release = fit.guarantee.releases[0]
    x = np.zeros(4)
    for t, noise in enumerate(draws(3, [release.sensitivity / release.curve.mu] * 12, 4), 1):
        g = A.T @ logistic_slope(A, y, x) + noise + 500 * 0.1 * x
        x += 2 / (t + 1) * (-g / np.linalg.norm(g) - x)
    np.testing.assert_allclose(fit.point, x, atol=1e-7)
    assert fit.trace.settings["oracle"] == "gradient"
    assert math.sqrt(12) * release.curve.mu == pytest.approx(BUDGET.mu, rel=1e-6)


def test_sets_of_matrices():
    A, y = records(count=2000, dim=6, regression=True)
    where = sets.NuclearBall((3, 2))
    fit = erm.frank_wolfe(LOSS, where, A, y, budget=reticent.Budget(8.0, 1e-5), seed=0)
    assert fit.point.shape == (3, 2)
    assert where.contains(fit.point)
    assert LOSS.mean_value(fit.point.ravel(), A, y) < 0.8 * LOSS.mean_value(np.zeros(6), A, y)


def test_pure_budget():
    A, y = lasso()
    fit = erm.frank_wolfe(
        LOSS, sets.L1Ball(40), A, y, budget=reticent.Budget(1.0), steps=10, seed=0
    )
    assert fit.guarantee.pure == pytest.approx(1.0, rel=1e-9)
    assert isinstance(fit.guarantee.releases[0].curve, BoundedRange)
    assert scale_of(fit) == pytest.approx(2 * 2.0 * 10, rel=1e-5)


def test_without_noise_it_reaches_the_optimum():
    A, y = lasso()
    best = losses.best_fixed(sets.L1Ball(40), losses.Squared(feature_norm=40.0), A, y, gap=1e-8)
    for data in (A, sp.csr_array(A)):
        fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, budget=reticent.Budget(1e6, 1e-6), seed=0,
                              steps=3000)  # fmt: skip
        gap = LOSS.mean_value(fit.point, A, y) - best.lower_bound
        assert gap <= 2 * 4.0 / 3001  # 2 curvature / (T + 1)
        assert gap < 1e-3
    exact = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=None, steps=3000)
    assert LOSS.mean_value(exact.point, A, y) - best.lower_bound < 1e-3
    assert exact.trace.diagnostics["gap"][-1] < 1e-2
    assert not math.isfinite(exact.guarantee.epsilon(0.5))


def test_a_constant_step_leaves_a_third_of_the_gap():
    # The printed step 1/T keeps (1 - 1/T)^T, about 1/e, of where it began.
    A, y = lasso()
    best = losses.best_fixed(sets.L1Ball(40), losses.Squared(feature_norm=40.0), A, y, gap=1e-8)
    x = np.zeros(40)
    x[0] = 1.0
    start = LOSS.mean_value(x, A, y) - best.value
    steps = 2000
    for _ in range(steps):
        g = A.T @ (A @ x - y)
        corner = np.zeros(40)
        corner[np.argmax(np.abs(g))] = -np.sign(g[np.argmax(np.abs(g))])
        x += (corner - x) / steps
    assert LOSS.mean_value(x, A, y) - best.value > 0.05 * start
    ours = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=None, steps=steps)
    assert LOSS.mean_value(ours.point, A, y) - best.value < 1e-3 * start


def test_the_two_thirds_law():
    # Columns (1 + h_j)/2 with orthogonal signs h_j, labels 1: the mean loss of x >= 0 of norm 1 is
    # (1 + |x|^2)/8, least at x = 1/p, while T steps leave |x|^2 >= 1/T. There the excess risk is that
    # of the theorem (6.23, corrected), n^(-2/3) up to logarithms; seeds are fixed, so the slope is too.
    signs = hadamard(512)[:, 1:]
    p = signs.shape[1]
    sizes, gaps, steps = (1024, 4096, 16384), [], []
    for n in sizes:
        A = np.tile(0.5 * (1.0 + signs), (n // 512, 1))
        best = (1.0 + 1.0 / p) / 8.0
        assert LOSS.mean_value(np.full(p, 1.0 / p), A, np.ones(n)) == pytest.approx(best)
        fits = [
            erm.frank_wolfe(LOSS, sets.L1Ball(p), A, np.ones(n), budget=reticent.Budget(2.0, 1e-6),
                            seed=seed)
            for seed in range(2)
        ]  # fmt: skip
        gaps.append(np.mean([LOSS.mean_value(fit.point, A, np.ones(n)) for fit in fits]) - best)
        steps.append(fits[0].trace.settings["steps"])
        assert fits[0].trace.settings["set"] == repr(sets.L1Ball(p))
    slope = np.polyfit(np.log(sizes), np.log(gaps), 1)[0]
    assert -0.85 < slope < -0.5, (slope, gaps)
    assert np.polyfit(np.log(sizes), np.log(steps), 1)[0] == pytest.approx(2 / 3, abs=0.06)


# The radius and the number of steps, where neither is given.


def radius_of(fit):
    return float(fit.trace.settings["set"].split("radius=")[1].rstrip(")"))


@functools.cache
def path_of(T):
    """What orthogonal corners' curvature adds up to, and the final sum of their squared weights."""
    x, path = np.zeros(T), 0.0
    for t in range(1, T + 1):
        gamma = 2.0 / (t + 1.0)
        along = 1.0 + float(x @ x)  # the new corner, and the mixture of the old
        x *= 1.0 - gamma
        x[t - 1] += gamma
        path = (1.0 - gamma) * path + 0.5 * gamma**2 * along
    return path, float(x @ x)


def predicted(s, T, n, p, epsilon, mu):
    """The rule's bound for the squared loss, radius, entries and labels 1; and noise's harm."""
    path, weights = path_of(T)
    choice = s * (1.0 + s) * min(2.0 * T / epsilon, math.sqrt(T) / mu) * math.log(2 * p) / n
    return 0.5 * (1.0 - s) + s * s * path + choice, 0.5 * s * s * weights


@pytest.mark.parametrize(
    ("n", "p", "epsilon"),
    [(60, 3000, 0.1), (300, 300, 0.5), (200, 2000, 8.0), (600, 100, 2.0), (3000, 50, 1.0)],
)
def test_the_default_minimises_its_bound(n, p, epsilon):
    budget = reticent.Budget(epsilon, 1e-6)
    rng = np.random.default_rng(0)
    A, y = rng.choice([-1.0, 1.0], size=(n, p)), rng.uniform(-1, 1, n)
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(p), A, y, budget=budget, seed=0)
    s, T = radius_of(fit), fit.trace.settings["steps"]
    mu = budget.mu  # a search each time
    tries = [
        (cost, s_, T_)
        for T_ in (*range(1, 40), *range(40, 160, 6))
        for s_ in np.linspace(0.1, 1.0, 46)
        for cost, harm in [predicted(s_, T_, n, p, epsilon, mu)]
        if harm <= 0.05 * 0.5
    ]
    cost, harm = predicted(s, T, n, p, epsilon, budget.mu)
    assert harm <= 0.05 * 0.5
    assert s >= 0.1 * (1 - 1e-5)
    assert cost <= 1.02 * min(tries)[0], (s, T, min(tries))
    # nothing of the records enters
    other = erm.frank_wolfe(LOSS, sets.L1Ball(p), 0.0 * A, -y, budget=budget, seed=1)
    assert (radius_of(other), other.trace.settings["steps"]) == (s, T)


@pytest.mark.parametrize(("neighbours", "factor"), [("zero-out", 1.0), ("replace", 2.0)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_promise_is_for_the_ball_that_is_searched(neighbours, factor, sparse):
    A, y = lasso(count=80)
    budget = reticent.Budget(0.1, 1e-6, neighbours)
    data = sp.csr_array(A) if sparse else A
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, budget=budget, seed=5)
    release = fit.guarantee.releases[0]
    assert release.count == fit.trace.settings["steps"] == 1
    assert radius_of(fit) == pytest.approx(0.1)
    assert fit.trace.settings["set given"] == repr(sets.L1Ball(40))
    moved = factor * 0.1 * (1.0 + 0.1)  # radius * entry * (prediction + label)
    assert moved < release.sensitivity < moved * (1 + 1e-9)
    # one choice of range 2 moved / b, and nothing to compose: b = 2 moved / epsilon, less a hair
    # that delta allows
    assert 0.99 * 2 * moved / 0.1 < scale_of(fit) <= 2 * moved / 0.1 * (1 + 1e-5)
    assert fit.guarantee.meets(budget)
    assert not fit.guarantee.meets(budget.with_(epsilon=0.0995))
    assert np.abs(fit.point).max() == np.abs(fit.point).sum() == pytest.approx(0.1)
    if not sparse:
        g = -A.T @ y
        best = Plain(5)(
            0.1 * np.concatenate([-g, g]), 2.0 * release.sensitivity / release.curve.value
        )
        assert fit.point[best % 40] == pytest.approx(0.1 if best < 40 else -0.1)


def test_two_bounds_are_near_the_exact_composition():
    for epsilon in (0.1, 1.0, 8.0):
        budget = reticent.Budget(epsilon, 1e-6)
        for steps in (1, 2, 3, 5, 10, 30, 300):
            exact = reticent.privacy.calibration.gumbel(budget, 1.0, steps)
            bound = min(2.0 * steps / epsilon, math.sqrt(steps) / budget.mu)
            assert bound == pytest.approx(exact, rel=1 / 6)


@pytest.mark.parametrize("design", ["signal", "noise"])
def test_with_next_to_no_information_it_is_no_worse_than_zero(design):
    # n epsilon = 10. One corner of size 0.1 adds at most 0.005 to zero's loss in the mean (shown in
    # docs/algorithms/frank-wolfe.md), and 0.1 times a slope of spread 0.05; over 200 seeds the mean is
    # within 0.0005 of its expectation (one standard deviation), and 0.1 of zero's excess is 0.012 or
    # more: over ten deviations, so a false alarm is far below 1e-6.
    rng = np.random.default_rng(3)
    A = rng.choice([-1.0, 1.0], size=(100, 500))
    y = A[:, :3] @ [0.5, -0.3, 0.2] if design == "signal" else rng.choice([-0.6, 0.6], size=100)
    y = np.clip(y + 0.1 * rng.standard_normal(100), -1, 1)
    exact = erm.frank_wolfe(LOSS, sets.L1Ball(500), A, y, budget=None, steps=400)
    least = LOSS.mean_value(exact.point, A, y)
    zero = LOSS.mean_value(np.zeros(500), A, y) - least
    budget = reticent.Budget(0.1, 1e-6)

    def excess(**more):
        return [
            LOSS.mean_value(erm.frank_wolfe(LOSS, sets.L1Ball(500), A, y, budget=budget, seed=seed,
                                            **more).point, A, y) - least
            for seed in range(200)
        ]  # fmt: skip

    assert zero > 0.1
    assert np.mean(excess()) <= 1.1 * zero
    # what the whole ball does, and why the default does not search it
    assert np.mean(excess(radius=1.0, steps=1)) > 2.0 * zero


def test_with_much_information_it_is_no_worse_than_before():
    # Against the whole ball with the steps of the worst-case bound, 2 curvature / (T + 1), curvature 4;
    # fixed seeds.
    for columns, weights in ((200, [0.5, -0.3, 0.2]), (300, [0.2] * 5), (100, [0.05] * 20)):
        rng = np.random.default_rng(columns)
        A = rng.choice([-1.0, 1.0], size=(2000, columns))
        y = A[:, : len(weights)] @ weights + 0.05 * rng.standard_normal(2000)
        y = np.clip(y, -1, 1)
        budget = reticent.Budget(8.0, 1e-6)
        rate = 2 / budget.mu * math.log(2 * columns) / 2000
        worst = min(range(1, 2000), key=lambda t, b=rate: 8.0 / (t + 1) + b * math.sqrt(t))
        means = [
            np.mean([
                LOSS.mean_value(erm.frank_wolfe(LOSS, sets.L1Ball(columns), A, y, budget=budget,
                                                seed=seed, steps=steps).point, A, y)
                for seed in range(3)
            ])
            for steps in (None, worst)
        ]  # fmt: skip
        assert means[0] <= means[1]


def test_radius_and_steps_can_be_forced():
    A, y = lasso()
    few = reticent.Budget(0.1, 1e-6)
    for more, radius in (
        ({"steps": 7}, 1.0),
        ({"radius": 1.0}, 1.0),
        ({"radius": 0.3}, 0.3),
        ({"radius": 0.3, "steps": 7}, 0.3),
    ):
        fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=few, seed=0, **more)
        assert radius_of(fit) == radius
        assert fit.trace.settings["steps"] == more.get("steps", fit.trace.settings["steps"])
        moved = radius * (1.0 + radius)
        assert fit.guarantee.releases[0].sensitivity == pytest.approx(moved, rel=1e-9)
        assert np.abs(fit.point).sum() <= radius * (1 + 1e-12)
    # in a ball that was asked for, many corners average out what one would spoil
    whole = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=few, seed=0, radius=1.0)
    assert whole.trace.settings["steps"] == 28
    free = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=None, radius=0.3, steps=50)
    assert np.abs(free.point).sum() == pytest.approx(0.3)
    # a huge ball cannot be made harmless, and is searched all the same
    huge = erm.frank_wolfe(LOSS, sets.L1Ball(40, 1e3), A, y, budget=few, seed=0, radius=1e3)
    assert radius_of(huge) == 1e3


def test_the_default_for_other_losses_and_sets():
    A, y = lasso()
    few = reticent.Budget(0.05, 1e-6)
    sign = np.where(y > 0, 1.0, -1.0)
    logistic = erm.frank_wolfe(losses.Logistic(), sets.L1Ball(40, 5.0), A, sign, budget=few, seed=0)
    # one corner at random costs (1/4) radius^2 / 2 at most; a hundredth of ln 2 is left for it
    assert radius_of(logistic) == pytest.approx(math.sqrt(0.01 * math.log(2) * 8), rel=1e-5)
    simplex = erm.frank_wolfe(LOSS, sets.Simplex(40), A, y, budget=few, seed=0)
    assert simplex.trace.settings["set"] == repr(sets.Simplex(40))


def test_published_noise_tells_the_truth():
    A, y = lasso(count=100)
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=BUDGET, steps=99, seed=0,
                          calibration="published")  # fmt: skip
    want = 2.0 * math.sqrt(8 * 100 * math.log(1e6)) / 100
    assert scale_of(fit) == pytest.approx(want, rel=1e-5)
    assert 170 < fit.guarantee.epsilon(1e-6) < 190
    assert "it gives 18" in fit.guarantee.caveats[0]


def test_entries_are_clipped_not_rows():
    A, y = lasso()
    assert np.linalg.norm(A[0]) > 6
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), A, y, budget=BUDGET, steps=2, seed=0)
    assert "0 had features scaled down" in fit.trace.facts["clipped"]
    A[3, 2] = 50.0
    for data in (A, sp.csr_array(A)):
        fit = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, budget=BUDGET, steps=2, seed=0)
        assert "1 had features scaled down" in fit.trace.facts["clipped"]


@pytest.mark.parametrize("sparse", [False, True])
def test_stop_and_resume(sparse):
    A, y = lasso()
    data = sp.csr_array(A) if sparse else A
    arguments = dict(budget=BUDGET, steps=30, seed=3)
    whole = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, **arguments)
    half = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, **arguments,
                           callback=lambda moment: moment.step == 11)  # fmt: skip
    with pytest.raises(ValueError, match=r"differs in: .*budget"):
        erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, resume=half,
                        **(arguments | {"budget": reticent.Budget(2.0, 1e-6)}))  # fmt: skip
    rest = erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, **arguments, resume=half)
    np.testing.assert_allclose(rest.point, whole.point, atol=1e-12)
    with pytest.raises(ForkError):
        erm.frank_wolfe(LOSS, sets.L1Ball(40), data, y, **arguments, resume=half)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"set": sets.Box(np.ones(40), np.ones(40))}, "single point"),
        ({"set": sets.WholeSpace(40)}, "needs a bounded set"),
        ({"oracle": "best"}, "oracle must be one of"),
        ({"steps": 0}, "steps must be"),
        ({"radius": 0.0}, "radius must be"),
        ({"radius": 1.5}, "radius must be"),
        ({"set": sets.Simplex(40), "radius": 0.5}, "applies to an l1 ball only"),
        ({"budget": 3}, "budget must be"),
        ({"set": sets.L2Ball(40), "calibration": "published"}, "calibration='published'"),
        ({"set": sets.L2Ball(40), "oracle": "vertices"}, "vert"),
        ({"y": np.full(300, np.inf)}, "finite"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = lasso()
    arguments = {"loss": LOSS, "set": sets.L1Ball(40), "X": A, "y": y, "budget": BUDGET, **changes}
    ledger = reticent.Ledger(BUDGET)
    with ledger, pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        erm.frank_wolfe(**arguments)
    assert ledger.entries == ()


def test_real_sparse_data(data_folder):
    z = np.load(data_folder / "dorothea_valid.npz")
    A = sp.csr_array((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    y = np.where(z["y"] > 0, 1.0, -1.0)
    fit = erm.frank_wolfe(LOSS, sets.L1Ball(100_000), A, y, budget=BUDGET, steps=40, seed=0)
    assert np.abs(fit.point).sum() <= 1.0 + 1e-9
    assert fit.trace.settings["incremental gradient"]


def test_the_ball_of_no_stated_radius_grows_with_records_and_budget():
    rng = np.random.default_rng(0)
    sizes = []
    for count, epsilon in ((200, 0.1), (2_000, 1.0), (20_000, 1.0), (20_000, 8.0)):
        X, y = rng.choice([-1.0, 1.0], size=(count, 20)), np.ones(count)
        fit = erm.frank_wolfe(
            losses.Huber(1.0), None, X, y, budget=reticent.Budget(epsilon, 1e-6), seed=0
        )
        sizes.append(fit.trace.settings["radius"])
        assert fit.guarantee.meets(reticent.Budget(epsilon, 1e-6))
        # slopes of at most 1: a record moves a corner's score by the radius
        assert fit.guarantee.releases[0].sensitivity == pytest.approx(sizes[-1], rel=1e-9)
        again = erm.frank_wolfe(
            losses.Huber(1.0), None, -X, -y, budget=reticent.Budget(epsilon, 1e-6), seed=1
        )
        assert again.trace.settings["radius"] == sizes[-1]  # public numbers only
    assert sizes == sorted(sizes)
    assert sizes[0] < 1.0 < 1.5 < sizes[-1] <= 16.0


def test_a_larger_ball_pays_where_labels_need_one():
    rng = np.random.default_rng(1)
    X = rng.choice([-1.0, 1.0], size=(20_000, 50)) * (rng.random((20_000, 50)) < 0.2)
    y = np.clip(X @ np.r_[np.full(6, 0.5), np.zeros(44)], -1.0, 1.0)
    lost = {}
    for size in (None, 1.0):
        fit = erm.frank_wolfe(
            losses.Huber(1.0), None, X, y, budget=reticent.Budget(4.0, 1e-6), radius=size, seed=0
        )
        lost[size] = np.mean((np.clip(X @ fit.point, -1.0, 1.0) - y) ** 2)
    assert lost[None] < 0.6 * lost[1.0]
