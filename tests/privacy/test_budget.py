"""Budgets say what they are and refuse what makes no sense."""

from __future__ import annotations

import math

import pytest

from reticent.privacy import Budget, gaussian


def test_words_and_values() -> None:
    budget = Budget(1, 1e-6, window=1024)
    assert str(budget).count("\n") == 0
    assert "1e-6" in str(budget)
    assert "zero-out" in str(budget)
    assert "1024" in str(budget)
    assert eval(repr(budget)) == budget
    assert hash(budget) == hash(Budget(1.0, 1e-6, "zero-out", 1024))
    assert budget != budget.with_(window=None)
    assert "for ever" in str(Budget(1.0))
    assert "replaced" in str(Budget(1.0, neighbours="replace"))


def test_sensitivity_and_mu() -> None:
    assert Budget(1.0).sensitivity(3.0) == 3.0
    assert Budget(1.0, neighbours="replace").sensitivity(3.0) == 6.0
    assert Budget(1.0, 1e-6).mu == gaussian.mu(1.0, 1e-6)
    with pytest.raises(ValueError, match="gamma or laplace"):
        _ = Budget(1.0).mu


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "neighbours": "add-remove"},
        {"epsilon": 1.0, "window": 0},
    ],
)
def test_bad_values(bad) -> None:
    with pytest.raises(ValueError, match="must be"):
        Budget(**bad)


@pytest.mark.parametrize("bad", [{"epsilon": "1"}, {"epsilon": 1.0, "window": 2.5}])
def test_bad_types(bad) -> None:
    with pytest.raises(TypeError, match="must be"):
        Budget(**bad)


def test_frozen_and_unknown_field() -> None:
    budget = Budget(1.0)
    with pytest.raises(AttributeError):
        budget.epsilon = 2.0
    with pytest.raises(TypeError, match="no field 'eps'"):
        budget.with_(eps=1.0)
    with pytest.raises(ValueError, match="norm"):
        budget.sensitivity(-1.0)


def test_what_is_printed_is_not_less_than_what_may_be_spent() -> None:
    for epsilon, delta in [(1.0000004, 1.0000004e-6), (2 / 3, 2 / 3 * 1e-9), (1e19, 5e-324)]:
        text = str(Budget(epsilon, delta))
        said = [
            float(text.split(f"{name} = ")[1].split(";")[0].split(",")[0])
            for name in ("epsilon", "delta")
        ]
        assert epsilon <= said[0] <= epsilon * (1 + 1e-5)
        assert delta <= said[1] <= delta * (1 + 1e-5)
    faded = str(Budget(1.0, 1e-6, fade=[(8, 1.0), (64, 1.23444)]))
    assert "1.235 for 64" in faded


def test_every_age_of_a_fading_budget_is_a_budget() -> None:
    budget = Budget(1e10, 1e-6, fade=(1, 1.0))
    assert budget.at(2**40).epsilon <= 1e19
    assert [epsilon for _, epsilon in budget.fade] == sorted(epsilon for _, epsilon in budget.fade)
