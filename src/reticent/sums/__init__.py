"""Private running totals: the sum of all contributions so far with noise, after every contribution."""

from reticent.sums.correlated import Correlated, CorrelatedMechanism
from reticent.sums.independent import Independent, IndependentMechanism
from reticent.sums.mechanism import Mechanism
from reticent.sums.on_demand import OnDemand
from reticent.sums.running import RunningTotal
from reticent.sums.tree import Tree, TreeMechanism
from reticent.sums.window_tree import WindowTree, WindowTreeMechanism

__all__ = [
    "Correlated",
    "CorrelatedMechanism",
    "Independent",
    "IndependentMechanism",
    "Mechanism",
    "OnDemand",
    "RunningTotal",
    "Tree",
    "TreeMechanism",
    "WindowTree",
    "WindowTreeMechanism",
]
