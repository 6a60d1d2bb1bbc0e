"""Running totals and regret."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import losses, sets


def test_regret_against_the_best_fixed_decision():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 3)) * 0.3
    loss = losses.Quadratic(feature_norm=5.0)
    best = losses.best_fixed(sets.L2Ball(3, 10.0), loss, A)
    played = np.array([loss.value(np.ones(3), a) for a in A])
    # Closed form: the best point is the mean, and the excess is n/2 times the distance to it.
    expected = 100 * np.sum((np.ones(3) - A.mean(axis=0)) ** 2)
    assert losses.regret(played, best) == pytest.approx(expected, rel=1e-10)
    curve = losses.regret_curve(played, best)
    assert curve[-1] == pytest.approx(expected, rel=1e-10)
    assert curve[4] == pytest.approx(
        played[:5].sum() - np.sum((A[:5] - A.mean(axis=0)) ** 2) / 2, rel=1e-9
    )
    assert losses.regret(best.losses, best) == 0.0
    assert best.total == pytest.approx(best.losses.sum())
    assert losses.regret(played, best.losses) == losses.regret(played, best)


def test_running_totals():
    assert losses.cumulative([1, 2, 3]).tolist() == [1.0, 3.0, 6.0]
    assert losses.cumulative([]).tolist() == []
    assert losses.regret([], []) == 0.0


def test_bad_arguments():
    with pytest.raises(ValueError, match="best must be a vector of length 2"):
        losses.regret([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="played must be finite"):
        losses.regret([np.nan], [1.0])
    with pytest.raises(ValueError, match="losses"):
        losses.cumulative([[1.0], [2.0]])
