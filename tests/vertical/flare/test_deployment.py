"""A real federation on the loopback device: one server, three sites, mutual TLS.

The first test runs always. The others start processes for minutes and run with RETICENT_SLOW=1.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reticent
from reticent.vertical import Coordinator, InProcess, flare, messages
from reticent.vertical.flare import jobs, kits

from .deployment import HERE, PARTIES, ROWS, Deployment, settings_for, write_tables

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install nvflare")
pytest.importorskip("psutil")

ASKED = {"rounds": 25, "seed": 3, "columns": 3}
BUDGET = reticent.Budget(4.0, 1e-6)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("federation")
    settings = settings_for(write_tables(folder), largest_request=2**20)
    with Deployment(folder, settings) as running:
        running.start("server", *PARTIES)
        yield running


def in_process(deployment: Deployment, folder: Path, **asked: Any) -> dict[str, list[float]]:
    """The same parties and seeds without an engine."""
    parties = {}
    for name in PARTIES:
        local = deployment.kits[name] / "local"
        settings = flare.Settings.read(local)
        parties[name] = settings.party(name, local=local, folder=folder / name)
    fit = Coordinator(InProcess(parties)).run(budget=BUDGET, **asked)
    return {name: point.tolist() for name, point in fit.points.items()}


def points(outcome: dict[str, Any]) -> dict[str, list[float]]:
    """The model of an outcome, written out."""
    return {
        name: [outcome["weights"][name].get(str(place), 0.0) for place in range(count)]
        for name, count in outcome["columns"].items()
    }


def fresh_state(deployment: Deployment, **settings: Any) -> None:
    """Sites that never answered anything, so that seeds mean the same again. For tests only."""
    for name in PARTIES:
        shutil.rmtree(deployment.kits[name] / "private", ignore_errors=True)
        flare.check_party(deployment.kits[name], **settings)


def entries(deployment: Deployment, party: str) -> int:
    """How many runs a site's own ledger has paid for."""
    return len(flare.ledger(deployment.kits[party]).entries)


def kept(folder: Path) -> int:
    """How many bytes a site has written about its runs; some hundreds for every answer."""
    with contextlib.suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir() if path.name != "ledger")
    return 0


