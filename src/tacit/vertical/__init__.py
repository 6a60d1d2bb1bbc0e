"""Solvers whose columns live with different owners, and the transports between them."""

from tacit.vertical.baselines import distributed_frank_wolfe, one_shot_sketch
from tacit.vertical.block_frank_wolfe import (
    block_frank_wolfe,
    convergence_bound,
    expected_curvature,
    proposition_curvature,
)
from tacit.vertical.coordinator import Coordinator
from tacit.vertical.design import Noise
from tacit.vertical.fit import Fit, Traffic
from tacit.vertical.messages import MalformedMessage, RefusedByParty
from tacit.vertical.party import Party
from tacit.vertical.plan import Plan
from tacit.vertical.samplings import (
    Custom,
    Distributed,
    Elementary,
    Importance,
    Listed,
    Sampling,
    TauNice,
    UniformSerial,
)
from tacit.vertical.sketch import SignSketch
from tacit.vertical.transport import InProcess, PartyLost, Transport

__all__ = [
    "Coordinator",
    "Custom",
    "Distributed",
    "Elementary",
    "Fit",
    "Importance",
    "InProcess",
    "Listed",
    "MalformedMessage",
    "Noise",
    "Party",
    "PartyLost",
    "Plan",
    "RefusedByParty",
    "Sampling",
    "SignSketch",
    "TauNice",
    "Traffic",
    "Transport",
    "UniformSerial",
    "block_frank_wolfe",
    "convergence_bound",
    "distributed_frank_wolfe",
    "expected_curvature",
    "one_shot_sketch",
    "proposition_curvature",
]
