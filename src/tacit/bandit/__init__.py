"""Learners that see only the value of the loss."""

from tacit.bandit.base import Bandit
from tacit.bandit.geometry import Geometry
from tacit.bandit.mirror import Entropy, Euclidean, Mirror
from tacit.bandit.projected import ProjectedBandit
from tacit.bandit.projection_free import ProjectionFreeBandit
from tacit.bandit.tickets import Ticket

__all__ = [
    "Bandit",
    "Entropy",
    "Euclidean",
    "Geometry",
    "Mirror",
    "ProjectedBandit",
    "ProjectionFreeBandit",
    "Ticket",
]
