"""A party: its answers against plain NumPy, its refusals, and its budget."""

from __future__ import annotations

import copy
import logging
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr

import reticent
from reticent.state import files
from reticent.vertical import Party, Plan, SignSketch, messages
from reticent.vertical.messages import (
    AskLabels,
    Choice,
    Done,
    End,
    Fetch,
    Hello,
    Ready,
    Sketch,
)
from reticent.vertical.plan import Terms, guarantee_of

from .one_party import RUN, ask, begin, consider, contents, refused, restart, step

# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("own", ["clear", "sketched"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_choice_value_and_sketch_against_numpy(table, make_party, plan, sparse, own, loss):
    A, y = table
    block = A[:, :4]
    party = make_party(columns=slice(0, 4))
    if sparse:
        party = Party("north", sp.csr_array(block), ids=range(400), key=bytes(16), labels=y,
                      ledger=reticent.Budget(1e18, 1e-6), seed=1, noise_precision="float")  # fmt: skip
    plan = plan.with_(own=own, loss=loss)
    begin(party, plan)
    rng = np.random.default_rng(0)
    others = rng.normal(size=50)
    weights = np.array([0.3, -0.2])
    answer = ask(party, step(2, places=[0, 3], weights=weights, others=others))
    assert isinstance(answer, Choice)
    sketch = SignSketch(400, 50, seed=3)
    S = np.zeros((50, 400))
    for k in range(4):
        S[sketch.places[:, k], np.arange(400)] = sketch.signs[:, k]
    z = block[:, [0, 3]] @ weights if own == "clear" else np.zeros(400)
    elsewhere = S.T @ others / 4
    if loss == "squared":
        slopes = z + elsewhere - y
    else:
        slopes = 1 / (1 + np.exp(-z)) - (1 + y) / 2
        slopes += elsewhere / (1 + np.exp(-z)) / (1 + np.exp(z))
    scores = block.T @ np.clip(slopes, -2, 2)
    column = int(np.argmax(np.abs(scores)))
    assert answer.column == column
    assert answer.sign == -np.sign(scores[column])
    assert answer.value[0] == pytest.approx(np.abs(scores).max(), abs=1e-4)
    assert not answer.sketch.size  # with values, the coordinator asks the winner only
    got = ask(party, Fetch(run=RUN, sequence=3, column=column))
    assert np.allclose(got.sketch, S @ block[:, column], atol=1e-4)


def test_the_sketch_comes_with_the_choice_where_no_values_are_asked_for(make_party, plan):
    party = make_party()
    begin(party, plan.with_(value_scale=0.0))
    first = ask(party, step(2))
    assert len(first.sketch) == 50
    again = ask(party, step(3))
    assert again.column == first.column
    assert not again.sketch.size  # sent once
    last = ask(party, step(4, last=True, places=[first.column], weights=[0.4]))
    assert last.column != first.column
    assert not last.sketch.size  # nobody would use it


def test_after_the_agreed_number_of_columns_only_those_are_chosen(make_party, plan):
    party = make_party(columns=slice(0, 12))
    begin(party, plan.with_(value_scale=0.0, columns=1))
    first = ask(party, step(2))
    assert first.column == 1
    push = step(3, places=[1], weights=[0.4])
    assert ask(party, push).column == 1  # column 6 is better, but would be a second one
    free = ask(party, step(4, places=[1], weights=[0.4], last=True))
    assert free.column == 6


