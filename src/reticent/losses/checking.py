"""Test a loss: its gradient, convexity and constants are tried on samples.

The inequalities are those of Nesterov 2004 ("Introductory lectures on convex optimization", section 2.1). The
gradient test needs no smoothness: for a convex f and any small h, 2<g(x - h), h> <= f(x + h) - f(x - h) <= 2<g(x +
h), h>, at kinks as well.

A pass is evidence, not a proof. A Lipschitz constant is tried at the sampled points only; give a ``set`` and records
that include the extremes that occur in your application.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent import checks
from reticent.losses import kernels
from reticent.losses.base import FloatArray, Loss
from reticent.losses.glm import GeneralizedLinear
from reticent.losses.quadratic import Quadratic
from reticent.losses.records import features
from reticent.sets import L2Ball
from reticent.sets.contract import CheckedPart, CheckReport, ContractError


@dataclass(frozen=True)
class LossCheckReport(CheckReport):
    """What the check of a loss found: the extreme values that were seen, compared with the claimed ones.

    Parameters
    ----------
    subject : str
        The loss.
    findings : tuple of CheckedPart
        The claims that failed; empty if none did.
    lipschitz : (float, float)
        The largest gradient norm that was seen, and the claim.
    smoothness : (float, float)
        The largest curvature that was seen, and the claim.
    strong_convexity : (float, float)
        The smallest curvature that was seen, and the claim.
    """

    lipschitz: tuple[float, float]
    smoothness: tuple[float, float]
    strong_convexity: tuple[float, float]

    def __str__(self) -> str:
        lines = [
            f"{name:17s} seen {seen:10.4g}   claimed {claimed:10.4g}"
            for name, (seen, claimed) in (
                ("lipschitz", self.lipschitz),
                ("smoothness", self.smoothness),
                ("strong convexity", self.strong_convexity),
            )
        ]
        return "\n".join(lines + [f"failed: {text}" for text in self.failures])


def check(
    loss: Loss,
    A: Any = None,
    y: Any = None,
    *,
    set: Any = None,
    dim: int = 5,
    radius: float = 10.0,
    samples: int = 200,
    seed: int = 0,
    raise_on_failure: bool = True,
) -> LossCheckReport:
    """Test a loss's gradient, convexity and constants on samples.

    Parameters
    ----------
    loss : Loss
        A `CustomLoss`, or any other.
    A : array, optional
        Records on which to test. Built-in losses draw their own; a custom loss needs them.
    y : array, optional
        Labels of these records.
    set : set, optional
        Set from which decisions are drawn; by default they are drawn from balls of radius up to `radius`.
    dim : int
        Dimension of the records that are drawn.
    radius : float
        Largest norm of the decisions that are drawn without a set.
    samples : int
        Number of samples.
    seed : int
        Seed of the samples.
    raise_on_failure : bool
        Whether to raise if a claim fails; otherwise the report is returned in any case.

    Returns
    -------
    LossCheckReport
        The largest gradient and the extreme curvatures that were seen, with the claims.

    Raises
    ------
    reticent.sets.ContractError
        A claim failed; the message names every such claim and by how much it failed.

    Examples
    --------
    >>> from reticent.losses import Logistic
    >>> report = check(Logistic(ridge=0.5))
    >>> report.strong_convexity[1]
    0.5
    """
    samples = checks.integer(samples, "samples", low=1)
    rng = np.random.default_rng(seed)
    if A is None:
        if not isinstance(loss, GeneralizedLinear):
            raise ValueError(
                "A is missing: the records of a custom loss are not known, so pass some"
            )
        dim = dim if set is None else int(set.dim)
        A, y = loss.sample_records(rng, samples, checks.integer(dim, "dim", low=1))
    else:
        A, y, _ = loss.prepare(A, y)
        A = A.toarray() if hasattr(A, "toarray") else A
        dim = features(A).shape[1] if set is None else int(set.dim)

    trial = _LossTrial(loss, set)
    decisions = _decisions(rng, set, dim, radius)
    for i in range(samples):
        row = int(rng.integers(len(A))) if i >= len(A) else i
        trial.record(rng, decisions, A[row], None if y is None else y[row])
    trial.many(next(decisions), A[: min(len(A), 50)], None if y is None else y[: min(len(A), 50)])
    if isinstance(loss, GeneralizedLinear) and loss.kernel is not None:
        trial.branches(rng, y[: min(len(A), 50)])
        trial.alone(3.0 * A[: min(len(A), 10)], y[: min(len(A), 10)])
    report = trial.report()
    if raise_on_failure and not report.passed:
        raise ContractError(
            f"{report.subject} does not have the properties that it claims:\n{report}"
        )
    return report


def _decisions(rng: np.random.Generator, set: Any, dim: int, radius: float) -> Iterator[FloatArray]:
    while True:
        direction = rng.standard_normal(dim)
        if set is None:
            length = radius * 10.0 ** rng.uniform(-3.0, 0.0)
            yield length * direction / np.linalg.norm(direction)
        else:
            # Corners, where extremes occur, and points between two of them.
            corner = np.asarray(set.linear_minimizer(direction), dtype=np.float64).ravel()
            other = np.asarray(set.linear_minimizer(rng.standard_normal(dim))).ravel()
            share = rng.random() if rng.random() < 0.5 else 1.0
            yield share * corner + (1.0 - share) * other


def need_true_bounds(loss: Loss, set: Any, user: str) -> None:
    """Refuse a user's loss of a linear predictor whose bounds fail their test.

    The library's own losses are tested with the library.

    Parameters
    ----------
    loss : Loss
        The loss.
    set : set
        Set of the decisions.
    user : str
        What relies on the bounds.
    """
    if isinstance(loss, GeneralizedLinear) and not checks.is_built_in(loss):
        report = _in_one_dimension(loss, min(float(set.norm_bound), 1e3))
        if not report.passed:
            raise ValueError(
                f"{user} cannot use {loss!r}, because its guarantee depends on bounds that the loss exceeds:\n"
                f"{report}\nCorrect the loss until losses.check(loss) passes, or use a method that clips gradients "
                "instead, such as erm.gradient_descent or online.FollowTheRegularizedLeader"
            )


@functools.lru_cache(maxsize=64)
def _in_one_dimension(loss: GeneralizedLinear, reach: float) -> LossCheckReport:
    """One coordinate is enough, because the loss is a function of a single predictor."""
    return check(loss, set=L2Ball(1, reach), raise_on_failure=False)


class _LossTrial:
    def __init__(self, loss: Loss, set: Any) -> None:
        self.loss = loss
        self.set = set
        self.worst: dict[str, tuple[float, str]] = {}
        self.norm = 0.0
        self.steepest = 0.0
        self.flattest = math.inf
        self.claimed = loss.lipschitz(set)
        self.claimed_data = loss.data_lipschitz(set)

    def fail(self, name: str, excess: float, text: str) -> None:
        if not excess <= self.worst.get(name, (0.0, ""))[0]:
            self.worst[name] = (excess, text)

    def record(
        self, rng: np.random.Generator, decisions: Iterator[FloatArray], a: FloatArray, y: Any
    ) -> None:
        x, other = next(decisions), next(decisions)
        loss = self.loss
        before = (x.copy(), np.array(a, copy=True))
        f, g = loss.value(x, a, y), loss.gradient(x, a, y)
        if not (np.array_equal(before[0], x) and np.array_equal(before[1], a)):
            self.fail("inputs", math.inf, "value or gradient changes its arguments")
        if np.shape(g) != x.shape or not np.isfinite(g).all() or not math.isfinite(f):
            text = f"value {f!r} and gradient of shape {np.shape(g)} at x of shape {x.shape}"
            self.fail("finite", math.inf, f"{text}: both must be finite, the shapes equal")
            return
        norm = float(np.linalg.norm(g))
        self.norm = max(self.norm, norm)
        over = norm / self.claimed - 1.0 if self.claimed > 0.0 else norm
        if over > 1e-9:
            self.fail("lipschitz", over, f"a gradient of norm {norm:.6g} > {self.claimed:.6g}")
        part = float(np.linalg.norm(g - loss.ridge * x))
        if part > self.claimed_data * (1.0 + 1e-9) + 1e-12 * (1.0 + norm):
            text = f"a gradient, ridge left out, of norm {part:.6g} > {self.claimed_data:.6g}"
            self.fail("data_lipschitz", part - self.claimed_data, text)

        self.slope(rng, x, other, a, y)
        steps = [other - x]
        if self.set is None and norm > 0.0:
            steps += [g / norm * 10.0**k for k in (-3.0, -1.0, 0.5)]
        else:
            steps.append(1e-3 * (other - x))
        for step in steps:
            self.pair(x, f, g, step, a, y)

    def slope(
        self,
        rng: np.random.Generator,
        x: FloatArray,
        other: FloatArray,
        a: FloatArray,
        y: Any,
    ) -> None:
        if self.set is None:
            direction = rng.standard_normal(x.shape)
            h = 1e-5 * (1.0 + float(np.linalg.norm(x))) * direction / np.linalg.norm(direction)
        else:
            # Both ends stay in the set, because the loss may not be defined outside.
            x, h = 0.5 * (x + other), 1e-5 * (other - x)
            if not h.any():
                return
        loss = self.loss
        up, down = loss.value(x + h, a, y), loss.value(x - h, a, y)
        low = 2.0 * float(loss.gradient(x - h, a, y) @ h)
        high = 2.0 * float(loss.gradient(x + h, a, y) @ h)
        size = float(np.linalg.norm(h))
        rounding = 1e-14 * (abs(up) + abs(down) + 1.0) + 1e-7 * size * abs(high)
        excess = max(low - (up - down), (up - down) - high)
        if excess > rounding:
            text = (
                f"over a step of {2 * size:.1e} the value moves by {up - down:.8g}, "
                f"the gradient says between {low:.8g} and {high:.8g}: "
                "the gradient is wrong or the loss is not convex"
            )
            self.fail("gradient", excess / size, text)

    def pair(
        self, x: FloatArray, f: float, g: FloatArray, step: FloatArray, a: FloatArray, y: Any
    ) -> None:
        loss = self.loss
        square = float(step @ step)
        if square == 0.0:
            return
        end = x + step
        rise = loss.value(end, a, y) - f - float(g @ step)
        turn = loss.gradient(end, a, y) - g
        scale = abs(f) + abs(rise) + float(np.linalg.norm(g)) * math.sqrt(square)
        rounding = 1e-12 * (scale + 1.0)
        if rise < -rounding:
            self.fail("convex", -rise, f"not convex: {-rise:.3g} below its own tangent line")
        bend = float(np.linalg.norm(turn)) / math.sqrt(square)
        slack = 1e-12 * (float(np.linalg.norm(g)) + 1.0) / math.sqrt(square)
        self.steepest = max(self.steepest, bend)
        if bend > loss.smoothness * (1.0 + 1e-7) + slack:
            text = f"the gradient changes by {bend:.6g} per unit > smoothness {loss.smoothness:.6g}"
            self.fail("smoothness", bend - loss.smoothness, text)
        hold = float(turn @ step) / square
        self.flattest = min(self.flattest, hold)
        if hold < loss.strong_convexity * (1.0 - 1e-7) - slack:
            text = f"curvature {hold:.6g} < strong convexity {loss.strong_convexity:.6g}"
            self.fail("strong_convexity", loss.strong_convexity - hold, text)

    def many(self, x: FloatArray, A: Any, y: Any) -> None:
        labels = [None] * len(A) if y is None else y
        alone = np.array([self.loss.value(x, a, b) for a, b in zip(A, labels, strict=True)])
        slopes = np.mean(
            [self.loss.gradient(x, a, b) for a, b in zip(A, labels, strict=True)], axis=0
        )
        together: list[tuple[str, Callable[[], Any], Any]] = [
            ("values", lambda: self.loss.values(x, A, y), alone),
            ("mean_value", lambda: self.loss.mean_value(x, A, y), alone.mean()),
            ("mean_gradient", lambda: self.loss.mean_gradient(x, A, y), slopes),
        ]
        for name, call, expected in together:
            slack = 1e-12 * (1.0 + float(np.abs(alone).max()))
            if not np.all(np.abs(call() - expected) <= slack + 1e-9 * np.abs(expected)):
                self.fail(name, math.inf, f"{name} over many records differs from one at a time")

    def branches(self, rng: np.random.Generator, y: Any) -> None:
        """Whether the compiled phi, its curvature and its implicit step know the loss.

        A kind without a branch counts as linear.
        """
        assert self.loss.kernel is not None
        kind, params = self.loss.kernel
        if kind == kernels.LINEAR:
            return
        value, slope = kernels.phi(kind), kernels.dphi(kind)
        bend, step, linear = kernels.d2phi(kind), kernels.implicit_scalar(kind), True
        for label in np.asarray(y, dtype=np.float64):
            z, c = float(rng.uniform(-3.0, 3.0)), float(10.0 ** rng.uniform(-2.0, 1.0))
            linear &= value(params, z, label) == params[0] * z + label
            seen = (slope(params, z + 1e-6, label) - slope(params, z - 1e-6, label)) / 2e-6
            if abs(bend(params, z, label) - seen) > 1e-4 * (1.0 + abs(seen)):
                text = (
                    f"d2phi gives {bend(params, z, label):.6g} at z = {z:.6g}, y = {label:.6g}, where the slope "
                    f"changes by {seen:.6g} a unit: does it have a branch for kind {kind}?"
                )
                self.fail("d2phi", math.inf, text)
            t = step(params, z, label, c)
            v = z - c * t
            h = 1e-6 * (1.0 + abs(v))  # at a kink any slope between the two will do
            low, high = slope(params, v - h, label), slope(params, v + h, label)
            if not low - 1e-9 * (1.0 + abs(low)) <= t <= high + 1e-9 * (1.0 + abs(high)):
                text = (
                    f"implicit_scalar gives t = {t:.6g} at z = {z:.6g}, y = {label:.6g}, c = {c:.6g}, but "
                    f"phi'(z - c t, y) lies between {low:.6g} and {high:.6g}: does it have a branch for kind {kind}?"
                )
                self.fail("implicit", math.inf, text)
        if linear:
            text = f"phi is linear: losses/kernels.py has no branch for kind {kind}"
            self.fail("branches", math.inf, text)

    def alone(self, A: Any, y: Any) -> None:
        """Whether a record is prepared without looking at others, and value and gradient are those of the kernels."""
        loss = self.loss
        assert isinstance(loss, GeneralizedLinear)
        rows, labels, _ = loss.prepare(A, y)
        for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
            mine, its, _ = loss.prepare(A[i : i + 1], y[i : i + 1])
            if not (np.allclose(mine[0], row, rtol=1e-12, atol=0.0) and its[0] == label):
                text = (
                    "prepare changes a record depending on the other records, so that one record may move the "
                    "contributions of all; use public constants, such as a mean that is known beforehand"
                )
                self.fail("prepare", math.inf, text)
        if isinstance(loss, Quadratic):
            return  # its kernel gets another label
        kind, params = loss.kernel
        x = np.full(rows.shape[1], 0.3 / math.sqrt(rows.shape[1]))
        for row, label in zip(rows, labels, strict=True):
            z, part = float(row @ x), 0.5 * loss.ridge * float(x @ x)
            value = kernels.phi(kind)(params, z, label) + part
            slope = kernels.dphi(kind)(params, z, label) * row + loss.ridge * x
            close = np.allclose(loss.gradient(x, row, label), slope, rtol=1e-9, atol=1e-12)
            if not (close and math.isclose(loss.value(x, row, label), value, rel_tol=1e-9)):
                text = (
                    f"value or gradient differs from the compiled phi of kind {kind}, which learners and solvers use "
                    "in their place; use CustomLoss, or give the loss a kind of its own"
                )
                self.fail("compiled", math.inf, text)

    def report(self) -> LossCheckReport:
        return LossCheckReport(
            repr(self.loss),
            tuple(CheckedPart(name, False, text) for name, (_, text) in self.worst.items()),
            (self.norm, self.claimed),
            (self.steepest, self.loss.smoothness),
            (self.flattest, self.loss.strong_convexity),
        )
