"""Run a mechanism many times on two neighbouring inputs, and compute a lower bound on its privacy loss.

Ding, Wang, Wang, Zhang and Kifer, *Detecting violations of differential privacy* (2018), and Nasr et al., *Tight
auditing of differentially private machine learning* (2023): select an event on some of the runs, and count it on the
others. For Gaussian claims the same counts bound mu. At a small delta this is far sharper: mu can be bounded from
events of probability one half, whereas epsilon at delta needs events of probability near delta.

A bound on mu refutes a Gaussian claim. It says nothing about epsilon at delta of a mechanism that does not claim to be
Gaussian, and is not used for such mechanisms.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.audit import lower_bounds
from reticent.audit.finding import Finding, Roc, as_curve, gaussian_epsilon
from reticent.audit.statistics import Statistic, candidates
from reticent.checks import fraction, integer, number
from reticent.privacy import Curve, Guarantee
from reticent.trace import Progress

_BETTER = 0.05
_TELLING = 32
"""With this many distinct values, continuous noise would not repeat itself by chance."""


def mechanism(
    run: Callable[..., Any],
    world_a: Any,
    world_b: Any,
    *,
    runs: int,
    delta: float = 0.0,
    statistic: Any = None,
    claim: Guarantee | Curve | float | None = None,
    false_alarm: float = 1e-6,
    batch: int | None = None,
    selection: float = 0.5,
    name: str = "mechanism",
    progress: bool = False,
) -> Finding:
    """A lower confidence bound on the epsilon of a mechanism, by attacking it.

    Parameters
    ----------
    run
        ``run(world)`` runs the mechanism once, with its own randomness, and returns its output: a number, a vector, or
        a label. With ``batch``, ``run(world, size)`` returns ``size`` independent outputs, one per row.
    world_a
        One input, which is passed to ``run``.
    world_b
        A neighbouring input.
    runs
        Number of runs in each world.
    delta
        The delta at which epsilon is bounded.
    statistic
        What an attacker computes from the outputs: a function of an array of outputs (one per row) that returns a score
        for each, one of :mod:`reticent.audit.statistics`, or a list, of which the best is used. By default the output
        itself if it is a number, the frequency of each label if it is a label, and a learnt linear and logistic
        classifier if it is a vector.
    claim
        Guarantee, curve, or pure epsilon with which the bound is compared.
    false_alarm
        Upper bound on the probability that the result exceeds the true epsilon; it is exact.
    batch
        Number of outputs per call; None calls ``run(world)`` for each.
    selection
        Share of the runs on which statistic and event are selected; the rest is counted.
    name
        Name for printing.
    progress
        Whether to show the progress on standard error.

    Returns
    -------
    Finding
        The bound, and how it compares with the claim.

    See Also
    --------
    sequential : Tests a claim with bets, and may be stopped at any time.


    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def noisy_count(world, size):
    ...     return world + rng.laplace(scale=1.0, size=size)
    >>> found = mechanism(noisy_count, 10.0, 11.0, runs=20_000, batch=10_000, claim=1.0)
    >>> 0.8 < found.epsilon <= 1.0, found.holds
    (True, True)
    >>> mechanism(noisy_count, 10.0, 11.0, runs=20_000, batch=10_000, claim=0.5).holds
    False
    """
    runs = integer(runs, "runs", low=8)
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    alarm = fraction(false_alarm, "false_alarm")
    share = fraction(selection, "selection")
    batch = None if batch is None else integer(batch, "batch", low=1)
    curve = as_curve(claim)
    chosen_on = min(max(4, round(share * runs)), runs - 1)
    watch = RepeatWatch()
    with Progress(name, 2 * runs, progress) as bar:
        ahead = [
            np.concatenate(list(outputs_of(run, world, chosen_on, batch, watch, side, bar)))
            for side, world in (("a", world_a), ("b", world_b))
        ]
        wanted = _wanted(curve, delta)
        each = alarm / len(wanted)
        score, events = _choose(ahead, statistic, runs - chosen_on, each, wanted, delta)
        scores = [
            np.concatenate(
                [
                    score(rows)
                    for rows in outputs_of(run, world, runs - chosen_on, batch, watch, side, bar)
                ]
            )
            for side, world in (("a", world_a), ("b", world_b))
        ]
    counted = {kind: lower_bounds.count(event, *scores) for kind, event in events.items()}
    epsilon, how, mu = 0.0, "", None
    if "epsilon" in counted:
        epsilon = counted["epsilon"].epsilon(delta, each)
        how = _words(counted["epsilon"])
    if "mu" in counted:
        mu = counted["mu"].mu(each)
        if curve is not None and gaussian_epsilon(mu, delta) > epsilon:
            epsilon, how = gaussian_epsilon(mu, delta), f"mu >= {mu:.4g}: {_words(counted['mu'])}"
    if watch.repeated:
        epsilon, how = math.inf, "runs that should be independent had the same noise"
    return Finding(
        name=name,
        epsilon=epsilon,
        delta=delta,
        gdp=mu,
        claim=curve,
        runs=runs,
        false_alarm=alarm,
        repeated=watch.repeated,
        how=how,
        roc=roc_of(scores, alarm),
    )


def _wanted(curve: Curve | None, delta: float) -> tuple[str, ...]:
    if curve is None:
        return ("epsilon", "mu") if delta > 0.0 else ("epsilon",)
    return ("epsilon", "mu") if curve.gdp is not None and delta > 0.0 else ("epsilon",)


def _words(counted: lower_bounds.Counted) -> str:
    return (
        f"{counted.event}: {counted.count} of {counted.runs} "
        f"against {counted.other_count} of {counted.other_runs}"
    )


def _choose(
    ahead: list[NDArray[Any]],
    statistic: Any,
    runs: int,
    alarm: float,
    wanted: tuple[str, ...],
    delta: float,
) -> tuple[Statistic, dict[str, lower_bounds.Event]]:
    """The statistic and events with the best expected bounds; a statistic that learns is compared on other runs."""
    a, b = ahead
    best, result = -math.inf, None
    for candidate in candidates(statistic, a):
        test_a, test_b = a, b
        if candidate.learns:
            half_a, half_b = len(a) // 2, len(b) // 2
            candidate.fit(a[:half_a], b[:half_b])
            test_a, test_b = a[half_a:], b[half_b:]
        score_a, score_b = candidate(test_a), candidate(test_b)
        found = {
            kind: lower_bounds.best_event(
                score_a, score_b, runs, alarm, delta if kind == "epsilon" else None
            )
            for kind in wanted
        }
        # the bound on mu decides if it is wanted, since it is what tests a Gaussian claim
        expected = found[wanted[-1]][0]
        # a later statistic must be better by more than chance
        if result is None or expected > best + _BETTER * abs(best):
            events = {kind: event for kind, (_, event) in found.items()}
            best, result = expected, (candidate, events)
    assert result is not None
    return result


class RepeatWatch:
    """Notices outputs of different calls that are the same, or differ by a constant only."""

    def __init__(self) -> None:
        self.repeated = False
        self._seen: set[bytes] = set()

    def look(self, outputs: NDArray[Any]) -> None:
        if self.repeated or outputs.dtype.kind != "f" or outputs.size < _TELLING:
            return
        # Differences between consecutive outputs do not depend on what is added to all of them.
        rows = outputs if len(outputs) == 1 else np.diff(outputs[: 4 * _TELLING], axis=0)
        if len(np.unique(rows)) < _TELLING:
            return
        # Whole multiples of a fine grid, so that adding a constant in floating point is forgiven.
        unit = float(np.abs(rows).max()) * 2.0**-30
        print_ = hashlib.blake2b(np.rint(rows / unit).tobytes(), digest_size=16).digest()
        self.repeated = print_ in self._seen
        self._seen.add(print_)


def outputs_of(
    run: Callable[..., Any],
    world: Any,
    count: int,
    batch: int | None,
    watch: RepeatWatch,
    side: str,
    bar: Progress,
) -> Iterator[NDArray[Any]]:
    """Outputs of ``count`` runs, one a row, some at a time."""
    done = 0
    while done < count:
        if batch is None:
            size = min(1024, count - done)
            single = [np.atleast_1d(np.asarray(run(world))) for _ in range(size)]
            for output in single:
                watch.look(output.reshape(1, -1))
            rows = np.stack([output.reshape(-1) for output in single])
        else:
            size = min(batch, count - done)
            rows = np.asarray(run(world, size))
            if rows.ndim == 0 or len(rows) != size:
                raise ValueError(
                    f"run(world, {size}) must return {size} outputs, one a row; "
                    f"got shape {rows.shape} in world {side}"
                )
            rows = rows.reshape(size, -1)
            watch.look(rows)
        if rows.dtype.kind == "f" and np.isnan(rows).any():
            raise ValueError(f"run returned NaN in world {side}; an output must be a number")
        done += size
        bar.advance(size)
        yield rows


def roc_of(scores: list[NDArray[np.float64]], alarm: float) -> Roc:
    """Shares of false alarms and misses at many thresholds, with a band for all of them at once."""
    a, b = np.sort(scores[0]), np.sort(scores[1])
    if a.mean() > b.mean():
        a, b = -a[::-1], -b[::-1]
    cuts = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0.0, 1.0, 513)))
    false_alarms = 1.0 - np.searchsorted(a, cuts, side="right") / len(a)
    misses = np.searchsorted(b, cuts, side="right") / len(b)
    return Roc(
        np.concatenate([[1.0], false_alarms]),
        np.concatenate([[0.0], misses]),
        lower_bounds.band(min(len(a), len(b)), alarm / 2.0),
    )
