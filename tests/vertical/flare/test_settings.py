"""Settings of a site: written for their owner only, and never guessed."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from reticent.vertical import flare

from .deployment import settings_for, write_tables


def test_settings_survive_their_file_and_are_for_the_owner_only(tmp_path: Path) -> None:
    terms = settings_for(write_tables(tmp_path))["north"]
    settings = flare.Settings.of({**terms, "columns": ["north_1", "north_0"]})
    path = settings.write(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert flare.Settings.read(tmp_path) == settings
    assert settings.table().names == ("north_1", "north_0")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"data": "relative.csv"}, "absolute"),
        ({"feature_bound": 0.0}, "feature_bound"),
        ({"noise": 0.0}, "unknown entries"),
        ({"largest_request": 2**40}, "largest_request"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], said: str) -> None:
    terms = {"data": "/a.csv", "id_column": "who", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=said):
        flare.Settings.of({**terms, **change})


def test_a_budget_is_never_guessed() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        flare.Settings.of({"data": "/a.csv", "id_column": "who", "delta": 1e-6})
