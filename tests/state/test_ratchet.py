"""What a state tells: the present and what is to come, nothing of the noise that was used; and how little it is."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from randomgen import AESCounter

import reticent
from reticent import bandit, losses, online, sets, sums
from reticent.noise import Source, source
from reticent.online import schedules
from reticent.state import files, lease
from reticent.sums import mechanism

BUDGET = reticent.Budget(1.0, 1e-6)
WINDOW = reticent.Budget(1.0, 1e-6, window=4096)


# The chain of keys --------------------------------------------------------------------------------


def test_each_key_is_a_hash_of_the_one_before_by_the_letter():
    """The definition in the docs, with the library's AES counter keyed the plain way."""
    made = Source(seed=3)
    key = bytes.fromhex(made.state()["next"])
    for _ in range(40):  # more than are computed at a time
        made.ratchet()
        out = hashlib.blake2b(b"", key=key, digest_size=64, person=b"reticent ratchet").digest()
        key = out[:32]
        assert made.state() == {"seeded": True, "next": key.hex()}
        coarse = AESCounter(key=int.from_bytes(out[32:48], "little"))
        fine = AESCounter(key=int.from_bytes(out[48:], "little"))
        assert (made.words(9) == coarse.random_raw(9)).all()
        assert made.fine_bits(1) == int(fine.random_raw())
        assert made.fine_bits(1) == int(fine.random_raw())


def test_round_keys_are_those_of_the_standard():
    """The example of FIPS 197, appendix A.1: first and last words of the expanded key."""
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    rounds = source._round_keys([key])[0].tobytes()
    assert rounds[:16] == key
    assert rounds[16:20].hex() == "a0fafe17"
    assert rounds[-4:].hex() == "b6630ca6"


def test_a_state_holds_no_key_of_what_was_drawn():
    made = Source()
    keys, words = [], []
    for _ in range(20):
        keys.append(made.state()["next"])
        made.ratchet()
        words.append(made.words(8).tobytes())
    now = files.dumps(made.state())
    for key, drawn in zip(keys, words, strict=True):
        assert key.encode() not in now
        assert bytes.fromhex(key) not in now
        assert drawn not in now
    later = Source.from_state(files.loads(now))
    ahead = b"".join(later.words(8).tobytes() for _ in range(20) if later.ratchet() is None)
    assert not any(drawn in ahead for drawn in words)


# Streams ------------------------------------------------------------------------------------------


def watched(monkeypatch):
    """The key of every interval that is begun from here on."""
    keys, real = [], Source.ratchet

    def ratchet(self):
        keys.append(self.state()["next"])
        real(self)

    monkeypatch.setattr(Source, "ratchet", ratchet)
    return keys


X = np.random.default_rng(5).normal(0, 0.4, (200, 3))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def total_of(kind, **more):
    made = kind(3, **{"horizon": 200, "budget": BUDGET} | more)
    return made, lambda first, last: made.run(X[first:last])


def learner_of(kind, **more):
    made = kind(sets.L2Ball(3), losses.Logistic(ridge=0.5), budget=BUDGET, horizon=200, **more)
    return made, lambda first, last: made.run(X[first:last], Y[first:last])


def bandit_of(**more):
    made = bandit.ProjectedBandit(sets.L2Ball(3), BUDGET, horizon=200, **more)

    def go(first, last):
        for _ in range(first, last):
            made.ask()
            made.tell(0.5)

    return made, go


def estimator():
    made = reticent.OnlineLogisticRegression(classes=[-1, 1])
    return made, lambda first, last: made.partial_fit(X[first:last], Y[first:last])


