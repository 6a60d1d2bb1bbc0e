"""Where a service is stored: a folder that one process opens, or a database that several workers share.

Both are opened with their key, and only if their anchor confirms that they are what was served last.
"""

from __future__ import annotations

import os
import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reticent.service import chain, tokens
from reticent.service.anchor import (
    DATABASE,
    UNKNOWN,
    Anchor,
    Facts,
    default_path,
    peek,
    place_of,
)
from reticent.service.keys import Keys
from reticent.service.sealing import (
    VARIABLE,
    Damaged,
    Ring,
    master_key,
    named_key,
    person_place,
    state_place,
    unopened,
)
from reticent.service.sqlite import SqliteStore
from reticent.service.store import StoreError, TokenRow
from reticent.state.locks import try_lock

LOCK, KEY = "service.lock", "service.key"
_SECRET = b"secret of the keys of records"


@dataclass
class Options:
    """Options of a service.

    Parameters
    ----------
    data : path or None
        Folder that holds everything; None if a database is used.
    host : str
        Address to listen on.
    port : int
        Port to listen on; 0 is any free port.
    key_file : path or None
        File with the key with which states are encrypted.
    anchor : path or None
        File of the anchor. Default: a file below the user's state folder.
    tables : list of path
        Folders that may contain tables to which models are fitted.
    limit : int
        Largest body of a request, in bytes.
    rate : float
        Requests per second and token; 0 is unlimited.
    certificate : path or None
        Certificate file, for TLS.
    certificate_key : path or None
        Key of the certificate.
    database : str or None
        PostgreSQL database instead of a folder, as a libpq URL.
    address : str or None
        Address at which other workers on the same database reach this one. Default: where it listens.
    log : str
        Lowest level that is logged: ``debug``, ``info``, ``warning`` or ``error``.
    log_requests : bool
        Whether to log each request.
    lease : float
        Seconds after which the streams of a silent worker move to another one.
    sources : path or None
        JSON file that describes sources of records.
    """

    data: Path | None
    host: str = "127.0.0.1"
    port: int = 8080
    key_file: Path | None = None
    anchor: Path | None = None
    tables: list[Path] = field(default_factory=list)
    limit: int = 64 * 2**20
    rate: float = 0.0
    certificate: Path | None = None
    certificate_key: Path | None = None
    database: str | None = None
    address: str | None = None
    lease: float = 6.0
    log: str = "info"
    log_requests: bool = False
    sources: Path | None = None


_ANCHORS = 64  # largest number of workers per machine


