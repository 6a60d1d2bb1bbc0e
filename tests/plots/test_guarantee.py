"""Guarantees and ledgers as pictures, against curves computed from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import reticent
from reticent.plots.guarantee import guarantee_curve

pytest.importorskip("matplotlib")


def test_the_curve_of_a_gaussian_guarantee_is_the_gaussian_trade_off() -> None:
    total = reticent.sums.Correlated(1, 16, budget=reticent.Budget(1.0, 1e-6))
    ax = total.guarantee.plot(title="t")
    x, y = ax.lines[0].get_data()
    exact = norm.cdf(norm.ppf(1 - np.asarray(x)) - total.guarantee.gdp)
    assert np.all(y <= exact + 1e-12)  # a grid of epsilons lies below
    assert np.max(exact - y) < 2e-3
    assert ax.get_title() == "t"


def test_several_guarantees_have_their_names() -> None:
    made = {
        f"epsilon {e:g}": reticent.sums.Correlated(1, 4, budget=reticent.Budget(e, 1e-6)).guarantee
        for e in (0.5, 2.0)
    }
    ax = guarantee_curve(made)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == list(made)
    assert np.all(ax.lines[0].get_ydata() >= ax.lines[1].get_ydata())


def gaussian_epsilon(mu: float, delta: float) -> float:
    """From the definition: the delta of two normal distributions at distance mu, by bisection."""

    def tail(e: float) -> float:
        return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)

    return brentq(lambda e: tail(e) - delta, 0.0, 50.0, xtol=1e-12)


def test_a_ledger_is_drawn_entry_by_entry() -> None:
    with reticent.Ledger(reticent.Budget(2.0, 1e-6)) as ledger:
        parts = [
            reticent.sums.Correlated(1, 4, budget=reticent.Budget(e, 1e-6)).guarantee
            for e in (0.5, 1.0)
        ]
    spent = ledger.plot().lines[1].get_ydata()
    mu = np.hypot(parts[0].gdp, parts[1].gdp)
    expected = [0.0, parts[0].epsilon(1e-6), gaussian_epsilon(mu, 1e-6)]
    assert spent == pytest.approx(expected, rel=1e-6)
    empty = reticent.Ledger(reticent.Budget(1.0, 1e-6)).plot()
    assert empty.lines[1].get_ydata().tolist() == [0.0]
