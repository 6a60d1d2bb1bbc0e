"""Operations of a consortium: make the kits, start the server and the parties, run, read the model.

The functions take plain arguments and print nothing but progress; `reticent vertical` is a thin layer on top of them.

`provision` creates all private keys in one place. That is fine for a trial on one machine, or if all parties trust
whoever runs it; hand out each kit over a secure channel and take the `authority` folder offline.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special

from reticent import html_tables
from reticent.checks import FloatArray
from reticent.privacy import Budget, Ledger
from reticent.state.locks import lock
from reticent.trace.trace import Progress
from reticent.vertical.alignment import hash_ids
from reticent.vertical.columns import Columns
from reticent.vertical.flare import jobs, processes
from reticent.vertical.flare.kits import Federation, make_kits
from reticent.vertical.flare.settings import FILE, KEY_FILE, STATE_FOLDER, Settings
from reticent.vertical.flare.tables import read_table
from reticent.vertical.scores import ScorePart, combined, model_digest

PathLike = str | os.PathLike[str]
PARTIES_FILE = "federation.json"


class RunOutcome(dict[str, Any]):
    """The outcome of a run: plain data, as in the model file, with a readable `print`."""

    @property
    def weights(self) -> dict[str, dict[int, float]]:
        """Nonzero weights by party and by index of the column."""
        return {
            party: {int(column): weight for column, weight in own.items()}
            for party, own in self["weights"].items()
        }

    def __str__(self) -> str:
        lines = [str(self["summary"]), "weights, by the number of a party's column"]
        for party, own in self.weights.items():
            words = ", ".join(f"{column}: {weight:+.4f}" for column, weight in own.items())
            lines.append(f"  {party}: {words or 'none'}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<RunOutcome: {sum(map(len, self.weights.values()))} weights, {len(self.weights)} parties>"

    def _repr_html_(self) -> str:
        return html_tables.block(str(self))


def provision(
    folder: PathLike,
    parties: Iterable[str],
    *,
    name: str = "federation",
    host: str = "localhost",
    port: int = 8002,
    scheme: str = "tcp",
    analyst: str = "analyst@example.org",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Path]:
    """Make a start-up kit for the server, each party and the analyst, with closed policies.

    Parameters
    ----------
    folder
        New or empty folder; each kit becomes a subfolder.
    parties
        Names of the parties, in the order of their blocks in the model.
    name
        Name of the federation. Default: "federation".
    host
        Host name under which the parties reach the server. Default: "localhost".
    port
        Port of the server. Default: 8002.
    scheme
        ``"tcp"``, ``"http"`` or ``"grpc"``, all with mutual TLS. Default: "tcp".
    analyst
        E-mail address of the person who may start runs.
    settings
        Settings of each party that it would otherwise state at its first start; see
        :class:`reticent.vertical.flare.Settings`. For trials on one machine; a real party decides these itself.

    Returns
    -------
    dict
        Folders of the kits of ``"server"``, of the parties and of the analyst.
    """
    _needs_engine()
    federation = Federation(
        name, tuple(parties), host=host, port=port, scheme=scheme, analyst=analyst
    )
    chosen = {party: Settings.of(terms, party) for party, terms in (settings or {}).items()}
    unknown = sorted(set(chosen) - set(federation.parties))
    if unknown:
        raise ValueError(f"settings has entries for {unknown}, which are not among the parties")
    kits = make_kits(federation, Path(folder))
    key = secrets.token_bytes(32)
    for party in federation.parties:
        local = kits[party] / "local"
        path = local / KEY_FILE
        path.touch(mode=0o600)
        path.write_bytes(key)
        if party in chosen:
            chosen[party].write(local)
    listed = kits[analyst] / "local" / PARTIES_FILE
    listed.write_text(json.dumps({"parties": list(federation.parties)}) + "\n")
    return kits


def serve(kit: PathLike, *, wait: bool = True, log: PathLike | None = None) -> Any:
    """Start the server of a kit; see :func:`party` for `wait` and `log`."""
    return _start(Path(kit), "fed_server.json", wait=wait, log=log)


def party(kit: PathLike, *, wait: bool = True, log: PathLike | None = None, **settings: Any) -> Any:
    """Start a party, after checking its own settings and data.

    Parameters
    ----------
    kit
        Folder of the party's kit.
    wait
        Whether to wait until the party is stopped and return its exit status, or to leave it running and return its
        process. Default: True.
    log
        File for the engine's output; None shows it.
    **settings
        Entries of :class:`reticent.vertical.flare.Settings` to store in the kit; not needed for a party that was
        started before.
    """
    kit = Path(kit)
    check_party(kit, **settings)
    return _start(kit, "fed_client.json", wait=wait, log=log)


def check_party(kit: PathLike, **settings: Any) -> Settings:
    """Store a party's own settings, if any are given, and check them and its data."""
    local = Path(kit) / "local"
    given = {name: value for name, value in settings.items() if value is not None}
    for name in {"data", "key"} & set(given):
        given[name] = str(Path(given[name]).absolute())
    kept = local / FILE
    before = json.loads(kept.read_text()) if kept.exists() else {}
    chosen = Settings.of({**before, **given}, "the party") if given else Settings.read(local)
    chosen.table()
    chosen.secret(local)
    chosen.check_ledger(Path(kit) / STATE_FOLDER)
    if given:
        chosen.write(local)
    return chosen


