"""Joint predictions: each party sends its part of a score under a mask, and only the sum is revealed.

A score is the sum of the contributions of the parties' columns. Parts are integer multiples of a unit, modulo 2^64; the
parties add streams that cancel in the sum, drawn by SHAKE-256 from the key that they share for comparing ids. Without
the key the numbers look uniform except for their sum (docs/algorithms/vertical.md). A score is about one person and
carries no noise: each party must decide who may ask for scores, and about whom.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.vertical.alignment import alignment_digest, hash_ids

UNIT = 2.0**-32
_ROOM = 2.0**31
_KIND = "reticent scores"


def model_digest(weights: Mapping[str, Mapping[str, float]]) -> str:
    """What names a model: a digest of all parties' weights, however the file is laid out.

    Parameters
    ----------
    weights : mapping
        By party, the weights that are not zero, by the number of the column, as in a model file.
    """
    plain = {party: {str(k): float(v) for k, v in own.items()} for party, own in weights.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class ScorePart:
    """One party's masked part of the scores of some people.

    Parameters
    ----------
    name : str
        Name of the batch; all parties use the same name, once.
    party : str
        Name of the party.
    parties : tuple of str
        All parties whose parts make up the score.
    model : str
        Digest of the model.
    people : str
        Keyed digest of the ids and their order.
    masked : array of uint64
        One number per person.
    """

    name: str
    party: str
    parties: tuple[str, ...]
    model: str
    people: str
    masked: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        *,
        ids: Iterable[str | int],
        key: bytes,
        name: str,
        party: str,
        parties: Sequence[str],
        model: str,
    ) -> Self:
        """A party's own scores under its mask.

        Parameters
        ----------
        scores : array
            Contributions of the party's columns, one number per person.
        ids : iterable
            Ids of the people.
        key : bytes
            Key shared by the parties.
        name : str
            Name of the batch. Reusing a name for other scores would reveal their difference.
        party : str
            Name of the party.
        parties : sequence of str
            All parties of the model, in its order.
        model : str
            :func:`model_digest` of the model.
        """
        parties = tuple(parties)
        if party not in parties or len(set(parties)) != len(parties):
            raise ValueError(
                f"parties must name each party once, {party!r} among them; got {parties}"
            )
        scores = checks.real_array(scores, "scores")
        if scores.ndim != 1 or not np.isfinite(scores).all():
            raise ValueError("scores must be one finite number a person")
        if scores.size and np.abs(scores).max() >= _ROOM / len(parties):
            raise ValueError(
                f"scores must be below {_ROOM / len(parties):g} in absolute value, got "
                f"{np.abs(scores).max():g}; scale the columns"
            )
        hashed = hash_ids(ids, len(scores))
        people = alignment_digest(hashed, key, f"{_KIND}: {name}".encode()).hex()
        units = np.rint(scores / UNIT).astype(np.int64).view(np.uint64)
        place, about = parties.index(party), (name, model, people, *parties)
        ahead = _stream(key, place, about, len(units))
        behind = _stream(key, (place + 1) % len(parties), about, len(units))
        return cls(name, party, parties, model, people, units + ahead - behind)

    def digest(self) -> str:
        """A digest of everything that is sent."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The part as bytes: a line of JSON, then the numbers."""
        head = {
            "kind": _KIND,
            "version": 1,
            "name": self.name,
            "party": self.party,
            "parties": list(self.parties),
            "model": self.model,
            "people": self.people,
            "count": len(self.masked),
        }
        return json.dumps(head).encode() + b"\n" + self.masked.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, where: str = "the part") -> Self:
        """Read a part from bytes.

        Parameters
        ----------
        data : bytes
            The result of :meth:`to_bytes`.
        where : str
            Name of the part in error messages.

        Raises
        ------
        ValueError
            If the bytes are not a part.
        """
        line, _, body = data.partition(b"\n")
        try:
            head: dict[str, Any] = json.loads(line)
            if head["kind"] != _KIND or head["version"] != 1:
                raise KeyError
            texts = [head[field] for field in ("name", "party", "model", "people")]
            parties, count = tuple(head["parties"]), head["count"]
            if not all(isinstance(text, str) for text in (*texts, *parties)):
                raise TypeError
            if not isinstance(count, int) or len(body) != 8 * count:
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{where} is not a whole file of scores; make it again with `reticent vertical score`"
            ) from None
        name, party, model, people = texts
        return cls(
            name, party, parties, model, people, np.frombuffer(body, "<u8").astype(np.uint64)
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a part from a file.

        Parameters
        ----------
        path : path
            The file.
        """
        return cls.from_bytes(Path(path).read_bytes(), str(path))


def combined(parts: Iterable[ScorePart]) -> FloatArray:
    """The scores, from the parts of all parties.

    Parameters
    ----------
    parts : iterable of ScorePart
        One part of each party, in any order, of one batch.


    Examples
    --------
    >>> about = dict(
    ...     ids=["ann", "bo"], key=bytes(16), name="march", parties=("north", "south"), model="m"
    ... )
    >>> north = ScorePart.of([0.5, -1.0], party="north", **about)
    >>> south = ScorePart.of([0.25, 0.25], party="south", **about)
    >>> combined([south, north])
    array([ 0.75, -0.75])
    """
    parts = list(parts)
    if not parts:
        raise ValueError("parts must hold the part of every party, got none")
    first = parts[0]
    for part in parts[1:]:
        for field, words in (
            ("name", "are of different batches"),
            ("model", "are of different models"),
            ("parties", "name different parties"),
            ("people", "are about different people, or were made with different keys"),
        ):
            if getattr(part, field) != getattr(first, field):
                raise ValueError(
                    f"the parts of {first.party!r} and {part.party!r} {words}; ask both for the same"
                )
    given = sorted(part.party for part in parts)
    if given != sorted(first.parties):
        raise ValueError(f"parts must come from each of {sorted(first.parties)} once, got {given}")
    total = np.zeros(len(first.masked), np.uint64)
    for part in parts:
        total += part.masked
    return np.asarray(total.view(np.int64) * UNIT)


def _stream(key: bytes, place: int, about: Sequence[str], count: int) -> NDArray[np.uint64]:
    """Numbers that two neighbours in the circle of parties share."""
    whole = hashlib.shake_256()
    for word in (_KIND.encode(), key, str(place).encode(), *(text.encode() for text in about)):
        whole.update(len(word).to_bytes(8, "little") + word)
    return np.frombuffer(whole.digest(8 * count), "<u8").astype(np.uint64)
