"""What is decided before the first record: honest errors, guarantees within the budget, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.state import lease
from reticent.sums import mechanism

from . import reference
from .reference import CASES, GAUSSIAN, PURE

PRECISIONS = ("lattice", "float")
SAMPLES = 20_000
# Fewer than 5,000 bounds are checked in this file, so all of them together ring falsely with probability < 1e-6.
ALARM = 1e-10


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))


def check_variances(name, samples, errors):
    """``samples`` has one row a time and one column a repeat; known mean 0."""
    low, high = reference.variance_bounds(
        SAMPLES, ALARM, gaussian="gam" not in name and "lap" not in name
    )
    ratio = (samples**2).mean(axis=1) / np.array(errors) ** 2
    assert samples.shape[1] == SAMPLES
    assert (ratio > low).all(), ratio
    assert (ratio < high).all(), ratio


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("name", [n for n in CASES if "gamma" not in n])
def test_error_is_the_empirical_deviation(name, endless, precision, monkeypatch):
    """The coordinates of one vector are independent repeats."""
    monkeypatch.setattr(mechanism, "_FIRST_EPOCH", 4)
    steps = 20
    total = CASES[name](SAMPLES, None if endless else steps, noise_precision=precision)
    rows = np.full((steps, SAMPLES), 2.0**-8)
    samples = total.run(rows) - np.cumsum(rows, axis=0)
    check_variances(name, samples, [total.error(t) for t in range(1, steps + 1)])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "name", ["independent-gamma", "tree-gamma-plain", "tree-gamma-honaker", "window-tree-gamma-6"]
)
def test_error_of_gamma_noise_is_the_empirical_deviation(name, precision):
    """The coordinates of a spherical vector depend on each other, so each repeat is a stream of its own."""
    steps = 7 if "window" not in name else 13
    total = CASES[name](3, steps, noise_precision=precision)
    samples = np.empty((steps, SAMPLES))
    nothing = np.zeros((steps, 3))
    for repeat in range(SAMPLES):
        total._begin()
        total._lease = lease.Lease()
        samples[:, repeat] = total.run(nothing)[:, repeat % 3]
    check_variances(name, samples, [total.error(t) for t in range(1, steps + 1)])


@pytest.mark.parametrize("name", ["tree-gamma-honaker", "window-tree-gamma-8"])
def test_error_of_gamma_noise_in_epochs_and_far_out(name, monkeypatch):
    monkeypatch.setattr(mechanism, "_FIRST_EPOCH", 2)
    monkeypatch.setattr(mechanism, "_BLOCK", 42)
    total = CASES[name](2, None, noise_precision="float")
    steps = 9 if "tree-gamma-h" in name else 21
    samples = np.empty((steps, SAMPLES))
    for repeat in range(SAMPLES):
        total._begin()
        total._lease = lease.Lease()
        samples[:, repeat] = total.run(np.zeros((steps, 2)))[:, repeat % 2]
    check_variances(name, samples, [total.error(t) for t in range(1, steps + 1)])


def test_totals_of_disjoint_stretches_of_a_window_are_independent_repeats():
    """One long stream instead of many: totals two windows apart share no node."""
    total = CASES["window-tree-gamma-6"](3)
    far = total.run(np.zeros((12 * SAMPLES + 200, 3)))[200:]
    samples = far.reshape(SAMPLES, 12, 3)[:, :, 0].T
    # the pattern of nodes repeats with the block of four, and 12 is a multiple of it
    check_variances("gamma", samples, [total.error(201 + k) for k in range(12)])


WINDOWED = reticent.Budget(1.0, 1e-6, window=8)

BAD_ARGUMENTS = [
    (sums.Tree, {"dim": 0}, "dim"),
    (sums.Tree, {"dim": -1}, "dim"),
    (sums.Tree, {"dim": 2.0}, "dim"),
    (sums.Tree, {"dim": True}, "dim"),
    (sums.Tree, {"dim": None}, "dim"),
    (sums.Tree, {"horizon": 0}, "horizon"),
    (sums.Tree, {"horizon": -5}, "horizon"),
    (sums.Tree, {"horizon": 2.5}, "horizon"),
    (sums.Tree, {"norm": 0.0}, "norm"),
    (sums.Tree, {"norm": -1.0}, "norm"),
    (sums.Tree, {"norm": math.nan}, "norm"),
    (sums.Tree, {"norm": math.inf}, "norm"),
    (sums.Tree, {"norm": "1"}, "norm"),
    (sums.Tree, {"norm": True}, "norm"),
    (sums.Tree, {"budget": 1.0}, "budget"),
    (sums.Tree, {"budget": None}, "budget"),
    (sums.Tree, {"noise": "normal"}, "noise"),
    (sums.Tree, {"noise": None}, "noise"),
    (sums.Tree, {"estimator": "best"}, "estimator"),
    (sums.Tree, {"noise_precision": "double"}, "noise_precision"),
    (sums.Tree, {"seed": -1}, "seed"),
    (sums.Tree, {"seed": 1.5}, "seed"),
    (sums.Tree, {"budget": WINDOWED}, "window"),
    (sums.Tree, {"budget": PURE}, "delta"),
    (sums.Independent, {"budget": PURE}, "delta"),
    (sums.Independent, {"noise": "cauchy"}, "noise"),
    (sums.Independent, {"norm": 0.0}, "norm"),
    (sums.WindowTree, {}, "window"),
    (sums.WindowTree, {"budget": PURE.with_(window=4)}, "delta"),
    (sums.WindowTree, {"budget": WINDOWED, "noise": "uniform"}, "noise"),
    (sums.WindowTree, {"budget": WINDOWED, "dim": 0}, "dim"),
    (sums.Correlated, {"budget": PURE}, "delta"),
    (sums.Correlated, {"objective": "median"}, "objective"),
    (sums.Correlated, {"buffers": 0}, "buffers"),
    (sums.Correlated, {"buffers": 1.5}, "buffers"),
    (sums.Correlated, {"noise_precision": None}, "noise_precision"),
]


@pytest.mark.parametrize(("kind", "wrong", "word"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused_and_cost_nothing(kind, wrong, word):
    given = {"dim": 2, "horizon": 8, "budget": GAUSSIAN} | wrong
    for scope in (GAUSSIAN, WINDOWED):
        with reticent.Ledger(scope) as ledger:
            with pytest.raises((ValueError, TypeError), match=word):
                kind(
                    given["dim"],
                    given["horizon"],
                    **{k: v for k, v in given.items() if k not in ("dim", "horizon")},
                )
            assert ledger.entries == ()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"window": 0}, "window"),
        ({"window": -3}, "window"),
        ({"window": 2.5}, "window"),
        ({"neighbours": "add-remove"}, "neighbours"),
    ],
)
def test_bad_budgets_are_refused(wrong, word):
    with reticent.Ledger(GAUSSIAN) as ledger:
        with pytest.raises((ValueError, TypeError), match=word):
            sums.Tree(2, 8, budget=reticent.Budget(**({"epsilon": 1.0, "delta": 1e-6} | wrong)))
        assert ledger.entries == ()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_promise_meets_the_budget_and_says_what_it_is(name, precision):
    for neighbours in ("zero-out", "replace"):
        for epsilon in (1e-3, 1.0, 1e4):
            budget = CASES[name](1).budget.with_(epsilon=epsilon, neighbours=neighbours)
            for horizon in (None, 1, 30):
                total = CASES[name](3, horizon, budget=budget, noise_precision=precision, seed=None)
                promise = total.guarantee
                assert promise.meets(budget)
                assert promise.epsilon(budget.delta) == pytest.approx(epsilon, rel=1e-5)
                assert (promise.neighbours, promise.window) == (neighbours, budget.window)
                assert promise.lattice == (precision == "lattice")
                assert not promise.seeded


@pytest.mark.parametrize("noise", ["gamma", "laplace"])
def test_pure_noise_with_a_delta_meets_its_budget(noise):
    budget = reticent.Budget(1.0, 1e-6)
    tree = sums.Tree(3, 2**20, budget=budget, noise=noise)
    window = sums.WindowTree(3, budget=budget.with_(window=2**20), noise=noise)
    for total in (tree, window):
        assert total.guarantee.meets(total.budget)
        assert total.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    pure = sums.Tree(3, 2**20, budget=reticent.Budget(1.0), noise=noise)
    assert tree.error(1) < pure.error(1)


def test_published_noise_is_reported_as_it_is(monkeypatch):
    """The paper's own noise, and the mu of the worst record under it, from the matrix."""
    from reticent import papers

    budget = reticent.Budget(1.0, 1e-6, window=12)
    total = sums.WindowTree(80, budget=budget, noise_precision="float", calibration="published")
    assert total.error(1) == papers.window_tree_gaussian(1.0, 1e-6, window=12).scale
    matrix = reference.as_matrix(total, 40, monkeypatch)
    assert total.guarantee.gdp == pytest.approx(reference.worst_mu(matrix, 12), rel=1e-9)
    for estimator in ("plain", "honaker"):
        tree = sums.Tree(
            33, 33, budget=GAUSSIAN, estimator=estimator, noise_precision="float",
            calibration="published",
        )  # fmt: skip
        matrix = reference.as_matrix(tree, 33, monkeypatch)
        assert tree.guarantee.gdp == pytest.approx(reference.worst_mu(matrix), rel=1e-9)


@pytest.mark.parametrize("norm", [1e-320, 1e-300, 1e-160, 1e-101, 1e101, 1e160, 1.7e308])
def test_absurd_norms_are_refused(norm):
    """Where a square, a sum or a lattice step would be beyond what a double can hold."""
    with pytest.raises(ValueError, match="norm"):
        sums.Tree(2, 1000, budget=GAUSSIAN, norm=norm)
