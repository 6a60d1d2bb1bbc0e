"""Noise on demand: its joint law is that of the dense total, by linear algebra; states, forks and bad input."""

from __future__ import annotations

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.privacy import ForkError
from reticent.sums import on_demand_kernels as k

BUDGET = reticent.Budget(1.0, 1e-6)


def described(dim=4, horizon=None, **more):
    return sums.CorrelatedMechanism(
        dim, horizon, budget=more.pop("budget", BUDGET), noise_precision="float", **more
    )


def draw(total, rows, t, normals, used):
    return k.noise_at(
        total._buffers, 0, rows, float(t), total._filters, total._jumps, normals, used
    )


def responses(mechanism, times):
    """Noise at these steps as a matrix times the normals that were drawn for it."""
    total = sums.OnDemand(mechanism, seed=0)
    most = k.most_normals(total._buffers, times[-1]) * len(times)
    out, drawn = np.zeros((len(times), most)), 0
    for column in range(most):
        normals = np.zeros(most)
        normals[column] = 1.0
        rows, used = np.zeros((1, total._width)), 0
        rows[0, k.NEXT] = 1.0
        for r, t in enumerate(times):
            used = draw(total, rows, t, normals, used)
            out[r, column] = rows[0, k.NOISE]
        drawn = used
    assert not out[:, drawn:].any()
    return out


def dense_covariance(mechanism, times):
    """The same of the dense total: N = C z, the filter's coefficients written out."""
    p = mechanism.parameters
    gap, weight = np.array(p.gap), np.array(p.weight)
    last = times[-1]
    c = np.ones(last)
    for lag in range(1, last):
        c[lag] = np.sum(weight * (1.0 - gap) ** (lag - 1))
    C = np.zeros((len(times), last))
    for r, t in enumerate(times):
        C[r, :t] = c[:t][::-1]
    return C @ C.T


@pytest.mark.parametrize(
    ("horizon", "window"), [(100, None), (3000, None), (None, None), (None, 64)]
)
@pytest.mark.parametrize(
    "times",
    [
        list(range(1, 12)),
        [1, 2, 3, 50, 51, 52, 90],
        [7, 8, 20, 29, 99],
        [100],
        [5, 11, 18, 26, 35, 45, 56, 68, 81, 95],
    ],
)
def test_joint_law_is_the_dense_one(horizon, window, times):
    budget = BUDGET if window is None else BUDGET.with_(window=window)
    mechanism = described(1, horizon, budget=budget)
    M = responses(mechanism, times)
    wanted = dense_covariance(mechanism, times)
    assert np.abs(M @ M.T - wanted).max() <= 1e-11 * wanted.max()


def test_joint_law_after_long_gaps():
    mechanism = described(1, 10**6)
    times = [3, 4, 900, 901, 2900, 2999, 3000]
    M = responses(mechanism, times)
    wanted = dense_covariance(mechanism, times)
    assert np.abs(M @ M.T - wanted).max() <= 1e-10 * wanted.max()
    assert mechanism.scale() * math.sqrt(wanted[-1, -1]) == pytest.approx(mechanism.error(3000))


def exact_covariance(mechanism, times):
    """The same in closed form with 60 digits, for steps that no matrix could hold."""
    p = mechanism.parameters
    with mpmath.workdps(60):
        decays = [1 - mpmath.mpf(gap) for gap in p.gap]
        weights = [mpmath.mpf(weight) for weight in p.weight]
        pairs = list(itertools.product(zip(decays, weights, strict=True), repeat=2))

        def cell(s, t):
            lag = t - s
            found = (
                sum(w * d ** (lag - 1) for d, w in zip(decays, weights, strict=True)) if lag else 1
            )
            for (a, v), (b, w) in pairs:
                steps = s - 1 if a * b == 1 else (1 - (a * b) ** (s - 1)) / (1 - a * b)
                found += v * w * b**lag * steps
            return float(found)

        return np.array([[cell(min(s, t), max(s, t)) for s in times] for t in times])


def test_the_closed_form_is_that_of_the_matrix():
    mechanism, times = described(1, 3000), [1, 2, 7, 90, 99]
    wanted = dense_covariance(mechanism, times)
    assert np.abs(exact_covariance(mechanism, times) - wanted).max() <= 1e-12 * wanted.max()


@pytest.mark.parametrize(
    ("horizon", "times"),
    [
        (None, [1, 2**20 + 3, 2**32 + 1, 2**40 - 1, 2**40]),
        (None, [256, 512, 65_536, 65_537, 2**24, 2**39]),
        (2**40, [5, 2**39, 2**40 - 2]),
    ],
)
def test_joint_law_after_the_longest_gaps(horizon, times):
    mechanism = described(1, horizon)
    M = responses(mechanism, times)
    wanted = exact_covariance(mechanism, times)
    size = np.sqrt(np.diag(wanted))
    assert np.abs((M @ M.T - wanted) / np.outer(size, size)).max() <= 1e-10


