"""From the budget of a run to a plan for each party: number of rounds, and scales of the noise.

A person's row is in every release of every party, so all of them are composed (Lou and Cheung divide by K instead). The
guarantee adds up what each party enforces itself, so it holds against the coordinator too. The shares of selections,
values and sketches minimise the sum of their errors. See docs/algorithms/vertical.md.

The errors are rough bounds from public numbers that divide the budget and determine the number of rounds. They affect
utility only; the guarantee is computed from the noise itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from reticent.privacy import Budget, Guarantee, prescribed
from reticent.privacy import calibration as calibrations
from reticent.vertical.messages import Welcome
from reticent.vertical.plan import (
    Plan,
    Terms,
    curvature,
    guarantee_of,
    natural_clip,
    score_moved,
    sketch_length,
    sketch_moved,
)
from reticent.vertical.sketch import SPREAD, SignSketch

VARIANTS = ("product", "ball", "sampled")
MOST_ROUNDS = 2000
MOST_COLUMNS = 4
"""Default number of columns of which a party sends sketches."""
TYPICAL = 0.5
"""Assumed ratio of the Euclidean norm of a sparse model to its l1 norm."""


@dataclass(frozen=True)
class Noise:
    """Scales of all noise, in units of sums over records, for a feature bound of 1.

    The noise of a party with another feature bound is multiplied by that bound.

    Parameters
    ----------
    selection
        Scale of the noise on the scores of a selection.
    sketch
        Standard deviation of the noise on each entry of a sketched column.
    value
        Standard deviation of the noise on a selected score. Default: 0, for variants without values.
    label
        Standard deviation of the noise on each entry of the sketch of the labels. Default: 0, if none is sent.
    kind
        Distribution of the noise of a selection, "gumbel" or "laplace". Default: "gumbel".
    """

    selection: float
    sketch: float
    value: float = 0.0
    label: float = 0.0
    kind: str = "gumbel"


@dataclass(frozen=True)
class Wish:
    """The user's arguments that plans depend on; all of them are public."""

    budget: Budget
    radius: float
    loss: str
    variant: str
    rounds: int | None
    columns: int | None
    sketch_size: int | None
    distortion: float
    clip: float | None
    own: str
    calibration: str
    noise: Noise | None
    sketch_seed: int


def terms_of(facts: Welcome) -> Terms:
    """What a party's cost depends on, from its description of itself."""
    neighbours = "replace" if facts.replace else "zero-out"
    return Terms(facts.feature_bound, facts.label_bound, neighbours, facts.lattice, facts.seeded)


