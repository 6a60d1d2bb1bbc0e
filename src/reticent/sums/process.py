"""A stretch of noise: how a running total's noise is made from fresh draws, one block after the other.

It never sees data, so noise can be drawn ahead of the records that it will cover.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.noise import lattice
from reticent.noise.source import Source

if TYPE_CHECKING:
    from reticent.sums.mechanism import Mechanism

SAMPLERS = {"gaussian": lattice.gaussian, "laplace": lattice.laplace, "gamma": lattice.gamma}


@dataclass
class Process:
    """The noise of a mechanism for a stretch of steps: fresh draws in, noise of the running total out.

    ``arrays`` is all it remembers; the kernels update it in place. ``scale`` is the noise scale of
    one draw in the units of the data, ``step`` the lattice step (1.0 in floating point). ``torn``
    from when it begins to remember a block until its owner holds that block: an interrupt between
    the two leaves it with draws that no output has seen, and later noise would be too small.
    """

    mechanism: Mechanism
    steps: int | None
    scale: float
    step: float
    arrays: dict[str, NDArray[Any]]
    torn: bool = field(default=False, init=False, repr=False, compare=False)
    _room: NDArray[Any] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def lattice(self) -> bool:
        return self.mechanism.on_lattice

    def draws(self, t: int, rows: int) -> int:
        """How many fresh vectors the steps t+1, ..., t+rows need."""
        return self.mechanism.draws(self.steps, t, rows)

    def relative_scales(self, t: int, rows: int) -> FloatArray | None:
        """Scale of each of those draws relative to ``scale``, where they differ."""
        return self.mechanism.relative_scales(self.steps, t, rows)

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        """The noise of the totals t+1, ..., t+rows, from the fresh draws; may reuse their memory."""
        return self.mechanism.mix(self.steps, self.arrays, fresh, t, rows)

    def block(self, source: Source, t: int, rows: int, dim: int) -> NDArray[Any]:
        """The noise of the totals t+1, ..., t+rows; good until the next block takes its memory.

        It is an interval of the source: drawn again from what the source and the process held before, it
        is the same.
        """
        self.check()
        source.ratchet()
        noise, draws = self.mechanism.noise, self.draws(t, rows)
        relative = self.relative_scales(t, rows)
        scales = np.full(draws, self.scale / self.step)
        if relative is not None:
            scales *= relative
        # Memory that is given back to the system and asked for again costs more than the filter.
        if self._room is None or len(self._room) < draws or self._room.shape[1] != dim:
            self._room = self.mechanism.zeros(draws, dim)
        fresh = self._room[:draws]
        if self.lattice:
            SAMPLERS[noise](source, scales, fresh)
        else:
            _float_draws(noise, source, scales, fresh, varied=relative is not None)
        self.torn = True
        return self.mix(fresh, t, rows)

    def memory(self) -> dict[str, NDArray[Any]]:
        """A copy of all that it remembers."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def forget(self, memory: dict[str, NDArray[Any]], t: int) -> None:
        """Blank what no total after the t-th needs, in a copy of the memory as it was then."""
        self.mechanism.forget(self.steps, memory, t)

    def check(self) -> None:
        """Refuse to go on after an interrupt in the middle of a block."""
        if self.torn:
            raise RuntimeError(
                "this total was interrupted while it made noise, and its memory of earlier noise is not "
                "whole: later totals would protect too little. Build a new one; or, only if no output has "
                "left since the last saved state, continue from that in a new process (reticent.committed "
                "makes sure of it)"
            )


def _float_draws(
    noise: str,
    source: Source,
    scales: NDArray[np.float64],
    fresh: NDArray[np.float64],
    *,
    varied: bool,
) -> None:
    """Noise in double precision, for simulations."""
    draws, dim = fresh.shape
    if noise == "gaussian":
        source.normals(fresh)
        fresh *= scales[:, None] if varied else scales[0]
        return
    generator = source.generator
    with source._coarse.lock:
        if noise == "laplace":
            fresh[:] = generator.laplace(size=fresh.shape)
        else:
            fresh[:] = generator.standard_normal(size=fresh.shape)
            fresh *= (generator.gamma(dim, size=draws) / np.linalg.norm(fresh, axis=1))[:, None]
    fresh *= scales[:, None]
