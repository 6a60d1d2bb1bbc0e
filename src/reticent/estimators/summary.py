"""Tables of coefficients with their uncertainty; sampling error and privacy error are listed separately.

Everything is computed from released numbers, so it costs nothing and may be published with the model. Formulas, and
what an interval covers: docs/intervals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.linalg import null_space

from reticent import checks
from reticent.checks import FloatArray
from reticent.noise import Source, release
from reticent.privacy import Budget, Guarantee, Release
from reticent.trace.summary import NoIntervals, Summary

SHARE = 0.05
"""Share of the budget for the sum of squared labels: of mu squared, or of epsilon if delta = 0."""
INTERCEPT = "intercept"
_STEPS = 2.0**-20
_CLEAR = 3.0
"""A'A must exceed the largest eigenvalue of its noise by this factor, or there are no intervals."""


def check_clear(V: FloatArray, noise: float, times: float, name: str) -> None:
    """Refuse a matrix that is not ``times`` the largest eigenvalue of its noise; ``noise`` is a standard deviation."""
    least = float(np.linalg.eigvalsh(V)[0])
    edge = math.sqrt(2.0 * len(V)) * noise
    if not least > times * edge:
        raise NoIntervals(
            f"no reliable intervals: the smallest eigenvalue of {name}, {least:.3g}, is not clearly above its noise, "
            f"{edge:.3g}. Use more records, a larger epsilon, or fewer or better scaled features. Of columns that add "
            "up to a constant, such as one for each value of a category, leave one out, or call "
            "summary(encoder=...) with the encoder that made them"
        )


@dataclass(frozen=True)
class SquaredLabels:
    """Description of the noisy sum of squared labels, from which the residual variance is estimated.

    Parameters
    ----------
    scale : float
        Scale of the noise. The square of a label in [-1, 1] changes the sum by at most 1, blanked or replaced.
    noise : {"gaussian", "laplace"}
        Distribution of the noise.
    precision : {"lattice", "float"}
        Where the noisy sum lies; "float" is for simulations.
    """

    scale: float
    noise: str
    precision: str

    @classmethod
    def of(cls, budget: Budget, precision: str) -> SquaredLabels:
        """The sum that spends ``SHARE`` of a budget."""
        noise, level = release.share_of(budget, SHARE)
        scale = 1.0 / level if precision == "float" else release.scale_for(1.0, level, 1, noise)
        return cls(scale, noise, precision)

    @property
    def release(self) -> Release:
        """The release, with its cost."""
        return release.accounted(
            "sum of squared labels", 1.0, self.scale, 1, noise=self.noise, precision=self.precision
        )

    def draw(self, labels: FloatArray, source: Source) -> float:
        """The noisy sum. Squares are rounded down to multiples of 2^-20, so that the sum is exact."""
        total = float((np.floor(labels * labels / _STEPS) * _STEPS).sum())
        seen = release.noisy(
            np.array([total]), self.scale, source, noise=self.noise, precision=self.precision
        )
        return float(seen[0])


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy sufficient statistics of a regression, in the units in which it was learnt.

    Attributes
    ----------
    products : array of shape (d, d)
        A'A with noise of standard deviation ``matrix_noise`` on the diagonal and ``matrix_noise / sqrt(2)`` elsewhere.
    with_labels : array of shape (d,)
        A'y with noise of standard deviation ``vector_noise``.
    matrix_noise : float
        Standard deviation of the noise on the diagonal of ``products``.
    vector_noise : float
        Standard deviation of the noise on ``with_labels``.
    squares : float
        Noisy sum of squared labels.
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
        """Least squares without a ridge, and the covariances of its sampling error and of its privacy error."""
        V, u, d = self.products, self.with_labels, len(self.with_labels)
        check_clear(V, self.matrix_noise, _CLEAR, "A'A")
        inverse: FloatArray = np.asarray(np.linalg.inv(V), dtype=np.float64)
        x = inverse @ u
        # corrected to first order for the bias that noise on A'A causes, as errors in regressors do
        half = 0.5 * self.matrix_noise**2
        x = x - inverse @ (half * (np.trace(inverse) * x + inverse @ x))
        left = self.squares - 2.0 * float(u @ x) + float(x @ V @ x)
        variance = max(left, 0.0) / max(1, self.count - d)
        blur = (self.vector_noise**2 + half * float(x @ x)) * np.eye(d) + half * np.outer(x, x)
        return x, variance * inverse, inverse @ blur @ inverse

    def within(self, basis: FloatArray) -> Self:
        """The statistics for coefficients in the span of an orthonormal basis; the noise keeps its distribution."""
        V, u = self.products, self.with_labels
        return replace(self, products=basis.T @ V @ basis, with_labels=basis.T @ u)


class Solved(Protocol):
    """Interface of an estimate with its errors."""

    def within(self, basis: FloatArray) -> Self:
        """The estimate for coefficients in the span of an orthonormal basis."""

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The estimate, and the covariances of its sampling error and of its privacy error."""


@dataclass(frozen=True, eq=False)
class Carried:
    """The affine map ``matrix @ x + shift`` from learnt weights to the numbers that are shown.

    Attributes
    ----------
    names : tuple of str
        Names of the numbers; the intercept, if any, is last.
    matrix : array of shape (numbers, d)
        Linear part.
    shift : array
        Constant part.
    null : array of shape (k, d), optional
        Directions of weights that change neither any prediction nor any of the numbers.
    about : str
        Further words on what the intervals cover.
    """

    names: tuple[str, ...]
    matrix: FloatArray
    shift: FloatArray
    null: FloatArray | None = None
    about: str = ""

    def to_columns(self, encoder: Any) -> Carried:
        """The map to coefficients of a table's own columns instead of encoded features; see docs/intervals.md."""
        contrasts = getattr(encoder, "contrasts", None)
        if contrasts is None:
            raise TypeError(
                "encoder must be the reticent.tables.Encoder that made the features, got "
                f"{type(encoder).__name__}"
            )
        if self.names[-1] != INTERCEPT:
            raise ValueError(
                "summary(encoder=...) needs a model with fit_intercept=True: the values of a category are compared "
                "with its first value, which the intercept includes"
            )
        if len(encoder.names) != len(self.names) - 1:
            raise ValueError(
                f"the encoder makes {len(encoder.names)} features, but the model was fitted on "
                f"{len(self.names) - 1}; use the encoder that made its features"
            )
        matrix, collinear = contrasts.matrix, contrasts.collinear
        null = np.linalg.solve(self.matrix, collinear.T).T if len(collinear) else None
        return Carried(
            contrasts.names, matrix @ self.matrix, matrix @ self.shift, null, contrasts.about
        )


def summarise(
    solved: Solved, carried: Carried, level: float, about: str, guarantee: Guarantee
) -> Summary:
    """The table of the numbers to which learnt weights are mapped."""
    level = checks.fraction(level, "level")
    carry = carried.matrix
    if carried.null is not None:
        basis = null_space(carried.null)
        solved, carry = solved.within(basis), carry @ basis
    x, sampling, privacy = solved.solution()
    errors = [
        np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", carry, C, carry), 0.0))
        for C in (sampling, privacy)
    ]
    return Summary(
        carried.names,
        carry @ x + carried.shift,
        errors[0],
        errors[1],
        level,
        about + carried.about,
        guarantee,
    )
