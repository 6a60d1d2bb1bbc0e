"""The interface of every bandit learner: rounds of plays around one decision, a private total, and a response.

This is NOISYOCO of [bandit] (Algorithm 2) with the one-point gradient estimate of Flaxman, Kalai and McMahan (2005):
ask() plays a random point of a small sphere around the decision, tell() turns the value into n / zeta (value -
baseline) u, a batch of these is added to a private running total, and the response to the total is the next decision.
Derivations and proofs: docs/algorithms/bandit.md.

Bandits do not use the loop of :mod:`reticent.online.kernels`. There every record moves the total and the decision; here
a whole batch does, and only the value at a point near the decision is seen.

The direction u of a play is public, because the point was played. Given all that was played, a record affects one
term of one batch and nothing else. So one record moves the total by at most n (high - low) / (2 zeta), whatever the
length of a batch, and by 9 per cent more if the baseline is learnt too (``EpochPlan.norm``).
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from reticent import checks
from reticent.bandit import kernels, plan, playing, totals
from reticent.bandit.centring import Centring
from reticent.bandit.mirror import KNOWN, Mirror
from reticent.bandit.rounds import Rounds
from reticent.bandit.tickets import OpenTickets, Ticket, issue
from reticent.checks import FloatArray
from reticent.privacy import (
    Budget,
    Guarantee,
    Participation,
    PrivacyLeakWarning,
    charge,
    uncharged,
)
from reticent.sets import ConvexSet
from reticent.state import parts
from reticent.state.files import check_kind
from reticent.state.lease import Lease, claim
from reticent.state.twins import Twins
from reticent.sums.running import refuse_ids
from reticent.trace import Play

STATE_VERSION = 4


class Bandit(Twins, Rounds):
    """Base class of the bandit learners; `ProjectionFreeBandit` documents the parameters.

    See Also
    --------
    ProjectionFreeBandit : For sets without a cheap projection.
    ProjectedBandit : For sets with a projection.
    """

    def __init__(self, set: ConvexSet, **arguments: Any) -> None:
        super().__init__(set, **arguments)
        self._shape = None if len(set.shape) == 1 else set.shape
        charge(self._guarantee, f"{type(self).__name__} on {set!r}")
        for caveat in self._guarantee.caveats if self.private else ():
            warnings.warn(caveat, PrivacyLeakWarning, stacklevel=3)

    def _begin(self) -> None:
        super()._begin()
        self._lease = Lease()
        self._tickets = OpenTickets(self.patience)
        self.clipped = 0
        self._asked = self._answered = self._moves = 0
        self._waiting = False

    @property
    def _lock(self) -> Any:
        """The lease's lock, which all copies share. It is held while a step is taken and is not reentrant."""
        return self._lease.lock

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """The arguments with which the learner is built again from a state."""

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self._moves

    def _check_turn(self) -> None:
        if self._lease.furthest != self._moves:
            self._lease.check(self._moves, "learner", "move")

    # What users call -------------------------------------------------------------------------------

    def ask(self) -> Ticket:
        """The next point to play, in the shape of the set.

        Returns
        -------
        Ticket
            The point, which is also the ticket for its value.
        """
        with self._lock:
            if self._lease.furthest != self._moves:
                self._check_turn()
            if self._in_round == self._length or not self.stale:
                self._prepare_play()
            directions, response = self._directions, self._response
            if directions.row == len(directions.inner):
                directions.ready()
            row, out = directions.row, np.empty(self._base.size)
            response.work_and_place(self._base, self._plan.smoothing, directions.outer, row, out)
            if self._waiting:
                self._shelve()
            self._direction, self._factor = directions.inner[row], self._plan.factor
            directions.row = row + 1
            self._in_round += 1
            number = self._asked = self._asked + 1
            self._waiting = True
            self._moves += 1
            self._lease.furthest = self._moves
        return issue(out if self._shape is None else out.reshape(self._shape), number)

    def _shelve(self) -> None:
        """Set the newest ticket aside if it is still open."""
        if self._waiting:
            self._tickets.keep(self._asked, self._direction, self._factor)
            self._tickets.forget(self._asked + 1)
            self._waiting = False

    def tell(
        self, value: float | None, ticket: Ticket | int | None = None, person: Any = None
    ) -> None:
        """Take the loss of a point that was played.

        Parameters
        ----------
        value : float or None
            The loss, which is clipped to the range of values. ``None`` says that there will be none; the play then
            counts as a null record.
        ticket : Ticket or int, optional
            What ``ask`` returned, or its number; by default the last point that was asked for.
        person : int, str or bytes, optional
            Id of the person whose value it is, if persons are protected. A value beyond the person's limit, or a
            second one in the same round, counts as a null record.
        """
        if value is not None and not (type(value) is float and math.isfinite(value)):
            value = checks.number(value, "value", secret=True)
        with self._lock:
            if self._lease.furthest != self._moves:
                self._check_turn()
            number = self._asked if ticket is None else _number(ticket)
            persons, whose = self._persons, None
            if persons is None:
                refuse_ids(None, person)
            elif value is not None and (number in self._tickets or self._is_newest(number)):
                whose = persons.digests([person])
                persons.check_room(whose, self._total.steps + 1)
            # The ticket is closed before its value is taken, so that the same record cannot count twice if
            # it is told again after an interrupt.
            if self._is_newest(number):
                direction, factor = self._direction, self._factor
                self._waiting = False
            elif number in self._tickets:
                direction, factor = self._tickets.get(number)
                self._tickets.close(number)
            else:
                raise ValueError(self._no_ticket(number))
            self._moves += 1
            self._lease.furthest = self._moves
            if whose is not None and not persons.admit(whose, self._total.steps + 1)[0]:  # type: ignore[union-attr]
                value = None  # beyond the limit of this person, or the second in this round
            if value is not None:
                centring = self._centring
                w = (value - centring.baseline) / centring.clip
                if abs(w) > 1.0:
                    w = math.copysign(1.0, w)
                    self.clipped += 1
                made = self._plan
                force = made.unit * (factor / made.factor)
                kernels.take(direction, w, force, made.watch, self._pending, *self._gauge)
            self._answered += 1

    def _is_newest(self, number: int) -> bool:
        return number == self._asked and self._waiting

    def _no_ticket(self, number: int) -> str:
        if self._asked == 0:
            return "tell() was called before ask(), so there is no point that this value could belong to; ask first"
        if not 1 <= number <= self._asked:
            return f"ticket {number} was never issued; the last one is {self._asked}"
        if self._asked - number > self.patience:
            return (
                f"ticket {number} has been answered, or was closed as a null record after patience="
                f"{self.patience} further plays; build the learner with more patience"
            )
        return f"ticket {number} has been answered already; each point has one value"

    def run(
        self,
        losses: Any,
        count: int | None = None,
        *,
        loss: Any = None,
        keep: int = 1000,
        person: Any = None,
    ) -> Play:
        """Play many rounds against losses that are known to the caller, as a simulation.

        Parameters
        ----------
        losses : array or callable
            Rows a_1, a_2, ... of losses ``loss.value(x, a_t)``; or a function ``losses(t, x)`` of the number of the
            play, starting at 0, and the point.
        count : int, optional
            Number of plays; needed for a function, by default all rows.
        loss : Loss, optional
            By default the linear loss <a, x>. ``losses.Linear`` and ``losses.Quadratic`` are compiled.
        keep : int
            Approximate number of played points to keep.
        person : array, optional
            Id of the person of each play, if persons are protected.

        Returns
        -------
        Play
            The points, and diagnostics that read private data.
        """
        return playing.run(self, losses, count, loss, keep, person)

    @property
    def decision(self) -> FloatArray:
        """The point around which plays are made now, without exploration. Covered by the guarantee."""
        return self._point.reshape(self.set.shape).copy()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every record or person, and for all points of the learner's life together."""
        return self._guarantee

    @property
    def total(self) -> Any:
        """The running total, on which all privacy is spent; that of the current epoch if each has its own.

        It contains exact sums, so it is a secret.
        """
        return self._total

    @property
    def steps(self) -> int:
        """Number of points that have been asked for."""
        return self._asked

    @property
    def answered(self) -> int:
        """Number of points that have been answered, null records included. A diagnostic: it reads private data."""
        return self._answered

    @property
    def outstanding(self) -> int:
        """Number of open tickets. A diagnostic: it reads private data."""
        return len(self._tickets) + self._waiting

    @property
    def smoothing(self) -> float:
        """Radius of the sphere around the decision on which points are played."""
        return self._plan.smoothing

    @property
    def batch(self) -> int:
        """Number of plays in a round."""
        return self._plan.batch

    @property
    def rounds(self) -> int:
        """Number of rounds in the horizon, or in the epoch."""
        return self._plan.rounds

    # Saved states ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to continue as if nothing had happened.

        It is a secret, because it contains exact sums.
        """
        with self._lock:
            self._lease.publish(self, "learner")
            waiting = [self._direction.copy(), self._factor] if self._waiting else None
            return {
                "version": STATE_VERSION,
                "kind": type(self).__name__,
                "id": self._lease.id,
                "moves": self._moves,
                "set": parts.describe(self.set),
                "arguments": self._arguments(),
                "plan": self._plan.to_dict(),
                "round": [self._epoch, self._round, self._in_round, self._sums_in_total],
                "counts": [self._asked, self._answered, self.clipped],
                "waiting": waiting,
                "tickets": self._tickets.state(),
                "point": self._point.copy(),
                "gradients": self._sum_of_gradients.copy(),
                "last": self._last.copy(),
                "pending": self._pending.copy(),
                "total": self._total.state(),
                "centring": self._centring.state(),
                "directions": self._directions.state(),
                "response": self._response.state(),
            }

    @classmethod
    def from_state(
        cls, state: dict[str, Any], *, set: ConvexSet | None = None, mirror: Mirror | None = None
    ) -> Self:
        """Continue from a state; refused with ForkError if its stream has already been continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.
        set : ConvexSet, optional
            The set, if it is user-defined or cannot be rebuilt from data.
        mirror : Mirror, optional
            The mirror map, if it is user-defined.
        """
        check_kind(state, cls, STATE_VERSION)
        convex = parts.restore(state["set"], set, "set")
        arguments = dict(state["arguments"])
        if arguments["budget"] is not None:
            arguments["budget"] = Budget(**arguments["budget"])
        if arguments["participation"] is not None:
            arguments["participation"] = Participation(**arguments["participation"])
        if arguments["values"] is not None:
            arguments["values"] = tuple(arguments["values"])
        if mirror is not None:
            arguments["mirror"] = mirror
        elif arguments.get("mirror", "euclidean") not in KNOWN:
            raise ValueError(
                f"the state was saved with a user-defined mirror map, {arguments['mirror']}; "
                "pass it again: from_state(state, mirror=...)"
            )
        lease = claim(state["id"], state["moves"], "learner", "move")
        learner = uncharged(lambda: cls(convex, **arguments))
        learner._restore(state, lease)
        return learner

    def _restore(self, state: dict[str, Any], lease: Lease) -> None:
        self._lease, self._moves = lease, int(state["moves"])
        lease.hold(self)
        self._plan = plan.EpochPlan(**state["plan"])
        self._epoch, number, done, self._sums_in_total = state["round"]
        self._set_round(number, done)
        self._asked, self._answered, self.clipped = state["counts"]
        self._waiting = state["waiting"] is not None
        if self._waiting:
            self._direction, self._factor = state["waiting"]
        self._tickets.restore(state["tickets"])
        self._point = state["point"].copy()
        self._sum_of_gradients, self._last = state["gradients"].copy(), state["last"].copy()
        self._total = totals.restore(state["total"])
        self._pending = state["pending"].copy()
        self._gauge = self._total._gauge
        self._centring = Centring.from_state(state["centring"], self._plan)
        self._directions.restore(state["directions"])
        self._response.restore(state["response"])
        self._rebase()
        self._guarantee = self._make_guarantee()

    def _common_arguments(self) -> dict[str, Any]:
        budget = self.budget
        return {
            "budget": None if budget is None else dataclasses.asdict(budget),
            "lipschitz": self.lipschitz,
            "horizon": self.horizon,
            "values": None if self.values is None else list(self.values),
            "private": self.private,
            "total": "auto" if budget is None else self._total_word,
            "noise": None if budget is None else self._noise,
            "smoothing": self._smoothing,
            "feasibility": self.feasibility,
            "step": self._step,
            "centring": self.centring,
            "calibration": self.calibration,
            "patience": self.patience,
            "participation": None
            if self.participation is None
            else dataclasses.asdict(self.participation),
            "seed": self._seed,
            "noise_precision": self.noise_precision,
        }

    def _given(self) -> dict[str, Any]:
        """The set and a user-defined mirror map, for a copy that need not rebuild them."""
        return {"set": self.set} | ({} if self.mirror.name in KNOWN else {"mirror": self.mirror})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.set!r} at play {self._asked}: {self.guarantee}>"


def _number(ticket: Any) -> int:
    return ticket.number if isinstance(ticket, Ticket) else checks.integer(ticket, "ticket")
