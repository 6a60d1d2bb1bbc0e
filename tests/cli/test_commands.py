"""Every command as a process: help, exit status, JSON, quiet, pipes, and bad input in one sentence."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent import Budget, Guarantee, Ledger, PrivateLogisticRegression
from reticent.privacy import Gaussian, Release
from reticent.tables import Encoder, Model, Schema, open_encoded, read
from reticent.vertical import flare

from .processes import Reticent, visits, wait_until, write_csv

COMMANDS = [
    ["learn"], ["predict"], ["explain"], ["schema"], ["audit"], ["doctor"], ["compare"],
    ["reproduce"], ["vertical", "provision"], ["vertical", "party"], ["vertical", "run"],
    ["vertical", "ledger"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_the_common_options(reticent: Reticent, words: list[str]) -> None:
    done = reticent(*words, "--help")
    assert done.status == 0
    assert f"reticent {' '.join(words)}" in done.out.split("Example", 1)[1]
    assert "--json" in done.out
    assert "--quiet" in done.out


def parts_of(command: object, words: str = "reticent") -> Iterator[tuple[str, str]]:
    """All texts of the help, of all commands."""
    yield words, command.help  # type: ignore[attr-defined]
    for parameter in command.params:  # type: ignore[attr-defined]
        yield f"{words} {parameter.name}", parameter.help
    for name, below in getattr(command, "commands", {}).items():
        yield from parts_of(below, f"{words} {name}")


def test_help_texts_are_sentences() -> None:
    from typer.main import get_command

    from reticent.cli.app import app

    for where, text in parts_of(get_command(app)):
        first = text.split("\n")[0].split("  [default")[0]
        assert first.endswith("."), (where, text)
        assert first[0].isupper(), (where, text)
        # a text that only makes sense behind the name of its option
        assert first.split()[0] not in ("Of", "By", "For", "Those", "With"), (where, text)
        assert len(first.split()) >= 2, (where, text)


@pytest.mark.parametrize("words", [[], ["serve"], ["vertical"]])
def test_lists_of_commands_are_not_cut_off(words: list[str]) -> None:
    """A list shows the first sentence of a command's help, up to the width of a terminal of 80 columns."""
    from click.testing import CliRunner
    from typer.main import get_command

    from reticent.cli.app import app

    shown = CliRunner().invoke(get_command(app), [*words, "--help"], terminal_width=80).output
    commands = shown.split("\nCommands:\n")[1].split("\n\n")[0].splitlines()
    assert len(commands) >= 8
    assert [line for line in commands if line.endswith("...") or not line.endswith(".")] == []


def test_without_a_command_the_help_is_shown(reticent: Reticent) -> None:
    done = reticent()
    assert done.status == 2
    assert "learn" in done.err


def test_a_fresh_process_and_its_exit_status(reticent: Reticent) -> None:
    done = reticent.fresh("--version")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("reticent ")
    assert reticent.fresh("lern").status == 2


def test_the_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from reticent.cli.app import app; "
        "heavy = {'numpy', 'scipy', 'numba', 'sklearn', 'matplotlib', 'pandas', 'pyarrow'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_tab_completion(reticent: Reticent) -> None:
    env = {"_RETICENT_COMPLETE": "complete_bash", "COMP_WORDS": "reticent le", "COMP_CWORD": "1"}
    assert "learn" in reticent.fresh(env=env).out
    env |= {"COMP_WORDS": "reticent explain --algorithm ft", "COMP_CWORD": "3"}
    assert reticent.fresh(env=env).out.split() == ["ftrl"]
    env |= {"COMP_WORDS": "reticent reproduce online-2", "COMP_CWORD": "2"}
    assert reticent.fresh(env=env).out.split() == ["online-2a", "online-2b", "online-2c"]


# What learn leaves ---------------------------------------------------------------------------------


def test_learn_leaves_model_decisions_and_report(folder: Path) -> None:
    run = folder / "run"
    assert sorted(p.name for p in run.iterdir()) == ["decisions.jsonl", "model.json", "report.html"]
    lines = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    assert [line["records"] for line in lines] == list(range(500, 4001, 500))
    model = Model.load(run / "model.json")
    assert lines[-1]["coefficients"] == model.coefficients.tolist()
    guarantee = model.guarantee
    assert guarantee.seeded
    assert guarantee.epsilon(1e-6) == pytest.approx(2.0, rel=1e-6)
    assert (run / "report.html").stat().st_mode & 0o077 == 0
    assert "--seed 5" in (run / "report.html").read_text()


