"""Do what a newcomer does, from the wheel, in a fresh environment, and record how long each step takes.

    python scripts/newcomer.py dist/reticent-*.whl [--out newcomer.json] [--python python3.13] [--quick]

Installs the wheel with the extras that the pages ask for; does what the README, the quick start, the page about the
command and each tutorial say, page by page, each in a new process and folder (scripts/follow_page.py); opens the pages
that came of it in Chromium; runs the notebooks in a Jupyter kernel; clones the checkout and runs `make run` there. Then
it does all pages once more in the layout of a read-only container: another user where this one is root, nothing that
can be written but one folder, no home. ``--quick`` stops after the quick start.
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
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import look
import notebooks
from follow_page import free_port

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "cli,dask,devices,federated,graphs,report,river,service,tables"
FIRST = ("README.md", "docs/quick-start.md", "docs/coming-from.md")
NOBODY = 65534

COLD = """
import numpy as np, reticent
X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(500, 3))
y = (X[:, 0] > 0).astype(int)
options = {"epsilon": 1.0, "feature_norm": 1.0, "classes": [0, 1]}
print(reticent.PrivateLogisticRegression(**options).fit(X, y).guarantee_)
print(reticent.OnlineLogisticRegression(**options).partial_fit(X, y).guarantee_)
"""
NOTEBOOK = """
import nbclient, nbformat, sys
made = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(made, timeout=300, kernel_name="python3").execute()
"""
# As `docker run --read-only`: only the folder that is named first, and what is no file, can be written.
LAYOUT = """
mount --make-rprivate / && mount --bind "$1" "$1" || exit 125
for place in $(cut -d ' ' -f 2 /proc/self/mounts | sort -u); do
  case "$place" in "$1"|/proc*|/sys*|/dev*) ;; *) mount -o remount,bind,ro "$place" 2>/dev/null ;; esac
done
cd "$2" && shift 2 && exec "$@"
"""


class Diary:
    """What was done, how long it took, and whether it worked."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def write(self, what: str, started: float, fault: str = "") -> bool:
        seconds = round(time.perf_counter() - started, 1)
        self.steps.append({"step": what, "seconds": seconds, "worked": not fault})
        print(f"{'FAIL' if fault else 'ok  '} {seconds:7.1f} s  {what}", flush=True)
        if fault:
            print(fault[-4000:], flush=True)
        return not fault

    def run(self, what: str, command: list[str], **options: Any) -> bool:
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        said = done.stdout + done.stderr or f"exit status {done.returncode}"
        return self.write(what, started, said if done.returncode else "")

    def see(self, what: str, looked: Callable[[], list[str]]) -> bool:
        """Whether pages are as they should be."""
        started = time.perf_counter()
        try:
            fault = "\n".join(looked())
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        return self.write(f"{what}, in Chromium: light, dark, telephone", started, fault)


class Container:
    """A file system that cannot be written, another user, and no home."""

    def __init__(self, place: Path, python: str) -> None:
        self.folder, self._python = place / "volume", python
        (self.folder / "cache").mkdir(parents=True, mode=0o700)
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._enter = ["unshare", *own, "--mount", "sh", "-c", LAYOUT, "sh", str(self.folder)]
        self._become: list[str] = []
        if os.geteuid() == 0:
            become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            # a Python in somebody's home is not there for others
            if subprocess.run([*become, python, "-c", ""], capture_output=True).returncode == 0:
                self._become = become
        self.who = "another user" if self._become else "the same user"
        self._belongs_to_user(self.folder, self.folder / "cache")

    @property
    def possible(self) -> bool:
        """Whether this machine lets a process have mounts of its own."""
        if shutil.which("unshare") is None:
            return False
        return subprocess.run([*self._enter, "/", "true"], capture_output=True).returncode == 0

    def _belongs_to_user(self, *paths: Path) -> None:
        if self._become:
            for path in paths:
                os.chown(path, NOBODY, NOBODY)

    def command(self, name: str, *words: str) -> list[str]:
        """A command line that runs Python in a new folder in there."""
        folder = self.folder / name.replace("/", "-")
        folder.mkdir()
        self._belongs_to_user(folder)
        return [*self._enter, str(folder), *self._become, self._python, *words]

    def environment(self, cache: bool) -> dict[str, str]:
        bare = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),  # for the anchor of the service
        }
        return bare | {"NUMBA_CACHE_DIR": str(self.folder / "cache")} if cache else bare


