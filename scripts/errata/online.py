"""Figures for Jain, Kothari and Thakurta, differentially private online learning.

Sensitivities are those of the uncorrupted iterates. The noise is added to what is released, and
never fed back.
"""

from __future__ import annotations

import math

import numpy as np

from errata.common import FloatArray, dyadic, gaussian_epsilon


def implicit(slopes: FloatArray, alpha: float, start: float = 0.0) -> FloatArray:
    """Iterates x_2, x_3, ... of implicit gradient descent on slope x + alpha x^2 / 2; NaN skips a step."""
    x, out = start, []
    for t, slope in enumerate(slopes, 1):
        if not math.isnan(slope):
            eta = 1.0 / (alpha * t)
            x = (x - eta * slope) / (1.0 + eta * alpha)
        out.append(x)
    return np.array(out)


def implicit_ratio(horizon: int = 200, alpha: float = 0.3) -> tuple[float, float]:
    """Largest and smallest ratio of a real difference to 2L/(alpha (t+1)), from the changed step on."""
    slopes = np.random.default_rng(0).uniform(-1.0, 1.0, horizon)
    ratios = []
    for tau in (0, 7, 100):
        first, second = slopes.copy(), slopes.copy()
        first[tau], second[tau] = 1.0, -1.0
        gap = np.abs(implicit(first, alpha) - implicit(second, alpha))
        t = np.arange(1, horizon + 1)
        ratios.append((gap * alpha * (t + 1) / 2.0)[tau:])
    both = np.concatenate(ratios)
    return float(both.max()), float(both.min())


def skipped_record_ratio(alpha: float = 1.0, radius: float = 3.0) -> float:
    """Blanking a record by skipping its step, against the bound L/(alpha (t+1)); iterates up to radius."""
    horizon = 50
    slopes = np.zeros(horizon)
    slopes[0] = 1.0  # L = 1
    skipped = slopes.copy()
    skipped[0] = math.nan
    t = np.arange(1, horizon + 1)
    gap = np.abs(implicit(slopes, alpha, radius) - implicit(skipped, alpha, radius))
    return float((gap * alpha * (t + 1)).max())


def descent(
    curvatures: FloatArray, slopes: FloatArray, steps: FloatArray, start: float
) -> FloatArray:
    """Iterates of gradient descent on curvature x^2 / 2 + slope x."""
    x, out = start, []
    for a, b, eta in zip(curvatures, slopes, steps, strict=True):
        x = x - eta * (a * x + b)
        out.append(x)
    return np.array(out)


def descent_ratio(rule: str, kappa: float = 10.0, horizon: int = 400) -> float:
    """Largest t |x_{t+1} - x'_{t+1}| alpha / (2 G) over a changed slope of +-1, alpha = 1.

    ``rule``: "printed" takes 2/t after a warm-up, "uncapped" 1/t from the start, "capped"
    min(1/t, 2/(1 + kappa)).
    """
    rng = np.random.default_rng(2)
    t = np.arange(1, horizon + 1)
    worst = 0.0
    for trial in range(300):
        curvatures = rng.choice([1.0, kappa], size=horizon) if trial else np.full(horizon, kappa)
        first = 1
        if rule == "printed":
            first = int(2 * kappa**2) + 2
            steps = 2.0 / t
        elif rule == "uncapped":
            steps = 1.0 / t
        else:
            steps = np.minimum(1.0 / t, 2.0 / (1.0 + kappa))
        tau = first - 1 + (int(rng.integers(0, 20)) if trial else 0)
        slopes = np.zeros(horizon)
        one, two = slopes.copy(), slopes.copy()
        one[tau], two[tau] = 1.0, -1.0
        gap = np.abs(
            descent(curvatures, one, steps, 0.0)[tau:] - descent(curvatures, two, steps, 0.0)[tau:]
        )
        worst = max(worst, float((gap * t[tau:]).max() / 2.0))
    return worst


def quadratic_norm(bound: float, alpha: float) -> tuple[float, float, float]:
    """Norm of the leader's iterate on one repeated record, the printed bound, the correct one."""
    s = min(bound, math.sqrt(alpha))
    steps = 1000
    x = steps * bound * s / (steps * alpha + steps * s * s)
    correct = min(bound**2 / alpha, bound / (2.0 * math.sqrt(alpha)))
    return x, 2.0 * bound / alpha, correct


def node_epsilon(
    horizon: int, epsilon: float = 1.0, delta: float = 1e-6
) -> tuple[float, float, float]:
    """Claimed epsilon of one node of Algorithm 5 (log2 reading), and the true ones: zero-out, replace."""
    depth = math.log2(horizon)
    sigma = depth * math.sqrt(math.log(depth / delta)) / epsilon
    return epsilon / depth, *(gaussian_epsilon(move / sigma, delta / depth) for move in (1.0, 2.0))


def literal_private_sum(values: list[float], bits: int, shift: int) -> list[float]:
    """Algorithm 5 without noise: leaf of step t labelled with the bits of t - shift, prefix by line 13."""
    size = 2**bits
    leaves: dict[str, float] = {}
    out = []
    for t, value in enumerate(values, 1):
        label = format(t - shift, f"0{bits}b")
        leaves[label] = value
        name = format(t, f"0{bits}b")
        total = 0.0
        for i, bit in enumerate(name):
            if bit == "1":
                prefix = name[:i] + "0"
                below = [format(k, f"0{bits}b") for k in range(size)]
                total += sum(
                    leaves.get(leaf, math.nan) for leaf in below if leaf.startswith(prefix)
                )
        out.append(total)
    return out


