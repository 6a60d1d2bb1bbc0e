"""Start-up: what a fresh process costs before it does anything, beside the libraries that it stands on.

The caches of compiled kernels are warm, as ``make setup`` leaves them; the very first call after an
upgrade compiles, once.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec

from table import Table
from timing import Clocked, Measured, Ratio, measure

from questions import Run

QUESTION = 6
CODE = {
    "an empty process": ("pass", None),
    "import numpy": ("import numpy", None),
    "import sklearn.linear_model": ("import sklearn.linear_model", None),
    "import reticent": ("import reticent", 1.0),
    "import reticent, and a Budget": ("import reticent; reticent.Budget(1.0, 1e-6)", None),
    "first private total": (
        "import numpy as np, reticent; "
        "reticent.sums.Correlated(54, 1024, budget=reticent.Budget(1.0, 1e-6)).add(np.zeros(54))",
        1.0,
    ),
    "first online fit": (
        "import numpy as np, reticent; "
        "reticent.OnlineLogisticRegression().partial_fit(np.ones((2, 3)), [0, 1], classes=[0, 1])",
        None,
    ),
}
# So many in a turn of those that are over in a moment: all ratios are to one of them.
SEVERAL = {"an empty process": 10, "import numpy": 5, "import reticent": 5, "reticent --help": 3}
HELP = ("reticent --help", "from reticent.cli import main; main(['--help'])", 0.7)


def startup(run: Run) -> Table:
    table = Table(
        "startup",
        QUESTION,
        "A fresh process",
        ["what", "shortest wall time, s", "target", "processor seconds", "to `import numpy`"],
        "A whole process from start to end, with warm caches of compiled kernels. The shortest wall time "
        "is that of the round that other processes disturbed least; the ratio compares processor "
        "time.",
    )
    code = dict(CODE)
    if find_spec("typer") is not None and find_spec("reticent.cli.app") is not None:
        code[HELP[0]] = HELP[1:]
    walls: dict[str, list[float]] = {name: [] for name in code}

    def fresh(name: str, text: str) -> Clocked:
        count = SEVERAL.get(name, 1)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(count):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", text], check=True, stdout=subprocess.DEVNULL)
            walls[name].append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Clocked(spent / count)

    tasks = {name: partial(fresh, name, text) for name, (text, _) in code.items()}
    pairs = [(name, "import numpy") for name in tasks]
    seconds = measure(tasks, pairs, rounds=run.choose(4, 9), seconds=run.choose(40, 200))
    for name, (_, target) in code.items():
        found = seconds[name]
        share = None if name == "import numpy" else Ratio.of(found, seconds["import numpy"])
        least = Measured(min(walls[name]), len(walls[name]))
        table.add(name, least, target, Measured.of(found), share)
    return table
