"""`reticent learn --to URL` against a real service."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import reticent
from reticent.tables import Encoder, Schema, read

from .running import Service

SCHEMA = {
    "target": "spent",
    "columns": {
        "age": {"type": "number", "bounds": [18, 100]},
        "job": {"type": "category", "values": ["clerk", "cook", "other"]},
        "spent": {"type": "boolean"},
    },
}


def learn(service: Service, folder: Path, *words: str) -> tuple[int, str, str]:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "reticent", "learn", *words], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"RETICENT_TOKEN": service.token},
    )  # fmt: skip
    return (
        done.returncode,
        done.stdout,
        " ".join(done.stderr.split()),
    )  # lines break where they like


def test_a_file_goes_to_the_service_and_is_counted_once(service: Service, tmp_path: Path) -> None:
    dice = np.random.default_rng(4)
    with open(tmp_path / "visits.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["age", "job", "spent"])
        for k in range(250):
            age = "" if k == 7 else "inf" if k == 9 else round(dice.uniform(0, 110), 2)
            out.writerow([age, dice.choice(["clerk", "cook", "none"]), dice.choice(["yes", "no"])])
    (tmp_path / "visits.json").write_text(json.dumps(SCHEMA))
    words = (
        "visits.csv", "--schema", "visits.json", "--to", service.url, "--stream", "file", "--epsilon", "1",
        "--window", "64", "--seed", "3", "--every", "100", "--json",
    )  # fmt: skip
    status, out_, err = learn(service, tmp_path, *words)
    assert status == 0, err
    assert json.loads(out_)["accepted"] == 250
    again = json.loads(learn(service, tmp_path, *words)[1])
    assert (again["accepted"], again["repeated"], again["steps"]) == (0, 250, 250)
    # the service learnt what the library learns from the same file
    encoder = Encoder(Schema.from_dict(SCHEMA))
    whole = read(tmp_path / "visits.csv", encoder)
    model = reticent.OnlineLogisticRegression(
        epsilon=1.0, delta=1e-6, window=64, feature_norm=encoder.largest_norm, classes=["false", "true"],
        random_state=3,
    ).partial_fit(whole.X, whole.y)  # fmt: skip
    found = service.client().stream("file")["decision"]
    assert found["coefficients"] == np.atleast_2d(model.coef_).tolist()


def test_refusals(service: Service, tmp_path: Path) -> None:
    (tmp_path / "visits.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "visits.csv").write_text("age,job,spent\n40,clerk,perhaps\n")
    common = ("visits.csv", "--schema", "visits.json", "--to", service.url)
    status, _, err = learn(service, tmp_path, *common)
    assert (status, "--stream is missing" in err) == (2, True)
    status, _, err = learn(service, tmp_path, *common, "--stream", "nowhere")
    assert (status, "no stream" in err) == (2, True)
    status, _, err = learn(
        service, tmp_path, *common, "--stream", "unread", "--epsilon", "1", "--window", "9"
    )
    assert status == 2, err
    assert "nothing was learnt" in err, err
    assert "perhaps" not in err
