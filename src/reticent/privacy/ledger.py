"""What has been spent against one budget, in memory or in a file that several processes share.

Every sum, learner and solver calls :func:`charge` when it is built, before any noise is drawn, so a refusal costs
nothing. :mod:`reticent.privacy.composition` says how entries are counted.

A ledger follows the work: threads, clones and worker processes are charged to the ledger that is open around them
(:mod:`reticent.privacy.scope` says how it is found), and are refused where that is not possible. If the file is lost,
its budget could be spent twice: do not delete it, and do not restore it from an old copy.

The file is an SQLite database, with one transaction per entry, which is on disk before it is acknowledged. With a
rollback journal a transaction is committed when the journal is deleted, so the folder must be synced as well as the
file: if the journal reappeared after a power cut, it would undo an acknowledged entry. SQLite does that only at
``synchronous = EXTRA``. An empty or missing table never counts as a fresh ledger: a new file is prepared under
another name and linked into place complete, so a file that exists and is not a ledger is damaged, and is refused.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from reticent import html_tables
from reticent.checks import to_the_user
from reticent.privacy import gaussian, scope
from reticent.privacy.budget import Budget, plain
from reticent.privacy.composition import Composition, Filter
from reticent.privacy.errors import BudgetExceeded, ForkError, LedgerError, RepeatedFitWarning
from reticent.privacy.guarantee import Guarantee, with_caveats

FORMAT = 1
_WAIT = 60.0

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    what TEXT NOT NULL,
    guarantee TEXT NOT NULL
);
"""

Row = tuple[int, str, str, str]


