"""What all running totals share: exact sums, clipping, refusals, ledgers, threads."""

from __future__ import annotations

import math
import secrets
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.state import files
from reticent.sums import mechanism, running

from . import reference
from .reference import CASES, GAUSSIAN

PRECISIONS = ("lattice", "float")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))


def frozen(total):
    return files.dumps(total.state())


# The exact part -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "precision"),
    [(name, "lattice") for name in CASES]
    + [(name, "float") for name in CASES if "gaussian" in name or "correlated" in name],
)
def test_without_noise_the_totals_are_the_running_sums(name, precision, monkeypatch):
    reference.no_noise(monkeypatch)
    monkeypatch.setattr(mechanism, "_BLOCK", 21)
    rows = np.random.default_rng(1).uniform(-0.3, 0.3, (90, 3))
    for horizon in (90, None):
        total = CASES[name](3, horizon, noise_precision=precision)
        outputs = total.run(rows)
        if precision == "float":
            assert np.allclose(outputs, np.cumsum(rows, axis=0), rtol=0, atol=1e-13)
            continue
        step = Fraction(total._noise.step)
        whole = [0, 0, 0]
        for t, row in enumerate(rows):
            whole = [w + int(Fraction(float(x)) / step) for w, x in zip(whole, row, strict=True)]
            assert [Fraction(float(x)) for x in outputs[t]] == [w * step for w in whole]


@pytest.mark.parametrize("name", CASES)
def test_lattice_totals_are_whole_steps(name):
    total = CASES[name](4, None)
    outputs = total.run(np.random.default_rng(2).normal(0, 0.3, (200, 4)))
    steps = outputs / total._noise.step
    assert (np.abs(steps) < 2.0**53).all()
    assert (steps == np.rint(steps)).all()
    assert math.frexp(total._noise.step)[0] == 0.5


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_noise_does_not_depend_on_the_data(name, precision):
    rows = np.random.default_rng(3).integers(-4, 5, (60, 2)) / 64
    quiet = CASES[name](2, 60, noise_precision=precision).run(np.zeros((60, 2)))
    loud = CASES[name](2, 60, noise_precision=precision).run(rows)
    assert np.allclose(loud - quiet, np.cumsum(rows, axis=0), rtol=0, atol=1e-6)


ENDLESS = [n for n in CASES if "window" in n or "correlated" in n] + ["independent-gaussian"]


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_totals_stay_exact_across_carries(name, monkeypatch):
    """Against Python's own whole numbers, with the high part carried away every few steps."""
    monkeypatch.setattr(running, "_CARRY", 3)
    monkeypatch.setattr(mechanism, "_BLOCK", 14)
    steps = 700
    rows = np.random.default_rng(4).integers(-512, 700, (steps, 2)) / 1024
    quiet, loud = CASES[name](2, None), CASES[name](2, None)
    noise = quiet.run(np.zeros((steps, 2)))
    outputs = loud.run(rows)
    step = Fraction(loud._noise.step)
    whole = [0, 0]
    for t in range(steps):
        whole = [w + int(Fraction(float(x)) / step) for w, x in zip(whole, rows[t], strict=True)]
        expected = [w * step + Fraction(float(z)) for w, z in zip(whole, noise[t], strict=True)]
        assert [Fraction(float(x)) for x in outputs[t]] == expected
    # at most what a block of seven rows can add is left
    assert np.abs(loud._total).max() <= 4 + 7 / loud._noise.step
    assert (
        loud._base / (8 * loud._noise.step) == np.rint(loud._base / (8 * loud._noise.step))
    ).all()


def test_a_released_total_is_the_exact_one_rounded_once():
    """Far beyond 2^53 steps, and however it was split: what leaves is a function of the exact sum."""
    total = sums.Correlated(1, budget=GAUSSIAN, seed=3)
    total.run(np.zeros((3, 1)))
    step = Fraction(total._noise.step)
    for high, low in ((2**36, 5), (-(2**36), 2**40 + 1), (2**35 + 1, -(2**43) - 3)):
        state = total.state()
        whole = high * 2**32 + low
        for carried in (0, 1, 1000):
            state["id"] = secrets.token_hex(16)  # as if it were another stream
            state["base"] = np.array([float((high - carried) * 2**32 * step)])
            state["total"] = np.array([low + carried * 2**32])
            twin = sums.Correlated.from_state(state)
            noise = int(twin._block[twin._row, 0])
            assert Fraction(float(twin.add(None)[0])) == Fraction(float((whole + noise) * step))


