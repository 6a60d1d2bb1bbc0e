"""What a newcomer reads: code for other libraries runs, links work on the package index, words can be found."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = {
    "scikit-learn": "sklearn",
    "diffprivlib": "diffprivlib",
    "Opacus": "opacus",
    "OpenDP": "opendp",
    "River": "river",
}


def section(name: str) -> str:
    page = (DOCS / "coming-from.md").read_text("utf-8")
    return page.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", PACKAGES)
def test_the_code_for_another_library_runs(name: str) -> None:
    blocks = re.findall(r"```python\n((?!>>>).*?)```", section(name), flags=re.DOTALL)
    assert len(blocks) == 1
    compile(blocks[0], name, "exec")
    if importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{name} is not installed")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(5000, 4)) / 2
    y = (X @ [3, -2, 1, 0] + 0.2 * rng.standard_normal(5000) > 0).astype(int)
    exec(blocks[0], {"X": X, "y": y})


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_work_on_the_package_index() -> None:
    pytest.importorskip("hatchling")
    module, text = script("metadata"), (ROOT / "README.md").read_text("utf-8")
    without = module.readme(text, None, "1.0")
    assert re.findall(r"\]\((?!http)", without) == []
    assert "![" not in without
    within = module.readme(text, "https://example.org/r", "1.0")
    links = re.findall(r"\]\(([^)]*)\)", within)
    assert all(link.startswith("https://") for link in links)
    assert "https://example.org/r/blob/v1.0/docs/glossary.md" in links
    assert "https://example.org/r/raw/v1.0/docs/pictures/same-guarantee.png" in links
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / link).exists(), link
    assert module.urls(None) == {}
    assert set(module.urls("https://example.org/r")) >= {"Repository", "Changelog", "Issues"}


@pytest.mark.parametrize(
    "word", ["GridSearchCV", "pandas", "Polars", "user-level", "DP-SGD", "Docker"]
)
def test_words_that_people_search_for_are_there(word: str) -> None:
    assert word in (DOCS / "glossary.md").read_text("utf-8")


def test_every_picture_is_one() -> None:
    for path in sorted(DOCS.rglob("*.svg")):
        assert ElementTree.parse(path).getroot().tag.endswith("svg"), path
    for path in sorted(DOCS.rglob("*.png")):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", path
    assert list(DOCS.rglob("*.svg"))
    assert list(DOCS.rglob("*.png"))


def test_pages_name_pictures_for_light_and_dark() -> None:
    text = (DOCS / "index.md").read_text("utf-8")
    light = re.findall(r"\((pictures/\S+)-light\.svg#only-light\)", text)
    dark = re.findall(r"\((pictures/\S+)-dark\.svg#only-dark\)", text)
    assert light == dark
    assert len(light) >= 2
    for name in light:
        for theme, ink in (("light", "#222222"), ("dark", "#dddddd")):
            picture = (DOCS / f"{name}-{theme}.svg").read_text("utf-8")
            assert ink in picture
            assert "fill: #ffffff" not in picture.split("</style>")[-1][:3000]


def test_python_can_be_called_by_set_up() -> None:
    """`make run` starts from any Python with nothing installed."""
    source = (ROOT / "scripts" / "set_up.py").read_text("utf-8")
    names = set(re.findall(r"^(?:import|from) (\w+)", source, flags=re.MULTILINE))
    assert names <= set(sys.stdlib_module_names)


def test_an_audit_that_asked_about_nothing_is_no_success() -> None:
    verdict = script("vulnerabilities").verdict
    skipped = {"name": "a", "skip_reason": "not found"}
    clean = {"name": "b", "version": "1", "vulns": []}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
    assert verdict([skipped, skipped]) == (
        ["0 of 2 packages audited, 0 known vulnerabilities"],
        False,
    )
    assert verdict([skipped, clean])[1]
    lines, well = verdict([bad, clean])
    assert not well
    assert lines[0] == "c 2: CVE-1, mended in 3"


def test_the_quick_start_names_every_extra() -> None:
    page = (DOCS / "quick-start.md").read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name in extras["optional-dependencies"]:
        assert re.search(rf"^\|.*`{name}`.*\|", page, flags=re.MULTILINE), name


def test_files_that_pages_name_are_there() -> None:
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        for name in re.findall(
            r"`((?:tests|scripts|benchmarks|examples|src)/[\w/.-]+\.\w+)`", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{path}: {name}"


def test_notebooks_hold_the_code_of_their_pages() -> None:
    """The pages are run as doctests; whatever they run is in the notebook, in order, and nothing else."""
    notebooks = script("notebooks")
    for name in notebooks.PAGES:
        page = (DOCS / f"{name}.md").read_text("utf-8")
        examples = doctest.DocTestParser().get_examples(page)
        assert examples, name
        found = json.loads(notebooks.notebook(DOCS / f"{name}.md"))
        code = ["".join(c["source"]) for c in found["cells"] if c["cell_type"] == "code"]
        assert "\n".join(code) + "\n" == "".join(example.source for example in examples), name
        refused = [c for c in found["cells"] if "raises-exception" in c["metadata"].get("tags", ())]
        assert len(refused) == sum(bool(example.exc_msg) for example in examples), name
        assert [cell["id"] for cell in found["cells"]] == sorted(
            {cell["id"] for cell in found["cells"]}, key=lambda word: int(word.split("-")[1])
        )
        for text in ("".join(c["source"]) for c in found["cells"] if c["cell_type"] == "markdown"):
            for link in re.findall(r"\]\((?!http|#)([^)#]+)", text):
                assert (DOCS / "notebooks" / link).resolve().exists(), (name, link)


def test_no_message_installs_this_project_from_an_index() -> None:
    """It is not published, so `pip install reticent[...]` would fail, or install a stranger's package."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    wrong = [
        f"{path}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if re.search(r"pip install\b.*[\s'\"]reticent\b", line)
    ]
    assert len(files) > 100
    assert not wrong
