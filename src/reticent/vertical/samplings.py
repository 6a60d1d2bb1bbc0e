"""Samplings of block-coordinate Frank-Wolfe: which blocks move in a step.

The samplings of Table 1 of Lou and Cheung (with p_min = K tau / d for the distributed one, which the table squares),
importance sampling, and a user's own. A sampling is described by the probabilities that two blocks are drawn together;
the diagonal holds p.

Only p_min enters the universal step size, so a sampling that rarely draws some block takes small steps everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from reticent import checks
from reticent.checks import FloatArray

IntArray = NDArray[np.int64]
TRIALS = 20_000
"""Number of draws for estimating a user's own sampling."""


class Sampling(ABC):
    """A distribution over sets of blocks, drawn independently in each step."""

    exact = True
    """Whether the probabilities are computed instead of estimated from draws."""

    @abstractmethod
    def pairs(self, blocks: int) -> FloatArray:
        """The probability that blocks i and j are drawn together, for all i and j.

        Parameters
        ----------
        blocks : int
            Number of blocks.

        Returns
        -------
        array of shape (blocks, blocks)
            The probabilities; the diagonal holds those of single blocks.
        """

    @abstractmethod
    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        """Draw one set of blocks.

        Parameters
        ----------
        blocks : int
            Number of blocks.
        rng : numpy.random.Generator
            Source of the draw.

        Returns
        -------
        array of int
            The drawn blocks, in increasing order.
        """

    def probabilities(self, blocks: int) -> FloatArray:
        """The probability of each block to be drawn.

        Parameters
        ----------
        blocks : int
            Number of blocks.
        """
        return np.diag(self.pairs(blocks)).copy()

    def p_min(self, blocks: int) -> float:
        """The smallest of :meth:`probabilities`, which must be above 0.

        Parameters
        ----------
        blocks : int
            Number of blocks.
        """
        least = float(self.probabilities(blocks).min())
        if least <= 0.0:
            raise ValueError(
                f"{self!r} never draws some of the {blocks} blocks; every block needs a "
                "probability above 0"
            )
        return least


@dataclass(frozen=True)
class Elementary(Sampling):
    """All blocks in every step: plain Frank-Wolfe.

    Examples
    --------
    >>> Elementary().p_min(5)
    1.0
    """

    def pairs(self, blocks: int) -> FloatArray:
        return np.ones((blocks, blocks))

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        return np.arange(blocks)


@dataclass(frozen=True)
class UniformSerial(Sampling):
    """One block, drawn uniformly."""

    def pairs(self, blocks: int) -> FloatArray:
        return np.eye(blocks) / blocks

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        return rng.integers(blocks, size=1)


@dataclass(frozen=True)
class TauNice(Sampling):
    """``tau`` blocks, drawn uniformly.

    Parameters
    ----------
    tau
        Number of blocks in each step.

    Examples
    --------
    >>> TauNice(3).p_min(12)
    0.25
    """

    tau: int

    def __post_init__(self) -> None:
        checks.integer(self.tau, "tau", low=1)

    def pairs(self, blocks: int) -> FloatArray:
        return _nice(blocks, self.tau)

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        return _some(blocks, self.tau, rng)