class LedgerFile:
    """The file of a ledger.

    Parameters
    ----------
    path : str or path
        Where the file is; if it does not exist, it is created with mode 0600.
    terms : dict
        The budget and options of the ledger, which must equal those in an existing file.
    """

    def __init__(self, path: str | os.PathLike[str], terms: dict[str, Any]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"path must be in an existing folder, and {folder!r} is not one; create it first"
            )
        if not os.path.lexists(self.path):
            self._create(folder, terms)
        self._verify(terms)

    def _create(self, folder: str, terms: dict[str, Any]) -> None:
        handle, draft = tempfile.mkstemp(prefix=".ledger-", dir=folder)  # mode 0600
        os.close(handle)
        try:
            connection = self._connect(draft)
            try:
                connection.executescript("BEGIN IMMEDIATE;" + _SCHEMA)
                rows = [("format", str(FORMAT)), ("terms", json.dumps(terms))]
                connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
                connection.execute("COMMIT")
            finally:
                connection.close()
            # If another process was first, the link fails and that process's file is used.
            with contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            os.unlink(draft)
        if hasattr(os, "O_DIRECTORY"):
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def _connect(self, path: str) -> sqlite3.Connection:
        # mode=rw: if the file disappears meanwhile, it must not be created anew.
        address = Path(path).as_uri() + "?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                raise self._damaged(f"its journal mode is {mode!r} and cannot be changed")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: past the disk's own cache
        except BaseException:
            connection.close()
            raise
        return connection

    def _verify(self, terms: dict[str, Any]) -> None:
        with self.transaction(write=False) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise self._damaged("its pages are inconsistent")
            about = dict(connection.execute("SELECT name, value FROM about"))
            if about.get("format") != str(FORMAT):
                raise ValueError(
                    f"the ledger {self.path!r} has format {about.get('format')!r} and this version "
                    f"reads {FORMAT}; open it with the version of reticent that wrote it"
                )
            try:
                stored = json.loads(about["terms"])
            except (KeyError, ValueError):
                raise self._damaged("its terms cannot be read") from None
            if set(stored) != set(terms):
                raise ValueError(
                    f"the ledger {self.path!r} was written by an earlier version (of Reticent, or of Tacit, its former "
                    "name) and cannot be continued here. What it recorded stays spent: open it with the version that "
                    "wrote it, or a new ledger at another path, for no more than what this one has left"
                )
            if stored != terms:
                raise ValueError(
                    f"the ledger {self.path!r} was opened for {_words(stored)}, not for "
                    f"{_words(terms)}; reopen it with its own budget, or give another path"
                )

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection with one transaction open, which is rolled back if anything is raised."""
        if not os.path.exists(self.path):
            raise self._damaged("it has disappeared")
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connect(self.path)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise TimeoutError(
                    f"the ledger {self.path!r} was locked by other processes for {_WAIT:.0f} s; nothing was "
                    "recorded, try again"
                ) from error
            raise self._damaged(str(error)) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        finally:
            if connection is not None:
                connection.close()  # rolls back what was not committed

    def read(self, connection: sqlite3.Connection, after: int) -> list[Row]:
        """The entries after the given number, checked to be in order and without gaps."""
        query = "SELECT id, at, what, guarantee FROM entries WHERE id >= ? ORDER BY id"
        rows: list[Row] = list(connection.execute(query, (after,)))
        first = max(after, 1)
        expected = range(first, first + max(len(rows), min(after, 1)))
        if [row[0] for row in rows] != list(expected):
            raise self._damaged(f"entries from number {first} on are missing")
        return rows[1:] if after else rows

    def append(self, connection: sqlite3.Connection, row: Row) -> None:
        """Add one entry."""
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)

    def _damaged(self, reason: str) -> RuntimeError:
        return RuntimeError(
            f"{self.path!r} cannot be used as a ledger: {reason}. What it recorded stays spent: "
            "repair the file or retire its budget, and do not start again with an empty file"
        )


def _words(terms: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in terms.items())


PLANNED = (
    "composed on the assumption that the privacy of each entry was fixed before the first output was seen "
    "(Ledger(..., adaptive=True) does not need this assumption)"
)
ADAPTIVE = (
    "composed on the assumption that the privacy of each entry was fixed before the first output was seen; the "
    "ledger's budget, {}, holds without this assumption"
)

_remarks: ContextVar[tuple[str, ...]] = ContextVar("remarks", default=())


@contextlib.contextmanager
def remarked(*lines: str) -> Iterator[None]:
    """Add caveats to every guarantee made inside the block, about what the caller did to the records beforehand.

    They must be part of the guarantee that a ledger is charged with, not only of the one that is handed out.

    Parameters
    ----------
    *lines : str
        The caveats.
    """
    token = _remarks.set((*_remarks.get(), *lines))
    try:
        yield
    finally:
        _remarks.reset(token)


def with_remarks(guarantee: Guarantee) -> Guarantee:
    """The guarantee with the caveats of the surrounding :func:`remarked` blocks.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    """
    lines = _remarks.get()
    return with_caveats(guarantee, lines) if lines else guarantee


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger.

    Parameters
    ----------
    what : str
        What was paid for, in words.
    guarantee : Guarantee
        What it cost.
    at : str
        When, in ISO 8601 format and UTC.
    """

    what: str
    guarantee: Guarantee
    at: str