class Home(ABC):
    """An opened folder or database of a service.

    Parameters
    ----------
    options : Options
        Location and key.
    adopting : bool
        Whether to open what its anchor refuses.

    Attributes
    ----------
    store : ServiceStore
        The store.
    ring : Ring
        Keys with which states are encrypted.
    keys : Keys
        Encoding of the keys of records.
    root : str
        Id of the service from which this one descends by adoptions; its own id if there were none.
    adoptions : int
        Number of adoptions that its ledgers have paid for.
    anchor : Anchor or None
        Detects restored backups; None while the service is being adopted.
    first_token : str or None
        The administrator's token, at the first start.
    name : str
        Name for messages.
    """

    store: Any
    ring: Ring
    name: str

    def __init__(self, options: Options, *, adopting: bool = False) -> None:
        self._options = options
        self.anchor: Anchor | None = None
        self._open_store(adopting)
        try:
            self.first_token = self._open(adopting)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _open_store(self, adopting: bool) -> None:
        """Open ``store`` under ``ring``."""

    @abstractmethod
    def _check_anchor(self) -> None:
        """Refuse a folder or database that is not what was served last."""

    def _open(self, adopting: bool) -> str | None:
        with self.store.read() as rows:
            about = rows.about()
        if "id" not in about:
            if adopting:
                raise StoreError(f"there is nothing to adopt: {self.name} holds no service")
            return self._begin()
        self._refuse_moved(about)
        if about["key"] != self.ring.name.hex():
            raise StoreError(f"{self.name} was written under another key; name that key")
        try:
            self.keys = Keys(self.ring.open(bytes.fromhex(about["secret"]), _SECRET))
        except Damaged as error:
            raise StoreError(
                f"{self.name} cannot be used: the secret of its keys cannot be read, because {error}. Put a whole "
                "backup in its place and run `reticent serve adopt`"
            ) from None
        self.id, self.commit = about["id"], int(about.get("commit", "0"))
        self.root = about.get("root", self.id)
        self.adoptions = int(about.get("adoptions", "0"))
        if not adopting:
            self._check_anchor()
        with self.store.read() as rows:
            bad = unopened(rows, self.ring)
        if bad:
            raise StoreError(
                f"{self.name} is damaged: what is stored of {', '.join(bad)} cannot be decrypted. "
                "Put a whole backup in its place and run `reticent serve adopt`"
            )
        return None

    def _begin(self) -> str | None:
        """At the first start: create an id, a secret, an anchor, and the administrator's token; returns the token."""
        with self.store.transaction() as rows:
            rows.alone()
            another = rows.fact("id") is not None  # another worker was faster
            if not another:
                secret = secrets.token_bytes(32)
                self.keys = Keys(secret)
                self.id, self.commit = secrets.token_hex(16), 0
                self.root, self.adoptions = self.id, 0
                # before the id is written, because an id without an anchor would count as a copy
                self.anchor = self.new_anchor()
                rows.set_about("id", self.id)
                rows.set_about("key", self.ring.name.hex())
                rows.set_about("secret", self.ring.seal(secret, _SECRET).hex())
                self.settle(rows)
                token, row = new_token("administrator", "made at the first start")
                rows.add_token(row)
                chain.begin(rows, row.created)
        return self._open(False) if another else token

    def _refuse_moved(self, about: dict[str, str]) -> None:
        if "moved" in about:
            raise StoreError(
                f"{self.name} was moved to a PostgreSQL database, and its streams continue there; serve it with "
                "--database, or repeat `reticent serve move` if that was interrupted"
            )

    @abstractmethod
    def settle(self, rows: Any) -> None:
        """Record, in a transaction, where this service is stored from now on."""

    @abstractmethod
    def must_be_idle(self) -> None:
        """Refuse if the service is running."""

    @abstractmethod
    def known_charges(self) -> int | None:
        """The number of charges, if an anchor knows it; refuses what needs no adoption."""

    @abstractmethod
    def retire_original(self) -> bool:
        """Refuse, from now on, the original of a copy that is being adopted; False if that is not possible here."""

    @abstractmethod
    def new_anchor(self) -> Anchor:
        """An anchor for the current state of the service."""

    def _nothing_to_adopt(self) -> StoreError:
        return StoreError(
            f"there is nothing to adopt: {self.name} is what was served last; start it with `reticent serve`"
        )

    def adoption_files(self) -> list[Path]:
        """Files in which adoptions of the service's lineage are counted."""
        files = [default_path(self.root)]
        if self._options.anchor is not None:
            files.append(self._options.anchor)
        return [file.with_name(file.name + ".adoptions") for file in files]

    def change_key(self, new: bytes) -> int:
        """Encrypt everything with another key, and return the number of states."""
        ring = Ring([new])
        with self.store.read() as rows:
            about = rows.about()
        with self.store.transaction() as rows:
            count = 0
            for stream in rows.streams():
                state = rows.state(stream.id)
                if state is None:  # the stream was deleted
                    continue
                place = state_place(stream.id)
                sealed = ring.seal(self.ring.open(state.sealed, place), place)
                rows.save(stream.id, replace(state, sealed=sealed))
                for generation, part, sealed in rows.persons(stream.id):
                    place = person_place(stream.id, generation, part)
                    sealed = ring.seal(self.ring.open(sealed, place), place)
                    rows.add_persons(stream.id, generation, part, sealed)
                count += 1
            secret = self.ring.open(bytes.fromhex(about["secret"]), _SECRET)
            rows.set_about("secret", ring.seal(secret, _SECRET).hex())
            rows.set_about("key", ring.name.hex())
            chain.append_act(rows, time.time(), "rotate key", states=count, key=ring.name.hex())
        self.store.compact()
        self.ring = ring
        return count

    def close(self) -> None:
        """Release the service for another process."""
        if self.anchor is not None:
            self.anchor.close()
        self.store.close()


class Folder(Home):
    """A folder that is open in this process only.

    Parameters
    ----------
    options : Options
        Location of the folder, and its key.
    adopting : bool
        Whether to open a folder that its anchor refuses.
    """

    def __init__(self, options: Options, *, adopting: bool = False) -> None:
        assert options.data is not None
        self.path = options.data.resolve()
        self.name = str(self.path)
        super().__init__(options, adopting=adopting)

    def _open_store(self, adopting: bool) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take()
            database = self.path / DATABASE
            fresh = not database.exists()
            if fresh and adopting:
                raise StoreError(f"there is nothing to adopt: {self.path} holds no service")
            self.ring = Ring([master_key(self._options.key_file, self.path / KEY, fresh)])
            self.store = SqliteStore(database)
        except BaseException:
            os.close(self._lock)
            raise

    def _take(self) -> None:
        if not try_lock(self._lock):
            raise StoreError(
                f"another `reticent serve` is using {self.path}; stop it, or serve another folder"
            )

    def _check_anchor(self) -> None:
        self.anchor = Anchor(self.anchor_path())
        self.anchor.check(self.id, self.commit, self.path)

    def anchor_path(self) -> Path:
        """The path of the anchor."""
        return self._options.anchor or default_path(self.id)

    def new_anchor(self) -> Anchor:
        device, inode = place_of(self.path)
        facts = Facts(self.id, self.root, self.commit, 0, str(self.path), inode, device)
        return Anchor(self.anchor_path(), facts)

    def settle(self, rows: Any) -> None:
        """Record nothing, because the anchor states where a folder is."""

    def must_be_idle(self) -> None:
        """An open folder has no other user."""

    def known_charges(self) -> int | None:
        try:
            anchor = Anchor(self.anchor_path())
        except StoreError:
            return None
        try:
            anchor.check(self.id, self.commit, self.path)
        except StoreError:
            return anchor.facts.charges if anchor.facts.id == self.id else None
        finally:
            anchor.close()
        raise self._nothing_to_adopt()

    def retire_original(self) -> bool:
        try:
            anchor = Anchor(self.anchor_path())
        except StoreError:  # the original was started in the meantime
            return False
        anchor.retire()
        anchor.close()
        return True

    def close(self) -> None:
        super().close()
        os.close(self._lock)