@dataclass(frozen=True)
class Distributed(Sampling):
    """Each of ``K`` parties draws ``tau`` of its own blocks, uniformly.

    Parameters
    ----------
    K
        Number of parties.
    tau
        Number of blocks that each of them draws.
    sizes
        Number of blocks of each party. Default: as equal as possible, in order.


    Examples
    --------
    >>> Distributed(4, 2).p_min(40)
    0.2
    """

    K: int
    tau: int
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        checks.integer(self.K, "K", low=1)
        checks.integer(self.tau, "tau", low=1)
        if self.sizes is not None:
            sizes = tuple(checks.integer(size, "sizes", low=1) for size in self.sizes)
            if len(sizes) != self.K:
                raise ValueError(f"sizes must have {self.K} numbers, got {len(sizes)}")
            object.__setattr__(self, "sizes", sizes)

    def _sizes(self, blocks: int) -> tuple[int, ...]:
        sizes = self.sizes
        if sizes is None:
            if blocks < self.K:
                raise ValueError(f"{self.K} parties cannot share {blocks} blocks; lower K")
            sizes = tuple(blocks // self.K + (k < blocks % self.K) for k in range(self.K))
        if sum(sizes) != blocks:
            raise ValueError(f"sizes add up to {sum(sizes)}, but there are {blocks} blocks")
        return sizes

    def pairs(self, blocks: int) -> FloatArray:
        sizes = self._sizes(blocks)
        party = np.repeat(np.arange(self.K), sizes)
        p = np.concatenate([np.full(size, min(self.tau, size) / size) for size in sizes])
        table = np.outer(p, p)
        for k, size in enumerate(sizes):
            mine = np.flatnonzero(party == k)
            table[np.ix_(mine, mine)] = _nice(size, self.tau)
        return table

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        sizes = self._sizes(blocks)
        starts = np.cumsum((0, *sizes[:-1]))
        return np.concatenate(
            [s + _some(size, self.tau, rng) for s, size in zip(starts, sizes, strict=True)]
        )


class Importance(Sampling):
    """One block, with probabilities proportional to given weights.

    Parameters
    ----------
    weights : array
        One positive number per block; a block's own curvature is a good choice.
    """

    def __init__(self, weights: ArrayLike) -> None:
        array = checks.real_array(weights, "weights")
        if array.ndim != 1 or not len(array) or not (np.isfinite(array) & (array > 0.0)).all():
            raise ValueError("weights must be a vector of finite numbers above 0")
        self.p = array / array.sum()

    def __repr__(self) -> str:
        return f"Importance({len(self.p)} weights)"

    def pairs(self, blocks: int) -> FloatArray:
        if blocks != len(self.p):
            raise ValueError(f"there are {len(self.p)} weights for {blocks} blocks; give one each")
        return np.diag(self.p)

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        return rng.choice(blocks, size=1, p=self.p)


class Listed(Sampling):
    """A user's own sampling: a list of sets with their probabilities.

    Parameters
    ----------
    sets : sequence of sequence of int
        Sets of blocks that may be drawn.
    probabilities : array
        The probability of each set.

    Examples
    --------
    >>> Listed([[0, 1], [2]], [0.75, 0.25]).p_min(3)
    0.25
    """

    def __init__(self, sets: Sequence[Sequence[int]], probabilities: ArrayLike) -> None:
        p = checks.real_array(probabilities, "probabilities")
        if p.shape != (len(sets),) or not len(sets) or (p < 0.0).any():
            raise ValueError("probabilities must hold one number, 0 or more, for each set")
        if not np.isclose(p.sum(), 1.0, rtol=0.0, atol=1e-9):
            raise ValueError(f"probabilities must add up to 1, got {p.sum():g}")
        self.p = p / p.sum()
        self.sets = [np.unique(np.asarray(some, np.int64)) for some in sets]

    def __repr__(self) -> str:
        return f"Listed({len(self.sets)} sets)"

    def pairs(self, blocks: int) -> FloatArray:
        if any(len(some) and (some[0] < 0 or some[-1] >= blocks) for some in self.sets):
            raise ValueError(f"a set names a block outside of 0 to {blocks - 1}")
        table = np.zeros((blocks, blocks))
        for some, p in zip(self.sets, self.p, strict=True):
            table[np.ix_(some, some)] += p
        return table

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        return self.sets[int(rng.choice(len(self.sets), p=self.p))]


class Custom(Sampling):
    """A user's own sampling: any function that draws a set of blocks.

    Parameters
    ----------
    draw : callable
        ``draw(blocks, rng)`` returns indices of blocks.
    p_min : float, optional
        Smallest probability of a block. If not given it is estimated from draws, by a lower confidence bound that is
        too large with probability at most 1e-6.
    """

    exact = False

    def __init__(
        self, draw: Callable[[int, np.random.Generator], Any], p_min: float | None = None
    ) -> None:
        if not callable(draw):
            raise TypeError(f"draw must be callable as draw(blocks, rng), got {draw!r}")
        self._draw = draw
        if p_min is not None:
            p_min = checks.number(p_min, "p_min", low=0.0, high=1.0, open_low=True)
        self._p_min = p_min
        self._seen: dict[int, FloatArray] = {}

    def __repr__(self) -> str:
        return f"Custom({getattr(self._draw, '__name__', self._draw)!s})"

    def draw(self, blocks: int, rng: np.random.Generator) -> IntArray:
        some = np.unique(np.asarray(self._draw(blocks, rng), np.int64))
        if some.size and (some[0] < 0 or some[-1] >= blocks):
            raise ValueError(f"{self!r} drew a block outside of 0 to {blocks - 1}")
        return some

    def pairs(self, blocks: int) -> FloatArray:
        if blocks not in self._seen:
            rng = np.random.default_rng(0)
            table = np.zeros((blocks, blocks))
            for _ in range(TRIALS):
                some = self.draw(blocks, rng)
                table[np.ix_(some, some)] += 1.0
            self._seen[blocks] = table / TRIALS
        return self._seen[blocks]

    def p_min(self, blocks: int) -> float:
        if self._p_min is not None:
            return self._p_min
        hits = round(super().p_min(blocks) * TRIALS)
        # the lower end of Clopper and Pearson's interval, for all blocks at once
        return float(betaincinv(hits, TRIALS - hits + 1, 1e-6 / blocks))


def _nice(blocks: int, tau: int) -> FloatArray:
    tau = min(tau, blocks)
    both = tau * (tau - 1.0) / (blocks * (blocks - 1.0)) if blocks > 1 else 1.0
    table = np.full((blocks, blocks), both)
    np.fill_diagonal(table, tau / blocks)
    return table


def _some(blocks: int, tau: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.choice(blocks, size=min(tau, blocks), replace=False))
