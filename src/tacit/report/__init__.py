"""Tables and pages made of traces and plots: one HTML file that needs nothing else."""

from tacit.report.page import Page
from tacit.report.svg import inline_svg

__all__ = ["Page", "inline_svg"]
