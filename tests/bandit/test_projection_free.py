"""The projection-free bandit against an independent NumPy loop: same noise and directions in, same points out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import bandit, sets

from .reference import BUDGET, PLAYS, SEED, drive, frank_wolfe, ingredients, linear, play

LADDER = sets.FlowPolytope([(0, 1), (0, 1), (1, 2), (1, 2), (1, 2)], 0, 2)
SETS = [sets.L1Ball(4), sets.Simplex(4), sets.Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]), LADDER]


def by_theory(learner: bandit.ProjectionFreeBandit, data: dict, patience: float) -> dict:
    """The step from its formula in the documentation, with nothing taken from the plan but its inputs."""
    n, zeta, batch = data["basis"].shape[1], data["zeta"], data["batch"]
    vertices = learner.set.vertices()
    reach = np.max(np.linalg.norm(vertices - data["center"], axis=1))
    half = 0.5 * (data["high"] - data["low"])
    power = 4.0 * n * data["error"] ** 2
    weight = 0.5 * patience * (n / zeta) ** 2
    drift = 0.5 * patience * batch**2 * learner.lipschitz**2

    def eta(R: int, squares: float | None, loudness: float) -> float:
        seen = R * batch * half**2 if squares is None else max(squares, 0.0)
        spread = power * loudness**2 + weight * seen + drift * R
        return 2.0 * math.sqrt(0.5 * reach**2 / spread)

    return {"eta": eta, "power": power, "weight": weight}


@pytest.mark.parametrize("convex", SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("stale", [True, False])
@pytest.mark.parametrize("centring", ["middle", "adaptive"])
def test_projection_free(convex, stale, centring):
    _, losses = linear(convex.dim)
    learner = bandit.ProjectionFreeBandit(
        convex, budget=reticent.Budget(50.0, 1e-3), lipschitz=1.0, values=(-2.0, 2.5), horizon=PLAYS,
        seed=SEED, noise_precision="float", stale=stale, centring=centring,
    )  # fmt: skip
    data = ingredients(learner, SEED, PLAYS)
    n, watch = data["basis"].shape[1], 0.0
    if centring == "adaptive":
        watch = 0.3 * n * 2.25 / data["zeta"]
    center = data["center"]
    wanted = play(
        losses, **data, stale=stale, watch=watch,
        **by_theory(learner, data, 3.0 if stale else 1.0),
        respond=lambda slope, start: frank_wolfe(
            convex.linear_minimizer, center, slope, start, data["batch"]
        ),
    )  # fmt: skip
    points = drive(learner, losses, PLAYS)
    np.testing.assert_allclose(points, wanted.points, atol=1e-10, rtol=0)
    assert np.ptp(np.array(wanted.decisions), axis=0).max() > 0.01  # it did learn something
    assert all(convex.contains(x) for x in points)


def test_lattice_is_the_same_but_for_its_rounding():
    convex = sets.L1Ball(4)
    _, losses = linear(4)
    points = {}
    for precision in ("lattice", "float"):
        learner = bandit.ProjectionFreeBandit(
            convex, budget=BUDGET, lipschitz=1.0, values=(-1.0, 1.0), horizon=PLAYS, seed=SEED,
            noise_precision=precision,
        )  # fmt: skip
        data = ingredients(learner, SEED, PLAYS)
        # the two precisions draw different noise; each must follow from its own
        wanted = play(
            losses, **data, watch=0.3 * 4 / data["zeta"], **by_theory(learner, data, 3.0),
            respond=lambda slope, start, d=data: frank_wolfe(
                convex.linear_minimizer, d["center"], slope, start, d["batch"]
            ),
        )  # fmt: skip
        points[precision] = drive(learner, losses, PLAYS)
        np.testing.assert_allclose(points[precision], wanted.points, atol=1e-6)


def test_entropy():
    convex = sets.Simplex(5, mass=2.0)
    _, losses = linear(5)
    learner = bandit.ProjectionFreeBandit(
        convex, budget=BUDGET, lipschitz=1.0, values=(-2.0, 2.0), horizon=PLAYS, seed=SEED,
        noise_precision="float", mirror="entropy", centring="middle", step=0.002,
    )  # fmt: skip
    data = ingredients(learner, SEED, PLAYS)

    def softmax(slope, start):
        weights = np.exp(-slope / 2.0)
        return 2.0 * weights / weights.sum()

    wanted = play(losses, **data, eta=lambda R, squares, loudness: 0.002, respond=softmax)
    np.testing.assert_allclose(drive(learner, losses, PLAYS), wanted.points, atol=1e-10, rtol=0)


def test_missing_values_are_null_records():
    convex = sets.L1Ball(3)
    _, losses = linear(3)

    def patchy(t, x):
        return None if t % 3 == 0 else losses(t, x)

    learner = bandit.ProjectionFreeBandit(
        convex, budget=BUDGET, lipschitz=1.0, values=(-1.0, 1.0), horizon=PLAYS, seed=SEED,
        noise_precision="float", centring="middle", step=0.01,
    )  # fmt: skip
    data = ingredients(learner, SEED, PLAYS)
    wanted = play(
        patchy, **data, eta=lambda R, squares, loudness: 0.01,
        respond=lambda slope, start: frank_wolfe(
            convex.linear_minimizer, data["center"], slope, start, data["batch"]
        ),
    )  # fmt: skip
    points = []
    for t in range(PLAYS):  # half of them told to be missing, half simply never told
        x = learner.ask()
        points.append(np.array(x))
        value = patchy(t, points[-1])
        if value is not None or t % 2:
            learner.tell(value)
    np.testing.assert_allclose(points, wanted.points, atol=1e-10, rtol=0)
