"""Make the table of filters that ships with the library: ``python scripts/make_toeplitz_table.py``.

Every entry is optimised from scratch, so the table depends on nothing but ``optimise``. Takes some
minutes. The one thing a reader would get wrong: the table is a convenience, not a trusted input; a
guarantee is computed from whatever filter is found there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from reticent.sums.toeplitz import Toeplitz
from reticent.sums.toeplitz_search import optimise

TABLE = Path(__file__).parents[1] / "src" / "reticent" / "sums" / "toeplitz_table.json"
PROBLEMS = (("horizon", "max"), ("horizon", "mean"), ("window", "max"))
ENDLESS = {
    2**20: 6,
    2**30: 6,
    2**40: 8,
}  # buffers: as many as bring the error within a factor of 1.25, 1.3


def sizes() -> list[int]:
    every_small = range(2, 65)
    powers_of_two = (2**e for e in range(7, 41))
    round_numbers = (m * 10**e for e in range(2, 8) for m in (1, 2, 5))
    powers_of_ten = (10**e for e in range(8, 13))
    return sorted({*every_small, *powers_of_two, *round_numbers, *powers_of_ten})


def line(size: int, found: Toeplitz) -> str:
    return f'"{size}": {json.dumps(found.to_dict(), separators=(",", ":"))}'


def main() -> None:
    blocks: dict[str, list[str]] = {}
    for kind, objective in PROBLEMS:
        began = time.perf_counter()
        lines = [
            line(
                size,
                optimise(horizon=size, objective=objective)
                if kind == "horizon"
                else optimise(window=size, objective=objective),
            )
            for size in sizes()
        ]
        blocks.setdefault(kind, []).append(f'"{objective}": {{\n' + ",\n".join(lines) + "\n}")
        seconds = time.perf_counter() - began
        print(f"{kind} {objective}: {len(lines)} filters, {seconds:.0f} s", file=sys.stderr)
    endless = [line(size, optimise(endless=size, buffers=most)) for size, most in ENDLESS.items()]
    blocks["endless"] = ['"max": {\n' + ",\n".join(endless) + "\n}"]
    kinds = ",\n".join(f'"{kind}": {{\n' + ",\n".join(b) + "\n}" for kind, b in blocks.items())
    text = f'{{"filters": {{\n{kinds}\n}}}}\n'
    json.loads(text)
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
