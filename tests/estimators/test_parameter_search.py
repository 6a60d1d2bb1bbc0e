"""PrivateSearchCV: charged once and first, exact about its random number of fits, and silent about the losers."""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import reticent
from reticent import PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from reticent.erm.solver import is_rehearsal
from reticent.estimators import parameter_search as module
from reticent.estimators import parameters
from reticent.estimators.first_bounds import NothingFound
from reticent.estimators.mixins import lazily
from reticent.estimators.private import price
from reticent.noise import Source
from reticent.privacy import Budget, BudgetExceeded, Guarantee, Ledger, PrivacyLeakWarning
from reticent.privacy.curves import epsilon_from

GRID = {"regularizer": [1.0, 10.0, 1000.0]}


def table(rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, 3)) / math.sqrt(3)
    return X, (X @ [1.0, -2.0, 0.5] + 0.1 > 0).astype(int)


def logistic(**more) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0, **more)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize(("delta", "scaling"), [(1e-6, "auto"), (1e-6, "none"), (0.0, "auto")])
def test_one_entry_within_the_budget(delta: float, scaling: str, neighbours: str) -> None:
    X, y = table()
    budget = Budget(1.0, delta, neighbours)
    search = PrivateSearchCV(logistic(scaling=scaling), GRID, 1.0, delta, neighbours=neighbours, verbose=0,
                             random_state=0)  # fmt: skip
    with Ledger(budget) as ledger:
        search.fit(X, y)
    assert len(ledger.entries) == 1
    assert search.guarantee_.meets(budget)
    assert search.guarantee_.epsilon(delta) > 0.998
    assert (
        Guarantee.from_dict(json.loads(json.dumps(search.guarantee_.to_dict())))
        == search.guarantee_
    )
    assert search.score(X, y) > 0.8
    assert search.best_params_ in [{"regularizer": value} for value in GRID["regularizer"]]
    assert search.best_estimator_.regularizer == search.best_params_["regularizer"]
    assert search.predict_proba(X).shape == (len(X), 2)
    assert not hasattr(search.best_estimator_, "clipped_")
    # who takes the winner away takes the promise of the whole search along: it was chosen by its score
    assert search.best_estimator_.guarantee_ == search.guarantee_
    copy = pickle.loads(pickle.dumps(search))
    assert np.array_equal(copy.predict(X), search.predict(X))
    assert not hasattr(clone(search), "best_params_")


def test_what_would_cost_the_others_too_much_is_left_out() -> None:
    """With a small regularizer each fit shifts epsilon by a constant, which the choice multiplies."""
    X, y = table()
    dear = {"regularizer": [1.0, 10.0, 1000.0]}
    search = PrivateSearchCV(logistic(), dear, 1.0, fits=6, verbose=0)
    words = search.describe(X, y)
    assert "2 candidates" in words
    assert "{'regularizer': 1.0}" in words
    without = PrivateSearchCV(logistic(), {"regularizer": [10.0, 1000.0]}, 1.0, fits=6, verbose=0)
    assert without.describe(X, y) == words.split("; left out")[0]
    # what no fit would take is named with its reason, and is no candidate
    wrong = PrivateSearchCV(logistic(), {"influence": [0.5, 7.0]}, 1.0, fits=6, verbose=0)
    words = wrong.describe(X, y)
    assert "1 candidate," in words
    assert (
        "left out: {'influence': 7.0} (influence must be a finite number in [0.5, 1], got 7.0)"
        in words
    )
    # where all are alike, none is
    alike = PrivateSearchCV(logistic(scaling="none"), {"regularizer": [1.0, 1.1]}, 1.0, verbose=0)
    assert "left out" not in alike.describe(X, y)


