"""``reticent compare``: every learner and solver that suits a table, side by side at several epsilons.

A comparison reads the records many times, and no guarantee covers it. Use it on public data, or on data similar to
yours; choosing the winner on private records leaks information about them.
"""

from reticent.cli.compare.command import compare

__all__ = ["compare"]
