"""The scikit-learn and River faces of the learners and solvers.

The River twins are in `tacit.estimators.river`, which needs ``pip install 'tacit[river]'``.
"""

from tacit.estimators.online_linear import OnlineLinearRegression
from tacit.estimators.online_logistic import OnlineLogisticRegression
from tacit.estimators.private_classifiers import PrivateLinearSVC, PrivateLogisticRegression
from tacit.estimators.private_regressors import PrivateLasso, PrivateLinearRegression
from tacit.estimators.scalers import DomainScaler, PrivateScaler

__all__ = [
    "DomainScaler",
    "OnlineLinearRegression",
    "OnlineLogisticRegression",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScaler",
]
