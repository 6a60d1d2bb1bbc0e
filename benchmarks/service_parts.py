"""Where the time of a request goes: its parts in microseconds, for the table of docs/running.md.

    python benchmarks/service_parts.py            # print them
    python benchmarks/service_parts.py --table    # write them into the page

The decoder and the engine of a service run in this thread, on a folder of their own, without HTTP: what is left is
what a request costs beyond a bare handler. Each part is timed without the parts inside it, in processor time; what a
commit waits for the disk is shown apart.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept
import numpy as np
import service

from reticent.compiling import compile_at_once
from reticent.service import chain, engine, keys, learners, records, runners, sealing, sqlite
from reticent.service import streams as commands
from reticent.service.anchor import Anchor
from reticent.service.folder import Folder, Options
from reticent.service.specification import Specification

compile_at_once()


PAGE = kept.DOCS / "running.md"
KINDS = ("single", service.LINES, service.ARROW)
REPEATS = {"single": 400, service.LINES: 40, service.ARROW: 40}
REST, WAIT = "everything else", "waiting for the sync, on the clock"
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("decode", records.Reader, "lines"),
    ("decode", records.Reader, "arrow"),
    ("digests of keys' bodies", keys.Keys, "digests"),
    ("digests of keys' bodies", keys.Keys, "digest"),
    ("digests of keys' bodies", keys.Keys, "digest_of_many"),
    ("learn, its noise included", learners.LinearLearner, "learn"),
    ("the decision as bytes", learners.LinearLearner, "decision"),
    ("the decision as bytes", commands, "body_of"),
    ("the state, packed and sealed", learners.LinearLearner, "state"),
    ("the state, packed and sealed", engine, "pack"),
    ("the state, packed and sealed", sealing.Ring, "seal"),
    ("the chained log and the anchor", chain, "append"),
    ("the chained log and the anchor", Anchor, "commit"),
    ("statements of SQLite", sqlite._SqliteConnection, "write"),
    ("statements of SQLite", sqlite._SqliteConnection, "write_many"),
    ("statements of SQLite", sqlite._SqliteConnection, "rows"),
)  # fmt: skip
COMMIT = "the commit: its writes and its sync"


class Clock:
    """Processor time by part, each without the parts inside it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside = [0.0]

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What happens in here belongs to a part."""
        self._inside.append(0.0)
        began, wall = time.thread_time(), time.perf_counter()
        try:
            yield
        finally:
            spent = time.thread_time() - began
            self.spent[name] += spent - self._inside.pop()
            self._inside[-1] += spent
            if name == COMMIT:
                self.spent[WAIT] += time.perf_counter() - wall - spent

    def watch(self, where: Any, attribute: str, name: str) -> None:
        """Have a function timed from now on."""
        plain = getattr(where, attribute)

        def timed(*given: Any, **named: Any) -> Any:
            commit = where is sqlite._SqliteConnection and given[1] == "COMMIT"
            with self.part(COMMIT if commit else name):
                return plain(*given, **named)

        setattr(where, attribute, timed)


def bodies(kind: str, count: int) -> list[bytes]:
    """Requests, each with keys of its own where it has any."""
    dice = np.random.default_rng(0)
    if kind == service.ARROW:
        return [service.arrow(dice, service.BATCH)] * count
    each = 1 if kind == "single" else service.BATCH
    return [service.lines(dice, each, 10**5 * number) for number in range(count)]


def measure(clock: Clock, kind: str, folder: Path) -> dict[str, float]:
    """Microseconds of each part of one request."""
    options = Options(data=folder / "data", anchor=folder / "anchor")
    home = Folder(options)
    assert home.anchor is not None
    made = engine.Engine(home.store, home.ring)
    made.stop()  # its thread: the transactions are made in this one
    made.follows, made.committed, made.witness = (
        home.anchor.follow,
        home.anchor.commit,
        chain.witness,
    )
    asked = Specification.from_dict(service.SPECIFICATION)
    made._transact([commands.Create(asked)])
    reader = records.Reader(runners.encoder_of(asked), home.keys)
    count = REPEATS[kind]
    sent = bodies(kind, count + 10)
    total = 0.0
    for number, body in enumerate(sent):
        if number == 10:  # all code was run by then
            clock.spent.clear()
            total = time.thread_time()
        arrow = kind == service.ARROW
        batch = reader.arrow(body, service.key(number), None) if arrow else reader.lines(body)
        ((answer, error),) = made._transact([commands.Send(asked.name, batch)])
        assert error is None, answer
    total = time.thread_time() - total
    found = {name: 1e6 * clock.spent[name] / count for name in (*_names(), WAIT)}
    found[REST] = 1e6 * total / count - sum(found[name] for name in _names())
    home.close()
    return found


def _names() -> list[str]:
    return [*dict.fromkeys(name for name, _, _ in PARTS), COMMIT]


def page(run: dict[str, Any]) -> str:
    """The page about running it with its table made anew."""
    lines = [
        f"Version {run['version']}, load {run['load']:.1f}, microseconds of CPU time per request:",
        "",
        "| part | one record | 1,000 JSON lines | 1,000 rows of Arrow |",
        "|---|---|---|---|",
    ]
    for name in (*_names(), REST, WAIT):
        cells = " | ".join(f"{run['parts'][kind][name]:,.0f}" for kind in KINDS)
        lines.append(f"| {name} | {cells} |")
    return kept.written(PAGE.read_text(), "parts", "\n".join(lines) + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--table", action="store_true", help="write the table into docs/running.md")
    said = parser.parse_args()
    clock = Clock()
    for name, where, attribute in PARTS:
        clock.watch(where, attribute, name)
    found: dict[str, Any] = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="reticent-parts-") as folder:
            found[kind] = measure(clock, kind, Path(folder))
        for name, spent in found[kind].items():
            print(f"{kind}: {name}: {spent:,.0f} us")
    if said.table:
        run = {"version": kept.version(), "load": os.getloadavg()[1], "parts": found}
        PAGE.write_text(page(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
