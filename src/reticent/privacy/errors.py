"""Errors and warnings about privacy, each with its own class so that it can be caught.

The test suite turns ``PrivacyLeakWarning`` into an error, and a deployment should do so too.
"""

from __future__ import annotations


class PrivacyLeakWarning(UserWarning):
    """The result leaks something about the data, or its claimed guarantee is false."""


class LooseBudgetWarning(UserWarning):
    """The budget protects very little."""


class DefaultBoundWarning(UserWarning):
    """A bound on features or labels was left at its default, which is right for few tables."""


class BudgetExceeded(RuntimeError):
    """A release was refused, before any noise was drawn, because it does not fit in the budget."""


class ForkError(RuntimeError):
    """A saved state was continued twice, which would put the same noise on two different data sets."""


class LedgerError(RuntimeError):
    """A ledger is open but cannot be charged from here; the work was refused and nothing was released."""


class RepeatedFitWarning(UserWarning):
    """A clone was fitted outside any ledger, so nobody adds up the cost of all clones."""
