"""The best fixed decision: against cvxpy on small instances, and its certificate against everything."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from reticent import losses, sets
from reticent.losses import GapWarning, best_fixed

DIM = 9
VERTICES = np.random.default_rng(3).standard_normal((25, DIM))


class OnlyVertices(sets.ConvexSet):
    """A set that knows its linear minimiser and its size, as a user's own would."""

    def __init__(self, vertices):
        self.listed = vertices
        self.dim = vertices.shape[1]
        self.diameter = max(np.linalg.norm(v - w) for v in vertices for w in vertices)

    def linear_minimizer(self, g):
        return self.listed[np.argmin(self.listed @ g)]


def hull(x):
    weights = cp.Variable(len(VERTICES), nonneg=True)
    return [x == VERTICES.T @ weights, cp.sum(weights) == 1]


def doubly_stochastic(x):
    X = cp.reshape(x, (3, 3), order="C")
    return [x >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]


REGIONS = {
    "small l2 ball": (sets.L2Ball(DIM, 0.7), lambda x: [cp.norm(x) <= 0.7]),
    "large l2 ball": (sets.L2Ball(DIM, 30.0), lambda x: [cp.norm(x) <= 30]),
    "l1 ball": (sets.L1Ball(DIM, 2.0), lambda x: [cp.norm1(x) <= 2]),
    "box": (sets.LinfBall(DIM, 0.4), lambda x: [cp.abs(x) <= 0.4]),
    "simplex": (sets.Simplex(DIM), lambda x: [x >= 0, cp.sum(x) == 1]),
    "birkhoff": (sets.Birkhoff(3), doubly_stochastic),
    "nuclear ball": (
        sets.NuclearBall((3, 3), 1.5),
        lambda x: [cp.normNuc(cp.reshape(x, (3, 3), order="C")) <= 1.5],
    ),
    "a set of one's own": (OnlyVertices(VERTICES), hull),
}


def plain(loss, z, y):
    """The loss in cvxpy's words."""
    name = type(loss).__name__
    if name == "Logistic":
        return cp.logistic(-cp.multiply(y, z))
    if name == "CappedLogistic":
        # The least over margins that may be bought at a price of the cap.
        bought = cp.Variable(len(y), nonneg=True)
        return cp.logistic(-cp.multiply(y, z) - bought) + loss.cap * bought
    if name == "Squared":
        return cp.square(z - y) / 2
    if name == "Hinge":
        return cp.pos(1 - cp.multiply(y, z))
    if name == "SmoothHinge":
        # The least over a split of the shortfall into a parabola and a straight part.
        shortfall = cp.pos(1 - cp.multiply(y, z))
        return cp.huber(shortfall / loss.width, 1) * loss.width / 2
    if name == "Huber":
        return cp.huber((z - y) / loss.threshold, 1) * loss.threshold**2 / 2
    if name == "Quantile":
        return cp.maximum(loss.level * (y - z), (loss.level - 1) * (y - z))
    if name == "Poisson":
        constant = np.where(y > 0, y * np.log(np.where(y > 0, y, 1)) - y, 0)
        return cp.exp(z) - cp.multiply(y, z) + constant
    return z


def records(loss, n=60, dim=DIM, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, dim)) * np.logspace(0, -1, dim)
    A /= np.linalg.norm(A, axis=1)[:, None]
    z = A @ (rng.standard_normal(dim) * 2) + 0.4 * rng.standard_normal(n)
    if isinstance(loss, losses.Poisson):
        return A, np.minimum(rng.poisson(np.exp(np.clip(z, -2, 2))), 10).astype(float)
    if hasattr(loss, "label_bounds"):
        return A, np.clip(z, -1, 1)
    return A, np.sign(z)


LOSSES = [
    losses.Logistic(),
    losses.Logistic(ridge=0.05),
    losses.CappedLogistic(0.7, ridge=0.05),
    losses.Squared(),
    losses.Hinge(),
    losses.Hinge(ridge=0.05),
    losses.SmoothHinge(0.5),
    losses.Huber(0.2),
    losses.Quantile(0.3),
    losses.Poisson(40.0),
    losses.Linear(),
    losses.Linear(ridge=0.1),
]


