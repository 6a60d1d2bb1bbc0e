"""The problem that solvers see: checked and clipped records, and their sensitivity.

Solvers minimise ``(1/n) sum_i loss(x; a_i, y_i)`` over a set, including the ridge. The part of the gradient that
depends on the records is released as a *sum*; a record changes it by at most ``norm`` (blanked) or twice that
(replaced), plus rounding: see ``reticent.erm.rounded_sums``. A record's prediction, and so its slope, depends on that
record and on public numbers only, so only the rounding of the final sum matters.

Slopes are clipped to the bound that the set implies. Otherwise a decision that rounding has put slightly outside the
set could exceed the sensitivity.

If persons are protected, each of a person's m records has weight 1/m, so that the person's contribution is an average
of possible contributions of single records; or a person's first records count in full and later ones not at all. The
number of records is not public then, and slopes are computed in a way that does not depend on it: otherwise one more
record could change the rounding of all others. Proofs for each solver: docs/algorithms/persons.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.passes import (
    Along,
    Hessian,
    HessianTimes,
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
from reticent.state.persons import read

IGNORANCE = 0.25
"""With the default radius the noise costs at most this share of the loss at zero."""
FAR = 128.0
"""Within the default radius the loss of a record is at most this multiple of its loss at zero."""
_HAIR = 1.0 - 2.0**-30
"""Upper bound on the sum of a person's weights 1/m, so that rounding cannot make a person count more than 1."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The persons of a table.

    Parameters
    ----------
    factors : array
        Weight of each record.
    count : int
        Number of persons; public, unlike the number of records.
    most : float
        Largest possible sum of one person's factors.
    max_records : int or None
        Number of records of a person that count; None: all, with weight 1/m each.
    """

    factors: FloatArray
    count: int
    most: float
    max_records: int | None

    @classmethod
    def of(cls, groups: Any, records: int, max_records: int | None) -> Groups | None:
        """Persons from ids, one per record; None without ids. A `Groups` is returned unchanged."""
        if isinstance(groups, Groups):
            return groups
        if groups is None:
            if max_records is not None:
                raise ValueError(
                    f"max_records={max_records!r} needs groups, the id of the person of each record; without groups "
                    "records are protected, not persons"
                )
            return None
        _, rows, lengths = read(groups, "groups")
        if len(lengths) != records:
            raise ValueError(
                f"groups must hold one id for each of the {records} records, got {len(lengths)} ids"
            )
        whole = np.ascontiguousarray(rows).view([("", np.void, rows.shape[1])]).ravel()
        _, person, sizes = np.unique(whole, return_inverse=True, return_counts=True)
        if max_records is None:
            return cls(_HAIR / sizes[person], len(sizes), 1.0, None)
        most = checks.integer(max_records, "max_records", low=1)
        order = np.argsort(person, kind="stable")
        place = np.empty(records, np.int64)
        place[order] = np.arange(records) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls((place < most).astype(np.float64), len(sizes), float(most), most)

    @property
    def words(self) -> str:
        """How a person's records count, for the guarantee."""
        if self.max_records is None:
            return f"{self.count} persons; each of a person's m records has weight 1/m"
        return f"{self.count} persons; of each the first {self.max_records} records count"

    def directions(self, dim: int) -> int:
        """The largest dimension of the span of one person's records."""
        return dim if self.max_records is None else min(dim, self.max_records)