def test_dp_accounting_of_a_search() -> None:
    """Sufficient statistics and scores are Gaussian, so the whole search is an event that it knows."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting import dp_event, rdp

    X, y = table()
    model = PrivateLinearRegression(feature_norm=1.0, label_bounds=(-1, 1))
    grid = {"solver": ["sufficient-statistics"], "fit_intercept": [True, False]}
    search = PrivateSearchCV(model, grid, 1.0, fits=5, verbose=0)
    made = search._price(*search._asked(), X, y)
    squares = max(curve.gdp**2 for curve in made.costs.values()) + made.scale**-2
    accountant = rdp.RdpAccountant(1.0 + np.geomspace(0.01, 300.0, 400))
    base = accounting.GaussianDpEvent(1.0 / math.sqrt(squares))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(base, 5.0, 1.0))
    theirs = accountant.get_epsilon(1e-6)
    curve = made.guarantee.releases[0].curve
    # by divergences they agree; profiles are tighter
    assert epsilon_from(curve.rdp, 1e-6) == pytest.approx(theirs, rel=0.03)
    assert 0.998 < made.guarantee.epsilon(1e-6) <= 1.0 < theirs


def test_regression_and_private_bounds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal([100.0, -3.0], [20.0, 0.1], (20_000, 2))
    y = 5.0 * X[:, 0] + rng.normal(0, 10.0, 20_000)
    model = PrivateLinearRegression(feature_norm="private", label_bounds="private")
    search = PrivateSearchCV(model, {"solver": ["sufficient-statistics", "gradient-descent"]},
                             2.0, verbose=0, random_state=0).fit(X, y)  # fmt: skip
    assert search.guarantee_.meets(Budget(2.0, 1e-6))
    assert search.score(X, y) > 0.8


def test_charged_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(500)

    def never(*args: object) -> None:
        raise AssertionError("a run was made")

    monkeypatch.setattr(PrivateSearchCV, "_run", never)
    with Ledger(Budget(0.5, 1e-6)) as ledger, pytest.raises(BudgetExceeded):
        PrivateSearchCV(logistic(), GRID, 1.0, verbose=0).fit(X, y)
    assert ledger.entries == ()


def test_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = table(500)
    search = PrivateSearchCV(logistic(), GRID, 1.0, fits=4, random_state=0)
    words = search.describe(X, y)
    assert "4 fits expected" in words
    assert capsys.readouterr().err == ""
    search.fit(X, y)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("own", "law"), [(7.0, [1 / 3, 1 / 3, 1 / 3]), (100.0, [1 / 4, 1 / 2, 1 / 4])]
)
def test_the_number_of_fits_is_geometric_and_the_law_of_candidates(
    own: float, law: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chi-squared tests, each with a false-alarm probability of 1e-7. Own settings are tried in every other run."""
    X, y = table(50)
    grid = {"regularizer": [50.0, 100.0, 1000.0]}
    search = PrivateSearchCV(
        logistic(regularizer=own), grid, 1.0, fits=3, verbose=0, random_state=0
    )
    budget, candidates, mean = search._asked()
    made = search._price(budget, candidates, mean, X, y)
    assert list(made.costs) == [0, 1, 2]
    assert made.own == (1 if own == 100.0 else None)
    drawn: list[int] = []

    def noted(self: PrivateSearchCV, candidate: dict[str, float], *rest: object) -> None:
        drawn.append(grid["regularizer"].index(candidate["regularizer"]))
        raise NothingFound("feature_norm")

    monkeypatch.setattr(PrivateSearchCV, "_candidate", noted)
    source, lengths = Source(0), []
    for _ in range(4000):
        before = len(drawn)
        assert search._run(made, candidates, mean, X, y, source) is None  # every fit failed
        lengths.append(len(drawn) - before)
    counts = Counter(lengths)
    expected = [4000 / 3 * (2 / 3) ** (k - 1) for k in range(1, 9)]
    seen = [counts[k] for k in range(1, 9)]
    expected.append(4000 - sum(expected))
    seen.append(4000 - sum(seen))
    assert sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True)) < chi2.isf(1e-7, 8)
    picks = Counter(drawn)
    expected = [len(drawn) * share for share in law]
    assert sum((picks[k] - e) ** 2 / e for k, e in enumerate(expected)) < chi2.isf(1e-7, 2)
    assert max(lengths) > 15  # never cut off


def fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """Fits with this regularizer fail, after they were charged."""
    honest = PrivateLogisticRegression.fit

    def fit(self: PrivateLogisticRegression, *args: object, **more: object) -> object:
        if self.regularizer == number and not is_rehearsal():
            raise error
        return honest(self, *args, **more)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", fit)


def test_bounds_that_are_not_found_are_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    fails_with(NothingFound("feature_norm"), monkeypatch, 10.0)
    search = PrivateSearchCV(logistic(), GRID, 1.0, fits=40, verbose=0, random_state=5).fit(X, y)
    assert search.best_params_["regularizer"] == 1000.0
    with pytest.raises(RuntimeError, match="no fit of the search found the bounds"):
        PrivateSearchCV(logistic(), {"regularizer": [10.0]}, verbose=0, random_state=0).fit(X, y)
    # one that no budget of a run allows is never run, and costs nothing
    grid = {"regularizer": [1e-9, 1000.0]}
    found = PrivateSearchCV(logistic(), grid, 1.0, fits=40, verbose=0, random_state=1).fit(X, y)
    assert found.best_params_["regularizer"] == 1000.0


@pytest.mark.parametrize(
    "error", [ArithmeticError("the minimiser could not be certified"), MemoryError()]
)
def test_a_failure_that_may_depend_on_a_record_never_chooses_the_winner(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made the candidate lose, with certainty, on tables with one record more than others."""
    X, y = table(300)
    fails_with(error, monkeypatch, 10.0)
    search = PrivateSearchCV(logistic(), GRID, 1.0, fits=40, verbose=0, random_state=5)
    with (
        Ledger(Budget(1.0, 1e-6)) as ledger,
        pytest.raises(RuntimeError, match=r"failed with .* the budget was spent") as said,
    ):
        search.fit(X, y)
    assert said.value.__cause__ is error
    assert len(ledger.entries) == 1
    assert not hasattr(search, "best_params_")


def test_scores_move_by_one() -> None:
    """The sum behind a score, for tables that differ in one record: blanked ones are left out."""
    X, y = table(300)
    model = logistic(random_state=0).fit(X, y)
    search = PrivateSearchCV(logistic(), GRID)
    whole = search._sum_of_scores(model, X, y)
    rng = np.random.default_rng(0)
    values = rng.uniform(-2, 2, 300)
    line = PrivateLinearRegression(label_bounds=(-1, 1), feature_norm=1.0, random_state=0).fit(
        X, values
    )
    regression = PrivateSearchCV(
        PrivateLinearRegression(label_bounds=(-1, 1), feature_norm=1.0), {}
    )
    total = regression._sum_of_scores(line, X, values)
    for k in range(300):
        rest = np.arange(300) != k
        assert 0 <= whole - search._sum_of_scores(model, X[rest], y[rest]) <= 1
        assert 0 <= total - regression._sum_of_scores(line, X[rest], values[rest]) <= 1
    assert (total * 2.0**20) % 1 == 0  # exact


def test_a_rehearsal_spends_and_fits_nothing() -> None:
    X, y = table(500)
    model = logistic()
    with Ledger(Budget(0.1, 1e-6)) as ledger:
        promised = price(model, X, y)
    assert ledger.entries == ()
    assert not hasattr(model, "coef_")
    assert model.fit(X, y).guarantee_.curve == promised.curve
    # and it depends on the table's shape only
    assert price(logistic(), np.zeros_like(X), np.zeros_like(y)).curve == promised.curve
    with pytest.raises(TypeError, match="in advance"):
        price(LogisticRegression(), X, y)


@pytest.mark.parametrize("scaling", ["auto", "none"])
def test_a_price_has_the_caveats_of_the_fit(scaling: str) -> None:
    X, y = table(500)
    with pytest.warns(PrivacyLeakWarning):
        made = price(PrivateLogisticRegression(scaling=scaling), X, y)
    assert any("classes" in line for line in made.caveats)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrivateSearchCV(LogisticRegression(), {}), "estimator"),
        (lambda: PrivateSearchCV(logistic(), {"epsilon": [1.0]}), "epsilon"),
        (lambda: PrivateSearchCV(logistic(), {"depth": [1.0]}), "depth"),
        (lambda: PrivateSearchCV(logistic(), {"verbose": [0, 1]}), "grid has the key 'verbose'"),
        (lambda: PrivateSearchCV(logistic(), 3), "grid"),
        (lambda: PrivateSearchCV(logistic(), []), "at least one candidate"),
        (lambda: PrivateSearchCV(logistic(), GRID, fits=1.0), "fits"),
        (lambda: PrivateSearchCV(logistic(), GRID, epsilon=0.0), "epsilon"),
    ],
)
def test_refusals(make, message: str) -> None:
    X, y = table(100)
    with Ledger(Budget(9.0, 1e-6)) as ledger, pytest.raises((ValueError, TypeError), match=message):
        make().fit(X, y)
    assert ledger.entries == ()
    with pytest.raises(ValueError, match="NaN"):
        PrivateSearchCV(logistic(), GRID, verbose=0).fit(np.full_like(X, np.nan), y)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_and_retried(error: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was drawn is paid for; nothing of it is shown, an earlier winner stays, and a retry pays again."""
    X, y = table(300)
    search = PrivateSearchCV(
        logistic(scaling="none"), GRID, 1.0, fits=50, verbose=0, random_state=2
    )
    with Ledger(Budget(10.0, 1e-4)) as ledger:
        first = search.fit(X, y).best_estimator_.coef_
        honest, calls = PrivateLogisticRegression.fit, []

        def fails(self: PrivateLogisticRegression, *args: object, **more: object) -> object:
            if not is_rehearsal():
                calls.append(self)
                if len(calls) == 2:
                    raise error
            return honest(self, *args, **more)

        monkeypatch.setattr(PrivateLogisticRegression, "fit", fails)
        with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else RuntimeError):
            search.fit(X, y)
        assert np.array_equal(search.best_estimator_.coef_, first)
        assert len(ledger.entries) == 2
        search.fit(X, y)
        assert len(ledger.entries) == 3


