"""The printed noise of feature-distributed Frank-Wolfe and its true epsilon, recomputed independently."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent import papers

from .reference import close, composed_epsilon, gaussian_epsilon


def test_vertical_index():
    for parties, steps, scale, true in ((4, 25, 430.9, 0.180), (1, 100, 215.5, 0.375)):
        item = papers.vertical_index(1.0, 1e-6, parties=parties, steps=steps, n=1000,
                                        radius=3.0, norm=2.0, scores="scaled")  # fmt: skip
        move = 2 * 2.0 / 1000 * 3.0 / parties
        assert close(item.scale / move, scale, 1e-3)
        assert item.claimed == (0.5, 5e-7)
        assert close(item.true_epsilon(neighbours="replace"), true)
        step = 2 * move / item.scale
        assert close(item.true_epsilon(neighbours="replace"),
                     composed_epsilon(step, parties * steps, 5e-7), 1e-6)  # fmt: skip
        assert item.bounds == ("zero-out", "replace")
    # through zCDP the same steps would be charged .198 rather than .180
    order = np.exp(np.linspace(math.log(1.01), math.log(1e6), 20_000))
    rho = 100 * (2 / 430.94) ** 2 / 2
    bound = rho * order + np.log1p(-1 / order) - (math.log(5e-7) + np.log(order)) / (order - 1)
    assert close(float(bound.min()), 0.198)
    # without the factor eta/K in the scores, as line 10 has it, the claim is lost for eta < K
    plain = papers.vertical_index(1.0, 1e-6, parties=4, steps=25, n=1000)
    assert plain.true_epsilon(neighbours="replace") > 0.5
    same = papers.vertical_index(1.0, 1e-6, parties=4, steps=25, n=1000, radius=4.0)
    assert close(same.true_epsilon(neighbours="replace"), 0.180)


@pytest.mark.parametrize(("n", "m", "true"), [(1000, 100, 506), (10_000, 100, 6350)])
def test_vertical_sketch(n, m, true):
    sketch = np.random.default_rng(1).standard_normal((m, n)) / math.sqrt(m)
    top, column = np.linalg.norm(sketch, 2), np.linalg.norm(sketch, axis=0).max()
    setting = {"parties": 4, "steps": 25, "n": n, "singular_value": top, "column_norm": column}
    item = papers.vertical_sketch(1.0, 1e-6, **setting)
    assert close(item.true_epsilon(), true, 0.06)  # the sketch is random
    assert not item.claim_is_proved()
    # one row of ones: it moves each of the 100 messages by its whole column
    moved = sketch @ np.eye(n)[:, int(np.argmax(np.linalg.norm(sketch, axis=0)))]
    mu = math.sqrt(100) * np.linalg.norm(moved) / item.scale
    assert close(item.true_epsilon(), gaussian_epsilon(mu, 5e-7), 1e-9)
    assert close(item.true_epsilon(neighbours="replace"), gaussian_epsilon(2 * mu, 5e-7), 1e-9)
    averaged = papers.vertical_sketch(1.0, 1e-6, message="averaged", **setting)
    assert averaged.scale == item.scale
    assert averaged.claim_is_proved()
    if n == 1000:
        assert close(averaged.true_epsilon(), 0.104, 0.03)
