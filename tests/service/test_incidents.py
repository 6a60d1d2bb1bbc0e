"""What goes wrong in the table of incidents of docs/running.md, made to happen; and that the page claims no more."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent import Client
from reticent.service import runners
from reticent.service.engine import Engine
from reticent.service.folder import Folder, Options
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.specification import Specification
from reticent.service.store import StoreError
from reticent.service.streams import Create, Send

from .running import Service, records, specification

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    return Options(tmp_path / "data")


class Running:
    """A folder with an engine and a stream."""

    def __init__(self, options: Options) -> None:
        self.folder = Folder(options)
        self.engine = Engine(self.folder.store, self.folder.ring)
        assert self.folder.anchor is not None
        self.engine.follows = self.folder.anchor.follow
        self.engine.committed = self.folder.anchor.commit
        asked = Specification.from_dict(specification("s", seed=3))
        self.engine.call(Create(asked))
        self._reader = Reader(runners.encoder_of(asked), self.folder.keys)

    def send(self, first: int, count: int = 3) -> dict[str, Any]:
        lines = b"\n".join(map(msgspec.json.encode, records(first, count)))
        found: dict[str, Any] = self.engine.call(Send("s", self._reader.lines(lines)))
        return found

    @property
    def body(self) -> bytes:
        return self.engine.live("s").head.body

    def close(self) -> None:
        self.engine.stop()
        self.folder.close()


def test_a_folder_without_its_anchor(options: Options, tmp_path: Path) -> None:
    Running(options).close()
    for file in (tmp_path / "anchors").iterdir():
        file.unlink()
    with pytest.raises(StoreError, match="has no anchor"):
        Folder(options)


def test_a_place_where_no_anchor_can_be_made(options: Options, tmp_path: Path) -> None:
    """As in a container without a home; the same folder starts once a place is named."""
    (tmp_path / "anchors").write_text("a file where a folder should be")
    with pytest.raises(
        StoreError, match=r"for the anchor cannot be made .*; name a file with --anchor"
    ):
        Folder(options)
    Folder(replace(options, anchor=tmp_path / "elsewhere" / "anchor")).close()


def test_a_damaged_database(options: Options) -> None:
    here = Running(options)
    for first in range(0, 300, 100):
        here.send(first, 100)
    here.close()
    assert options.data is not None
    database = options.data / "service.sqlite"
    with open(database, "r+b") as file:
        for page in range(2, database.stat().st_size // 4096):
            file.seek(4096 * page)
            file.write(b"\x5a" * 512)
    with pytest.raises(
        StoreError, match=r"cannot be used: its pages are inconsistent\. Put a whole backup"
    ):
        Folder(options)


def test_a_bit_that_flipped_in_a_sealed_state(options: Options) -> None:
    """SQLite sees whole pages; that the state in them is another is seen by its seal, before anything is served."""
    here = Running(options)
    here.send(0)
    here.close()
    assert options.data is not None
    with sqlite3.connect(options.data / "service.sqlite") as database:
        ((stream, sealed),) = database.execute("SELECT stream, sealed FROM states")
        broken = sealed[:-1] + bytes([sealed[-1] ^ 1])
        database.execute("UPDATE states SET sealed = ? WHERE stream = ?", (broken, stream))
    database.close()
    with pytest.raises(
        StoreError, match=r"what is stored of s cannot be decrypted.*a whole backup"
    ):
        Folder(options)


def test_an_anchor_that_cannot_be_written_ends_the_process_before_anything_is_seen(
    options: Options,
) -> None:
    script = f"""
