"""Regret of the private bandit against the number of plays, with the exponents that the theorem allows.

    python benchmarks/bandit_regret.py            # T up to 2^16, n = 2 and 10: a few minutes
    python benchmarks/bandit_regret.py --full     # T up to 2^20, n = 2, 10 and 50: half an hour
    python benchmarks/bandit_regret.py --sets l1,simplex --dims 10 --longest 18 --seeds 4
    python benchmarks/bandit_regret.py --print    # the tables of the last --full; --markdown: for the docs

Losses: linear, of norm 1, random around a fixed mean direction; quadratic, (1/2D) |x - center|^2
around a center that drifts in circles. Learners, all in the same frame:

    private            epsilon = 1, delta = 1e-6, the defaults
    pure               epsilon = 1, delta = 0
    clean              not private, otherwise the same
    private, middle    values compared with the middle of their range, as in the paper, so that
    clean, middle      their own variance hides the privacy noise; the latter is Garber and Kretzu's
    private, entropy   the entropy as mirror map, on the simplex
    published          the paper's noise and constants, for the same guarantee

Numbers are mean regret per play over that of standing still at the center. Long runs cost more, so
there are fewer of them: three up to T = 2^16, two of 2^18, one of 2^20, where for n = 2 and 50 only
the first and the third learner play. The exponent is the slope of log regret over T >= 2^14 (over
T >= 2^12 where the runs are shorter), one slope for all runs and a constant for each seed. Beside it,
for n = 10, the ratios of private to clean regret at T = 2^17.

The learners' constants were chosen by simulation on seeds 0, 1 and 2 of these losses, so runs here
begin at seed 100, which played no part in it. ``--full`` writes ``results/bandit_regret.json``.

A number near 1 is not a result, it is a learner that has not yet begun to learn; its exponent is
then near 1 whatever the theorem says about the long run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import reticent  # noqa: E402
from reticent import bandit, losses, sets  # noqa: E402
from reticent.bandit.geometry import survey  # noqa: E402
from reticent.bandit.playing import RowsInHindsight  # noqa: E402

LIMIT, MORE, RATIO = 0.78, 0.03, 1.5
RESULTS = Path(__file__).parent / "results" / "bandit_regret.json"
BUDGET = reticent.Budget(1.0, 1e-6)
LEARNERS = {
    "private": {"budget": BUDGET},
    "pure": {"budget": reticent.Budget(1.0)},
    "clean": {"private": False},
    "private, middle": {"budget": BUDGET, "centring": "middle"},
    "clean, middle": {"private": False, "centring": "middle"},
    "private, entropy": {"budget": BUDGET, "mirror": "entropy"},
    "published": {"budget": BUDGET, "calibration": "published"},
}
EVERYWHERE = ("private", "pure", "clean", "published")
LONGEST_OF_ALL = ("private", "clean")
PAIRS = (
    ("private", "clean"),
    ("private, middle", "clean, middle"),
    ("private", "clean, middle"),
    ("published", "private"),
)


def two_lanes(n: int) -> sets.FlowPolytope:
    """A road of two lanes where one may change lanes at every crossing but the first: n free dimensions."""
    layers = n // 2 + 1
    edges = [("start", (0, lane)) for lane in range(2)]
    for layer in range(layers - 1):
        pairs = itertools.product(range(2), range(2))
        edges += [
            ((layer, a), (layer + 1, b)) for a, b in pairs if layer or n % 2 or (a, b) != (0, 1)
        ]
    edges += [((layers - 1, lane), "goal") for lane in range(2)]
    return sets.FlowPolytope(edges, "start", "goal")


def graph(n: int) -> sets.SpanningTreePolytope:
    """Spanning trees of a graph with n + 1 edges and no bridge."""
    nodes = {2: 3, 10: 6, 50: 10}[n]
    edges = list(itertools.combinations(range(nodes), 2))
    if n == 10:
        edges = [edge for edge in edges if edge not in ((0, 2), (0, 3), (1, 4), (2, 5))]
    return sets.SpanningTreePolytope(edges + edges[: n + 1 - len(edges)])


SETS = {
    "l1": sets.L1Ball,
    "simplex": lambda n: sets.Simplex(n + 1),
    "flow": two_lanes,
    "trees": graph,
}


def linear(convex, T, rng):
    """Rows, loss, Lipschitz constant, range of values."""
    geometry = survey(convex, True)
    n = geometry.dim
    mean = rng.standard_normal(n)
    rows = mean / np.linalg.norm(mean) + rng.standard_normal((T, n)) / np.sqrt(n)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    center = geometry.center if geometry.basis is None else geometry.basis.T @ geometry.center
    largest = geometry.reach + float(np.linalg.norm(center))
    return geometry.lift(rows), losses.Linear(), 1.0, (-largest, largest)


def drifting(convex, T, rng):
    corners = [convex.linear_minimizer(g) for g in rng.standard_normal((3, convex.dim))]
    center = convex.center
    angle = 2 * np.pi * 16 * np.arange(T)[:, None] / T
    ring = np.cos(angle) * (corners[1] - center) + np.sin(angle) * (corners[2] - center)
    rows = center + 0.6 * (corners[0] - center) + 0.2 * ring
    return rows, losses.Quadratic(1.0 / convex.diameter), 1.0, (0.0, 0.5 * convex.diameter)


LOSSES = {"linear": linear, "quadratic": drifting}


def total_loss(rows, loss, x):
    if isinstance(loss, losses.Linear):
        return float(rows.sum(axis=0) @ x)
    return 0.5 * loss.scale * float(np.sum((rows - x) ** 2))


class World:
    """Losses of one length, and what every learner is measured against."""

    def __init__(self, convex, kind, T, seed):
        rng = np.random.default_rng([seed, convex.dim])  # the same world at every length
        self.convex, self.seed, self.T = convex, seed, T
        self.rows, self.loss, self.lipschitz, self.values = LOSSES[kind](convex, T, rng)
        best = RowsInHindsight(convex, self.loss, self.rows).point()
        self.best = total_loss(self.rows, self.loss, best)
        self.still = total_loss(self.rows, self.loss, convex.center)

    def regret(self, facts) -> float:
        """Of one learner, as a share of the regret of standing still."""
        learner = bandit.ProjectionFreeBandit(
            self.convex, lipschitz=self.lipschitz, values=self.values, horizon=self.T,
            seed=self.seed, noise_precision="float", **facts,
        )  # fmt: skip
        play = learner.run(self.rows, loss=self.loss, keep=2)
        return (play.total_loss - self.best) / (self.still - self.best)


def exponent(lengths, runs) -> float | None:
    """Slope of the log of the regret against log T over the long runs, each seed with a constant of its own."""
    start = 2**14 if lengths[-1] > 2**16 else 2**12
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for T, some in zip(lengths, runs, strict=True):
        for k, value in enumerate(some):
            if start <= T:
                by_seed.setdefault(k, []).append((np.log(T), np.log(max(value, 1e-12))))
    centred = [np.array(some) - np.mean(some, axis=0) for some in by_seed.values()]
    if not centred:
        return None
    x, y = np.concatenate(centred).T
    return 1.0 + float(x @ y / (x @ x)) if x.any() else None


def learners_for(convex, n, chosen):
    names = [name for name in LEARNERS if n == 10 or name in EVERYWHERE or chosen]
    names = [name for name in names if name in (chosen or names)]
    return [name for name in names if "entropy" not in name or isinstance(convex, sets.Simplex)]


def runs_of(T, most) -> int:
    return min(most, 3 if T <= 2**16 else 2 if T <= 2**18 else 1)


def measure(name, n, kind, lengths, first, most, chosen):
    """One block of the table, as plain data."""
    convex = SETS[name](n)
    learners = learners_for(convex, n, chosen)
    runs = {label: [] for label in learners}
    for T in lengths:
        for label in learners:
            runs[label].append([])
        for seed in range(first, first + runs_of(T, most)):
            world = World(convex, kind, T, seed)
            for label in learners:
                if n == 10 or T < 2**20 or label in LONGEST_OF_ALL:
                    runs[label][-1].append(world.regret(LEARNERS[label]))
    found = {}
    for label in learners:
        means = [float(np.mean(some)) if some else None for some in runs[label]]
        slope = exponent(lengths, runs[label])
        found[label] = {"regret": means, "exponent": slope, "runs": runs[label]}
    return {"set": name, "n": n, "losses": kind, "lengths": lengths, "learners": found}


def ratios(name, kind, seeds):
    """Private to clean regret at T = 2^17 and n = 10, over the given seeds."""
    convex = SETS[name](10)
    wanted = ("private", "clean", "private, middle", "clean, middle")
    runs = {label: [] for label in wanted}
    for seed in seeds:
        world = World(convex, kind, 2**17, seed)
        for label in wanted:
            runs[label].append(world.regret(LEARNERS[label]))
    means = {label: float(np.mean(some)) for label, some in runs.items()}
    pairs = [(a, b) for a, b in PAIRS if a in means and b in means]
    found = {f"{a} / {b}": means[a] / means[b] for a, b in pairs}
    return {"set": name, "n": 10, "losses": kind, "T": 2**17, "regret": means, "ratio": found}


def show(block) -> None:
    lengths, found = block["lengths"], block["learners"]
    print(f"\n{block['set']}, n = {block['n']}, {block['losses']} losses")
    head = "".join(f"{f'2^{T.bit_length() - 1}':>8}" for T in lengths)
    print(f"  {'':18}{head}{'exponent':>10}{'target':>9}")
    for label, result in found.items():
        slope, target = result["exponent"], ""
        if label == "private":
            target = f"<= {target_of(block):.2f}" if target_of(block) is not None else ""
        cells = ("" if value is None else f"{value:.3f}" for value in result["regret"])
        line = "".join(f"{cell:>8}" for cell in cells)
        print(f"  {label:18}{line}{'' if slope is None else f'{slope:.2f}':>10}{target:>9}")
    for ours, theirs in PAIRS:
        if ours in found and theirs in found:
            both = [
                (T, a / b)
                for T, a, b in zip(
                    lengths, found[ours]["regret"], found[theirs]["regret"], strict=True
                )
                if a is not None and b is not None
            ]
            print(f"  {ours} / {theirs} at 2^{both[-1][0].bit_length() - 1}: {both[-1][1]:.2f}")


def target_of(block) -> float | None:
    """The largest exponent that will do."""
    if block["n"] <= 10:
        return LIMIT
    slope = block["learners"].get("clean", {}).get("exponent")
    return None if slope is None else slope + MORE


def misses(block) -> bool:
    slope, target = block["learners"].get("private", {}).get("exponent"), target_of(block)
    return slope is not None and target is not None and slope > target


def show_ratios(rows, seeds) -> None:
    names = list(rows[0]["ratio"])
    print(f"\nratios of mean regret at T = 2^17, n = 10, {seeds} runs; to be <= {RATIO:g}")
    print(f"  {'':20}" + "".join(f"{name:>34}" for name in names))
    for row in rows:
        cells = "".join(f"{row['ratio'][name]:34.2f}" for name in names)
        print(f"  {row['set'] + ', ' + row['losses']:20}{cells}")


def show_all(data) -> None:
    print(f"{data['command']}: regret per play, relative to standing still; epsilon = 1")
    for block in data["blocks"]:
        show(block)
    if data["ratios"]:
        show_ratios(data["ratios"], len(data["ratio_seeds"]))
    print(f"\n{sum(map(misses, data['blocks']))} exponents above their target")


def markdown(data) -> None:
    """The last column of every block, exponents and ratios, as the algorithm's page shows them."""
    shown = ("private", "pure", "clean", "published")
    print(
        "| set, losses | n |"
        + "".join(f" {name} |" for name in shown)
        + " exponent, private | clean |"
    )
    print("|---|---|" + "---|" * (len(shown) + 2))
    for block in sorted(data["blocks"], key=lambda b: (b["n"], list(SETS).index(b["set"]))):
        found, cells = block["learners"], []
        for name in shown:
            T, value = [
                p
                for p in zip(block["lengths"], found[name]["regret"], strict=True)
                if p[1] is not None
            ][-1]
            cells.append(f"{value:.3f}" + ("" if block["lengths"][-1] == T else " \\*"))
        slopes = [f"{found[name]['exponent']:.2f}" for name in ("private", "clean")]
        print(
            f"| {block['set']}, {block['losses']} | {block['n']} | {' | '.join(cells + slopes)} |"
        )
    print("\n| set, losses |" + "".join(f" {name} |" for name in data["ratios"][0]["ratio"]))
    print("|---|" + "---|" * len(data["ratios"][0]["ratio"]))
    for row in data["ratios"]:
        cells = [f"{ratio:.2f}" for ratio in row["ratio"].values()]
        print(f"| {row['set']}, {row['losses']} | {' | '.join(cells)} |")
    entropy = "private, entropy"
    print("\n| mirror map | euclidean | exponent | entropy | exponent |\n|---|---|---|---|---|")
    for block in data["blocks"]:
        if entropy in block["learners"]:
            pair = [block["learners"][name] for name in ("private", entropy)]
            cells = [f"{one['regret'][-1]:.3f} | {one['exponent']:.2f}" for one in pair]
            print(f"| {block['set']}, {block['losses']} | {' | '.join(cells)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="T up to 2^20, n = 2, 10, 50; saved")
    parser.add_argument("--print", action="store_true", help="show what --full has saved")
    parser.add_argument("--markdown", action="store_true", help="the same for the docs")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--learners", default=None, help="separated by semicolons")
    parser.add_argument("--dims", default=None)
    parser.add_argument("--longest", type=int, default=None, help="log2 of the longest run")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each length, at most")
    parser.add_argument("--ratio-seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=100)
    options = parser.parse_args()
    if options.print or options.markdown:
        (markdown if options.markdown else show_all)(json.loads(RESULTS.read_text()))
        return 0
    dims = [int(n) for n in (options.dims or ("10,2,50" if options.full else "2,10")).split(",")]
    longest = options.longest or (20 if options.full else 16)
    lengths = [2**k for k in range(10, longest + 1, 2)]
    chosen = options.learners.split(";") if options.learners else None
    more = list(range(options.first_seed, options.first_seed + options.ratio_seeds))
    names, kinds = options.sets.split(","), options.losses.split(",")
    started = time.perf_counter()
    data = {
        "command": " ".join(["python", "benchmarks/bandit_regret.py", *sys.argv[1:]]),
        "epsilon": 1.0,
        "delta": 1e-6,
        "first_seed": options.first_seed,
        "ratio_seeds": more,
        "blocks": [],
        "ratios": [],
    }
    if 10 in dims and options.ratio_seeds:
        data["ratios"] = [ratios(name, kind, more) for name in names for kind in kinds]
        show_ratios(data["ratios"], len(more))
        sys.stdout.flush()
    for n, name, kind in itertools.product(dims, names, kinds):
        block = measure(name, n, kind, lengths, options.first_seed, options.seeds, chosen)
        data["blocks"].append(block)
        show(block)
        data["seconds"] = time.perf_counter() - started
        if options.full:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(data, indent=1) + "\n")
        sys.stdout.flush()
    missed = sum(map(misses, data["blocks"]))
    print(f"\n{missed} exponents above their target; {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
