"""Correlated noise: the noise of a total is a filtered sequence of innovations, and the filter is optimised.

Buffered linear Toeplitz noise: N(t) = z(t) + sum_j weight_j s_j, then s_j <- decay_j s_j + z(t); a
few buffers, one fresh vector a step. For full protection over a horizon it comes within a per cent
or so of the square-root factorisation; with a window it forgets, and has bounded error on an
endless stream. Derivation and proof: docs/algorithms/correlated.md.

On the lattice the innovations z(t) are rounded Gaussians and the part that is already known, sum_j
weight_j s_j, is rounded too. Two neighbouring inputs that give the same outputs then have
innovations that differ by c_k * Delta from the k-th output after the record on, plus what rounding
adds: at most 2 (1 + 2 e) steps in each coordinate, where e bounds the floating-point error of the
known part (``_rounding``). The guarantee includes it.

The one thing a reader would get wrong: the sensitivity is not that of a single output; it is summed
over all W outputs in which the record is protected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import _checks
from reticent._compile import compiled
from reticent.noise import lattice
from reticent.privacy import Budget, Guarantee, Release
from reticent.privacy.ages import Filtered
from reticent.privacy.budget import OLDEST
from reticent.state.lease import Lease
from reticent.sums import scales
from reticent.sums.base import RunningTotal
from reticent.sums.process import Process
from reticent.sums.toeplitz import Toeplitz
from reticent.sums.toeplitz_search import toeplitz
from reticent.sums.tree import _solve

# An innovation or a buffer beyond this many standard deviations has probability below 1e-347: the
# bound on the floating-point error of the known part holds but for that.
_SIGMAS = 40.0
_SLOW = 2.0**-16
_SLOW_FOR_EVER = 2.0**-10  # where rounding adds up over 2^40 outputs
_LONG = (
    2**30
)  # a stream without a horizon has a small error up to here, and grows like its root beyond


_LANES = 16  # coordinates whose memory lies together: with fewer the compiler makes no vector instructions


# The parameters come as tuples, so that each number of buffers is compiled with its loop unrolled;
# None stands for no buffers of a kind, and ``whole`` is None in floating point.


# "contract": a product and the sum after it may be rounded once instead of twice.
@compiled(fastmath={"contract"})
def _filter(fresh, memory, gap, weight, slow_gap, slow_weight, whole):  # type: ignore[no-untyped-def]
    """Replace innovations by the noise of the totals, some coordinates at a time.

    A row of ``memory`` holds, for its coordinates, each slow buffer as the sum of two doubles (so
    that errors do not pile up there), then the other buffers.
    """
    for tile in range(memory.shape[0]):
        mine = memory[tile]
        start = tile * _LANES
        for r in range(fresh.shape[0]):
            row = fresh[r, start:]
            for i in range(min(_LANES, row.size)):
                z = float(row[i])
                known = 0.0
                at = i
                if slow_gap is not None:
                    for j in range(len(slow_gap)):
                        old = mine[at]
                        known += slow_weight[j] * old
                        # decay * buffer + z, as the sum of two doubles
                        lost = slow_gap[j] * old
                        change = z - lost
                        rest = z - change
                        low = mine[at + _LANES] + ((z - (change + rest)) + (rest - lost))
                        new = old + change
                        rest = new - old
                        low += (old - (new - rest)) + (change - rest)
                        mine[at] = new + low
                        mine[at + _LANES] = low - (mine[at] - new)
                        at += 2 * _LANES
                if gap is not None:
                    for j in range(len(gap)):
                        old = mine[at]
                        known += weight[j] * old
                        mine[at] = old + (z - gap[j] * old)
                        at += _LANES
                if whole is not None:
                    row[i] += np.int64(np.rint(known))
                else:
                    row[i] = z + known


def _slow(gap: tuple[float, ...]) -> int:
    """How many buffers, the slowest first, decay so slowly that rounding would pile up in them."""
    bound = _SLOW_FOR_EVER if 0.0 in gap else _SLOW
    return sum(value < bound for value in gap)


@dataclass
class _Filter(Process):
    parameters: Toeplitz | None = None

    def draws(self, t: int, rows: int) -> int:
        return rows

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        assert self.parameters is not None
        gap, weight = self.parameters.gap, self.parameters.weight
        if not gap:
            return fresh
        slow = _slow(gap) if self.lattice else 0
        swift, swift_weight = (gap[slow:], weight[slow:]) if slow < len(gap) else (None, None)
        patient, patient_weight = (gap[:slow], weight[:slow]) if slow else (None, None)
        _filter(
            fresh,
            self.arrays["buffers"],
            swift,
            swift_weight,
            patient,
            patient_weight,
            True if self.lattice else None,
        )
        return fresh


class Correlated(RunningTotal):
    """A running total with correlated Gaussian noise: the least error known for the same promise.

    Parameters
    ----------
    dim, horizon, budget, norm, seed, noise_precision
        As in :class:`RunningTotal`. With ``horizon=None`` the stream is endless. Its error is bounded
        where the budget has a window or fades; else every record is protected in all of 2^40
        outputs, and the error at n is within a quarter of that for a known horizon n, for n from
        2^8 to 2^30.
    objective : {"max", "mean"}
        Whether to make the largest or the root mean square error over the horizon small.
    buffers : int or None
        At most so many vectors of memory; by default as few as come close to the optimum.

    Examples
    --------
    >>> import reticent
    >>> tree = reticent.sums.Tree(1, 1024, budget=reticent.Budget(1.0, 1e-6))
    >>> total = Correlated(1, 1024, budget=reticent.Budget(1.0, 1e-6))
    >>> worst = max(tree.error(t) for t in range(1, 1025)) / total.error(1024)
    >>> worst > 2.2
    True
    """

    _forgets = True
    _fades = True

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        objective: str = "max",
        buffers: int | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        self._filters: dict[int | None, Toeplitz] = {}
        self._scales: dict[int | None, float] = {}
        self.objective = _checks.choice(objective, "objective", ("max", "mean"))
        self.buffers = None if buffers is None else _checks.integer(buffers, "buffers", low=1)
        super().__init__(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise="gaussian",
            seed=seed,
            noise_precision=noise_precision,
        )

    def _arguments(self) -> dict[str, Any]:
        mine = super()._arguments() | {"objective": self.objective, "buffers": self.buffers}
        del mine["noise"]
        return mine

    def _facts(self) -> dict[str, Any]:
        state = super()._facts()
        # Another machine's cache may hold another filter; the stream goes on with its own.
        return state | {"filter": self._parameters(state["epoch"][1]).to_dict()}

    def _restore(self, state: dict[str, Any], lease: Lease) -> None:
        self._filters = {state["epoch"][1]: Toeplitz.from_dict(state["filter"])}
        self._scales = {}
        super()._restore(state, lease)

    def _parameters(self, steps: int | None) -> Toeplitz:
        if steps not in self._filters:
            self._filters[steps] = self._look_up(steps)
        return self._filters[steps]

    def _look_up(self, steps: int | None) -> Toeplitz:
        budget, buffers = self.budget, self.buffers
        if budget.fade is not None:
            return toeplitz(fade=budget.profile, buffers=buffers)
        if budget.window is not None and (steps is None or budget.window < steps):
            return toeplitz(window=budget.window, buffers=buffers)
        if steps is None:
            return toeplitz(endless=_LONG, buffers=buffers)
        return toeplitz(horizon=steps, objective=self.objective, buffers=buffers)

    @property
    def _is_endless(self) -> bool:
        return self.horizon is None

    @property
    def _fineness(self) -> float:
        """Lattice steps in a standard deviation: more where rounding adds up over 2^40 outputs."""
        return lattice.STEPS * (16.0 if self._last_step == OLDEST else 1.0)

    def _lattice_step(self, scale: float, steps: float) -> float:
        return super()._lattice_step(scale * (lattice.STEPS / self._fineness), steps)

    def _targets(self, steps: int | None) -> list[tuple[int, float]]:
        """Outputs in which a record is protected, and the mu that is allowed for them."""
        if self.budget.fade is not None:
            return [(min(age, steps or age), mu) for age, mu in self.budget.profile]
        lags = min(n for n in (self.budget.window, steps, OLDEST) if n is not None)
        return [(lags, self.budget.mu)]

    def _rounding(self, steps: int | None) -> float:
        """What the lattice can add to each coordinate of each innovation, relative to the noise scale."""
        if self.noise_precision == "float":
            return 0.0
        # See docs/algorithms/correlated.md: what reading a buffer loses, and what its updates lose.
        p = self._parameters(steps)
        slow = _slow(p.gap)
        error = 0.0
        for j, (gap, weight) in enumerate(zip(p.gap, p.weight, strict=True)):
            largest = math.sqrt(min(OLDEST, 1.0 / (gap * (2.0 - gap)) if gap else math.inf))
            if j < slow:
                error += weight * _SIGMAS * largest * 2.0**-49
            else:
                error += weight / gap * (1.0 + largest) * _SIGMAS * 2.0**-51
        return 2 / self._fineness + 4 * 1.01 * error

    def _by_age(self, sigma: float, steps: int | None) -> Filtered:
        """What innovations of this standard deviation promise at every age, rounding included."""
        # the filter's own coefficients are rounded to doubles; that moves no c_k by more than this
        # factor
        reach = scales.sensitivity(self) / sigma * (1 + 2.0**-44)
        step = self._lattice_step(sigma, self._capacity(steps)) / sigma
        slack = math.sqrt(self.dim) * self._rounding(steps) * max(1.0, step * self._fineness)
        return Filtered(self._parameters(steps).sensitivity, reach, slack, steps)

    def _scale(self, steps: int | None) -> float:
        if steps not in self._scales:
            reach = scales.sensitivity(self)
            squares = self._parameters(steps).squared_sensitivity
            self._scales[steps] = max(
                _solve(
                    lambda sigma, lags=lags: self._by_age(sigma, steps).mu(lags),
                    mu,
                    reach * math.sqrt(squares(lags)),
                )
                for lags, mu in self._targets(steps)
            )
        return self._scales[steps]

    def _process(self, steps: int | None) -> Process:
        scale, parameters = self._scale(steps), self._parameters(steps)
        step = self._lattice_step(scale, self._capacity(steps))
        on_lattice = self.noise_precision == "lattice"
        slow = _slow(parameters.gap) if on_lattice else 0
        tiles, kept = -(-self.dim // _LANES), slow + len(parameters.gap)
        arrays: dict[str, NDArray[Any]] = {"buffers": np.zeros((tiles, kept * _LANES))}
        return _Filter("gaussian", scale, step, on_lattice, arrays, parameters)

    def _promise(self) -> Guarantee:
        steps = self.horizon
        scale, lags = self._scale(steps), self._targets(steps)[-1][0]
        by_age = self._by_age(scale, steps)
        buffers = len(self._parameters(steps).gap)
        release = Release(
            "correlated noise (buffered linear Toeplitz)",
            by_age.at(lags),
            scales.sensitivity(self),
            f"Gaussian innovations, standard deviation {scale:.6g}",
            1,
            (f"a record is protected in {lags} outputs", f"{buffers} buffers"),
            by_age,
        )
        return scales.guarantee(self, release)

    def _variance(self, t: int, steps: int | None) -> float:
        return self._scale(steps) ** 2 * self._parameters(steps).squared_error(t)
