"""Block-coordinate Frank-Wolfe under any sampling of the blocks; not private.

Algorithm 1 and Theorem 1 of Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse Optimization
with Feature-Wise Distributed Data*, with the expected curvature of Definition 2 and Propositions 3 and 4; see
docs/algorithms/vertical.md.

Blocks are the factors of a *product* of sets. An l1 ball over all coordinates is not a product: shrinking all
coordinates when only some were drawn converges to the wrong point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.losses import GeneralizedLinear, kernels
from reticent.privacy import Guarantee
from reticent.sets import L1Ball, Product, Simplex
from reticent.trace import Callback, Recorder
from reticent.vertical.samplings import Sampling, UniformSerial

NAME = "block-coordinate Frank-Wolfe"
STEPS = ("universal", "line-search")

InexactOracle = Callable[[Any, FloatArray, int], Any]
InexactGradient = Callable[[FloatArray, int, int], Any]


def block_frank_wolfe(
    loss: GeneralizedLinear,
    set: Product,
    X: Any,
    y: Any = None,
    *,
    sampling: Sampling | None = None,
    steps: int = 1000,
    step: str = "universal",
    oracle: InexactOracle | None = None,
    gradient: InexactGradient | None = None,
    start: Any = None,
    seed: int | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Minimise the mean loss over a product of sets, some blocks at a time. Not private.

    Parameters
    ----------
    loss : GeneralizedLinear
        Smooth loss, such as ``losses.Squared()`` or ``losses.Logistic()``.
    set : Product
        Product of bounded sets with linear minimisers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    sampling : Sampling
        Which blocks move in a step. Default: one block, uniformly.
    steps : int
        Number of steps. Default: 1000.
    step : {"universal", "line-search"}
        Step size ``2 / (p_min t + 2)``, or the best step in the same direction. Default: "universal".
    oracle : callable, optional
        ``oracle(set, gradient, t)`` replaces the exact linear minimiser of a block.
    gradient : callable, optional
        ``gradient(exact, block, t)`` replaces the exact gradient of a block.
    start : array, optional
        Starting point in the set. Default: the set's center.
    seed : int, optional
        Seed of the sampling.
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.

    Returns
    -------
    Fit
        The last iterate; its guarantee says that there is none.

    See Also
    --------
    Coordinator : The private protocol.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent import losses, sets, vertical
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(500, 6)) / 3
    >>> both = sets.Product([sets.L1Ball(3, 0.5), sets.L1Ball(3, 0.5)])
    >>> fit = vertical.block_frank_wolfe(
    ...     losses.Squared(), both, X, 0.5 * X[:, 1] - 0.5 * X[:, 4], steps=500, seed=0
    ... )
    >>> fit.point.round(1)
    array([ 0. ,  0.5, -0. , ...
    """
    if not isinstance(set, Product):
        raise TypeError(
            f"set must be a sets.Product with one factor per block, got {set!r}; an l1 ball over all coordinates is "
            "not a product: split it, as variant 'product' of the protocol does"
        )
    if not isinstance(loss, GeneralizedLinear):
        raise TypeError(f"loss must be generalised linear, such as losses.Squared(), got {loss!r}")
    checks.choice(step, "step", STEPS)
    count = checks.integer(steps, "steps", low=1)
    sampling = UniformSerial() if sampling is None else sampling
    if not isinstance(sampling, Sampling):
        raise TypeError(f"sampling must be a vertical.Sampling, got {sampling!r}")
    A, labels, clipped = loss.prepare(X, y)
    if A.shape[1] != set.dim:
        raise ValueError(
            f"the set has dimension {set.dim}, but the records have {A.shape[1]} columns"
        )
    x = np.array(set.center if start is None else checks.vector(start, "start", set.dim))
    if not set.contains(x):
        raise ValueError("start must lie in the set; project it first")
    p_min = sampling.p_min(len(set.sets))
    settings = {"steps": count, "step": step, "sampling": repr(sampling), "p_min": p_min}
    recorder = Recorder(NAME, steps=count, settings=settings, callback=callback, progress=progress)
    recorder.facts["clipped"] = str(clipped)
    run = _Run(loss, set, A, labels, x)
    rng = np.random.default_rng(seed)
    with recorder:
        for t in range(count):
            drawn = sampling.draw(len(set.sets), rng).tolist()
            moves = {i: run.toward(i, t, oracle, gradient) for i in drawn}
            size = 2.0 / (p_min * t + 2.0)
            if step == "line-search":
                size = run.best_step(moves)
            run.move(moves, size)
            seen = {"loss": run.value()} if recorder.wants(t + 1) else {}
            if recorder.note(t + 1, run.x, {"step size": size}, seen):
                break
    return Fit(run.x.copy(), Guarantee.none("block_frank_wolfe adds no noise"), recorder.close())


