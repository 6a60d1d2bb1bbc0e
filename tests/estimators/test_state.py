"""Saved states of the online estimators: everything that is fitted comes back, and the stream goes on as it was."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import reticent
from reticent import OnlineLinearRegression, OnlineLogisticRegression
from reticent.privacy import ForkError
from reticent.state import files, lease

X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
WORDS = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
NUMBERS = np.array([10, 20, 30])[(X @ [1.0, 2.0, 0.0] > 0.5).astype(int) + (X[:, 1] > 0)]

CASES = {
    "words": (lambda: OnlineLogisticRegression(classes=["no", "yes"], random_state=1), WORDS),
    "objects": (
        lambda: OnlineLogisticRegression(classes=np.array(["no", "yes"], object), random_state=1),
        WORDS,
    ),
    "several": (lambda: OnlineLogisticRegression(classes=[10, 20, 30], random_state=1), NUMBERS),
    "window": (
        lambda: OnlineLogisticRegression(classes=(10, 20, 30), window=64, random_state=1),
        NUMBERS,
    ),
    "unseeded": (lambda: OnlineLogisticRegression(classes=["no", "yes"]), WORDS),
    "line": (
        lambda: OnlineLinearRegression(label_bounds=(-2, 2), horizon=300, random_state=1),
        X[:, 0],
    ),
    "quadratic": (
        lambda: OnlineLinearRegression(learner="quadratic-leader", random_state=1),
        X[:, 1],
    ),
}


def through_file(model, tmp_path):
    path = tmp_path / "model.state"
    reticent.save_state(model.state(), path)
    return type(model).from_state(reticent.load_state(path))


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def parameters(model):
    """With all sequences as lists, which is what a file makes of them."""
    return {
        name: list(value) if isinstance(value, tuple | np.ndarray) else value
        for name, value in model.get_params().items()
    }


@pytest.mark.parametrize("name", CASES)
def test_comes_back_as_it_was_and_goes_on(name, tmp_path):
    make, y = CASES[name]
    model = make().partial_fit(X[:100], y[:100])
    state = files.dumps(model.state())
    twin = type(model).from_state(files.loads(state))
    assert fitted(twin).keys() == fitted(model).keys()
    for key, value in fitted(model).items():
        np.testing.assert_equal(getattr(twin, key), value, err_msg=key)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    assert twin.guarantee_ == model.guarantee_
    assert parameters(twin) == parameters(model)
    model.partial_fit(X[100:200], y[100:200])
    with pytest.raises(ForkError):
        twin.partial_fit(X[100:200], y[100:200])
    lease._known.clear()
    twin = through_file(type(model).from_state(files.loads(state)), tmp_path)
    twin.partial_fit(X[100:200], y[100:200])
    np.testing.assert_array_equal(twin.coef_, model.coef_)
    assert (twin.n_samples_seen_, twin.clipped_) == (200, model.clipped_)


def test_a_stream_that_is_finished_and_one_that_follows_it(tmp_path):
    """After fit there is nothing secret left; partial_fit begins a stream from what was released."""

    def make():
        return OnlineLinearRegression(random_state=1).fit(X, X[:, 0])

    model = make()
    state = model.state()
    assert state["stream"] is None
    twin = through_file(model, tmp_path)
    for one in (model, twin):  # two streams of their own: nothing is shared
        one.partial_fit(X[:50], X[:50, 0])
    np.testing.assert_array_equal(twin.coef_, model.coef_)
    assert twin.guarantee_ == model.guarantee_
    again = through_file(model, tmp_path)
    again.partial_fit(X[50:90], X[50:90, 0])
    twin.partial_fit(X[50:90], X[50:90, 0])
    np.testing.assert_array_equal(again.coef_, twin.coef_)
    assert again.n_samples_seen_ == 390
    assert again.guarantee_ == twin.guarantee_


def test_names_of_features_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = OnlineLogisticRegression(classes=["no", "yes"]).partial_fit(frame, WORDS)
    twin = through_file(model, tmp_path)
    assert twin.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(twin.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        twin.partial_fit(frame.rename(columns={"a": "z"}), WORDS)


@pytest.mark.parametrize("name", ["words", "several", "line"])
def test_a_stream_may_begin_with_a_gap(name):
    make, y = CASES[name]
    model = make().gap(3)
    assert model.n_samples_seen_ == 1
    model = type(model).from_state(model.state())
    model.partial_fit(X[:20], y[:20]).gap()
    assert model.n_samples_seen_ == 22
    assert model.guarantee_ == make().partial_fit(X[:20], y[:20]).guarantee_
    with pytest.raises(ValueError, match="n_features"):
        make().gap()
    with pytest.raises(ValueError, match="n_features"):
        make().gap(0)
    done = OnlineLinearRegression(random_state=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="gap needs a stream"):
        done.gap()


def test_what_has_no_state_is_refused():
    with pytest.raises(NotFittedError):
        OnlineLogisticRegression(classes=[0, 1]).state()
    drawn = OnlineLogisticRegression(
        classes=["no", "yes"], random_state=np.random.RandomState(0)
    ).partial_fit(X, WORDS)
    with pytest.raises(ValueError, match="random_state"):
        drawn.state()
    state = OnlineLinearRegression().partial_fit(X, X[:, 0]).state()
    with pytest.raises(ValueError, match="must be a state of OnlineLogisticRegression"):
        OnlineLogisticRegression.from_state(state)
    with pytest.raises(ValueError, match="version"):
        OnlineLinearRegression.from_state(state | {"version": 99})


def test_the_river_twins_have_states_too(tmp_path):
    pytest.importorskip("river")
    from reticent.estimators import river

    def rows(model, first, last, classifier):
        for row, word, number in zip(
            X[first:last], WORDS[first:last], X[first:last, 0], strict=True
        ):
            record = dict(zip("abc", row.tolist(), strict=True))
            model.learn_one(record, word if classifier else float(number))

    for classifier, make in (
        (True, lambda: river.OnlineLogisticRegression(classes=("no", "yes"), seed=1, dimension=8)),
        (False, lambda: river.OnlineLinearRegression(features=["a", "b", "c"], seed=1)),
    ):
        model = make()
        with pytest.raises(ValueError, match="learnt nothing yet"):
            model.state()
        rows(model, 0, 50, classifier)
        path = tmp_path / type(model).__name__
        reticent.save_state(model.state(), path)
        twin = type(model).from_state(reticent.load_state(path))
        record = {"a": 0.3, "b": -0.2}
        assert twin.predict_one(record) == model.predict_one(record)
        rows(twin, 50, 100, classifier)
        with pytest.raises(ForkError):
            rows(model, 50, 51, classifier)
        calm = make()
        rows(calm, 0, 100, classifier)
        assert twin.predict_one(record) == calm.predict_one(record)
        assert twin.guarantee == calm.guarantee
