"""One table of results: its cells, its file of data, its Markdown.

A number with a spread is a cell of its own kind (a ratio, a mean), not a string, so that the page
and whoever reads the data see the same thing. Nobody types a number.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from timing import SPREAD, Measured, Ratio

# A folder of its own: other benchmarks keep their data beside it, in forms of their own.
RESULTS = Path(__file__).resolve().parent / "results" / "tables"
FULL = RESULTS.parent / "full"  # the same in full mode
SCHEMA = 1
SAME = 1e-6  # what the order of additions may change in a formula, relative


@dataclass(frozen=True)
class Mean:
    """A mean of repeats and its standard error."""

    value: float
    error: float
    repeats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        found = np.asarray(values, dtype=float)
        error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error, len(found))


def of_means(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """The ratio of two means over the same seeds, with twice its relative standard error as spread."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    value = float(a.mean() / b.mean())
    if len(a) < 2 or len(a) != len(b):
        return Ratio(value, math.nan, min(len(a), len(b)))
    rest = a / a.mean() - b / b.mean()  # by the delta method; what is common to both cancels
    return Ratio(value, float(2.0 * rest.std(ddof=1) / math.sqrt(len(a))), len(a))


def repeat(
    sample: Callable[[int], dict[str, float]],
    pairs: Sequence[tuple[str, str]],
    *,
    least: int,
    most: int,
    seconds: float | None = None,
) -> dict[str, list[float]]:
    """Scores of seed after seed, until the ratios of the means of all pairs have settled.

    Without a limit in seconds the seeds, and so the scores, are the same on a slow machine and on a fast one.
    """
    begun = time.perf_counter()
    found: dict[str, list[float]] = {}
    for seed in range(most):
        for name, score in sample(seed).items():
            found.setdefault(name, []).append(score)
        if seed + 1 < max(least, 2):
            continue
        loose = [pair for pair in pairs if not of_means(*(found[k] for k in pair)).spread <= SPREAD]
        if not loose or (seconds is not None and time.perf_counter() - begun > seconds):
            break
    return found


Cell = str | int | float | None | Ratio | Mean | Measured
KINDS = {"ratio": Ratio, "mean": Mean, "measured": Measured}


@dataclass
class Table:
    """Rows of cells under named columns, with the words that a reader needs to understand them."""

    name: str
    question: int
    title: str
    columns: list[str]
    reading: str
    rows: list[list[Cell]] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, *cells: Cell) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.name}: {len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(list(cells))

    @property
    def loose(self) -> int:
        """How many ratios did not settle within the limit."""
        cells = [cell for row in self.rows for cell in row if isinstance(cell, Ratio)]
        return sum(not cell.spread <= SPREAD for cell in cells)

    def save(self, folder: Path = RESULTS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(to_dict(self), indent=1, ensure_ascii=False) + "\n")
        return path


def to_dict(table: Table) -> dict[str, Any]:
    data = asdict(table) | {"schema": SCHEMA}
    data["rows"] = [[_pack(cell) for cell in row] for row in table.rows]
    return data


def from_dict(data: dict[str, Any]) -> Table:
    if data.get("schema") != SCHEMA:
        raise ValueError(
            f"schema must be {SCHEMA}, got {data.get('schema')!r}; run the bench again"
        )
    facts = {key: value for key, value in data.items() if key not in ("schema", "rows")}
    table = Table(**facts)
    for row in data["rows"]:
        table.add(*(_unpack(cell) for cell in row))
    return table


def load(folder: Path = RESULTS) -> list[Table]:
    """All tables of the folder, by question and name."""
    tables = [from_dict(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    return sorted(tables, key=lambda table: (table.question, table.name))


def _pack(cell: Cell) -> Any:
    for kind, each in KINDS.items():
        if isinstance(cell, each):
            return {"kind": kind} | {k: _finite(v) for k, v in asdict(cell).items()}
    return _finite(cell)


def _finite(value: Any) -> Any:
    """Plain numbers, and None for what JSON cannot say."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value == math.inf else None
    return value


def _unpack(cell: Any) -> Cell:
    if cell == "inf":
        return math.inf
    if not isinstance(cell, dict):
        return cell
    facts = {k: math.nan if v is None else v for k, v in cell.items() if k != "kind"}
    return KINDS[cell["kind"]](**facts)


# Several processes


def pooled(parts: Sequence[Table]) -> Table:
    """One table of those that several processes have made: medians of what they measured.

    What is not measured must be the same in all of them.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        if (part.columns, len(part.rows)) != (first.columns, len(first.rows)):
            raise ValueError(f"{first.name}: the processes made tables of different shapes")
    whole = Table(**{each.name: getattr(first, each.name) for each in fields(Table)})
    whole.rows = []
    for i, rows in enumerate(zip(*(part.rows for part in parts), strict=True)):
        cells = zip(first.columns, zip(*rows, strict=True), strict=True)
        whole.add(*(_one(f"{first.name}, row {i + 1}, {name!r}", each) for name, each in cells))
    last = parts[-1].facts
    whole.facts = last | {
        "processes": len(parts),
        "seconds": round(sum(part.facts["seconds"] for part in parts), 1),
        "load": [first.facts["load"][0], last["load"][1]],
    }
    return whole


def _one(where: str, cells: tuple[Cell, ...]) -> Cell:
    kinds = {type(cell) for cell in cells}
    if kinds == {Measured}:
        return Measured(_median(cells), sum(cell.rounds for cell in cells))
    if kinds == {Mean}:
        values = [cell.value for cell in cells]
        error = float(np.std(values, ddof=1) / math.sqrt(len(values)))
        within = float(np.median([cell.error for cell in cells]))
        return Mean(_median(cells), max(error, within), sum(cell.repeats for cell in cells))
    if kinds == {Ratio} and all(cell.rounds for cell in cells):
        return Ratio.pooled(cells)
    plain = [cell.value if isinstance(cell, Ratio) else cell for cell in cells]
    if len(kinds) > 1 or not all(_same(plain[0], each) for each in plain[1:]):
        raise ValueError(f"{where}: was not measured and must not differ between processes, got "
                         f"{', '.join(map(repr, plain))}")  # fmt: skip
    return cells[0]


def _median(cells: Sequence[Measured | Mean]) -> float:
    return float(np.median([cell.value for cell in cells]))


def _same(a: Cell, b: Cell) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=SAME) or (math.isnan(a) and math.isnan(b))
    return a == b


# Words


def number(value: float) -> str:
    """Three significant digits, as a person would write them."""
    if value != value:
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}".replace("-", "−")
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    digits = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:,.{digits}f}".replace("-", "−")


