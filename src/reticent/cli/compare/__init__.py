"""``reticent compare``: every learner and solver that suits a table, side by side at several epsilons.

A comparison reads the records again and again and is covered by no guarantee. It is for public
data, or data like one's own; choosing the winner on private records leaks.
"""

from reticent.cli.compare.command import compare

__all__ = ["compare"]
