"""Baselines for the protocol: sketching every column once, and no privacy at all.

:func:`one_shot_sketch` follows Heinze-Deml, McWilliams and Meinshausen, *Preserving differential privacy between
features in distributed estimation*, with exact calibration; :func:`distributed_frank_wolfe` is dFW of Bellet, Liang,
Garakani, Balcan and Sha, *A distributed Frank-Wolfe algorithm for communication-efficient sparse learning*. The third
baseline, with all columns in one place, is :func:`reticent.erm.frank_wolfe`.

Noise on all columns is noise on the regressors, which biases least squares towards zero; as in the original, nothing
corrects for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import eigh

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.losses import records
from reticent.noise import Source, release
from reticent.privacy import Budget, Guarantee, Release, charge, curves
from reticent.sets import L1Ball
from reticent.solve.accelerated import accelerated, settled
from reticent.trace import Recorder
from reticent.vertical.plan import Plan, Terms, sketch_moved
from reticent.vertical.sketch import SPREAD

DESCENT = 300


def _blocks(blocks: Sequence[Any], bound: float) -> list[FloatArray]:
    if not blocks:
        raise ValueError("blocks is empty; it must hold one matrix per party")
    parts = [np.clip(_dense(records.features(block, "blocks")), -bound, bound) for block in blocks]
    if len({part.shape[0] for part in parts}) != 1:
        raise ValueError("all blocks must have the same number of rows")
    return parts


def _dense(A: Any) -> FloatArray:
    return A.toarray() if hasattr(A, "toarray") else A


def one_shot_sketch(
    blocks: Sequence[Any],
    y: Any,
    *,
    budget: Budget,
    radius: float = 1.0,
    sketch_size: int = 256,
    feature_bound: float = 1.0,
    label_bound: float = 1.0,
    seed: int | None = None,
    noise_precision: str = "lattice",
) -> Fit:
    """Every party sends a noisy sketch of each of its columns once; then the server fits.

    Parameters
    ----------
    blocks : sequence of matrices
        One matrix per party, with the same rows.
    y : array
        Labels, which are sketched once too.
    budget : Budget
        Privacy budget for a whole row; its delta must be above 0.
    radius : float
        Radius of the l1 ball. Default: 1.
    sketch_size : int
        Length of a sketch. Default: 256.
    feature_bound : float
        Bound to which entries of features are clipped, in absolute value. Default: 1.
    label_bound : float
        Bound to which labels are clipped, in absolute value. Default: 1.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".

    Returns
    -------
    Fit
        The fit; the settings of its trace contain the number of uplink bytes.
    """
    bound = checks.positive(feature_bound, "feature_bound")
    label = checks.positive(label_bound, "label_bound")
    checks.choice(noise_precision, "noise_precision", ("lattice", "float"))
    A = np.concatenate(_blocks(blocks, bound), axis=1)
    rows, dim = A.shape
    target = np.clip(records.labels(y, rows), -label, label)
    size = min(checks.integer(sketch_size, "sketch_size", low=1), rows)
    source = Source(seed)
    shape = Plan(rows=rows, rounds=0, columns=0, clip=1.0, selection_scale=1.0, sketch_scale=1.0,
                 sketch_size=size, sketch_spread=min(SPREAD, size),
                 sketch_seed=0 if seed is None else seed)  # fmt: skip
    sketch = shape.sketch()
    lattice = noise_precision == "lattice"
    terms = Terms(bound, label, budget.neighbours, lattice, source.seeded)
    each = budget.mu / np.sqrt(dim + 1.0) * (1.0 - 1e-9)
    scales, releases = [], []
    for limit, count in ((bound, dim), (label, 1)):
        moved = sketch_moved(shape, terms, limit)
        scale = release.scale_for(moved, each, size) if lattice else moved / each
        wide = release.widened(moved, scale, size) if lattice else moved
        words = f"Gaussian, standard deviation {scale:.6g}"
        releases.append(
            Release("noisy sketch of a column", curves.Gaussian(wide / scale), wide, words, count)
        )
        scales.append(scale)
    guarantee = Guarantee.of(budget, releases, seeded=source.seeded, lattice=lattice)
    if not guarantee.meets(budget):
        raise RuntimeError(f"calibration gave {guarantee}, which does not meet {budget}")
    charge(guarantee, "one-shot sketch")

    def noisy(column: FloatArray, scale: float) -> FloatArray:
        clean = sketch.apply(np.ascontiguousarray(column))
        return release.noisy(clean, scale, source, precision=noise_precision)

    recorder = Recorder(
        "one-shot sketch",
        steps=1,
        settings={"sketch size": size, "uplink bytes": 8 * size * (dim + 1)},
    )
    with recorder:
        seen = np.stack([noisy(A[:, j], scales[0]) for j in range(dim)], axis=1)
        answer = noisy(target, scales[1])
        point = _least_squares(seen, answer, radius)
        recorder.note(1, point)
    return Fit(point, guarantee, recorder.close())


def _least_squares(A: FloatArray, y: FloatArray, radius: float) -> FloatArray:
    """Accelerated projected gradient over the l1 ball."""
    ball = L1Ball(A.shape[1], radius)
    small = A @ A.T if A.shape[0] < A.shape[1] else A.T @ A
    top = eigh(small, eigvals_only=True, subset_by_index=[len(small) - 1, len(small) - 1])
    start = np.zeros(A.shape[1])
    way = accelerated(lambda x: A.T @ (A @ x - y), ball.project, start, max(float(top[0]), 1e-300))
    return settled(way, start, DESCENT)


def distributed_frank_wolfe(
    blocks: Sequence[Any], y: Any, *, radius: float = 1.0, steps: int = 100, loss: str = "squared"
) -> Fit:
    """dFW: every party offers its best column, and the best of all is sent in clear. Not private.

    Its iterates are those of Frank-Wolfe on the whole table.

    Parameters
    ----------
    blocks : sequence of matrices
        One matrix per party, with the same rows.
    y : array
        Labels.
    radius : float
        Radius of the l1 ball. Default: 1.
    steps : int
        Number of steps. Default: 100.
    loss : {"squared", "logistic"}
        Loss; logistic labels are -1 and 1. Default: "squared".

    Returns
    -------
    Fit
        The last iterate; its guarantee says that there is none.


    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.choice([-1.0, 1.0], size=(200, 6))
    >>> fit = distributed_frank_wolfe([A[:, :3], A[:, 3:]], A[:, 4], steps=200)
    >>> fit.point.round(2)
    array([0., 0., 0., 0., 1., 0.])
    """
    radius = checks.positive(radius, "radius")
    count = checks.integer(steps, "steps", low=1)
    checks.choice(loss, "loss", ("squared", "logistic"))
    parts = _blocks(blocks, np.inf)
    rows = parts[0].shape[0]
    target = records.labels(y, rows)
    points = [np.zeros(part.shape[1]) for part in parts]
    z = np.zeros(rows)
    settings = {"steps": count, "uplink bytes": count * (len(parts) * 16 + 8 * rows)}
    recorder = Recorder("dFW", steps=count, settings=settings)
    with recorder:
        for t in range(count):
            slopes = z - target if loss == "squared" else 0.5 * (np.tanh(0.5 * z) - target)
            scores = [part.T @ slopes for part in parts]
            best = max(range(len(parts)), key=lambda k: float(np.abs(scores[k]).max()))
            column = int(np.abs(scores[best]).argmax())
            sign = -float(np.sign(scores[best][column])) * radius
            size = 2.0 / (t + 2.0)
            for k, point in enumerate(points):
                point *= 1.0 - size
                if k == best:
                    point[column] += size * sign
            z = (1.0 - size) * z + size * sign * parts[best][:, column]
            recorder.note(t + 1, np.concatenate(points), {"step size": size})
    nothing = Guarantee.none("dFW sends columns in clear")
    return Fit(np.concatenate(points), nothing, recorder.close())
