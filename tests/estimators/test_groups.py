"""Persons with several records in a table: the scikit-learn faces, and two real tables."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, cross_val_score

import reticent
from reticent.estimators import (
    DomainScaler,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
)

RNG = np.random.default_rng(5)
N = 1500
IDS = RNG.integers(0, 300, size=N)
X = RNG.uniform(-1, 1, size=(N, 3)) / np.sqrt(3)
Y = (X @ [1.0, -2.0, 0.5] > 0).astype(int)

ESTIMATORS = {
    "logistic": lambda **k: PrivateLogisticRegression(classes=[0, 1], random_state=0, **k),
    "pure": lambda **k: PrivateLogisticRegression(delta=0.0, classes=[0, 1], random_state=0, **k),
    "descent": lambda **k: PrivateLogisticRegression(
        classes=[0, 1], solver="gradient-descent", random_state=0, **k
    ),
    "svc": lambda **k: PrivateLinearSVC(classes=[0, 1], random_state=0, **k),
    "linear": lambda **k: PrivateLinearRegression(random_state=0, **k),
    "statistics": lambda **k: PrivateLinearRegression(
        solver="sufficient-statistics", random_state=0, **k
    ),
    "adassp": lambda **k: PrivateLinearRegression(solver="adassp", random_state=0, **k),
    "lasso": lambda **k: PrivateLasso(random_state=0, **k),
    "lasso by statistics": lambda **k: PrivateLasso(
        solver="sufficient-statistics", random_state=0, **k
    ),
    "scaler": lambda **k: PrivateScaler(random_state=0, **k),
}


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_promise_is_about_a_person(name, neighbours):
    for extra in ({}, {"max_records": 2})[: 1 if name == "scaler" else 2]:
        model = ESTIMATORS[name](neighbours=neighbours, **extra).fit(X, Y, groups=IDS)
        g = model.guarantee_
        assert g.unit == "person"
        assert g.meets(reticent.Budget(model.epsilon, model.delta, neighbours))
        assert "all records of one person are" in str(g)
        assert "protected: each person, all of their records together" in g.explain()
        assert f"{len(np.unique(IDS))} persons" in g.explain()
        assert str(N) not in g.explain()  # the number of records is not public


@pytest.mark.parametrize("name", ESTIMATORS)
def test_persons_of_one_record_are_records(name):
    """With one record each, as many persons as records, the fit is as noisy as one of records."""
    alone = ESTIMATORS[name]().fit(X, Y, groups=np.arange(N))
    plain = ESTIMATORS[name]().fit(X, Y)
    assert plain.guarantee_.unit == "record"
    ours, theirs = (m.guarantee_.releases[0] for m in (alone, plain))
    if name not in ("logistic", "pure", "svc"):  # there several directions cost more
        assert ours.noise == theirs.noise
    with pytest.raises(ValueError, match="cannot be added"):
        alone.guarantee_ + plain.guarantee_


@pytest.mark.parametrize("name", ["logistic", "linear", "lasso", "scaler"])
def test_repeating_a_persons_record_changes_nothing(name):
    """A person who repeats the same record many times counts as one who gives it once."""
    rows = np.concatenate([np.arange(N), np.full(400, 7), np.full(30, 11)])
    fits = [
        ESTIMATORS[name]().fit(X[r], Y[r], groups=np.arange(N)[r]) for r in (np.arange(N), rows)
    ]
    for attribute in ("coef_", "center_"):
        if hasattr(fits[0], attribute):
            first, second = (getattr(fit, attribute) for fit in fits)
            assert second == pytest.approx(first, abs=2e-3)
    assert fits[0].guarantee_.epsilon(1e-6) == fits[1].guarantee_.epsilon(1e-6)


@pytest.mark.parametrize("name", ["logistic", "svc", "linear"])
def test_the_number_of_records_decides_nothing(name, monkeypatch):
    """A person who brings more records must not change what is released: their number is not public."""
    monkeypatch.setattr(reticent.estimators.scaling, "_MOST_NUMBERS", 3 * (N + 200))
    rows = np.concatenate([np.arange(N), np.full(400, 7)])
    few, many = (
        ESTIMATORS[name]().fit(X[r], Y[r], groups=np.arange(N)[r]) for r in (np.arange(N), rows)
    )
    assert few.scaling_ == many.scaling_
    assert few.guarantee_ == many.guarantee_


def test_weights_classes_and_groups_together():
    labels = RNG.integers(0, 3, size=N)
    model = PrivateLogisticRegression(
        classes=[0, 1, 2], class_weight={0: 2.0}, weight_bound=3.0, random_state=0
    ).fit(X, labels, sample_weight=RNG.uniform(0, 9, N), groups=IDS)
    assert model.guarantee_.meets(reticent.Budget(1.0, 1e-6))
    assert model.guarantee_.unit == "person"
    assert model.coef_.shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", reticent.PrivacyLeakWarning)
        leaky = PrivateLogisticRegression(random_state=0).fit(X, labels, groups=IDS)
    assert any("classes" in line for line in leaky.guarantee_.caveats)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (IDS[:-1], "one id for each"),
        ([None, *IDS[1:].tolist()], r"groups\[0\] is missing"),
        (["x", *IDS[1:].tolist()], "one type"),
        (IDS + 0.5, "whole numbers, text or bytes"),
        (np.where(IDS == 3, "", "a"), "is missing"),
    ],
)
@pytest.mark.parametrize("name", ["logistic", "linear", "lasso", "svc", "scaler"])
def test_bad_ids_cost_nothing(name, groups, words):
    model = ESTIMATORS[name]()
    budget = reticent.Budget(5.0, 1e-5)
    with (
        reticent.Ledger(budget, unit="person") as ledger,
        pytest.raises((ValueError, TypeError), match=words),
    ):
        model.fit(X, Y, groups=groups)
    assert ledger.entries == ()
    assert not hasattr(model, "guarantee_")


def test_what_is_refused():
    with pytest.raises(ValueError, match="max_records=2 needs groups"):
        PrivateLogisticRegression(max_records=2, classes=[0, 1]).fit(X, Y)
    with pytest.raises(ValueError, match="takes weights or groups"):
        PrivateLogisticRegression(solver="output-perturbation", classes=[0, 1]).fit(
            X, Y, groups=IDS
        )
    with reticent.Ledger(reticent.Budget(9.0, 1e-5)), pytest.raises(ValueError, match="one kind"):
        PrivateLogisticRegression(classes=[0, 1]).fit(X, Y, groups=IDS)


def folder() -> Path:
    named = os.environ.get("RETICENT_DATA")
    place = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not place.is_dir():
        pytest.skip("the real data are not here: set RETICENT_DATA")
    return place


def test_patients_who_come_back():
    """diabetes130: 101,766 stays of 71,518 patients, of whom one has 40."""
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(folder() / "diabetes130.parquet")
    columns = ["time_in_hospital", "num_lab_procedures", "num_medications", "number_inpatient",
               "number_emergency", "number_outpatient", "number_diagnoses"]  # fmt: skip
    high = [14, 130, 80, 20, 20, 20, 16]
    X = DomainScaler(([0] * 7, high)).fit_transform(table[columns])
    y = (table["readmitted"] != "NO").astype(int)
    model = PrivateLogisticRegression(classes=[0, 1], random_state=0)
    model.fit(X, y, groups=table["patient_nbr"])
    assert model.guarantee_.unit == "person"
    assert "71518 persons" in model.guarantee_.explain()
    record = PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, y)
    patients = table.groupby("patient_nbr")["patient_nbr"].transform("size")
    ours, theirs = (m.score(X, y, sample_weight=1 / patients) for m in (model, record))
    assert ours > theirs - 0.02
    first = PrivateLogisticRegression(classes=[0, 1], max_records=4, random_state=0)
    assert first.fit(X, y, groups=table["patient_nbr"]).score(X, y) > 0.55


def test_nineteen_users():
    """ujiindoorloc: 21,048 measurements by 19 users; nobody can learn much from 19 people."""
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(folder() / "ujiindoorloc.parquet")
    X = DomainScaler((-110.0, 100.0)).fit_transform(table[[f"WAP{k:03}" for k in range(1, 41)]])
    y = table["FLOOR"]
    model = PrivateLinearRegression(label_bounds=(0, 4), random_state=0)
    model.fit(X, y, groups=table["USERID"])
    assert "19 persons" in model.guarantee_.explain()
    assert model.guarantee_.meets(reticent.Budget(1.0, 1e-6))
    assert np.isfinite(model.coef_).all()


def test_cross_validation_by_persons():
    scores = cross_val_score(
        PrivateLogisticRegression(classes=[0, 1], epsilon=20.0, random_state=0),
        X,
        Y,
        groups=IDS,
        cv=GroupKFold(3),
    )
    assert np.isfinite(scores).all()