class _Run:
    """A point and its predictions, which are updated together."""

    def __init__(self, loss: Any, set: Product, A: Any, y: FloatArray, x: FloatArray) -> None:
        self.loss, self.set, self.y = loss, set, y
        self.kind, self.params = loss.kernel
        self.count = A.shape[0]
        self.x = x.astype(np.float64)
        ends = np.cumsum([part.dim for part in set.sets])
        self.places = [slice(int(e) - s.dim, int(e)) for e, s in zip(ends, set.sets, strict=True)]
        columns = sp.csc_array(A) if sp.issparse(A) else A
        self.parts = [columns[:, place] for place in self.places]
        self.z = np.asarray(A @ self.x)

    def block(self, i: int) -> FloatArray:
        return self.x[self.places[i]]

    def block_gradient(self, i: int) -> FloatArray:
        slopes = kernels.dphi_all(self.kind)(self.params, self.z, self.y)
        return np.asarray(self.parts[i].T @ slopes) / self.count + self.loss.ridge * self.block(i)

    def toward(
        self, i: int, t: int, oracle: InexactOracle | None, gradient: InexactGradient | None
    ) -> FloatArray:
        """From a block's point to the vertex that its linear minimiser answers with."""
        g, part = self.block_gradient(i), self.set.sets[i]
        if gradient is not None:
            g = checks.vector(gradient(g, i, t), "gradient(...)", len(g))
        answer = part.linear_minimizer(g) if oracle is None else oracle(part, g, t)
        return np.asarray(np.ravel(answer) - self.block(i))

    def _value(self, z: FloatArray, square: float) -> float:
        total = kernels.phi_all(self.kind)(self.params, z, self.y).mean()
        return float(total + 0.5 * self.loss.ridge * square)

    def value(self) -> float:
        return self._value(self.z, float(self.x @ self.x))

    def best_step(self, moves: dict[int, FloatArray]) -> float:
        across = self._across(moves)
        d = np.zeros_like(self.x)
        for i, move in moves.items():
            d[self.places[i]] = move

        def along(size: float) -> float:
            moved = self.x + size * d
            return self._value(self.z + size * across, float(moved @ moved))

        found = minimize_scalar(
            along, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
        )
        return float(min((0.0, 1.0, float(found.x)), key=along))

    def _across(self, moves: dict[int, FloatArray]) -> FloatArray:
        total = np.zeros(self.count)
        for i, move in moves.items():
            total += self.parts[i] @ move
        return total

    def move(self, moves: dict[int, FloatArray], size: float) -> None:
        self.z = self.z + size * self._across(moves)
        for i, move in moves.items():
            self.x[self.places[i]] += size * move


def expected_curvature(hessian: Any, set: Product, sampling: Sampling) -> float:
    """A bound on the expected curvature of a loss whose Hessian is at most a given matrix.

    It is ``sum_ij P_ij max (u_i' H_ij u_j)`` over differences u of points of the blocks, where P holds the
    probabilities that two blocks are drawn together: exact for the named samplings, estimated from draws for a user's
    own. For tau-nice and distributed sampling it is at most the bound of Propositions 3 and 4, which replace the maxima
    over blocks by the largest.

    Parameters
    ----------
    hessian : array
        A matrix that bounds the Hessian everywhere.
    set : Product
        The product of sets.
    sampling : Sampling
        Sampling of the blocks.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from reticent import sets, vertical
    >>> square = sets.Product([sets.L1Ball(1), sets.L1Ball(1)])
    >>> expected_curvature(np.eye(2), square, vertical.Elementary())
    8.0
    >>> expected_curvature(np.eye(2), square, vertical.UniformSerial())
    4.0
    """
    return float((sampling.pairs(len(set.sets)) * pair_curvatures(hessian, set)).sum())


