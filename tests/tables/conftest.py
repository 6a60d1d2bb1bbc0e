"""A small schema that the tests of tables share."""

from __future__ import annotations

import tomllib

import pytest

from reticent.tables import Schema

from ..cli.processes import SCHEMA


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema.from_dict(tomllib.loads(SCHEMA))