STREAMS = {
    "tree": lambda: total_of(sums.Tree),
    "plain tree": lambda: total_of(sums.Tree, estimator="plain"),
    "gamma": lambda: total_of(sums.Tree, noise="gamma"),
    "window": lambda: total_of(sums.WindowTree, horizon=None, budget=WINDOW.with_(window=16)),
    "correlated": lambda: total_of(sums.Correlated),
    "independent": lambda: total_of(sums.Independent),
    "float": lambda: total_of(sums.Correlated, noise_precision="float"),
    "ftrl": lambda: learner_of(online.FollowTheRegularizedLeader),
    "iterates": lambda: learner_of(online.PerturbedIterates),
    "bandit": bandit_of,
    "estimator": estimator,
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_later_state_has_no_key_of_an_earlier_interval(name, monkeypatch):
    """Blocks of four steps; every key that was ever used is looked for in the bytes of the state."""
    monkeypatch.setattr(mechanism, "_BLOCK", 12)
    monkeypatch.setattr(schedules, "_BLOCK", 12)
    keys = watched(monkeypatch)
    made, go = STREAMS[name]()
    seen = 0
    for first, last in ((0, 5), (5, 6), (6, 100), (100, 150)):
        go(first, last)
        held = files.dumps(made.state())
        found = [key for key in keys if key.encode() in held or bytes.fromhex(key) in held]
        seen = max(seen, len(found))
        assert len(found) <= (2 if name == "bandit" else 1)  # of the intervals that are in use
        assert all(key in keys[-40:] for key in found)
        old = keys[: -2 if name != "bandit" else -60]
        assert not set(found) & set(old)
    assert seen


@pytest.mark.parametrize("name", ["tree", "plain tree", "window", "correlated", "independent"])
def test_what_a_thief_can_draw_again_is_the_present_interval(name, monkeypatch):
    """Published totals less all noise that the state leads to: only the present interval comes clean."""
    monkeypatch.setattr(mechanism, "_BLOCK", 12)
    made, _ = STREAMS[name]()
    published = made.run(X[:102])
    clean = np.cumsum(
        X[:102] * np.minimum(1.0, 1.0 / np.linalg.norm(X[:102], axis=1))[:, None], axis=0
    )
    state = files.loads(files.dumps(made.state()))
    lease._known.clear()
    thief = type(made).from_state(state)
    used = state["block"][1]
    assert 0 < used < 4
    noise = thief._noise.step * thief._block
    steps = range(102 - used, 102)
    for row, t in enumerate(steps):
        np.testing.assert_allclose(published[t] - noise[row], clean[t], atol=1e-6)
    # Every vector of the state and of the block, tried as the noise of every earlier output. A coincidence
    # within 1e-6 has probability below 1e-12 for each coordinate.
    vectors = [noise]
    vectors += [
        thief._noise.step * v.reshape(-1, 3) for v in state["process"].values() if v.size % 3 == 0
    ]
    opened = {
        t
        for t in range(102 - used)
        for v in np.concatenate(vectors)
        if np.allclose(published[t] - v, clean[t], atol=1e-6)
    }
    # A tree keeps the noise of the totals that later ones are made of: the prefixes, in binary, of where the
    # present interval began; nothing else may open.
    began = 102 - used
    prefixes = {began >> level << level for level in range(8)} | {began}
    assert opened <= {t - 1 for t in prefixes}


def test_restored_in_every_position_of_an_interval(monkeypatch):
    monkeypatch.setattr(schedules, "_BLOCK", 12)
    monkeypatch.setattr(mechanism, "_BLOCK", 12)
    for make in (
        lambda: online.PerturbedIterates(
            sets.L2Ball(3), losses.Logistic(ridge=0.5), budget=BUDGET, horizon=200, seed=1
        ),
        lambda: online.FollowTheRegularizedLeader(
            sets.L2Ball(3), losses.Logistic(), budget=BUDGET, horizon=200, seed=1
        ),
    ):
        calm = make()
        calm.run(X, Y)
        learner = make()
        for t in range(200):
            if t % 3 != 1:
                learner = type(learner).from_state(files.loads(files.dumps(learner.state())))
            learner.observe((X[t], Y[t]))
        np.testing.assert_array_equal(learner.decision, calm.decision)


# Size ---------------------------------------------------------------------------------------------

WIDE = np.random.default_rng(6).normal(0, 0.1, (700, 54))
SIGNS = np.where(WIDE[:, 0] > 0, 1.0, -1.0)


def wide(kind, **more):
    made = kind(
        sets.L2Ball(54), losses.Logistic(ridge=0.5), **{"budget": BUDGET, "horizon": 10**6} | more
    )
    made.run(WIDE, SIGNS)
    return made


def wide_total(kind, *length, **more):
    made = kind(54, *length, **{"budget": BUDGET} | more)
    made.run(WIDE)
    return made


def wide_bandit(kind, **more):
    made = kind(sets.L2Ball(54), BUDGET, horizon=10**6, **more)
    made.run(WIDE)
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda: wide_total(sums.Tree, 10**6),
        lambda: wide_total(sums.Tree, None),
        lambda: wide_total(sums.Correlated, 10**6),
        lambda: wide_total(sums.Correlated, budget=WINDOW),
        lambda: wide_total(sums.WindowTree, budget=WINDOW),
        lambda: wide_total(sums.Independent),
        lambda: wide(online.FollowTheRegularizedLeader),
        lambda: wide(online.FollowTheApproximateLeader, horizon=None, budget=WINDOW),
        lambda: wide(online.PerturbedIterates),
        lambda: wide_bandit(bandit.ProjectedBandit),
        lambda: wide_bandit(bandit.ProjectionFreeBandit),
        lambda: reticent.OnlineLogisticRegression(classes=[-1, 1]).partial_fit(WIDE, SIGNS),
        lambda: reticent.OnlineLogisticRegression(classes=[-1, 1], horizon=10**6).partial_fit(WIDE, SIGNS),
        lambda: reticent.OnlineLinearRegression(window=4096).partial_fit(WIDE, SIGNS),
    ],
    ids=[
        "tree", "epochs", "correlated", "correlated window", "window tree", "independent", "ftrl",
        "ftal window", "iterates", "projected bandit", "bandit", "logistic", "logistic horizon", "linear",
    ],
)  # fmt: skip
def test_a_state_has_at_most_18_kilobytes_at_54_dimensions(make, tmp_path):
    state = make().state()
    assert len(files.dumps(state)) <= 18_000
    reticent.save_state(state, tmp_path / "state")
    assert (tmp_path / "state").stat().st_size <= 18_000
