"""One service that the tests of a file share, each with streams of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .running import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service."""
    pytest.importorskip("starlette", reason="the service needs its extra")
    service = Service(tmp_path_factory.mktemp("service") / "data")
    yield service
    service.kill()