@pytest.mark.parametrize("epsilon", [1e-6, 1e7])
def test_joint_law_at_extreme_budgets(epsilon):
    mechanism = described(1, budget=reticent.Budget(epsilon, 1e-6))
    times = [1, 3, 300, 70_000]
    M, wanted = responses(mechanism, times), exact_covariance(mechanism, times)
    assert np.abs(M @ M.T - wanted).max() <= 1e-10 * wanted.max()
    assert mechanism.scale() * math.sqrt(wanted[-1, -1]) == pytest.approx(mechanism.error(70_000))


def test_what_skipped_steps_add_has_the_covariance_of_the_steps():
    """The vector that a gap adds to the buffers, against the sum over its steps written out."""
    total = sums.OnDemand(described(1, 10**6), seed=0)
    gap = np.array(total.mechanism.parameters.gap)
    n = len(gap)
    for g in (1, 2, n, n + 1, 11, 40, 255, 256, 300, 2000, 65_536, 100_000):
        steps = np.arange(g)
        impulse = (1.0 - gap)[:, None] ** steps
        columns = []
        most = k.most_normals(n, g) - 1
        for at in range(most):
            normals, rows = np.zeros(most), np.zeros((1, total._width))
            normals[at] = 1.0
            k.skip(n, 0, rows, g, total._jumps, normals, 0)
            columns.append(rows[0, k.BUFFERS :])
        L = np.array(columns).T
        wanted = impulse @ impulse.T
        size = np.sqrt(np.diag(wanted))
        assert np.abs((L @ L.T - wanted) / np.outer(size, size)).max() < 1e-12


def test_read_at_every_step_it_is_the_dense_recursion():
    mechanism = described(1, 50)
    dense, normals = np.zeros(50), np.random.default_rng(0).standard_normal(500)
    s = np.zeros(len(mechanism.parameters.gap))
    for t in range(50):
        dense[t] = normals[t] + s @ mechanism.parameters.weight
        s = (1.0 - np.array(mechanism.parameters.gap)) * s + normals[t]
    total = sums.OnDemand(mechanism, seed=0)
    rows, used, found = np.zeros((1, total._width)), 0, []
    rows[0, k.NEXT] = 1.0
    for t in range(50):
        used = draw(total, rows, t + 1, normals, used)
        found.append(rows[0, k.NOISE])
    assert used == 50
    np.testing.assert_allclose(found, dense, rtol=1e-12)


def test_sample_variance_over_coordinates():
    """A billionth of a false alarm: 6.5 standard deviations of a chi-square with 2^15 degrees of freedom."""
    mechanism = described(2**15, 1000)
    total = sums.OnDemand(mechanism, seed=1)
    for _ in range(10):
        total.add(None)
    everyone = np.arange(2**15)
    first = total.read(everyone)
    for _ in range(700):
        total.add(None)
    last = total.read(everyone)
    for values, t in ((first, 10), (last, 710)):
        ratio = np.mean(values**2) / mechanism.error(t) ** 2
        assert abs(ratio - 1.0) < 6.5 * math.sqrt(2.0 / 2**15)


def test_what_was_read_stays_and_clean_totals_are_added():
    total = sums.OnDemand(described(10, 100), seed=0)
    assert total.read([1, 2]).tolist() == [0.0, 0.0]
    total.add([3], [1.0])
    first = total.read([3, 4])
    assert total.read([4, 3]).tolist() == first[::-1].tolist()
    total.add([3, 5], [30.0, 40.0])  # clipped to 0.6, 0.8
    row = k.find(3, total._places, total._rows, total._counters)
    assert total._rows[row, k.TOTAL] == pytest.approx(1.6)
    assert total.touched == 5


def test_memory_is_that_of_touched_coordinates():
    total = sums.OnDemand(described(2**40, 100), seed=0)
    total.add([2**39 + 5], [1.0])
    many = np.arange(5000) * 2**20
    values = total.read(many)
    assert total.touched == 5001
    assert np.array_equal(total.read(many), values)


def test_a_state_goes_on_with_the_same_noise_and_only_once():
    total = sums.OnDemand(described(100, 1000), seed=None)
    total.add([1, 2], [0.5, 0.5])
    total.read([1, 7])
    state = total.state()
    twin = sums.OnDemand.from_state(state)
    total.add([2], [1.0])
    with pytest.raises(ForkError):
        twin.read([9])  # reading draws noise, and is a move of the stream
    late = pickle.loads(pickle.dumps(total))
    total.read([1, 2, 50])
    with pytest.raises(ForkError):
        late.add([1], [1.0])
    with pytest.raises(ForkError):
        sums.OnDemand.from_state(state)


