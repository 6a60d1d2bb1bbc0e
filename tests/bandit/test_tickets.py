"""Values that come late, out of order, twice, never, or wrong: clear errors, and nothing lost."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from reticent import bandit, sets

from .reference import BUDGET


def learner_on(convex=None, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-1.0, 1.0), "horizon": 400, "seed": 2}
    return bandit.ProjectionFreeBandit(convex or sets.L1Ball(3), **(facts | more))


def finish(learner, count):
    points = []
    for _ in range(count):
        points.append(np.array(learner.ask()))
        learner.tell(0.2)
    return np.array(points)


def test_simple_use():
    learner = learner_on()
    x = learner.ask()
    assert isinstance(x, np.ndarray)
    assert x.shape == (3,)
    assert learner.set.contains(x)
    learner.tell(float(x @ np.ones(3)))
    assert (learner.steps, learner.answered, learner.outstanding) == (1, 1, 0)


def test_a_ticket_is_an_array_and_its_number():
    learner = learner_on()
    ticket = learner.ask()
    assert ticket.number == 1
    assert type(ticket.point) is np.ndarray
    assert type(ticket + 1.0) is np.ndarray
    assert isinstance(ticket @ np.ones(3), float)
    assert isinstance(ticket.sum(), float)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ticket)), ticket)
    assert pickle.loads(pickle.dumps(ticket)).number == 1
    assert copy.copy(ticket).shape == (3,)
    ticket[0] = 99.0  # the learner does not depend on the array it handed out
    learner.tell(0.0, ticket)


@pytest.mark.parametrize("by_number", [True, False])
def test_any_order_within_a_round_is_the_same(by_number):
    """The batch is a sum of whole numbers, so the order cannot matter, to the last bit."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, 20)
    results = []
    for order in (range(20), rng.permutation(20)):
        learner = learner_on(centring="middle")
        assert learner.batch == 20
        tickets = [learner.ask() for _ in range(20)]
        assert learner.outstanding == 20
        for i in order:
            learner.tell(values[i], tickets[i].number if by_number else tickets[i])
        assert learner.outstanding == 0
        results.append(finish(learner, 100))
    np.testing.assert_array_equal(*results)


def test_late_values_enter_the_round_in_which_they_come():
    worlds = []
    for late in (False, True):
        learner = learner_on(centring="middle")
        held = learner.ask()
        if not late:
            learner.tell(0.9, held)
        points = []
        for t in range(1, 80):
            points.append(np.array(learner.ask()))
            learner.tell(0.0)
            if late and t == 50:  # third round, which the fifth answers to
                learner.tell(0.9, held)
        worlds.append((learner, np.array(points), finish(learner, 200)))
    one, two = worlds
    np.testing.assert_array_equal(one[1][:39], two[1][:39])
    assert not np.array_equal(one[1][39:], two[1][39:])
    np.testing.assert_array_equal(one[0]._total._total, two[0]._total._total)
    np.testing.assert_array_equal(one[2], two[2])  # from then on the same sum, so the same points


def test_missing_values_do_not_stop_the_rounds():
    learner = learner_on()
    for _ in range(400):
        learner.ask()
    assert (learner.steps, learner.answered, learner.outstanding) == (400, 0, 400)
    with pytest.raises(ValueError, match="horizon of 400"):
        learner.ask()
    learner.tell(0.3, 7)  # still welcome, though nothing more is played
    assert learner.answered == 1


def test_patience():
    learner = learner_on(patience=5)
    for _ in range(20):
        learner.ask()
    assert learner.outstanding == 6
    with pytest.raises(ValueError, match="patience=5"):
        learner.tell(0.1, 14)
    learner.tell(0.1, 15)
    learner.tell(0.1, 20)
    assert learner.outstanding == 4


# Bad input: an error, and the learner goes on as if it had not been there ----------------------------


