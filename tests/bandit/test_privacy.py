"""The sensitivity that is claimed, to the last bit; the guarantee by a second road; epochs; ledgers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import reticent
from reticent import bandit, papers, sets
from reticent.bandit import kernels, plan
from reticent.privacy import BudgetExceeded, PrivacyLeakWarning

from .reference import BUDGET, PURE


def learner_on(convex=None, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-1.0, 1.0), "horizon": 1000} | more
    return bandit.ProjectionFreeBandit(convex or sets.L1Ball(4), **facts)


# What one record moves ----------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    value=st.floats(-1.0, 1.0),
    other=st.floats(-1.0, 1.0),
    centring=st.sampled_from(["middle", "adaptive"]),
)
def test_a_record_moves_its_batch_by_the_claimed_norm(seed, value, other, centring):
    """In exact integer arithmetic: steps^2 summed against norm^2, blanked and replaced."""
    learner = LEARNERS[centring]
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(4)
    kernels.normalise(u[None])
    made, total = learner._plan, learner._total
    others = total._blank()
    for w in rng.uniform(-1, 1, 5):
        v = rng.standard_normal(4)
        kernels.take(v / np.linalg.norm(v), w, made.factor, made.watch, others, *total._gauge)
    one, two = others.copy(), others.copy()
    kernels.take(u, value, made.factor, made.watch, one, *total._gauge)
    kernels.take(u, other, made.factor, made.watch, two, *total._gauge)
    step = total._noise.step
    assert math.log2(step).is_integer()

    def length_squared(difference):
        return sum(int(entry) ** 2 for entry in difference)

    bound = (made.norm / step) ** 2  # norm and step are doubles, the step a power of two
    assert length_squared(one - others) <= bound
    assert length_squared(two - one) <= 4 * bound


LEARNERS = {word: learner_on(centring=word, smoothing=0.2) for word in ("middle", "adaptive")}


@pytest.mark.parametrize("centring", ["middle", "adaptive"])
def test_the_norm_is_attained(centring):
    """A value at the end of the range moves the batch by the norm, up to rounding: no slack is wasted."""
    learner = LEARNERS[centring]
    u = np.array([0.5, -0.5, 0.5, 0.5])
    made, total = learner._plan, learner._total
    batch = total._blank()
    kernels.take(u, 1.0, made.factor, made.watch, batch, *total._gauge)
    moved = np.linalg.norm(batch * total._noise.step)
    assert made.norm * (1 - 1e-7) < moved <= made.norm
    n, width = 4, 2.0
    expected = n * width / (2 * 0.2) * (1.0 if centring == "middle" else math.sqrt(1.18))
    assert made.norm == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("neighbours", "factor"), [("zero-out", 1.0), ("replace", 2.0)])
def test_sensitivity_by_relation(neighbours, factor):
    """Centred: n W / (2 zeta) for a blanked record, twice that for a replaced one."""
    budget = BUDGET.with_(neighbours=neighbours)
    learner = learner_on(budget=budget, values=(3.0, 8.0), smoothing=0.2, centring="middle")
    (release,) = learner.guarantee.releases
    assert release.sensitivity == pytest.approx(factor * 4 * 5.0 / (2 * 0.2), rel=1e-12)
    assert learner.guarantee.meets(budget)


@pytest.mark.parametrize("word", ["correlated", "tree", "independent"])
@pytest.mark.parametrize("late", [0, 40])
def test_the_batch_is_not_clipped(word, late):
    """Many equal records add up: the total clips records, not batches."""
    learner = learner_on(
        total=word, horizon=400, noise_precision="float", centring="middle", seed=0
    )
    twin = learner_on(total=word, horizon=400, noise_precision="float", centring="middle", seed=0)
    for each, value in ((learner, 1.0), (twin, None)):
        tickets = []
        for t in range(21):
            tickets.append(each.ask())
            if t < 20:
                each.tell(value)
    difference = np.linalg.norm(learner._last - twin._last)
    vectors = learner._plan.factor * learner._directions.inner[:20]
    assert difference == pytest.approx(np.linalg.norm(vectors.sum(axis=0)), rel=1e-9)
    assert learner.clipped == 0


# The guarantee by a second road -------------------------------------------------------------------


def gaussian_delta(epsilon, mu):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


def gaussian_epsilon(delta, mu):
    return brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 100.0)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_gaussian_tree(neighbours):
    """mu = S sqrt(h) / sigma; the noise of a node is read off the first total."""
    budget = reticent.Budget(2.0, 1e-5, neighbours)
    learner = learner_on(budget=budget, total="tree", smoothing=0.2, centring="middle", horizon=900)
    assert learner._total.horizon == 28
    sigma = learner._total.error(1)
    S = (1.0 if neighbours == "zero-out" else 2.0) * 4 * 2.0 / (2 * 0.2)
    # Honaker's estimator needs a little less than sqrt(h); the plain count is an upper bound on mu
    mu = S * math.sqrt((28).bit_length()) / sigma
    assert learner.guarantee.gdp <= mu
    assert learner.guarantee.gdp > 0.9 * mu
    truth = gaussian_epsilon(1e-5, learner.guarantee.gdp)
    assert truth == pytest.approx(2.0, rel=1e-6)
    assert learner.guarantee.epsilon(1e-5) == pytest.approx(truth, rel=1e-6)


def test_correlated():
    """mu^2 = S^2 sum c_k^2 / sigma^2, c the running sum of the series 1 / b, by a filter of our own."""
    learner = learner_on(horizon=2500, smoothing=0.1, centring="middle")
    total = learner._total
    steps = total.horizon
    assert steps == 48
    parameters = total.mechanism.parameters
    b = np.ones(steps)
    for k in range(1, steps):
        b[k] = sum(
            w * (1.0 - gap) ** (k - 1)
            for gap, w in zip(parameters.gap, parameters.weight, strict=True)
        )
    inverse = np.zeros(steps)
    inverse[0] = 1.0
    for k in range(1, steps):
        inverse[k] = -np.dot(b[1 : k + 1], inverse[k - 1 :: -1])
    c = np.cumsum(inverse)
    sigma = total.error(1)
    S = 4 * 2.0 / (2 * 0.1)
    mu = S * math.sqrt(np.sum(c**2)) / sigma
    assert mu <= learner.guarantee.gdp * (1 + 1e-12)
    assert mu == pytest.approx(learner.guarantee.gdp, rel=1e-6)
    assert gaussian_epsilon(1e-6, learner.guarantee.gdp) == pytest.approx(1.0, rel=1e-6)


def test_pure():
    """epsilon = h S / c with c the scale of the radius, read off the variance (d + 1) c^2 of a node."""
    learner = learner_on(budget=PURE, smoothing=0.2, centring="middle")
    scale = learner._total.mechanism.scale()
    assert learner._total.horizon == 30
    S = 4 * 2.0 / (2 * 0.2)
    assert scale == pytest.approx((30).bit_length() * S / 1.0, rel=1e-12)
    assert learner.guarantee.pure == pytest.approx(1.0, rel=1e-12)
    laplace = learner_on(budget=PURE, noise="laplace", smoothing=0.2, centring="middle")
    assert laplace._total.mechanism.scale() == pytest.approx(2 * scale, rel=1e-12)  # sqrt(n) more


@pytest.mark.parametrize("budget", [BUDGET, PURE, BUDGET.with_(neighbours="replace")])
@pytest.mark.parametrize("horizon", [None, 5, 1000])
def test_every_setting_meets_its_budget(budget, horizon):
    learner = learner_on(budget=budget, horizon=horizon)
    assert learner.guarantee.meets(budget)
    assert (learner.guarantee.neighbours, learner.guarantee.window) == (budget.neighbours, None)


def test_the_guarantee_says_what_it_must():
    text = learner_on(seed=1, noise_precision="float").guarantee.explain()
    assert "seeded" in text
    assert "floating-point" in text
    assert "one batch" in text
    assert "not a release" not in learner_on().guarantee.explain()


# Epochs -------------------------------------------------------------------------------------------


def through_epochs(learner, count, value=0.5):
    seen = []
    for _ in range(count):
        learner.ask()
        if not seen or seen[-1] is not learner._total:
            seen.append(learner._total)
        learner.tell(value)
    return seen


@pytest.mark.parametrize("budget", [BUDGET, PURE])
@pytest.mark.parametrize("noise", [None, "gamma"])
def test_doubling_costs_no_privacy(budget, noise):
    """Each epoch keeps the whole budget, on records of its own; the learner as a whole costs one."""
    total = "tree"
    learner = learner_on(budget=budget, horizon=None, total=total, noise=noise)
    seen = through_epochs(learner, 256 * 7 + 1)
    assert len(seen) == 4
    assert [t.horizon for t in seen] == [16, 23, 32, 46]
    for each in seen:
        assert each.guarantee.meets(budget.with_(delta=each.budget.delta))
    known = learner_on(budget=budget, total=total, noise=noise)
    assert learner.guarantee.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-9)
    assert learner.guarantee.epsilon(1e-6) == pytest.approx(known.guarantee.epsilon(1e-6), rel=0.02)


def test_a_record_is_in_one_epoch():
    """Two streams that differ in one record: only the epoch it falls in adds up to something else."""
    sums = {}
    for value in (-0.8, None):
        learner = learner_on(horizon=None, seed=3, centring="middle", total="tree")
        exact, last = [], None
        for t in range(256 + 512 + 1):
            learner.ask()
            if learner._total is not last:
                last = learner._total
                exact.append([])
            # replay both worlds on one transcript: the same values whatever is played
            learner.tell(value if t == 300 else 0.1)
            exact[-1] = last._total.copy()
        sums[value] = exact
    same = [np.array_equal(a, b) for a, b in zip(sums[-0.8], sums[None], strict=True)]
    assert same == [True, False, True]


def test_epochs_go_on_with_what_was_released():
    learner = learner_on(horizon=None, seed=0, total="tree")
    radii = []
    for t in range(256 + 512 + 1024 + 1):
        learner.ask()
        learner.tell(0.3)
        if t in (255, 256, 767, 768, 1791, 1792):
            radii.append((learner.smoothing, learner.rounds))
            if t == 256:
                assert np.any(learner._sum_of_gradients)
                assert not np.any(learner._last)
    assert radii[0][0] > radii[3][0] > radii[5][0]  # a tree's noise grows by levels
    assert [r for _, r in radii] == [16, 23, 23, 32, 32, 46]


def test_late_values_of_an_earlier_epoch_enter_one_batch_of_a_later_one():
    learner = learner_on(horizon=None, seed=0, centring="middle")
    first = learner.ask()
    for _ in range(300):
        learner.ask()
        learner.tell(None)
    before = learner._pending.copy()
    learner.tell(1.0, first)
    moved = (learner._pending - before) * learner._total._noise.step
    assert 0 < np.linalg.norm(moved) <= learner._plan.norm
    with pytest.raises(ValueError, match="answered"):
        learner.tell(1.0, first)


# Ledgers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [None, 500])
def test_a_ledger_is_charged_once(horizon):
    with reticent.Ledger(BUDGET) as ledger:
        learner = learner_on(horizon=horizon)
        through_epochs(learner, 500)
        twin = type(learner).from_state(learner.state())
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceeded):
            learner_on()
        assert len(ledger.entries) == 1
    assert twin.steps == 500


def test_no_privacy_does_not_fit_in_any_ledger():
    with reticent.Ledger(BUDGET), pytest.raises(BudgetExceeded):
        learner_on(budget=None, private=False)


def test_no_privacy_has_to_be_said():
    with pytest.raises(ValueError, match="private=False"):
        learner_on(budget=None)
    with pytest.raises(ValueError, match="leave out budget"):
        learner_on(private=False)
    learner = learner_on(budget=None, private=False)
    assert learner.guarantee.epsilon(0.1) == math.inf
    assert "not private" in str(learner.guarantee)


# The paper's own noise ----------------------------------------------------------------------------


def test_published_noise():
    """Lemma 10 and Lemma 7 to the letter, with the guarantee that the noise really gives."""
    n, T = 5, 10_000
    learner = learner_on(
        sets.L2Ball(n, 100.0),
        horizon=T,
        calibration="published",
        feasibility="overflow",
        values=None,
    )
    zeta = 200.0 * math.sqrt(n) / T**0.25
    assert learner.smoothing == pytest.approx(zeta)
    assert learner._plan.constant == pytest.approx(200.0 / (T**0.75 * math.sqrt(n)))
    formula = papers.bandit_gaussian(1.0, 1e-6, horizon=T, dim=n)
    assert learner._total.error(1) == pytest.approx(formula.scale, rel=1e-9)
    S = n * (200.0 + zeta) / (2 * zeta)
    mu = S * math.sqrt((98).bit_length()) / formula.scale
    assert learner.guarantee.gdp == pytest.approx(mu, rel=1e-6)
    pure = learner_on(sets.L1Ball(n), horizon=T, budget=PURE, calibration="published")
    scale = papers.bandit_laplace(1.0, horizon=T, dim=n).scale
    assert pure._total.mechanism.scale() == pytest.approx(scale, rel=1e-12)
    assert pure.guarantee.pure < 0.6


def test_published_noise_that_does_not_keep_its_claim():
    """With a far smaller radius than the paper's the printed noise is not enough, and it says so."""
    with pytest.warns(PrivacyLeakWarning, match="claims"):
        learner = learner_on(horizon=1000, calibration="published", smoothing=1e-4)
    assert learner.guarantee.epsilon(1e-6) > 1.0


