"""Follow the regularised and the approximate leader, against the plain references."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import losses, online, sets, sums

from . import reference

BUDGET = reticent.Budget(1.0, 1e-6)
STEPS = 2000
DIM = 6


def records(dim=DIM, steps=STEPS, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((steps, dim))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1) * 1.001)[:, None]
    y = np.where(A @ np.ones(dim) + 0.3 * rng.standard_normal(steps) > 0, 1.0, -1.0)
    return A, y


SETS = {
    "l2": (sets.L2Ball(DIM, 2.0), reference.l2_ball(2.0)),
    "l1": (sets.L1Ball(DIM, 1.5), reference.l1_ball(1.5)),
    "box": (sets.Box(-0.3, 1.0, dim=DIM), reference.box(-0.3, 1.0)),
    "simplex": (sets.Simplex(DIM), reference.simplex()),
    "space": (sets.WholeSpace(DIM), lambda x: x),
}
LOSSES = {
    "logistic": (losses.Logistic(), reference.logistic_slope),
    "ridge": (losses.Logistic(ridge=0.05), reference.logistic_slope),
    "hinge": (losses.Hinge(), reference.hinge_slope),
    "squared": (losses.Squared(ridge=0.1), reference.squared_slope),
}


def reference_of(learner, A, y, slope, project, noise, **more):
    rule = learner.rule
    return reference.leader(
        A, y, slope, project, noise, m=rule.curvature, ridge=learner.loss.ridge,
        anchor=rule.anchor_weight, center=np.ravel(learner.set.center), **more,
    )  # fmt: skip


def bare(learner, cls=sums.Correlated, **more):
    """The same total as the learner's, fresh, to read its noise off."""
    return cls(
        learner.dim, learner.horizon, budget=learner.budget, norm=learner.lipschitz, seed=7,
        noise_precision=learner.noise_precision, **more,
    )  # fmt: skip


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


@pytest.mark.parametrize("window", [None, 64])
@pytest.mark.parametrize("m", [None, 0.2, 0.01])
def test_approximate_leader_by_projection_equals_its_reference(window, m):
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=BUDGET.with_(window=window), horizon=STEPS, strong_convexity=m, seed=7,
        noise_precision="float",
    )  # fmt: skip
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    play = learner.run(A, y, keep=STEPS)
    wanted = reference_of(learner, A, y, slope, project, noise)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


def test_the_printed_form_of_the_approximate_leader():
    """[window], (10) with its missing 1/t: Proj((sum x - g/m)/t), g the gradients of the whole losses."""
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=BUDGET, horizon=STEPS, anchor=0.0, seed=7, noise_precision="float"
    )
    A, y = records()
    noise = reference.noise_of(bare(learner), STEPS)
    m, x, g, sx = 0.05, np.zeros(DIM), np.zeros(DIM), np.zeros(DIM)
    learner.run(A, y)
    for t in range(STEPS):
        g = g + slope(A[t] @ x, y[t]) * A[t] + m * x
        sx = sx + x
        x = project((sx - (g + noise[t]) / m) / (t + 1))
    np.testing.assert_allclose(learner.decision, x, rtol=0, atol=1e-10)


def test_pftal_is_a_full_window_and_gamma_noise():
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    learner = online.FollowTheApproximateLeader(
        convex, loss, budget=reticent.Budget(1.0), horizon=STEPS, seed=7, noise_precision="float"
    )
    assert isinstance(learner.total.mechanism, sums.TreeMechanism)
    assert learner.total.noise == "gamma"
    assert learner.guarantee.pure == pytest.approx(1.0, rel=1e-12)
    A, y = records()
    noise = reference.noise_of(bare(learner, sums.Tree, noise="gamma"), STEPS)
    play = learner.run(A, y, keep=STEPS)
    wanted = reference_of(learner, A, y, slope, project, noise)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("more", [{}, {"added_regularizer": 0.5}, {"added_regularizer": "auto"}])
def test_local_linear_leader_equals_its_reference_and_keeps_its_certificates(more):
    loss = losses.Quadratic(0.5)
    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.full(DIM, 0.3), size=STEPS) * 0.9
    learner = online.FollowTheApproximateLeader(
        sets.Simplex(DIM), loss, step="local-linear", budget=BUDGET.with_(window=32),
        horizon=STEPS, seed=7, noise_precision="float", **more,
    )  # fmt: skip
    rule = learner.rule
    noise = reference.noise_of(bare(learner), STEPS)

    def minimum(seen, played, m, weight, center):
        strength = m * len(played) + weight
        mean = (m * np.sum(played, axis=0) + weight * center) / strength
        return reference.simplex()(mean - seen / strength)

    wanted, certificates = reference.local_leader(
        A, np.zeros(STEPS), lambda z, y: -0.5, reference.local_simplex, learner.set.rho, noise,
        m=rule.curvature, ridge=0.5, anchor=rule.anchor_weight, center=np.full(DIM, 1 / DIM),
        minimum=minimum,
    )  # fmt: skip
    play = learner.run(A, keep=STEPS)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)
    bound_before, true_before, bound_after, true_after = certificates.T
    slack = 1e-9 * np.maximum(1.0, np.abs(bound_before))
    assert (true_before <= bound_before + slack).all()
    assert (true_after <= bound_after + slack).all()


