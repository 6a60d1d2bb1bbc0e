"""Tasks in processes and on a real Dask cluster: the same answers in the same order, a worker lost or not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reticent.trace.sweep import sweep


def _count(folder: str, k: int) -> int:
    """The third task ends its worker when it is first run."""
    mark = Path(folder) / "died"
    if k == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


@pytest.fixture(scope="module")
def address():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_lost_worker_changes_nothing(address, tmp_path):
    tasks = [(str(tmp_path), k) for k in range(9)]
    assert sweep(_count, tasks, label="squares", on=address) == [k * k for k in range(9)]
    assert (tmp_path / "died").exists()


def test_what_fails_there_fails_here(address):
    with pytest.raises(ZeroDivisionError):
        sweep(divmod, [(1, 1), (1, 0)], label="quotients", on=address)


def test_the_audit_on_a_cluster(address):
    from reticent import audit

    here, there = (
        audit.run_all(names=["tree-laplace-plain"], runs=64, **where)
        for where in ({}, {"on": address})
    )
    assert [(line.name, line.setting, line.holds) for line in there.lines] == [
        (line.name, line.setting, True) for line in here.lines
    ]


def test_the_command_says_where_it_cannot_run(capfd, monkeypatch):
    monkeypatch.setattr("reticent.trace.sweep.WAIT", "1s")
    from typer.testing import CliRunner

    from reticent.cli.app import app

    done = CliRunner().invoke(
        app, ["audit", "tree-laplace-plain", "--on", "tcp://127.0.0.1:9", "--json"]
    )
    assert done.exit_code != 0
    words = " ".join((done.output + str(done.exception) + capfd.readouterr().err).split())
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in words