def pair_curvatures(hessian: Any, set: Product) -> FloatArray:
    """For each pair of blocks the largest ``(A_i (s_i - x_i))' (A_j (s_j - x_j))``, or a bound on it."""
    H = np.asarray(hessian, dtype=np.float64)
    if H.shape != (set.dim, set.dim):
        raise ValueError(f"hessian must have shape {(set.dim, set.dim)}, got {H.shape}")
    ends = np.cumsum([part.dim for part in set.sets])
    places = [slice(int(e) - s.dim, int(e)) for e, s in zip(ends, set.sets, strict=True)]
    blocks = len(places)
    table = np.empty((blocks, blocks))
    for i in range(blocks):
        for j in range(i, blocks):
            piece = H[places[i], places[j]]
            table[i, j] = table[j, i] = _largest(piece, set.sets[i], set.sets[j])
    return table


def _width(part: Any) -> float | None:
    """The l1 diameter of an l1 ball or a simplex; None for other sets."""
    if isinstance(part, L1Ball):
        return 2.0 * part.radius
    return 2.0 * part.mass if isinstance(part, Simplex) else None


def _largest(piece: FloatArray, first: Any, second: Any) -> float:
    one, two = _width(first), _width(second)
    if one is not None and two is not None:
        return one * two * float(np.abs(piece).max())
    return float(np.linalg.norm(piece, 2)) * float(first.diameter) * float(second.diameter)


def proposition_curvature(hessian: Any, set: Product, sampling: Any) -> float:
    """The bound of Proposition 3 (tau-nice) or 4 (distributed), with corrected indices.

    It is ``K tau mu_1 + K tau (tau - 1) mu_2 + K (K - 1) tau^2 mu_3`` (K = 1 for tau-nice), where the mu are the
    largest ``(A_i (s_i - x_i))' (A_j (s_j - x_j))`` for i = j, for i and j of one party, and for i and j of two
    parties. The proof needs parties with equally many blocks.

    Parameters
    ----------
    hessian : array
        A matrix that bounds the Hessian everywhere.
    set : Product
        The product of sets.
    sampling : TauNice or Distributed
        Sampling of the blocks.

    Returns
    -------
    float
        The bound.
    """
    table = pair_curvatures(hessian, set)
    blocks = len(table)
    parties = getattr(sampling, "K", 1)
    tau = min(checks.integer(sampling.tau, "sampling.tau", low=1), blocks // parties)
    if blocks % parties or (
        getattr(sampling, "sizes", None) not in (None, (blocks // parties,) * parties)
    ):
        raise ValueError("Proposition 4 needs parties with equally many blocks")
    party = np.repeat(np.arange(parties), blocks // parties)
    same = party[:, None] == party[None, :]
    off = ~np.eye(blocks, dtype=bool)
    mu_1 = float(np.diag(table).max())
    mu_2 = float(table[same & off].max(initial=0.0))
    mu_3 = float(table[~same].max(initial=0.0))
    return (
        parties * tau * mu_1
        + parties * tau * (tau - 1) * mu_2
        + parties * (parties - 1) * tau**2 * mu_3
    )


def convergence_bound(
    t: Any, gap: float, curvature: float, p_min: float, error: float = 0.0
) -> Any:
    """Theorem 1: an upper bound on the expected gap after t steps of the universal size.

    Parameters
    ----------
    t : int or array
        Number of steps.
    gap : float
        Gap at the start.
    curvature : float
        Expected curvature of the sampling.
    p_min : float
        Smallest probability that a block is drawn, in (0, 1].
    error : float
        The theorem's rho: inexactness of oracle and gradient relative to the curvature. Default: 0.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> float(convergence_bound(0, 1.0, 4.0, 0.5))
    9.0
    """
    if not (0.0 < p_min <= 1.0) or not math.isfinite(curvature):
        raise ValueError(f"p_min must be in (0, 1] and curvature finite, got {p_min}, {curvature}")
    return 2.0 * (gap + (1.0 + error) * curvature / p_min) / (p_min * np.asarray(t) + 2.0)[()]