def name(loss):
    return f"{type(loss).__name__}-{loss.ridge:g}"


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("where", REGIONS)
def test_against_a_generic_solver(loss, where):
    region, constraints = REGIONS[where]
    A, y = records(loss)
    best = best_fixed(region, loss, A, y)
    x = cp.Variable(DIM)
    objective = cp.sum(plain(loss, A @ x, y)) / len(A) + loss.ridge / 2 * cp.sum_squares(x)
    problem = cp.Problem(cp.Minimize(objective), constraints(x))
    problem.solve(solver=cp.CLARABEL)
    assert best.converged
    assert region.contains(best.point, tol=1e-8)
    assert best.value == pytest.approx(problem.value, rel=2e-6, abs=2e-7)
    assert best.lower_bound <= problem.value + 1e-6 * abs(problem.value)
    assert best.gap == best.value - best.lower_bound <= 1e-6 * abs(best.value)
    assert best.value == pytest.approx(loss.mean_value(best.point, A, y), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_the_certificate_holds_even_where_the_search_was_cut_short(loss):
    A, y = records(loss, seed=4)
    region = sets.L1Ball(DIM, 3.0)
    rng = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        rough = best_fixed(region, loss, A, y, iteration_limit=1, gap=1e-15)
    fine = best_fixed(region, loss, A, y)
    assert rough.lower_bound <= fine.value
    assert fine.lower_bound <= rough.value
    for _ in range(200):
        assert loss.mean_value(region.sample(rng), A, y) >= fine.lower_bound


def test_a_gap_that_is_not_reached_is_told():
    loss = losses.Logistic()
    A, y = records(loss)
    with pytest.warns(GapWarning, match=r"relative gap of .* not 1e-06, in 1 steps"):
        best = best_fixed(sets.L2Ball(DIM, 30.0), loss, A, y, iteration_limit=1)
    assert not best.converged
    assert best.relative_gap > 1e-6


def test_the_whole_space():
    A, y = records(losses.Logistic(), n=300)
    for space in (None, sets.WholeSpace(DIM)):
        best = best_fixed(space, losses.Logistic(ridge=0.01), A, y)
        gradient = losses.Logistic(ridge=0.01).mean_gradient(best.point, A, y)
        assert best.converged
        assert best.gap == pytest.approx(gradient @ gradient / 0.02, abs=2e-12)
    z = np.clip(A @ np.ones(DIM), -1, 1)
    best = best_fixed(None, losses.Squared(), A, z)
    np.testing.assert_allclose(best.point, np.linalg.lstsq(A, z, rcond=None)[0], atol=1e-8)
    assert best.converged
    best = best_fixed(None, losses.Hinge(ridge=0.1), A, y)
    assert best.converged
    with pytest.raises(ValueError, match="give the loss a ridge"):
        best_fixed(None, losses.Logistic(), A, y)
    with pytest.raises(ValueError, match="span the space"):
        best_fixed(None, losses.Squared(), A[:4], z[:4])


@pytest.mark.parametrize("where", REGIONS)
def test_moving_centers(where):
    region, _ = REGIONS[where]
    A = np.random.default_rng(6).standard_normal((50, DIM))
    loss = losses.Quadratic(2.0, feature_norm=10.0)
    best = best_fixed(region, loss, A)
    assert best.converged
    if region.can_project:
        np.testing.assert_allclose(best.point, region.project(A.mean(axis=0)), atol=1e-7)
    assert best.losses == pytest.approx(((A - best.point) ** 2).sum(axis=1))


def test_records_are_clipped_as_for_a_learner():
    loss = losses.Logistic(feature_norm=0.5)
    A, y = records(loss)
    best = best_fixed(sets.L2Ball(DIM), loss, 4 * A, y)
    assert best.clipped.features == len(A)
    assert best.value == pytest.approx(best_fixed(sets.L2Ball(DIM), loss, A / 2, y).value)


def test_sparse_records():
    loss = losses.Logistic()
    A, y = records(loss)
    A[np.abs(A) < 0.2] = 0.0
    region = sets.L1Ball(DIM, 4.0)
    assert best_fixed(region, loss, sp.csr_array(A), y).value == pytest.approx(
        best_fixed(region, loss, A, y).value, rel=1e-7
    )


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared(), losses.Hinge()], ids=name)
@pytest.mark.parametrize("make", [sets.L2Ball, sets.L1Ball], ids=["l2", "l1"])
def test_many_columns(loss, make):
    # More columns than a Hessian is made for; the empty ones change nothing.
    A, y = records(loss, n=80)
    wide = sp.hstack([sp.csr_array(A), sp.csr_array((80, 2500))], format="csr")
    best = best_fixed(make(DIM + 2500, 5.0), loss, wide, y)
    assert best.converged
    known = best_fixed(make(DIM, 5.0), loss, A, y)
    assert best.value == pytest.approx(known.value, rel=2e-6)
    assert best.method != known.method


