"""Private Frank-Wolfe on tables whose columns belong to different owners, and the transports between the owners.

Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse Optimization with Feature-Wise Distributed
Data*, corrected; see docs/algorithms/vertical.md.
"""

from reticent.vertical.baselines import distributed_frank_wolfe, one_shot_sketch
from reticent.vertical.block_frank_wolfe import (
    block_frank_wolfe,
    convergence_bound,
    expected_curvature,
    proposition_curvature,
)
from reticent.vertical.coordinator import Coordinator
from reticent.vertical.design import Noise
from reticent.vertical.fit import JointFit, Traffic
from reticent.vertical.messages import MalformedMessage, RefusedByParty
from reticent.vertical.party import Party
from reticent.vertical.plan import Plan
from reticent.vertical.samplings import (
    Custom,
    Distributed,
    Elementary,
    Importance,
    Listed,
    Sampling,
    TauNice,
    UniformSerial,
)
from reticent.vertical.scores import ScorePart, combined
from reticent.vertical.sketch import SignSketch
from reticent.vertical.transport import InProcess, PartyLost, Transport

__all__ = [
    "Coordinator",
    "Custom",
    "Distributed",
    "Elementary",
    "Importance",
    "InProcess",
    "JointFit",
    "Listed",
    "MalformedMessage",
    "Noise",
    "Party",
    "PartyLost",
    "Plan",
    "RefusedByParty",
    "Sampling",
    "ScorePart",
    "SignSketch",
    "TauNice",
    "Traffic",
    "Transport",
    "UniformSerial",
    "block_frank_wolfe",
    "combined",
    "convergence_bound",
    "distributed_frank_wolfe",
    "expected_curvature",
    "one_shot_sketch",
    "proposition_curvature",
]
