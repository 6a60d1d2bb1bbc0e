"""Data frames of pandas, Polars and Arrow give the same model as arrays."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import reticent
from reticent.estimators import DomainScaler, PrivateScaler

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(200, 3))
LABELS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0]
NAMES = ["a", "b", "c"]


def frame(library: str, label: np.ndarray):
    module = pytest.importorskip(library)
    columns = dict(zip(NAMES, X.T, strict=True))
    if library == "pyarrow":
        return module.table(columns), module.array(label)
    return module.DataFrame(columns), module.Series(label)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("estimator", "label"),
    [
        (reticent.PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1], random_state=0), LABELS),
        (reticent.PrivateLinearRegression(feature_norm=1.0, label_bounds=(-1, 1), random_state=0), NUMBERS),
        (reticent.OnlineLogisticRegression(feature_norm=1.0, classes=[0, 1], random_state=0), LABELS),
        (reticent.OnlineLinearRegression(feature_norm=1.0, label_bounds=(-1, 1), random_state=0), NUMBERS),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::reticent.RepeatedFitWarning")
def test_a_frame_is_its_array(library: str, estimator, label) -> None:
    from sklearn.base import clone

    rows, labels = frame(library, label)
    learn = "partial_fit" if hasattr(estimator, "partial_fit") else "fit"
    ours = getattr(clone(estimator), learn)(rows, labels)
    plain = getattr(clone(estimator), learn)(X, label)
    assert np.array_equal(ours.coef_, plain.coef_)
    assert ours.feature_names_in_.tolist() == NAMES
    assert np.array_equal(ours.predict(rows), plain.predict(X))
    assert ours.score(rows, labels) == plain.score(X, label)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_scalers_follow_set_output(output: str) -> None:
    rows, _ = frame("pandas", LABELS)
    for scaler in (DomainScaler(([-1] * 3, [1] * 3)), PrivateScaler(([-1] * 3, [1] * 3))):
        if output != "default":
            pytest.importorskip(output)
        found = scaler.set_output(transform=output).fit_transform(rows)
        assert type(found).__module__.split(".")[0] == {"default": "numpy"}.get(output, output)
        assert np.asarray(found).shape == X.shape
        if output != "default":
            assert list(found.columns) == NAMES


def _tables():
    """Tables that cannot be learnt from, and what the refusal says; none of it is what a cell holds."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    whole = pandas.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    secret = ["secret"] * len(X)
    yield whole.assign(c=pandas.Categorical(secret)), "something else is in column 'c'"
    yield whole.assign(b=secret, c=secret), "something else is in columns 'b', 'c'"
    yield whole.assign(when=pandas.Timestamp("2026-01-01")), "something else is in column 'when'"
    yield arrow.table({"a": X[:, 0], "b": secret}), "something else is in column 'b'"
    yield polars.DataFrame({"a": X[:, 0], "b": secret}), "something else is in column 'b'"
    yield np.array([[0.1, "secret"]] * len(X), dtype=object), "something else is in column 1"
    yield polars.DataFrame({"a": X[:, 0]}).lazy(), "pass X.collect()"
    holes = whole.astype("Float64")
    holes.loc[3, "a"] = pandas.NA
    yield holes, "contains NaN in column 'a'; X must hold finite numbers"
    yield np.where(X > 0.49, np.inf, X), "contains infinity.* in columns 0, 1, 2"
    yield np.full(len(X), 0.625), "one number per record. Reshape your data"
    yield "people.csv", "got the path 'people.csv'; read it first, with reticent.tables.open"


def test_refusals_name_the_column_and_quote_no_record() -> None:
    estimators = [
        reticent.PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1]),
        reticent.OnlineLogisticRegression(feature_norm=1.0, classes=[0, 1]),
    ]
    for rows, said in _tables():
        for estimator in estimators:
            learn = getattr(estimator, "partial_fit", None) or estimator.fit
            with pytest.raises(ValueError, match=said) as refused:
                learn(rows, LABELS)
            assert "secret" not in str(refused.value)
            assert "0.625" not in str(refused.value)
            assert refused.value.__suppress_context__
        with pytest.raises(ValueError, match=said):
            PrivateScaler(([-1] * 3, [1] * 3)).fit(rows)


