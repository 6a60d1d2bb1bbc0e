"""Virtual environments of the peers, made from the package index and pinned.

    python benchmarks/peers/environments.py [diffprivlib] [opacus] [jax_privacy]

They cannot share one: diffprivlib 0.6.6 needs scikit-learn before 1.8, and dp-accounting, which jax_privacy needs,
an old attrs. Each stands under ``benchmarks/.envs``; one that is there and whose requirements have not changed
is left alone.

``torch==2.13.0`` is met by the build for CPUs (``+cpu``, a wheel of 0.2 GB) where pip is configured
to see one, and by the build for CUDA with its libraries (2.8 GB to fetch) where it sees only the
ordinary index, since that wheel does not load without them. Opacus runs on the CPU with either.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent / ".envs"
NAMES = ("diffprivlib", "opacus", "jax_privacy")


def requirements(name: str) -> Path:
    return HERE / "requirements" / f"{name}.txt"


def interpreter(name: str) -> Path:
    return HOME / name / "bin" / "python"


def pinned(name: str) -> dict[str, str]:
    lines = requirements(name).read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {package: version for package, version in pairs}


def ensure(name: str) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    wanted = hashlib.sha256(requirements(name).read_bytes()).hexdigest()
    stamp = HOME / name / "requirements.sha256"
    if stamp.exists() and stamp.read_text() == wanted:
        return interpreter(name)
    begun = time.perf_counter()
    print(f"making the environment of {name} ...", end=" ", flush=True)
    shutil.rmtree(HOME / name, ignore_errors=True)
    HOME.mkdir(exist_ok=True)
    _quietly([sys.executable, "-m", "venv", str(HOME / name)])
    pip = [str(interpreter(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _quietly([*pip, "--requirement", str(requirements(name))])
    stamp.write_text(wanted)
    print(f"{time.perf_counter() - begun:.0f} s", flush=True)
    return interpreter(name)


def _quietly(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        ensure(each)
        size = sum(
            p.stat().st_size for p in (HOME / each).rglob("*") if p.is_file() and not p.is_symlink()
        )
        print(f"{each}: {size / 1e6:.0f} MB")
