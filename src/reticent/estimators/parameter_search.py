"""Choose parameters privately: the best of a random number of private fits, by a private score.

Each run draws a candidate, fits it on all records and scores it on them with noise; the number of runs is geometric.
Only the winner is released. The search costs as much as one run, including its score, at about ``delta / (expected
fits)``, plus a small amount for the choice (`reticent.privacy.BestOf`): much less than the sum over all candidates that
a grid search costs. Proofs, and when not to tune at all: docs/algorithms/private-search.md.
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
from reticent.erm.problem import Groups
from reticent.estimators import parameters
from reticent.estimators.counts import counted
from reticent.estimators.first_bounds import NothingFound
from reticent.estimators.mixins import LEAK, Charged, lazily, real_labels
from reticent.estimators.private import PrivateEstimator, price
from reticent.estimators.scaling import to_unit
from reticent.noise import Source, release
from reticent.privacy import (
    BestOf,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    PrivacyLeakWarning,
    Release,
    charge,
    compose,
    gaussian,
    parallel,
    uncharged,
)
from reticent.privacy.curves import Curve
from reticent.solve.blocks import Lazy

SCORE_SHARE = 0.1
"""Share of the budget of a run for its score: of mu squared, or of epsilon if delta = 0."""
MARGIN = 2.0
"""Margin, in standard deviations of its noise, by which a score must exceed that of the estimator's own settings."""
_STEPS = 2.0**-20
_TRIES = 40
_USED = 0.998
"""A search uses at least this share of its budget."""


@dataclass(frozen=True)
class _Price:
    """The cost of a search. Uses public numbers only."""

    run: Budget  # of one run, including its score
    fit: Budget  # of the fit of a run
    scale: float  # of the noise on the score
    costs: dict[int, Curve]  # of the fits, by candidate
    guarantee: Guarantee
    own: int | None  # index of the candidate that equals the given estimator, if it takes part
    left_out: tuple[
        tuple[dict[str, Any], str], ...
    ] = ()  # candidates that do not take part, and why

    def score(self, total: float, source: Source) -> float:
        """The noisy sum of scores."""
        noise = "laplace" if self.run.delta == 0.0 else "gaussian"
        return float(release.noisy(np.array([total]), self.scale, source, noise=noise)[0])

    @property
    def others(self) -> list[int]:
        """Indices of the candidates that differ from the estimator's own settings."""
        return [number for number in self.costs if number != self.own]

    @property
    def margin(self) -> float:
        """Margin by which a sum of scores must exceed that of the estimator's own settings."""
        return MARGIN * self.scale * (math.sqrt(2.0) if self.run.delta == 0.0 else 1.0)

    def draw(self, source: Source) -> int:
        """Draw a candidate: the estimator's own settings with probability 1/2, else any other uniformly."""
        others = self.others
        if self.own is None or not others:
            return list(self.costs)[below(source, len(self.costs))]
        place = below(source, 2 * len(others))
        return others[place] if place < len(others) else self.own


def tried(share: float, mean: float) -> float:
    """The probability that a candidate is drawn at least once in a geometric number of runs.

    Parameters
    ----------
    share : float
        Probability that one run draws it.
    mean : float
        Expected number of runs.


    Examples
    --------
    >>> tried(1.0, 7.0), round(tried(1 / 9, 18.0), 3), round(tried(0.5, 18.0), 3)
    (1.0, 0.692, 0.947)
    """
    missed = 1.0 - share
    return 1.0 - missed / (mean - (mean - 1.0) * missed)


