"""What a run leaves behind: thinned, bounded, and marked as read off private data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import reticent
from reticent.privacy import Gaussian, Guarantee, Release
from reticent.trace import Diary, Play, Progress

GUARANTEE = Guarantee([Release("sum", Gaussian(0.2), 1.0, "gaussian")])


class Best:
    def __init__(self, losses):
        self._losses = losses

    def losses(self):
        return self._losses


def written(keep, size, blocks, dim=2, every_loss=True):
    diary = Diary(keep, size, dim, every_loss=every_loss)
    start = 0
    for count in blocks:
        numbers = np.arange(start, start + count, dtype=float)
        pages = diary.pages(count)
        kept = numbers[diary.wait :: diary.every]
        assert len(pages) == len(kept)
        pages[:] = kept[:, None]
        diary.write(pages, numbers + 1.0)
        start += count
    facts = {"clipped": 0, "seconds": 1.0, "guarantee": GUARANTEE, "learner": "Test"}
    return diary, diary.close((dim,), comparator=Best(np.ones(start)), **facts)


@pytest.mark.parametrize("blocks", [[10], [3, 7], [1] * 10, [0, 10, 0]])
@pytest.mark.parametrize("keep", [1, 3, 10, 100])
def test_known_length(keep, blocks):
    _, play = written(keep, 10, blocks)
    assert len(play.steps) <= max(keep, 1)
    # decision t - 1 was played at record t, whose loss is t
    np.testing.assert_array_equal(play.decisions[:, 0], play.steps - 1)
    np.testing.assert_array_equal(play.cumulative_losses, play.steps * (play.steps + 1) / 2)
    np.testing.assert_array_equal(play.losses, np.arange(1.0, 11.0))
    assert (play.count, play.total_loss, play.mean_loss) == (10, 55.0, 5.5)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_unknown_length_in_bounded_memory(block):
    _, play = written(16, None, [block] * (3000 // block), every_loss=False)
    assert play.losses is None
    assert len(play.steps) < 32 + (block if block > 32 else 0)
    np.testing.assert_array_equal(play.decisions[:, 0], play.steps - 1)
    np.testing.assert_array_equal(play.cumulative_losses, play.steps * (play.steps + 1) / 2)
    assert play.steps[0] == 1


def test_regret_and_its_curve():
    _, play = written(4, 10, [10])
    assert play.regret() == 45.0
    steps, curve = play.regret_curve()
    assert steps[-1] == 10
    np.testing.assert_array_equal(curve, steps * (steps + 1) / 2 - steps)


def test_everything_that_is_not_private_says_so():
    _, play = written(4, 10, [10])
    assert "not covered by the guarantee" in str(play)
    assert "epsilon" in str(play)
    for name in ("regret", "mean_loss", "plot"):
        text = getattr(Play, name).__doc__
        assert "diagnostic" in text.lower()


def test_records_do_not_travel_with_a_pickled_play():
    _, play = written(4, 10, [10])
    twin = pickle.loads(pickle.dumps(play))
    assert twin.comparator is None
    with pytest.raises(ValueError, match="keep_records"):
        twin.regret()
    assert twin.total_loss == play.total_loss


def test_plots_say_what_they_are():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, play = written(4, 10, [10])
    for axes in (play.plot(), play.plot(regret=True)):
        assert "reads private data" in axes.get_title()
        assert len(axes.lines) == 1
    x, y = play.plot(axes).lines[-1].get_data()
    np.testing.assert_allclose(y, (np.asarray(x) + 1) / 2)
    pyplot.close("all")


def test_progress_counts_and_is_silent_unless_asked(capsys):
    with Progress("learning", 10) as progress:
        progress.advance(4)
        progress.advance(6)
    assert progress.done == 10
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    with Progress("learning", None, shown=True) as progress:
        progress.advance(3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "learning" in captured.err


def test_keep_is_checked():
    with pytest.raises(ValueError, match="keep"):
        Diary(0, 10, 2, every_loss=True)
    assert reticent.__version__