@pytest.mark.parametrize("kind", [sums.WindowTree, sums.Correlated])
def test_endless_totals_stay_exact_at_their_own_pace(kind):
    steps = 3 * 2**16 + 5
    rows = np.tile([[0.5], [-0.25], [0.75]], (steps // 3 + 1, 1))[:steps]
    budget = GAUSSIAN.with_(window=4)
    quiet = kind(1, budget=budget, seed=1).run(np.zeros((steps, 1)))
    loud = kind(1, budget=budget, seed=1).run(rows)
    assert np.array_equal(loud, quiet + np.cumsum(rows, axis=0))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("horizon", [2**20, 2**40, None])
def test_the_exact_total_never_overflows(name, horizon):
    """As many contributions of full norm as may be in the total at once, plus the noise, fit in 64 bits."""
    for epsilon in (1e-3, 1e4, 1e7):
        budget = CASES[name](1).budget.with_(epsilon=epsilon)
        if "correlated" in name and horizon == 2**40 and epsilon == 1e-3 and budget.window is None:
            # rounding over so many steps would spend more than there is
            with pytest.raises(ValueError, match="shorter horizon"):
                CASES[name](1, horizon, budget=budget)
            continue
        total = CASES[name](1, horizon, budget=budget)
        if (
            total.mechanism.is_endless
        ):  # what is in the total between two carries, and noise of 40 deviations
            last = int(min(total.mechanism.last_step, 2**60))
            reach = total.mechanism.block_rows * total.norm + 40 * total.error(last)
            assert reach / total._noise.step + 2**running._CARRY < 2.0**53
            continue
        most = horizon or mechanism._FIRST_EPOCH
        reach = most * total.norm / total._noise.step + 100 * total.error(1) / total._noise.step
        assert reach < 2.0**62


def test_unseeded_totals_differ():
    for name in CASES:
        first, second = CASES[name](2, 8, seed=None), CASES[name](2, 8, seed=None)
        assert not np.array_equal(first.run(np.zeros((8, 2))), second.run(np.zeros((8, 2))))
        assert not first.guarantee.seeded
        assert CASES[name](2, 8, seed=7).guarantee.seeded


# Clipping -----------------------------------------------------------------------------------------


def vectors(dim, norm):
    rng = np.random.default_rng(dim)
    unit = np.zeros(dim)
    unit[dim // 2] = norm
    yield unit
    yield -unit
    yield np.nextafter(unit, np.inf)
    yield np.full(dim, norm / math.sqrt(dim))
    yield np.full(dim, np.nextafter(norm / math.sqrt(dim), 1))
    yield np.full(dim, norm)
    yield np.full(dim, 5e-324)
    yield np.full(dim, 1e-310)
    yield np.full(dim, 1e300)
    yield np.full(dim, -1.7e308)
    yield np.full(dim, sys.float_info.max)
    yield np.where(np.arange(dim) % 2, 1e300, 1e-300)
    yield np.where(np.arange(dim) % 3, norm, 1e160)
    yield np.where(np.arange(dim) % 3, 1e-200, norm * 0.999)
    yield np.full(dim, 1e-160)
    yield 10.0 ** rng.uniform(-320, 308, dim)
    for _ in range(6):
        v = rng.standard_normal(dim)
        v *= norm / np.linalg.norm(v)
        yield v
        yield np.nextafter(v, 2 * v)
        yield v * 1e3
        yield v * rng.uniform(0, 1)
        yield v * 10.0 ** rng.uniform(0, 300 - max(0.0, math.log10(norm)))


def squared(values):
    return sum(value * value for value in values)


@pytest.mark.parametrize("norm", [1.0, 0.1, 3.7, 1e-12, 1e12, 1e-80, 1e80])
@pytest.mark.parametrize("dim", [1, 2, 3, 10, 100, 1000])
def test_no_quantised_vector_is_longer_than_the_norm(dim, norm, monkeypatch):
    """In exact arithmetic: the whole steps that a contribution moves the total by, one at a time and in a chunk."""
    reference.no_noise(monkeypatch)
    given = np.array(list(vectors(dim, norm)))
    one, many = (sums.Tree(dim, len(given), budget=GAUSSIAN, norm=norm) for _ in range(2))
    step = Fraction(one._noise.step)
    limit = Fraction(norm) ** 2
    before, moves = [0] * dim, []
    for v in given:
        one.add(v)
        now = one._total.tolist()
        moves.append([a - b for a, b in zip(now, before, strict=True)])
        before = now
    many.run(given)
    assert many._total.tolist() == before
    assert many.clipped == one.clipped
    slack = (Fraction(norm) * (1 - Fraction(1, 10**9)) - Fraction(math.sqrt(dim) + 1) * step) ** 2
    for v, move in zip(given, moves, strict=True):
        assert squared(move) * step**2 <= limit
        exact = [Fraction(float(x)) for x in v]
        # as Python's own whole numbers: signs kept, nothing shrunk that was short, nothing long shrunk too far
        assert all(m == 0 or (m > 0) == (x > 0) for m, x in zip(move, exact, strict=True))
        if squared(exact) < limit * (1 - Fraction(1, 10**9)):
            assert move == [int(x / step) for x in exact]
        else:
            assert squared(move) * step**2 >= slack


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_long_contributions_are_scaled_and_counted(name, precision):
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 1.0], [0.0, 0.0], [-30.0, 40.0], [0.6, 0.8]])
    known = np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 1.0], [0.0, 0.0], [-0.6, 0.8], [0.6, 0.8]])
    quiet = CASES[name](2, 6, noise_precision=precision).run(np.zeros((6, 2)))
    total = CASES[name](2, 6, noise_precision=precision)
    assert np.allclose(total.run(rows) - quiet, np.cumsum(known, axis=0), rtol=0, atol=1e-6)
    one = CASES[name](2, 6, noise_precision=precision)
    outputs = np.array([one.add(row) for row in rows])
    assert np.allclose(outputs - quiet, np.cumsum(known, axis=0), rtol=0, atol=1e-6)
    # what is as long as the norm is not long
    assert total.clipped == one.clipped == 2


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("chunk", [False, True])
def test_huge_finite_contributions_are_clipped_like_any_other(precision, chunk):
    """Vectors whose norm is beyond the largest double, among others: nothing unclipped, nothing uninitialised."""
    huge = sys.float_info.max
    rows = np.array([[huge, huge], [1e6, 0.0], [-huge, huge], [0.0, 1e6], [0.25, 0.0]])
    half = math.sqrt(0.5)
    known = np.array([[half, half], [1.0, 0.0], [-half, half], [0.0, 1.0], [0.25, 0.0]])
    build = CASES["tree-gaussian-plain"]
    quiet = build(2, 5, noise_precision=precision).run(np.zeros((5, 2)))
    total = build(2, 5, noise_precision=precision)
    outputs = total.run(rows) if chunk else np.array([total.add(row) for row in rows])
    assert np.allclose(outputs - quiet, np.cumsum(known, axis=0), rtol=0, atol=1e-6)
    assert total.clipped == 4


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_null_record_contributes_nothing_and_counts_as_a_step(name, precision):
    quiet = CASES[name](2, 5, noise_precision=precision).run(np.zeros((5, 2)))
    total = CASES[name](2, 5, noise_precision=precision)
    outputs = np.array([total.add(None) for _ in range(5)])
    assert np.array_equal(outputs, quiet)
    assert (total.steps, total.clipped) == (5, 0)
    with pytest.raises(ValueError, match="horizon"):
        total.add(None)


