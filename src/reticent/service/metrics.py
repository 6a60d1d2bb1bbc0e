"""Metrics in Prometheus' text format, by route and by stream.

Labels are routes, statuses and names of streams, which are public. The number of records is public too
(docs/service.md); numbers that read private data, such as how many records were clipped, are not included.

The format is written by hand in two dozen lines: ``prometheus-client`` keeps its registry in global state, which two
services in one process would share.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from reticent.service.engine import Live
from reticent.version import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
KIND = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Durations, counted in buckets."""

    def __init__(self) -> None:
        self.counts, self.sum = [0] * (len(_SECONDS) + 1), 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect.bisect_left(_SECONDS, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str, labels: str) -> Iterable[str]:
        """The lines of the histogram in Prometheus' format."""
        comma = "," if labels else ""
        total = 0
        for bound, count in zip([*map(str, _SECONDS), "+Inf"], self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.sum!r}"
        yield f"{name}_count{braces} {total}"


class Metrics:
    """Counts since the start of the process."""

    def __init__(self) -> None:
        self.started = time.time()
        self._guard = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[tuple[str, str], Histogram] = defaultdict(Histogram)
        self._commits = Histogram()
        self._commands = 0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        with self._guard:
            self._requests[method, route, status] += 1
            self._seconds[method, route].add(seconds)

    def transaction(self, seconds: float, commands: int) -> None:
        """Count a group of commands that the engine has applied."""
        with self._guard:
            self._commits.add(seconds)
            self._commands += commands

    def text(self, now: dict[str, float], streams: list[Live], shares: dict[str, float]) -> str:
        """All metrics in Prometheus' text format.

        Parameters
        ----------
        now : dict
            Current values, by name.
        streams : list of Live
            Streams to include.
        shares : dict
            Spent share of the budget of each ledger.
        """
        out: list[str] = []

        def head(name: str, kind: str, words: str) -> None:
            out.extend((f"# HELP {name} {words}", f"# TYPE {name} {kind}"))

        def each(name: str, kind: str, words: str, values: Iterable[tuple[str, Any]]) -> None:
            head(name, kind, words)
            out.extend(f"{name}{{{labels}}} {value!r}" for labels, value in values)

        each("reticent_info", "gauge", "Version of the service.", [(f'version="{__version__}"', 1)])
        for name, value in {"start_time_seconds": self.started, **now}.items():
            head(f"reticent_{name}", "gauge", _WORDS[name])
            out.append(f"reticent_{name} {value!r}")
        with self._guard:
            each(
                "reticent_requests_total",
                "counter",
                "Requests by route and status.",
                (
                    (f'method="{method}",route="{route}",status="{status}"', count)
                    for (method, route, status), count in sorted(self._requests.items())
                ),
            )
            head("reticent_request_seconds", "histogram", "Time to answer, by route.")
            for (method, route), found in sorted(self._seconds.items()):
                out.extend(
                    found.lines("reticent_request_seconds", f'method="{method}",route="{route}"')
                )
            head("reticent_commit_seconds", "histogram", "Time of a transaction of the engine.")
            out.extend(self._commits.lines("reticent_commit_seconds", ""))
            head("reticent_commands_total", "counter", "Commands that the engine has carried out.")
            out.append(f"reticent_commands_total {self._commands}")
        labels = [(live, f'stream="{live.row.name}"') for live in streams]
        each(
            "reticent_stream_records_total",
            "counter",
            "Records that a stream has counted.",
            ((label, live.head.steps) for live, label in labels),
        )
        each(
            "reticent_stream_decisions_total",
            "counter",
            "Decisions that a stream has published.",
            ((label, live.head.number) for live, label in labels),
        )
        each(
            "reticent_stream_closed",
            "gauge",
            "Whether a stream accepts no more records.",
            ((label, int(bool(live.row.closed))) for live, label in labels),
        )
        each(
            "reticent_ledger_spent_share",
            "gauge",
            "Spent share of the epsilon of a ledger.",
            ((f'ledger="{name}"', share) for name, share in shares.items()),
        )
        return "\n".join(out) + "\n"


_WORDS = {
    "start_time_seconds": "When the process started, in seconds since 1970.",
    "ready": "Whether the service is ready.",
    "commands_waiting": "Commands that wait for the engine.",
    "bytes_waiting": "Bytes of requests that have not been answered.",
    "disk_free_bytes": "Free space on the disk of the folder.",
    "log_entries": "Entries in the chain of administrative acts.",
    "jobs_waiting": "Fits that are waiting or running.",
}
