"""The binary tree: each total is the sum of a few noisy nodes, so its error grows with the logarithm of the horizon.

Node noise as in [online] Algorithm 5 and [bandit] Algorithm 2, with the exact number of nodes. The better estimator
is Honaker's (2015), computed bottom-up, so that it needs only the past. See docs/algorithms/tree.md.

The noise of a node is used again in every later total that contains the node, so a total is an earlier total plus one
new term: N(t) = N(t - lowbit t) + new, with one fresh vector and O(dim) work per step.

Honaker's estimate of the node that ends at t combines its own noisy value with the estimates of its children. For
Gaussian noise everything that is fresh in it at time t is one Gaussian vector of known variance, so one vector is
drawn, and the exact mu follows from how far each innovation moves (``_honaker_squared_mu``).

With horizon n a record touches bit_length(n) nodes, not log2(n).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.privacy import Budget, Guarantee, Release, curves
from reticent.privacy.ages import Stepwise
from reticent.privacy.participation import Participation
from reticent.privacy.prescribed import Calibration, Prescription
from reticent.sums import scales
from reticent.sums.mechanism import Mechanism
from reticent.sums.running import RunningTotal


@compiled
def _level(t):
    level = 0
    while t & 1 == 0:
        t >>= 1
        level += 1
    return level


@compiled(patience=0.5)
def _by_level(t, rows, table):
    out = np.empty(rows)
    for r in range(rows):
        out[r] = table[_level(t + r + 1)]
    return out


@compiled
def _place(t, stack):
    """The row of a total in the stack, and the row of the earlier total to which it adds one new term.

    ``stack[j]`` is the noise of the last total whose number has j trailing zeros; the last row stays 0.
    """
    level = _level(t)
    before = t - (1 << level)
    return level, _level(before) if before else stack.shape[0] - 1


@compiled(patience=0.5)
def _plain(fresh, stack, t):
    for r in range(fresh.shape[0]):
        t += 1
        level, parent = _place(t, stack)
        for i in range(fresh.shape[1]):
            fresh[r, i] += stack[parent, i]
            stack[level, i] = fresh[r, i]


@compiled(patience=0.5)
def _honaker_gaussian(fresh, stack, t, keep):
    # keep[k, j]: weight of the left block of size 2^j in the estimate of the block of size 2^k that
    # ends at t
    known = np.empty(fresh.shape[1])
    for r in range(fresh.shape[0]):
        t += 1
        level, parent = _place(t, stack)
        if level == 0:
            for i in range(fresh.shape[1]):
                fresh[r, i] += stack[parent, i]
                stack[0, i] = fresh[r, i]
            continue
        for i in range(fresh.shape[1]):
            known[i] = keep[level, level - 1] * float(stack[level - 1, i] - stack[parent, i])
        for j in range(level - 2, -1, -1):
            for i in range(fresh.shape[1]):
                known[i] += keep[level, j] * float(stack[j, i] - stack[j + 1, i])
        for i in range(fresh.shape[1]):
            fresh[r, i] += stack[parent, i] + _like(known[i], fresh)
            stack[level, i] = fresh[r, i]


@compiled(patience=0.5)
def _honaker_nodes(fresh, stack, t, weight, out):
    # every node that ends at t has noise of its own, the smallest node first
    at = 0
    for r in range(out.shape[0]):
        t += 1
        level, parent = _place(t, stack)
        for i in range(out.shape[1]):
            earlier = stack[parent, i]
            estimate = fresh[at, i]
            for j in range(1, level + 1):
                above = stack[j, i] if j < level else earlier
                both = stack[j - 1, i] - above + estimate
                estimate = both + _like(weight[j] * (fresh[at + j, i] - both), fresh)
            out[r, i] = earlier + estimate
            stack[level, i] = out[r, i]
        at += level + 1


@compiled
def _like(value, array):
    """Convert to the array's type: the nearest whole step on the lattice, unchanged in floating point."""
    if array.dtype.type(0.5) == array.dtype.type(0):
        return array.dtype.type(np.rint(value))
    return array.dtype.type(value)