@dataclass(frozen=True, eq=False)
class OfflineProblem:
    """Everything that a solver reads; constructed by ``reticent.erm.reading``."""

    loss: Loss
    set: Any
    table: Records  # with weights, if records have any
    budget: Budget
    precision: str
    clipped: ClipCounts
    by_entries: bool
    share: float = 1.0  # of the budget: of mu, or of epsilon if delta = 0
    weight_bound: float = (
        1.0  # upper bound on the sum of the weights of one record, or of one person
    )
    groups: Groups | None = None  # persons, if persons are protected
    pulled: float = 0.0  # upper bound on the norm of the point towards which the ridge pulls

    @functools.cached_property
    def records(self) -> int:
        return self.table.shape[0]

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        return self.table.shape

    @functools.cached_property
    def count(self) -> int:
        """Number of protected records or persons; public, unlike the number of a person's records."""
        return self.records if self.groups is None else self.groups.count

    @property
    def _is_count_secret(self) -> bool:
        """Whether the number of records is not public."""
        return self.groups is not None

    @functools.cached_property
    def unit(self) -> str:
        return "record" if self.groups is None else "person"

    @functools.cached_property
    def dim(self) -> int:
        return self.table.shape[1]

    @property
    def A(self) -> Any:
        """All clipped records in memory, for solvers that do not work by passes.

        It may be the caller's memory: a solver measures rows where it uses them, or first calls `in_own_memory`.
        """
        return self.table.matrix()

    @property
    def y(self) -> Any:
        """All labels, for the same solvers."""
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
        """The loss in the form that passes need."""
        kind, params = self.linear.kernel
        return Scalar(kind, params, self.slope_bound)

    @functools.cached_property
    def is_linear_model(self) -> bool:
        return isinstance(self.loss, GeneralizedLinear)

    @functools.cached_property
    def linear(self) -> GeneralizedLinear:
        """The loss, if it is a generalised linear one."""
        assert isinstance(self.loss, GeneralizedLinear)
        return self.loss

    @functools.cached_property
    def scalar_bounds(self) -> tuple[float, float]:
        """Bounds on |phi'| and phi'' on the set, for a record with weight 1."""
        return self.linear.scalar_bounds(self.set)

    @functools.cached_property
    def slope_bound(self) -> float:
        return self.scalar_bounds[0]

    @functools.cached_property
    def loss_at_zero(self) -> float:
        """The largest loss of the decision 0, over all labels that the loss allows."""
        if not isinstance(self.loss, GeneralizedLinear):
            return 0.0
        kind, params = self.loss.kernel
        if kind == kernels.LINEAR:
            return 0.0
        return max(kernels.phi(kind)(params, 0.0, label) for label in label_range(self.loss))

    @functools.cached_property
    def feature_norm(self) -> float:
        # a computed norm differs from the true one by at most (dim + 16) units
        return self.linear.feature_norm * (1.0 + (self.dim + 16) * 2.0**-52)

    @property
    def row_limit(self) -> float:
        """The measured norm to which a row of `A` is clipped where it enters a sum; at most `feature_norm`."""
        if self.by_entries:
            return UNLIMITED  # the entries were clipped in a private copy
        return self.linear.feature_norm * (1.0 + 0.5 * door.margin(self.dim))

    @functools.cached_property
    def norm(self) -> float:
        """A bound on the norm of one record's gradient as it is computed, without the ridge."""
        if self.is_linear_model:
            return self.weight_bound * self.slope_bound * self.feature_norm * (1.0 + 2.0**-50)
        return self.loss.data_lipschitz(self.set)

    @property
    def rounding(self) -> float:
        """A bound on the difference that rounding alone makes between the sums of neighbouring data sets."""
        return 2.0 * self.count * self.norm * self.table.units * UNIT

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the computed sum of gradients, in the Euclidean norm."""
        return self.budget.sensitivity(self.norm) + self.rounding

    @property
    def largest_sum(self) -> float:
        """A bound on the norm of the sum of gradients."""
        return self.count * self.norm * (1.0 + 2.0**-20)

    @functools.cached_property
    def smoothness(self) -> float:
        """Smoothness of the mean loss on the set."""
        if self.is_linear_model:
            bend = self.scalar_bounds[1] * self.weight_bound
            return bend * self.linear.feature_norm**2 + self.linear.ridge
        return self.loss.smoothness

    def in_own_memory(self) -> OfflineProblem:
        """The problem with rows that are clipped in memory of its own, for solvers that do not measure them again."""
        return replace(self, table=replace(self._in_memory, fits=False))

    def with_set(self, set: Any) -> OfflineProblem:
        return self if set is self.set else replace(self, set=set)

    # Passes: the predictors of a point are represented by the point itself.

    def predictors(self, x: FloatArray) -> FloatArray:
        return x

    def total_value(self, z: FloatArray) -> float:
        """The summed scalar loss, without the ridge."""
        return float(summed(self.table.map(Values(self.scalar, z)))[0])

    def slope_squares(self, x: FloatArray) -> float:
        """The summed squares of the clipped slopes at x."""
        return float(summed(self.table.map(SlopeSquares(self.scalar, x, self._is_count_secret)))[0])

    def slope_along(self, z: FloatArray, dz: FloatArray) -> float:
        return float(summed(self.table.map(Along(self.scalar, z, dz)))[0])

    def gram(self, z: FloatArray, kind: Any = np.float64) -> FloatArray:
        """The Hessian of the summed loss, without the ridge."""
        return summed(self.table.map(Hessian(self.scalar, z, kind is np.float32)))

    def gram_times(self, z: FloatArray, v: FloatArray) -> FloatArray:
        return summed(self.table.map(HessianTimes(self.scalar, z, v)))

    def bends(self, z: FloatArray) -> FloatArray:
        """Second derivatives of the scalar loss of every record."""
        kind, params = self.linear.kernel
        found = kernels.d2phi_all(kind)(params, np.ascontiguousarray(self.A @ z), self.y)
        return found if self.weights is None else found * self.weights

    def predictors_and_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The point itself, and the sum of all records' clipped gradients."""
        return x, self.gradient_sum(x)

    def thinned(self, every: int) -> OfflineProblem:
        """Every ``every``-th record; to start a run with, never to finish it."""
        return replace(self, table=self.table.thinned(every))

    def with_labels(self, y: FloatArray | Meaning) -> OfflineProblem:
        """The same records with other labels, or with another meaning of their labels."""
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
        return summed(
            table.map(SlopeSum(self.scalar, np.ascontiguousarray(x), self._is_count_secret))
        )

    def _loop(self, x: FloatArray, rows: Any) -> FloatArray:
        # The Lipschitz constant of a user's loss is only a claim, so every gradient is clipped.
        limit = door.limit_for(self.norm, self.dim)
        picked = np.arange(self.records) if rows is None else rows
        gradients = np.empty((len(picked), self.dim))
        for k, i in enumerate(picked):
            label = None if self.y is None else self.y[i]
            g = self.loss.gradient(x, self.A[i], label) - self.loss.ridge * x
            if door.bounded(np.ascontiguousarray(g, np.float64), 1.0, limit, gradients[k]) < 0:
                raise ValueError(
                    f"the gradient of record {i} is not finite at {x}; correct the loss, or restrict the decisions to "
                    "a set on which it is finite. The budget was charged; this message reveals something about a "
                    "record, so do not publish it"
                )
        return weighted_rows(gradients, np.ones(len(picked)))

    def mean_loss(self, x: FloatArray) -> float:
        """The mean loss; a diagnostic that reads the records."""
        if not self.is_linear_model:
            return self.loss.mean_value(x, self.A, self.y)
        total = summed(self.table.map(Values(self.scalar, x, weighted=False)))
        return float(total[0]) / self.count + 0.5 * self.loss.ridge * float(x @ x)

    def shaped(self, x: FloatArray) -> FloatArray:
        shape = getattr(self.set, "shape", (self.dim,))
        return np.array(x, dtype=np.float64).reshape(shape)

    def guarantee(
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
                f"calibration gave {guarantee}, which exceeds the budget ({self.budget}); nothing was released. "
                "This is a bug in reticent"
            )
        return with_remarks(guarantee)

    # A noisy vector, with the kind of noise that the budget allows.

    @functools.cached_property
    def noise(self) -> str:
        return "gaussian" if self.budget.delta > 0.0 else "gamma"

    @functools.cached_property
    def level(self) -> float:
        """The privacy level that a single release may spend: mu, or epsilon if delta = 0."""
        whole = self.budget.mu if self.budget.delta > 0.0 else self.budget.epsilon
        return self.share * whole

    def noise_scale(self, sensitivity: float, level: float, dim: int, largest: float) -> float:
        """The smallest scale of noise on a vector for which its cost is at most ``level``.

        Entries up to ``largest`` must fit on the lattice, which requires a larger scale if there is almost no noise.
        """
        if self.precision == "float":
            return sensitivity / level
        scale = release.scale_for(sensitivity, level, dim, self.noise)
        return max(scale, largest * 2.0**-30)

    def release(
        self, what: str, sensitivity: float, scale: float, dim: int, count: int = 1, **extra: Any
    ) -> Release:
        """The release with its cost, including the lattice."""
        moved = sensitivity
        if self.precision == "lattice":
            moved = release.widened(sensitivity, scale, dim, self.noise)
        level = moved / scale
        curve = curves.Gaussian(level) if self.noise == "gaussian" else curves.Pure(level)
        words = "Gaussian, standard deviation" if self.noise == "gaussian" else "Gamma, scale"
        return Release(what, curve, moved, f"{words} {scale:.6g}", count, **extra)

    def noise_norm(self, sensitivity: float, dim: int | None = None) -> float:
        """Root mean square norm of the noise of one release that spends the whole budget."""
        return noise_norm(self.noise, self.dim if dim is None else dim, sensitivity, self.level)