class PrivateSearchCV(MetaEstimatorMixin, Charged):
    """Choose parameters of a private estimator within one budget.

    Parameters
    ----------
    estimator : estimator
        A `PrivateLogisticRegression`, `PrivateLinearSVC`, `PrivateLinearRegression` or `PrivateLasso`. Its ``epsilon``
        and ``delta`` are replaced by those of a run.
    grid : dict, or list of dicts
        Candidates, as in scikit-learn's ``ParameterGrid``, written down without looking at the records. Candidates that
        would leave too little budget for the others are left out; :meth:`describe` lists them. Include the estimator's
        own settings: then every other run on average tries these, and another candidate wins only if its score is
        clearly better than the noise.
    epsilon : float
        Privacy parameter epsilon of the whole search, including the winner's fit. Default: 1.
    delta : float
        Privacy parameter delta of the whole search; 0 gives pure differential privacy. Default: 1e-6.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    fits : float, optional
        Expected number of runs, above 1; by default twice the number of candidates. Each run draws its candidate at
        random, with replacement. The number of runs is random, unbounded, and stays secret.
    verbose : int
        Whether to print the cost and the expected number of fits to standard error before the search. Default: 1.
    random_state : int, optional
        None uses a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the winner.
    best_estimator_ : estimator
        The winner as it was fitted; nothing is refitted. Its ``guarantee_`` is that of the whole search, because it was
        chosen by its score; its ``epsilon`` is that of one fit.
    best_score_ : float
        Noisy score of the winner: accuracy for a classifier; for a regressor, one minus the mean squared error of
        clipped labels in units of their range. Biased upwards, because it won.
    guarantee_ : reticent.Guarantee
        Guarantee for all of these attributes together.

    See Also
    --------
    reticent.privacy.BestOf : The cost of the search.

    Notes
    -----
    There are no folds: a private fit depends so little on each record that scoring on the training records adds little
    bias, and folds would cost records or budget. The running time of a search depends on the secret number of runs; do
    not let others measure it.


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
        """Search. Each call spends the whole budget, which is charged before anything is drawn.

        Parameters
        ----------
        X : array, data frame, sparse matrix or table of `reticent.tables.open`, of shape (n, p)
            Records.
        y : array of shape (n,), or labels of `reticent.tables.open`
            Labels.
        groups : array, optional
            Id of the person of each record (integers, text or bytes). All records of one person are then protected
            together, in the fits and in their scores, and the number of persons is public.

        Returns
        -------
        self
            The fitted search.
        """
        with self._all_or_nothing(), self._paying():
            X, y = lazily(X, y)
            budget, candidates, mean = self._asked()
            made = self._price(budget, candidates, mean, X, y, groups)
            persons = self._persons(y, groups)
            source = Source(parameters.CHECKS["seed"](self.random_state, "random_state"))
            if self.verbose:
                print(self._words(made, mean, _units(X, y, persons)), file=sys.stderr)
            if LEAK in made.guarantee.caveats:
                warnings.warn(LEAK, PrivacyLeakWarning, stacklevel=2)
            charge(made.guarantee, "private search")
            best = uncharged(
                lambda: self._run(made, candidates, mean, X, y, source, groups, persons)
            )
            if best is None:
                raise RuntimeError(
                    "no fit of the search found the bounds that are asked for privately, and the budget was spent; "
                    "state feature_norm and label_bounds, raise epsilon, or use more records"
                )
            self.best_score_, number, self.best_estimator_ = best
            self.best_params_ = candidates[number]
            self.guarantee_ = made.guarantee
            # the guarantee of the winner's own fit would not cover that it was chosen
            self.best_estimator_.guarantee_ = made.guarantee
            winner = self.best_estimator_
            self.n_features_in_ = winner.n_features_in_
            for name in ("classes_", "feature_names_in_"):
                self.__dict__.pop(name, None)
                if hasattr(winner, name):
                    setattr(self, name, getattr(winner, name))
            return self

    def describe(self, X: Any, y: Any, groups: Any = None) -> str:
        """The cost of a search on such a table, in words. Spends nothing; only the shape of the table matters.

        Parameters
        ----------
        X : array, data frame, sparse matrix or table of `reticent.tables.open`, of shape (n, p)
            Records.
        y : array of shape (n,), or labels of `reticent.tables.open`
            Labels.
        groups : array, optional
            Id of the person of each record, if persons are protected.

        Returns
        -------
        str
            One paragraph.
        """
        X, y = lazily(X, y)
        budget, candidates, mean = self._asked()
        made = self._price(budget, candidates, mean, X, y, groups)
        return self._words(made, mean, _units(X, y, self._persons(y, groups)))

    # What it costs --------------------------------------------------------------------------------

    def _asked(self) -> tuple[Budget, list[dict[str, Any]], float]:
        names = ("epsilon", "delta", "neighbours")
        values = parameters.checked({name: getattr(self, name) for name in names})
        if not isinstance(self.estimator, PrivateEstimator):
            raise TypeError(
                "estimator must be one of PrivateLogisticRegression, PrivateLinearSVC, "
                f"PrivateLinearRegression and PrivateLasso, got {self.estimator!r}; to scale features, use "
                "feature_norm='private' instead of a pipeline"
            )
        if not isinstance(self.grid, Mapping | list | tuple):
            raise TypeError(
                f"grid must be a dict of lists or a list of such dicts, got {self.grid!r}"
            )
        candidates = list(ParameterGrid(self.grid))
        if not candidates:
            raise ValueError(f"grid must have at least one candidate, got {self.grid!r}")
        known = self.estimator.get_params(deep=False)
        # whether a candidate's classes hold all labels depends on single records
        fixed = {"epsilon", "delta", "neighbours", "random_state", "classes", "verbose"}
        searched = {name for candidate in candidates for name in candidate}
        for name in searched:
            if name not in known or name in fixed:
                raise ValueError(
                    f"grid has the key {name!r}; allowed are parameters of the estimator other than "
                    f"{', '.join(sorted(fixed))}"
                )
        # fits warn once per process, and those of a search do so unheard
        parameters.warn_of_defaults({k: v for k, v in known.items() if k not in searched})
        mean = 2.0 * len(candidates)
        if self.fits is not None:
            mean = checks.number(self.fits, "fits", low=1.0, open_low=True)
        # the probability of stopping must be a multiple of 2^-64 for the guarantee to be exact
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

        Candidates of equal epsilon can cost a search different amounts; little regularisation costs most, and all runs
        pay for the most expensive candidate. So each is priced alone first, and the set with the largest sum of the
        epsilons of its fits takes part, where the estimator's own settings count as much as all others together. Only
        public numbers decide.
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
        least, kept = _most_worth(alone, weights)
        made = alone[kept[0]] if len(kept) == 1 else largest(kept, least)
        left = tuple(
            (
                each,
                str(
                    refused.get(k, "including it would cost the other candidates more than it adds")
                ),
            )
            for k, each in enumerate(candidates)
            if k not in made.costs
        )
        return replace(made, left_out=left, own=own if own in made.costs else None)

    def _own(self, candidates: list[dict[str, Any]]) -> int | None:
        """The index of the candidate that equals the estimator's own settings, if there is one."""
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
        # a record is right or wrong, or has a clipped error in [0, 1], so it changes a sum of scores by at most 1;
        # so does a person, whose records have weights that add up to at most 1
        noise, level = release.share_of(run, SCORE_SHARE)
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
        """The best run: its score, the index of its candidate, and its model; None if all failed.

        Bounds that are not found are private, and count as the worst output. Any other failure may depend on a record,
        as whether a minimum can be certified does; it would then decide which candidate wins, so it ends the search.
        """
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
            except NothingFound:
                model = None
            except Exception as error:
                raise RuntimeError(
                    f"a fit of the search failed with {candidates[number]}; the budget was spent, and nothing is "
                    "released. The failure itself may depend on the records, which no guarantee covers: do not publish "
                    "it. Try the candidates on public or synthetic data, and leave out what fails"
                ) from error
            else:
                if model.guarantee_.curve != made.costs[number]:
                    raise RuntimeError(
                        "the cost of a fit differs from what was charged for it; this is a bug in reticent"
                    )
                score = made.score(total, source)
                rank = score + (made.margin if number == made.own else 0.0)
                # of runs with equal rank the first one stays: they are exchangeable
                if best is None or rank > best[0]:
                    best = (rank, score, number, model)
            if int(source.words(1)[0]) < stop:
                break
        if best is None:
            return None
        _, score, number, model = best
        return score / _units(X, y, persons), number, model.release()

    def _sum_of_scores(self, model: Any, X: Any, y: Any, persons: Groups | None = None) -> float:
        """A sum over records of scores in [0, 1] that are multiples of 2^-20, and therefore exact in doubles."""
        # The number of a person's records is not public, and so must not change how those of others are rounded.
        predicted = model.predict(X) if persons is None else model._predicted_in_turn(X)
        truth = y.in_memory() if isinstance(X, Lazy) else column_or_1d(y)
        if is_classifier(self.estimator):
            return _weighed((predicted == truth).astype(np.float64), persons)
        low, high = model._bounds
        stated = self.estimator.get_params(deep=False)["label_bounds"]
        if not isinstance(stated, str):
            low, high = stated
        error = 0.5 * (
            to_unit(np.clip(real_labels(truth), low, high), low, high)
            - to_unit(predicted, low, high)
        )
        kept = np.floor((1.0 - np.minimum(error * error, 1.0)) / _STEPS) * _STEPS
        return _weighed(np.nan_to_num(kept, nan=0.0), persons)

    # The winner -----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Predictions of the winner.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the winner, if the estimator has them.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> Any:
        """The winner's linear predictor, if the estimator has one.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or R squared, of the winner. A diagnostic: it reads the records it is given.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Records, clipped as in training.
        y : array
            Their true classes or targets.
        sample_weight : array, optional
            Weight of each record.

        Returns
        -------
        float
            The score.
        """
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


