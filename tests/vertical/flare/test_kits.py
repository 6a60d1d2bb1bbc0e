"""The parts of the FLARE transport that need no running deployment."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reticent.vertical import PartyLost, flare, messages
from reticent.vertical.flare import commands, jobs, kits, server, site
from reticent.vertical.flare.tables import read_table

from .deployment import PARTIES, settings_for, write_tables

RUN = bytes(range(16))
HELLO = messages.Hello(run=RUN, sequence=0).encode()


def needs_engine() -> None:
    pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install nvflare")


# ---------------------------------------------------------------- tables and settings


def test_rows_are_put_in_the_order_of_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,x,y,z\nb,1,2,0.5\na,3,4,-0.5\n")
    table = read_table(path, id_column="who", label_column="z")
    assert table.names == ("x", "y")
    assert table.ids == ["a", "b"]
    np.testing.assert_array_equal(table.features, [[3, 4], [1, 2]])
    np.testing.assert_array_equal(table.labels, [-0.5, 0.5])


def test_all_formats_hold_the_same_table(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"who": ["b", "c", "a"], "x": [1.5, 2.0, 3.0], "y": [1, 2, 3]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", **{name: frame[name].to_numpy(dtype=kind) for name, kind in
             (("who", "U1"), ("x", float), ("y", float))})  # fmt: skip
    read = [read_table(tmp_path / f"t.{end}", id_column="who") for end in ("csv", "parquet", "npz")]
    for table in read:
        assert table.ids == ["a", "b", "c"]
        np.testing.assert_array_equal(table.features, [[3, 3], [1.5, 1], [2, 2]])
        assert table.labels is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("who,x\na,1\na,2\n", "twice"),
        ("who,x,x\na,1,2\n", "twice"),
        ("who,x\na,word\n", "not a number"),
        ("who,x\na,nan\n", "finite"),
        ("who,x\na,1,2\n", "line 2"),
        ("who\na\n", "at least one"),
        ("name,x\na,1\n", "'who'"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_table(path, id_column="who")


def test_settings_survive_their_file_and_are_for_the_owner_only(tmp_path: Path) -> None:
    terms = settings_for(write_tables(tmp_path))["north"]
    settings = flare.Settings.of({**terms, "columns": ["north_1", "north_0"]})
    path = settings.write(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert flare.Settings.read(tmp_path) == settings
    assert settings.table().names == ("north_1", "north_0")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"data": "relative.csv"}, "absolute"),
        ({"feature_bound": 0.0}, "feature_bound"),
        ({"noise": 0.0}, "unknown entries"),
        ({"largest_request": 2**40}, "largest_request"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], said: str) -> None:
    terms = {"data": "/a.csv", "id_column": "who", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=said):
        flare.Settings.of({**terms, **change})


def test_a_budget_is_never_guessed() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        flare.Settings.of({"data": "/a.csv", "id_column": "who", "delta": 1e-6})


# ---------------------------------------------------------------- kits


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    needs_engine()
    folder = tmp_path_factory.mktemp("kits")
    settings = settings_for(write_tables(folder))
    return commands.provision(folder / "kits", PARTIES, name="trial", settings=settings)


def test_kits_are_closed(made: dict[str, Path]) -> None:
    for name in ("server", *PARTIES):
        local = made[name] / "local"
        permissions = json.loads((local / "authorization.json").read_text())["permissions"]
        assert set(permissions) == {"project_admin", "org_admin", "lead", "member"}
        for rights in permissions.values():
            assert {rights[right] for right in ("byoc", "shell_commands", "operate")} == {"none"}
        resources = json.loads((local / "resources.json").read_text())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert len(resources["class_allow_list"]) == 2
        mine = kits.SERVER_CLASS if name == "server" else kits.SITE_CLASS
        assert mine in resources["class_allow_list"]
        if name != "server":
            assert resources["allow_log_streaming"] is False
            assert "site_log_streamer" not in json.dumps(resources)


def test_a_sites_terms_stay_out_of_what_the_engine_forwards(made: dict[str, Path]) -> None:
    for party in PARTIES:
        for path in made[party].rglob("*"):
            if path.is_file() and path.name != "reticent.json":
                assert f"{party}.csv" not in path.read_text(errors="replace")
    key = (made["north"] / "local" / "alignment.key").read_bytes()
    assert len(key) == 32
    assert key == (made["west"] / "local" / "alignment.key").read_bytes()
    assert not (made["server"] / "local" / "alignment.key").exists()


def test_kits_and_the_authority_are_for_their_owner_only(made: dict[str, Path]) -> None:
    root = made["server"].parent
    for path in (root / "authority", *(root / "authority").rglob("*"), *made["west"].rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_keys_are_never_overwritten(made: dict[str, Path]) -> None:
    before = (made["server"] / "startup" / "server.key").read_bytes()
    with pytest.raises(FileExistsError, match="new folder"):
        commands.provision(made["server"].parent, PARTIES)
    assert (made["server"] / "startup" / "server.key").read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"parties": ("north", "north")},
        {"parties": ()},
        {"parties": ("server",)},
        {"parties": ("../x",)},
        {"host": "bad host"},
        {"port": 0},
        {"scheme": "carrier-pigeon"},
        {"analyst": "nobody"},
        {"name": "a: b"},
    ],
)
def test_bad_federations_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))[:5]):
        flare.Federation(**{"name": "trial", "parties": PARTIES, **change})


# ---------------------------------------------------------------- jobs


def terms(**changes: Any) -> dict[str, Any]:
    return {"name": "first", "parties": list(PARTIES), "resume": False, "patience": 5.0,
            "budget": {"epsilon": 1.0, "delta": 1e-6}, "run": {"rounds": 3}, **changes}  # fmt: skip


def test_a_job_holds_names_and_terms_and_no_code(tmp_path: Path) -> None:
    needs_engine()
    job = jobs.write_job(terms(), PARTIES, tmp_path)
    files = sorted(path.name for path in job.rglob("*") if path.is_file())
    assert files == ["config_fed_client.json", "config_fed_server.json", "meta.json"]
    client = json.loads((job / "app/config/config_fed_client.json").read_text())
    assert client["components"] == [{"id": "_client", "path": kits.SITE_CLASS, "args": {}}]
    leader = json.loads((job / "app/config/config_fed_server.json").read_text())
    assert leader["components"][0]["path"] == kits.SERVER_CLASS
    assert leader["components"][0]["args"]["terms"] == terms()
    assert json.loads((job / "meta.json").read_text())["mandatory_clients"] == list(PARTIES)


def test_the_server_stays_until_the_parties_have_heard_of_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_engine()
    from nvflare.apis.event_type import EventType
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.utils.event import fire_event_to_components

    handlers: list[Any] = []
    slept: list[float] = []
    monkeypatch.setattr(server.time, "sleep", slept.append)
    server._stay_for_farewell(
        SimpleNamespace(run_manager=SimpleNamespace(add_handler=handlers.append))
    )
    for event in (EventType.ABOUT_TO_END_RUN, EventType.END_RUN):
        assert not slept
        fire_event_to_components(event, handlers, FLContext())
    assert len(slept) == 1
    assert slept[0] > 1.0  # parties ask every half second


# ---------------------------------------------------------------- the site


class Echo:
    def handle(self, request: bytes) -> bytes:
        return b"answered " + request


def a_site(monkeypatch: pytest.MonkeyPatch, caller: str = "server", party: Any = None) -> site.Site:
    monkeypatch.setattr(site, "collab", SimpleNamespace(caller=caller))
    made = site.Site()
    made._party = party
    made._largest = 1000
    return made


def test_a_site_answers_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert a_site(monkeypatch, party=Echo()).handle(HELLO) == b"answered " + HELLO


@pytest.mark.parametrize(
    ("caller", "party", "request_", "said"),
    [
        ("south", Echo(), HELLO, "only the server"),
        ("server", None, HELLO, "not ready"),
        ("server", Echo(), "text", "must be bytes"),
        ("server", Echo(), [1, 2], "must be bytes"),
        ("server", Echo(), bytes(1001), "may have 1000 bytes"),
    ],
)
def test_a_site_refuses(
    monkeypatch: pytest.MonkeyPatch, caller: str, party: Any, request_: Any, said: str
) -> None:
    answer = messages.decode(a_site(monkeypatch, caller, party).handle(request_))
    assert isinstance(answer, messages.Refusal)
    assert said in answer.text


def test_a_site_that_cannot_open_says_nothing_of_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "reticent.json").write_text(json.dumps({"data": "/secret/patients.csv"}))
    workspace = SimpleNamespace(get_site_config_dir=lambda: str(local))
    monkeypatch.setattr(
        site, "collab", SimpleNamespace(caller="server", workspace=workspace, site_name="north")
    )
    made = site.Site()
    made.open()
    answer = messages.decode(made.handle(HELLO))
    assert isinstance(answer, messages.Refusal)
    assert answer.run == RUN
    assert "secret" not in answer.text
    assert "lacks" in caplog.text


# ---------------------------------------------------------------- the transport


class FakeClients:
    """The engine's group calls, with failures to order."""

    def __init__(self, failing: dict[str, int]) -> None:
        self.failing = failing
        self.calls: list[tuple[tuple[str, ...], bytes]] = []
        self.clients = [SimpleNamespace(name=name) for name in PARTIES]

    def get_clients(self, names: list[str]) -> Any:
        def group(**options: Any) -> Any:
            def handle(request: bytes) -> Any:
                self.calls.append((tuple(names), request))
                failures = {}
                for name in names:
                    if self.failing.get(name, 0) > 0:
                        self.failing[name] -= 1
                        failures[name] = SimpleNamespace(cause=TimeoutError("too late"))
                good = [(name, request.upper()) for name in names if name not in failures]
                return Results(good, failures)

            return SimpleNamespace(handle=handle)

        return group


