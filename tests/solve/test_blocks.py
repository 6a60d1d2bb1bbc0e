"""Records in blocks: the same sums whatever holds the rows, and within their bound whatever adds them."""

from __future__ import annotations

import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import erm, interpreting, losses
from reticent.erm import passes, rounded_sums
from reticent.solve import blocks
from reticent.solve.blocks import Form, InMemory, IsClass, Records, Within, summed

LOSS = passes.Scalar(*losses.Logistic().kernel, 1.0)


def table(count=700, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, columns)).astype(np.float32), rng.choice([3, 7], count)


def reference(X, y, form, x):
    """The gradient, the value and the second derivatives in plain NumPy."""
    A = np.asarray(X, dtype=np.float64) / form.unit
    A = A * np.minimum(1.0, form.length / np.linalg.norm(A, axis=1))[:, None]
    A = np.column_stack([A, np.full(len(A), form.constant)]) if form.constant else A
    m = y * (A @ x)
    p = 1.0 / (1.0 + np.exp(m))
    return A.T @ (-y * p), np.logaddexp(0.0, -m).sum(), A.T @ ((p * (1.0 - p))[:, None] * A)


def small_blocks(monkeypatch, numbers=700):
    monkeypatch.setattr(blocks, "_NUMBERS", numbers)


@pytest.mark.parametrize("form", [Form(2.0, 1.0, 0.5), Form(length=1.5)])
@pytest.mark.parametrize("holds", ["float32", "float64", "columns first", "memory map", "csr"])
def test_passes_against_numpy(holds, form, monkeypatch, tmp_path):
    small_blocks(monkeypatch)
    X, y = table()
    if holds == "float64":
        rows = X.astype(np.float64)
    elif holds == "columns first":
        rows = np.asfortranarray(X)
    elif holds == "memory map":
        np.save(tmp_path / "rows.npy", X)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    else:
        rows = sp.csr_array(X) if holds == "csr" else X
    records = InMemory(rows, y, form=form, labels_are=IsClass(7))
    assert isinstance(records, Records)
    assert sum(len(block.labels) for block in records.blocks()) == len(y)
    dim = records.shape[1]
    x, v = np.random.default_rng(1).standard_normal((2, dim))
    g, value, H = reference(X, np.where(y == 7, 1.0, -1.0), form, x)
    near = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(summed(records.map(passes.SlopeSum(LOSS, x))), g, **near)
    np.testing.assert_allclose(summed(records.map(passes.Values(LOSS, x))), value, **near)
    np.testing.assert_allclose(summed(records.map(passes.Along(LOSS, x, v))), g @ v, **near)
    np.testing.assert_allclose(summed(records.map(passes.Hessian(LOSS, x))), H, **near)
    np.testing.assert_allclose(summed(records.map(passes.HessianTimes(LOSS, x, v))), H @ v, **near)
    A = records.matrix()
    V, u = rounded_sums.unfolded(summed(records.meaning(Within(3, 7)).map(passes.Products())))
    A = A.toarray() if holds == "csr" else A
    np.testing.assert_allclose(V, A.T @ A, **near)
    np.testing.assert_allclose(u, A.T @ np.where(y == 7, 1.0, -1.0), **near)
    clipped = int((np.linalg.norm(X.astype(float), axis=1) > form.unit * form.length).sum())
    assert passes.surveyed(records) == clipped


def test_a_pass_can_be_pickled_and_gives_the_same_bits():
    X, y = table()
    block = next(InMemory(X, y, labels_are=IsClass(7)).blocks())
    work = passes.SlopeSum(LOSS, np.ones(5))
    there, here = pickle.loads(pickle.dumps((work, block)))
    assert (there(here) == work(block)).all()


def test_the_same_bits_on_any_number_of_threads(monkeypatch):
    small_blocks(monkeypatch)
    X, y = table(5000)
    records = InMemory(X, y, form=Form(2.0, 1.0, 0.5), labels_are=IsClass(7))
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RETICENT_THREADS", threads)
        found.append(summed(records.map(passes.SlopeSum(LOSS, np.ones(6)))))
    assert len(list(records.blocks())) > 20
    assert all((one == found[0]).all() for one in found)
    monkeypatch.setenv("RETICENT_THREADS", "none")
    with pytest.raises(ValueError, match="RETICENT_THREADS must be a whole number"):
        list(records.map(passes.SlopeSum(LOSS, np.ones(6))))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_many_blocks_within_the_bound(form, monkeypatch):
    monkeypatch.setattr(blocks, "_NUMBERS", 1)
    rng = np.random.default_rng(3)
    A = rng.standard_normal((3000, 2)) * 10.0 ** rng.integers(-8, 9, (3000, 1))
    w = rng.standard_normal(3000)
    found = rounded_sums.weighted_rows(form(A), w)
    for j in range(2):
        exact = sum(
            Fraction(float(a)) * Fraction(float(b)) for a, b in zip(A[:, j], w, strict=True)
        )
        bound = rounded_sums.UNITS * rounded_sums.UNIT * float(np.abs(w) @ np.abs(A[:, j]))
        assert abs(float(Fraction(float(found[j])) - exact)) <= bound


