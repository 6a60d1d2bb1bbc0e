"""A set as plain data, so that a saved state can be read without running anything from it.

The one thing a reader would get wrong: this is not pickle. A state names classes of `reticent.sets` only,
and a set that its constructor's arguments do not describe is given again: ``from_state(state, set=...)``.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from reticent import sets
from reticent.sets import ConvexSet


def describe(convex: ConvexSet) -> dict[str, Any]:
    """Name and arguments of a set of the library; the name alone where that is not enough."""
    cls = type(convex)
    plain: dict[str, Any] = {"kind": cls.__name__, "shape": list(convex.shape)}
    if getattr(sets, cls.__name__, None) is not cls:
        return plain
    arguments = {}
    for name in inspect.signature(cls).parameters:
        value = getattr(convex, name, describe)
        if isinstance(value, np.ndarray):
            value = np.array(value)
        elif not (isinstance(value, bool | int | float | str | np.generic) or value is None):
            return plain
        arguments[name] = value
    described = plain | {"arguments": arguments}
    try:
        twin = restore(described, None)
    except (TypeError, ValueError):
        return plain
    return described if repr(twin) == repr(convex) else plain


def restore(description: dict[str, Any], given: ConvexSet | None) -> ConvexSet:
    """The set of a state: the one given again, or rebuilt from its description."""
    kind, shape = description["kind"], tuple(description["shape"])
    if given is not None:
        if type(given).__name__ != kind or given.shape != shape:
            raise ValueError(
                f"set must be the {kind} of shape {shape} that the state was saved with, got {given!r}"
            )
        return given
    if "arguments" not in description:
        raise ValueError(
            f"a {kind} cannot be rebuilt from a state; give it again: from_state(state, set=...)"
        )
    if kind not in sets.__all__:
        raise ValueError(f"reticent.sets has no {kind!r}")
    return getattr(sets, kind)(**description["arguments"])  # type: ignore[no-any-return]