def test_the_warning_about_grid_search_names_it() -> None:
    from reticent.privacy import ledger

    monkey = pytest.MonkeyPatch()
    monkey.setattr(ledger, "_warned", False)
    with pytest.warns(reticent.RepeatedFitWarning, match="PrivateSearchCV") as caught:
        GridSearchCV(logistic(), {"influence": [0.5, 1.0]}, cv=2).fit(*table(100))
    monkey.undo()
    said = [warning for warning in caught if warning.category is reticent.RepeatedFitWarning]
    assert [warning.filename for warning in said] == [__file__]  # the user's line, and once


def test_below_is_uniform() -> None:
    """Chi-squared with a false-alarm probability of 1e-7."""
    source = Source(0)
    counts = np.bincount([module.below(source, 7) for _ in range(7000)], minlength=7)
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < chi2.isf(1e-7, 6)


def test_persons() -> None:
    """Every person's records share one score, and the promise is about persons."""
    X, _ = table()
    y = X @ [0.5, -0.4, 0.1]
    groups = np.random.default_rng(1).integers(0, 1000, len(X))
    model = PrivateLinearRegression(feature_norm=1.0, label_bounds=(-1, 1))
    search = PrivateSearchCV(model, {"solver": ["sufficient-statistics"]}, 4.0, fits=2, verbose=0,
                             random_state=0)  # fmt: skip
    search.fit(X, y, groups=groups)
    assert search.guarantee_.unit == "person"
    assert search.guarantee_.epsilon(1e-6) <= 4.0
    assert 0.0 < search.best_score_ < 1.2
    persons = module.Groups.of(groups, len(X), None)
    whole = search._sum_of_scores(search.best_estimator_, X, y, persons)
    assert whole <= persons.count
    for person in range(20):
        wrong = np.where(groups == person, -y, y)
        other = search._sum_of_scores(search.best_estimator_, X, wrong, persons)
        assert abs(whole - other) <= 1.0