def snapshot(learner):
    return (
        learner.steps,
        learner.answered,
        learner.outstanding,
        learner.clipped,
        learner._pending.copy().tolist(),
        learner._moves,
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_values_that_are_not_finite(value):
    learner, twin = learner_on(), learner_on()
    for each in (learner, twin):
        finish(each, 30)
        each.ask()
    before = snapshot(learner)
    with pytest.raises(ValueError, match="value must be a finite number"):
        learner.tell(value)
    assert snapshot(learner) == before
    learner.tell(0.4)
    twin.tell(0.4)
    np.testing.assert_array_equal(finish(learner, 60), finish(twin, 60))


@pytest.mark.parametrize("value", ["0.3", [0.3], True, 1j, np.zeros(3)])
def test_values_that_are_no_numbers(value):
    learner = learner_on()
    learner.ask()
    before = snapshot(learner)
    with pytest.raises(TypeError, match="value must be a real number") as refusal:
        learner.tell(value)
    assert repr(value) not in str(refusal.value)  # it belongs to a person
    assert snapshot(learner) == before


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.int64(0), 0.25])
def test_values_of_every_real_kind(value):
    learner = learner_on()
    learner.ask()
    learner.tell(value)
    assert learner.answered == 1


def test_tell_before_ask():
    learner = learner_on()
    before = snapshot(learner)
    with pytest.raises(ValueError, match="before ask"):
        learner.tell(0.5)
    with pytest.raises(ValueError, match="before ask"):
        learner.tell(0.5, 1)
    assert snapshot(learner) == before


def test_tell_twice():
    learner = learner_on()
    first, second = learner.ask(), learner.ask()
    learner.tell(0.5, second)
    learner.tell(0.5, first)
    before = snapshot(learner)
    for ticket in (None, first, second, 1, 2):
        with pytest.raises(ValueError, match="answered already"):
            learner.tell(0.1, ticket)
    assert snapshot(learner) == before


@pytest.mark.parametrize("ticket", [0, -1, 3, 10**9])
def test_tickets_that_were_never_issued(ticket):
    learner = learner_on()
    learner.ask()
    with pytest.raises(ValueError, match="never issued"):
        learner.tell(0.1, ticket)
    learner.tell(0.1)


def test_a_point_that_is_no_ticket():
    learner = learner_on()
    x = learner.ask()
    with pytest.raises(ValueError, match="never issued"):
        learner.tell(0.1, x[:])
    with pytest.raises(TypeError, match="ticket"):
        learner.tell(0.1, np.array(x))
    learner.tell(0.1, x)


def test_values_outside_the_range_are_clipped_and_counted():
    learner, twin = learner_on(centring="middle"), learner_on(centring="middle")
    for t in range(100):
        learner.ask()
        twin.ask()
        learner.tell(1e9 if t % 4 == 0 else -0.2)
        twin.tell(1.0 if t % 4 == 0 else -0.2)
    assert (learner.clipped, twin.clipped) == (25, 0)
    np.testing.assert_array_equal(finish(learner, 100), finish(twin, 100))


@pytest.mark.parametrize("stale", [True, False])
@pytest.mark.parametrize("failure", ["raises", "nan"])
def test_an_oracle_that_fails_once(stale, failure):
    """A set of the user's own may fail; asking again goes on as if it had not."""

    class Moody(sets.ConvexSet):
        dim, diameter = 2, 2.0
        fail_at = -1
        calls = 0

        def linear_minimizer(self, g):
            self.calls += 1
            if self.calls == self.fail_at:
                if failure == "raises":
                    raise ConnectionError("the solver is away")
                return np.full(2, np.nan)
            vertex = np.zeros(2)
            i = int(np.argmax(np.abs(g)))
            vertex[i] = -np.copysign(1.0, g[i])
            return vertex

    runs = []
    for fails in (False, True):
        moody = Moody()
        learner = learner_on(moody, stale=stale)
        moody.fail_at = moody.calls + 57 if fails else -1
        points, failed = [], 0
        while len(points) < 400:
            try:
                x = learner.ask()
            except (ConnectionError, ValueError):
                failed += 1
                continue
            points.append(np.array(x))
            learner.tell(float(x[0]))
        assert failed == fails
        runs.append(np.array(points))
    np.testing.assert_array_equal(*runs)