class Ledger:
    """Several fits against one budget; a fit that would exceed it is refused before any noise is drawn.

    Inside ``with ledger:`` everything that is released is charged to the ledger, also in threads, in clones that
    scikit-learn fits elsewhere, and in worker processes; worker processes need a ledger with a path, and are refused
    without one. A thread or worker that enters a ledger itself is charged to that one only. Clones, and threads that
    were started inside the block, stay with the ledger after the block has ended.

    Parameters
    ----------
    budget : Budget
        What everything together may spend.
    path : str or path, optional
        A file that outlives the process and may be shared by several. By default the ledger is in memory.
    adaptive : bool
        Whether *how private* an entry is may be chosen after seeing the outputs of earlier ones ("the model was poor,
        so I spent more"). By default entries are composed as if it were not, and :attr:`spent` says so where it
        matters. With ``adaptive=True`` a rule is used that holds without this assumption: it allows as much for
        all-Gaussian runs and for ``delta = 0``, and less for mixed noise.
    unit : {"record", "person"}
        What the budget protects. The ledger can be charged only for guarantees about that unit.

    See Also
    --------
    charge : Spend on the ledgers that are open here.
    reticent.PrivateSearchCV : Choose parameters under one budget, for far less than the sum of all fits.

    Examples
    --------
    >>> from reticent.privacy import Gaussian, Guarantee, Release
    >>> fit = Guarantee([Release("gradient descent", Gaussian(0.15), 1.0, "gaussian")])
    >>> with Ledger(Budget(1.0, 1e-6)) as ledger:
    ...     charge(fit, "first fit")
    ...     charge(fit, "second fit")
    >>> print(ledger.remaining)
    room for Gaussian releases of mu = 0.105 in all, epsilon = 0.418 at delta = 1e-6
    """

    def __init__(
        self,
        budget: Budget,
        path: str | os.PathLike[str] | None = None,
        *,
        adaptive: bool = False,
        unit: str = "record",
    ) -> None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, got {budget!r}")
        self.budget = budget
        self.adaptive = bool(adaptive)
        self.unit = unit
        self._scope = replace(budget.scope, unit=unit)
        count = Filter if self.adaptive else Composition
        # One for each age of a fading budget. There is one clock of outputs, on which a record has one age,
        # so entries are added at equal ages.
        self._tallies: list[tuple[int | None, Composition | Filter]] = (
            [(None, count(budget))]
            if budget.fade is None
            else [(age, count(budget.at(age))) for age, _ in budget.fade]
        )
        self._entries: list[Entry] = []
        self._process = os.getpid()
        self._id = secrets.token_hex(16)
        terms = asdict(budget) | {"adaptive": self.adaptive, "unit": unit}
        self._terms = json.loads(json.dumps(terms))  # as they will be read from the file
        self._store = None if path is None else LedgerFile(path, self._terms)
        self._refresh()
        scope.register(self._id, self)

    def spend(self, guarantee: Guarantee, what: str) -> Entry:
        """Record a release, or refuse it and record nothing.

        Parameters
        ----------
        guarantee : Guarantee
            What the release costs.
        what : str
            What is paid for, in words.

        Returns
        -------
        Entry
            The new entry.

        Raises
        ------
        BudgetExceeded
            The release does not fit in what is left of the budget.
        ValueError
            The guarantee has other neighbours, window, ages or unit than the budget.
        """
        self._check_scope(guarantee)
        if self._store is None and self._process != os.getpid():
            raise ForkError(
                "this ledger is in memory and was copied by a process fork: the process that owns it would "
                "never see what is spent here. Give the ledger a path, which all processes share"
            )
        if not isinstance(what, str) or not what.strip():
            raise ValueError(f"what must be text that says what is paid for, got {what!r}")
        entry = Entry(what, guarantee, datetime.now(UTC).isoformat(timespec="seconds"))
        with scope.lock:
            if self._store is None:
                self._check_room(entry)
            else:
                text = json.dumps(guarantee.to_dict())
                with self._store.transaction() as connection:
                    self._absorb(self._store.read(connection, len(self._entries)))
                    self._check_room(entry)
                    row = (len(self._entries) + 1, entry.at, what, text)
                    self._store.append(connection, row)
            self._count(entry)
        return entry

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether :meth:`spend` would accept this release now; nothing is recorded.

        This is an answer, not a reservation: another thread or process may spend in between.

        Parameters
        ----------
        guarantee : Guarantee
            What the release would cost.

        Raises
        ------
        ValueError
            The guarantee has other neighbours, window, ages or unit than the budget.

        Examples
        --------
        >>> from reticent.privacy import Guarantee, Pure, Release
        >>> ledger = Ledger(Budget(1.0))
        >>> fit = Guarantee([Release("a fit", Pure(0.6), 1.0, "laplace")])
        >>> ledger.fits(fit)
        True
        >>> _ = ledger.spend(fit, "first fit")
        >>> ledger.fits(fit)
        False
        """
        self._check_scope(guarantee)
        with scope.lock:
            self._refresh()
            return self._has_room(guarantee)

    def _has_room(self, guarantee: Guarantee) -> bool:
        return all(tally.fits(guarantee.at(age)) for age, tally in self._tallies)

    def _check_scope(self, guarantee: Guarantee) -> None:
        if not isinstance(guarantee, Guarantee):
            raise TypeError(f"guarantee must be a Guarantee, got {guarantee!r}")
        if guarantee.scope != self._scope:
            raise ValueError(
                f"the ledger is for guarantees of one kind ({self._scope}) and cannot be charged for another "
                f"({guarantee.scope}); use a budget with the ledger's neighbours, window, ages and unit"
            )

    def _check_room(self, entry: Entry) -> None:
        if not self._has_room(entry.guarantee):
            raise BudgetExceeded(
                f"{entry.what!r} does not fit in what is left of the budget ({self.budget}). It "
                f"costs: {entry.guarantee}. Left: {self._words()}. Nothing was spent; lower its "
                "epsilon, or open a ledger with a larger budget"
            )

    def _count(self, entry: Entry) -> None:
        # In this order, an interrupt between the two can only count the entry twice, never not at all.
        for age, tally in self._tallies:
            tally.add(entry.guarantee.at(age))
        self._entries.append(entry)

    def _absorb(self, rows: list[Row]) -> None:
        for _, at, what, text in rows:
            try:
                guarantee = Guarantee.from_dict(json.loads(text))
            except ValueError as error:
                raise RuntimeError(
                    f"entry {what!r} of the ledger cannot be read ({error}). What it recorded "
                    "stays spent: repair the file or retire its budget"
                ) from None
            self._count(Entry(what, guarantee, at))

    def _refresh(self) -> None:
        if self._store is not None:
            with scope.lock, self._store.transaction(write=False) as connection:
                self._absorb(self._store.read(connection, len(self._entries)))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything that was spent, in order, by all processes."""
        self._refresh()
        return tuple(self._entries)

    @property
    def spent(self) -> Guarantee | None:
        """The guarantee of all entries together, by composition; None if there are none."""
        entries = self.entries
        if not entries:
            return None
        parts = [entry.guarantee for entry in entries]
        caveats = dict.fromkeys(line for part in parts for line in part.caveats)
        gaussians = all(part.gdp is not None for part in parts)
        if len(parts) > 1 and self.budget.delta > 0.0 and not gaussians:
            caveats[ADAPTIVE.format(self.budget) if self.adaptive else PLANNED] = None
        return Guarantee(
            [release for part in parts for release in part.releases],
            self._scope.neighbours,
            self._scope.window,
            ages=self._scope.ages,
            unit=self._scope.unit,
            asked=self.budget.delta,
            seeded=any(part.seeded for part in parts),
            lattice=all(part.lattice for part in parts),
            caveats=caveats,
        )

    @property
    def remaining(self) -> str:
        """What is left, in words."""
        self._refresh()
        return self._words()

    def _words(self) -> str:
        words = []
        mu = min(tally.room for _, tally in self._tallies)
        pure, delta = min(tally.pure_room for _, tally in self._tallies), self.budget.delta
        if mu > 1e-6 * self.budget.epsilon:
            alone = gaussian.epsilon(delta, mu)
            words.append(
                f"room for Gaussian releases of mu = {_down(mu)} in all, "
                f"epsilon = {_down(alone)} at delta = {plain(delta)}"
            )
        if pure > 1e-12 * self.budget.epsilon and (self._entries or delta == 0.0):
            words.append(f"pure epsilon = {_down(pure)}")
        return ", or ".join(words) or "nothing"

    def _handle(self) -> scope.Handle:
        path = None if self._store is None else self._store.path
        return scope.Handle(self._id, path, self._terms, self)

    def __enter__(self) -> Ledger:
        scope.enter(self._handle())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope.leave(self._handle())

    def __reduce__(self) -> Any:
        if self._store is None:
            raise TypeError(
                "a ledger in memory cannot be copied or sent to another process, which would "
                "spend from a copy; give the ledger a path, which all processes share"
            )
        return _at, (self._handle(),)

    def __repr__(self) -> str:
        path = "" if self._store is None else f", path={self._store.path!r}"
        return f"Ledger({self.budget}{path}{', adaptive=True' if self.adaptive else ''})"

    def plot(self, **options: Any) -> Any:
        """Draw what has been spent, entry by entry; see `reticent.plots.spending`.

        Parameters
        ----------
        **options
            Passed on to `reticent.plots.spending`: ``title``, ``ax``.
        """
        # imported here, because plots is a package above this one
        return importlib.import_module("reticent.plots.spending").spending(self, **options)

    def _repr_html_(self) -> str:
        return html_tables.block(str(self))

    def __str__(self) -> str:
        rows = [("", "spent on", "cost")]
        for k, entry in enumerate(self.entries, 1):
            cost = entry.guarantee.summary
            rows.append((str(k), entry.what, cost + (", seeded" * entry.guarantee.seeded)))
        wide = [max(len(row[k]) for row in rows) for k in range(2)]
        lines = [f"budget: {self.budget}"]
        lines += [f"{a:>{wide[0]}}  {b:<{wide[1]}}  {c}" for a, b, c in rows]
        return "\n".join([*lines, f"left: {self._words()}"])


