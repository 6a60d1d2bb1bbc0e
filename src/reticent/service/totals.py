"""Streams that keep a private running total of every column."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent import sums
from reticent.online import totals
from reticent.privacy import Guarantee
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.state.lease import Lease
from reticent.tables import Column, Encoder, Schema

_OPTIONS = ("horizon", "total", "norm")
_NO_TARGET = "\x00"  # an encoder wants a target, and a total has none; no column can be called this


class Total:
    """Noisy totals of encoded records, and of the columns in their own units.

    A record is a vector of norm at most the square root of the number of columns; the total of a number is
    computed from that of its place between its bounds, and from the number of records, which is public.

    Parameters
    ----------
    specification : Specification
        Of the kind ``total``.
    state : dict, optional
        Where to go on; by default the stream begins.
    """

    def __init__(self, specification: Specification, state: dict[str, Any] | None = None) -> None:
        self.encoder = encoder = encoder_of(specification)
        if state is None:
            specification.check_options(_OPTIONS)
            options = specification.options
            self._before, self._base = 0, np.zeros(len(encoder.names))
            mechanism = totals.describe(
                options.get("total", "auto"),
                len(encoder.names),
                options.get("horizon"),
                budget=specification.budget,
                norm=options.get("norm", encoder.largest_norm),
                noise_precision="lattice",
            )
            self._total = sums.RunningTotal(mechanism, seed=specification.seed)
        else:
            self._before, self._base = int(state["before"]), np.array(state["base"], np.float64)
            kind: Any = getattr(sums, state["total"]["kind"])
            self._total = kind.from_state(state["total"])
        self._latest = np.zeros(len(encoder.names))

    @classmethod
    def renewed(
        cls, specification: Specification, state: dict[str, Any], decision: dict[str, Any]
    ) -> Total:
        """A total with noise of its own that begins from what another has released."""
        before = int(state["before"]) + int(state["total"]["steps"])
        if specification.seed is not None:
            specification = specification.with_seed(specification.seed + before + 1)
        new = cls(specification)
        new._before, new._base = before, np.array(decision["totals"], np.float64)
        return new

    @property
    def steps(self) -> int:
        return self._before + self._total.steps

    @property
    def position(self) -> int:
        return self._total.steps

    @property
    def lease(self) -> Lease:
        return self._total._lease

    @property
    def guarantee(self) -> Guarantee:
        return self._total.guarantee

    def room(self) -> int | None:
        horizon = self._total.horizon
        return None if horizon is None else horizon - self._total.steps

    def check(self, batch: Batch) -> None:
        """Records that were decoded can be added."""

    def learn(self, batch: Batch) -> None:
        self._latest = self._total.run(batch.X)[-1]

    def decision(self) -> dict[str, Any]:
        noisy = self._base + self._latest
        taken = self._total.steps
        return {
            "totals": noisy.tolist(),
            "sums": _in_units(self.encoder, noisy, self.steps),
            "standard_deviation": self._total.error(taken) if taken else 0.0,
        }

    def diagnostics(self) -> dict[str, Any]:
        return {"records": self.steps, "contributions_clipped": self._total.clipped}

    def state(self) -> dict[str, Any]:
        return {"before": self._before, "base": self._base, "total": self._total.state()}


def encoder_of(specification: Specification) -> Encoder:
    """What turns the records of a total into vectors."""
    assert specification.schema is not None
    columns = specification.schema.columns
    return Encoder(
        Schema((*columns, Column(_NO_TARGET, "boolean", values=("false", "true"))), _NO_TARGET)
    )


def _in_units(encoder: Encoder, noisy: Any, steps: int) -> dict[str, float]:
    """Sums of numbers, and counts of values: of the second of two, or of each of more."""
    out: dict[str, float] = {}
    values = iter(zip(encoder.names, noisy.tolist(), strict=True))
    for column in encoder.columns:
        if column.bounds is not None or len(column.values) == 2:
            name, value = next(values)
            low, high = column.bounds or (0.0, 1.0)
            out[name] = steps * low + 0.5 * (high - low) * (value + steps)
        else:
            out |= dict(next(values) for _ in column.values)
    return out
