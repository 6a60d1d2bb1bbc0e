"""What the online estimators share: the library's own checks, privacy, refusals, twins."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import reticent
from reticent.estimators import OnlineLinearRegression, OnlineLogisticRegression, parameters
from reticent.privacy import BudgetExceeded, ForkError

FACES = (OnlineLogisticRegression, OnlineLinearRegression)


@pytest.mark.filterwarnings("ignore::reticent.PrivacyLeakWarning")
@parametrize_with_checks(
    [
        OnlineLogisticRegression(random_state=0),
        OnlineLogisticRegression(random_state=0, window=64),
        OnlineLinearRegression(random_state=0),
        OnlineLinearRegression(random_state=0, learner="quadratic-leader"),
        OnlineLinearRegression(random_state=0, delta=0.0),
        OnlineLogisticRegression(),
        OnlineLinearRegression(),
    ]
)
def test_scikit_learn(estimator, check):
    """Seeded and not: scikit-learn seeds what it compares, so not even reproducibility fails."""
    check(estimator)


def test_pieces_are_the_same_stream(several):
    X, y = several
    one = OnlineLogisticRegression(classes=[0, 10, 20, 30], horizon=600, random_state=5)
    two = clone(one)
    one.partial_fit(X[:600], y[:600])
    for start in range(0, 600, 37):
        two.partial_fit(X[start : min(600, start + 37)], y[start : min(600, start + 37)])
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)


def test_no_seed_is_secure_and_says_so(binary):
    X, y = binary
    models = [OnlineLogisticRegression(classes=["no", "yes"]).fit(X, y) for _ in range(2)]
    assert not np.array_equal(models[0].coef_, models[1].coef_)
    assert not models[0].guarantee_.seeded
    assert models[0].guarantee_.lattice
    for seed in (3, np.random.RandomState(3), np.int64(3)):
        model = OnlineLogisticRegression(classes=["no", "yes"], random_state=seed).fit(X, y)
        assert model.guarantee_.seeded
        assert "seeded" in str(model.guarantee_)


def test_budget_reaches_the_guarantee(binary):
    X, y = binary
    for fields in (
        {"epsilon": 0.5, "delta": 1e-5},
        {"epsilon": 2.0, "delta": 0.0},
        {"neighbours": "replace"},
        {"window": 32},
        {"window": 32, "delta": 0.0},
    ):
        model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0, **fields)
        model.partial_fit(X[:100], y[:100])
        asked = reticent.Budget(**({"epsilon": 1.0, "delta": 1e-6} | fields))
        assert model.guarantee_.meets(asked)
        assert not model.guarantee_.meets(asked.with_(epsilon=0.98 * asked.epsilon))


def test_replacing_has_twice_the_noise_of_blanking():
    """The distribution of what is published from no information at all: gradients of null features."""
    spread = {}
    for neighbours in ("zero-out", "replace"):
        model = OnlineLogisticRegression(
            classes=[0, 1], neighbours=neighbours, random_state=1, fit_intercept=False,
            coefficient_norm=1e6, ridge=1e-3,
        )  # fmt: skip
        model.partial_fit(np.zeros((400, 50)), np.zeros(400, int))
        learner = model._stream._learner
        spread[neighbours] = learner.total.error(100)
    assert spread["replace"] == pytest.approx(2 * spread["zero-out"], rel=1e-3)


def test_a_ledger_is_charged_once_for_a_stream(several):
    X, y = several
    with reticent.Ledger(reticent.Budget(1.2, 1e-6)) as ledger:
        model = OnlineLogisticRegression(classes=[0, 10, 20, 30], random_state=0)
        for start in range(0, 300, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100])
        assert len(ledger.entries) == 1
        before = model.coef_.copy(), model.n_features_in_
        with pytest.raises(BudgetExceeded):
            model.fit(X[:, :2], y)
        np.testing.assert_array_equal(model.coef_, before[0])
        assert model.n_features_in_ == before[1]
        model.partial_fit(X[300:310], y[300:310])
        assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X, y: (np.where(np.arange(len(X))[:, None] == 3, np.nan, X), y),
        lambda X, y: (np.where(np.arange(len(X))[:, None] == 3, np.inf, X), y),
        lambda X, y: (X[:, :2], y),
        lambda X, y: (X, y[:-1]),
        lambda X, y: (X, np.where(np.arange(len(y)) == 3, "maybe", y)),
        lambda X, y: (X, np.arange(len(y))),
        lambda X, y: (np.array([["a"] * 4] * len(y)), y),
        lambda X, y: (X[:0], y[:0]),
    ],
)
def test_bad_records_change_nothing(binary, spoil):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0)
    clean = clone(model).partial_fit(X[:100], y[:100]).partial_fit(X[100:200], y[100:200])
    model.partial_fit(X[:100], y[:100])
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(*spoil(X[100:110], y[100:110]))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    model.partial_fit(X[100:200], y[100:200])
    np.testing.assert_array_equal(model.coef_, clean.coef_)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0), ("epsilon", "1"), ("delta", 1.0), ("neighbours", "add"),
        ("feature_norm", 0.0), ("fit_intercept", "yes"), ("intercept_scaling", 0.0),
        ("ridge", -1.0), ("influence", 0.0), ("influence", 1.5), ("coefficient_norm", np.inf),
        ("horizon", 0), ("window", 1.5),
        ("random_state", -1), ("random_state", "seed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("Face", FACES)
def test_parameters_are_checked_by_name(Face, name, value, regression):
    X, y = regression
    model = Face(**{name: value})
    assert getattr(model, name) is value
    if Face is OnlineLogisticRegression:
        model.set_params(classes=[0, 1])
    with pytest.raises((ValueError, TypeError), match="seed" if value == "seed" else name):
        model.fit(X, 1 * (y > 20))
    assert not hasattr(model, "coef_")


def test_parameters_of_one_face(regression):
    X, y = regression
    for bounds in ((1, 1), (2, 1), 3, (0, np.inf), (0, 1, 2), ("a", "b")):
        with pytest.raises((ValueError, TypeError), match="label_bounds"):
            OnlineLinearRegression(label_bounds=bounds).fit(X, y)
    with pytest.raises(ValueError, match="learner"):
        OnlineLinearRegression(learner="oracle").fit(X, y)
    for classes in ([1], "ab", [1, 1], 5):
        with pytest.raises((ValueError, TypeError), match="classes"):
            OnlineLogisticRegression(classes=classes).fit(X, 1 * (y > 20))


def test_fitted_table_holds_no_secret_and_can_be_learnt_on(binary):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0).fit(X[:3000], y[:3000])
    assert model._stream is None
    twin = pickle.loads(pickle.dumps(model))
    assert not hasattr(twin, "clipped_")
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    before = model.coef_.copy()
    model.partial_fit(X[3000:3001], y[3000:3001])
    assert np.linalg.norm(model.coef_ - before) < 2.0  # it starts from what was released
    model.partial_fit(X[3001:], y[3001:])
    assert model.n_samples_seen_ == 4000
    assert model.score(X, y) > 0.8
    assert model.guarantee_.meets(reticent.Budget(1.0, 1e-6))
    assert "disjoint records" in model.guarantee_.explain()


def test_an_explicit_horizon_is_an_end(binary):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], horizon=100, random_state=0)
    model.fit(X[:60], y[:60]).partial_fit(X[60:100], y[60:100])
    for _ in range(2):
        with pytest.raises(ValueError, match="horizon"):
            model.partial_fit(X[100:101], y[100:101])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_twins_predict_and_the_first_to_learn_wins(binary, duplicate):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0)
    whole = clone(model).partial_fit(X[:100], y[:100]).partial_fit(X[100:200], y[100:200])
    model.partial_fit(X[:100], y[:100])
    first, second = duplicate(model), duplicate(model)
    first.partial_fit(X[100:200], y[100:200])
    np.testing.assert_array_equal(first.coef_, whole.coef_)
    for late in (model, second):
        with pytest.raises(ForkError):
            late.partial_fit(X[100:200], y[100:200])
        assert late.n_samples_seen_ == 100
        late.predict(X)
    stale = pickle.dumps(second)
    assert pickle.loads(stale).predict(X).shape == (4000,)


def test_clone_is_unfitted_and_starts_anew(binary):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"]).partial_fit(X, y)
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params() == model.get_params()


def test_a_released_copy_holds_what_the_guarantee_covers(binary):
    X, y = binary
    model = OnlineLogisticRegression(classes=["no", "yes"], random_state=0)
    model.partial_fit(X[:500], y[:500])
    copy_ = model.release()
    np.testing.assert_array_equal(copy_.predict_proba(X), model.predict_proba(X))
    assert copy_._stream is None
    assert not hasattr(copy_, "clipped_")
    assert copy_.guarantee_ == model.guarantee_
    model.partial_fit(X[500:600], y[500:600])  # the original goes on
    again = pickle.loads(pickle.dumps(copy_))
    np.testing.assert_array_equal(again.predict(X), copy_.predict(X))


@pytest.mark.parametrize("Face", FACES)
def test_sparse_is_the_same_as_dense(Face, several):
    X, y = several
    X = np.where(np.abs(X) < 0.5, 0.0, X)[:5000]
    labels = {"classes": [0, 10, 20, 30]} if Face is FACES[0] else {"label_bounds": (0, 30)}
    dense = Face(random_state=0, **labels).fit(X, y[:5000])
    sparse = Face(random_state=0, **labels).fit(sp.csr_matrix(X), y[:5000])
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X[:50])), dense.predict(X[:50]))


def test_parameters_that_change_after_a_fit_do_not_change_predictions(regression):
    X, y = regression
    model = OnlineLinearRegression(label_bounds=(10, 30), random_state=0).fit(X, y)
    before = model.predict(X)
    model.set_params(feature_norm=0.01, label_bounds=(0, 1))
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("kind", [OnlineLogisticRegression, OnlineLinearRegression])
def test_streams_without_an_estimator_have_its_defaults(kind):
    own = {"classes", "label_bounds", "random_state"}
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in own
    }
    assert defaults == parameters.ONLINE
