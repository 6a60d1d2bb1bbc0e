"""Transports have names and ask."""

from __future__ import annotations

import pytest

from reticent.vertical import (
    Coordinator,
    InProcess,
    Transport,
)


def test_transports():
    with pytest.raises(TypeError, match="names and ask"):
        Coordinator(object())
    with pytest.raises(ValueError, match="at least one"):
        InProcess({})
    with pytest.raises(TypeError, match="handle"):
        InProcess({"a": 3})
    assert isinstance(InProcess({"a": type("P", (), {"handle": lambda self, r: r})()}), Transport)
