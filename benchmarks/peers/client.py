"""Ask a peer: its worker is started once, and stays for the whole run.

All peers run on one thread, as ours do, so that a ratio compares work and not the number of cores
that happened to be free.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from timing import Clocked

from peers import environments

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "PYTHONWARNINGS": "ignore",
}


class Peer:
    """The worker of one peer. ``put`` hands over arrays once; ``ask`` names a task and its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions = environments.pinned(name)
        self._folder = tempfile.TemporaryDirectory(prefix=f"peer-{name}-")
        python = environments.ensure(name)
        script = Path(environments.HERE) / f"worker_{name}.py"
        self._errors = open(Path(self._folder.name) / "stderr", "w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            env=os.environ | ONE_THREAD,
        )

    def put(self, name: str, **arrays: np.ndarray) -> str:
        path = Path(self._folder.name) / f"{name}.npz"
        np.savez(path, **arrays)
        return str(path)

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        pipes.stdin.write(json.dumps({"task": task} | arguments) + "\n")
        line = pipes.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"{self.name} has died:\n{self._errors.read()[-2000:]}")
        answer = json.loads(line)
        if "failed" in answer:
            raise RuntimeError(f"{self.name} failed at {task}:\n{answer['failed']}")
        return answer

    def clock(self, task: str, **arguments: Any) -> Clocked:
        """The seconds that the worker measured, for :func:`timing.measure`."""
        return Clocked(self.ask(task, **arguments)["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._errors.close()
        self._folder.cleanup()
