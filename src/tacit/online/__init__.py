"""Learners that see each loss once."""

from tacit.online.approximate_leader import FollowTheApproximateLeader
from tacit.online.base import OnlineLearner
from tacit.online.frame import Learner
from tacit.online.ftrl import FollowTheRegularizedLeader
from tacit.online.inner import GradientDescent, ImplicitGradient
from tacit.online.perturbed_iterates import PerturbedIterates
from tacit.online.quadratic_leader import QuadraticLeader
from tacit.online.rules import Moment, Problem, Rule

__all__ = [
    "FollowTheApproximateLeader",
    "FollowTheRegularizedLeader",
    "GradientDescent",
    "ImplicitGradient",
    "Learner",
    "Moment",
    "OnlineLearner",
    "PerturbedIterates",
    "Problem",
    "QuadraticLeader",
    "Rule",
]
