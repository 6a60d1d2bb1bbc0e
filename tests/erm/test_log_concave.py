"""Exact draws from log-concave densities: their law, their last bits, and how many proposals they take."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from scipy.stats import binom, binomtest, chisquare, kstest

import reticent
from reticent import audit, erm, losses, sets
from reticent.erm import log_concave
from reticent.erm.log_concave import ENOUGH, Sampler, _Point, largest_exponent, rounding
from reticent.erm.reading import read
from reticent.noise import Source

from .reference import records

PURE = reticent.Budget(1.0)
MEDIAN = losses.Quantile(0.5)


def prepared(loss, where, A, y=None, budget=PURE):
    return read(loss, where, A, y, budget, noise_precision="lattice")


def balanced(count, away=0.5):
    """As many labels above the center of the box as below: a subgradient there is exactly 0."""
    return np.ones((count, 1)), np.repeat([-away, away], count // 2)


def slanted(count, angle, dim=2):
    """Records of one direction: the density is constant across it and narrow along it."""
    row = np.zeros(dim)
    row[:2] = math.cos(angle), math.sin(angle)
    return np.tile(row, (count, 1)), np.where(np.arange(count) % 2, 0.01, -0.01)


# Last bits: what can come out must not depend on the records.


def neighbours():
    """Samplers for a balanced median and for the same with one record blanked: about exp(-1000 |x|)."""
    A, y = balanced(2000, away=1e-4)
    other = A.copy()
    other[0] = 0.0
    where = sets.Box([-1.0], [1.0])
    return [Sampler(prepared(MEDIAN, where, rows, y), 1.0, 0.0) for rows in (A, other)]


def test_last_bits_tell_nothing():
    # The audit of last bits at its own false alarm of 1e-6. A cell's depth used to show in them.
    samplers, source = neighbours(), Source(11)

    def release(true, size):
        sampler = samplers[int(true)]
        return np.array([sampler.draw(source)[0] for _ in range(size)])

    finding = audit.numbers(release, claim=1.0, value=1.0, runs=1500)
    assert finding.holds, finding


def test_outputs_are_as_fine_as_doubles_for_all_records():
    # A point of the whole box, cut at 64 bits, is a multiple of 2^-63. Of the doubles below 2^-12
    # three in four or more are not, and a draw is one of them with probability 0.21 in both worlds:
    # none in 200 draws has probability 0.84^200 < 1e-15.
    source = Source(12)
    for sampler in neighbours():
        draws = [sampler.draw(source)[0] for _ in range(200)]
        assert any(Fraction(x) * 2**63 % 1 for x in draws)
        assert audit.grid(draws) < 2.0**-63


@pytest.mark.parametrize(
    ("where", "k"),
    [
        (sets.Box([0.1], [0.7]), 1e-3),  # edges that are no dyadic numbers
        (sets.Box([0.5], [0.9]), 200.0),
        (sets.Box([1e6], [1e6 + 1.0]), 1e-3),
        (sets.L2Ball(1, 0.3), 1e-3),
        (sets.L2Ball(1, 3e-200), 1e-3),
    ],
)
def test_the_lowest_bits_of_a_mantissa_are_fair(where, k):
    # The density is smooth, so within a binade the last four bits are uniform but for 2^-40.
    # False alarm 1e-6 over both data sets.
    source = Source(13)
    for y in ([0.6, 0.6], [0.6, 0.9]):
        sampler = Sampler(prepared(losses.Squared(), where, np.ones((2, 1)), y), k, 0.0)
        draws = [math.frexp(sampler.draw(source)[0])[0] for _ in range(1600)]
        last = [int(x * 2**53) % 16 for x in draws]
        assert chisquare(np.bincount(last, minlength=16)).pvalue > 5e-7


def exact_ends(point):
    """The interval of every coordinate in fractions, from the description of the frame alone."""
    frame = point.sampler.frame
    out = []
    for i, row in enumerate(frame.axes):
        low = high = Fraction(float(frame.origin[i]))
        for j, axis in enumerate(row):
            start = (Fraction(point.words[j], 2**point.length) + point.index[j]) / 2 ** point.depth[
                j
            ]
            stop = start + Fraction(1, 2 ** (point.depth[j] + point.length))
            ends = sorted((Fraction(float(axis)) * start, Fraction(float(axis)) * stop))
            low, high = low + ends[0], high + ends[1]
        out.append((low, high))
    return out


def hard_cases():
    yield "interval", prepared(MEDIAN, sets.Box([-1 / 3], [0.7]), *balanced(20)), 50.0
    yield "turned", prepared(MEDIAN, sets.Box(-1.0, 1.0, dim=2), *slanted(40, 0.7)), 2500.0
    yield "border", prepared(losses.Linear(), sets.L2Ball(2, 0.7), slanted(40, 0.7)[0]), 2500.0
    yield "space", prepared(losses.Logistic(), sets.L2Ball(3), *records(count=25, dim=3)), 4.0
    yield "far", prepared(MEDIAN, sets.Box([1e9], [1e9 + 1e-3]), *balanced(20)), 0.5


@pytest.mark.parametrize("case", list(hard_cases()), ids=lambda case: case[0])
def test_points_round_as_their_real_numbers(case):
    _, problem, k = case
    sampler, source = Sampler(problem, k, 0.0), Source(14)
    if case[0] in ("turned", "border"):
        assert not sampler.frame.fits
        assert np.count_nonzero(sampler.frame.axes) == 4
    for at in np.random.default_rng(0).integers(len(sampler.weights), size=40):
        words = [int(word) for word in source.words(sampler.dim)]
        point = _Point(sampler, sampler.cells.index[at], sampler.cells.depth[at], words, source)
        first = exact_ends(point)
        ends, power = point.bounds()
        assert [(Fraction(a, 2**power), Fraction(b, 2**power)) for a, b in ends] == first
        rounded = point.rounded()
        # whatever bits are drawn after these
        for _ in range(3):
            point.extend()
            for x, (low, high), (a, b) in zip(rounded, exact_ends(point), first, strict=True):
                assert a <= low < high <= b
                assert float(low) == float(high) == x


def test_bits_are_drawn_until_the_double_is_certain():
    # The first 64 bits put the point astride 0.5 + 2^-54, halfway between two doubles.
    problem = prepared(MEDIAN, sets.Box([0.0], [1.0]), np.zeros((1, 1)), [0.0])
    sampler = Sampler(problem, 1.0, 0.0)
    sampler.frame = log_concave._Frame(np.array([2.0**-120]), np.eye(1), np.ones(1))
    zero = np.zeros(1, np.int64)
    point = _Point(sampler, zero, zero, [2**63 + 2**10 - 1], Source(15))
    assert point.rounded() == 0.5
    assert point.length > 64
    point = _Point(sampler, zero, zero, [2**63 + 2**10], Source(15))
    assert point.rounded() == 0.5 + 2.0**-53
    assert point.length == 64


def test_no_zero_is_negative():
    # Numbers too small for a denormal round to 0 from both sides, and look the same.
    problem = prepared(MEDIAN, sets.L2Ball(1, 1.0), np.zeros((1, 1)), [0.0])
    sampler = Sampler(problem, 1.0, 0.0)
    zero = np.zeros(1, np.int64)
    for origin in (-(2.0**-1074), 0.0):
        sampler.frame = log_concave._Frame(np.array([origin]), np.array([[2.0**-1074]]), np.ones(1))
        word = 2**63 + 1 if origin else 2**62
        (x,) = _Point(sampler, zero, zero, [word], Source(16)).rounded()
        assert x == 0.0
        assert math.copysign(1.0, x) == 1.0


def test_membership_is_that_of_real_numbers():
    where = sets.L2Ball(2, 1.0)
    sampler = Sampler(prepared(losses.Logistic(), where, np.ones((2, 2)), np.ones(2)), 0.1, 0.0)
    axes = np.eye(2) * 2.0**-40
    zero = np.zeros(2, np.int64)

    def inside(origin, words, seed=0):
        sampler.frame = log_concave._Frame(np.array(origin), axes, np.ones(2))
        return _Point(sampler, zero, zero, words, Source(seed)).inside()

    assert inside([0.6 - 2.0**-40, 0.8 - 2.0**-40], [0, 0])
    assert not inside([0.6 + 2.0**-40, 0.8], [0, 0])
    # doubles next to 0.6 and 0.8: the point is decided by bits below theirs
    found = {inside([0.6, 0.8], [0, 0], seed) for seed in range(8)}
    exact = Fraction(0.6) ** 2 + Fraction(0.8) ** 2 - 1
    assert found == {exact < 0}
    # an interval that holds 0 is not outside because both its ends are
    sampler.frame = log_concave._Frame(np.array([-2.0, 0.0]), np.diag([4.0, 2.0**-40]), np.ones(2))
    point = _Point(sampler, zero, zero, [0, 0], Source(1))
    point.length = 0
    assert point._is_inside() is None


# The law.


def test_one_dimension_has_the_stated_law():
    # 4000 draws against the numerically integrated density; false alarm 1e-6
    rng = np.random.default_rng(0)
    A, y = np.ones((40, 1)), rng.uniform(-0.6, 0.9, 40)
    problem = prepared(losses.Quantile(0.3), sets.Box([-1.0], [1.5]), A, y)
    for k, ridge in ((1.0, 0.0), (6.0, 3.0), (400.0, 0.0)):
        sampler, source = Sampler(problem, k, ridge), Source(3)
        draws = [sampler.draw(source)[0] for _ in range(4000)]
        grid = np.linspace(-1.0, 1.5, 200_001)
        F = sum(np.maximum(0.3 * (b - grid), -0.7 * (b - grid)) for b in y) + ridge / 2 * grid**2
        density = np.exp(-k * (F - F.min()))
        cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        cumulative /= cumulative[-1]
        assert kstest(draws, lambda x, c=cumulative, g=grid: np.interp(x, g, c)).pvalue > 3e-7


def goodness(draws, edges, F, k, inside=None):
    """The p-value of draws in the bins of a coarse grid against sums over a fine one."""
    dim, parts = len(edges), len(edges[0]) - 1
    fine = 480 // dim**2
    middles = [
        (
            e[:-1, None] + np.diff(e)[:, None] * (np.arange(fine // parts) + 0.5) / (fine // parts)
        ).ravel()
        for e in edges
    ]
    points = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, dim)
    log = -k * F(points)
    if inside is not None:
        log = np.where(inside(points), log, -np.inf)
    mass = np.exp(log - log.max())
    shape = [n for _ in range(dim) for n in (parts, fine // parts)]
    law = mass.reshape(shape).sum(axis=tuple(range(1, 2 * dim, 2))).ravel()
    law /= law.sum()
    places = [np.clip(np.searchsorted(e, x, "right") - 1, 0, parts - 1)
              for e, x in zip(edges, draws.T, strict=True)]  # fmt: skip
    seen = np.bincount(np.ravel_multi_index(places, (parts,) * dim), minlength=parts**dim)
    kept = law * len(draws) > 5
    observed = np.append(seen[kept], seen[~kept].sum())
    expected = np.append(law[kept], law[~kept].sum()) * len(draws)
    if expected[-1] < 1e-3:
        assert observed[-1] <= 5
        observed, expected = observed[:-1], expected[:-1]
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def logistic(A, y):
    return lambda points: np.logaddexp(0, -y * (points @ A.T)).sum(axis=1)


@pytest.mark.parametrize(
    "where", [sets.L2Ball(2, 1.3), sets.Box([-1.0, -0.5], [0.8, 1.0]), sets.Box(-0.1, 0.3, dim=2)]
)
def test_two_dimensions_have_the_stated_law(where):
    # cells of a coarse grid against integrals over a fine one; 3000 draws, false alarm 1e-6
    A, y = records(count=25, dim=2)
    sampler, source = Sampler(prepared(losses.Logistic(), where, A, y), 0.7, 0.0), Source(5)
    draws = np.array([sampler.draw(source) for _ in range(3000)])
    assert all(where.contains(x) for x in draws)
    low, high = log_concave.bounding_box(where)
    edges = [np.linspace(a, b, 9) for a, b in zip(low, high, strict=True)]
    inside = None
    if isinstance(where, sets.L2Ball):
        inside = lambda points: np.linalg.norm(points, axis=1) <= 1.3  # noqa: E731
    assert goodness(draws, edges, logistic(A, y), 0.7, inside) > 1e-6


def test_a_narrow_slanted_density_has_the_stated_law():
    # The parallelepiped is turned; in its own coordinates the density is exp(-k n |s| / 2) cut off by
    # the box, a function of s = <a, x> but for corners. 3000 draws of s, false alarm 1e-6
    A, y = slanted(40, 0.7)
    sampler, source = (
        Sampler(prepared(MEDIAN, sets.Box(-1.0, 1.0, dim=2), A, y), 50.0, 0.0),
        Source(6),
    )
    assert not sampler.frame.fits
    s = np.array([sampler.draw(source) for _ in range(3000)]) @ A[0]
    grid = np.linspace(-0.1, 0.1, 40_001)
    F = sum(0.5 * np.abs(b - grid) for b in y)
    # the chord of the square at <a, x> = s: both ends lie on its upper and lower edges
    c, d = A[0]
    chord = (np.minimum(1, (grid + d) / c) - np.maximum(-1, (grid - d) / c)) / d
    density = np.exp(-50.0 * (F - F.min())) * chord
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cumulative /= cumulative[-1]
    assert kstest(s, lambda x: np.interp(x, grid, cumulative)).pvalue > 1e-6


def test_an_optimum_on_the_border_has_the_stated_law():
    # exp(-k n <a, x>) in the unit disk: the marginal of s = <a, x> is exp(-k n s) sqrt(1 - s^2).
    # 3000 draws, false alarm 1e-6 for both coordinates together
    A, _ = slanted(40, 0.7)
    sampler, source = Sampler(prepared(losses.Linear(), sets.L2Ball(2), A), 25.0, 0.0), Source(7)
    assert not sampler.frame.fits
    draws = np.array([sampler.draw(source) for _ in range(3000)])
    s, t = draws @ A[0], draws @ [-A[0, 1], A[0, 0]]
    grid = np.linspace(-1.0, -0.9, 400_001)
    density = np.exp(-1000.0 * (grid + 1.0)) * np.sqrt(1.0 - grid**2)
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    assert kstest(s, lambda x: np.interp(x, grid, cumulative / cumulative[-1])).pvalue > 5e-7
    # given s, the other coordinate is uniform on its chord
    assert kstest(t / np.sqrt(1.0 - s**2), "uniform", args=(-1.0, 2.0)).pvalue > 5e-7


def test_three_dimensions_have_the_stated_law():
    # 4000 draws in 64 bins of a grid; false alarm 1e-6
    A, y = records(count=25, dim=3)
    where = sets.Box([-0.1, -1.0, -0.5], [1.1, 0.7, 0.9])
    sampler, source = Sampler(prepared(losses.Logistic(), where, A, y), 1.5, 0.0), Source(8)
    draws = np.array([sampler.draw(source) for _ in range(4000)])
    edges = [np.linspace(a, b, 5) for a, b in zip(where.lower, where.upper, strict=True)]
    assert goodness(draws, edges, logistic(A, y), 1.5) > 1e-6


def test_undecided_draws_are_settled_as_the_real_numbers_say():
    # With a doubt so large that nothing is certain, every acceptance goes through interval
    # arithmetic: the same seed must then give the same points.
    rng = np.random.default_rng(0)
    A, y = np.ones((12, 1)), rng.uniform(-0.6, 0.9, 12)
    problem = prepared(losses.Huber(0.4), sets.Box([-1.0], [1.5]), A, y)
    plain, source = Sampler(problem, 2.0, 1.0), Source(8)
    want = [plain.draw(source)[0] for _ in range(15)]
    unsure, source = Sampler(problem, 2.0, 1.0), Source(8)
    unsure.doubt = 1e9
    np.testing.assert_array_equal([unsure.draw(source)[0] for _ in range(15)], want)


def test_sparse_records_draw_the_same():
    A, y = records(count=25, dim=2)
    dense = Sampler(prepared(losses.Logistic(), sets.L2Ball(2), A, y), 1.0, 0.0).draw(Source(9))
    sparse = prepared(losses.Logistic(), sets.L2Ball(2), sp.csr_array(A), y)
    np.testing.assert_array_equal(Sampler(sparse, 1.0, 0.0).draw(Source(9)), dense)


# Proposals: bounded by a constant, whatever the records.


def most_rounds(draws):
    """So many proposals suffice for the draws, but for a probability of 1e-9, if 1 in 8.5 is accepted."""
    count = draws
    while binom.cdf(draws - 1, count, 1 / 8.5) > 1e-9:
        count += draws
    return count


def all_cases():
    """Problems of which each was slow, refused or undecided once, or might be."""
    box = sets.Box([-1.0], [1.0])
    yield "balanced", prepared(MEDIAN, box, *balanced(20_000)), 1.0
    yield "balanced near", prepared(MEDIAN, box, *balanced(20_000, 1e-3)), 1.0
    yield "balanced close", prepared(MEDIAN, box, *balanced(20_000, 1e-6)), 1.0
    yield "equal records", prepared(MEDIAN, box, np.ones((20_000, 1)), np.full(20_000, 0.3)), 1.0
    yield "at the center", prepared(MEDIAN, box, np.ones((20_000, 1)), np.zeros(20_000)), 1.0
    yield "one record", prepared(MEDIAN, box, np.ones((1, 1)), [0.3]), 1.0
    yield "blank records", prepared(MEDIAN, sets.L2Ball(2), np.zeros((50, 2)), np.ones(50)), 1.0
    yield "at the end", prepared(MEDIAN, box, np.ones((20_000, 1)), np.ones(20_000)), 1.0
    cross = np.vstack([np.eye(2), -np.eye(2)]).repeat(500, axis=0)
    yield "symmetric", prepared(losses.Hinge(), sets.L2Ball(2, 1.0), cross, np.ones(2000)), 1.0
    diamond = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]) / math.sqrt(2)
    yield "diamond", prepared(losses.Hinge(), sets.Box(-1.6, 1.6, dim=2), diamond.repeat(500, axis=0),
                              np.ones(2000)), 5.0  # fmt: skip
    yield "slanted", prepared(MEDIAN, sets.Box(-1.0, 1.0, dim=2), *slanted(100, 0.7)), 1e4
    yield "slanted disk", prepared(MEDIAN, sets.L2Ball(2, 3.0), *slanted(100, 2.9)), 1e4
    yield "border", prepared(losses.Linear(), sets.L2Ball(2), slanted(100, 0.7)[0]), 1e4
    yield "corner", prepared(losses.Linear(), sets.Box(-1.0, 1.0, dim=2), slanted(100, 0.7)[0]), 1e4
    yield "flat box", prepared(losses.Logistic(), sets.Box([-1.0, 0.0], [1.0, 1e-12]),
                               *records(count=100, dim=2)), 100.0  # fmt: skip
    yield "far thin box", prepared(MEDIAN, sets.Box([1e6, 0.0], [1e6 + 1e-9, 1.0]),
                                   *slanted(100, 0.7)), 1.0  # fmt: skip
    yield "two doubles", prepared(MEDIAN, sets.Box([1.0], [1.0 + 2.0**-52]), *balanced(10)), 1e6
    yield "tiny ball", prepared(losses.Logistic(), sets.L2Ball(2, 1e-250), *records(dim=2)), 1e6
    yield "huge ball", prepared(losses.Logistic(), sets.L2Ball(2, 1e150), *records(dim=2)), 1e-152
    yield "space", prepared(losses.Squared(), sets.L2Ball(3), *records(count=100, dim=3)), 10.0


@pytest.mark.parametrize("case", list(all_cases()), ids=lambda case: case[0])
def test_proposals_are_bounded(case):
    # false alarm 1e-9 for each
    _, problem, k = case
    sampler, source = Sampler(problem, k, 0.0), Source(21)
    assert len(sampler.weights) < (200 if problem.dim == 1 else 3000)
    draws = np.array([sampler.draw(source) for _ in range(30)])
    assert sampler.rounds <= most_rounds(30)
    assert all(problem.set.contains(x) for x in draws)


@pytest.mark.parametrize("case", list(all_cases()), ids=lambda case: case[0])
def test_the_envelope_is_above_and_not_far(case):
    # Independently of how it is computed: at points of all cells, in plain double precision.
    _, problem, k = case
    sampler = Sampler(problem, k, 0.0)
    cells, rng = sampler.cells, np.random.default_rng(3)
    picked = rng.permutation(len(cells.floors))[:300]
    places = cells.index[picked, None, :] + rng.uniform(size=(len(picked), 20, sampler.dim))
    places *= np.ldexp(1.0, -cells.depth[picked])[:, None, :]
    points = sampler.frame.origin + places @ sampler.frame.axes.T
    z = points @ np.asarray(problem.A).T
    y = np.zeros(problem.count) if problem.y is None else problem.y
    scalar = {
        "Quantile": lambda: np.maximum(0.5 * (y - z), -0.5 * (y - z)),
        "Logistic": lambda: np.logaddexp(0, -y * z),
        "Hinge": lambda: np.maximum(0, 1 - y * z),
        "Linear": lambda: z,
        "Squared": lambda: 0.5 * (z - y) ** 2,
    }[type(problem.loss).__name__]()
    log = -k * scalar.sum(axis=-1)
    assert (log <= -k * cells.floors[picked, None] + 1e-3).all()
    # the whole envelope against what a lower bound certifies
    mass, filled = cells.mass(k), np.maximum(cells.filled(k), 1e-300)
    assert logsumexp(mass) <= math.log(ENOUGH) + logsumexp(mass, b=filled)


@pytest.mark.parametrize("sharpness", [1e2, 1e4, 1e6, 1e9])
def test_evaluations_grow_slowly(sharpness, monkeypatch):
    # The problems of the table in docs/algorithms/exponential-mechanism.md; k times the records is given.
    seen = []
    tangents = Sampler._tangents
    monkeypatch.setattr(
        Sampler, "_tangents", lambda self, x: (seen.append(len(x)), tangents(self, x))[1]
    )
    A, y = slanted(40, 0.7)
    for loss, where, labels in (
        (MEDIAN, sets.Box(-1.0, 1.0, dim=2), y),
        (losses.Linear(), sets.L2Ball(2), None),
        (losses.Linear(), sets.Box(-1.0, 1.0, dim=2), None),
    ):
        seen.clear()
        Sampler(prepared(loss, where, A, labels), sharpness / 40, 0.0)
        assert sum(seen) <= 1000 * math.log10(sharpness)


def test_balanced_records_and_their_neighbour_take_as_long():
    # One record more made the difference between one proposal and thousands.
    rounds = []
    for count in (20_000, 19_999):
        A, y = balanced(20_000, away=1e-3)
        A[count:] = 0.0
        sampler, source = (
            Sampler(prepared(MEDIAN, sets.Box([-1.0], [1.0]), A, y), 1.0, 0.0),
            Source(4),
        )
        for _ in range(50):
            sampler.draw(source)
        rounds.append(sampler.rounds)
    assert max(rounds) <= most_rounds(50)


# What double precision cannot resolve.


def test_the_exponent_is_limited_to_what_doubles_resolve():
    A, y = records(count=300, dim=2)
    loss, where = losses.Logistic(), sets.L2Ball(2, 2.0)
    for budget in (reticent.Budget(1e15), reticent.Budget(1e15, 1e-6)):
        fit = erm.exponential_mechanism(loss, where, A, y, budget=budget, seed=0)
        k, ridge = fit.trace.settings["k"], fit.trace.settings["ridge"]
        assert k == largest_exponent(prepared(loss, where, A, y, budget), ridge)
        assert fit.guarantee.meets(budget)
        assert "limited by double precision" in fit.guarantee.explain()
        assert fit.guarantee.epsilon(0.0 if budget.delta == 0 else 1e-6) < 1e14
        assert fit.trace.facts["proposals"] < 200
        best = losses.best_fixed(where, loss, A, y, gap=1e-11)
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-8
    usual = erm.exponential_mechanism(loss, where, A, y, budget=PURE, seed=0)
    assert "limited" not in usual.guarantee.explain()


def test_a_larger_exponent_is_refused():
    problem = prepared(losses.Logistic(), sets.L2Ball(2), *records(dim=2))
    with pytest.raises(ValueError, match="k must lie in"):
        Sampler(problem, 2.0 * largest_exponent(problem, 0.0), 0.0)


@pytest.mark.parametrize(
    ("loss", "where", "message"),
    [
        (losses.Squared(), sets.L2Ball(2, 1e200), "overflows"),
        (losses.Logistic(), sets.L2Ball(2, 8e307), "overflows"),
        (losses.Logistic(), sets.L2Ball(2, 1e-300), "underflow"),
    ],
)
def test_sets_beyond_double_precision_spend_nothing(loss, where, message):
    A, y = records(dim=2)
    with reticent.Ledger(PURE) as ledger, pytest.raises(ValueError, match=message):
        erm.exponential_mechanism(loss, where, A, y, budget=PURE)
    assert ledger.entries == ()


def test_rounding_bounds_the_error_of_the_sum():
    # An offset of the loss does not count: it is a constant factor of the density.
    loss, where = losses.Quadratic(1.0, feature_norm=1e9), sets.L2Ball(1, 1e-7)
    problem = prepared(loss, where, np.full((3, 1), 1e9))
    sampler = Sampler(problem, 1e-3, 0.0)
    x = np.array([[-1e-7], [0.3e-7]])
    for value, point in zip(sampler.values(x), x[:, 0], strict=True):
        exact = -3 * Fraction(float(point)) * 10**9
        assert abs(Fraction(float(value)) - exact) <= Fraction(sampler.doubt)
    assert sampler.doubt < 1e-9
    # and for a loss that curves, over many records, against exact arithmetic
    rng = np.random.default_rng(2)
    A, y = rng.uniform(-1, 1, (3000, 1)), rng.uniform(-1, 1, 3000)
    problem = prepared(losses.Squared(), sets.Box([-1.0], [1.0]), A, y)
    sampler = Sampler(problem, 1.0, 0.7)
    value = Fraction(float(sampler.values(np.array([[0.3]]))[0]))
    u = Fraction(0.3)
    exact = sum((Fraction(a) * u - Fraction(b)) ** 2 for a, b in zip(A[:, 0], y, strict=True)) / 2
    exact += Fraction(0.7) / 2 * u * u
    assert abs(value - exact) <= Fraction(rounding(problem, 0.7)) / 16


def test_fair_coins_of_the_first_bits():
    # A flat density on a box with edges that are not dyadic: halves are equally likely; false alarm 1e-6
    where = sets.Box([0.1, -0.3], [0.4, 1 / 3])
    sampler = Sampler(prepared(MEDIAN, where, np.zeros((3, 2)), np.zeros(3)), 1.0, 0.0)
    source = Source(31)
    draws = np.array([sampler.draw(source) for _ in range(2000)])
    assert sampler.rounds == 2000
    for column, low, high in zip(draws.T, where.lower, where.upper, strict=True):
        above = int((column > 0.5 * (low + high)).sum())
        assert binomtest(above, 2000).pvalue > 5e-7