def charge(guarantee: Guarantee, what: str, *, once: bool = False) -> None:
    """Charge every ledger that is open here; without one, do nothing.

    Call this before any noise of the release is drawn. If ledgers are nested, all of them are charged.
    :mod:`reticent.privacy.scope` says which ledgers are charged where.

    Parameters
    ----------
    guarantee : Guarantee
        What the release costs.
    what : str
        What is paid for, in words.
    once : bool
        Whether a ledger that already has an entry with the same ``what`` is not charged again.

    Raises
    ------
    BudgetExceeded
        The release does not fit in what is left of a budget.
    LedgerError
        A ledger is open but cannot be charged from here.
    """
    payers = scope.payers()
    guarantee = with_remarks(guarantee)
    try:
        ledgers = [_at(handle) for handle in dict.fromkeys(payers.handles)]
        for ledger in ledgers:
            ledger._check_scope(guarantee)
        for ledger in ledgers:
            if not (once and any(entry.what == what for entry in ledger.entries)):
                ledger.spend(guarantee, what)
    except Exception as error:
        if payers.found:
            error.add_note(
                f"This ledger was charged because {payers.found}. To charge another ledger, do the work "
                "inside its own `with` block"
            )
        raise
    if payers.clone and not ledgers:
        _warn_once(guarantee)


