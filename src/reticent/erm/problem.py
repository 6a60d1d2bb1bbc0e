"""A problem as every solver sees it: checked and clipped records, and what one of them can move.

Solvers minimise ``(1/n) sum_i loss(x; a_i, y_i)`` over a set, ridge included. The part of the
gradient that depends on the records is released as a *sum*; a record moves it by at most ``norm``
(it is blanked) or twice that (it is replaced), plus what rounding can add: see
``reticent.erm.rounded_sums``. The prediction of a record, and so its slope, is a function of that record and
of public numbers alone, which is why only the final sum's rounding counts.

Slopes are clipped to the bound that the set implies. Without that, a decision that rounding has put a
hair outside the set would break the promise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.groups import Groups
from reticent.erm.passes import (
    Along,
    Curvature,
    CurvatureTimes,
    Scalar,
    SlopeSquares,
    SlopeSum,
    Values,
    taken,
)
from reticent.erm.rounded_sums import UNIT, weighted_rows
from reticent.losses import ClipCounts, GeneralizedLinear, Loss, Quadratic, kernels
from reticent.noise import Source, door, release
from reticent.privacy import Budget, Guarantee, Release, curves, with_remarks
from reticent.solve.blocks import UNLIMITED, InMemory, Meaning, Records, summed

IGNORANCE = 0.25
"""The default radius lets the noise cost at most this share of what the zero decision loses."""
FAR = 128.0
"""And under no decision within it can a record lose more than so many times what it loses there."""


@dataclass(frozen=True, eq=False)
class OfflineProblem:
    """Everything that a solver reads; built by ``reticent.erm.reading``."""

    loss: Loss
    set: Any
    table: Records  # with weights, if records have any
    budget: Budget
    precision: str
    clipped: ClipCounts
    by_entries: bool
    share: float = 1.0  # of the budget: of mu, or of epsilon without delta
    weight_bound: float = 1.0  # what the weights of one record, or of one person, add up to at most
    groups: Groups | None = None  # whose records they are, where persons are protected
    pulled: float = 0.0  # the ridge pulls to a point of this norm at most

    @property
    def records(self) -> int:
        return self.table.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape

    @property
    def count(self) -> int:
        """Number of those who are protected, records or persons: public, unlike that of a person's records."""
        return self.records if self.groups is None else self.groups.count

    @property
    def unit(self) -> str:
        return "record" if self.groups is None else "person"

    @property
    def dim(self) -> int:
        return self.table.shape[1]

    @property
    def A(self) -> Any:
        """All records in memory, clipped, for solvers that do not go by passes."""
        return self.table.matrix()

    @property
    def y(self) -> Any:
        """All labels, for the same."""
        table = self._in_memory
        return table.vector() if self.is_linear_model else table.labels

    @property
    def weights(self) -> FloatArray | None:
        return getattr(self.table, "weights", None)

    @property
    def _in_memory(self) -> InMemory:
        assert isinstance(self.table, InMemory)
        return self.table

    @functools.cached_property
    def scalar(self) -> Scalar:
        """The loss as passes take it."""
        kind, params = self.linear.kernel
        return Scalar(kind, params, self.slope_bound)

    @property
    def is_linear_model(self) -> bool:
        return isinstance(self.loss, GeneralizedLinear)

    @property
    def linear(self) -> GeneralizedLinear:
        """The loss, where it is that of a generalised linear model."""
        assert isinstance(self.loss, GeneralizedLinear)
        return self.loss

    @functools.cached_property
    def scalar_bounds(self) -> tuple[float, float]:
        """The largest |phi'| and the largest phi'' on the set, of a record with weight 1."""
        return self.linear.scalar_bounds(self.set)

    @property
    def slope_bound(self) -> float:
        return self.scalar_bounds[0]

    @functools.cached_property
    def loss_at_zero(self) -> float:
        """The largest loss of the zero decision, over all labels that the loss allows."""
        if not isinstance(self.loss, GeneralizedLinear):
            return 0.0
        kind, params = self.loss.kernel
        if kind == kernels.LINEAR:
            return 0.0
        return max(kernels.phi(kind)(params, 0.0, label) for label in label_range(self.loss))

    @functools.cached_property
    def feature_norm(self) -> float:
        # a float norm is within (dim + 16) units of the true one
        return self.linear.feature_norm * (1.0 + (self.dim + 16) * 2.0**-52)

    @property
    def row_limit(self) -> float:
        """What a row of `A` is cut to where it enters a sum, as measured: it is no longer than `feature_norm`."""
        if self.by_entries:
            return UNLIMITED  # the entries were clipped, in memory of our own
        return self.linear.feature_norm * (1.0 + 0.5 * door.margin(self.dim))

    @functools.cached_property
    def norm(self) -> float:
        """A bound on the norm of one record's gradient, as it is computed, without the ridge."""
        if self.is_linear_model:
            return self.weight_bound * self.slope_bound * self.feature_norm * (1.0 + 2.0**-50)
        return self.loss.data_lipschitz(self.set)

    @property
    def rounding(self) -> float:
        """How far rounding alone can move the sums of two neighbouring data sets apart."""
        return 2.0 * self.count * self.norm * self.table.units * UNIT

    @property
    def sensitivity(self) -> float:
        """How far one record moves the computed sum of gradients, in the Euclidean norm."""
        return self.budget.sensitivity(self.norm) + self.rounding

    @property
    def largest_sum(self) -> float:
        """A bound on the norm of the sum of gradients."""
        return self.count * self.norm * (1.0 + 2.0**-20)

    @property
    def smoothness(self) -> float:
        """Of the mean loss, on the set."""
        if self.is_linear_model:
            bend = self.scalar_bounds[1] * self.weight_bound
            return bend * self.linear.feature_norm**2 + self.linear.ridge
        return self.loss.smoothness

    def with_set(self, set: Any) -> OfflineProblem:
        return replace(self, set=set)

    # Passes: what is kept of a point is the point itself.

    def predictors(self, x: FloatArray) -> FloatArray:
        return x

    def total_value(self, z: FloatArray) -> float:
        """The summed scalar loss, ridge left out."""
        return float(summed(self.table.map(Values(self.scalar, z)))[0])

    def slope_squares(self, x: FloatArray) -> float:
        """The summed squares of the clipped slopes at x."""
        return float(summed(self.table.map(SlopeSquares(self.scalar, x)))[0])

    def slope_along(self, z: FloatArray, dz: FloatArray) -> float:
        return float(summed(self.table.map(Along(self.scalar, z, dz)))[0])

    def gram(self, z: FloatArray, kind: Any = np.float64) -> FloatArray:
        """Second derivatives of the summed loss, ridge left out."""
        return summed(self.table.map(Curvature(self.scalar, z, kind is np.float32)))

    def gram_times(self, z: FloatArray, v: FloatArray) -> FloatArray:
        return summed(self.table.map(CurvatureTimes(self.scalar, z, v)))

    def bends(self, z: FloatArray) -> FloatArray:
        """Second derivatives of the scalar loss of every record."""
        kind, params = self.linear.kernel
        found = kernels.d2phi_all(kind)(params, np.ascontiguousarray(self.A @ z), self.y)
        return found if self.weights is None else found * self.weights

    def predictors_and_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The point itself, and the sum of all records' clipped gradients."""
        return x, self.gradient_sum(x)

    def thinned(self, every: int) -> OfflineProblem:
        """Every so-many-th record; to begin a run with, never to end it."""
        return replace(self, table=self.table.thinned(every))

    def with_labels(self, y: FloatArray | Meaning) -> OfflineProblem:
        """The same records with other labels, or with labels that stand for something else."""
        if isinstance(y, Meaning):
            return replace(self, table=self.table.meaning(y))
        return replace(self, table=replace(self._in_memory, labels=y))

    def gradient_sum(self, x: FloatArray, rows: Any = None) -> FloatArray:
        """The sum of all (or some) records' clipped gradients, without the ridge."""
        if not self.is_linear_model:
            return self._loop(x, rows)
        table: Records = self.table
        if rows is not None:
            whole = self._in_memory
            if not len(rows):
                return np.zeros(self.dim)
            table = replace(
                whole,
                rows=whole.rows[rows],
                labels=taken(whole.labels, rows),
                weights=taken(whole.weights, rows),
            )
        return summed(table.map(SlopeSum(self.scalar, np.ascontiguousarray(x))))

    def _loop(self, x: FloatArray, rows: Any) -> FloatArray:
        # A loss of the user's own: its Lipschitz constant is a claim, so every gradient is clipped.
        limit = door.limit_for(self.norm, self.dim)
        picked = np.arange(self.records) if rows is None else rows
        gradients = np.empty((len(picked), self.dim))
        for k, i in enumerate(picked):
            label = None if self.y is None else self.y[i]
            g = self.loss.gradient(x, self.A[i], label) - self.loss.ridge * x
            if door.bounded(np.ascontiguousarray(g, np.float64), 1.0, limit, gradients[k]) < 0:
                raise ValueError(
                    f"the gradient of record {i} is not finite at {x}; mend the loss, or keep the "
                    "decisions in a set on which it is. The budget was charged; this message tells "
                    "of a record, so do not publish it"
                )
        return weighted_rows(gradients, np.ones(len(picked)))

    def mean_loss(self, x: FloatArray) -> float:
        """A diagnostic: reads the records."""
        if not self.is_linear_model:
            return self.loss.mean_value(x, self.A, self.y)
        total = summed(self.table.map(Values(self.scalar, x, weighted=False)))
        return float(total[0]) / self.count + 0.5 * self.loss.ridge * float(x @ x)

    def shaped(self, x: FloatArray) -> FloatArray:
        shape = getattr(self.set, "shape", (self.dim,))
        return np.array(x, dtype=np.float64).reshape(shape)

    def promise(
        self,
        releases: Iterable[Release],
        source: Source,
        *,
        calibration: str = "exact",
        caveats: Iterable[str] = (),
    ) -> Guarantee:
        """The guarantee of these releases; with exact calibration it must meet the budget."""
        guarantee = Guarantee.of(
            self.budget,
            releases,
            seeded=source.seeded,
            lattice=self.precision == "lattice",
            caveats=tuple(caveats),
            unit=self.unit,
        )
        curves_and_counts = tuple((item.curve, item.count) for item in guarantee.releases)
        if calibration == "exact" and not _meets(curves_and_counts, self.budget):
            raise RuntimeError(
                f"calibration gave {guarantee}, which does not meet the budget ({self.budget}); "
                "nothing was released. This is a bug in reticent"
            )
        return with_remarks(guarantee)

    # One vector with noise, by the kind of noise that the budget allows.

    @property
    def noise(self) -> str:
        return "gaussian" if self.budget.delta > 0.0 else "gamma"

    @property
    def level(self) -> float:
        """mu, or epsilon without delta: what a single release may spend."""
        whole = _mu(self.budget) if self.budget.delta > 0.0 else self.budget.epsilon
        return self.share * whole

    def noise_scale(self, sensitivity: float, level: float, dim: int, largest: float) -> float:
        """The least scale of noise on a vector at which it costs no more than ``level``.

        Entries up to ``largest`` must fit on the lattice, which for next to no noise asks for more.
        """
        if self.precision == "float":
            return sensitivity / level
        scale = release.scale_for(sensitivity, level, dim, self.noise)
        return max(scale, largest * 2.0**-30)

    def release(
        self, what: str, sensitivity: float, scale: float, dim: int, count: int = 1, **extra: Any
    ) -> Release:
        """What such a release costs, the lattice included."""
        moved = sensitivity
        if self.precision == "lattice":
            moved = release.widened(sensitivity, scale, dim, self.noise)
        level = moved / scale
        curve = curves.Gaussian(level) if self.noise == "gaussian" else curves.Pure(level)
        words = "Gaussian, standard deviation" if self.noise == "gaussian" else "Gamma, scale"
        return Release(what, curve, moved, f"{words} {scale:.6g}", count, **extra)

    def noise_norm(self, sensitivity: float, dim: int | None = None) -> float:
        """Root mean square norm of the noise of one release with the whole budget."""
        p = self.dim if dim is None else dim
        if self.noise == "gaussian":
            return math.sqrt(p) * sensitivity / self.level
        return math.sqrt(p * (p + 1.0)) * sensitivity / self.level


