"""The tutorial as written: its commands run in a shell, against a real service, and print what the page says."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .running import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "service.md"
_MARK = "=== end of block ==="


def test_the_tutorial_as_written(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("the page's commands need bash and curl")
    blocks = re.findall(r"```bash\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == PAGE.read_text().count("```bash")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("reticent", "-m reticent"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    script = "set -euo pipefail\n" + "".join(f"{code}\necho '{_MARK}'\n" for code, _ in blocks)
    script = "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n" + script.replace(
        "8080", str(free_port())
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=420,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "RETICENT_ANCHORS": str(tmp_path / "anchors")},
    )  # fmt: skip
    found = done.stdout.split(_MARK)
    said = (tmp_path / "serve.log").read_text() if (tmp_path / "serve.log").exists() else ""
    checker = doctest.OutputChecker()
    for (code, wanted), got in zip(blocks, found, strict=False):
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert checker.check_output(wanted.strip(), got.strip(), flags), (
            code,
            got,
            done.stderr,
            said,
        )
    assert done.returncode == 0, (done.stderr, said)
    assert len(found) == len(blocks) + 1
