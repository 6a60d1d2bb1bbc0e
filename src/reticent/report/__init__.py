"""Tables and pages made of traces and plots: one HTML file that needs nothing else."""

from reticent.report.page import Page
from reticent.report.svg import inline_svg

__all__ = ["Page", "inline_svg"]
