"""Streams that publish a private running total of every column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from reticent import sums
from reticent.online import totals
from reticent.privacy import Guarantee
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.tables import Column, Encoder, Schema

_OPTIONS = ("horizon", "total", "norm")
_NO_TARGET = "\x00"  # an encoder needs a target, and a total has none; no column can have this name


class Total:
    """Noisy totals of encoded records, and of the columns in their own units.

    A record is a vector whose norm is at most the square root of the number of columns. The total of a number is
    computed from the total of its scaled value and from the number of records, which is public.

    Parameters
    ----------
    specification : Specification
        Specification of kind ``total``.
    state : dict, optional
        State from which to continue; by default the stream begins.
    """

    def __init__(self, specification: Specification, state: dict[str, Any] | None = None) -> None:
        self.encoder = encoder = encoder_of(specification)
        if state is None:
            specification.check_options(_OPTIONS)
            options = specification.options
            self._before, self._base, self._deviation = 0, np.zeros(len(encoder.names)), 0.0
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
            self._deviation = float(state.get("deviation", 0.0))
            kind: Any = getattr(sums, state["total"]["kind"])
            self._total = kind.from_state(state["total"])
        self._latest = np.zeros(len(encoder.names))

    @classmethod
    def renewed(
        cls, specification: Specification, state: dict[str, Any], decision: dict[str, Any]
    ) -> Total:
        """A total with fresh noise that starts from what another one has released."""
        before = int(state["before"]) + int(state["total"]["steps"])
        if specification.seed is not None:
            specification = specification.with_seed(specification.seed + before + 1)
        new = cls(specification)
        new._before, new._base = before, np.array(decision["totals"], np.float64)
        new._deviation = float(decision["standard_deviation"])
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

    @property
    def persons(self) -> Persons | None:
        return None  # single records are protected

    def room(self) -> int | None:
        horizon = self._total.horizon
        return None if horizon is None else horizon - self._total.steps

    def check(self, batch: Batch) -> None:
        """Accept every record that was decoded."""

    def learn(self, batch: Batch) -> None:
        self._latest = self._total.run(batch.X)[-1]

    def decision(self) -> dict[str, Any]:
        noisy = self._base + self._latest
        taken = self._total.steps
        fresh = self._total.error(taken) if taken else 0.0
        return {
            "totals": noisy.tolist(),
            "sums": _in_units(self.encoder, noisy, self.steps),
            # after a restore it also contains the noise of what was released before
            "standard_deviation": math.hypot(self._deviation, fresh) if self._deviation else fresh,
        }

    def diagnostics(self) -> dict[str, Any]:
        return {"records": self.steps, "contributions_clipped": self._total.clipped}

    def state(self) -> dict[str, Any]:
        return {
            "before": self._before,
            "base": self._base,
            "deviation": self._deviation,
            "total": self._total.state(),
        }


def encoder_of(specification: Specification) -> Encoder:
    """The encoder of a total's records."""
    assert specification.schema is not None
    columns, person = specification.schema.columns, specification.schema.person
    if person is not None:
        raise Problem(
            422,
            "bad-specification",
            f"kind 'total' protects single records, not persons; declare column {person!r} as 'ignore', or use "
            "reticent.sums with participation=",
        )
    return Encoder(
        Schema((*columns, Column(_NO_TARGET, "boolean", values=("false", "true"))), _NO_TARGET)
    )


def scales(encoder: Encoder) -> dict[str, float]:
    """Factors by which the standard deviation of a total is multiplied, for each sum and count."""
    return {
        name: 1.0 if place is None else 0.5 * (place[1] - place[0])
        for name, place in _places(encoder)
    }


def _in_units(encoder: Encoder, noisy: Any, steps: int) -> dict[str, float]:
    """Sums of numbers in their own units, and counts of values: of the second of two, or of each of more."""
    out: dict[str, float] = {}
    for (name, place), value in zip(_places(encoder), noisy.tolist(), strict=True):
        if place is None:
            out[name] = value
        else:
            low, high = place
            out[name] = steps * low + 0.5 * (high - low) * (value + steps)
    return out


def _places(encoder: Encoder) -> Iterator[tuple[str, tuple[float, float] | None]]:
    """Every coordinate, with the range that it represents on [-1, 1]; None if it is a count."""
    names = iter(encoder.names)
    for column in encoder.columns:
        if column.bounds is not None or len(column.values) == 2:
            yield next(names), column.bounds or (0.0, 1.0)
        else:
            yield from ((next(names), None) for _ in column.values)
