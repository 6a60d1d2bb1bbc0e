"""Tests are where a reader looks: each file is named after a module of the package that its folder mirrors.

What crosses modules has a file too, named after its subject; the subjects are listed here, by folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "reticent"
ELSEWHERE = {"benchmarks", "docs", "errata", "museum"}  # their tests are about other folders
SUBJECTS = {
    "": {"contributions", "layout", "names", "reference"},
    "audit": {"planted", "power"},
    "bandit": {"attack", "errata", "interrupts", "persons", "privacy", "state"},
    "cli": {"commands", "persons", "session"},
    "erm": {"groups"},
    "estimators": {
        "contrasts", "frames", "groups", "interrupts", "ledger", "online_summary", "persons", "state",
    },
    "noise": {"attack"},
    "online": {"interrupts", "persons", "regret", "state"},
    "papers": {"page"},
    "privacy": {"one_sided", "schedules"},
    "report": {"browser"},
    "service": {
        "access", "closing", "deploying", "faults", "first_start", "fuzz", "incidents", "kinds",
        "migrations", "operations", "overload", "page", "guarantee", "sending", "small", "tutorial",
    },
    "sets": {"oracles"},
    "state": {"ratchet"},
    "sums": {"ages", "interrupts", "own_mechanism", "persons", "state"},
    "tables": {"persons"},
    "vertical": {"attack"},
    "vertical/flare": {"deployment"},
}  # fmt: skip


def names(package: Path) -> set[str]:
    """The modules of a package, and its packages."""
    inside = {path.parent.name for path in package.glob("*/__init__.py")}
    return inside | {path.stem for path in package.glob("*.py")}


def misplaced(tests: Path, package: Path) -> list[str]:
    found = []
    for path in sorted(tests.rglob("test_*.py")):
        folder = path.parent.relative_to(tests)
        if folder.parts[:1] and folder.parts[0] in ELSEWHERE:
            continue
        known = names(package / folder) | SUBJECTS.get(folder.as_posix().strip("."), set())
        if path.stem.removeprefix("test_") not in known:
            found.append(path.relative_to(tests).as_posix())
    return found


def test_each_file_is_named_after_a_module_or_a_subject() -> None:
    assert misplaced(TESTS, PACKAGE) == [], (
        "rename each to test_<module>.py in the folder of the module's package, or, if its subject crosses modules, "
        "add it to SUBJECTS here"
    )


def test_each_subject_has_a_file_and_is_no_module() -> None:
    for folder, subjects in SUBJECTS.items():
        assert not subjects & names(PACKAGE / folder), folder
        for subject in subjects:
            assert (TESTS / folder / f"test_{subject}.py").exists(), f"{folder}: {subject}"


@pytest.mark.parametrize(
    "path", ["sums/test_trees.py", "test_tree.py", "sums/deeper/test_tree.py", "sumz/test_tree.py"]
)
def test_a_file_of_another_name_is_found(tmp_path: Path, path: str) -> None:
    tests = tmp_path / "tests"
    for file in ("sums/test_tree.py", "sums/test_persons.py", "errata/test_misprint.py", path):
        (tests / file).parent.mkdir(parents=True, exist_ok=True)
        (tests / file).touch()
    assert misplaced(tests, PACKAGE) == [path]
