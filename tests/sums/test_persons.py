"""Running totals that protect persons: the worst person, by linear algebra on each mechanism's own noise."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.privacy import Guarantee, Participation
from reticent.state.files import dumps, loads

BUDGET = reticent.Budget(1.0, 1e-6)
PURE = reticent.Budget(1.0)
FADE = reticent.Budget(1.0, 1e-6, fade=[(4, 1.0), (12, 1.7)])
STEPS = 12


def placements(n: int, rule: Participation):
    for size in range(1, rule.records_within(n) + 1):
        for steps in itertools.combinations(range(n), size):
            if all(y - x >= rule.min_gap for x, y in itertools.pairwise(steps)):
                yield steps


def noise_map(total: sums.RunningTotal, steps: int) -> np.ndarray:
    """How each unit draw enters each output, by the mechanism's own mixing."""
    process = total.mechanism.process()
    draws = process.draws(0, steps)
    relative = process.relative_scales(0, steps)
    scales = process.scale * (np.ones(draws) if relative is None else relative)
    columns = []
    for k in range(draws):
        for array in process.arrays.values():
            array[...] = 0
        fresh = np.zeros((draws, total.dim))
        fresh[k] = scales[k]
        columns.append(np.array(process.mix(fresh, 0, steps))[:, 0])
    return np.array(columns).T


def worst_mu(matrix: np.ndarray, rule: Participation, age: int) -> float:
    """Of any person about any ``age`` consecutive outputs, given what came before, all signs tried."""
    steps = len(matrix)
    worst = 0.0
    for first in range(steps):
        end = min(steps, first + age)
        # given the outputs before, only shifts from ``first`` on count
        least = np.linalg.pinv(matrix[:end])
        for places in placements(end - first, rule):
            if places[0] != 0:
                continue
            for signs in itertools.product((1.0, -1.0), repeat=len(places) - 1):
                shift = np.zeros(end)
                for place, sign in zip(places, (1.0, *signs), strict=True):
                    shift[first + place :] += sign
                worst = max(worst, float(np.linalg.norm(least @ shift)))
    return worst


def make(name: str, rule: Participation) -> sums.RunningTotal:
    common = {"participation": rule, "noise_precision": "float", "seed": 0}
    if name == "window":
        return sums.Correlated(1, budget=BUDGET.with_(window=7), **common)
    if name == "fade":
        return sums.Correlated(1, budget=FADE, **common)
    if name == "for ever":
        return sums.Correlated(1, budget=BUDGET, **common)
    if name == "plain tree":
        return sums.Tree(1, STEPS, budget=BUDGET, estimator="plain", **common)
    kind = {"correlated": sums.Correlated, "tree": sums.Tree, "independent": sums.Independent}[name]
    return kind(1, STEPS, budget=BUDGET, **common)


TOTALS = ("correlated", "window", "fade", "for ever", "tree", "plain tree", "independent")


@pytest.mark.parametrize(
    "rule", [Participation(2, 3), Participation(3, 1), Participation(3, 4)], ids=str
)
@pytest.mark.parametrize("name", TOTALS)
def test_the_worst_person_by_linear_algebra(name, rule):
    total = make(name, rule)
    assert total.guarantee.unit == "person"
    matrix = noise_map(total, STEPS)
    last = total.mechanism.protected
    for age in sorted({1, 4, min(STEPS, last)}):
        if total.budget.window is not None and age > total.budget.window:
            continue
        claimed, found = total.guarantee.at(age).gdp, worst_mu(matrix, rule, age)
        assert found <= claimed * (1 + 1e-9)
        if "tree" not in name and name != "independent":
            assert found >= claimed * (
                1 - 1e-9
            )  # exact; trees and walks state one cost for all ages
    if "tree" in name:
        assert worst_mu(matrix, rule, STEPS) >= 0.75 * total.guarantee.gdp


@pytest.mark.parametrize(
    "rule",
    [Participation(1), Participation(2), Participation(2, 3), Participation(None, 2)],
    ids=str,
)
@pytest.mark.parametrize("kind", [sums.Correlated, sums.Independent, sums.WindowTree])
def test_after_a_window_a_person_has_more_records(kind, rule):
    """The limit is one for each window; what is claimed of longer stretches must cover the records of several."""
    window = 4
    total = kind(
        1, budget=BUDGET.with_(window=window), participation=rule, noise_precision="float", seed=0
    )
    matrix = noise_map(total, STEPS)
    read_back = Guarantee.from_dict(json.loads(json.dumps(total.guarantee.to_dict())))
    assert read_back == total.guarantee
    for age in (3, 4, 5, 9, STEPS):
        claimed = total.guarantee.at(age)
        if age > window and kind is not sums.Correlated:
            assert claimed.epsilon(0.5) == np.inf
            continue
        least = np.linalg.pinv(matrix[:age])
        found = 0.0
        for places in placements(
            age, Participation(None, rule.min_gap) if rule.min_gap > 1 else Participation(age)
        ):
            per_window = [sum(s <= p < s + window for p in places) for s in range(age)]
            if max(per_window) <= (rule.max_records or age):
                shift = sum((np.arange(age) >= place).astype(float) for place in places)
                found = max(found, float(np.linalg.norm(least @ shift)))
        assert found <= claimed.gdp * (1 + 1e-9)


