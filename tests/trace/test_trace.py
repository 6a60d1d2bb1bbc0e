"""The record of a run of a solver: a few steps, a callback that may stop it, and progress."""

from __future__ import annotations

import numpy as np

from reticent.trace import Recorder


def test_a_recorder_keeps_little_and_the_last_step():
    with Recorder("run", steps=10_000, settings={"a": 1.0}, keep=100) as recorder:
        for step in range(1, 10_001):
            assert not recorder.note(step, np.zeros(1), {"value": float(step)})
    trace = recorder.close()
    assert 100 <= len(trace.steps) <= 102
    assert trace.steps[0] == 1
    assert trace.steps[-1] == 10_000
    assert trace.finished
    assert "value" in trace.table(5)
    assert len(trace.table(5).splitlines()) == 6
    assert str(trace).startswith("run: ")


def test_a_callback_that_stops():
    with Recorder("run", steps=9, callback=lambda moment: moment.step == 4) as recorder:
        stops = [recorder.note(step, np.zeros(1)) for step in range(1, 5)]
    assert stops == [False, False, False, True]
    assert not recorder.close().finished


def test_progress_is_drawn_on_standard_error(capsys):
    with Recorder("descent", steps=3, progress=True) as recorder:
        for step in range(1, 4):
            recorder.note(step, np.zeros(1))
    assert "descent" in capsys.readouterr().err
