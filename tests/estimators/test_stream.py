"""The stream under the faces against its NumPy reference, and its kernels on hard numbers."""

import copy
import math
import pickle

import numpy as np
import pytest

import reticent
from reticent import losses
from reticent.estimators import kernels as k
from reticent.estimators.stream import Softmax, Stream, StreamPlan
from reticent.losses.kernels import HUBER, LOGISTIC, SOFTMAX
from reticent.privacy import ForkError
from reticent.state import files

from . import reference

KINDS = {"binary": (LOGISTIC, 1), "softmax": (SOFTMAX, 5), "huber": (HUBER, 1)}


def plan(kind="binary", columns=3, **changes):
    number, outputs = KINDS[kind]
    fields = {
        "kind": number, "columns": columns, "outputs": outputs,
        "budget": reticent.Budget(1.0, 1e-6), "feature_norm": 1.0, "scaling": 0.3, "ridge": 1e-3,
        "coefficient_norm": 10.0, "horizon": None, "seed": 0, "influence": 0.5,
    }  # fmt: skip
    return StreamPlan(**(fields | changes))


def records(kind, count, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, columns))
    if kind == "binary":
        return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(count) > 0, 1.0, -1.0)
    if kind == "softmax":
        return X, np.argmax(X @ rng.standard_normal((columns, 5)), axis=1).astype(float)
    return X, np.clip(0.5 * X[:, 0], -1, 1)


