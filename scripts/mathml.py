"""Turn the documentation's formulas into MathML when it is built: no script, no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of each page."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return str(convert(html.unescape(match[3]), display=display))

    return _FORMULA.sub(formula, content)
