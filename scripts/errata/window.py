"""Figures for Lou and Cheung, projection-free online learning with privacy expiration.

The regrets are without noise, so that nothing but the printed step is to blame for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from errata.common import (
    FloatArray,
    dyadic,
    gaussian_epsilon,
    gaussian_mu,
    nodes_of_record,
    onto_simplex,
)

STEPS, DIM, MU = 3000, 5, 1.0


def losses(steps: int = STEPS, seed: int = 0) -> FloatArray:
    """Centers c_t of the losses mu/2 |x - c_t|^2 on the simplex."""
    return np.random.default_rng(seed).dirichlet(np.ones(DIM), size=steps)


Decide = Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray]


def regret(decide: Decide, centers: FloatArray) -> float:
    """Regret of a rule that sees t, the sum of gradients, the sum of decisions, and the decision."""
    x = np.eye(DIM)[0]
    gradients, played, paid = np.zeros(DIM), np.zeros(DIM), 0.0
    for t, center in enumerate(centers, 1):
        paid += 0.5 * MU * float((x - center) @ (x - center))
        gradients += MU * (x - center)
        played += x
        x = decide(t, gradients, played, x)
    best = centers.mean(axis=0)
    return paid - 0.5 * MU * float(((best - centers) ** 2).sum())


def printed_projection(t: int, g: FloatArray, played: FloatArray, x: FloatArray) -> FloatArray:
    """Equation (10) and Algorithm 1, line 3, as printed."""
    return onto_simplex(played - g / MU)


def corrected_projection(t: int, g: FloatArray, played: FloatArray, x: FloatArray) -> FloatArray:
    """The minimiser of (9)."""
    return onto_simplex((played - g / MU) / t)


def local_oracle(x: FloatArray, radius: float, c: FloatArray) -> FloatArray:
    """A local linear oracle of the simplex, rho = sqrt(n/2): move mass to the best vertex."""
    left = mass = min(math.sqrt(x.size) * radius / 2.0, 1.0)
    p = x.copy()
    for i in np.argsort(-c):
        taken = min(left, p[i])
        p[i] -= taken
        left -= taken
    p[int(np.argmin(c))] += mass - left
    return p


class LinearOracle:
    """Algorithm 2 with its constants; ``direction`` and ``radius`` as printed, or corrected."""

    def __init__(self, direction: str, radius: str, anchored: bool = True) -> None:
        self.rho = math.sqrt(DIM / 2.0)
        self.alpha = 1.0 / (5.0 * self.rho**2)
        self.anchor = (25.0 * self.rho**2) ** 2 if anchored else 0.0
        self.lipschitz = math.sqrt(2.0) * MU  # of mu/2 |x - c|^2 over the simplex
        self.constant = 26.0 * self.rho**2 * (self.lipschitz + MU * math.sqrt(2.0))
        self.direction, self.radius = direction, radius
        self.start = np.eye(DIM)[0]

    def __call__(self, t: int, g: FloatArray, played: FloatArray, x: FloatArray) -> FloatArray:
        strength = MU * (t + self.anchor)
        eta = self.constant**2 / strength
        length = 2.0 * (self.lipschitz + MU * math.sqrt(2.0)) / strength
        r = math.sqrt(4.0 * eta / strength + length)
        if self.radius == "corrected":
            r = math.sqrt(4.0 * eta / strength) + length
        c = (played + self.anchor * self.start - g) / MU
        if self.direction == "corrected":
            c = g + MU * ((t + self.anchor) * x - played - self.anchor * self.start)
        return (1.0 - self.alpha) * x + self.alpha * local_oracle(x, r, c)


class Certified:
    """One step of the local oracle with a radius that certifies itself; no constant to choose."""

    def __init__(self) -> None:
        self.rho, self.certified = math.sqrt(DIM / 2.0), 0.0
        self.previous = np.zeros(DIM)

    def __call__(self, t: int, g: FloatArray, played: FloatArray, x: FloatArray) -> FloatArray:
        strength = MU * t
        gradient = g + MU * (t * x - played)
        a = float(np.linalg.norm(g - self.previous)) / math.sqrt(2.0 * strength)
        self.previous = g.copy()
        h = (a + math.sqrt(self.certified + a * a)) ** 2
        toward = local_oracle(x, math.sqrt(2.0 * h / strength), gradient) - x
        square, slope = strength * float(toward @ toward), float(gradient @ toward)
        share = min(1.0, max(0.0, -slope / square)) if square > 0.0 else 0.0
        gain = -(share * slope + 0.5 * share * share * square)
        self.certified = max(0.0, min((1.0 - 0.25 / self.rho**2) * h, h - gain))
        return x + share * toward


def redrawn_mu(window: int) -> tuple[float, float]:
    """Exact mu of unit noise when every node keeps its noise, and when it is drawn anew at each use.

    In the steady state, of the worst record, over the totals that protect it.
    """
    steps = 4 * window
    rows = [dyadic(max(0, t - window) + 1, t) for t in range(1, steps + 1)]
    memo: dict[tuple[int, int], int] = {}
    for node in (node for nodes in rows for node in nodes):
        memo.setdefault(node, len(memo))
    kept = np.zeros((steps, len(memo)))
    for t, nodes in enumerate(rows):
        kept[t, [memo[node] for node in nodes]] = 1.0
    anew = np.diag([float(len(nodes)) for nodes in rows])
    result = []
    for covariance in (kept @ kept.T, anew):
        # innovations of the first totals do not change when more are seen
        lower = np.linalg.cholesky(covariance)
        innovations = solve_triangular(lower, np.tril(np.ones((steps, steps))), lower=True)
        squares = np.cumsum(innovations**2, axis=0)
        taus = np.arange(2 * window, 3 * window)
        result.append(math.sqrt(float(squares[taus + window - 1, taus].max())))
    return result[0], result[1]


def lemma_2_holds(window: int, dim: int, beta: float, runs: int = 40_000) -> float:
    """How often the bound (12) holds at the worst t, for Gamma noise as in Lemma 1 with unit sensitivity."""
    rng = np.random.default_rng(1)
    levels = (window - 1).bit_length() + 1
    nodes = max(len(dyadic(max(0, t - window) + 1, t)) for t in range(window, 3 * window))
    noise = np.zeros((runs, dim))
    for _ in range(nodes):
        direction = rng.normal(size=(runs, dim))
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        noise += direction * rng.gamma(dim, levels, size=runs)[:, None]
    bound = dim * math.log2(window) ** 1.5 * math.log(dim / beta)
    return float(np.mean(np.linalg.norm(noise, axis=1) <= bound))


def largest_safe_delta() -> float:
    """The largest delta up to which Proposition A4 holds for all d up to 1000, to two digits."""
    for delta in np.arange(0.99, 0.0, -0.01):
        d = np.arange(1, 1001)
        if (chi2.cdf(2.0 * d * math.log(1.0 / delta), d) >= 1.0 - delta).all():
            return float(delta)
    return 0.0


def exponential_radius_ratio(dim: int, distance: float) -> float:
    """Density at the center against density one sensitivity away if the radius were exponential.

    A radius of density e^(-r) and a uniform direction give a vector of density e^(-r) / r^(d-1).
    """
    return math.exp(-distance) / distance ** (dim - 1) / math.exp(-1.0)


def figures() -> dict[str, float]:
    """The numbers of the page, by entry."""
    centers = losses()
    longer = losses(2 * STEPS)
    found: dict[str, float] = {
        "W1.printed": regret(printed_projection, centers),
        "W1.twice": regret(printed_projection, longer),
        "W1.corrected": regret(corrected_projection, centers),
        "W10.printed": regret(LinearOracle("printed", "printed"), centers),
        "W10.gradient": regret(LinearOracle("corrected", "corrected"), centers),
        "W10.no-anchor": regret(LinearOracle("corrected", "corrected", False), centers),
        "W10.certified": regret(Certified(), centers),
        "W12.anchor": (25.0 * DIM / 2.0) ** 2,
    }
    ratio = 0.1
    found["W2.epsilon"] = (2.0 - ratio) / (1.0 + ratio)
    found["W3.nodes"] = float(nodes_of_record(1, 8))
    found["W4.nodes"] = float(max(nodes_of_record(k, 400, 100) for k in range(1, 201)))
    found["W5.ratio"] = exponential_radius_ratio(10, 0.1)
    found["W7.true"] = float(chi2.cdf(20.0 * math.log(1 / 0.7), 10))
    found["W7.safe"] = largest_safe_delta()
    found["W15.holds"] = lemma_2_holds(2, 1, 0.1)
    found["W16.kept"], found["W16.redrawn"] = redrawn_mu(32)
    levels = 7.0
    sigma = math.sqrt(8.0) * levels * math.log(2e6)
    found["W17.printed"] = sigma
    found["W17.exact"] = math.sqrt(levels) / gaussian_mu(1.0, 1e-6)
    found["W17.ratio"] = found["W17.printed"] / found["W17.exact"]
    found["W17.epsilon"] = gaussian_epsilon(math.sqrt(levels) / sigma, 1e-6)
    return found
