"""What profiling changed: ratios of a table as it was, beside the same ratios as they are.

``benchmarks/results/earlier`` keeps a table of the code before a hot path was rewritten, made by the same command on
the same kind of machine. Nothing here is measured, and nothing typed in: both columns come from stored tables.

Each column compares with a peer in its own minute; the two minutes lie apart, so a small change
between them means nothing.
"""

from __future__ import annotations

from table import RESULTS, Table, load, show
from timing import Ratio

EARLIER = RESULTS.parent / "earlier"

CHANGES = {
    "fits": "A profile showed three costs: Hessians of all records at most steps; separate passes over the records "
    "for predictors, slopes, their sum and values along the step; and, on small tables, Python calls. Now one compiled "
    "pass computes predictors and gradient while each block of rows is in the cache, a Hessian is reused while it "
    "serves and updated from the steps (BFGS), gradients instead of values decide on a step, and bounds that follow "
    "from public numbers are computed once. The final certificate is the same.",
}  # fmt: skip


def section(tables: list[Table]) -> str:
    """The section of the page, or nothing where no earlier table is kept."""
    now = {table.name: table for table in tables}
    parts = []
    for old in load(EARLIER):
        rows = changed(old, now[old.name]) if old.name in now else []
        if not rows:
            continue
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        parts.append("\n".join([
            f"### {old.title}: before and after", "", CHANGES[old.name], "",
            "| what | ratio | before | after |", "|:--|:--|--:|--:|", *lines, "",
            f"Before: `benchmarks/results/earlier/{old.name}.json`, {old.facts['day']}, load average "
            f"{old.facts['load'][0]:.1f}. After: the table above.", "",
        ]))  # fmt: skip
    return "\n".join(["## What profiling changed\n", *parts]) if parts else ""


def changed(old: Table, new: Table) -> list[list[str]]:
    """The ratios that both have, by the first cell of their row and the name of their column."""
    before = {row[0]: dict(zip(old.columns, row, strict=True)) for row in old.rows}
    found = []
    for row in new.rows:
        for column, cell in zip(new.columns, row, strict=True):
            was = before.get(row[0], {}).get(column)
            if isinstance(cell, Ratio) and isinstance(was, Ratio):
                found.append([show(row[0]), column.strip(), show(was), show(cell)])
    return found
