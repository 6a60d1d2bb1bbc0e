"""The white-box audit: honest code holds and reaches its claims, and every planted fault is noticed.

Nothing here is random: the noise is prescribed, so that there is no false-alarm probability to state. Faults are
planted by patches in this file; the product has no switch for any of them.
"""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import reticent
from reticent import audit
from reticent.audit import (
    everything,
    hooks,
    whitebox,
    whitebox_cases,
)
from reticent.audit.whitebox_matching import InputPair, Separation
from reticent.noise import door, lattice, release, select, selection
from reticent.sums import process

LINES = [
    pytest.param(name, case, id=f"{name.removeprefix('white-box-')}: {case.setting}")
    for name in whitebox_cases.names()
    for case in whitebox_cases.cases(name)
    if case.quick
]

# What honest code reaches of its claim where that is less than nine tenths, and why.
LOOSE = {
    "ftrl, 3 passes": "products of two visits' columns are taken at their longest",
    "ftrl, resampled": "products of two visits' columns are taken at their longest",
    "sufficient_statistics, adassp": "no record moves the smallest eigenvalue and A'A at once",
    "PrivateLinearRegression, adassp": "no record moves the smallest eigenvalue and A'A at once",
    "sufficient_statistics, boosted, replace": "in one dimension no record moves A'A and A'y at once",
    "PrivateLasso, sufficient-statistics": "the grid of angles misses the worst one",
    "PrivateLogisticRegression, gradient-descent": "the slope is at its bound in the first step only",
    "SmoothHinge, ridge 6": "slope and curvature are largest at one point only",
    "PrivateLinearRegression, objective-perturbation, replace": "two-sided slopes are accounted in two stages",
    "Logistic, two dimensions": "slope and curvature are largest at different points",
    "Tree, plain of persons": "records at their least distance apart share more nodes than is accounted",
    "Tree, plain, gamma of persons": "records at their least distance apart share more nodes than is accounted",
    "Correlated of persons, window of 4, age 12": "records of several windows count as if they were adjacent",
    "QuadraticLeader of persons, replace": "twice the longest vector, which no two records are apart",
    "ProjectionFreeBandit, no horizon": "a few rounds of a guarantee for 2^40 of them",
    "PrivateLinearRegression with defaults, replace": "no two records are far apart in all that is released",
    "PrivateLinearRegression with defaults, pure, one release": "no record is the worst for all that is released",
    "PrivateLinearRegression of persons with defaults": "a person's records are not the worst for all that is released",
    "objective_perturbation of persons": "slope and curvature are largest at different points",
    "PrivateLogisticRegression of persons": "slope and curvature are largest at different points",
    "PrivateSearchCV": "the price of the best of several holds for whatever fits there are",
    "scaling, replace, laplace": "twice the largest 1-norm, which no pair of rows is apart",
    "scaling by the first records of a stream, replace, laplace": "twice the largest 1-norm, as for scaling",
    "SparseLeader, read after every second record, replace": "totals between two readings are never seen",
    "choices": "the worst two-point choices of several are not all alike",
    "Ledger, mixed": "a dozen releases do not use the budget up",
}


@pytest.mark.parametrize(("name", "case"), LINES)
def test_honest_code_holds_and_comes_close(name, case):
    found = case.check()
    assert found.holds, str(found)
    assert found.refused < found.pairs
    expected = any(case.setting.startswith(words) for words in LOOSE)
    assert found.tightness > (0.45 if expected else 0.9), str(found)


# Faults -----------------------------------------------------------------------------------------


def module(name):
    return importlib.import_module(f"reticent.{name}")


def quieter(monkeypatch, where, factor, only=lambda vector: True):
    """Divide the scale of the noise on the vectors that ``only`` picks, after it was accounted."""
    honest = where.noisy

    def noisy(vector, scale, source, **more):
        return honest(vector, scale / factor if only(vector) else scale, source, **more)

    monkeypatch.setattr(where, "noisy", noisy)


def linear_term(vector):
    return not vector.any()


def objective_noise(monkeypatch):
    quieter(monkeypatch, module("erm.solver"), 1.5, linear_term)


def rows_not_clipped(monkeypatch):
    # at the border and, where sums are made, at the door
    monkeypatch.setattr(module("losses.records"), "clip_rows", lambda A, bound: (A, 0))
    monkeypatch.setattr(module("erm.problem").OfflineProblem, "row_limit", 1e100)
    honest = module("erm.rounded_sums")._numbers
    unlimited = module("solve.blocks").UNLIMITED
    monkeypatch.setattr(
        module("erm.rounded_sums"),
        "_numbers",
        lambda block: (honest(block)[0], unlimited, honest(block)[2]),
    )