# Refusals -----------------------------------------------------------------------------------------

BAD_ROWS = {
    "nan": np.array([0.1, np.nan]),
    "infinite": np.array([np.inf, 0.1]),
    "minus infinite": np.array([0.1, -np.inf]),
    "nan in a list": [0.1, float("nan")],
    "too long": np.array([0.1, 0.1, 0.1]),
    "too short": [0.1],
    "a number": 0.1,
    "a matrix": np.zeros((1, 2)),
    "empty": [],
    "complex": np.array([0.1 + 0j, 0.1]),
    "text": ["0.1", "0.1"],
    "object": np.array([0.1, None], dtype=object),
    "boolean": np.array([True, False]),
    "float32 nan": np.array([np.nan, 0], dtype=np.float32),
    "date": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_bad_contributions_change_nothing(name, precision, monkeypatch):
    """At the first step, within a block, and where a block or an epoch ends."""
    monkeypatch.setattr(mechanism, "_BLOCK", 8)
    monkeypatch.setattr(mechanism, "_FIRST_EPOCH", 8)
    total = CASES[name](2, None, noise_precision=precision)
    twin = CASES[name](2, None, noise_precision=precision)
    for _ in range(3):
        for row in BAD_ROWS.values():
            before = frozen(total)
            with pytest.raises((ValueError, TypeError), match="contribution"):
                total.add(row)
            assert frozen(total) == before
            if np.ndim(row) == 1:
                with pytest.raises((ValueError, TypeError), match="contributions"):
                    total.run(np.stack([row, row]))
                assert frozen(total) == before
        with pytest.raises(ValueError, match="row 3"):
            total.run([[0.1, 0.1], [0.1, 0.1], [9.0, 0.1], [0.1, np.nan]])
        assert frozen(total) == before
        for end in (3, 8, 24):
            if total.steps < end:
                more = np.full((end - total.steps, 2), 0.2)
                assert np.array_equal(total.run(more), twin.run(more))
                break


def test_bad_chunks_change_nothing():
    total = CASES["tree-gaussian-honaker"](2, 8)
    total.run(np.full((3, 2), 0.1))
    before = frozen(total)
    for bad in (
        np.zeros(2),
        np.zeros((2, 3)),
        np.zeros((1, 2, 2)),
        np.zeros((6, 2)),
        None,
        "text",
        3,
    ):
        with pytest.raises((ValueError, TypeError)):
            total.run(bad)
        assert frozen(total) == before
    for t in (0, -1, 9, 1.5, True, None):
        with pytest.raises((ValueError, TypeError), match="t must"):
            total.error(t)


@pytest.mark.parametrize("name", CASES)
def test_steps_beyond_the_horizon_are_refused(name):
    total = CASES[name](2, 5)
    with pytest.raises(ValueError, match="horizon"):
        total.run(np.zeros((6, 2)))
    total.run(np.zeros((5, 2)))
    before = frozen(total)
    with pytest.raises(ValueError, match="horizon"):
        total.add([0.0, 0.0])
    with pytest.raises(ValueError, match="horizon"):
        total.run(np.zeros((1, 2)))
    assert frozen(total) == before
    assert total.run(np.zeros((0, 2))).shape == (0, 2)


# Ledgers and promises -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_ledger_is_charged_once(name):
    budget = CASES[name](2, 8).budget
    with reticent.Ledger(budget) as ledger:
        total = CASES[name](2, 8)
        assert len(ledger.entries) == 1
        assert ledger.entries[0].guarantee == total.guarantee
        total.run(np.zeros((4, 2)))
        back = type(total).from_state(total.state())
        back.run(np.zeros((4, 2)))
        assert len(ledger.entries) == 1
        with pytest.raises(reticent.privacy.BudgetExceeded):
            CASES[name](2, 8)
        assert len(ledger.entries) == 1


# Edges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_smallest_total(name, precision):
    total = CASES[name](1, 1, noise_precision=precision)
    assert np.isfinite(total.add([0.5])).all()
    assert total.error(1) > 0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [1e-3, 1e4])
