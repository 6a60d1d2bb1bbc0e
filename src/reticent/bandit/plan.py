"""The constants of one epoch: rounds, batches, smoothing radius and steps, from theory.

[bandit], Algorithm 1 line 1, chooses them for the rate alone. Here they minimise the same regret bound with its
constants (docs/algorithms/bandit.md): with A the range of the mirror map, G = n W / (2 zeta) the largest one-point
estimate (W the width of the range of values), N the privacy noise in a total and r the inner radius,

    regret <= A / eta_T + sum of eta / 2 |gradient estimates|^2 + T zeta (L + min(L reach, W) / r),

and the step follows what has been seen so far, eta_R = sqrt(A / V_R).

Nothing here reads data. The plan is a function of public bounds and of the noise that the budget needs, so choosing
it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from reticent.bandit.geometry import Geometry
from reticent.bandit.mirror import Mirror

FIRST_EPOCH = 256
LARGEST_BATCH = 2**20
"""Largest number of plays in a round of a learner without a horizon, for which the exact total has room."""
LONGEST = 2**20
"""Number of rounds up to which an endless total with long rounds has nearly the least noise, from the eighth on."""

# Found by simulation over sets and horizons: factors of the steps, of the noise and of the smoothing relative to the
# bound, the scale of the entries for centring, and the share of the inner radius that the smoothing may use.
BOLDNESS = 2.0
NOISE_WEIGHT = 4.0
SMOOTHNESS = 0.4
WATCH = 0.3
LARGEST_FRACTION = 0.5


@dataclass(frozen=True)
class EpochPlan:
    """The constants of one epoch.

    A record adds ``unit`` w u to the total, where w = (value - baseline) / clip is in [-1, 1], and ``watch`` times w
    and w^2, from which baseline and clip are learnt. The length of all this is at most ``norm``. Its one-point
    estimate is ``factor`` w u; if one total runs through several epochs, they share the unit of the first. ``half``
    is half the width of the range of values, the largest clip.

    The other fields determine the step: ``mirror_range`` over what is in the total, which is ``before`` from earlier
    epochs, ``noise`` for privacy, ``weight`` for each unit of squared deviation and ``drift`` for each round.
    """

    plays: int
    rounds: int
    batch: int
    sums: int
    smoothing: float
    shrink: float
    low: float
    high: float
    half: float
    factor: float
    unit: float
    watch: float
    norm: float
    mirror_range: float
    before: float
    noise: float
    weight: float
    drift: float
    constant: float | None

    @property
    def scale(self) -> float:
        """The factor by which the released total is multiplied to get the sum of estimates."""
        return self.factor / self.unit

    @property
    def schedule(self) -> tuple[float, float, float]:
        """The step for a kernel that compares values with the middle of their range."""
        if self.constant is not None:
            return -self.constant, 0.0, 0.0
        each = self.weight * self.batch * self.half**2 + self.drift
        return self.mirror_range, self.before + self.noise, each

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def layout(plays: int, batches: int | None) -> tuple[int, int]:
    """Number of rounds and their length: about the root of the number of plays, the last round shorter, none empty.

    Examples
    --------
    >>> layout(10, None), layout(10, 7)
    ((4, 3), (5, 2))
    """
    wanted = math.isqrt(plays - 1) + 1 if batches is None else min(batches, plays)
    batch = -(-plays // wanted)
    return -(-plays // batch), batch


def values_within(
    values: tuple[float, float] | None, lipschitz: float, geometry: Geometry, overflow: float
) -> tuple[float, float]:
    """The range to which values are clipped; by default that of a loss that is 0 somewhere on the set."""
    if values is not None:
        return values
    return 0.0, lipschitz * (geometry.diameter + overflow)


def make(
    geometry: Geometry,
    mirror: Mirror,
    *,
    plays: int,
    rounds: int,
    batch: int,
    sums: int,
    shrinks: bool,
    stale: bool,
    lipschitz: float,
    values: tuple[float, float] | None,
    smoothing: float | None,
    step: float | None,
    relative_error: Callable[[], float],
    before: float,
    unit: float | None,
    watches: bool,
    prescribed: tuple[float, float] | None,
) -> EpochPlan:
    """The plan of an epoch.

    ``relative_error`` is the standard deviation of the noise in the total for records of norm one; ``before`` the
    squared size of what earlier epochs left in the total; ``unit`` the length of a record in it, if that is already
    fixed. ``prescribed`` are a radius and a step to use if none are given, instead of those that minimise the bound.
    """
    n, mirror_range = geometry.dim, mirror.range(geometry)
    if prescribed is not None:
        radius = prescribed[0] if smoothing is None else smoothing
        step = prescribed[1] if step is None else step
    low, high = values_within(values, lipschitz, geometry, 0.0)
    noise = relative_error()
    # squared size of the gradient estimates of the whole epoch, for records of norm one
    patience = 3.0 if stale else 1.0
    square = mirror.dual_square(geometry)
    size = square * (0.5 * patience * plays + NOISE_WEIGHT * n * noise**2)
    if prescribed is None:
        radius = (
            smoothing
            if smoothing is not None
            else _smoothing(
                geometry, mirror_range, size, plays, lipschitz, 0.5 * n * (high - low), shrinks
            )
        )
    if shrinks and smoothing is None:
        radius = min(radius, LARGEST_FRACTION * geometry.inner_radius)
    if not shrinks:
        low, high = values_within(values, lipschitz, geometry, radius)
    half = 0.5 * (high - low)
    factor = n / radius * half
    unit = factor if unit is None else unit
    watch = WATCH * unit if watches else 0.0
    norm = math.sqrt(unit**2 + 2.0 * watch**2)
    return EpochPlan(
        plays=plays,
        rounds=rounds,
        batch=batch,
        sums=sums,
        smoothing=radius,
        shrink=1.0 - radius / geometry.inner_radius if shrinks else 1.0,
        low=low,
        high=high,
        half=half,
        factor=factor,
        unit=unit,
        watch=watch,
        norm=norm,
        mirror_range=BOLDNESS**2 * mirror_range,
        before=before,
        noise=NOISE_WEIGHT * square * n * (noise * norm * factor / unit) ** 2,
        weight=0.5 * patience * square * (n / radius) ** 2,
        drift=0.5 * patience * batch**2 * lipschitz**2,
        constant=step,
    )


def _smoothing(
    geometry: Geometry,
    mirror_range: float,
    size: float,
    plays: int,
    lipschitz: float,
    half_width: float,
    shrinks: bool,
) -> float:
    """The radius that minimises the bound, whose first part decreases like 1 / radius and whose second part grows."""
    falling = 2.0 * math.sqrt(mirror_range * size) * half_width
    growing = lipschitz
    if shrinks:
        growing += (
            min(lipschitz * geometry.reach, 2.0 * half_width / geometry.dim) / geometry.inner_radius
        )
    return SMOOTHNESS * math.sqrt(falling / (growing * plays))
