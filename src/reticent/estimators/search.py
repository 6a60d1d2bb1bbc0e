"""Parameters chosen privately: the best of a random number of private fits, by a private score.

Each run draws a candidate, fits it on all records and scores it on them with noise; the number of runs is geometric.
Only the winner is shown. The price is that of one run, its score included, at about ``delta / (expected fits)``, and
a little for choosing (`reticent.privacy.BestOf`): much less than the sum over all candidates that a grid search
costs. Proofs, and when not to tune at all: docs/algorithms/private-search.md.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from reticent import checks
from reticent.erm.groups import Groups
from reticent.estimators import parameters
from reticent.estimators.beside import price
from reticent.estimators.bounds import counted
from reticent.estimators.mixins import Charged
from reticent.estimators.private import PrivateEstimator
from reticent.estimators.units import to_unit
from reticent.noise import Source, release
from reticent.privacy import (
    BestOf,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    Release,
    charge,
    compose,
    gaussian,
    parallel,
    uncharged,
)
from reticent.privacy.curves import Curve

SCORE_SHARE = 0.1
"""Of one run's budget, for its score: of mu squared, or of epsilon where delta = 0."""
MARGIN = 2.0
"""Standard deviations of its noise by which a score must beat that of the estimator's own settings."""
_STEPS = 2.0**-20
_TRIES = 40
_USED = 0.998
"""Of the budget a search uses at least this share."""


@dataclass(frozen=True)
class _Price:
    """What a search will cost; public."""

    run: Budget  # of one run, its score included
    fit: Budget  # of its fit
    scale: float  # of the noise on its score
    costs: dict[int, Curve]  # of the fits, by the numbers of the candidates that take part
    guarantee: Guarantee
    own: (
        int | None
    )  # the number of the candidate that is the estimator as it was given, if it takes part
    left_out: tuple[tuple[dict[str, Any], str], ...] = ()  # candidates that do not, and why

    def score(self, total: float, source: Source) -> float:
        """A sum of scores with noise."""
        noise = "laplace" if self.run.delta == 0.0 else "gaussian"
        return float(release.noisy(np.array([total]), self.scale, source, noise=noise)[0])

    @property
    def others(self) -> list[int]:
        """The numbers of the candidates that are not the estimator's own settings."""
        return [number for number in self.costs if number != self.own]

    @property
    def margin(self) -> float:
        """By which a sum of scores must beat that of the estimator's own settings."""
        return MARGIN * self.scale * (math.sqrt(2.0) if self.run.delta == 0.0 else 1.0)

    def draw(self, source: Source) -> int:
        """A candidate's number: the estimator's own settings in every other run on average, else any alike."""
        others = self.others
        if self.own is None or not others:
            return list(self.costs)[below(source, len(self.costs))]
        place = below(source, 2 * len(others))
        return others[place] if place < len(others) else self.own


def tried(share: float, mean: float) -> float:
    """The probability that a candidate is drawn at all, in a geometric number of runs of that mean.

    Parameters
    ----------
    share : float
        The probability that one run draws it.
    mean : float
        Of the number of runs.

    Examples
    --------
    >>> tried(1.0, 7.0), round(tried(1 / 9, 18.0), 3), round(tried(0.5, 18.0), 3)
    (1.0, 0.692, 0.947)
    """
    missed = 1.0 - share
    return 1.0 - missed / (mean - (mean - 1.0) * missed)


