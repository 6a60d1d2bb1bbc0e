"""Do what a newcomer does, from the wheel, in a fresh environment, and record how long each step takes.

    python scripts/newcomer.py dist/reticent-*.whl [--out newcomer.json] [--quick]

Installs the wheel with the extras that the pages ask for; runs the Python of the README, of the quick start and of each
tutorial, page by page, each in a new process and folder; then once more the first page in the layout of a read-only
container: another user where this one is root, no folder that can be written but a temporary one. ``--quick`` stops
after the quick start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "cli,dask,devices,federated,graphs,report,river,service,tables"
FIRST = ("README.md", "docs/quick-start.md", "docs/coming-from.md")
NOBODY = 65534

# The Python of a page, as a test of what it prints.
PAGE = """
import doctest, sys
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
found = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags, encoding="utf-8")
print(found.attempted, "examples")
sys.exit(found.failed > 0)
"""
COLD = """
import numpy as np, reticent
X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(500, 3))
y = (X[:, 0] > 0).astype(int)
options = {"epsilon": 1.0, "feature_norm": 1.0, "classes": [0, 1]}
print(reticent.PrivateLogisticRegression(**options).fit(X, y).guarantee_)
print(reticent.OnlineLogisticRegression(**options).partial_fit(X, y).guarantee_)
"""


class Diary:
    """What was done, how long it took, and whether it worked."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def do(self, what: str, command: list[str], **options: Any) -> bool:
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        seconds = round(time.perf_counter() - started, 1)
        worked = done.returncode == 0
        self.steps.append({"step": what, "seconds": seconds, "worked": worked})
        print(f"{'ok  ' if worked else 'FAIL'} {seconds:7.1f} s  {what}", flush=True)
        if not worked:
            print((done.stdout + done.stderr)[-4000:])
        return worked


def read_only(python: str, package: Path, cache: Path | None) -> list[str]:
    """A command line for a process that can write nothing but its temporary folder, and the cache if there is one."""
    command = [python, "-c", COLD]
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return command
    mounts = f"mount --bind {package} {package} && mount -o remount,ro,bind {package}"
    become = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
    if cache is not None:
        os.chown(cache, NOBODY, NOBODY)
    return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec {become} "$@"', "sh", *command]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("wheel", type=Path, help="The wheel to install.")
    parser.add_argument("--out", type=Path, help="JSON file to write the times to.")
    parser.add_argument("--quick", action="store_true", help="Stop after the quick start.")
    options = parser.parse_args()
    diary = Diary()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        place.chmod(0o755)
        started = time.perf_counter()
        # A Python that other users can reach, so that one of them can be tried.
        base = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        if subprocess.run([base, "-m", "venv", str(place / "env")], check=False).returncode:
            shutil.rmtree(place / "env", ignore_errors=True)
            venv.create(place / "env", with_pip=True)
        print(f"ok   {time.perf_counter() - started:7.1f} s  a virtual environment")
        python = str(place / "env" / "bin" / "python")
        extras = "cli,report,river,tables" if options.quick else EXTRAS
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = f"{options.wheel.resolve()}[{extras}]"
        if not diary.do("install the wheel", [*install, wanted], cwd=place):
            return 1
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA"))}
        pages = list(FIRST)
        if not options.quick:
            pages += sorted(
                str(p.relative_to(ROOT)) for p in (ROOT / "docs/tutorials").glob("*.md")
            )
        for page in pages:
            folder = place / page.replace("/", "-")
            folder.mkdir()
            diary.do(page, [python, "-c", PAGE, str(ROOT / page)], cwd=folder, env=environment)
        diary.do(
            "reticent doctor", [python, "-m", "reticent", "doctor"], cwd=place, env=environment
        )
        package = next((place / "env").glob("lib/python*/site-packages"))
        bare = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        cache = place / "cache"
        cache.mkdir(mode=0o700)
        diary.do("a read-only container", read_only(python, package, None), cwd="/", env=bare)
        kept = bare | {"NUMBA_CACHE_DIR": str(cache)}
        for words in ("with a cache folder, cold", "with a cache folder, warm"):
            diary.do(
                f"a read-only container {words}",
                read_only(python, package, cache),
                cwd="/",
                env=kept,
            )
    if options.out:
        options.out.write_text(json.dumps(diary.steps, indent=1) + "\n", "utf-8")
    return int(not all(step["worked"] for step in diary.steps))


if __name__ == "__main__":
    sys.exit(main())