@functools.lru_cache(maxsize=256)
def _meets(parts: tuple[tuple[curves.Curve, int], ...], budget: Budget) -> bool:
    releases = [Release("check", curve, None, "as stated", count) for curve, count in parts]
    return Guarantee.of(budget, releases).meets(budget)


@functools.lru_cache(maxsize=64)
def _mu(budget: Budget) -> float:
    return budget.mu


def reach(set: Any) -> float:
    """How far the set's center is from any of its points, at most."""
    radius = getattr(set, "radius", None)
    if radius is not None and type(set).__name__ in ("L2Ball", "L1Ball", "Near"):
        return float(radius)
    return float(set.diameter)


def label_range(loss: GeneralizedLinear) -> tuple[float, float]:
    """The smallest and the largest number that a kernel can be given as a label."""
    if isinstance(loss, Quadratic):
        # what takes the place of a label there is (scale/2) |a|^2, rounded
        return 0.0, 0.5 * loss.scale * loss.feature_norm**2 * (1.0 + 2.0**-30)
    low, high = getattr(loss, "label_bounds", (-1.0, 1.0))
    return float(low), float(high)


def default_radius(
    problem: OfflineProblem, solver: str, noise_norm: Any = None, share: float = IGNORANCE
) -> float:
    """The radius at which the bound on what the noise costs is a share of the zero decision's loss.

    Every solver's excess risk is about ``radius * (norm of the noise on the summed gradient) / n``,
    and the noise is proportional to the Lipschitz constant on the ball. All of that is public. A
    larger ball would let the noise cost more than a good part of what there is to gain; a smaller
    one would leave out decisions for less than the noise costs anyway. Where there are so many
    records that noise hardly matters, the ball ends where single records could lose absurdly much.
    """
    from reticent.sets import L2Ball

    worth = share * problem.loss_at_zero
    if worth == 0.0:
        raise ValueError(
            f"{solver} cannot choose a radius for {problem.loss!r}; give a bounded set such as "
            f"sets.L2Ball({problem.dim}, radius)"
        )
    if noise_norm is None:

        def noise_norm(ball: Any) -> float:
            inside = problem.with_set(ball)
            return inside.noise_norm(inside.sensitivity)

    def cost(radius: float) -> float:
        return radius * float(noise_norm(L2Ball(problem.dim, radius))) / problem.count

    kind, params = problem.linear.kernel
    limit = FAR * problem.loss_at_zero

    def is_small(radius: float) -> bool:
        z = radius * problem.linear.feature_norm
        most = max(
            kernels.phi(kind)(params, end, label)
            for end in (-z, z)
            for label in label_range(problem.linear)
        )
        return most < limit and cost(radius) < worth

    low, high = 1e-12, 1.0
    while is_small(high) and high < 1e12:
        low, high = high, 2.0 * high
    while high > low * 1.0001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_small(middle) else (low, middle)
    return low
