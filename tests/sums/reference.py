"""Running totals in plain NumPy, straight from their definitions, and the exact mu of any of them.

A mechanism is a matrix: row t holds the coefficients of the independent noises in the t-th total. Nothing here
is fast, and nothing here comes from the package, except the short list of mechanisms that all tests run over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.stats import chi2

import reticent
from reticent import sums
from reticent.noise.source import Source
from reticent.sums import mechanism, process

Matrix = NDArray[np.float64]
Node = tuple[int, int]  # first and last record, counted from 1


# The mechanisms as matrices -----------------------------------------------------------------------


def dyadic(first: int, last: int) -> list[Node]:
    """The fewest aligned dyadic intervals that make up first, ..., last."""
    nodes = []
    while first <= last:
        size = 1
        while (first - 1) % (2 * size) == 0 and first + 2 * size - 1 <= last:
            size *= 2
        nodes.append((first, first + size - 1))
        first += size
    return nodes


def incidence(rows: list[list[Node]]) -> Matrix:
    """One column a node, in the order of first use; the same node, the same noise."""
    memo: dict[Node, int] = {}
    for nodes in rows:
        for node in nodes:
            memo.setdefault(node, len(memo))
    matrix = np.zeros((len(rows), len(memo)))
    for t, nodes in enumerate(rows):
        matrix[t, [memo[node] for node in nodes]] = 1.0
    return matrix


def tree(n: int) -> Matrix:
    return incidence([dyadic(1, t) for t in range(1, n + 1)])


def window_tree(n: int, window: int) -> Matrix:
    """Records older than the window are known exactly; the rest are aligned dyadic nodes."""
    return incidence([dyadic(max(0, t - window) + 1, t) for t in range(1, n + 1)])


def honaker(n: int) -> Matrix:
    """Each node is estimated from its own noisy value and its children's estimates, by inverse variance."""
    memo: dict[Node, int] = {}
    for t in range(1, n + 1):
        size = 1
        while t % size == 0:
            memo[(t - size + 1, t)] = len(memo)
            size *= 2

    def estimate(node: Node) -> tuple[Matrix, float]:
        own = np.zeros(len(memo))
        own[memo[node]] = 1.0
        first, last = node
        if first == last:
            return own, 1.0
        middle = (first + last) // 2
        left, left_variance = estimate((first, middle))
        right, right_variance = estimate((middle + 1, last))
        below = left_variance + right_variance
        combined = (below * own + left + right) / (1.0 + below)
        return combined, below / (1.0 + below)

    rows = [sum(estimate(node)[0] for node in dyadic(1, t)) for t in range(1, n + 1)]
    return np.array(rows)


def buffered(decay: tuple[float, ...], weight: tuple[float, ...], n: int) -> Matrix:
    """out = z + sum_j weight_j s_j, then s_j <- decay_j s_j + z, run on every unit vector at once."""
    state = [np.zeros(n) for _ in decay]
    rows = []
    for z in np.eye(n):
        rows.append(z + sum((w * s for w, s in zip(weight, state, strict=True)), np.zeros(n)))
        state = [d * s + z for d, s in zip(decay, state, strict=True)]
    return np.array(rows).reshape(n, n)


def explicit(noise: Any, n: int) -> tuple[Matrix, Matrix]:
    """b and c of a Toeplitz filter, by filtering an impulse through the product form, one factor after the other."""
    impulse = np.zeros(n)
    impulse[0] = 1
    b, inverse = impulse, impulse
    for th, ze in zip(noise.decay, noise.inverse_decay, strict=True):
        b = lfilter([1, -ze], [1, -th], b)
        inverse = lfilter([1, -th], [1, -ze], inverse)
    return b, np.cumsum(inverse)


def worst_mu(matrix: Matrix, window: int | None = None) -> float:
    """The largest mu of any record, for sensitivity 1 and independent standard normals.

    A record that enters at step tau moves every total from tau on by 1, and is protected for ``window`` of them: what
    is seen of it are the totals up to tau + window - 1, with the covariance of all their noise.
    """
    n = len(matrix)
    lower = np.linalg.qr(matrix.T, mode="r").T
    worst = 0.0
    for first in range(n):
        end = n if window is None else min(n, first + window)
        moved = np.zeros(end)
        moved[first:] = 1.0
        innovations = solve_triangular(lower[:end, :end], moved, lower=True)
        worst = max(worst, float(innovations @ innovations))
    return math.sqrt(worst)


# What the package really does, as a matrix --------------------------------------------------------


def set_noise(monkeypatch: pytest.MonkeyPatch, fill: Callable[[Any, Any], None]) -> None:
    """Replace every draw: ``fill(out, scales)``, where out has one row a draw; scales are None in floating point."""

    def sample(source: object, scales: Any, out: Any) -> None:
        fill(out, scales)

    def normals(self: object, out: Any) -> None:
        fill(out, None)

    for name in ("gaussian", "laplace", "gamma"):
        monkeypatch.setitem(process.SAMPLERS, name, sample)
    monkeypatch.setattr(Source, "normals", normals)


def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(out: Any, scales: Any) -> None:
        out[:] = 0

    set_noise(monkeypatch, fill)


def as_matrix(
    total: sums.RunningTotal, n: int, monkeypatch: pytest.MonkeyPatch, block: int = 1
) -> Matrix:
    """Coefficients of the noise of ``total``, in units of the data: coordinate k sees the k-th draw and no other.

    Works for every noise on the lattice and for Gaussian noise in floating point; the total must have at least as
    many coordinates as there are draws. Noise is drawn for ``block`` steps at a time.
    """
    drawn = 0
    large = 2.0**18  # draws this much larger than real ones, so that the lattice hides nothing

    def fill(out: Any, scales: Any) -> None:
        nonlocal drawn
        out[:] = 0
        for row in range(len(out)):
            out[row, drawn] = large * (1.0 if scales is None else scales[row])
            drawn += 1

    with monkeypatch.context() as patch:
        patch.setattr(mechanism, "_BLOCK", block * total.dim)
        set_noise(patch, fill)
        outputs = total.run(np.zeros((n, total.dim)))
    assert not outputs[:, drawn:].any()
    return outputs[:, :drawn] / large


