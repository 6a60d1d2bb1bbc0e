"""Follow the regularised leader, against the plain reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets

from . import reference
from .leaders import BUDGET, DIM, LOSSES, SETS, STEPS, bare, records, reference_of


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("what", LOSSES)
def test_ftrl_equals_its_reference(where, what):
    (convex, project), (loss, slope) = SETS[where], LOSSES[what]
    lipschitz = 2.0 if where == "space" else None
    learner = online.FollowTheRegularizedLeader(
        convex, loss, budget=BUDGET, horizon=STEPS, seed=7, noise_precision="float",
        lipschitz=lipschitz, regularizer=150.0 if where == "space" else None,
    )  # fmt: skip
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    play = learner.run(A, y, keep=STEPS)
    if where == "space" and what == "squared":
        # clipped to the given constant where the decision is far out
        slope = clipped(slope, lipschitz, A)
    wanted = reference_of(learner, A, y, slope, project, noise)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(learner.decision, wanted[-1], rtol=0, atol=1e-10)


class _Slow(sets.L2Ball):
    """A ball without a kernel, so that the rule runs in Python."""

    @property
    def kernel(self):
        return None


@pytest.mark.parametrize(
    "convex", [sets.L2Ball(DIM, 2.0), _Slow(DIM, 2.0)], ids=["compiled", "python"]
)
@pytest.mark.parametrize("what", ["logistic", "ridge"])
def test_averaged_totals_equal_their_reference(convex, what):
    loss, slope = LOSSES[what]
    learner = online.FollowTheRegularizedLeader(
        convex, loss, budget=BUDGET, horizon=STEPS, seed=7, noise_precision="float", averaging=True
    )
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    quiet, deviation = 4.0 * 0.25, bare(learner).error(STEPS)
    weight = math.sqrt(2.0) * deviation * math.sqrt(DIM) / 2.0  # sqrt(d)/R exceeds 2b/L here
    assert learner.rule.fresh == pytest.approx(quiet / (quiet + weight), rel=1e-12)
    play = learner.run(A[:1000], y[:1000], keep=1000)
    twin = type(learner).from_state(learner.state(), set=convex)
    later = twin.run(A[1000:], y[1000:], keep=1000)
    wanted = reference_of(
        learner, A, y, slope, reference.l2_ball(2.0), noise, fresh=quiet / (quiet + weight)
    )
    np.testing.assert_allclose(play.decisions, wanted[:1000], rtol=0, atol=1e-10)
    np.testing.assert_allclose(later.decisions, wanted[1000:-1], rtol=0, atol=1e-10)


def test_averaging_goes_with_the_default_regulariser():
    with pytest.raises(ValueError, match="leave out regularizer, got 3"):
        online.FollowTheRegularizedLeader(
            sets.L2Ball(2),
            losses.Logistic(),
            budget=BUDGET,
            horizon=9,
            regularizer=3.0,
            averaging=True,
        )


@pytest.mark.parametrize("horizon", [None, 5000])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize(
    ("convex", "loss", "steep", "bend"),
    [
        (sets.L2Ball(4, 50.0), losses.Logistic(), 1.0, 0.25),  # the size of a coordinate rules
        (sets.L2Ball(900, 5.0), losses.Logistic(), 1.0 / (1.0 + math.exp(-5.0)), 0.25),  # the set's
        (sets.L2Ball(4, 50.0), losses.Huber(1.0), 1.0, 1.0),
        (sets.L2Ball(4, 2.0), losses.Hinge(), 1.0, 0.5),  # a kink, spread over the set
        (sets.L2Ball(4, 2.0), losses.Linear(), 1.0, 0.0),  # which feels no noise
    ],
)
def test_the_default_regulariser_is_the_rule_of_the_page(convex, loss, steep, bend, delta, horizon):
    budget = reticent.Budget(1.0, delta)
    learner = online.FollowTheRegularizedLeader(convex, loss, budget=budget, horizon=horizon)
    d, R = convex.dim, convex.radius
    last = 4096 if horizon is None else horizon
    s = max(learner.mechanism.error(last), learner.mechanism.error(4095))
    noise = min(
        math.sqrt(2.0) * s * max(math.sqrt(d) / R, 2.0 * bend / steep),
        32.0 / 27.0 * bend * (s / steep) ** 2,
    )
    for t in (1, 100, 5000):
        wanted = 4.0 * bend + noise + steep * math.sqrt(t) / (2.0 * R)
        assert learner.rule.anchor_weight(t) == pytest.approx(wanted, rel=1e-6)


def clipped(slope, bound, A):
    sizes = iter(np.linalg.norm(A, axis=1))

    def short(z, y):
        size, raw = next(sizes), slope(z, y)
        return raw * min(1.0, bound / (abs(raw) * size))

    return short


def test_ftrl_on_the_lattice_equals_its_reference():
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheRegularizedLeader(convex, loss, budget=BUDGET, horizon=STEPS, seed=7)
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    play = learner.run(A, y, keep=STEPS)
    step = learner.total._noise.step
    wanted = reference_of(learner, A, y, slope, project, noise, step=step)
    # a decision whose last bit differs may move a contribution by one step of the lattice
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10 + 3 * step / 50)


def test_update_takes_the_gradient_that_observe_computes():
    A, y = records(steps=200)
    make = lambda: online.FollowTheRegularizedLeader(  # noqa: E731
        sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.1), budget=BUDGET, horizon=200, seed=3
    )
    seen, given, called = make(), make(), make()
    for t in range(200):
        x = given.decision
        gradient = losses.Logistic().gradient(x, A[t], y[t])
        np.testing.assert_allclose(
            given.update(gradient), seen.observe((A[t], y[t])), rtol=0, atol=1e-9
        )
        called.observe(lambda x, t=t: losses.Logistic().gradient(x, A[t], y[t]))
    np.testing.assert_allclose(called.decision, seen.decision, rtol=0, atol=1e-9)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_guarantee_follows_from_the_noise_alone(neighbours):
    """Recomputed by linear algebra from the noise's own covariance, for the worst record."""
    n, dim = 24, 1
    budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours)
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(dim, 1.0), losses.Logistic(), budget=budget, horizon=n, noise_precision="float"
    )
    total = learner.total
    parameters = total.mechanism.parameters
    b = np.zeros(n)
    b[0] = 1.0
    for gap, weight in zip(parameters.gap, parameters.weight, strict=True):
        b[1:] += weight * (1.0 - gap) ** np.arange(n - 1)
    mixing = np.array([[b[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    moved = learner.lipschitz * (1 if neighbours == "zero-out" else 2)
    worst = max(
        np.linalg.norm(np.linalg.solve(mixing, (np.arange(n) >= t) * moved)) for t in range(n)
    )
    mu = worst / total._noise.scale
    assert mu == pytest.approx(learner.guarantee.gdp, rel=1e-9)
    assert learner.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    # no gradient on the set is longer than what the noise was calibrated to
    z = np.linspace(-1.0, 1.0, 101)
    assert max(abs(reference.logistic_slope(v, s)) for v in z for s in (-1, 1)) <= learner.lipschitz


def test_published_noise_is_the_papers_and_the_guarantee_tells_the_truth():
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(3), losses.Logistic(), budget=BUDGET, horizon=1000, calibration="published"
    )
    L = learner.lipschitz
    sigma = L * math.sqrt(2 * 10 * (math.log(1e6) + 1.0))
    assert learner.total._noise.scale == pytest.approx(sigma, rel=1e-12)
    assert learner.guarantee.gdp == pytest.approx(math.sqrt(10) * L / sigma, rel=1e-6)
    assert learner.guarantee.epsilon(1e-6) < 1.0
    window = online.FollowTheApproximateLeader(
        sets.L2Ball(3), losses.Logistic(ridge=0.5), budget=BUDGET.with_(window=64),
        calibration="published",
    )  # fmt: skip
    printed = math.sqrt(8) * (window.lipschitz + 0.5 * 2.0) * 7 * math.log(2e6)
    assert window.total._noise.scale == pytest.approx(printed, rel=1e-12)


def test_defaults_exist_without_a_horizon_and_without_a_loss():
    for budget in (
        BUDGET,
        BUDGET.with_(window=100),
        reticent.Budget(1.0),
        reticent.Budget(1.0, window=8),
    ):
        learner = online.FollowTheRegularizedLeader(
            sets.L2Ball(3), budget=budget, lipschitz=1.0, seed=0
        )
        for _ in range(600):
            learner.update(np.array([1.0, 0.0, 0.0]))
        assert learner.steps == 600
        assert np.isfinite(learner.decision).all()
        assert (
            learner.guarantee.meets(budget) or learner.guarantee.epsilon(budget.delta) <= 1.0 + 1e-9
        )


def test_what_cannot_work_is_refused():
    ball = sets.L2Ball(3)
    with pytest.raises(ValueError, match="lipschitz must be set"):
        online.FollowTheRegularizedLeader(ball, budget=BUDGET)
    with pytest.raises(ValueError, match="no usable bound"):
        online.FollowTheRegularizedLeader(sets.WholeSpace(3), losses.Squared(), budget=BUDGET)
    with pytest.raises(ValueError, match="unbounded"):
        online.FollowTheRegularizedLeader(sets.WholeSpace(3), losses.Logistic(), budget=BUDGET)
    with pytest.raises(ValueError, match="not strongly convex"):
        online.FollowTheApproximateLeader(ball, losses.Logistic(), budget=BUDGET)
    with pytest.raises(ValueError, match="step must be one of"):
        online.FollowTheApproximateLeader(ball, losses.Logistic(ridge=1), budget=BUDGET, step="x")
    with pytest.raises(TypeError, match="budget must be"):
        online.FollowTheRegularizedLeader(ball, losses.Logistic(), budget=1.0)
    with pytest.raises(TypeError, match="set must be"):
        online.FollowTheRegularizedLeader(3, losses.Logistic(), budget=BUDGET)
    with pytest.raises(NotImplementedError, match="local-linear"):
        online.FollowTheRegularizedLeader(sets.Birkhoff(3), losses.Linear(), budget=BUDGET)
    with pytest.raises(ValueError, match="published"):
        online.FollowTheRegularizedLeader(
            ball, losses.Logistic(), budget=BUDGET, calibration="published"
        )
    with pytest.raises(ValueError, match="cannot use window"):
        online.FollowTheRegularizedLeader(
            ball, losses.Logistic(), budget=BUDGET.with_(window=4), total="tree", horizon=9
        )
