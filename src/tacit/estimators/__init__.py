"""The scikit-learn and River faces of the learners and solvers.

The River twins are in `tacit.estimators.river`, which needs ``pip install 'tacit[river]'``.
"""

from tacit.estimators.online_linear import OnlineLinearRegression
from tacit.estimators.online_logistic import OnlineLogisticRegression

__all__ = ["OnlineLinearRegression", "OnlineLogisticRegression"]
