"""The compiled loop of the quadratic leader, in which one running total contains a matrix and a vector.

[online], Algorithm 4. The total is the upper triangle of V = sum of v v', row by row, with its off-diagonal entries
times sqrt(2), followed by u = sum of y v times a weight. So its squared Euclidean norm is that of V in the Frobenius
norm plus that of the weighted u, and noise of the same size in every entry is symmetric noise on V: standard
deviation s on the diagonal and s/sqrt(2) off it.

V with noise may have negative eigenvalues. While the regularisers do not outweigh the noise, these are set to 0;
later a Cholesky factorisation is enough.

Considered: LAPACK's dposv through SciPy, which cannot be called from compiled code that is cached; np.linalg.cholesky
inside Numba is the same LAPACK and was faster at every size.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled, specialised
from reticent.losses.kernels import phi
from reticent.noise.door import admit, bounded
from reticent.online.kernels import dot
from reticent.sets.kernels import project_inplace

# Places in ``knobs``.
T = 0
CLIPPED = 1
LIMIT = 2
PER_STEP = 3
STEP = 4
RIDGE = 5
DAMPING = 6
WEIGHT = 7  # of u relative to V
RADIUS = 8  # decisions are scaled down to this norm before they are projected
SAFE = 9  # a regulariser above this outweighs the noise, so Cholesky can be used
REFRESH = 10
KNOBS = 11

_ROOT = math.sqrt(2.0)


@compiled
def absorb(row, y, bounds, knobs, total, room):
    """Add one record to the exact total, in whole steps.

    The features are measured first, because what replacing one record by another moves depends on their length, and
    then the joint vector is measured.
    """
    d, size = row.size, total.size
    v, joint, work = room[:d], room[d : d + size], room[d + size :]
    bounded(row, 1.0, bounds[0], v)
    label = min(bounds[2], max(bounds[1], y)) if y == y else 0.0
    at = 0
    for i in range(d):
        head = v[i]
        joint[at] = head * v[i]
        at += 1
        head *= _ROOT
        for j in range(i + 1, d):
            joint[at] = head * v[j]
            at += 1
    tail = knobs[WEIGHT] * label
    for i in range(d):
        joint[at + i] = tail * v[i]
    admit(joint, knobs[PER_STEP], knobs[LIMIT] * knobs[PER_STEP], total, work)


@compiled
def unpack(noisy, weight, M, u):
    """The matrix and the vector in a noisy total."""
    d = u.size
    at = 0
    for i in range(d):
        M[i, i] = noisy[at]
        at += 1
        for j in range(i + 1, d):
            M[i, j] = noisy[at] / _ROOT
            M[j, i] = M[i, j]
            at += 1
    for i in range(d):
        u[i] = noisy[at + i] / weight


@compiled
def _factor(M):
    try:
        return True, np.linalg.cholesky(M)
    except Exception:
        return False, M


@compiled
def solve(M, u, ridge, definite, x):
    """x = (M + ridge I)^-1 u, with negative eigenvalues of M set to 0 unless M + ridge I is safely definite."""
    d = u.size
    if definite:
        for i in range(d):
            M[i, i] += ridge
        fine, L = _factor(M)
        if fine:
            for i in range(d):
                x[i] = (u[i] - dot(L[i, :i], x[:i])) / L[i, i]
            for i in range(d - 1, -1, -1):
                x[i] /= L[i, i]
                for j in range(i):
                    x[j] -= L[i, j] * x[i]
            return
        for i in range(d):
            M[i, i] -= ridge
    values, vectors = np.linalg.eigh(M)
    x[:] = 0.0
    for k in range(d):
        along = 0.0
        for i in range(d):
            along += vectors[i, k] * u[i]
        along /= max(values[k], 0.0) + ridge
        for i in range(d):
            x[i] += along * vectors[i, k]


@compiled
def decide(noisy, knobs, M, u, x):
    """The leader of a noisy total, no farther from the origin than the leader of any exact total."""
    unpack(noisy, knobs[WEIGHT], M, u)
    ridge = knobs[T] * knobs[RIDGE] + knobs[DAMPING]
    solve(M, u, ridge, ridge >= knobs[SAFE], x)
    size = math.sqrt(dot(x, x))
    if size > knobs[RADIUS]:
        for i in range(x.size):
            x[i] *= knobs[RADIUS] / size


@specialised
def play(loss_kind, set_kind):
    """A kernel that plays one record after another; set_kind < 0 leaves the projection to the caller."""

    @compiled
    def play_records(
        A, labels, gaps, bounds, loss_params, knobs, set_params, total, noise, base, noisy, x, M, u, work, room,
        wait, every, decisions, losses,
    ):  # fmt: skip
        step = knobs[STEP]
        refresh = int(knobs[REFRESH])
        written = 0
        for r in range(A.shape[0]):
            if wait == 0:
                for i in range(x.size):
                    decisions[written, i] = x[i]
                written += 1
                wait = every
            wait -= 1
            gap = gaps.size > 0 and gaps[r] != 0
            if losses.size:
                losses[r] = 0.0
                if not gap:
                    losses[r] = phi(loss_kind)(loss_params, dot(A[r], x), labels[r])
                    losses[r] += 0.5 * knobs[RIDGE] * dot(x, x)
            if not gap:
                absorb(A[r], labels[r], bounds, knobs, total, room)
            knobs[T] += 1.0
            if int(knobs[T]) % refresh == 0:
                for i in range(noisy.size):
                    noisy[i] = base[i] + step * (total[i] + noise[r, i])
                decide(noisy, knobs, M, u, x)
                if set_kind >= 0:
                    project_inplace(set_kind)(set_params, x, work)

    return play_records