class Shared(Home):
    """A PostgreSQL database that several workers share.

    It is identified by the ids of the server, the database and the timeline, which differ for a dump that is restored
    elsewhere and for a server that was promoted. If a server's files were set back in place, the anchors of the
    machines that have served it detect it, because its transactions have lower numbers.

    Parameters
    ----------
    options : Options
        Location of the database, and its key.
    adopting : bool
        Whether to open a database that its anchor refuses.
    """

    name = "the database"

    def _open_store(self, adopting: bool) -> None:
        try:
            from reticent.service.postgres import PostgresStore
        except ImportError:
            raise StoreError("a database needs psycopg: pip install 'psycopg[binary]'") from None
        assert self._options.database is not None
        key = named_key(self._options.key_file)
        if key is None:
            raise StoreError(
                "workers that share a database share its key: name its file with --key-file, or put the key into "
                f"the environment variable {VARIABLE}; `openssl rand -hex 32` makes one"
            )
        self.ring = Ring([key])
        self.store = PostgresStore(self._options.database)

    def _anchor_paths(self) -> list[Path]:
        if self._options.anchor is not None:
            return [self._options.anchor]
        first = default_path(self.id)
        return [first.with_name(f"{first.name}.{number}") for number in range(_ANCHORS)]

    def _reached(self) -> Facts | None:
        """The last transaction that a worker of this machine knows of."""
        found = [facts for path in self._anchor_paths() if (facts := peek(path)) is not None]
        mine = [facts for facts in found if facts.id == self.id]
        return max(mine, key=lambda facts: facts.commit) if mine else None

    def _refusal(self) -> str | None:
        with self.store.read() as rows:
            there = rows.fact("place")
        if there != self.store.place:
            return "it was restored elsewhere, copied, or its server was promoted"
        reached = self._reached()
        if reached is not None and self.store.next_mark() <= reached.commit:
            return (
                "it was set back: transactions that a worker of this machine committed are missing"
            )
        return None

    def _check_anchor(self) -> None:
        why = self._refusal()
        if why is not None:
            raise StoreError(
                f"this is not the database that was served last: {why}. Its noise may have been used on other "
                "records; `reticent serve adopt` continues with fresh noise and charges for it"
            )
        self.anchor = self.new_anchor()

    def new_anchor(self) -> Anchor:
        reached = self._reached()
        commit = 0 if reached is None else reached.commit
        facts = Facts(self.id, self.root, commit, 0, self.store.place, 0, 0)
        for path in self._anchor_paths():
            try:
                return Anchor(path, facts)
            except StoreError as error:
                refused = error
        raise refused

    def settle(self, rows: Any) -> None:
        rows.set_about("place", self.store.place)

    def must_be_idle(self) -> None:
        with self.store.read() as rows:
            alive = [address for _, address, _ in rows.workers()]
        if alive:
            raise StoreError(
                f"workers are using the database, at {', '.join(alive)}; stop them first"
            )

    def known_charges(self) -> int | None:
        self.must_be_idle()
        if self._refusal() is None:
            raise self._nothing_to_adopt()
        # a worker of another machine may have charged more than those of this machine know
        return None if self._reached() is None else UNKNOWN

    def retire_original(self) -> bool:
        return False


def open_home(options: Options, *, adopting: bool = False) -> Home:
    """Open the folder or the database that the options name."""
    if options.database is None:
        return Folder(options, adopting=adopting)
    return Shared(options, adopting=adopting)


def new_token(role: str, label: str) -> tuple[str, TokenRow]:
    """A new token, and the row that is stored about it."""
    token = tokens.new_token()
    row = TokenRow(secrets.token_hex(8), tokens.hashed(token), role, label, None, time.time(), None)
    return token, row