def test_pairs_lose_no_more_than_they_may():
    """Each part enters at most log2(K) + 1 additions, so the error is that many units of the sizes."""
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 63, 64, 65, 1000):
        parts = rng.standard_normal((count, 3)) * 10.0 ** rng.integers(-8, 9, (count, 1))
        exact = [float(sum(map(Fraction, column))) for column in parts.T.tolist()]
        depth = np.log2(count) + 1.0
        bound = (depth + 1.0) * 2.0**-53 * np.abs(parts).sum(axis=0)
        assert (np.abs(summed(iter(parts)) - exact) <= bound).all()


def test_most_blocks_are_within_the_units():
    # 128 for a part, 3 for the compensated sum of parts, and the pairs
    assert 128 + 3 + np.log2(blocks.MOST_BLOCKS) + 1 <= rounded_sums.UNITS
    with pytest.raises(ValueError, match="more than the 16777216 blocks"):
        blocks.ends(2**40, 128)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.797e308, 5e-324])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_row_that_changes_after_it_was_checked_moves_no_more_than_it_may(value, form):
    """Rows are the caller's memory, so every pass measures them anew."""
    X = np.full((10, 3), 0.1)
    rows = form(X)
    records = InMemory(rows, np.ones(10), form=Form(length=1.0))
    before = summed(records.map(passes.SlopeSum(LOSS, np.zeros(3))))
    (rows.data if sp.issparse(rows) else rows[4])[:3] = value
    after = summed(records.map(passes.SlopeSum(LOSS, np.zeros(3))))
    assert np.linalg.norm(after - before) <= 0.5 * (1.0 + np.linalg.norm(X[0])) + 1e-12


def test_csr_indices_that_are_out_of_order_are_mended_or_refused():
    unsorted = sp.csr_array(
        (np.array([3.0, 4.0, 1.0]), np.array([1, 1, 0]), np.array([0, 3])), (1, 2)
    )
    unsorted.has_canonical_format = True  # which is not so
    problem_fit = erm.objective_perturbation(
        losses.Logistic(), None, sp.vstack([unsorted] * 50, format="csr"), np.ones(50),
        budget=reticent.Budget(1.0), seed=0,
    )  # fmt: skip
    assert np.isfinite(problem_fit.point).all()
    broken = sp.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), (2, 2))
    broken.indices[1] = 9
    with reticent.Ledger(reticent.Budget(1.0)) as ledger, pytest.raises(ValueError):
        erm.objective_perturbation(
            losses.Logistic(), None, broken, np.ones(2), budget=reticent.Budget(1.0), seed=0
        )
    assert ledger.entries == ()
    with pytest.raises(ValueError, match="column indices of a row must increase"):
        passes.surveyed(InMemory(broken))


def test_a_fit_takes_little_memory_beside_its_input(monkeypatch):
    monkeypatch.setattr(interpreting, "_at_once", True)
    X, y = table(200_000, 50)
    model = reticent.PrivateLogisticRegression(classes=[3, 7], feature_norm=10.0, random_state=0)
    model.fit(X, y)  # compiles, which takes memory too
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 0.3 * X.nbytes


def test_single_precision_is_the_same_table():
    X, y = table(20_000)
    fits = [
        reticent.PrivateLogisticRegression(
            classes=[3, 7], feature_norm=2.0, random_state=0, scaling="none"
        ).fit(rows, y)
        for rows in (X, X.astype(np.float64), sp.csr_array(X))
    ]
    for one in fits[1:]:
        np.testing.assert_allclose(one.coef_, fits[0].coef_, rtol=1e-6)


def test_records_longer_than_the_loss_allows_are_refused():
    X, y = table()
    records = InMemory(X, y, form=Form(length=2.0), labels_are=IsClass(7))
    with pytest.raises(ValueError, match="clipped to norm 2, more than the loss's feature_norm 1"):
        erm.objective_perturbation(losses.Logistic(), None, records, budget=reticent.Budget(1.0))


@pytest.mark.parametrize("dim", [1, 2, 7, 50, 1000])
@pytest.mark.parametrize("length", [1.0, 0.3, 1e-100, 1e120])
def test_rows_of_exactly_the_length_pass_and_none_exceeds_the_norm(dim, length):
    """Rows that were scaled to the length are not scaled again, whatever their rounding; the bound is exact."""
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(200, dim))
    rows *= (length / np.linalg.norm(rows, axis=1))[:, np.newaxis]
    form = Form(length=length)
    assert passes.surveyed(InMemory(rows, form=form)) == 0
    assert (form.applied(rows) == rows).all()
    assert (form.applied(sp.csr_array(rows)).toarray() == rows).all()
    unit = 2.0**-52
    factors = 1.0 + unit * rng.integers(-40, 40 + 2 * dim, size=(200, 1))
    bound = Fraction(form.norm(dim)) ** 2
    for made in form.applied(rows * factors):
        assert sum(Fraction(value) ** 2 for value in made.tolist()) <= bound
