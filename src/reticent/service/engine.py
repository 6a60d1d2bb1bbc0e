"""Commit, then reveal: one thread that applies commands in groups, each group in one durable transaction.

Commands wait in a queue. The thread takes all of them, applies them one after the other in one transaction, saves the
state of every stream that they advanced, commits, and only then delivers the answers. Many requests share one sync of
the disk, and since noise belongs to the steps of a stream, no result depends on how requests were grouped.

Passing a small command to the thread and its answer back costs more than the command. While commits are quick and the
thread is idle, the event loop applies small commands itself, including the commit: all that arrived in one turn of the
loop as one group. Slower commits would delay other requests, and are left to the thread.

If a transaction fails, nobody has seen anything of it: the runners that it advanced are dropped and their streams set
back to what was committed. The commands are then tried one by one, so that a failing command does not affect others.

If several workers share a store, a stream is written by the worker that holds its lease
(:mod:`reticent.service.leases`), and every transaction checks the leases of the streams that it advances.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from reticent.service import persons, runners
from reticent.service.packing import pack, unpack
from reticent.service.problems import Problem
from reticent.service.sealing import Damaged, Ring, state_place
from reticent.service.specification import Specification
from reticent.service.store import (
    LeaseLost,
    OutputRow,
    ServiceStore,
    StateRow,
    StoreError,
    StoreFailed,
    StreamRow,
    Transaction,
)

if TYPE_CHECKING:
    from reticent.service.leases import Leases

log = logging.getLogger("reticent.service")

_GROUP = 256  # largest number of commands in a transaction
_SHORT = 64  # largest number of commands in a transaction of the event loop
_QUICK = 0.005  # up to this mean of recent transactions, in seconds, the event loop makes them
_LONG = (
    4 * _QUICK
)  # the most that one transaction counts in that mean, so that a single slow one changes nothing
_LIVE = 256  # largest number of runners in memory, about 1 MB each
_WAITING = 4096  # largest number of commands in the queue
_PATIENCE = 5.0  # a request that would wait for more seconds is refused with a time for a retry


class Command(Protocol):
    """Something to do in a transaction. If it refuses, it raises a Problem before it has changed a stream.

    What it has written by then is undone, unless it declares with ``careful = True`` that it refuses before it writes,
    which saves a savepoint per command. A command that declares this wrongly ends the transaction.

    A command about one stream that takes a fraction of a millisecond, as long as the stream's runner is in memory, may
    declare this with ``small = True``.
    """

    def apply(self, turn: Turn) -> Any:
        """Carry out the command, and return the answer."""


Deliver = Callable[[Any, BaseException | None], None]
Group = list[tuple[Deliver, Any, BaseException | None]]


@dataclass(frozen=True)
class _Item:
    """A command, the function that receives its answer, and whether that is called in the engine's thread."""

    command: Command
    done: Deliver
    direct: bool


@dataclass(frozen=True)
class Head:
    """The last committed decision of a stream, for its readers."""

    steps: int
    number: int
    body: bytes
    at: float


@dataclass
class Live:
    """A stream that the engine knows, and its runner if that is in memory."""

    row: StreamRow
    specification: Specification
    head: Head
    runner: runners.Runner | None = None
    position: int = 0  # position of the runner's lease at the last commit
    kept: persons.StoredPersons = field(default_factory=persons.StoredPersons)
    forgotten: float | None = None  # time before which keys were forgotten, once it was read


