"""Spend a discount budget over six products, seeing only what each visitor paid.

    python examples/pricing.py

A shop gives discounts of up to 50 %; together they are fixed (150 points over six products). Every
visitor looks at all products, buys those whose price is not above what they are willing to pay, and
leaves; all the shop writes down is the sum at the till. What a visitor is willing to pay is their
secret: the prices that others are shown must not tell. Visitors are simulated: for the first three
products most people will not pay the list price, so these are the ones to discount. The learner knows
nothing of that, and nobody tells it which products were bought.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import reticent
from reticent import bandit, plots, sets

VISITORS = 100_000
LARGEST = 0.5  # the largest discount
UNITS = 3  # of it may be given, over all products
WILLING = np.array([1.05, 1.1, 1.2, 2.5, 3.0, 4.0])  # at most, in units of the list price
REPORT = Path("report")


def expected_revenue(shares: np.ndarray) -> float:
    """What a visit brings on average, as a share of all list prices; only the simulation knows it."""
    prices = 1.0 - LARGEST * shares
    return float(np.mean(prices * np.maximum(1.0 - prices / WILLING, 0.0)))


def main() -> None:
    console = Console()
    willing = WILLING * np.random.default_rng(7).random((VISITORS, 6))
    # shares of the largest discount: each in [0, 1], together UNITS
    discounts = sets.HyperSimplex(6, UNITS)
    facts = {"lipschitz": 0.3, "values": (-1.0, 0.0), "horizon": VISITORS}
    budget = reticent.Budget(epsilon=1.0, delta=1e-6)
    learners = {
        "private": bandit.ProjectionFreeBandit(discounts, budget=budget, **facts),
        "not private": bandit.ProjectionFreeBandit(discounts, private=False, **facts),
        "noise as published": bandit.ProjectionFreeBandit(
            discounts, budget=budget, calibration="published", **facts
        ),
    }
    table = Table(title=f"Revenue of {VISITORS:,} visits, one discount budget")
    for column in ("prices by", "discounts at the end, %", "mean revenue", "epsilon"):
        table.add_column(column)
    even, best = np.full(6, UNITS / 6), np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    table.add_row("even discounts", percent(even), f"{expected_revenue(even):.4f}", "0, no data")
    ax = plots.axes()
    for name, learner in learners.items():
        curve = []
        for t in track(range(VISITORS), description=name, console=console):
            prices = 1.0 - LARGEST * learner.ask()
            revenue = float(prices @ (prices <= willing[t])) / 6
            learner.tell(-revenue)  # a loss is what one would rather not have
            if t % 1000 == 0:
                curve.append(expected_revenue(learner.decision))
        late = np.mean(curve[len(curve) // 2 :])
        epsilon = f"{learner.guarantee.epsilon(1e-6):.2g}"
        table.add_row(name, percent(learner.decision), f"{late:.4f}", epsilon)
        ax.plot(1000 * np.arange(len(curve)), curve, linewidth=1.2, label=name)
    table.add_row("hindsight", percent(best), f"{expected_revenue(best):.4f}", "inf")
    console.print(table)
    console.print("mean revenue: of the second half of the visits; epsilon: at delta = 1e-6")
    console.print("revenues are computed from the simulation, not from any visitor's data")
    console.print(
        "one run each: chance, and a clip that each learner learns from its own plays, may put the private "
        "learner ahead of its twin; over many runs privacy costs (docs/algorithms/bandit.md)"
    )
    for height, label in ((expected_revenue(even), "even discounts"),
                          (expected_revenue(best), "hindsight")):  # fmt: skip
        ax.axhline(height, color="#999999", linewidth=0.8)
        ax.annotate(label, (0, height), fontsize=8, color="#666666", va="bottom")
    ax.set_xlabel("visitors so far")
    ax.set_ylabel("mean revenue of the prices shown")
    ax.legend(frameon=False, fontsize=8)
    REPORT.mkdir(exist_ok=True)
    ax.figure.savefig(REPORT / "pricing.png")
    console.print(f"picture: {REPORT / 'pricing.png'}")


def percent(shares: np.ndarray) -> str:
    return " ".join(f"{100 * LARGEST * share:.0f}" for share in shares)


if __name__ == "__main__":
    main()
