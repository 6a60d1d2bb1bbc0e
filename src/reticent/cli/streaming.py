"""The loop of online learning: read some records, predict them, learn from them, and write the decision.

The estimator is `reticent.OnlineLogisticRegression` or `reticent.OnlineLinearRegression`; this file handles files,
signals and the order in which things reach the disk (`reticent.cli.checkpoint`).

A decision belongs to a number of records, a multiple of ``--every``, not to a point in time: an interrupted run
releases the same decisions as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

import numpy as np

from reticent.cli import checkpoint, tasks
from reticent.cli.console import Console, Rate
from reticent.cli.diagnostics import Diagnostics
from reticent.cli.errors import Refused
from reticent.cli.options import Bad, LearnOptions, word
from reticent.tables import Encoded, Encoder, Model, Source, open_records
from reticent.tables.sources import STDIN


class Stopper:
    """A context in which SIGINT and SIGTERM set a flag; a second signal ends the process as usual.

    Nothing is raised from the handler. A loop looks at ``asked`` between its steps, so that a stop never interrupts an
    update.

    Examples
    --------
    >>> import os, signal
    >>> with Stopper(note="") as stopper:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     print(stopper.asked, stopper.status)
    True 143
    """

    def __init__(self, note: str) -> None:
        self.asked = False
        self.status = 0
        self._note = note
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopper:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked, self.status = True, 128 + number
        # restore the previous handlers, so that the next signal has its usual effect
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if self._note:
            sys.stderr.write(f"\n{self._note}\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


DECISIONS = "decisions.jsonl"
_PAGE_SECONDS = (
    0.25  # approximate interval at which a file's decisions are written and its state is saved
)


@dataclass
class Position:
    """The position in the data: how many records were read, and their hash."""

    data: str
    read: int = 0
    digest: str = ""


class Run:
    """One run of `reticent learn --online`.

    Parameters
    ----------
    options : LearnOptions
        The options of the command, with ``data`` and ``every`` filled in.
    settings : Settings
        The task and the guarantee.
    encoder : Encoder
        Encodes records as features.
    console : Console
        Prints messages and results.
    """

    def __init__(
        self, options: LearnOptions, settings: tasks.Settings, encoder: Encoder, console: Console
    ) -> None:
        self.options, self.settings, self.encoder, self.console = (
            options,
            settings,
            encoder,
            console,
        )
        assert options.data is not None
        assert options.every is not None
        self.data, self.every, self.folder = options.data, options.every, options.out
        self.decisions = options.decisions or str(options.out / DECISIONS)
        self._stops = options.bad_records == Bad.stop
        self.estimator = tasks.build(settings, encoder)
        self.diagnostics = Diagnostics(encoder.classes)
        self.seen = 0
        self.before = 0  # records that were learnt before this process
        self.stopped = 0
        self.seconds = 0.0
        self.model: Model | None = None
        self._position = Position(_where(self.data))
        self._hash = hashlib.sha256()
        self._pending: list[str] = []
        self._offset = 0
        self._saved_at = time.perf_counter()

    # Resuming ------------------------------------------------------------------------------------

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        if state["model"] is not None:
            self.model = Model.from_dict(
                state["model"], f"the model in {self.folder / checkpoint.NAME}"
            )
            self.seen = self.model.records
        elif state["stream"] is not None:
            self.estimator = type(self.estimator).from_state(state["stream"])
            self.seen = int(self.estimator.n_samples_seen_)
            self.model = self._as_model()
        self.before = self.seen
        self.diagnostics.restore(state["diagnostics"])
        self._pending, self._offset = list(state["pending"]), int(state["offset"])
        self._find_decisions(state.get("decisions"))
        before = Position(**state["position"])
        if self.data == STDIN or self.options.new_records:
            return  # the records that follow are new
        if before.data != self._position.data:
            raise Refused(
                f"the run stopped in {before.data}, not in {self.data}; name that file, or use "
                f"--new-records if none of these records has been learnt from before"
            )
        self._position = before

    def _find_decisions(self, written: str | None) -> None:
        """Continue the file to which the run has written; another one, if it is asked for, begins now."""
        if written is None or self.options.decisions == STDIN:
            return
        if self.options.decisions is None:
            self.decisions = written
        elif _where(self.decisions) != written:
            path = Path(self.decisions)
            if path.is_file() and path.stat().st_size:
                raise Refused(
                    f"--decisions {path} is not the file of this run, {written}; omit the option, or name a new file"
                )
            self._offset = 0

    def _skip(self, source: Source) -> None:
        """Skip the records that were learnt before, and check that they have not changed."""
        wanted, left = self._position.digest, self._position.read
        while left:
            columns, got = source.read(min(left, 65536))
            if not got:
                break
            self._take_note(self.encoder.encode(columns, got))
            left -= got
        if left or self._hash.hexdigest() != wanted:
            raise Refused(
                "the data do not begin with the records already learnt from; using the same noise on other "
                "records would reveal their difference: restore the data, or start a new run with "
                "another --out"
            )

    def _take_note(self, records: Encoded) -> None:
        columns = [records.X, records.codes]
        if records.persons is not None:
            names = (name.encode("utf-8", "surrogatepass") for name in records.persons)
            marks = b"".join(hashlib.blake2b(name, digest_size=8).digest() for name in names)
            columns.append(np.frombuffer(marks, np.float64))  # one per record, like the others
        self._hash.update(np.ascontiguousarray(np.column_stack(columns)).tobytes())

    # The loop --------------------------------------------------------------------------------------

    def learn(self, size: int | None) -> None:
        """Learn until the data end, the horizon is reached, or a signal asks to stop."""
        note = "" if self.console.quiet else "stopping after the records in progress"
        with Stopper(note) as stopper, self._open_decisions() as out:
            if self.finished:  # only the pending decisions remain to be written
                self._leave(out)
                return
            source, unused = open_records(
                self.data, self.encoder, word(self.options.format), lambda: stopper.asked
            )
            if unused and not self._position.read:
                self.console.note(f"ignored, because not in the schema: {', '.join(unused)}")
            self._leave(out)
            if self._position.read:
                self._skip(source)
            started = time.perf_counter()
            shown = self.console.watched
            with Rate("learning", size, shown=shown, done=self.seen) as rate:
                try:
                    self._loop(source, stopper, out, rate)
                finally:
                    self.seconds = time.perf_counter() - started

    def _loop(self, source: Source, stopper: Stopper, out: IO[str], rate: Rate) -> None:
        while not (stopper.asked and not source.live) and not self.finished:
            columns, got = source.read(self.every - self.seen % self.every)
            if got:
                self._absorb(self.encoder.encode(columns, got), out)
                rate.at(self.seen)
                if self.seen % self.every == 0:
                    self._decide()
                    if source.live:
                        self._checkpoint(out)
                if time.perf_counter() - self._saved_at > _PAGE_SECONDS:
                    self._checkpoint(out)
            if source.ended:
                break
        self._end(source, stopper, out)

    def _end(self, source: Source, stopper: Stopper, out: IO[str]) -> None:
        """Write the last decision, and the file from which a stopped run continues."""
        if self.finished and not source.ended and source.read(1)[1]:
            self._checkpoint(out)
            raise Refused(
                f"the horizon of {self.settings.horizon} records has been reached, but there are more "
                f"records; start again with a larger --horizon or with --endless"
            )
        if stopper.asked and not self.finished:
            self.stopped = stopper.status
        elif self.seen % self.every and self.seen:
            self._decide()
        self._checkpoint(out, complete=not self.stopped)
        if self.stopped:
            self._checkpoint(out)  # now nothing is pending

    @property
    def finished(self) -> bool:
        """Whether the horizon has been reached."""
        return self.settings.horizon is not None and self.seen >= self.settings.horizon

    def _absorb(self, records: Encoded, out: IO[str]) -> None:
        count, rows = len(records.X), records.good
        if records.bad and self._stops:
            first = min(records.bad)
            self._absorb_all(records, rows[rows < first])
            self._take_note(_rows(records, first))
            self._position.read += first
            self._checkpoint(out)
            raise Refused(
                f"record {self._position.read + 1}: {records.bad[first]}; the {self.seen} records before it "
                "have been learnt: repair it and use --resume, or count such records as gaps with "
                "--bad-records blank. That the run stopped here reveals something about this record, "
                "which no guarantee covers"
            )
        self._absorb_all(records, rows)
        self._take_note(records)
        self._position.read += count

    def _absorb_all(self, records: Encoded, rows: Any) -> None:
        self.diagnostics.judge(records, self.model, rows)
        end = max(rows.tolist(), default=-1) + 1 if self._stops else len(records.X)
        if len(rows) == end:
            if end:
                self._fit(records, 0, end)
            self.seen += end
        else:
            self._absorb_with_gaps(records, end)
        if self.seen:
            self.model = self._as_model()
        self.diagnostics.note(self.seen)

    def _absorb_with_gaps(self, records: Encoded, end: int) -> None:
        for row in range(end):
            if row in records.bad:
                self.estimator.gap(len(self.encoder.names))
                self.diagnostics.blanked += 1
            else:
                self._fit(records, row, row + 1)
            self.seen += 1

    def _fit(self, records: Encoded, start: int, end: int) -> None:
        whose = None if records.persons is None else records.persons[start:end]
        self.estimator.partial_fit(records.X[start:end], records.y[start:end], person=whose)

    def _as_model(self) -> Model:
        return Model.from_estimator(self.estimator, self.encoder, records=self.seen)

    # Writing decisions -----------------------------------------------------------------------------

    def _open_decisions(self) -> IO[str]:
        if self.decisions == STDIN:
            return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        file = open(self.decisions, "a", encoding="utf-8")  # noqa: SIM115 (the caller closes it)
        # decisions that a crash left incomplete are written again, from the state; what is gone stays gone
        file.truncate(min(self._offset, file.tell()))
        return file

    def _decide(self) -> None:
        assert self.model is not None
        decision = {
            "records": self.seen,
            "coefficients": self.model.coefficients.tolist(),
            "intercepts": self.model.intercepts.tolist(),
        }
        self._pending.append(json.dumps(decision))

    def _checkpoint(self, out: IO[str], *, complete: bool = False) -> None:
        """Save the state first, then write the outputs that depend on it."""
        self._position.digest = self._hash.hexdigest()
        going = self.seen > 0 and not self.finished
        checkpoint.save(
            self.folder,
            {
                "settings": self.settings.to_dict(),
                "schema": self.encoder.schema.to_dict(),
                "target": self.encoder.target.name,
                "every": self.every,
                "position": vars(self._position),
                # at the end of the horizon only what has been released is kept, not the sums
                "stream": self.estimator.state() if going else None,
                "model": self.model.to_dict() if self.model and self.finished else None,
                "diagnostics": self.diagnostics.to_dict(),
                "pending": self._pending,
                "offset": self._offset,
                "decisions": None if self.decisions == STDIN else _where(self.decisions),
                "complete": complete,
            },
        )
        self._leave(out)
        self._saved_at = time.perf_counter()

    def _leave(self, out: IO[str]) -> None:
        for line in self._pending:
            out.write(line + "\n")
        out.flush()
        if self._pending and self.decisions != STDIN:
            self._offset = out.tell()
        self._pending = []


def _rows(records: Encoded, end: int) -> Encoded:
    persons = None if records.persons is None else records.persons[:end]
    return Encoded(records.X[:end], records.y[:end], records.codes[:end], {}, 0, persons)


def _where(data: str) -> str:
    return data if data == STDIN else str(Path(data).resolve())
