"""The table of the white-box audit: every public mechanism, learner, solver, estimator and scaler, by family.

To add a line, yield a ``Case`` from its family: a function ``run(data, source)`` that returns an ``Outcome``, and the
pairs of neighbours that are hardest to hide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reticent.audit import (
    accounting,
    budgets,
    whitebox_bandits,
    whitebox_estimators,
    whitebox_learners,
    whitebox_persons,
    whitebox_restarts,
    whitebox_solvers,
    whitebox_totals,
    whitebox_vertical,
)
from reticent.audit.whitebox_records import Case

FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "white-box-totals": whitebox_totals.totals,
    "white-box-online": whitebox_learners.learners,
    "white-box-bandit": whitebox_bandits.bandits,
    "white-box-erm": whitebox_solvers.solvers,
    "white-box-objective-perturbation": whitebox_solvers.perturbed,
    "white-box-selection": whitebox_solvers.selections,
    "white-box-vertical": whitebox_vertical.columns,
    "white-box-estimators": whitebox_estimators.estimators,
    "white-box-persons": whitebox_persons.tables_of_persons,
    "white-box-restarts": whitebox_restarts.restarts,
    "accounting": accounting.accounts,
    "budgets": budgets.kept,
}


def names() -> tuple[str, ...]:
    """The families of white-box lines."""
    return tuple(FAMILIES)


def cases(name: str) -> Iterator[Case]:
    """The lines of one family."""
    return FAMILIES[name]()