@pytest.mark.parametrize(
    "kind", [sums.CorrelatedMechanism, sums.TreeMechanism, sums.IndependentMechanism]
)
def test_a_larger_sensitivity_holds_for_persons_too(kind):
    known = {"budget": BUDGET, "participation": Participation(2)}
    usual = kind(1, 16, **known)
    assert kind(1, 16, sensitivity=3.0, **known).error(16) == pytest.approx(3 * usual.error(16))
    assert kind(1, 16, sensitivity=0.5, **known).error(16) == usual.error(16)


def test_a_guarantee_that_was_written_without_the_window_of_persons():
    budget, rule = BUDGET.with_(window=4), Participation(2)
    for kind in (sums.CorrelatedMechanism, sums.IndependentMechanism):
        now = kind(1, budget=budget, participation=rule).guarantee
        data = now.to_dict()
        for release in data["releases"]:  # as it was written before
            release["ages"].pop("window", None)
            if "steps" in release["ages"]:
                release["ages"]["steps"] = release["ages"]["steps"][:1]
        assert Guarantee.from_dict(json.loads(json.dumps(data))) == now


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("name", TOTALS)
def test_the_budget_is_met_and_never_paid_k_times(name, neighbours):
    rule = Participation(3, 4)
    budget = BUDGET.with_(neighbours=neighbours)
    total = make(name, rule)
    mechanism = total.mechanism.with_(
        budget=total.budget.with_(neighbours=neighbours), noise_precision="lattice"
    )
    alone = mechanism.with_(participation=None)
    assert mechanism.guarantee.meets(mechanism.budget)
    assert mechanism.guarantee.unit == "person"
    assert alone.guarantee.unit == "record"
    grown = mechanism.error(STEPS) / alone.error(STEPS)
    assert 1.0 < grown < 3.0 + 1e-6
    assert budget.neighbours == neighbours
    with pytest.raises(ValueError, match="cannot be added"):
        mechanism.guarantee + alone.guarantee
    again = Guarantee.from_dict(json.loads(json.dumps(mechanism.guarantee.to_dict())))
    assert again == mechanism.guarantee
    assert type(mechanism).from_dict(mechanism.to_dict()).guarantee == mechanism.guarantee


@pytest.mark.parametrize("noise", ["laplace", "gamma"])
def test_pure_trees_of_persons(noise):
    rule = Participation(3, 2)
    tree = sums.TreeMechanism(
        1, 16, budget=PURE, noise=noise, estimator="plain", participation=rule
    )
    assert tree.guarantee.pure == pytest.approx(1.0)
    nodes = [range(end - (end & -end), end) for end in range(1, 17)]
    worst = max(
        sum(sum(t in node for t in steps) for node in nodes) for steps in placements(16, rule)
    )
    moved = tree.noise_sensitivity / tree.scale()
    assert 0.75 <= worst * moved <= 1.0 + 1e-12
    window = sums.WindowTreeMechanism(
        1, budget=PURE.with_(window=8), noise=noise, participation=rule
    )
    assert window.guarantee.pure == pytest.approx(1.0)
    assert window.scale() == pytest.approx(3 * window.with_(participation=None).scale())


def test_surplus_contributions_are_blanked():
    """The exact total holds what the rule keeps and nothing else, in one call or many."""
    rng = np.random.default_rng(0)
    rows, ids = rng.uniform(-0.5, 0.5, size=(200, 2)), rng.integers(0, 30, size=200)
    rule = Participation(2, 20)
    kept, last, count = np.zeros(200, bool), {}, {}
    for t, name in enumerate(ids.tolist()):
        if name not in last or (t - last[name] >= 20 and count[name] < 2):
            kept[t], last[name], count[name] = True, t, count.get(name, 0) + 1
    make = lambda: sums.Correlated(2, 200, budget=BUDGET, participation=rule, seed=0)  # noqa: E731
    total, single, resumed = make(), make(), make()
    outputs = total.run(rows, person=ids)
    exact = total._total * total._noise.step
    assert exact == pytest.approx(rows[kept].sum(axis=0), abs=1e-5)
    one_by_one = [single.add(row, person=int(name)) for row, name in zip(rows, ids, strict=True)]
    assert np.array_equal(np.array(one_by_one), outputs)
    resumed.run(rows[:77], person=ids[:77])
    again = sums.Correlated.from_state(loads(dumps(resumed.state())))
    assert np.array_equal(again.run(rows[77:], person=ids[77:]), outputs[77:])


