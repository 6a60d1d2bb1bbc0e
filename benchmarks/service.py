"""What durability and learning cost: the service beside bare commits of the same bytes on the same machine.

    python benchmarks/service.py              # a minute
    python benchmarks/service.py --full       # longer runs, and 1,000 streams
    python benchmarks/service.py --table      # the table of docs/running.md, from the runs kept with --keep-run

Bare commits: the bytes of a batch go into one SQLite table (WAL, synchronous FULL), one transaction each, with no
network and nothing learnt. The bare handler: a Starlette application under the same uvicorn that commits one row for
each request. The least handler: the same, which decodes the record by msgspec, seals as many bytes as a state has, and
commits rows to the five tables that the service writes; it learns nothing, checks nobody and shares no commits, so that
it says what such a request costs at least where each has a commit of its own. Clients run in processes of their own on
the same cores. Single requests are sent to the service twice: as it is, and with its threads kept on one core. Where
other work shares the machine, what the service itself takes of a processor says more than the clock: both are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import json
import math
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept
import numpy as np
from faults.server import Server, free_port

PAGE = kept.DOCS / "running.md"
DIM, BATCH = 54, 1000
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
SPECIFICATION = {
    "name": "speed", "kind": "logistic",
    "schema": {
        "target": "y",
        "columns": {f"c{k}": {"type": "number", "bounds": [-1, 1]} for k in range(DIM)} | {"y": {"type": "boolean"}},
    },
    "budget": {"epsilon": 1.0, "delta": 1e-6, "window": 1024},
}  # fmt: skip

COMPARED = (
    ("arrow / bare commits", "arrow", "bare_commits"),
    ("single / bare handler, 1 connection", "single_1", "bare_1"),
    ("single / bare handler, 8 connections", "single_8", "bare_8"),
    ("single on one core / bare handler, 1 connection", "pinned_1", "bare_1"),
    ("single on one core / bare handler, 8 connections", "pinned_8", "bare_8"),
    ("least handler / bare handler, 1 connection", "least_1", "bare_1"),
    ("least handler / bare handler, 8 connections", "least_8", "bare_8"),
)

_HANDLER = """
import hashlib, os, sqlite3, sys
import msgspec, uvicorn
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

db = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
WRITING
async def handle(request):
    write(await request.body())
    return Response(b'{"accepted":1}', media_type="application/json")

async def ready(request):
    return Response(b"{}")

app = Starlette(routes=[Route("/readyz", ready), Route("/rows", handle, methods=["POST"])])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
"""
BARE = _HANDLER.replace(
    "WRITING",
    """
db.execute("CREATE TABLE rows (body BLOB)")

def write(body):
    db.execute("INSERT INTO rows VALUES (?)", (body,))
""",
)
LEAST = _HANDLER.replace(
    "WRITING",
    """
db.executescript('''
CREATE TABLE keys (stream INTEGER, key BLOB, digest BLOB, number INTEGER, PRIMARY KEY (stream, key)) WITHOUT ROWID;
CREATE TABLE outputs (stream INTEGER, number INTEGER, body BLOB, PRIMARY KEY (stream, number)) WITHOUT ROWID;
CREATE TABLE log (chain INTEGER, number INTEGER, body BLOB, hash BLOB, PRIMARY KEY (chain, number)) WITHOUT ROWID;
CREATE TABLE states (stream INTEGER PRIMARY KEY, sealed BLOB);
CREATE TABLE about (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
INSERT INTO states VALUES (1, x'00');
INSERT INTO about VALUES ('commit', 0);
''')
cipher, count = AESGCM(bytes(32)), 0
state, decision = bytes(9216), bytes(1150)  # as many as there are with 54 features

def write(body):
    global count
    count += 1
    record, nonce = msgspec.json.decode(body), os.urandom(12)
    sealed = nonce + cipher.encrypt(nonce, state, None)
    digest = hashlib.blake2b(body, digest_size=16).digest()
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO keys VALUES (1, ?, ?, ?)", (record["id"].encode(), digest, count))
    db.execute("INSERT INTO outputs VALUES (1, ?, ?)", (count, decision))
    db.execute("UPDATE states SET sealed = ? WHERE stream = 1", (sealed,))
    db.execute("INSERT INTO log VALUES (1, ?, ?, ?)", (count, decision[:120], 2 * digest))
    db.execute("UPDATE about SET value = value + 1 WHERE name = 'commit'")
    db.execute("COMMIT")
