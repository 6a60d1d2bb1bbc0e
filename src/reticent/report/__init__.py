"""Tables and pages from traces and plots: one self-contained HTML file."""

from reticent.report.page import Page
from reticent.report.svg import inline_svg

__all__ = ["Page", "inline_svg"]
