"""The example's tables come with the package."""

from __future__ import annotations

from pathlib import Path


def test_the_example_tables_come_with_the_package(tmp_path: Path) -> None:
    from reticent.vertical.flare.example import COLUMNS, write

    said = write(tmp_path / "tables", 30)
    assert len(said) == 3
    for name in COLUMNS:
        lines = (tmp_path / "tables" / f"{name}.csv").read_text().splitlines()
        assert len(lines) == 31
        assert sorted(line.split(",")[0] for line in lines[1:]) == [f"{k:06d}" for k in range(30)]
