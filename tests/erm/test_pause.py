"""Runs that are stopped, saved and taken up again: as if nothing had happened, once, and under the same terms."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time

import numpy as np
import pytest

import reticent
from reticent import erm, losses, sets
from reticent.erm.pause import take_up
from reticent.noise import Source
from reticent.privacy import ForkError
from reticent.state import files, lease

from .reference import records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def test_stop_and_resume_is_as_if_nothing_had_happened():
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3)
    whole = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    half = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments,
                                callback=lambda moment: moment.step == 8)  # fmt: skip
    assert not half.finished
    assert half.guarantee.gdp == whole.guarantee.gdp
    with reticent.Ledger(BUDGET) as ledger:
        rest = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)
    assert ledger.entries == ()
    assert rest.finished
    np.testing.assert_array_equal(rest.point, whole.point)
    with pytest.raises(ForkError, match="already continued"):
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)
    with pytest.raises(ValueError, match="nothing to resume"):
        rest.state()


def test_resume_from_a_saved_state(tmp_path):
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3)
    whole = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    half = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments,
                                callback=lambda moment: moment.step == 8)  # fmt: skip
    files.save(half.state(), tmp_path / "run")
    state = files.load(tmp_path / "run")
    with pytest.raises(ValueError, match="another plan"):
        erm.gradient_descent(
            LOSS, sets.L2Ball(4), A, y, **(arguments | {"steps": 21}), resume=state
        )
    rest = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=state)
    np.testing.assert_array_equal(rest.point, whole.point)
    with pytest.raises(ForkError):
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)


def stopped(loss=LOSS, **changes):
    """A run that stopped at step 8, and a function that takes it up with some arguments changed."""
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3) | changes

    def run(resume=None, loss=loss, **others):
        return erm.gradient_descent(loss, sets.L2Ball(4), A, y, **(arguments | others),
                                    resume=resume)  # fmt: skip

    return run(callback=lambda moment: moment.step == 8), run


def test_a_run_is_not_taken_up_in_the_child_of_a_fork():
    """Else child and parent would both finish it, on one charge."""
    half, run = stopped(seed=None)

    def outcome(go_on):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - the child's coverage is not collected
            try:
                go_on()
                os.write(writer, b"finished")
            except BaseException as error:
                os.write(writer, type(error).__name__.encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            return file.read()

    assert outcome(lambda: run(half)) == b"ForkError"
    assert outcome(lambda: run(half.state())) == b"ForkError"
    assert outcome(run) == b"finished"  # a run of its own
    assert run(half).finished


def test_two_threads_do_not_take_up_one_run():
    class Slow(lease.Lease):
        """Its reader dawdles, so that both threads have looked before either has written."""

        far = 8

        @property
        def furthest(self):
            far = self.far
            time.sleep(0.2)
            return far

        @furthest.setter
        def furthest(self, step):
            self.far = step

    half, _ = stopped()
    pause = half._pause
    pause.lease = Slow(step=8)
    won = []

    def go():
        with contextlib.suppress(ForkError):
            won.append(take_up(half, pause.solver, pause.plan))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


@pytest.mark.parametrize(
    ("others", "word"),
    [
        ({"loss": losses.Logistic(ridge=0.1)}, "loss"),
        ({"budget": BUDGET.with_(neighbours="replace")}, "budget"),
        ({"noise_precision": "float"}, "noise precision"),
    ],
)
def test_a_run_is_not_taken_up_with_another_loss_or_budget(others, word):
    """The published noise does not depend on either, so the plan's numbers are the same."""
    half, run = stopped(calibration="published")
    for resume in (half, half.state()):
        with pytest.raises(ValueError, match=rf"differs in: {word}\)"):
            run(resume, **others)
    assert run(half).finished


def slope(x, a, y, factor):
    return factor * np.sign(a @ x - y) * a


def test_a_saved_run_goes_on_in_another_process(monkeypatch):
    """There the same loss has another address, and nothing is known of the run."""

    def make():
        value = functools.partial(lambda x, a, y, factor: factor * abs(a @ x - y), factor=0.5)
        return losses.CustomLoss(value, functools.partial(slope, factor=0.5), lipschitz=0.5)

    loss = make()
    half, run = stopped(loss)
    state = files.loads(files.dumps(half.state()))
    monkeypatch.setattr(lease, "_known", {})
    again = make()
    assert repr(again) != repr(loss)
    assert run(state, loss=again).finished
    with pytest.raises(ForkError, match="already continued"):
        run(state, loss=again)


def test_the_key_of_a_long_run_moves_on():
    """After 70 steps the state holds the key of the second interval of 64, and nothing of the first."""
    A, y = records()
    fit = erm.gradient_descent(
        LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=100, seed=0,
        callback=lambda report: report.step >= 70,
    )  # fmt: skip
    state = files.dumps(fit.state())
    source = Source(0)
    for used in (False, True):
        source.ratchet()
        rounds = source.state(within=True)["coarse"]["s"]["seed"].tobytes()
        assert (rounds in state) == used