def test_committed_totals_keep_their_table(tmp_path):
    total = sums.Correlated(1, 50, budget=BUDGET, participation=Participation(1))
    safe = reticent.committed(total, tmp_path / "state")
    safe.add([1.0], person="ann")
    state = reticent.load_state(tmp_path / "state")
    assert len(state["persons"]["entries"]) == 1
    assert b"ann" not in (tmp_path / "state").read_bytes()


def test_bad_ids_change_nothing():
    rule = Participation(2, 3)
    total = sums.Correlated(1, 50, budget=BUDGET, participation=rule, seed=0)
    for ids in (None, ["a"], ["a", None], ["a", 1], [1.0, 2.0]):
        with pytest.raises((ValueError, TypeError), match="person"):
            total.run(np.ones((2, 1)), person=ids)
    with pytest.raises(ValueError, match="missing"):
        total.add([1.0])
    assert total.steps == 0
    assert len(total._persons) == 0
    plain = sums.Correlated(1, 50, budget=BUDGET, seed=0)
    for call in (lambda: plain.add([1.0], person=1), lambda: plain.run([[1.0]], person=[1])):
        with pytest.raises(ValueError, match="single records are protected"):
            call()
    assert plain.steps == 0


def test_what_is_refused():
    with reticent.Ledger(BUDGET, unit="person") as ledger:
        with pytest.raises(ValueError, match="epochs"):
            sums.Tree(1, None, budget=BUDGET, participation=Participation(2))
        with pytest.raises(ValueError, match="give max_records, or a larger min_gap"):
            sums.Correlated(1, budget=BUDGET, participation=Participation(None, 10))
        with pytest.raises(ValueError, match="prescribes noise for records"):
            sums.Tree(1, 8, budget=BUDGET, estimator="plain", calibration="published",
                      participation=Participation(2))  # fmt: skip
        with pytest.raises(TypeError, match="participation must be"):
            sums.Correlated(1, 8, budget=BUDGET, participation=(2, 3))
    assert ledger.entries == ()
    with reticent.Ledger(BUDGET) as records, pytest.raises(ValueError, match="one kind"):
        sums.Correlated(1, 8, budget=BUDGET, participation=Participation(2))
    assert records.entries == ()


@pytest.mark.parametrize(("k", "b"), [(4, 64), (16, 16)])
def test_a_filter_for_persons_is_better(k, b):
    """Never worse than the filter for records, and as private: recomputed from its coefficients."""
    rule = Participation(k, b)
    ours = sums.CorrelatedMechanism(
        1, 256, budget=BUDGET, participation=rule, noise_precision="float"
    )
    plain = ours.with_(filter=sums.CorrelatedMechanism(1, 256, budget=BUDGET).parameters)
    assert ours.error(256) < 0.99 * plain.error(256)
    c = ours.parameters.sensitivity_coefficients(256)
    assert (c > 0).all()
    assert (np.diff(c) <= 0).all()
    moved = np.zeros(256)
    for start in range(0, k * b, b):
        moved[start:] += c[: 256 - start]
    assert np.linalg.norm(moved) / ours.scale() == pytest.approx(BUDGET.mu, rel=1e-9)
    again = sums.CorrelatedMechanism.from_dict(ours.to_dict())
    assert again.parameters == ours.parameters


@pytest.mark.parametrize("name", ["window", "fade", "for ever"])
def test_filters_for_persons_at_64_steps(name):
    """Explicit matrices, all placements of three records: the worst one costs what is claimed, at every age."""
    rule = Participation(3, 20)
    budget = {
        "window": BUDGET.with_(window=64),
        "fade": reticent.Budget(1.0, 1e-6, fade=[(16, 1.0), (64, 1.7)]),
        "for ever": BUDGET,
    }[name]
    ours = sums.CorrelatedMechanism(1, budget=budget, participation=rule, noise_precision="float")
    one = ours.with_(participation=None)
    plain = ours.with_(filter=one.parameters)
    assert ours.parameters != one.parameters
    assert ours.error(64) < plain.error(64)
    lag = np.subtract.outer(np.arange(64), np.arange(64))
    noise = np.where(lag >= 0, ours.parameters.noise_coefficients(64)[np.maximum(lag, 0)], 0.0)
    strategy = np.linalg.solve(noise, np.tril(np.ones((64, 64))))
    for age in (1, 16, 21, 64):
        products = strategy[:age, :age].T @ strategy[:age, :age]
        worst = 0.0
        for size in range(1, rule.records_within(age) + 1):
            steps = np.array(list(itertools.combinations(range(age), size)))
            steps = steps[(np.diff(steps, axis=1) >= rule.min_gap).all(axis=1)]
            cost = sum(products[steps[:, i], steps[:, j]] for i in range(size) for j in range(size))
            worst = max(worst, float(cost.max()))
        claimed = ours.guarantee.at(age).gdp
        assert np.sqrt(worst) / ours.scale() == pytest.approx(claimed, rel=1e-9)
