"""The scikit-learn and River faces of the learners and solvers.

The River twins are in `reticent.estimators.river`, which needs ``pip install river``.
"""

from reticent.estimators.online_linear import OnlineLinearRegression
from reticent.estimators.online_logistic import OnlineLogisticRegression
from reticent.estimators.private_classifiers import PrivateLinearSVC, PrivateLogisticRegression
from reticent.estimators.private_regressors import PrivateLasso, PrivateLinearRegression
from reticent.estimators.scalers import DomainScaler, PrivateScaler
from reticent.estimators.search import PrivateSearchCV
from reticent.estimators.summary import NoIntervals, Summary

__all__ = [
    "DomainScaler",
    "NoIntervals",
    "OnlineLinearRegression",
    "OnlineLogisticRegression",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScaler",
    "PrivateSearchCV",
    "Summary",
]
