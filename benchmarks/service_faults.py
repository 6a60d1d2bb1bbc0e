"""Kill the service a thousand times, fail its disk and its clock, and check that nothing was counted twice.

    python benchmarks/service_faults.py --kills 1000            # hours
    python benchmarks/service_faults.py --kills 15 --minutes 1  # a minute for each fault
    python benchmarks/service_faults.py --table                 # the table of docs/service.md, from the runs kept

Client processes send records without pause, lose answers and repeat themselves, while faults come at random
moments. After each scenario an independent checker (`faults/replay.py`) replays what was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kept
from faults import database, namespace, proxy, replay, shim
from faults.nursery import Nursery
from faults.server import Server
from faults.table import table

LOAD = Path(__file__).with_name("faults") / "load.py"
PAGE = kept.DOCS / "service.md"
CLIENTS = 3


def specifications(streams: int = 4) -> list[dict[str, Any]]:
    """Streams of several kinds, each with a stated seed."""
    number = {"type": "number", "bounds": [0, 1]}
    features = {f"c{k}": number for k in range(4)}
    made: list[dict[str, Any]] = [
        {
            "name": "two-classes", "kind": "logistic", "seed": 7,
            "schema": {"target": "y", "columns": features | {"y": {"type": "boolean"}}},
            "budget": {"epsilon": 1.0, "delta": 1e-6, "window": 64},
        },
        {
            "name": "numbers", "kind": "linear", "seed": 8, "horizon": 10_000_000,
            "schema": {"target": "y", "columns": features | {"y": {"type": "number", "bounds": [-1, 1]}}},
            "budget": {"epsilon": 2.0, "delta": 1e-6},
        },
        {
            "name": "three-classes", "kind": "logistic", "seed": 9, "publish": "every",
            "schema": {
                "target": "y",
                "columns": features | {"y": {"type": "category", "values": ["r", "g", "b"]}},
            },
            "budget": {"epsilon": 1.0, "delta": 1e-6, "window": 100},
        },
        {
            "name": "sums", "kind": "total", "seed": 10, "schema": {"columns": features},
            "budget": {"epsilon": 1.0, "delta": 1e-6, "window": 64},
        },
    ]  # fmt: skip
    return made[:streams]


def _classes(target: dict[str, Any]) -> list[str] | None:
    """What a label can be; None for a number."""
    return ["true", "false"] if target["type"] == "boolean" else target.get("values")


class Trial:
    """A service under load on a folder of its own.

    Parameters
    ----------
    work : path
        An empty folder.
    seed : int
        Of the moments at which faults come.
    power : bool
        Whether to keep what was last synced, for power cuts.
    """

    done = 0
    """How many faults there were."""
    end = math.inf
    """When there shall be no more, on the monotonic clock."""

    def __init__(self, work: Path, seed: int, *, power: bool = False) -> None:
        self.work, self.dice = work, random.Random(seed)
        self.shim = shim.Shim(work / "shim", work / "disk", power=power)
        self.servers = self._servers()
        self.server = self.servers[0]
        self.journals: list[Path] = []
        self.clients: list[subprocess.Popen[bytes]] = []
        self.made = specifications()
        for server in self.servers:
            server.start()
            server.token = server.token or self.server.token
        for one in self.made:
            self.server.json("POST", "/v1/streams", one)

    def _servers(self) -> list[Server]:
        return [Server(self.work, self.shim.environment, quick=True)]

    def load(self, seconds: float = 1e9, clients: int = CLIENTS) -> None:
        """Start client processes."""
        streams = [
            {
                "name": one["name"],
                "columns": [c for c in one["schema"]["columns"] if c != "y"],
                "labelled": "y" in one["schema"]["columns"],
                "classes": _classes(one["schema"]["columns"].get("y", {"type": "number"})),
            }
            for one in self.made
        ]  # fmt: skip
        run = len(self.journals)
        for client in range(clients):
            journal = self.work / f"journal-{run}-{client}.jsonl"
            self.journals.append(journal)
            plan = {
                "doors": [(server.host, server.port) for server in self.servers], "token": self.server.token,
                "client": client, "run": run, "journal": str(journal), "streams": streams,
                "most": 30, "seconds": seconds,
            }  # fmt: skip
            self.clients.append(subprocess.Popen([sys.executable, LOAD, json.dumps(plan)]))
        while not all(journal.exists() and journal.stat().st_size for journal in self.journals):
            time.sleep(0.01)

    def faults(self, count: int, least: float = 0.0, most: float = 0.0) -> Iterator[int]:
        """Under load, the moments for so many faults, that many seconds apart, until time is up."""
        self.load()
        for number in range(count):
            if time.monotonic() > self.end:
                break
            time.sleep(self.dice.uniform(least, most))
            yield number
            self.done += 1
        self.shim.calm()
        time.sleep(0.5)

    def settle(self) -> replay.Verdict:
        """Let the clients finish what they began, and check."""
        self.shim.calm()
        for client in self.clients:
            client.terminate()
        end = time.monotonic() + 120.0
        while any(client.poll() is None for client in self.clients):
            self.mend(False)  # a fault may end the service after whoever caused it looked
            assert time.monotonic() < end, "clients could not finish what they began"
            time.sleep(0.05)
        self.clients.clear()

        def ask(path: str) -> bytes:
            for _ in range(40):  # a connection that was lost is noticed by the first who uses it
                status, body = self.server.request("GET", path)
                if status != 503:
                    break
                time.sleep(0.1)
            assert status == 200, (path, status, body)
            return body

        return replay.check(self.journals, self.made, ask)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.server.kill()
        self.server.start()

    def mend(self, killed: bool) -> None:
        """Start again if it was killed, or ended by itself as it does when its anchor cannot be written."""
        if killed or self.server.process.poll() is not None:
            self.restart()

    def close(self) -> None:
        """End everything."""
        for client in self.clients:
            client.kill()
            client.wait()
        for server in self.servers:
            server.close()


class Workers(Trial):
    """Several workers on one PostgreSQL server, each behind a line that can be cut.

    Parameters
    ----------
    work : path
        An empty folder.
    seed : int
        Of the moments at which faults come.
    workers : int
        How many.
    """

    def __init__(self, work: Path, seed: int, workers: int = 2) -> None:
        self.database = database.Database()
        self.lines = [proxy.Line(self.database.port) for _ in range(workers)]
        super().__init__(work, seed)

    def _servers(self) -> list[Server]:
        (self.work / "key").write_text("5e" * 32)
        nursery = Nursery(self.work, self._shared())
        return [
            self._worker(number, f"127.0.0.1:{line.port}", nursery)
            for number, line in enumerate(self.lines)
        ]

    def _shared(self) -> dict[str, str]:
        return {"RETICENT_ANCHORS": str(self.work / "anchors")}

    def _worker(
        self, number: int, database: str, nursery: Nursery, host: str = "127.0.0.1"
    ) -> Server:
        url = self.database.url.replace(f"127.0.0.1:{self.database.port}", database)
        options = ("--database", url, "--key-file", str(self.work / "key"), "--lease", "2")
        folder = self.work / f"worker-{number}"
        return Server(folder, self._shared(), options, quick=nursery, folder=False, host=host)

    def revive(self) -> None:
        """Start whatever does not run, and wait until all are ready."""
        for server in self.servers:
            if server.process.poll() is not None:
                server.launch()
            server.wait_ready()

    def settle(self) -> replay.Verdict:
        for line in self.lines:
            line.join()
        self.revive()
        return super().settle()

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        super().close()
        for line in self.lines:
            line.close()
        self.database.close()


class Apart(Workers):
    """The same with each worker in a network namespace, whose cable to the database can be pulled."""

    def __init__(self, work: Path, seed: int, workers: int = 2) -> None:
        self.network = namespace.Network(workers)
        super().__init__(work, seed, workers)

    def _servers(self) -> list[Server]:
        (self.work / "key").write_text("5e" * 32)
        self.database.admit(f"{namespace.DATABASE}.0/24")
        made = []
        for number in range(len(self.lines)):
            work = self.work / f"namespace-{number}"
            work.mkdir()
            nursery = Nursery(work, self._shared(), self.network.inside(number))
            there = f"{namespace.DATABASE}.1:{self.database.port}"
            made.append(self._worker(number, there, nursery, self.network.host(number)))
        return made

    def settle(self) -> replay.Verdict:
        for number in range(len(self.servers)):
            self.network.join(number)
        return super().settle()

    def close(self) -> None:
        super().close()
        self.network.close()


# Scenarios -----------------------------------------------------------------------------------------------


def dead_workers(trial: Workers, count: int) -> None:
    """kill -9 of workers, while they start too; their streams move to the other."""
    for _ in trial.faults(count, 0, 0.6):
        server = trial.dice.choice(trial.servers)
        server.kill()
        if trial.dice.random() < 0.3:  # long enough for its leases to run out
            time.sleep(trial.dice.uniform(0, 3))
        server.launch()
        if trial.dice.random() < 0.3:
            server.wait_ready()


def dead_database(trial: Workers, count: int) -> None:
    """kill -9 of the database with all its processes, or its immediate stop."""
    for _ in trial.faults(count, 0, 0.6):
        trial.dice.choice([trial.database.kill, trial.database.immediate])()
        time.sleep(trial.dice.uniform(0, 0.3))
        trial.database.start()
        trial.revive()


def fights(trial: Workers, count: int) -> None:
    """A worker sleeps in the middle of its work until another has its streams, and wakes up."""
    for _ in trial.faults(count, 0.1, 0.5):
        server = trial.dice.choice(trial.servers)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(trial.dice.uniform(1, 5))
        server.process.send_signal(signal.SIGCONT)


def cut_lines(trial: Workers, count: int) -> None:
    """Between a worker and the database nothing gets through, either way, for a while; or the line breaks."""
    for _ in trial.faults(count, 0.1, 0.5):
        line = trial.dice.choice(trial.lines)
        if trial.dice.random() < 0.5:
            line.silence()
            time.sleep(trial.dice.uniform(0.5, 6))
        else:
            line.cut()
            time.sleep(trial.dice.uniform(0, 1))
        line.join()
        trial.revive()


def pulled_cables(trial: Apart, count: int) -> None:
    """The cable between a worker and the database is pulled for a while; its leases run out, or nearly."""
    for _ in trial.faults(count, 0.1, 0.5):
        number = trial.dice.randrange(len(trial.servers))
        trial.network.cut(number)
        time.sleep(trial.dice.uniform(0.2, 6))
        trial.network.join(number)
        trial.revive()


def kills(trial: Trial, count: int) -> None:
    """kill -9 at moments that are spread over every phase, the start included."""
    for _ in trial.faults(count):
        if trial.dice.random() < 0.6:
            # at a write or a sync, half of the write done
            trial.shim.set(kill=trial.dice.randint(1, 600))
            end = time.monotonic() + 5
            while trial.server.process.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            trial.shim.set(kill=0)
        else:
            time.sleep(trial.dice.uniform(0, 0.3))
        trial.server.kill()
        if trial.dice.random() < 0.15:  # it is killed while it starts
            trial.server.launch()
            time.sleep(trial.dice.uniform(0, 3))
            trial.server.kill()
        trial.server.start()


def power_cuts(trial: Trial, count: int) -> None:
    """kill -9, and every file is as it was when it was last synced."""
    assert trial.shim.shadow is not None
    for _ in trial.faults(count, 0.1, 0.5):
        trial.shim.set(kill=trial.dice.randint(1, 600))
        time.sleep(0.5)
        trial.server.kill()
        trial.shim.set(kill=0)
        trial.shim.cut_power()
        trial.server.start()


def full_disk(trial: Trial, count: int) -> None:
    """No byte can be written for a while."""
    for _ in trial.faults(count, 0.1, 0.3):
        trial.shim.set(full=1)
        time.sleep(trial.dice.uniform(0.1, 0.3))
        trial.shim.set(full=0)
        trial.mend(trial.dice.random() < 0.3)


def broken_disk(trial: Trial, count: int) -> None:
    """The disk answers syncs with errors for a while."""
    for _ in trial.faults(count, 0.1, 0.3):
        trial.shim.set(broken=1)
        time.sleep(trial.dice.uniform(0.05, 0.3))
        trial.shim.set(broken=0)
        trial.mend(trial.dice.random() < 0.3)


def slow_disk(trial: Trial, count: int) -> None:
    """Every sync takes up to a fifth of a second."""
    for _ in trial.faults(count):
        trial.shim.set(slow=trial.dice.randint(1_000, 200_000))
        time.sleep(trial.dice.uniform(0.2, 0.6))
        if trial.dice.random() < 0.3:
            trial.restart()


def clock_jumps(trial: Trial, count: int) -> None:
    """The wall clock jumps by up to three days, both ways."""
    for _ in trial.faults(count):
        trial.shim.set(clock=trial.dice.choice([-1, 1]) * trial.dice.randint(1, 3 * 86400))
        time.sleep(trial.dice.uniform(0.1, 0.4))
        if trial.dice.random() < 0.3:
            trial.restart()


def calm(trial: Trial, count: int) -> None:
    """Dropped, halved, doubled, contradicting and spoilt requests alone, for so many seconds."""
    for _ in trial.faults(count, 1.0, 1.0):
        pass


@dataclass(frozen=True)
class Scenario:
    """One kind of fault, and how many of them a run of so many kills has."""

    words: str
    body: Callable[[Any, int], None]
    share: float
    power: bool = False
    workers: int = 0
    """On PostgreSQL with so many workers; 0 is a folder."""
    apart: bool = False
    """Whether each worker is in a network namespace of its own."""


SCENARIOS = {
    "kills": Scenario("kill -9, at random moments and in the middle of writes", kills, 1.0),
    "power": Scenario("power cut: what was not synced is gone", power_cuts, 0.2, True),
    "full": Scenario("full disk", full_disk, 0.2),
    "broken": Scenario("syncs fail", broken_disk, 0.2),
    "slow": Scenario("slow disk", slow_disk, 0.2),
    "clock": Scenario("clock jumps", clock_jumps, 0.2),
    "workers": Scenario("PostgreSQL: kill -9 of workers", dead_workers, 0.5, workers=2),
    "database": Scenario(
        "PostgreSQL: kill -9 and immediate stops of the database", dead_database, 0.5, workers=2
    ),
    "fights": Scenario(
        "PostgreSQL: workers that sleep while their streams move", fights, 0.1, workers=2
    ),
    "lines": Scenario(
        "PostgreSQL: silence and cuts between worker and database", cut_lines, 0.1, workers=2
    ),
    "cables": Scenario(
        "PostgreSQL: the cable of a network namespace pulled",
        pulled_cables,
        0.1,
        workers=2,
        apart=True,
    ),
    "network": Scenario("dropped, halved and repeated requests alone (seconds)", calm, 0.2),
}


def run(
    name: str, count: int, seed: int, work: Path, minutes: float = math.inf
) -> tuple[int, replay.Verdict, float]:
    """One scenario, checked: how many faults there were, what was found, and seconds."""
    scenario = SCENARIOS[name]
    began = time.monotonic()
    trial: Trial = (
        (Apart if scenario.apart else Workers)(work, seed, scenario.workers)
        if scenario.workers
        else Trial(work, seed, power=scenario.power)
    )
    trial.end = began + 60.0 * minutes
    try:
        scenario.body(trial, count)
        verdict = trial.settle()
    finally:
        trial.close()
    return trial.done, verdict, time.monotonic() - began


def missing(scenario: Scenario) -> str | None:
    """Why a scenario cannot happen here; None if it can."""
    if scenario.workers and (why := database.available()) is not None:
        return why
    return namespace.available() if scenario.apart else None


def page(runs: list[dict[str, Any]]) -> str:
    """The page of the service with its table made anew."""
    words = {name: scenario.words for name, scenario in SCENARIOS.items()}
    return kept.written(PAGE.read_text(), "faults", table(runs, words))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument(
        "--kills", type=int, default=100, help="how many; other faults in proportion"
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="each scenario ends after these"
    )
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="may be given again")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument(
        "--keep-run", action="store_true", help="add the runs to those that the table is made of"
    )
    parser.add_argument("--table", action="store_true", help="write the table into docs/service.md")
    parser.add_argument("--keep", action="store_true", help="keep folders of scenarios that failed")
    said = parser.parse_args()
    if said.table:
        PAGE.write_text(page(kept.stored("faults")))
        return 0
    why = shim.available()
    if why is not None:
        print(f"skipped: {why}")
        return 0
    print(f"seed {said.seed}", flush=True)
    version, failed = kept.version(), 0
    for name in said.only or SCENARIOS:
        scenario = SCENARIOS[name]
        if (why := missing(scenario)) is not None:
            print(f"{scenario.words}: skipped, {why}")
            continue
        count = max(1, round(said.kills * scenario.share))
        work = Path(tempfile.mkdtemp(prefix=f"reticent-{name}-"))
        done, verdict, seconds = run(name, count, said.seed, work, said.minutes)
        failed += bool(verdict.wrong)
        if said.keep_run:
            row = {
                "scenario": name, "version": version, "seed": said.seed, "count": done,
                "requests": verdict.requests, "records": verdict.records, "decisions": verdict.decisions,
                "seen": verdict.seen, "wrong": verdict.wrong, "seconds": round(seconds, 1),
            }  # fmt: skip
            kept.keep("faults", row)
        print(f"{scenario.words}: {done}; {verdict} ({seconds:.0f} s)", flush=True)
        if verdict.wrong and said.keep:
            print(f"kept in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
