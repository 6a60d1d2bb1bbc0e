"""A small schema that the tests of tables share."""

from __future__ import annotations

import tomllib

import pytest

from reticent.tables import Schema

SCHEMA = """
target = "spent"

[columns.age]
type = "number"
bounds = [18, 100]

[columns.job]
type = "category"
values = ["clerk", "cook", "other"]

[columns.member]
type = "boolean"

[columns.spent]
type = "category"
values = ["no", "yes"]

[columns.amount]
type = "ignore"
"""


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema.from_dict(tomllib.loads(SCHEMA))
