"""Private running totals: exact, fast, endless, forgetting."""

from reticent.sums.base import RunningTotal
from reticent.sums.correlated import Correlated
from reticent.sums.independent import Independent
from reticent.sums.tree import Tree
from reticent.sums.window_tree import WindowTree

__all__ = ["Correlated", "Independent", "RunningTotal", "Tree", "WindowTree"]