def noise_norm(noise: str, dim: int, sensitivity: float, level: float) -> float:
    """Root mean square norm of a noise vector at this privacy level."""
    times = math.sqrt(dim if noise == "gaussian" else dim * (dim + 1.0))
    return times * sensitivity / level


@functools.lru_cache(maxsize=256)
def _meets(parts: tuple[tuple[curves.Curve, int], ...], budget: Budget) -> bool:
    releases = [Release("check", curve, None, "as stated", count) for curve, count in parts]
    return Guarantee.of(budget, releases).meets(budget)


def reach(set: Any) -> float:
    """An upper bound on the distance of the set's points from its center."""
    radius = getattr(set, "radius", None)
    if radius is not None and type(set).__name__ in ("L2Ball", "L1Ball", "Near"):
        return float(radius)
    return float(set.diameter)


def label_range(loss: GeneralizedLinear) -> tuple[float, float]:
    """The smallest and the largest label that a kernel can be given."""
    if isinstance(loss, Quadratic):
        # instead of a label it gets (scale/2) |a|^2, rounded
        return 0.0, 0.5 * loss.scale * loss.feature_norm**2 * (1.0 + 2.0**-30)
    low, high = getattr(loss, "label_bounds", (-1.0, 1.0))
    return float(low), float(high)


def default_radius(
    problem: OfflineProblem, solver: str, noise_norm: Any = None, share: float = IGNORANCE
) -> float:
    """The radius at which the bound on the cost of the noise is a given share of the loss at zero.

    The excess risk of every solver is about ``radius * (norm of the noise on the summed gradient) / n``, and the noise
    is proportional to the Lipschitz constant on the ball; all of that is public. In a larger ball the noise would cost
    a large part of the possible gain; a smaller ball would exclude decisions although the noise costs little. With very
    many records, for which noise hardly matters, the radius is limited by the largest loss of a single record.
    """
    from reticent.sets import L2Ball

    worth = share * problem.loss_at_zero
    if worth == 0.0:
        raise ValueError(
            f"{solver} cannot choose a radius for {problem.loss!r}; pass a bounded set such as "
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
