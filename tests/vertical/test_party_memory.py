"""A party's memory: whatever ends its process, and wherever, each answer is drawn once."""

from __future__ import annotations

import os

import numpy as np
import pytest

import reticent
from reticent.state import files
from reticent.vertical import messages
from reticent.vertical.messages import (
    Choice,
    Fetch,
    Hello,
)
from reticent.vertical.party_memory import SiteFile

from .one_party import RUN, ask, begin, refused, restart, step


def test_a_repeated_request_gets_the_same_bytes(make_party, plan):
    noisy = plan.with_(selection_scale=400.0, value_scale=50.0, sketch_scale=50.0)
    party = make_party()
    requests = [noisy.request(RUN, 1), step(2), step(3), step(4)]
    answers = [party.handle(request.encode()) for request in requests]
    spent = len(party.ledger.entries)
    for request, answer in [*zip(requests, answers, strict=True)] * 2:
        assert party.handle(request.encode()) == answer
    assert len(party.ledger.entries) == spent
    text = refused(party, step(3, round=9), "sequence")
    assert "not the same" in text
    assert party._memory.rounds == 3


def test_a_killed_party_goes_on_where_it_was(make_party, noisy, tmp_path):
    requests = [noisy.request(RUN, 1), step(2), step(3), step(4)]
    party = restart(make_party, tmp_path / "site")
    answers = [party.handle(request.encode()) for request in requests[:3]]
    for file in ("state", "journal", "ledger"):
        assert (tmp_path / "site" / file).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    del party
    party = restart(make_party, tmp_path / "site")
    for request, answer in zip(requests, answers, strict=False):
        assert party.handle(request.encode()) == answer
    assert isinstance(ask(party, requests[3]), Choice)
    assert len(party.ledger.entries) == 1
    chosen = messages.decode(answers[1]).column
    fetch = Fetch(run=RUN, sequence=5, column=chosen)
    sketch = party.handle(fetch.encode())
    assert restart(make_party, tmp_path / "site").handle(fetch.encode()) == sketch
    # a later request for the same column gives the same sketch, drawn once
    again = ask(restart(make_party, tmp_path / "site"), Fetch(run=RUN, sequence=6, column=chosen))
    assert np.array_equal(again.sketch, messages.decode(sketch).sketch)


def test_a_seeded_party_that_is_killed_draws_what_it_would_have_drawn(make_party, noisy, tmp_path):
    requests = [noisy.request(RUN, 1), *(step(k) for k in range(2, 7))]
    whole = restart(make_party, tmp_path / "whole", seed=3)
    expected = [whole.handle(request.encode()) for request in requests]
    found = [
        restart(make_party, tmp_path / "often killed", seed=3).handle(request.encode())
        for request in requests
    ]
    assert found == expected


@pytest.mark.parametrize("written", [0, 5, 200, None])
def test_killed_while_an_answer_is_written_or_before_it_left(
    make_party, noisy, tmp_path, monkeypatch, written
):
    """Only what is whole on disk is repeated; what is not never left, and is drawn afresh."""
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    ask(party, step(2))
    honest = SiteFile._write
    lost = []

    def write(self, data, how):
        lost.append(data)
        honest(self, data if written is None else data[:written], how)
        raise KeyboardInterrupt

    monkeypatch.setattr(SiteFile, "_write", write)
    with pytest.raises(KeyboardInterrupt):
        party.handle(step(3).encode())
    monkeypatch.undo()
    party = restart(make_party, tmp_path)
    assert party._memory.rounds == (1 if written is not None else 2)
    answer = party.handle(step(3).encode())
    if written is None:
        assert answer == files.loads(lost[0][8:])["answer"].tobytes()
    assert party._memory.rounds == 2
    again = restart(make_party, tmp_path)
    assert again.handle(step(3).encode()) == answer
    assert isinstance(ask(again, step(4)), Choice)


def test_a_full_disk_lets_no_answer_out(make_party, noisy, tmp_path, monkeypatch):
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    honest = os.write
    monkeypatch.setattr(
        "reticent.vertical.party_memory.os.write", lambda f, data: honest(f, data[:100])
    )
    refused(party, step(2), "internal")
    monkeypatch.undo()
    assert party._memory.rounds == 0
    assert isinstance(ask(party, step(2)), Choice)
    assert restart(make_party, tmp_path)._memory.rounds == 1


def test_a_damaged_journal_is_not_guessed_at(make_party, noisy, tmp_path):
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    ask(party, step(2))
    whole = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(whole[:60] + b"x" + whole[61:])
    with pytest.raises(ValueError, match="damaged"):
        restart(make_party, tmp_path)
    (tmp_path / "journal").unlink()
    with pytest.raises(RuntimeError, match="disappeared"):
        restart(make_party, tmp_path)
    assert whole.count(b"reticent-state") == 1


@pytest.mark.parametrize("moment", ["before the ledger", "after the ledger"])
def test_killed_while_a_run_is_opened(make_party, noisy, tmp_path, monkeypatch, moment):
    party = restart(make_party, tmp_path)
    honest = reticent.Ledger.spend

    def spend(self, guarantee, what):
        if moment == "after the ledger":
            honest(self, guarantee, what)
        raise KeyboardInterrupt

    monkeypatch.setattr(reticent.Ledger, "spend", spend)
    with pytest.raises(KeyboardInterrupt):
        party.handle(noisy.request(RUN, 1).encode())
    monkeypatch.undo()
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    assert len(party.ledger.entries) == 1  # paid once, in either case
    assert isinstance(ask(party, step(2)), Choice)


def test_a_lost_state_is_not_drawn_anew(make_party, noisy, tmp_path):
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    ask(party, step(2))
    (tmp_path / "state").unlink()
    refused(party, step(3), "internal")
    party = restart(make_party, tmp_path)
    assert "not known here any more" in refused(party, noisy.request(RUN, 1), "plan")
    begin(party, noisy, run=bytes(16))  # another run is another matter, and is paid for
    assert len(party.ledger.entries) == 2


def test_two_objects_on_one_folder_are_one_party(make_party, noisy, tmp_path):
    one, two = restart(make_party, tmp_path), restart(make_party, tmp_path)
    begin(one, noisy)
    answer = one.handle(step(2).encode())
    assert two.handle(step(2).encode()) == answer
    assert isinstance(ask(two, step(3)), Choice)
    assert isinstance(ask(one, step(4)), Choice)
    assert one._memory.rounds == 3
    assert len(one.ledger.entries) == 1


def test_a_folder_belongs_to_one_party(make_party, noisy, tmp_path):
    begin(restart(make_party, tmp_path), noisy)
    with pytest.raises(ValueError, match="folder of its own"):
        restart(make_party, tmp_path, name="east")


def test_the_noise_of_a_folder_stays_seeded_whatever_it_is_restarted_with(
    make_party, noisy, tmp_path
):
    begin(restart(make_party, tmp_path, seed=3), noisy)
    party = restart(make_party, tmp_path)
    assert isinstance(ask(party, step(2)), Choice)  # by the generator that was paid for
    assert ask(party, Hello(run=RUN, sequence=0)).seeded
    assert '"seeded": true' in begin(party, noisy, run=bytes(16)).guarantee
