"""Private running totals: exact, fast, endless, forgetting."""

from tacit.sums.base import RunningTotal
from tacit.sums.correlated import Correlated
from tacit.sums.independent import Independent
from tacit.sums.tree import Tree
from tacit.sums.window_tree import WindowTree

__all__ = ["Correlated", "Independent", "RunningTotal", "Tree", "WindowTree"]
