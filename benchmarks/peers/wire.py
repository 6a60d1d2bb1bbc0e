"""What a peer's worker and this side say to each other: one line of JSON each way, arrays in files.

The worker runs under the peer's own interpreter and imports nothing of ours but this file.

The seconds in an answer are measured inside the worker, around the peer's own call; pipes and files
are outside.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=8)
def arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file, read once."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the processor time that it took, which is what our side is measured by too."""
    start = time.process_time()
    answer = call()
    return answer, time.process_time() - start


def serve(tasks: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Answer lines of stdin until it ends; whatever the peer prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            answer = tasks[asked.pop("task")](**asked)
        except Exception:
            answer = {"failed": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
