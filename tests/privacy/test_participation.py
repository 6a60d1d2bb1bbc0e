"""Several records of one person: closed forms against explicit vectors, and worst cases by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reticent.privacy import Participation
from reticent.privacy.ages import Filtered, ages_from_dict
from reticent.privacy.participation import squared_cost, tree_count, tree_squares
from reticent.sums.toeplitz import Toeplitz, square_root

FILTERS = {
    "settling": Toeplitz(gap=(1e-4, 0.02, 0.4), inverse_gap=(1e-3, 0.1, 0.7)),
    "for ever": Toeplitz(gap=(0.0, 0.02, 0.4), inverse_gap=(1e-3, 0.1, 0.7)),
    "none": Toeplitz(),
}


def placements(n: int, k: int, b: int):
    """All sets of at most k steps out of n, any two at least b apart."""
    for size in range(1, k + 1):
        for steps in itertools.combinations(range(n), size):
            if all(y - x >= b for x, y in itertools.pairwise(steps)):
                yield steps


def worst_over_directions(strategy: np.ndarray, steps: tuple[int, ...]) -> float:
    """max over unit vectors v_i of ||sum_i C[:, t_i] v_i'||^2, all signs tried (vectors on a line)."""
    columns = strategy[:, list(steps)]
    signs = itertools.product((1.0, -1.0), repeat=len(steps) - 1)
    return max(float(np.sum((columns @ np.array((1.0, *s))) ** 2)) for s in signs)


@pytest.mark.parametrize(("k", "b"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 3), (2, 9)])
@pytest.mark.parametrize("name", FILTERS)
def test_the_worst_placement_by_enumeration(name, k, b):
    """All placements and signs on the explicit matrix; equal to the closed form."""
    n = 12
    c = FILTERS[name].sensitivity_coefficients(n)
    strategy = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    found = max(worst_over_directions(strategy, steps) for steps in placements(n, k, b))
    rule = Participation(k, b)
    assert FILTERS[name].sensitivity.sum_of_squares(n, rule) == pytest.approx(found, rel=1e-12)
    assert squared_cost(c, rule) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(("k", "b"), [(2, 1), (3, 1), (3, 20), (2, 40)])
def test_the_worst_placement_at_64_steps(k, b):
    c = FILTERS["settling"].sensitivity_coefficients(64)
    strategy = np.array([[c[i - j] if i >= j else 0.0 for j in range(64)] for i in range(64)])
    products = strategy.T @ strategy
    found = max(
        float(products[np.ix_(steps, steps)].sum())
        for steps in itertools.combinations(range(64), k)
        if all(y - x >= b for x, y in itertools.pairwise(steps))
    )
    assert squared_cost(c, Participation(k, b)) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("age", [1, 5, 64, 1000, 20_000])
@pytest.mark.parametrize(("k", "b"), [(1, 1), (4, 1), (16, 5), (None, 7), (100, 20), (3, 10_000)])
@pytest.mark.parametrize("name", FILTERS)
def test_closed_forms_at_every_age(name, k, b, age):
    rule = Participation(k, b)
    c = FILTERS[name].sensitivity_coefficients(age)
    moved = np.zeros(age)
    for start in range(0, age, b)[: k or age]:
        moved[start:] += c[: age - start]
    decay = FILTERS[name].sensitivity
    assert decay.sum_of_squares(age, rule) == pytest.approx(moved @ moved, rel=1e-11)
    assert decay.sum(age, rule) == pytest.approx(moved.sum(), rel=1e-11)
    cost = Filtered(decay, 0.3, 1e-3, None, rule)
    exact = float(np.sum((0.3 * moved + 1e-3) ** 2))  # the slack is not multiplied by the records
    assert cost.at(age).gdp == pytest.approx(math.sqrt(exact), rel=1e-11)
    assert ages_from_dict(cost.to_dict()) == cost


def test_for_ever_has_a_limit():
    decay = FILTERS["for ever"].sensitivity
    rule = Participation(4, 3)
    assert decay.sum_of_squares(math.inf, rule) == pytest.approx(
        decay.sum_of_squares(10**6, rule), rel=1e-12
    )


def test_known_figures():
    """The square root at n = 65,536: how much several records cost, in units of one."""
    c = square_root(65_536)
    one = squared_cost(c, Participation())
    figures = {(16, 4096): 6.83, (64, 1024): 24.6, (4, 16_384): 2.31, (16, 1): 14.1}
    for (k, b), figure in figures.items():
        ratio = math.sqrt(squared_cost(c, Participation(k, b)) / one)
        assert ratio == pytest.approx(figure, rel=0.0025)
        assert ratio < k


def test_other_coefficients_are_refused_for_good_reason():
    """Where c rises, another placement is worse than the earliest one."""
    c = np.array([0.1, 1.0, 0.0, 0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="must not increase"):
        squared_cost(c, Participation(2, 1))
    strategy = np.array([[c[i - j] if i >= j else 0.0 for j in range(6)] for i in range(6)])
    worst = max(worst_over_directions(strategy, steps) for steps in placements(6, 2, 1))
    assert worst > worst_over_directions(strategy, (0, 1))
    for bad in ([], [-1.0], [math.nan], [[1.0]]):
        with pytest.raises(ValueError, match="must not increase"):
            squared_cost(np.array(bad), Participation(2, 1))


def used_nodes(n: int):
    """Blocks of a tree that some prefix total is made of, as ranges of steps."""
    return [
        range(end - (end & -end), end) for end in range(1, n + 1)
    ]  # the last block of the prefix that ends there


@pytest.mark.parametrize(("k", "b"), [(1, 1), (2, 1), (3, 2), (4, 1), (4, 3), (5, 2)])
def test_trees_by_enumeration(k, b):
    n = 16
    nodes = used_nodes(n)
    counts = [[sum(t in node for t in steps) for node in nodes] for steps in placements(n, k, b)]
    squares = max(sum(m * m for m in each) for each in counts)
    plain = max(sum(each) for each in counts)
    bound = tree_squares(n.bit_length(), Participation(k, b), n)
    assert squares <= bound <= 1.3 * squares
    assert plain <= tree_count(n.bit_length(), Participation(k, b), n)
    if k == 1:
        assert bound == squares == n.bit_length()


def test_counting_nodes_would_protect_too_little():
    assert tree_squares(5, Participation(4), 16) == 60  # not the 9 nodes that are touched


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "max_records must be between 1"),
        ((2, 0), "min_gap must be between 1"),
        ((-3,), "max_records"),
        ((None, 1), "bounds nothing"),
        ((2**21,), "max_records"),
    ],
)
def test_bad_bounds(arguments, words):
    with pytest.raises(ValueError, match=words):
        Participation(*arguments)


@pytest.mark.parametrize("value", [1.5, "4", True])
def test_bounds_are_whole_numbers(value):
    with pytest.raises(TypeError, match="max_records must be a whole number"):
        Participation(value)


def test_too_many_records_to_add_up():
    with pytest.raises(ValueError, match="larger min_gap"):
        Participation(None, 2).records_within(2**40)
