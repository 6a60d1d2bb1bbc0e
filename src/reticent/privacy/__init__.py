"""Privacy accounting: Budget (what is asked for), Guarantee (what is delivered) and Ledger (what has been spent)."""

from reticent.privacy import calibration, curves, gaussian, prescribed
from reticent.privacy.budget import Budget
from reticent.privacy.compose import Composed, Worst, compose, parallel
from reticent.privacy.curves import (
    BoundedRange,
    Curve,
    Gaussian,
    Laplace,
    NoPrivacy,
    Profile,
    Pure,
    Renyi,
    ZeroConcentrated,
)
from reticent.privacy.errors import (
    BudgetExceeded,
    DefaultBoundWarning,
    ForkError,
    LedgerError,
    LooseBudgetWarning,
    PrivacyLeakWarning,
    RepeatedFitWarning,
)
from reticent.privacy.guarantee import Guarantee, Release
from reticent.privacy.ledger import Entry, Ledger, charge, remarked, with_remarks
from reticent.privacy.objective import ObjectivePerturbation
from reticent.privacy.odds import Odds
from reticent.privacy.participation import Participation
from reticent.privacy.repeated import BestOf
from reticent.privacy.scope import uncharged
from reticent.privacy.subsampled import SubsampledGaussian

__all__ = [
    "BestOf",
    "BoundedRange",
    "Budget",
    "BudgetExceeded",
    "Composed",
    "Curve",
    "DefaultBoundWarning",
    "Entry",
    "ForkError",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Ledger",
    "LedgerError",
    "LooseBudgetWarning",
    "NoPrivacy",
    "ObjectivePerturbation",
    "Odds",
    "Participation",
    "PrivacyLeakWarning",
    "Profile",
    "Pure",
    "Release",
    "Renyi",
    "RepeatedFitWarning",
    "SubsampledGaussian",
    "Worst",
    "ZeroConcentrated",
    "calibration",
    "charge",
    "compose",
    "curves",
    "gaussian",
    "parallel",
    "prescribed",
    "remarked",
    "uncharged",
    "with_remarks",
]
