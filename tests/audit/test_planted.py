"""Power: bugs that have been shipped elsewhere, or printed, are planted here and found out.

Each is planted by a patch or a subclass in this file; the product has no switch for any of them. An
honest mechanism would be refuted by one of these attacks with probability at most 1e-6.
"""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import reticent
from reticent import audit, papers, sums
from reticent.audit.pairs_sums import total_pair
from reticent.noise import Source
from reticent.sums import kernels, matrices, process, tree

TOTALS = ["tree-gaussian-honaker", "tree-gaussian-plain", "window-tree-gaussian", "correlated",
          "correlated-window", "independent-gaussian", "tree-laplace-plain", "independent-laplace",
          "window-tree-laplace"]  # fmt: skip


@pytest.mark.parametrize("name", TOTALS)
def test_noise_halved(name, monkeypatch):
    pair = audit.worst_case(name)
    assert pair.attack(20_000).holds
    honest = process.Process.block
    monkeypatch.setattr(process.Process, "block", lambda self, *a: honest(self, *a) // 2)
    found = pair.attack(20_000)
    assert found.epsilon > 1.2
    assert not found.holds


@pytest.mark.parametrize("name", TOTALS)
def test_sensitivity_off_by_two_under_replacement(name, monkeypatch):
    monkeypatch.setattr(reticent.Budget, "sensitivity", lambda self, norm: norm)
    found = audit.worst_case(name, neighbours="replace").attack(20_000)
    assert not found.holds


def test_tree_noise_redrawn_at_each_use(monkeypatch):
    pair = audit.worst_case("tree-gaussian-plain", horizon=32)
    assert pair.attack(100_000, selection=0.4).holds
    rng = np.random.default_rng(0)

    def redrawn(fresh, stack, t):
        """Every node of every total has noise of its own: averages of totals leak."""
        for r in range(len(fresh)):
            nodes = (t + r + 1).bit_count()
            fresh[r] = sum(rng.permutation(fresh[r]) for _ in range(nodes))

    monkeypatch.setattr(tree, "_plain", redrawn)
    found = pair.attack(100_000, selection=0.4)
    assert found.epsilon > 1.15
    assert not found.holds


@pytest.mark.parametrize("name", ["tree-gaussian-plain", "correlated", "tree-laplace-plain"])
def test_missing_clip(name, monkeypatch):
    pair = audit.worst_case(name)

    honest = kernels.run
    monkeypatch.setattr(kernels, "run", lambda rows, limit, *rest: honest(rows, 1e6, *rest))
    found = pair.attack(10_000)
    assert found.epsilon > 1.5
    assert not found.holds


@pytest.mark.parametrize(
    "name", ["tree-gaussian-honaker", "correlated-window", "independent-laplace"]
)
def test_seed_reused(name, monkeypatch):
    pair = audit.worst_case(name)
    honest = Source.__init__
    monkeypatch.setattr(Source, "__init__", lambda self, seed=None: honest(self, 42))
    found = pair.attack(2000, batch=500)
    assert found.repeated
    assert not found.holds


def test_seed_reused_where_runs_are_made_one_by_one(monkeypatch):
    """With one number a run there is nothing to compare but the numbers: they are all the same."""

    def run(world):
        return sums.Independent(1, 1, budget=reticent.Budget(1.0), noise="laplace", seed=3).add(
            [world]
        )

    found = audit.mechanism(run, 0.0, 1.0, runs=400, claim=1.0)
    assert not found.holds


def implicit_descent(z, alpha, radius):
    """Implicit gradient descent on z x + alpha x^2 / 2 within [-radius, radius], and its average."""
    x, total = 0.0, 0.0
    for t, slope in enumerate(z, 1):
        total += x
        eta = 1.0 / (alpha * t)
        x = min(radius, max(-radius, (x - eta * slope) / (1.0 + eta * alpha)))
    return total / len(z)


def test_published_noise_of_private_offline_learning():
    """The printed beta lacks 1/alpha: [online], section 5, claimed (1, 1e-6)."""
    horizon, alpha = 1000, 0.05
    rng = np.random.default_rng(1)
    paper = papers.averaged_iterate(1.0, 1e-6, horizon=horizon, strong_convexity=alpha, radius=1.0)
    outputs = {}
    for world in (-1.0, 1.0):
        z = 0.02 * np.cos(np.arange(horizon))
        z[25] = world
        outputs[world] = implicit_descent(z, alpha, 1.0)

    def printed(world, size):
        return np.clip(outputs[world] + float(paper.scale) * rng.normal(size=size), -1.0, 1.0)

    def corrected(world, size):
        needed = 2.0 * (np.sum(1.0 / np.arange(1, horizon + 1)) - 1.0) / (alpha * horizon)
        sigma = needed / reticent.Budget(1.0, 1e-6).mu
        return np.clip(outputs[world] + sigma * rng.normal(size=size), -1.0, 1.0)

    given = {"runs": 20_000, "batch": 10_000, "delta": 1e-6, "claim": 1.0}
    found = audit.mechanism(printed, -1.0, 1.0, **given)
    assert found.epsilon > 3.0
    assert not found.holds
    assert audit.mechanism(corrected, -1.0, 1.0, **given).holds


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_published_index_noise_of_the_vertical_solver(neighbours):
    """The printed noise is scaled by eta / K, the scores of line 10 are not; claimed (0.5, 5e-7)."""
    parties, steps, n, radius = 4, 25, 1000, 0.05
    paper = papers.vertical_index(1.0, 1e-6, parties=parties, steps=steps, n=n, radius=radius)
    move = (1.0 if neighbours == "zero-out" else 2.0) / n
    rng = np.random.default_rng(2)

    def run(world, size):
        """How often the first of two candidates is reported, over all parties and steps."""
        scores = np.array([world, -world])
        noisy = scores + rng.laplace(scale=float(paper.scale), size=(size, parties * steps, 2))
        return (noisy[..., 0] > noisy[..., 1]).sum(axis=1).astype(float)

    found = audit.mechanism(run, 0.0, move, runs=20_000, batch=2000, delta=5e-7, claim=0.5)
    assert found.epsilon > 1.0
    assert not found.holds


def test_published_sketch_noise_of_the_vertical_solver():
    """The noise is scaled by 1/n, the message J a is not; claimed (0.5, 5e-7)."""
    n, m = 200, 20
    rng = np.random.default_rng(3)
    sketch = rng.normal(size=(m, n)) / math.sqrt(m)
    columns = np.linalg.norm(sketch, axis=0)
    paper = papers.vertical_sketch(
        1.0, 1e-6, parties=1, steps=1, n=n, singular_value=np.linalg.norm(sketch, 2), column_norm=columns.max()
    )  # fmt: skip
    feature = rng.uniform(-1.0, 1.0, n)
    worst = int(np.argmax(columns))

    def run(world, size, divisor=1.0):
        mine = feature.copy()
        mine[worst] = world
        return sketch @ mine / divisor + float(paper.scale) * rng.normal(size=(size, m))

    given = {"runs": 4000, "batch": 2000, "delta": 5e-7, "claim": 0.5}
    found = audit.mechanism(run, 0.0, 1.0, **given)
    assert found.epsilon > 3.0
    assert not found.holds
    # the message J a / n, for which the noise seems to be meant
    averaged = audit.mechanism(lambda world, size: run(world, size, n), 0.0, 1.0, **given)
    assert averaged.holds


class SurrogateSensitivity(sums.WindowTreeMechanism):
    """Noise for the printed sensitivity L + mu D of [window], Theorem 1."""

    def _scale(self, steps):
        return papers.window_tree_gamma(
            self.budget.epsilon, window=self.window, strong_convexity=0.1, diameter=1.0
        ).scale  # type: ignore[return-value]


def test_surrogate_sensitivity_under_replacement(monkeypatch):
    """Gradients of mu-strongly convex losses move by up to 2 L - mu D; L + mu D is less below mu D = L/2."""
    monkeypatch.setattr(
        matrices, "refuse_false", lambda *_: None
    )  # which refuses to exceed a budget
    pair = total_pair(
        "window tree with L + mu D", SurrogateSensitivity, noise="laplace", window=4, horizon=None,
        neighbours="replace",
    )  # fmt: skip
    found = audit.mechanism(
        pair.run, -0.95, 0.95, runs=100_000, batch=50_000, statistic=pair.statistic, claim=1.0
    )  # fmt: skip
    assert 1.2 < found.epsilon <= 1.9 / 1.1
    assert not found.holds
    # blanked instead of replaced, the printed noise is more than enough
    blanked = total_pair(
        "window tree with L + mu D", SurrogateSensitivity, noise="laplace", window=4, horizon=None
    )  # fmt: skip
    assert blanked.attack(50_000, claim=1.0).holds


# Learners and solvers --------------------------------------------------------------------------------


def test_a_leader_that_halves_its_noise(monkeypatch):
    pair = audit.worst_case("online-regularized-leader")
    honest = process.Process.block
    monkeypatch.setattr(process.Process, "block", lambda self, *a: honest(self, *a) // 2)
    found = pair.attack(30_000)
    assert found.epsilon > 1.2
    assert not found.holds


@pytest.mark.parametrize("name", ["online-perturbed-implicit", "online-perturbed-gradient"])
def test_iterates_perturbed_with_a_third_of_the_noise(name, monkeypatch):
    from reticent.noise import lattice

    pair = audit.worst_case(name)
    assert pair.attack(300).holds
    honest = lattice.gaussian

    def quiet(source, scales, out):
        honest(source, scales / 3.0, out)

    monkeypatch.setattr(lattice, "gaussian", quiet)
    assert not pair.attack(400).holds


def test_descent_that_forgets_how_many_steps_it_takes(monkeypatch):
    """Three steps with the noise of one."""

    pair = audit.worst_case("erm-gradient-descent")
    assert pair.attack(40_000).holds
    module = importlib.import_module("reticent.erm.solver")
    honest = module.noisy
    monkeypatch.setattr(
        module, "noisy", lambda total, scale, *a, **k: honest(total, scale / 3**0.5, *a, **k)
    )
    found = pair.attack(40_000)
    assert found.epsilon > 1.2
    assert not found.holds


def test_a_few_runs_of_descent_with_a_fifth_of_the_noise(monkeypatch):
    from reticent.audit import extras

    attack = next(f for _, setting, f in extras.many_canaries() if "descent" in setting)
    module = importlib.import_module("reticent.erm.solver")
    honest = module.noisy
    monkeypatch.setattr(
        module, "noisy", lambda total, scale, *a, **k: honest(total, scale / 5, *a, **k)
    )
    assert not attack(1e-6).holds
