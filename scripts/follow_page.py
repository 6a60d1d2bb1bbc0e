"""Do what a page of the documentation says, in this folder, with this Python: run its code, type its commands.

    python scripts/follow_page.py docs/tutorials/table.md

Examples behind ``>>>`` must print what the page shows, and so must commands, up to three dots and up to numbers where
noise is fresh; exits with 1 otherwise. Needs nothing but the standard library and what the page itself needs.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_END = "=== end of block ==="
_LATER = ("pip ", "tail -F", "docker ", "reticent --install-completion")
"""Commands that a page only mentions: what they do is done, would not end, or is not about this machine."""


def same(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows; three dots stand for anything."""
    return doctest.OutputChecker().check_output(shown.strip() + "\n", printed.strip() + "\n", FLAGS)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def examples(page: Path) -> str:
    """Run what stands behind ``>>>``."""
    tried = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    if tried.failed:
        raise SystemExit(f"{page}: {tried.failed} of {tried.attempted} examples failed")
    return f"{tried.attempted} examples"


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a page's consoles, each with what is printed below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.replace("\\\n", " ").partition("\n")
            found.append((command, shown.strip()))
    return found


def block_of(text: str, language: str, holding: str = "") -> str:
    """The first block of a language that does not stand behind ``>>>`` and holds some words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return next(block for block in blocks if ">>>" not in block and holding in block)


def session(pairs: list[tuple[str, str]], agree: Callable[[str, str], bool] = same) -> str:
    """Type commands one after the other; each must print what is shown, and succeed unless a refusal is shown."""
    for command, shown in pairs:
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        refused = "\nreticent: " in f"\n{shown}"
        if refused != bool(done.returncode) or (shown and not agree(shown, done.stdout)):
            raise SystemExit(
                f"$ {command}\nexit status {done.returncode}\n--- shown\n{shown}\n--- printed\n{done.stdout}"
            )
    return f"{len(pairs)} commands"


def scripted(page: Path) -> str:
    """Run the ``bash`` blocks of a page as one script; below each stands what it prints."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```bash\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == text.count("```bash"), "a block does not show what it prints"
    script = "".join(f"{code}\necho '{_END}'\n" for code, _ in blocks)
    script = f"set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
    done = subprocess.run(
        ["bash", "-c", script.replace("8080", str(free_port()))],
        capture_output=True, text=True, timeout=420,
    )  # fmt: skip
    printed = done.stdout.split(_END)
    logs = done.stderr + "".join(path.read_text("utf-8") for path in Path().glob("*.log"))
    for (code, shown), got in zip(blocks, printed, strict=False):
        if not same(shown, got):
            raise SystemExit(f"{code}\n--- shown\n{shown}\n--- printed\n{got}\n{logs}")
    if done.returncode or len(printed) != len(blocks) + 1:
        raise SystemExit(f"exit status {done.returncode}\n{logs}")
    return f"{len(blocks)} blocks of commands"


def write_visits(page: Path) -> None:
    """The made-up table and its schema from the page about the command."""
    text = (page.resolve().parent / "command.md").read_text("utf-8")
    subprocess.run([sys.executable, "-c", block_of(text, "python", "visits.csv")], check=True)
    Path("visits.toml").write_text(block_of(text, "toml"), "utf-8")


def command_page(page: Path) -> str:
    """The page about the command, but for what waits for Ctrl-C or for a live stream."""
    write_visits(page)
    pairs = commands(page.read_text("utf-8"))
    return session(
        [
            (command, f"{shown}\n..." if "explain run" in command else shown)
            for command, shown in pairs
            if not command.startswith(_LATER) and "--out stopped" not in command
        ]
    )


def quick_start(page: Path) -> str:
    """The quick start's commands; a person fills in the bounds after the first."""
    write_visits(page)
    shutil.copy("visits.csv", "people.csv")
    shutil.copy("visits.csv", "others.csv")
    first, *others = [
        pair for pair in commands(page.read_text("utf-8")) if not pair[0].startswith(_LATER)
    ]
    session([first])
    drafted = Path("people.toml").read_text("utf-8")
    for name in ("age", "job", "visits", "member", "spent"):
        assert f"[columns.{name}]" in drafted, drafted
    shutil.copy("visits.toml", "people.toml")
    return session(others)


def people(page: Path) -> str:
    """The commands that protect persons, on a table in which patients come several times."""
    write_visits(page.resolve().parent)
    lines = Path("visits.csv").read_text("utf-8").splitlines()
    with_ids = [f"{line},p{number % 30_000}" for number, line in enumerate(lines)]
    Path("visits.csv").write_text("\n".join([lines[0] + ",patient", *with_ids[1:]]) + "\n", "utf-8")
    return session(commands(page.read_text("utf-8")))


def without_numbers(shown: str, printed: str) -> bool:
    """Whether texts are the same but for numbers and names of runs, which differ where noise is fresh."""

    def plain(text: str) -> list[str]:
        text = re.sub(r"\b[0-9a-f]{32}\b|[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", text)
        return re.sub(r"[ -]+", " ", text).split("\n")

    return [line.strip() for line in plain(shown.strip())] == [
        line.strip() for line in plain(printed.strip())
    ]


@contextmanager
def participants() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that stay, by their kit; all are ended, and then nothing of them may be left."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        yield running
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait(60)


def left_running(folder: Path) -> list[str]:
    """What still runs in a folder, or with a file of it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(entry / "cwd")
        except OSError:
            continue
        if int(entry.name) not in (os.getpid(), os.getppid()) and where.startswith(f"{folder}/"):
            found.append(f"{entry.name}: {words}")
    return found


def hospitals(page: Path) -> str:
    """Three hospitals as processes of their own, a run that is refused, a power cut, a model, predictions."""
    here, text = Path.cwd(), page.read_text("utf-8")
    text = text.replace("18733", str(free_port())).replace("/demo", str(here))
    count = 0
    with participants() as running:
        for command, shown in commands(text):
            stays = re.match(r"reticent vertical (?:serve|party) (\S+)", command)
            if command.startswith(_LATER):
                continue
            count += 1
            if stays and "--check" not in command:
                print(f"$ {command} &", flush=True)
                running[stays[1]] = subprocess.Popen(["bash", "-c", f"exec {command}"])
            elif "--patience" in command:
                cut_off(command, running["kits/west"])
            else:  # dates, times, and which columns have weights, are other ones in every run
                varies = re.match(r"grep|head|.* weights|.*--resume", command)
                session([(command, "" if varies else shown)], without_numbers)
    left = left_running(here)
    if left:
        raise SystemExit("left behind:\n" + "\n".join(left))
    print("the rehearsal in Python", flush=True)
    subprocess.run([sys.executable, "-c", block_of(text, "python", "Rehearsal")], check=True)
    return f"{count} commands"


def cut_off(command: str, west: subprocess.Popen[bytes]) -> None:
    """Start a run, and kill a party in the middle of it; only the process that was started, as a person would."""
    print(f"$ {command}    # and kill west", flush=True)
    answers = Path("kits/west/private")
    before = _written(answers)
    with subprocess.Popen(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        while run.poll() is None and _written(answers) <= before:
            time.sleep(0.05)
        time.sleep(1.5)
        west.kill()
        printed = run.communicate(timeout=180)[0]
    print(printed)
    if run.returncode != 1 or "party 'west' is gone" not in printed or "resume" not in printed:
        raise SystemExit(f"exit status {run.returncode}, and not a word of the party that is gone")


def _written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


WAYS: dict[str, list[Callable[[Path], str]]] = {
    "quick-start.md": [examples, quick_start],
    "command.md": [examples, command_page],
    "people.md": [examples, people],
    "service.md": [scripted],
    "hospitals.md": [hospitals],
}


def main(page: Path) -> None:
    # `reticent` and `python` are those of this environment, as if it had been activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    print("; ".join(way(page) for way in WAYS.get(page.name, [examples])))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