def test_labels_elsewhere(table, make_party, plan):
    A, y = table
    holder = make_party(labels=y)
    begin(holder, plan.with_(labels="send", label_scale=1e-6))
    sent = ask(holder, AskLabels(run=RUN, sequence=2)).sketch
    sketch = SignSketch(400, 50, seed=3)
    assert np.allclose(sent, sketch.apply(y), atol=1e-4)
    assert np.array_equal(sent, ask(holder, AskLabels(run=RUN, sequence=3)).sketch)
    blind = make_party("south", slice(4, 8), labels=None)
    begin(blind, plan.with_(labels="sketched"))
    assert "not come" in refused(blind, step(2), "plan")
    answer = ask(blind, step(2, labels=sent))
    scores = A[:, 4:8].T @ np.clip(-sketch.estimate(sent), -2, 2)
    assert answer.column == int(np.argmax(np.abs(scores)))
    assert isinstance(ask(blind, step(3)), Choice)  # remembered
    refused(make_party(labels=None), plan.request(RUN, 1), "data")
    refused(blind, AskLabels(run=RUN, sequence=4), "plan")


def test_nothing_a_coordinator_sends_moves_a_slope_beyond_the_clip(table, make_party, plan):
    """The largest score that any prediction gives is clip times the column's absolute sum."""
    A, _ = table
    for others in (np.full(50, 1e99), np.full(50, -1e99), np.zeros(50)):
        party = make_party()
        begin(party, plan)
        answer = ask(party, step(2, others=others, places=[0], weights=[1e99]))
        assert abs(answer.value[0]) <= 2.0 * np.abs(A[:, :4]).sum(axis=0).max() + 1e-3


def test_the_null_row_contributes_nothing(table, make_party, plan):
    """A row of zeros gives every score and every sketch exactly what leaving it out would."""
    A, y = table
    short, labels = A[:, :4].copy(), y.copy()
    short[7], labels[7] = 0.0, 0.0
    answers = []
    for value in (0.0, 1.0):  # what the label of a blanked row says does not matter either
        labels[7] = value
        party = Party("p", short, ids=range(400), key=bytes(16), labels=labels, seed=1,
                      ledger=reticent.Budget(1e18, 1e-6), noise_precision="float")  # fmt: skip
        begin(party, plan)
        answers.append(ask(party, step(2, others=np.ones(50))).encode())
    assert answers[0] == answers[1]


def test_features_and_labels_are_clipped(make_party, plan):
    party = Party("p", np.full((400, 2), 9.0), ids=range(400), key=bytes(16), seed=1,
                  labels=np.full(400, 7.0), ledger=reticent.Budget(1e18, 1e-6), feature_bound=0.5,
                  label_bound=2.0, noise_precision="float")  # fmt: skip
    begin(party, plan.with_(clip=100.0, columns=1))
    assert ask(party, step(2)).value[0] == pytest.approx(400 * 0.5 * 2.0, rel=1e-6)


# ---------------------------------------------------------------- what it charges


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_the_cost_of_a_plan_by_another_road(neighbours):
    """Rényi divergences of bounded range and of Gaussians, written out, at every order."""
    plan = messages_plan()
    terms = Terms(0.5, 2.0, neighbours)
    factor = 1.0 if neighbours == "zero-out" else 2.0
    score = factor * 0.5 * 3.0
    orders = np.concatenate([np.linspace(1.01, 20, 400), np.geomspace(20, 1e4, 400)])
    e0 = 2 * score / 40.0

    def bounded_range(a):
        t = np.linspace(1e-9, e0 - 1e-9, 400)
        q = (np.exp(-t) - np.exp(-e0)) / (1 - np.exp(-e0))
        return np.max(np.logaddexp(np.log(q) + a * t, np.log1p(-q) + a * (t - e0))) / (a - 1)

    mu2 = 12 * (score / 30.0) ** 2 + 3 * (factor * 0.5 * 2.0 / 9.0) ** 2
    mu2 += (factor * 2.0 * 2.0 / 80.0) ** 2
    total = np.array([12 * bounded_range(a) + a * mu2 / 2 for a in orders])
    delta = 1e-6
    epsilon = np.min(
        total + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    )
    claimed = guarantee_of(plan, terms).epsilon(delta)
    assert claimed <= epsilon * (1 + 1e-3)
    assert claimed >= 0.9 * epsilon  # other bounds may be a little better, not much