def test_extreme_budgets(name, precision, epsilon):
    budget = CASES[name](1).budget.with_(epsilon=epsilon)
    total = CASES[name](2, 40, budget=budget, noise_precision=precision)
    outputs = total.run(np.full((40, 2), 0.5))
    known = 0.5 * np.arange(1, 41)[:, None]
    errors = np.array([total.error(t) for t in range(1, 41)])[:, None]
    # 23 x 2 x 2 x 80 numbers with tails no heavier than exp(-1.4 x): below 1e-7 in all
    assert (np.abs(outputs - known) < 18 * errors).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("power", [40, -40])
def test_units_do_not_matter(name, precision, power):
    """Another power of two as the norm: the same totals, to the last bit, in other units."""
    unit = 2.0**power
    rows = np.random.default_rng(6).normal(0, 0.6, (50, 3))
    plain = CASES[name](3, 50, noise_precision=precision)
    scaled = CASES[name](3, 50, norm=unit, noise_precision=precision)
    assert scaled.error(50) == pytest.approx(unit * plain.error(50), rel=1e-9)
    outputs, known = scaled.run(rows * unit), plain.run(rows) * unit
    if precision == "lattice":
        assert np.array_equal(outputs, known)
    else:
        assert np.allclose(outputs, known, rtol=1e-9, atol=1e-9 * unit)


@pytest.mark.parametrize("norm", [1e12, 1e-12])
@pytest.mark.parametrize("name", CASES)
def test_huge_and_tiny_norms(name, norm):
    total = CASES[name](2, 30, norm=norm)
    outputs = total.run(np.full((30, 2), 0.5 * norm))
    assert np.isfinite(outputs).all()
    assert total.error(30) == pytest.approx(norm * CASES[name](2, 30).error(30), rel=1e-6)
    assert (np.abs(outputs[-1] - 15 * norm) < 18 * total.error(30)).all()


