"""A whole federation on this machine: kits, a server, sites, their data, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.vertical.flare import Rehearsal

HERE = Path(__file__).parent
PARTIES = ("north", "south", "west")
ROWS = 300


def needs_engine() -> None:
    pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install nvflare")


def write_tables(folder: Path, rows: int = ROWS, columns: int = 5) -> dict[str, Path]:
    """One table per party; the outcome depends on one column of each. Rows in different orders."""
    rng = np.random.default_rng(7)
    blocks = {party: rng.uniform(-1.0, 1.0, (rows, columns)) for party in PARTIES}
    label = sum(blocks[party][:, place] for place, party in enumerate(PARTIES)) / 3.0
    ids = [f"p{row:05d}" for row in range(rows)]
    paths = {}
    for party, block in blocks.items():
        header = ",".join(["patient", *(f"{party}_{k}" for k in range(columns)), "outcome"])
        lines = [
            ",".join([ids[row], *map(repr, block[row].tolist()), repr(float(label[row]))])
            for row in rng.permutation(rows)
        ]
        paths[party] = folder / f"{party}.csv"
        paths[party].write_text("\n".join([header, *lines]) + "\n")
    return paths


def settings_for(paths: dict[str, Path], **changes: Any) -> dict[str, dict[str, Any]]:
    """What each site would say at its first start."""
    return {
        party: {
            "data": str(path),
            "id_column": "patient",
            "label_column": "outcome",
            "epsilon": 100.0,
            "delta": 1e-6,
            "seed": 11 + place,
            **changes,
        }
        for place, (party, path) in enumerate(paths.items())
    }


def terms(**changes: Any) -> dict[str, Any]:
    """What a job says of a run, unless said otherwise."""
    return {"name": "first", "parties": list(PARTIES), "resume": False, "patience": 5.0,
            "budget": {"epsilon": 1.0, "delta": 1e-6}, "run": {"rounds": 3}, **changes}  # fmt: skip


class Deployment(Rehearsal):
    """A rehearsal whose runs cost the same unless said otherwise."""

    def run(self, name: str, **terms: Any) -> dict[str, Any]:
        return super().run(name, **{"epsilon": 4.0, "delta": 1e-6, "patience": 30.0, **terms})

    def job_log(self, name: str) -> str:
        """All that a participant's processes wrote."""
        said = [self.log_of(name), *self.kits[name].rglob("*log.txt")]
        return "\n".join(path.read_text(errors="replace") for path in said)
