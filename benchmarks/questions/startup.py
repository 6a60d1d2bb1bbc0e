"""Start-up: what a fresh process costs before it does anything, beside the libraries that it stands on.

The one thing a reader would get wrong: the caches of compiled kernels are warm, as ``make setup`` leaves them; the
very first call after an upgrade compiles, once.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
from table import Table
from timing import Clocked, Ratio, measure

from questions import Run

QUESTION = 6
CODE = {
    "an empty process": ("pass", None),
    "import numpy": ("import numpy", None),
    "import sklearn.linear_model": ("import sklearn.linear_model", None),
    "import tacit": ("import tacit", 1.0),
    "import tacit, and a Budget": ("import tacit; tacit.Budget(1.0, 1e-6)", None),
    "first private total": (
        "import numpy as np, tacit; "
        "tacit.sums.Correlated(54, 1024, budget=tacit.Budget(1.0, 1e-6)).add(np.zeros(54))",
        1.0,
    ),
    "first online fit": (
        "import numpy as np, tacit; "
        "tacit.OnlineLogisticRegression().partial_fit(np.ones((2, 3)), [0, 1], classes=[0, 1])",
        None,
    ),
}
HELP = ("tacit --help", "from tacit.cli import main; main(['--help'])", 0.7)


def startup(run: Run) -> Table:
    table = Table(
        "startup",
        QUESTION,
        "A fresh process",
        ["what", "least seconds on the wall", "target", "processor seconds", "to `import numpy`"],
        "A whole process, from its start to its end, the caches of compiled kernels warm. The least of "
        "the rounds on the wall is the one that others disturbed least; the ratio is one of processor "
        "time.",
    )
    code = dict(CODE)
    if find_spec("typer") is not None and find_spec("tacit.cli.app") is not None:
        code[HELP[0]] = HELP[1:]
    walls: dict[str, list[float]] = {name: [] for name in code}

    def fresh(name: str, text: str) -> Clocked:
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", text], check=True, stdout=subprocess.DEVNULL)
        walls[name].append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Clocked(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    tasks = {name: partial(fresh, name, text) for name, (text, _) in code.items()}
    pairs = [(name, "import numpy") for name in tasks]
    seconds = measure(tasks, pairs, rounds=run.choose(9, 21), seconds=run.choose(120, 600))
    for name, (_, target) in code.items():
        found = seconds[name]
        share = None if name == "import numpy" else Ratio.of(found, seconds["import numpy"])
        table.add(name, min(walls[name]), target, float(np.median(found)), share)
    return table


TABLES = (startup,)
