"""The protocol as a whole: against plain NumPy, against the centralised optimum, and interrupted."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reticent
from reticent import erm, losses, papers, sets
from reticent.vertical import (
    Coordinator,
    InProcess,
    MalformedMessage,
    Noise,
    Party,
    PartyLost,
    RefusedByParty,
    TauNice,
    messages,
)
from reticent.vertical.plan import natural_clip

from .reference import CUTS, loss_of, reference

BIG = reticent.Budget(1e18, 1e-6)
FAINT = Noise(selection=1e-6, sketch=1e-6, value=1e-6, label=1e-6)
CLEAR = {"noise": FAINT, "sketch_size": 400, "columns": 100, "correlation": math.inf, "seed": 0}


@pytest.mark.parametrize("own", ["clear", "sketched"])
@pytest.mark.parametrize("variant", ["ball", "product", "sampled"])
def test_iterates_against_numpy(table, make_transport, variant, own):
    A, y = table
    drawn = None
    if variant == "sampled":
        rng = np.random.default_rng([0, 1])
        drawn = [TauNice(2).draw(3, rng).tolist() for _ in range(25)]
    options = {"sampling": TauNice(2)} if variant == "sampled" else {}
    fit = Coordinator(make_transport()).run(
        budget=BIG, variant=variant, rounds=25, radius=0.9, own=own, **CLEAR, **options
    )
    expected = reference(A, y, variant, 25, 0.9, drawn)
    assert np.allclose(fit.point, expected, atol=1e-6)
    assert list(fit.points) == ["north", "east", "south"]
    assert fit.finished


def test_one_party_is_centralised_frank_wolfe(table, make_party):
    A, y = table
    one = InProcess({"north": make_party(columns=slice(0, 12))})
    fit = Coordinator(one).run(budget=BIG, rounds=30, **CLEAR)
    central = erm.frank_wolfe(losses.Squared(), sets.L1Ball(12), A, y, budget=None, steps=30)
    assert np.allclose(fit.point, central.point, atol=1e-9)
    assert fit.plans["north"].columns == 0  # nobody else needs a sketch
    assert fit.plans["north"].value_scale == 0.0


def test_the_true_ball_reaches_the_centralised_optimum_at_the_proved_rate(table, make_transport):
    A, y = table
    x = np.zeros(12)
    x[[1, 6, 10, 11]] = 0.4, -0.3, 0.2, 0.1  # in the ball, and without a loss
    gap = []
    for rounds in (20, 80, 320):
        fit = Coordinator(make_transport()).run(budget=BIG, rounds=rounds, **CLEAR)
        gap.append(loss_of(A, y, fit.point))
        assert gap[-1] <= 2 * 4.0 / (rounds + 2)  # Jaggi's bound, curvature (2 radius)^2
    assert np.polyfit(np.log([20, 80, 320]), np.log(gap), 1)[0] < -0.9
    assert loss_of(A, y, x) < 1e-12


def test_logistic_against_numpy(table, make_transport):
    A, _ = table
    y = np.where(A[:, 1] - A[:, 6] > 0.0, 1.0, -1.0)
    fit = Coordinator(make_transport(labels=y)).run(
        budget=BIG, rounds=20, radius=2.0, loss="logistic", **CLEAR
    )
    x = np.zeros(12)
    for t in range(20):
        g = A.T @ (1 / (1 + np.exp(-(A @ x))) - (1 + y) / 2)
        s = np.zeros(12)
        i = int(np.argmax(np.abs(g)))
        s[i] = -2.0 * np.sign(g[i])
        x = x + 2 / (t + 2) * (s - x)
    assert np.allclose(fit.point, x, atol=1e-6)


def test_labels_with_one_party(table, make_party):
    A, y = table
    names = ("north", "east", "south")
    parties = {
        name: make_party(name, cut, labels=y if name == "east" else None)
        for name, cut in zip(names, CUTS, strict=True)
    }
    fit = Coordinator(InProcess(parties)).run(budget=BIG, rounds=25, radius=0.9, **CLEAR)
    assert np.allclose(fit.point, reference(A, y, "ball", 25, 0.9), atol=1e-6)
    assert [fit.plans[name].labels for name in names] == ["sketched", "send", "sketched"]
    words = [r.mechanism for r in fit.guarantees["east"].releases]
    assert "noisy sketch of the labels" in words
    assert len(fit.guarantees["north"].releases) == 3
    with pytest.raises(ValueError, match="no party holds labels"):
        blind = {name: make_party(name, labels=None) for name in names}
        Coordinator(InProcess(blind)).run(budget=BIG)


# ---------------------------------------------------------------- errata


@pytest.mark.parametrize("variant", ["ball", "product", "sampled"])
def test_the_model_never_leaves_the_ball(make_transport, variant):
    norms = []
    Coordinator(make_transport()).run(
        budget=reticent.Budget(1.0, 1e-6), variant=variant, rounds=15, radius=0.7, seed=1,
        noise=Noise(50.0, 50.0, 50.0), callback=lambda m: norms.append(np.abs(m.point).sum()),
    )  # fmt: skip
    assert max(norms) <= 0.7 * (1 + 1e-12)
    assert norms[0] == pytest.approx(0.7 if variant != "sampled" else 0.7 / 3)


@pytest.mark.parametrize("variant", ["ball", "product"])
def test_the_model_descends(table, make_transport, variant):
    """Two minus signs would climb: the loss after a run is below that at zero, for both signs."""
    A, y = table
    for sign in (1.0, -1.0):
        fit = Coordinator(make_transport(labels=sign * y)).run(
            budget=BIG, variant=variant, rounds=40, **CLEAR
        )
        assert loss_of(A, sign * y, fit.point) < 0.5 * loss_of(A, y, np.zeros(12))
        assert np.sign(fit.point[1]) == sign
        assert np.sign(fit.point[6]) == -sign  # negative gradients are found too


def test_sampling_parties_does_not_shrink_the_solution(make_party):
    """One column each, and a label that needs all of the first: as printed it would settle at the
    share of rounds in which a party is drawn."""
    rng = np.random.default_rng(0)
    A = rng.choice([-1.0, 1.0], size=(400, 3))
    parties = {
        f"p{k}": Party(f"p{k}", A[:, [k]], ids=range(400), ledger=BIG, key=bytes(16), seed=k,
                       labels=0.3 * A[:, 0], noise_precision="float")
        for k in range(3)
    }  # fmt: skip
    fit = Coordinator(InProcess(parties)).run(
        budget=BIG, variant="sampled", sampling=TauNice(1), rounds=400, radius=0.9, **CLEAR
    )
    assert fit.point[0] == pytest.approx(0.3, abs=0.01)


def test_the_printed_sketch_noise_is_refused(make_transport):
    """Noise with a 1/n that the message does not have: a site's own ledger sees what it costs."""
    budget = reticent.Budget(1.0, 1e-6)
    printed = papers.vertical_sketch(1.0, 1e-6, parties=3, steps=10, n=400,
                                        singular_value=4.0, column_norm=1.0)  # fmt: skip
    coordinator = Coordinator(make_transport(ledger=budget))
    with pytest.raises(RefusedByParty, match="budget") as caught:
        coordinator.run(budget=budget, variant="product", rounds=10, sketch_size=50,
                        noise=Noise(1e6, 2.0 * float(printed.scale)))  # fmt: skip
    assert caught.value.code == "budget"
    honest = reticent.Budget(1e6, 1e-6)
    fit = Coordinator(make_transport(ledger=honest)).run(
        budget=budget, variant="product", rounds=10, sketch_size=50,
        noise=Noise(1e6, 2.0 * float(printed.scale)),
    )  # fmt: skip
    assert fit.guarantee.epsilon(1e-6) > 40.0
    assert any("does not meet the budget" in line for line in fit.guarantee.caveats)


