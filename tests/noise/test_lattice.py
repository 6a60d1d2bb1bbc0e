"""The lattice samplers: each number is the rounding of the real number that its words stand for, and has the right law.

Statistical tests use fixed seeds; each states its false alarm, and all of them together stay below 1e-6.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from reticent.noise import exact, extended, lattice
from reticent.noise.source import Source

from .reference import EXTREMES, ONES, gammas, gaussians, middle, nearest, one_laplace


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


KERNELS = {
    name: getattr(lattice, name)
    for name in ("_gaussian_kernel", "_laplace_kernel", "_gamma_kernel")
}


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    for name, kernel in KERNELS.items():
        monkeypatch.setattr(lattice, name, getattr(kernel, "machine_code", kernel))


def draw(sampler, source, scales, dim):
    out = np.zeros((len(scales), dim), np.int64)
    sampler(source, np.asarray(scales, float), out)
    return out


# Exactness --------------------------------------------------------------------------------------------------------


def hardest(values, count):
    """Draws next to a rounding boundary, as far as double precision tells, and as many others."""
    gap = np.abs(np.abs(values - np.rint(values)) - 0.5)
    return np.unique(np.concatenate([np.argsort(gap)[:count], np.arange(count)]))


@pytest.mark.parametrize("scale", [0.3, 1.0, 50.0, 2.0**30, 2.0**31 - 1])
def test_gaussians_are_the_roundings_of_real_gaussians(scale):
    """Among 200,000, the thousand closest to a boundary and a thousand others, at all corners of their words."""
    size, kept = 200_000, 1000
    found = draw(lattice.gaussian, Source(seed=21), np.full(size // 8, scale), 8).reshape(-1, 2)
    words = Source(seed=21).words(size).reshape(-1, 2)
    length = np.sqrt(-2 * np.log((words[:, 0] + 0.5) * 2.0**-64))
    angle = words[:, 1].astype(np.int64) * (np.pi * 2.0**-63)
    values = np.stack([length * np.cos(angle), length * np.sin(angle)], 1) * scale
    settled = 0
    for k in hardest(values.reshape(-1), kept):
        pair, which = divmod(int(k), 2)
        w, v = (int(word) for word in words[pair])
        corners = {
            nearest(gaussians(w + i, v + j, 64, (scale, scale))[which])
            for i in (0, 1)
            for j in (0, 1)
        }
        assert found[pair, which] in corners
        settled += len(corners) == 1
    assert settled > 1.9 * kept  # for all but a few, 64 bits decide


def test_the_series_of_a_gaussian_are_good_to_a_few_units_in_the_last_place():
    """Twenty units of its bound are for what nobody thought of: lengths are within 2^-50, angles within 2^-50.5."""
    words = Source(seed=20).words(2 * 3000).reshape(-1, 2)
    words[1000:2000] >>= np.arange(1000, dtype=np.uint64)[:, None] % np.uint64(64)
    words[2000:] = ONES - (
        words[2000:] >> (np.arange(1000, dtype=np.uint64)[:, None] % np.uint64(64))
    )
    for k, quarter in enumerate(
        range(0, 2**64, 2**61)
    ):  # where one series takes over from the other
        words[8 * k : 8 * k + 8, 1] = [(quarter + step) % 2**64 for step in range(-4, 4)]
    words[64 : 64 + len(EXTREMES), 0] = EXTREMES
    # uniforms next to powers of 2 and of 1/2
    words[100:164, 0] = [int(2.0 ** (0.5 * k)) for k in range(64, 128)]
    for start in range(0, len(words), lattice._PAIRS):
        some = words[start : start + lattice._PAIRS]
        size = len(some)
        uniforms, lengths, cosines, sines = (np.empty(lattice._PAIRS) for _ in range(4))
        lattice._lengths(some.reshape(-1), size, uniforms, lengths)
        lattice._turns(some.reshape(-1), size, cosines, sines)
        for k, (word, angle) in enumerate(some.tolist()):
            uniform = (np.float64(np.uint64(word)) + 0.5) * 2.0**-64
            length = mpmath.sqrt(-2 * mpmath.log(mpf(float(uniform))))
            assert abs(lengths[k] - length) <= length * mpf(2) ** -50
            turn = 2 * mp.pi * mpf(angle) / mpf(2) ** 64
            assert abs(cosines[k] - mpmath.cos(turn)) <= mpf(2) ** -50.5
            assert abs(sines[k] - mpmath.sin(turn)) <= mpf(2) ** -50.5


@pytest.mark.parametrize("scale", [0.3, 1.0, 50.0, 2.0**30, 2.0**31 - 1])
def test_laplace_numbers_are_the_roundings_of_real_ones(scale):
    size, kept = 200_000, 2000
    found = draw(lattice.laplace, Source(seed=22), np.full(size // 5, scale), 5).reshape(-1)
    words = Source(seed=22).words(size)
    signs = np.where(words & np.uint64(1), -1, 1)
    values = -signs * scale * np.log(((words >> np.uint64(1)) + 0.5) * 2.0**-63)
    settled = 0
    for k in hardest(values, kept).tolist():
        word, sign = int(words[k]) >> 1, int(signs[k])
        corners = {nearest(one_laplace(word + i, 63, sign, scale)) for i in (0, 1)}
        assert found[k] in corners
        settled += len(corners) == 1
    assert settled > 1.9 * kept


@pytest.mark.parametrize(
    ("scale", "dim"), [(0.3, 1), (2.0, 2), (2.0**26, 1), (2.0**26, 5), (2.0**27 - 1, 40)]
)
def test_gamma_vectors_are_the_roundings_of_real_ones(scale, dim):
    """Every coordinate of several thousand; a box of words has too many corners, so its middle is taken."""
    rows = 4000 // dim
    found = draw(lattice.gamma, Source(seed=23), np.full(rows, scale), dim)
    even = dim + dim % 2
    words = Source(seed=23).words(rows * (even + dim)).reshape(rows, -1)
    close = 0
    for row in range(rows):
        middles = [2 * int(word) + 1 for word in words[row]]
        values = gammas(middles[:even], middles[even:], 65, dim, scale)
        for value, whole in zip(values, found[row].tolist(), strict=True):
            if abs(abs(value - mpmath.nint(value)) - mpf(0.5)) > 1e-9:  # the words decide
                assert whole == nearest(value)
            else:
                assert abs(whole - value) < 0.5 + 1e-9
                close += 1
    assert close < 10


@pytest.mark.parametrize("scale", [0.09, 0.3, 1.0, 2.0**30])
@pytest.mark.parametrize("fine", [0, 1, 2**127, 2**128 - 1])
def test_words_of_zeros_and_ones(scripted, scale, fine):
    """Where the logarithm is unbounded or the radius next to 0, all further bits count, even on a coarse lattice."""
    for first in EXTREMES:
        for second in (5, 2**62, 2**63, ONES):
            source = scripted([first, second], fine=[fine, fine])
            found = draw(lattice.gaussian, source, [scale], 2)[0]
            assert bool(source.fine) or 0 < first < ONES
            w, v = (middle(word, source.fine[k::2]) for k, word in enumerate((first, second)))
            values = gaussians(w, v, 65 + 64 * len(source.fine), (scale, scale))
            assert found.tolist() == [nearest(value) for value in values]
        source = scripted([first], fine=[fine])
        found = draw(lattice.laplace, source, [scale], 1)[0, 0]
        assert bool(source.fine) or first >> 1 > 0
        bits = 64 + 128 * len(source.fine)
        value = one_laplace(middle(first >> 1, source.fine), bits, -1 if first & 1 else 1, scale)
        assert found == nearest(value)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gamma_vectors_from_words_of_zeros_and_ones(scripted, dim):
    even = dim + dim % 2
    for position in range(even + dim):
        for extreme in (0, 2**62, ONES - 600, ONES):
            for scale in (0.09, 2.0**26):
                words = [3**40 + 7**20 * k for k in range(even + dim)]
                words[position] = extreme
                fine = [2**127 + 5 * k for k in range(even + dim)]
                found = draw(lattice.gamma, scripted(words, fine=fine), [scale], dim)[0]
                full = [2 * ((w << 128) + f) + 1 for w, f in zip(words, fine, strict=True)]
                values = gammas(full[:even], full[even:], 193, dim, scale)
                assert found.tolist() == [nearest(value) for value in values]


def test_the_three_paths_agree(monkeypatch):
    """With the first path, or the first two, told that nothing is settled, the same numbers come out."""
    scales = np.array([0.3, 5.0, 2.0**30, 2.0**30.5, 2.0**31])

    def everything():
        shapes = (
            (lattice.gaussian, 3),
            (lattice.laplace, 4),
            (lattice.gamma, 3),
            (lattice.gamma, 4),
        )
        return [draw(sampler, Source(seed=28), scales / (16 * (sampler is lattice.gamma) + 1), dim)
                for sampler, dim in shapes]  # fmt: skip

    usual = everything()

    def nothing_settled(kernel):
        def run(words, scales, out, doubtful):
            kernel(words, scales, out, doubtful)
            out[:] = -(2**62)
            return lattice._none_settled(words, scales, out, doubtful)

        return run

    for name in KERNELS:
        monkeypatch.setattr(lattice, name, nothing_settled(getattr(lattice, name)))
    for a, b in zip(usual, everything(), strict=True):
        assert (a == b).all()
    monkeypatch.setattr(extended, "_UNIT", float("inf"))
    for a, b in zip(usual, everything(), strict=True):
        assert (a == b).all()


SHAPES = [(0, 3), (1, 1), (3, 1), (1, 3), (3, 3), (5, 7), (700, 60)]


@pytest.mark.parametrize(("rows", "dim"), SHAPES)
@pytest.mark.parametrize("largest", [0.0, 0.3, 50.0, 2.0**25, 2.0**30, 2.0**31 - 1])
@pytest.mark.parametrize("sampler", [lattice.gaussian, lattice.laplace, lattice.gamma])
def test_the_first_draws_are_those_of_the_kernels(monkeypatch, sampler, largest, rows, dim):
    if sampler is lattice.gamma:
        largest, rows = min(largest, 2.0**26), min(rows, 40)
    scales = largest * np.random.default_rng(0).uniform(0.5, 1.0, rows)

    def drawn():
        source = Source(seed=33)
        return [*draw(sampler, source, scales, dim).reshape(-1), *source.words(3)]

    by_kernels = drawn()

    for name in KERNELS:
        monkeypatch.setattr(lattice, name, lattice._none_settled)
    assert drawn() == by_kernels


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_draws_are_not_left_to_interval_arithmetic(name):
    """Without a long double, every draw of a stand-in would take a millisecond."""
    assert bool(getattr(KERNELS[name], "patience", 0.0)) == extended.IS_WIDE


def test_threads_that_settle_draws_do_not_disturb_each_other():
    """Nor mpmath's own precision, which belongs to the user."""
    words = Source(seed=29).words(240).reshape(-1, 2).tolist()
    scales = (2.0**30, 2.0**30)
    alone = [exact.gaussian_pair(Source(seed=1), *pair, scales) for pair in words]
    before = mp.prec, mpmath.iv.prec
    barrier = threading.Barrier(4)

    def work(k):
        barrier.wait(30)
        return [exact.gaussian_pair(Source(seed=1), *pair, scales) for pair in words]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(4)):
            assert found == alone
    assert (mp.prec, mpmath.iv.prec) == before


