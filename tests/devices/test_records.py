"""Passes on a device against those in memory, by libraries that run anywhere: array-api-strict, or PyTorch."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import reticent
from reticent.erm import passes
from reticent.losses import CappedLogistic, Huber, Logistic, Poisson, SmoothHinge, Squared
from reticent.solve.blocks import AsGiven, Form, InMemory, IsClass, Within, summed

pytest.importorskip("array_api_compat", reason="devices need array-api-compat")
from reticent.devices import OnDevice, is_device_array, on_device, plain, records

_LIBRARIES = ["array_api_strict", "torch"]


@pytest.fixture(params=_LIBRARIES)
def xp(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


def _records(count=40_000, columns=7, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((count, columns)) * rng.lognormal(0, 1, (count, 1))).astype(dtype)
    return X, rng.integers(0, 3, count), rng.uniform(-2, 2, count)


_LOSSES = [
    (Logistic(), IsClass(1)),
    (CappedLogistic(0.5), IsClass(2)),
    (SmoothHinge(0.5), IsClass(0)),
    (Squared(), Within(-1.0, 1.0)),
    (Huber(0.3), AsGiven()),
    (Poisson(label_bounds=(0.0, 5.0)), AsGiven()),
]


@pytest.mark.parametrize(("loss", "meaning"), _LOSSES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("form", [Form(2.0, 1.0, 0.5), Form(1.0, 3.0, 0.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pass_agrees_with_the_one_in_memory(xp, loss, meaning, form, weighted):
    X, classes, values = _records()
    y = (
        classes
        if isinstance(meaning, IsClass)
        else np.abs(values)
        if isinstance(loss, Poisson)
        else values
    )
    rng = np.random.default_rng(1)
    weights = rng.uniform(0, 1, len(X)) if weighted else None
    here = InMemory(X, y, weights, form, meaning)
    there = OnDevice(xp.asarray(X), xp.asarray(y), weights, form, meaning)
    assert there.shape == here.shape
    x, v = 0.3 * rng.standard_normal((2, here.shape[1]))
    scalar = passes.Scalar(*loss.kernel, 0.7)
    works = [
        passes.SlopeSum(scalar, x),
        passes.SlopeSquares(scalar, x),
        passes.Values(scalar, x),
        passes.Along(scalar, x, v),
        passes.Hessian(scalar, x),
        passes.HessianTimes(scalar, x, v),
    ]
    for work in works:
        ours, reference = summed(there.map(work)), summed(here.map(work))
        assert ours == pytest.approx(reference, rel=1e-9, abs=1e-9 * len(X)), work
    thin = there.thinned(7)
    assert summed(thin.map(works[0])) == pytest.approx(
        summed(here.thinned(7).map(works[0])), rel=1e-9, abs=1e-6
    )


def test_products_agree(xp):
    X, _, y = _records()
    form = Form(1.5, 1.0, 0.25)
    ours = summed(OnDevice(xp.asarray(X), xp.asarray(y), None, form).map(passes.Products()))
    assert ours == pytest.approx(
        summed(InMemory(X, y, None, form).map(passes.Products())), rel=1e-10, abs=1e-8
    )


def test_rounding_stays_within_the_stated_units(xp):
    """Exact sums by fractions: records with cancelling entries, half of them of the other sign."""
    rng = np.random.default_rng(2)
    count = plain.ROWS * (plain.PARTS + 3) + 77
    X = rng.uniform(0.5, 1.0, (count, 2))
    X[1::2] *= -1.0
    table = OnDevice(xp.asarray(X), xp.asarray(np.ones(count)), None, Form(length=10.0))
    linear = passes.Scalar(1, np.empty(0), 1e9)  # squared loss: at x = 0 every slope is -1
    total = summed(table.map(passes.SlopeSum(linear, np.zeros(2))))
    for j in range(2):
        exact = -sum(map(Fraction, X[:, j].tolist()))
        size = sum(abs(Fraction(v)) for v in X[:, j].tolist())
        assert abs(Fraction(float(total[j])) - exact) <= Fraction(table.units) * size / 2**53


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_cut_on_the_device(xp, dtype):
    X = np.array([[3e30, 4e30], [0.3, 0.4], [1e-30, 0.0], [0.0, 0.0]], dtype=dtype)
    cut, beyond, finite = plain.rows_in_form(_namespace(xp), xp.asarray(X), Form(1.0, 1.0, 0.0))
    assert np.asarray(cut) == pytest.approx(
        np.array([[0.6, 0.8], [0.3, 0.4], [1e-30, 0], [0, 0]]), rel=1e-6
    )
    assert np.asarray(beyond).tolist() == [True, False, False, False]
    assert np.asarray(finite).all()


def test_rows_that_are_not_finite_count_for_nothing_if_they_appear_after_the_survey(xp):
    X = np.array([[np.nan, 1.0], [np.inf, 0.0], [0.6, 0.0], [1e300, 1e300]])
    table = OnDevice(xp.asarray(X), xp.asarray(np.ones(4)), None, Form(1.0, 1.0, 0.5))
    linear = passes.Scalar(1, np.empty(0), 1e9)
    assert summed(table.map(passes.SlopeSum(linear, np.zeros(3)))).tolist()[:2] == [-0.6, 0.0]
    with pytest.raises(ValueError, match="row 0 is not"):
        passes.surveyed(table)


def _namespace(xp):
    return importlib.import_module("array_api_compat").array_namespace(xp.asarray([1.0]))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (reticent.PrivateLogisticRegression, {"classes": [0, 1, 2], "regularizer": 100.0}),
        (reticent.PrivateLinearSVC, {"classes": [0, 1, 2], "regularizer": 100.0}),
        (reticent.PrivateLinearRegression, {"label_bounds": (-2, 2)}),
        (reticent.PrivateLinearRegression, {"label_bounds": (-2, 2), "solver": "gradient-descent"}),
    ],
)
def test_fits_are_those_of_numpy(xp, kind, options):
    X, classes, values = _records(20_000, 4)
    y = classes if "classes" in options else values
    make = lambda: kind(epsilon=1.0, random_state=0, scaling="none", **options)  # noqa: E731
    here, there = make().fit(X, y), make().fit(xp.asarray(X), xp.asarray(y))
    # the noise is the same but for its scale: sums may be off by a little more on a device
    assert there.coef_ == pytest.approx(here.coef_, rel=1e-4, abs=1e-4)
    assert there.guarantee_.epsilon(1e-6) <= 1.0
    assert there.predict(xp.asarray(X[:50])).tolist() == pytest.approx(
        here.predict(X[:50]).tolist(), rel=1e-4
    )


def test_a_larger_rounding_bound_costs_noise(xp):
    X, _, y = _records(20_000, 4)
    here, there = InMemory(X, y), OnDevice(xp.asarray(X), xp.asarray(y))
    assert there.units > here.units


def test_a_failed_fit_charges_nothing(xp):
    X, classes, _ = _records(1000, 3)
    with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
        broken = X.copy()
        broken[999, 0] = np.nan
        for rows, labels, words in [
            (broken, classes, "row 999 is not"),
            (X, np.where(classes == 2, 7, classes), "not one of the classes"),
            (X[:, :0], classes, "at least one column"),
            (X, classes[:-1], "one label for each"),
        ]:
            with pytest.raises(ValueError, match=words):
                reticent.PrivateLogisticRegression(classes=[0, 1, 2]).fit(
                    xp.asarray(rows), xp.asarray(labels)
                )
        with pytest.raises(TypeError, match="numbers"):
            reticent.PrivateLogisticRegression(classes=["a", "b"]).fit(xp.asarray(X), ["a"] * 1000)
        assert not ledger.entries


def test_solvers_that_need_all_records_say_so(xp):
    X, _, y = _records(1000, 3)
    with pytest.raises((TypeError, ValueError), match=r"memory|passes|host"):
        reticent.PrivateLasso(epsilon=1.0).fit(xp.asarray(X), xp.asarray(y))


def test_numpy_is_no_device():
    assert not is_device_array(np.ones(3))
    assert not is_device_array([[1.0]])


def test_labels_of_the_host_travel(xp):
    X, classes, _ = _records(100, 3)
    rows, labels = on_device(xp.asarray(X), classes)
    assert rows.shape == (100, 3)
    assert labels.distinct().tolist() == [0, 1, 2]
    assert math.isclose(
        float(np.concatenate(list(rows.blocks())).sum()), float(X.sum()), rel_tol=1e-5
    )


def test_a_device_that_is_lost_during_a_pass_costs_one_charge_and_the_fit_goes_on(
    xp, tmp_path, monkeypatch
):
    X, _, _ = _records(20_000, 4)
    y = (X[:, 0] > 0).astype(np.int8)
    options = {"classes": [0, 1], "feature_norm": 1.0, "random_state": 0}
    whole = reticent.PrivateLogisticRegression(**options).fit(xp.asarray(X), xp.asarray(y))
    honest, calls = records._RUNS[passes.SlopeSum], []

    def lost(table, work):
        calls.append(work)
        if len(calls) == 5:
            raise RuntimeError("the device is lost")
        return honest(table, work)

    def fit(rows):
        model = reticent.PrivateLogisticRegression(**options)
        with reticent.resumable(tmp_path / "run"):
            return model.fit(xp.asarray(rows), xp.asarray(y))

    # the budget is for one fit and a half: a second charge would be refused
    with reticent.Ledger(reticent.Budget(1.5, 1e-5)) as ledger:
        with monkeypatch.context() as patch:
            patch.setitem(records._RUNS, passes.SlopeSum, lost)
            with pytest.raises(RuntimeError, match="device is lost"):
                fit(X)
        assert len(ledger.entries) == 1
        with pytest.raises(ValueError, match="differs in: records"):
            fit(X[::-1].copy())
        assert fit(X).coef_ == pytest.approx(whole.coef_, rel=1e-6)
        assert len(ledger.entries) == 1


def test_mixed_devices_are_refused_and_nothing_is_spent():
    strict = pytest.importorskip("array_api_strict")
    X, classes, _ = _records(1000, 3)
    here, there = (strict.Device(name) for name in ("CPU_DEVICE", "device1"))
    pairs = [(strict.asarray(X, device=here), strict.asarray(classes, device=there))]
    try:
        import torch

        pairs.append((torch.asarray(X), strict.asarray(classes)))
        if torch.cuda.is_available():
            pairs.append((torch.asarray(X, device="cuda"), torch.asarray(classes)))
    except ImportError:
        pass
    with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
        for rows, labels in pairs:
            with pytest.raises(ValueError, match=r"X is on .* and y on .*; move one of them"):
                reticent.PrivateLogisticRegression(classes=[0, 1, 2]).fit(rows, labels)
        assert not ledger.entries


LOST = """
import json, sys
import cupy, numpy as np
import reticent
from reticent.devices import cuda