import os, pathlib
from tests.service.test_incidents import Running
from reticent.service.folder import Options
here = Running(Options(pathlib.Path({str(options.data)!r})))
here.send(0)
print("seen", flush=True)
os.close(here.folder.anchor._file)  # as a disk that is gone
here.send(3)
print("revealed", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )  # fmt: skip
    assert done.returncode == 70, done.stderr
    assert "the anchor cannot be written" in done.stderr
    assert done.stdout.split() == ["seen"]
    # the next start goes on from there
    here = Running(options)
    assert here.send(3)["repeated"] == 3
    here.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    ) if os.geteuid() == 0 else None  # fmt: skip
    if made is None or made.returncode:
        pytest.skip("a small tmpfs needs root; the fault table has a full disk without it")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full(small_disk: Path, options: Options, tmp_path: Path) -> None:
    here = Running(replace(options, data=small_disk / "data"))
    twin = Running(replace(options, data=tmp_path / "twin"))
    filler = small_disk / "filler"
    here.send(0)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    filler.write_bytes(bytes(max(0, free - 200_000)))
    sent = 3
    with pytest.raises(Problem) as caught:
        while sent < 30_000:
            here.send(sent, 100)
            sent += 100
    assert (caught.value.status, caught.value.name) == (507, "disk-full")
    before = here.body
    with pytest.raises(Problem):
        here.send(sent, 100)
    assert here.body == before
    filler.unlink()
    assert here.send(sent, 100)["accepted"] == 100
    twin.send(0)
    for first in range(3, sent + 100, 100):
        twin.send(first, 100)
    assert here.body == twin.body
    for one in (here, twin):
        one.close()


def test_a_certificate(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1)).add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    certificate, secret = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    service = Service(
        tmp_path / "data", "--certificate", str(certificate), "--certificate-key", str(secret), wait=False
    )  # fmt: skip
    assert service.url.startswith("https://")
    client = Client(service.url, service.token, certificate=certificate)
    client.create(specification("sealed"))
    assert client.send("sealed", records(0, 3))["accepted"] == 3
    with pytest.raises(ssl.SSLCertVerificationError):  # nobody vouches for it
        Client(service.url, service.token, patience=0).streams()
    service.kill()


@pytest.mark.parametrize("words", [["--certificate-key", "key"], ["--certificate", "none.pem"]])
def test_a_certificate_that_cannot_be_used_is_refused_before_anything_is_created(
    tmp_path: Path, words: list[str]
) -> None:
    command = [sys.executable, "-m", "reticent", "serve", "--data", "data", "--port", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2
    assert "--certificate" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_token_for_a_place_without_a_service_is_refused(tmp_path: Path) -> None:
    """It would be that of an administrator of a new service, whatever role was asked for."""
    command = [
        sys.executable,
        "-m",
        "reticent",
        "serve",
        "token",
        "--data",
        "data",
        "--role",
        "reader",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no service in data" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_new_token_where_no_administrator_is_left(options: Options) -> None:
    Running(options).close()
    assert options.data is not None
    command = [sys.executable, "-m", "reticent", "serve", "token", "--data", str(options.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"token: ret_\S+", done.stdout)


def test_a_deleted_stream_says_so(service: Service) -> None:
    client = service.client()
    client.create(specification("gone"))
    client.call("DELETE", "/v1/streams/gone")
    with pytest.raises(Problem) as caught:
        client.stream("gone")
    assert (caught.value.status, caught.value.name) == (410, "stream-deleted")


def test_the_page_claims_what_is_tried() -> None:
    """Whatever the page names in brackets exists, and a test speaks of each incident."""
    page = (ROOT / "docs" / "running.md").read_text()
    named = re.findall(r"\[`([^`]+)`\]", page)
    assert len(named) > 8
    for path in named:
        assert (ROOT / path).exists(), path
    tests = "".join(
        path.read_text() for path in (ROOT / "tests" / "service").glob("*.py")
    ) + (ROOT / "benchmarks" / "service_faults.py").read_text()  # fmt: skip
    table = page.partition("## What an incident looks like")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    for row in rows:
        for words in re.findall(r'"([^"]+)"|`([^`]+)`', row.split("|")[1]):
            quoted = max(words)
            assert quoted in tests, quoted