def pseudo_huber(**constants):
    return losses.CustomLoss(
        lambda x, a, y: float(np.sqrt(1 + (a @ x - y) ** 2)),
        lambda x, a, y: (a @ x - y) / np.sqrt(1 + (a @ x - y) ** 2) * a,
        **constants,
    )


@pytest.mark.parametrize("where", ["small l2 ball", "l1 ball", "a set of one's own"])
def test_custom_losses(where):
    region, constraints = REGIONS[where]
    A, y = records(losses.Squared(), n=30)
    x = cp.Variable(DIM)
    stacked = cp.vstack([np.ones(30), A @ x - y])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.norm(stacked, axis=0)) / 30), constraints(x))
    problem.solve(solver=cp.CLARABEL)
    smooth = best_fixed(region, pseudo_huber(lipschitz=1.0, smoothness=1.0), A, y)
    assert smooth.method == "accelerated gradient"
    # The same loss, of which nothing is known but subgradients.
    unknown = best_fixed(region, pseudo_huber(lipschitz=1.0), A, y, gap=1e-4, time_limit=300)
    assert unknown.method == "cutting planes"
    for best in (smooth, unknown):
        assert best.converged
        assert best.value == pytest.approx(problem.value, rel=2e-4)
        assert best.lower_bound <= problem.value * (1 + 1e-7)


def test_a_custom_loss_with_kinks():
    A, y = records(losses.Quantile(), n=40)
    loss = losses.CustomLoss(
        lambda x, a, b: 0.5 * abs(float(a @ x) - b),
        lambda x, a, b: 0.5 * np.sign(a @ x - b) * a,
        lipschitz=0.5,
        values=lambda x, A, y: 0.5 * np.abs(A @ x - y),
        mean_gradient=lambda x, A, y: 0.5 * A.T @ np.sign(A @ x - y) / len(y),
    )
    region = sets.L2Ball(DIM, 2.0)
    best = best_fixed(region, loss, A, y, time_limit=20)
    assert best.value == pytest.approx(
        best_fixed(region, losses.Quantile(0.5), A, y).value, rel=2e-6
    )
    assert best.converged


def test_data_that_a_line_separates():
    A, _ = records(losses.Logistic(), n=100)
    y = np.sign(A @ np.ones(DIM))
    best = best_fixed(sets.L2Ball(DIM, 1e4), losses.Hinge(), A, y)
    assert best.converged
    assert best.value < 1e-8
    best = best_fixed(sets.L2Ball(DIM, 100.0), losses.Logistic(), A, y)
    assert best.converged


def test_badly_scaled_columns():
    rng = np.random.default_rng(8)
    A = rng.standard_normal((4000, 20)) * np.logspace(0, -5, 20)
    A /= np.linalg.norm(A, axis=1)[:, None]
    y = np.sign(A @ (rng.standard_normal(20) / np.logspace(0, -5, 20)) + rng.standard_normal(4000))
    for region in (sets.L2Ball(20, 500.0), sets.L1Ball(20, 1000.0), sets.LinfBall(20, 300.0)):
        for loss in (losses.Logistic(), losses.Squared(), losses.Hinge()):
            assert best_fixed(region, loss, A, y, time_limit=20).converged


def test_progress_is_shown(capsys):
    A, y = records(losses.Logistic())
    best_fixed(sets.L2Ball(DIM), losses.Logistic(), A, y, progress=True)
    assert "relative gap" in capsys.readouterr().err


