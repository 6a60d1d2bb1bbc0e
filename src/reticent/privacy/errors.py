"""What goes wrong with privacy, each with a name of its own so that it can be caught.

``PrivacyLeakWarning`` is not cosmetic. The test suite turns it into an error, and a deployment
should too.
"""

from __future__ import annotations


class PrivacyLeakWarning(UserWarning):
    """Something about the data, or a false claim about it, would leave unprotected."""


class LooseBudgetWarning(UserWarning):
    """A budget that protects little was asked for."""


class DefaultBoundWarning(UserWarning):
    """A bound on features or labels was left at its default, which fits few tables."""


class BudgetExceeded(RuntimeError):
    """A release was refused, before any noise was drawn, because the budget is spent."""


class ForkError(RuntimeError):
    """A saved state was continued twice: the same noise with two different data reveals both."""


class LedgerError(RuntimeError):
    """No ledger can pay from here although one is open: refused, and nothing was released."""


class RepeatedFitWarning(UserWarning):
    """A clone was fitted outside any ledger: nobody adds up what its siblings cost."""
