"""What all formulas of the papers share: claims, relations, errors, and the page that lists them."""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from pathlib import Path

import pytest

from reticent import papers

ROOT = Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------- claims, errors


def test_claims_and_relations():
    item = papers.gradient_descent(1.0, 1e-6, steps=10)
    assert item.relation == "zero-out"
    assert item.claim_is_proved()
    assert not item.claim_is_proved("replace")
    assert math.isinf(item.true_epsilon(0.0))
    assert item.true_epsilon(1e-9) > item.true_epsilon() > item.true_epsilon(1e-3)
    vacuous = papers.horizon_free(0.01, 1e-6, horizon=4)
    assert vacuous.claimed[1] > 1.0
    assert vacuous.true_epsilon() == 0.0
    with pytest.raises(ValueError, match="neighbours"):
        item.true_epsilon(neighbours="add")
    with pytest.raises(ValueError, match="delta"):
        item.true_epsilon(1.0)


@pytest.mark.parametrize(
    ("make", "claim", "setting", "message"),
    [
        (papers.window_tree_gaussian, (0.0, 1e-6), {"window": 4}, "epsilon"),
        (papers.window_tree_gaussian, (1.0, 0.0), {"window": 4}, "delta"),
        (papers.window_tree_gamma, (1.0,), {"window": 0}, "window"),
        (papers.window_tree_gamma, (1.0,), {"window": 4, "norm": 0.0}, "norm"),
        (papers.bandit_laplace, (1.0,), {"horizon": 9, "dim": 0}, "dim"),
        (papers.bandit_laplace, (1.0,), {"horizon": 9, "dim": 2, "values": "odd"}, "values"),
        (papers.tree_aggregation_laplace, (1.0,), {"horizon": 9, "logarithm": "x"}, "logarithm"),
        (papers.tree_aggregation_gaussian, (1.0, 0.9), {"horizon": 2}, "smaller delta"),
        (papers.perturbed_iterates, (1.0, 1e-6), {"horizon": 1}, "horizon"),
        (papers.perturbed_iterates, (1.0, 1e-6), {"horizon": 9, "inner": "x"}, "inner"),
        (papers.horizon_free, (1.0, 1e-6), {"horizon": 9, "inner": "gradient-printed"}, "inner"),
        (papers.private_sum, (1.0, 1e-6), {"horizon": 4, "released": 5}, "released"),
        (papers.vertical_index, (1.0, 1e-6), {"parties": 0, "steps": 1, "n": 9}, "parties"),
        (papers.frank_wolfe_laplace, (1.0, 1e-6), {"steps": 0, "n": 9}, "steps"),
        (papers.frank_wolfe_laplace, (1.0, 1e-6), {"steps": 9, "n": 9, "loss": "x"}, "loss"),
        (papers.objective_perturbation_gamma, (1.0,),
         {"smoothness": 1.0, "regulariser": 1.0}, "omit it"),
        (papers.exponential_mechanism, (1.0,), {"diameter": math.inf}, "diameter"),
    ],
)  # fmt: skip
def test_bad_input(make, claim, setting, message):
    with pytest.raises(ValueError, match=message):
        make(*claim, **setting)


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts" / "make_errata_table.py"
    specification = importlib.util.spec_from_file_location("make_errata_table", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules["make_errata_table"] = module
    specification.loader.exec_module(module)
    module.table = functools.cache(module.table)
    yield module
    del sys.modules["make_errata_table"]


def test_the_page_is_up_to_date(script):
    assert script.main(["--check"]) == 0


def test_the_page_is_written_and_checked(script, tmp_path, capsys):
    path = tmp_path / "docs" / "errata.md"
    assert script.main(["--check"], path) == 1
    assert script.main([], path) == 0
    assert script.main(["--check"], path) == 0
    text = path.read_text()
    for made in ("window_tree_gaussian", "bandit_gaussian", "averaged_iterate", "vertical_sketch",
                 "frank_wolfe_laplace"):  # fmt: skip
        assert f"`{made}`" in text
    path.write_text("Written by hand.\n\n" + text.replace("| 0.761 |", "| 0.5 |"))
    assert script.main(["--check"], path) == 1
    assert "out of date" in capsys.readouterr().err
    assert script.main([], path) == 0
    assert path.read_text() == "Written by hand.\n\n" + text
    path.write_text("no markers")
    with pytest.raises(SystemExit, match="put them back"):
        script.main([], path)


def test_every_formula_is_in_the_table(script):
    text = script.PAGE.read_text()
    makers = [name for name in papers.__all__ if name[0].islower()]
    assert len(makers) == 20
    for name in makers:
        assert f"`{name}`" in text
