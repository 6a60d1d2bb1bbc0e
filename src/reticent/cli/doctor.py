"""`reticent doctor`: check this machine: versions, compiled code, entropy, speed and disk.

Speeds are from one run on a machine that may be busy. They show whether something is badly wrong, not how fast Reticent
is.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from reticent.cli.console import Console, table
from reticent.cli.errors import FAILED

_CORE = ("numpy", "scipy", "numba", "randomgen", "scikit-learn", "mpmath", "rich", "typer")
_EXTRAS = ("matplotlib", "pyarrow", "pandas", "river", "dp-accounting", "rustworkx", "nvflare")
_RECORDS, _DIM = 50_000, 20


def doctor(console: Console) -> int:
    """Run the command and return its exit status: 1 if something is broken."""
    facts: dict[str, Any] = {"versions": _versions(), "extras": _extras()}
    troubles = [f"{name} is missing" for name, found in facts["versions"].items() if found is None]
    for name, check in (
        ("entropy", _entropy),
        ("compiled", _compiled),
        ("speed", _speed),
        ("disk", _disk),
    ):
        try:
            facts[name] = check()
        except Exception as error:
            facts[name] = {"failed": f"{type(error).__name__}: {error}"}
            troubles.append(f"{name}: {error}")
    facts["troubles"] = troubles
    facts["healthy"] = not troubles
    console.result(facts, _words(facts))
    return FAILED if troubles else 0


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions() -> dict[str, str | None]:
    from reticent import __version__

    first = {"reticent": __version__, "python": platform.python_version()}
    return first | {name: _version(name) for name in _CORE}


def _extras() -> dict[str, str | None]:
    return {name: _version(name) for name in _EXTRAS}


def _entropy() -> dict[str, Any]:
    from reticent.noise.source import Source

    start = time.perf_counter()
    first, second = Source(), Source()
    different = first.words(4).tolist() != second.words(4).tolist()
    if not different or first.seeded:
        raise RuntimeError(
            "two unseeded generators produced the same numbers; do not release anything"
        )
    return {
        "source": "getrandom" if hasattr(os, "getrandom") else "os.urandom",
        "generator": "AES counter, keyed with 32 bytes from the operating system",
        "seconds_to_key": round(time.perf_counter() - start, 6),
    }


def _compiled() -> dict[str, Any]:
    from reticent import compiling

    start = time.perf_counter()
    _learner().run(*_records(10))
    seconds = round(time.perf_counter() - start, 3)
    folder = compiling.folder()
    return {
        "cache": str(folder or "none: no folder is both writable and trusted"),
        "files": 0 if folder is None else len(list(folder.rglob("*.nbc"))),
        "seconds_to_first_step": seconds,
    }


def _speed() -> dict[str, Any]:
    import numpy as np

    from reticent.noise.source import Source

    X, y = _records(_RECORDS)
    learner = _learner()
    learner.run(X[:10], y[:10])
    play = _learner().run(X, y, keep=1, keep_records=False)
    out = np.empty(200_000)
    source = Source()
    source.normals(out[:10])
    start = time.perf_counter()
    source.normals(out)
    normals = out.size / (time.perf_counter() - start)
    return {
        "records_per_second": round(_RECORDS / play.seconds),
        "what": f"private logistic regression, {_DIM} features, a decision after every record",
        "normals_per_second": round(normals),
        "cores": os.cpu_count(),
    }


def _disk() -> dict[str, Any]:
    from reticent.state import files

    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "state"
        start = time.perf_counter()
        for number in range(5):
            files.save({"number": number}, path)
        seconds = (time.perf_counter() - start) / 5
        mode = path.stat().st_mode & 0o777
    if mode != 0o600:
        raise RuntimeError(
            f"a state file was created with mode {mode:o} instead of 600, so others could read it"
        )
    return {"milliseconds_to_save_a_state": round(1e3 * seconds, 2), "state_mode": "600"}


def _learner() -> Any:
    from reticent import losses, online, sets
    from reticent.privacy import Budget

    return online.FollowTheRegularizedLeader(
        sets.L2Ball(_DIM, radius=5.0),
        losses.Logistic(),
        budget=Budget(1.0, 1e-6),
        horizon=_RECORDS,
    )


def _records(count: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, _DIM)) / np.sqrt(4 * _DIM)
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def _words(facts: dict[str, Any]) -> str:
    lines = [f"python {platform.python_version()} at {sys.executable}", ""]
    rows = [(name, found or "MISSING") for name, found in facts["versions"].items()]
    for name, found in facts["extras"].items():
        rows.append((name, found or f"not installed: pip install {name}"))
    lines += [table(rows), ""]
    for name in ("entropy", "compiled", "speed", "disk"):
        cells = [(key.replace("_", " "), _word(value)) for key, value in facts[name].items()]
        lines += [name, table(cells, indent="  ")]
    verdict = "all checks passed" if facts["healthy"] else "; ".join(facts["troubles"])
    return "\n".join([*lines, "", verdict])


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
