"""Noise for the same guarantee: running totals against jax_privacy, the trees of TensorFlow Privacy, and the papers.

Nothing is drawn here: standard deviations are exact, so there is no spread.

Peers get our exact Gaussian calibration, the same for all, unless the column says that its own
accounting is used. What is compared is the shape of the noise.
"""

from __future__ import annotations

import math

from table import Table
from timing import Ratio

import reticent
from questions import Run
from reticent import papers, sums

QUESTION = 1
BUDGET = reticent.Budget(1.0, 1e-6)


def worst_tree(steps: int, efficient: bool) -> float:
    """Largest standard deviation of a prefix t <= steps in units of a node's noise.

    A prefix is a union of complete subtrees, one for each bit of t. Honaker's estimate from below
    has variance 1 / (2 - 2^-h) for a subtree of height h.
    """

    def variance(t: int) -> float:
        heights = (h for h in range(t.bit_length()) if t >> h & 1)
        return sum(1.0 / (2.0 - 2.0**-h) if efficient else 1.0 for h in heights)

    # The worst t has as many bits as fit: all ones, or the bits of `steps` up to some place, then ones.
    candidates = {steps, (1 << (steps.bit_length() - 1)) - 1}
    for h in range(steps.bit_length()):
        if steps >> h & 1:
            candidates.add((steps >> (h + 1) << (h + 1)) + (1 << h) - 1)
    return math.sqrt(max(variance(t) for t in candidates))


def tensorflow_multiplier(steps: int) -> float:
    """The noise of each node by TensorFlow Privacy's own road: Renyi divergences of one tree."""
    import dp_accounting
    from dp_accounting import rdp

    zeroed = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: rdp.RdpAccountant(neighboring_relation=zeroed),
            lambda noise: dp_accounting.SingleEpochTreeAggregationDpEvent(noise, steps),
            BUDGET.epsilon,
            BUDGET.delta,
        )
    )


def horizons(run: Run) -> Table:
    table = Table(
        "horizons",
        QUESTION,
        "A total over a known horizon",
        ["steps", "Correlated, standard deviation", "jax_privacy, square root", "jax_privacy, BLT",
         "jax_privacy, banded", "our Tree, Honaker", "TensorFlow Privacy, efficient tree",
         "TensorFlow Privacy, plain tree", "published PrivateSum", "true ε of PrivateSum"],
        f"ε = {BUDGET.epsilon:g}, δ = 10⁻⁶, zero-out, contributions of norm 1: the largest "
        f"standard deviation of a "
        "coordinate over all steps. The other columns are ratios to ours: above 1 they add more "
        "noise.",
        settings=[
            "Ours is calibrated for outputs on a lattice, which needs a little more noise; peers are "
            "calibrated for real numbers.",
            "jax_privacy 'square root': `optimal_max_error_strategy_coefs`, optimal among "
            "Toeplitz factorisations, but its "
            "memory grows with the horizon; 'BLT': `buffered_toeplitz.optimize(error='max')` with "
            "4 buffers up to 2¹² steps and 5 "
            "beyond (better than its automatic choice, which stops at an improvement of 1 %); "
            "'banded': "
            "`optimize_banded_toeplitz(reduction_fn=max)` with 64 bands, where optimising it "
            "takes seconds.",
            "TensorFlow Privacy's trees: variances recomputed, accounting (Rényi) by dp-accounting.",
            "PrivateSum: the noise as printed, with log read as natural. The last column is its true ε "
            "at the same δ.",
        ],
    )  # fmt: skip
    peer = run.peer("jax_privacy")
    logs = range(8, 21, run.choose(4, 1))
    for log in logs:
        steps = 2**log
        ours = sums.Correlated(1, steps, budget=BUDGET).error(steps)
        tree = sums.Tree(1, steps, budget=BUDGET)
        honaker = max(tree.error(t) for t in (steps, steps - 1, steps // 2))
        theirs = {
            "root": peer.ask("square_root", n=steps)["error"],
            "blt": peer.ask("blt", n=steps, buffers=4 if log <= 12 else 5)["error"],
            "banded": peer.ask("banded", n=steps, bands=64)["error"]
            if log <= run.choose(8, 11)
            else None,
        }
        found = {
            k: None if v is None else Ratio.exact(v / BUDGET.mu / ours) for k, v in theirs.items()
        }
        node = tensorflow_multiplier(steps)
        paper = papers.private_sum(BUDGET.epsilon, BUDGET.delta, horizon=steps)
        table.add(
            f"2^{log}", ours, found["root"], found["blt"], found["banded"], Ratio.exact(honaker / ours),
            Ratio.exact(node * worst_tree(steps, True) / ours),
            Ratio.exact(node * worst_tree(steps, False) / ours),
            Ratio.exact(float(paper.scale) * worst_tree(steps, False) / ours), paper.true_epsilon(),
        )  # fmt: skip
    return table


def windows(run: Run) -> Table:
    table = Table(
        "windows",
        QUESTION,
        "An endless total that protects each record for a window",
        ["window", "Correlated, standard deviation", "our WindowTree", "published window tree",
         "true ε of the published"],
        f"ε = {BUDGET.epsilon:g}, δ = 10⁻⁶, zero-out, norm 1: the largest standard deviation ever "
        "reached. "
        "The other columns are ratios to ours. No peer offers a window.",
        settings=["The published noise is that of Theorem 2 on the window tree mechanism, as printed, "
                  "with as many nodes as a prefix of the window needs."],
    )  # fmt: skip
    for log in range(6, 17, run.choose(2, 1)):
        window = 2**log
        budget = BUDGET.with_(window=window)
        ours = sums.Correlated(1, budget=budget).error(10**6)
        tree = sums.WindowTree(1, budget=budget)
        last = 2**20
        inside = {0, 1, window - 1, window // 2 - 1, window // 2, 2 * window - 1}
        worst = max(
            tree.error(last + i) for i in inside | set(range(0, window, max(1, window // 64)))
        )
        paper = papers.window_tree_gaussian(BUDGET.epsilon, BUDGET.delta, window=window)
        table.add(
            f"2^{log}", ours, Ratio.exact(worst / ours),
            Ratio.exact(float(paper.scale) * math.sqrt(window.bit_length()) / ours), paper.true_epsilon(),
        )  # fmt: skip
    return table