def show(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Ratio):
        if cell.rounds == 0:
            return f"{number(cell.value)} ×"
        loose = "" if cell.spread <= SPREAD else " (!)"
        spread = "?" if math.isnan(cell.spread) else f"{100 * cell.spread:.0f}"
        return f"{number(cell.value)} × ± {spread} %{loose}"
    if isinstance(cell, Mean):
        if math.isnan(cell.error):
            return number(cell.value)
        if cell.error == 0:
            return f"{number(cell.value)} ± 0"
        return _with_error(cell.value, cell.error)
    return number(cell.value if isinstance(cell, Measured) else cell)


def _with_error(value: float, error: float) -> str:
    size = max(abs(value), error)
    if size >= 1e6 or size < 1e-3:
        return f"{number(value)} ± {number(error)}"
    digits = min(6, max(0, 1 - math.floor(math.log10(error))))
    return f"{value:.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def command(table: Table) -> str:
    full = " --full" if table.facts.get("mode") == "full" else ""
    return f"python benchmarks/bench.py{full} --table {table.name}"


def render(table: Table) -> str:
    """The table in Markdown, with what made it."""
    lines = [f"### {table.title}", "", table.reading, ""]
    lines.append("| " + " | ".join(table.columns) + " |")
    numeric = [
        all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))
    ]
    lines.append("|" + "|".join("--:" if right else ":--" for right in numeric) + "|")
    lines += ["| " + " | ".join(show(cell) for cell in row) + " |" for row in table.rows]
    lines.append("")
    lines += [f"- {line}" for line in table.settings]
    if table.settings:
        lines.append("")
    lines.append(f"`{command(table)}`" + _circumstances(table.facts))
    return "\n".join(lines) + "\n"


def _circumstances(facts: dict[str, Any]) -> str:
    words = []
    if "mode" in facts:
        words.append(f"{facts['mode']} mode")
    if "processes" in facts:
        words.append(f"{facts['processes']} processes")
    if "seconds" in facts:
        words.append(f"{facts['seconds']:.0f} s")
    if "load" in facts:
        before, after = facts["load"]
        words.append(f"load average {before:.1f} before, {after:.1f} after, {facts['cores']} cores")
    if "versions" in facts:
        words.append(", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    return " · " + " · ".join(words) if words else ""
