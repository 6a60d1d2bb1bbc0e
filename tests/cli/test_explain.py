"""What `reticent explain` says, against guarantees and formulas computed here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import reticent as library
from reticent import papers
from reticent.cli.answers import ALGORITHMS as KNOWN
from reticent.cli.answers import Question, answer
from reticent.cli.claim_commands import ALGORITHMS
from reticent.privacy import Gaussian, Guarantee, Release
from reticent.report.page import in_words

from .processes import Reticent


def test_the_names_that_a_tab_completes_are_those_that_exist() -> None:
    assert tuple(KNOWN) == ALGORITHMS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_keeps_the_budget_it_is_asked_about(name: str) -> None:
    window = 64 if name == "window-tree" else None
    found = answer(Question(name, 1.0, horizon=512, window=window, dim=4))
    assert found.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    assert found.guarantee.epsilon(1e-6) >= 0.99
    assert found.noise
    assert found.expect
    assert set(found.curves) == {"reticent", "the paper's noise"}
    assert all(np.isfinite(curve).all() for curve in found.curves.values())


@pytest.mark.parametrize("name", ["tree", "ftrl", "approximate-leader", "frank-wolfe"])
def test_pure_privacy_is_explained_too(name: str) -> None:
    found = answer(Question(name, 1.0, delta=0.0, horizon=256, dim=3))
    assert found.guarantee.pure <= 1.0 + 1e-9


def test_the_worst_case_of_ftrl() -> None:
    """lambda_T R^2/2 + sum of (L/lambda_t)(L/2 + sqrt(d) s), with the learner's own lambda_t, L and s."""
    T, d = 1000, 5
    found = answer(Question("ftrl", 1.0, horizon=T, dim=d))
    learner = library.online.FollowTheRegularizedLeader(
        library.sets.L2Ball(d, radius=1.0),
        library.losses.Logistic(),
        budget=library.Budget(1.0, 1e-6),
        horizon=T,
    )
    L, weight = 1 / (1 + math.exp(-1)), learner.rule.anchor_weight
    s = max(learner.total.error(t) for t in range(1, T + 1))
    steps = sum(1 / weight(t) for t in range(1, T + 1))
    bound = weight(T) / 2 + L * steps * (L / 2 + math.sqrt(d) * s)
    said = float(found.expect[0].split("at most ")[1].split()[0])
    assert said == pytest.approx(bound, rel=0.01)


def test_the_curves_are_exact_errors() -> None:
    found = answer(Question("tree", 1.0, horizon=256, dim=3))
    formula = papers.private_sum(1.0, 1e-6, horizon=256)
    bits = np.array([bin(int(t)).count("1") for t in found.steps])
    assert found.curves["the paper's noise"] == pytest.approx(
        formula.scale * np.sqrt(bits), rel=1e-6
    )
    ours = library.sums.Tree(3, 256, budget=library.Budget(1.0, 1e-6))
    assert found.curves["reticent"] == pytest.approx([ours.error(int(t)) for t in found.steps])


def test_words_about_an_attacker() -> None:
    """Gaussian privacy mu: the best test of a fair coin is right with probability Phi(mu / 2)."""
    guarantee = library.sums.Tree(2, 64, budget=library.Budget(1.0, 1e-6)).guarantee
    right = math.ceil(1000 * norm.cdf(guarantee.gdp / 2.0))
    assert f"guesses right for at most {right} of them" in in_words(guarantee)[1]


def test_explaining_a_model(reticent: Reticent, folder: Path) -> None:
    done = reticent("explain", "run/model.json", "--plot", "noise.svg")
    assert done.status == 0, done.err
    for title in ("The guarantee", "The noise", "What to expect", "that the paper prescribes"):
        assert title in done.out
    assert "a given seed" in done.out
    assert (folder / "noise.svg").read_text().startswith("<?xml")
    data = json.loads(reticent("explain", "run/model.json", "--json").out)
    assert data["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert data["published"]["claimed_epsilon"] == 2.0


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({}, "released from the run, together, for ever"),
        (
            {"window": 1024},
            "any 1,024 consecutive outputs, counted from the first that a record enters",
        ),
        ({"window": 64, "unit": "person"}, "about the records of a person that came within them"),
        ({"ages": (8, 4096)}, "covers the first 4,096 outputs, counted from the record's own"),
        ({"ages": (8, 4096), "unit": "person"}, "counted from the person's first"),
    ],
)
def test_how_long_a_promise_lasts_is_said_and_never_more(scope: dict, said: str) -> None:
    words = in_words(Guarantee([Release("sum", Gaussian(0.2), 1.0, "gaussian")], **scope))
    assert said in words[-1]
    assert ("for ever" in words[-1]) == (scope == {})
    # what the odds are about is what the sentence after them is about
    assert ("every output" in words[1]) == (scope == {})


def test_explaining_settings_in_words_and_as_json(reticent: Reticent) -> None:
    words = ["explain", "-a", "window-tree", "-e", 1, "--window", 64, "--dim", 3]
    done = reticent(*words)
    assert done.status == 0
    assert "protected for 64 outputs" in done.out
    data = json.loads(reticent(*words, "--json").out)
    true = papers.window_tree_gaussian(1.0, 1e-6, window=64).true_epsilon()
    assert data["published"]["true_epsilon"] == pytest.approx(true)


@pytest.mark.parametrize("name", ["window-tree", "approximate-leader"])
def test_the_formula_that_is_quoted_is_the_one_that_is_drawn(name: str) -> None:
    """The first total of a window tree is one node, whose noise the formula gives."""
    found = answer(Question(name, 1.0, window=64, horizon=512, dim=3))
    assert found.curves["the paper's noise"][0] == pytest.approx(found.published.scale, rel=1e-6)
    found = answer(Question("ftrl", 1.0, horizon=512, dim=3))
    assert found.curves["the paper's noise"][0] == pytest.approx(found.published.scale, rel=1e-6)
