"""What the scikit-learn faces of the offline solvers share: a table in, one private fit out.

Rows are clipped to ``feature_norm`` and divided by it, a constant feature is appended for the
intercept, weights are clipped to their bound, and one of the solvers of `reticent.erm` does the rest.
Which solver, and why: docs/estimators.md.

The one thing a reader would get wrong: the noise is calibrated to the norm of features and constant
together, sqrt(1 + t^2) for a constant t, so an intercept is never free. The default t = p^(-1/4)
makes ``(1 + t^2)(p + 1/t^2)`` least: the variance of the noise in a prediction, intercept included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from reticent import _checks
from reticent.erm import Fit
from reticent.erm._passes import surveyed
from reticent.estimators import parameters
from reticent.estimators.face import PRECISIONS, ROOM, Face, FloatArray, with_details
from reticent.losses import ClipCounts
from reticent.privacy import Budget, Guarantee
from reticent.solve.blocks import Form, InMemory, Lazy, Records

NOISE_PRECISIONS = ("lattice", "float")
DIAGNOSTICS = ("clipped_",)


@dataclass(frozen=True)
class Table:
    """Records as a solver gets them, and the public numbers that it is told."""

    records: Records
    norm: float  # of a row, its constant feature included
    scaling: float  # the constant feature; 0 for no intercept
    is_weighted: bool
    weight_bound: float
    scaled: int  # how many rows were clipped

    @property
    def count(self) -> int:
        return self.records.shape[0]

    @property
    def columns(self) -> int:
        return self.records.shape[1]


class PrivateEstimator(Face):
    """Base of the scikit-learn faces of `reticent.erm`."""

    guarantee_: Guarantee
    clipped_: ClipCounts
    solver_: str
    solver_reason_: str
    _precisions = PRECISIONS

    def _budget(self) -> Budget:
        """What the parameters ask for; all parameters are checked on the way."""
        values = parameters.checked(
            {name: getattr(self, name) for name in ("epsilon", "delta", "neighbours")}
        )
        parameters.CHECKS["feature_norm"](self.feature_norm, "feature_norm")  # type: ignore[attr-defined]
        parameters.CHECKS["fit_intercept"](self.fit_intercept, "fit_intercept")  # type: ignore[attr-defined]
        _checks.choice(self.noise_precision, "noise_precision", NOISE_PRECISIONS)  # type: ignore[attr-defined]
        return Budget(values["epsilon"], values["delta"], values["neighbours"])

    def _common(self) -> dict[str, Any]:
        """Arguments that all solvers take."""
        return {
            "budget": self._budget(),
            "seed": self._seed(),
            "noise_precision": self.noise_precision,  # type: ignore[attr-defined]
            "progress": bool(self.verbose),  # type: ignore[attr-defined]
        }

    def _scaling(self, columns: int) -> float:
        if not self.fit_intercept:  # type: ignore[attr-defined]
            return 0.0
        given = self.intercept_scaling  # type: ignore[attr-defined]
        if given is None:
            return float(columns) ** -0.25
        return parameters.CHECKS["intercept_scaling"](given, "intercept_scaling")

    def _table(
        self, X: Any, y: Any, sample_weight: Any, factors: FloatArray | None, most: float
    ) -> Table:
        """Rows scaled to norm 1 with a constant beside them; ``factors`` are within [0, most]."""
        self._norm = parameters.CHECKS["feature_norm"](self.feature_norm, "feature_norm")  # type: ignore[attr-defined]
        t = self._scaling(X.shape[1])
        if isinstance(X, Lazy):
            if sample_weight is not None or factors is not None:
                raise ValueError(
                    "a table that does not lie in memory takes no weights; leave sample_weight and "
                    "class_weight out, or read it into memory"
                )
            stored = X.records(y, Form(self._norm, 1.0, t), self._look_at)
            norm, clipped = math.hypot(1.0, t) * ROOM, stored.clipped
            assert clipped is not None
            return Table(stored, norm, t, False, 1.0, clipped)
        weights, bound = self._weights(sample_weight, X.shape[0], factors, most)
        form = Form(self._norm, 1.0, t)
        scaled = surveyed(InMemory(X, form=form))
        records = InMemory(X, y, weights, form, clipped=scaled)
        return Table(records, math.hypot(1.0, t) * ROOM, t, weights is not None, bound, scaled)

    def _look_at(self, y: Any, start: int) -> float:
        """Refuse labels that cannot be used, from number ``start`` on; how many are beyond their bounds."""
        raise NotImplementedError

    def _weights(
        self, sample_weight: Any, count: int, factors: FloatArray | None, most: float
    ) -> tuple[FloatArray | None, float]:
        bound = _checks.number(self.weight_bound, "weight_bound", low=0.0, open_low=True)  # type: ignore[attr-defined]
        if sample_weight is None:
            return factors, most
        weights = np.asarray(sample_weight)
        if weights.ndim == 0:
            weights = np.full(count, weights)
        weights = np.clip(_checks.vector(weights, "sample_weight", count), 0.0, bound)
        return (weights if factors is None else weights * factors), bound * most

    def _facts(self, table: Table) -> tuple[str, ...]:
        """Lines for the guarantee."""
        lines = [f"features clipped to norm {self._norm:g}, then divided by it"]
        if table.scaling:
            lines[0] += f"; intercept from a constant feature {table.scaling:.4g}"
        if table.is_weighted:
            lines.append(
                f"records weighted, weights within [0, {table.weight_bound:g}]; the null record has "
                "weight 0"
            )
        return tuple(lines)

    def _publish(self, fit: Fit, table: Table) -> FloatArray:
        """Everything but the coefficients; returns one row of weights for each output."""
        self.guarantee_ = with_details(fit.guarantee, self._facts(table))
        self.settings_ = dict(fit.trace.settings)
        return np.atleast_2d(np.asarray(fit.point))

    def _coefficients(self, weights: FloatArray, table: Table) -> tuple[FloatArray, FloatArray]:
        """In the units of the features as they came."""
        columns = self.n_features_in_
        if not table.scaling:
            return weights / self._norm, np.zeros(len(weights))
        return weights[:, :columns] / self._norm, weights[:, columns] * table.scaling

    def release(self) -> Self:
        """A copy with only what the guarantee covers: what may leave the machine."""
        check_is_fitted(self)
        copy = type(self)(**self.get_params(deep=False))
        kept = {name: value for name, value in self.__getstate__().items() if name != "_ledgers"}
        copy.__dict__.update(kept)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in DIAGNOSTICS:
            state.pop(name, None)
        return state


def class_factors(value: Any, classes: Any, numbers: Any) -> tuple[FloatArray | None, float]:
    """The weight of each record's class, and the largest there is."""
    if value is None:
        return None, 1.0
    if not isinstance(value, Mapping):
        raise ValueError(
            f"class_weight must be None or a dict of weights by class, got {value!r}; 'balanced' "
            "would read how many records of each class there are, which nothing protects: state "
            "the weights, or count the classes privately"
        )
    known = list(classes.tolist())
    for name in value:
        if name not in known:
            raise ValueError(
                f"class_weight names {name!r}, which is not one of the classes {known}"
            )
    table = np.array(
        [_checks.number(value.get(c, 1.0), f"class_weight[{c!r}]", low=0.0) for c in known]
    )
    if table.max() == 0.0:
        raise ValueError(f"class_weight must have a weight above 0, got {value!r}")
    return table[numbers], float(table.max())
