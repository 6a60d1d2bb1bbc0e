"""The folder of a service: opened by one process, under its key, if its anchor says that it is the one served last."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from reticent.service import tokens
from reticent.service.anchor import DATABASE, Anchor, Facts, default_path, place_of
from reticent.service.keys import Keys
from reticent.service.sealing import Damaged, Ring, master_key, state_place
from reticent.service.sqlite import SqliteStore
from reticent.service.store import StoreError, TokenRow

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where nothing keeps two services apart
    fcntl = None  # type: ignore[assignment]

LOCK, KEY = "service.lock", "service.key"
_SECRET = b"secret of the keys of records"


@dataclass
class Options:
    """How a service is run.

    Parameters
    ----------
    data : path
        The folder that everything is kept in.
    host : str
        The address to listen on.
    port : int
        The port to listen on; 0 is any that is free.
    key_file : path or None
        A file with the key under which states are sealed.
    anchor : path or None
        The anchor's file; by default below the user's state folder.
    tables : list of path
        Folders below which tables may lie that models are fitted to.
    limit : int
        The largest body of a request, in bytes.
    rate : float
        How many requests a second a token may send; 0 is any number.
    certificate : path or None
        A certificate file, for TLS.
    certificate_key : path or None
        The key of the certificate.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    key_file: Path | None = None
    anchor: Path | None = None
    tables: list[Path] = field(default_factory=list)
    limit: int = 64 * 2**20
    rate: float = 0.0
    certificate: Path | None = None
    certificate_key: Path | None = None


class Folder:
    """A folder that is open.

    Parameters
    ----------
    options : Options
        Where it is, and its key.
    adopting : bool
        Whether to open a folder that its anchor refuses.

    Attributes
    ----------
    store : SqliteStore
        What is kept.
    ring : Ring
        The keys under which states are sealed.
    keys : Keys
        How keys of records are written.
    root : str
        Id of the folder that this one descends from by adoptions; its own if there were none.
    adoptions : int
        How many adoptions its ledgers have paid for.
    anchor : Anchor or None
        By which a restored backup is recognised; None while a folder is being adopted.
    first_token : str or None
        The administrator's token, at the first start.
    """

    def __init__(self, options: Options, *, adopting: bool = False) -> None:
        self.path = options.data.resolve()
        self._options = options
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        self.anchor: Anchor | None = None
        self.store: SqliteStore
        try:
            self._take()
            database = self.path / DATABASE
            fresh = not database.exists()
            if fresh and adopting:
                raise StoreError(f"there is nothing to adopt: {self.path} holds no service")
            key = master_key(options.key_file, self.path / KEY, fresh)
            self.ring = Ring([key])
            self.store = SqliteStore(database)
        except BaseException:
            os.close(self._lock)
            raise
        try:
            self.first_token = self._open(adopting)
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"another `reticent serve` is using {self.path}; stop it, or serve another folder"
                ) from None

    def _open(self, adopting: bool) -> str | None:
        with self.store.read() as rows:
            about = rows.about()
        if "id" not in about:
            return self._begin()
        if about["key"] != self.ring.name.hex():
            raise StoreError(
                f"{self.path} was written under another key; give the one that it was written under"
            )
        try:
            self.keys = Keys(self.ring.open(bytes.fromhex(about["secret"]), _SECRET))
        except Damaged as error:
            raise StoreError(
                f"{self.path} cannot be used: the secret of its keys cannot be read, for {error}. Put a whole "
                "backup of the folder in its place and run `reticent serve adopt`"
            ) from None
        self.id, self.commit = about["id"], int(about.get("commit", "0"))
        self.root = about.get("root", self.id)
        self.adoptions = int(about.get("adoptions", "0"))
        if not adopting:
            self.anchor = Anchor(self.anchor_path())
            self.anchor.check(self.id, self.commit, self.path)
        return None

    def _begin(self) -> str:
        """At the first start: an id, a secret, an anchor, and the administrator's token, which is returned once."""
        secret = secrets.token_bytes(32)
        self.keys = Keys(secret)
        self.id, self.commit = secrets.token_hex(16), 0
        self.root, self.adoptions = self.id, 0
        self.anchor = (
            self.new_anchor()
        )  # before the id is written: an id without an anchor is a copy
        with self.store.transaction() as rows:
            rows.set_about("id", self.id)
            rows.set_about("key", self.ring.name.hex())
            rows.set_about("secret", self.ring.seal(secret, _SECRET).hex())
            token, row = new_token("administrator", "made at the first start")
            rows.add_token(row)
        return token

    def anchor_path(self) -> Path:
        """Where the anchor is."""
        return self._options.anchor or default_path(self.id)

    def adoption_files(self) -> list[Path]:
        """Where adoptions of the lineage that the folder belongs to are counted."""
        files = [default_path(self.root)]
        if self._options.anchor is not None:
            files.append(self._options.anchor)
        return [file.with_name(file.name + ".adoptions") for file in files]

    def new_anchor(self) -> Anchor:
        """An anchor for the folder as it is now."""
        device, inode = place_of(self.path)
        facts = Facts(self.id, self.root, self.commit, 0, str(self.path), inode, device)
        return Anchor(self.anchor_path(), facts)

    def change_key(self, new: bytes) -> int:
        """Seal everything under another key, and return how many states there were."""
        ring = Ring([new])
        with self.store.read() as rows:
            about = rows.about()
        with self.store.transaction() as rows:
            count = 0
            for stream in rows.streams():
                state = rows.state(stream.id)
                if state is None:  # it was deleted
                    continue
                place = state_place(stream.id)
                sealed = ring.seal(self.ring.open(state.sealed, place), place)
                rows.save(stream.id, replace(state, sealed=sealed))
                count += 1
            secret = self.ring.open(bytes.fromhex(about["secret"]), _SECRET)
            rows.set_about("secret", ring.seal(secret, _SECRET).hex())
            rows.set_about("key", ring.name.hex())
        self.store.compact()
        self.ring = ring
        return count

    def close(self) -> None:
        """Let another process have the folder."""
        if self.anchor is not None:
            self.anchor.close()
        self.store.close()
        os.close(self._lock)


def new_token(role: str, label: str) -> tuple[str, TokenRow]:
    """A new token, and what is kept of it."""
    token = tokens.new_token()
    row = TokenRow(secrets.token_hex(8), tokens.hashed(token), role, label, None, time.time(), None)
    return token, row
