"""The contract of a feasible set, as a test that anyone can run on a set of their own.

Everything the set offers is tried on random inputs and compared with its claims: the projection with the variational
inequality; the linear minimiser with vertices, samples and its own answers for other directions; the local linear
minimiser with both inequalities of a local linear oracle (Assumption 1 of Lou and Cheung;
docs/algorithms/local-linear-oracle.md); and the geometry with all of these.

A pass is evidence, not a proof. A failure is a proof, and names the input that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray, integer, is_built_in, number
from reticent.sets import kernels
from reticent.sets.base import ConvexSet, VerticesUnavailable

MOST_VERTICES = 2000


class ContractError(AssertionError):
    """A set violates its contract; the message lists what, where and by how much."""


@dataclass(frozen=True)
class CheckedPart:
    """One part of the contract: its name, whether it held, and the worst case if it did not.

    Parameters
    ----------
    name : str
        Name of the part.
    passed : bool
        Whether it held.
    detail : str
        The worst case, if it did not.
    """

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class CheckReport:
    """What a check of a set or a loss found, as a report to print.

    Parameters
    ----------
    subject : str
        What was checked.
    findings : tuple of CheckedPart
        The result of each part of the contract.
    """

    subject: str
    findings: tuple[CheckedPart, ...]

    @property
    def passed(self) -> bool:
        """Whether every part of the contract held."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> tuple[str, ...]:
        """The worst case of each part that did not hold; empty if all did."""
        return tuple(finding.detail for finding in self.findings if not finding.passed)

    def __str__(self) -> str:
        lines = [f"{self.subject}: {'passed' if self.passed else 'FAILED'}"]
        for finding in self.findings:
            mark = "ok  " if finding.passed else "FAIL"
            lines.append(
                f"  {mark} {finding.name}" + (f": {finding.detail}" * bool(finding.detail))
            )
        return "\n".join(lines)


def check(
    convex: ConvexSet,
    *,
    trials: int = 10,
    tol: float = 1e-7,
    seed: int = 0,
    raise_on_failure: bool = True,
) -> CheckReport:
    """Test everything a set offers.

    Parameters
    ----------
    convex : ConvexSet
        The set.
    trials : int
        Number of random inputs for each part of the contract.
    tol : float
        Errors up to ``tol`` times the size of the set (and of the direction) are attributed to rounding.
    seed : int
        Seed of the random inputs.
    raise_on_failure : bool
        Whether to raise `ContractError` with the full report if a part fails; otherwise the report is returned in any
        case.

    Returns
    -------
    CheckReport
        What was found.

    Raises
    ------
    ContractError
        A part of the contract failed, and ``raise_on_failure`` is true.

    Examples
    --------
    >>> from reticent import sets
    >>> print(sets.check(sets.L2Ball(3)))
    L2Ball(dim=3, radius=1): passed
      ok   attributes
      ...
    """
    if not isinstance(convex, ConvexSet):
        raise TypeError(f"check needs a reticent.sets.ConvexSet, got {type(convex).__name__}")
    trial = _SetTrial(convex, integer(trials, "trials", low=1), number(tol, "tol", low=0.0), seed)
    findings = []
    for name, part in trial.parts():
        try:
            problem = part()
        except Exception as error:  # a crash is a finding like any other
            problem = f"raised {type(error).__name__}: {error}"
        findings.append(CheckedPart(name, not problem, problem))
        if problem and name == "attributes":
            break  # the other parts need valid attributes
    report = CheckReport(repr(convex), tuple(findings))
    if raise_on_failure and not report.passed:
        raise ContractError(str(report))
    return report


_RELIED_ON = (
    "attributes",
    "samples are inside",
    "linear minimiser",
    "diameter and norm bound",
    "projection",
    "compiled kernel",
)


def need_exact_projection(convex: ConvexSet, user: str, instead: str) -> None:
    """Refuse a set whose projection is not compiled, or is a user's and fails its test.

    Parameters
    ----------
    convex : ConvexSet
        The set.
    user : str
        What needs the projection, because its sensitivity depends on it.
    instead : str
        What to use for other sets.
    """
    if convex.kernel is None:
        raise ValueError(
            f"{user} needs a set whose projection is exact up to rounding (a ball, a box, a simplex, a product of "
            f"these, or the whole space), got {convex!r}: how far one record moves the result depends on it; use "
            f"{instead}"
        )
    for part in (convex, *getattr(convex, "sets", ())):
        if is_built_in(part):
            continue
        trial = _SetTrial(part, 10, 1e-7, 0)
        for name, test in trial.parts():
            problem = test() if name in _RELIED_ON else ""
            if problem:
                raise ValueError(
                    f"{user} cannot use {convex!r}, because its guarantee depends on the set's projection and bounds, "
                    f"and the test of {name!r} failed: {problem}. Correct the set until sets.check(set) passes, or "
                    f"use {instead}"
                )


