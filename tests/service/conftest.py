"""One service that the tests of a file share, each with streams of its own, on each kind of store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
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


def renewed(url: str) -> str:
    """An empty database on the server of another one."""
    import psycopg

    name = f"t{os.urandom(6).hex()}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


def fresh_database(server: database.Database) -> str:
    """An empty database on a server."""
    return renewed(server.url)


@pytest.fixture(scope="module", params=["folder", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> str | None:
    """Where a service lives: None for a folder, or a PostgreSQL database."""
    if request.param == "folder":
        return None
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture(scope="module")
def service(store: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service."""
    pytest.importorskip("starlette", reason="the service needs its extra")
    service = Service(tmp_path_factory.mktemp("service") / "data", database=store)
    yield service
    service.kill()
