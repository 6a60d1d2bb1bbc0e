"""Noisy selection: exact probabilities, exact accounting, and the close calls that double precision cannot make.

Statistical tests have fixed seeds and a false alarm of 1e-8 each, some twenty in all.
"""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import integrate, special, stats

import reticent
from reticent.noise import Source, exponential_mechanism, report_noisy_max, select, selection
from reticent.noise.selection import Selection
from reticent.privacy import BudgetExceeded, Ledger

ALARM = 1e-8
ONES = 2**64 - 1
NOISES = ("gumbel", "laplace", "exponential")


# Probabilities, by another road -----------------------------------------------------------------------------------


def softmax(scores, scale):
    return special.softmax(np.asarray(scores, float) / scale)


def laplace_below(x):
    return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)


def exponential_below(x):
    return 0.0 if x < 0 else -math.expm1(-x)


def winning(noise, scores, scale):
    """Probability of each candidate: softmax, or by quadrature over the winner's noise."""
    if noise == "gumbel":
        return softmax(scores, scale)
    below = laplace_below if noise == "laplace" else exponential_below
    height = 0.5 if noise == "laplace" else 1.0
    scores = [float(score) / scale for score in scores]
    found = []
    for i, own in enumerate(scores):
        others = scores[:i] + scores[i + 1 :]

        def density(x, own=own, others=others):
            return (
                height * math.exp(-abs(x - own)) * math.prod(below(x - other) for other in others)
            )

        # in one piece between two kinks; beyond 40 there is less than 1e-17
        kinks = sorted({x for x in (*scores, own - 40, own + 40) if abs(x - own) <= 40})
        if noise == "exponential":
            kinks = [x for x in kinks if x >= own]
        pieces = [
            integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-11)
            for a, b in itertools.pairwise(kinks)
        ]
        found.append(sum(value for value, _ in pieces))
    assert abs(sum(found) - 1) < 1e-9
    return np.array(found)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "scores", [[0.0, 1.0, 2.5, -1.0, 2.5], [3.0] * 4, [0.0, 0.2], [-7.0, 1e6, 1e6 + 1]]
)
def test_probabilities_of_the_choice(noise, scores):
    """A chi-square test of 20,000 choices."""
    count, scale, source = 20_000, 0.8, Source(seed=51)
    chosen = np.bincount(
        [select(scores, scale, source, noise) for _ in range(count)], minlength=len(scores)
    )
    expected = count * winning(noise, scores, scale)
    seen = expected > 5
    assert chosen[~seen].sum() <= 5 + 40 * math.sqrt(expected[~seen].sum() + 1)
    statistic = ((chosen - expected)[seen] ** 2 / expected[seen]).sum()
    assert stats.chi2.sf(statistic, max(1, seen.sum() - 1)) > ALARM


def test_the_exponential_mechanism_is_the_softmax():
    """A chi-square test of the public function."""
    scores, count, source = np.array([0.0, 3.0, 4.0, 4.0]), 4000, Source(seed=52)
    found = [
        exponential_mechanism(scores, sensitivity=1.0, epsilon=1.0, source=source)
        for _ in range(count)
    ]
    chosen = np.bincount([choice.index for choice in found], minlength=4)
    expected = count * softmax(scores, 2.0)
    assert stats.chi2.sf(((chosen - expected) ** 2 / expected).sum(), 3) > ALARM


def test_many_candidates():
    """Position of the winner among 5,000 equal scores is uniform: a Kolmogorov-Smirnov test."""
    source, scores = Source(seed=53), np.zeros(5000)
    for noise in NOISES:
        found = np.array([select(scores, 3.0, source, noise) for _ in range(1000)]) / 5000
        assert stats.kstest(found, "uniform").pvalue > ALARM


# Exactness --------------------------------------------------------------------------------------------------------


def reference(noise, scores, scale, words, pieces=None):
    """All noisy scores in 60 digits, from the middle of what the bits leave open."""
    values = []
    for i, (score, word) in enumerate(zip(scores, words, strict=True)):
        bits = 65
        leading = int(word)
        sign = 1
        if noise == "laplace":
            sign, leading, bits = -1 if leading & 1 else 1, leading >> 1, 64
        if pieces is not None:
            leading, bits = (leading << 128) + pieces[i], bits + 128
        uniform = mpf(2 * leading + 1) / mpf(2) ** bits
        size = -mpmath.log(1 - uniform if noise == "gumbel" else uniform)
        drawn = -mpmath.log(size) if noise == "gumbel" else sign * size
        values.append(mpf(score) / mpf(scale) + drawn)
    return values