class _SetTrial:
    """The random inputs and the parts of the contract.

    A part returns a sentence about its worst failure, or nothing.
    """

    def __init__(self, convex: ConvexSet, trials: int, tol: float, seed: int) -> None:
        self.set = convex
        self.trials = trials
        self.tol = tol
        self.rng = np.random.default_rng(seed)
        self.bounded = True
        self.points: list[FloatArray] = []

    def parts(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "attributes", self.attributes
        yield "samples are inside", self.samples
        if self.bounded:
            yield "linear minimiser", self.linear_minimizer
            yield "diameter and norm bound", self.sizes
        if self.set.can_project:
            yield "projection", self.projection
        if self.set.rho is not None:
            yield "local linear minimiser", self.local_linear_minimizer
        yield "affine hull", self.affine_hull
        yield "inner ball", self.inner_ball
        yield "forms of points", self.forms
        if self.set.kernel is not None:
            yield "compiled kernel", self.kernel

    # ------------------------------------------------------------ helpers

    @property
    def scale(self) -> float:
        size = self.set.norm_bound
        return max(size, 1e-300) if math.isfinite(size) else 1.0

    @property
    def slack(self) -> float:
        return self.tol * max(1.0, self.scale)

    def directions(self) -> Iterator[FloatArray]:
        for i in range(self.trials):
            g = self.rng.standard_normal(self.set.dim)
            if i % 3 == 1:
                g = np.round(g)  # ties and zeros
            if i % 3 == 2:
                g *= 10.0 ** self.rng.integers(-6, 7)
            yield g

    def inside(self, point: FloatArray) -> bool:
        return self.set.contains(point, self.tol)

    # ------------------------------------------------------------ parts

    def attributes(self) -> str:
        convex = self.set
        if not isinstance(convex.dim, int | np.integer) or convex.dim < 1:
            return f"dim must be a positive whole number, got {convex.dim!r}"
        if not convex.diameter >= 0.0:
            return f"diameter must be a number that is not negative, got {convex.diameter!r}"
        if math.prod(convex.shape) != convex.dim:
            return f"shape {convex.shape} does not hold dim = {convex.dim} numbers"
        if convex.rho is not None and not convex.rho >= 1.0:
            return f"rho must be at least 1 (or None), got {convex.rho!r}"
        if not convex.norm_bound >= 0.0:
            return f"norm_bound must not be negative, got {convex.norm_bound!r}"
        self.bounded = math.isfinite(convex.diameter)
        return ""

    def samples(self) -> str:
        for _ in range(self.trials):
            point = np.asarray(self.set.sample(self.rng))
            if point.shape != self.set.shape:
                return f"sample(rng) has shape {point.shape}, not {self.set.shape}"
            if not self.inside(point):
                return f"sample(rng) gave a point that contains() refuses: {_short(point)}"
            self.points.append(point.reshape(-1))
        try:
            listed = self.set.vertices(MOST_VERTICES).reshape(-1, self.set.dim)
        except VerticesUnavailable:
            return ""
        for vertex in listed[self.rng.permutation(len(listed))[: 5 * self.trials]]:
            if not self.inside(vertex):
                return f"vertices() lists a point that contains() refuses: {_short(vertex)}"
        self.points.extend(listed)
        return ""

    def linear_minimizer(self) -> str:
        asked = [np.zeros(self.set.dim), *self.directions()]
        answers = []
        for g in asked:
            before = g.copy()
            answer = np.asarray(self.set.linear_minimizer(g))
            if answer.shape != g.shape:
                return f"linear_minimizer of shape {g.shape} answered with shape {answer.shape}"
            if not np.array_equal(before, g):
                return f"linear_minimizer changed its argument {_short(before)}"
            if not self.inside(answer):
                return f"linear_minimizer({_short(g)}) = {_short(answer)} is not in the set"
            answers.append(answer)
        self.points.extend(answers)
        rivals = np.array(self.points)
        for g, answer in zip(asked, answers, strict=True):
            values = rivals @ g
            worse = float(g @ answer - values.min())
            if worse > self.slack * float(np.linalg.norm(g)):
                rival = rivals[values.argmin()]
                return (
                    f"linear_minimizer({_short(g)}) = {_short(answer)} has value {g @ answer:.9g}, "
                    f"but {_short(rival)} in the set has {values.min():.9g}"
                )
        return ""

    def sizes(self) -> str:
        points = np.array(self.points)
        for point in points[:200]:
            far = points[np.linalg.norm(points - point, axis=1).argmax()]
            # Ask the set itself for points further out in this direction.
            further = self.set.linear_minimizer(point - far), self.set.linear_minimizer(far - point)
            for a, b in ((point, far), further):
                distance = float(np.linalg.norm(a - b))
                if distance > self.set.diameter + self.slack:
                    return (
                        f"diameter is {self.set.diameter:.9g}, but {_short(a)} and {_short(b)} are "
                        f"{distance:.9g} apart"
                    )
        norms = np.linalg.norm(points, axis=1)
        if norms.max() > self.set.norm_bound + self.slack:
            worst = points[norms.argmax()]
            return (
                f"norm_bound is {self.set.norm_bound:.9g}, but {_short(worst)} is {norms.max():.9g}"
            )
        return ""

    def projection(self) -> str:
        for i, direction in enumerate(self.directions()):
            x = direction * (self.scale if i % 2 else 1.0) + self.points[i % len(self.points)]
            before = x.copy()
            p = np.asarray(self.set.project(x))
            slack = self.tol * max(1.0, self.scale, float(np.linalg.norm(x)) * 1e-3)
            if not np.array_equal(before, x):
                return f"project changed its argument {_short(before)}"
            if p.shape != x.shape:
                return f"project of shape {x.shape} answered with shape {p.shape}"
            if not self.inside(p):
                return f"project({_short(x)}) = {_short(p)} is not in the set"
            again = float(np.linalg.norm(self.set.project(p) - p))
            if again > slack:
                return f"projecting {_short(p)}, a projection, moves it by {again:.3g}"
            away = p - x
            rivals = np.array(self.points)
            if self.bounded:
                rivals = np.vstack([rivals, self.set.linear_minimizer(away)])
            # p is the nearest point if and only if no point of the set is on x's side of p.
            ahead = (rivals - p) @ away
            if (
                ahead.min() < -slack * max(float(np.linalg.norm(away)), 1.0)
                and ahead.min() < -slack
            ):
                rival = rivals[ahead.argmin()]
                return (
                    f"project({_short(x)}) = {_short(p)} is not the nearest point: the angle at it "
                    f"towards {_short(rival)} is acute (<x - p, v - p> = {-ahead.min():.3g} > 0)"
                )
        for point in self.points[:5]:
            moved = float(np.linalg.norm(self.set.project(point) - point))
            if moved > self.slack:
                return f"project moves {_short(point)}, a point of the set, by {moved:.3g}"
        return ""

    def local_linear_minimizer(self) -> str:
        rho = self.set.rho
        assert rho is not None
        reach = self.set.diameter if 0.0 < self.set.diameter < math.inf else 1.0
        for i, g in enumerate(self.directions()):
            x = self.points[int(self.rng.integers(len(self.points)))]
            if i % 4 == 3:
                x = 0.5 * (x + self.points[0])
            radius = reach * 10.0 ** self.rng.uniform(-4.0, 0.2)
            p = np.asarray(self.set.local_linear_minimizer(x, radius, g))
            case = f"local_linear_minimizer({_short(x)}, {radius:.6g}, {_short(g)}) = {_short(p)}"
            if not self.inside(p):
                return f"{case} is not in the set"
            moved = float(np.linalg.norm(p - x))
            if moved > rho * radius * (1.0 + 1e-9) + 1e-12 * max(1.0, self.scale):
                return f"{case} is {moved:.9g} from x, more than rho * radius = {rho * radius:.9g}"
            for y in self.nearby(x, radius, g):
                worse = float(g @ (p - y))
                if worse > self.slack * float(np.linalg.norm(g)):
                    return f"{case} has value {g @ p:.9g}, but {_short(y)} nearby has {g @ y:.9g}"
        return ""

    def nearby(self, x: FloatArray, radius: float, g: FloatArray) -> Iterator[FloatArray]:
        """Good points of the set within the radius: samples, projections and conditional-gradient steps."""
        rivals = list(self.points[:50])
        if self.bounded:
            rivals.append(self.set.linear_minimizer(g))
            # Conditional-gradient steps on <g, y> + weight ||y - x||^2 / 2, moved into the ball at the end.
            y = x
            weight = float(np.linalg.norm(g)) / radius
            for step in range(30):
                vertex = self.set.linear_minimizer(g + weight * (y - x))
                y = y + 2.0 / (step + 2.0) * (vertex - y)
                rivals.append(y)
        if self.set.can_project:
            slope = max(float(np.linalg.norm(g)), 1e-300)
            rivals += [self.set.project(x - radius * 2.0**k / slope * g) for k in range(8)]
        for rival in rivals:
            distance = float(np.linalg.norm(rival - x))
            yield x + (rival - x) * min(1.0, radius / max(distance, 1e-300))

    def affine_hull(self) -> str:
        origin, basis = self.set.affine_hull
        if origin.shape != (self.set.dim,):
            return f"affine_hull gives a point of shape {origin.shape}, not ({self.set.dim},)"
        if (basis is not None) != self.set.is_flat:
            has = "no" if basis is None else "a"
            return f"is_flat is {self.set.is_flat}, but the hull has {has} basis"
        if basis is None:
            return ""
        if basis.ndim != 2 or basis.shape[0] != self.set.dim or basis.shape[1] >= self.set.dim:
            return f"the basis of a flat set must be dim x k with k < dim, got {basis.shape}"
        error = float(np.abs(basis.T @ basis - np.eye(basis.shape[1])).max(initial=0.0))
        if error > 1e-9:
            return f"the basis is not orthonormal: off by {error:.3g}"
        for point in self.points:
            offset = point - origin
            off = float(np.linalg.norm(offset - basis @ (basis.T @ offset)))
            if off > self.slack:
                return f"{_short(point)} is in the set but {off:.3g} from the affine hull"
        for column in basis.T[: 5 * self.trials]:
            wide = self.set.linear_minimizer(-column) - self.set.linear_minimizer(column)
            if column @ wide <= 0.0:
                return f"the set has no width along {_short(column)}, a direction of its hull"
        return ""

    def inner_ball(self) -> str:
        center, radius = self.set.inner_ball
        if np.shape(center) != self.set.shape or np.shape(self.set.center) != self.set.shape:
            return f"the centre has shape {np.shape(center)}, not {self.set.shape}"
        if not self.inside(center) or not self.inside(self.set.center):
            return f"the centre {_short(center)} is not in the set"
        _, basis = self.set.affine_hull
        directions = self.set.dim if basis is None else basis.shape[1]
        if (radius > 0.0) != (directions > 0):
            return f"the radius is {radius:.3g}, but the hull has {directions} dimensions"
        if not self.bounded or directions == 0:
            return ""
        for _ in range(self.trials):
            u = self.rng.standard_normal(directions)
            u = u if basis is None else basis @ u
            u /= np.linalg.norm(u)
            reach = float(u @ (np.reshape(center, -1) - self.set.linear_minimizer(u)))
            if reach < radius - self.slack:
                return (
                    f"along {_short(-u)} the set ends {reach:.9g} from the centre, not {radius:.9g}"
                )
            if not self.inside(np.reshape(center, -1) + radius * u):
                return f"the point of the inner ball along {_short(u)} is not in the set"
        return ""

    def forms(self) -> str:
        flat = self.rng.standard_normal(self.set.dim)
        shaped = flat.reshape(self.set.shape)
        calls: list[tuple[str, Callable[[FloatArray], FloatArray]]] = []
        if self.bounded:
            calls.append(("linear_minimizer", self.set.linear_minimizer))
        if self.set.can_project:
            calls.append(("project", self.set.project))
        for name, call in calls:
            a, b = call(flat), call(shaped)
            if a.shape != flat.shape or b.shape != shaped.shape:
                return (
                    f"{name} answers shapes {flat.shape}, {shaped.shape} with {a.shape}, {b.shape}"
                )
            if not np.array_equal(a, b.reshape(-1)):
                return (
                    f"{name} gives different points for the same input flat and as {shaped.shape}"
                )
        return ""

    def kernel(self) -> str:
        named = self.set.kernel
        assert named is not None
        kind, params = named
        dim = self.set.dim
        for g in self.directions():
            x = self.points[int(self.rng.integers(len(self.points)))] + g
            out = x.copy()
            kernels.project_inplace(kind)(params, out, np.empty(2 * dim))
            pairs = [("projection", out, self.set.project(x))]
            if self.bounded:
                out = np.empty(dim)
                kernels.linear_minimizer_inplace(kind)(params, g, out)
                pairs.append(("linear minimiser", out, self.set.linear_minimizer(g)))
            if kind in kernels.LOCAL_KINDS:
                out = np.empty(dim)
                point = self.points[0]
                kernels.local_linear_minimizer_inplace(kind)(params, point, 0.1, g, out)
                answer = self.set.local_linear_minimizer(point, 0.1, g)
                pairs.append(("local linear minimiser", out, answer))
            for name, compiled, method in pairs:
                if not np.abs(compiled - method).max() <= self.slack:  # NaN is no answer
                    return (
                        f"the compiled {name} gives {_short(compiled)}, the method {_short(method)}"
                    )
        return ""


def _short(array: FloatArray) -> str:
    return np.array2string(
        np.asarray(array), precision=6, threshold=8, edgeitems=3, max_line_width=10_000
    )
