"""Sentences that an estimator adds to a guarantee."""

from __future__ import annotations

import dataclasses

from reticent.privacy import Guarantee


def with_caveat(guarantee: Guarantee, line: str) -> Guarantee:
    """The same guarantee with one more sentence that a reader must see."""
    lines = dict.fromkeys((*guarantee.caveats, line))
    return dataclasses.replace(guarantee, caveats=tuple(lines))


def with_details(guarantee: Guarantee, lines: tuple[str, ...]) -> Guarantee:
    """The same guarantee with more lines under each of its releases."""
    releases = [
        dataclasses.replace(release, details=release.details + lines)
        for release in guarantee.releases
    ]
    return dataclasses.replace(guarantee, releases=tuple(releases))