@pytest.mark.parametrize(("share", "mean"), [(1.0, 1.5), (0.5, 4.0), (1 / 9, 18.0), (1 / 30, 1.01)])
def test_how_likely_a_candidate_is_to_be_tried(share: float, mean: float) -> None:
    """By the law of the number of runs, term by term; what is left out of the sum is below 1e-15."""
    runs = np.arange(1, 4000)
    law = (1.0 - 1.0 / mean) ** (runs - 1) / mean
    found = float(np.sum(law * (1.0 - (1.0 - share) ** runs)))
    assert module.tried(share, mean) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("own", "grid", "number"),
    [
        ({}, {"influence": [0.75, 0.5], "regularizer": [30.0, None]}, 3),
        ({}, {"influence": [0.75, 0.5], "regularizer": [30.0]}, None),
        ({"feature_norm": "private"}, {"feature_norm": [1.0, "private"]}, 1),
        ({"regularizer": 10}, {"regularizer": [1.0, 10.0, 10]}, 1),
        ({"class_weight": {0: 1.0, 1: 2.0}}, {"class_weight": [None, {1: 2.0, 0: 1.0}]}, 1),
    ],
)
def test_own_settings_are_known_among_the_candidates(own, grid, number) -> None:
    search = PrivateSearchCV(clone(logistic()).set_params(**own), grid)
    assert search._own(search._asked()[1]) == number


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_own_settings_lose_only_to_what_is_clearly_better(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winner has the largest noisy score, own settings with two standard deviations of the noise on top; the score
    that is shown has no such thing on it."""
    X, y = table(600)
    grid = {"regularizer": [100.0, 500.0, 1000.0]}
    search = PrivateSearchCV(logistic(regularizer=500.0), grid, 1.0, delta, fits=12, verbose=0,
                             random_state=0)  # fmt: skip
    budget, candidates, mean = search._asked()
    made = search._price(budget, candidates, mean, X, y)
    assert made.own == 1
    deviation = made.scale * (math.sqrt(2.0) if delta == 0.0 else 1.0)
    scores: list[tuple[int, float]] = []

    def noted(self, candidate: dict[str, float], *rest: object):
        scores.append((candidates.index(candidate), math.nan))
        return honest(self, candidate, *rest)

    def noisy(self, total: float, source: Source) -> float:
        found = drawn(self, total, source)
        scores[-1] = (scores[-1][0], found)
        return found

    honest, drawn = PrivateSearchCV._candidate, module._Price.score
    monkeypatch.setattr(PrivateSearchCV, "_candidate", noted)
    monkeypatch.setattr(module._Price, "score", noisy)
    source, beaten = Source(0), 0
    for _ in range(20):
        scores.clear()
        score, number, _ = search._run(made, candidates, mean, X, y, source)
        ranks = [value + 2.0 * deviation * (k == 1) for k, value in scores]
        place = int(np.argmax(ranks))
        assert (number, score) == (scores[place][0], scores[place][1] / len(y))
        beaten += place != int(np.argmax([value for _, value in scores]))
    assert beaten > 0  # the margin decided at least once


def test_dear_own_settings_are_left_out() -> None:
    """They count as much as all the others together, and no more."""
    X, y = table()
    grid = {"regularizer": [1.0, 10.0, 1000.0]}
    words = PrivateSearchCV(logistic(regularizer=1.0), grid, fits=6).describe(X, y)
    assert "{'regularizer': 1.0}" in words.split("left out")[1]
    assert "a candidate is tried with probability 0.86" in words
    words = PrivateSearchCV(logistic(regularizer=10.0), grid, fits=6).describe(X, y)
    assert "own settings are tried with probability 0.86, each other candidate with 0.86" in words


def test_the_list_of_classes_is_no_candidate() -> None:
    """One label would say whether [0, 1] takes part, and how much all fits cost."""
    X, y = table(300)
    with pytest.raises(ValueError, match="grid has the key 'classes'"):
        PrivateSearchCV(logistic(), {"classes": [[0, 1], [0, 1, 2]]}).describe(X, y)


def test_fits_of_a_search_show_no_progress(capsys) -> None:
    """A line for each would tell how many there are, which must stay secret."""
    X, y = table(300)
    search = PrivateSearchCV(logistic(verbose=1), GRID, 8.0, verbose=0, fits=20, random_state=0)
    search.fit(X, y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["files", "dask", "device"])
@pytest.mark.parametrize("regression", [False, True])
def test_a_table_that_is_not_in_memory(kind: str, regression: bool, tmp_path: Path) -> None:
    """Labels in files could not be scored: the whole budget was spent, and every fit counted as failed."""
    X, y = table(2000)
    if regression:
        y = X[:, 0].round(2)
    there: tuple[object, object]
    if kind == "files":
        np.save(tmp_path / "rows.npy", X)
        np.save(tmp_path / "labels.npy", y)
        there = reticent.tables.open(tmp_path / "rows.npy", target=tmp_path / "labels.npy")
    elif kind == "dask":
        arrays = pytest.importorskip("dask.array")
        there = arrays.from_array(X, chunks=(500, 3)), arrays.from_array(y, chunks=500)
    else:
        library = pytest.importorskip("array_api_strict")
        there = library.asarray(X), library.asarray(y)
    model = logistic()
    if regression:
        model = PrivateLinearRegression(feature_norm=1.0, label_bounds=(-1, 1))
    grid = {"fit_intercept": [True, False]}
    model.set_params(solver="gradient-descent")
    search = PrivateSearchCV(model, grid, 4.0, verbose=0, random_state=0)
    assert "2 candidates" in search.describe(*there)
    search.fit(*there)
    assert search.guarantee_.meets(Budget(4.0, 1e-6))
    fitted, other = search.best_estimator_, PrivateSearchCV(model, grid)
    assert other._sum_of_scores(fitted, *lazily(*there)) == other._sum_of_scores(fitted, X, y)


def test_names_and_classes_are_those_of_the_last_fit() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = table(300)
    search = PrivateSearchCV(logistic(), {"regularizer": [10.0]}, verbose=0, random_state=0)
    search.fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    assert search.feature_names_in_.tolist() == ["a", "b", "c"]
    assert search.classes_.tolist() == [0, 1]
    search.estimator = PrivateLinearRegression(feature_norm=1.0, label_bounds=(0, 1))
    search.set_params(grid={"fit_intercept": [True]}).fit(X, y)
    assert not hasattr(search, "feature_names_in_")
    assert not hasattr(search, "classes_")


def test_numbers_in_text_are_labels_of_a_regression() -> None:
    """A fit reads them as numbers, and so must its score."""
    X, _ = table(500)
    y = X[:, 0].round(2)
    model = PrivateLinearRegression(feature_norm=1.0, label_bounds=(-1, 1), random_state=0)
    search = PrivateSearchCV(
        model, {"solver": ["sufficient-statistics"]}, verbose=0, random_state=0
    )
    assert search.fit(X, y.astype(str)).best_score_ == search.fit(X, y).best_score_


def test_a_search_warns_as_a_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fits warned unheard, and so no later fit warned of a default."""
    X, y = table(300)
    model, grid = PrivateLogisticRegression(), {"regularizer": [5.0, 50.0]}
    heard = []
    for fit in (model.fit, PrivateSearchCV(model, grid, verbose=0, random_state=0).fit):
        monkeypatch.setattr(parameters, "_said", set())
        with pytest.warns() as caught:
            fit(X, y)
        heard.append(sorted((w.category.__name__, str(w.message), w.filename) for w in caught))
    assert heard[0] == heard[1]
    assert [name for name, *_ in heard[0]] == ["DefaultBoundWarning", "PrivacyLeakWarning"]
    assert {where for *_, where in heard[0]} == {__file__}
