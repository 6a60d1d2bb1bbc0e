"""Several workers on PostgreSQL: throughput and waiting times beside bare commits there, fail-over, memory, overload.

    python benchmarks/service_workers.py                  # 1, 2 and 4 workers, 24 streams
    python benchmarks/service_workers.py --workers 1 2

Bare commits: as many connections insert the body of a request into one table, one transaction each, with no HTTP and
nothing learnt. Clients run in processes of their own on the same cores, each on streams of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from faults.database import Database, available
from faults.nursery import Nursery
from faults.server import Server
from service import LINES, SPECIFICATION, lines, memory

STREAMS, CONNECTIONS = 24, 8


def bare(url: str, number: int, seconds: float, out: Any) -> None:
    """One connection that commits one row at a time."""
    import psycopg

    body = lines(np.random.default_rng(number), 1, 0)
    waits = []
    with psycopg.connect(url, autocommit=True) as connection:
        out.put("ready")
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            sent = time.perf_counter()
            connection.execute("INSERT INTO bare VALUES (%s)", (body,))
            waits.append(time.perf_counter() - sent)
    out.put((len(waits) / (time.perf_counter() - began), waits))


def client(ports: list[int], token: str, number: int, count: int, seconds: float, out: Any) -> None:
    """One client, with a connection to every worker, that sends to its streams in turn."""
    dice = np.random.default_rng(number)
    mine = range(number, STREAMS, CONNECTIONS)
    bodies = [
        lines(dice, count, 10**9 * (number + 100 * count) + 10**4 * k)
        for k in range(int(200 * seconds if count == 1 else 8 * seconds))
    ]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": LINES}
    doors = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for port in ports]
    waits: list[float] = []
    busy = 0
    out.put("ready")
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and len(waits) < len(bodies):
        stream = mine[len(waits) % len(mine)]
        door = doors[stream % len(doors)]  # as a balancer that keeps to a worker would
        sent = time.perf_counter()
        door.request("POST", f"/v1/streams/s{stream}/records", bodies[len(waits)], headers)
        answer = door.getresponse()
        data = answer.read()
        if answer.status in (429, 503):
            busy += 1
            time.sleep(0.05)
            continue
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {data[:300]!r}")
        waits.append(time.perf_counter() - sent)
    out.put((len(waits) / (time.perf_counter() - began), waits))


def spread(task: Any, arguments: list[tuple[Any, ...]]) -> dict[str, float]:
    """Run tasks in processes of their own; the sum of their rates, and quantiles of all waiting times."""
    made = multiprocessing.get_context("fork")
    out = made.Queue()
    tasks = [made.Process(target=task, args=(*some, out)) for some in arguments]
    for one in tasks:
        one.start()
    found = [one for one in (out.get() for _ in range(2 * len(tasks))) if one != "ready"]
    for one in tasks:
        one.join()
    waits = np.concatenate([waits for _, waits in found])
    return {
        "rate": sum(rate for rate, _ in found),
        "p50_ms": 1e3 * float(np.quantile(waits, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(waits, 0.99)),
    }


def fail_over(servers: list[Server], token: str, lease: float) -> float:
    """Seconds from the kill of a worker until another has answered for its stream."""
    body = lines(np.random.default_rng(1), 1, 5 * 10**12)
    path = "/v1/streams/s0/records"
    status, data = servers[0].request("POST", path, body, LINES, token=token)
    assert status == 200, data
    servers[0].kill()
    began = time.perf_counter()
    for number in range(10_000):
        body = lines(np.random.default_rng(1), 1, 6 * 10**12 + number)
        status, _ = servers[1].request("POST", path, body, LINES, token=token)
        if status == 200:
            return time.perf_counter() - began
        time.sleep(0.05)
    raise RuntimeError(f"no answer though leases last {lease} s")


def measure(workers: int, seconds: float, lease: float) -> dict[str, Any]:
    """One number of workers."""
    work = Path(tempfile.mkdtemp(prefix="reticent-workers-"))
    database = Database()
    (work / "key").write_text("5e" * 32)
    shared = {"RETICENT_ANCHORS": str(work / "anchors")}
    nursery = Nursery(work, shared)
    options = (
        "--database", database.url, "--key-file", str(work / "key"), "--lease", str(lease),
    )  # fmt: skip
    servers = [
        Server(work / f"worker-{k}", shared, options, quick=nursery, folder=False)
        for k in range(workers)
    ]
    found: dict[str, Any] = {"workers": workers}
    try:
        import psycopg

        with psycopg.connect(database.url, autocommit=True) as admin:
            admin.execute("CREATE TABLE bare (body BYTEA)")
        for server in servers:
            server.start()
        token, pids = servers[0].token, [server.process.pid for server in servers]
        before = [memory(pid) for pid in pids]
        for k in range(STREAMS):
            servers[0].json("POST", "/v1/streams", SPECIFICATION | {"name": f"s{k}"})
        for k in range(STREAMS):  # the first request of a stream takes its lease and restores it
            body = lines(np.random.default_rng(k), 1, 4 * 10**12 + k)
            door = servers[k % workers]
            status, data = door.request(
                "POST", f"/v1/streams/s{k}/records", body, LINES, token=token
            )
            assert status == 200, data
        ports = [server.port for server in servers]
        for name, count in (("single", 1), ("lines", 500)):
            some = [(ports, token, k, count, seconds) for k in range(CONNECTIONS)]
            one = spread(client, some)
            found[name] = one | {"records": count * one["rate"]}
        found["bare"] = spread(bare, [(database.url, k, seconds) for k in range(CONNECTIONS)])
        found["MiB_per_stream"] = (sum(map(memory, pids)) - sum(before)) / STREAMS
        if workers > 1:
            found["fail_over_s"] = fail_over(servers, token, lease)
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()
        nursery.close()
        database.close()
        shutil.rmtree(work, ignore_errors=True)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--lease", type=float, default=6.0)
    parser.add_argument("--out", type=Path, help="a JSON file")
    said = parser.parse_args()
    if available() is not None:
        print(f"skipped: {available()}")
        return 0
    rows = []
    for workers in said.workers:
        found = measure(workers, said.seconds, said.lease)
        rows.append(found)
        print(
            f"{workers} workers, {STREAMS} streams, {CONNECTIONS} connections, {os.cpu_count()} cores"
        )
        for name in ("single", "lines", "bare"):
            one = found[name]
            print(
                f"  {name}: {one.get('records', one['rate']):,.0f} records/s, median {one['p50_ms']:.1f} ms, "
                f"p99 {one['p99_ms']:.1f} ms"
            )
        print(f"  {found['MiB_per_stream']:.2f} MiB per stream", end="")
        print(
            f", fail-over {found['fail_over_s']:.1f} s" if "fail_over_s" in found else "",
            flush=True,
        )
    if said.out is not None:
        said.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