class Turn:
    """One transaction, as commands see it.

    Attributes
    ----------
    rows : Transaction
        The store.
    now : float
        Time of the transaction, in seconds since 1970.
    published : dict of int to list of OutputRow
        What the transaction publishes, by id of the stream.
    sources : dict of int to set of str
        Sources whose records led to these decisions, by id of the stream.
    acts : list of dict
        What the transaction does that is not a release: creations, tokens, charges.
    """

    def __init__(self, engine: Engine, rows: Transaction, now: float) -> None:
        self.rows, self.now, self._engine = rows, now, engine
        self.heads: dict[str, Head] = {}
        self.moved: dict[str, Live] = {}
        self.made: list[Live] = []
        self.gone: list[str] = []
        self.taken: dict[str, int] = {}
        self.renewed: dict[str, int] | None = None
        self.published: dict[int, list[OutputRow]] = {}
        self.sources: dict[int, set[str]] = {}
        self.acts: list[dict[str, Any]] = []
        self._held: set[str] = set()

    def stream(self, name: str) -> Live:
        """A stream by its name; nobody else writes to it until the transaction ends."""
        for live in self.made:
            if live.row.name == name:
                return live
        self.hold(name)
        return self._engine.live(name, held=True)

    def hold(self, name: str) -> None:
        """Hold a lease until the transaction ends, or refuse with :class:`LeaseLost` if another worker has it."""
        leases = self._engine.leases
        if leases is not None and name not in self._held:
            self.rows.hold(name, leases.token(name))
            self._held.add(name)

    def act(self, what: dict[str, Any]) -> None:
        """Record an administrative act in the same transaction."""
        self.acts.append(what)

    def head(self, live: Live) -> Head:
        """The current decision of a stream, including earlier commands of this transaction."""
        return self.heads.get(live.row.name, live.head)

    def runner(self, live: Live) -> runners.Runner:
        """The runner of a stream; call :meth:`touch` before it takes a step."""
        return self._engine.runner(live)

    def touch(self, live: Live) -> None:
        """Mark the state of a stream to be saved, because its runner is about to take a step."""
        self.moved[live.row.name] = live

    def publish(self, live: Live, outputs: list[OutputRow], source: str | None = None) -> None:
        """Publish decisions when the transaction is durable, with the source of their records, if any."""
        if source is not None:
            self.sources.setdefault(live.row.id, set()).add(source)
        self.published.setdefault(live.row.id, []).extend(outputs)
        last = outputs[-1]
        self.heads[live.row.name] = Head(last.steps, last.number, last.body, last.at)

    def output(self, live: Live, number: int) -> OutputRow | None:
        """A decision of a stream, of this transaction or an earlier one."""
        for output in self.published.get(live.row.id, ()):
            if output.number == number:
                return output
        return self.rows.output(live.row.id, number)

    def add(
        self, row: StreamRow, specification: Specification, runner: runners.Runner, body: bytes
    ) -> Live:
        """Add a stream, with its first decision."""
        identity = self.rows.add_stream(row)
        row = replace(row, id=identity)
        live = Live(row, specification, Head(0, 0, body, self.now), runner)
        persons.begin(runner, live.kept)
        self._engine.entrusted(runner)
        self.made.append(live)
        self.moved[row.name] = live
        self.publish(live, [OutputRow(0, 0, self.now, body)])
        return live


def _applied(command: Command, turn: Turn) -> tuple[Any, BaseException | None]:
    """Carry out one command of a transaction, and return its answer, or what refused it."""
    rows, acts = turn.rows, len(turn.acts)
    try:
        careful = getattr(command, "careful", False)
        with rows.unwritten() if careful else rows.step():
            if getattr(command, "stream", None) is None:
                rows.alone()
            return command.apply(turn), None
    except Problem as problem:
        del turn.acts[acts:]
        return None, problem
    except LeaseLost as lost:
        turn.gone.append(lost.args[0])
        return None, moving()