def test_published_noise_runs_and_its_truth_is_told(make_transport):
    budget = reticent.Budget(1.0, 1e-6)
    fit = Coordinator(make_transport(ledger=reticent.Budget(50.0, 1e-6))).run(
        budget=budget, variant="product", rounds=10, sketch_size=50, calibration="published"
    )
    index = papers.vertical_index(1.0, 1e-6, parties=3, steps=10, n=400, norm=2.0)
    plan = fit.plans["north"]
    assert plan.selection == "laplace"
    assert plan.selection_scale == pytest.approx(400 * float(index.scale))
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(
        sum(fit.guarantees.values(), start=fit.guarantees["north"]).epsilon(1e-6), rel=0.5
    )
    with pytest.raises(ValueError, match="published"):
        Coordinator(make_transport()).run(budget=budget, calibration="published")


# ---------------------------------------------------------------- privacy


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("variant", ["ball", "product", "sampled"])
def test_the_budget_is_for_all_parties_together(make_transport, variant, neighbours):
    budget = reticent.Budget(1.0, 1e-6, neighbours)
    fit = Coordinator(make_transport(ledger=budget, noise_precision="lattice")).run(
        budget=budget, variant=variant, rounds=8, sketch_size=40, seed=2
    )
    assert fit.guarantee.meets(budget)
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)
    for name, part in fit.guarantees.items():
        assert part.epsilon(1e-6) < 1.0
        plan = fit.plans[name]
        # by hand: zCDP of choices, values and sketches
        factor = 1.0 if neighbours == "zero-out" else 2.0
        score = factor * natural_clip("squared", 1.0, 1.0, 1.0)
        rho = plan.rounds * score**2 / (2 * plan.selection_scale**2)
        if plan.value_scale:
            rho += plan.rounds * score**2 / (2 * plan.value_scale**2)
        rho += plan.columns * (factor * 2.0) ** 2 / (2 * plan.sketch_scale**2)
        assert part.zcdp == pytest.approx(rho, rel=1e-6)
    counts = [fit.plans[name].rounds for name in fit.plans]
    assert sum(counts) == (24 if variant != "sampled" else 8)


