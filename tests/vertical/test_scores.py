"""Scores that parties compute together: the sum is right, a part shows nothing, and a mask is used once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from reticent.vertical import ScorePart, combined
from reticent.vertical.flare import commands
from reticent.vertical.flare.settings import KEY_FILE, Settings
from reticent.vertical.scores import model_digest

PARTIES = ("north", "south", "west")
KEY = bytes(range(32))


def parts_of(scores, key=KEY, name="march", parties=PARTIES, **changes):
    about = {
        "ids": range(len(scores[0])),
        "key": key,
        "name": name,
        "parties": parties,
        "model": "m",
    }
    return [
        ScorePart.of(own, party=party, **{**about, **changes})
        for party, own in zip(parties, scores, strict=True)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_sum_of_the_parts_is_the_score(count):
    rng = np.random.default_rng(count)
    parties = tuple(f"p{k}" for k in range(count))
    scores = rng.uniform(-1e3, 1e3, (count, 50)) * 10.0 ** rng.integers(-6, 3, (count, 50))
    parts = parts_of(scores, parties=parties)
    found = combined([parts[k] for k in rng.permutation(count)])
    assert np.abs(found - scores.sum(axis=0)).max() <= count * 2.0**-33 + 1e-9


def test_a_part_and_all_but_one_of_the_parts_are_uniform():
    """Each bit of 4,096 masked numbers is set half of the time within 6 standard deviations."""
    parts = parts_of(np.zeros((3, 4096)))
    for seen in (parts[0].masked, parts[1].masked, parts[0].masked + parts[1].masked):
        bits = np.unpackbits(seen.astype("<u8").view(np.uint8)).reshape(4096, 64)
        assert np.abs(bits.sum(axis=0, dtype=int) - 2048).max() < 6 * 32


def test_masks_differ_by_key_name_model_people_and_party():
    scores = np.zeros((3, 8))
    plain = parts_of(scores)
    others = [
        parts_of(scores, key=bytes(32)),
        parts_of(scores, name="april"),
        parts_of(scores, model="n"),
        parts_of(scores, ids=range(1, 9)),
        parts_of(scores, parties=("north", "south", "east")),
    ]
    seen = {part.masked.tobytes() for part in plain + [p for other in others for p in other]}
    assert len(seen) == 18
    # one word can never be taken for two: the length of each is hashed before it
    one = ScorePart.of(
        np.zeros(8), ids=range(8), key=KEY, name="a", party="b", parties=("b", "cd"), model="m"
    )
    two = ScorePart.of(
        np.zeros(8), ids=range(8), key=KEY, name="a", party="bc", parties=("bc", "d"), model="m"
    )
    assert not np.array_equal(one.masked, two.masked)


def test_parts_that_do_not_belong_together_are_refused():
    scores = np.ones((3, 5))
    good = parts_of(scores)
    for other, words in (
        (parts_of(scores, name="april"), "different batches"),
        (parts_of(scores, model="n"), "different models"),
        (parts_of(scores, ids=range(1, 6)), "different people"),
        (parts_of(scores, key=bytes(32)), "different keys"),
    ):
        with pytest.raises(ValueError, match=words):
            combined([*good[:2], other[2]])
    with pytest.raises(ValueError, match=r"each of .* once"):
        combined(good[:2])
    with pytest.raises(ValueError, match=r"each of .* once"):
        combined([*good[:2], good[1]])
    with pytest.raises(ValueError, match="got none"):
        combined([])


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**31 / 3, -1e300])
def test_scores_that_cannot_be_sent_are_refused(value):
    with pytest.raises(ValueError, match="scores must be"):
        parts_of([[value], [0.0], [0.0]])


def test_bytes_come_back_and_damage_is_refused(tmp_path):
    part = parts_of(np.ones((3, 5)))[1]
    again = ScorePart.from_bytes(part.to_bytes())
    assert again.digest() == part.digest()
    assert np.array_equal(again.masked, part.masked)
    data = part.to_bytes()
    for damaged in (b"", b"{}\n", data[:-1], data + b"0", data[1:], b"\xff" + data):
        with pytest.raises(ValueError, match="not a whole file of scores"):
            ScorePart.from_bytes(damaged)


# ---------------------------------------------------------------- kits


def write_csv(path, names, rows):
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(names)
        lines.writerows(rows)


@pytest.fixture
def consortium(tmp_path):
    """Kits as far as scoring needs them, tables of 40 new people in three orders, and a model."""
    rng = np.random.default_rng(0)
    blocks = {party: rng.uniform(-1.5, 1.5, (40, 3)) for party in PARTIES}
    for party, block in blocks.items():
        kit = tmp_path / party
        (kit / "startup").mkdir(parents=True)
        (kit / "local").mkdir()
        (kit / "startup" / "fed_client.json").write_text(json.dumps({"client": {"fqsn": party}}))
        (kit / "local" / KEY_FILE).write_bytes(KEY)
        names = ["id", *(f"{party}{j}" for j in range(3))]
        write_csv(tmp_path / f"{party}.csv", names, [["a", 0, 0, 0], ["b", 1, 1, 1]])
        rows = [[f"{i:03d}", *block[i]] for i in rng.permutation(40)]
        write_csv(tmp_path / f"{party}-new.csv", names, rows)
        Settings(
            data=str(tmp_path / f"{party}.csv"), id_column="id", epsilon=1.0, delta=1e-6
        ).write(kit / "local")
    weights = {"north": {"0": 0.5}, "south": {"1": -0.25, "2": 0.125}, "west": {}}
    model = {"weights": weights, "columns": dict.fromkeys(PARTIES, 3), "loss": "squared"}
    (tmp_path / "model.json").write_text(json.dumps(model))
    clipped = {party: np.clip(block, -1.0, 1.0) for party, block in blocks.items()}
    truth = (
        0.5 * clipped["north"][:, 0]
        - 0.25 * clipped["south"][:, 1]
        + 0.125 * clipped["south"][:, 2]
    )
    return tmp_path, truth


def scored(folder: Path, name="march", **changes):
    for party in PARTIES:
        commands.score(
            folder / party,
            folder / "model.json",
            data=folder / f"{party}-new.csv",
            name=name,
            out=folder / f"{party}.part",
            **changes,
        )
    return [folder / f"{party}.part" for party in PARTIES]


def test_predictions_are_those_of_the_whole_model(consortium):
    folder, truth = consortium
    found = commands.predict(folder / "model.json", scored(folder))
    assert np.abs(found - truth).max() < 1e-9
    model = json.loads((folder / "model.json").read_text()) | {"loss": "logistic"}
    (folder / "model.json").write_text(json.dumps(model))
    found = commands.predict(folder / "model.json", scored(folder))  # the same batch again
    assert np.abs(found - 1.0 / (1.0 + np.exp(-truth))).max() < 1e-9
    other = folder / "other.json"
    model["weights"] = {**model["weights"], "west": {"0": 1.0}}
    other.write_text(json.dumps(model))
    with pytest.raises(ValueError, match="another model"):
        commands.predict(other, [folder / f"{party}.part" for party in PARTIES])


def test_a_mask_is_never_used_for_two_vectors(consortium):
    folder, _ = consortium
    before = {path: path.read_bytes() for path in scored(folder)}
    assert {path: path.read_bytes() for path in scored(folder)} == before
    table = folder / "north-new.csv"
    table.write_text(table.read_text().replace("0.", "0.1"))
    with pytest.raises(ValueError, match="'march' was used for other scores"):
        scored(folder)
    assert (folder / "north.part").read_bytes() == before[folder / "north.part"]
    scored(folder, name="april")


def test_a_further_model_needs_consent(consortium):
    folder, _ = consortium
    scored(folder)
    model = json.loads((folder / "model.json").read_text())
    model["weights"]["north"] = {"1": 1.0}
    (folder / "model.json").write_text(json.dumps(model))
    with pytest.raises(ValueError, match="use --again"):
        scored(folder, name="april")
    scored(folder, name="april", again=True)


@pytest.mark.parametrize("fewer", [True, False])
def test_a_further_model_needs_consent_for_every_single_person(consortium, fewer):
    """A list with one person less, or with one more, is another list of the same people."""
    folder, _ = consortium
    whole = {party: (folder / f"{party}-new.csv").read_text() for party in PARTIES}
    less = {party: "".join(text.splitlines(keepends=True)[:-1]) for party, text in whole.items()}
    first, second = (whole, less) if fewer else (less, whole)
    for party, text in first.items():
        (folder / f"{party}-new.csv").write_text(text)
    scored(folder)
    model = json.loads((folder / "model.json").read_text())
    model["weights"]["north"] = {"1": 1.0}
    (folder / "model.json").write_text(json.dumps(model))
    for party, text in second.items():
        (folder / f"{party}-new.csv").write_text(text)
    with pytest.raises(ValueError, match="of these people were scored with another model"):
        scored(folder, name="april")


def test_what_does_not_fit_is_refused(consortium):
    folder, _ = consortium
    kit, model = folder / "north", folder / "model.json"
    out = folder / "x.part"
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        commands.score(kit, model, data=folder / "nowhere.csv", name="march", out=out)
    with pytest.raises(ValueError, match="lower-case"):
        commands.score(kit, model, data=folder / "north-new.csv", name="../March", out=out)
    with pytest.raises(ValueError, match="no column 'north0'"):
        commands.score(kit, model, data=folder / "south-new.csv", name="march", out=out)
    content = json.loads(model.read_text()) | {"columns": dict.fromkeys(PARTIES, 4)}
    model.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="4 columns for 'north'"):
        commands.score(kit, model, data=folder / "north-new.csv", name="march", out=out)
    assert not out.exists()
    assert not (kit / "private" / "scores.json").exists()


def test_the_command_writes_who_and_what(consortium, capsys):
    pytest.importorskip("typer")
    from reticent.cli import main

    folder, truth = consortium
    for party in PARTIES:
        with pytest.raises(SystemExit) as end:
            main(
                [
                    "vertical",
                    "score",
                    str(folder / party),
                    str(folder / "model.json"),
                    "--name",
                    "march",
                ]
                + [
                    "--data",
                    str(folder / f"{party}-new.csv"),
                    "--out",
                    str(folder / f"{party}.part"),
                ]
            )
        assert end.value.code == 0
    parts = [str(folder / f"{party}.part") for party in PARTIES]
    with pytest.raises(SystemExit) as end:
        main(
            [
                "vertical",
                "predict",
                str(folder / "model.json"),
                *parts,
                "--out",
                str(folder / "p.csv"),
            ]
            + ["--ids", str(folder / "west-new.csv"), "--id-column", "id"]
        )
    assert end.value.code == 0
    assert (folder / "p.csv").stat().st_mode & 0o777 == 0o600
    with (folder / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"{i:03d}" for i in range(40)]
    assert np.abs([float(row["prediction"]) for row in rows] - truth).max() < 1e-9
    with pytest.raises(SystemExit) as end:
        main(["vertical", "predict", str(folder / "model.json"), *parts[:2]])
    assert end.value.code == 2
    assert "once" in capsys.readouterr().err


def test_the_digest_of_a_model_is_of_its_weights():
    one = model_digest({"a": {"0": 0.5, "3": 1.0}, "b": {}})
    assert one == model_digest({"b": {}, "a": {"3": 1.0, "0": 0.5}})
    assert one != model_digest({"a": {"0": 0.5, "3": 1.0 + 2**-52}, "b": {}})
