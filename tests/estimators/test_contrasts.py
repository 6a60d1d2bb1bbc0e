"""Summaries of tables with categories: against dummy coding by hand, coverage, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from reticent import PrivateLinearRegression, PrivateLogisticRegression, tables
from reticent.estimators import NoIntervals

from . import intervals

NAMES = ("age", "plant=b", "plant=c", "shift=night", "job=cook", "job=other", "intercept")
SCHEMA = {
    "target": "pay",
    "columns": {
        "age": {"type": "number", "bounds": [20, 60]},
        "plant": {"type": "category", "values": ["a", "b", "c"]},
        "shift": {"type": "category", "values": ["day", "night"]},
        "job": {"type": "category", "values": ["clerk", "cook", "other"]},
        "pay": {"type": "number", "bounds": [0, 100]},
    },
}
PAY = np.array([0.5, 12.0, -6.0, 4.0, 5.0, -8.0, 25.0])
"""Per year of age, of each value against the first one, and of a clerk of age 0 in plant a by day."""
ODDS = np.array([0.03, 1.0, -1.2, 0.6, -0.5, 0.9, -1.2])


def encoder(boolean: bool = False) -> tables.Encoder:
    columns = SCHEMA["columns"] | ({"pay": {"type": "boolean"}} if boolean else {})
    return tables.Encoder(tables.Schema.from_dict(SCHEMA | {"columns": columns}))


def people(rows: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns as in a file, and the matrix that anyone would code by hand."""
    rng = np.random.default_rng(seed)
    age, plant = rng.uniform(20, 60, rows), rng.integers(0, 3, rows)
    shift, job = rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    columns = {
        "age": age, "plant": np.array(["a", "b", "c"])[plant],
        "shift": np.array(["day", "night"])[shift],
        "job": np.array(["clerk", "cook", "other"])[job],
    }  # fmt: skip
    dummies = [plant == 1, plant == 2, shift == 1, job == 1, job == 2, np.ones(rows)]
    return columns, np.column_stack([age, *dummies]).astype(np.float64)


def regression(rows: int, seed: int = 0, epsilon: float = 1.0, **more):
    columns, A = people(rows, seed)
    pay = A @ PAY + np.random.default_rng([seed, 1]).uniform(-8, 8, rows)
    made = encoder()
    given = made.encode(columns | {"pay": pay})
    model = PrivateLinearRegression(
        epsilon, **{"feature_norm": made.largest_norm, "label_bounds": (0, 100), "intervals": True,
                    "random_state": seed} | more
    )  # fmt: skip
    return model.fit(given.X, given.y), made, A, pay


def classification(rows: int, seed: int = 0, epsilon: float = 1.0, **more):
    columns, A = people(rows, seed)
    sick = np.random.default_rng([seed, 1]).random(rows) < expit(A @ ODDS)
    made = encoder(boolean=True)
    given = made.encode(columns | {"pay": sick})
    model = PrivateLogisticRegression(
        epsilon, **{"feature_norm": made.largest_norm, "classes": made.classes, "influence": 1.0,
                    "intervals": True, "random_state": seed} | more
    )  # fmt: skip
    return model.fit(given.X, given.y), made, A, sick


def test_contrasts_of_a_schema() -> None:
    """Whatever the coefficients: a record's predictor is that of the table's own columns."""
    made, (columns, A) = encoder(), people(200, 0)
    contrasts = made.contrasts
    assert contrasts.names == NAMES
    X = np.column_stack([made.encode(columns, labels=False).X, np.ones(200)])
    x = np.random.default_rng(0).standard_normal(X.shape[1])
    assert np.allclose(A @ (contrasts.matrix @ x), X @ x)
    assert contrasts.collinear.shape == (2, X.shape[1])
    assert np.array_equal(X @ contrasts.collinear.T, np.zeros((200, 2)))
    assert np.allclose(contrasts.matrix @ contrasts.collinear.T, 0.0)
    assert contrasts.about == "; categories compared with plant=a, shift=day, job=clerk"