def test_every_party_keeps_its_own_ledger(make_transport):
    transport = make_transport(ledger=reticent.Budget(1.0, 1e-6))
    budget = reticent.Budget(1.0, 1e-6)
    fit = Coordinator(transport).run(budget=budget, rounds=5, sketch_size=30)
    for name, party in transport.parties.items():
        assert party.spent.epsilon(1e-6) == fit.guarantees[name].epsilon(1e-6)
    stingy = transport.parties["east"]
    greedy = reticent.Budget(3.0, 1e-6)
    before = len(stingy.ledger.entries)
    with pytest.raises(RefusedByParty, match="own budget"):
        Coordinator(transport).run(budget=greedy, rounds=5, sketch_size=30)
    assert len(stingy.ledger.entries) == before


@pytest.mark.parametrize("stingy", ["north", "east", "south"])
def test_nobody_pays_for_a_run_that_another_refuses(make_party, stingy):
    parties = {
        name: make_party(name, cut, ledger=reticent.Budget(0.1 if name == stingy else 5.0, 1e-6))
        for name, cut in zip(("north", "east", "south"), CUTS, strict=True)
    }
    coordinator = Coordinator(InProcess(parties))
    with pytest.raises(RefusedByParty, match="own budget") as caught:
        coordinator.run(budget=reticent.Budget(1.0, 1e-6), rounds=5, sketch_size=30)
    assert caught.value.name == stingy
    assert caught.value.code == "budget"
    assert [party.ledger.entries for party in parties.values()] == [(), (), ()]
    # the same run, once the party has thought better of it
    parties[stingy].ledger = reticent.Ledger(reticent.Budget(5.0, 1e-6), adaptive=True)
    assert coordinator.resume().finished
    assert [len(party.ledger.entries) for party in parties.values()] == [1, 1, 1]


def test_nobody_pays_where_the_parties_together_promise_too_little(make_transport):
    """A party whose promise is not the one that the coordinator reckoned with."""

    class Looser:
        def __init__(self, inner):
            self.inner, self.names = inner, inner.names

        def ask(self, requests):
            answers = {}
            for name, request in requests.items():
                message = messages.decode(request)
                if isinstance(message, messages.Consider):
                    object.__setattr__(message, "selection_scale", message.selection_scale / 4)
                answers[name] = self.inner.ask({name: message.encode()})[name]
            return answers

    transport = make_transport(ledger=reticent.Budget(50.0, 1e-6))
    with pytest.raises(MalformedMessage, match="states another guarantee"):
        Coordinator(Looser(transport)).run(
            budget=reticent.Budget(1.0, 1e-6), rounds=5, sketch_size=30
        )
    assert all(party.spent is None for party in transport.parties.values())


# ---------------------------------------------------------------- interruptions


