"""The model file: written by an estimator or by the command, read by Python, and refused where it was changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reticent
from reticent.tables import Encoder, Model, Schema, TableError

COUNT = 800


@pytest.fixture(scope="module")
def records() -> dict[str, object]:
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 100, COUNT)
    return {
        "age": age,
        "job": rng.choice(["clerk", "cook", "other"], COUNT),
        "member": rng.random(COUNT) < 0.5,
        "spent": np.where(age > 50, "yes", "no"),
    }


def fitted(encoder: Encoder, records: dict[str, object], kind: str = "Private"):  # type: ignore[no-untyped-def]
    numbers = encoder.classes is None
    known = {"label_bounds": encoder.target.bounds} if numbers else {"classes": encoder.classes}
    if kind == "Online":
        known["horizon"] = COUNT
    make = getattr(reticent, f"{kind}{'Linear' if numbers else 'Logistic'}Regression")
    estimator = make(
        epsilon=8.0, delta=1e-6, feature_norm=encoder.largest_norm, random_state=0, **known
    )
    found = encoder.encode(records)
    return estimator.fit(found.X, found.y), found


@pytest.mark.parametrize("kind", ["Private", "Online"])
def test_python_reads_what_python_wrote(
    schema: Schema, records: dict[str, object], tmp_path: Path, kind: str
) -> None:
    encoder = Encoder(schema)
    estimator, found = fitted(encoder, records, kind)
    Model.from_estimator(estimator, encoder, records=COUNT).save(tmp_path / "model.json")
    model = Model.load(tmp_path / "model.json")
    assert model.predict(found.X).tolist() == estimator.predict(found.X).tolist()
    assert model.predict(records).tolist() == estimator.predict(found.X).tolist()
    assert model.probabilities(records) == pytest.approx(estimator.predict_proba(found.X))
    assert model.guarantee.epsilon(1e-6) == estimator.guarantee_.epsilon(1e-6)
    assert model.how["epsilon"] == 8.0
    assert model.how["online"] == (kind == "Online")
    assert model.records == COUNT
    # who knows the seed takes the noise off, and the file may leave
    assert "seed" not in json.loads((tmp_path / "model.json").read_text())["how"]


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize(
    "name", ["PrivateLinearRegression", "PrivateLasso", "PrivateLogisticRegression", "OnlineLinearRegression"]
)  # fmt: skip
def test_bounds_that_were_found(name: str, columns: bool, tmp_path: Path) -> None:
    """It predicts as the estimator does, for records far beyond the bounds too."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    if not columns:
        X = X[:500]
    X = X * [3e5, 2e-3] + [1e6, 0.0]
    logistic = name == "PrivateLogisticRegression"
    y = X @ [1e-4, 5e3] + (0.0 if logistic else 500.0)
    y = np.where(y > 100.0, "yes", "no") if logistic else y
    kinds = {"spent": {"type": "category", "values": ["no", "yes"]}} if logistic else {
        "spent": {"type": "number", "bounds": [0, 1000]}}  # fmt: skip
    kinds |= {
        "a": {"type": "number", "bounds": [-1, 1]},
        "b": {"type": "number", "bounds": [-1, 1]},
    }
    encoder = Encoder(Schema.from_dict({"target": "spent", "columns": kinds}))
    known = {"classes": ["no", "yes"]} if logistic else {"label_bounds": "private"}
    estimator = getattr(reticent, name)(
        8.0, 1e-6, feature_norm="private", random_state=0, **known
    ).fit(X, y)  # fmt: skip
    Model.from_estimator(estimator, encoder, records=len(X)).save(tmp_path / "model.json")
    model = Model.load(tmp_path / "model.json")
    for rows in (X[:50], 100.0 * X[:50], -7.0 * X[:50]):
        expected = estimator.predict(rows)
        if logistic:
            assert model.predict(rows).tolist() == expected.tolist()
        else:
            assert model.predict(rows) == pytest.approx(expected)


def test_a_model_of_numbers_stays_within_their_bounds(records: dict[str, object]) -> None:
    columns = {"age": {"type": "number", "bounds": [18, 100]}}
    columns["member"] = {"type": "boolean"}
    encoder = Encoder(Schema.from_dict({"target": "age", "columns": columns}))
    estimator, found = fitted(encoder, records)
    model = Model.from_estimator(estimator, encoder, records=COUNT)
    assert model.predict(records) == pytest.approx(estimator.predict(found.X))
    far = model.__class__(**vars(model) | {"intercepts": np.array([1e9])})
    assert far.predict(records).max() == 100.0
    with pytest.raises(TableError, match="predicts a number"):
        model.probabilities(records)