def run(
    kit: PathLike,
    *,
    epsilon: float,
    delta: float,
    name: str = "run",
    neighbours: str = "zero-out",
    resume: bool = False,
    model: PathLike | None = None,
    parties: Iterable[str] | None = None,
    patience: float = 60.0,
    shown: bool = False,
    **terms: Any,
) -> RunOutcome:
    """Submit a run, follow it to its end, and fetch the model.

    Parameters
    ----------
    kit
        Folder of the analyst's kit.
    epsilon
        Privacy parameter epsilon of the run's budget; each party refuses what its own budget does not allow.
    delta
        Privacy parameter delta of the run's budget.
    neighbours
        Whether one record is blanked ("zero-out", the default) or replaced ("replace").
    name
        Name of the run; every run needs its own. Default: "run".
    resume
        Whether to continue the run of that name, which lost a party; nothing is spent again. Default: False.
    model
        File for the model; None only returns it.
    parties
        Names of the parties in the order of their blocks; None for all that were provisioned.
    patience
        Seconds to wait for the parties to connect, and for each answer. Default: 60.
    shown
        Whether to show the progress on standard error. Default: False.
    **terms
        Further arguments of :meth:`reticent.vertical.Coordinator.run`, such as ``rounds`` and ``radius``.

    Returns
    -------
    RunOutcome
        The model, as nonzero weights by party, and what the run cost.

    Raises
    ------
    RunFailed
        If the run ended without a model; the message says why and what to do.
    """
    _needs_engine()
    kit = Path(kit)
    if model is not None and not Path(model).absolute().parent.is_dir():
        raise FileNotFoundError(f"model must be a file in an existing folder, got {model}")
    if parties is None:
        parties = json.loads((kit / "local" / PARTIES_FILE).read_text())["parties"]
    parties = tuple(parties)
    budget = Budget(epsilon, delta, neighbours=neighbours)
    asked = {
        "name": name,
        "parties": list(parties),
        "resume": bool(resume),
        "patience": patience,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta, "neighbours": neighbours},
        "run": {key: value for key, value in terms.items() if value is not None},
    }
    # in a terminal the line moves from the first second; the number of rounds is known once the parties have begun
    with (
        tempfile.TemporaryDirectory() as scratch,
        Progress(f"run {name!r}", shown=shown) as line,
        jobs.session(kit) as opened,
    ):
        jobs.wait_for_parties(opened, parties, patience)
        job = jobs.submit(opened, jobs.write_job(asked, parties, Path(scratch)))
        meta = jobs.follow(opened, job, partial(_show, line), patience)
        outcome = jobs.fetch(opened, job, meta)
        _show(line, {"round": outcome["rounds"], "rounds": outcome["rounds"]})
    if model is not None:
        jobs.keep(Path(model), outcome)
    return RunOutcome(outcome)


def weights(kit: PathLike, model: PathLike) -> dict[str, float]:
    """A party's own part of a model by column name; only the party knows its column names."""
    _, own, _ = _own_part(Path(kit), model)
    names = Settings.read(Path(kit) / "local").table().names
    return {names[place]: weight for place, weight in own.items()}


