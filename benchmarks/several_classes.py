"""What holds back an online classifier of several classes: clip, radius or noise, and which loss bears it best.

    python benchmarks/several_classes.py [--seeds 3] [--records 3000]

Share predicted right and log loss of predictions before their records are learnt, with a known horizon and
delta = 1e-6. Every entrant has the estimators' learner (docs/algorithms/ftrl.md). "One against the rest"
stacks K logistic losses that start from probability 1/K; its probabilities are divided by their sum. The clip
is a share of the norm of a row.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from questions.prequential import stream
from scipy.special import expit, log_softmax

import reticent
from reticent import online, sets
from reticent.estimators.stream import Softmax

NORM = float(np.hypot(1.0, 0.3)) * (1.0 + 2.0**-30)
STREAMS = ("digits", "segments", "cover types")


class AgainstTheRest(Softmax):
    """The sum of K logistic losses, each with a constant offset that starts it from probability 1/K."""

    def predictors(self, x: np.ndarray, A: np.ndarray) -> np.ndarray:
        return A @ x.reshape(self.outputs, -1).T - math.log(self.outputs - 1.0)

    def value(self, x: np.ndarray, a: np.ndarray, y: float | None = None) -> float:
        sign = np.where(np.arange(self.outputs) == y, 1.0, -1.0)
        return float(np.logaddexp(0.0, -sign * self.predictors(x, a)).sum())

    def gradient(self, x: np.ndarray, a: np.ndarray, y: float | None = None) -> np.ndarray:
        return np.outer(expit(self.predictors(x, a)) - (np.arange(self.outputs) == y), a).ravel()

    def data_lipschitz(self, set: object = None) -> float:
        return self.feature_norm * math.sqrt(self.outputs)

    @property
    def smoothness(self) -> float:
        return 0.25 * self.feature_norm**2


ENTRANTS = {
    "softmax, clip 0.5 (the estimator)": (Softmax, 0.5, 50.0),
    "softmax, clip 1": (Softmax, 1.0, 50.0),
    "softmax, clip 1.414, which never binds": (Softmax, math.sqrt(2.0), 50.0),
    "softmax, clip 0.5, radius 10": (Softmax, 0.5, 10.0),
    "one against the rest, clip 0.5": (AgainstTheRest, 0.5, 50.0),
    "one against the rest, clip 1": (AgainstTheRest, 1.0, 50.0),
}


def play(name: str, most: int, seed: int, epsilon: float, entrant: str) -> tuple[float, float]:
    kind, clip, radius = ENTRANTS[entrant]
    X, y = stream(name)
    A = np.column_stack([X[:most], np.full(len(X[:most]), 0.3)])
    labels = np.unique(y, return_inverse=True)[1][:most].astype(float)
    K = len(np.unique(y))
    loss = kind(K, NORM, 0.0)
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(K * A.shape[1], radius), loss, budget=reticent.Budget(epsilon, 1e-6),
        horizon=len(A), seed=seed, lipschitz=clip * NORM, noise_precision="float", averaging=True,
    )  # fmt: skip
    z = np.empty((len(A), K))
    for t, (a, label) in enumerate(zip(A, labels, strict=True)):
        x = learner.decision
        z[t] = x.reshape(K, -1) @ a if kind is Softmax else loss.predictors(x, a)
        learner.update(loss.gradient(x, a, label))
    logs = log_softmax(z, axis=1)
    if kind is not Softmax:
        sure = expit(z)
        logs = np.log(sure / sure.sum(axis=1, keepdims=True))
    place = labels.astype(int)
    return float(np.mean(z.argmax(axis=1) == place)), float(-logs[np.arange(len(A)), place].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=3000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| entrant | "
        + " | ".join(f"{n}, ε = {e}" for n in STREAMS for e in ("1", "8", "10⁴"))
        + " |"
    )
    for entrant in ENTRANTS:
        cells = []
        for name in STREAMS:
            for epsilon in (1.0, 8.0, 1e4):
                found = [play(name, given.records, s, epsilon, entrant) for s in range(given.seeds)]
                right, loss = np.mean(found, axis=0)
                cells.append(f"{right:.3f}, {loss:.3f}")
        print(f"| {entrant} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
