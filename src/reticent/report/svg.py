"""A matplotlib figure as SVG that is embedded in a page and takes its colours from there.

Colours of the project's palette become CSS variables, black becomes the page's text colour and white becomes
transparent, so that one drawing is readable in light and dark mode. Matplotlib names clip paths and markers by hash,
and two figures of one page may share a name; therefore every name gets a prefix of the figure.
"""

from __future__ import annotations

import io
import re
from typing import Any

from reticent.plots.style import COLOURS

_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_FIXED = {
    "#000000": "currentColor",
    "#262626": "currentColor",
    "#ffffff": "none",
    "#b0b0b0": "var(--grid)",
    "#cccccc": "var(--grid)",
    "#999999": "var(--muted)",
}


def inline_svg(figure: Any, name: str, alt: str = "") -> str:
    """A matplotlib figure as the text of an ``<svg>`` element.

    Parameters
    ----------
    figure
        A matplotlib figure, or axes of one.
    name
        A name that is unique in the page, of letters, digits and hyphens.
    alt
        Description of the picture for those who cannot see it.

    Returns
    -------
    str
        The element.

    Examples
    --------
    >>> from reticent.plots import axes
    >>> text = inline_svg(axes(), "empty", "an empty picture")
    >>> text[:5], "http" in text.replace("http://www.w3.org/", "")
    ('<svg ', False)
    """
    import matplotlib

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        raise ValueError(f"name must be letters, digits and hyphens, got {name!r}")
    figure = getattr(figure, "figure", figure)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        # SVG measures in points; at 72 per inch one unit is one CSS pixel
        figure.savefig(
            out, format="svg", dpi=72, transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg ") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _own_names(text, name)
    text = _own_colours(text)
    top, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', top)
    assert box is not None
    label = f' aria-label="{_escape(alt)}"' if alt else ""
    return f'<svg {_SPACES} {box[0]} role="img"{label}>' + rest.strip()


def _own_names(text: str, name: str) -> str:
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{name}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)


def _own_colours(text: str) -> str:
    names = _FIXED | {colour.lower(): f"var(--c{k})" for k, colour in enumerate(COLOURS)}
    return re.sub(
        r"(fill|stroke): (#[0-9a-fA-F]{6})",
        lambda found: f"{found[1]}: {names.get(found[2].lower(), found[2])}",
        text,
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