def score(
    kit: PathLike,
    model: PathLike,
    *,
    data: PathLike,
    name: str,
    out: PathLike,
    again: bool = False,
) -> ScorePart:
    """Compute a party's part of the scores of some people, and write it to a file under its mask.

    Parameters
    ----------
    kit
        Folder of the party's kit.
    model
        Model file of a run.
    data
        Table of the people, with the columns of the party's own table, in any order of rows.
    name
        Name of the batch, the same at all parties. A name can be used for one batch only; the same batch may be written
        again.
    out
        Output file.
    again
        Whether these people may be scored with another model. Each model reveals one more combination of this party's
        columns to whoever gets the scores. Default: False.

    Returns
    -------
    ScorePart
        The masked scores that were written.
    """
    kit = Path(kit)
    if not jobs.NAME.fullmatch(name):
        raise ValueError(f"name must be lower-case letters, digits and hyphens; got {name!r}")
    mine, own, outcome = _own_part(kit, model)
    local = kit / "local"
    settings = Settings.read(local)
    names = settings.table().names
    if outcome["columns"][mine] != len(names):
        raise ValueError(
            f"the model has {outcome['columns'][mine]} columns for {mine!r}, but its table has {len(names)}; use the "
            "model that was learnt from this table"
        )
    people = read_table(Path(data).absolute(), id_column=settings.id_column, columns=names)
    part = ScorePart.of(
        Columns(people.features, settings.feature_bound).predictions(
            list(own), np.array(list(own.values()))
        ),
        ids=people.ids,
        key=settings.secret(local),
        name=name,
        party=mine,
        parties=tuple(outcome["weights"]),
        model=model_digest(outcome["weights"]),
    )
    folder = kit / STATE_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "scores.lock").open("w") as locked:
        lock(locked.fileno())
        _remember(folder / "scores.json", part, people.ids, settings.secret(local), again)
    jobs.keep(Path(out), part.to_bytes())
    return part


def predict(model: PathLike, parts: Iterable[PathLike]) -> FloatArray:
    """The predictions for the people of a batch, from the files of all parties, in the order of their ids.

    Parameters
    ----------
    model
        Model file with which the parts were scored. A logistic model gives probabilities.
    parts
        One file per party.

    Returns
    -------
    array
        Predictions.
    """
    outcome = json.loads(Path(model).read_text())
    loaded = [ScorePart.load(Path(part)) for part in parts]
    scores = combined(loaded)
    if loaded[0].model != model_digest(outcome["weights"]):
        raise ValueError(
            f"the parts were computed with another model than {model}; use the model that they were scored with"
        )
    return scipy.special.expit(scores) if outcome.get("loss") == "logistic" else scores


def _own_part(kit: Path, model: PathLike) -> tuple[str, dict[int, float], dict[str, Any]]:
    """The name of the party, its own weights by index of the column, and the model."""
    outcome = json.loads(Path(model).read_text())
    mine = json.loads((kit / "startup" / "fed_client.json").read_text())["client"]["fqsn"]
    if mine not in outcome["weights"]:
        raise ValueError(f"the model has no part for {mine!r}, only for {list(outcome['weights'])}")
    own = {int(place): float(weight) for place, weight in outcome["weights"][mine].items()}
    return mine, own, outcome


def _remember(path: Path, part: ScorePart, ids: list[str], key: bytes, again: bool) -> None:
    """Refuse a name that was used for another batch, and a further model for any of the same people."""
    kept = json.loads(path.read_text()) if path.exists() else {"batches": {}}
    sent = kept["batches"].get(part.name, part.digest())
    if sent != part.digest():
        raise ValueError(
            f"name={part.name!r} was used for other scores, and a mask that is used twice hides nothing; use another "
            "name, the same at all parties"
        )
    # person by person, because a list with one person more or less is another list
    marks = {hmac.digest(key, f"scored {one}".encode(), "sha256")[:16].hex() for one in ids}
    scored = kept.setdefault("people", {})
    repeated: set[str] = set()
    for model, those in scored.items():
        if model != part.model:
            repeated |= marks.intersection(those)
    # earlier versions kept a digest of each list
    lists = kept.get("models", {}).get(hash_ids(ids, len(ids)).hex(), [])
    if (repeated or set(lists) - {part.model}) and not again:
        who = f"{len(repeated) or len(ids)} of these people"
        raise ValueError(
            f"{who} were scored with another model before, and each model reveals one more combination of this party's "
            "columns; use --again to allow one more"
        )
    scored[part.model] = sorted(marks.union(scored.get(part.model, ())))
    kept["batches"][part.name] = sent
    jobs.keep(path, kept)


def ledger(kit: PathLike) -> Ledger:
    """A party's own ledger: what its records have spent, run by run, and what is left."""
    kit = Path(kit)
    settings = Settings.read(kit / "local")
    path = kit / STATE_FOLDER / "ledger"
    return Ledger(settings.budget, path if path.exists() else None, adaptive=True)


def _start(kit: Path, config: str, *, wait: bool, log: PathLike | None) -> Any:
    _needs_engine()
    process = processes.start(kit, config, log)
    return processes.stay_with(process) if wait else process


def _show(line: Progress, now: Mapping[str, Any]) -> None:
    if "rounds" in now:
        if line.size != now["rounds"]:
            line.resize(now["rounds"])
        line.advance(now["round"] - line.done)


def _needs_engine() -> None:
    from reticent.vertical.flare import engine

    engine.needed()