def test_a_start_of_ones_own():
    loss = losses.Logistic()
    A, y = records(loss)
    first = best_fixed(sets.L2Ball(DIM), loss, A, y)
    again = best_fixed(sets.L2Ball(DIM), loss, A, y, start=first.point)
    assert again.iterations == 0
    assert again.value == first.value


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"gap": 0.0}, ValueError, "gap"),
        ({"time_limit": -1.0}, ValueError, "time_limit"),
        ({"iteration_limit": 0}, ValueError, "iteration_limit"),
        ({"loss": abs}, TypeError, "CustomLoss"),
        ({"set": sets.L2Ball(4)}, ValueError, "as the records have columns, 9; it has 4"),
        ({"start": np.ones(3)}, ValueError, "start"),
        ({"start": np.ones(DIM)}, ValueError, "start must be in the set"),
        ({"y": np.zeros(60)}, ValueError, "-1 or 1"),
        ({"A": np.full((60, DIM), np.nan)}, ValueError, "finite"),
    ],
)
def test_bad_arguments(change, error, words):
    A, y = records(losses.Logistic())
    arguments = {"set": sets.L2Ball(DIM), "loss": losses.Logistic(), "A": A, "y": y, **change}
    with pytest.raises(error, match=words):
        best_fixed(**arguments)


def test_real_records():
    folder = Path(os.environ.get("RETICENT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "a9a.npz").exists():
        pytest.skip("a9a.npz is not in RETICENT_DATA")
    z = np.load(folder / "a9a.npz")
    A = sp.csr_array((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    y = np.where(z["y"] > 0, 1.0, -1.0)
    for region in (sets.L2Ball(A.shape[1], 10.0), sets.L1Ball(A.shape[1], 30.0)):
        best = best_fixed(region, losses.Logistic(), A.astype(float), y, time_limit=30)
        assert best.converged


def test_a_set_that_is_free_in_some_coordinates():
    """Not bounded, and not the whole space: what bounds the other coordinates must be kept."""
    A, y = records(losses.Logistic(), n=200)
    region = sets.Product([sets.WholeSpace(4), sets.Simplex(DIM - 4)])
    for loss in (losses.Logistic(ridge=0.05), losses.Hinge(ridge=0.05)):
        best = best_fixed(region, loss, A, y)
        x = cp.Variable(DIM)
        value = cp.sum(plain(loss, A @ x, y)) / len(A) + loss.ridge / 2 * cp.sum_squares(x)
        problem = cp.Problem(cp.Minimize(value), [x[4:] >= 0, cp.sum(x[4:]) == 1])
        problem.solve(solver=cp.CLARABEL)
        assert best.converged
        assert best.point[4:].min() >= 0.0
        assert best.point[4:].sum() == pytest.approx(1.0)
        assert best.value == pytest.approx(problem.value, rel=2e-6)
    with pytest.raises(
        ValueError, match="is not bounded, so a certificate needs a strongly convex loss"
    ):
        best_fixed(region, losses.Squared(), A, y)


def test_regret_against_the_best_fixed_decision():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 3)) * 0.3
    loss = losses.Quadratic(feature_norm=5.0)
    best = losses.best_fixed(sets.L2Ball(3, 10.0), loss, A)
    played = np.array([loss.value(np.ones(3), a) for a in A])
    # Closed form: the best point is the mean, and the excess is n/2 times the distance to it.
    expected = 100 * np.sum((np.ones(3) - A.mean(axis=0)) ** 2)
    assert losses.regret(played, best) == pytest.approx(expected, rel=1e-10)
    curve = losses.regret_curve(played, best)
    assert curve[-1] == pytest.approx(expected, rel=1e-10)
    assert curve[4] == pytest.approx(
        played[:5].sum() - np.sum((A[:5] - A.mean(axis=0)) ** 2) / 2, rel=1e-9
    )
    assert losses.regret(best.losses, best) == 0.0
    assert best.total == pytest.approx(best.losses.sum())
    assert losses.regret(played, best.losses) == losses.regret(played, best)


def test_running_totals():
    assert losses.cumulative([1, 2, 3]).tolist() == [1.0, 3.0, 6.0]
    assert losses.cumulative([]).tolist() == []
    assert losses.regret([], []) == 0.0


def test_bad_losses():
    with pytest.raises(ValueError, match="best must be a vector of length 2"):
        losses.regret([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="played must be finite"):
        losses.regret([np.nan], [1.0])
    with pytest.raises(ValueError, match="losses"):
        losses.cumulative([[1.0], [2.0]])