@functools.cache
def _weights(levels: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Three tables: the nodes' own weights, the variances of what is fresh in them, and the weights of left blocks.

    A node's own weight is also the variance of its estimate.
    """
    k = np.arange(levels)
    own = 2.0**k / (2.0 ** (k + 1) - 1)
    fresh = np.ones(levels)
    keep = np.zeros((levels, levels))
    for j in range(1, levels):
        fresh[j] = own[j] ** 2 + (1 - own[j]) ** 2 * fresh[j - 1]
        keep[j, j - 1] = 1 - own[j]
        keep[j, : j - 1] = (1 - own[j]) * keep[j - 1, : j - 1]
    return own, fresh, keep


def _honaker_squared_mu(horizon: int, slack: float, age: int | None = None) -> float:
    """Exact mu^2 of Honaker's totals for unit noise and sensitivity, up to an age.

    Only totals whose last block contains the record move an innovation. Two consecutive such blocks, of sizes 2^j and
    2^k, move the later innovation by 1 - keep[k, j]; the first block moves its own by 1. The worst record maximises
    the sum over its chain of blocks. ``slack`` is what rounding to the lattice can add to each move. A block of size
    2^j is followed by the next one of its chain after at least 2^j steps, so within an age the sizes of all blocks
    but the last add up to less than the age.
    """
    levels = horizon.bit_length()
    _, fresh, keep = _weights(levels)

    def extend(chain: NDArray[np.float64], levels_: range) -> NDArray[np.float64]:
        """Extend the best chains, chain[j] being the one that ends at level j (last: still empty), by one block."""
        longer = np.full(levels + 1, -np.inf)
        for k in levels_:
            moves = [(chain[j], 1.0 - keep[k, j] + slack) for j in range(k)]
            moves.append((chain[-1], 1.0 + slack))
            longer[k] = max(before + move * move / fresh[k] for before, move in moves)
        return longer

    def free(top: int) -> NDArray[np.float64]:
        """The best chains of levels below ``top``, by their last level."""
        chain = np.full(levels + 1, -np.inf)
        chain[-1] = 0.0
        for k in range(top):
            chain[k] = extend(chain, range(k, k + 1))[k]
        return chain

    room = horizon - 1 if age is None else min(age, horizon) - 1
    best = 0.0
    # sizes that add up to at most ``room``: its leading bits, then one bit less, then any bits
    for less in [*(j for j in range(levels) if room >> j & 1), -1]:
        chain = free(max(less, 0))
        highest = -1
        for bit in range(less + 1, levels):
            if room >> bit & 1:
                chain, highest = extend(chain, range(bit, bit + 1)), bit
        best = max(best, float(extend(chain, range(highest + 1, levels)).max()))
    return best


def unused(t: int, level: int, *, plain: bool) -> bool:
    """Whether no total after the t-th uses the last one whose number has ``level`` trailing zeros.

    The totals that are still needed are the prefixes of t in binary: those that end in a one and, with the plain
    estimator, only if a zero follows.
    """
    rest = t & ((1 << level) - 1)
    return not t >> level & 1 or (plain and rest == (1 << level) - 1)


def _trailing_zeros(t: int) -> int:
    """Sum of the numbers of trailing zeros of 1, 2, ..., t."""
    return t - t.bit_count()


_EXACT = Calibration("exact", "tree")


@dataclass(frozen=True, kw_only=True)
class TreeMechanism(Mechanism):
    """The description of a running total from a binary tree of noisy nodes; see :class:`Tree`.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions; None if it is unknown.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm.
    noise : {"gaussian", "gamma", "laplace"}
        Distribution of the noise; Gamma and Laplace noise also work with delta = 0.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding. ``"float"`` is for simulations, and the guarantee says so.
    sensitivity : float, optional
        How far one record moves the total, if that is not ``budget.sensitivity(norm)``.
    records : int, optional
        Upper bound on the number of records in the exact total, if a contribution is the sum of several.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.
    estimator : {"honaker", "plain"}
        How a total is estimated from the nodes.
    calibration : str or Calibration
        ``"exact"``, or the name of a calibration that prescribes the noise (`reticent.privacy.prescribed`).

    Examples
    --------
    >>> import reticent
    >>> tree = TreeMechanism(2, 1000, budget=reticent.Budget(1.0, 1e-6))
    >>> plain = tree.with_(estimator="plain")
    >>> tree.error(1000) < plain.error(1000), round(tree.guarantee.gdp, 4)
    (True, 0.2367)
    """

    estimator: str = "honaker"
    calibration: Calibration = _EXACT

    formula_name = "tree"
    counts_persons = True

    def __post_init__(self) -> None:
        self._keep(estimator=checks.choice(self.estimator, "estimator", ("honaker", "plain")))
        super().__post_init__()

    @property
    def _formula(self) -> Prescription | None:
        return self._prescribed(horizon=self.horizon, dim=self.dim)

    @property
    def _collapses(self) -> bool:
        """Whether everything that is fresh in a total is one Gaussian vector."""
        return self.estimator == "honaker" and self.noise == "gaussian"

    def _scale(self, steps: int | None) -> float:
        assert steps is not None
        formula = self._formula
        if formula is not None:
            return formula.amount
        if not self._collapses:
            return scales.exact(self, scales.touched(self, steps.bit_length()))
        return scales.smallest(
            lambda sigma: self._mu(sigma, steps), self.budget.mu, self.noise_sensitivity
        )

    def _mu(self, sigma: float, steps: int, age: int | None = None) -> float:
        """Exact mu of the collapsed Honaker totals up to an age, rounding included; for persons an upper bound."""
        moved = self.noise_sensitivity
        step = self.lattice_step(sigma, steps) if self.on_lattice else 0.0
        # The known part is rounded for both of two neighbouring inputs, so it differs by at most one more step in
        # each coordinate.
        slack = 1.001 * math.sqrt(self.dim) * step / moved
        one = math.sqrt(_honaker_squared_mu(steps, slack, age))
        records, levels = self.pattern.records_within(self.protected), steps.bit_length()
        if records > 1:
            # Two bounds: the triangle inequality, and the cost of the noisy values of all nodes, from which
            # Honaker's totals are computed. Rounding adds to the innovations of totals whose last block contains
            # one of the records, and no innovation has a variance below a third.
            nodes = math.sqrt(scales.touched(self, levels))
            one = min(records * one, nodes + slack * math.sqrt(3.0 * records * levels))
        return one * moved / sigma

    def _guarantee(self) -> Guarantee:
        name, formula = f"binary tree, {self.estimator} estimator", self._formula
        if self.horizon is None:
            return scales.guarantee_of_epochs(self, name)
        steps, scale = self.horizon, self.scale()
        levels = steps.bit_length()
        doublings = [1 << k for k in range(levels)]
        if not self._collapses:
            # docs/algorithms/tree.md: with Honaker's estimator a record may touch all nodes at once
            by_age = [(age, age.bit_length()) for age in doublings]
            early = self.estimator == "plain" and self.participation is None
            return scales.guarantee_of_nodes(
                self,
                name,
                scale,
                scales.touched(self, levels),
                by_age=by_age if early else None,
                formula=formula,
            )
        # the cost at an age is taken at the next power of two, which bounds that of all ages in between
        ages = [
            (last // 2 + 1, curves.Gaussian(self._mu(scale, steps, last))) for last in doublings
        ]
        ages.append((doublings[-1] + 1, curves.Gaussian(self._mu(scale, steps))))
        release = Release(
            name,
            curves.Gaussian(self._mu(scale, steps)),
            self.noise_sensitivity,
            f"Gaussian, standard deviation {scale:.6g} per node",
            1,
            (f"a record touches {levels} nodes",),
            Stepwise(ages if self.participation is None else [(1, ages[-1][1])]),
        )
        return scales.guarantee_of_release(self, release, formula)

    def variance(self, t: int, steps: int | None) -> float:
        assert steps is not None
        one = scales.coordinate_variance(self, self.scale(steps))
        if self.estimator == "plain":
            return t.bit_count() * one
        own = _weights(steps.bit_length())[0]
        return one * float(sum(own[j] for j in range(t.bit_length()) if t >> j & 1))

    # The noise -------------------------------------------------------------------------------------

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        if self.estimator == "plain" or self.noise == "gaussian":
            return rows
        # every number up to t has one node, plus one for each trailing zero
        return rows + _trailing_zeros(t + rows) - _trailing_zeros(t)

    def relative_scales(self, steps: int | None, t: int, rows: int) -> FloatArray | None:
        if not self._collapses:
            return None
        assert steps is not None
        found: FloatArray = _by_level(t, rows, np.sqrt(_weights(steps.bit_length())[1]))
        return found

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        assert steps is not None
        return {"stack": self.zeros(steps.bit_length() + 1, self.dim)}

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        assert steps is not None
        stack = memory["stack"]
        if self.estimator == "plain":
            _plain(fresh, stack, t)
            return fresh
        own, _, keep = _weights(steps.bit_length())
        if self.noise == "gaussian":
            _honaker_gaussian(fresh, stack, t, keep)
            return fresh
        out = np.empty((rows, fresh.shape[1]), fresh.dtype)
        _honaker_nodes(fresh, stack, t, own, out)
        return out

    def forget(self, steps: int | None, memory: dict[str, NDArray[Any]], t: int) -> None:
        assert steps is not None
        for level in range(steps.bit_length()):
            if unused(t, level, plain=self.estimator == "plain"):
                memory["stack"][level] = 0


class Tree(RunningTotal):
    """A running total from a binary tree of noisy nodes.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions. With ``None`` the stream is cut into epochs of doubling length.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm, and ``clipped`` counts them.
    noise : {"gaussian", "gamma", "laplace"}
        Distribution of the noise. Gamma noise (density proportional to exp(-|x|/c)) is the choice for delta = 0;
        Laplace noise is for comparison: it needs more in two or more dimensions, and as much in one.
    estimator : {"honaker", "plain"}
        Honaker's estimator uses every available node; for the same guarantee it has a little more than half the
        variance.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, and ``add`` and ``run`` take ``person``. By default single records are protected.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only: its low-order bits leak, and the guarantee says so.
    calibration : str
        ``"exact"``, or the name of a calibration that prescribes the noise (`reticent.privacy.prescribed`); the
        guarantee reports what that noise really gives.

    See Also
    --------
    Correlated : A smaller error if delta > 0.
    WindowTree : Records that are protected for a window.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> total = Tree(2, horizon=1000, budget=reticent.Budget(1.0, 1e-6), seed=0)
    >>> totals = total.run(np.full((1000, 2), 0.5))
    >>> totals.shape, bool(np.all(np.abs(totals[-1] - 500) < 6 * total.error(1000)))
    ((1000, 2), True)
    >>> round(total.guarantee.gdp, 4)
    0.2367
    """

    describe = TreeMechanism

    def __init__(
        self,
        dim: int,
        horizon: int | None,
        *,
        budget: Budget,
        norm: float = 1.0,
        noise: str = "gaussian",
        estimator: str = "honaker",
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str | Calibration = "exact",
    ) -> None:
        mechanism = TreeMechanism(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise=noise,
            noise_precision=noise_precision,
            participation=participation,
            estimator=estimator,
            calibration=Calibration.read(calibration, "tree"),
        )
        super().__init__(mechanism, seed=seed)
