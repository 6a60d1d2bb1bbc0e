"""No false alarms: everything that is registered, under both relations, with and without a window.

`run_all` splits a false-alarm probability of 1e-6 among all its attacks.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import reticent
from reticent import audit, losses, online, sets, sums
from reticent.audit import bets, everything, pairs_online, pairs_sums
from reticent.noise import Source
from reticent.sums import matrices

RUNS = 30_000


SHARP = (
    "correlated", "correlated-window", "erm-averaged-iterate", "erm-output-perturbation", "exponential-mechanism",
    "independent-gaussian", "independent-laplace", "online-regularized-leader", "tree-gaussian-honaker",
    "tree-gaussian-plain", "tree-laplace-plain", "window-tree-gaussian",
)  # fmt: skip
"""One attack of each kind that makes all its runs in seconds."""


@contextmanager
def fixed_keys():
    """Keys of the noise come from a fixed stream, and attacks begin with small batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", random.Random(0).randbytes)
        patch.setattr(bets, "_FIRST", 96)
        yield patch


@pytest.fixture(scope="module")
def report():
    """Less time for each attack than `run_all` takes by itself; the table is the same."""
    with fixed_keys() as patch:
        patch.setattr(everything, "_QUICK", RUNS)
        patch.setattr(everything, "_QUICK_SECONDS", 0.3)
        return audit.run_all(quick=True, white_box=False)  # test_whitebox.py has those


def test_no_claim_falls(report):
    assert report.holds, str(report)
    assert report.false_alarm == 1e-6
    assert {line.name for line in report.lines} == {*audit.names(), "last bits", "few runs"}


def test_both_relations_and_windows_are_there(report):
    settings = {line.setting for line in report.lines}
    assert {"neighbours=zero-out", "neighbours=replace"} <= settings
    assert any("window" in setting for setting in settings)


def test_the_attacks_are_sharp():
    """A share that an attack on honest noise reaches even with few runs; a weak attack shows nothing.

    All runs are made, however long they take, with noise from fixed keys: the outcome does not depend on the machine.
    """
    with fixed_keys():
        found = audit.run_all(names=SHARP, quick=True, white_box=False, runs=RUNS)
    assert {line.name for line in found.lines} == set(SHARP)
    for line in found.lines:
        assert line.finding.runs == RUNS
        if line.finding.claim.gdp is not None and "record" not in line.setting:
            assert line.finding.tightness > 0.25, line
    best = {
        name: max(line.finding.tightness for line in found.lines if line.name == name)
        for name in ("exponential-mechanism", "tree-laplace-plain", "independent-laplace")
    }
    assert all(share > 0.2 for share in best.values()), best
    assert best["independent-laplace"] > 0.8


def test_every_guarantee_was_recomputed(report):
    for line in report.lines:
        if line.name in audit.names():
            assert line.agreement is not None
            assert line.agreement.holds
            assert line.agreement.rows or line.agreement.skipped
    again = {line.name: line.agreement.epsilon for line in report.lines if line.agreement}
    assert again["tree-gaussian-plain"] == pytest.approx(1.0, rel=1e-4)
    assert again["online-perturbed-implicit"] == pytest.approx(16.0, rel=1e-4)


def test_last_bits_are_shown_to_be_seen_in_floating_point(report):
    for line in (line for line in report.lines if line.name == "last bits"):
        assert line.finding.control == "floating point"
        assert line.verdict == "holds"
        assert line.cells()[4:6] == ("", "floating point")


def test_the_report_as_text_and_as_data(report):
    text = str(report)
    weak = [line for line in report.lines if line.verdict == "no power"]
    assert f"no claim refuted, but {len(weak)} of {len(report.lines)} attacks had no power" in text
    strong = replace(report, lines=tuple(line for line in report.lines if line not in weak))
    assert "all claims hold" in str(strong)
    assert text.splitlines()[0].split() == list(report.columns)
    assert any("no power" in row for row in text.splitlines())
    data = json.loads(json.dumps(report.to_dict()))
    assert data["holds"] is True
    assert len(data["rows"]) == len(data["lines"]) == len(report.lines)
    assert report.refuted == ()