folder, fatal = sys.argv[1], int(sys.argv[2])
honest, calls = cuda.slope_sums, []

def slope_sums(*arguments):
    calls.append(1)
    if len(calls) == fatal:  # a write to nowhere: from here on every call to the device fails
        code = 'extern "C" __global__ void nowhere(int* p) { *p = 1; }'
        cupy.RawKernel(code, "nowhere")((1,), (1,), (np.int64(8),))
    return honest(*arguments)

cuda.slope_sums = slope_sums
X, y = (cupy.asarray(np.load(folder + name)) for name in ("/x.npy", "/y.npy"))
with reticent.Ledger(reticent.Budget(1.5, 1e-5), folder + "/ledger") as ledger, reticent.resumable(folder + "/run"):
    model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0, random_state=0).fit(X, y)
print(json.dumps([model.coef_.tolist(), len(ledger.entries)]))
"""


def test_an_nvidia_device_that_is_lost_costs_one_charge_and_the_fit_goes_on(cupy, tmp_path):
    X, _, _ = _records(20_000, 4)
    y = (X[:, 0] > 0).astype(np.int8)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    options = {"classes": [0, 1], "feature_norm": 1.0, "random_state": 0}
    whole = reticent.PrivateLogisticRegression(**options).fit(cupy.asarray(X), cupy.asarray(y))

    def attempt(fatal):
        command = [sys.executable, "-W", "ignore", "-c", LOST, str(tmp_path), str(fatal)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    first, second = attempt(5), attempt(0)
    assert first.returncode != 0
    assert "llegal" in first.stderr
    assert not first.stdout
    assert second.returncode == 0, second.stderr
    coefficients, entries = json.loads(second.stdout)
    assert entries == 1
    assert np.array(coefficients) == pytest.approx(whole.coef_, rel=1e-6)


def test_too_little_device_memory_spends_nothing(cupy):
    X = cupy.random.default_rng(0).standard_normal((2**16, 40), dtype=cupy.float32)
    y = (X[:, 0] > 0).astype(cupy.int8)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 512)
    model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0)
    try:
        with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
            with pytest.raises(MemoryError):
                model.fit(X, y)
            assert not ledger.entries
    finally:
        pool.set_limit(size=0)
    assert model.fit(X, y).score(X.get(), y.get()) > 0.6


@pytest.mark.parametrize("unit", [1e-141, 1e-200, 1e-300, 1e151])
def test_norms_whose_squares_underflow_are_refused(unit):
    """A row of norm 1e-170 was not clipped to 1e-200, and contributed 1e30 instead of 1."""
    with pytest.raises(ValueError, match="Rescale the features and feature_norm"):
        OnDevice(np.array([[1e-170]]), np.ones(1), form=Form(unit, 1.0))
    for near in (1.01e-140, 1e-100, 1e100):
        rows = np.array([[3.0, 4.0], [1e-170, 1e-30], [1e-160, 0.0], [1.0, 1.0]]) * near
        made = next(OnDevice(rows, np.ones(4), form=Form(near, 1.0)).chunks())[0]
        assert (np.linalg.norm(made, axis=1) <= 1.0 + 1e-14).all()
        assert np.linalg.norm(made[[0, 3]], axis=1) == pytest.approx(1.0)