class Design:
    """Plans for parties that have answered with :class:`Welcome`.

    Parameters
    ----------
    wish
        The user's arguments.
    facts
        Description of each party by itself.
    labels
        Where each party gets labels from: ``"own"``, ``"send"`` or ``"sketched"``.
    share
        Average share of the rounds in which a party takes part.
    """

    def __init__(
        self, wish: Wish, facts: Mapping[str, Welcome], labels: Mapping[str, str], share: float
    ) -> None:
        self.wish = wish
        self.facts = dict(facts)
        self.labels = dict(labels)
        self.share = share
        self.rows = int(next(iter(facts.values())).rows)
        self.parties = len(facts)
        self.bound = max(f.feature_bound for f in facts.values())
        holders = [f.label_bound for name, f in facts.items() if labels[name] != "sketched"]
        label = 1.0 if wish.loss == "logistic" else max(holders)
        natural = natural_clip(wish.loss, wish.radius, self.bound, label)
        self.clip = natural if wish.clip is None else wish.clip
        self.rounds = wish.rounds if wish.rounds is not None else self._best_rounds()

    # ------------------------------------------------------------ how much of what

    def _columns(self, name: str, rounds: int) -> int:
        """Largest number of columns that a party sends; a single party need not send any."""
        if self.parties == 1 and self.wish.own == "clear":
            return 0
        most = MOST_COLUMNS if self.wish.columns is None else self.wish.columns
        return max(0, min(int(self.facts[name].columns), rounds - 1, most))

    def _counts(self, rounds: int) -> tuple[float, float, float, float]:
        """Numbers of selections, values, sketches and label sketches of all parties together."""
        choices = self.parties * rounds * self.share
        values = choices if self._with_values else 0.0
        sketches = float(sum(self._columns(name, rounds) for name in self.facts))
        return choices, values, sketches, float("send" in self.labels.values())

    @property
    def _with_values(self) -> bool:
        return self.wish.variant == "ball" and self.parties > 1

    def _errors(self, rounds: int) -> list[float]:
        """Excess risk caused by each kind of noise, times mu and the square root of its share."""
        choices, values, sketches, labels = self._counts(rounds)
        wish, n = self.wish, float(self.rows)
        candidates = float(np.mean([math.log(2.0 * f.columns) for f in self.facts.values()]))
        moved = self.bound * self.clip
        crowd = math.sqrt(2.0 * math.log(max(2, self.parties)))
        far = 2.0 * wish.radius * self.bound * math.sqrt(2.0 * candidates / n)
        bend = 0.25 if wish.loss == "logistic" else 1.0
        return [
            wish.radius * moved * math.sqrt(choices) * candidates / n,
            wish.radius * moved * math.sqrt(values) * crowd / n,
            far * bend * TYPICAL * wish.radius * self.bound * math.sqrt(sketches),
            far * max(f.label_bound for f in self.facts.values()) * math.sqrt(labels),
        ]

    def _best_rounds(self) -> int:
        mu = self.wish.budget.mu
        bend = curvature(self.wish.loss, self.wish.radius, self.bound)

        def risk(rounds: int) -> float:
            noise = sum(error ** (2.0 / 3.0) for error in self._errors(rounds)) ** 1.5 / mu
            pace = self.share * rounds + 2.0
            return 2.0 * bend / (self.share * pace) + noise

        tries = np.unique(np.geomspace(1, MOST_ROUNDS, 80).astype(int)).tolist()
        return int(min(tries, key=risk))

    # ------------------------------------------------------------ plans

    def plans(self, rounds: Mapping[str, int]) -> dict[str, Plan]:
        """A plan for each party, given its number of selections."""
        wish = self.wish
        size = wish.sketch_size
        if size is None:
            size = sketch_length(self.rows, self.rounds, wish.budget.delta, wish.distortion)
        size = min(size, self.rows)
        base = Plan(
            rows=self.rows, rounds=0, columns=0, clip=self.clip, selection_scale=1.0,
            sketch_scale=1.0, own=wish.own, sketch_size=size,
            sketch_spread=min(SPREAD, size), sketch_seed=wish.sketch_seed, loss=wish.loss,
        )  # fmt: skip
        drafts = {
            name: base.with_(
                rounds=rounds[name],
                columns=self._columns(name, self.rounds),
                labels=self.labels[name],
                label_scale=1.0,
                value_scale=1.0 if self._with_values else 0.0,
            )
            for name in self.facts
        }
        if wish.noise is not None:
            return self._scaled(drafts, wish.noise)
        if wish.calibration != "exact":
            return self._scaled(drafts, self._prescribed(base))
        return self._calibrated(drafts)

    def _scaled(self, drafts: Mapping[str, Plan], noise: Noise) -> dict[str, Plan]:
        plans = {}
        for name, draft in drafts.items():
            bound = self.facts[name].feature_bound
            plans[name] = draft.with_(
                selection=noise.kind,
                selection_scale=noise.selection * bound,
                sketch_scale=noise.sketch * bound,
                value_scale=noise.value * bound if draft.value_scale else 0.0,
                label_scale=noise.label if draft.labels == "send" else 0.0,
            )
        return plans

    def _calibrated(self, drafts: Mapping[str, Plan]) -> dict[str, Plan]:
        """Noise in the best proportions, scaled to meet the budget."""
        first = next(iter(drafts.values()))
        errors = self._errors(self.rounds)
        whole = sum(error ** (2.0 / 3.0) for error in errors)
        shares = [max(error ** (2.0 / 3.0) / whole, 1e-9) for error in errors]
        counts = [
            sum(p.rounds for p in drafts.values()),
            sum(p.rounds for p in drafts.values()) if first.value_scale else 0,
            sum(p.columns for p in drafts.values()),
            sum(p.labels == "send" for p in drafts.values()),
        ]
        ratios = [
            math.sqrt(max(count, 1) / part) for count, part in zip(counts, shares, strict=True)
        ]

        moved = {}
        for name, draft in drafts.items():
            terms = terms_of(self.facts[name])
            bounds = terms.feature_bound, terms.label_bound
            sketched = [sketch_moved(draft, terms, bound) for bound in bounds]
            moved[name] = (score_moved(draft, terms), *sketched)

        def build(multiplier: float) -> dict[str, Plan]:
            plans = {}
            for name, draft in drafts.items():
                score, column, label = moved[name]
                plans[name] = draft.with_(
                    selection_scale=multiplier * ratios[0] * score,
                    value_scale=multiplier * ratios[1] * score if draft.value_scale else 0.0,
                    sketch_scale=multiplier * ratios[2] * column,
                    label_scale=multiplier * ratios[3] * label if draft.labels == "send" else 0.0,
                )
            return plans

        best = calibrations.calibrate(
            self.wish.budget,
            lambda multiplier: self.joint(build(multiplier)),
            start=1.0 / self.wish.budget.mu,
            tolerance=1e-7,
        )
        return build(best)

    def _prescribed(self, base: Plan) -> Noise:
        """The scales that a calibration prescribes."""
        wish, sketch = self.wish, base.sketch()
        index, feature = prescribed.find(wish.calibration, "vertical")(
            wish.budget,
            parties=self.parties,
            rounds=self.rounds,
            rows=self.rows,
            radius=wish.radius,
            clip=self.clip,
            singular_value=leading_singular_value(sketch),
        )
        scale = feature * math.sqrt(sketch.spread)
        return Noise(index, scale, index, scale, "laplace")

    def joint(self, plans: Mapping[str, Plan]) -> Guarantee:
        """The guarantee of all parties' releases together for a whole row."""
        parts = [guarantee_of(plan, terms_of(self.facts[name])) for name, plan in plans.items()]
        return joined(parts)


def joined(parts: Sequence[Guarantee]) -> Guarantee:
    """All releases of all parties, on the same rows."""
    first = parts[0]
    for part in parts[1:]:
        first = first + part
    return first


def leading_singular_value(sketch: SignSketch) -> float:
    """The leading singular value of ``J = S / sqrt(spread)``."""
    if sketch.is_identity:
        return 1.0
    rows = np.repeat(np.arange(sketch.rows), sketch.spread)
    shape = (sketch.size, sketch.rows)
    matrix = csr_array((sketch.signs.ravel(), (sketch.places.ravel(), rows)), shape=shape)
    if min(shape) <= 2:
        return float(np.linalg.norm(matrix.toarray(), 2)) / math.sqrt(sketch.spread)
    start = np.ones(min(shape))
    return float(svds(matrix, k=1, return_singular_vectors=False, v0=start)[0]) / math.sqrt(
        sketch.spread
    )
