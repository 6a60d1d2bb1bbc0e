"""Guarantees compose, refuse to mix promises, and say what they are."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import pytest

from reticent import sums
from reticent.privacy import (
    BoundedRange,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    Ledger,
    LooseBudgetWarning,
    Pure,
    Release,
    SubsampledGaussian,
    gaussian,
)
from reticent.privacy.ages import OnDisjointRecords, Stepwise
from reticent.privacy.guarantee import changed


def of(*curves, count: int = 1, **options) -> Guarantee:
    return Guarantee([Release("sum", curve, 1.0, "some", count) for curve in curves], **options)


def test_numbers() -> None:
    g = of(Gaussian(0.3), Gaussian(0.4))
    assert g.gdp == pytest.approx(0.5)
    assert g.zcdp == pytest.approx(0.125)
    assert g.pure is None
    assert g.epsilon() == math.inf
    assert g.epsilon(1e-6) == pytest.approx(gaussian.epsilon(1e-6, 0.5), rel=1e-12)
    assert g.delta(1.0) == pytest.approx(gaussian.delta(1.0, 0.5), rel=1e-12)
    pure = of(Pure(0.5), Laplace(0.25), count=2)
    assert pure.pure == pure.epsilon() == pytest.approx(1.5)
    assert pure.gdp is None
    assert of().epsilon() == 0.0


def test_addition() -> None:
    first = of(Gaussian(0.3), caveats=("a", "b"))
    second = of(Gaussian(0.4), seeded=True, lattice=False, caveats=("b", "c"))
    both = first + second
    assert both.gdp == pytest.approx(0.5)
    assert both.seeded
    assert not both.lattice
    assert both.caveats == ("a", "b", "c")
    assert len(both.releases) == 2
    assert (first.gdp, first.seeded, first.lattice) == (0.3, False, True)  # unchanged


def test_different_promises_do_not_add() -> None:
    plain = of(Gaussian(0.3))
    with pytest.raises(ValueError, match=r"\(zero-out\).*\(replace\)"):
        plain + of(Gaussian(0.3), neighbours="replace")
    with pytest.raises(ValueError, match=r"for ever.*for 8 outputs"):
        plain + of(Gaussian(0.3), window=8)
    with pytest.raises(ValueError, match="parallel"):
        Guarantee.parallel(plain, of(Gaussian(0.3), window=8))
    with pytest.raises(TypeError):
        plain + 1.0
    sampled = SubsampledGaussian(0.1, 1.0, 3)
    with pytest.raises(ValueError, match="neighbours='zero-out'"):
        of(sampled, neighbours="replace")
    early = Stepwise([(1, sampled)])
    for ages in (early, OnDisjointRecords((((Pure(1.0), 1, early),),))):
        late = Release("stream", Pure(2.0), None, "some", ages=ages)
        with pytest.raises(ValueError, match="neighbours='zero-out'"):
            Guarantee([late], neighbours="replace")


def test_disjoint_records() -> None:
    both = Guarantee.parallel(of(Gaussian(0.3)), of(Gaussian(0.4), seeded=True, caveats=("x",)))
    assert both.gdp == 0.4
    assert both.seeded
    assert both.caveats == ("x",)
    assert "part 2 of 2" in both.explain()
    mixed = Guarantee.parallel(of(Gaussian(0.3)), of(Pure(1.0)))
    assert mixed.epsilon(1e-6) == max(Gaussian(0.3).epsilon(1e-6), Pure(1.0).epsilon(1e-6))
    one = of(Pure(1.0))
    assert Guarantee.parallel(one) is one
    with pytest.raises(ValueError, match="at least one"):
        Guarantee.parallel()


def test_none() -> None:
    g = Guarantee.none("the user asked for no noise")
    assert g.epsilon() == g.epsilon(0.1) == math.inf
    assert g.delta(1e6) == 1.0
    assert "no privacy" in str(g)
    assert "asked for no noise" in str(g)
    assert not g.meets(Budget(1e6, 0.5))
    assert (g + of(Gaussian(0.1))).epsilon(0.1) == math.inf
    assert "everything" in g.explain()


def test_meets() -> None:
    for epsilon, delta in [(1.0, 1e-6), (1e-4, 0.4), (1e7, 1e-300), (20.0, 1e-12)]:
        budget = Budget(epsilon, delta)
        assert of(Gaussian(budget.mu)).meets(budget)
        assert not of(Gaussian(budget.mu * 1.001)).meets(budget)
        assert not of(Gaussian(budget.mu)).meets(budget.with_(neighbours="replace"))
        assert not of(Gaussian(budget.mu)).meets(budget.with_(window=5))
    assert of(Pure(0.1), count=10).meets(Budget(1.0))
    assert not of(Gaussian(1e-9)).meets(Budget(1.0))


def test_one_line() -> None:
    line = str(of(Gaussian(0.2367), window=64))
    assert line.count("\n") == 0
    for words in ("0.2367-GDP", "epsilon = 1 at delta = 1e-6", "zero-out", "64 outputs"):
        assert words in line
    assert "pure epsilon = 1;" in str(of(Pure(1.0)))
    many = str(of(Pure(0.01), count=100))
    assert "pure epsilon = 1 (epsilon = 0.392" in many
    assert "zCDP" in str(of(Gaussian(0.1), BoundedRange(0.1)))
    assert "seeded: for experiments, not a release" in str(of(Pure(1.0), seeded=True))
    assert "floating-point noise" in str(of(Pure(1.0), lattice=False))
    assert "beware" in str(of(Pure(1.0), caveats="beware"))


def test_printed_numbers_are_rounded_up() -> None:
    for value in (0.123401, 9.99901, 1.00001e-7, 12345.1):
        words = str(of(Pure(value))).split(";")[0].split("= ")[1].split(" ")[0]
        assert float(words) >= value
        assert float(words) <= value * 1.0011
    assert "pure epsilon = 0.3;" in str(of(Pure(0.1 + 0.2)))  # not 0.3001


@pytest.mark.parametrize("value", [5e-324, 1e-320, 1e-310, 1.00000005, 3.00000001e-7, 1e15, 1e308])
def test_printed_numbers_are_true_at_the_extremes(value: float) -> None:
    g = of(Pure(value), window=8)
    said = float(str(g).split("pure epsilon = ")[1].split(";")[0].split(" ")[0])
    assert said >= value * (1.0 - 1e-10)
    assert f"epsilon = {said:.4g}".replace("e-0", "e-").replace("e+0", "e+") in g.explain()
    by_age = float(str(g.by_age([1], delta=0.0)).split(" ")[1])
    assert by_age >= value * (1.0 - 1e-10)


@pytest.mark.parametrize("mu", [5e-324, 1e-200, 1e19, 1e200, 1e308])
def test_every_guarantee_can_be_printed(mu: float) -> None:
    g = of(Gaussian(mu))
    assert all([g.explain(), str(g.odds()), str(g.by_age([1]))])


def test_explain() -> None:
    release = Release("tree of sums", Gaussian(0.1), 2.0, "gaussian, sd 20", 11, ("11 nodes",))
    text = Guarantee(
        [release], neighbours="replace", window=1024, caveats=("be careful",)
    ).explain()
    for words in ("tree of sums: gaussian, sd 20 noise, sensitivity 2, 11 times", "11 nodes",
                  "replaced by any other", "1024 outputs", "operating system", "lattice",
                  "caveat: be careful", "0.1-GDP", "0.3317-GDP"):  # fmt: skip
        assert words in text, text
    loud = of(Pure(1.0), seeded=True, lattice=False).explain()
    assert "not a release" in loud
    assert "protected for ever" in loud
    assert "releases: none" in of().explain()


def test_written_down_and_read_back() -> None:
    g = Guarantee(
        [Release("a", Gaussian(0.1 + 0.2), None, "n", 3, ("d",)), Release("b", Pure(1.0), 2.0, "m")],
        neighbours="replace", window=7, seeded=True, lattice=False, caveats=("c",),
    )  # fmt: skip
    again = Guarantee.from_dict(json.loads(json.dumps(g.to_dict())))
    assert again == g
    assert str(again) == str(g)
    assert pickle.loads(pickle.dumps(g)) == g
    worst = Guarantee.parallel(of(Gaussian(0.3)), of(Pure(1.0)))
    assert Guarantee.from_dict(worst.to_dict()).epsilon(1e-6) == worst.epsilon(1e-6)
    for bad in ({}, {"releases": 3}, {"releases": [{}]}, {"releases": [], "colour": 1}):
        with pytest.raises(ValueError, match=r"guarantee|curve"):
            Guarantee.from_dict(bad)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="curve"):
        Release("sum", 0.3, 1.0, "n")
    with pytest.raises(TypeError, match="mechanism"):
        Release(3, Pure(1.0), 1.0, "n")
    with pytest.raises(ValueError, match="sensitivity"):
        Release("sum", Pure(1.0), -1.0, "n")
    with pytest.raises(ValueError, match="count"):
        Release("sum", Pure(1.0), 1.0, "n", -1)
    with pytest.raises(TypeError, match="Release"):
        Guarantee([Pure(1.0)])
    with pytest.raises(ValueError, match="neighbours"):
        of(Pure(1.0), neighbours="swap")
    with pytest.raises(TypeError, match="caveats"):
        of(Pure(1.0), caveats=(1,))
    with pytest.raises(AttributeError):
        of(Pure(1.0)).seeded = True


def test_printed_at_the_delta_that_was_asked() -> None:
    budget = Budget(1.0, 1.0 / 150.0)
    made = Guarantee.of(budget, [Release("sum", Gaussian(budget.mu), 1.0, "gaussian")])
    assert str(made).startswith("epsilon = 1 at delta = 0.00666667 (")
    assert repr(made) == f"<Guarantee: {made.summary}>"
    assert Guarantee.from_dict(made.to_dict()).summary == made.summary
    assert made.by_age([1]).delta == budget.delta
    # how it is printed is no part of what is promised
    assert made == replace(made, asked=None)
    assert "epsilon = 1" not in replace(made, asked=None).summary
    assert "1e-6" in (of(Pure(0.1)) + of(Gaussian(0.1))).summary
    assert (made + of(Gaussian(0.1))).asked == budget.delta
    with pytest.raises(ValueError, match="asked"):
        replace(made, asked=1.5)


@pytest.mark.parametrize(
    "fields",
    [
        {"seeded": True, "lattice": False},
        {"caveats": ("one", "two")},
        {"asked": 1e-3},
        {"releases": (Release("other", Pure(0.1), None, "some"),)},
    ],
)
def test_a_changed_copy_is_the_guarantee_made_anew(fields) -> None:
    g = Guarantee.of(Budget(1.0, 1e-6), of(Gaussian(0.2)).releases)
    before = g.summary, g.curve
    made, anew = changed(g, **fields), replace(g, **fields)
    assert made == anew
    assert (made.summary, made.curve, str(made)) == (anew.summary, anew.curve, str(anew))
    assert (g.summary, g.curve) == before


def test_terms_are_explained_where_they_appear() -> None:
    words = of(Gaussian(0.1)).explain()
    assert words.count("mu-GDP: ") == 1
    assert words.count("rho-zCDP: ") == 1
    assert "mu-GDP" not in of(Pure(1.0)).explain()


def test_html_is_escaped() -> None:
    made = of(Pure(1.0), caveats="<script>")
    assert "&lt;script&gt;" in made._repr_html_()
    assert "<script>" not in made._repr_html_()
    ledger = Ledger(Budget(2.0))
    ledger.spend(made, "a <b>fit</b>")
    assert "&lt;b&gt;" in ledger._repr_html_()


@pytest.mark.parametrize("delta", [0.5, 0.011])
def test_a_large_delta_warns(delta: float) -> None:
    with pytest.warns(LooseBudgetWarning, match="published in full"):
        Budget(1.0, delta)


def test_disjoint_records_by_age() -> None:
    """A part that fades goes on costing more after the last age that was asked for."""
    budget = Budget(0.5, 1e-6, fade=[(1, 0.5), (1000, 1.0)])
    fading = sums.CorrelatedMechanism(1, budget=budget).guarantee
    once = Guarantee.of(budget, [Release("sum", Gaussian(0.3), 1.0, "some")])
    both = Guarantee.parallel(fading, once)
    for age in (1, 10, 1000, 10**4, 10**6):
        worst = max(one.epsilon(1e-6, age=age) for one in (fading, once))
        assert both.epsilon(1e-6, age=age) == pytest.approx(worst, rel=1e-12)
        assert (both + once).epsilon(1e-6, age=age) >= worst
    assert Guarantee.from_dict(json.loads(json.dumps(both.to_dict()))) == both
    assert both.meets(budget) == once.meets(budget)
    window = Budget(1.0, 1e-6, window=64)
    ending = sums.CorrelatedMechanism(1, budget=window).guarantee
    first = Guarantee.of(window, [Release("sum", Gaussian(0.1), 1.0, "some")])
    with pytest.raises(ValueError, match="at most 64"):
        Guarantee.parallel(ending, first).epsilon(1e-6, age=65)
    later = Guarantee.parallel(ending, ending).epsilon(1e-6, age=4096)
    assert later == ending.epsilon(1e-6, age=4096) > 1.01


@pytest.mark.parametrize("delta", [1e-6, 1 / 433_333, 2 / 3 * 1e-9, 5e-324, 1e-300, 0.3000001])
def test_what_is_printed_is_true(delta: float) -> None:
    """Epsilon at the delta that is printed, which was rounded to the nearest: below the one that is meant."""
    text = str(of(Gaussian(0.2), asked=delta))
    epsilon, said = (float(text.split(f"{name} = ")[1].split()[0]) for name in ("epsilon", "delta"))
    assert delta <= said <= delta * (1.0 + 2e-5)
    assert Gaussian(0.2).epsilon(said) <= epsilon