def test_a_report_without_diagnostics_may_be_read_by_all(reticent: Reticent, folder: Path) -> None:
    done = reticent(
        "learn", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", "plain", "--no-diagnostics", "-q"
    )
    assert (done.status, done.out, done.err) == (0, "", "")
    page = folder / "plain" / "report.html"
    assert page.stat().st_mode & 0o044
    assert "accuracy" not in page.read_text()
    assert "records per second" not in page.read_text()  # how long it took depends on the records


def test_a_report_that_may_be_read_by_all_tells_no_seed(reticent: Reticent, folder: Path) -> None:
    words = ["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--no-diagnostics", "-q"]
    for name, seed in (("told", ["--seed", 976431]), ("joined", ["--seed=976431"])):
        assert reticent(*words, *seed, "-o", name).status == 0
        page = (folder / name / "report.html").read_text()
        assert "976431" not in page
        assert "--seed" in page
        assert "976431" not in (folder / name / "model.json").read_text()


def test_a_short_run_counts_odd_cells_for_its_owner_only(reticent: Reticent, folder: Path) -> None:
    """Without a curve to show, the counts of odd cells and gaps are still read off the records."""
    rows = visits(300)
    rows[7][0], rows[9][3] = "", "perhaps"
    write_csv(folder / "short.csv", rows)
    done = reticent(
        "learn", "short.csv", "-s", "visits.toml", "-e", 1, "-o", "short", "-q",
        "--bad-records", "blank",
    )  # fmt: skip
    assert done.status == 0
    page = folder / "short" / "report.html"
    assert "1 records counted as gaps" in page.read_text()
    assert "Do not publish it" in page.read_text()
    assert page.stat().st_mode & 0o077 == 0


def test_learn_says_what_it_did_as_json(reticent: Reticent, folder: Path) -> None:
    rows = visits(300)
    text = "\n".join(
        json.dumps({"age": int(age), "job": job, "member": member == "true", "amount": float(v)})
        for age, job, member, _, v in rows
    )
    (folder / "amount.json").write_text(
        json.dumps(
            {
                "target": "amount",
                "columns": {
                    "age": {"type": "number", "bounds": [18, 100]},
                    "job": {"type": "category", "values": ["clerk", "cook", "other"]},
                    "member": {"type": "boolean"},
                    "amount": {"type": "number", "bounds": [-10, 10]},
                },
            }
        )
    )
    done = reticent(
        "learn", "-", "-s", "amount.json", "-e", 1, "--window", 64, "-o", "amount", "--json",
        "--no-report", stdin=text,
    )  # fmt: skip
    assert done.status == 0, done.err
    data = json.loads(done.out)
    assert (data["records"], data["seeded"]) == (300, False)
    assert "protected for 64 outputs" in data["guarantee"]
    model = Model.load(folder / data["model"])
    assert model.label_bounds == (-10.0, 10.0)
    assert model.features == ("age", "job=clerk", "job=cook", "job=other", "member")


