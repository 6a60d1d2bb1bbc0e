"""Running totals on a device: the generator against another implementation, and, where there is a device, the rest."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

import reticent
from reticent import sums

pytest.importorskip("array_api_compat", reason="devices need array-api-compat")
from reticent.devices import DeviceTotal
from reticent.devices.totals import (
    CAVEAT,
    chacha_normals,
    chacha_words,
    next_key,
    rounded_weights,
    unit_of,
)


def _mechanism(dim=8, horizon=64, **options):
    budget = reticent.Budget(1.0, 1e-6)
    return sums.CorrelatedMechanism(dim, horizon, budget=budget, noise_precision="float", **options)


@pytest.mark.parametrize("block", [0, 1, 5, 2**32 + 7])
def test_the_generator_is_chacha(block):
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    key = bytes(range(32))
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, struct.pack("<QQ", block, 0)), None)
    words = struct.unpack("<16I", cipher.encryptor().update(bytes(64)))
    assert tuple(chacha_words(key, block, 20).tolist()) == words


def test_its_numbers_are_normal():
    """65,536 of them; a false alarm has probability below 1e-6."""
    z = np.concatenate([chacha_normals(bytes(32), k, 1.0) for k in range(4096)])
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1.0) < 5 * np.sqrt(2 / z.size)


def test_keys_move_on():
    assert len({bytes(32), next_key(bytes(32)), next_key(next_key(bytes(32)))}) == 3


def test_the_lattice_is_refused_and_nothing_is_spent():
    mechanism = sums.CorrelatedMechanism(8, 64, budget=reticent.Budget(1.0, 1e-6))
    with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
        with pytest.raises(ValueError, match="lattice is not certified"):
            DeviceTotal(mechanism)
        with pytest.raises(TypeError, match="CorrelatedMechanism"):
            DeviceTotal(sums.TreeMechanism(8, 64, budget=reticent.Budget(1.0, 1e-6)))
        assert not ledger.entries


@pytest.mark.parametrize("horizon", [64, 1024, None])
def test_what_rounded_weights_cost(horizon):
    """Against the coefficients of filters whose weights are off, in whichever direction."""
    n, share = 400, 2.0**-24
    filter = _mechanism(1, horizon).parameters
    powers = np.arange(n - 1)

    def inverse(weight):
        b = np.concatenate(
            [[1.0], sum(w * (1 - g) ** powers for w, g in zip(weight, filter.gap, strict=True))]
        )
        c = np.zeros(n)
        for k in range(n):  # b c = 1 / (1 - x)
            c[k] = 1.0 - b[1 : k + 1] @ c[:k][::-1]
        return c

    signs = np.array(np.meshgrid(*[[-1, 1]] * filter.buffers)).reshape(filter.buffers, -1).T
    weight, whole = np.array(filter.weight), np.linalg.norm(inverse(filter.weight))
    large = 1000 * share  # the same law, above the noise of doubles
    grown = [np.linalg.norm(inverse(weight * (1 + large * s))) / whole - 1 for s in signs]
    bound = rounded_weights(filter)
    assert 0.05 * bound < max(grown) / 1000 <= bound * 1.01


@pytest.mark.parametrize("epsilon", [1e-12, 1e-7, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("horizon", [1, 2**20, None])
def test_noise_and_totals_fit_into_64_bits(epsilon, horizon):
    budget = reticent.Budget(epsilon, min(1e-6, epsilon * 1e-3))
    mechanism = sums.CorrelatedMechanism(
        3, horizon, budget=budget, norm=0.7, noise_precision="float"
    )
    unit, last = unit_of(mechanism), int(min(mechanism.last_step, 2**30))
    largest = max(mechanism.error(t) for t in (1, max(1, last // 2), last))
    assert 2**30 * 0.7 / unit + 40 * largest / unit < 2**63
    assert unit <= max(0.7 * 2.0**-31, largest * 2.0**-50)


def test_little_privacy_loss_means_much_noise_and_not_none(cupy):
    """At epsilon = 1e-9 noise is ten orders of magnitude above a record, and varies from coordinate to coordinate."""
    mechanism = sums.CorrelatedMechanism(
        4096, 8, budget=reticent.Budget(1e-9, 1e-12), noise_precision="float"
    )
    seen = DeviceTotal(mechanism, seed=0).add(cupy.ones(4096, dtype="f4")).get().astype(float)
    assert abs(seen.std() / mechanism.error(1) - 1.0) < 0.06  # 5 standard errors
    assert len(np.unique(seen)) > 4000


def test_persons_are_refused():
    participation = reticent.privacy.Participation(max_records=2)
    with pytest.raises(ValueError, match="does not support persons"):
        DeviceTotal(_mechanism(participation=participation))


def _reference(mechanism, key, rows):
    """Totals and noise in plain NumPy, double precision."""
    gap, weight = np.array(mechanism.parameters.gap), np.array(mechanism.parameters.weight)
    buffers, total, out = np.zeros((len(gap), mechanism.dim)), np.zeros(mechanism.dim), []
    for v in rows:
        z, seen = np.zeros(mechanism.dim), 4 if mechanism.dim % 4 == 0 else 1
        for j in range(mechanism.dim):
            block, rest = divmod(j, 128 * 16)
            part, within = divmod(rest, 128 * seen)
            thread, w = divmod(within, seen)
            z[j] = chacha_normals(key, block * 128 + thread, mechanism.scale())[part * seen + w]
        size = np.linalg.norm(v.astype(float))
        total = total + v * min(1.0, mechanism.norm / size)
        out.append(total + z + weight @ buffers)
        buffers += z - gap[:, None] * buffers
        key = next_key(key)
    return np.array(out)


@pytest.mark.parametrize("dim", [8, 7, 2100])
@pytest.mark.parametrize("at_once", [False, True])
def test_totals_are_those_of_the_reference(cupy, dim, at_once):
    mechanism = _mechanism(dim)
    rows = np.random.default_rng(0).standard_normal((5, dim)).astype(np.float32)
    total = DeviceTotal(mechanism, seed=0)
    key = total._key
    made = cupy.asarray(rows)
    found = total.run(made) if at_once else cupy.stack([total.add(v) for v in made])
    assert found.get() == pytest.approx(_reference(mechanism, key, rows), rel=1e-4, abs=1e-3)
    assert total.clipped == 5
    assert CAVEAT in total.guarantee.caveats


def test_a_state_goes_on_and_only_once(cupy):
    rows = cupy.asarray(np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32))
    whole = DeviceTotal(_mechanism(), seed=0).run(rows).get()
    first = DeviceTotal(_mechanism(), seed=0)
    first.run(rows[:3])
    state = first.state()
    second = DeviceTotal.from_state(state)
    assert np.array_equal(second.run(rows[3:]).get(), whole[3:])
    with pytest.raises(reticent.privacy.ForkError):
        DeviceTotal.from_state(state).run(rows[3:])


def test_bad_vectors_are_refused_and_nothing_is_added(cupy):
    total = DeviceTotal(_mechanism(), seed=0)
    for bad in (cupy.ones(7, dtype="f4"), cupy.ones(8)):
        with pytest.raises(ValueError, match="float32"):
            total.add(bad)
    with pytest.raises(TypeError, match="on the device"):
        total.add(np.ones(8, dtype="f4"))
    with pytest.raises(ValueError, match="exceed the horizon"):
        total.run(cupy.ones((65, 8), dtype="f4"))
    assert total.steps == 0


@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_not_finite_is_a_null_record_and_nothing_is_released(cupy, at_once):
    rows = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    total, twin = DeviceTotal(_mechanism(), seed=0), DeviceTotal(_mechanism(), seed=0)
    bad = rows.copy()
    bad[1, 5] = np.nan
    bad[2, 0] = np.inf
    with pytest.raises(ValueError, match="null record"):
        total.run(cupy.asarray(bad)) if at_once else [total.add(v) for v in cupy.asarray(bad)]
    if not at_once:
        with pytest.raises(ValueError, match="null record"):
            total.add(cupy.asarray(bad[2]))
    null = rows.copy()
    null[1:] = 0.0
    twin.run(cupy.asarray(null))
    last = cupy.asarray(rows[0])
    assert np.array_equal(total.add(last).get(), twin.add(last).get())


@pytest.mark.parametrize("size", [1.0000001, 3.0, 1e18, 3e38])
def test_what_is_scaled_stays_within_the_norm_after_rounding(cupy, size):
    total = DeviceTotal(_mechanism(2100, norm=0.7), seed=0)
    v = np.random.default_rng(0).standard_normal(2100)
    total.add(cupy.asarray((0.7 * size * v / np.linalg.norm(v)).astype(np.float32)))
    added = total._total.get().astype(np.float64) * float(total._plan["unit"])
    assert 0.699997 < np.linalg.norm(added) <= 0.7


def test_adding_never_rounds(cupy):
    """Neighbours stay one record apart, whatever follows: in floating point these vectors would move them apart."""
    first, second = (DeviceTotal(_mechanism(1, 2**20), seed=0) for _ in range(2))
    first.add(cupy.asarray([0.5], dtype="f4"))
    second.add(cupy.asarray([0.0], dtype="f4"))
    up, down = cupy.full((2000, 1), 0.07, dtype="f4"), cupy.full((2000, 1), -0.06, dtype="f4")
    rows = cupy.concatenate(
        [cupy.ones((2**16 - 1, 1), dtype="f4"), cupy.hstack([up, down]).reshape(-1, 1)]
    )
    first.run(rows)
    second.run(rows)
    assert (first._total - second._total).get().tolist() == [2**31]


def test_too_little_memory_changes_nothing(cupy):
    rows = cupy.ones((60, 2**20), dtype="f4")
    total, twin = (DeviceTotal(_mechanism(2**20), seed=0) for _ in range(2))
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + 2**20)
    try:
        with pytest.raises(MemoryError):
            total.run(rows)
    finally:
        pool.set_limit(size=0)
    assert total.steps == 0
    assert np.array_equal(total.run(rows).get(), twin.run(rows).get())


LOST = """
import cupy, numpy as np
import reticent
from reticent import sums
from reticent.devices import DeviceTotal

mechanism = sums.CorrelatedMechanism(8, 64, budget=reticent.Budget(1.0, 1e-6), noise_precision="float")
total, vector = DeviceTotal(mechanism, seed=0), cupy.ones(8, dtype="f4")
total.add(vector)
code = 'extern "C" __global__ void nowhere(int* p) { *p = 1; }'
cupy.RawKernel(code, "nowhere")((1,), (1,), (np.int64(8),))
for attempt in range(2):
    try:
        print("released", total.add(vector))
    except Exception as error:
        print("refused", type(error).__name__)
"""


def test_nothing_is_released_once_the_device_is_lost(cupy):
    command = [sys.executable, "-W", "ignore", "-c", LOST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split()[::2] == ["refused", "refused"], done.stderr