""",
)


def key(number: int) -> str:
    """A UUID of version 7 with a number in it."""
    digits = f"{int(time.time() * 1000):012x}7{number % 4096:03x}8{number:015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def lines(dice: np.random.Generator, count: int, first: int) -> bytes:
    """Records as JSON lines."""
    rows = dice.uniform(-1, 1, (count, DIM)).round(4).tolist()
    return _join([_rest(row) for row in rows], first)


def _rest(row: list[float]) -> str:
    made = {"x": {f"c{j}": v for j, v in enumerate(row)}, "y": row[0] > 0}
    return json.dumps(made, separators=(",", ":"))[1:]


def _join(rests: list[str], first: int) -> bytes:
    return "\n".join(f'{{"id":"{key(first + k)}",{rest}' for k, rest in enumerate(rests)).encode()


def arrow(dice: np.random.Generator, count: int) -> bytes:
    """Records as an Arrow stream."""
    import pyarrow

    rows = dice.uniform(-1, 1, (count, DIM))
    columns = {f"c{j}": rows[:, j] for j in range(DIM)} | {"y": rows[:, 0] > 0}
    table = pyarrow.table(columns)
    out = io.BytesIO()
    with pyarrow.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def commits(folder: Path, body: bytes, seconds: float) -> dict[str, float]:
    """How many times a second the bytes can be committed, with nothing around, and what of a processor each takes."""
    db = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body BLOB)")
    count, began, busy = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        db.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        count += 1
    rate = count / (time.perf_counter() - began)
    busy = (time.process_time() - busy) / count
    db.close()
    return {"rate": rate, "records": BATCH * rate, "cpu_s": busy}


def client(
    port: int, path: str, token: str, kind: str, number: int, seconds: float, gate: Any, out: Any
) -> None:
    """One connection that sends without pause, once all are prepared, and its waiting times."""
    dice = np.random.default_rng(number)
    if kind == ARROW:
        bodies = [arrow(dice, BATCH) for _ in range(4)]
    elif kind == LINES:
        rests = [_rest(row) for row in dice.uniform(-1, 1, (BATCH, DIM)).round(4).tolist()]
        bodies = [_join(rests, 10**9 * number + 10**5 * k) for k in range(int(40 * seconds))]
    else:
        rests = [_rest(row) for row in dice.uniform(-1, 1, (16, DIM)).round(4).tolist()]
        bodies = [_join([rests[k % 16]], 10**9 * number + k) for k in range(int(4000 * seconds))]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": LINES if kind == "single" else kind,
    }
    waits: list[float] = []
    gate.wait()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and len(waits) < 10**6:
        if kind == ARROW:
            headers["Idempotency-Key"] = key(10**9 * number + len(waits))
        elif len(waits) == len(bodies):
            break
        sent = time.perf_counter()
        connection.request("POST", path, bodies[len(waits) % len(bodies)], headers)
        answer = connection.getresponse()
        data = answer.read()
        waits.append(time.perf_counter() - sent)
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {data[:300]!r}")
    out.put((len(waits), time.perf_counter() - began, waits))


def load(
    port: int, path: str, token: str, kind: str, connections: int, seconds: float, pid: int
) -> dict[str, float]:
    """Requests a second over some connections, the waiting time that one in a hundred exceeds, and the server's CPU."""
    before = processor(pid)
    made = multiprocessing.get_context("fork")
    out, gate = made.Queue(), made.Barrier(connections)
    tasks = [
        made.Process(target=client, args=(port, path, token, kind, number, seconds, gate, out))
        for number in range(connections)
    ]
    for task in tasks:
        task.start()
    found = [out.get() for _ in range(connections)]
    for task in tasks:
        task.join()
    waits = np.concatenate([one[2] for one in found])
    return {
        "rate": sum(one[0] / one[1] for one in found),
        "p50": float(np.quantile(waits, 0.5)),
        "p99": float(np.quantile(waits, 0.99)),
        "cpu_s": (processor(pid) - before) / len(waits),
    }


