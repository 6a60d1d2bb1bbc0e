"""Saved states: killed and restored anywhere, continued once, refused twice."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from reticent import losses, online, sets
from reticent.privacy import ForkError
from reticent.state import files

from .cases import BUDGET, DIM, LEARNERS, records


def through_bytes(learner):
    return type(learner).from_state(files.loads(files.dumps(learner.state())))


@pytest.mark.parametrize("name", LEARNERS)
def test_killed_at_random_points_and_restored(name):
    """A hundred kills along one stream: the decisions are those of a stream that nobody killed."""
    steps = 1500
    A, y = records(steps)
    calm = LEARNERS[name](seed=2)
    calm.run(A, y)
    rng = np.random.default_rng(3)
    cuts = np.sort(rng.choice(np.arange(1, steps), 100, replace=False)).tolist()
    learner = LEARNERS[name](seed=2)
    for start, stop in zip([0, *cuts], [*cuts, steps], strict=True):
        learner = through_bytes(learner)
        if (stop - start) % 3 == 0:
            learner.run(A[start:stop], y[start:stop])
        else:
            for t in range(start, stop):
                learner.observe((A[t], y[t]))
    np.testing.assert_array_equal(learner.decision, calm.decision)
    assert learner.steps == calm.steps == steps
    assert learner.guarantee == calm.guarantee
    assert learner.clipped == calm.clipped


SCRIPT = """
import sys, numpy as np
from pathlib import Path
from reticent.state import files
from tests_cases import LEARNERS, records
folder, steps, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
A, y = records(steps)
learners = []
for number, name in enumerate(names):
    path, fresh = folder / f"state{number}", LEARNERS[name](seed=2)
    if path.exists():
        fresh = type(fresh).from_state(files.load(path))
    else:
        files.save(fresh.state(), path)
    learners.append((path, fresh))
print("ready", flush=True)
while learners[-1][1].steps < steps:
    for path, learner in learners:
        t = learner.steps
        learner.run(A[t : t + 7], y[t : t + 7])
        files.save(learner.state(), path)
for number, (path, learner) in enumerate(learners):
    np.save(folder / f"out{number}.npy", learner.decision)
