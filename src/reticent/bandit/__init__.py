"""Bandit learners, which see only the value of the loss at the point that they played."""

from reticent.bandit.base import Bandit
from reticent.bandit.geometry import Geometry
from reticent.bandit.mirror import Entropy, Euclidean, Mirror
from reticent.bandit.projected import ProjectedBandit
from reticent.bandit.projection_free import ProjectionFreeBandit
from reticent.bandit.tickets import Ticket

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