def test_words_for_numbers_are_refused_and_not_quoted() -> None:
    options = {"feature_norm": 1.0, "label_bounds": (0, 1)}
    for learn in (
        reticent.PrivateLinearRegression(**options).fit,
        reticent.OnlineLinearRegression(**options).partial_fit,
    ):
        with pytest.raises(ValueError, match="y must hold numbers; for labels that are t") as said:
            learn(X, ["secret"] * len(X))
        assert "secret" not in str(said.value)


@pytest.mark.parametrize("missing", [None, "nan", float("inf")])
@pytest.mark.parametrize("bounds", [(-1, 1), "private"])
def test_a_label_that_is_missing_is_refused_before_anything_is_spent(bounds, missing) -> None:
    """In text or objects it was found after the budget had been spent, and a stream learnt from it."""
    rows = np.full((400, 2), 0.5)
    labels = np.array([0.5] * 399 + [missing], dtype=object)
    options = {"feature_norm": 1.0, "label_bounds": bounds}
    batch = reticent.PrivateLinearRegression(**options)
    lasso = reticent.PrivateLasso(feature_norm=1.0, label_bounds=(-1, 1))
    stream = reticent.OnlineLinearRegression(horizon=1000, **options)
    search = reticent.PrivateSearchCV(batch, {"fit_intercept": [True, False]}, verbose=0)
    with reticent.Ledger(reticent.Budget(10.0, 1e-5)) as ledger:
        for learn in (batch.fit, lasso.fit, stream.partial_fit, search.fit):
            with pytest.raises(ValueError, match=r"y must hold finite numbers, and y\[399\] is"):
                learn(rows, labels)
    assert ledger.entries == ()


def test_a_refusal_of_a_large_array_takes_little_memory() -> None:
    """A number that is missing is found column by column: as objects the table would take four times its memory."""
    X = np.zeros((200_000, 20), np.float32)
    X[-1, 7] = np.nan
    model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="contains NaN in column 7;"):
            model.fit(X, np.zeros(len(X)))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < X.nbytes


FITS = [
    reticent.PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1], random_state=0),
    reticent.OnlineLogisticRegression(feature_norm=1.0, classes=[0, 1], random_state=0),
]


@pytest.mark.parametrize("estimator", FITS, ids=lambda value: type(value).__name__)
def test_complex_numbers_are_refused_and_not_quoted(estimator) -> None:
    with pytest.raises(ValueError, match="X must hold real numbers") as refused:
        estimator.fit(X + 424242j, LABELS)
    assert "424242" not in str(refused.value)


@pytest.mark.parametrize("estimator", FITS, ids=lambda value: type(value).__name__)
def test_what_lies_beneath_a_mask_is_not_used(estimator) -> None:
    rows = np.ma.array(X, mask=X > 0.4)
    labels = np.ma.array(LABELS, mask=LABELS > 0)
    with reticent.Ledger(reticent.Budget(9.0, 1e-6)) as ledger:
        for given in ((rows, LABELS), (X, labels)):
            with pytest.raises(ValueError, match="holds masked entries"):
                estimator.fit(*given)
    assert ledger.entries == ()
    with pytest.raises(ValueError, match="sample_weight holds masked"):
        FITS[0].fit(X, LABELS, sample_weight=np.ma.array(np.ones(200), mask=X[:, 0] > 0.4))
    with pytest.raises(ValueError, match="A holds masked"):
        reticent.erm.gradient_descent(
            reticent.losses.Logistic(), reticent.sets.L2Ball(3), rows, 2.0 * LABELS - 1.0,
            budget=reticent.Budget(1.0, 1e-6),
        )  # fmt: skip
    estimator.fit(rows.filled(0.0), LABELS)  # and nothing is masked in it