class Results:
    def __init__(self, good: list[tuple[str, bytes]], failures: dict[str, Any]) -> None:
        self.good, self.failures = good, failures

    def __iter__(self) -> Any:
        return iter(self.good)


def engine(monkeypatch: pytest.MonkeyPatch, **failing: int) -> FakeClients:
    fake = FakeClients(failing)
    monkeypatch.setattr(server, "collab", fake)
    return fake


def test_equal_requests_travel_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = engine(monkeypatch)
    carrier = server.FlareTransport(PARTIES)
    assert carrier.ask(dict.fromkeys(PARTIES, b"a")) == dict.fromkeys(PARTIES, b"A")
    assert carrier.ask({"west": b"w", "north": b"n"}) == {"west": b"W", "north": b"N"}
    assert fake.calls == [(PARTIES, b"a"), (("west",), b"w"), (("north",), b"n")]


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = engine(monkeypatch, south=1)
    carrier = server.FlareTransport(PARTIES)
    assert carrier.ask(dict.fromkeys(PARTIES, b"a"))["south"] == b"A"
    assert fake.calls[-1] == (("south",), b"a")


def test_a_party_that_stays_away_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine(monkeypatch, south=9)
    carrier = server.FlareTransport(PARTIES)
    with pytest.raises(PartyLost, match=r"south.*too late") as caught:
        carrier.ask(dict.fromkeys(PARTIES, b"a"))
    assert caught.value.name == "south"
    with pytest.raises(PartyLost, match="east"):
        server.FlareTransport(("north", "east"))


# ---------------------------------------------------------------- the commands


def test_a_run_has_a_safe_name(tmp_path: Path) -> None:
    for name in ("../up", "A", "", 3):
        with pytest.raises(ValueError, match="name must be"):
            server.Server(terms(name=name))._run(tmp_path)
    assert not list(tmp_path.iterdir())


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