def determinant_dropped(monkeypatch):
    where = module("erm.perturbation")
    monkeypatch.setattr(where, "_determinant", lambda public, ridge: 0.0)
    # neither use an earlier choice of the noise nor keep this one for later
    monkeypatch.setattr(module("erm.objective_perturbation"), "exact", where.exact.__wrapped__)


def final_noise_dropped(monkeypatch):
    where = module("erm.solver")
    honest = where.noisy

    def noisy(vector, *rest, **more):
        return honest(vector, *rest, **more) if linear_term(vector) else vector

    monkeypatch.setattr(where, "noisy", noisy)


def one_term_for_all_classes(monkeypatch):
    where = module("erm.solver")
    honest, kept = where.noisy, []

    def noisy(vector, scale, source, **more):
        drawn = honest(vector, scale, source, **more)
        if not linear_term(vector):
            return drawn
        if not kept or kept[-1][0] is not source:
            kept.append((source, drawn))
        return kept[-1][1]

    monkeypatch.setattr(where, "noisy", noisy)


def factor_two_of_a_choice_forgotten(monkeypatch):
    honest = selection._choose

    def choose(name, scores, noise, sensitivity, epsilon, scale, budget, monotone, *rest):
        return honest(name, scores, noise, sensitivity, epsilon, scale, budget, True, *rest)

    monkeypatch.setattr(selection, "_choose", choose)


def half_the_noise_of_a_choice(monkeypatch):
    honest = selection._select
    monkeypatch.setattr(
        selection, "_select", lambda scores, scale, *rest: honest(scores, scale / 2.0, *rest)
    )


def corners_chosen_with_half_the_noise(monkeypatch):
    where = module("erm.corner_selection")
    honest = where.select
    monkeypatch.setattr(
        where, "select", lambda scores, scale, source: honest(scores, scale / 2.0, source)
    )


def exponent_doubled(monkeypatch):
    where = module("erm.exponential_mechanism")
    honest = where._law

    def law(*arguments):
        k, *rest = honest(*arguments)
        return 2.0 * k, *rest

    monkeypatch.setattr(where, "_law", law)


def replacement_not_doubled(monkeypatch):
    monkeypatch.setattr(reticent.Budget, "sensitivity", lambda self, norm: norm)


def statistics_noise(monkeypatch):
    quieter(monkeypatch, module("erm.solver"), 2.0)


def second_stage_noise(monkeypatch):
    where = module("erm.solver")
    honest, kept = where.noisy, []

    def noisy(vector, scale, source, **more):
        if not kept or kept[-1] is not source:  # the first stage of a run
            kept.append(source)
            return honest(vector, scale, source, **more)
        return honest(vector, scale / 2.0, source, **more)

    monkeypatch.setattr(where, "noisy", noisy)


def descent_noise(monkeypatch):
    quieter(monkeypatch, module("erm.solver"), 1.5)


def sampling_at_twice_the_rate(monkeypatch):
    where = module("erm.gradient_descent")
    honest = where._sample
    monkeypatch.setattr(
        where, "_sample", lambda source, count, rate: honest(source, count, 2.0 * rate)
    )


def visits_counted_as_one(monkeypatch):
    monkeypatch.setattr(module("erm.ftrl"), "overlap_of", lambda *arguments: 1.0)


def sketch_noise(monkeypatch):
    where = module("vertical.rounds")
    honest = where.Round._noisy
    monkeypatch.setattr(
        where.Round, "_noisy", lambda self, vector, scale: honest(self, vector, scale / 1.5)
    )


