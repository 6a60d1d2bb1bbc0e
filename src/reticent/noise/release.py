"""Release one real vector with noise on the lattice, for solvers that have a vector and not a running total.

The vector is rounded to the lattice of the noise, and the noise is exactly rounded too, so that the release is a
whole number of steps. Rounding can move two neighbouring vectors apart by one step in each coordinate, which is part
of the sensitivity: see :func:`widened`.

``widened`` covers this rounding only, not rounding errors in the computation of the vector. A caller who adds n
numbers in floating point must account for those too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent.noise import lattice
from reticent.noise.source import Source
from reticent.privacy import Budget, Gaussian, Laplace, Pure, Release
from reticent.privacy.curves import Curve

_SAMPLERS = {"gaussian": lattice.gaussian, "laplace": lattice.laplace, "gamma": lattice.gamma}
_CURVES: dict[str, Callable[[float], Curve]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "gamma": Pure,
}
_WORDS = {
    "gaussian": "Gaussian, standard deviation",
    "laplace": "Laplace, scale",
    "gamma": "Gamma, scale",
}


def _steps(noise: str) -> float:
    return lattice.GAMMA_STEPS if noise == "gamma" else lattice.STEPS


def widened(sensitivity: float, scale: float, dim: int, noise: str = "gaussian") -> float:
    """The sensitivity of a vector after rounding to the lattice of noise of a given scale.

    It is in the Euclidean norm for Gaussian and Gamma noise, in the 1-norm for Laplace noise.
    """
    spread = float(dim) if noise == "laplace" else math.sqrt(dim)
    return sensitivity + spread * lattice.step(scale, _steps(noise))


def scale_for(sensitivity: float, level: float, dim: int, noise: str = "gaussian") -> float:
    """The smallest scale at which ``widened(sensitivity, scale, dim) / scale`` is at most ``level``.

    ``level`` is mu for Gaussian noise and epsilon for other noise.
    """
    spread = float(dim) if noise == "laplace" else math.sqrt(dim)
    room = level - spread / _steps(noise)
    if not room > 0.0:
        raise ValueError(
            f"a privacy level of {level:g} in {dim} dimensions is too small for the lattice of the noise; "
            "use a larger epsilon or fewer dimensions"
        )
    return sensitivity / room


def share_of(budget: Budget, share: float, pure: str = "laplace") -> tuple[str, float]:
    """The noise of a release that takes a share of a budget, and what it may cost.

    That is Gaussian noise and a mu or, if delta = 0, noise of the kind ``pure`` and an epsilon. Shares are of mu
    squared, or of epsilon, so those of several releases add up.
    """
    if budget.delta == 0.0:
        return pure, share * budget.epsilon
    return "gaussian", math.sqrt(share) * budget.mu


def accounted(
    what: str,
    sensitivity: float,
    scale: float,
    dim: int,
    *,
    noise: str = "gaussian",
    precision: str = "lattice",
    **more: Any,
) -> Release:
    """The entry of a guarantee for a vector with noise of a given scale: what it is, and what it costs.

    ``sensitivity`` is that of the vector itself; rounding to the lattice is added to it here. ``more`` are further
    fields of the entry.
    """
    moved = widened(sensitivity, scale, dim, noise) if precision == "lattice" else sensitivity
    return Release(
        what, _CURVES[noise](moved / scale), moved, f"{_WORDS[noise]} {scale:.6g}", **more
    )


@dataclass(frozen=True)
class NoisyVector:
    """Description of a vector that is released with noise.

    Parameters
    ----------
    words : str
        Name of the release in the guarantee.
    moved : float
        Sensitivity: Euclidean norm for Gaussian and Gamma noise, 1-norm for Laplace noise.
    size : int
        Number of entries.
    scale : float
        Scale of the noise.
    noise : {"gaussian", "laplace", "gamma"}
        Distribution of the noise.
    precision : {"lattice", "float"}
        Where noisy values lie; "float" is for simulations.

    Examples
    --------
    >>> total = NoisyVector.spending(0.01, Budget(1.0, 1e-6), "labels", 1.0, 1, 1000.0)
    >>> total.release.noise
    'Gaussian, standard deviation 42.2468'
    """

    words: str
    moved: float
    size: int
    scale: float
    noise: str
    precision: str

    @classmethod
    def spending(
        cls,
        share: float,
        budget: Budget,
        words: str,
        moved: float,
        size: int,
        largest: float = 0.0,
        precision: str = "lattice",
    ) -> Self:
        """A vector that spends ``share`` of a budget; its entries are at most ``largest`` in absolute value."""
        noise, level = share_of(budget, share)
        scale = moved / level
        if precision == "lattice":
            scale = max(scale_for(moved, level, size, noise), 2.0 * largest * 2.0**-30)
        return cls(words, moved, size, scale, noise, precision)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one entry."""
        squares = {"gaussian": 1.0, "laplace": 2.0, "gamma": self.size + 1.0}
        return self.scale * math.sqrt(squares[self.noise])

    @property
    def release(self) -> Release:
        """The release, with its cost."""
        how = {"noise": self.noise, "precision": self.precision}
        return accounted(self.words, self.moved, self.scale, self.size, **how)

    def draw(self, vector: NDArray[np.float64], source: Source) -> NDArray[np.float64]:
        """The noisy vector. :attr:`release` must have been charged before."""
        return noisy(vector, self.scale, source, noise=self.noise, precision=self.precision)


def noisy(
    vector: NDArray[np.float64],
    scale: float,
    source: Source,
    *,
    noise: str = "gaussian",
    precision: str = "lattice",
) -> NDArray[np.float64]:
    """The vector plus noise of a given scale.

    The caller accounts for it, with the sensitivity of :func:`widened`.
    """
    dim = vector.size
    if precision == "float":
        return vector + scale * _float_noise(noise, source, dim)
    step = lattice.step(scale, _steps(noise))
    whole = np.rint(vector / step)
    if not (np.abs(whole) < 2.0**62).all():
        largest = float(np.abs(vector).max())
        raise ValueError(
            f"an entry of size {largest:g} is too large for noise of scale {scale:g} on the lattice; "
            "rescale the data"
        )
    drawn = np.empty((1, dim), np.int64)
    _SAMPLERS[noise](source, np.array([scale / step]), drawn)
    return step * (whole.astype(np.int64) + drawn[0]).astype(np.float64)


def _float_noise(noise: str, source: Source, dim: int) -> NDArray[np.float64]:
    out = np.empty(dim)
    if noise == "gaussian":
        source.normals(out)
        return out
    if noise == "laplace":
        return np.asarray(source.generator.laplace(size=dim))
    source.normals(out)
    return out * (source.generator.gamma(dim) / float(np.linalg.norm(out)))