def handshake(deployment: Deployment, kit: Path | None) -> None:
    """Connect to the server with a kit's certificate, or with none, and hear one byte."""
    context = ssl.create_default_context(cafile=deployment.kits["north"] / "startup" / "rootCA.pem")
    context.check_hostname = False
    if kit is not None:
        startup = kit / "startup"
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    config = json.loads((deployment.kits["server"] / "startup" / "fed_server.json").read_text())
    with (
        socket.create_connection(("127.0.0.1", config["servers"][0]["admin_port"]), 5.0) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.settimeout(2.0)
        # Under TLS 1.3 the server's verdict on our certificate comes with the first bytes.
        with contextlib.suppress(TimeoutError):
            if wrapped.recv(1) == b"":
                raise ConnectionResetError("the server hung up")


@pytest.mark.slow
def test_a_deployment_learns_the_model_of_one_process(
    deployment: Deployment, tmp_path: Path
) -> None:
    outcome = deployment.run("first", **ASKED)
    assert points(outcome) == in_process(deployment, tmp_path, **ASKED)
    assert outcome["rounds"] == ASKED["rounds"]
    assert set(outcome["bytes"]) == set(PARTIES)
    assert reticent.Guarantee.from_dict(outcome["guarantee"]).meets(BUDGET)
    assert [entries(deployment, party) for party in PARTIES] == [1, 1, 1]
    # Nobody without a certificate of this federation gets past the handshake.
    handshake(deployment, deployment.kits["north"])
    for stranger in (None, kits_made_elsewhere(tmp_path)["north"]):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            handshake(deployment, stranger)


def kits_made_elsewhere(folder: Path, port: int = 8002) -> dict[str, Path]:
    """Kits of a federation with the same names and another root certificate."""
    return flare.provision(folder / "elsewhere", PARTIES, port=port)


@pytest.mark.slow
def test_a_site_refuses_a_run_beyond_its_own_budget(deployment: Deployment) -> None:
    fresh_state(deployment)
    west = deployment.kits["west"]
    before = flare.Settings.read(west / "local")
    flare.check_party(west, epsilon=0.5)
    try:
        with pytest.raises(flare.RunFailed, match=r"west.*budget") as caught:
            deployment.run("greedy", **ASKED)
        assert caught.value.kind == "RefusedByParty"
        assert "refused (budget)" in deployment.job_log("west")
        # the others were asked as well, and have not paid for what west refused
        assert [entries(deployment, party) for party in PARTIES] == [0, 0, 0]
        with pytest.raises(flare.RunFailed, match="unfinished"):
            deployment.run("greedy", **ASKED)
    finally:
        before.write(west / "local")


@pytest.mark.slow
def test_misaligned_rows_are_an_error_before_anything_is_spent(deployment: Deployment) -> None:
    fresh_state(deployment)
    kit = deployment.kits["south"]
    data = Path(flare.Settings.read(kit / "local").data)
    other = data.with_name("other.csv")
    other.write_text(data.read_text().replace("p00017,", "p99999,"))
    flare.check_party(kit, data=other)
    try:
        with pytest.raises(flare.RunFailed, match="rows of 'south' are not those of 'north'"):
            deployment.run("askew", **ASKED)
        assert [entries(deployment, party) for party in PARTIES] == [0, 0, 0]
    finally:
        flare.check_party(kit, data=data)


@pytest.mark.slow
def test_a_job_with_arguments_for_a_site_does_not_start(
    deployment: Deployment, tmp_path: Path
) -> None:
    fresh_state(deployment)
    job = written(tmp_path)
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"][0]["args"] = {"epsilon": 1e9, "data": "/etc/passwd"}
    config.write_text(json.dumps(content))
    meta = sent(deployment, job)
    assert meta["status"] != "FINISHED:COMPLETED"
    assert [entries(deployment, party) for party in PARTIES] == [0, 0, 0]


@pytest.mark.slow
def test_a_killed_site_fails_the_run_and_resumes_it(deployment: Deployment, tmp_path: Path) -> None:
    fresh_state(deployment)
    asked = {**ASKED, "rounds": 400, "patience": 5.0}
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            deployment.run("killed", **asked)
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=attempt)
    running.start()
    folder = deployment.kits["west"] / "private"
    until = time.monotonic() + 120.0
    while kept(folder) < 40_000 and time.monotonic() < until:
        time.sleep(0.05)
    deployment.kill("west")
    assert kept(folder) >= 40_000
    running.join(120.0)
    assert not running.is_alive()
    assert len(failed) == 1
    assert isinstance(failed[0], flare.RunFailed)
    assert failed[0].kind == "PartyLost"
    assert "'west' is gone" in str(failed[0])
    for name in ("server", "north", "south"):
        assert deployment.processes[name].poll() is None
    deployment.start("west")
    outcome = deployment.run("killed", resume=True, **{**asked, "patience": 60.0})
    del asked["patience"]
    assert points(outcome) == in_process(deployment, tmp_path, **asked)
    assert [entries(deployment, party) for party in PARTIES] == [1, 1, 1]


@pytest.mark.slow
def test_a_site_with_a_wrong_certificate_never_arrives(
    deployment: Deployment, tmp_path: Path
) -> None:
    config = json.loads((deployment.kits["server"] / "startup" / "fed_server.json").read_text())
    port = config["servers"][0]["admin_port"]
    deployment.kill("west")
    right = deployment.kits["west"]
    settings = json.loads((right / "local" / "reticent.json").read_text())
    del settings["key"]
    foreign = kits_made_elsewhere(tmp_path, port)["west"]
    flare.check_party(foreign, **settings)
    deployment.kits["west"] = foreign
    try:
        deployment.start("west")
        with pytest.raises(flare.RunFailed, match=r"west|not begun"):
            deployment.run("foreign", **{**ASKED, "patience": 20.0})
        assert "certificate" in deployment.job_log("west").lower()
        assert not (foreign / "private").exists()
    finally:
        deployment.kill("west")
        deployment.kits["west"] = right
        deployment.start("west")


# ---------------------------------------------------------------- a server that cheats