def messages_plan():
    return Plan(rows=1000, rounds=12, columns=3, clip=3.0, selection_scale=40.0, value_scale=30.0,
                sketch_scale=9.0, label_scale=80.0, labels="send", sketch_size=64)  # fmt: skip


def test_a_plan_beyond_the_budget_is_refused_and_costs_nothing(make_party, plan, caplog):
    honest = plan.with_(selection_scale=400.0, value_scale=400.0, sketch_scale=400.0)
    party = make_party(ledger=reticent.Budget(1.0, 1e-6))
    with caplog.at_level(logging.WARNING):
        text = refused(party, plan.request(RUN, 1), "budget")
    assert "epsilon" not in text  # the site's own log has the figures
    assert "does not fit" in caplog.text
    assert party.spent is None
    begin(party, honest)
    assert party.spent.epsilon(1e-6) <= 1.0
    assert party.spent.epsilon(1e-6) == pytest.approx(
        guarantee_of(honest, Terms(lattice=False, seeded=True)).epsilon(1e-6)
    )
    # the run goes on although another plan was refused in between
    refused(party, plan.request(bytes(16), 1), "budget")
    assert isinstance(ask(party, step(2)), Choice)


def test_a_plan_that_is_considered_changes_nothing(make_party, noisy, tmp_path):
    party = restart(make_party, tmp_path)
    fresh = contents(tmp_path)
    asked = consider(noisy)
    answer = ask(party, asked)
    assert isinstance(answer, Ready)
    assert (answer.run, answer.sequence) == (RUN, 0)
    assert contents(tmp_path) == fresh
    assert party.spent is None
    assert begin(party, noisy).guarantee == answer.guarantee
    # also while a run is open, whose noise it must not touch
    ask(party, step(2))
    kept, source = contents(tmp_path), files.dumps(party._source.state())
    assert isinstance(ask(party, consider(noisy, run=bytes(16))), Ready)
    refused(party, consider(noisy, run=bytes(16), selection_scale=1e-3), "budget")
    assert contents(tmp_path) == kept
    assert files.dumps(party._source.state()) == source
    assert len(party.ledger.entries) == 1
    assert isinstance(ask(party, step(3)), Choice)


def test_considering_says_what_a_beginning_would(make_party, noisy, tmp_path):
    """Before the run, in it, and after it; the ledger is asked each time, nothing is cached."""
    cost = guarantee_of(noisy, Terms(lattice=True)).epsilon(1e-6)
    party = restart(make_party, tmp_path, ledger=reticent.Budget(1.2 * cost, 1e-6))
    first = party.handle(consider(noisy).encode())
    begin(party, noisy)
    assert party.handle(consider(noisy).encode()) == first  # it fits no second time, but it is paid
    assert restart(make_party, tmp_path, ledger=reticent.Budget(1.2 * cost, 1e-6)).handle(
        consider(noisy).encode()
    ) == first  # fmt: skip
    refused(party, consider(noisy.with_(rounds=3)), "sequence")
    other = bytes(16)
    refused(party, consider(noisy, run=other), "budget")
    cheap = noisy.with_(rounds=1, columns=0)
    assert isinstance(ask(party, consider(cheap, run=other)), Ready)
    begin(party, cheap, run=other)
    refused(party, consider(noisy), "sequence")  # that run is over


def test_a_plan_that_fitted_may_be_refused_when_the_ledger_was_used_in_between(make_party, noisy):
    budget = reticent.Budget(1.2 * guarantee_of(noisy, Terms()).epsilon(1e-6), 1e-6)
    party = make_party(ledger=budget)
    assert isinstance(ask(party, consider(noisy)), Ready)
    begin(party, noisy, run=bytes(16))
    refused(party, consider(noisy), "budget")
    refused(party, noisy.request(RUN, 1), "budget")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"clip": -1.0}, "plan"), ({"loss": "hinge"}, "plan"), ({"sketch_size": 401}, "plan"),
        ({"columns": 5}, "plan"), ({"rows": 399}, "data"), ({"sequence": 1}, "sequence"),
    ],
)  # fmt: skip
def test_what_cannot_be_considered(make_party, plan, fields, reason):
    party = make_party()
    refused(party, consider(plan, **fields), reason)
    assert messages.decode(party.handle(consider(plan).encode()[:-1])).reason == "malformed"
    assert party.spent is None
    assert party._memory.run == ""


