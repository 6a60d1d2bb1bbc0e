"""Choose one of finitely many candidates by noisy scores: the exponential mechanism and report-noisy-max.

The exponential mechanism (McSherry and Talwar 2007) chooses i with probability proportional to exp(score_i / b), as
does taking the largest of ``score_i / b`` + standard Gumbel noise. Its privacy loss lies in a range of length 2
sensitivity / b (Durfee and Rogers 2019), which composes better than pure privacy alone and is accounted for as such.
Report-noisy-max with Laplace or exponential noise of scale b is only 2 sensitivity / b private. If all scores move in
the same direction when a record changes, the factor of two disappears for all of them.

The choice is that of real numbers: scores and scale are the real numbers that their floats represent, a word is the
leading 64 bits of a real uniform, and if double precision cannot tell the leader from the runner-up, interval
arithmetic with further random bits does. So each choice has exactly the stated probability. See docs/lattice.md.

``sensitivity`` is how far a score can move between neighbours under the relation of the guarantee, as the scores were
computed. If a sum behind a score was rounded in floating point, its rounding error is part of the sensitivity.

Considered: OpenDP's report-noisy-max (exact too, but one more dependency for one function) and the permute-and-flip
mechanism of McKenna and Sheldon 2020 (the same as exponential noise here, by Ding et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent import checks
from reticent.compiling import compiled
from reticent.noise import exact
from reticent.noise.source import Source
from reticent.privacy import Budget, Guarantee, Release, calibration, charge, curves

_NOISES = ("gumbel", "laplace", "exponential")
_LARGEST = 1e300  # a difference of two scores of this size is still a finite double
_HALF = np.uint64(2**63)


@dataclass(frozen=True)
class Selection:
    """What was chosen, and the guarantee of the choice. It can be used as an index: ``candidates[selection]``.

    Parameters
    ----------
    index : int
        Position of the chosen candidate.
    guarantee : Guarantee
        The guarantee of the choice.
    """

    index: int
    guarantee: Guarantee

    def __index__(self) -> int:
        return self.index


# error_model="numpy": a word of zeros or ones has an infinite error bound, so that it is settled elsewhere
@compiled(error_model="numpy")
def _bounds(scores, top, scale, words, kind, upper):
    """Upper bounds on all noisy scores (minus top, over scale), and the largest of their lower bounds."""
    best = -np.inf
    for i in range(scores.size):
        shift = (scores[i] - top) / scale
        if kind == 1:
            word = float(words[i] >> np.uint64(1))
            drawn = abs(math.log((word + 0.5) * 2.0**-63))
            error = 1.0 / word
            if words[i] & np.uint64(1):
                drawn = -drawn
        elif kind == 2:
            word = float(words[i])
            drawn = abs(math.log((word + 0.5) * 2.0**-64))
            error = 1.0 / word
        else:
            # -log(1 - u), from whichever of u and 1 - u is small, for a small relative error. The bits that are not
            # known yet change its logarithm by at most 1.45 / word, or 1 / (0.69 word), respectively.
            if words[i] < _HALF:
                word = float(words[i])
                size = -math.log1p(-(word + 0.5) * 2.0**-64)
            else:
                word = float(~words[i])
                size = abs(math.log((word + 0.5) * 2.0**-64))
            drawn = -math.log(size)
            error = 3.0 / word
        # rounding of the subtraction, the division, the logarithms and the sum, for which 2^-50 would be enough
        value = shift + drawn
        error += (1.0 + abs(shift) + abs(drawn)) * 2.0**-44
        upper[i] = value + error if shift > -1e300 else -1e300
        if shift > -1e300 and value - error > best:
            best = value - error
    return best


def select(scores: ArrayLike, scale: float, source: Source, noise: str = "gumbel") -> int:
    """Index of the largest of the scores plus noise, without accounting, which is up to the caller.

    Parameters
    ----------
    scores : array of shape (m,)
        Finite, at most 1e300 in absolute value; larger is better.
    scale : float
        Scale of the noise, in the units of the scores.
    source : Source
        Where the noise comes from: one word for each candidate, none for a single candidate.
    noise : {"gumbel", "laplace", "exponential"}
        Distribution of the independent noise on each score. Exponential noise is one-sided.

    Returns
    -------
    int
        The position of the chosen candidate.

    Examples
    --------
    >>> select([0.0, 50.0, 0.0], 1.0, Source(seed=0))
    1
    """
    values = _check_scores(scores)
    scale = checks.positive(scale, "scale")
    checks.choice(noise, "noise", _NOISES)
    _check_source(source)
    return _select(values, scale, source, noise)


def _select(scores: NDArray[np.float64], scale: float, source: Source, noise: str) -> int:
    if scores.size == 1:
        return 0
    words = source.words(scores.size)
    top = float(scores.max())
    upper = np.empty(scores.size)
    best = _bounds(scores, top, scale, words, _NOISES.index(noise), upper)
    close = np.flatnonzero(~(upper < best))
    if close.size == 1:
        return int(close[0])
    shifts = [(Fraction(scores[i]) - Fraction(top)) / Fraction(scale) for i in close.tolist()]
    return int(close[exact.largest(source, noise, words[close].tolist(), shifts)])


def exponential_mechanism(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    scale: float | None = None,
    budget: Budget | None = None,
    monotone: bool = False,
    neighbours: str | None = None,
    window: int | None = None,
    source: Source | None = None,
    seed: int | None = None,
) -> Selection:
    """Choose i with probability proportional to ``exp(scores[i] / scale)``.

    Parameters
    ----------
    scores : array of shape (m,)
        Finite; larger is better. They are computed from private data and are not released.
    sensitivity : float
        How far any one score can move, up or down, between neighbours.
    epsilon : float, optional
        Pure epsilon. Give exactly one of this, ``scale`` and ``budget``.
    scale : float, optional
        Scale of the Gumbel noise.
    budget : Budget, optional
        Budget that the choice must meet, with as little noise as possible.
    monotone : bool
        Whether blanking a record moves all scores in the same direction (as it does for counts), which halves the
        noise.
    neighbours : {"zero-out", "replace"}, optional
        Whether one record is blanked (the default) or replaced. Not allowed together with a budget, which states it.
    window : int, optional
        Number of outputs for which a record is protected. Not allowed together with a budget, which states it.
    source : Source, optional
        Where the noise comes from; by default a cryptographic generator.
    seed : int, optional
        Seed to use in place of a source, for experiments.

    Returns
    -------
    Selection
        The index and its guarantee.

    Raises
    ------
    BudgetExceeded
        A surrounding ledger has too little left; nothing was chosen.

    See Also
    --------
    report_noisy_max : The choice with Laplace or exponential noise.

    Examples
    --------
    >>> choice = exponential_mechanism([3.0, 90.0, 7.0], sensitivity=1.0, epsilon=1.0)
    >>> ["red", "green", "blue"][choice]
    'green'
    >>> print(choice.guarantee)
    pure epsilon = 1; one record is blanked (zero-out), protected for ever
    """
    return _choose("exponential mechanism", scores, "gumbel", sensitivity, epsilon, scale, budget,
                   monotone, neighbours, window, source, seed)  # fmt: skip


def report_noisy_max(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    scale: float | None = None,
    budget: Budget | None = None,
    noise: str = "laplace",
    monotone: bool = False,
    neighbours: str | None = None,
    window: int | None = None,
    source: Source | None = None,
    seed: int | None = None,
) -> Selection:
    """Choose the candidate whose score is the largest after independent noise on each.

    Parameters
    ----------
    scores : array of shape (m,)
        Finite; larger is better. They are computed from private data and are not released.
    sensitivity : float
        How far any one score can move, up or down, between neighbours.
    epsilon : float, optional
        Pure epsilon. Give exactly one of this, ``scale`` and ``budget``.
    scale : float, optional
        Scale of the noise.
    budget : Budget, optional
        Budget that the choice must meet, with as little noise as possible.
    noise : {"laplace", "exponential", "gumbel"}
        Distribution of the noise. For one choice under pure epsilon, exponential noise is never worse than
        :func:`exponential_mechanism`. For many choices together, Gumbel noise, which is that mechanism, needs much
        less noise than the other two.
    monotone : bool
        Whether blanking a record moves all scores in the same direction (as it does for counts), which halves the
        noise.
    neighbours : {"zero-out", "replace"}, optional
        Whether one record is blanked (the default) or replaced. Not allowed together with a budget, which states it.
    window : int, optional
        Number of outputs for which a record is protected. Not allowed together with a budget, which states it.
    source : Source, optional
        Where the noise comes from; by default a cryptographic generator.
    seed : int, optional
        Seed to use in place of a source, for experiments.

    Returns
    -------
    Selection
        The index and its guarantee, which does not cover the noisy score itself.

    Raises
    ------
    BudgetExceeded
        A surrounding ledger has too little left; nothing was chosen.

    See Also
    --------
    exponential_mechanism : The choice with Gumbel noise.

    Examples
    --------
    >>> int(report_noisy_max([3.0, 90.0, 7.0], sensitivity=1.0, epsilon=1.0).index)
    1
    """
    checks.choice(noise, "noise", _NOISES)
    return _choose("report noisy max", scores, noise, sensitivity, epsilon, scale, budget,
                   monotone, neighbours, window, source, seed)  # fmt: skip


def _choose(
    name: str,
    scores: ArrayLike,
    noise: str,
    sensitivity: float,
    epsilon: float | None,
    scale: float | None,
    budget: Budget | None,
    monotone: bool,
    neighbours: str | None,
    window: int | None,
    source: Source | None,
    seed: int | None,
) -> Selection:
    values = _check_scores(scores)
    sensitivity = checks.positive(sensitivity, "sensitivity")
    if budget is not None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
        if neighbours is not None or window is not None:
            raise ValueError(
                f"neighbours={neighbours!r} and window={window!r} cannot be given together with a budget, "
                "which has its own; set them in the budget"
            )
        neighbours, window = budget.neighbours, budget.window
    neighbours = "zero-out" if neighbours is None else neighbours
    if monotone and neighbours == "replace":
        raise ValueError(
            "monotone=True needs neighbours='zero-out', got 'replace': replacing a record may lower some scores "
            "and raise others; use monotone=False, or zero-out"
        )
    # how far the difference of two scores can move
    reach = sensitivity if monotone else 2.0 * sensitivity
    scale = _scale(noise, reach, epsilon, scale, budget)
    if source is None:
        source = Source(seed)
    elif seed is not None:
        raise ValueError(f"give a source or a seed, not both; got seed={seed!r} beside a source")
    _check_source(source)
    curve = curves.BoundedRange if noise == "gumbel" else curves.Pure
    directions = "all scores move in one direction" if monotone else "scores move in any direction"
    release = Release(
        f"{name} over {values.size} candidates",
        curve(reach / scale),
        sensitivity,
        f"{noise.capitalize()}, scale {scale:.6g}",
        details=(directions,),
    )
    asked = None if budget is None else budget.delta
    guarantee = Guarantee([release], neighbours, window, seeded=source.seeded, asked=asked)
    charge(guarantee, release.mechanism)
    return Selection(_select(values, scale, source, noise), guarantee)


def _scale(
    noise: str, reach: float, epsilon: float | None, scale: float | None, budget: Budget | None
) -> float:
    given = [
        word
        for word, value in (("epsilon", epsilon), ("scale", scale), ("budget", budget))
        if value is not None
    ]
    if len(given) != 1:
        words = " and ".join(given) or "none"
        raise TypeError(f"give exactly one of epsilon, scale and budget; got {words}")
    if scale is None:
        if budget is None:
            budget = Budget(checks.positive(epsilon, "epsilon"))
        # calibration.gumbel takes how far one score moves, and doubles it
        scale = (
            calibration.gumbel(budget, 0.5 * reach)
            if noise == "gumbel"
            else calibration.gamma(budget, reach)
        )
    scale = checks.positive(scale, "scale")
    if not 0.0 < reach / scale < math.inf:
        raise ValueError(
            f"a sensitivity of {reach:g} of the difference of two scores and a scale of {scale:g} are too far "
            "apart to account for; rescale the scores"
        )
    return scale


def _check_scores(scores: ArrayLike) -> NDArray[np.float64]:
    values = checks.real_array(scores, "scores")
    if np.ndim(scores) != 1 or values.size == 0:
        raise ValueError(
            f"scores must be a vector of at least one number, got shape {np.shape(scores)}; "
            "pass one score for each candidate"
        )
    wrong = np.flatnonzero(~(np.abs(values) <= _LARGEST))
    if wrong.size:
        raise ValueError(
            f"scores must be finite and at most {_LARGEST:g} in size, and entry {wrong[0]} is not. To exclude a "
            "candidate, leave it out, provided that this depends on no record"
        )
    return values


def _check_source(source: Source) -> None:
    if not isinstance(source, Source):
        raise TypeError(f"source must be a reticent.noise.Source, got {source!r}")
