"""Exact densities of perturbed minimisers: objective perturbation, whose output is not linear in the noise.

A minimiser of ``loss(x) + (ridge/2) |x|^2 + <b, x>`` is a one-to-one function of b. The code is run with b on a grid,
in both worlds; the b' of the neighbour that leads to the same x, and its derivative in b, give the ratio of the two
densities (:mod:`reticent.audit.densities`), including the determinant of the Hessian, and the hockey-stick divergence
follows by numeric integration at every epsilon.

Three more things are checked by the response of the output to each draw: that there are as many independent linear
terms as coordinates (otherwise two classes share one), that separate noise covers the minimiser before it leaves, and
that this noise can match both worlds' outputs to the last bit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.audit import densities
from reticent.audit.hooks import Draw
from reticent.audit.whitebox import Exact, least_fault
from reticent.audit.whitebox_matching import InputPair, Machine, Outcome, silent
from reticent.checks import FloatArray
from reticent.noise import Source
from reticent.privacy import Curve, Guarantee

TOLERANCE = 1e-3
"""Relative tolerance on epsilon for interpolation and numeric integration."""

_DELTAS = (1e-6, 1e-3, 0.1)
_LARGE = 1e-2  # a draw is a linear term if its response exceeds this share of the largest, otherwise final noise
_REACH = {"gaussian": 9.0, "gamma": 30.0}  # half-width of the grid, in scales
_POINTS = {"gaussian": 109, "gamma": 241}
_PLANE = 23
_JOINT = 61


@dataclass(frozen=True)
class _Noise:
    """The draws that are linear terms, and the kind of their noise."""

    kind: str
    terms: NDArray[np.int64]


def minimiser(
    name: str,
    run: Callable[[Any, Source], Outcome],
    pairs: Iterable[InputPair],
    *,
    plane: bool = False,
) -> Exact:
    """The worst hockey stick of perturbed minimisers over some pairs, compared with the claim at several deltas.

    Parameters
    ----------
    name : str
        Name for printing.
    run : callable
        ``run(data, source)``; its output has one number for each linear term (several problems of one dimension), or
        with ``plane`` the two coordinates of one problem.
    pairs : iterable of InputPair
        The neighbours to try.
    plane : bool
        Whether the two outputs are the coordinates of one problem, whose densities are integrated over the plane.

    Returns
    -------
    Exact
        The result for the worst pair.
    """
    worst: Exact | None = None
    tried = 0
    for pair in pairs:
        tried += 1
        found = _compare(name, run, pair, plane)
        if worst is None or found.tightness > worst.tightness:
            worst = found
    assert worst is not None
    return replace(worst, pairs=tried)


def _compare(name: str, run: Any, pair: InputPair, plane: bool) -> Exact:
    machine = Machine(run, taps=False)
    with np.errstate(all="ignore"):
        base = machine.play(pair.data)
    assert base.guarantee is not None
    stated = base.guarantee
    claim = stated.curve if isinstance(stated, Guarantee) else stated
    pure = claim.pure is not None
    noise, leak = _roles(machine, pair, base)
    if leak:
        at = 0.0 if pure else _DELTAS[0]
        return Exact(name, claim.epsilon(at), math.inf, at, math.inf, False, leak)
    with np.errstate(all="ignore"):
        laws = _laws(machine, pair, base.tape.draws, noise, plane)

    def found(delta: float, divided_by: float = 1.0) -> float:
        with np.errstate(all="ignore"):
            here = [law(divided_by) for law in laws]
            if pure:
                return max(float(np.nanmax(np.abs(ratio))) for _, ratio, _ in here)
            return max(densities.epsilon_at(partial(_stick, law), delta) for law in here)

    share, claimed, value, delta = _worst(claim, (0.0,) if pure else _DELTAS, found)
    fault = least_fault(lambda r: found(delta, r) > claimed * (1.0 + TOLERANCE))
    how = pair.why if pure else f"{pair.why}; at delta = {delta:g}"
    return Exact(
        name, claimed, value, delta, share, share <= 1.0 + TOLERANCE, how, claim=claim, fault=fault
    )


Law = tuple[FloatArray, FloatArray, FloatArray]
"""Log-density, log-ratio and integration weights."""


def _laws(
    machine: Machine, pair: InputPair, draws: list[Draw], noise: _Noise, plane: bool
) -> list[Callable[[float], Law]]:
    """The law of the output in each world relative to the other, as functions of the divisor of the noise."""
    shapes = [draw.values.shape for draw in draws]
    ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
    sizes = np.concatenate([np.repeat(draw.scales, draw.values.shape[1]) for draw in draws])

    def point(data: Any, *units: float) -> FloatArray:
        flat = np.zeros(sizes.size)
        flat[noise.terms] = sizes[noise.terms] * np.broadcast_to(units, noise.terms.shape)
        parts = zip(np.split(flat, ends), shapes, strict=True)
        return machine.play(data, silent, [part.reshape(shape) for part, shape in parts]).output

    worlds = (pair.data, pair.neighbour)
    if plane:
        grid = np.linspace(-6.5, 6.5, _PLANE)
        made = [np.array([[point(w, u, v) for v in grid] for u in grid]) for w in worlds]
        return [_in_the_plane(grid, a, b) for a, b in (made, made[::-1])]
    grid = np.linspace(-_REACH[noise.kind], _REACH[noise.kind], _POINTS[noise.kind])
    made = [np.array([point(w, unit) for unit in grid]) for w in worlds]
    return [_on_the_line(grid, a, b, noise.kind) for a, b in (made, made[::-1])]


def _worst(
    claim: Curve, deltas: Iterable[float], found: Callable[[float], float]
) -> tuple[float, float, float, float]:
    """Where the largest share of the claimed epsilon is found: this share, both epsilons, and delta."""
    tried = [(claim.epsilon(delta), found(delta), delta) for delta in deltas]
    shares = [
        (value / claimed, claimed, value, at) for claimed, value, at in tried if claimed > 0.0
    ]
    return max(shares, key=operator.itemgetter(0))


def _stick(law: Law, epsilon: float) -> float:
    log_p, ratio, weights = law
    return densities.stick(log_p, log_p - ratio, weights, epsilon)


def _roles(machine: Machine, pair: InputPair, base: Any) -> tuple[_Noise, str]:
    """The draws that are linear terms; and a sentence if some are missing or shared, or if there is no final noise."""
    values = [draw.values for draw in base.tape.draws]
    if not values:
        return _Noise("gaussian", np.empty(0, np.int64)), "no noise was drawn"
    where, response = machine._response(pair.data, silent, base, values)
    kind = base.tape.draws[0].kind
    sizes = np.linalg.norm(response, axis=0) if where.size else np.zeros(0)
    large = sizes > _LARGE * sizes.max() if where.size else np.zeros(0, dtype=bool)
    outputs = base.output.size
    if _rank(response[:, large]) < outputs:
        return _Noise(kind, where[large]), "one random term is used for more than one output"
    if _rank(response[:, ~large]) < outputs:
        return _Noise(kind, where[large]), "the minimiser is released without final noise"
    if all(draw.whole for draw in base.tape.draws) and not machine.same_bits(
        pair, silent, base, values, (where[~large], response[:, ~large])
    ):
        return _Noise(kind, where[large]), "the last bits of the output depend on the record"
    return _Noise(kind, where[large]), ""


def _rank(columns: FloatArray) -> int:
    if columns.shape[1] == 0:
        return 0
    return int(np.linalg.matrix_rank(columns, rtol=1e-6))


def _on_the_line(
    grid: FloatArray, mine: FloatArray, other: FloatArray, kind: str
) -> Callable[[float], Law]:
    """The law of one number, or of several independent ones, as a function of the divisor of the noise."""
    density = densities.normal_log_density if kind == "gaussian" else densities.laplace_log_density
    matched = [densities.carried(grid, -mine[:, k], -other[:, k]) for k in range(mine.shape[1])]

    def law(divided_by: float) -> Law:
        units = grid if len(matched) == 1 or kind != "gaussian" else np.linspace(-7.5, 7.5, _JOINT)
        noise = units / divided_by
        ratios = [
            density(units)
            - density(divided_by * np.interp(noise, grid, there))
            - np.interp(noise, grid, slope)
            for there, slope in matched
        ]
        if len(ratios) == 1:
            return density(units), ratios[0], np.full(units.size, units[1] - units[0])
        # for several problems with independent noise the logarithms add up
        if kind != "gaussian":
            total = np.array([sum(np.nanmax(np.abs(ratio)) for ratio in ratios)])
            return np.zeros(1), total, np.ones(1)
        parts = [np.where(np.isfinite(ratio), ratio, 0.0) for ratio in ratios]
        meshes, logs = parts[0], density(units)
        for part in parts[1:]:
            meshes, logs = np.add.outer(meshes, part), np.add.outer(logs, density(units))
        weight = (units[1] - units[0]) ** len(parts)
        return logs.ravel(), meshes.ravel(), np.full(logs.size, weight)

    return law


def _in_the_plane(grid: FloatArray, mine: FloatArray, other: FloatArray) -> Callable[[float], Law]:
    """The law of one point of the plane, as a function of the divisor of the noise."""
    fine = np.linspace(-6.0, 6.0, 121)
    match = densities.carried_in_the_plane(grid, fine, mine, other)

    def law(divided_by: float) -> Law:
        ratio = densities.log_ratio_in_the_plane(fine, match, divided_by)
        one = densities.normal_log_density(fine)
        log_p = np.add.outer(one, one).ravel()
        return log_p, ratio, np.full(log_p.size, (fine[1] - fine[0]) ** 2)

    return law
