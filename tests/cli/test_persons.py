"""`reticent learn --person`: the same model as the estimator's, stopped and continued, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reticent import estimators
from reticent.cli import learn as command
from reticent.cli.errors import Refused
from reticent.cli.options import Bad, LearnOptions
from reticent.tables import Encoder, Model, Schema, TableError, read

SCHEMA = """target = "spent"

[columns.age]
type = "number"
bounds = [0, 100]

[columns.spent]
type = "boolean"
"""
COUNT = 600


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = ["who,age,spent"]
    for _ in range(COUNT):
        age = rng.integers(0, 101)
        rows.append(f"p{rng.integers(0, 100)},{age},{'yes' if rng.random() < age / 100 else 'no'}")
    (tmp_path / "visits.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return tmp_path


def options(home: Path, out: str = "run", **more: object) -> LearnOptions:
    known = {
        "data": str(home / "visits.csv"), "schema": home / "visits.toml", "epsilon": 4.0, "seed": 1,
        "out": home / out, "person": "who", "report": False, "quiet": True, "every": 100,
    }  # fmt: skip
    return LearnOptions(**known | more)  # type: ignore[arg-type]


def records(home: Path):  # type: ignore[no-untyped-def]
    encoder = Encoder(Schema.from_file(home / "visits.toml").with_person("who"))
    return encoder, read(home / "visits.csv", encoder)


def test_online_is_the_estimator(home: Path) -> None:
    assert command.learn(options(home, max_records=3, min_gap=50)) == 0
    model = Model.load(home / "run" / "model.json")
    encoder, found = records(home)
    face = estimators.OnlineLogisticRegression(
        epsilon=4.0, delta=1e-6, feature_norm=encoder.largest_norm, horizon=COUNT, random_state=1,
        classes=["false", "true"], max_records=3, min_gap=50,
    )  # fmt: skip
    face.partial_fit(found.X, found.y, person=found.persons)
    assert np.array_equal(model.coefficients, np.atleast_2d(face.coef_))
    assert model.guarantee.unit == "person"
    assert "who" not in model.to_dict()["features"]


def test_offline_is_the_estimator(home: Path) -> None:
    assert command.learn(options(home, online=False)) == 0
    model = Model.load(home / "run" / "model.json")
    encoder, found = records(home)
    face = estimators.PrivateLogisticRegression(
        epsilon=4.0, delta=1e-6, feature_norm=encoder.largest_norm, random_state=1,
        classes=["false", "true"],
    ).fit(found.X, found.y, groups=found.persons)  # fmt: skip
    assert np.array_equal(model.coefficients, np.atleast_2d(face.coef_))
    assert model.guarantee.unit == "person"
    assert "weight 1/m" in model.guarantee.explain()
    persons = len(set(found.persons or ()))
    assert model.records == persons < COUNT  # the number of records is not public
    assert model.learnt_from == f"{persons} persons"
    command.learn(options(home, "first", online=False, max_records=2))
    assert "first 2 records" in Model.load(home / "first" / "model.json").guarantee.explain()


def test_stopped_and_continued(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of persons is part of the state: the same decisions as without a stop."""
    command.learn(options(home, "whole", max_records=2))
    lines = (home / "visits.csv").read_text().splitlines()
    (home / "visits.csv").write_text("\n".join(lines[:251]) + "\n")
    command.learn(options(home, max_records=2, horizon=COUNT, keep_state=True))
    (home / "visits.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(Refused, match="--max-records 3 differs from 2, with which the run began"):
        command.learn(
            options(home, resume=True, max_records=3, schema=None, epsilon=None, seed=None)
        )
    again = LearnOptions(
        data=str(home / "visits.csv"), out=home / "run", resume=True, report=False, quiet=True
    )
    command.learn(again)
    whole, parts = (
        [json.loads(line) for line in (home / name / "decisions.jsonl").read_text().splitlines()]
        for name in ("whole", "run")
    )
    assert parts[-1] == whole[-1]
    assert [one for one in parts if one["records"] % 100 == 0] == whole


@pytest.mark.parametrize("more", [{"horizon": COUNT}, {"window": 64}, {"fade": "64:4,512:8"}])
def test_explain_tells_the_noise_of_persons(home: Path, capsys, more: dict[str, object]) -> None:
    """The noise and the promise are those of the stream that learnt, not of one that protects single records."""
    from reticent.cli.console import Console
    from reticent.cli.explain import explain_model

    command.learn(options(home, max_records=4, min_gap=16, **more))
    model = Model.load(home / "run" / "model.json")
    explain_model(home / "run" / "model.json", plot=None, console=Console(as_json=True))
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee_text"] == str(model.guarantee)
    assert said["published"] is None  # of papers that protect one record
    ages = [(64, 4.0), (512, 8.0)] if "fade" in more else None
    face = estimators.OnlineLogisticRegression(
        epsilon=4.0, feature_norm=model.feature_norm, horizon=more.get("horizon"), fade=ages,
        window=more.get("window"), max_records=4, min_gap=16, classes=["false", "true"], random_state=0,
    )  # fmt: skip
    total = face._plan_for(len(model.features)).learner().total
    steps = said["steps"]
    assert said["curves"]["reticent"] == pytest.approx([total.error(step) for step in steps])
    # a stream that protects records adds less
    alone = face.set_params(max_records=None, min_gap=None)._plan_for(len(model.features)).learner()
    assert said["curves"]["reticent"][-1] > 1.2 * alone.total.error(steps[-1])


def test_another_id_is_another_record(home: Path) -> None:
    """Whoever changes an id in what was learnt from is refused, as with any other cell."""
    text = (home / "visits.csv").read_text()
    command.learn(options(home, max_records=2, horizon=2 * COUNT, keep_state=True))
    lines = text.splitlines()
    lines[5] = "somebody," + lines[5].split(",", 1)[1]
    (home / "visits.csv").write_text("\n".join(lines) + "\n")
    again = LearnOptions(
        data=str(home / "visits.csv"), out=home / "run", resume=True, report=False, quiet=True
    )
    with pytest.raises(Refused, match="do not begin with the records"):
        command.learn(again)


def test_missing_ids(home: Path) -> None:
    lines = (home / "visits.csv").read_text().splitlines()
    lines[8] = "," + lines[8].split(",", 1)[1]
    (home / "visits.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(Refused, match="record 8: column 'who'"):
        command.learn(options(home, max_records=2))
    with pytest.raises(Refused, match="record 8: column 'who'"):
        command.learn(options(home, "offline", online=False))
    assert command.learn(options(home, "blank", max_records=2, bad_records=Bad.blank)) == 0


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({}, "--max-records"),
        ({"person": None, "max_records": 2}, "--max-records needs --person"),
        ({"person": None, "min_gap": 2}, "--min-gap needs --person"),
        ({"online": False, "min_gap": 3}, "--min-gap is for streams"),
        ({"person": "age", "max_records": 2}, "would be learnt from"),
        ({"person": "nobody", "max_records": 2}, "no column 'nobody'"),
        ({"min_gap": 1}, "bounds nothing"),
    ],
)
def test_refused(home: Path, more: dict[str, object], match: str) -> None:
    with pytest.raises((Refused, TableError, ValueError), match=match):
        command.learn(options(home, **more))
    assert not (home / "run" / "model.json").exists()
