"""Split traffic over a road network, seeing only how long each trip took in all.

    python examples/routing.py

A navigation service recommends, to each driver, a mixture of routes (a unit flow). It sees the total
time of the trip and nothing else: not which road was slow, not when. The time of a trip says where
somebody was, so the recommendations must not depend much on any single one. Delays of the roads are
simulated, with a rush in the middle of the day. There is no cheap projection onto flows; a shortest
path is all that the learner computes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import reticent
from reticent import bandit, plots, sets

TRIPS = 120_000
ROADS = [
    ("home", "bridge"), ("home", "tunnel"), ("home", "ring road"),
    ("bridge", "old town"), ("bridge", "station"), ("tunnel", "old town"), ("tunnel", "station"),
    ("ring road", "station"), ("ring road", "office"),
    ("old town", "office"), ("station", "office"),
]  # fmt: skip
MINUTES = np.array([6.0, 9.0, 12.0, 8.0, 5.0, 6.0, 7.0, 8.0, 11.0, 9.0, 6.0])
LONGEST = 60.0
REPORT = Path("report")


def delays(seed: int) -> np.ndarray:
    """Minutes on each road for each trip: a typical time, chance, and a rush hour on the bridge."""
    rng = np.random.default_rng(seed)
    times = MINUTES * rng.gamma(25.0, 1.0 / 25.0, (TRIPS, len(ROADS)))
    day = np.sin(2 * np.pi * np.arange(TRIPS) / (TRIPS / 40))  # forty days
    times[:, 0] += 4.0 * np.maximum(day, 0.0)
    return times / LONGEST


def main() -> None:
    console = Console()
    flows = sets.FlowPolytope(ROADS, "home", "office")
    costs = delays(3)
    facts = {"lipschitz": 0.6, "values": (0.0, 1.0), "horizon": TRIPS, "seed": 0}
    budget = reticent.Budget(epsilon=1.0, delta=1e-6)
    learners = {
        "private": bandit.ProjectionFreeBandit(flows, budget=budget, **facts),
        "pure": bandit.ProjectionFreeBandit(flows, budget=reticent.Budget(1.0), **facts),
        "not private": bandit.ProjectionFreeBandit(flows, private=False, **facts),
        "noise as published": bandit.ProjectionFreeBandit(
            flows, budget=budget, calibration="published", **facts
        ),
    }
    table = Table(title=f"{TRIPS:,} trips from home to the office")
    for column in (
        "routes by",
        "busiest roads at the end",
        "minutes",
        "regret",
        "epsilon",
        "delta",
    ):
        table.add_column(column)
    still = LONGEST * float(np.mean(costs @ flows.center))
    table.add_row("even split", "", f"{still:.2f}", "", "0, no data", "0")
    ax = plots.axes()
    for name, learner in learners.items():
        play = learner.run(costs, keep=400)
        delta = 0.0 if learner.guarantee.pure is not None else budget.delta
        busy = np.argsort(-learner.decision)[:3]
        roads = ", ".join(f"{ROADS[i][1]} {100 * learner.decision[i]:.0f} %" for i in busy)
        table.add_row(
            name,
            roads,
            f"{LONGEST * play.mean_loss:.2f}",
            f"{LONGEST * play.regret() / TRIPS:.2f}",
            f"{learner.guarantee.epsilon(delta):.2g}",
            f"{delta:g}",
        )
        steps, regret = play.regret_curve()
        ax.plot(steps, LONGEST * regret / steps, linewidth=1.2, label=name)
    console.print(table)
    console.print(
        "one run each: chance, and a clip that each learner learns from its own plays, may put the private "
        "learner ahead of its twin; over many runs privacy costs (docs/algorithms/bandit.md)"
    )
    console.print("minutes and regret are diagnostics: they read private data")
    ax.set_xscale("log")
    ax.set_xlim(left=1000)
    ax.set_xlabel("trips so far")
    ax.set_ylabel("regret so far, minutes a trip (diagnostic)")
    ax.legend(frameon=False, fontsize=8)
    REPORT.mkdir(exist_ok=True)
    ax.figure.savefig(REPORT / "routing.png")
    console.print(f"picture: {REPORT / 'routing.png'}")


if __name__ == "__main__":
    main()