class Flaky:
    """Loses a party in given calls: before the request arrives, or after it was answered."""

    def __init__(self, inner, calls, arrives):
        self.inner, self.calls, self.arrives = inner, dict(calls), arrives
        self.count = 0
        self.names = inner.names

    def ask(self, requests):
        self.count += 1
        lost = self.calls.get(self.count)
        if lost is None or lost not in requests:
            return self.inner.ask(requests)
        if self.arrives:
            self.inner.ask(requests)
        raise PartyLost(lost, "the cable was cut")


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("variant", ["ball", "product"])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(make_transport, variant, arrives):
    options = {"budget": reticent.Budget(1.0, 1e-6), "variant": variant, "rounds": 6,
               "sketch_size": 30, "seed": 4}  # fmt: skip
    whole = Coordinator(make_transport(ledger=reticent.Budget(1.0, 1e-6))).run(**options)
    inner = make_transport(ledger=reticent.Budget(1.0, 1e-6))
    flaky = Flaky(
        inner, {1: "east", 3: "south", 6: "north", 7: "east", 10: "east", 13: "east"}, arrives
    )
    coordinator = Coordinator(flaky)
    lost = 0
    fit = None
    with pytest.raises(PartyLost, match=r"cable.*resume"):
        coordinator.run(**options)
    while fit is None:
        try:
            fit = coordinator.resume()
        except PartyLost:
            lost += 1
    assert lost >= 4
    assert np.array_equal(fit.point, whole.point)
    assert np.array_equal(fit.traffic.uplink, whole.traffic.uplink)
    for name, party in inner.parties.items():
        assert len(party.ledger.entries) == 1
        assert party._memory.rounds == fit.plans[name].rounds
    with pytest.raises(ValueError, match="no interrupted run"):
        coordinator.resume()


def test_a_party_and_the_coordinator_are_killed_and_start_again(table, make_party, tmp_path):
    """Sites keep their folders, the coordinator its file; seeds make the two runs comparable."""
    cuts = dict(zip(("north", "east", "south"), CUTS, strict=True))
    options = {"budget": reticent.Budget(1.0, 1e-6), "rounds": 6, "sketch_size": 30, "seed": 4}

    def start(place):
        return {
            name: make_party(name, cut, folder=tmp_path / place / name, seed=11,
                             ledger=reticent.Budget(1.0, 1e-6))
            for name, cut in cuts.items()
        }  # fmt: skip

    whole = Coordinator(InProcess(start("whole"))).run(**options)
    path = tmp_path / "run"
    with pytest.raises(PartyLost):
        Coordinator(
            Flaky(InProcess(start("killed")), dict.fromkeys((5, 6, 7), "east"), True), path=path
        ).run(**options)
    with pytest.raises(FileExistsError, match="resume"):
        Coordinator(InProcess(start("killed")), path=path).run(**options)
    parties = start("killed")  # everything is new but what is on disk
    fit = Coordinator(InProcess(parties), path=path).resume()
    assert np.array_equal(fit.point, whole.point)
    assert not path.exists()
    assert [len(party.ledger.entries) for party in parties.values()] == [1, 1, 1]


def test_a_run_can_be_stopped(make_transport):
    transport = make_transport(ledger=reticent.Budget(1.0, 1e-6))
    fit = Coordinator(transport).run(
        budget=reticent.Budget(1.0, 1e-6), rounds=9, sketch_size=30, callback=lambda m: m.step == 4
    )
    assert not fit.finished
    assert len(fit.traffic.uplink) == 6


# ---------------------------------------------------------------- bytes


def test_every_byte_is_counted(make_transport):
    class Counting:
        def __init__(self, inner):
            self.inner, self.names = inner, inner.names
            self.up = self.down = 0

        def ask(self, requests):
            answers = self.inner.ask(requests)
            self.down += sum(map(len, requests.values()))
            self.up += sum(map(len, answers.values()))
            return answers

    counting = Counting(make_transport(ledger=reticent.Budget(1.0, 1e-6)))
    fit = Coordinator(counting).run(budget=reticent.Budget(1.0, 1e-6), rounds=7, sketch_size=30)
    assert fit.traffic.total_uplink == counting.up
    assert fit.traffic.total_downlink == counting.down
    assert fit.traffic.uplink.shape == (9, 3)
    assert "uplink" in str(fit)
    pytest.importorskip("matplotlib")
    assert len(fit.traffic.plot().lines) == 6


