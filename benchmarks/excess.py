"""Means over tables of what `accuracy.py` measured: excess loss relative to not private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drawing
import numpy as np

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
PICTURE = "accuracy"
WORDS = """Excess of log loss (classification) or of 1 - R2 (regression) on held-out records, relative to the same
model without privacy and capped at 1 on each split; mean over tables ± its standard error over splits and noise.
Ours runs with its defaults, at delta = 1e-6 and at delta = 0. diffprivlib is the library itself (0.6.6, less the
argument `iprint`, which only prints and which SciPy 1.18 no longer takes), delta = 0, with or without an intercept.
AdaSSP (with exact noise), boosted AdaSSP and DP-SGD (full batches and exact accounting, as Opacus runs at a sample
rate of 1) are our own implementations in benchmarks/baselines.py, delta = 1e-6. Each rival counts with the setting
that is best on average over the splits of a table for the measure at hand, which cannot be known without the test
records: seven settings of boosted AdaSSP, and six of DP-SGD with at most 40 steps, which are few where epsilon is
large. For all methods alike, features are scaled from declared ranges to rows of norm 1. Below 0, a private model is
better than the one without privacy, whose rows are not clipped.
"""

SHOWN = ("ours", "ours, not scaled", "ours, delta = 0", "AdaSSP", "boosted AdaSSP, tuned",
         "DP-SGD, tuned", "diffprivlib", "base rate")  # fmt: skip


def excesses(known: dict[str, Any], entrant: str) -> dict[float, tuple[float, float]]:
    """Mean over tables of the excess relative to not private, cut at 1, and its standard error over seeds."""
    made: dict[float, tuple[float, float]] = {}
    for epsilon in sorted({float(e) for table in known.values() for e in table}):
        parts = []
        for table in known.values():
            cell = table.get(f"{epsilon:g}", {})
            if entrant in cell:
                best = np.mean(cell["not private"]["loss"])
                parts.append(np.minimum(np.array(cell[entrant]["loss"]) / best - 1.0, 1.0))
        if parts:
            means = [each.mean() for each in parts]
            errors = [each.var(ddof=1) / len(each) if len(each) > 1 else 0.0 for each in parts]
            made[epsilon] = float(np.mean(means)), float(np.sqrt(np.sum(errors)) / len(parts))
    return made


RIVALS = {
    "ours": ("AdaSSP", "boosted AdaSSP, tuned", "DP-SGD, tuned"),
    "ours, delta = 0": ("diffprivlib",),
}
"""Whom each of ours is compared with: the guarantee is the same."""
WHY = {
    "a9a": "the default loss caps what one record can contribute at half of the logistic loss's, which pays where "
    "noise decides and costs a little where it does not: on three splits at epsilon = 8 and delta = 0 our log loss is "
    "0.3365, and 0.3341 with `influence=1`",
    "breast_cancer": "only 426 records to learn from. Over 16 splits at epsilon = 0.5 our AUC is 0.965 and the best "
    "threshold would give an accuracy of 0.930, where ours gives 0.876: threshold and slope rest on few noisy counts. "
    "The setting of the rival was chosen on the test records",
    "higgs": "one measure at one epsilon; our log loss is lower",
    "hospital": "one patient in nine belongs to the class. At epsilon = 0.1 the rival's setting, of six, was chosen on "
    "the test records; at 4 and 8 accuracies are within 0.001 of that of always predicting the majority class. Log "
    "loss is not worse",
    "intrusion": "one measure at one epsilon; log loss and accuracy are not worse",
    "phishing": "only 937 records to learn from. At epsilon = 0.1, counts of classes and predictions would be mostly "
    "noise, so nothing corrects level and scale; above that, probabilities rest on few counts. AUC and accuracy are "
    "within two standard errors. The setting of the rival was chosen on the test records",
    "rare cover": "only 70 of 15,000 records belong to the class, and at epsilon = 0.1 the noise is several times what "
    "they contribute: over 40 draws of noise our AUC has mean 0.70 and standard deviation 0.21 (0.52 and 0.23 with "
    "delta = 0). A few short steps of DP-SGD keep the direction of the first gradient, minus the mean of the features, "
    "which uses no label and happens to suit this table (0.92 to 0.95). On 49 rare classes of 18 tables that direction "
    "has a mean AUC of 0.59 ± 0.03 if ranges are declared as [-1, 1] (worst 0.25) and of 0.49 ± 0.04 if they are "
    "declared as [0, 1] (worst 0.01; `benchmarks/rare.py`): it depends on how features are encoded, not on the class, "
    "so it is not a default of ours. Log loss is not worse",
}


def worse(known: dict[str, Any]) -> list[str]:
    """Every measure of a table in which ours is worse than a rival by more than two standard errors, and why."""
    lines = []
    for name, table in sorted(known.items()):
        found = []
        for epsilon, cell in sorted(table.items(), key=lambda pair: float(pair[0])):
            for mine, rivals in RIVALS.items():
                for rival in (each for each in rivals if each in cell):
                    for key in cell[mine]:
                        sign = 1.0 if key in ("loss", "ECE") else -1.0
                        gap = sign * (np.array(cell[mine][key]) - np.array(cell[rival][key]))
                        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
                        if gap.mean() > max(2.0 * error, 0.0) and key != "R2":
                            found.append(f"{key} at {epsilon} against {rival} ({gap.mean():.4f})")
        if found:
            why = WHY.get(name, "not explained yet")
            lines.append(f"- {name}: {', '.join(found)}. Why: {why}.")
    return lines


def mean_of(splits: list[list[float]]) -> str:
    """A measure's mean over tables, and the standard error that splits and noise give it."""
    errors = [np.var(each, ddof=1) / len(each) for each in splits]
    mean = np.mean([np.mean(each) for each in splits])
    return f"{mean:.3f} ± {np.sqrt(np.sum(errors)) / len(splits):.3f}"