def test_what_was_not_paid_for_is_refused(make_party, plan):
    party = make_party()
    begin(party, plan.with_(rounds=2, columns=1))
    first = ask(party, step(2))
    unchosen = (first.column + 1) % 4
    refused(party, Fetch(run=RUN, sequence=3, column=unchosen), "plan")
    refused(party, Fetch(run=RUN, sequence=3, column=2**31), "plan")
    assert isinstance(ask(party, Fetch(run=RUN, sequence=3, column=first.column)), Sketch)
    second = ask(party, step(4, places=[first.column], weights=[0.4], last=True))
    assert second.column != first.column
    refused(party, Fetch(run=RUN, sequence=5, column=second.column), "plan")
    assert "rounds" in refused(party, step(5), "plan")
    assert isinstance(ask(party, End(run=RUN, sequence=5)), Done)
    refused(party, step(6), "sequence")
    assert len(party.ledger.entries) == 1


def test_two_runs_are_paid_twice(make_party, plan):
    cheap = plan.with_(selection_scale=50.0, value_scale=50.0, sketch_scale=50.0)
    party = make_party(ledger=reticent.Budget(1.2, 1e-6))
    runs = 0
    while isinstance(ask(party, cheap.request(bytes([runs]) * 16, 1)), Ready):
        runs += 1
        assert runs < 20
    assert runs >= 2
    assert len(party.ledger.entries) == runs
    assert party.spent.epsilon(1e-6) <= 1.2
    # an earlier run is over
    refused(party, step(2, run=bytes(16)), "sequence")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"rows": 399}, "data"), ({"columns": 5}, "plan")],
)  # fmt: skip
def test_plans_that_do_not_fit(make_party, plan, changes, reason):
    party = make_party()
    refused(party, plan.with_(**changes).request(RUN, 1), reason)
    assert party.spent is None


def test_noise_too_small_for_the_lattice_is_refused_beforehand(make_party, plan):
    party = make_party(noise_precision="lattice")
    refused(party, plan.with_(sketch_scale=1e-9).request(RUN, 1), "plan")
    begin(party, plan.with_(sketch_scale=1e-3, value_scale=1e-3))
    assert isinstance(ask(party, step(2)), Choice)


def test_lattice_noise_has_the_stated_size(make_party, plan):
    """A chi-square of 400 degrees of freedom: outside of +-40 % with probability below 1e-6."""
    party = make_party(noise_precision="lattice", seed=5)
    begin(party, plan.with_(sketch_scale=10.0, sketch_size=400))
    column = ask(party, step(2)).column
    got = ask(party, Fetch(run=RUN, sequence=3, column=column)).sketch
    noise = got - party._columns.column(column)
    assert np.var(noise) / 100.0 == pytest.approx(1.0, abs=0.4)


# ---------------------------------------------------------------- malformed


