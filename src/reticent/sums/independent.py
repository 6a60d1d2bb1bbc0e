"""The simplest running total: independent noise on every contribution.

The noise of the totals is small at first and grows like the square root of the number of steps; after a few steps the
other totals are more accurate. It needs no horizon, and it is the right choice for a single sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from reticent.compiling import compiled
from reticent.privacy import Budget, Guarantee
from reticent.privacy.budget import OLDEST
from reticent.privacy.participation import Participation
from reticent.sums import scales
from reticent.sums.mechanism import Mechanism
from reticent.sums.running import RunningTotal


@compiled
def _accumulate(fresh, last):
    for t in range(fresh.shape[0]):
        for i in range(fresh.shape[1]):
            last[i] += fresh[t, i]
            fresh[t, i] = last[i]


@dataclass(frozen=True, kw_only=True)
class IndependentMechanism(Mechanism):
    """The description of a running total with independent noise on every contribution; see :class:`Independent`.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; None (the default) for an endless stream.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm.
    noise : {"gaussian", "laplace", "gamma"}
        Distribution of the noise; Gamma and Laplace noise also work with delta = 0.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding. ``"float"`` is for simulations, and the guarantee says so.
    sensitivity : float, optional
        How far one record moves the total, if that is not ``budget.sensitivity(norm)``.
    records : int, optional
        Upper bound on the number of records in the exact total, if a contribution is the sum of several.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.

    Examples
    --------
    >>> import reticent
    >>> noise = IndependentMechanism(2, budget=reticent.Budget(1.0, 1e-6))
    >>> noise.error(4) == 2 * noise.error(1)
    True
    """

    forgets = True
    counts_persons = True

    @property
    def is_endless(self) -> bool:
        return self.horizon is None

    @property
    def last_step(self) -> float:
        return min(super().last_step, OLDEST)

    def lattice_step(self, scale: float, steps: int | None) -> float:
        fine = super().lattice_step(scale, steps)
        if not self.is_endless or not self.on_lattice:
            return fine
        # the noise is a sum of up to 2^40 draws and must stay below 2^52 steps
        largest = 40.0 * math.sqrt(OLDEST * scales.coordinate_variance(self, scale))
        return max(fine, 2.0 ** math.ceil(math.log2(largest * 2.0**-52)))

    @property
    def _count(self) -> int:
        """Largest number of contributions that are protected together."""
        return self.pattern.records_within(self.protected)

    def _scale(self, steps: int | None) -> float:
        return scales.exact(self, self._count)

    def _guarantee(self) -> Guarantee:
        return scales.guarantee_of_nodes(
            self, "noise on each contribution", self.scale(), self._count
        )

    def variance(self, t: int, steps: int | None) -> float:
        return t * scales.coordinate_variance(self, self.scale(steps))

    # The noise -------------------------------------------------------------------------------------

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        return rows

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        return {"last": self.zeros(self.dim)}

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        _accumulate(fresh, memory["last"])
        return fresh


class Independent(RunningTotal):
    """A running total with independent noise on every contribution.

    A window does not reduce its noise: the noise of a contribution stays in the total for ever.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; ``None`` (the default) for an endless stream.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm, and ``clipped`` counts them.
    noise : {"gaussian", "gamma", "laplace"}
        Distribution of the noise. Gamma noise is the choice for delta = 0 and the Euclidean norm.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, and ``add`` and ``run`` take ``person``. By default single records are protected.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only: its low-order bits leak, and the guarantee says so.

    Examples
    --------
    >>> import reticent
    >>> total = Independent(2, budget=reticent.Budget(1.0, 1e-6), seed=0)
    >>> total.error(4) == 2 * total.error(1)
    True
    """

    describe = IndependentMechanism

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        noise: str = "gaussian",
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        mechanism = IndependentMechanism(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise=noise,
            noise_precision=noise_precision,
            participation=participation,
        )
        super().__init__(mechanism, seed=seed)
