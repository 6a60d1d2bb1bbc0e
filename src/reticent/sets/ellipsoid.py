"""Ellipsoids around any centre.

The linear minimiser has a closed form. The projection solves one scalar equation in the eigenbasis by Newton's
method, from the side on which it cannot overshoot (Moré and Sorensen 1983).

``matrix`` is the quadratic form, not a covariance: the semi-axes are ``1 / sqrt(eigenvalue)``, so a large eigenvalue
is a narrow direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.checks import FloatArray, real_array, vector
from reticent.sets.base import ConvexSet, frozen


class Ellipsoid(ConvexSet):
    """``{x : (x - center)' matrix (x - center) <= 1}``.

    Parameters
    ----------
    matrix : array_like
        Symmetric and positive definite; a vector stands for a diagonal matrix.
    center : array_like, optional
        The centre; by default the origin.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.Ellipsoid([1.0, 0.25]).linear_minimizer([0.0, 1.0])
    array([ 0., -2.])
    """

    def __init__(self, matrix: Any, center: Any = None) -> None:
        form = real_array(matrix, "matrix")
        if form.ndim == 1:
            form = np.diag(form)
        if form.ndim != 2 or form.shape[0] != form.shape[1] or form.size == 0:
            raise ValueError(f"matrix must be square, or a vector of a diagonal, got {form.shape}")
        if not np.isfinite(form).all():
            raise ValueError("matrix must be finite")
        if np.abs(form - form.T).max() > 1e-12 * np.abs(form).max():
            raise ValueError("matrix must be symmetric; use (matrix + matrix.T) / 2")
        values, vectors = np.linalg.eigh(0.5 * (form + form.T))
        if values[0] <= 1e-14 * values[-1]:
            raise ValueError(
                "matrix must be positive definite so that the ellipsoid is bounded; its smallest "
                f"eigenvalue is {values[0]:g}"
            )
        self.dim = form.shape[0]
        self.matrix = frozen(form)
        middle = np.zeros(self.dim) if center is None else vector(center, "center", self.dim)
        self._middle = frozen(middle)
        self._values, self._vectors = values, vectors
        self.diameter = 2.0 / math.sqrt(values[0])

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        largest = np.abs(g).max()
        if largest == 0.0:
            return self._middle.copy()
        turned = self._vectors.T @ (g / largest)
        scaled = turned / self._values
        return self._middle - self._vectors @ (scaled / math.sqrt(turned @ scaled))

    def _project(self, x: FloatArray) -> FloatArray:
        z = self._vectors.T @ (x - self._middle)
        if z @ (self._values * z) <= 1.0:
            return x.copy()
        return self._middle + self._vectors @ (z / (1.0 + self._multiplier(z) * self._values))

    def _multiplier(self, z: FloatArray) -> float:
        """The nu > 0 with ``sum a_i z_i^2 / (1 + nu a_i)^2 = 1``.

        The reciprocal root of the left side is concave, increasing in nu and nearly linear, so Newton's steps on it
        approach the root from the left and never pass it.
        """
        a = self._values
        nu = 0.0
        for _ in range(100):
            w = z / (1.0 + nu * a)
            size = float(a @ (w * w))
            slope = float((a * a / (1.0 + nu * a)) @ (w * w))
            step = size * (math.sqrt(size) - 1.0) / slope
            if not step > 1e-16 * nu:
                break
            nu += step
        return nu

    def _contains(self, x: FloatArray, slack: float) -> bool:
        offset = x - self._middle
        z = self._vectors.T @ offset
        if z @ (self._values * z) <= 1.0:
            return True
        return float(np.linalg.norm(self._project(x) - x)) <= slack

    def sample(self, rng: np.random.Generator) -> FloatArray:
        direction = rng.standard_normal(self.dim)
        direction *= rng.random() ** (1.0 / self.dim) / math.sqrt(direction @ direction)
        return self._middle + self._vectors @ (direction / np.sqrt(self._values))

    @property
    def affine_hull(self) -> tuple[FloatArray, None]:
        return self._middle.copy(), None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        return self._middle.copy(), 1.0 / math.sqrt(self._values[-1])

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(self._middle)) + 0.5 * self.diameter