def test_everything_that_is_not_a_request_is_refused(make_party, plan):
    party = make_party()
    bad = [b"", b"TV", b"x" * 100, Hello(run=RUN, sequence=0).encode()[:-1], "text", None, 3]
    for data in bad:
        answer = messages.decode(party.handle(data))
        assert answer.reason == "malformed"
    refused(party, Done(run=RUN, sequence=1), "malformed")
    refused(party, step(1), "sequence")
    begin(party, plan)
    refused(party, step(2, others=np.ones(49)), "malformed")
    refused(party, step(2, others=np.full(50, 1e101)), "malformed")
    refused(party, step(2, places=[4], weights=[1.0]), "malformed")
    refused(party, step(2, places=[1], weights=[]), "malformed")
    refused(party, step(2, weights=[1e200], places=[0]), "malformed")
    refused(party, step(9), "sequence")
    refused(party, plan.with_(rounds=3).request(RUN, 1), "sequence")
    wrong = plan.request(RUN, 1)
    object.__setattr__(wrong, "clip", -1.0)
    object.__setattr__(wrong, "run", bytes(16))
    refused(party, wrong, "plan")
    object.__setattr__(wrong, "loss", "ä" * 30_000)  # quoted in the refusal, but not at length
    assert len(refused(party, wrong, "plan")) <= 1000
    assert isinstance(ask(party, step(2)), Choice)
    assert len(party.ledger.entries) == 1


def test_an_error_inside_says_nothing_about_the_records(make_party, plan, monkeypatch, caplog):
    party = make_party()
    begin(party, plan)

    def broken(*_):
        raise ArithmeticError(f"the record is {3607 * 3803}")

    monkeypatch.setattr("reticent.vertical.columns.weighted_rows", broken)
    with caplog.at_level(logging.ERROR):
        text = refused(party, step(2), "internal")
    assert "13717421" not in text + caplog.text
    assert "ArithmeticError" in caplog.text
    monkeypatch.undo()
    assert isinstance(ask(party, step(2)), Choice)


def test_a_party_is_not_copied(make_party):
    party = make_party()
    for twin in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            twin(party)


# ---------------------------------------------------------------- building one


def test_ids_are_compared_by_a_keyed_hash(make_party):
    def digest(run=RUN, **changes):
        return ask(make_party(**changes), Hello(run=run, sequence=0)).digest

    same = digest()
    assert digest(name="south", labels=None) == same
    assert digest(ids=[*range(399), 400]) != same
    assert digest(ids=[1, 0, *range(2, 400)]) != same  # the order counts
    assert digest(ids=[str(k) for k in range(400)]) != same  # and the kind
    assert digest(ids=np.arange(400)) == same
    assert digest(key=bytes(16)) != same
    assert digest(run=bytes(16)) != same  # runs cannot be linked through it


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"ids": range(399)}, ValueError, "each of the 400 rows"),
        ({"ids": [0, 0, *range(2, 400)]}, ValueError, "repeated"),
        ({"ids": [1.5] * 400}, TypeError, "integers"),
        ({"key": b"short"}, ValueError, "16 bytes"),
        ({"ledger": 1.0}, TypeError, "ledger"),
        ({"ledger": reticent.Budget(1.0, 1e-6, window=5)}, ValueError, "window"),
        ({"labels": [1.0]}, ValueError, "labels"),
        ({"feature_bound": 0.0}, ValueError, "feature_bound"),
        ({"noise_precision": "single"}, ValueError, "noise_precision"),
        ({"name": ""}, ValueError, "name"),
    ],
)
def test_bad_input(make_party, changes, error, words):
    with pytest.raises(error, match=words):
        make_party(**changes)


def test_the_guarantee_says_what_is_for_experiments_only(make_party, noisy):
    party = make_party()
    answer = begin(party, noisy)
    assert '"seeded": true' in answer.guarantee
    assert '"lattice": false' in answer.guarantee
    assert party.spent.seeded


