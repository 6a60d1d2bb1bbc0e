"""How long the first call after an install takes: processor time above what it must import, nothing compiled before.

    python benchmarks/cold_start.py [--repeats 3] [--kernels] [--all]

Each call runs in a new process with an empty folder for compiled code, and once more with the folder full. Time is
counted from the end of `import sklearn.linear_model, numba, scipy.optimize`. ``--kernels`` lists what was compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

CALLS = {
    "fit": "reticent.PrivateLogisticRegression(**options).fit(X, y)",
    "partial_fit": "reticent.OnlineLogisticRegression(horizon=10**6, **options).partial_fit(X, y)",
}
# What else people try first; measured with --all.
OTHERS = {
    "fit, private scale": "reticent.PrivateLogisticRegression(classes=[0, 1]).fit(X, y)",
    "fit, intervals": "reticent.PrivateLogisticRegression(intervals=True, **options).fit(X, y)",
    "LinearSVC": "reticent.PrivateLinearSVC(**options).fit(X, y)",
    "LinearRegression": "reticent.PrivateLinearRegression(1.0, label_bounds=(-1, 1)).fit(X, X[:, 1])",
    "Lasso": "reticent.PrivateLasso(1.0, label_bounds=(-1, 1)).fit(X, X[:, 1])",
    "one record": "reticent.OnlineLogisticRegression(horizon=10**6, **options).partial_fit(X[:1], y[:1])",
    "online, endless": "reticent.OnlineLinearRegression(label_bounds=(-1, 1), window=1024).partial_fit(X, X[:, 1])",
    "Tree.run": "reticent.sums.Tree(3, 1000, budget=budget).run(X)",
    "WindowTree.add": "reticent.sums.WindowTree(3, budget=budget.with_(window=64)).add(X[0])",
    "Correlated.run": "reticent.sums.Correlated(3, 1000, budget=budget).run(X)",
    "FTRL": "online.FollowTheRegularizedLeader(ball, losses.Logistic(), budget=budget, horizon=1000).run(X, signs)",
    "local linear": "online.FollowTheApproximateLeader(cross, losses.Squared(), budget=budget, horizon=1000,"
    " strong_convexity=0.1, step='local-linear').run(X, signs)",
    "perturbed": "online.PerturbedIterates(ball, losses.Logistic(ridge=0.1), inner=online.ImplicitGradient(),"
    " budget=budget, horizon=1000).run(X, signs)",
    "quadratic": "online.QuadraticLeader(ball, losses.Squared(), budget=budget, horizon=1000).run(X, signs)",
    "Experts": "online.Experts(3, budget=budget, horizon=1000).run(abs(X))",
    "bandit": "b = bandit.ProjectionFreeBandit(sets.Simplex(3), budget=budget, lipschitz=1.0, horizon=1000);"
    " [(b.ask(), b.tell(0.5)) for _ in range(100)]",
    "gradient descent": "erm.gradient_descent(losses.Logistic(), ball, X, signs, budget=budget, steps=20)",
    "Frank-Wolfe": "erm.frank_wolfe(losses.Logistic(), cross, X, signs, budget=budget, steps=20)",
    "best fixed": "losses.best_fixed(ball, losses.Logistic(), X, signs)",
}
CALL = """
import json, sys, time, warnings
import numba.core.event as event
import scipy.optimize, sklearn.linear_model
import numpy as np
warnings.simplefilter("ignore")
X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(500, 3))
y = (X[:, 0] > 0).astype(int)
signs = 2.0 * y - 1
options = {{"epsilon": 1.0, "feature_norm": 1.0, "classes": [0, 1]}}
kernels, open_ = {{}}, []
class Watch(event.Listener):
    def on_start(self, at):
        open_.append(time.process_time())
    def on_end(self, at):
        began = open_.pop()
        if not open_:
            name = at.data["dispatcher"].py_func.__qualname__
            kernels[name] = kernels.get(name, 0.0) + time.process_time() - began
event.register("numba:compile", Watch())
start = time.process_time()
import reticent
from reticent import bandit, erm, losses, online, sets
budget = reticent.Budget(1.0, 1e-6)
ball, cross = sets.L2Ball(3), sets.L1Ball(3)
imported = time.process_time()
{call}
end = time.process_time()
print(json.dumps({{"all": end - start, "import": imported - start, "kernels": kernels}}))
"""


def measure(call: str, folder: str) -> dict[str, Any]:
    """One call in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    words = [sys.executable, "-c", CALL.format(call=call)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kernels", action="store_true", help="List what was compiled.")
    parser.add_argument("--all", action="store_true", help="Measure further first calls.")
    options = parser.parse_args()
    print(f"{'call':20}{'cold':>8}{'compiled':>10}{'kernels':>9}{'warm':>8}   seconds of processor")
    for name, call in (CALLS | (OTHERS if options.all else {})).items():
        cold, warm = [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(measure(call, folder))
                warm.append(measure(call, folder))
        kernels = dict(cold[0]["kernels"])
        print(
            f"{name:20}{statistics.median(float(run['all']) for run in cold):8.2f}"
            f"{sum(kernels.values()):10.2f}{len(kernels):9}"
            f"{statistics.median(float(run['all']) for run in warm):8.2f}"
        )
        if options.kernels:
            for kernel, seconds in sorted(kernels.items(), key=lambda pair: -pair[1]):
                print(f"    {seconds:6.2f} {kernel}")


if __name__ == "__main__":
    main()