def test_decisions_on_standard_output(reticent: Reticent) -> None:
    rows = visits(60)
    text = "age,job,member,spent\n" + "\n".join(",".join(r[:4]) for r in rows) + "\n"
    done = reticent(
        "learn", "-", "-s", "visits.toml", "-e", 1, "--every", 20, "--decisions", "-", "-o", "live",
        "--no-report", stdin=text,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert [json.loads(line)["records"] for line in done.out.splitlines()] == [20, 40, 60]


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
def test_csv_json_lines_parquet_and_folders_are_the_same_data(
    reticent: Reticent, folder: Path
) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = visits(200, seed=3)
    typed = [{"age": int(r[0]), "job": r[1], "member": r[2] == "true", "spent": r[3]} for r in rows]
    write_csv(folder / "same.csv", rows)
    (folder / "same.jsonl").write_text("\n".join(map(json.dumps, typed)))
    parquet.write_table(pyarrow.Table.from_pylist(typed), folder / "same.parquet")
    (folder / "same").mkdir()
    write_csv(folder / "same" / "a.csv", rows[:80])
    write_csv(folder / "same" / "b.csv", rows[80:])
    found = []
    for data in ("same.csv", "same.jsonl", "same.parquet", "same"):
        out = f"from-{data}"
        words = ["-s", "visits.toml", "-e", 1, "--seed", 1, "-o", out, "-q", "--no-report"]
        done = reticent("learn", data, *words)
        assert done.status == 0, done.err
        found.append((folder / out / "decisions.jsonl").read_text())
    assert found[0]
    assert found.count(found[0]) == 4


@pytest.mark.parametrize(
    ("task", "target"),
    [("classification", "spent"), ("regression", "amount"), ("lasso", "amount")],
)
def test_learning_from_a_whole_table(
    reticent: Reticent, folder: Path, task: str, target: str
) -> None:
    text = (
        (folder / "visits.toml")
        .read_text()
        .replace(
            '[columns.amount]\ntype = "ignore"',
            '[columns.amount]\ntype = "number"\nbounds = [-10, 10]',
        )
    )
    if target == "amount":
        text = text.replace('type = "category"\nvalues = ["no", "yes"]', 'type = "ignore"')
    else:
        text = text.replace('type = "number"\nbounds = [-10, 10]', 'type = "ignore"')
    (folder / f"{task}.toml").write_text(text)
    out = f"offline-{task}"
    words = ["-s", f"{task}.toml", "-t", target, "--task", task, "-e", 4, "--offline", "-o", out]
    done = reticent("learn", "visits.csv", *words, "--no-diagnostics")
    assert done.status == 0, done.err
    assert "--offline" in (folder / out / "report.html").read_text()
    model = Model.load(folder / out / "model.json")
    assert model.guarantee.epsilon(1e-6) <= 4.0 + 1e-6
    assert model.how["solver"]
    done = reticent("predict", f"{out}/model.json", "visits.csv", "--score")
    score = float(
        done.err.split("accuracy " if task == "classification" else "error ")[1].split()[0]
    )
    assert score > 0.85 if task == "classification" else score < 3.0
    assert "solver" in reticent("explain", f"{out}/model.json").out


def test_intervals(reticent: Reticent, folder: Path) -> None:
    words = ["-s", "plain.toml", "-e", 8, "--seed", 0, "--intervals", "-o", "with-intervals"]
    text = (folder / "visits.toml").read_text()
    kind = 'type = "category"\nvalues = ["clerk", "cook", "other"]'
    (folder / "plain.toml").write_text(text.replace(kind, 'type = "ignore"'))
    done = reticent("learn", "visits.csv", *words, "--offline")
    assert done.status == 0, done.err
    assert "95% interval" in done.out
    found = json.loads((folder / "with-intervals" / "summary.json").read_text())
    assert found["names"] == ["age", "member=true", "intercept"]
    assert "log-odds" in found["about"]
    assert (
        found["guarantee"]
        == json.loads((folder / "with-intervals" / "model.json").read_text())["guarantee"]
    )
    assert "95% intervals" in (folder / "with-intervals" / "report.html").read_text()
    # too little for intervals: the model stands, and the reason is said
    few = [word if word != 8 else 0.01 for word in words]
    done = reticent("learn", "visits.csv", *few, "--offline", "--overwrite")
    assert done.status == 0, done.err
    assert "no summary" in done.err
    assert not (folder / "with-intervals" / "summary.json").exists()
    refused = reticent("learn", "visits.csv", *words[:-1], "streamed")
    assert refused.status != 0
    assert "--offline" in refused.err


def test_intervals_of_a_table_with_categories(reticent: Reticent, folder: Path) -> None:
    """In the columns' own units, and against the first value of the schema: what made the records is covered."""
    text = (folder / "visits.toml").read_text()
    text = text.replace('target = "spent"', 'target = "amount"')
    text = text.replace('type = "ignore"', 'type = "number"\nbounds = [-10, 10]')
    text = text.replace('type = "category"\nvalues = ["no", "yes"]', 'type = "ignore"')
    (folder / "amount.toml").write_text(text)
    words = ["-s", "amount.toml", "-e", 8, "--seed", 0, "--intervals", "-o", "amounts"]
    done = reticent("learn", "visits.csv", *words, "--offline")
    assert done.status == 0, done.err
    found = json.loads((folder / "amounts" / "summary.json").read_text())
    assert found["names"] == ["age", "job=cook", "job=other", "member=true", "intercept"]
    assert found["about"].endswith("categories compared with job=clerk, member=false")
    # amounts are (age - 50) / 10 + 3 for cooks - 2 for members; errors are those of noise alone
    for (low, high), truth in zip(found["interval"], [0.1, 3.0, 0.0, -2.0, -5.0], strict=True):
        assert abs(0.5 * (low + high) - truth) < 2.5 * (high - low)
        assert high - low < 1.0 + abs(truth)
    assert "job=cook" in done.out


# Predict, explain, schema, doctor, audit ------------------------------------------------------------


def test_predict_as_csv_and_as_json(reticent: Reticent, folder: Path) -> None:
    done = reticent("predict", "run/model.json", "visits.csv", "--score")
    lines = done.out.splitlines()
    assert lines[0] == "predicted spent"
    assert len(lines) == 4001
    assert "diagnostic: reads private data" in done.err
    truth = [row[3] for row in visits(4000)]
    share = sum(a == b for a, b in zip(lines[1:], truth, strict=True)) / 4000
    assert f"accuracy {share:.4f}" in done.err
    assert share > 0.85
    done = reticent(
        "predict", "run/model.json", "visits.csv", "--json", "--probabilities", "-o", "p.jsonl"
    )
    assert done.out == ""
    first = json.loads((folder / "p.jsonl").read_text().splitlines()[0])
    assert first["prediction"] == lines[1]
    assert sum(first["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)


def test_predict_answers_a_live_stream_line_by_line(folder: Path) -> None:
    there, ours = os.pipe()
    started = Reticent(folder).start("predict", "run/model.json", "-", "--json", stdin=there)
    os.close(there)
    with open(ours, "w") as stream:
        stream.write('{"age": 90, "job": "cook", "member": false}\n')
        stream.flush()
        wait_until(lambda: '"yes"' in started._out.read_text())
        stream.write('{"age": 18, "job": "clerk", "member": true}\n')
    done = started.wait()
    assert done.status == 0
    assert done.out.splitlines() == ['{"prediction": "yes"}', '{"prediction": "no"}']


def test_predict_in_a_pipe_that_closes(folder: Path) -> None:
    header, *rows = (folder / "visits.csv").read_text().splitlines()
    # more than a pipe holds, so that the writer is still there when the reader has gone
    many = [header, *(rows * (60_000 // len(rows) + 1))]
    (folder / "many.csv").write_text("\n".join(many) + "\n")
    line = f"{sys.executable} -m reticent predict run/model.json many.csv | head -n 2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.splitlines()[0] == "predicted spent"
    assert done.stderr == ""
    assert done.returncode == 141


def test_schema_from_a_public_sample(reticent: Reticent, folder: Path) -> None:
    done = reticent("schema", "visits.csv")
    assert done.status == 2
    assert "reveals" in done.err
    done = reticent(
        "schema", "visits.csv", "--public-sample", "--target", "spent", "-o", "draft.toml"
    )
    assert done.status == 0
    assert "reveals" in done.err
    done = reticent(
        "learn", "visits.csv", "-s", "draft.toml", "-e", 1, "-o", "drafted", "--no-report"
    )
    assert done.status == 0, done.err
    again = reticent("schema", "visits.csv", "--public-sample", "-o", "draft.toml")
    assert again.status == 2
    unnamed = reticent("schema", "visits.csv", "--names-only")
    assert '\n# target = "NAME"  # which column' in unnamed.out
    named = reticent("schema", "visits.csv", "--names-only", "--target", "spent")
    assert '\ntarget = "spent"\n' in named.out
    names = reticent("schema", "visits.csv", "--names-only", "--json")
    data = json.loads(names.out)
    assert list(data["columns"]) == ["age", "job", "member", "spent", "amount"]
    assert {c["type"] for c in data["columns"].values()} == {"ignore"}
    assert names.err == ""


def test_doctor(reticent: Reticent) -> None:
    done = reticent("doctor", "--json")
    facts = json.loads(done.out)
    assert facts["healthy"], facts["troubles"]
    assert done.status == 0
    assert facts["disk"]["state_mode"] == "600"
    assert facts["speed"]["records_per_second"] > 0


def test_audit(reticent: Reticent, folder: Path) -> None:
    done = reticent(
        "audit", "tree-laplace-plain", "--runs", 1000, "--json", "-q", "-o", "audit.html"
    )
    assert done.status == 0, done.err
    assert json.loads(done.out)["holds"] is True
    page = (folder / "audit.html").read_text()
    assert "tree-laplace-plain" in page
    assert page.count("<svg ") == 1  # one drawing an algorithm, a panel a setting
    assert page.count(">claimed<") >= 2


MINE = """
import numpy as np
from reticent.noise.release import noisy

def total(rows, source):
    return noisy(rows.sum(axis=0), 2.0, source, noise="laplace")

def cases():
    short, long, blank = (np.array([[0.5], [x]]) for x in (1.0, 3.0, 0.0))
    yield total, short, blank, 0.5

def forgotten():
    yield from cases()
    yield total, 3.0 * np.ones((2, 1)), np.array([[3.0], [0.0]]), 0.5
"""


def test_audit_of_a_mechanism_of_ones_own(reticent: Reticent, folder: Path) -> None:
    (folder / "mine.py").write_text(MINE)
    done = reticent("audit", "--mine", "mine.py:cases", "--json", "-q")
    assert done.status == 0, done.err
    (line,) = json.loads(done.out)["lines"]
    assert line["verdict"] == "holds"
    assert line["finding"]["tightness"] > 0.999
    done = reticent("audit", "--mine", "mine.py:forgotten")
    assert done.status == 1
    assert "REFUTED" in done.out
    for bad, words in (
        ("mine.py", "FILE.py:FUNCTION"),
        ("mine.py:nothing", "no function"),
        ("none.py:cases", "cannot be read"),
    ):
        done = reticent("audit", "--mine", bad)
        assert done.status not in (0, 1)
        assert words in done.err


def test_the_ledger_of_a_party(reticent: Reticent, folder: Path) -> None:
    kit = folder / "clinic"
    (kit / "local").mkdir(parents=True)
    (kit / "private").mkdir()
    terms = {"data": str(folder / "visits.csv"), "id_column": "who", "epsilon": 1.0, "delta": 1e-6}
    flare.Settings.of(terms).write(kit / "local")
    assert "left: room" in reticent("vertical", "ledger", kit).out
    cost = Guarantee([Release("choice of a column", Gaussian(0.1), 1.0, "gaussian")])
    Ledger(Budget(1.0, 1e-6), kit / "private" / "ledger", adaptive=True).spend(cost, "a run")
    assert "1  a run" in reticent("vertical", "ledger", kit).out
    found = json.loads(reticent("vertical", "ledger", kit, "--json").out)
    assert [entry["what"] for entry in found["entries"]] == ["a run"]
    assert found["spent"] == cost.to_dict() | {"asked": 1e-6}  # printed at the ledger's delta
    assert found["left"].startswith("room for Gaussian")
    assert reticent("vertical", "ledger", folder / "nowhere").status == 2


# Bad input ------------------------------------------------------------------------------------------

BAD = {
    "no data": (["learn", "-s", "visits.toml", "-e", 1], "DATA is missing"),
    "no file": (["learn", "none.csv", "-s", "visits.toml", "-e", 1, "-o", "x"], "none.csv"),
    "no schema": (["learn", "visits.csv", "-e", 1, "-o", "x"], "--schema is missing"),
    "no epsilon": (["learn", "visits.csv", "-s", "visits.toml", "-o", "x"], "--epsilon is missing"),
    "bad epsilon": (["learn", "visits.csv", "-s", "visits.toml", "-e", 0, "-o", "x"], "epsilon"),
    "bad word": (["learn", "visits.csv", "--task", "dream"], "task"),
    "bad delta": (["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--delta", 2, "-o", "x"], "delta"),
    "bad target": (["learn", "visits.csv", "-s", "visits.toml", "-t", "shoe", "-e", 1, "-o", "x"], "shoe"),
    "bad task": (["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--task", "regression", "-o", "x"], "category"),
    "taken": (["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", "run"], "already holds a run"),
    "nothing to resume": (["learn", "--resume", "-o", "nowhere"], "nothing to resume"),
    "too long": (["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--horizon", 5, "-o", "x"], "4000 records"),
    "two outputs": (["learn", "-", "--json", "--decisions", "-"], "standard output"),
    "no model": (["predict", "visits.csv", "visits.csv"], "not a model"),
    "no column": (["predict", "run/model.json", "other.csv"], "no column 'age'"),
    "explain what": (["explain"], "either a MODEL, or --algorithm"),
    "explain whom": (["explain", "-a", "magic", "-e", 1], "magic"),
    "no window": (["explain", "-a", "window-tree", "-e", 1], "--window"),
    "audit whom": (["audit", "magic"], "magic"),
}  # fmt: skip


@pytest.mark.parametrize("more", [["--resume"], ["--overwrite"], []])
def test_a_run_of_the_former_name_is_neither_resumed_nor_overlooked(
    reticent: Reticent, folder: Path, more: list[str]
) -> None:
    (folder / "former").mkdir(exist_ok=True)
    (folder / "former" / "state.tacit").write_bytes(b"tacit-state\n")
    words = ["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", "former"]
    done = reticent(*words, *more)
    assert done.status == 2
    assert "former name of this project" in done.err
    assert [path.name for path in (folder / "former").iterdir()] == ["state.tacit"]


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_no_traceback(
    reticent: Reticent, folder: Path, name: str
) -> None:
    (folder / "other.csv").write_text("height,weight\n1,2\n")
    words, part = BAD[name]
    done = reticent(*words)
    assert done.status == 2, done.err
    assert done.out == ""
    assert part in done.err
    assert done.err.count("\n") == 1
    assert done.err.startswith("reticent: ")
    assert "Traceback" not in done.err
    assert not (folder / "x").exists()


def test_a_window_is_counted_in_records_not_in_decisions(reticent: Reticent, folder: Path) -> None:
    """Decisions that leave each 20 records see a record three times within a window of 64."""
    text = "age,job,member,spent\n" + "\n".join(",".join(r[:4]) for r in visits(60)) + "\n"
    done = reticent(
        "learn", "-", "-s", "visits.toml", "-e", 1, "--window", 64, "--every", 20, "-o", "windowed",
        stdin=text,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert "for 3 whole decisions at --every 20" in done.err
    assert "the next 64 records" in (folder / "windowed" / "report.html").read_text()


def test_a_model_file_holds_no_diagnostic_and_no_seed(folder: Path) -> None:
    """Who knows the seed takes the noise off, and the file may leave."""
    text = (folder / "run" / "model.json").read_text()
    for word in ("accuracy", "clipped_", "outside", "records were"):
        assert word not in text
    found = json.loads(text)
    assert found["guarantee"]["seeded"]
    assert "seed" not in found["how"]


def test_every_option_of_learn_is_a_field_of_what_it_is_told() -> None:
    """The help, the parser and the body know the options from one list."""
    import dataclasses
    import inspect

    from reticent.cli.options import LearnOptions
    from reticent.cli.table_commands import learn

    told = [field.name for field in dataclasses.fields(LearnOptions)]
    assert list(inspect.signature(learn).parameters) == told


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
def test_a_large_table_stays_in_its_files(
    reticent: Reticent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    from pyarrow import parquet

    from reticent.cli import learn

    rows = visits(300, seed=3)
    typed = [{"age": int(r[0]), "job": r[1], "member": r[2] == "true", "spent": r[3]} for r in rows]
    parquet.write_table(
        pyarrow.Table.from_pylist(typed), folder / "large.parquet", row_group_size=70
    )
    found = []
    for limit in (2**29, 0):
        monkeypatch.setattr(learn, "_LARGE", limit)
        out = f"large-{limit}"
        words = ["-s", "visits.toml", "-e", 1, "--seed", 1, "-o", out, "--no-report"]
        done = reticent("learn", "large.parquet", *words, "--offline")
        assert done.status == 0, done.err
        assert ("from files in every pass" in done.err) == (limit == 0)
        assert "/s)" in done.out
        found.append(json.loads((folder / out / "model.json").read_text()))
    assert found[0]["records"] == found[1]["records"] == 300
    # a table in files is not scaled; a fit in memory is the same where neither that nor the ridge is left to it
    encoder = Encoder(Schema.from_file(folder / "visits.toml"))
    given: dict[str, Any] = {
        "classes": list(encoder.classes or ()),
        "feature_norm": encoder.largest_norm,
    }
    given |= {"epsilon": 1.0, "random_state": 1}
    files = open_encoded(folder / "large.parquet", encoder, None)
    model = PrivateLogisticRegression(**given).fit(*files)
    weights = np.ravel(found[1]["coefficients"])
    np.testing.assert_allclose(weights, np.ravel(model.coef_), rtol=1e-5)
    whole, ridge = read(folder / "large.parquet", encoder), {"regularizer": 30.0, "scaling": "none"}
    here = PrivateLogisticRegression(**given, **ridge).fit(whole.X, whole.y)
    there = PrivateLogisticRegression(**given, **ridge).fit(*files)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5)


def test_a_large_text_stays_in_its_file(
    reticent: Reticent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reticent.cli import learn

    found = []
    for limit in (2**29, 0):
        monkeypatch.setattr(learn, "_LARGE", limit)
        words = ["-s", "visits.toml", "-e", 1, "--seed", 1, "-o", f"text-{limit}", "--no-report"]
        done = reticent("learn", "visits.csv", *words, "--offline")
        assert done.status == 0, done.err
        assert ("from files in every pass" in done.err) == (limit == 0)
        found.append(json.loads((folder / f"text-{limit}" / "model.json").read_text()))
    assert found[0]["records"] == found[1]["records"]


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_compressed_text_is_unpacked_as_it_is_read(
    reticent: Reticent, folder: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    from reticent.cli import learn
    from reticent.tables import formats

    monkeypatch.setattr(formats, "_RECORDS", 50)
    monkeypatch.setattr(learn, "_LARGE", 0)
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending]
    (folder / f"visits.csv{ending}").write_bytes(pack((folder / "visits.csv").read_bytes()))
    found = []
    for name in ("visits.csv", f"visits.csv{ending}"):
        words = ["-s", "visits.toml", "-e", 1, "--seed", 1, "-o", f"{ending}-{name}", "--no-report"]
        done = reticent("learn", name, *words, "--offline")
        assert done.status == 0, done.err
        assert "from files in every pass" in done.err
        found.append(json.loads((folder / f"{ending}-{name}" / "model.json").read_text()))
    np.testing.assert_allclose(
        np.ravel(found[0]["coefficients"]), np.ravel(found[1]["coefficients"]), rtol=1e-5
    )
    (folder / f"visits.csv{ending}").write_bytes(pack((folder / "visits.csv").read_bytes())[:-20])
    done = reticent("learn", f"visits.csv{ending}", *words[:-3], "-o", f"cut{ending}", "--offline")
    assert done.status != 0
    assert "cannot be read" in done.err


def test_a_killed_run_from_files_goes_on(
    reticent: Reticent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here by an interrupt; tests/state/test_runs.py kills the process."""
    from reticent.cli import learn
    from reticent.tables import stored

    monkeypatch.setattr(learn, "_LARGE", 0)
    words = ["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", "out", "--offline"]
    each, passes = stored.Stored.each, 0

    def broken(self, work, watch=None):
        nonlocal passes
        passes += 1
        if passes == 3:
            raise KeyboardInterrupt
        return each(self, work, watch)

    with monkeypatch.context() as patch:
        patch.setattr(stored.Stored, "each", broken)
        assert reticent(*words).status != 0
    assert (folder / "out" / "fit.reticent").exists()
    assert "without --resume" in reticent("learn", "--resume", "-o", "out").err
    done = reticent(*words)
    assert done.status == 0, done.err
    assert "continuing the run" in done.err
    assert "/s)" not in done.out  # how long the first attempt took is not known
    left = {path.name for path in (folder / "out").iterdir()}
    assert "model.json" in left
    assert not any("fit.reticent" in name for name in left)


def test_a_promise_that_fades(reticent: Reticent, folder: Path) -> None:
    words = ["learn", "visits.csv", "-s", "visits.toml", "-e", 1, "--no-diagnostics", "-q"]
    done = reticent(*words, "-o", "fading", "--fade", "100:1,10000:2")
    assert done.status == 0, done.err
    page = (folder / "fading" / "report.html").read_text()
    assert "ever, weakening with age" in page
    assert ">1 to 2<" in page  # not the first epsilon alone
    assert "for 10,000" in page
    assert "first 10,000 outputs, counted from the record" in page
    done = reticent("explain", "fading/model.json")
    assert done.status == 0, done.err
    assert "sees 10,000 outputs from the record's own" in done.out
    assert "for ever" not in done.out
    for fade, what in (
        ("100", "AGE:EPSILON"),
        ("100:2", "first pair"),
        ("9:1,5:2", "must increase"),
    ):
        done = reticent(*words, "-o", "refused", "--fade", fade)
        assert done.status != 0
        assert what in done.err
        assert not (folder / "refused").exists()
