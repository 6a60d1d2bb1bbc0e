"""One name, one meaning: no two files of the package define a class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "src" / "reticent"
_TWINS = {
    "OnlineLinearRegression": ("estimators/online_linear.py", "estimators/river.py"),
    "OnlineLogisticRegression": ("estimators/online_logistic.py", "estimators/river.py"),
    "Source": ("noise/source.py", "tables/sources.py"),
}
"""River's twins are the same model under another library's interface, and each is imported from its own module.
`reticent.noise.Source` and `reticent.tables.Source` are both public, and nobody who uses one needs the other."""


def _classes(package: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(package).as_posix())
    return found


def test_a_class_name_has_one_meaning() -> None:
    classes = _classes(_PACKAGE)
    assert len(classes) > 400, "the walk finds the package's classes"
    repeated = {name: tuple(files) for name, files in classes.items() if len(files) > 1}
    assert repeated == _TWINS, (
        "say in each name what the class is, or list both files with a reason"
    )


def test_a_second_definition_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.py").write_text("class Table: ...\n")
    (tmp_path / "inner" / "two.py").write_text(
        "def make():\n    class Table: ...\n    return Table\n"
    )
    assert _classes(tmp_path) == {"Table": ["inner/two.py", "one.py"]}