def test_what_the_command_wrote_python_reads_and_the_other_way_round(
    schema: Schema, records: dict[str, object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from reticent.cli import main

    encoder = Encoder(schema)
    estimator, _ = fitted(encoder, records, "Online")
    model = Model.from_estimator(estimator, encoder, records=COUNT)
    path, table = tmp_path / "model.json", tmp_path / "table.csv"
    model.save(path)
    names = ["age", "job", "member"]
    rows = [",".join(str(records[name][row]) for name in names) for row in range(50)]
    table.write_text("\n".join([",".join(names), *rows]) + "\n")
    with pytest.raises(SystemExit) as end:
        main(["predict", str(path), str(table)])
    assert end.value.code == 0
    assert capfd.readouterr().out.split()[2:] == model.predict(records).tolist()[:50]
    with pytest.raises(SystemExit) as end:
        main(["explain", str(path)])
    assert end.value.code == 0
    assert "OnlineLogisticRegression, 800 records" in capfd.readouterr().out


def test_a_changed_file_is_refused(
    schema: Schema, records: dict[str, object], tmp_path: Path
) -> None:
    encoder = Encoder(schema)
    model = Model.from_estimator(fitted(encoder, records)[0], encoder, records=COUNT)
    path = tmp_path / "model.json"
    model.save(path)
    assert Model.load(path).to_dict() == model.to_dict()
    text = path.read_text()
    for changed, sentence in [
        (text.replace('"epsilon": 8.0', '"epsilon": 0.1'), "checksum"),
        (text.replace('"version": 1', '"version": 9'), "version 9"),
        ("[]", "not a model"),
        ("{", "not JSON"),
    ]:
        path.write_text(changed)
        with pytest.raises(TableError, match=sentence):
            Model.load(path)
    with pytest.raises(TableError, match="cannot be read"):
        Model.load(tmp_path / "none.json")


def test_plain_data_that_is_no_model_is_refused(schema: Schema, records: dict[str, object]) -> None:
    encoder = Encoder(schema)
    estimator, _ = fitted(encoder, records)
    data = json.loads(json.dumps(Model.from_estimator(estimator, encoder, records=1).to_dict()))
    assert Model.from_dict(data).to_dict() == data
    for changes, sentence in [
        ({"coefficients": [[1.0]]}, "do not fit its features"),
        ({"features": list("abcde")}, "does not fit its own schema"),
        ({"target": "nobody"}, "no column 'nobody'"),
        ({"records": None}, "incomplete"),
    ]:
        with pytest.raises(TableError, match=sentence):
            Model.from_dict(data | changes)


def test_records_that_are_not_the_models_are_refused(
    schema: Schema, records: dict[str, object]
) -> None:
    encoder = Encoder(schema)
    estimator, _ = fitted(encoder, records)
    model = Model.from_estimator(estimator, encoder, records=COUNT)
    with pytest.raises(TableError, match=r"no column 'job'; they have age"):
        model.predict({"age": [50]})
    with pytest.raises(TableError, match=r"array of 5 encoded features.*shape \(2, 3\)"):
        model.predict(np.zeros((2, 3)))
    other = Encoder(Schema(schema.columns[1:], "spent"))
    with pytest.raises(TableError, match="fitted on 5 features, and the schema makes 4"):
        Model.from_estimator(estimator, other, records=COUNT)


def test_a_model_has_the_link_of_its_loss(schema: Schema) -> None:
    """A capped loss's predictors are not log-odds unless they were made so; the file must know."""
    encoder = Encoder(schema)
    X = np.random.default_rng(0).uniform(-1, 1, (COUNT, 5))
    for scaling, influence in (("none", 0.5), ("auto", 1.0)):
        estimator = reticent.PrivateLogisticRegression(
            epsilon=8.0, feature_norm=2.3, classes=["no", "yes"], random_state=0, scaling=scaling
        ).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
        model = Model.from_estimator(estimator, encoder, records=COUNT)
        assert model.how["influence"] == influence
        np.testing.assert_allclose(model.probabilities(X), estimator.predict_proba(X), atol=1e-12)


def test_predicting_imports_nothing_slow(
    schema: Schema, records: dict[str, object], tmp_path: Path
) -> None:
    """Neither SciPy nor scikit-learn nor Numba: a service that only predicts starts at once."""
    encoder = Encoder(schema)
    model = Model.from_estimator(fitted(encoder, records)[0], encoder, records=COUNT)
    model.save(tmp_path / "model.json")
    code = (
        "import sys; from reticent import tables; "
        f"model = tables.Model.load({str(tmp_path / 'model.json')!r}); "
        "model.predict({'age': [20], 'job': ['cook'], 'member': [True]}); "
        "sys.exit(', '.join({'scipy', 'sklearn', 'numba'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


CHANGED = {
    "epsilon": 0.01,
    "delta": 1e-9,
    "neighbours": "replace",
    "feature_norm": 0.125,
    "horizon": 7,
    "window": 3,
    "max_records": 9,
    "min_gap": 3,
    "random_state": 5,
    "fit_intercept": False,
}


@pytest.mark.parametrize("kind", ["Private", "Online"])
def test_a_model_states_its_fit_whatever_the_parameters_are_now(
    schema: Schema, records: dict[str, object], kind: str
) -> None:
    encoder = Encoder(schema)
    estimator, found = fitted(encoder, records, kind)
    before = Model.from_estimator(estimator, encoder, records=COUNT)
    assert before.how["epsilon"] == 8.0
    assert before.feature_norm == encoder.largest_norm
    known = estimator.get_params()
    estimator.set_params(**{name: new for name, new in CHANGED.items() if name in known})
    after = Model.from_estimator(estimator, encoder, records=COUNT)
    assert after.to_dict() == before.to_dict()
    assert after.predict(found.X).tolist() == before.predict(found.X).tolist()
    shared = Model.from_estimator(estimator.release(), encoder, records=COUNT)
    assert shared.to_dict() == before.to_dict()


def test_a_model_of_the_former_name_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"format": "tacit-model", "version": 1}))
    with pytest.raises(TableError, match=r"a model of Tacit, the former name.*or learn again"):
        Model.load(path)