@pytest.mark.parametrize("noise", NOISES)
def test_the_choice_is_that_of_the_real_numbers(noise):
    rng = np.random.default_rng(54)
    with mp.workdps(60):
        for trial in range(400):
            size = int(rng.integers(2, 12))
            scores = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4)
            scale = float(10.0 ** rng.uniform(-2, 2))
            values = reference(noise, scores, scale, Source(seed=trial).words(size))
            assert select(scores, scale, Source(seed=trial), noise) == max(
                range(size), key=values.__getitem__
            )


@pytest.mark.parametrize("noise", NOISES)
def test_bounds_of_the_kernel_hold(noise):
    """Each noisy score lies between its bounds at both ends of its word; the words include the extreme ones."""
    extremes = [1, 2, 3, 2**10, 2**40, 2**62, 2**63 - 1, 2**63, 2**63 + 1, ONES - 2**40, ONES - 1025, ONES - 600,
                ONES - 2, ONES - 1]  # fmt: skip
    words = np.concatenate([np.array(extremes, np.uint64), Source(seed=55).words(2000)])
    scores = np.random.default_rng(55).normal(size=words.size) * 20
    top, scale = float(scores.max()), 0.7
    with mp.workdps(60):
        for k in range(words.size):
            upper = np.empty(1)
            one = slice(k, k + 1)
            lower = selection._bounds(
                scores[one], top, scale, words[one], NOISES.index(noise), upper
            )
            word, bits = int(words[k]), 64
            if noise == "laplace":
                word, bits = word >> 1, 63
            ends = [mpf(word) / mpf(2) ** bits, mpf(word + 1) / mpf(2) ** bits]
            for uniform in ends:
                if noise == "gumbel" and uniform in (0, 1):
                    continue
                if uniform == 0:
                    assert upper[0] == math.inf or (noise == "laplace" and lower == -math.inf)
                    continue
                drawn = (
                    -mpmath.log(-mpmath.log(1 - uniform))
                    if noise == "gumbel"
                    else -mpmath.log(uniform)
                )
                if noise == "laplace" and words[k] & np.uint64(1):
                    drawn = -drawn
                value = (mpf(scores[k]) - mpf(top)) / mpf(scale) + drawn
                assert lower <= value <= upper[0]
            if 2**20 < word < 2**bits - 2**20:
                assert upper[0] - lower < 1e-4


@pytest.mark.parametrize("noise", NOISES)
def test_close_calls_are_settled_with_further_bits(scripted, noise):
    """Two candidates with the same word and score differ only in bits that the kernel never sees."""
    word = 0x9E3779B97F4A7C15 & ~1
    for low, high in ((5, 9), (2**127, 2**127 + 1), (0, ONES), (2**128 - 2, 2**128 - 1)):
        for swap in (False, True):
            fine = [high, low] if swap else [low, high]
            source = scripted([word, word, 2**60 if noise != "gumbel" else 2**63], fine=fine)
            found = select([1.0, 1.0, -300.0], 2.0, source, noise)
            # a larger uniform means less noise
            assert found == (1 if swap else 0)
            assert source.fine[:2] == fine