class Bare:
    """The bare handler, or the least one."""

    def __init__(self, folder: Path, program: str = BARE) -> None:
        self.port = free_port()
        database = str(folder / f"handler-{self.port}.sqlite")
        self.process = subprocess.Popen([sys.executable, "-c", program, database, str(self.port)])
        while True:
            probe = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                probe.request("GET", "/readyz")
                probe.getresponse().read()
                return
            except OSError:
                time.sleep(0.05)
            finally:
                probe.close()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def many_streams(folder: Path, count: int) -> dict[str, float]:
    """Memory with many streams that have learnt, and how long a start takes."""
    server = Server(folder)
    server.start()
    body = lines(np.random.default_rng(0), 2, 0)
    for k in range(count):
        server.json("POST", "/v1/streams", SPECIFICATION | {"name": f"s{k}"})
        status, data = server.request("POST", f"/v1/streams/s{k}/records", body, LINES)
        assert status == 200, data
    used = memory(server.process.pid)
    server.stop()
    began = time.perf_counter()
    server.start()
    ready, cpu = time.perf_counter() - began, processor(server.process.pid)
    after = memory(server.process.pid)
    server.stop()
    return {
        "streams": count, "MiB": used, "ready_s": ready, "ready_cpu_s": cpu, "MiB_after_start": after,
    }  # fmt: skip


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used, all its threads together."""
    found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, found[11:13])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the process is gone")


@contextlib.contextmanager
def on_one_core(pid: int) -> Iterator[None]:
    """Keep all threads of a process on one core, as `taskset` does."""
    threads = [int(place.name) for place in Path(f"/proc/{pid}/task").iterdir()]
    before = os.sched_getaffinity(pid)
    try:
        for thread in threads:
            os.sched_setaffinity(thread, {min(before)})
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, before)


def turn(folder: Path, server: Server, bare: Bare, least: Bare, seconds: float) -> dict[str, Any]:
    """Everything once, each beside what it is compared with."""
    path = "/v1/streams/speed/records"

    def service(kind: str, each: int, connections: int) -> dict[str, float]:
        pid = server.process.pid
        some = load(server.port, path, server.token, kind, connections, seconds, pid)
        return some | {"records": each * some["rate"]}

    def handler(which: Bare, connections: int) -> dict[str, float]:
        return load(which.port, "/rows", "", "single", connections, seconds, which.process.pid)

    body = arrow(np.random.default_rng(0), BATCH)
    found: dict[str, Any] = {"bare_commits": commits(folder, body, seconds)}
    found["arrow"] = service(ARROW, BATCH, 2)
    found["lines"] = service(LINES, BATCH, 2)
    for connections in (1, 8):
        found[f"single_{connections}"] = service("single", 1, connections)
        with on_one_core(server.process.pid):
            found[f"pinned_{connections}"] = service("single", 1, connections)
        found[f"bare_{connections}"] = handler(bare, connections)
        found[f"least_{connections}"] = handler(least, connections)
    found["ratios"] = {
        words: found[own]["rate"] / found[bare]["rate"] for words, own, bare in COMPARED
    }
    # where other work shares the machine, what each takes of a processor says more than the clock
    found["processor"] = {
        words: found[bare]["cpu_s"] / found[own]["cpu_s"] for words, own, bare in COMPARED
    }
    return found


def median(found: list[Any]) -> Any:
    """Of numbers, or of every number in dictionaries of the same shape."""
    if isinstance(found[0], dict):
        return {name: median([one[name] for one in found]) for name in found[0]}
    return float(np.median(found))


def measure(seconds: float, rounds: int, streams: int) -> dict[str, Any]:
    """Medians over some rounds; of the rates the best as well."""
    folder = Path(tempfile.mkdtemp(prefix="reticent-speed-"))
    found: dict[str, Any] = {"cores": os.cpu_count()}
    server = Server(folder / "service")
    bare, least = Bare(folder), Bare(folder, LEAST)
    try:
        server.start()
        server.json("POST", "/v1/streams", SPECIFICATION)
        turns = [turn(folder, server, bare, least, seconds) for _ in range(rounds)]
        found |= median(turns)
        found["best_lines"] = max(one["lines"]["records"] for one in turns)
        found["turns"] = turns
        server.stop()
        if streams:
            found["many"] = many_streams(folder / "many", streams)
    finally:
        bare.close()
        least.close()
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def page(runs: list[dict[str, Any]]) -> str:
    """The page about running it with its table made anew, from the runs on the latest version."""
    mine = [run for run in runs if run["version"] == runs[-1]["version"]]

    def rate(name: str, field: str = "records") -> str:
        return kept.span([run[name][field] for run in mine])

    def wait(name: str) -> str:
        return f"p99 {kept.span([1e3 * run[name]['p99'] for run in mine], '.1f')} ms"

    def ratio(words: str) -> str:
        return kept.span([turn[words] for run in mine for turn in run["ratios_of_turns"]], ".2f")

    def busy(name: str, each: int) -> str:
        return kept.span([each / run[name]["cpu_s"] for run in mine])

    def saved(words: str) -> str:
        return kept.span([run["processor"][words] for run in mine], ".2f")

    lines = [
        "| workload | service | per CPU second | compared with | ratio | ratio of CPU times |",
        "|---|---|---|---|---|---|",
        f"| Arrow, 1,000 records per batch, one key | {rate('arrow')} records/s | {busy('arrow', BATCH)} records "
        f"| bare commits, {rate('bare_commits')} | {ratio('arrow / bare commits')} | {saved('arrow / bare commits')} |",
        f"| JSON lines, 1,000 per request, a key each | {rate('lines')} records/s | {busy('lines', BATCH)} records "
        "| | | |",
    ]
    for count, words in ((1, "one connection"), (8, "eight connections")):
        bare = f"bare_{count}"
        for own, which, what in (
            (f"single_{count}", "single", "single requests"),
            (f"pinned_{count}", "single on one core", "single requests, pinned to one core"),
            (f"least_{count}", "least handler", "the least handler"),
        ):
            if own not in mine[0]:  # earlier runs did not do this
                continue
            name = f"{which} / bare handler, {count} connection{'s' * (count > 1)}"
            lines.append(
                f"| {what}, {words} | {rate(own, 'rate')}/s, {wait(own)} | {busy(own, 1)} requests "
                f"| bare handler, {rate(bare, 'rate')}, {wait(bare)} | {ratio(name)} | {saved(name)} |"
            )
    load = kept.span([run["load"] for run in mine], ".1f")
    rounds = sum(len(run["ratios_of_turns"]) for run in mine)
    words = f"Version {runs[-1]['version']}, {rounds} rounds on two cores, clients included, load {load}; "
    words += "rates are medians, ratios the smallest and largest of all rounds"
    made = f"{words}:\n\n" + "\n".join(lines) + "\n"
    many = [run["many"] for run in mine if "many" in run]
    if many:
        made += (
            f"\n{many[0]['streams']:,} streams that had learnt took {kept.span([one['MiB'] for one in many])} MiB; "
            f"the next start was ready after {kept.span([one['ready_s'] for one in many], '.1f')} s "
            f"({kept.span([one['ready_cpu_s'] for one in many], '.1f')} s of CPU time).\n"
        )
    return kept.written(PAGE.read_text(), "service", made)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--full", action="store_true", help="longer, and with 1,000 streams")
    parser.add_argument("--streams", type=int, help="how many streams to fill memory with")
    parser.add_argument("--rounds", type=int, default=1, help="of which medians are shown")
    parser.add_argument(
        "--keep-run", action="store_true", help="add this run to those that the table is made of"
    )
    parser.add_argument("--table", action="store_true", help="write the table into docs/running.md")
    said = parser.parse_args()
    if said.table:
        PAGE.write_text(page(kept.stored("service")))
        return 0
    streams = said.streams if said.streams is not None else (1000 if said.full else 0)
    version = kept.version()
    found = measure(15.0 if said.full else 4.0, said.rounds, streams)
    for name in (
        "bare_commits", "arrow", "lines", "single_1", "pinned_1", "bare_1", "least_1", "single_8", "pinned_8", "bare_8",
        "least_8",
    ):  # fmt: skip
        one = found[name]
        print(
            f"{name}: {one.get('records', one['rate']):,.0f} records/s, "
            f"median {1e3 * one.get('p50', 1 / one['rate']):.2f} ms, p99 {1e3 * one.get('p99', math.nan):.2f} ms, "
            f"{one.get('records', one['rate']) / one['rate'] / one['cpu_s']:,.0f} records per second of its processor"
        )
    print(f"lines at best: {found['best_lines']:,.0f} records/s")
    for name, value in found["ratios"].items():
        each = ", ".join(f"{one['ratios'][name]:.2f}" for one in found["turns"])
        print(f"{name}: {value:.2f} (of {each}); of processor time {found['processor'][name]:.2f}")
    if "many" in found:
        many = found["many"]
        print(
            f"{many['streams']} streams: {many['MiB']:.0f} MiB, ready again in {many['ready_s']:.1f} s "
            f"({many['ready_cpu_s']:.1f} s of its processor) with {many['MiB_after_start']:.0f} MiB"
        )
    if said.keep_run:
        turns = found.pop("turns")
        found["ratios_of_turns"] = [one["ratios"] for one in turns]
        kept.keep("service", {"version": version, "load": os.getloadavg()[1], **found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
