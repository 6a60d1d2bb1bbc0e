"""A process of noise: the noise of a running total, made from fresh draws, block by block.

It never sees data, so noise can be drawn ahead of the records for which it is used.
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
    """The noise of a mechanism for a stretch of steps: takes fresh draws, returns noise of the running total.

    Parameters
    ----------
    mechanism : Mechanism
        The description.
    steps : int or None
        Length of the stretch; None if it has no end.
    scale : float
        Noise scale of one draw, in the units of the data.
    step : float
        The lattice step; 1.0 in floating point.
    arrays : dict of arrays
        Everything that it remembers; the kernels update it in place.

    Notes
    -----
    ``torn`` is true from the moment at which it begins to remember a block until its owner holds that block. An
    interrupt between the two leaves it with draws that no output has seen, and later noise would be too small.
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
        """Number of fresh vectors that the steps t+1, ..., t+rows need."""
        return self.mechanism.draws(self.steps, t, rows)

    def relative_scales(self, t: int, rows: int) -> FloatArray | None:
        """Scale of each of these draws relative to ``scale``; None if all are equal."""
        return self.mechanism.relative_scales(self.steps, t, rows)

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        """The noise of the totals t+1, ..., t+rows from the fresh draws, whose memory it may overwrite."""
        return self.mechanism.mix(self.steps, self.arrays, fresh, t, rows)

    def block(self, source: Source, t: int, rows: int, dim: int) -> NDArray[Any]:
        """The noise of the totals t+1, ..., t+rows, valid until the next block reuses its memory.

        It is drawn in an interval of its own of the source, so it is the same if it is drawn again from the earlier
        states of source and process.
        """
        self.check()
        source.ratchet()
        noise, draws = self.mechanism.noise, self.draws(t, rows)
        relative = self.relative_scales(t, rows)
        scales = np.full(draws, self.scale / self.step)
        if relative is not None:
            scales *= relative
        # Keep the memory: returning it to the system and allocating it again costs more than the filter.
        if self._room is None or len(self._room) < draws or self._room.shape[1] != dim:
            self._room = self.mechanism.zeros(draws, dim)
        fresh = self._room[:draws]
        if self.lattice:
            SAMPLERS[noise](source, scales, fresh)
        else:
            _float_draws(noise, source, scales, fresh, varied=relative is not None)
        self.torn = True
        mixed = self.mix(fresh, t, rows)
        if mixed.shape != (rows, dim) or mixed.dtype != fresh.dtype:
            raise TypeError(
                f"mix of {self.mechanism.kind} must return an array of shape {(rows, dim)} and type {fresh.dtype}, one "
                f"row of noise for each total, got shape {mixed.shape} and type {mixed.dtype}; noise on the lattice is "
                "counted in whole steps"
            )
        return mixed

    def memory(self) -> dict[str, NDArray[Any]]:
        """A copy of everything that it remembers."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def forget(self, memory: dict[str, NDArray[Any]], t: int) -> None:
        """In a copy of the memory as it was after step t, zero what no later total needs."""
        self.mechanism.forget(self.steps, memory, t)

    def check(self) -> None:
        """Refuse to continue after an interrupt in the middle of a block."""
        if self.torn:
            raise RuntimeError(
                "this total was interrupted while it drew noise, and its memory of earlier noise is incomplete: "
                "later totals would protect too little. Build a new total; or, only if no output was released "
                "after the last saved state, continue from that state in a new process (reticent.committed "
                "ensures this)"
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
