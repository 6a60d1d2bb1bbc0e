"""Saved states: the same points, bit for bit, continued once, open tickets included."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from reticent import bandit, sets
from reticent.privacy import ForkError
from reticent.state import files, lease

from .reference import BUDGET, PURE

ROADS = sets.FlowPolytope([(0, 1), (0, 1), (1, 2), (1, 2)], 0, 2)


def value(t, x):
    return float(0.3 * np.sin(t) + 0.4 * np.ravel(x)[0])


def learner_on(convex=None, **more):
    facts = {"budget": BUDGET, "lipschitz": 1.0, "values": (-1.0, 1.0), "horizon": 400}
    return bandit.ProjectionFreeBandit(convex or sets.L1Ball(3), **(facts | more))


def play(learner, count):
    points = []
    for _ in range(count):
        x = learner.ask()
        points.append(np.array(x))
        learner.tell(value(learner.steps, x))
    return np.array(points)


def fresh_process():
    lease._known.clear()


CASES = {
    "plain": {},
    "seeded": {"seed": 1},
    "middle": {"centring": "middle"},
    "not stale": {"stale": False},
    "tree": {"total": "tree"},
    "independent": {"total": "independent"},
    "pure": {"budget": PURE},
    "float": {"noise_precision": "float"},
    "epochs": {"horizon": None},
    "overflow": {"feasibility": "overflow"},
    "baseline": {"budget": None, "private": False},
    "published": {"calibration": "published"},
    "constants": {"step": 0.01, "smoothing": 0.2, "batches": 13},
}


@pytest.mark.parametrize("at", [0, 1, 20, 157, 300])
@pytest.mark.parametrize("case", CASES)
def test_goes_on_as_if_nothing_had_happened(case, at, tmp_path):
    """Also across an epoch's end: the randomness of later epochs is in the state too."""
    learner = learner_on(**CASES[case])
    play(learner, at)
    path = tmp_path / "state"
    files.save(learner.state(), path)
    wanted = play(learner, 400 - at)
    fresh_process()
    twin = bandit.ProjectionFreeBandit.from_state(files.load(path))
    assert twin.steps == at
    np.testing.assert_array_equal(play(twin, 400 - at), wanted)
    assert (twin.clipped, twin.answered) == (learner.clipped, learner.answered)
    assert str(twin.guarantee) == str(learner.guarantee)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda: learner_on(sets.Simplex(4), mirror="entropy"), {}),
        (lambda: learner_on(ROADS), {"set": ROADS}),
        (
            lambda: bandit.ProjectedBandit(
                sets.L2Ball(3), budget=BUDGET, lipschitz=1.0, horizon=None
            ),
            {},
        ),
    ],
)
def test_other_learners(make, given):
    learner = make()
    play(learner, 270)
    state = files.loads(files.dumps(learner.state()))
    wanted = play(learner, 130)
    fresh_process()
    np.testing.assert_array_equal(play(type(learner).from_state(state, **given), 130), wanted)


def test_open_tickets():
    learner = learner_on()
    play(learner, 30)
    held = [learner.ask() for _ in range(5)]
    state = files.loads(files.dumps(learner.state()))
    results = []
    for twin in (learner, None):
        if twin is None:
            fresh_process()
            twin = bandit.ProjectionFreeBandit.from_state(state)
        assert twin.outstanding == 5
        for ticket in held[::-1]:
            twin.tell(0.1 * ticket.number / 100, ticket.number)
        with pytest.raises(ValueError, match="answered"):
            twin.tell(0.2, held[2])
        results.append(play(twin, 100))
    np.testing.assert_array_equal(*results)


def test_a_set_that_data_cannot_describe_is_given_again():
    learner = learner_on(ROADS)
    state = learner.state()
    with pytest.raises(ValueError, match=r"set=\.\.\."):
        bandit.ProjectionFreeBandit.from_state(state)
    with pytest.raises(ValueError, match="FlowPolytope"):
        bandit.ProjectionFreeBandit.from_state(state, set=sets.L1Ball(4))
    other = sets.FlowPolytope([(0, 1), (0, 1)], 0, 1)
    with pytest.raises(ValueError, match="shape"):
        bandit.ProjectionFreeBandit.from_state(state, set=other)
    twin = bandit.ProjectionFreeBandit.from_state(state, set=ROADS)
    twin.ask()


# Forks: the first to go on wins ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("move", ["ask", "tell"])
def test_twins(twin_of, move):
    learner = learner_on()
    play(learner, 10)
    learner.ask()
    twin = twin_of(learner)
    first, second = (learner, twin) if move == "ask" else (twin, learner)
    getattr(first, move)(*([0.1] if move == "tell" else []))
    for step in (second.ask, lambda: second.tell(0.3), lambda: second.run(np.zeros((1, 3)))):
        with pytest.raises(ForkError, match="already continued"):
            step()
    first.ask()


def test_an_older_state_is_refused():
    learner = learner_on()
    play(learner, 10)
    state = learner.state()
    play(learner, 1)
    with pytest.raises(ForkError, match="already continued"):
        bandit.ProjectionFreeBandit.from_state(state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_process_fork():
    learner = learner_on()
    play(learner, 10)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        verdict = b"went on"
        try:
            learner.ask()
        except ForkError:
            verdict = b"refused"
        os.write(write, verdict)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    learner.ask()


def test_foreign_states():
    learner = learner_on()
    state = learner.state()
    with pytest.raises(ValueError, match="ProjectedBandit"):
        bandit.ProjectedBandit.from_state(state)
    with pytest.raises(ValueError, match="version"):
        bandit.ProjectionFreeBandit.from_state(state | {"version": 99})
    with pytest.raises(ValueError, match="must be a state"):
        bandit.ProjectionFreeBandit.from_state([1])
    with pytest.raises(ValueError, match="no 'Evil'"):
        bandit.ProjectionFreeBandit.from_state(state | {"set": state["set"] | {"kind": "Evil"}})
    play(learner, 5)  # none of these spent the state


class Tilted(bandit.Mirror):
    """Half a squared distance, twice as steep: not the library's own."""

    def range(self, geometry):
        return geometry.reach**2

    def gradient(self, x, center):
        return 2.0 * (x - center)


def test_a_mirror_map_of_the_users_own_is_given_again():
    learner = learner_on(mirror=Tilted())
    play(learner, 50)
    state = learner.state()
    with pytest.raises(ValueError, match=r"mirror=\.\.\."):
        bandit.ProjectionFreeBandit.from_state(state)
    wanted = play(learner, 100)
    fresh_process()
    twin = bandit.ProjectionFreeBandit.from_state(state, mirror=Tilted())
    np.testing.assert_array_equal(play(twin, 100), wanted)
    copy.copy(twin)