def indefinite_share(horizon: int = 1024, dim: int = 10, alpha: float = 1.0) -> float:
    """Share of the steps at which t alpha I + V is not positive definite, with the printed noise, R = 1."""
    rng = np.random.default_rng(3)
    depth = math.log2(horizon)
    epsilon, delta = 0.5, 5e-7
    sigma = depth * math.sqrt(math.log(depth / delta)) / epsilon
    memo: dict[tuple[int, int], FloatArray] = {}
    v = np.zeros((dim, dim))
    bad = 0
    for t in range(1, horizon):
        record = rng.normal(size=dim)
        record /= np.linalg.norm(record)
        v += np.outer(record, record)
        noise = np.zeros((dim, dim))
        for node in dyadic(1, t):
            if node not in memo:
                memo[node] = rng.normal(scale=sigma, size=(dim, dim))
            noise += memo[node]
        noisy = t * alpha * np.eye(dim) + v + noise
        bad += float(np.linalg.eigvalsh(0.5 * (noisy + noisy.T))[0]) <= 0.0
    return bad / (horizon - 1)


def logarithm_exponents() -> tuple[float, float]:
    """Growth of the printed (35) and of what (34) implies, as powers of log T, between two large T."""
    first, second = 1e50, 1e200

    def printed(t: float) -> float:
        return (1.0 + math.log(t)) * math.sqrt(math.log(t))

    def implied(t: float) -> float:
        # sigma of one node, the square root of log T of them in a sum, and the sum of 1/t
        return math.log(t) * math.sqrt(math.log(t)) * (1.0 + math.log(t))

    def power(growth: float) -> float:
        return growth / math.log(math.log(second) / math.log(first))

    return (
        power(math.log(printed(second) / printed(first))),
        power(math.log(implied(second) / implied(first))),
    )


def hoeffding(epsilon: float, horizon: int, delta: float) -> tuple[float, float]:
    """The printed tail of (16) at the chosen c, and Hoeffding's for losses in [-e, e]."""
    c = math.log(math.log(2.0 / delta) / (2.0 * epsilon)) / (2.0 * math.log(horizon))
    exponent = 2.0 * epsilon * horizon ** (2.0 * c)
    return 2.0 * math.exp(-exponent), math.exp(-exponent / 4.0)


def horizon_free(
    epsilon: float, delta: float = 1e-6, horizon: int = 10**6
) -> tuple[float, float, float, float]:
    """Theorem 13: claimed epsilon and delta, exact mu for gradient descent, exact epsilon at delta log2 T."""
    t = np.arange(1, horizon)
    power = 2.0 ** np.floor(np.log2(t))
    beta = np.sqrt(2.0 * power / epsilon * (np.log(power / delta) + np.sqrt(epsilon / power)))
    mu = float(np.sqrt((1.0 / beta**2).sum()))
    depth = math.log2(horizon)
    return (
        3 * epsilon * depth,
        delta * depth + 2.0 / horizon ** (2 * epsilon),
        mu,
        gaussian_epsilon(mu, delta * depth),
    )


def average_sensitivity(horizon: int = 1000, alpha: float = 0.01) -> tuple[float, float]:
    """Move of the average iterate when the first record is replaced, and 2L(H_T - 1)/(alpha T), L = 1."""
    slopes = np.zeros(horizon)
    first, second = slopes.copy(), slopes.copy()
    first[0], second[0] = 1.0, -1.0
    # the average is over x_1, ..., x_T, of which x_1 is common
    gap = np.abs(implicit(first, alpha) - implicit(second, alpha))[: horizon - 1].sum() / horizon
    harmonic = float((1.0 / np.arange(1, horizon + 1)).sum())
    return float(gap), 2.0 * (harmonic - 1.0) / (alpha * horizon)


def figures() -> dict[str, float]:
    """The numbers of the page, by entry."""
    found: dict[str, float] = {}
    found["O3.largest"], found["O3.smallest"] = implicit_ratio()
    found["O4.ratio"] = skipped_record_ratio()
    found["O5.ratio"] = descent_ratio("printed")
    found["O6.uncapped"] = descent_ratio("uncapped")
    found["O6.capped"] = descent_ratio("capped")
    found["O10.norm"], found["O10.printed"], found["O10.correct"] = quadratic_norm(10.0, 100.0)
    found["O11.claimed"], found["O11.zero-out"], found["O11.replace"] = node_epsilon(16)
    sums = literal_private_sum([float(k) for k in range(1, 9)], 3, 1)
    found["O13.eight"] = sums[7]
    found["O14.share"] = indefinite_share()
    found["O15.printed"], found["O15.implied"] = logarithm_exponents()
    found["O16.moved"], found["O16.formula"] = average_sensitivity()
    printed = 2 * math.sqrt(2) * 1.01 * math.log(1000) / 1000 * math.sqrt(math.log(1e6) + 1.0)
    found["O16.printed"] = printed
    found["O16.epsilon"] = gaussian_epsilon(found["O16.formula"] / printed, 1e-6)
    claim = horizon_free(0.1)
    found["O17.claimed"], found["O17.delta"], found["O17.mu"], found["O17.epsilon"] = claim
    found["O18.sum"] = float((1.0 / np.arange(1, 1000)).sum())
    found["O18.integral"] = math.log(999)
    found["O20.printed"], found["O20.true"] = hoeffding(1.0, 1000, 1e-5)
    return found