def total_noise_halved(monkeypatch):
    honest = process.Process.block
    monkeypatch.setattr(process.Process, "block", lambda self, *a: honest(self, *a) // 2)


def contributions_not_clipped(monkeypatch):
    monkeypatch.setattr(door, "limit_for", lambda norm, dim: 1e100)


def surplus_records_counted(monkeypatch):
    def everyone(self, digests, step, pace=1):
        return np.ones(len(digests), bool)

    monkeypatch.setattr(module("state.persons").Persons, "admit", everyone)


def persons_charged_as_records(monkeypatch):
    monkeypatch.setattr(
        module("sums.mechanism").Mechanism, "pattern", module("privacy.participation").ONE_RECORD
    )


def weights_not_clipped(monkeypatch):
    monkeypatch.setattr(
        module("erm.reading"), "_weights", lambda value, count, bound: np.minimum(value, 10.0)
    )


def labels_not_clipped(monkeypatch):
    monkeypatch.setattr(
        module("losses.records"), "clip_labels", lambda y, low, high: (np.clip(y, -10.0, 10.0), 0)
    )
    # the second line of defence
    monkeypatch.setattr(module("erm.reading"), "_own_labels", lambda loss, labels: labels)


def scaler_noise(monkeypatch):
    honest = release.noisy
    monkeypatch.setattr(
        release, "noisy", lambda vector, scale, *a, **k: honest(vector, scale / 1.2, *a, **k)
    )


def sampler_noise(monkeypatch):
    """Less noise than was asked for, in the sampler itself."""
    honest = lattice.gaussian
    monkeypatch.setitem(
        process.SAMPLERS, "gaussian", lambda source, scales, out: honest(source, scales / 1.5, out)
    )


def statistics_computed_from_the_data(monkeypatch):
    """The noise depends on how many records are not zero."""
    where = module("erm.solver")
    honest = where.noisy

    def noisy(vector, scale, source, **more):
        return honest(vector, scale * (1.0 + 1e-3 * bool(vector.any())), source, **more)

    monkeypatch.setattr(where, "noisy", noisy)


def point_released_as_it_is(monkeypatch):
    """The projection after the noise looks at the clean point."""
    where = module("erm.solver")
    honest = where.noisy

    def noisy(vector, scale, source, **more):
        return honest(vector, scale, source, **more) + 1e-7 * vector

    monkeypatch.setattr(where, "noisy", noisy)


def records_counted_twice(monkeypatch):
    """Histograms behind private bounds in which a record has two counts."""
    where = module("estimators.bounds").BoundsSearch
    honest = where._noisy
    monkeypatch.setattr(where, "_noisy", lambda self, counts, *a: honest(self, 2.0 * counts, *a))


PLANTED = [
    (objective_noise, "objective-perturbation", "SmoothHinge, ridge 300, zero-out, gaussian"),
    (objective_noise, "objective-perturbation", "SmoothHinge, ridge 300, replace, gamma"),
    (objective_noise, "estimators", "PrivateLogisticRegression, zero-out"),
    (objective_noise, "estimators", "PrivateLinearSVC, zero-out"),
    (rows_not_clipped, "objective-perturbation", "SmoothHinge, ridge 300, zero-out, gaussian"),
    (rows_not_clipped, "erm", "gradient_descent, 3 steps, zero-out, gaussian, lattice"),
    (determinant_dropped, "objective-perturbation", "SmoothHinge, ridge 6, zero-out, gamma"),
    (final_noise_dropped, "objective-perturbation", "SmoothHinge, ridge 300, zero-out, gaussian"),
    (one_term_for_all_classes, "objective-perturbation", "SmoothHinge, two problems at once, zero-out, gaussian"),
    (one_term_for_all_classes, "estimators", "PrivateLogisticRegression, three classes, zero-out"),
    (factor_two_of_a_choice_forgotten, "selection", "gumbel, zero-out"),
    (factor_two_of_a_choice_forgotten, "selection", "laplace, zero-out"),
    (half_the_noise_of_a_choice, "selection", "exponential, zero-out"),
    (corners_chosen_with_half_the_noise, "erm", "frank_wolfe, l1 ball, zero-out, gaussian"),
    (exponent_doubled, "erm", "exponential_mechanism, net, zero-out, gamma"),
    (exponent_doubled, "selection", "erm.exponential_mechanism, exact draw, zero-out"),
    (replacement_not_doubled, "erm", "frank_wolfe, l1 ball, replace, gaussian"),
    (replacement_not_doubled, "erm", "exponential_mechanism, net, replace, gamma"),
    (replacement_not_doubled, "totals", "Correlated, replace, lattice"),
    (statistics_noise, "erm", "sufficient_statistics, joint, zero-out, gaussian"),
    (statistics_noise, "erm", "sufficient_statistics, adassp, zero-out"),
    (second_stage_noise, "erm", "localisation, zero-out, gaussian, lattice"),
    (descent_noise, "erm", "gradient_descent, 3 steps, zero-out, gamma, lattice"),
    (sampling_at_twice_the_rate, "erm", "gradient_descent, Poisson sampling, zero-out"),
    (visits_counted_as_one, "erm", "ftrl, 3 passes, zero-out, gaussian, lattice"),
    (sketch_noise, "vertical", "Party, sketches, zero-out"),
    (sketch_noise, "vertical", "Party, choices and values, replace"),
    (total_noise_halved, "totals", "Tree, Honaker, zero-out, lattice"),
    (total_noise_halved, "online", "FollowTheRegularizedLeader, zero-out, run"),
    (total_noise_halved, "online", "QuadraticLeader, zero-out"),
    (total_noise_halved, "bandit", "ProjectionFreeBandit, correlated, zero-out"),
    (total_noise_halved, "estimators", "OnlineLogisticRegression, zero-out"),
    (contributions_not_clipped, "totals", "Tree, plain, laplace, zero-out, lattice"),
    (surplus_records_counted, "totals", "Correlated of persons, zero-out"),
    (surplus_records_counted, "totals", "Tree, plain, gamma of persons, replace"),
    (surplus_records_counted, "bandit", "ProjectionFreeBandit, no horizon, of persons, zero-out"),
    (persons_charged_as_records, "bandit", "ProjectionFreeBandit, of persons, replace"),
    (persons_charged_as_records, "totals", "Correlated of persons, replace"),
    (surplus_records_counted, "totals", "OnDemand of persons, replace"),
    (surplus_records_counted, "online", "SparseLeader of persons, replace"),
    (surplus_records_counted, "online", "Experts of persons, replace"),
    (surplus_records_counted, "bandit", "ProjectedBandit of persons, replace"),
    (persons_charged_as_records, "online", "Experts of persons, replace"),
    (persons_charged_as_records, "online", "QuadraticLeader of persons, replace"),
    (persons_charged_as_records, "bandit", "ProjectedBandit of persons, replace"),
    (persons_charged_as_records, "totals", "Tree, Honaker of persons, zero-out"),
    (weights_not_clipped, "erm", "gradient_descent, weights, zero-out"),
    (labels_not_clipped, "erm", "sufficient_statistics, joint, zero-out, gaussian"),
    (scaler_noise, "estimators", "PrivateScaler, zero-out, gaussian"),
    (scaler_noise, "estimators", "sum of the labels, zero-out, gaussian"),
    (scaler_noise, "estimators", "row norms behind scaling, replace, laplace"),
    (scaler_noise, "estimators", "distances of labels and their clipped sum, replace, laplace"),
    (scaler_noise, "estimators", "scores of a search, replace, gaussian"),
    (records_counted_twice, "estimators", "private bounds by powers of two, zero-out, gaussian"),
    (sampler_noise, "bandit", "ProjectedBandit, zero-out"),
    (statistics_computed_from_the_data, "erm", "output_perturbation, zero-out, gaussian, lattice"),
    (point_released_as_it_is, "erm", "output_perturbation, zero-out, gaussian, lattice"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plant", "family", "setting"),
    PLANTED,
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_a_planted_fault_is_noticed(plant, family, setting, monkeypatch):
    (case,) = (c for c in whitebox_cases.cases(f"white-box-{family}") if c.setting == setting)
    plant(monkeypatch)
    found = case.check()
    assert not found.holds, str(found)
    assert found.verdict == "REFUTED"


# A mechanism of a user's own ----------------------------------------------------------------------

ROWS, BLANK = np.array([[0.5], [1.0]]), np.array([[0.5], [0.0]])


def noisy_sum(rows, source):
    return release.noisy(np.sum(rows, axis=0), 2.0, source, noise="laplace")


def test_a_mechanism_of_ones_own():
    assert audit.white_box(noisy_sum, ROWS, BLANK, 0.5).tightness == pytest.approx(1.0, abs=1e-8)
    assert not audit.white_box(noisy_sum, ROWS, BLANK, 0.49).holds
    assert not audit.white_box(noisy_sum, 3.0 * ROWS, BLANK, 0.5).holds


def test_normals_of_the_source_count_as_noise():
    def run(rows, source):
        noise = np.empty(1)
        source.normals(noise)
        return np.sum(rows, axis=0) + 4.0 * noise

    found = audit.white_box(run, ROWS, BLANK, reticent.privacy.Gaussian(0.25))
    assert found.tightness == pytest.approx(1.0, abs=1e-9)


def test_a_choice_of_ones_own():
    def run(votes, source):
        return select(votes, 2.0, source)

    here, there = np.array([3.0, 1.0, 0.0]), np.array([3.0, 2.0, 0.0])
    assert audit.white_box(run, here, there, 0.5).tightness == pytest.approx(1.0, abs=1e-9)
    assert not audit.white_box(run, here, there, 0.4).holds


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda rows, source: np.sum(rows, axis=0), "no noise was drawn"),
        (lambda rows, source: [noisy_sum(rows, source), rows[1]], "not a function of the noisy"),
        (
            lambda rows, source: release.noisy(rows[1], 2.0 + rows[1, 0], source, noise="laplace"),
            "scale of the noise depends on the record",
        ),
        (
            lambda rows, source: [noisy_sum(rows, source) for _ in range(1 + int(rows[1, 0]))],
            "how many numbers are drawn depends on the record",
        ),
    ],
)
def test_what_no_noise_hides(run, words):
    found = audit.white_box(run, ROWS, BLANK, 100.0)
    assert math.isinf(found.epsilon)
    assert words in found.how
    assert found.verdict == "REFUTED"


