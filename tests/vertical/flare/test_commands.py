"""The commands of organisations: what they check before they start, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reticent.vertical import flare
from reticent.vertical.flare import commands


def test_a_party_checks_its_data_before_it_starts(made: dict[str, Path]) -> None:
    kit = made["north"]
    before = (kit / "local" / "reticent.json").read_text()
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        commands.party(kit, data="/nowhere.csv")
    with pytest.raises(ValueError, match="no column 'age'"):
        commands.party(kit, columns=["age"])
    assert (kit / "local" / "reticent.json").read_text() == before
    with pytest.raises(FileNotFoundError, match="server's start-up kit"):
        commands.serve(kit)


def test_a_budget_stays_what_it_was_when_the_ledger_was_opened(made: dict[str, Path]) -> None:
    kit = made["west"]
    settings = flare.Settings.read(kit / "local")
    settings.party("west", local=kit / "local", folder=kit / "private")
    assert commands.check_party(kit, feature_bound=0.5).feature_bound == 0.5
    with pytest.raises(ValueError, match="cannot change once a ledger exists"):
        commands.party(kit, epsilon=1000.0)
    assert flare.Settings.read(kit / "local").budget == settings.budget
    assert commands.ledger(kit).budget == settings.budget
    assert commands.ledger(kit).spent is None


def test_the_command_says_what_is_wrong_in_one_line(
    made: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from reticent.cli import main

    kit = str(made["north"])
    with pytest.raises(SystemExit) as end:
        main(["vertical", "party", kit, "--data", "/nowhere.csv", "--check"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("reticent: data must be an existing file")
    with pytest.raises(SystemExit) as end:
        main(["vertical", "party", kit, "--epsilon", "2", "--check"])
    assert end.value.code == 0
    assert "epsilon = 2" in capsys.readouterr().out


def test_weights_get_their_names_at_home_only(made: dict[str, Path], tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text(json.dumps({"weights": {"north": {"2": 0.5}, "south": {}}}))
    assert commands.weights(made["north"], model) == {"north_2": 0.5}
    assert commands.weights(made["south"], model) == {}
    with pytest.raises(ValueError, match="west"):
        commands.weights(made["west"], model)


def test_an_outcome_reads_well_and_is_plain_data() -> None:
    from reticent.vertical.flare.commands import RunOutcome

    outcome = RunOutcome({"summary": "epsilon = 2", "weights": {"north": {"0": 0.25}, "west": {}}})
    assert str(outcome).splitlines()[0] == "epsilon = 2"
    assert "north: 0: +0.2500" in str(outcome)
    assert "west: none" in str(outcome)
    assert outcome.weights == {"north": {0: 0.25}, "west": {}}
    assert json.loads(json.dumps(outcome)) == dict(outcome)
    assert repr(outcome) == "<RunOutcome: 1 weights, 2 parties>"