"""
KILLED = ["ftrl", "projection, window", "implicit", "quadratic"]


def test_killed_by_the_system_and_restored(tmp_path):
    """Real processes, really killed (SIGKILL) at random moments of a loop that saves as it goes."""
    steps = 700
    A, y = records(steps)
    here = os.path.dirname(__file__)
    (tmp_path / "tests_cases.py").write_text(Path(here, "cases.py").read_text())
    script = tmp_path / "loop.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path), str(steps), *KILLED]
    rng = np.random.default_rng(4)
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.0, 0.08)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    subprocess.run(command, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    for number, name in enumerate(KILLED):
        calm = LEARNERS[name](seed=2)
        calm.run(A, y)
        np.testing.assert_array_equal(np.load(tmp_path / f"out{number}.npy"), calm.decision)
        assert os.stat(tmp_path / f"state{number}").st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", KILLED)
def test_twins_in_threads_never_take_one_step_twice(name):
    """Several twins of one stream run at once; every step is taken by one of them."""
    steps = 400
    A, y = records(steps)
    for attempt in range(3):
        learner = LEARNERS[name](seed=2)
        learner.run(A[:10], y[:10])
        twins = [learner, *(through_bytes(learner) for _ in range(3))]
        barrier = threading.Barrier(len(twins))
        taken: list[tuple[int, int]] = []

        def work(number, twins=twins, barrier=barrier, taken=taken):
            twin = twins[number]
            barrier.wait()
            for t in range(10, steps):
                try:
                    twin.observe((A[t], y[t]))
                except ForkError:
                    return
                taken.append((t, number))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(twins))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == len({t for t, _ in taken}), f"a step was taken twice, try {attempt}"
        assert len({number for _, number in taken}) == 1


@pytest.mark.parametrize("name", KILLED)
def test_one_learner_in_threads_takes_every_record_once(name):
    A, y = records(400)
    learner = LEARNERS[name](seed=2)

    def work(start):
        for t in range(start, 400, 4):
            learner.observe((A[t], y[t]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.steps == 400
    assert np.isfinite(learner.decision).all()


def test_a_stream_may_save_the_learner_as_it_goes():
    A, y = records(60)
    learner = LEARNERS["ftrl"](seed=2)
    states = []

    def chunks():
        for t in range(0, 60, 20):
            states.append(learner.state()["total"]["steps"])
            yield A[t : t + 20], y[t : t + 20]

    learner.run(chunks())
    assert states == [0, 20, 40]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    "twin_of",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), through_bytes],
    ids=["copy", "deepcopy", "pickle", "state"],
)
def test_of_two_twins_only_the_first_may_go_on(name, twin_of):
    A, y = records(60)
    learner = LEARNERS[name](seed=2)
    learner.run(A[:20], y[:20])
    twin = twin_of(learner)
    np.testing.assert_array_equal(twin.decision, learner.decision)
    assert twin.steps == 20
    twin.run(A[20:40], y[20:40])
    before = learner.decision
    for call in (
        lambda: learner.run(A[20:40], y[20:40]),
        lambda: learner.observe((A[20], y[20])),
        lambda: learner.update(None),
    ):
        with pytest.raises(ForkError):
            call()
    np.testing.assert_array_equal(learner.decision, before)
    assert learner.steps == 20


@pytest.mark.parametrize("name", LEARNERS)
def test_an_old_state_is_refused_once_the_stream_has_gone_on(name):
    A, y = records(40)
    learner = LEARNERS[name](seed=2)
    learner.run(A[:10], y[:10])
    state = learner.state()
    learner.run(A[10:], y[10:])
    with pytest.raises(ForkError):
        type(learner).from_state(state)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_forked_process_may_not_go_on(name):
    A, y = records(10)
    learner = LEARNERS[name](seed=2)
    learner.run(A[:5], y[:5])
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: learner.observe((A[5], y[5])), learner.state):
            try:
                call()
            except ForkError:
                refused += 1
        os._exit(7 if refused == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    learner.run(A[5:], y[5:])


def test_foreign_and_future_states_are_refused():
    learner = LEARNERS["ftrl"]()
    state = learner.state()
    with pytest.raises(ValueError, match="must be a state of FollowTheApproximateLeader"):
        online.FollowTheApproximateLeader.from_state(state)
    with pytest.raises(ValueError, match="version 99"):
        type(learner).from_state(state | {"version": 99})
    with pytest.raises(ValueError, match="must be a state"):
        type(learner).from_state(3)
    evil = state | {"set": {"kind": "system", "place": "os", "arguments": {}}}
    with pytest.raises(ValueError, match="not one of"):
        type(learner).from_state(evil)
    evil = state | {"set": {"kind": "np", "place": "sets", "arguments": {}}}
    with pytest.raises(ValueError, match="has no 'np'"):
        type(learner).from_state(evil)


def test_parts_of_the_users_own_are_given_again():
    class Diamond(sets.ConvexSet):
        dim = DIM
        diameter = 2.0

        def linear_minimizer(self, g):
            out = np.zeros(DIM)
            out[np.argmax(np.abs(g))] = -np.sign(g[np.argmax(np.abs(g))])
            return out

        def project(self, x):
            return sets.L1Ball(DIM).project(x)

    class Lazy(online.Rule):
        def step(self, moment):
            return self.problem.set.project(-moment.total / (10.0 + moment.t))

    loss = losses.CustomLoss(
        lambda x, a, y: float(a @ x), lambda x, a, y: a, lipschitz=1.0, smoothness=0.0
    )
    A, y = records(30)
    learner = online.Learner(Diamond(), Lazy(), loss, budget=BUDGET, horizon=40, seed=1)
    calm = online.Learner(Diamond(), Lazy(), loss, budget=BUDGET, horizon=40, seed=1)
    calm.run(A, y)
    learner.run(A[:10], y[:10])
    state = files.loads(files.dumps(learner.state()))
    with pytest.raises(ValueError, match=r"set=\.\.\."):
        online.Learner.from_state(state, rule=Lazy(), loss=loss)
    with pytest.raises(ValueError, match="rule"):
        online.Learner.from_state(state, set=Diamond(), loss=loss)
    with pytest.raises(ValueError, match="must be the Diamond"):
        online.Learner.from_state(state, set=sets.L1Ball(DIM), loss=loss, rule=Lazy())
    twin = online.Learner.from_state(state, set=Diamond(), loss=loss, rule=Lazy())
    twin.run(A[10:], y[10:])
    np.testing.assert_array_equal(twin.decision, calm.decision)


def test_every_library_set_and_loss_is_described_or_asked_for():
    from reticent.state import parts

    cases = [
        sets.L2Ball(3, 2.0), sets.L1Ball(3), sets.LinfBall(3, 0.5), sets.Simplex(3, 2.0),
        sets.Box([0.0, -1.0, 0.0], [1.0, 1.0, 2.0]), sets.WholeSpace(3), sets.HyperSimplex(3, 2),
        sets.Product([sets.Simplex(2), sets.L2Ball(1, 3.0)]), sets.NuclearBall((2, 2), 2.0),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    for part in cases:
        data = files.loads(files.dumps({"part": parts.describe(part)}))["part"]
        twin = parts.restore(data, None, "set")
        for _ in range(5):
            g = rng.standard_normal(part.dim) * 3
            if not isinstance(part, sets.WholeSpace):
                np.testing.assert_array_equal(twin.linear_minimizer(g), part.linear_minimizer(g))
            np.testing.assert_array_equal(twin.project(g), part.project(g))
    for loss in (
        losses.Logistic(ridge=0.1, feature_norm=2.0), losses.Squared(label_bounds=(-2.0, 1.0)),
        losses.Huber(0.3), losses.Quantile(0.2), losses.Poisson(2.0, label_bounds=(0.0, 3.0)),
        losses.Quadratic(2.0), losses.Linear(), losses.SmoothHinge(0.5), losses.Hinge(ridge=1.0),
    ):  # fmt: skip
        data = files.loads(files.dumps({"part": parts.describe(loss)}))["part"]
        assert parts.restore(data, None, "loss") == loss


def test_a_state_is_small():
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(1000), losses.Logistic(), budget=BUDGET, horizon=10**6, seed=0
    )
    learner.run(*records(40, dim=1000))
    assert len(files.dumps(learner.state())) < 1_000_000


def test_a_state_cannot_name_a_function():
    from reticent.state import parts

    for place, name in (("losses", "check"), ("sets", "check"), ("sets", "kernels")):
        with pytest.raises(ValueError, match=f"has no '{name}'"):
            parts.rebuild({"place": place, "kind": name, "arguments": {}})


@pytest.mark.parametrize("name", LEARNERS)
def test_a_part_of_the_library_with_other_arguments_is_refused(name):
    """Noise was calibrated to the bounds that the state was saved with, and so was the clipping."""
    learner = LEARNERS[name](seed=2)
    A, y = records(20)
    learner.run(A, y)
    state = files.loads(files.dumps(learner.state()))
    wide = dataclasses.replace(learner.loss, feature_norm=100.0)
    with pytest.raises(ValueError, match="whose arguments differ"):
        type(learner).from_state(state, loss=wide)
    larger = sets.L2Ball(DIM, radius=77.0)
    if isinstance(learner.set, sets.L2Ball):
        with pytest.raises(ValueError, match="whose arguments differ"):
            type(learner).from_state(state, set=larger)
    same = dataclasses.replace(learner.loss)
    twin = type(learner).from_state(state, loss=same, set=learner.set)
    np.testing.assert_array_equal(twin.decision, learner.decision)


class Mine(losses.Logistic):
    """Not the library's own, so a state knows its name only."""


