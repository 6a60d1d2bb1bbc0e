"""The exact privacy loss of a mechanism, computed from the running code with the noise as an input.

Run the mechanism on the data with noise z and record everything that it publishes. Run it on the neighbour with noise
z' such that it publishes exactly the same (:mod:`reticent.audit.whitebox_matching`). What an observer can tell is then
determined by how much less likely z' is than z:

- Gaussian draws: mu is the Euclidean norm of (z - z') / scale, exactly, and no attack does better;
- Laplace draws: epsilon is the sum of abs(z - z') / scale; for spherical Gamma vectors, of norms over scales;
- selections: the log-ratios of the two worlds' probabilities, from the scores and the scale that reached them.

The result is only as strong as the pair of neighbours. :func:`search` tries many, and the share of the claim that the
worst of them reaches measures the power of the audit line: a fault that costs less than the remaining share would go
unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reticent.audit.finding import POWER, as_curve
from reticent.audit.whitebox_matching import InputPair, Machine, Separation, Start, silent
from reticent.noise import Source
from reticent.privacy import Curve, Guarantee


@dataclass(frozen=True)
class Exact:
    """The exact privacy loss of a mechanism between neighbouring inputs, compared with its claim.

    Attributes
    ----------
    name
        The mechanism, and its setting.
    claimed
        The claimed epsilon at ``delta``.
    epsilon
        The computed epsilon at ``delta``.
    delta
        The delta at which epsilon is compared.
    tightness
        The computed value as a share of the claim, in mu where both are Gaussian.
    holds
        Whether the computed value is within the claim.
    how
        The worst pair of neighbours, or the reason why no noise hides the record.
    pairs
        How many pairs were tried.
    refused
        How many of them the mechanism refused, for example because a record is not finite.
    claim
        The claimed privacy curve.
    roc
        Always None; findings of attacks have a measured trade-off here.
    fault
        The least fault that would be noticed: if the noise were divided by more than this, the claim would be refuted.
    """

    name: str
    claimed: float
    epsilon: float
    delta: float
    tightness: float
    holds: bool
    how: str = ""
    pairs: int = 1
    refused: int = 0
    claim: Curve | None = None
    roc: None = None
    fault: float = math.inf

    @property
    def verdict(self) -> str:
        """``"holds"``, ``"REFUTED"``, or ``"no power"`` where a fault of a factor of 2 could go unnoticed."""
        if not self.holds:
            return "REFUTED"
        return "holds" if self.tightness >= POWER else "no power"

    def __str__(self) -> str:
        return (
            f"{self.name}: epsilon = {self.epsilon:.6g} at delta = {self.delta:g}, claimed {self.claimed:.6g}, "
            f"share {self.tightness:.4f}, {self.verdict} ({self.how})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name, "claimed": self.claimed, "epsilon": self.epsilon, "delta": self.delta,
            "tightness": self.tightness, "holds": self.holds, "verdict": self.verdict, "how": self.how,
            "pairs": self.pairs, "refused": self.refused, "fault": self.fault,
        }  # fmt: skip


def least_fault(refuted: Callable[[float], bool]) -> float:
    """The least r above 1 for which ``refuted(r)``, to a thousandth; infinite above 64.

    ``refuted(r)`` says whether noise divided by r would be noticed.
    """
    low, high = 1.0, 1.0 + 2.0**-6
    while not refuted(high):
        low, high = high, high * high
        if high > 64.0:
            return math.inf
    while high - low > 5e-4 * low:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def judge(
    name: str, loss: Separation, claim: Guarantee | Curve | float, delta: float, how: str = ""
) -> Exact:
    """Compare a privacy loss with a claim."""
    curve = as_curve(claim)
    assert curve is not None
    claimed = curve.epsilon(delta)
    if loss.leak:
        return Exact(
            name, claimed, math.inf, delta, math.inf, False, loss.leak, claim=curve, fault=1.0
        )
    share = _share(loss, curve, delta)
    holds = share <= 1.0 + loss.tolerance
    return Exact(name, claimed, loss.curve.epsilon(delta), delta, share, holds, how, claim=curve)


def _share(loss: Separation, claim: Curve, delta: float) -> float:
    """The loss as a share of the claim: in mu or in pure epsilon where both have one, else in epsilon at delta."""
    found = loss.curve
    mine: float | None
    stated: float | None
    if found.gdp is not None and claim.gdp is not None:
        mine, stated = found.gdp, claim.gdp
    elif found.pure is not None and claim.pure is not None:
        mine, stated = found.pure, claim.pure
    else:
        mine, stated = found.epsilon(delta), claim.epsilon(delta)
    return mine / stated if stated > 0.0 else (math.inf if mine > 0.0 else 0.0)


def fault_of(loss: Separation, claim: Curve, delta: float, share: float) -> float:
    """The smallest divisor of the noise at which the draws of this loss would refute the claim."""
    if loss.leak or not 0.0 < share < math.inf:
        return 1.0 if share > 0.0 else math.inf
    most = 1.0 + loss.tolerance
    found = loss.curve
    linear = (found.gdp is not None and claim.gdp is not None) or (
        found.pure is not None and claim.pure is not None
    )
    if linear:
        return max(1.0, most / share)
    return least_fault(lambda r: _share(loss.with_noise_divided_by(r), claim, delta) > most)


def white_box(
    run: Callable[[Any, Source], Any],
    data: Any,
    neighbour: Any,
    guarantee: Guarantee | Curve | float,
    *,
    delta: float | None = None,
    taps: bool = True,
    name: str = "mechanism",
) -> Exact:
    """The exact privacy loss of a mechanism between two neighbouring inputs, against its claim.

    Parameters
    ----------
    run : callable
        ``run(data, source)`` runs the mechanism once and returns what it publishes: a number, an array, or a list of
        such. All noise has to come from the library: from ``source`` (``source.normals``, ``noise.release.noisy``,
        ``noise.select``) or from a running total, a learner or a solver that ``run`` builds without a seed.
    data
        One input.
    neighbour
        Another, which differs in one record; the worse the pair, the better the attack.
    guarantee : Guarantee, Curve or float
        The claim; a number is a pure epsilon.
    delta : float, optional
        The delta at which epsilon is compared if the claim is neither Gaussian nor pure; by default 0 for a pure claim,
        else 1e-6.
    taps : bool
        Whether every noisy vector counts as published. False if only the final output is published, and earlier noisy
        numbers stay secret.
    name : str
        Name for printing.

    Returns
    -------
    Exact
        The loss, and whether it is within the claim.

    Notes
    -----
    The computation is deterministic, so there are no false alarms; the result holds for these two inputs to about nine
    digits. It says nothing about other inputs, and assumes that the library's samplers are correct.

    Examples
    --------
    A sum without clipping is detected at once:

    >>> import numpy as np
    >>> from reticent import audit
    >>> from reticent.noise.release import noisy
    >>> def noisy_sum(rows, source):
    ...     return noisy(np.sum(rows, axis=0), 2.0, source, noise="laplace")
    >>> found = audit.white_box(noisy_sum, np.array([[0.5], [1.0]]), np.array([[0.5], [0.0]]), 0.5)
    >>> round(found.epsilon, 6), found.holds
    (0.5, True)
    >>> audit.white_box(noisy_sum, np.array([[0.5], [7.0]]), np.array([[0.5], [0.0]]), 0.5).holds
    False
    """
    return search(
        run,
        [InputPair(data, neighbour)],
        guarantee,
        delta=delta,
        taps=taps,
        name=name,
        normals=True,
    )


def search(
    run: Callable[[Any, Source], Any],
    pairs: Iterable[InputPair],
    claim: Guarantee | Curve | float | None = None,
    *,
    starts: Iterable[Start] = (silent,),
    delta: float | None = None,
    taps: bool = True,
    repeats: int = 1,
    normals: bool = False,
    bits: bool = True,
    name: str = "mechanism",
) -> Exact:
    """The largest exact privacy loss over many pairs of neighbours, compared with the claim.

    Parameters
    ----------
    run : callable
        ``run(data, source)`` runs the mechanism once, with all noise from ``source``, and returns what it publishes, or
        an :class:`Outcome`, which also states the guarantee.
    pairs : iterable of InputPair
        The neighbours to try.
    claim : Guarantee, Curve or float, optional
        The claim for every pair; by default the guarantee that the outcome states.
    starts : iterable of callables
        Functions that replace the noise drawn in the first world; each is tried with each pair.
    delta : float, optional
        The delta at which epsilon is compared if the claim is neither Gaussian nor pure; by default 0 for a pure claim,
        else 1e-6.
    taps : bool
        Whether every noisy vector counts as published. False if only the final output is published, and earlier noisy
        numbers stay secret.
    repeats : int
        Number of runs, with noise that differs by known amounts, that one common change of the draws must match.
    normals : bool
        Whether ``Source.normals`` is noise, and not public randomness.
    bits : bool
        Whether outputs must match to the last bit wherever all noise is whole lattice steps.
    name : str
        Name for printing.

    Returns
    -------
    Exact
        The loss of the worst pair.
    """
    machine = Machine(run, taps=taps, repeats=repeats, normals=normals, bits=bits)
    worst: Exact | None = None
    tried = refused = 0
    starts = tuple(starts)
    for pair in pairs:
        for start in starts:
            tried += 1
            try:
                with np.errstate(all="ignore"):
                    loss, stated = machine.compare(pair, start)
            except (ValueError, OverflowError) as error:
                refused += 1
                reason = str(error)
                continue
            against = stated if claim is None else claim
            assert against is not None
            at = delta if delta is not None else _natural(against)
            found = judge(name, loss, against, at, pair.why)
            if worst is None or found.tightness > worst.tightness:
                worst, behind = found, loss
    if worst is None:
        raise ValueError(f"{name}: all {tried} pairs were refused, the last because: {reason}")
    if worst.how in ("", None):
        worst = replace(worst, how="the given pair")
    assert worst.claim is not None
    fault = fault_of(behind, worst.claim, worst.delta, worst.tightness)
    return replace(worst, pairs=tried, refused=refused, fault=fault)


def _natural(claim: Guarantee | Curve | float) -> float:
    curve = as_curve(claim)
    assert curve is not None
    return 0.0 if curve.pure is not None else 1e-6
