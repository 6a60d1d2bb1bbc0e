"""Coefficients of a linear regression with their uncertainty, sampling error and privacy error apart.

Everything here is computed from what was released, so it costs nothing and may be published with the model. Formulas,
and what an interval covers: docs/intervals.md.
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
from reticent.privacy import Budget, Gaussian, Guarantee, Laplace, Release
from reticent.trace.summary import NoIntervals, Summary

SHARE = 0.05
"""Of the budget, for the sum of squared labels: of mu squared, or of epsilon where delta = 0."""
INTERCEPT = "intercept"
_STEPS = 2.0**-20
_CLEAR = 3.0
"""A'A must stand out of the largest eigenvalue of its noise by this factor, or there are no intervals."""


def check_clear(V: FloatArray, noise: float, times: float, name: str) -> None:
    """Refuse a matrix that is not so many times the largest eigenvalue of its noise, given by its deviation."""
    least = float(np.linalg.eigvalsh(V)[0])
    edge = math.sqrt(2.0 * len(V)) * noise
    if not least > times * edge:
        raise NoIntervals(
            f"there are no intervals that could be trusted: the smallest eigenvalue of {name}, {least:.3g}, "
            f"does not stand out of its noise, {edge:.3g}. More records, a larger epsilon, fewer or better "
            "scaled features would help. Columns that add up to a constant, such as one for each value of a "
            "category, need one of them left out, or summary(encoder=...) of the encoder that made them"
        )


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

    def within(self, basis: FloatArray) -> Self:
        """The same with coefficients in a subspace, by an orthonormal basis of it: the noise keeps its law."""
        V, u = self.products, self.with_labels
        return replace(self, products=basis.T @ V @ basis, with_labels=basis.T @ u)


class Solved(Protocol):
    """Whatever knows an estimate and its errors."""

    def within(self, basis: FloatArray) -> Self:
        """The same with coefficients in a subspace, by an orthonormal basis of it."""

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The estimate, and the covariances of its sampling and of its privacy error."""


@dataclass(frozen=True, eq=False)
class Carried:
    """How numbers that are shown follow from learnt weights: ``matrix @ x + shift``.

    Attributes
    ----------
    names : tuple of str
        Of the numbers; the intercept last, where there is one.
    matrix : array of shape (numbers, d)
        What weights are multiplied by.
    shift : array
        What is added.
    null : array of shape (k, d), optional
        Weights that make no difference to any record, and to none of the numbers.
    about : str
        More words on what the intervals are about.
    """

    names: tuple[str, ...]
    matrix: FloatArray
    shift: FloatArray
    null: FloatArray | None = None
    about: str = ""

    def to_columns(self, encoder: Any) -> Carried:
        """Coefficients of encoded features as those of a table's own columns; see docs/intervals.md."""
        contrasts = getattr(encoder, "contrasts", None)
        if contrasts is None:
            raise TypeError(
                "encoder must be the reticent.tables.Encoder that made the features, got "
                f"{type(encoder).__name__}"
            )
        if self.names[-1] != INTERCEPT:
            raise ValueError(
                "summary(encoder=...) needs a model with fit_intercept=True: values of categories are compared with "
                "a first one, which the intercept stands for"
            )
        if len(encoder.names) != len(self.names) - 1:
            raise ValueError(
                f"the encoder makes {len(encoder.names)} features, and the model was fitted on "
                f"{len(self.names) - 1}; give the encoder that made its features"
            )
        matrix, collinear = contrasts.matrix, contrasts.collinear
        null = np.linalg.solve(self.matrix, collinear.T).T if len(collinear) else None
        return Carried(
            contrasts.names, matrix @ self.matrix, matrix @ self.shift, null, contrasts.about
        )


def summarise(
    solved: Solved, carried: Carried, level: float, about: str, guarantee: Guarantee
) -> Summary:
    """The table of the numbers that learnt weights are carried to."""
    level = checks.number(level, "level", low=0.0, high=1.0, open_low=True, open_high=True)
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