def written(folder: Path) -> Path:
    """An honest job, to be tampered with."""
    terms = {"name": "job", "parties": list(PARTIES), "resume": False, "patience": 10.0,
             "budget": {"epsilon": 4.0, "delta": 1e-6}, "run": ASKED}  # fmt: skip
    return jobs.write_job(terms, PARTIES, folder)


def sent(deployment: Deployment, job: Path) -> dict[str, Any]:
    """Submit a job as it is; what the engine says about it in the end."""
    with jobs.session(deployment.analyst) as opened:
        jobs.wait_for_parties(opened, PARTIES, 60.0)
        name = jobs.submit(opened, job)
        return jobs.follow(opened, name, lambda _: None)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The sites as they are provisioned; the server's owner has opened its own kit."""
    folder = tmp_path_factory.mktemp("hostile")
    settings = settings_for(write_tables(folder), largest_request=2**20, epsilon=1.0)
    with Deployment(folder, settings) as running, pytest.MonkeyPatch.context() as patch:
        local = running.kits["server"] / "local"
        policy = kits.policy(is_server=True)
        policy["permissions"]["lead"]["byoc"] = "any"
        (local / "authorization.json").write_text(json.dumps(policy))
        resources = json.loads((local / "resources.json").read_text())
        resources["class_allow_list"] += ["flare_attacker.Attacker"]
        (local / "resources.json").write_text(json.dumps(resources))
        patch.setenv("PYTHONPATH", str(HERE))
        running.start("server")
        patch.delenv("PYTHONPATH")
        running.start(*PARTIES)
        yield running


@pytest.mark.slow
def test_shipped_code_is_refused_by_the_sites_themselves(
    hostile: Deployment, tmp_path: Path
) -> None:
    job = written(tmp_path)
    proof = tmp_path / "ran"
    custom = job / "app" / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text(f"open({str(proof)!r}, 'w')\n")
    meta = sent(hostile, job)
    assert meta["status"] != "FINISHED:COMPLETED"
    assert "BYOC not permitted" in json.dumps(meta) + hostile.job_log("north")
    assert not proof.exists()
    assert [entries(hostile, party) for party in PARTIES] == [0, 0, 0]


@pytest.mark.slow
def test_an_installed_class_that_is_not_listed_is_refused(
    hostile: Deployment, tmp_path: Path
) -> None:
    job = written(tmp_path)
    config = job / "app" / "config" / "config_fed_client.json"
    config.write_text(config.read_text().replace(kits.SITE_CLASS, "subprocess.Popen"))
    meta = sent(hostile, job)
    assert meta["status"] != "FINISHED:COMPLETED"
    assert "not in allow_list" in hostile.job_log("north")


@pytest.mark.slow
def test_malformed_and_oversized_messages_are_refused_and_leak_nothing(
    hostile: Deployment, tmp_path: Path
) -> None:
    job = written(tmp_path)
    config = job / "app" / "config" / "config_fed_server.json"
    content = json.loads(config.read_text())
    content["components"] = [{"id": "_server", "path": "flare_attacker.Attacker", "args": {}}]
    config.write_text(json.dumps(content))
    with jobs.session(hostile.analyst) as opened:
        jobs.wait_for_parties(opened, PARTIES, 60.0)
        name = jobs.submit(opened, job)
        meta = jobs.follow(opened, name, lambda _: None)
        got = Path(opened.download_job_result(name, str(tmp_path / "got")))
    assert meta["status"] == "FINISHED:COMPLETED"
    seen = json.loads(next(got.rglob("outcome.json")).read_text())
    for party in PARTIES:
        secrets = [hostile.kits[party].as_posix(), "patient", f"{party}_", ".csv"]
        for case, answers in seen.items():
            for secret in secrets:
                assert secret not in json.dumps(answers), (case, secret)
            if case in ("open", "_party"):
                assert party not in answers, (case, answers)
                continue
            answer = messages.decode(bytes.fromhex(answers[party]))
            assert isinstance(answer, messages.Refusal), case
            assert len(answer.text) < 200
        assert hostile.job_log(party).count("refused (") >= len(seen) - 2
        assert entries(hostile, party) == 0
    assert "a request may have 1048576 bytes" in hostile.job_log("west")
    assert ROWS == 300  # the greedy plan is for as many rows