# Shapes and scales ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [lattice.gaussian, lattice.laplace, lattice.gamma])
def test_each_row_has_its_own_scale(sampler):
    """1,000 numbers a row; their mean size is within 6 deviations, of at most 1.5 / sqrt 1000: false alarm 1e-7."""
    scales = 2.0 ** np.array([6, 20, 10, 24, 6])
    out = draw(sampler, Source(seed=30), scales, 1000)
    expected = {
        lattice.gaussian: np.sqrt(2 / np.pi),
        lattice.laplace: 1.0,
        lattice.gamma: np.sqrt(2 / np.pi) * 1001**0.5,
    }
    ratio = np.abs(out).mean(axis=1) / scales / expected[sampler]
    assert (np.abs(ratio - 1) < 6 * 1.5 / np.sqrt(1000)).all()


@pytest.mark.parametrize(("rows", "dim"), SHAPES[:-1])
def test_odd_sizes_use_the_same_words_for_the_same_numbers(rows, dim):
    """A pair may straddle two rows with different scales; an odd one out is dropped."""
    scales = 2.0 ** (10 + np.arange(rows))
    found = draw(lattice.gaussian, Source(seed=31), scales, dim).reshape(-1)
    size = rows * dim
    words = Source(seed=31).words(size + size % 2).reshape(-1, 2).tolist()
    values = [
        value
        for first, second in words
        for value in gaussians(2 * first + 1, 2 * second + 1, 65, (1, 1))
    ]
    scaled = [scales[k // dim] * value for k, value in enumerate(values[:size])]
    assert found.tolist() == [nearest(value) for value in scaled]
    source = Source(seed=31)
    draw(lattice.gaussian, source, scales, dim)
    twin = Source(seed=31)
    twin.words(size + size % 2)
    assert (source.words(3) == twin.words(3)).all()


@pytest.mark.parametrize("sampler", [lattice.gaussian, lattice.laplace, lattice.gamma])
def test_a_scale_of_zero_is_no_noise(sampler):
    assert not draw(sampler, Source(seed=32), [0.0, 0.0, 0.0], 3).any()


@pytest.mark.parametrize("scale", [1e-300, 0.3, 1.0, 3.0, 2.0**40, 1e300])
def test_the_step_is_a_power_of_two(scale):
    step = lattice.step(scale)
    assert np.frexp(step)[0] == 0.5
    assert 2.0**30 <= scale / step <= 2.0**31
    assert 2.0**26 <= scale / lattice.step(scale, lattice.GAMMA_STEPS) <= 2.0**27


# Distributions ----------------------------------------------------------------------------------------------------

SMALL = [0.3, 1.0, 4.0, 50.0]
ALARM = 1e-8  # for each of the tests below, some forty in all


def one_of_three(x):
    """Distribution function of one coordinate in three dimensions: the density is (|x| + 1) exp(-|x|) / 4."""
    tail = (np.abs(x) + 2) * np.exp(-np.abs(x)) / 4
    return np.where(x > 0, 1 - tail, tail)


LAWS = {
    "gaussian": (lattice.gaussian, 4, stats.norm.cdf),
    "gaussian of dimension 1": (lattice.gaussian, 1, stats.norm.cdf),
    "laplace": (lattice.laplace, 4, stats.laplace.cdf),
    "gamma of dimension 1": (lattice.gamma, 1, stats.laplace.cdf),
    "gamma of dimension 3": (lattice.gamma, 3, one_of_three),
}


@pytest.mark.parametrize("scale", SMALL)
@pytest.mark.parametrize("law", LAWS)
def test_law_of_the_rounded_number(law, scale):
    """A chi-square test against differences of the distribution function."""
    sampler, dim, cdf = LAWS[law]
    rows = 300_000 // dim
    out = draw(sampler, Source(seed=41), np.full(rows, scale), dim)
    # the coordinates of a Gamma vector depend on each other: one of them
    values = out[:, -1] if law == "gamma of dimension 3" else out.reshape(-1)
    reach = int(np.ceil(60 * scale)) + 2
    whole = np.arange(-reach, reach + 1)
    edges = cdf((np.arange(-reach, reach + 2) - 0.5) / scale)
    expected = np.diff(edges) * values.size
    counts = np.bincount(values + reach, minlength=whole.size)
    assert counts.size == whole.size
    rare = expected < 20
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], values.size - expected[~rare].sum())
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(statistic, observed.size - 1) > ALARM


