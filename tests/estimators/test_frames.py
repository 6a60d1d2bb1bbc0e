"""Data frames of pandas, Polars and Arrow give the same model as arrays."""

from __future__ import annotations

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
