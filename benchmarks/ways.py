"""How much of the library six ways go through: calls, functions and files below ``src/reticent``, counted exactly.

    python benchmarks/ways.py [way ...]

Each way is gone once before it is counted, so that nothing is compiled, imported or looked up for the first time.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import reticent
from reticent import bandit, sets, vertical
from reticent.compiling import compile_at_once

compile_at_once()

HOME = str(Path(reticent.__file__).parent) + "/"
BUDGET = reticent.Budget(1.0, 1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (400, 4))
Y = (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int)

Way = Callable[[], Any]


def counted(way: Way) -> Counter[tuple[str, str]]:
    """Calls of each function of the library, by file and name, while a way is gone."""
    seen: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME):
            seen[name.removeprefix(HOME), frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        way()
    finally:
        sys.setprofile(None)
    return seen


def partial_fit() -> Way:
    model = reticent.OnlineLogisticRegression(horizon=10**6)
    model.partial_fit(X, Y, classes=[0, 1])
    return lambda: model.partial_fit(X[:1], Y[:1])


def fit() -> Way:
    return lambda: reticent.PrivateLogisticRegression().fit(X, Y)


def learner() -> bandit.ProjectionFreeBandit:
    return bandit.ProjectionFreeBandit(sets.Simplex(4), budget=BUDGET, lipschitz=1.0, horizon=10**4)


def ask_and_tell() -> Way:
    played = learner()

    def play() -> None:
        played.ask()
        played.tell(0.5)

    return play


def build_bandit() -> Way:
    return learner


def vertical_run() -> Way:
    def run() -> None:
        common: dict[str, Any] = {"ids": range(400), "key": bytes(16)}
        budget = reticent.Budget(8.0, 1e-5)
        north = vertical.Party("north", X[:, :2], labels=2.0 * Y - 1.0, ledger=budget, **common)
        south = vertical.Party("south", X[:, 2:], ledger=budget, **common)
        parties = vertical.InProcess({"north": north, "south": south})
        vertical.Coordinator(parties).run(budget=reticent.Budget(4.0, 1e-6), rounds=3)

    return run


def learn() -> Way:
    folder = Path(tempfile.mkdtemp())
    table = folder / "table.csv"
    rows = "\n".join(",".join(map(str, [*row, label])) for row, label in zip(X, Y, strict=True))
    table.write_text("a,b,c,d,y\n" + rows + "\n")
    schema = folder / "schema.toml"

    def command(*words: str) -> None:
        from reticent.cli import main

        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(list(words))

    command("schema", str(table), "--public-sample", "--target", "y", "--out", str(schema))
    number = iter(range(10**6))

    def run() -> None:
        out = str(folder / f"out{next(number)}")
        words = ["--horizon", "1000", "--epsilon", "1", "--delta", "1e-6", "--quiet"]
        command("learn", str(table), "--schema", str(schema), "--out", out, *words)
        assert (Path(out) / "model.json").exists()

    return run


WAYS: dict[str, Callable[[], Way]] = {
    "partial_fit of one record": partial_fit,
    "PrivateLogisticRegression.fit": fit,
    "ask and tell": ask_and_tell,
    "a bandit, built": build_bandit,
    "a vertical run in memory": vertical_run,
    "reticent learn": learn,
}


def main(wanted: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(f"{'way':32}{'calls':>8}{'functions':>11}{'files':>7}")
    for name, prepare in WAYS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        way = prepare()
        way()
        seen = counted(way)
        files = sorted({file for file, _ in seen})
        print(f"{name:32}{sum(seen.values()):8}{len(seen):11}{len(files):7}")
        if wanted:
            for (file, function), calls in sorted(seen.items()):
                print(f"    {calls:6} {file}: {function}")


if __name__ == "__main__":
    main(sys.argv[1:])
