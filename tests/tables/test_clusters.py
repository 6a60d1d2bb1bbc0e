"""Fits on a real Dask cluster of processes: the same answer to the bit, also when a worker dies during a pass."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import reticent
from reticent import losses, sets
from reticent.estimators import PrivateScaler
from reticent.solve.blocks import checksum, rows_per_block

pytest.importorskip("distributed", reason="clusters need dask and distributed")
import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _records(blocks=4, columns=20, seed=0):
    rng = np.random.default_rng(seed)
    count = blocks * rows_per_block(columns) - 1000
    X = (rng.standard_normal((count, columns)) / np.sqrt(columns)).astype(np.float32)
    z = X @ rng.standard_normal(columns)
    return X, (z > 0).astype(np.int64), np.clip(z, -1, 1)


def _chunked(*arrays):
    rows = rows_per_block(arrays[0].shape[1])
    return [da.from_array(a, chunks=(rows, *a.shape[1:])) for a in arrays]


_KINDS = [
    (reticent.PrivateLogisticRegression, {"classes": [0, 1], "scaling": "none"}, 1),
    (reticent.PrivateLinearSVC, {"classes": [0, 1], "scaling": "none"}, 1),
    (reticent.PrivateLinearRegression, {"scaling": "none"}, 2),
    (reticent.PrivateLasso, {"solver": "frank-wolfe", "steps": 5, "feature_norm": 0.3}, 2),
    (reticent.PrivateLasso, {"solver": "sufficient-statistics"}, 2),
]


@pytest.mark.parametrize(("kind", "options", "label"), _KINDS)
def test_fits_are_those_in_memory_to_the_bit(client, kind, options, label):
    data = _records()
    here = kind(random_state=0, **options).fit(data[0], data[label])
    X, y = _chunked(data[0], data[label])
    there = kind(random_state=0, **options).fit(X, y)
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.predict(data[0][:100]), there.predict(X[:100]))
    assert here.guarantee_.gdp == there.guarantee_.gdp
    assert here.clipped_ == there.clipped_


def test_other_chunks_give_the_same_answer_within_rounding(client):
    X, y, _ = _records(2)
    here = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none").fit(
        X, y
    )
    odd = da.from_array(X, chunks=(12_345, 7)), da.from_array(y, chunks=54_321)
    there = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none").fit(
        *odd
    )
    assert there.coef_ == pytest.approx(here.coef_, rel=1e-6, abs=1e-9)


def _die_once(block, path=None, after=None):
    """Kill the worker that computes this block for the so-manieth time."""
    with open(path, "a") as file:
        file.write(".")
    if os.path.getsize(path) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_that_dies_changes_nothing_and_spends_nothing(client, tmp_path):
    X, y, _ = _records()
    here = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none").fit(
        X, y
    )
    rows, labels = _chunked(X, y)
    counter = tmp_path / "visits"
    # past the survey of four chunks: the budget is charged by then, and a pass is under way
    fragile = rows.map_blocks(_die_once, path=str(counter), after=7, dtype=X.dtype)
    with reticent.Ledger(reticent.Budget(2.0, 1e-5)) as ledger:
        there = reticent.PrivateLogisticRegression(
            classes=[0, 1], random_state=0, scaling="none"
        ).fit(fragile, labels)
    assert counter.stat().st_size > 7
    assert len(ledger.entries) == 1
    assert np.array_equal(here.coef_, there.coef_)


def test_marks_of_text_are_the_same_in_every_process(client):
    labels = np.array(["no", "yes", "no"], dtype=object)
    assert set(client.run(checksum, labels).values()) == {checksum(labels)}
    assert checksum(labels) != checksum(labels[::-1][1:])
    rng = np.random.default_rng(0)
    for shape in ((1,), (5, 3), (4000, 3), (10_000, 50)):
        rows = rng.standard_normal(shape).astype(np.float32)
        other = rows.copy()
        other.flat[-1] += 1.0
        assert checksum(rows) == checksum(rows.copy()) != checksum(other)
        if len(rows) > 1:
            assert checksum(rows) != checksum(rows[::-1].copy())


def test_data_frames_are_read(client):
    import pandas as pd

    X, y, _ = _records(1, 4)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=3)
    model = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none")
    model.fit(frame[list("abcd")], frame["y"])
    assert model.feature_names_in_.tolist() == list("abcd")


def test_scalers_are_those_in_memory_to_the_bit(client):
    X = _records()[0]
    (rows,) = _chunked(X)
    here, there = (
        PrivateScaler((-1, 1), random_state=0).fit(table) for table in (X.astype(float), rows)
    )
    assert np.array_equal(here.center_, there.center_)
    assert np.array_equal(here.scale_, there.scale_)
    assert here.guarantee_.gdp == there.guarantee_.gdp
    moved = there.transform(rows)
    assert isinstance(moved, da.Array)
    assert np.array_equal(moved[:100].compute(), here.transform(X[:100]))


@pytest.mark.parametrize("what", ["lasso", "scaler"])
def test_a_worker_that_dies_costs_the_others_nothing_either(client, tmp_path, what):
    X, _, y = _records()
    rows, labels = _chunked(X, y)
    counter = tmp_path / "visits"
    fragile = rows.map_blocks(_die_once, path=str(counter), after=7, dtype=X.dtype)

    def fitted(table, labels):
        if what == "scaler":
            return PrivateScaler((-1, 1), random_state=0).fit(table).center_
        model = reticent.PrivateLasso(solver="frank-wolfe", steps=3, random_state=0)
        return model.fit(table, labels).coef_

    here = fitted(X.astype(float) if what == "scaler" else X, y)
    with reticent.Ledger(reticent.Budget(2.0, 1e-5)) as ledger:
        there = fitted(fragile, labels)
    assert counter.stat().st_size > 7
    assert len(ledger.entries) == 1
    assert np.array_equal(here, there)


@pytest.mark.parametrize(
    ("loss", "set", "label"),
    [
        (losses.Logistic(ridge=1e-3), None, 1),
        (losses.Squared(), sets.L2Ball(20, 1.0), 2),
        (losses.Logistic(), sets.L1Ball(20, 2.0), 1),
    ],
)
def test_the_best_fixed_decision_is_that_in_memory_within_the_gaps(client, loss, set, label):
    data = _records(2)
    y = 2 * data[1] - 1 if label == 1 else data[2]
    here = losses.best_fixed(set, loss, data[0], y)
    there = losses.best_fixed(set, loss, *_chunked(data[0], y))
    assert there.converged
    assert there.count == here.count
    assert there.clipped == here.clipped
    assert abs(there.value - here.value) <= here.gap + there.gap + 1e-12
    played = np.full(len(y), 0.7)
    assert losses.regret(played, there) == pytest.approx(losses.regret(played, here), rel=1e-5)
    with pytest.raises(ValueError, match="no losses of single records"):
        losses.regret_curve(played, there)


def test_what_cannot_be_had_by_passes_is_refused_in_words(client):
    X, y, z = _records(1)
    rows, labels = _chunked(X, 2 * y - 1)
    with pytest.raises(TypeError, match="smooth loss"):
        losses.best_fixed(sets.L2Ball(20), losses.Hinge(), rows, labels)
    with pytest.raises(ValueError, match="must be -1 or 1"):
        losses.best_fixed(sets.L2Ball(20), losses.Logistic(), *_chunked(X, y))
    with pytest.raises(TypeError, match="along with"):
        losses.best_fixed(sets.L2Ball(20), losses.Logistic(), rows)
    with reticent.Ledger(reticent.Budget(2.0, 1e-5)) as ledger:
        with pytest.raises(ValueError, match="needs stated bounds"):
            PrivateScaler("private").fit(rows)
        with pytest.raises(TypeError, match="y must be given with X"):
            reticent.PrivateLasso().fit(rows, None)
        bad = X.copy()
        bad[-1, 0] = np.nan
        (broken,) = _chunked(bad)
        for fit in (PrivateScaler((-1, 1)).fit, reticent.PrivateLasso().fit):
            with pytest.raises(ValueError, match=f"row {len(X) - 1} is not"):
                fit(broken, _chunked(X, z)[1])
        assert not ledger.entries


def _replaced(block, path=None, rows=slice(None)):
    """Other rows from the third time on."""
    with open(path, "a") as file:
        file.write(".")
    if os.path.getsize(path) > 2:
        block = block.copy()
        block[rows] += 1e-4
    return block


def test_bad_input_is_refused_and_nothing_is_spent(client):
    X, y, _ = _records(1)
    rows, labels = da.from_array(X, chunks=(20_000, -1)), da.from_array(y, chunks=20_000)
    model = reticent.PrivateLogisticRegression(classes=[0, 1])
    broken = X.copy()
    broken[-1, 3] = np.nan
    unknown = rows[rows[:, 0] > 0]
    with reticent.Ledger(reticent.Budget(2.0, 1e-5)) as ledger:
        for bad, its_labels, words in [
            (da.from_array(broken, chunks=(20_000, -1)), labels, f"row {len(X) - 1} is not"),
            (unknown, labels, "compute_chunk_sizes"),
            (rows, labels[:-1], "one label for each"),
            (rows, labels + 5, "not one of the classes"),
            (rows[:0], labels[:0], "at least one row"),
        ]:
            with pytest.raises(ValueError, match=words):
                model.fit(bad, its_labels)
        width = lambda block: block[:, :-1]  # noqa: E731
        uneven = rows.map_blocks(width, chunks=rows.chunks, dtype=X.dtype)
        short = rows.map_blocks(lambda block: block[:-1], chunks=rows.chunks, dtype=X.dtype)
        for bad in (uneven, short):
            with pytest.raises(ValueError, match="correct the code that makes the chunks"):
                model.fit(bad, labels)
        with pytest.raises(TypeError, match="real numbers"):
            model.fit(rows.astype("U5"), labels)
        assert not ledger.entries


def test_empty_chunks_are_dropped(client):
    X, y, _ = _records(1)
    rows = da.concatenate(
        [da.from_array(X[:0], chunks=(1, -1)), da.from_array(X, chunks=(20_000, -1))]
    )
    there = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none").fit(
        rows, da.from_array(y)
    )
    here = reticent.PrivateLogisticRegression(classes=[0, 1], random_state=0, scaling="none").fit(
        X, y
    )
    assert there.coef_ == pytest.approx(here.coef_, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("changed", [slice(None), 77])
def test_a_chunk_that_changes_between_passes_is_noticed(client, tmp_path, changed):
    """Also if it is one record in a place that passes of a search do not mark."""
    X, y, _ = _records(1)
    rows = da.from_array(X, chunks=(len(X), -1)).map_blocks(
        _replaced, path=str(tmp_path / "visits"), rows=changed, dtype=X.dtype
    )
    with pytest.raises(ValueError, match="has changed since it was first read"):
        reticent.PrivateLogisticRegression(classes=[0, 1]).fit(rows, y)


def _fail_once(block, path=None, after=None):
    with open(path, "a") as file:
        file.write(".")
    if os.path.getsize(path) == after:
        raise OSError("the disk is gone")
    return block


def test_a_fit_that_fails_during_a_pass_is_charged_once_and_goes_on(client, tmp_path):
    X, y, _ = _records(2)
    rows, labels = _chunked(X, y)
    options = {"classes": [0, 1], "random_state": 0, "scaling": "none"}
    here = reticent.PrivateLogisticRegression(**options).fit(rows, labels)
    fragile = rows.map_blocks(_fail_once, path=str(tmp_path / "visits"), after=9, dtype=X.dtype)

    def fit(table):
        with reticent.resumable(tmp_path / "run"):
            return reticent.PrivateLogisticRegression(**options).fit(table, labels)

    # the budget is for one fit and a half: a second charge would be refused
    with reticent.Ledger(reticent.Budget(1.5, 1e-5)) as ledger:
        with pytest.raises(OSError, match="disk is gone"):
            fit(fragile)
        assert len(ledger.entries) == 1
        with pytest.raises(ValueError, match="differs in: records"):
            fit(rows[::-1].rechunk(rows.chunks))
        assert fit(fragile).coef_ == pytest.approx(here.coef_, rel=1e-6)
        assert len(ledger.entries) == 1
