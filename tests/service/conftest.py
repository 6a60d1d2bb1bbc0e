"""One service that tests share, each with streams of its own, on each kind of store."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .running import Service

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults import database


@pytest.fixture(scope="session")
def postgres() -> Iterator[database.Database]:
    """A PostgreSQL server that all tests share; each that uses it makes a database of its own."""
    if (why := database.available()) is not None:
        pytest.skip(why)
    made = database.Database()
    yield made
    made.close()


def fresh_database(server: database.Database) -> str:
    """An empty database on a server."""
    import psycopg

    name = f"t{os.urandom(6).hex()}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


@pytest.fixture(
    scope="session", params=["folder", pytest.param("postgres", marks=pytest.mark.slow)]
)
def store(request: pytest.FixtureRequest) -> Callable[[], str | None]:
    """Where services live: makes None for a folder, or a PostgreSQL database of its own."""
    if request.param == "folder":
        return lambda: None
    server = request.getfixturevalue("postgres")
    return lambda: fresh_database(server)


@pytest.fixture(scope="session")
def service(
    store: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A running service that tests of many files share; nobody reads its log."""
    pytest.importorskip("starlette", reason="the service needs its extra")
    home = tmp_path_factory.mktemp("service")
    service = Service(home / "data", "--log", "error", database=store())
    yield service
    service.kill()
