"""The table of docs/audit.md: of the lines that there are, as they were computed last; false alarms where chance is."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

ROOT = Path(__file__).parents[2]
SLOW = os.environ.get("RETICENT_SLOW") == "1"


def load(place: str):
    sys.path.insert(0, str((ROOT / place).parent))
    spec = importlib.util.spec_from_file_location(Path(place).stem, ROOT / place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path.remove(str((ROOT / place).parent))
    return module


def test_the_page_shows_the_lines_that_there_are():
    assert load("scripts/audit_table.py").problems() == []


def test_weak_lines_say_so():
    for row in load("scripts/audit_table.py").stored():
        if row["share"] is not None:
            assert row["verdict"] == ("holds" if row["share"] >= 0.5 else "no power"), row


NULLS = load("benchmarks/audit_nulls.py")


@pytest.mark.parametrize("name", NULLS.NULLS)
def test_true_claims_are_rarely_refuted(name):
    """More alarms than this have probability below 1e-9 if each has at most the stated one."""
    count = 10_000 if SLOW else 500 if name.startswith("bets") else 100
    assert NULLS.alarms(name, count) <= int(binom.isf(1e-9, count, NULLS.ALARM))
