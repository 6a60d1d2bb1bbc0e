"""Online learners, which see each record once and play a decision after every record."""

from reticent.online.approximate_leader import FollowTheApproximateLeader
from reticent.online.base import OnlineLearner
from reticent.online.experts import Experts
from reticent.online.ftrl import FollowTheRegularizedLeader
from reticent.online.inner import GradientDescent, ImplicitGradient
from reticent.online.learner import Learner
from reticent.online.perturbed_iterates import PerturbedIterates
from reticent.online.quadratic_leader import QuadraticLeader
from reticent.online.rules import OnlineProblem, Released, Rule
from reticent.online.sparse_leader import SparseLeader

__all__ = [
    "Experts",
    "FollowTheApproximateLeader",
    "FollowTheRegularizedLeader",
    "GradientDescent",
    "ImplicitGradient",
    "Learner",
    "OnlineLearner",
    "OnlineProblem",
    "PerturbedIterates",
    "QuadraticLeader",
    "Released",
    "Rule",
    "SparseLeader",
]