class Engine:
    """Applies commands; see the module's documentation.

    Parameters
    ----------
    store : ServiceStore
        The store.
    ring : Ring
        Keys with which states are encrypted.
    deliver : callable, optional
        Called once per group with a list of ``(done, answer, error)``. By default each ``done(answer, error)`` is
        called in the engine's thread.
    clock : callable
        Returns the time, in seconds since 1970.
    leases : Leases, optional
        Streams that this worker may write, if several workers share the store.

    Attributes
    ----------
    witness : callable
        Called with the turn in every transaction, after its commands and before the commit.
    follows : callable
        Called with the mark of a transaction before it is committed; raises a StoreError if it cannot be the next one.
    committed : callable
        Called with the mark of a transaction and the number of charges after a commit, before anyone sees its outcome.
    observed : callable
        Called after each transaction with its seconds and the number of its commands.
    """

    def __init__(
        self,
        store: ServiceStore,
        ring: Ring,
        deliver: Callable[[Group], None] | None = None,
        clock: Callable[[], float] = time.time,
        leases: Leases | None = None,
    ) -> None:
        self.store, self.ring, self.clock, self.leases = store, ring, clock, leases
        self.deliver = deliver or _call_each
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._known: dict[str, Live] = {}
        self._recent: OrderedDict[str, None] = OrderedDict()  # streams with a runner, latest last
        self._guard = threading.Lock()  # protects _known
        self._stopping = False
        self._watchers: list[Callable[[Live], None]] = []
        self.follows: Callable[[int], None] = lambda mark: None
        self.committed: Callable[[int, int], None] = lambda mark, charges: None
        self.witness: Callable[[Turn], None] = lambda turn: None
        self.observed: Callable[[float, int], None] = lambda seconds, commands: None
        self._each = 0.0  # recent seconds per command
        self._whole = 0.0  # recent seconds per transaction
        self._at_work = threading.Lock()  # held while a group is applied
        self._due = False  # whether the thread has a group and waits for the lock
        self._soon: Callable[[Callable[[], None]], Any] | None = None
        self._near: list[_Item] = []  # small commands for the next turn of the event loop
        self._charges: int | None = None
        self._thread = threading.Thread(target=self._work, name="reticent-engine", daemon=True)
        self._thread.start()

    # Called by others ------------------------------------------------------------------------------

    def attach(
        self, soon: Callable[[Callable[[], None]], Any], deliver: Callable[[Group], None]
    ) -> None:
        """Have an event loop carry out small commands.

        Parameters
        ----------
        soon : callable
            Takes a function that the loop calls in its next turn. From now on, commands that are not ``direct`` are
            submitted in the loop, and their ``done`` is called there.
        deliver : callable
            Called once per group with a list of ``(done, answer, error)``.
        """
        self.deliver = deliver
        # a database behind several workers answers each statement over a network
        self._soon = soon if self.leases is None else None

    def submit(self, command: Command, done: Deliver, *, direct: bool = False) -> None:
        """Queue a command; ``done`` gets its answer once it is durable, or its error."""
        if self._stopping:
            raise Problem(503, "stopping", "the service is stopping; try again in a moment")
        waiting = self._queue.qsize()
        wait = self._each * waiting
        if waiting >= _WAITING or wait > _PATIENCE:
            words = "more requests are waiting than the service can answer soon"
            raise too_busy(words, wait - 0.5 * _PATIENCE)
        item = _Item(command, done, direct)
        if direct or self._soon is None or not self._is_small(command):
            self._queue.put(item)
            return
        self._near.append(item)
        if len(self._near) == 1:
            self._soon(self._carry_out_near)

    def _is_small(self, command: Command) -> bool:
        if self._whole > _QUICK or not getattr(command, "small", False):
            return False
        live = self._known.get(command.stream)  # type: ignore[attr-defined]
        runner = None if live is None else live.runner
        # a table of persons is sometimes rewritten, which takes longer
        return runner is not None and runner.persons is None

    def _carry_out_near(self) -> None:
        """Carry out the commands of the event loop's last turn, or leave them to the thread if that is busy."""
        near, self._near = self._near, []
        stopping = self._stopping  # if so, the thread takes no more commands
        busy = len(near) > _SHORT or self._due or not self._queue.empty()
        if (busy and not stopping) or not self._at_work.acquire(blocking=stopping):
            for item in near:
                self._queue.put(item)
            return
        try:
            answers = self._outcomes(near)
        finally:
            self._at_work.release()
        _call_each(answers)

    def waiting(self) -> int:
        """Number of queued commands."""
        return self._queue.qsize() + len(self._near)

    def alive(self) -> bool:
        """Whether the engine's thread is running."""
        return self._thread.is_alive()

    def call(self, command: Command) -> Any:
        """Queue a command, and wait for its answer."""
        ready = threading.Event()
        found: list[Any] = []

        def done(answer: Any, error: BaseException | None) -> None:
            found.extend((answer, error))
            ready.set()

        self.submit(command, done, direct=True)
        ready.wait()
        if found[1] is not None:
            raise found[1]
        return found[0]

    def _stored(self, name: str) -> Live:
        """What the store knows about a stream; refused if it does not exist."""
        with self.store.read() as rows:
            row = rows.stream(name)
            state = None if row is None else rows.state(row.id)
            output = None if state is None or row is None else rows.output(row.id, state.number)
        if row is None or state is None or output is None:
            if row is not None and row.closed:
                raise Problem(410, "stream-deleted", row.closed)
            raise Problem(
                404, "unknown-stream", f"there is no stream {name!r}; POST /v1/streams creates one"
            )
        specification = Specification.from_dict(row.specification)
        return Live(row, specification, Head(output.steps, output.number, output.body, output.at))

    def live(self, name: str, *, held: bool = False) -> Live:
        """What is known about a stream; refused if it does not exist.

        Parameters
        ----------
        name : str
            Name of the stream.
        held : bool
            Whether a transaction holds its lease.
        """
        # if another worker may write it, only the store knows its current state
        kept = held or self.leases is None or self.leases.holds(name)
        with self._guard:
            live = self._known.get(name) if kept else None
        if live is not None:
            return live
        live = self._stored(name)
        with self._guard:
            return self._known.setdefault(name, live) if kept else live

    def drop(self, name: str) -> None:
        """Forget a stream's cached data. Called in the engine's thread, or before it has started."""
        with self._guard:
            live = self._known.pop(name, None)
        if live is not None:
            live.runner = None
        self._recent.pop(name, None)

    def watch(self, watcher: Callable[[Live], None]) -> None:
        """Register a function to be called in the engine's thread whenever a stream has published."""
        self._watchers.append(watcher)

    def stop(self) -> None:
        """Finish queued commands, refuse new ones, and end the thread."""
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)
            self._thread.join()

    # The thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            group: list[_Item] = []
            item = self._queue.get()
            while True:
                if item is None:
                    going = False
                    break
                group.append(item)
                if len(group) == _GROUP:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._carry_out(group)

    def _carry_out(self, group: list[_Item]) -> None:
        elsewhere: Group = []
        self._due = True  # so that the loop does not overtake the thread
        with self._at_work:
            self._due = False
            found = self._outcomes(group)
        for item, outcome in zip(group, found, strict=True):
            if item.direct:
                item.done(*outcome[1:])
            else:
                elsewhere.append(outcome)
        if elsewhere:
            self.deliver(elsewhere)

    def _outcomes(self, group: list[_Item]) -> Group:
        """Carry out a group, or its commands one by one if that fails, and return the answers."""
        try:
            answers = self._transact([item.command for item in group])
        except Exception as error:
            if len(group) > 1 and not (isinstance(error, StoreFailed) and error.unknown):
                return [outcome for item in group for outcome in self._outcomes([item])]
            answers = [(None, _as_problem(error))] * len(group)
        return [
            (item.done, answer, problem)
            for item, (answer, problem) in zip(group, answers, strict=True)
        ]

    def _transact(self, commands: list[Command]) -> list[tuple[Any, BaseException | None]]:
        """Apply one group in one transaction; if this raises, nothing has changed."""
        turn: Turn | None = None
        began = time.perf_counter()
        try:
            with self.store.transaction() as rows:
                turn = Turn(self, rows, self.clock())
                answers = [_applied(command, turn) for command in commands]
                self._write(turn)
                changed = rows.changed() or bool(turn.acts)
                if changed:
                    if turn.acts:  # all workers append to the same log
                        rows.alone()
                    self.witness(turn)
                    mark = rows.mark()
                    self._follows(mark)
                    if rows.charged or self._charges is None:
                        self._charges = rows.charges()
        except BaseException as error:
            self._charges = None
            if turn is not None:
                self._set_back(turn, isinstance(error, StoreFailed) and error.unknown)
            raise
        if changed:
            assert self._charges is not None
            self._committed(mark, self._charges)
        self._reveal(turn)
        seconds = time.perf_counter() - began
        self._each += 0.2 * (seconds / len(commands) - self._each)
        self._whole += 0.2 * (min(seconds, _LONG) - self._whole)
        self.observed(seconds, len(commands))
        return answers

    def _write(self, turn: Turn) -> None:
        """Write what a turn published, and the states of the streams that it changed."""
        for stream, outputs in turn.published.items():
            turn.rows.add_outputs(stream, outputs)
        for live in turn.moved.values():
            head = turn.head(live)
            assert live.runner is not None
            place = state_place(live.row.id)
            state, live.kept = persons.write(
                turn.rows, self.ring, live.row.id, live.runner, live.kept
            )
            sealed = self.ring.seal(pack(state), place)
            turn.rows.save(live.row.id, StateRow(head.steps, head.number, sealed))

    def _follows(self, mark: int) -> None:
        """End the process before a commit to a store that was set back; the next start refuses that store."""
        try:
            self.follows(mark)
        except StoreError as error:
            self._end(str(error))

    def _committed(self, mark: int, charges: int) -> None:
        """Record a commit outside the store, before anyone sees what it published."""
        try:
            self.committed(mark, charges)
        except BaseException as error:
            # What was committed must not be seen before the anchor is written. Ending here is the same as being killed
            # between the two, from which the next start recovers.
            self._end(f"the anchor cannot be written ({error})")

    def _end(self, why: str) -> None:
        log.critical("%s: ending", why)
        logging.shutdown()
        os._exit(70)

    def _reveal(self, turn: Turn) -> None:
        """Show readers what is now durable. Nothing here may fail, because the commit cannot be undone."""
        with self._guard:
            for live in turn.made:
                self._known[live.row.name] = live
        for name, head in turn.heads.items():
            self._known[name].head = head
        changed = [self._known[name] for name in turn.heads]
        for name, live in turn.moved.items():
            if live.runner is not None:
                live.position = live.runner.position
            self._recent[name] = None
            self._recent.move_to_end(name)
        while len(self._recent) > _LIVE:
            self._known[self._recent.popitem(last=False)[0]].runner = None
        for name in turn.gone:
            self.drop(name)
        if self.leases is not None:
            self._reveal_leases(self.leases, turn)
        for live in changed:
            for watcher in self._watchers:
                try:
                    watcher(live)
                except Exception as error:
                    log.error("those who wait for decisions could not be notified: %s", error)

    def _reveal_leases(self, leases: Leases, turn: Turn) -> None:
        for live in turn.made:  # the first worker to write to a new stream takes its lease
            self.drop(live.row.name)
        for name in turn.gone:
            leases.lost(name)
        if turn.renewed is not None:
            for name in leases.kept(turn.renewed):
                self.drop(name)
        for name, token in turn.taken.items():
            self.drop(name)  # another worker may have written to it meanwhile
            leases.took(name, token)

    def _set_back(self, turn: Turn, unknown: bool) -> None:
        """Undo a transaction in memory: its runners are dropped, and its streams are set back.

        If the outcome is unknown, only the store knows the current state of the streams.
        """
        for live in turn.moved.values():
            if live.runner is not None:
                live.runner.lease.withdraw(live.position)
                live.runner = None
            self._recent.pop(live.row.name, None)
            if unknown:
                self.drop(live.row.name)

    def runner(self, live: Live) -> runners.Runner:
        """The runner of a stream, restored if it is not in memory. Called in the engine's thread only."""
        if live.runner is None:
            try:
                with self.store.read() as rows:
                    state = rows.state(live.row.id)
                    assert state is not None
                    plain = unpack(self.ring.open(state.sealed, state_place(live.row.id)))
                    live.kept = persons.read(rows, self.ring, live.row.id, plain)
            except Damaged as error:
                raise Problem(
                    503,
                    "damaged-state",
                    f"the state of stream {live.row.name!r} cannot be read: {error}; restore a whole backup and "
                    "run `reticent serve adopt`",
                ) from None
            live.runner = self._restored(live, plain)
            persons.begin(live.runner, live.kept)
            live.position = live.runner.position
            self.entrusted(live.runner)
        return live.runner

    def _restored(self, live: Live, state: dict[str, Any]) -> runners.Runner:
        try:
            return runners.restore(live.specification, state)
        except (ValueError, TypeError, KeyError) as error:
            log.error("a state cannot be continued: %s", type(error).__name__, exc_info=error)
            raise Problem(
                409,
                "state-of-another-version",
                f"stream {live.row.name!r} was written by another version of Reticent, and this one cannot continue "
                "it; its decisions stay. Serve it with that version, or create a stream under another name",
            ) from None

    def entrusted(self, runner: runners.Runner) -> None:
        """If leases in the store decide which worker writes a stream, disable the lease of the process."""
        if self.leases is not None:
            runner.lease.entrust()


