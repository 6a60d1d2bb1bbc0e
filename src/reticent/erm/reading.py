"""Build a problem from a user's arguments: everything is checked, and records are clipped.

A record beyond the stated bounds is scaled down or clipped (Abadi et al., *Deep learning with differential privacy*,
section 3.1), so that the sensitivity holds for any input.

Arguments are refused before anything is spent or drawn, by public numbers and types as far as possible; an error that
names a record is meant for the holder of the records.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.passes import surveyed
from reticent.erm.problem import IGNORANCE, Groups, OfflineProblem, default_radius, label_range
from reticent.losses import ClipCounts, GeneralizedLinear, Loss, records
from reticent.losses.checking import need_true_bounds
from reticent.privacy import Budget, prescribed
from reticent.sets import L2Ball, WholeSpace
from reticent.sets.contract import need_exact_projection
from reticent.solve.blocks import (
    UNLIMITED,
    AsGiven,
    ByEntries,
    Form,
    InMemory,
    IsClass,
    Meaning,
    Records,
    Within,
)

PRECISIONS = ("lattice", "float")
LEAST_NORM = 2.0**-300
"""Squares of smaller features underflow, so a record could not be clipped to a smaller norm."""


def read(
    loss: Any,
    set: Any,
    X: Any,
    y: Any,
    budget: Any,
    *,
    noise_precision: str,
    calibration: str = "exact",
    by_entries: bool = False,
    weights: Any = None,
    weight_bound: float = 1.0,
    groups: Any = None,
    max_records: int | None = None,
) -> OfflineProblem:
    """Check all arguments and clip the records; spends nothing and draws nothing."""
    _check_terms(loss, budget)
    checks.choice(noise_precision, "noise_precision", PRECISIONS)
    if calibration != prescribed.EXACT:
        prescribed.check(calibration)
    bound = checks.number(weight_bound, "weight_bound", low=0.0, open_low=True)
    table, clipped = _table(loss, X, y, by_entries)
    dim = table.shape[1]
    if set is not None and int(set.dim) != dim:
        raise ValueError(
            f"the set has dimension {set.dim}, but the records have {dim} columns; construct the set with "
            f"dim={dim}"
        )
    factors = None if weights is None else _weights(weights, table.shape[0], bound)
    persons = Groups.of(groups, table.shape[0], max_records)
    if persons is not None:
        if calibration != "exact":
            raise ValueError(
                f"groups need calibration='exact', got {calibration!r}: prescribed noise protects records only"
            )
        factors = persons.factors if factors is None else factors * persons.factors
        bound *= persons.most
    table = _weighted(table, factors)
    problem = OfflineProblem(
        loss,
        WholeSpace(dim) if set is None else set,
        table,
        budget,
        noise_precision,
        clipped,
        by_entries,
        weight_bound=bound,
        groups=persons,
    )
    if problem.is_linear_model and not by_entries and table.form.norm(dim) > problem.feature_norm:
        raise ValueError(
            f"the records are clipped to norm {table.form.norm(dim):.6g}, more than the loss's feature_norm "
            f"{problem.feature_norm:.6g}; clip them to less, or use a loss with a larger feature_norm"
        )
    return problem


def _check_terms(loss: Any, budget: Any) -> None:
    """Refuse arguments that are not a budget or not a loss, whatever the records are."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
    budget.must_be_for_ever("an offline solver", "it has one output, which is kept for ever")
    if not isinstance(loss, Loss):
        raise TypeError(
            f"loss must be a reticent.losses.Loss, got {loss!r}; wrap callables in losses.CustomLoss"
        )
    if isinstance(loss, GeneralizedLinear) and loss.feature_norm < LEAST_NORM:
        raise ValueError(
            f"loss.feature_norm must be at least {LEAST_NORM:.3g}, got {loss.feature_norm:g}: squares of such "
            "features underflow; rescale the records"
        )


def _table(loss: Loss, X: Any, y: Any, by_entries: bool) -> tuple[Records, ClipCounts]:
    """The records in the form that solvers read, and how many were clipped."""
    if isinstance(X, Records):
        return _checked_records(loss, X, y, by_entries)
    if _reads_plainly(loss) and not by_entries:
        return _as_it_is(loss, X, y)
    A, labels, clipped = (_prepare_entries if by_entries else type(loss).prepare)(loss, X, y)
    A, labels, clipped = _own(loss, A, labels, clipped, by_entries)
    length = UNLIMITED
    if isinstance(loss, GeneralizedLinear) and not by_entries:
        length = loss.feature_norm
    return InMemory(A, labels, form=Form(length=length), fits=True), clipped


