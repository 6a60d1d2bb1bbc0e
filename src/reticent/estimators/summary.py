"""Coefficients with their uncertainty: standard errors and intervals, sampling error and privacy error apart.

Everything here is computed from what was released, so it costs nothing and may be published with the model. Formulas,
and what an interval covers: docs/intervals.md.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from reticent import _checks, _html
from reticent._checks import FloatArray
from reticent.noise import Source, release
from reticent.privacy import Budget, Gaussian, Guarantee, Laplace, Release

SHARE = 0.05
"""Of the budget, for the sum of squared labels: of mu squared, or of epsilon where delta = 0."""
_STEPS = 2.0**-20
_CLEAR = 3.0
"""A'A must stand out of the largest eigenvalue of its noise by this factor, or there are no intervals."""


class NoIntervals(ValueError):
    """Intervals that hold what they promise cannot be had."""


def check_clear(V: FloatArray, noise: float, times: float, name: str) -> None:
    """Refuse a matrix that is not so many times the largest eigenvalue of its noise, given by its deviation."""
    least = float(np.linalg.eigvalsh(V)[0])
    edge = math.sqrt(2.0 * len(V)) * noise
    if not least > times * edge:
        raise NoIntervals(
            f"there are no intervals that could be trusted: the smallest eigenvalue of {name}, {least:.3g}, "
            f"does not stand out of its noise, {edge:.3g}. More records, a larger epsilon, fewer or better "
            "scaled features would help"
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """A table of coefficients.

    Attributes
    ----------
    names : tuple of str
        Of the coefficients, the intercept last.
    estimate : array
        The coefficients without shrinkage; ``coef_`` is shrunk by a ridge and differs a little.
    sampling_error, privacy_error : arrays
        Standard errors: what other records would have changed, and what the noise did.
    level : float
        Of the intervals.
    about : str
        What the intervals are about.
    guarantee : Guarantee
        What is promised about all of it, the model included.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    sampling_error: FloatArray
    privacy_error: FloatArray
    level: float
    about: str
    guarantee: Guarantee

    @property
    def standard_error(self) -> FloatArray:
        """Both errors together."""
        return np.hypot(self.sampling_error, self.privacy_error)

    @property
    def interval(self) -> FloatArray:
        """Ends of the intervals, one row for each coefficient."""
        half = -float(ndtri(0.5 - 0.5 * self.level)) * self.standard_error
        return np.column_stack([self.estimate - half, self.estimate + half])

    def _rows(self) -> list[list[str]]:
        head = [
            "",
            "estimate",
            "standard error",
            "sampling",
            "privacy",
            f"{self.level:.0%} interval",
            "",
        ]
        rows = [head]
        for k, name in enumerate(self.names):
            numbers = (self.estimate[k], self.standard_error[k], self.sampling_error[k],
                       self.privacy_error[k], *self.interval[k])  # fmt: skip
            rows.append([name, *(f"{value:.4g}" for value in numbers)])
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if k == 0 else f"{cell:>{width}}"
                for k, (cell, width) in enumerate(zip(row, wide, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self.about, str(self.guarantee)])

    def __repr__(self) -> str:
        return f"<Summary of {len(self.names)} coefficients>"

    def _repr_html_(self) -> str:
        return _html.block(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "names": list(self.names), "estimate": self.estimate.tolist(),
            "sampling_error": self.sampling_error.tolist(),
            "privacy_error": self.privacy_error.tolist(), "level": self.level,
            "interval": self.interval.tolist(), "about": self.about,
            "guarantee": self.guarantee.to_dict(),
        }  # fmt: skip

    def plot(self, **options: Any) -> Any:
        """A forest plot; see `reticent.plots.forest`."""
        return importlib.import_module("reticent.plots").forest(self, **options)


@dataclass(frozen=True)
class SquaredLabels:
    """The sum of squared labels with noise, before it is drawn: what the residual variance needs.

    Parameters
    ----------
    scale : float
        Of the noise. A label within [-1, 1] moves the sum by 1 at most, blanked or replaced.
    noise : {"gaussian", "laplace"}
        Its kind.
    precision : {"lattice", "float"}
        "float" is for simulations.
    """

    scale: float
    noise: str
    precision: str

    @classmethod
    def of(cls, budget: Budget, precision: str) -> SquaredLabels:
        """The sum that takes a share of a budget."""
        pure = budget.delta == 0.0
        level = SHARE * budget.epsilon if pure else math.sqrt(SHARE) * budget.mu
        noise = "laplace" if pure else "gaussian"
        scale = 1.0 / level if precision == "float" else release.scale_for(1.0, level, 1, noise)
        return cls(scale, noise, precision)

    @property
    def release(self) -> Release:
        """What it costs."""
        moved = 1.0
        if self.precision == "lattice":
            moved = release.widened(1.0, self.scale, 1, self.noise)
        pure = self.noise == "laplace"
        curve = Laplace(moved / self.scale) if pure else Gaussian(moved / self.scale)
        words = "Laplace, scale" if pure else "Gaussian, standard deviation"
        return Release("sum of squared labels", curve, moved, f"{words} {self.scale:.6g}")

    def draw(self, labels: FloatArray, source: Source) -> float:
        """The sum with noise. Squares are rounded down to multiples of 2^-20, so that the sum is exact."""
        total = float((np.floor(labels * labels / _STEPS) * _STEPS).sum())
        seen = release.noisy(
            np.array([total]), self.scale, source, noise=self.noise, precision=self.precision
        )
        return float(seen[0])


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy sufficient statistics of a regression, in the units that it was learnt in.

    Attributes
    ----------
    products : array of shape (d, d)
        A'A with noise of standard deviation ``matrix_noise`` on the diagonal, over sqrt(2) beside it.
    with_labels : array of shape (d,)
        A'y with noise of standard deviation ``vector_noise``.
    matrix_noise, vector_noise : float
        Standard deviations.
    squares : float
        The sum of squared labels with noise.
    count : int
        Number of records.
    """

    products: FloatArray
    with_labels: FloatArray
    matrix_noise: float
    vector_noise: float
    squares: float
    count: int

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least squares without a ridge, and the covariances of its sampling and of its privacy error."""
        V, u, d = self.products, self.with_labels, len(self.with_labels)
        check_clear(V, self.matrix_noise, _CLEAR, "A'A")
        inverse: FloatArray = np.asarray(np.linalg.inv(V), dtype=np.float64)
        x = inverse @ u
        # to first order the noise on A'A shrinks the inverse, as error in regressors does
        half = 0.5 * self.matrix_noise**2
        x = x - inverse @ (half * (np.trace(inverse) * x + inverse @ x))
        left = self.squares - 2.0 * float(u @ x) + float(x @ V @ x)
        variance = max(left, 0.0) / max(1, self.count - d)
        blur = (self.vector_noise**2 + half * float(x @ x)) * np.eye(d) + half * np.outer(x, x)
        return x, variance * inverse, inverse @ blur @ inverse


class Solved(Protocol):
    """Whatever knows an estimate and its errors."""

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The estimate, and the covariances of its sampling and of its privacy error."""


def summarise(
    solved: Solved,
    carry: FloatArray,
    shift: FloatArray,
    names: Sequence[str],
    level: float,
    about: str,
    guarantee: Guarantee,
) -> Summary:
    """The table for coefficients ``carry @ x + shift``."""
    level = _checks.number(level, "level", low=0.0, high=1.0, open_low=True, open_high=True)
    x, sampling, privacy = solved.solution()
    errors = [
        np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", carry, C, carry), 0.0))
        for C in (sampling, privacy)
    ]
    return Summary(tuple(names), carry @ x + shift, errors[0], errors[1], level, about, guarantee)