def noise_of(stream, count):
    """The noise of every total, from a second total with the same seed that is fed zeros."""
    twin = Stream(stream.plan)._learner.total
    return twin.run(np.zeros((count, twin.dim)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scaling", "norm"), [(0.0, 1.0), (0.3, 1.0), (0.3, 2.0)])
@pytest.mark.parametrize("many", [False, True])
def test_equals_the_reference_over_2000_records(kind, scaling, norm, many):
    X, labels = records(kind, 2000)
    stream = Stream(plan(kind, scaling=scaling, feature_norm=norm, horizon=2000))
    expected = reference.leader(
        kind, X, labels, noise_of(stream, 2000), outputs=KINDS[kind][1], norm=norm,
        scaling=scaling, ridge=1e-3, radius=10.0, influence=0.5,
        deviation=stream._learner.mechanism.error(2000),
    )  # fmt: skip
    if many:
        for start in (0, 700, 701):
            stop = {0: 700, 700: 701, 701: 2000}[start]
            stream.learn(X[start:stop], labels[start:stop])
            np.testing.assert_allclose(stream.weights, expected[stop - 1], atol=1e-6)
        return
    for t in range(2000):
        stream.learn_one(X[t], labels[t])
        if t % 97 == 0 or t == 1999:
            # totals are whole steps of a lattice, which the reference has not
            np.testing.assert_allclose(stream.weights, expected[t], atol=1e-6)


def test_clipped_records_are_counted_and_shortened():
    X, labels = records("binary", 500)
    stream = Stream(plan())
    stream.learn(X, labels, beyond=3)
    long = int((np.linalg.norm(X, axis=1) > 1).sum())
    assert stream.clipped == losses.ClipCounts(long, 3, 500)


@pytest.mark.parametrize("norm", [1.0, 1e-8, 1e8])
@pytest.mark.parametrize("size", [1e-300, 1e-5, 1.0, 1e5, 1e160, 1e308])
def test_features_in_units_of_the_norm_are_not_longer_than_one(norm, size):
    rng = np.random.default_rng(0)
    out = np.empty(7)
    for _ in range(50):
        v = rng.uniform(-1, 1, 7) * size
        clipped = k.unit(v, norm, out)
        length = np.linalg.norm(out)
        assert length <= 1.0
        largest = np.abs(v).max()
        assert clipped == (largest / norm * np.linalg.norm(v / largest) > 1.0)
        if clipped:
            assert length >= 1.0 - 1e-11


def test_features_that_are_not_finite_are_refused():
    for bad in (np.nan, np.inf, -np.inf):
        assert k.unit(np.array([0.0, bad]), 1.0, np.empty(2)) == k.REFUSED
    assert k.unit(np.array([1e308, 1e308, np.nan]), 1.0, np.empty(3)) == k.REFUSED


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_is_longer_than_what_noise_was_made_for(kind):
    """The release's sensitivity is the norm of a stacked gradient; the total clips to it."""
    p = plan(kind, feature_norm=2.0)
    stream = Stream(p)
    longest = 0.5 * math.hypot(1.0, 0.3)
    assert stream._learner.total.norm == pytest.approx(longest, rel=1e-8)
    assert stream._learner.budget == p.budget
    for release in stream.guarantee.releases:
        assert release.sensitivity == pytest.approx(longest, rel=1e-6)


def test_softmax_is_a_loss_with_the_constants_that_it_states():
    loss = Softmax(3, 1.0, 0.1)
    rng = np.random.default_rng(0)
    x, a = rng.standard_normal(6), rng.standard_normal(2)
    g, step = loss.gradient(x, a, 1), 1e-6
    numeric = [
        (loss.value(x + step * e, a, 1) - loss.value(x - step * e, a, 1)) / (2 * step)
        for e in np.eye(6)
    ]
    np.testing.assert_allclose(g, numeric, atol=1e-8)
    steepest = bent = 0.0
    for _ in range(300):
        p = rng.dirichlet(np.full(3, 0.1))
        steepest = max(steepest, np.linalg.norm(p - [0, 1, 0]))
        bent = max(bent, np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max())
    assert 0.99 * loss.data_lipschitz() < steepest <= loss.data_lipschitz()
    assert 0.4 < bent <= loss.smoothness - loss.ridge


@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_bad_records_leave_the_stream_as_it_was(kind):
    X, labels = records(kind, 300)
    clean, troubled = Stream(plan(kind)), Stream(plan(kind))
    for t in range(300):
        clean.learn_one(X[t], labels[t])
        with pytest.raises(ValueError, match="finite"):
            troubled.learn_one(np.array([0.0, np.nan, 1.0]), labels[t])
        troubled.learn_one(X[t], labels[t])
    np.testing.assert_array_equal(clean.weights, troubled.weights)
    assert clean.clipped == troubled.clipped


def test_horizon_is_kept_and_nothing_is_learnt_beyond_it():
    X, labels = records("softmax", 20)
    stream = Stream(plan("softmax", horizon=15))
    stream.learn(X[:10], labels[:10])
    before = stream.weights.copy()
    with pytest.raises(ValueError, match="5 of horizon=15 are left"):
        stream.learn(X[10:], labels[10:])
    np.testing.assert_array_equal(stream.weights, before)
    stream.learn(X[10:15], labels[10:15])
    assert stream.finished
    with pytest.raises(ValueError, match="horizon"):
        stream.learn_one(X[15], labels[15])


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_first_twin_to_go_on_wins(duplicate, quadratic):
    X, labels = records("huber", 400)
    fields = {"quadratic": quadratic}
    whole, stream = Stream(plan("huber", **fields)), Stream(plan("huber", **fields))
    for t in range(400):
        whole.learn_one(X[t], labels[t])
    for t in range(200):
        stream.learn_one(X[t], labels[t])
    twin, late = duplicate(stream), duplicate(stream)
    np.testing.assert_array_equal(twin.weights, stream.weights)
    for t in range(200, 400):
        twin.learn_one(X[t], labels[t])
    np.testing.assert_array_equal(twin.weights, whole.weights)
    assert twin.clipped == whole.clipped
    for other in (late, stream, duplicate(late)):
        seen = other.weights.copy()
        with pytest.raises(ForkError):
            other.learn_one(X[200], labels[200])
        np.testing.assert_array_equal(other.weights, seen)


# the quadratic leader takes no gradients, so it has no other weights to take them at
@pytest.mark.parametrize(
    ("quadratic", "base"), [(False, None), (True, None), (False, np.array([1.0, -2.0, 3.0, -4.0]))]
)
def test_a_state_goes_on_as_if_nothing_had_happened(quadratic, base):
    X, labels = records("huber", 300)
    p = plan("huber", quadratic=quadratic)
    whole, stream = Stream(p, base), Stream(p, base)
    whole.learn(X, labels, beyond=4)
    stream.learn(X[:200], labels[:200], beyond=3)
    written = files.loads(files.dumps(stream.state()))
    twin, late = (Stream.from_state(written) for _ in range(2))
    np.testing.assert_array_equal(twin.weights, stream.weights)
    assert (twin.seen, twin.clipped) == (200, stream.clipped)
    assert twin.gradients_clipped == stream.gradients_clipped
    assert str(twin.guarantee) == str(stream.guarantee)
    again = files.loads(files.dumps(twin.state()))  # of a twin that has not gone on
    np.testing.assert_array_equal(again["weights"], written["weights"])
    twin.learn(X[200:], labels[200:], beyond=1)
    np.testing.assert_array_equal(twin.weights, whole.weights)
    assert twin.clipped == whole.clipped
    for other in (late, stream, Stream.from_state(again)):
        with pytest.raises(ForkError):
            other.learn_one(X[200], labels[200])


def test_a_stream_that_was_interrupted_has_no_state(monkeypatch):
    X, labels = records("binary", 30)
    stream = Stream(plan())
    stream.learn(X[:10], labels[:10])
    real = Stream._absorb

    def cut_short(self, rows, labels, person):
        real(self, rows[:5], labels[:5], person)
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "_absorb", cut_short)
    with pytest.raises(KeyboardInterrupt):
        stream.learn(X[10:], labels[10:])
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="5 of 20 records"):
        stream.state()


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_is_a_step_whose_gradient_is_nothing(kind):
    """Against the plan's own learner, which is told of the gap."""
    X, labels = records(kind, 40)
    stream = Stream(plan(kind, horizon=42))
    stream.learn(X[:20], labels[:20])
    stream.gap()
    stream = Stream.from_state(stream.state())
    stream.gap()  # also the first step of a twin
    stream.learn(X[20:], labels[20:])
    assert stream.seen == 42
    assert stream.finished
    learner, settings = stream.plan.learner(), stream.plan.settings()
    for t in range(40):
        if t == 20:
            learner.update(None)
            learner.update(None)
        gradient = np.empty(learner.dim)
        k.see(stream.plan.kind)(X[t], labels[t], learner.decision, settings, gradient)
        learner.update(gradient)
    np.testing.assert_allclose(stream.weights.ravel(), learner.decision, atol=1e-9)
    with pytest.raises(ValueError, match="horizon"):
        stream.gap()
    assert stream.seen == 42


