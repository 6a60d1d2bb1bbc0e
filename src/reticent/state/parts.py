"""Sets and losses as plain data, so that a saved state can be read without running any code from it.

A set or loss of the library is described by its class name and its constructor's arguments. A user's own has no such
description: it must be passed again when the state is restored, and only its class name is compared.

This is not pickle: whatever a state contains, it can name only classes of `reticent.sets` and `reticent.losses`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

import numpy as np

_PLACES = ("sets", "losses")
_MISSING = object()


def describe(part: Any) -> dict[str, Any]:
    """A set or loss as plain data; without "arguments" if it cannot be rebuilt from data alone."""
    if part is None:
        return {"kind": "none", "arguments": {}}
    cls = type(part)
    plain: dict[str, Any] = {"kind": cls.__name__}
    place = cls.__module__.split(".")
    if place[:1] != ["reticent"] or place[1] not in _PLACES:
        return plain
    plain["place"] = place[1]
    if dataclasses.is_dataclass(part):
        names = [entry.name for entry in dataclasses.fields(part) if entry.init]
    else:
        names = list(inspect.signature(cls).parameters)
    arguments = {name: _encode(getattr(part, name, _MISSING)) for name in names}
    if any(value is _MISSING for value in arguments.values()):
        return plain
    described = plain | {"arguments": arguments}
    try:
        twin = rebuild(described)
    except (TypeError, ValueError):
        return plain
    return described if repr(twin) == repr(part) else plain


def _encode(value: Any) -> Any:
    if isinstance(value, bool | int | float | str | np.generic) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, list | tuple):
        items = [_encode(item) for item in value]
        return _MISSING if any(item is _MISSING for item in items) else items
    if type(value).__module__.startswith("reticent.sets"):
        inner = describe(value)
        return {"part": inner} if "arguments" in inner else _MISSING
    return _MISSING


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return rebuild(value["part"])
    return [_decode(item) for item in value] if isinstance(value, list) else value


def rebuild(description: dict[str, Any]) -> Any:
    """The set or loss that :func:`describe` described."""
    if description["kind"] == "none":
        return None
    if description.get("place") not in _PLACES:
        raise ValueError(
            f"the state names a part from {description.get('place')!r}, which is not one of {_PLACES}; "
            "the state is damaged"
        )
    home = importlib.import_module(f"reticent.{description['place']}")
    kind = getattr(home, description["kind"]) if description["kind"] in home.__all__ else None
    if not isinstance(kind, type):  # functions of the package are not called
        raise ValueError(
            f"reticent.{description['place']} has no {description['kind']!r}; "
            "continue the state with the version that wrote it"
        )
    arguments = {name: _decode(value) for name, value in description["arguments"].items()}
    return kind(**arguments)


def restore(description: dict[str, Any], given: Any, name: str) -> Any:
    """The set or loss of a state: the one that was passed again, or else rebuilt from its description."""
    if given is not None:
        if type(given).__name__ != description["kind"]:
            raise ValueError(
                f"{name} must be the {description['kind']} that the state was saved with, got {given!r}"
            )
        if "arguments" in description and not _same(describe(given), description):
            raise ValueError(
                f"{name} must be what the state was saved with, got {given!r}, whose arguments differ; "
                f"the guarantee depends on them: leave out {name}"
            )
        return given
    if "arguments" not in description:
        raise ValueError(
            f"the state was saved with a user-defined {name}, {description['kind']}; "
            f"pass it again: from_state(state, {name}=...)"
        )
    return rebuild(description)


def _same(one: Any, other: Any) -> bool:
    """Whether two descriptions are equal, where one may have been read from a file."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
