"""How much disk, memory and time a service takes: the figures of docs/running.md.

    python benchmarks/service_sizing.py            # print them
    python benchmarks/service_sizing.py --table    # write them into the page

Starts a service on a temporary folder, sends records to a few streams, and looks at its database and its process.
Linux only: memory is read from /proc.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kept

from reticent import Client
from reticent.compiling import compile_at_once
from reticent.service.backup import backup
from reticent.service.folder import Options
from reticent.service.looking import verify

compile_at_once()


FEATURES = 20


def specification(name: str) -> dict[str, Any]:
    """A stream that learns from twenty numbers."""
    number = {"type": "number", "bounds": [-1, 1]}
    columns = {f"x{k}": number for k in range(FEATURES)} | {"y": {"type": "boolean"}}
    budget = {"epsilon": 1.0, "delta": 1e-6, "window": 1024}
    schema = {"target": "y", "columns": columns}
    return {"name": name, "kind": "logistic", "schema": schema, "budget": budget}


def memory(process: int) -> float:
    """Resident memory of a process, in MiB."""
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found is not None
    return int(found.group(1)) / 1024


def sizes(database: Path) -> dict[str, tuple[int, int]]:
    """Rows and bytes of the tables that grow."""
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    out = {}
    for table in ("outputs", "keys", "log"):
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}")
        ((size,),) = connection.execute(
            "SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE name = ?", (table,)
        )
        out[table] = (rows, size)
    connection.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--requests", type=int, default=100, help="to each stream")
    parser.add_argument("--records", type=int, default=10, help="in each request")
    parser.add_argument("--table", action="store_true", help="write them into docs/running.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = run(Path(folder), given.streams, given.requests, given.records)
    print(made)
    if given.table:
        page = kept.DOCS / "running.md"
        page.write_text(kept.written(page.read_text(), "sizing", made))


def run(folder: Path, streams: int, requests: int, records: int) -> str:
    """Measure, and make a table."""
    data = folder / "data"
    process = subprocess.Popen(
        [sys.executable, "-m", "reticent", "serve", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"RETICENT_ANCHORS": str(folder / "anchors")},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        token = process.stdout.readline().removeprefix("token: ").strip()
        url = process.stdout.readline().removeprefix("listening on ").strip()
        client = Client(url, token, patience=300)
        client.call("GET", "/readyz")
        empty = memory(process.pid)
        for k in range(streams):
            client.create(specification(f"s{k}"))
        x = {f"x{k}": 0.01 * k for k in range(FEATURES)}
        for request in range(requests):
            for k in range(streams):
                client.send(
                    f"s{k}",
                    [{"id": f"{request}-{j}", "x": x, "y": j % 2 == 0} for j in range(records)],
                )
        full = memory(process.pid)
        began = time.perf_counter()
        made = backup(Options(data), folder / "backup")
        seconds = time.perf_counter() - began
        began = time.perf_counter()
        verdict = verify(Options(data))
        verified = time.perf_counter() - began
        assert verdict.wrong == []
    finally:
        process.terminate()
        process.wait(60)
    lines = [
        f"{streams} streams of {FEATURES} features, {requests} requests of {records} records to each, version "
        f"{kept.version()}:\n",
        "| quantity | value |\n|---|---|",
        f"| memory when ready, without streams | {empty:.0f} MiB |",
        f"| memory for each stream in use | {(full - empty) / streams:.2f} MiB |",
    ]
    for table, (rows, size) in sizes(folder / "backup" / "service.sqlite").items():
        words = {"outputs": "decision", "keys": "key of a record", "log": "entry of the log"}[table]
        lines.append(f"| disk for each {words} | {size / rows:.0f} bytes |")
    lines += [
        f"| backup of {made['bytes'] / 2**20:.1f} MiB while it is served | {seconds:.2f} s |",
        f"| `verify` of {verdict.entries} entries and {verdict.decisions} decisions | {verified:.2f} s |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