def look_at_service(python: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Sign in to the service of the tutorial, whose folder is still there, and open its stream."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    token = (folder / "serve.log").read_text("utf-8").split("token: ")[1].split()[0]
    serve = [python, "-m", "reticent", "serve", "--data", "shop", "--port", str(port)]
    with subprocess.Popen(serve, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as service:  # fmt: skip
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{address}/readyz").close()
                    break
                except OSError:
                    time.sleep(0.1)

            def arrive(page: Any) -> None:
                token_field = page.get_by_label("Token")
                token_field.or_(page.get_by_role("heading", name="Streams")).first.wait_for()
                if token_field.count():  # not before the page's script has decided what to show
                    token_field.fill(token)
                    page.keyboard.press("Enter")
                    page.get_by_role("heading", name="Streams").wait_for()
                page.goto(f"{address}/#/streams/visits")
                page.get_by_role("heading", name="visits", exact=True).wait_for()
                page.locator("figure").first.wait_for()

            return look.look({"service": f"{address}/"}, None, arrive)
        finally:
            service.terminate()


def first_pages(quick: bool) -> list[str]:
    """The pages that a newcomer reads, in order."""
    if quick:
        return list(FIRST)
    tutorials = sorted((ROOT / "docs/tutorials").glob("*.md"))
    return [*FIRST, "docs/command.md", *(str(page.relative_to(ROOT)) for page in tutorials)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("wheel", type=Path, help="The wheel to install.")
    parser.add_argument("--out", type=Path, help="JSON file to write the times to.")
    parser.add_argument(
        "--python",
        default="/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable,
        help="The Python to begin with; one that other users can reach, so that one of them can be tried.",
    )
    parser.add_argument("--quick", action="store_true", help="Stop after the quick start.")
    options = parser.parse_args()
    diary = Diary()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary).resolve()
        place.chmod(0o755)
        newcomer(diary, place, options)
    if options.out:
        options.out.write_text(json.dumps(diary.steps, indent=1) + "\n", "utf-8")
    failed = sum(not step["worked"] for step in diary.steps)
    seconds = sum(step["seconds"] for step in diary.steps)
    print(f"{len(diary.steps)} steps in {seconds:.0f} s, {failed} failed")
    return int(failed > 0)


def newcomer(diary: Diary, place: Path, options: argparse.Namespace) -> None:
    python = str(place / "env" / "bin" / "python")
    home = place / "home"
    home.mkdir()
    # what the checkout's own environment says, its cache of kernels too, is not a newcomer's
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "NUMBA", "RETICENT", "XDG", "VIRTUAL_ENV"))
    } | {"HOME": str(home)}
    made = [options.python, "-m", "venv", str(place / "env")]
    if not diary.run("a virtual environment", made, env=environment):
        return
    extras = "cli,report,river,tables" if options.quick else EXTRAS
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # pip's own cache is left where it is: how fast it is says more of the network than of us
    wanted = [*pip, f"{options.wheel.resolve()}[{extras}]"]
    if not diary.run("install the wheel", wanted, cwd=place):
        return
    if not options.quick:
        tools = ["array-api-strict", "nbclient", "ipykernel"]
        diary.run("install what notebooks and the page on devices need", [*pip, *tools], cwd=place)
    paper = place / "paper"  # to be read where the checkout may not be
    shutil.copytree(ROOT / "docs", paper / "docs")
    for name in ("README.md", "scripts/follow_page.py"):
        shutil.copy(ROOT / name, paper)
    pages = first_pages(options.quick)
    for page in pages:
        folder = place / page.replace("/", "-")
        folder.mkdir()
        words = [python, str(paper / "follow_page.py"), str(paper / page)]
        diary.run(page, words, cwd=folder, env=environment)
    report = place / "docs-quick-start.md" / "run" / "report.html"
    diary.see("the report of `learn`", lambda: look.look({"report": report.as_uri()}, None))
    doctor = [python, "-m", "reticent", "doctor"]
    diary.run("reticent doctor", doctor, cwd=place, env=environment)
    if not options.quick:
        shop = place / "docs-tutorials-service.md"
        diary.see("the service's page", lambda: look_at_service(python, shop, environment))
        for name in notebooks.PAGES:
            written = place / f"{Path(name).name}.ipynb"
            written.write_text(notebooks.notebook(ROOT / "docs" / f"{name}.md"), "utf-8")
            words = [python, "-c", NOTEBOOK, str(written)]
            diary.run(f"the notebook {written.name}", words, cwd=place, env=environment)
        make_run(diary, place, environment | {"HOME": os.environ.get("HOME", str(home))}, options)
    read_only(diary, place, python, pages)


def make_run(diary: Diary, place: Path, environment: dict[str, str], options: Any) -> None:
    """From a clone to the page that `make run` writes."""
    clone = place / "clone"
    words = ["git", "clone", "--quiet", str(ROOT), str(clone)]
    if not diary.run("git clone", words, env=environment):
        return
    make = ["make", "run", f"PYTHON={options.python}"]
    if diary.run("make run in the clone", make, cwd=clone, env=environment):
        diary.run("make run again", make, cwd=clone, env=environment)
        page = clone / "report" / "online-stream.html"
        diary.see("the page of `make run`", lambda: look.look({"stream": page.as_uri()}, None))


def read_only(diary: Diary, place: Path, python: str, pages: list[str]) -> None:
    """The same pages where nothing but one folder can be written."""
    container = Container(place, python)
    if not container.possible:
        print("left out: a read-only container, since this machine gives processes no mounts")
        return
    label = f"read-only container ({container.who})"
    bare, kept = container.environment(cache=False), container.environment(cache=True)
    for what, environment in (
        ("no cache folder", bare),
        ("a cache folder, cold", kept),
        ("a cache folder, warm", kept),
    ):
        words = container.command(what.replace(" ", "-"), "-c", COLD)
        diary.run(f"{label}, {what}", words, env=environment)
    paper = place / "paper"
    for page in pages:
        words = container.command(page, str(paper / "follow_page.py"), str(paper / page))
        diary.run(f"{label}: {page}", words, env=kept)


if __name__ == "__main__":
    sys.exit(main())
