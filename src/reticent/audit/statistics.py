"""Test statistics of attackers: a score of one output that is high in one world and low in the other.

The best score is the likelihood ratio of the two worlds (Neyman and Pearson). For Gaussian noise it is linear, with the
inverse covariance; for Laplace noise it is a sum over the independent draws. Otherwise a score is learnt from runs that
are then set aside.

A bad score cannot raise a false alarm, it can only miss a leak. Therefore scores may be learnt or guessed, while events
must be counted on fresh runs.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.checks import FloatArray, real_array


class Statistic(ABC):
    """A score of outputs, one per row; ``fit`` learns from runs that are not counted afterwards."""

    learns: bool = False

    def fit(self, a: NDArray[Any], b: NDArray[Any]) -> None:  # noqa: B027 - most have nothing to learn
        """Learn from outputs of both worlds."""

    @abstractmethod
    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        """One score per row."""


class Score(Statistic):
    """A user's own function; by default the output itself, if it is a number."""

    def __init__(self, function: Callable[[NDArray[Any]], ArrayLike] | None = None) -> None:
        self.function = function

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        scores = outputs if self.function is None else self.function(outputs)
        return np.asarray(scores, dtype=np.float64).reshape(len(outputs))


class GaussianRatio(Statistic):
    """The likelihood ratio of two Gaussians with the same covariance: linear in the output, and optimal.

    Parameters
    ----------
    shift
        Difference between the means of the output in world b and world a.
    covariance
        Covariance of the output's noise.

    Examples
    --------
    >>> ratio = GaussianRatio([1.0, 1.0], [[1.0, 0.0], [0.0, 4.0]])
    >>> ratio(np.array([[0.0, 0.0], [1.0, 4.0]]))
    array([0., 2.])
    >>> round(ratio.mu, 4)  # the square root of 1 + 1/4
    1.118
    """

    def __init__(self, shift: ArrayLike, covariance: ArrayLike) -> None:
        moved = real_array(shift, "shift").reshape(-1)
        matrix = real_array(covariance, "covariance")
        if matrix.shape != (moved.size, moved.size):
            raise ValueError(
                f"covariance must have shape ({moved.size}, {moved.size}), got {matrix.shape}"
            )
        self.direction = np.linalg.solve(matrix, moved)
        self.mu = float(np.sqrt(moved @ self.direction))

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        return np.asarray(outputs @ self.direction, dtype=np.float64)


class SphericalRatio(Statistic):
    """The likelihood ratio if the output is an invertible mix of draws with density exp(-|x|/scale).

    Such draws are Laplace in one dimension and spherical Gamma vectors in more.

    Parameters
    ----------
    mix
        Square matrix; row t holds the weights of the draws in output t.
    center
        Output of world a without noise, one row per step and one column per coordinate.
    shift
        Difference between the outputs without noise in world b and world a.
    scale
        Scale of the draws, one for all or one for each.
    """

    def __init__(
        self, mix: ArrayLike, center: ArrayLike, shift: ArrayLike, scale: ArrayLike
    ) -> None:
        self.unmix = np.linalg.inv(real_array(mix, "mix"))
        self.center = real_array(center, "center").reshape(len(self.unmix), -1)
        self.move = self.unmix @ real_array(shift, "shift").reshape(self.center.shape)
        self.scale = np.broadcast_to(real_array(scale, "scale"), len(self.unmix))

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        rows = outputs.reshape(-1, *self.center.shape) - self.center
        draws = np.einsum("ij,njk->nik", self.unmix, rows)
        gain = np.linalg.norm(draws, axis=2) - np.linalg.norm(draws - self.move, axis=2)
        return np.asarray(gain @ (1.0 / self.scale), dtype=np.float64)


class Fisher(Statistic):
    """The linear score that is optimal for a Gaussian mechanism of unknown covariance, learnt from runs."""

    learns = True

    def fit(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        shift = b.mean(axis=0) - a.mean(axis=0)
        spread = 0.5 * (np.atleast_2d(np.cov(a.T)) + np.atleast_2d(np.cov(b.T)))
        self.direction = np.linalg.lstsq(spread, shift, rcond=1e-12)[0]

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        return np.asarray(outputs @ self.direction, dtype=np.float64)


class Classifier(Statistic):
    """A logistic regression that distinguishes the worlds, learnt from runs that are set aside.

    Parameters
    ----------
    quadratic
        Whether squares and absolute values of the outputs are features too, for noise that is not Gaussian or differs
        in spread.
    most
        Largest number of runs of each world from which it learns.
    """

    learns = True

    def __init__(self, quadratic: bool = True, most: int = 20_000) -> None:
        self.quadratic = quadratic
        self.most = most

    def _features(self, outputs: NDArray[Any]) -> FloatArray:
        scaled = (outputs - self.center) / self.spread
        if not self.quadratic:
            return scaled
        return np.hstack([scaled, np.abs(scaled), np.minimum(scaled**2, 25.0)])

    def fit(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        a, b = a[: self.most], b[: self.most]
        both = np.vstack([a, b])
        self.center = np.median(both, axis=0)
        spread = np.median(np.abs(both - self.center), axis=0)
        self.spread = np.where(spread > 0.0, spread, 1.0)
        self.model = LogisticRegression(max_iter=500)
        with warnings.catch_warnings():
            # a fit that stops early only makes the attack weaker
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self._features(both), np.repeat([0, 1], [len(a), len(b)]))

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        return np.asarray(self.model.decision_function(self._features(outputs)))


class Labels(Statistic):
    """How much more likely each output was in world b, for outputs from a short list such as selections."""

    learns = True

    def fit(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        self.labels, at = np.unique(
            np.concatenate([a.reshape(-1), b.reshape(-1)]), return_inverse=True
        )
        size = len(self.labels)
        counts_a = np.bincount(at[: a.size], minlength=size) + 0.5
        counts_b = np.bincount(at[a.size :], minlength=size) + 0.5
        self.scores = np.log(counts_b / counts_b.sum()) - np.log(counts_a / counts_a.sum())

    def __call__(self, outputs: NDArray[Any]) -> FloatArray:
        flat = outputs.reshape(-1)
        at = np.minimum(np.searchsorted(self.labels, flat), len(self.labels) - 1)
        return np.where(self.labels[at] == flat, self.scores[at], 0.0)


def candidates(statistic: Any, outputs: NDArray[Any]) -> list[Statistic]:
    """The statistics to try: those given, or by default those that suit the kind of output."""
    if statistic is None:
        if outputs.dtype.kind not in "f":
            return [Labels()]
        return [Score()] if outputs.shape[1] == 1 else [Fisher(), Classifier()]
    given = statistic if isinstance(statistic, list | tuple) else [statistic]
    chosen: list[Statistic] = []
    for item in given:
        if isinstance(item, Statistic):
            chosen.append(item)
        elif callable(item):
            chosen.append(Score(item))
        else:
            raise TypeError(
                f"statistic must be a reticent.audit statistic or a function of outputs, got {item!r}"
            )
    if not chosen:
        raise ValueError("statistic must name at least one statistic, got an empty list")
    return chosen
