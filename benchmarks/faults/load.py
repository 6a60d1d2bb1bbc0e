"""One client process: sends records, loses answers, repeats itself, and writes down all that it saw.

It uses the standard library's HTTP client and none of our own code, so that the service alone is judged.
Each line of its journal is written before or after a request, and `replay.py` reads them all.
"""

from __future__ import annotations

import http.client
import io
import json
import random
import secrets
import signal
import sys
import threading
import time
from typing import Any

try:
    import pyarrow
except ImportError:  # then there are lines alone
    pyarrow = None

WAIT = 0.05
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


class Load:
    """The client.

    Parameters
    ----------
    plan : dict
        ``doors`` (host and port of each worker), ``token``, ``client`` (its number), ``journal``, ``streams`` (each
        with ``name``, ``columns``, ``labelled``, ``classes`` or None), ``most`` (records in a request), ``seconds``.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.dice = random.Random(plan["client"])
        self.journal = open(plan["journal"], "a", encoding="utf-8")  # noqa: SIM115
        self.lock = threading.Lock()
        self.number = 0
        self.acknowledged: dict[str, list[dict[str, Any]]] = {}
        self.asked = False
        self.connection: http.client.HTTPConnection | None = None
        signal.signal(signal.SIGTERM, self._ask)
        self.note(what="begun")

    def _ask(self, *_: Any) -> None:
        self.asked = True

    def note(self, **what: Any) -> None:
        """Write one line of the journal."""
        with self.lock:
            self.journal.write(json.dumps(what) + "\n")
            self.journal.flush()

    def run(self) -> None:
        """Until told to stop; what was begun is finished."""
        end = time.monotonic() + self.plan["seconds"]
        while not self.asked and time.monotonic() < end:
            stream = self.dice.choice(self.plan["streams"])
            act = self.dice.random()
            if act < 0.72:
                self.send(stream)
            elif act < 0.9:
                self.read(stream)
            elif act < 0.95:
                self.contradict(stream)
            else:
                self.spoil(stream)

    # What it does ----------------------------------------------------------------------------------

    def record(self, stream: dict[str, Any]) -> dict[str, Any]:
        """A made-up record under a fresh key."""
        cells: dict[str, Any] = {
            name: self.dice.choice([None, 1e300, -5]) if self.dice.random() < 0.02 else self.dice.uniform(0, 1)
            for name in stream["columns"]
        }  # fmt: skip
        made: dict[str, Any] = {"id": self.key(), "x": cells}
        if stream["labelled"]:
            label: Any = self.dice.uniform(-1, 1)
            made["y"] = self.dice.choice(stream["classes"]) if stream["classes"] else label
        return made

    def key(self) -> str:
        """By turns one that carries its time, and one that does not."""
        self.number += 1
        if self.number % 2:
            return f"{self.plan['client']}-{self.plan['run']}-{self.number}"
        bits = (
            f"{int(time.time() * 1000):012x}7{secrets.token_hex(2)[1:]}8{secrets.token_hex(8)[1:]}"
        )
        return "-".join((bits[:8], bits[8:12], bits[12:16], bits[16:20], bits[20:32]))

    def send(self, stream: dict[str, Any]) -> None:
        """New records, with some of the faults that networks have, until they are acknowledged."""
        name = stream["name"]
        count = self.dice.choice([1, 1, 2, 5, self.dice.randint(1, self.plan["most"])])
        fresh = [self.record(stream) for _ in range(count)]
        if pyarrow is not None and self.dice.random() < 0.25:
            self.send_arrow(stream, fresh)
            return
        before = self.acknowledged.setdefault(name, [])
        lines = list(fresh)
        if before and self.dice.random() < 0.2:  # what was counted long ago comes again
            lines += self.dice.sample(before, min(len(before), 3))
            self.dice.shuffle(lines)
        order = [line for line in lines if line in fresh]
        body = ("\n".join(json.dumps(line) for line in lines) + "\n").encode()
        identity = f"{self.plan['client']}:{self.plan['run']}:{self.number}"
        self.note(what="intent", request=identity, stream=name, fresh=order, lines=len(lines))
        self.deliver(f"/v1/streams/{name}/records", body, identity, LINES)
        before.extend(fresh)
        del before[:-200]

    def send_arrow(self, stream: dict[str, Any], fresh: list[dict[str, Any]]) -> None:
        """The same as one batch with a key of its own."""
        columns = {
            name: pyarrow.array([record["x"][name] for record in fresh], pyarrow.float64())
            for name in stream["columns"]
        }
        if stream["labelled"]:
            columns["y"] = pyarrow.array([record["y"] for record in fresh])
        table, out = pyarrow.table(columns), io.BytesIO()
        with pyarrow.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        identity = f"{self.plan['client']}:{self.plan['run']}:{self.number}"
        name = stream["name"]
        self.note(what="intent", request=identity, stream=name, fresh=fresh, lines=len(fresh))
        self.deliver(
            f"/v1/streams/{name}/records", out.getvalue(), identity, ARROW,
            {"Idempotency-Key": self.key()},
        )  # fmt: skip

    def deliver(
        self, path: str, body: bytes, identity: str, kind: str, more: dict[str, str] | None = None
    ) -> None:
        """Send until it is acknowledged, dropped and doubled on the way."""
        more = more or {}
        fault = self.dice.random()
        if fault < 0.1:
            self.drop(path, body, kind, more, whole=True)
        elif fault < 0.15:
            self.drop(path, body, kind, more, whole=False)
        elif fault < 0.3:
            self.twice(path, body, identity, kind, more)
        while True:
            status, data = self.request("POST", path, body, kind, more=more)
            if status == 200:
                answer = json.loads(data)
                self.note(what="answer", request=identity, answer=answer)
                if answer["refused"]:
                    self.note(what="wrong", why="refused", request=identity, answer=answer)
                break
            if status not in (0, 429, 503, 507) and b"future" not in data:
                self.note(
                    what="wrong", why=f"status {status}", request=identity, body=data.decode()
                )
                break
            time.sleep(WAIT)

    def drop(self, path: str, body: bytes, kind: str, more: dict[str, str], *, whole: bool) -> None:
        """Send a request, or a part of it, and go away."""
        connection = http.client.HTTPConnection(*self.door(), timeout=10)
        try:
            connection.putrequest("POST", path)
            for key, value in (self.headers(kind) | more).items():
                connection.putheader(key, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            connection.send(body if whole else body[: len(body) // 2])
            if self.dice.random() < 0.5:
                time.sleep(0.01)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def twice(self, path: str, body: bytes, identity: str, kind: str, more: dict[str, str]) -> None:
        """The same request at the same time on other connections."""

        def one() -> None:
            status, data = self.request("POST", path, body, kind, own=True, more=more)
            if status == 200:
                self.note(what="answer", request=identity, answer=json.loads(data))

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def read(self, stream: dict[str, Any]) -> None:
        """Look at the latest decision, or at an earlier one."""
        name = stream["name"]
        status, data = self.request("GET", f"/v1/streams/{name}/decisions/latest")
        if status == 200:
            self.saw(name, data)
            number = self.dice.randint(0, json.loads(data)["decision_number"])
            status, data = self.request("GET", f"/v1/streams/{name}/decisions/{number}")
            if status == 200:
                self.saw(name, data)
            elif status not in (0, 503):
                self.note(what="wrong", why=f"status {status} for decision {number}", stream=name)
        elif status not in (0, 503):
            self.note(what="wrong", why=f"status {status} for the latest decision", stream=name)
        else:
            time.sleep(WAIT)

    def saw(self, name: str, data: bytes) -> None:
        """Write down an output as the bytes that came."""
        found = json.loads(data)
        start = data.index(b'"decision":') + len(b'"decision":')
        _, end = json.JSONDecoder().raw_decode(data[start:].decode())
        self.note(
            what="saw", stream=name, number=found["decision_number"], steps=found["steps"],
            bytes=data[start : start + end].decode(),
        )  # fmt: skip

    def contradict(self, stream: dict[str, Any]) -> None:
        """A key that was counted, with another body: 409, and nothing of the request is counted."""
        before = self.acknowledged.get(stream["name"], [])
        if not before:
            return
        other = dict(self.record(stream), id=before[-1]["id"])
        lines = [self.record(stream), other]
        body = "\n".join(json.dumps(line) for line in lines).encode()
        path = f"/v1/streams/{stream['name']}/records"
        status, data = self.request("POST", path, body, "application/x-ndjson")
        if status not in (0, 409, 429, 503, 507) and b"future" not in data:
            self.note(what="wrong", why=f"contradiction answered {status}", body=data.decode())

    def spoil(self, stream: dict[str, Any]) -> None:
        """A good record and one that cannot be used: 422, and nothing of the request is counted."""
        good = json.dumps(self.record(stream))
        bad = self.dice.choice(
            ['{"id": "a", "x": {', "[]", "{}", '{"id":"b","x":{},"y":0}', '"', "\x00"]
        )
        path = f"/v1/streams/{stream['name']}/records"
        status, data = self.request("POST", path, f"{good}\n{bad}".encode(), "application/x-ndjson")
        if status not in (0, 422, 429, 503):
            self.note(what="wrong", why=f"a bad line answered {status}", body=data.decode())

    # Requests --------------------------------------------------------------------------------------

    def door(self) -> tuple[str, int]:
        """Host and port of any worker: each must answer for all streams."""
        host, port = self.dice.choice(self.plan["doors"])
        return host, port

    def headers(self, kind: str) -> dict[str, str]:
        """Of every request."""
        return {"Authorization": f"Bearer {self.plan['token']}", "Content-Type": kind}

    def request(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", *, own: bool = False,
        more: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """One attempt; status 0 where there was no whole answer."""
        connection = None if own else self.connection
        if connection is None:
            connection = http.client.HTTPConnection(*self.door(), timeout=30)
            if not own:
                self.connection = connection
        try:
            connection.request(method, path, body, self.headers(kind) | (more or {}))
            answer = connection.getresponse()
            if not answer.headers.get("Content-Length", "").isdigit():
                raise http.client.HTTPException("the answer was cut among its headers")
            found = answer.status, answer.read()
            if answer.status >= 500 and answer.status not in (503, 507):
                self.note(
                    what="wrong", why=f"status {answer.status}", path=path, body=found[1].decode()
                )
            if own:
                connection.close()
            return found
        except (OSError, http.client.HTTPException):
            connection.close()
            if not own:
                self.connection = None
            return 0, b""


if __name__ == "__main__":
    Load(json.loads(sys.argv[1])).run()
