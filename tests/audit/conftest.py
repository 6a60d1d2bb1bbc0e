"""Unseeded sources get fixed streams here, each its own, so that every run of a test sees the same noise."""

from __future__ import annotations

import itertools
import zlib

import pytest

from reticent.noise import Source

_streams = itertools.count(10**9)


@pytest.fixture(autouse=True, scope="module")
def _fixed_streams():
    honest = Source.__init__

    def numbered(self, seed=None):
        honest(self, next(_streams) if seed is None else seed)
        self.seeded = seed is not None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "__init__", numbered)
        yield


@pytest.fixture(autouse=True)
def _own_streams(request):
    global _streams
    _streams = itertools.count(10**6 * zlib.crc32(request.node.name.encode()))
