"""The museum itself: every patch still applies, names lines that exist, and a sample of the bugs is caught."""

from __future__ import annotations

import ast

import pytest

from reticent.audit import everything, whitebox_cases

from . import __main__ as museum
from . import bugs, planting

EVERY = (*bugs.BUGS, *bugs.UNCAUGHT)


def test_there_are_enough_and_each_has_a_name_of_its_own():
    assert len(bugs.BUGS) >= 60
    assert len({bug.name for bug in EVERY}) == len(EVERY)
    assert sum(bug.mode == "quick" for bug in bugs.BUGS) >= 50
    packages = {bug.file.split("/")[0] for bug in bugs.BUGS}
    assert packages >= {
        "privacy", "noise", "state", "sums", "online", "bandit", "erm", "losses", "vertical", "estimators",
    }  # fmt: skip


def test_the_page_says_how_many_there_are():
    page = (planting.PACKAGE.parents[1] / "docs" / "audit.md").read_text()
    assert f"holds {len(bugs.BUGS)} planted bugs" in page
    assert len(bugs.UNCAUGHT) == 2
    assert "Two more are\nlisted with the reason" in page


@pytest.mark.parametrize("bug", EVERY, ids=lambda bug: bug.name)
def test_the_patch_applies_and_is_a_program(bug):
    for file, text in bug.patched().values():
        ast.parse(text, filename=str(file))


def test_the_lines_exist_and_those_of_the_quick_mode_are_quick():
    attacks = {everything.title(*task[:3]) for task in everything.planned(True, white_box=False)}
    settings = {
        f"{family}: {case.setting}": case.quick
        for family in whitebox_cases.names()
        for case in whitebox_cases.cases(family)
    }
    for bug in bugs.BUGS:
        assert bug.lines, f"{bug.name} names no line that catches it"
        for line in bug.lines:
            if line.startswith("attack: "):
                assert tuple(line.removeprefix("attack: ").split("; ")) in attacks, line
            else:
                assert line in settings, f"{bug.name}: there is no line {line!r}"
                assert settings[line] or bug.mode == "full", f"{line} is not part of the quick mode"


@pytest.mark.parametrize("name", bugs.SAMPLE)
def test_a_planted_bug_is_caught(name):
    assert not bugs.find(name).changes_kernels, "the sample must not need compiling"
    found = planting.run(bugs.find(name))
    assert found["caught"], found


def test_a_patch_that_no_longer_applies_says_so():
    bug = planting.Bug("old", "noise/door.py", "no such line", "", "", ())
    with pytest.raises(ValueError, match=r"bug 'old': noise/door.py contains its snippet 0 times"):
        bug.patched()


def test_results_are_kept_and_gone_on_from(tmp_path, monkeypatch):
    """What was planted on these sources is not planted again; on others it is."""
    planted = []

    def plant(bug):
        planted.append(bug.name)
        return {"name": bug.name, "caught": True, "mode": bug.mode, "lines": [], "seconds": 0.0}

    monkeypatch.setattr(museum.planting, "run", plant)
    monkeypatch.setattr(museum, "version", lambda: "one")
    out = tmp_path / "museum.json"

    def run(*words):
        monkeypatch.setattr("sys.argv", ["museum", *words, "--out", str(out), "--jobs", "1"])
        return museum.main()

    first, second = (bug.name for bug in bugs.BUGS[:2])
    assert (
        run(first, second, "--minutes", "0") == 1
    )  # nothing was begun, so nothing is called caught
    assert planted == []
    assert run(first) == 0
    assert run(first, second) == 0
    assert planted == [first, second]
    monkeypatch.setattr(museum, "version", lambda: "another")
    assert run(first) == 0
    assert planted == [first, second, first]