def test_a_column_travels_once(make_transport):
    """Bytes of sketches: 8 for each number of each distinct column that was sent."""
    fit = Coordinator(make_transport()).run(budget=BIG, variant="product", rounds=30,
                                            **(CLEAR | {"sketch_size": 100}))  # fmt: skip
    sent = fit.traffic.uplink[1:-1].sum()
    sketches = [s for s in (sent - 90 * 41,) if s]
    assert sketches[0] % (8 * 100) == 0
    assert sketches[0] / 800 <= 12


# ---------------------------------------------------------------- bad input and bad parties


def test_misaligned_rows_are_an_error_and_cost_nothing(make_party):
    swapped = [1, 0, *range(2, 400)]
    for changes in ({"ids": swapped}, {"key": bytes(16)}, {"ids": [f"{k}" for k in range(400)]}):
        parties = {"north": make_party(), "east": make_party("east", slice(4, 8), **changes)}
        with pytest.raises(ValueError, match=r"rows of 'east'.*their order"):
            Coordinator(InProcess(parties)).run(budget=BIG)
        assert all(party.spent is None for party in parties.values())


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"budget": 1.0}, TypeError, "budget"),
        ({"budget": reticent.Budget(1.0)}, ValueError, "delta"),
        ({"budget": reticent.Budget(1.0, 1e-6, window=3)}, ValueError, "window"),
        ({"budget": reticent.Budget(1.0, 1e-6, "replace")}, ValueError, "one relation"),
        ({"variant": "A"}, ValueError, "variant"),
        ({"loss": "hinge"}, ValueError, "loss"),
        ({"radius": 0.0}, ValueError, "radius"),
        ({"rounds": 0}, ValueError, "rounds"),
        ({"own": "hidden"}, ValueError, "own"),
        ({"sampling": TauNice(1)}, ValueError, "sampling"),
        ({"distortion": 0.0}, ValueError, "distortion"),
        ({"correlation": -1.0}, ValueError, "correlation"),
    ],
)
def test_bad_input(make_transport, changes, error, words):
    transport = make_transport()
    with pytest.raises(error, match=words):
        Coordinator(transport).run(**({"budget": reticent.Budget(1.0, 1e-6)} | changes))
    assert all(party.spent is None for party in transport.parties.values())


def test_wrong_names_and_wrong_answers(make_party, make_transport):
    with pytest.raises(ValueError, match="calls itself"):
        Coordinator(InProcess({"south": make_party()})).run(budget=BIG)

    class Liar:
        def __init__(self, inner, change):
            self.inner, self.names, self.change = inner, inner.names, change

        def ask(self, requests):
            return {k: self.change(v) for k, v in self.inner.ask(requests).items()}

    def cut(answer):
        return answer[:-1]

    def other_run(answer):
        message = messages.decode(answer)
        object.__setattr__(message, "run", bytes(16))
        return message.encode()

    def far_column(answer):
        message = messages.decode(answer)
        if isinstance(message, messages.Choice):
            object.__setattr__(message, "column", 99)
        return message.encode()

    def short_sketch(answer):
        message = messages.decode(answer)
        if isinstance(message, messages.Sketch):
            object.__setattr__(message, "sketch", np.zeros(3))
        return message.encode()

    def guaranteeing(words):
        def change(answer):
            message = messages.decode(answer)
            if isinstance(message, messages.Ready):
                object.__setattr__(message, "guarantee", words(message.guarantee))
            return message.encode()

        return change

    def less(words):
        """A hundredth of the noise's true cost."""
        plain = json.loads(words)
        for release in plain["releases"]:
            release["curve"] = {"kind": "gaussian", "mu": 0.01}
        return json.dumps(plain)

    lies = [lambda words: '{"releases": []}', lambda words: "[]", lambda words: "[" * 5000, less]
    lies += [lambda words: words.replace('"seeded": true', '"seeded": false'), lambda words: "{"]
    for change in (cut, other_run, far_column, short_sketch, *map(guaranteeing, lies)):
        with pytest.raises(MalformedMessage):
            Coordinator(Liar(make_transport(), change)).run(budget=BIG, rounds=4, **CLEAR)
