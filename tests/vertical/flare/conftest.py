"""Kits that are made once for the tests of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.vertical.flare import commands

from .deployment import PARTIES, needs_engine, settings_for, write_tables


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    needs_engine()
    folder = tmp_path_factory.mktemp("kits")
    settings = settings_for(write_tables(folder))
    return commands.provision(folder / "kits", PARTIES, name="trial", settings=settings)
