"""Tables that benchmarks write into pages of the documentation: made of their results, and of the present code."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HOME = Path(__file__).resolve().parents[2] / "benchmarks"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOME / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def benchmark(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A program of the folder, which is no package, and no trace of it or of its neighbours afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(HOME)
    yield loaded(request.param)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(HOME)):
            del sys.modules[name]


@pytest.mark.parametrize(
    "benchmark",
    ["estimators", "interval_coverage", "private_bounds", "private_search"],
    indirect=True,
)
def test_the_page_is_made_of_the_results(benchmark, tmp_path, monkeypatch) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(benchmark.PAGE.read_text())
    monkeypatch.setattr(benchmark, "PAGE", copy)
    page = copy.read_text()
    benchmark.write_page()
    assert copy.read_text() == page


@pytest.mark.parametrize("benchmark", ["interval_coverage"], indirect=True)
def test_coverage_is_that_of_the_present_code(benchmark) -> None:
    """The first simulation of small rows gives the intervals that it gave when they were measured."""
    rows = json.loads((benchmark.RESULTS / "coverage.json").read_text())
    small = [row for row in rows if row["n"] <= 10_000 and row["p"] <= 10]
    assert small
    for row in small:
        case = benchmark.Case(*(row[name] for name in benchmark.Case._fields))
        assert benchmark.is_of_this_code(case, row), (
            f"measure again: benchmarks/interval_coverage.py --only {str(case)!r}"
        )


@pytest.mark.parametrize("benchmark", ["interval_coverage"], indirect=True)
def test_a_row_of_other_code_is_noticed(benchmark) -> None:
    case = benchmark.Case("linear", "well-specified", 1000, 2)
    low, high = benchmark.first(case)[0]
    row = {"sums": {}, "first": benchmark.first(case)}
    assert benchmark.is_of_this_code(case, row)
    row["first"] = [[low, high + 0.01 * (high - low)], *row["first"][1:]]
    assert not benchmark.is_of_this_code(case, row)
    assert not benchmark.is_of_this_code(case, {"sums": {}})