def test_wide_totals_have_the_noise_of_narrow_ones():
    from reticent.audit.pairs_sums import side_by_side

    for kind, budget, noise in (
        (reticent.sums.TreeMechanism, reticent.Budget(1.0, 1e-6), "gaussian"),
        (reticent.sums.TreeMechanism, reticent.Budget(1.0), "laplace"),
        (reticent.sums.WindowTreeMechanism, reticent.Budget(1.0, window=4), "laplace"),
    ):
        narrow = kind(1, 8, budget=budget, noise=noise)
        wide = side_by_side(narrow, 5000)
        assert wide.error(8) == pytest.approx(narrow.error(8), rel=1e-5)
        assert np.allclose(matrices.mix(wide, 8).scaled, matrices.mix(narrow, 8).scaled, rtol=1e-5)


@pytest.mark.parametrize(
    "kind", ["tree", "window", "correlated", "leader", "local-linear", "quadratic"]
)
def test_what_is_started_over_behaves_as_new(kind):
    """The same stream of noise into a new object and into one that has run before: the same outputs."""
    budget = reticent.Budget(1.0, 1e-6)
    rows = 0.3 * np.cos(np.arange(24.0)).reshape(8, 3)
    makers = {
        "tree": lambda: sums.Tree(3, 8, budget=budget),
        "window": lambda: sums.WindowTree(3, 8, budget=budget.with_(window=4), noise="gamma"),
        "correlated": lambda: sums.Correlated(3, 8, budget=budget),
        "leader": lambda: online.FollowTheRegularizedLeader(
            sets.L2Ball(3), losses.Linear(), budget=budget, horizon=8
        ),
        "local-linear": lambda: online.FollowTheApproximateLeader(
            sets.Simplex(3), losses.Linear(ridge=1.0), step="local-linear", budget=budget, horizon=8
        ),
        "quadratic": lambda: online.QuadraticLeader(
            sets.L2Ball(3), losses.Squared(ridge=1.0), budget=budget, horizon=8
        ),
    }

    def outputs(thing):
        if isinstance(thing, sums.RunningTotal):
            return thing.run(rows)
        labels = np.full(8, 0.5) if kind == "quadratic" else None
        return np.vstack([thing.run(rows, labels, keep=8).decisions, [thing.decision]])

    used, fresh = makers[kind](), makers[kind]()
    outputs(used)
    for thing in (used, fresh):
        total = thing if isinstance(thing, sums.RunningTotal) else thing.total
        total._source = Source(9)
        (pairs_sums.again if total is thing else pairs_online.restart)(thing)
    first, second = outputs(used), outputs(fresh)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, outputs(makers[kind]()))


def test_the_command_prints_a_table_and_says_whether_all_hold(capsys):
    pytest.importorskip("typer")
    from reticent.cli import main

    with pytest.raises(SystemExit) as end:
        main(["audit", "tree-laplace-plain", "--runs", "2000"])
    assert end.value.code == 0
    assert "tree-laplace-plain" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["audit", "tree-laplace-plain", "--runs", "2000", "--json"])
    assert json.loads(capsys.readouterr().out)["holds"] is True

    @audit.register("broken")
    def build():
        rng = np.random.default_rng(0)
        run = lambda world, size: world + rng.laplace(scale=0.1, size=size)  # noqa: E731
        return audit.Pair("broken", run, 0.0, 1.0, claim=1.0, delta=0.0, batch=2000)

    try:
        with pytest.raises(SystemExit) as end:
            main(["audit", "broken", "--runs", "4000"])
        assert end.value.code == 1
        assert "1 of 1 claims refuted" in capsys.readouterr().out
    finally:
        audit.unregister("broken")