def same_columns(first: Matrix, second: Matrix) -> bool:
    """Whether two matrices are equal up to the order of their columns."""

    def ordered(matrix: Matrix) -> Matrix:
        return matrix[:, np.lexsort(matrix[::-1])]

    return first.shape == second.shape and bool((ordered(first) == ordered(second)).all())


def worlds_apart(
    build: Callable[[], sums.RunningTotal],
    steps: int,
    record: int,
    neighbours: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> Matrix:
    """How far one record moves each fresh draw, in its standard deviations, when all released totals are to agree.

    World one has random noise. World two differs in one record, and its draws are chosen one after the other so that
    the same totals come out, rounding and all. What is known of a draw beyond its distribution is this difference.
    """
    rows = rng.standard_normal((steps, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    other = rows.copy()
    other[record] = 0.0 if neighbours == "zero-out" else -rows[record]
    with monkeypatch.context() as patch:
        no_noise(patch)
        first, second = build(), build()
        sizes = (first._noise.step, second._noise.step)
        exact = [np.rint(build().run(x) / sizes[0]).astype(np.int64) for x in (rows, other)]
    assert sizes[0] == sizes[1]
    one, two = first._noise, second._noise
    apart = np.zeros(steps)
    for t in range(steps):
        relative = one.relative_scales(t, 1)
        deviation = one.scale / one.step * (1.0 if relative is None else float(relative[0]))
        draw = np.rint(rng.standard_normal((1, 3)) * deviation).astype(np.int64)
        released = exact[0][t] + one.mix(draw.copy(), t, 1)[0]
        kept = {name: array.copy() for name, array in two.arrays.items()}
        difference = released - (exact[1][t] + two.mix(draw.copy(), t, 1)[0])
        for name, array in kept.items():
            two.arrays[name][...] = array
        assert np.array_equal(exact[1][t] + two.mix(draw + difference, t, 1)[0], released)
        apart[t] = np.linalg.norm(difference) / deviation
    assert not apart[:record].any()
    return apart


# How far an empirical variance may stray ----------------------------------------------------------


def variance_bounds(samples: int, alarm: float, *, gaussian: bool) -> tuple[float, float]:
    """Bounds on (mean of squares) / (true variance), each missed with probability at most ``alarm``.

    Gaussian noise: chi-square quantiles. Laplace noise, one coordinate of a spherical Gamma vector, and any sum of
    such are sqrt(V) times a normal, E V = 1 after scaling, and V precedes an exponential variable in the convex order.
    Below: the lower tail of a mean of non-negative numbers with second moment at most 6. Above: Chernoff's bound
    where all V <= cap (the convex function 1 / sqrt(1 - 2 s v), continued by its tangent beyond the cap, has its
    largest mean for the exponential), and Markov's for the rest, P(V > cap) <= cap exp(1 - cap).
    """
    if gaussian:
        low, high = chi2.ppf(alarm, samples) / samples, chi2.isf(alarm, samples) / samples
        return float(low), float(high)
    low = 1.0 - math.sqrt(12.0 * math.log(1.0 / alarm) / samples)
    cap = brentq(lambda m: math.log(samples * m) + 1.0 - m - math.log(alarm / 2), 5.0, 500.0)

    def mean(s: float) -> float:
        inside, _ = quad(lambda v: math.exp(-v) / math.sqrt(1.0 - 2.0 * s * v), 0.0, cap, limit=200)
        left = 1.0 - 2.0 * s * cap
        return inside + math.exp(-cap) * (left**-0.5 + s * left**-1.5)

    slopes = np.linspace(0.05, 0.98, 40) / (2.0 * cap)
    high = min((math.log(2 / alarm) / samples + math.log(mean(s))) / s for s in slopes)
    return low, float(high)


# The mechanisms that are tested together ----------------------------------------------------------

Build = Callable[..., sums.RunningTotal]

GAUSSIAN = reticent.Budget(1.0, 1e-6)
PURE = reticent.Budget(1.0)


def _cases() -> Iterator[tuple[str, Build]]:
    def case(kind: Any, budget: reticent.Budget, **fixed: Any) -> Build:
        def build(dim: int, horizon: int | None = None, **changes: Any) -> sums.RunningTotal:
            given = {"budget": budget, "seed": 0} | fixed | changes
            return kind(dim, horizon, **given)

        return build

    for noise, budget in (("gaussian", GAUSSIAN), ("laplace", PURE), ("gamma", PURE)):
        yield f"independent-{noise}", case(sums.Independent, budget, noise=noise)
        for estimator in ("plain", "honaker"):
            tree_case = case(sums.Tree, budget, noise=noise, estimator=estimator)
            yield f"tree-{noise}-{estimator}", tree_case
        for window in (1, 6, 8):
            windowed = case(sums.WindowTree, budget.with_(window=window), noise=noise)
            yield f"window-tree-{noise}-{window}", windowed
    yield "correlated", case(sums.Correlated, GAUSSIAN)
    yield "correlated-mean", case(sums.Correlated, GAUSSIAN, objective="mean")
    for window in (1, 6, 8):
        windowed = case(sums.Correlated, GAUSSIAN.with_(window=window))
        yield f"correlated-window-{window}", windowed


CASES: dict[str, Build] = dict(_cases())