def test_noise_that_is_used_twice():
    """Two totals with one noise: their difference is clean."""

    def run(rows, source):
        drawn = np.empty(1)
        source.normals(drawn)
        return [rows[0] + drawn, np.sum(rows, axis=0) + drawn]

    assert math.isinf(audit.white_box(run, ROWS, BLANK, 100.0).epsilon)


def test_secret_numbers_need_not_be_matched():
    """Only the sum leaves: with taps the two parts would count as two releases."""

    def run(rows, source):
        return noisy_sum(rows, source) + noisy_sum(rows, source)

    assert audit.white_box(run, ROWS, BLANK, 1.0).tightness == pytest.approx(1.0, abs=1e-6)
    assert audit.white_box(run, ROWS, BLANK, 1.0, taps=False).epsilon <= 1.0


def test_all_pairs_refused():
    def run(rows, source):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        audit.white_box(run, ROWS, BLANK, 1.0)


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("totals", "Correlated, zero-out, lattice"),
        ("erm", "gradient_descent, 3 steps, zero-out, gamma, lattice"),
        ("erm", "sufficient_statistics, adassp, zero-out"),
        ("erm", "gradient_descent, Poisson sampling, zero-out"),
        ("vertical", "Party, choices and values, zero-out"),
        ("selection", "laplace, zero-out"),
        ("objective-perturbation", "SmoothHinge, ridge 6, zero-out, gaussian"),
        ("objective-perturbation", "Logistic, two dimensions, zero-out, gaussian"),
        ("estimators", "PrivateLogisticRegression, gradient-descent, zero-out"),
    ],
)
def test_the_least_fault_that_a_line_says_it_notices(family, setting, monkeypatch):
    """Scales that reach the hooks divided by a little more are refuted, by a little less are not."""
    (case,) = (c for c in whitebox_cases.cases(f"white-box-{family}") if c.setting == setting)
    honest = case.check()
    assert honest.holds
    note, choose = hooks._Recorder.draw, hooks._select
    for factor, expected in ((1.01 * honest.fault, False), (0.99 * honest.fault, True)):

        def draw(self, kind, scales, *rest, r=factor):
            note(self, kind, np.asarray(scales) / r, *rest)

        def select_(recorder, honestly, r=factor):
            made = choose(recorder, honestly)

            def call(*arguments):
                index = made(*arguments)
                recorder.tape.choices[-1].scale /= r
                return index

            return call

        monkeypatch.setattr(hooks._Recorder, "draw", draw)
        monkeypatch.setattr(hooks, "_select", select_)
        assert case.check().holds is expected, (factor, str(case.check()))


def test_a_line_without_power_says_so():
    weak = whitebox.judge("weak", Separation(0.1, 0.0, ()), reticent.privacy.Gaussian(1.0), 1e-6)
    assert weak.holds
    assert weak.verdict == "no power"


def test_the_report_has_the_lines():
    report = everything.run_all(names=["white-box-selection"])
    assert report.holds
    assert {line.name for line in report.lines} == {"white-box-selection"}
    assert all(line.verdict == "holds" for line in report.lines)
    assert "white-box-selection" in str(report)
    assert report.to_dict()["lines"][0]["finding"]["tightness"] > 0.9


def test_every_pair_is_tried():
    pairs = [InputPair(k * ROWS, BLANK * k, f"times {k}") for k in (1, 2)]
    found = whitebox.search(noisy_sum, pairs, 1.0)
    assert found.pairs == 2
    assert found.how == "times 2"
