"""What the intervals of every model must pass: one guarantee, the variance of their noise, coverage, refusals."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from reticent.estimators import NoIntervals
from reticent.privacy import Budget, Ledger
from reticent.trace.summary import Summary


def in_one_guarantee(made: Any, X: Any, y: Any, budget: Budget) -> Summary:
    """Fit and summarise: one entry in the ledger, within the budget; written down and read, the same."""
    with Ledger(budget) as ledger:
        found: Summary = made.fit(X, y).summary()
    assert len(ledger.entries) == 1
    assert found.guarantee.meets(budget)
    assert found.names == ("dose", "age", "intercept")
    assert json.loads(json.dumps(found.to_dict()))["names"][0] == "dose"
    assert str(pickle.loads(pickle.dumps(made)).summary()) == str(found)
    return found


def check_privacy_error(draws: list[Summary]) -> None:
    """The same records, fresh noise: variances agree within 7 standard deviations (false alarm 1e-11)."""
    seen = np.var([draw.estimate for draw in draws], axis=0)
    stated = np.mean([draw.privacy_error**2 for draw in draws], axis=0)
    assert np.abs(seen / stated - 1.0).max() < 7 * math.sqrt(2 / len(draws))


def check_coverage(found: Iterable[Summary], truth: Any) -> None:
    """Fresh tables: the count of covered intervals is binomial; false alarm 1e-7 at 93 to 97 %."""
    ends = np.array([summary.interval for summary in found])
    hits = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).sum(axis=0)
    assert (hits >= binom.ppf(1e-7, len(ends), 0.93)).all()
    assert hits.mean() <= binom.isf(1e-7, len(ends), 0.97)


def check_refusals(model: Any, X: Any, y: Any, wrong: dict[str, dict[str, Any]]) -> None:
    """Too few records, no intervals asked for, and, before anything is spent, what intervals do not take."""
    with pytest.raises(NoIntervals, match="eigenvalue"):
        model().fit(X, y).summary()
    with pytest.raises(ValueError, match="intervals=True"):
        model(intervals=False).fit(X, y).summary()
    common: dict[str, dict[str, Any]] = {
        "solver": {"solver": "gradient-descent"}, "intervals": {"intervals": "yes"},
    }  # fmt: skip
    with Ledger(Budget(9.0, 1e-6)) as ledger:
        for message, more in (common | wrong).items():
            with pytest.raises((ValueError, TypeError), match=message):
                model(**more).fit(X, y)
        with pytest.raises(ValueError, match="sample_weight"):
            model().fit(X, y, sample_weight=np.ones(len(y)))
    assert ledger.entries == ()
