"""A server that does not keep to the protocol; it runs in the server's process of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reticent.vertical import messages
from reticent.vertical.flare.engine import collab

RUN = bytes(range(16))


def requests() -> dict[str, Any]:
    """What a hostile server might send, by name."""
    hello = messages.Hello(run=RUN, sequence=0).encode()
    greedy = messages.Begin(
        run=RUN, sequence=1, loss="squared", rows=300, rounds=10**6, columns=5, clip=1.0,
        selection="gumbel", selection_scale=1e-3, value_scale=0.0, sketch_scale=1e-3,
        label_scale=1e-3, labels="send", own="clear", sketch_size=300, sketch_spread=1,
        sketch_seed=0,
    )  # fmt: skip
    return {
        "nothing": b"",
        "noise": bytes(range(256)) * 4,
        "cut short": hello[:-3],
        "longer than it says": hello + b"more",
        "lying about its length": hello[:4] + b"\xff\xff\xff\x7f" + hello[8:],
        "text": "hello",
        "a list": [1, 2, 3],
        "oversized": bytes(2 * 2**20),
        "no noise at all": greedy.encode(),
        "a step of no run": messages.Step(run=RUN, sequence=1, round=0, last=False).encode(),
        "an answer": messages.Done(run=RUN, sequence=0).encode(),
    }


class Attacker:
    """Sends all of that, and writes down what comes back."""

    @collab.main
    def attack(self) -> None:
        seen: dict[str, Any] = {}
        for name, request in requests().items():
            got = collab.clients(timeout=20.0).handle(request)
            seen[name] = {site: answer.hex() for site, answer in got}
            for site, error in got.failures.items():
                seen[name][site] = {"error": str(error), "traceback": error.remote_traceback}
        for method in ("open", "_party"):
            try:
                got = collab.clients(timeout=5.0).__getattr__(method)()
                seen[method] = {site: repr(answer) for site, answer in got}
            except Exception as error:
                seen[method] = {"error": str(error)}
        context = collab.fl_ctx
        folder = Path(collab.workspace.get_run_dir(context.get_job_id()))
        (folder / "outcome.json").write_text(json.dumps(seen))