@pytest.mark.parametrize("law", LAWS)
def test_law_on_a_fine_lattice(law):
    """A Kolmogorov-Smirnov test; a step of 2^-26 of a deviation does not show in 200,000 numbers."""
    sampler, dim, cdf = LAWS[law]
    scale = 2.0**26.5 if sampler is lattice.gamma else 2.0**30
    out = draw(sampler, Source(seed=42), np.full(200_000 // dim, scale), dim)
    values = out[:, 0] if law == "gamma of dimension 3" else out.reshape(-1)
    assert stats.kstest(values / scale, cdf).pvalue > ALARM


@pytest.mark.parametrize("dim", [2, 3, 9])
def test_gamma_vectors_have_the_right_radius_and_direction(dim):
    scale = 2.0**26
    out = draw(lattice.gamma, Source(seed=43), np.full(20_000, scale), dim) / scale
    radius = np.linalg.norm(out, axis=1)
    assert stats.kstest(radius, stats.gamma(dim).cdf).pvalue > ALARM
    # the square of a coordinate of a uniform direction is a Beta number, its sign a fair coin
    for column in (0, dim - 1):
        share = (out[:, column] / radius) ** 2
        assert stats.kstest(share, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > ALARM
        assert abs(np.sign(out[:, column]).mean()) < 5.8 / np.sqrt(20_000)
    # radius and direction are independent
    corner = stats.spearmanr(radius, out[:, 0] / radius)
    assert corner.pvalue > ALARM


@pytest.mark.parametrize("law", ["gaussian", "laplace", "gamma of dimension 3"])
@pytest.mark.parametrize("scale", [1.0, 2.0**26])
def test_moments_and_independence(law, scale):
    """Mean, variance (rounding adds about 1/12 of a step squared) and correlations, each within 6 deviations."""
    sampler, dim, _ = LAWS[law]
    variance, kurtosis = {"gaussian": (1, 3), "laplace": (2, 6), "gamma of dimension 3": (4, 4.5)}[
        law
    ]
    rows = 200_000
    x = draw(sampler, Source(seed=44), np.full(rows, scale), dim) / scale
    true = variance + 1 / (12 * scale**2)
    slack = 0.02 * (
        scale == 1
    )  # at one step a deviation the rounding of these laws is not quite uniform
    deviation = np.sqrt(true / rows)
    assert (np.abs(x.mean(axis=0)) < 6 * deviation).all()
    spread = true * np.sqrt(kurtosis / rows)
    assert (np.abs(x.var(axis=0) - true) < 6 * spread + slack * true).all()
    pairs = [(x[:, 0], x[:, 1]), (x[:, 1], x[:, 2]), (x[:-1, -1], x[1:, 0]), (x[:-1, 0], x[1:, 0])]
    for a, b in pairs:
        assert abs(np.mean(a * b)) < 6 * true * np.sqrt(kurtosis / rows)
