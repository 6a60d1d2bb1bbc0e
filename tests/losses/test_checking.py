"""The check of a loss: it passes sound ones and catches wrong gradients and wrong constants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent import losses, sets
from reticent.losses import kernels

from .made_up import A, Y, gradient, make, value


def test_a_sound_loss_passes():
    report = losses.check(make(), A, Y)
    assert report.passed
    assert 0.9 < report.lipschitz[0] <= report.lipschitz[1] == 1.0
    assert 0.9 < report.smoothness[0] <= 1.0
    assert "lipschitz" in str(report)
    assert losses.check(make(), A, Y, set=sets.L1Ball(4, 3.0)).passed


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (make(gradient=lambda x, a, y: 1.01 * gradient(x, a, y)), "gradient is wrong"),
        (make(gradient=lambda x, a, y: -gradient(x, a, y)), "gradient is wrong"),
        (make(gradient=lambda x, a, y: gradient(x, a, y + 0.05)), "gradient is wrong"),
        (make(value=lambda x, a, y: -value(x, a, y),
              gradient=lambda x, a, y: -gradient(x, a, y)), "not convex"),
        (make(value=lambda x, a, y: math.sin(a @ x),
              gradient=lambda x, a, y: math.cos(a @ x) * a), "not convex"),
        (make(lipschitz=0.9), "a gradient of norm"),
        (make(smoothness=0.8), "smoothness 0.8"),
        (make(strong_convexity=0.01), "strong convexity 0.01"),
        (make(values=lambda x, A, y: np.zeros(len(A))), "values over many records differs"),
        (make(mean_gradient=lambda x, A, y: np.ones(4)), "mean_gradient over many records"),
        (make(value=lambda x, a, y: math.nan), "must be finite"),
    ],
)  # fmt: skip
def test_planted_errors_are_caught(loss, words):
    with pytest.raises(sets.ContractError, match=words):
        losses.check(loss, A, Y)
    report = losses.check(loss, A, Y, raise_on_failure=False)
    assert isinstance(report, sets.CheckReport)
    assert not report.passed
    assert any(words in text for text in report.failures)
    assert all(text in str(report) for text in report.failures)


def test_planted_errors_in_a_built_in_loss_are_caught():
    class Wrong(losses.Logistic):
        def _slope_bound(self, reach):
            return 0.5

    class TooSmooth(losses.SmoothHinge):
        def _bend_bound(self, reach):
            return 0.5 / self.width

    with pytest.raises(sets.ContractError, match="ridge left out"):
        losses.check(Wrong(ridge=0.1))
    with pytest.raises(sets.ContractError, match="smoothness"):
        losses.check(TooSmooth(0.3))


def test_a_loss_without_branches_of_its_own_is_caught():
    """The compiled phi of a kind that it does not know is linear, value and slope alike."""

    class Unknown(losses.Squared):
        kind = 99

    class HalfKnown(losses.Quantile):
        def _parameters(self):
            return (0.5,)

        kind = kernels.HINGE  # its labels are not -1 and 1, so that the implicit step is wrong

    with pytest.raises(sets.ContractError, match="no branch for kind 99"):
        losses.check(Unknown())
    with pytest.raises(sets.ContractError, match="does it have a branch"):
        losses.check(HalfKnown())


def test_a_loss_that_looks_at_other_records_is_caught():
    class Centred(losses.Huber):
        def prepare(self, A, y=None):
            return super().prepare(A - np.mean(A, axis=0), y)

    with pytest.raises(sets.ContractError, match="depending on the other records"):
        losses.check(Centred())


def test_a_loss_whose_methods_are_not_its_compiled_phi_is_caught():
    """Learners and solvers call neither value nor gradient of a loss that names a kernel."""

    class Halved(losses.Huber):
        def gradient(self, x, a, y=None):
            return 0.5 * super().gradient(x, a, y)

        def value(self, x, a, y=None):
            return 0.5 * super().value(x, a, y)

    with pytest.raises(sets.ContractError, match="differs from the compiled phi"):
        losses.check(Halved())


def test_a_loss_that_scribbles_on_its_arguments_is_caught():
    def scribble(x, a, y):
        g = gradient(x, a, y)
        x *= 0.5
        return g

    with pytest.raises(sets.ContractError, match="changes its arguments"):
        losses.check(make(gradient=scribble), A, Y)


def test_a_kink_is_no_error():
    loss = losses.CustomLoss(
        lambda x, a, y: float(abs(x[0])),
        lambda x, a, y: np.sign(x[0]) * np.eye(4)[0],
        lipschitz=1.0,
    )
    assert losses.check(loss, A, Y).passed
    assert loss.curvature(sets.L2Ball(4)) == math.inf


def test_the_check_stays_within_the_set():
    def log_barrier(x, a, y):
        assert (x >= -1e-12).all(), "outside"
        return float(-np.log(x + 0.1).sum())

    loss = losses.CustomLoss(log_barrier, lambda x, a, y: -1 / (x + 0.1), lipschitz=20.0)
    assert losses.check(loss, A, Y, set=sets.Simplex(4)).passed