def test_a_restored_total_continues_as_if_nothing_had_happened():
    mechanism = described(100, 1000)
    one, other = sums.OnDemand(mechanism, seed=5), sums.OnDemand(mechanism, seed=5)
    for total in (one, other):
        total.add([1, 2], [0.5, 0.5])
        total.read([1, 7])
    state = other.state()
    del other
    other = sums.OnDemand.from_state(state)
    for total in (one, other):
        total.add([3], [1.0])
    assert np.array_equal(one.read(np.arange(100)), other.read(np.arange(100)))


class _Counting:
    """A source whose normals are 1, 2, 3 ... so that one that is used twice shows; it breaks off when told to."""

    def __init__(self):
        self.given, self.breaks = 0, False

    def state(self):
        return {}

    def ratchet(self):
        pass

    def normals(self, out):
        for i in range(out.size):
            if self.breaks and i == out.size // 2:
                self.breaks = False
                raise KeyboardInterrupt
            self.given += 1
            out[i] = self.given


@pytest.mark.parametrize("sizes", [(5000, 5000), (40_000, 100), (100, 40_000), (2**15, 2**15)])
def test_no_normal_is_used_twice_whatever_interrupts_the_next_block(sizes):
    """At the first step the noise of a coordinate is one normal as it was drawn."""
    total = sums.OnDemand(described(2**22, 100), seed=0)
    total._source = source = _Counting()
    total.add(None)
    used, start = [], 0
    for turn in range(30):
        source.breaks = turn % 3 == 2
        count = sizes[turn % 2]
        try:
            values = total.read(np.arange(start, start + count)) / total._scale
        except KeyboardInterrupt:
            continue
        start += count
        used.extend(np.round(values).astype(int).tolist())
    assert len(used) == len(set(used)) == start
    assert source.given > 3 * 2**15


def test_later_states_do_not_hold_the_key_of_earlier_noise():
    total = sums.OnDemand(described(2**16, 1000), seed=0)
    total.add([1], [1.0])
    first = total.state()["source"]["next"]
    total.read(np.arange(20_000))
    total.add([1], [1.0])
    total.read(np.arange(20_000))
    assert total.state()["source"]["next"] != first


def test_the_guarantee_says_what_it_is():
    guarantee = sums.OnDemand(described(3, 10), seed=None).guarantee
    text = guarantee.explain()
    assert "on demand" in text
    assert "floating-point" in str(guarantee)
    assert guarantee.epsilon(1e-6) == pytest.approx(1.0)


def test_a_ledger_is_charged():
    with reticent.Ledger(reticent.Budget(1.5, 1e-5)) as ledger:
        sums.OnDemand(described(3, 10), seed=0)
        assert ledger.spent.epsilon(1e-5) > 0.8


@pytest.mark.parametrize(
    ("indices", "values", "words"),
    [
        ([0, 0], [1.0, 1.0], "must not contain a coordinate twice"),
        ([10], [1.0], "from 0 to 9"),
        ([-1], [1.0], "from 0 to 9"),
        ([0.5], [1.0], "integers"),
        ([0], [math.nan], "values"),
        ([0, 1], [1.0], "values"),
    ],
)
def test_bad_input_changes_nothing(indices, values, words):
    total = sums.OnDemand(described(10, 10), seed=0)
    with pytest.raises(ValueError, match=words):
        total.add(indices, values)
    assert total.steps == 0
    assert total.touched == 0


def test_a_lattice_is_refused():
    with pytest.raises(ValueError, match="floating point only"):
        sums.OnDemand(described(3, 10).with_(noise_precision="lattice"))


def test_the_horizon_ends():
    total = sums.OnDemand(described(3, 2), seed=0)
    total.add(None)
    total.add(None)
    with pytest.raises(ValueError, match="horizon"):
        total.add(None)


def test_persons_are_told_apart_and_kept():
    """A promise about persons is kept by the total itself: surplus records are blanked, ids are asked for."""
    rule = reticent.privacy.Participation(2, 3)
    total = sums.OnDemand(described(participation=rule), seed=0)
    assert total.guarantee.unit == "person"
    with pytest.raises(ValueError, match="person"):
        total.add([0], [1.0])
    assert total.steps == 0
    for _ in range(4):
        total.add([0], [1.0], person="ann")
    total.add(None)
    total = sums.OnDemand.from_state(total.state())
    for _ in range(4):
        total.add([0], [1.0], person="ann")
    total.add([1], [1.0], person="bob")
    clean = {int(row[k.COORDINATE]): row[k.TOTAL] for row in total._rows[: total.touched]}
    assert clean == pytest.approx({0: 2.0, 1: 1.0})
    assert total.steps == 10
    records = sums.OnDemand(described(), seed=0)
    with pytest.raises(ValueError, match="single records are protected"):
        records.add([0], [1.0], person="ann")