def test_published_constants_are_the_papers():
    convex = sets.Simplex(5)
    loss = losses.Quadratic(1.0)
    learner = online.FollowTheApproximateLeader(
        convex, loss, step="local-linear", constants="published",
        budget=reticent.Budget(1.0, 1e-6, window=64), seed=7, noise_precision="float", failure=0.1,
    )  # fmt: skip
    rho2, d = convex.rho**2, 5
    alpha, c0 = 1 / (5 * rho2), (25 * rho2) ** 2
    steep = 1.0 + 1.0 * 1.0 + 1.0 * convex.diameter  # L (data and ridge) + mu D
    cw = 2 * alpha * math.sqrt(d) * 6**1.5 * math.log(1 / 0.1) / (1 - alpha)
    c1 = 26 * rho2 * steep * (1 + cw)
    noise = reference.noise_of(bare(learner), 300)
    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.ones(5), size=300) * 0.9
    learner.run(A)
    x1 = np.full(d, 0.2)
    x, g, sx = x1.copy(), np.zeros(d), np.zeros(d)
    for t in range(1, 301):
        g = g - A[t - 1]
        sx = sx + x
        seen = g + noise[t - 1] + sx
        eta = c1**2 / (t + c0)
        radius = math.sqrt(4 * eta / (t + c0)) + 2 * steep / (t + c0)
        gradient = seen + (t + c0) * x - sx - c0 * x1
        x = x + alpha * (reference.local_simplex(x, radius, gradient) - x)
    np.testing.assert_allclose(learner.decision, x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("precision", ["float", "lattice"])
@pytest.mark.parametrize(
    "build",
    [
        lambda **k: online.FollowTheRegularizedLeader(
            sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.01), budget=BUDGET, **k
        ),
        lambda **k: online.FollowTheRegularizedLeader(
            sets.Product([sets.Simplex(2), sets.LinfBall(4)]), losses.Huber(), budget=BUDGET, **k
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.L1Ball(DIM), losses.Squared(ridge=0.1), strong_convexity=0.2,
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.Box(-1, 1, dim=DIM), losses.Logistic(ridge=0.1), constants="published",
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.Simplex(DIM), losses.Logistic(), added_regularizer="auto",
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
    ],
)  # fmt: skip
def test_python_loop_and_compiled_loop_play_the_same_bits(build, precision):
    A, y = records(steps=600)
    compiled = build(seed=3, noise_precision=precision)
    play = compiled.run(A, y, keep=600)
    slow = build(seed=3, noise_precision=precision)
    slow._compiled = False
    twin = slow.run(A, y, keep=600)
    one = build(seed=3, noise_precision=precision)
    each = [one.decision] + [one.observe((A[t], y[t])) for t in range(600)]
    np.testing.assert_array_equal(play.decisions, twin.decisions)
    np.testing.assert_array_equal(play.decisions, each[:-1])
    np.testing.assert_allclose(play.losses, twin.losses, rtol=1e-13, atol=1e-15)


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


def test_a_gap_keeps_the_clock_and_the_regulariser():
    convex, project = SETS["l2"]
    loss, slope = LOSSES["ridge"]
    A, y = records(steps=300)
    present = np.random.default_rng(5).random(300) < 0.7
    make = lambda: online.FollowTheApproximateLeader(  # noqa: E731
        convex, loss, budget=BUDGET, horizon=300, strong_convexity=0.2, seed=7,
        noise_precision="float",
    )  # fmt: skip
    learner = make()
    noise = reference.noise_of(bare(learner), 300)
    holes = A.copy()
    holes[~present] = np.nan
    labels = y.copy()
    labels[~present] = 5.0
    play = learner.run(holes, labels, present=present, keep=300)
    gaps = set(np.flatnonzero(~present).tolist())
    wanted = reference_of(learner, A, y, slope, project, noise, gaps=gaps)
    np.testing.assert_allclose(play.decisions, wanted[:-1], rtol=0, atol=1e-10)
    assert (play.losses[~present] == 0).all()
    one = make()
    for t in range(300):
        if present[t]:
            one.observe((A[t], y[t]))
        elif t % 2:
            one.update(None)
        else:
            one.observe(None)
    np.testing.assert_array_equal(one.decision, learner.decision)


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


def test_a_false_published_claim_is_a_warning_and_a_caveat():
    with pytest.warns(reticent.PrivacyLeakWarning, match="claims epsilon = 1"):
        learner = online.FollowTheApproximateLeader(
            sets.L2Ball(3), losses.Logistic(ridge=0.001), calibration="published",
            budget=reticent.Budget(1.0, window=64, neighbours="replace"),
        )  # fmt: skip
    assert learner.guarantee.pure > 1.9
    assert "claims" in str(learner.guarantee)


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
