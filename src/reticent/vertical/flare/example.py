"""Synthetic tables of three hospitals about the same patients; each holds other columns.

North has vital signs and the outcome, south laboratory values, west the history. The outcome depends on one column of
each. All columns are scaled to [-1, 1].
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

COLUMNS = {
    "north": ("age", "pulse", "pressure", "temperature", "weight", "height"),
    "south": ("glucose", "sodium", "potassium", "creatinine", "lactate", "albumin", "calcium"),
    "west": ("admissions", "smoker", "diabetes", "surgery", "statins"),
}
TRUTH = {("north", "age"): 0.3, ("south", "lactate"): 0.35, ("west", "admissions"): 0.25}


def draw(patients: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each hospital's columns, and the outcome."""
    rng = np.random.default_rng(seed)
    blocks = {name: rng.uniform(-1.0, 1.0, (patients, len(COLUMNS[name]))) for name in COLUMNS}
    outcome = rng.normal(0.0, 0.05, patients)
    for (name, column), weight in TRUTH.items():
        outcome += weight * blocks[name][:, COLUMNS[name].index(column)]
    return blocks, np.clip(outcome, -1.0, 1.0)


def write(folder: Path, patients: int) -> list[str]:
    """Write the three tables as CSV files; returns one line about each.

    Parameters
    ----------
    folder : Path
        Output folder; created if it does not exist.
    patients : int
        Number of rows of each table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    blocks, outcome = draw(patients)
    order = np.random.default_rng(1)
    said = []
    for name, block in blocks.items():
        own = ("outcome",) if name == "north" else ()
        path = folder / f"{name}.csv"
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["patient", *COLUMNS[name], *own])
            # Every hospital exports in an order of its own.
            for row in order.permutation(len(block)):
                label = [f"{outcome[row]:.6f}"] if own else []
                table.writerow([f"{row:06d}", *(f"{x:.6f}" for x in block[row]), *label])
        said.append(f"{path}: {len(block)} patients, {len(COLUMNS[name]) + len(own)} columns")
    return said