@pytest.mark.parametrize("norm", [1e-100, 1e100])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_nearly_absurd_norms_are_kept(norm, precision, monkeypatch):
    """Never a contribution that is longer than its norm, and never a number that is not one."""
    reference.no_noise(monkeypatch)
    total = sums.Tree(2, 1000, budget=GAUSSIAN, norm=norm, noise_precision=precision)
    for v in ([norm / 2, 0.0], [1e-150, 0.0], [1e155, 0.0], [1e300, 1e300]):
        before = total._total.tolist()
        assert np.isfinite(total.add(v)).all()
        move = [a - b for a, b in zip(total._total.tolist(), before, strict=True)]
        moved = [Fraction(m) * Fraction(total._noise.step) for m in move]
        assert squared(moved) <= Fraction(norm) ** 2 * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(
    "name", ["tree-gaussian-honaker", "tree-gamma-plain", "correlated", "independent-gaussian"]
)
def test_a_long_stream_of_unknown_length(name):
    total = CASES[name](2)
    steps = 10_000
    rows = np.full((steps, 2), 0.25)
    outputs = total.run(rows)
    errors = np.array([total.error(t) for t in (1, 256, 257, 768, 5000, steps)])
    far = np.abs(outputs - np.cumsum(rows, axis=0))[[0, 255, 256, 767, 4999, steps - 1]]
    assert (far < 20 * errors[:, None]).all()
    assert total.steps == steps
    assert errors[-1] <= (5.5 if "independent" not in name else 101) * errors[0]


@pytest.mark.parametrize(
    "name", ["tree-gaussian-honaker", "window-tree-gamma-6", "correlated-window-8"]
)
def test_every_kind_of_real_number_is_welcome(name):
    rows = np.array([[0, 1], [0, 0], [1, 0], [0, -1]])
    known = CASES[name](2, 4).run(rows.astype(float))
    read_only = rows.astype(float)
    read_only.setflags(write=False)
    kinds = [
        rows, rows.tolist(), tuple(map(tuple, rows)), rows.astype(np.float32), rows.astype(np.int8),
        rows.astype(np.float16), np.asfortranarray(rows.astype(float)), rows.astype(">f8"), read_only,
        np.repeat(rows.astype(float), 2, axis=1)[:, ::2],
    ]  # fmt: skip
    for given in kinds:
        assert np.array_equal(CASES[name](2, 4).run(given), known)
        total = CASES[name](2, 4)
        assert np.array_equal([total.add(row) for row in given], known)
    assert np.array_equal(rows, [[0, 1], [0, 0], [1, 0], [0, -1]])


def test_the_caller_s_arrays_are_left_alone():
    rows = np.array([[3.0, 4.0], [1.7e308, 1.7e308], [0.1, 0.2]])
    kept = rows.copy()
    total = CASES["tree-gaussian-honaker"](2, 6)
    first = total.run(rows)
    copy = first.copy()
    for row in rows:
        total.add(row)
    assert np.array_equal(rows, kept)
    assert np.array_equal(first, copy)


@pytest.mark.parametrize("name", CASES)
def test_an_empty_run_is_fine(name):
    total = CASES[name](3)
    before = frozen(total)
    assert total.run(np.empty((0, 3))).shape == (0, 3)
    assert frozen(total) == before


# Threads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tree-gaussian-honaker", "window-tree-gaussian-6", "correlated"])
def test_threads_lose_nothing(name, monkeypatch):
    reference.no_noise(monkeypatch)
    monkeypatch.setattr(mechanism, "_BLOCK", 50)
    total = CASES[name](1)
    outputs: list[float] = []

    def one_by_one():
        for _ in range(1500):
            outputs.append(float(total.add(np.array([0.5]))[0]))

    def chunks():
        for _ in range(100):
            outputs.extend(total.run(np.full((15, 1), 0.5))[:, 0].tolist())

    threads = [threading.Thread(target=work) for work in (one_by_one, chunks, one_by_one)]
    pace = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pace)
    assert total.steps == 4500
    assert sorted(outputs) == [0.5 * t for t in range(1, 4501)]


def test_threads_share_a_horizon():
    """Whatever fits is added whole; whatever does not is refused whole."""
    total = CASES["tree-gaussian-honaker"](1, 1000)
    done, refused = [], []

    def work():
        for _ in range(40):
            try:
                done.append(len(total.run(np.full((30, 1), 0.5))))
            except ValueError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    pace = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pace)
    assert total.steps == sum(done) == 990
    assert len(refused) == 120 - 33
