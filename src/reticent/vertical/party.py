"""A party: holds its own columns, answers a coordinator's requests, keeps its own ledger.

The user node of Algorithm 2 of Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse
Optimization with Feature-Wise Distributed Data*: what may be asked, in which order, and at what cost. The computations
of a round, and what is corrected there, are in :mod:`reticent.vertical.rounds`; see docs/algorithms/vertical.md.

A request may come twice, and the site may be killed in between. The state is on disk before the answer leaves, and a
repeated request gets the same bytes; nothing is ever drawn again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import traceback
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.losses import records
from reticent.noise import Source
from reticent.noise.source import generation
from reticent.privacy import Budget, BudgetExceeded, Guarantee, Ledger
from reticent.vertical import messages
from reticent.vertical.alignment import alignment_digest, hash_ids
from reticent.vertical.columns import Columns
from reticent.vertical.messages import (
    Begin,
    Consider,
    Done,
    End,
    Hello,
    MalformedMessage,
    Message,
    Proposal,
    Ready,
    Refusal,
    RequestRefused,
    Welcome,
)
from reticent.vertical.party_memory import Memory, SiteFile
from reticent.vertical.plan import Plan, Terms, guarantee_of
from reticent.vertical.rounds import Round

log = logging.getLogger("reticent.vertical")

PRECISIONS = ("lattice", "float")
FINEST = 2.0**-30
"""Smallest noise that fits on the lattice, relative to the largest sum to which it could be added."""

LONGEST = 1000
"""Largest number of characters of a refusal, which may quote what the coordinator sent."""


def _check_terms(name: Any, key: Any, ledger: Any) -> None:
    if not isinstance(name, str) or not name.strip() or len(name.encode()) > 256:
        raise ValueError(f"name must be a non-empty string of at most 256 bytes, got {name!r}")
    if not isinstance(key, bytes) or len(key) < 16:
        raise ValueError(
            "key must be at least 16 bytes that all parties share and the coordinator does not know; create it "
            "once with secrets.token_bytes(32) and distribute it"
        )
    if not isinstance(ledger, Ledger | Budget):
        raise TypeError(f"ledger must be a reticent.Ledger or a reticent.Budget, got {ledger!r}")


class Party:
    """One owner of columns.

    Parameters
    ----------
    name : str
        Name of the party for the coordinator.
    features : array or CSR matrix of shape (rows, columns)
        The party's columns, which never leave this object.
    ids : sequence of str or int
        Id of the person of each row, in order; every party must have the same. The null row, which a blanked record
        becomes, consists of zeros and has the label 0.
    ledger : Ledger or Budget
        What this party allows, whatever it is asked. A Budget together with ``folder`` opens (or reopens) a ledger file
        in that folder. A Ledger must have been made with ``adaptive=True``, as the party does itself, because the
        coordinator may choose the next run by the answers of the last.
    key : bytes
        At least 16 bytes, shared by the parties and unknown to the coordinator; ids are compared by a hash with this
        key.
    labels : array, optional
        One number per row.
    feature_bound : float
        Bound to which entries of features are clipped, in absolute value. Default: 1.
    label_bound : float
        Bound to which labels are clipped, in absolute value. Default: 1.
    folder : path, optional
        Folder of this site, created with mode 0700, for what must survive a crash. Without it nothing survives the
        object.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        "float" is for simulations; the guarantee says so. Default: "lattice".

    See Also
    --------
    Coordinator : The other side of the protocol.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent.vertical import Party, messages
    >>> party = Party(
    ...     "clinic", np.eye(4), ids=range(4), ledger=reticent.Budget(1.0, 1e-6), key=bytes(16)
    ... )
    >>> answer = messages.decode(party.handle(messages.Hello(run=bytes(16), sequence=0).encode()))
    >>> answer.name, answer.rows, answer.columns
    ('clinic', 4, 4)
    >>> messages.decode(party.handle(b"what?")).reason
    'malformed'
    """

    def __init__(
        self,
        name: str,
        features: Any,
        *,
        ids: Iterable[str | int],
        ledger: Ledger | Budget,
        key: bytes,
        labels: Any = None,
        feature_bound: float = 1.0,
        label_bound: float = 1.0,
        folder: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        _check_terms(name, key, ledger)
        bound = checks.number(feature_bound, "feature_bound", low=0.0, high=1e50, open_low=True)
        label = checks.number(label_bound, "label_bound", low=0.0, high=1e50, open_low=True)
        checks.choice(noise_precision, "noise_precision", PRECISIONS)
        self._columns = Columns(features, bound)
        if isinstance(ledger, Ledger) and not ledger.adaptive:
            raise ValueError(
                "a party needs Ledger(..., adaptive=True): a coordinator may choose the next run by the answers of the "
                "last one, which a planned ledger does not cover"
            )
        budget = ledger if isinstance(ledger, Budget) else ledger.budget
        budget.must_be_for_ever("a party's ledger", "its answers are kept for ever")
        self.name = name
        self._labels: FloatArray | None = None
        if labels is not None:
            given = records.labels(labels, self.rows, "labels")
            self._labels = np.clip(given, -label, label)
        self._ids = hash_ids(ids, self.rows)
        self._key = key
        self._source = Source(seed)
        self._terms = Terms(
            bound, label, budget.neighbours, noise_precision == "lattice", self._source.seeded
        )
        self._file = SiteFile(folder)
        self._memory = Memory()
        self._lock = threading.Lock()
        if isinstance(ledger, Budget):
            path = None if self._file.folder is None else self._file.folder / "ledger"
            ledger = Ledger(ledger, path, adaptive=True)
        self.ledger = ledger
        self._checked = ""
        self._generation = generation()
        with self._file.locked():
            self._refresh()

    @property
    def rows(self) -> int:
        return self._columns.shape[0]

    @property
    def columns(self) -> int:
        return self._columns.shape[1]

    @property
    def spent(self) -> Guarantee | None:
        """The guarantee of everything that the ledger has paid for; None if that is nothing."""
        return self.ledger.spent

    def __repr__(self) -> str:
        return f"Party({self.name!r}, {self.rows} rows, {self.columns} columns)"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a party cannot be copied; give its folder to a new party, and drop this one"
        )

    # ------------------------------------------------------------ requests and answers

    def handle(self, request: bytes) -> bytes:
        """Answer any request; a request that cannot be answered gets a :class:`messages.Refusal`.

        It never raises, and reveals nothing about the records beyond what the ledger has paid for.

        Parameters
        ----------
        request : bytes
            An encoded message.

        Returns
        -------
        bytes
            The encoded answer.
        """
        run, sequence = bytes(16), 0
        try:
            message = messages.decode(request)
            run, sequence = message.run, message.sequence
            with self._lock, self._file.locked():
                if self._file.folder is None and self._generation != generation():
                    raise RequestRefused(
                        "sequence",
                        "this process is a copy of the site's process, and two answers would carry different noise; "
                        "give the site a folder, which all its processes share",
                    )
                self._refresh()
                return self._answer(message, bytes(request))
        except MalformedMessage as error:
            reason, text = "malformed", str(error)
        except RequestRefused as error:
            reason, text = error.reason, str(error)
        except BudgetExceeded as error:
            log.warning("party %s: %s", self.name, error)
            reason = "budget"
            text = "this plan exceeds what is left of the site's own budget"
        except Exception as error:
            # Neither the message nor values: either might contain a record.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("party %s: %s at\n%s", self.name, type(error).__name__, where)
            reason, text = "internal", "something failed at the site; its own log says where"
        log.warning("party %s refused (%s): %s", self.name, reason, text)
        return Refusal(run=run, sequence=sequence, reason=reason, text=text[:LONGEST]).encode()

    def _refresh(self) -> None:
        found = self._file.changed(self.name)
        if found is not None:
            self._memory = found[0]
            self._source = Source.from_state(found[1])
            # the noise comes from the generator in the folder, whatever seed was given here
            self._terms = replace(self._terms, seeded=self._source.seeded)

    def _keep(self, memory: Memory) -> None:
        if self._file.folder is not None:
            self._file.save(memory.state(self.name, self._source.state()))
        self._memory = memory

    def _note(self, memory: Memory) -> None:
        if self._file.folder is not None:
            self._file.append(self._memory.change_to(memory, self._source.state()))
        self._memory = memory

    def _answer(self, message: Message, request: bytes) -> bytes:
        if isinstance(message, Hello):
            return self._welcome(message).encode()
        if isinstance(message, Consider):
            return self._consider(message).encode()
        if not isinstance(message, messages.REQUESTS):
            raise RequestRefused("malformed", f"a {type(message).__name__} is not a request")
        digest = hashlib.sha256(request).hexdigest()
        known = self._known(message, digest)
        if known is not None:
            return known
        memory = self._memory
        if isinstance(message, Begin):
            if message.sequence != 1:
                raise RequestRefused("sequence", "a run begins with sequence number 1")
            memory, answer = self._begin(message, digest)
        else:
            if message.run.hex() != memory.run or memory.phase != "open":
                raise RequestRefused("sequence", "this run is not open here")
            self._check_open(memory)
            if message.sequence != len(memory.answers) + 1:
                raise RequestRefused(
                    "sequence",
                    f"request {message.sequence} came where {len(memory.answers) + 1} is due",
                )
            memory, answer = self._act(message)
        data = answer.encode()
        memory = memory.with_(digests=(*memory.digests, digest), answers=(*memory.answers, data))
        if isinstance(message, Begin):
            self._keep(memory)
        else:
            self._note(memory)
        return data

    def _act(self, message: Message) -> tuple[Memory, Message]:
        memory = self._memory
        if isinstance(message, End):
            done = Done(run=message.run, sequence=message.sequence)
            return memory.with_(phase="closed"), done
        plan = Plan(**memory.plan)
        self._source.ratchet()
        held = Round(self._columns, self._labels, self._terms, plan, memory, self._source)
        return held.answer(message)

    def _known(self, message: Message, digest: str) -> bytes | None:
        """The stored answer to the same request; None if its number is new."""
        run, number, memory = message.run.hex(), message.sequence, self._memory
        if run in memory.past:
            raise RequestRefused("sequence", "this run is over: another one was begun after it")
        if run != memory.run or not 1 <= number <= len(memory.answers):
            return None
        if memory.digests[number - 1] != digest:
            raise RequestRefused(
                "sequence",
                f"request {number} was answered before, and this is not the same request; go on "
                "with the run as it was, or begin another",
            )
        return memory.answers[number - 1]

    def _welcome(self, message: Hello) -> Welcome:
        digest = alignment_digest(self._ids, self._key, message.run)
        terms = self._terms
        return Welcome(
            run=message.run, sequence=message.sequence, name=self.name, rows=self.rows,
            columns=self.columns, feature_bound=terms.feature_bound,
            label_bound=terms.label_bound, has_labels=self._labels is not None,
            replace=terms.neighbours == "replace", lattice=terms.lattice, seeded=terms.seeded,
            digest=digest,
        )  # fmt: skip

    # ------------------------------------------------------------ the beginning of a run

    def _consider(self, message: Consider) -> Ready:
        """The answer that the same proposal would get as a :class:`Begin` now.

        This includes proposals that were begun already, because a restarted coordinator repeats all its requests.
        """
        if message.sequence != 0:
            raise RequestRefused("sequence", "a plan is considered before its run, with number 0")
        request = self._plan(message).request(message.run, 1)
        digest = hashlib.sha256(request.encode()).hexdigest()
        known = self._known(request, digest)
        if known is not None:
            text = Ready.decode(known).guarantee
        else:
            _, guarantee, paid = self._weigh(request, digest)
            if not paid and not self.ledger.fits(guarantee):
                raise BudgetExceeded(
                    f"a plan does not fit in what is left of the budget. It would cost: "
                    f"{guarantee}. Left: {self.ledger.remaining}"
                )
            text = _text(guarantee)
        return Ready(run=message.run, sequence=0, guarantee=text)

    def _plan(self, message: Proposal) -> Plan:
        try:
            return Plan.of(message)
        except (ValueError, TypeError) as error:
            raise RequestRefused("plan", f"the plan is not valid: {error}") from None

    def _weigh(self, message: Proposal, digest: str) -> tuple[Plan, Guarantee, bool]:
        """The plan, its cost, and whether it was charged before a crash."""
        plan = self._plan(message)
        self._check(plan)
        old, cost = self._memory, guarantee_of(plan, self._terms)
        price = self._price(message.run.hex())
        opening = message.run.hex() == old.run and old.phase == "opening"
        if price is not None and not (opening and old.digests == (digest,)):
            raise RequestRefused(
                "plan",
                "this run was paid for, but what was answered in it is not known here any more; "
                "begin another run",
            )
        if price is not None:
            _check_price(price, cost)
        return plan, cost, price is not None

    def _begin(self, message: Begin, digest: str) -> tuple[Memory, Message]:
        plan, guarantee, paid = self._weigh(message, digest)
        run, old = message.run.hex(), self._memory
        opening = run == old.run and old.phase == "opening"
        # The intention is on disk before the ledger is charged, so that a crash between the two
        # is told from a lost file, after which the same run must not be answered anew.
        past = old.past if opening else (*old.past, *([old.run] if old.run else []))
        fresh = Memory(run=run, phase="opening", plan=asdict(plan), past=past)
        self._keep(fresh.with_(digests=(digest,)))
        if not paid:
            try:
                self.ledger.spend(guarantee, _what(run))
            except Exception:
                self._keep(old if not opening else Memory(past=past))
                raise
        answer = Ready(run=message.run, sequence=message.sequence, guarantee=_text(guarantee))
        return fresh.with_(phase="open"), answer

    def _price(self, run: str) -> str | None:
        """The guarantee that the ledger was charged for a run; None if it does not contain the run."""
        what = _what(run)
        paid = (entry.guarantee for entry in self.ledger.entries if entry.what == what)
        return next((_text(guarantee) for guarantee in paid), None)

    def _check_open(self, memory: Memory) -> None:
        """Refuse to continue a run that was charged under other terms or for another table.

        A restarted site may have been given either. Neither changes while this object lives, so each run is checked
        only once.
        """
        if self._checked == memory.run:
            return
        price = self._price(memory.run)
        if price is None:
            if self._file.folder is not None:  # a ledger kept in memory forgets, at a restart
                raise RequestRefused(
                    "budget", "this run is open here, but the site's ledger does not know it"
                )
            price = Ready.decode(memory.answers[0]).guarantee
        plan = Plan(**memory.plan)
        self._check(plan)
        _check_price(price, guarantee_of(plan, self._terms))
        self._checked = memory.run

    def _check(self, plan: Plan) -> None:
        if plan.rows != self.rows:
            raise RequestRefused("data", "the plan is for another number of rows")
        if plan.columns > self.columns:
            raise RequestRefused("plan", "the plan asks for more columns than there are")
        if plan.labels != "sketched" and self._labels is None:
            raise RequestRefused("data", "the plan needs labels, and this site has none")
        bound, label = self._terms.feature_bound, self._terms.label_bound
        least = {"sketch_scale": bound, "value_scale": bound * plan.clip, "label_scale": label}
        for field, size in least.items():
            scale = getattr(plan, field)
            if self._terms.lattice and 0.0 < scale < FINEST * self.rows * size:
                raise RequestRefused(
                    "plan", f"{field} = {scale:g} is too little noise for the lattice"
                )


def _check_price(price: str, cost: Guarantee) -> None:
    if price != _text(cost):
        raise RequestRefused(
            "plan",
            "this run was paid for on other terms (bounds, precision of the noise, what a record "
            "may change) than the site has now; start the site as it was, or begin another run",
        )


def _text(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_dict())


def _what(run: str) -> str:
    """How the ledger calls a run."""
    return f"feature-distributed run {run}"
