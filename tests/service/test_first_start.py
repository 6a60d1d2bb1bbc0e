"""A start does not wait for what it does not need; one that is killed at any write can be repeated."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the service needs its extra")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults import shim
from faults.server import Server

from .running import specification


def test_a_start_does_not_wait_for_what_it_does_not_need() -> None:
    script = (
        "import sys, reticent.service.server as server; server.warm();"
        "heavy = {'sklearn', 'pandas', 'matplotlib', 'pyarrow', 'river', 'dask', 'scipy.stats'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_first_arrow_stream_does_not_wait_for_pandas(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [0.5, -0.5], "b": [0.25, 1.0], "y": [True, False]})
    with pa.ipc.new_stream(str(tmp_path / "records"), table.schema) as out:
        out.write_table(table)
    (tmp_path / "specification.json").write_text(json.dumps(specification("s")))
    script = """
import json, pathlib, sys
from reticent.service import runners
from reticent.service.keys import Keys
from reticent.service.records import Reader
from reticent.service.specification import Specification
asked = Specification.from_dict(json.loads(pathlib.Path("specification.json").read_text()))
reader = Reader(runners.encoder_of(asked), Keys(bytes(32)))
batch = reader.arrow(pathlib.Path("records").read_bytes(), "key", None)
assert batch.X.tolist() == [[0.5, 0.25], [-0.5, 1.0]], batch.X
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


@pytest.mark.skipif(shim.available() is not None, reason=shim.available() or "")
@pytest.mark.slow
def test_a_first_start_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    faults = shim.Shim(tmp_path / "shim", tmp_path / "disk")
    server = Server(tmp_path, faults.environment, quick=True)
    try:
        server.start()
        writes = faults.get("count")
        server.kill()
        moments = {round(share * writes) for share in (0.3, 0.5, 0.7, 0.8, 0.9)}
        for calls in sorted({1, 2, 3, *moments}):
            shutil.rmtree(tmp_path / "disk", ignore_errors=True)
            server.log.unlink(missing_ok=True)
            faults.set(kill=calls)
            with pytest.raises(RuntimeError):
                server.start()
            faults.calm()
            server.token = "as printed, or lost"
            server.start()
            server.kill()
        # whoever was killed between the commit and the printing has a way to a token
        plain = {name: value for name, value in server.environment.items() if name != "LD_PRELOAD"}
        done = subprocess.run(
            [sys.executable, "-m", "reticent", "serve", "token", "--data", str(server.data)],
            capture_output=True, text=True, check=True, env=os.environ | plain,
        )  # fmt: skip
        server.token = done.stdout.split()[1]
        server.start()
        assert server.json("GET", "/v1/streams") == {"streams": []}
    finally:
        server.close()
