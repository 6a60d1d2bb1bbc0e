"""`reticent compare`: a small table with known answers, everyone for real."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from reticent.cli.compare import compare
from reticent.cli.compare.command import contest, load
from reticent.cli.compare.entrants import entrants
from reticent.cli.errors import Refused
from reticent.tables import TableError

COLUMNS = """
[columns.age]
type = "number"
bounds = [0, 100]
[columns.job]
type = "category"
values = ["clerk", "cook", "other"]
"""
BOUGHT = '[columns.bought]\ntype = "category"\nvalues = ["no", "yes"]\n'
SPENT = '[columns.spent]\ntype = "number"\nbounds = [0, 100]\n'
COLOUR = '[columns.colour]\ntype = "category"\nvalues = ["blue", "green", "red"]\n'


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(0)
    age, job = rng.uniform(0, 100, 800), rng.choice(["clerk", "cook", "other"], 800)
    score = age / 50 - 1 + 0.5 * (job == "cook")
    bought = np.where(score + 0.1 * rng.standard_normal(800) > 0.3, "yes", "no")
    spent = np.clip(50 + 30 * score + rng.standard_normal(800), 0, 100)
    colour = np.array(["blue", "green", "red"])[np.digitize(score, [-0.3, 0.5])]
    with open(folder / "data.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "job", "bought", "spent", "colour"])
        writer.writerows(zip(age, job, bought, spent, colour, strict=True))
    for name, text in (("bought", BOUGHT), ("spent", SPENT), ("colour", COLOUR)):
        (folder / f"{name}.toml").write_text(COLUMNS + text)
    return folder


def run(table, target, out, capsys=None, **changes):
    asked = {
        "data": table / "data.csv", "target": target, "schema": table / f"{target}.toml",
        "epsilons": [1.0, 8.0], "delta": 1e-6, "repeats": 2, "jobs": 1, "on": None, "out": out, "quiet": False,
        "as_json": True,
    } | changes  # fmt: skip
    return compare(**asked)


@pytest.mark.parametrize(("target", "low"), [("bought", 0.0), ("spent", -np.inf)])
def test_everyone_takes_part_and_the_numbers_are_stored(table, target, low, tmp_path, capsys):
    assert run(table, target, tmp_path) == 0
    document = json.loads(capsys.readouterr().out)
    names = {one["variant"] for one in document["summary"]} - {"not private", "without learning"}
    classes = ("no", "yes") if target == "bought" else None
    assert names == set(entrants(classes))
    assert len(names) >= 7
    assert "no guarantee covers them" in document["notes"][0]
    with open(tmp_path / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(names) * 2 * 2 + 2 * 2
    for row in rows:
        if row["x"]:
            assert float(row["true_epsilon"]) <= float(row["x"]) * (1 + 1e-6)
            assert low <= float(row["value"]) <= 100.0
    assert (tmp_path / "compare.svg").read_bytes().startswith(b"<?xml")


def test_references_are_recomputed(table, tmp_path, capsys):
    whole, bad = load(str(table / "data.csv"), str(table / "spent.toml"), "spent")
    assert bad == 0
    rows = contest(
        str(table / "data.csv"), str(table / "spent.toml"), "spent", "not private", None, 1e-6, 3
    )
    order = np.random.default_rng(3).permutation(800)
    train, test = order[:600], order[600:]
    A = np.column_stack([whole.X, np.ones(800)])
    y = np.asarray(whole.y, float)
    w = np.linalg.lstsq(A[train], y[train])[0]
    rest, spread = np.sum((y[test] - A[test] @ w) ** 2), np.sum((y[test] - y[test].mean()) ** 2)
    assert rows[0].value == pytest.approx(1 - rest / spread, abs=1e-4)
    assert rows[1].value == 0.0
    where = (str(table / "data.csv"), str(table / "bought.toml"), "bought")
    idle = contest(*where, "not private", None, 1e-6, 3)[1]
    labels = np.asarray(load(*where)[0].y)
    most = "yes" if np.mean(labels[train] == "yes") > 0.5 else "no"
    assert idle.value == pytest.approx(100 * np.mean(labels[test] == most))


def test_more_privacy_is_less_accurate(table):
    # 20 splits, all of which must agree: 2^-20 by chance if epsilon made no difference
    where = (str(table / "data.csv"), str(table / "spent.toml"), "spent")
    for seed in range(20):
        score = {
            epsilon: contest(*where, "sufficient statistics", epsilon, 1e-6, seed)[0].value
            for epsilon in (0.05, 50.0)
        }
        assert score[50.0] > score[0.05]


def test_more_than_two_classes_are_left_to_the_estimators(table, tmp_path, capsys):
    assert run(table, "colour", tmp_path, epsilons=[8.0], repeats=1) == 0
    found = json.loads(capsys.readouterr().out)
    names = {one["variant"] for one in found["summary"]}
    assert "OnlineLogisticRegression" in names
    assert "objective perturbation" not in names


def test_who_cannot_take_part_says_why(table, tmp_path, capsys):
    assert run(table, "spent", tmp_path, delta=0.0, epsilons=[1.0], repeats=1, as_json=False) == 0
    text = capsys.readouterr().out
    assert "did not take part: AdaSSP" in text
    assert "sufficient statistics" in text


def test_quiet_says_nothing(table, tmp_path, capsys):
    assert run(table, "bought", tmp_path, quiet=True, as_json=False, repeats=1, epsilons=[1.0]) == 0
    said = capsys.readouterr()
    assert said.out == said.err == ""
    assert (tmp_path / "compare.json").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schema": None}, "--schema is missing"),
        ({"epsilons": []}, "--epsilon is missing"),
        ({"epsilons": [-1.0]}, "epsilon must be"),
        ({"delta": 2.0}, "delta must be"),
        ({"repeats": 0}, "--repeats must be at least 1"),
        ({"jobs": 0}, "--jobs must be at least 1"),
        ({"target": "height"}, "no column 'height'"),
        ({"target": None}, 'target = "NAME" on the first line'),
        ({"data": "-"}, "file or a folder"),
        ({"data": "nowhere.csv"}, "nowhere.csv cannot be read"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(table, tmp_path, changes, sentence):
    asked = dict(changes)
    target = asked.pop("target", "bought")
    if target != "bought":
        asked["schema"] = table / "bought.toml"
    with pytest.raises((Refused, TableError), match=sentence):
        run(table, target, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_the_target_is_the_schemas(table, tmp_path, capsys):
    own = tmp_path / "own.toml"
    own.write_text('target = "bought"\n' + (table / "bought.toml").read_text())
    assert run(table, None, tmp_path / "out", schema=own, epsilons=[8.0], repeats=1) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["target"] == "bought"


def test_too_few_records_are_refused(table, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("\n".join((table / "data.csv").read_text().splitlines()[:6]) + "\n")
    with pytest.raises(Refused, match="5 usable records"):
        run(table, "bought", tmp_path / "out", data=few)
