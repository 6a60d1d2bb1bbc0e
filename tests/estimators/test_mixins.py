"""What estimators share: predictions, and how they are rounded."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from reticent import PrivateLinearRegression, PrivateLogisticRegression


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_predictor_in_turn_does_not_depend_on_other_records(kind, make):
    """Where persons are protected, the number of records is not public, and must not change how others are rounded."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 37)) / 10
    bounds = (
        {"classes": [-1, 1]} if kind is PrivateLogisticRegression else {"label_bounds": (-1, 1)}
    )
    model = kind(random_state=0, **bounds).fit(X, np.sign(X[:, 0]))
    alone = np.concatenate([model._predictors(make(row[None]), in_turn=True) for row in X])
    for count in (2, 3, 5, 8, 33, 70):
        found = model._predictors(make(X[-count:]), in_turn=True)
        np.testing.assert_array_equal(found, alone[-count:])
    np.testing.assert_allclose(alone, model._predictors(make(X)), rtol=1e-12, atol=1e-12)