def _reads_plainly(loss: Any) -> TypeGuard[GeneralizedLinear]:
    return isinstance(loss, GeneralizedLinear) and loss.prepares_apart


def _weighted(table: Records, factors: FloatArray | None) -> Records:
    if factors is None:
        return table
    if not isinstance(table, InMemory):
        raise TypeError(
            "records that are not in memory take no weights or groups; leave them out, or read the records into "
            "memory"
        )
    return replace(table, weights=factors)


def _as_it_is(loss: GeneralizedLinear, X: Any, y: Any) -> tuple[InMemory, ClipCounts]:
    """Features are not copied; labels are copied, so that nobody else can change them."""
    A = records.as_it_is(X)
    labels, beyond = loss._prepare_labels(y, A)
    table = InMemory(A, _own_labels(loss, labels), form=Form(length=loss.feature_norm))
    clipped = surveyed(table, "A")
    fits = not clipped and A.dtype == np.float64 and (sp.issparse(A) or A.flags.c_contiguous)
    return replace(table, fits=fits), ClipCounts(clipped, beyond, table.shape[0])


def _checked_records(
    loss: Loss, X: Records, y: Any, by_entries: bool
) -> tuple[Records, ClipCounts]:
    """Read records in blocks once from end to end before anything is spent."""
    if not _reads_plainly(loss) or (by_entries and not isinstance(X, ByEntries)):
        raise TypeError(
            "records in blocks need a generalised linear loss with the usual preparation of records, and clipping by "
            f"rows, got {loss!r}; read them into memory"
        )
    if by_entries and not loss.feature_norm >= 1.0:
        raise ValueError(
            f"entries are clipped to 1, more than the feature_norm of {loss!r}; use a loss with feature_norm >= 1"
        )
    if getattr(X, "weights", None) is not None:
        raise TypeError(
            "records in blocks must not hold weights of their own, which nothing bounds; call the solver with weights="
        )
    clipped, beyond = surveyed(X) if X.clipped is None else X.clipped, 0
    given = None
    if isinstance(y, Meaning):
        X = X.meaning(y)
    elif y is not None:
        if not isinstance(X, InMemory):
            raise TypeError("records that are not in memory contain their labels; leave y out")
        given = y
    if not isinstance(X, InMemory):
        _check_meaning(loss, _meaning_of(X))
        return X, ClipCounts(clipped, beyond, X.shape[0])
    if given is None and not (isinstance(X.labels_are, IsClass) and _is_within(loss, X.labels_are)):
        given = X.labels if isinstance(X.labels_are, AsGiven) else X.vector()
    if given is not None or X.labels is None:
        labels, beyond = loss._prepare_labels(given, X)
        X = replace(X, labels=_own_labels(loss, labels), labels_are=AsGiven())
    if len(X.labels) != X.shape[0]:
        raise ValueError(f"y must hold one label for each of the {X.shape[0]} records")
    return X, ClipCounts(clipped, beyond, X.shape[0])


def _meaning_of(X: Records) -> Meaning:
    """The meaning of the labels of records that are not in memory."""
    inner: Records = X.inner if isinstance(X, ByEntries) else X
    return getattr(inner, "labels_are", AsGiven())


def _check_meaning(loss: GeneralizedLinear, meaning: Meaning) -> None:
    """Refuse a meaning of labels by which these may lie beyond the loss's bounds."""
    if not _is_within(loss, meaning):
        raise TypeError(
            f"labels that are read as {meaning!r} may lie beyond the bounds of {loss!r}, and nothing clips them; use "
            "IsClass or Within of reticent.solve.blocks, and a loss with label_bounds that contain -1 and 1"
        )


def _is_within(loss: GeneralizedLinear, meaning: Meaning) -> bool:
    """Whether labels are within the loss's bounds by their meaning alone, whatever they are."""
    low, high = label_range(loss)
    return isinstance(meaning, IsClass | Within) and low <= -1.0 and high >= 1.0


def _own_labels(loss: GeneralizedLinear, labels: Any) -> FloatArray:
    """Labels in a private copy, within the loss's bounds whatever prepared them."""
    return np.clip(np.asarray(labels, dtype=np.float64), *label_range(loss))


def _own(
    loss: Loss, A: Any, labels: Any, clipped: ClipCounts, by_entries: bool
) -> tuple[Any, Any, ClipCounts]:
    """Labels in a private copy, and records within bounds whatever prepared them.

    Rows are measured again wherever they enter a sum. But solvers that minimise rely on the records themselves, and a
    user's own loss may have prepared those.
    """
    if not isinstance(loss, GeneralizedLinear):
        return A, labels, clipped
    if type(loss).prepare is not GeneralizedLinear.prepare:
        A = records.features(A)
        clip = _clip_entries if by_entries else records.clip_rows
        A, scaled = clip(A, loss.feature_norm)
        clipped = clipped._replace(features=max(clipped.features, scaled))
        labels = checks.vector(labels, "y", A.shape[0])
    return A, _own_labels(loss, labels), clipped