def test_weights_of_an_earlier_stream_are_where_a_new_one_starts():
    X, labels = records("binary", 50)
    base = np.array([1.0, 2.0, 3.0, 4.0])
    stream = Stream(plan(), base)
    np.testing.assert_array_equal(stream.weights[0], base)
    one = Stream(plan(), base)
    stream.learn(X, labels)
    for t in range(50):
        one.learn_one(X[t], labels[t])
    np.testing.assert_array_equal(stream.weights, one.weights)
    assert np.linalg.norm(stream.weights[0] - base) < 10.0


def test_stacking_needs_no_split_of_the_budget():
    """The release that a record enters is one Gaussian at the whole budget, whatever K."""
    for kind in KINDS:
        g = Stream(plan(kind)).guarantee
        assert g.gdp == pytest.approx(reticent.Budget(1.0, 1e-6).mu, rel=1e-9)
        assert g.meets(reticent.Budget(1.0, 1e-6))
    assert "not split" in Stream(plan("softmax")).guarantee.explain()
    pure = Stream(plan("softmax", budget=reticent.Budget(1.0)))
    assert pure.guarantee.pure == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True])
def test_blanking_any_record_moves_the_total_by_no_more_than_the_norm(kind, many):
    """The exact total, before noise, against that of a stream whose last record is a gap."""
    rng = np.random.default_rng(7)
    largest = 0.0
    for trial in range(60):
        X, labels = records(kind, 6, seed=trial)
        X *= 10.0 ** rng.uniform(-3, 300)
        stream, blank = (Stream(plan(kind, seed=trial)) for _ in range(2))
        for other in (stream, blank):
            other._base = 5.0 * rng.standard_normal(other._weights.size) if trial % 2 else None
        blank._base = stream._base
        for t in range(5):
            for other in (stream, blank):
                other.learn_one(X[t], labels[t])
        if many:
            stream.learn(X[5:], labels[5:])
        else:
            stream.learn_one(X[5], labels[5])
        blank._learner.update(None)
        total, empty = stream._learner.total, blank._learner.total
        moved = np.linalg.norm((total._total - empty._total) * total._noise.step)
        assert moved <= total.norm
        largest = max(largest, moved / total.norm)
    assert largest > 0.5  # the bound is not idle
