"""The specification of a stream: one JSON object, checked before anything is spent.

Fields that do not belong to the specification itself are passed to the estimator under their own names, so that a new
option of an estimator is an option of the service; unknown options are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from reticent import checks
from reticent.privacy import Budget
from reticent.service.problems import Problem
from reticent.tables import Schema

KINDS = ("logistic", "linear", "total", "bandit")
PUBLISH = ("request", "every")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BUDGET = tuple(one.name for one in fields(Budget))
WEEK = 7 * 24 * 3600


@dataclass(frozen=True)
class Specification:
    """The specification of a stream.

    Parameters
    ----------
    name : str
        Letters, digits, ``_``, ``.`` and ``-``, at most 64.
    kind : {"logistic", "linear", "total", "bandit"}
        What the stream learns.
    schema : Schema or None
        Columns of a record, with public bounds; None for a bandit.
    budget : Budget
        Privacy budget of the whole stream.
    publish : {"request", "every"}
        Whether a decision is published after the last record of a request, or after every record.
    seed : int or None
        Seed of the noise, for experiments only: the guarantee says so.
    ledger : str or None
        Ledger that is charged; None is the stream's own.
    remember : int
        Seconds for which keys that contain their time are remembered.
    options : mapping
        Further arguments of the estimator.
    """

    name: str
    kind: str
    schema: Schema | None
    budget: Budget
    publish: str = "request"
    seed: int | None = None
    ledger: str | None = None
    remember: int = WEEK
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Any) -> Specification:
        """A specification from plain data, after checking it.

        Raises
        ------
        Problem
            If a field is missing or has a value that is not allowed.
        """
        if not isinstance(data, Mapping):
            raise Problem(422, "bad-specification", "a specification is a JSON object")
        given = dict(data)
        try:
            name = check_name(given.pop("name", None), "name")
            kind = checks.choice(given.pop("kind", None), "kind", KINDS)
            schema = given.pop("schema", None)
            if schema is not None:
                schema = Schema.from_dict(schema)
                for column in schema.columns:
                    _check_column(column.name)
            elif kind != "bandit":
                raise ValueError("schema is missing: the columns of a record with public bounds")
            budget = budget_from(given.pop("budget", None))
            publish = checks.choice(given.pop("publish", "request"), "publish", PUBLISH)
            seed = given.pop("seed", None)
            if seed is not None:
                seed = checks.integer(seed, "seed", low=0, high=2**63 - 1)
            ledger = given.pop("ledger", None)
            if ledger is not None:
                ledger = check_name(ledger, "ledger")
            remember = given.pop("remember", WEEK)
            remember = checks.integer(remember, "remember", low=60, high=520 * WEEK)
        except (ValueError, TypeError) as error:
            raise Problem(422, "bad-specification", str(error)) from None
        return cls(name, kind, schema, budget, publish, seed, ledger, remember, given)

    def check_options(self, known: Sequence[str]) -> None:
        """Refuse options that are not in this list."""
        for name in self.options:
            if name not in known:
                raise Problem(
                    422,
                    "bad-specification",
                    f"{name!r} is not an option of kind {self.kind!r} in this version; its options are "
                    f"{', '.join(known)}",
                )

    def with_seed(self, seed: int) -> Specification:
        """The same specification with another seed."""
        return replace(self, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which the same specification can be made."""
        out: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "budget": {
                name: value for name, value in vars(self.budget).items() if value is not None
            },
            "publish": self.publish,
            "seed": self.seed,
            "ledger": self.ledger,
            "remember": self.remember,
        }
        if self.schema is not None:
            out["schema"] = self.schema.to_dict()
        return out | dict(self.options)


def check_name(value: Any, what: str) -> str:
    """Check a name that is used in addresses."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            f"{what} must be 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or a digit"
        )
    return value


def _check_column(name: str) -> None:
    """Refuse column names that JSON would have to escape, which the decoder of records does not support."""
    if any(letter in '"\\' or letter < " " or "\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(
            f"column {name!r}: the columns of a stream have names without quotation marks, backslashes and control "
            "characters; rename it"
        )


def budget_from(data: Any) -> Budget:
    """A budget from plain data."""
    if not isinstance(data, Mapping):
        raise ValueError('budget is missing: {"epsilon": 1, "delta": 1e-6}, and "window" or "fade"')
    unknown = sorted(set(data) - set(_BUDGET))
    if unknown:
        raise ValueError(f"a budget has no {unknown[0]!r}; it has {', '.join(_BUDGET)}")
    if "epsilon" not in data:
        raise ValueError("budget.epsilon is missing: how much privacy may be spent, for example 1")
    return Budget(**data)