_opened_elsewhere: dict[str, Ledger] = {}


def _at(handle: scope.Handle) -> Ledger:
    """The ledger behind a handle, in this process."""
    if handle.live is not None:
        ledger: Ledger = handle.live
        return ledger
    if handle.path is None:
        raise LedgerError(
            "the ledger around this work is in the memory of another process, which would never see what is "
            "spent here; give the ledger a path, which all processes share. Nothing was released"
        )
    with scope.lock:
        if handle.id not in _opened_elsewhere:
            if not os.path.exists(handle.path):
                raise LedgerError(
                    f"the file of the ledger around this work, {handle.path!r}, does not exist. A worker must "
                    "see the file under the same path. If the estimator was cloned inside a ledger and should "
                    "no longer be charged to it, build it anew: type(model)(**model.get_params())"
                )
            terms = dict(handle.terms)
            kind = {name: terms.pop(name) for name in ("adaptive", "unit")}
            _opened_elsewhere[handle.id] = Ledger(Budget(**terms), handle.path, **kind)
        return _opened_elsewhere[handle.id]


_warned = False


def _warn_once(guarantee: Guarantee) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"a clone was fitted outside any ledger. Its guarantee ({guarantee.summary}) is that "
            "of one fit; where several clones are fitted to the same records, as in cross-validation and grid "
            "search, the costs add up. Fit inside `with reticent.Ledger(budget, path=...)`, which "
            "adds them up and refuses what would exceed the budget; to choose parameters, use "
            "`reticent.PrivateSearchCV`, which costs far less. This warning is shown once per process",
            RepeatedFitWarning,
            stacklevel=to_the_user(),
        )


def _down(value: float) -> str:
    """Four significant digits, rounded down: what is left must not look like more than it is."""
    text = f"{value:.4g}"
    return text if float(text) <= value else f"{value * (1 - 5e-4):.4g}"