@pytest.mark.parametrize("noise", NOISES)
def test_the_exact_path_agrees_with_sixty_digits(scripted, noise, monkeypatch):
    """With a kernel that leaves every candidate open; also for words that leave the logarithm unbounded."""

    def open_ended(scores, top, scale, words, kind, upper):
        upper[:] = math.inf
        return -math.inf

    rng = np.random.default_rng(56)
    usual, forced = [], []
    with mp.workdps(60):
        for trial in range(150):
            words = rng.integers(0, 2**64, 6, dtype=np.uint64).tolist()
            if trial % 3 == 0:
                words[trial % 6] = [0, 1, ONES, ONES - 1][trial // 3 % 4]
            scores = np.round(rng.normal(size=6), 2)
            usual.append(select(scores, 0.3, scripted(words), noise))
            with monkeypatch.context() as patch:
                patch.setattr(selection, "_bounds", open_ended)
                source = scripted(words)
                forced.append(select(scores, 0.3, source, noise))
            values = reference(noise, scores, 0.3, words, source.fine[:6])
            assert forced[-1] == max(range(6), key=values.__getitem__)
    assert usual == forced


@pytest.mark.parametrize("noise", NOISES)
def test_words_of_zeros_and_ones(scripted, noise):
    """A word whose noise is unbounded is looked at again, whatever the scores of the others."""
    for word in (0, 1, ONES - 1, ONES):
        source = scripted([2**62, word, 2**61])
        found = select([0.0, 0.0, 0.0], 1.0, source, noise)
        pieces = source.fine[:3] if len(source.fine) >= 3 else None
        if source.fine and pieces is None:  # only some of them were candidates
            pieces = [2**127, source.fine[-1], 2**127]
        with mp.workdps(60):
            values = reference(noise, [0, 0, 0], 1.0, [2**62, word, 2**61], pieces)
        assert found == max(range(3), key=values.__getitem__)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_extreme_scores_and_scales(noise, scale):
    source = Source(seed=57)
    scores = np.array([-1e300, -1.0, 0.0, 5e-324, 1e-12, 1.0, 1e300])
    found = [select(scores, scale, source, noise) for _ in range(30)]
    if scale <= 1e12:
        assert found == [6] * 30
    else:  # only the two huge scores differ by as much as the noise
        assert len(set(found)) > 1


def test_scores_that_differ_by_far_less_than_a_unit_in_the_last_place_of_the_largest(scripted):
    """-1 and -1 - 2^-52 over a scale of 2^-50: the difference counts, in full."""
    near = -1.0 - 2.0**-52
    count, source = 4000, Source(seed=58)
    chosen = sum(select([near, -1.0, -1e18], 2.0**-50, source) for _ in range(count))
    share = 1 / (1 + math.exp(-0.25))
    assert abs(chosen / count - share) < 5.8 * math.sqrt(share * (1 - share) / count)


# Accounting -------------------------------------------------------------------------------------------------------


def moved(sensitivity, size, monotone):
    steps = (0.0, sensitivity) if monotone else (-sensitivity, 0.0, sensitivity)
    return [np.array(move) for move in itertools.product(steps, repeat=size)]


BASES = [[0.0, 0.0, 0.0], [0.0, 1.0, -3.0], [5.0, 0.0, 0.0], [-6.0, 0.0, 0.3], [0.0, -30.0, -30.0]]


@pytest.mark.parametrize("monotone", [False, True])
def test_the_exponential_mechanism_never_loses_more_than_it_says(monotone):
    """Over all moves of small vectors: the loss lies in the range, its Renyi divergence and delta below the curve's."""
    sensitivity, epsilon = 0.7, 0.9
    promise = exponential_mechanism(
        [0.0] * 3, sensitivity=sensitivity, epsilon=epsilon, monotone=monotone
    )
    curve = promise.guarantee.curve
    reach = sensitivity * (1 if monotone else 2)
    scale = reach / epsilon
    worst = 0.0
    for base in BASES:
        p = softmax(base, scale)
        for move in moved(sensitivity, 3, monotone):
            q = softmax(np.array(base) + move, scale)
            loss = np.log(p) - np.log(q)
            assert np.ptp(loss) <= epsilon * (1 + 1e-9)
            worst = max(worst, np.abs(loss).max())
            for one, other in ((p, q), (q, p)):
                ratio = np.log(one) - np.log(other)
                for alpha in (1.01, 1.5, 2.0, 8.0, 64.0):
                    divergence = special.logsumexp(alpha * ratio + np.log(other)) / (alpha - 1)
                    assert divergence <= curve.rdp(alpha) * (1 + 1e-9) + 1e-12
                for level in (0.0, 0.1, 0.45, 0.8):
                    delta = np.maximum(one - math.exp(level) * other, 0).sum()
                    assert delta <= curve.delta(level) + 1e-12
    assert 0.97 * epsilon < worst <= epsilon * (1 + 1e-9)
    assert promise.guarantee.pure == pytest.approx(epsilon, rel=1e-12)
    assert promise.guarantee.zcdp <= epsilon**2 / 8 * (1 + 1e-12)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_report_noisy_max_never_loses_more_than_it_says(noise, monotone):
    sensitivity, epsilon = 0.7, 0.9
    promise = report_noisy_max(
        [0.0] * 3, sensitivity=sensitivity, epsilon=epsilon, noise=noise, monotone=monotone
    )
    scale = sensitivity * (1 if monotone else 2) / epsilon
    worst = 0.0
    moves = moved(sensitivity, 3, monotone)[:: 1 if monotone else 2]
    for base in BASES[:4]:
        p = winning(noise, base, scale)
        for move in moves:
            q = winning(noise, np.array(base) + move, scale)
            worst = max(worst, float(np.abs(np.log(p) - np.log(q)).max()))
    assert 0.8 * epsilon < worst <= epsilon * (1 + 1e-6)
    assert promise.guarantee.pure == pytest.approx(epsilon, rel=1e-12)
    # it is not of bounded range, so it must not be accounted as if
    assert promise.guarantee.zcdp > epsilon**2 / 8


def test_laplace_noise_is_not_of_bounded_range():
    """Why it is accounted as pure only: the loss moves over more than epsilon."""
    epsilon, scale = 1.0, 2.0
    spans = [
        np.ptp(
            np.log(winning("laplace", base, scale))
            - np.log(winning("laplace", np.array(base) + move, scale))
        )
        for base in ([0.0, -8.0, -8.0], [0.0, -4.0, 4.0])
        for move in moved(1.0, 3, False)[::2]
    ]
    assert max(spans) > 1.05 * epsilon


@pytest.mark.parametrize("choose", [exponential_mechanism, report_noisy_max])
@pytest.mark.parametrize("monotone", [False, True])
def test_a_budget_is_met_and_used_up(choose, monotone):
    for budget in (reticent.Budget(0.5), reticent.Budget(0.5, 1e-6, "zero-out", 7)):
        guarantee = choose([1.0, 2.0], sensitivity=3.0, budget=budget, monotone=monotone).guarantee
        assert guarantee.meets(budget)
        assert guarantee.epsilon(budget.delta) == pytest.approx(0.5, rel=1e-6)
        assert (guarantee.neighbours, guarantee.window) == ("zero-out", budget.window)


def test_the_scale_that_was_given_is_the_scale_that_is_accounted():
    guarantee = exponential_mechanism(
        [0.0, 1.0], sensitivity=2.0, scale=8.0, neighbours="replace"
    ).guarantee
    assert guarantee.pure == 0.5
    assert guarantee.neighbours == "replace"
    assert (
        exponential_mechanism([0.0, 1.0], sensitivity=2.0, scale=8.0, monotone=True).guarantee.pure
        == 0.25
    )
    assert report_noisy_max([0.0, 1.0], sensitivity=2.0, scale=8.0).guarantee.pure == 0.5
    gumbel = report_noisy_max([0.0, 1.0], sensitivity=2.0, scale=8.0, noise="gumbel").guarantee
    assert (
        gumbel.zcdp
        == guarantee.zcdp
        < report_noisy_max([0.0, 1.0], sensitivity=2.0, scale=8.0).guarantee.zcdp
    )
    assert "scale 8" in gumbel.explain()


def test_a_seed_is_reproducible_and_reported():
    scores = np.arange(50.0) / 50
    one, two = (
        exponential_mechanism(scores, sensitivity=1.0, epsilon=0.1, seed=4) for _ in range(2)
    )
    assert one == two
    assert one.guarantee.seeded
    assert "seeded" in str(one.guarantee)
    assert not exponential_mechanism(scores, sensitivity=1.0, epsilon=0.1).guarantee.seeded
    assert not exponential_mechanism(
        scores, sensitivity=1.0, epsilon=0.1, source=Source()
    ).guarantee.seeded
    secure = {exponential_mechanism(scores, sensitivity=1.0, epsilon=0.1).index for _ in range(40)}
    assert len(secure) > 1  # all 40 equal: below 1e-60


def test_a_single_candidate_needs_no_noise_but_is_accounted(scripted):
    source = Source(seed=0)
    with Ledger(reticent.Budget(1.0)) as ledger:
        choice = exponential_mechanism([7.0], sensitivity=1.0, epsilon=0.25, source=source)
    assert choice.index == 0
    assert choice.guarantee.pure == 0.25
    assert len(ledger.entries) == 1
    assert source.words(1) == Source(seed=0).words(1)


def test_the_ledger_is_charged_before_anything_is_drawn():
    source = Source(seed=0)
    with Ledger(reticent.Budget(1.0)) as ledger:
        exponential_mechanism([0.0, 1.0], sensitivity=1.0, epsilon=0.75, source=source)
        report_noisy_max([0.0, 1.0], sensitivity=1.0, epsilon=0.25, source=source)
        for choose in (exponential_mechanism, report_noisy_max):
            with pytest.raises(BudgetExceeded):
                choose([0.0, 1.0], sensitivity=1.0, epsilon=0.5, source=source)
        assert select([0.0, 1.0], 1.0, Source(seed=1)) in (0, 1)  # the caller accounts for this one
    assert [entry.what.split(" over")[0] for entry in ledger.entries] == [
        "exponential mechanism",
        "report noisy max",
    ]
    twin = Source(seed=0)
    twin.words(4)
    assert source.words(1) == twin.words(1)


def test_a_selection_is_an_index():
    choice = exponential_mechanism([0.0, 1e9], sensitivity=1.0, epsilon=1.0)
    assert isinstance(choice, Selection)
    assert ["a", "b"][choice] == "b"
    assert int(choice.index) == 1


# Bad input --------------------------------------------------------------------------------------------------------

BAD_SCORES = [
    ([], ValueError, "at least one"),
    ([[1.0, 2.0]], ValueError, "vector"),
    (3.0, ValueError, "vector"),
    ([0.0, math.nan], ValueError, "entry 1 is not"),
    ([-math.inf, 0.0], ValueError, "entry 0 is not"),
    ([0.0, 1e301], ValueError, "1e\\+300"),
    (["a", "b"], TypeError, "scores"),
    ([True, False], TypeError, "scores"),
]


def test_an_error_does_not_quote_a_score():
    with pytest.raises(ValueError, match="entry 1 is not") as caught:
        exponential_mechanism([1.0, 1.23456e305], sensitivity=1.0, epsilon=1.0)
    assert "1.2345" not in str(caught.value)


@pytest.mark.parametrize(("scores", "error", "words"), BAD_SCORES)
def test_bad_scores_are_refused_and_nothing_is_spent(scores, error, words):
    source = Source(seed=0)
    with Ledger(reticent.Budget(1.0)) as ledger:
        with pytest.raises(error, match=words):
            exponential_mechanism(scores, sensitivity=1.0, epsilon=0.5, source=source)
        with pytest.raises(error, match=words):
            report_noisy_max(scores, sensitivity=1.0, epsilon=0.5, source=source)
        with pytest.raises(error, match=words):
            select(scores, 1.0, source)
    assert not ledger.entries
    assert source.words(1) == Source(seed=0).words(1)


BAD_ARGUMENTS = [
    ({"sensitivity": 0.0, "epsilon": 1.0}, ValueError, "sensitivity"),
    ({"sensitivity": -1.0, "epsilon": 1.0}, ValueError, "sensitivity"),
    ({"sensitivity": math.inf, "epsilon": 1.0}, ValueError, "sensitivity"),
    ({"sensitivity": 1.0}, TypeError, "exactly one of epsilon, scale and budget; got none"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "scale": 1.0}, TypeError, "got epsilon and scale"),
    ({"sensitivity": 1.0, "epsilon": 0.0}, ValueError, "epsilon"),
    ({"sensitivity": 1.0, "epsilon": math.nan}, ValueError, "epsilon"),
    ({"sensitivity": 1.0, "scale": 0.0}, ValueError, "scale"),
    ({"sensitivity": 1.0, "scale": math.inf}, ValueError, "scale"),
    ({"sensitivity": 1e-320, "scale": 1e300}, ValueError, "too far"),
    ({"sensitivity": 1.0, "budget": 1.0}, TypeError, "budget"),
    ({"sensitivity": 1.0, "budget": reticent.Budget(1.0), "neighbours": "zero-out"}, ValueError,
     "set them in the budget"),
    ({"sensitivity": 1.0, "budget": reticent.Budget(1.0), "window": 3}, ValueError, "set them in the budget"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "neighbours": "friends"}, ValueError, "neighbours"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "neighbours": "replace", "monotone": True}, ValueError, "monotone"),
    ({"sensitivity": 1.0, "budget": reticent.Budget(1.0, 0.0, "replace"), "monotone": True}, ValueError, "monotone"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "source": Source(seed=0), "seed": 1}, ValueError, "not both"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "source": 3}, TypeError, "source"),
    ({"sensitivity": 1.0, "epsilon": 1.0, "seed": -1}, ValueError, "seed"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "words"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused_and_nothing_is_spent(arguments, error, words):
    with Ledger(reticent.Budget(1.0)) as ledger:
        for choose in (exponential_mechanism, report_noisy_max):
            with pytest.raises(error, match=words):
                choose([0.0, 1.0], **arguments)
    assert not ledger.entries


def test_an_unknown_noise_is_refused():
    with pytest.raises(ValueError, match="noise"):
        report_noisy_max([0.0, 1.0], sensitivity=1.0, epsilon=1.0, noise="gaussian")
    with pytest.raises(ValueError, match="noise"):
        select([0.0, 1.0], 1.0, Source(seed=0), noise="gaussian")
    for scale in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="scale"):
            select([0.0, 1.0], scale, Source(seed=0))
