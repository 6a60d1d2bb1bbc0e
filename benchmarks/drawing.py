"""Pictures of the documentation: each twice, for light pages and for dark ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
INKS = {"light": "#222222", "dark": "#dddddd"}


def draw(name: str, make: Callable[[Any, str], Any], folder: Path = PICTURES) -> None:
    """Write a picture in both themes; ``make(pyplot, ink)`` draws it and returns the figure.

    The same data make the same bytes, so that a picture changes only with what it shows.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    for theme, ink in INKS.items():
        names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        look: Any = {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9}
        with pyplot.rc_context(dict.fromkeys(names, ink) | look):
            figure = make(pyplot, ink)
            figure.savefig(
                folder / f"{name}-{theme}.svg", transparent=True, metadata={"Date": None}
            )
            pyplot.close(figure)


def markdown(name: str, words: str) -> str:
    """Both pictures, of which a page shows the one that suits it."""
    return "\n".join(f"![{words}](pictures/{name}-{theme}.svg#only-{theme})" for theme in INKS)