@pytest.mark.parametrize("norm", [None, "private"])
def test_without_noise_it_is_least_squares_with_dummies(norm: str | None) -> None:
    model, made, A, pay = regression(
        4000, epsilon=1e5, noise_precision="float", **({"feature_norm": norm} if norm else {})
    )
    found = model.summary(encoder=made)
    x, left, *_ = np.linalg.lstsq(A, pay, rcond=None)
    errors = np.sqrt(left[0] / (len(A) - A.shape[1]) * np.diag(np.linalg.inv(A.T @ A)))
    assert found.names == NAMES
    # with private bounds a few ages are clipped
    assert (np.abs(found.estimate - x) < (0.3 if norm else 0.01) * errors).all()
    assert np.allclose(found.sampling_error, errors, rtol=2e-2)
    assert (found.privacy_error < 0.1 * found.sampling_error).all()


def test_without_noise_it_is_logistic_regression_with_dummies() -> None:
    model, made, A, sick = classification(4000, epsilon=1e5, noise_precision="float")
    x = np.zeros(A.shape[1])
    for _ in range(30):
        p = expit(A @ x)
        x = x + np.linalg.solve(A.T @ (A * (p * (1 - p))[:, None]), A.T @ (sick - p))
    p = expit(A @ x)
    inverse = np.linalg.inv(A.T @ (A * (p * (1 - p))[:, None]))
    errors = np.sqrt(np.diag(inverse @ (A.T @ (A * ((sick - p) ** 2)[:, None])) @ inverse))
    found = model.summary(encoder=made)
    assert (np.abs(found.estimate - x) < 0.05 * errors).all()
    assert np.allclose(found.sampling_error, errors, rtol=2e-2)
    ridged = model.summary(target="regularised", encoder=made)
    weights = np.append(model.coef_[0], model.intercept_)
    assert np.allclose(ridged.estimate, made.contrasts.matrix @ weights)


def test_privacy_error_is_that_of_the_noise() -> None:
    made = encoder()
    columns, A = people(6000, 0)
    given = made.encode(columns | {"pay": A @ PAY})
    common = {"feature_norm": made.largest_norm, "label_bounds": (0, 100), "intervals": True}
    draws = [
        PrivateLinearRegression(**common, noise_precision="float", random_state=k)
        .fit(given.X, given.y)
        .summary(encoder=made)
        for k in range(300)
    ]
    intervals.check_privacy_error(draws)


@pytest.mark.parametrize(
    ("kind", "rows", "truth"), [(regression, 6000, PAY), (classification, 10_000, ODDS)]
)
def test_coverage(kind, rows: int, truth: np.ndarray) -> None:
    found = []
    for k in range(100):
        model, made, *_ = kind(rows, k, noise_precision="float")
        found.append(model.summary(encoder=made))
    intervals.check_coverage(found, truth)


def test_without_the_encoder_it_is_refused() -> None:
    model, *_ = regression(50_000)
    with pytest.raises(NoIntervals, match="add up to a constant"):
        model.summary()


def test_a_value_that_nobody_has() -> None:
    columns, A = people(20_000, 0)
    made = encoder()
    given = made.encode(
        columns
        | {"job": np.where(columns["job"] == "other", "cook", columns["job"]), "pay": A @ PAY}
    )
    for norm, words in (
        (made.largest_norm, "eigenvalue"),
        ("private", "'job=other': nothing but 0 stood out"),
    ):
        model = PrivateLinearRegression(
            feature_norm=norm, label_bounds=(0, 100), intervals=True, random_state=0
        ).fit(given.X, given.y)
        with pytest.raises(NoIntervals, match=words):
            model.summary(encoder=made)


def test_words_and_refusals() -> None:
    model, made, *_ = regression(50_000)
    found = model.summary(encoder=made)
    assert "plant=b" in str(found)
    assert "compared with plant=a, shift=day, job=clerk" in found.about
    assert "plant=b" in found._repr_html_()
    assert next(label.get_text() for label in found.plot().get_yticklabels()) == "age"
    with pytest.raises(TypeError, match=r"encoder must be .*, got str"):
        model.summary(encoder="plant")
    other = tables.Schema.from_dict(
        {"target": "pay", "columns": {k: SCHEMA["columns"][k] for k in ("age", "pay")}}
    )
    with pytest.raises(ValueError, match="1 features, but the model was fitted on 8"):
        model.summary(encoder=tables.Encoder(other))
    flat, made, *_ = regression(20_000, fit_intercept=False)
    with pytest.raises(ValueError, match="fit_intercept=True"):
        flat.summary(encoder=made)
