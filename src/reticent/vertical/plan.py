"""What a coordinator asks of one party for a whole run, and what that costs the party's records.

Sensitivities and composition are those of docs/algorithms/vertical.md: the sensitivity of a selection and of a noisy
score is ``feature_bound * clip``, that of a sketched column ``feature_bound`` times the norm of a column of J; twice
that under replacement. Both sides compute the cost with the same function, and the party charges it to its own ledger
before it answers anything.

Nothing in a plan is trusted. A coordinator that asks for little noise is charged for it; the bounds on features and
labels are the party's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from reticent import checks
from reticent.erm.rounded_sums import UNIT, UNITS
from reticent.noise import release
from reticent.privacy import Guarantee, Release, curves
from reticent.vertical.messages import Begin, Proposal
from reticent.vertical.sketch import SPREAD, SignSketch

LOSSES = ("squared", "logistic")
SELECTIONS = ("gumbel", "laplace")
LABELS = ("own", "sketched", "send")
OWN = ("clear", "sketched")
SMALLEST = 1e-100
"""Clips and noise scales must lie between this and its reciprocal."""


@dataclass(frozen=True)
class Plan:
    """The terms of one party's part in one run.

    Parameters
    ----------
    rows
        Number of records of every party.
    rounds
        Largest number of selections that the party makes.
    columns
        Largest number of columns of which it sends sketches.
    clip
        Bound to which every record's slope (its residual) is clipped.
    selection
        Distribution of the noise on the scores of a selection, "gumbel" or "laplace". Default: "gumbel".
    selection_scale
        Scale of that noise.
    value_scale
        Standard deviation of the noise on the selected score; 0 if it is not requested.
    sketch_scale
        Standard deviation of the noise on each entry of a sketched column.
    label_scale
        Standard deviation of the noise on each entry of the sketch of the labels.
    labels
        ``"own"``: the party uses its labels and sends nothing about them. ``"send"``: it uses them and sends one noisy
        sketch. ``"sketched"``: it has none and receives that sketch. Default: "own".
    own
        ``"clear"``: the party computes the predictions of its own columns from the columns. ``"sketched"``: from their
        noisy sketches, as the paper does. Default: "clear".
    sketch_size
        Number of rows of the public sketch. Default: 256.
    sketch_spread
        Number of nonzero entries per column of the sketch.
    sketch_seed
        Seed of the sketch. Default: 0.
    loss
        ``"squared"`` (the default) or ``"logistic"``.
    """

    rows: int
    rounds: int
    columns: int
    clip: float
    selection_scale: float
    sketch_scale: float
    value_scale: float = 0.0
    label_scale: float = 0.0
    selection: str = "gumbel"
    labels: str = "own"
    own: str = "clear"
    sketch_size: int = 256
    sketch_spread: int = SPREAD
    sketch_seed: int = 0
    loss: str = "squared"

    def __post_init__(self) -> None:
        for name, low in (("rows", 1), ("rounds", 0), ("columns", 0), ("sketch_size", 1)):
            checks.integer(getattr(self, name), name, low=low, high=2**31)
        checks.integer(self.sketch_spread, "sketch_spread", low=1, high=64)
        checks.integer(self.sketch_seed, "sketch_seed", low=0, high=2**64 - 1)
        # so far from overflow and underflow that products are rounded as the accounting assumes
        checks.number(self.clip, "clip", low=SMALLEST, high=1.0 / SMALLEST)
        for name in ("selection_scale", "sketch_scale", "value_scale", "label_scale"):
            may_be_zero = name in ("value_scale", "label_scale") and getattr(self, name) == 0.0
            if not may_be_zero:
                checks.number(getattr(self, name), name, low=SMALLEST, high=1.0 / SMALLEST)
        checks.choice(self.loss, "loss", LOSSES)
        checks.choice(self.selection, "selection", SELECTIONS)
        checks.choice(self.labels, "labels", LABELS)
        checks.choice(self.own, "own", OWN)
        if self.labels == "send" and self.label_scale == 0.0:
            raise ValueError("label_scale must be above 0 if labels='send', got 0")
        if self.sketch_size > self.rows:
            raise ValueError(
                f"sketch_size must be at most the number of rows, {self.rows}, got {self.sketch_size}; use that "
                "number to send columns unsketched"
            )

    def sketch(self) -> SignSketch:
        """The public sketch."""
        return SignSketch(
            self.rows, self.sketch_size, seed=self.sketch_seed, spread=self.sketch_spread
        )

    def request(self, run: bytes, sequence: int) -> Begin:
        """The message that proposes this plan.

        Parameters
        ----------
        run : bytes
            Id of the run.
        sequence : int
            Number of the message in the run.
        """
        terms = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return Begin(run=run, sequence=sequence, **terms)

    @classmethod
    def of(cls, message: Proposal) -> Plan:
        """The plan that a message proposes; raises ValueError if it is not valid.

        Parameters
        ----------
        message : Proposal
            The message.
        """
        return cls(**{entry.name: getattr(message, entry.name) for entry in fields(cls)})

    def with_(self, **changes: Any) -> Plan:
        """The same plan with some terms changed.

        Parameters
        ----------
        **changes
            New values of some of the terms, by name.
        """
        return replace(self, **changes)


@dataclass(frozen=True)
class Terms:
    """The properties of a party on which its cost depends."""

    feature_bound: float = 1.0
    label_bound: float = 1.0
    neighbours: str = "zero-out"
    lattice: bool = True
    seeded: bool = False

    def moved(self, norm: float) -> float:
        """The sensitivity of a sum to which a record contributes at most ``norm``."""
        return norm if self.neighbours == "zero-out" else 2.0 * norm


def score_moved(plan: Plan, terms: Terms) -> float:
    """Sensitivity of every score, including the rounding of the sums."""
    largest = plan.clip * terms.feature_bound * (1.0 + 2.0**-48)
    return terms.moved(largest) + 2.0 * (UNITS + 16.0) * UNIT * plan.rows * largest


def sketch_moved(plan: Plan, terms: Terms, bound: float) -> float:
    """Sensitivity of the sketch of a column with entries up to ``bound``."""
    sketch = plan.sketch()
    return terms.moved(bound * sketch.column_norm) + sketch.rounding(bound)


def guarantee_of(plan: Plan, terms: Terms) -> Guarantee:
    """The guarantee of a party's part of a run for each of its records, which is also its cost.

    Examples
    --------
    >>> plan = Plan(rows=1000, rounds=1, columns=0, clip=2.0, selection_scale=8.0, sketch_scale=1.0)
    >>> round(guarantee_of(plan, Terms()).pure, 9)
    0.5
    """
    releases = []
    moved = score_moved(plan, terms)
    if plan.rounds:
        ratio = 2.0 * moved / plan.selection_scale
        curve = curves.BoundedRange(ratio) if plan.selection == "gumbel" else curves.Pure(ratio)
        releases.append(
            Release(
                "choice of a signed column",
                curve,
                moved,
                f"{plan.selection.capitalize()}, scale {plan.selection_scale:.6g}",
                plan.rounds,
            )
        )
        if plan.value_scale > 0.0:
            releases.append(
                _gaussian(
                    "noisy score of the chosen column",
                    terms,
                    moved,
                    plan.value_scale,
                    1,
                    plan.rounds,
                )
            )
    size = plan.sketch().size
    if plan.columns:
        wide = sketch_moved(plan, terms, terms.feature_bound)
        releases.append(
            _gaussian(
                "noisy sketch of a column, sent once",
                terms,
                wide,
                plan.sketch_scale,
                size,
                plan.columns,
            )
        )
    if plan.labels == "send":
        wide = sketch_moved(plan, terms, terms.label_bound)
        releases.append(
            _gaussian("noisy sketch of the labels", terms, wide, plan.label_scale, size, 1)
        )
    return Guarantee(releases, terms.neighbours, seeded=terms.seeded, lattice=terms.lattice)


def _gaussian(
    what: str, terms: Terms, moved: float, scale: float, size: int, count: int
) -> Release:
    if terms.lattice:
        moved = release.widened(moved, scale, size)
    words = f"Gaussian, standard deviation {scale:.6g}"
    return Release(what, curves.Gaussian(moved / scale), moved, words, count)


def natural_clip(loss: str, radius: float, feature_bound: float, label_bound: float) -> float:
    """The largest slope of a record under any model in the l1 ball."""
    if loss == "logistic":
        return 1.0
    return radius * feature_bound + label_bound


def curvature(loss: str, radius: float, feature_bound: float) -> float:
    """An upper bound on Frank-Wolfe's curvature constant of the mean loss on the l1 ball."""
    bend = 0.25 if loss == "logistic" else 1.0
    return bend * (2.0 * radius * feature_bound) ** 2


def sketch_length(rows: int, rounds: int, delta: float, distortion: float) -> int:
    """The paper's sketch length ``log(T / (delta / 2)) / iota^2``, at most the number of records."""
    return min(rows, math.ceil(math.log(2.0 * max(rounds, 1) / delta) / distortion**2))
