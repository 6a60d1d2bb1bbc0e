"""White-box audit lines of bandits: values are reported one by one, and every decision is visible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from reticent import bandit, sets
from reticent.audit.whitebox_matching import InputPair, Outcome
from reticent.audit.whitebox_records import (
    BOTH,
    HUGE,
    Case,
    FloatArray,
    Run,
    case,
)
from reticent.noise import Source
from reticent.privacy import Budget, Participation


def _played(make: Callable[[], bandit.Bandit], see: Callable[[FloatArray], float]) -> Run:
    """Report the values one by one (None: the null record); the output is every decision."""

    def run(data: Any, source: Source) -> Outcome:
        learner = make()
        seen = []
        for value in data:
            learner.ask()
            seen.append(see(learner.decision))
            learner.tell(value)
        return Outcome(seen, learner.guarantee)

    return run


def _answers(
    make: Callable[[], bandit.Bandit],
    age: int | None = None,
    see: Callable[[FloatArray], float] | None = None,
) -> Run:
    """Report the values one by one, each with its person; the decision of a play responds to all totals before it.

    A value changes sign if its point lies on the other side, so that a person's answers add up.
    """

    def run(data: Any, source: Source) -> Outcome:
        learner = make()
        claim = learner.guarantee if age is None else learner.guarantee.at(age)
        seen = []
        for value, name in data:
            point, decision = learner.ask(), learner.decision
            seen.append((see or _logit)(decision))
            side = math.copysign(1.0, point[0] - decision[0])
            learner.tell(None if value is None else side * value, person=name)
        return Outcome(seen, claim)

    return run


def _answering(neighbours: str, plays: int, first: int = 0) -> Iterator[InputPair]:
    """One person answers every play from the first on, far outside the range; all answers are blanked or replaced."""
    names = ["ann" if place >= first else f"{place}" for place in range(plays)]
    here = [(5.0 if name == "ann" else 0.0, name) for name in names]
    there = [(None if neighbours == "zero-out" else -5.0, name) for name in names[first:]]
    yield InputPair(here, [*here[:first], *there], f"all answers of a person from play {first} on")
    if neighbours == "replace":
        late = [(0.0, "eve")] + [(-5.0, "bob")] * (plays - 1)
        yield InputPair(here, late, "replaced by a person who comes later")


def bandits_of_persons() -> Iterator[Case]:
    """Bandits that ask one person repeatedly, with and without a horizon, and guarantees by age; a play is a round."""
    plays, rule = 8, Participation(2, 3)
    free = partial(
        bandit.ProjectionFreeBandit, sets.Simplex(2), mirror="entropy", stale=False, centring="middle",
        lipschitz=1.0, values=(-1.0, 1.0), step=1e-3, smoothing=0.3, participation=rule,
    )  # fmt: skip
    for neighbours in BOTH:
        budget = Budget(1.0, 1e-6, neighbours)
        makes = {
            "of persons": partial(free, budget, horizon=plays, batches=plays),
            "tree, of persons": partial(free, budget, horizon=plays, batches=plays, total="tree"),
            "no horizon, of persons": partial(free, budget, batches=256),
        }
        for words, make in makes.items():
            # without a horizon the guarantee covers more totals than are seen here: compare with that of their age
            age = plays - 1 if words.startswith("no horizon") else None
            yield case(
                f"ProjectionFreeBandit, {words}, {neighbours}",
                _answers(make, age),
                partial(_answering, neighbours, plays),
                quick=words != "tree, of persons",
            )
        projected = partial(
            bandit.ProjectedBandit, sets.Box([-1.0], [1.0]), budget, horizon=plays, lipschitz=1.0,
            values=(-1.0, 1.0), step=1e-3, smoothing=0.3, participation=rule,
        )  # fmt: skip
        yield case(
            f"ProjectedBandit of persons, {neighbours}",
            _answers(projected, None, _first),
            partial(_answering, neighbours, plays),
            quick=neighbours == "replace",
        )
    fading = Budget(1.0, 1e-6, fade=((4, 1.0), (12, 1.5)))
    for age in (4, 12):
        # the decision of a play responds to the totals before it
        yield case(
            f"ProjectionFreeBandit of persons, fading, age {age}",
            _answers(partial(free, fading, batches=256), age),
            partial(_answering, BOTH[0], age + 4, 3),
            quick=age == 4,
        )


def _logit(point: FloatArray) -> float:
    """The noisy total behind a point: on a simplex with two corners the response of the entropy map is its logit."""
    return math.log(point[0] / point[1])


def _first(point: FloatArray) -> float:
    return float(point[0])


def _values(neighbours: str, plays: int) -> Iterator[InputPair]:
    for place in (0, 1, plays // 2):
        for size in (1.0, 5.0, HUGE) if place == 0 else (5.0,):
            here: list[float | None] = [0.0] * plays
            there = list(here)
            here[place], there[place] = size, None if neighbours == "zero-out" else -size
            yield InputPair(here, there, f"value {place} is {size:g}")


def bandits() -> Iterator[Case]:
    """Both bandits. The batches of the last plays are never released, so the differing record comes early."""
    plays = 6
    common: dict[str, Any] = {
        "horizon": plays,
        "lipschitz": 1.0,
        "values": (-1.0, 1.0),
        "step": 1e-3,
        "smoothing": 0.3,
    }
    for neighbours in BOTH:
        budget, pure = Budget(1.0, 1e-6, neighbours), Budget(1.0, 0.0, neighbours)
        free = partial(
            bandit.ProjectionFreeBandit, sets.Simplex(2), batches=plays, mirror="entropy", **common
        )
        makes: dict[str, tuple[Any, Callable[[FloatArray], float]]] = {
            "correlated": (partial(free, budget, centring="middle"), _logit),
            "tree, not stale": (
                partial(free, budget, centring="middle", total="tree", stale=False),
                _logit,
            ),
            "laplace": (partial(free, pure, centring="middle", noise="laplace"), _logit),
            "gamma": (partial(free, pure, centring="middle", noise="gamma"), _logit),
            "adaptive": (partial(free, budget, centring="adaptive"), _logit),
            "no horizon": (
                partial(free, budget, centring="middle", horizon=None, batches=256),
                _logit,
            ),
            "projected": (
                partial(bandit.ProjectedBandit, sets.Box([-1.0], [1.0]), budget, **common),
                _first,
            ),
        }
        for words, (make, see) in makes.items():
            name = "ProjectedBandit" if words == "projected" else f"ProjectionFreeBandit, {words}"
            yield case(
                f"{name}, {neighbours}", _played(make, see), partial(_values, neighbours, plays)
            )
    yield from bandits_of_persons()
