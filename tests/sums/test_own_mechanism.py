"""A mechanism of a user's own states its guarantee itself: what is refused before anything is charged."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import reticent
from reticent import online, sets, sums
from reticent.privacy import Gaussian, Guarantee, Release
from reticent.sums import matrices, scales

from .reference import GAUSSIAN, PURE


@dataclass(frozen=True, kw_only=True)
class Band(sums.Mechanism):
    """The noise of total t is the sum of the last ``band`` draws.

    With n a multiple of the band, the first record moves every band-th draw by its contribution, n / band in all, and
    no record moves more.
    """

    band: int = 4

    def touched(self, steps):
        return steps // self.band

    def _scale(self, steps):
        return scales.exact(self, self.touched(steps))

    def _guarantee(self):
        return scales.guarantee_of_nodes(self, "band", self.scale(), self.touched(self.stretch))

    def variance(self, t, steps):
        return min(t, self.band) * scales.coordinate_variance(self, self.scale(steps))

    def draws(self, steps, t, rows):
        return rows

    def memory(self, steps):
        return {"past": self.zeros(self.band - 1, self.dim)}

    def mix(self, steps, memory, fresh, t, rows):
        drawn = np.vstack([memory["past"], fresh])
        memory["past"][:] = drawn[rows:]
        return sum(drawn[k : k + rows] for k in range(self.band))


class TooFew(Band):
    def touched(self, steps):
        return 1


class Shared(Band):
    """All totals share one draw, so the difference of two of them is a contribution without noise."""

    def mix(self, steps, memory, fresh, t, rows):
        if t == 0:
            memory["past"][0] = fresh[0]
        return np.repeat(memory["past"][:1], rows, axis=0)


class FirstEpochOnly(Band):
    """The noise of every epoch is that of the first."""

    def _scale(self, steps):
        return super()._scale(self.stretch)


class OneSided(Band):
    """Blanking a record moves a total by the norm; replacing it, by twice that."""

    def _scale(self, steps):
        return super()._scale(steps) / 2.0

    def _guarantee(self):
        scale = math.sqrt(self.touched(self.stretch)) * self.norm / self.scale()
        return Guarantee.of(self.budget, [Release("band", Gaussian(scale), self.norm, "")])


class Careless(Band):
    """States the truth about noise that is too small for its budget."""

    def _scale(self, steps):
        return super()._scale(steps) / 3.0


class OtherNeighbours(Band):
    def _guarantee(self):
        return Guarantee(super()._guarantee().releases, "zero-out")


class Decaying(Band):
    """The noise of total t is 3/4 of the noise of the total before, and a draw."""

    slack = 0.0

    def _guarantee(self):
        moves = 1.0 + self.slack, 0.25 + self.slack
        squares = moves[0] ** 2 + (self.stretch - 1) * moves[1] ** 2
        mu = self.noise_sensitivity * math.sqrt(squares) / self.scale()
        release = Release("decaying noise", Gaussian(mu), self.noise_sensitivity, "")
        return scales.guarantee_of_release(self, release)

    def _scale(self, steps):
        squares = (1.0 + self.slack) ** 2 + (steps - 1) * (0.25 + self.slack) ** 2
        return self.noise_sensitivity * math.sqrt(squares) / self.budget.mu

    def memory(self, steps):
        return {"last": np.zeros(self.dim)}

    def mix(self, steps, memory, fresh, t, rows):
        for row in fresh:
            memory["last"] *= 0.75
            memory["last"] += row
            row[:] = np.rint(memory["last"]) if self.on_lattice else memory["last"]
        return fresh


class Rounded(Decaying):
    """Two lattice steps in each coordinate of each innovation."""

    slack = 2.0 * 2.0**-20


def test_rounding_belongs_to_the_guarantee():
    """Weights that are not whole numbers make mix round, which the guarantee left out."""
    for steps in (32, 512):
        with pytest.raises(ValueError, match="leaves out rounding"):
            sums.RunningTotal(Decaying(2, steps, budget=GAUSSIAN))
        for fine in (
            Rounded(2, steps, budget=GAUSSIAN),
            Decaying(2, steps, budget=GAUSSIAN, noise_precision="float"),
        ):
            total = sums.RunningTotal(fine, seed=0)
            assert total.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_a_true_guarantee_is_accepted():
    for steps in (8, 64, 200, None):
        for budget in (GAUSSIAN, GAUSSIAN.with_(neighbours="replace")):
            total = sums.RunningTotal(Band(2, steps, budget=budget), seed=0)
            assert total.run(np.ones((8, 2))).shape == (8, 2)
            assert total.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert Band(1, 8, budget=PURE, noise="gamma").guarantee.pure == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("lie", "steps", "words"),
    [
        (TooFew, 64, "is false: it claims 0.236704-GDP"),
        (TooFew, 1000, "for some record the first 512 totals give 2.67"),
        (Shared, 16, "is false"),
        (FirstEpochOnly, None, "does not meet its budget|is false"),
        (OneSided, 16, "is false"),
        (Careless, 16, "does not meet its budget"),
        (OtherNeighbours, 16, "does not meet its budget"),
    ],
)
def test_a_false_guarantee_is_refused_before_it_is_charged(lie, steps, words):
    budget = GAUSSIAN.with_(neighbours="replace")
    with reticent.Ledger(budget) as ledger:
        with pytest.raises(ValueError, match=words):
            sums.RunningTotal(lie(2, steps, budget=budget))
        with pytest.raises(ValueError, match=words):
            online.FollowTheRegularizedLeader(
                sets.L2Ball(2), budget=budget, horizon=steps, lipschitz=1.0, total=lie
            )
    assert ledger.entries == ()


@pytest.mark.parametrize("noise", ["gamma", "laplace"])
@pytest.mark.parametrize("budget", [PURE, GAUSSIAN])
def test_a_false_guarantee_of_pure_noise_is_refused(noise, budget):
    for steps in (64, 200):
        true = Band(2, steps, budget=budget, noise=noise)
        found = matrices.mix(true, steps)
        price = matrices.reach(true) * matrices.worst_triangular(found, None)[0]
        assert price == pytest.approx(true.guarantee.pure, rel=1e-6)
        for lie in (TooFew, Shared):
            with pytest.raises(ValueError, match="is false"):
                sums.RunningTotal(lie(2, steps, budget=budget, noise=noise))


def test_the_exact_price_is_that_of_the_linear_programme():
    found = matrices.mix(Band(1, 16, budget=PURE, noise="laplace"), 16)
    for window in (None, 1, 5):
        exact, _ = matrices.worst_triangular(found, window)
        assert exact == pytest.approx(matrices.worst_price(found, window)[0], rel=1e-9)


class TooShort(Band):
    def mix(self, steps, memory, fresh, t, rows):
        return super().mix(steps, memory, fresh, t, rows)[1:]


class NotWhole(Band):
    def mix(self, steps, memory, fresh, t, rows):
        return 1.0 * super().mix(steps, memory, fresh, t, rows)


@pytest.mark.parametrize("wrong", [TooShort, NotWhole])
def test_noise_of_another_form_is_refused_before_it_is_used(wrong):
    """Noise in double precision was added to whole steps, and one row too few was an index out of range."""
    total = sums.RunningTotal(wrong(2, 16, budget=PURE, noise="laplace"))
    with pytest.raises(TypeError, match="must return an array of shape"):
        total.add([1.0, 0.0])