def test_a_loss_of_the_users_own_with_longer_features_is_still_clipped():
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(2), Mine(feature_norm=1.0), budget=BUDGET, horizon=50, seed=0
    )
    learner.run(np.zeros((3, 2)), np.ones(3))
    twin = online.FollowTheRegularizedLeader.from_state(
        learner.state(), loss=Mine(feature_norm=100.0)
    )
    before = twin.total._total.copy()
    x = twin.decision
    across = np.array([-x[1], x[0]]) / np.linalg.norm(x)
    twin.run(100.0 * across[None], [1.0])  # a slope of 1/2, gentle enough for short features
    moved = (twin.total._total - before) * twin.total._noise.step
    assert 0.0 < np.linalg.norm(moved) <= twin.total.norm


class MySquares(losses.Squared):
    """The same for squared losses."""


def test_a_squared_loss_of_the_users_own_with_other_bounds_is_refused():
    learner = online.QuadraticLeader(
        2, MySquares(ridge=0.1), budget=BUDGET.with_(neighbours="replace"), horizon=50, seed=0
    )
    learner.run(np.eye(2), np.ones(2))
    state = learner.state()
    with pytest.raises(ValueError, match="bounds that the state was saved with"):
        online.QuadraticLeader.from_state(state, loss=MySquares(ridge=0.1, feature_norm=2.0))
    twin = online.QuadraticLeader.from_state(state, loss=MySquares(ridge=0.1))
    np.testing.assert_array_equal(twin.decision, learner.decision)


