"""Budget (what is asked), Guarantee (what is delivered), Ledger (what is spent)."""

from tacit.privacy import calibration, curves, gaussian
from tacit.privacy.budget import Budget
from tacit.privacy.compose import Composed, Worst, compose, parallel
from tacit.privacy.curves import (
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
from tacit.privacy.errors import BudgetExceeded, ForkError, PrivacyLeakWarning
from tacit.privacy.guarantee import Guarantee, Release
from tacit.privacy.ledger import Entry, Ledger, charge, remarked, with_remarks
from tacit.privacy.objective import ObjectivePerturbation
from tacit.privacy.subsampled import SubsampledGaussian

__all__ = [
    "BoundedRange",
    "Budget",
    "BudgetExceeded",
    "Composed",
    "Curve",
    "Entry",
    "ForkError",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Ledger",
    "NoPrivacy",
    "ObjectivePerturbation",
    "PrivacyLeakWarning",
    "Profile",
    "Pure",
    "Release",
    "Renyi",
    "SubsampledGaussian",
    "Worst",
    "ZeroConcentrated",
    "calibration",
    "charge",
    "compose",
    "curves",
    "gaussian",
    "parallel",
    "remarked",
    "with_remarks",
]