def averages(known: dict[str, Any]) -> list[str]:
    """Means over tables of the other measures of a classification, as lines of a table."""
    lines = []
    for key in ("accuracy", "AUC", "AP", "ECE"):
        for epsilon in sorted({e for table in known.values() for e in table}, key=float):
            cells = [table[epsilon] for table in known.values()]
            names = [n for n in SHOWN if all(n in cell and key in cell[n] for cell in cells)]
            if not names:
                return []
            if not lines:
                lines += [
                    f"| measure | epsilon | {' | '.join(names)} |",
                    "|:--|--:|" + "--:|" * len(names),
                ]
            row = [mean_of([cell[name][key] for cell in cells]) for name in names]
            lines.append(f"| {key} | {epsilon} | {' | '.join(row)} |")
    return [*lines, ""]


def section() -> str:
    """The picture at the top of the page, and its numbers."""
    if not RESULTS.exists():
        return ""
    known = json.loads(RESULTS.read_text())
    lines = [
        "## Error against epsilon, averaged over tables\n",
        drawing.markdown(PICTURE, "Excess loss relative to not private against epsilon") + "\n",
        WORDS,
    ]
    for task, tables in sorted(known.items()):
        made = {entrant: excesses(tables, entrant) for entrant in SHOWN}
        made = {entrant: found for entrant, found in made.items() if found}
        seeds = {len(cell["ours"]["loss"]) for table in tables.values() for cell in table.values()}
        lines.append(
            f"{task.capitalize()}: {', '.join(sorted(tables))}; {min(seeds)} splits each.\n"
        )
        lines.append("| epsilon | " + " | ".join(made) + " |")
        lines.append("|--:|" + "--:|" * len(made))
        for epsilon in made["ours"]:
            cells = [
                f"{found[epsilon][0]:.3f} \u00b1 {found[epsilon][1]:.3f}" for found in made.values()
            ]
            lines.append(f"| {epsilon:g} | " + " | ".join(cells) + " |")
        lines.append("")
        lost = worse(tables)
        if lost:
            lines += ["Worse than a rival by more than two standard errors:", "", *lost, ""]
        lines += averages(tables)
    lines.append(
        "`python benchmarks/accuracy.py TASK --epsilons 0.1,0.5,1,4,8 --seeds 10 --lean --tables NAMES`\n"
    )
    return "\n".join(lines)