def test_a_forked_party_without_a_folder_refuses():
    """Two processes with one memory each would answer one request with different noise."""
    party = Party(
        "one", np.eye(6), ids=range(6), ledger=reticent.Budget(1.0, 1e-6), key=bytes(16), seed=0
    )
    hello = messages.Hello(run=bytes(16), sequence=0).encode()
    assert isinstance(messages.decode(party.handle(hello)), messages.Welcome)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's coverage is not collected
        os.write(writer, type(messages.decode(party.handle(hello))).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"Refusal"
    assert isinstance(messages.decode(party.handle(hello)), messages.Welcome)


def test_a_ledger_that_forgot_an_open_run_stops_it(tmp_path):
    """A folder remembers the run; a ledger in memory does not outlive the process."""
    about = {"ids": range(6), "key": bytes(16), "seed": 0, "folder": tmp_path, "labels": np.ones(6)}
    plan = Plan(
        rows=6, rounds=2, columns=0, clip=2.0, selection_scale=50.0, sketch_scale=1.0, sketch_size=6
    )
    budget = reticent.Budget(5.0, 1e-6)
    party = Party("one", np.eye(6), ledger=reticent.Ledger(budget, adaptive=True), **about)
    assert isinstance(messages.decode(party.handle(plan.request(bytes(16), 1).encode())), Ready)
    again = Party("one", np.eye(6), ledger=reticent.Ledger(budget, adaptive=True), **about)
    answer = messages.decode(again.handle(messages.End(run=bytes(16), sequence=2).encode()))
    assert answer.reason == "budget"
    assert not again.ledger.entries


@pytest.mark.parametrize("changes", [{"feature_bound": 100.0}, {"noise_precision": "float"}])
def test_a_party_restarted_on_other_terms_does_not_go_on(make_party, noisy, tmp_path, changes):
    """What is left of the run was paid for on the old ones."""
    ledger = reticent.Budget(50.0, 1e-6)
    party = restart(make_party, tmp_path, ledger=ledger)
    begin(party, noisy)
    answer = party.handle(step(2).encode())
    kept = contents(tmp_path)
    other = restart(make_party, tmp_path, ledger=ledger, **changes)
    assert "other terms" in refused(other, step(3), "plan")
    assert "other terms" in refused(other, step(3), "plan")
    chosen = messages.decode(answer).column
    refused(other, Fetch(run=RUN, sequence=3, column=chosen), "plan")
    assert other.handle(step(2).encode()) == answer  # what left already may leave again
    assert contents(tmp_path) == kept
    assert isinstance(ask(restart(make_party, tmp_path, ledger=ledger), step(3)), Choice)
    begin(other, noisy, run=bytes(16))  # paid for on the new ones
    assert isinstance(ask(other, step(2, run=bytes(16))), Choice)


@pytest.mark.parametrize("rows", [399, 401])
def test_a_party_restarted_with_another_table_does_not_go_on(make_party, noisy, tmp_path, rows):
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    other = Party("north", np.ones((rows, 4)), ids=range(rows), key=bytes(16),
                  labels=np.ones(rows), ledger=reticent.Budget(5.0, 1e-6), folder=tmp_path)  # fmt: skip
    assert "rows" in refused(other, step(2), "data")
    assert isinstance(ask(party, step(2)), Choice)


def test_a_run_that_was_paid_for_but_not_opened_is_not_opened_on_other_terms(
    make_party, noisy, tmp_path, monkeypatch
):
    party = restart(make_party, tmp_path)
    honest = reticent.Ledger.spend

    def spend(self, guarantee, what):
        honest(self, guarantee, what)
        raise KeyboardInterrupt

    monkeypatch.setattr(reticent.Ledger, "spend", spend)
    with pytest.raises(KeyboardInterrupt):
        party.handle(noisy.request(RUN, 1).encode())
    monkeypatch.undo()
    other = restart(make_party, tmp_path, feature_bound=100.0)
    assert "other terms" in refused(other, noisy.request(RUN, 1), "plan")
    assert "other terms" in refused(other, consider(noisy), "plan")
    party = restart(make_party, tmp_path)
    begin(party, noisy)
    assert isinstance(ask(party, step(2)), Choice)
    assert len(party.ledger.entries) == 1


def test_a_run_is_held_against_its_price_once(make_party, noisy, tmp_path, monkeypatch):
    begin(restart(make_party, tmp_path), noisy)
    party = restart(make_party, tmp_path)
    counted = []
    monkeypatch.setattr(
        "reticent.vertical.party.guarantee_of",
        lambda *given: counted.append(0) or guarantee_of(*given),
    )
    for sequence in (2, 3, 4):
        assert isinstance(ask(party, step(sequence)), Choice)
    assert len(counted) == 1


def test_without_a_ledger_entry_the_price_is_what_was_answered(make_party, noisy):
    party = make_party()
    begin(party, noisy)
    party.ledger = reticent.Ledger(reticent.Budget(5.0, 1e-6), adaptive=True)
    party._terms = Terms(feature_bound=100.0, lattice=False, seeded=True)
    assert "other terms" in refused(party, step(2), "plan")
    party._terms = Terms(lattice=False, seeded=True)
    assert isinstance(ask(party, step(2)), Choice)


# ---------------------------------------------------------------- a coordinator that adapts


def finest(accepted, low, high):
    """The least scale of noise that is accepted, between one that is not and one that is."""
    for _ in range(45):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if accepted(middle) else (middle, high)
    return high


def test_a_coordinator_that_chooses_the_next_run_by_the_last_answer(make_party, plan):
    """The delta it reaches with two runs, the second of which is one of two kinds, exactly.

    The first run is Gaussian. At each value of its privacy loss the coordinator takes whichever
    second run hurts more: a Gaussian one or one choice with Laplace noise (pure), each with as
    little noise as the party accepts at that moment. Integrated over the loss of the first.
    """
    budget = reticent.Budget(1.0, 1e-6)
    party = make_party(ledger=budget)
    terms = Terms(lattice=False, seeded=True)
    sketch = plan.with_(rounds=0, columns=0, labels="send", value_scale=0.0, label_scale=1.0)
    choice = plan.with_(rounds=1, columns=0, selection="laplace", value_scale=0.0)

    def mu(scale):
        return guarantee_of(sketch.with_(label_scale=scale), terms).gdp

    first = finest(lambda scale: mu(scale) <= 0.2 * budget.mu, 1e-3, 1e6)
    begin(party, sketch.with_(label_scale=first))

    def accepts(proposal):
        return isinstance(ask(party, consider(proposal, run=bytes(16))), Ready)

    gaussian = mu(finest(lambda s: accepts(sketch.with_(label_scale=s)), 1e-3, 1e6))
    least = finest(lambda s: accepts(choice.with_(selection_scale=s)), 1e-3, 1e9)
    pure = guarantee_of(choice.with_(selection_scale=least), terms).pure
    z = np.linspace(-10.0, 12.0, 40_001)
    left = budget.epsilon - (mu(first) * z + mu(first) ** 2 / 2)  # of epsilon, at each loss
    by_gaussian = ndtr(gaussian / 2 - left / gaussian)
    by_gaussian -= np.exp(left) * ndtr(-gaussian / 2 - left / gaussian)
    likely = 1.0 / (1.0 + np.exp(-pure))
    by_choice = sum(
        weight * np.maximum(-np.expm1(np.minimum(left - loss, 0.0)), 0.0)
        for weight, loss in ((likely, pure), (1.0 - likely, -pure))
    )
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    delta = float((np.maximum(by_gaussian, by_choice) * density).sum() * (z[1] - z[0]))
    assert delta <= budget.delta * (1 + 1e-6)
    # and the party is not stingier than it must be: the Gaussian one alone takes all that is left
    assert delta >= budget.delta * (1 - 1e-3)


def test_a_party_needs_a_ledger_that_allows_for_adaptive_coordinators(make_party, tmp_path):
    with pytest.raises(ValueError, match="adaptive=True"):
        make_party(ledger=reticent.Ledger(reticent.Budget(1.0, 1e-6)))
    assert make_party(folder=tmp_path, seed=None).ledger.adaptive
