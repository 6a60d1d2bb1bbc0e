"""An estimator whose fits are charged to the ledger around them, wherever its clones are fitted.

scikit-learn fits clones: grid search and cross-validation make them where they are called and fit
them in threads, in processes or on other machines, where the caller's ledger is not at hand. So a
clone remembers the ledgers that it was made inside, and takes them along when it is pickled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Self

from sklearn.base import BaseEstimator

from reticent.privacy import scope


class Charged(BaseEstimator):
    """Base of the estimators that release something."""

    _ledgers: scope.Stack  # set on clones only: the ledgers that they were made inside

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever is refused leaves the estimator as it was; what is done is charged."""
        before = dict(vars(self))
        try:
            with scope.fitting(before.get("_ledgers")):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._ledgers = scope.to_remember(vars(self).get("_ledgers", ()))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # One that is yet to be fitted may be on its way to a worker after its ledger was closed.
        if "_ledgers" in state and "guarantee_" in state:
            state["_ledgers"] = scope.to_deploy(state["_ledgers"])
        return state
