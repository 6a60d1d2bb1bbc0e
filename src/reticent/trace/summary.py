"""Released numbers with their uncertainty: standard errors and intervals, with sampling and privacy error apart.

docs/intervals.md says what an interval covers, and what it does not.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from reticent import checks, html_tables
from reticent.checks import FloatArray
from reticent.privacy import Guarantee


class NoIntervals(ValueError):
    """Intervals with the stated coverage cannot be computed."""


@dataclass(frozen=True, eq=False)
class Summary:
    """A table of released numbers with their uncertainty: coefficients, a decision or a running total.

    Attributes
    ----------
    names : tuple of str
        Names of the numbers; for coefficients, the intercept comes last.
    estimate : array
        The numbers. The coefficients of a model of a table are corrected for the shrinkage by the ridge, so they
        differ a little from ``coef_``.
    sampling_error : array
        Standard errors due to sampling: how much the numbers vary with the records.
    privacy_error : array
        Standard errors due to the noise.
    level : float
        Confidence level of the intervals.
    about : str
        What the intervals are about.
    guarantee : Guarantee
        The guarantee for everything that was released, the model included.
    normal : bool
        Whether the errors are normal, or nearly so; if not, the intervals are Chebyshev's, which hold for any noise.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    sampling_error: FloatArray
    privacy_error: FloatArray
    level: float
    about: str
    guarantee: Guarantee
    normal: bool = True

    @property
    def standard_error(self) -> FloatArray:
        """The root of the sum of the squares of both errors."""
        return np.hypot(self.sampling_error, self.privacy_error)

    @property
    def interval(self) -> FloatArray:
        """The ends of the intervals, one row for each number."""
        times = -float(ndtri(0.5 - 0.5 * self.level)) if self.normal else (1.0 - self.level) ** -0.5
        half = times * self.standard_error
        return np.column_stack([self.estimate - half, self.estimate + half])

    def _rows(self) -> list[list[str]]:
        head = [
            "",
            "estimate",
            "standard error",
            "sampling",
            "privacy",
            f"{self.level:.0%} interval",
            "",
        ]
        rows = [head]
        for k, name in enumerate(self.names):
            numbers = (
                self.estimate[k],
                self.standard_error[k],
                self.sampling_error[k],
                self.privacy_error[k],
                *self.interval[k],
            )
            rows.append([name, *(f"{value:.4g}" for value in numbers)])
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if k == 0 else f"{cell:>{width}}"
                for k, (cell, width) in enumerate(zip(row, wide, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self.about, str(self.guarantee)])

    def __repr__(self) -> str:
        return f"<Summary of {len(self.names)} numbers>"

    def _repr_html_(self) -> str:
        return html_tables.grid(self._rows()) + html_tables.lines(self.about, str(self.guarantee))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "names": list(self.names),
            "estimate": self.estimate.tolist(),
            "sampling_error": self.sampling_error.tolist(),
            "privacy_error": self.privacy_error.tolist(),
            "level": self.level,
            "interval": self.interval.tolist(),
            "about": self.about,
            "guarantee": self.guarantee.to_dict(),
        }

    def plot(self, **options: Any) -> Any:
        """Draw a forest plot; see `reticent.plots.forest`.

        Parameters
        ----------
        **options
            Passed on to `reticent.plots.forest`.
        """
        return importlib.import_module("reticent.plots").forest(self, **options)


def of_noise(
    estimate: FloatArray,
    error: float | FloatArray,
    names: Sequence[str] | None,
    level: float,
    about: str,
    guarantee: Guarantee,
    normal: bool,
) -> Summary:
    """A summary of numbers whose only error is noise.

    Parameters
    ----------
    estimate : array
        The numbers, as released.
    error : float or array
        Standard deviation of the noise in each.
    names : sequence of str or None
        Names of the numbers; by default x0, x1, ...
    level : float
        Confidence level of the intervals.
    about : str
        What the intervals are about.
    guarantee : Guarantee
        The guarantee for everything that was released.
    normal : bool
        Whether the noise is normal.

    Returns
    -------
    Summary
        The summary.
    """
    level = checks.fraction(level, "level")
    values = np.asarray(estimate, dtype=np.float64).reshape(-1)
    called = [f"x{k}" for k in range(values.size)] if names is None else [str(n) for n in names]
    if len(called) != values.size:
        raise ValueError(f"names must have {values.size} entries, got {len(called)}")
    errors = np.broadcast_to(np.asarray(error, dtype=np.float64), values.shape).copy()
    if not normal:
        about += "; the noise is not normal: intervals are Chebyshev's, which hold for any noise"
    nothing = np.zeros(values.size)
    return Summary(tuple(called), values, nothing, errors, level, about, guarantee, normal)
