"""The wheel's page on the package index: the README with links that work there, and the project's addresses.

Relative links lead nowhere on an index. With the repository's address in the environment variable RETICENT_URL (set
for a release), they lead to the files of this version; without it, words stay and links and pictures are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def readme(text: str, address: str | None, version: str) -> str:
    """The README for the package index.

    Parameters
    ----------
    text : str
        As it is in the repository.
    address : str or None
        Of the repository.
    version : str
        Whose files links lead to.
    """

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if address is None:
            return "" if picture else words
        kind = "raw" if picture else "blob"
        return f"{picture}[{words}]({address}/{kind}/v{version}/{target})"

    return _LINK.sub(link, text)


def urls(address: str | None) -> dict[str, str]:
    """The project's addresses.

    Parameters
    ----------
    address : str or None
        Of the repository.
    """
    if address is None:
        return {}
    return {
        "Repository": address,
        "Documentation": f"{address}/tree/main/docs",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


class Hook(MetadataHookInterface):
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        address = os.environ.get("RETICENT_URL", "").rstrip("/") or None
        found = re.search(r'"(.+)"', (root / "src/reticent/version.py").read_text("utf-8"))
        assert found is not None
        text = (root / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, address, found[1]),
        }
        metadata["urls"] = urls(address)