def _most_worth(alone: dict[int, _Price], weights: list[int]) -> tuple[float, list[int]]:
    """The candidates whose fits have the largest sum of epsilons at the least epsilon of any, and this epsilon."""
    best = (0.0, 0.0, [0])
    for least in {made.run.epsilon for made in alone.values()}:
        kept = [k for k, made in alone.items() if made.run.epsilon >= least]
        best = max(best, (least * sum(weights[k] for k in kept), least, kept))
    return best[1:]


def _largest(at: Callable[[float], _Price], budget: Budget, start: float) -> _Price:
    """The largest epsilon of a run with which the whole stays within the budget and uses nearly all of it.

    ``at`` raises ValueError for a run that is too small; that error is raised again if no run is large enough.
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
    """The exact sum of scores that are multiples of 2^-20; the records of a person share a weight of 1."""
    if persons is None:
        return float(scores.sum())
    return float((np.floor(scores * counted(None, persons) / _STEPS) * _STEPS).sum())


def _units(X: Any, y: Any, persons: Groups | None) -> int:
    """Number of records, or of persons, that a sum of scores runs over."""
    if persons is not None:
        return persons.count
    return X.shape[0] if isinstance(X, Lazy) else len(np.asarray(y))


def below(source: Source, limit: int) -> int:
    """A uniformly distributed integer in [0, limit), exactly."""
    most = 2**64 - 2**64 % limit
    while True:
        word = int(source.words(1)[0])
        if word < most:
            return word % limit
