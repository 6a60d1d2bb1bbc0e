"""Draw the error of a fading guarantee against its epsilon at age one million: docs/pictures/fade-frontier.png."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import reticent
from reticent import sums

EPSILONS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0)
OLD = 10**6


def main() -> None:
    window = sums.CorrelatedMechanism(1, budget=reticent.Budget(1.0, 1e-6, window=1024)).error(
        2**40
    )
    errors = []
    for epsilon in EPSILONS:
        budget = reticent.Budget(1.0, 1e-6, fade=[(1024, 1.0), (OLD, epsilon)])
        errors.append(sums.CorrelatedMechanism(1, budget=budget).error(2**40))
        print(f"epsilon {epsilon:4.2f} at age {OLD:,}: error {errors[-1]:.2f}")
    print(f"window of 1,024, nothing asked later: {window:.2f}")
    _, ax = plt.subplots(figsize=(6.0, 3.6))
    ax.plot(EPSILONS, errors, marker="o", label="epsilon 1 at age 1,024 and this one at 1,000,000")
    ax.axhline(window, color="grey", linestyle="--", label="window of 1,024, nothing afterwards")
    ax.set_xlabel("epsilon at age 1,000,000 (delta = 1e-6)")
    ax.set_ylabel("standard deviation of the noise, for ever")
    ax.legend(frameon=False)
    ax.figure.tight_layout()
    place = Path(__file__).parents[1] / "docs" / "pictures" / "fade-frontier.png"
    ax.figure.savefig(place, dpi=120)


if __name__ == "__main__":
    main()
