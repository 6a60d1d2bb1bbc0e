"""The privacy of objective perturbation with Gaussian noise, for generalised linear models.

``theta = argmin sum loss + (Delta/2) ||theta||^2 + <b, theta>`` with ``b ~ N(0, sigma^2 I)``. With
``s = L/sigma`` (``L`` bounds one record's gradient), ``c = log(1 + beta/Delta)`` (``beta`` bounds
its Hessian) and ``H`` the Gaussian hockey-stick divergence, docs/algorithms/objective-perturbation.md proves

    delta(epsilon) <= max{ 2 H(epsilon; s), H(epsilon - c; s) }     for epsilon >= max(c, s^2/2)
    rdp(alpha)     <= c + alpha s^2/2 + log(2 Phi((alpha-1) s)) / (alpha-1)

for a record that is blanked: the first term of the maximum if it is absent from the data that
were used, the second if it is present. The idea is that of Kifer, Smith and Thakurta, *Private
convex empirical risk minimization*, Theorem 2, and of Redberg, Koskela and Wang, *Improving the
privacy and practicality of objective perturbation*. For losses whose slope has one sign for each
record (every margin loss) the same page proves more,

    delta(epsilon) <= H(epsilon - c; s)                                blanked
    delta(epsilon) <= H(epsilon - c; 2 s) + 2 H(epsilon - c; s)        replaced

and that ``count`` such fits together cost ``e^C H(epsilon - C; sqrt(count) s)`` with
``C = count c`` (2 s in place of s if a record may be replaced).

A person with several records acts along several directions. There only the bound by Rényi divergences
remains, with ``c = r log(1 + beta/(r Delta))`` for r directions (docs/algorithms/persons.md).

All of this needs the *exact* minimiser and a loss of the form ``f(<x, theta>)``. The tolerance of a solver
is a leak of its own, and other losses are not covered.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reticent.checks import FloatArray, choice, flag, integer, number, positive
from reticent.privacy import gaussian
from reticent.privacy.budget import NEIGHBOURS
from reticent.privacy.curves import Curve, delta_from, epsilon_from, smallest_epsilon

_UP = 1.0 + 2.0**-50  # above the rounding of a sum


@dataclass(frozen=True)
class ObjectivePerturbation(Curve):
    """Objective perturbation of a generalised linear model with Gaussian noise.

    Parameters
    ----------
    mu : float
        Bound on one record's gradient, divided by the standard deviation of the noise; the same under either
        neighbouring relation.
    log_determinant : float
        ``log(1 + curvature / regularisation)`` of one record.
    neighbours : {"zero-out", "replace"}
        The neighbouring relation, which must be that of the guarantee that the curve enters.
    one_sided : bool
        Whether, for every record, the slope of the loss has the same sign everywhere.
    count : int
        Number of fits with independent noise that this stands for; may exceed 1 only for one-sided losses and for
        persons.
    persons : bool
        Whether what is protected is a person, whose records act along several directions. Then the gradient and the
        curvature are those of all the person's records together.

    Examples
    --------
    >>> import math
    >>> curve = ObjectivePerturbation(mu=1 / 6.86, log_determinant=math.log(1.5))
    >>> round(curve.epsilon(1e-6), 2)
    1.0
    """

    mu: float
    log_determinant: float
    neighbours: str = "zero-out"
    one_sided: bool = False
    count: int = 1
    persons: bool = False
    kind: ClassVar[str] = "objective-perturbation"

    def __post_init__(self) -> None:
        c = number(self.log_determinant, "log_determinant", low=0.0)
        object.__setattr__(self, "mu", positive(self.mu, "mu"))
        object.__setattr__(self, "log_determinant", c)
        object.__setattr__(self, "neighbours", choice(self.neighbours, "neighbours", NEIGHBOURS))
        object.__setattr__(self, "one_sided", flag(self.one_sided, "one_sided"))
        object.__setattr__(self, "count", integer(self.count, "count", low=1))
        object.__setattr__(self, "persons", flag(self.persons, "persons"))
        if self.persons and self.one_sided:
            raise ValueError(
                "one_sided must be False for persons, got True: where several records act together, "
                "no better bound is proved for one-sided losses"
            )
        if self.count > 1 and not (self.one_sided or self.persons):
            raise ValueError(
                f"count must be 1 for a loss whose slope changes sign, got {self.count}; "
                "compose that many curves instead"
            )

    @functools.cached_property
    def width(self) -> float:
        """How far one record moves the linear term, in standard deviations: mu, or twice that if it may be replaced."""
        # Two records move at once under replacement; by Cauchy's inequality the moments are
        # largest where their gradients point the same way, which doubles s.
        return self.mu if self.neighbours == "zero-out" else 2.0 * self.mu

    @property
    def zcdp(self) -> float:
        # Each summand of the divergence, divided by alpha, is largest as alpha -> 1: log(2 Phi) is
        # concave and 0 at 0, so its quotient by the argument decreases from sqrt(2/pi).
        s = self.width
        return self.count * (self.log_determinant + 0.5 * s * s + math.sqrt(2.0 / math.pi) * s)

    def _rdp(self, alpha: float) -> float:
        s, gap = self.width, alpha - 1.0
        # 2 Phi(x) = 1 + erf(x / sqrt 2), whose logarithm does not cancel
        tail = math.log1p(math.erf(gap * s / math.sqrt(2.0))) / gap
        return self.count * (self.log_determinant + 0.5 * alpha * s * s + tail)

    def _stick(self, epsilon: float, mu: float) -> float:
        return gaussian.delta(epsilon, mu) if epsilon >= 0.0 else 1.0

    def _present(self, epsilon: FloatArray) -> FloatArray:
        """The logarithms of delta if the record is in the data that were used."""
        e = epsilon - self.log_determinant
        sticks = gaussian.log_delta_at(np.maximum(e, 0.0) / self.mu - 0.5 * self.mu, self.mu)
        return np.where(e < 0.0, 0.0, sticks)

    def _absent(self, epsilon: FloatArray) -> FloatArray:
        """The logarithms of delta if it is not."""
        e = np.maximum(epsilon, 0.5 * self.mu**2)
        sticks = math.log(2.0) + gaussian.log_delta_at(e / self.mu - 0.5 * self.mu, self.mu)
        return np.where(epsilon < e, 0.0, np.minimum(sticks, 0.0))

    def _direct(self, epsilon: float) -> float:
        if self.one_sided:
            return self._one_sided(epsilon)
        if self.neighbours == "zero-out":
            point = np.array([epsilon])
            return gaussian.delta_from_log(
                float(max(self._present(point)[0], self._absent(point)[0]))
            )
        # In two steps, through the data without either record: the first record leaves at cost e, the
        # second enters at cost epsilon - e. Any e is valid.
        low, high = self.log_determinant, epsilon - 0.5 * self.mu**2
        if low >= high:
            return 1.0
        best = 0.0
        for points in (65, 33, 33):
            tries = np.linspace(low, high, points)
            values = np.logaddexp(self._present(tries), tries + self._absent(epsilon - tries))
            k = int(np.argmin(values))
            best = min(best, float(values[k]))
            low, high = float(tries[max(k - 1, 0)]), float(tries[min(k + 1, points - 1)])
        return gaussian.delta_from_log(best)

    def _one_sided(self, epsilon: float) -> float:
        shift = self.count * self.log_determinant
        e, together = epsilon - shift, math.sqrt(self.count) * self.width
        if self.count == 1 and self.neighbours == "zero-out":
            return self._stick(e, together)
        if e < 0.0:
            return 1.0
        bound = gaussian.delta_from_log(shift + gaussian.log_delta(e, together))
        if self.count > 1:
            return bound
        return min(bound, (self._stick(e, together) + 2.0 * self._stick(e, self.mu)) * _UP)

    def _delta(self, epsilon: float) -> float:
        if self.persons:
            return delta_from(self._rdp, epsilon)
        direct = self._direct(epsilon)
        return direct if self.one_sided else min(direct, delta_from(self._rdp, epsilon))

    def _epsilon(self, delta: float) -> float:
        if self.one_sided:
            shift = self.count * self.log_determinant
            if self.count == 1 and self.neighbours == "zero-out":
                return shift + gaussian.epsilon(delta, self.mu)
            if self.count > 1:
                together = math.sqrt(self.count) * self.width
                return shift + gaussian.epsilon(delta * math.exp(-shift) * (1 - 2.0**-50), together)
            # The second term of the bound is nearly always negligible, and then this is enough.
            quick = shift + gaussian.epsilon(delta * (1.0 - 2.0**-20), self.width)
            if self._one_sided(quick) <= delta:
                return quick
            return smallest_epsilon(self._one_sided, delta)
        by_divergence = epsilon_from(self._rdp, delta)
        if self.persons:
            return by_divergence
        if self.neighbours == "replace":
            return min(by_divergence, smallest_epsilon(self._direct, delta))
        direct = max(
            gaussian.epsilon(0.5 * delta, self.mu),
            0.5 * self.mu**2,
            self.log_determinant + gaussian.epsilon(delta, self.mu),
        )
        return min(by_divergence, direct)