def test_published_needs_a_horizon():
    with pytest.raises(ValueError, match="horizon"):
        learner_on(horizon=None, calibration="published")
    with pytest.raises(ValueError, match="gamma"):
        learner_on(calibration="published", noise="gamma")
    with pytest.raises(ValueError, match="total"):
        learner_on(calibration="published", total="correlated")


# Settings that cannot be kept ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"budget": PURE, "total": "correlated"}, "delta"),
        ({"budget": PURE, "noise": "gaussian", "total": "tree"}, "delta"),
        ({"total": "correlated", "noise": "gamma"}, "Gaussian"),
        ({"total": "window"}, "total"),
        ({"noise": "cauchy", "total": "tree"}, "noise"),
        ({"budget": BUDGET.with_(window=10)}, "window"),
        ({"smoothing": 0.5}, "inner radius"),
        ({"smoothing": -1.0}, "smoothing"),
        ({"lipschitz": 0.0}, "lipschitz"),
        ({"values": (1.0, 1.0)}, "low < high"),
        ({"values": 3.0}, "pair"),
        ({"values": (0.0, math.inf)}, "values"),
        ({"horizon": 0}, "horizon"),
        ({"batches": 0}, "batches"),
        ({"feasibility": "hope"}, "feasibility"),
        ({"centring": "left"}, "centring"),
        ({"mirror": "entropy"}, "Simplex"),
        ({"patience": 0}, "patience"),
        ({"step": math.nan}, "step"),
        ({"calibration": "loose"}, "calibration"),
    ],
)
def test_refused(facts, match):
    with pytest.raises(ValueError, match=match):
        learner_on(**facts)


def test_refused_types():
    for facts in ({"budget": 1.0}, {"mirror": 3}, {"private": None}, {"seed": "a"}):
        with pytest.raises(TypeError):
            learner_on(**facts)
    with pytest.raises(TypeError, match="ConvexSet"):
        bandit.ProjectionFreeBandit([0, 1], budget=BUDGET, lipschitz=1.0)
    with pytest.raises(ValueError, match="bounded"):
        learner_on(sets.WholeSpace(3))
    with pytest.raises(ValueError, match="more than one point"):
        learner_on(sets.Simplex(1))


def test_lattice_has_room_for_every_record():
    """The exact total holds all records at full norm, late ones of earlier epochs included."""
    learner = learner_on(horizon=10**6, patience=10**6)
    total = learner._total
    assert total.mechanism.records == 2 * 10**6
    assert learner._plan.norm * 2e6 / total._noise.step < 2**62
    assert plan.layout(10**6, None) == (1000, 1000)