def _weights(value: Any, count: int, bound: float) -> FloatArray:
    """One weight per record, clipped to [0, bound]."""
    return np.clip(checks.vector(value, "weights", count), 0.0, bound)


def _prepare_entries(loss: Any, X: Any, y: Any) -> tuple[Any, Any, ClipCounts]:
    """Clip each entry to the feature norm, instead of each row: sufficient for an l1 ball."""
    if not isinstance(loss, GeneralizedLinear):
        raise TypeError(
            f"clipping by entries needs a generalised linear loss, got {loss!r}; use a set other than an l1 ball or "
            "a simplex"
        )
    bound = loss.feature_norm
    A, count = _clip_entries(records.features(X), bound)
    # No such row exceeds this norm, so the loss only looks at the labels.
    wide = replace(loss, feature_norm=2.0 * bound * math.sqrt(A.shape[1]))
    A, labels, counts = wide.prepare(A, y)
    return A, labels, counts._replace(features=count)


def _clip_entries(A: Any, bound: float) -> tuple[Any, int]:
    """Entries clipped to the bound, and how many rows had longer ones.

    Always a private copy, so that nobody can change these entries any more.
    """
    values = A.data if sp.issparse(A) else A
    beyond = np.abs(values) > bound
    if not sp.issparse(A):
        return np.clip(A, -bound, bound), int(beyond.any(axis=1).sum())
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    A = A.copy()
    A.data = np.clip(values, -bound, bound)
    return A, len(np.unique(rows[beyond]))


def need_lipschitz(problem: OfflineProblem, solver: str) -> None:
    """Refuse a loss whose gradients are not bounded on the set."""
    if not math.isfinite(problem.norm):
        raise ValueError(
            f"{solver} needs a loss with bounded gradients, and {problem.loss!r} is not Lipschitz on "
            f"{problem.set!r}; pass a bounded set such as sets.L2Ball({problem.dim}), or set=None if the solver "
            "chooses a radius"
        )
    if problem.set.diameter == 0.0:
        raise ValueError(
            f"{problem.set!r} is a single point, so there is nothing to fit; use a larger set"
        )
    if problem.norm == 0.0:
        raise ValueError(
            f"{problem.loss!r} has gradients of norm 0 on {problem.set!r}: there is nothing to fit"
        )


def bounded(
    problem: OfflineProblem,
    set: Any,
    solver: str,
    projects: bool = True,
    share: float = IGNORANCE,
) -> OfflineProblem:
    """The problem on the given set, or on a ball with a default radius if that is None.

    Refuses sets on which gradients are not bounded, and sets without a projection if the solver needs one.
    """
    if set is None:
        problem = problem.with_set(
            L2Ball(problem.dim, default_radius(problem, solver, share=share))
        )
    need_lipschitz(problem, solver)
    if projects and not getattr(problem.set, "can_project", True):
        raise ValueError(
            f"{solver} needs a set with a projection, and {problem.set!r} has none; use erm.frank_wolfe, which "
            "needs a linear minimiser only"
        )
    return problem


def need_linear_model(problem: OfflineProblem, solver: str) -> None:
    """Refuse a loss that is not a generalised linear one."""
    if not problem.is_linear_model:
        raise TypeError(
            f"{solver} needs a generalised linear loss, got {problem.loss!r}; use erm.gradient_descent, "
            "erm.frank_wolfe or an online learner, which take any loss with a Lipschitz constant"
        )


def need_smooth(problem: OfflineProblem, solver: str) -> None:
    """Refuse what the certified minimiser cannot handle."""
    if not problem.is_linear_model or not math.isfinite(problem.smoothness):
        raise ValueError(
            f"{solver} needs a smooth generalised linear loss, got {problem.loss!r}; use "
            "losses.SmoothHinge or losses.Huber in place of one with kinks, or erm.gradient_descent"
        )
    need_exact_projection(problem.set, solver, "erm.gradient_descent or erm.frank_wolfe")
    need_true_bounds(problem.loss, problem.set, solver)


def check_weighted(problem: OfflineProblem) -> None:
    """Refuse weights for losses that are not generalised linear ones."""
    if problem.weights is not None and not problem.is_linear_model:
        raise ValueError(
            f"weights and groups need a generalised linear loss, got {problem.loss!r}; leave them out"
        )
