"""Streams that play points and learn from their losses: a private bandit over HTTP."""

from __future__ import annotations

import inspect
from typing import Any

from reticent import sets
from reticent.bandit import ProjectionFreeBandit
from reticent.privacy import Guarantee, Participation
from reticent.service.problems import Problem
from reticent.service.records import Batch, check_persons
from reticent.service.specification import Specification
from reticent.state import parts
from reticent.state.lease import Lease
from reticent.state.persons import Persons

_LARGEST = 10_000  # largest dimension of a set, so that a request cannot exhaust the memory
_FLAT = 2_000  # that of a set in a hyperplane, which keeps a square matrix of this size
_NOT_OPTIONS = (
    "set", "budget", "seed", "private", "mirror", "calibration", "noise_precision", "participation",
)  # fmt: skip
_PERSONS = ("max_records", "min_gap", "max_persons")


class Player:
    """A bandit whose points are identified by tickets.

    Parameters
    ----------
    specification : Specification
        Specification of kind ``bandit``, with an option ``set``: ``{"kind": "Simplex", "dim": 3}``.
    state : dict, optional
        State from which to continue; by default the stream begins.
    limited : bool
        Whether to refuse sets that are larger than a new stream may have. Default: True.
    """

    def __init__(
        self,
        specification: Specification,
        state: dict[str, Any] | None = None,
        *,
        limited: bool = True,
    ) -> None:
        if state is not None:
            self._before = int(state["before"])
            self._bandit = ProjectionFreeBandit.from_state(state["bandit"])
            return
        known = inspect.signature(ProjectionFreeBandit).parameters
        mine = [name for name in known if name not in _NOT_OPTIONS]
        specification.check_options(["set", *mine, *_PERSONS])
        options = dict(specification.options)
        convex = _set(options.pop("set", None), "set")
        if limited:
            _check_size(convex)
        if options.get("values") is not None:
            options["values"] = tuple(options["values"])
        self._before = 0
        rule = Participation.of(*(options.pop(name, None) for name in _PERSONS))
        self._bandit = ProjectionFreeBandit(
            convex, specification.budget, seed=specification.seed, participation=rule, **options
        )

    @classmethod
    def renewed(
        cls, specification: Specification, state: dict[str, Any], decision: dict[str, Any]
    ) -> Player:
        """A bandit with fresh noise; tickets of the old one are closed."""
        before = int(state["before"]) + int(state["bandit"]["counts"][0])
        if specification.seed is not None:
            specification = specification.with_seed(specification.seed + before + 1)
        new = cls(specification, limited=False)  # it was created under the limits of its time
        new._before = before
        return new

    @property
    def steps(self) -> int:
        return self._before + self._bandit.steps

    @property
    def position(self) -> int:
        return self._bandit._position[1]

    @property
    def lease(self) -> Lease:
        return self._bandit._lease

    @property
    def guarantee(self) -> Guarantee:
        return self._bandit.guarantee

    @property
    def persons(self) -> Persons | None:
        return self._bandit._persons

    def room(self) -> int | None:
        horizon = self._bandit.horizon
        return None if horizon is None else horizon - self._bandit.steps

    def check(self, batch: Batch) -> None:
        self.learn(batch)

    def learn(self, batch: Batch) -> None:
        raise Problem(
            409,
            "wrong-kind",
            "a bandit learns from the losses of its points: POST /ask, play the point, POST /tell",
        )

    def ask(self) -> dict[str, Any]:
        """The next point to play, and its ticket."""
        point = self._bandit.ask()
        return {"ticket": self._before + point.number, "point": point.tolist()}

    def tell(self, ticket: int, value: float | None, person: str | None = None) -> None:
        """Report the loss of a point, and whose it is if persons are protected; None if there will be none."""
        if ticket <= self._before:
            raise Problem(
                409,
                "late-ticket",
                f"ticket {ticket} was closed when the service was adopted; ask again",
            )
        if self._bandit.participation is None:
            person = None  # if single values are protected, their person does not matter
        elif person is None and value is not None:
            raise Problem(
                422,
                "no-person",
                'this stream protects persons: send "person" with the id of the value\'s person',
            )
        if person is not None and value is not None:
            table = self._bandit._persons
            assert table is not None
            check_persons(table, [person], self._bandit._total.steps + 1)
        try:
            self._bandit.tell(value, ticket - self._before, person)
        except ValueError as error:
            raise Problem(409, "late-ticket", str(error)) from None

    def decision(self) -> dict[str, Any]:
        return {"point": self._bandit.decision.tolist()}

    def diagnostics(self) -> dict[str, Any]:
        bandit = self._bandit
        return {
            "asked": bandit.steps,
            "answered": bandit.answered,
            "outstanding": bandit.outstanding,
            "values_clipped": bandit.clipped,
        }

    def state(self) -> dict[str, Any]:
        return {"before": self._before, "bandit": self._bandit.state()}


def _kinds() -> list[str]:
    """The names of the sets that a description may name."""
    return [
        name
        for name in sets.__all__
        if isinstance(kind := getattr(sets, name), type)
        and issubclass(kind, sets.ConvexSet)
        and kind is not sets.ConvexSet
    ]


def _set(description: Any, name: str) -> Any:
    return parts.rebuild(_part(description, name))


def _part(description: Any, name: str) -> dict[str, Any]:
    """The description of a set, checked, in the form in which states have it; it may contain other sets."""
    known = _kinds()
    plain = description if isinstance(description, dict) else {}
    arguments: Any = {word: value for word, value in plain.items() if word != "kind"}
    if set(plain) == {"part"} and isinstance(plain["part"], dict):  # in that form already
        plain = plain["part"]
        arguments = plain.get("arguments")
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in known or not isinstance(arguments, dict):
        raise ValueError(
            f'{name} must be like {{"kind": "Simplex", "dim": 3}}, with a kind among '
            f"{', '.join(known)}"
        )
    for word, value in arguments.items():
        size = value if isinstance(value, int) else len(value) if isinstance(value, list) else 0
        if size > _LARGEST:
            raise ValueError(f"{name}.{word} is larger than a service accepts, {_LARGEST}")
    inner = {word: _argument(value, f"{name}.{word}") for word, value in arguments.items()}
    return {"place": "sets", "kind": kind, "arguments": inner}


def _argument(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {"part": _part(value, name)}
    if isinstance(value, list):
        return [_argument(item, name) for item in value]
    return value


def _check_size(convex: Any) -> None:
    if convex.dim > _LARGEST:
        raise ValueError(
            f"set has {convex.dim:,} dimensions, and a service accepts at most {_LARGEST:,}"
        )
    if convex.dim > _FLAT and convex.is_flat:
        raise ValueError(
            f"set has {convex.dim:,} dimensions and lies in a hyperplane; a service accepts at most {_FLAT:,} then"
        )
