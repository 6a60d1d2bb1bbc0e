"""What a site decides for itself: its data, its bounds, its budget, and the alignment key.

All of it is in one file of the site's own kit, `local/reticent.json`, readable by its owner only. Nothing here may come
from a job. A job names classes and passes them arguments, so the class that runs at a site takes no arguments and reads
this file instead.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from reticent import checks
from reticent.privacy import Budget, Ledger
from reticent.vertical.flare.tables import PartyTable, read_table
from reticent.vertical.messages import MAX_BYTES

if TYPE_CHECKING:
    from reticent.vertical.party import Party

FILE = "reticent.json"
KEY_FILE = "alignment.key"
STATE_FOLDER = "private"
_FEWEST_KEY_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A site's own terms.

    Parameters
    ----------
    data
        Table of the site's columns: `.csv`, `.parquet` or `.npz` (see `read_table`); an absolute path.
    id_column
        Column that identifies the person of a row.
    label_column
        Column to be predicted, if this site holds it.
    columns
        Columns that may be used, in order; None for all others. Their names stay at the site.
    epsilon
        Privacy parameter epsilon of the site's budget for all runs together.
    delta
        Privacy parameter delta of the site's budget for all runs together.
    neighbours
        Whether one record is blanked ("zero-out", the default) or replaced ("replace").
    feature_bound
        Bound to which entries of features are clipped, in absolute value. Default: 1.
    label_bound
        Bound to which labels are clipped, in absolute value. Default: 1.
    key
        File with the secret for comparing row ids, which the sites share and the server does not know. Relative paths
        are relative to the settings.
    largest_request
        Longest accepted message, in bytes; longer ones are refused unread.
    noise_precision
        ``"lattice"`` (the default), or ``"float"`` for simulations.
    seed
        Seed of the noise, for experiments only.

    Examples
    --------
    >>> Settings(data="/srv/north.csv", id_column="patient", epsilon=1.0, delta=1e-6).budget
    Budget(epsilon=1.0, delta=1e-06, neighbours='zero-out', window=None, fade=None)
    """

    data: str
    id_column: str
    epsilon: float
    delta: float
    label_column: str | None = None
    columns: tuple[str, ...] | None = None
    neighbours: str = "zero-out"
    feature_bound: float = 1.0
    label_bound: float = 1.0
    key: str = KEY_FILE
    largest_request: int = MAX_BYTES
    noise_precision: str = "lattice"
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.data or not Path(self.data).is_absolute():
            raise ValueError(f"data must be an absolute path, got {self.data!r}")
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
        self.budget  # noqa: B018  (checks epsilon, delta and neighbours)
        for name in ("feature_bound", "label_bound"):
            checks.positive(getattr(self, name), name)
        checks.integer(self.largest_request, "largest_request", low=1, high=MAX_BYTES)
        checks.choice(self.noise_precision, "noise_precision", ("lattice", "float"))

    @property
    def budget(self) -> Budget:
        """The budget that this site allows, whatever it is asked."""
        return Budget(self.epsilon, self.delta, neighbours=self.neighbours)

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str = "settings") -> Self:
        """Settings from plain data; an unknown or a missing entry is an error that names it."""
        known = {field.name: field for field in dataclasses.fields(cls)}
        unknown = sorted(set(content) - set(known))
        if unknown:
            raise ValueError(f"{where} has unknown entries {unknown}; allowed are {list(known)}")
        needed = {name for name, field in known.items() if field.default is dataclasses.MISSING}
        missing = sorted(needed - set(content))
        if missing:
            raise ValueError(f"{where} lacks {missing}; the site itself must state them")
        return cls(**content)

    @classmethod
    def read(cls, local: Path) -> Self:
        """The settings in a kit's `local` folder."""
        path = local / FILE
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing: start the site once with its data and budget, for example "
                "`reticent vertical party KIT --data ... --id-column ... --epsilon ... --delta ...`"
            )
        return cls.of(json.loads(path.read_text()), str(path))

    def write(self, local: Path) -> Path:
        """Write the settings to a kit's `local` folder, readable by their owner only."""
        path = local / FILE
        draft = path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        os.replace(draft, path)
        return path

    def table(self) -> PartyTable:
        """The site's own data."""
        return read_table(
            Path(self.data),
            id_column=self.id_column,
            label_column=self.label_column,
            columns=self.columns,
        )

    def secret(self, local: Path) -> bytes:
        """The key of the alignment."""
        path = local / self.key
        if not path.exists():
            raise FileNotFoundError(
                f"the alignment key {path} is missing: copy the key that the sites share to that place"
            )
        key = path.read_bytes()
        if len(key) < _FEWEST_KEY_BYTES:
            raise ValueError(f"the alignment key {path} must have at least 16 bytes")
        return key

    def check_ledger(self, folder: Path) -> None:
        """Raise an error if the ledger in `folder` belongs to another budget."""
        path = folder / "ledger"
        if path.exists():
            try:
                Ledger(self.budget, path, adaptive=True)
            except ValueError as error:
                raise ValueError(
                    f"epsilon, delta and neighbours cannot change once a ledger exists: {error}"
                ) from None

    def party(self, name: str, *, local: Path, folder: Path) -> Party:
        """The party that answers for this site, with its ledger and its state in `folder`."""
        from reticent.vertical.party import Party

        table = self.table()
        return Party(
            name,
            table.features,
            ids=table.ids,
            ledger=self.budget,
            key=self.secret(local),
            labels=table.labels,
            feature_bound=self.feature_bound,
            label_bound=self.label_bound,
            folder=folder,
            seed=self.seed,
            noise_precision=self.noise_precision,
        )