class PrivateSearchCV(MetaEstimatorMixin, Charged):
    """Choose parameters of a private estimator, within one budget.

    Parameters
    ----------
    estimator : estimator
        One of `PrivateLogisticRegression`, `PrivateLinearSVC`, `PrivateLinearRegression` and
        `PrivateLasso`. Its ``epsilon`` and ``delta`` are replaced by those of a run.
    grid : dict, or list of dicts
        Candidates, as in scikit-learn's ``ParameterGrid``. They must be written down without a look at
        the records. Those that would cost the others too much take no part; :meth:`describe` names them.
        Name the estimator's own settings among them: every other run on average then tries these, and
        another candidate wins only by a score that is clearly better, not by noise.
    epsilon : float
        Privacy parameter of the whole search, the winner's fit included.
    delta : float
        Privacy parameter of the whole search; 0 asks for pure privacy.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced between neighbouring tables.
    fits : float, optional
        Expected number of runs, above 1; by default twice the number of candidates. A run draws its
        candidate at random, with replacement. The number of runs is random, has no limit, and stays
        secret.
    verbose : int
        Whether to say on standard error, before anything is drawn, what the search costs and how many fits
        to expect.
    random_state : int, optional
        ``None`` is a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.

    Attributes
    ----------
    best_params_ : dict
        The winner's.
    best_estimator_ : estimator
        The winner itself, as it was fitted; nothing is fitted again. Its ``guarantee_`` is that of the whole
        search, since it was chosen by its score; its ``epsilon`` is that of one fit.
    best_score_ : float
        The winner's score with noise: the share of records classified correctly, or one minus the mean of
        squared errors, clipped, in units of the range of the labels. Above the truth, because it won.
    guarantee_ : reticent.Guarantee
        What is promised about all of these together.

    Notes
    -----
    There are no folds: a score on the records that were learnt from is biased by less than a private fit
    can remember, and folds would cost records or budget. How long a search takes depends on the secret
    number of runs; do not let strangers measure it.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5_000, 3)) / np.sqrt(3)
    >>> y = (X @ [1.0, -2.0, 0.5] + 0.1 > 0).astype(int)
    >>> model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0)
    >>> grid = {"regularizer": [0.5, 5.0, 50.0]}
    >>> search = reticent.PrivateSearchCV(model, grid, epsilon=1.0, verbose=0, random_state=0).fit(
    ...     X, y
    ... )
    >>> search.score(X, y) > 0.95, search.guarantee_.epsilon(1e-6) <= 1.0
    (True, True)
    """

    best_params_: dict[str, Any]
    best_estimator_: Any
    best_score_: float
    guarantee_: Guarantee

    def __init__(
        self,
        estimator: Any,
        grid: Any,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        neighbours: str = "zero-out",
        fits: float | None = None,
        verbose: int = 1,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.fits = fits
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Search. Each call spends the whole budget; it is charged before anything is drawn.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, p)
            Records.
        y : array of shape (n,)
            Their labels.
        groups : array, optional
            An id of its person for each record (whole numbers, text or bytes). All records of one person
            are then protected together, in the fits and in their scores, and the number of persons is public.
        """
        with self._all_or_nothing(), self._paying():
            budget, candidates, mean = self._asked()
            made = self._price(budget, candidates, mean, X, y, groups)
            persons = self._persons(y, groups)
            source = Source(parameters.CHECKS["seed"](self.random_state, "random_state"))
            if self.verbose:
                print(self._words(made, mean, _units(y, persons)), file=sys.stderr)
            charge(made.guarantee, "private search")
            best = uncharged(
                lambda: self._run(made, candidates, mean, X, y, source, groups, persons)
            )
            if best is None:
                raise RuntimeError(
                    "every fit of the search failed; try the estimator on a table that is not private. "
                    "The budget was spent"
                )
            self.best_score_, number, self.best_estimator_ = best
            self.best_params_ = candidates[number]
            self.guarantee_ = made.guarantee
            # that of its own fit does not cover that it was chosen
            self.best_estimator_.guarantee_ = made.guarantee
            if is_classifier(self.estimator):
                self.classes_ = self.best_estimator_.classes_
            self.n_features_in_ = self.best_estimator_.n_features_in_
            return self

    def describe(self, X: Any, y: Any, groups: Any = None) -> str:
        """What a search on such a table would cost, in words; nothing is spent, and only its shape matters.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, p)
            Records.
        y : array of shape (n,)
            Their labels.
        groups : array, optional
            An id of its person for each record, where persons are protected.
        """
        budget, candidates, mean = self._asked()
        made = self._price(budget, candidates, mean, X, y, groups)
        return self._words(made, mean, _units(y, self._persons(y, groups)))

    # What it costs --------------------------------------------------------------------------------

    def _asked(self) -> tuple[Budget, list[dict[str, Any]], float]:
        names = ("epsilon", "delta", "neighbours")
        values = parameters.checked({name: getattr(self, name) for name in names})
        if not isinstance(self.estimator, PrivateEstimator):
            raise TypeError(
                "estimator must be one of PrivateLogisticRegression, PrivateLinearSVC, "
                f"PrivateLinearRegression and PrivateLasso, got {self.estimator!r}; features that need "
                "scaling are what feature_norm='private' is for"
            )
        if not isinstance(self.grid, Mapping | list | tuple):
            raise TypeError(f"grid must be a dict of lists, or a list of such, got {self.grid!r}")
        candidates = list(ParameterGrid(self.grid))
        if not candidates:
            raise ValueError(f"grid must have at least one candidate, got {self.grid!r}")
        known = self.estimator.get_params(deep=False)
        # whether a candidate's classes hold all labels depends on single records
        fixed = {"epsilon", "delta", "neighbours", "random_state", "classes"}
        for name in {name for candidate in candidates for name in candidate}:
            if name not in known or name in fixed:
                raise ValueError(
                    f"grid names {name!r}; it may name parameters of the estimator other than "
                    f"{', '.join(sorted(fixed))}"
                )
        mean = 2.0 * len(candidates)
        if self.fits is not None:
            mean = checks.number(self.fits, "fits", low=1.0, open_low=True)
        # so that the probability to stop is a whole number of 2^-64, and the promise exact
        stop = min(max(1, round(2.0**64 / mean)), 2**64 - 1)
        return (
            Budget(values["epsilon"], values["delta"], values["neighbours"]),
            candidates,
            2.0**64 / stop,
        )

    def _persons(self, y: Any, groups: Any) -> Groups | None:
        if groups is None:
            return None
        return Groups.of(groups, len(np.asarray(y)), self.estimator.max_records)

    def _candidate(self, candidate: dict[str, Any], budget: Budget, seed: int | None) -> Any:
        model = clone(self.estimator).set_params(
            **candidate,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbours=budget.neighbours,
            random_state=seed,
            verbose=0,  # lines of progress would tell how many fits there are
        )
        return type(model)(**model.get_params(deep=False))  # a clone would remember a ledger

    def _price(
        self,
        budget: Budget,
        candidates: list[dict[str, Any]],
        mean: float,
        X: Any,
        y: Any,
        groups: Any = None,
    ) -> _Price:
        """The largest budget of a run with which the whole search stays within its own.

        Some candidates cost a search more than others of the same epsilon, above all those with little
        regularisation, and what the dearest costs all runs pay. So each is priced alone first, and those
        take part for which the sum of their fits' epsilons is largest, the estimator's own settings counting
        as much as all others together: public numbers decide.
        """
        own = self._own(candidates)
        weights = [1] * len(candidates)
        if own is not None:
            weights[own] = max(1, len(candidates) - 1)

        def largest(numbers: list[int], start: float) -> _Price:
            def at(epsilon: float) -> _Price:
                run = budget.with_(epsilon=epsilon)
                return self._at(
                    run, budget, {k: candidates[k] for k in numbers}, mean, X, y, groups
                )

            return _largest(at, budget, start)

        alone: dict[int, _Price] = {}
        refused: dict[int, ValueError] = {}
        start = 0.5 * budget.epsilon
        for number in range(len(candidates)):
            try:
                alone[number] = largest([number], start)
            except ValueError as error:  # such as a regularizer that is too small for this budget
                refused[number] = error
            else:
                start = alone[number].run.epsilon
        if not alone:
            raise refused[0]
        best = (0.0, 0.0, [0])
        for least in {made.run.epsilon for made in alone.values()}:
            kept = [k for k, made in alone.items() if made.run.epsilon >= least]
            best = max(best, (least * sum(weights[k] for k in kept), least, kept))
        _, least, kept = best
        made = alone[kept[0]] if len(kept) == 1 else largest(kept, least)
        left = tuple(
            (each, str(refused.get(k, "it would take more from the others than it adds")))
            for k, each in enumerate(candidates)
            if k not in made.costs
        )
        return replace(made, left_out=left, own=own if own in made.costs else None)

    def _own(self, candidates: list[dict[str, Any]]) -> int | None:
        """The number of the candidate that changes nothing of the estimator, if there is one."""
        known = self.estimator.get_params(deep=False)
        for number, candidate in enumerate(candidates):
            if all(np.array_equal(known[name], value) for name, value in candidate.items()):
                return number
        return None

    def _at(
        self,
        run: Budget,
        budget: Budget,
        candidates: dict[int, dict[str, Any]],
        mean: float,
        X: Any,
        y: Any,
        groups: Any,
    ) -> _Price:
        pure = run.delta == 0.0
        noise = "laplace" if pure else "gaussian"
        # a record is right or wrong, or its clipped error lies between 0 and 1: either way it moves a sum by 1;
        # and so does a person, whose records have shares that add up to 1 at most
        level = SCORE_SHARE * run.epsilon if pure else math.sqrt(SCORE_SHARE) * run.mu
        scale = release.scale_for(1.0, level, 1, noise)
        cost = release.widened(1.0, scale, 1, noise) / scale
        score: Curve = Laplace(cost) if pure else Gaussian(cost)
        if pure:
            rest = run.with_(epsilon=run.epsilon - cost)
        else:
            rest = run.with_(epsilon=gaussian.epsilon(run.delta, math.sqrt(run.mu**2 - cost**2)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = {
                number: price(self._candidate(candidate, rest, 0), X, y, groups)
                for number, candidate in candidates.items()
            }
        costs = {number: fit.curve for number, fit in fits.items()}
        together = parallel(*(compose([curve, score]) for curve in dict.fromkeys(costs.values())))
        item = Release(
            f"best of {len(costs)} candidate{'s' if len(costs) > 1 else ''}",
            BestOf(together, mean),
            None,
            "as in one fit, and on its score,",
            details=(
                f"a geometric number of fits, {mean:.4g} expected; each draws a candidate",
                f"one fit: epsilon = {rest.epsilon:.4g} at delta = {rest.delta:g}; its score: "
                f"{'Laplace' if pure else 'Gaussian'} noise of scale {scale:.4g} on a sum over records",
            ),
        )
        guarantee = Guarantee.of(
            budget,
            [item],
            seeded=self.random_state is not None,
            lattice=all(fit.lattice for fit in fits.values()),
            caveats=tuple(dict.fromkeys(words for fit in fits.values() for words in fit.caveats)),
            unit="record" if groups is None else "person",
        )
        return _Price(run, rest, scale, costs, guarantee, None)

    def _words(self, made: _Price, mean: float, count: int) -> str:
        cost = made.guarantee.summary
        left = ""
        if made.left_out:
            left = "; left out: " + "; ".join(f"{each} ({why})" for each, why in made.left_out)
        size, others = len(made.costs), len(made.others)
        if made.own is None or not others:
            chances = f"a candidate is tried with probability {tried(1.0 / size, mean):.2f}"
        else:
            chances = (
                f"the estimator's own settings are tried with probability {tried(0.5, mean):.2f}, each other "
                f"candidate with {tried(0.5 / others, mean):.2f}, and wins only by a score that is better by "
                f"{made.margin / count:.2g} with its noise"
            )
        return (
            f"private search: {size} candidate{'s' if size > 1 else ''}, {mean:.3g} fits expected, {cost} in "
            f"all; each fit has epsilon = {made.fit.epsilon:.3g}, {made.fit.epsilon / self.epsilon:.0%} of what "
            f"a single fit without a search would have; {chances}{left}"
        )

    # Running --------------------------------------------------------------------------------------

    def _run(
        self, made: _Price, candidates: list[dict[str, Any]], mean: float, X: Any, y: Any, source: Source,
        groups: Any = None, persons: Groups | None = None,
    ) -> tuple[float, int, Any] | None:  # fmt: skip
        """The best run: its score, its candidate's number, and its model. None if all failed."""
        stop = round(2.0**64 / mean)
        best = None
        while True:
            number = made.draw(source)
            seed = int(source.words(1)[0] >> np.uint64(33)) if source.seeded else None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = self._candidate(candidates[number], made.fit, seed)
                    model.fit(X, y, groups=groups)
                    total = self._sum_of_scores(model, X, y, persons)
            except Exception:  # a failed run counts as the worst there is, whatever it failed of
                model = None
            else:
                if model.guarantee_.curve != made.costs[number]:
                    raise RuntimeError(
                        "a fit cost something else than was charged for; this is a bug in reticent"
                    )
                score = made.score(total, source)
                rank = score + (made.margin if number == made.own else 0.0)
                # of runs that rank the same the first one stays: they are exchangeable
                if best is None or rank > best[0]:
                    best = (rank, score, number, model)
            if int(source.words(1)[0]) < stop:
                break
        if best is None:
            return None
        _, score, number, model = best
        return score / _units(y, persons), number, model.release()

    def _sum_of_scores(self, model: Any, X: Any, y: Any, persons: Groups | None = None) -> float:
        """A sum over records of numbers in [0, 1] that are multiples of 2^-20: exact in doubles."""
        predicted = model.predict(X)
        truth = column_or_1d(y)
        if is_classifier(self.estimator):
            return _weighed((predicted == truth).astype(np.float64), persons)
        low, high = model._bounds
        stated = self.estimator.get_params(deep=False)["label_bounds"]
        if not isinstance(stated, str):
            low, high = stated
        error = 0.5 * (
            to_unit(np.clip(truth, low, high), low, high) - to_unit(predicted, low, high)
        )
        kept = np.floor((1.0 - np.minimum(error * error, 1.0)) / _STEPS) * _STEPS
        return _weighed(np.nan_to_num(kept, nan=0.0), persons)

    # The winner -----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Predictions of the winner."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, by the winner."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> Any:
        """The winner's linear predictor."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or R squared, of the winner. A diagnostic: it reads the records it is given."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y, sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


def _largest(at: Callable[[float], _Price], budget: Budget, start: float) -> _Price:
    """The largest epsilon of a run with which the whole stays within the budget, and uses nearly all of it.

    A run that is too small is refused with a ValueError, which is raised where none is large enough.
    """
    aim = 0.5 * (1.0 + _USED) * budget.epsilon
    low, high = (0.0, 0.0), (math.inf, math.inf)  # epsilons of a run and of the whole
    best, refusal, epsilon = None, None, start
    for _ in range(_TRIES):
        try:
            made = at(epsilon)
        except ValueError as error:
            refusal, low = error, (epsilon, math.nan)
        else:
            whole = made.guarantee.epsilon(budget.delta)
            if whole > budget.epsilon:
                high = epsilon, whole
            else:
                best, low = made, (epsilon, whole)
                if whole >= _USED * budget.epsilon:
                    return made
        if math.isinf(high[0]):
            epsilon = min(2.0 * low[0], budget.epsilon)
        else:
            share = (aim - low[1]) / (high[1] - low[1])
            epsilon = low[0] + (0.5 if math.isnan(share) else share) * (high[0] - low[0])
        if high[0] - low[0] <= 1e-4 * low[0] or epsilon == low[0]:
            break
    if best is None:
        raise refusal or ValueError(
            f"the budget ({budget}) is too small for this search; raise epsilon"
        )
    return best


def _weighed(scores: Any, persons: Groups | None) -> float:
    """The sum of scores in [0, 1], each person's records sharing one; of multiples of 2^-20, and so exact."""
    if persons is None:
        return float(scores.sum())
    return float((np.floor(scores * counted(None, persons) / _STEPS) * _STEPS).sum())


def _units(y: Any, persons: Groups | None) -> int:
    """How many a sum of scores is a sum over: records, or persons."""
    return len(np.asarray(y)) if persons is None else persons.count


def below(source: Source, limit: int) -> int:
    """A whole number below a limit, each with exactly the same probability."""
    most = 2**64 - 2**64 % limit
    while True:
        word = int(source.words(1)[0])
        if word < most:
            return word % limit
