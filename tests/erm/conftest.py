"""Data sets for the tests of the solvers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    folder = os.environ.get("RETICENT_DATA")
    path = Path(folder) if folder else Path(__file__).parents[3] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no real data: set RETICENT_DATA to the folder that holds it")
    return path
