"""Online estimators and River twins that protect persons, and promises that fade."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent.estimators import OnlineLinearRegression, OnlineLogisticRegression

RNG = np.random.default_rng(0)
N = 900
X = RNG.uniform(-1, 1, size=(N, 3)) / np.sqrt(3)
Y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
IDS = RNG.integers(0, 200, size=N)
RULE = {"max_records": 3, "min_gap": 10, "random_state": 0}


def model(**more):
    return OnlineLogisticRegression(classes=[0, 1], **RULE | more)


@pytest.mark.parametrize(
    "length",
    [{"horizon": N}, {"window": 300}, {"fade": [(300, 1.0), (10**5, 2.0)]}, {}],
    ids=str,
)
def test_a_stream_of_persons_continues(length):
    whole = model(**length).partial_fit(X, Y, person=IDS)
    first = model(**length).partial_fit(X[:400], Y[:400], person=IDS[:400])
    again = OnlineLogisticRegression.from_state(first.state())
    again.partial_fit(X[400:], Y[400:], person=IDS[400:])
    assert np.array_equal(again.coef_, whole.coef_)
    assert again.guarantee_ == whole.guarantee_
    assert whole.guarantee_.unit == "person"
    assert "at most 3 records of a person, at least 10 steps apart" in whole.guarantee_.explain()


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_other_peoples_ids_change_nothing_but_the_surplus(classes):
    """Text or numbers, one call or many: the same fit."""
    a = OnlineLogisticRegression(classes=classes, horizon=N, **RULE).partial_fit(X, Y, person=IDS)
    names = [f"p{i}" for i in IDS]
    b = OnlineLogisticRegression(classes=classes, horizon=N, **RULE)
    for part in np.array_split(np.arange(N), 7):
        b.partial_fit(X[part], Y[part], person=[names[i] for i in part])
    assert np.array_equal(a.coef_, b.coef_)


def test_tables_and_linear_models():
    for learner in ("regularized-leader", "quadratic-leader"):
        fit = OnlineLinearRegression(learner=learner, **RULE).fit(X, Y, person=IDS.astype(str))
        assert fit.guarantee_.unit == "person"
        assert fit.guarantee_.meets(reticent.Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="same person may be in both"):
        fit.partial_fit(X, Y, person=IDS.astype(str))


def test_fading_promises():
    fade = [(300, 1.0), (10**5, 2.0)]
    plain = OnlineLogisticRegression(classes=[0, 1], fade=fade, random_state=0).partial_fit(X, Y)
    assert plain.guarantee_.ages == (300, 10**5)
    assert plain.guarantee_.meets(reticent.Budget(1.0, 1e-6, fade=fade))
    assert plain.guarantee_.unit == "record"


BAD = {
    "no ids": ({"person": None}, "id for each record"),
    "too few": ({"person": IDS[:-1]}, "one id for each of the 900"),
    "missing": ({"person": [None, *IDS[1:].tolist()]}, "missing"),
    "mixed": ({"person": ["a", *IDS[1:].tolist()]}, "one type"),
    "k of 0": ({"person": IDS, "max_records": 0}, "max_records must be at least 1"),
    "b of 0": ({"person": IDS, "min_gap": 0}, "min_gap must be at least 1"),
    "crowd": ({"person": IDS, "max_persons": 20}, "more than max_persons=20"),
    "not asked": ({"person": IDS, "max_records": None, "min_gap": None}, "single records"),
    "nobody told apart": (
        {"person": None, "max_records": None, "min_gap": None, "max_persons": 9},
        "needs max_records or min_gap",
    ),
    "window and fade": ({"person": IDS, "window": 9, "fade": [(9, 1.0)]}, "cannot be combined"),
    "falling": ({"person": IDS, "fade": [(9, 1.0), (20, 0.5)]}, "must not decrease"),
    "from 0": ({"person": IDS, "fade": [(0, 1.0)]}, "age"),
    "endless": ({"person": IDS, "max_records": None}, "give max_records"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_costs_nothing(name):
    more, words = BAD[name]
    ids = more["person"]
    parameters = {key: value for key, value in more.items() if key != "person"}
    estimator = model(**parameters)
    with (
        reticent.Ledger(reticent.Budget(5.0, 1e-5), unit="person") as ledger,
        pytest.raises((ValueError, TypeError), match=words),
    ):
        estimator.partial_fit(X, Y, person=ids)
    assert ledger.entries == ()
    assert not hasattr(estimator, "guarantee_")


def test_river_reads_a_field():
    river = pytest.importorskip("reticent.estimators.river")
    pandas = pytest.importorskip("pandas")
    common = {"max_records": 3, "min_gap": 10, "horizon": N, "seed": 0}
    twin = river.OnlineLogisticRegression(features=["a", "b", "c"], person="who", **common)
    for v, y, who in zip(X[:60].tolist(), Y[:60].tolist(), IDS[:60].tolist(), strict=True):
        twin.learn_one(dict(zip("abc", v, strict=True)) | {"who": who}, bool(y))
    frame = pandas.DataFrame(X[60:], columns=list("abc")).assign(who=IDS[60:])
    twin.learn_many(frame, pandas.Series(Y[60:].astype(bool)))
    own = OnlineLogisticRegression(classes=[False, True], horizon=N, **RULE)
    own.partial_fit(X, Y.astype(bool), person=IDS)
    assert list(twin.weights.values()) == pytest.approx(own.coef_[0].tolist(), abs=1e-12)
    assert twin.guarantee.unit == "person"
    hashed = river.OnlineLinearRegression(dimension=8, person="who", max_records=2, seed=0)
    with pytest.raises(ValueError, match="missing"):
        hashed.learn_one({"a": 1.0}, 0.5)
    assert hashed.guarantee is None
    hashed.learn_one({"a": 1.0, "who": "ann"}, 0.5)
    assert hashed.predict_one({"a": 1.0, "who": "bob"}) == hashed.predict_one({"a": 1.0})
    with pytest.raises(ValueError, match="give both, or neither"):
        river.OnlineLinearRegression(person="who")
    with pytest.raises(ValueError, match="need a column 'who'"):
        twin.learn_many(frame.drop(columns="who"), pandas.Series(Y[60:].astype(bool)))
