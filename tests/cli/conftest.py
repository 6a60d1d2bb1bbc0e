"""What the tests of commands share: a folder with data and a model in it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from .processes import SCHEMA, Reticent, visits, write_csv


@pytest.fixture(scope="session")
def warm() -> None:
    """The slow imports, once: processes are forked off this one."""
    for name in (
        "reticent.estimators",
        "reticent.cli.learn",
        "reticent.cli.explain",
        "matplotlib.figure",
    ):
        importlib.import_module(name)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, warm: None) -> Path:
    """A folder with data, its schema, and a model learnt from it."""
    home = tmp_path_factory.mktemp("cli")
    write_csv(home / "visits.csv", visits(4000))
    (home / "visits.toml").write_text(SCHEMA)
    done = Reticent(home)(
        "learn",
        "visits.csv",
        "-s",
        "visits.toml",
        "-e",
        2,
        "--seed",
        5,
        "-o",
        "run",
        "--every",
        500,
    )
    assert done.status == 0, done.err
    return home


@pytest.fixture
def reticent(folder: Path) -> Reticent:
    return Reticent(folder)


@pytest.fixture
def place(tmp_path: Path, warm: None) -> Path:
    """An empty folder with the schema in it."""
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return tmp_path