class MyHinge(losses.Hinge):
    """Its slope and smoothness do not tell how long features may be."""


class MyBall(sets.L2Ball):
    """Not the library's own either."""


def iterates(loss, convex, **more):
    learner = online.PerturbedIterates(convex, loss, budget=BUDGET, horizon=50, seed=0, **more)
    learner.run(0.5 * np.eye(2), np.ones(2))
    return learner


@pytest.mark.parametrize(
    ("loss", "other", "changed"),
    [
        (Mine(ridge=0.5), Mine(ridge=0.5, feature_norm=3.0), "slope"),
        (Mine(ridge=0.5), Mine(ridge=0.4), "ridge"),
        (MyHinge(ridge=0.5), MyHinge(ridge=0.5, feature_norm=3.0), "lipschitz"),
    ],
)
def test_iterates_go_on_with_the_bounds_they_were_promised_for(loss, other, changed):
    learner = iterates(loss, sets.L2Ball(2))
    state = files.loads(files.dumps(learner.state()))
    with pytest.raises(
        ValueError, match=f"bounds that the state was saved with, but {changed} was"
    ):
        online.PerturbedIterates.from_state(state, loss=other)
    twin = online.PerturbedIterates.from_state(state, loss=loss)
    twin.run(np.eye(2), np.ones(2))
    learner = iterates(loss, sets.L2Ball(2))
    learner.run(np.eye(2), np.ones(2))
    np.testing.assert_array_equal(twin.decision, learner.decision)


def test_iterates_with_a_given_bound_or_a_set_of_the_users_own():
    state = iterates(Mine(ridge=0.5), sets.L2Ball(2), lipschitz=0.3).state()
    with pytest.raises(ValueError, match=r"slope was 0\.3 and is now 0\.1"):
        online.PerturbedIterates.from_state(state, loss=Mine(ridge=0.5, feature_norm=3.0))
    state = iterates(losses.Hinge(ridge=0.5), MyBall(2)).state()
    with pytest.raises(ValueError, match="drift was"):
        online.PerturbedIterates.from_state(state, set=MyBall(2, 1e6))
    online.PerturbedIterates.from_state(state, set=MyBall(2))


def test_iterates_of_an_older_state_are_held_to_what_it_tells():
    learner = iterates(Mine(ridge=0.5), sets.L2Ball(2))
    old = {name: value for name, value in learner.state().items() if name != "bounds"}
    with pytest.raises(ValueError, match="bounds that the state was saved with"):
        online.PerturbedIterates.from_state(old, loss=Mine(ridge=0.5, feature_norm=3.0))
    twin = online.PerturbedIterates.from_state(old, loss=Mine(ridge=0.5))
    np.testing.assert_array_equal(twin.decision, learner.decision)