def too_busy(why: str, seconds: float) -> Problem:
    """A refusal for overload, with a time for the retry."""
    headers = {"Retry-After": str(math.ceil(max(1.0, seconds)))}
    return Problem(429, "too-busy", f"{why}; try again later", headers)


def moving() -> Problem:
    """A refusal for a stream that is moving to another worker."""
    return Problem(
        503,
        "moving",
        "this stream is moving to another worker, and nothing was changed; try again in a second",
        {"Retry-After": "1"},
    )


def _call_each(group: Group) -> None:
    for done, answer, error in group:
        done(answer, error)


def store_failed() -> Problem:
    """A refusal for a store that cannot be read or written at the moment."""
    return Problem(
        503,
        "store-failed",
        "the store failed, and nothing of this request was published; try again, and see the log",
        {"Retry-After": "1"},
    )


def _as_problem(error: Exception) -> Problem:
    if isinstance(error, StoreFailed | OSError):
        if isinstance(error, StoreFailed) and error.full:
            return Problem(
                507,
                "disk-full",
                "the disk of the service is full; nothing was changed, free some space",
            )
        log.error("the store failed: %s", error)
        return store_failed()
    # the traceback names lines of code; exceptions of the library quote no records
    log.error("a command failed: %s", type(error).__name__, exc_info=error)
    return Problem(500, "failed", "this is a bug in the service; nothing was changed, see its log")
