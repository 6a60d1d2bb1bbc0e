"""Stopping, crashing and going on: the same decisions as if nothing had happened, and nothing leaves early."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from reticent import online
from reticent.cli import checkpoint, learn, streaming, tasks
from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.cli.options import Bad, LearnOptions
from reticent.state import files
from reticent.tables import Encoder, Schema

from .processes import HEADER, Reticent, visits, wait_until, write_csv

COUNT = 2000


@pytest.fixture
def data(place: Path) -> Path:
    return write_csv(place / "visits.csv", visits(COUNT))


def settings(**changes: object) -> tasks.LearnSettings:
    known = {"task": "classification", "online": True, "epsilon": 1.0, "horizon": COUNT, "seed": 3}
    return tasks.LearnSettings(**(known | {"feature_norm": np.sqrt(3.0)} | changes))  # type: ignore[arg-type]


def run(  # type: ignore[no-untyped-def]
    data: Path,
    name: str,
    every: int = 50,
    bad: str = "stop",
    decisions: str | None = None,
    **changes: object,
):
    folder = data.parent / name
    folder.mkdir(exist_ok=True)
    options = LearnOptions(
        data=str(data), every=every, bad_records=Bad(bad), out=folder, decisions=decisions
    )
    encoder = Encoder(Schema.from_file(data.parent / "visits.toml"), "spent")
    return streaming.StreamingRun(options, settings(**changes), encoder, Console(quiet=True))


def decisions(folder: Path) -> str:
    return (folder / "decisions.jsonl").read_text()


def test_decisions_are_those_of_the_face(data: Path) -> None:
    whole = run(data, "whole", every=500)
    whole.learn(COUNT)
    encoder = whole.encoder
    rows = visits(COUNT)
    columns = dict(zip(HEADER, zip(*rows, strict=True), strict=True))
    records = encoder.encode(columns, COUNT)
    face = tasks.build(settings(), encoder)
    for line in decisions(data.parent / "whole").splitlines():
        found = json.loads(line)
        seen = getattr(face, "n_samples_seen_", 0)
        face.partial_fit(records.X[seen : found["records"]], records.y[seen : found["records"]])
        assert np.array_equal(face.coef_, found["coefficients"])
        assert np.array_equal(np.atleast_1d(face.intercept_), found["intercepts"])
    assert np.array_equal(
        whole.model.predict(records.X).astype(str), face.predict(records.X).astype(str)
    )
    assert whole.model.probabilities(records.X) == pytest.approx(face.predict_proba(records.X))


@pytest.mark.parametrize("stops", [1, 3])
def test_interrupted_and_resumed_is_the_same(
    data: Path, stops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(data, "whole").learn(COUNT)
    want = decisions(data.parent / "whole")
    calls = 0
    read = streaming.Encoder.encode

    def encode(self, *arguments, **more):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls in (7, 90, 160)[:stops]:
            os.kill(os.getpid(), signal.SIGINT)
        return read(self, *arguments, **more)

    monkeypatch.setattr(streaming.Encoder, "encode", encode)
    part = run(data, "parts")
    part.learn(COUNT)
    assert part.stopped == 130
    for _ in range(10):
        if not part.stopped:
            break
        path = data.parent / "parts" / checkpoint.NAME
        assert path.stat().st_mode & 0o777 == 0o600
        state = checkpoint.load(data.parent / "parts")
        assert state["pending"] == []
        part = run(data, "parts")
        part.resume(state)
        part.learn(COUNT)
    assert decisions(data.parent / "parts") == want


def test_state_reaches_the_disk_before_what_depends_on_it_leaves(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = []
    save = checkpoint.save

    def watch(folder: Path, state: dict) -> None:  # type: ignore[type-arg]
        out = decisions(folder).splitlines()
        covered = 0 if not saved else saved[-1]
        assert all(json.loads(line)["records"] <= covered for line in out)
        save(folder, state)
        saved.append(state["position"]["read"])

    monkeypatch.setattr(checkpoint, "save", watch)
    monkeypatch.setattr(streaming, "_PAGE_SECONDS", 0.0)
    run(data, "whole").learn(COUNT)
    assert len(saved) >= COUNT // 50


def test_killed_and_resumed_is_the_same(data: Path) -> None:
    """SIGKILL at any moment: the state on disk goes on to the same decisions."""
    reticent, home = Reticent(data.parent), data.parent
    words = ["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--seed", 3, "--every", 1]
    assert reticent(*words, "-o", "whole", "--no-report", "-q").status == 0
    for wanted in (300, 60_000):
        target = home / "killed" / "decisions.jsonl"
        more = ["--resume"] if target.exists() else []
        started = reticent.start(*words, *more, "-o", "killed", "--no-report", "-q")
        wait_until(lambda: target.exists() and target.stat().st_size > wanted)  # noqa: B023
        started.send(signal.SIGKILL)
        assert started.wait().status == -signal.SIGKILL
    # as if the crash had fallen between the state and the decisions, in the middle of a line
    with open(target, "a") as file:
        file.write('{"records": ')
    done = reticent("learn", "--resume", "-o", "killed", "--no-report", "-q")
    assert done.status == 0, done.err
    assert decisions(home / "killed") == decisions(home / "whole")
    assert not (home / "killed" / checkpoint.NAME).exists()


def test_a_live_stream_stops_and_goes_on(data: Path) -> None:
    """SIGTERM while the stream is silent: what has arrived is learnt, and the rest comes later."""
    home = data.parent
    lines = [
        json.dumps({"age": int(r[0]), "job": r[1], "member": r[2] == "true", "spent": r[3]}) + "\n"
        for r in visits(230)
    ]
    words = ["learn", "-", "-s", "visits.toml", "-e", 1, "--seed", 2, "--every", 50, "--no-report"]
    reticent = Reticent(home)
    assert reticent(*words, "-o", "whole", stdin="".join(lines)).status == 0
    there, ours = os.pipe()
    started = reticent.start(*words, "-o", "live", stdin=there)
    os.close(there)
    os.write(ours, "".join(lines[:130]).encode())
    target = home / "live" / "decisions.jsonl"
    wait_until(lambda: target.exists() and target.read_text().count("\n") == 2)
    started.send(signal.SIGTERM)
    done = started.wait()
    os.close(ours)
    assert done.status == 143
    assert "stopped after 130 records" in done.out
    done = reticent(
        "learn", "-", "--resume", "-o", "live", "--no-report", stdin="".join(lines[130:])
    )
    assert done.status == 0, done.err
    assert "continuing after 130 records" in done.err
    assert decisions(home / "live") == decisions(home / "whole")


def test_two_runs_in_one_folder_are_refused(place: Path) -> None:
    there, ours = os.pipe()
    reticent = Reticent(place)
    words = ["learn", "-", "-s", "visits.toml", "-e", 1, "-o", "live", "--no-report"]
    started = reticent.start(*words, "--format", "jsonl", stdin=there)
    wait_until(lambda: (place / "live" / "decisions.jsonl").exists())
    done = reticent(*words, stdin="")
    assert done.status == 2
    assert "another reticent process is working" in done.err
    os.close(there)
    os.close(ours)
    assert started.wait().status == 2  # no records came


def test_a_run_that_ended_while_another_waited_is_not_forgotten(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LearnOptions(
        data=str(data),
        schema=data.parent / "visits.toml",
        target="spent",
        epsilon=1.0,
        out=data.parent / "both",
        quiet=True,
    )
    locked = checkpoint.locked

    def late(folder: Path):  # type: ignore[no-untyped-def]
        (folder / learn.MODEL).write_text("of a run that ended just now")
        return locked(folder)

    monkeypatch.setattr(checkpoint, "locked", late)
    with pytest.raises(Refused, match="already holds a run"):
        learn.learn(options)
    assert (data.parent / "both" / learn.MODEL).read_text() == "of a run that ended just now"


def test_other_records_in_place_of_those_seen_are_refused(data: Path) -> None:
    stop_after(data, "parts", 500)
    state = checkpoint.load(data.parent / "parts")
    rows = visits(COUNT)
    rows[17][0] = "44"
    write_csv(data, rows)
    again = run(data, "parts")
    again.resume(state)
    with pytest.raises(Refused, match="do not begin with the records"):
        again.learn(COUNT)
    write_csv(data, rows[:100])
    again = run(data, "parts")
    again.resume(state)
    with pytest.raises(Refused, match="do not begin with the records"):
        again.learn(COUNT)


def test_a_promise_cannot_be_changed_on_the_way(data: Path) -> None:
    stop_after(data, "parts", 500)
    reticent = Reticent(data.parent)
    for words, part in (
        (["-e", 2], "--epsilon 2.0 differs from 1.0, with which the run began"),
        (["--horizon", 9000], "--horizon 9000"),
        (["elsewhere.csv"], "stopped in"),
    ):
        (data.parent / "elsewhere.csv").write_text(data.read_text())
        done = reticent("learn", *words, "--resume", "-o", "parts")
        assert done.status == 2
        assert part in done.err
        assert done.err.count("\n") <= 2


def test_more_records_of_a_file_that_grows(data: Path) -> None:
    """--endless --keep-state, then --resume when the file has grown."""
    home = data.parent
    reticent = Reticent(home)
    words = ["-s", "visits.toml", "-e", 1, "--seed", 3, "--endless", "--every", 100, "--no-report"]
    assert reticent("learn", "visits.csv", *words, "-o", "whole").status == 0
    write_csv(home / "log.csv", visits(COUNT)[:700])
    assert reticent("learn", "log.csv", *words, "-o", "log", "--keep-state").status == 0
    write_csv(home / "log.csv", visits(COUNT))
    done = reticent("learn", "log.csv", "--resume", "-o", "log")
    assert done.status == 0, done.err
    assert decisions(home / "log") == decisions(home / "whole")
    # the speed is that of the records which were learnt now, as far as the printed seconds allow to check it
    found = re.search(r"([\d,]+), ([\d,]+) of them now in ([\d.]+) s \(([\d,]+)/s\)", done.out)
    assert found is not None, done.out
    total, now, rate = (int(found[k].replace(",", "")) for k in (1, 2, 4))
    assert (total, now) == (COUNT, COUNT - 700)
    assert now / (float(found[3]) + 0.05) <= rate + 1
    assert f"<dd>{found[4]}</dd>" in (home / "log" / "report.html").read_text()


def test_at_the_end_of_the_horizon_only_what_was_released_is_kept(data: Path) -> None:
    home, reticent = data.parent, Reticent(data.parent)
    words = ["-s", "visits.toml", "-e", 1, "--no-report", "--keep-state"]
    assert reticent("learn", "visits.csv", *words, "-o", "done").status == 0
    before = decisions(home / "done"), (home / "done" / "model.json").read_text()
    state = checkpoint.load(home / "done")
    assert state["stream"] is None
    assert state["model"]["records"] == COUNT
    (home / "done" / "model.json").unlink()  # as if the crash had come just before it was written
    done = reticent("learn", "--resume", "-o", "done")
    assert done.status == 0, done.err
    assert "no more records are learnt" in done.err
    # nothing was learnt, so no speed was measured
    assert "/s)" not in done.out
    assert "<dt>records per second</dt>" not in (home / "done" / "report.html").read_text()
    assert before == (decisions(home / "done"), (home / "done" / "model.json").read_text())


def stop_after(data: Path, name: str, records: int, **changes: object) -> None:
    """Run until so many records are learnt, then stop as by Ctrl-C."""
    part = run(data, name, **changes)  # type: ignore[arg-type]
    absorb = part._absorb

    def stop(*arguments: object) -> None:
        absorb(*arguments)  # type: ignore[arg-type]
        if part.seen >= records:
            os.kill(os.getpid(), signal.SIGINT)

    part._absorb = stop  # type: ignore[method-assign]
    part.learn(COUNT)
    assert part.stopped


def test_decisions_in_a_file_of_their_own(data: Path) -> None:
    """A file of someone else is not touched, and a resumed run goes on in its own, named again or not."""
    home, reticent = data.parent, Reticent(data.parent)
    words = [
        "learn",
        "visits.csv",
        "-s",
        "visits.toml",
        "-e",
        1,
        "--seed",
        3,
        "--every",
        50,
        "--no-report",
    ]
    (home / "mine.txt").write_text("mine\n")
    done = reticent(*words, "--decisions", "mine.txt", "-o", "new")
    assert done.status == 2
    assert "mine.txt exists already" in done.err
    assert not (home / "new").exists()
    assert reticent(*words, "--decisions", "whole.jsonl", "-o", "whole").status == 0
    whole = (home / "whole.jsonl").read_text()
    assert len(whole.splitlines()) == COUNT // 50
    for name, more in (("silent", []), ("named", ["--decisions", "named.jsonl"])):
        own = home / f"{name}.jsonl"
        stop_after(data, name, 300, decisions=str(own))
        gc.collect()  # the stopped run holds its stream until it is gone, also against other processes
        assert 0 < len(own.read_text()) < len(whole)
        done = reticent("learn", "--resume", "-o", name, "--decisions", "mine.txt")
        assert done.status == 2
        assert "is not the file of this run" in done.err
        done = reticent("learn", "--resume", "-o", name, "--no-report", *more)
        assert done.status == 0, done.err
        assert own.read_text() == whole
        assert not (home / name / "decisions.jsonl").exists()
    assert (home / "mine.txt").read_text() == "mine\n"


# Records that cannot be used -----------------------------------------------------------------------


def test_a_bad_record_stops_the_run_where_it_is(data: Path) -> None:
    rows = visits(COUNT)
    rows[123][3] = "perhaps"
    write_csv(data, rows)
    part = run(data, "parts")
    with pytest.raises(
        Refused, match=r"record 124: column 'spent' is not one of its declared"
    ) as e:
        part.learn(COUNT)
    assert "perhaps" not in str(e.value)
    rows[123] = visits(COUNT)[123]
    write_csv(data, rows)
    again = run(data, "parts")
    again.resume(checkpoint.load(data.parent / "parts"))
    assert again.seen == 123
    again.learn(COUNT)
    run(data, "whole").learn(COUNT)
    assert decisions(data.parent / "parts") == decisions(data.parent / "whole")


@pytest.mark.parametrize("bad", [[0], [5, 6, 199], [0, 60]])
def test_a_blanked_record_is_a_gap_in_the_stream(data: Path, bad: list[int]) -> None:
    """Against the learner underneath, which knows gaps: blanked and absent are the same outputs."""
    rows = visits(200)
    for row in bad:
        rows[row][3] = ""
    write_csv(data, rows)
    blanked = run(data, "blanked", bad="blank", horizon=200)
    blanked.learn(200)
    assert blanked.seen == 200
    assert blanked.diagnostics.blanked == len(bad)
    good = [row for row in range(200) if row not in bad]
    encoder = blanked.encoder
    columns = dict(zip(HEADER, zip(*visits(200), strict=True), strict=True))
    records = encoder.encode(columns, 200)
    face = tasks.build(settings(horizon=200), encoder)
    face.partial_fit(records.X[:1], records.y[:1])
    plan = face._stream.plan
    learner: online.FollowTheApproximateLeader = plan.learner()
    A = np.column_stack([records.X / plan.feature_norm, np.full(200, plan.scaling)])
    present = np.isin(np.arange(200), good)
    play = learner.run(A, 2.0 * records.codes - 1.0, present=present)
    model = blanked.model
    scaled = model.coefficients[0] * plan.feature_norm
    weights = np.append(scaled, model.intercepts[0] / plan.scaling)
    assert weights == pytest.approx(learner.decision, abs=1e-12)
    assert play.count == 200


def test_a_damaged_state_is_refused(data: Path) -> None:
    stop_after(data, "parts", 500)
    path = data.parent / "parts" / checkpoint.NAME
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Refused, match="damaged"):
        checkpoint.load(data.parent / "parts")
    files.save({"format": "another"}, path)
    with pytest.raises(Refused, match="not written by this version"):
        checkpoint.load(data.parent / "parts")


def test_settings_survive_the_state(data: Path) -> None:
    stop_after(data, "parts", 500)
    state = checkpoint.load(data.parent / "parts")
    assert tasks.LearnSettings(**state["settings"]) == dataclasses.replace(settings())
