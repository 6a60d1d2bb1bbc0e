"""State files: private, whole or absent, encrypted under a key that each save replaces."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import reticent
from reticent import sums
from reticent.state import files, lease
from reticent.state.files import File

BUDGET = reticent.Budget(1.0, 1e-6)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def a_total(steps=10, dim=3):
    total = sums.Tree(dim, 64, budget=BUDGET)
    total.run(np.random.default_rng(0).normal(0, 0.3, (steps, dim)))
    return total


def slots(path):
    data = path.with_name(path.name + ".key").read_bytes().ljust(8192, b"\0")
    return data[:32], data[4096:4128]


def test_a_saved_state_is_private_and_whole(tmp_path):
    path = tmp_path / "total.state"
    total = a_total()
    mask = os.umask(0)
    try:
        reticent.save_state(total.state(), path)
    finally:
        os.umask(mask)
    for name in ("total.state", "total.state.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["total.state", "total.state.key"]
    known = total.run(np.zeros((10, 3)))
    lease._known.clear()  # as in a new process
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = sums.Tree.from_state(reticent.load_state(path))
    np.testing.assert_array_equal(back.run(np.zeros((10, 3))), known)
    reticent.save_state(back.state(), str(path))  # over the old one
    assert reticent.load_state(path)["steps"] == 20


@pytest.mark.parametrize("name", ["total.state", "total.state.key"])
def test_what_others_can_read_is_warned_about(tmp_path, name):
    path = tmp_path / "total.state"
    files.save(a_total().state(), path)
    for mode in (0o640, 0o604, 0o620):
        (tmp_path / name).chmod(mode)
        with pytest.warns(UserWarning, match="secret"):
            files.load(path)


def test_an_object_is_not_its_state(tmp_path):
    total = sums.Independent(2, budget=reticent.Budget(1.0, 1e-6))
    with pytest.raises(TypeError, match=r"Independent; pass its state\(\)"):
        reticent.save_state(total, tmp_path / "total")
    assert not list(tmp_path.iterdir())


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "total.state"
    files.save(a_total().state(), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(9)
    broken = [b"", whole[:5], whole[:40], whole[:-1], whole + b"x", b"PK" + whole[2:]]
    for position in [*range(0, 60, 7), *rng.integers(60, len(whole), 40).tolist()]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(rng.integers(8))
        broken.append(bytes(flipped))
    for data in broken:
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(ValueError, match="state"):
            files.load(path)
    path.write_bytes(whole)
    assert files.load(path)["steps"] == 10
    with pytest.raises(OSError):
        files.load(tmp_path / "absent")
    with pytest.raises(OSError):
        files.save({}, tmp_path / "absent" / "total.state")


def test_files_of_an_earlier_version_are_refused_in_words(tmp_path):
    path = tmp_path / "total.state"
    path.write_bytes(b"reticent-state\n" + bytes(100))
    path.chmod(0o600)
    with pytest.raises(ValueError, match="earlier version"):  # such files have no key
        files.load(path)
    files.save({"a": 1}, tmp_path / "other")
    shutil.copy(tmp_path / "other", tmp_path / "keyless")
    with pytest.raises(ValueError, match="key of this state is missing"):
        files.load(tmp_path / "keyless")
    shutil.copy(tmp_path / "other.key", tmp_path / "total.state.key")
    with pytest.raises(ValueError, match="earlier version"):
        files.load(path)
    with pytest.raises(ValueError, match="version"):
        sums.Tree.from_state(a_total().state() | {"version": 2})


def test_files_of_the_former_name_are_refused_in_words(tmp_path):
    """As Tacit wrote them: the same layout with another signature, without a key."""
    data = files.dumps({"kind": "Tree", "version": 2})
    data = data.replace(b"reticent-state", b"tacit-state")
    path = tmp_path / "total.state"
    path.write_bytes(data)
    words = r"saved by Tacit, the former name of this project.*continue it with the version that wrote it"
    with pytest.raises(ValueError, match=words):
        reticent.load_state(path)
    with pytest.raises(ValueError, match=words):
        files.loads(data)
    total = sums.Tree(2, 100, budget=reticent.Budget(1.0, 1e-6), seed=0)
    with pytest.raises(ValueError, match=words):
        reticent.committed(total, path)
    assert path.read_bytes() == data
    assert not path.with_name("total.state.key").exists()


def test_another_format_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "FORMAT", 99)
        data = files.dumps({"a": 1})
    with pytest.raises(ValueError, match="format 99"):
        files.loads(data)


@pytest.mark.parametrize("moment", ["fsync", "replace", "pwrite"])
def test_a_failed_save_leaves_the_old_state_and_nothing_else(tmp_path, monkeypatch, moment):
    path = tmp_path / "total.state"
    total = a_total()
    files.save(total.state(), path)
    before = path.read_bytes()
    total.add([0.5, 0.0, 0.0])

    def fail(*arguments):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, fail)
        with pytest.raises(OSError, match="space"):
            files.save(total.state(), path)
    assert sorted(os.listdir(tmp_path)) == ["total.state", "total.state.key"]
    assert path.read_bytes() == before
    assert files.load(path)["steps"] == 10


# Crashes ------------------------------------------------------------------------------------------

CALLS = ("open", "pwrite", "fsync", "replace", "unlink", "close", "fchmod")


def die_at(number, work):
    """Run ``work`` in a child that ends, as by kill -9, at the number-th call of the system."""
    child = os.fork()
    if child == 0:
        made = 0

        def wrap(call):
            def counted(*arguments, **named):
                nonlocal made
                made += 1
                if made == number:
                    os._exit(9)
                return call(*arguments, **named)

            return counted

        try:
            for name in CALLS:
                setattr(os, name, wrap(getattr(os, name)))
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_a_crash_at_any_point_leaves_a_state_that_loads(tmp_path, earlier):
    """After none, one or two earlier saves, so that either slot is the spare one."""
    points = 0
    while True:
        points += 1
        folder = tmp_path / str(points)
        folder.mkdir()
        path = folder / "state"
        for number in range(earlier):
            files.save({"number": number}, path)
        status = die_at(points, lambda path=path: files.save({"number": 99}, path))
        if path.exists():
            found = files.load(path)["number"]
            assert found in ((99,) if earlier == 0 else (earlier - 1, 99))
            # what is left over opens nothing and holds nothing
            assert sorted(os.listdir(folder)) == ["state", "state.key"]
            assert sorted(map(any, slots(path))) == [False, True]
        else:
            assert earlier == 0
        files.save({"number": 100}, path)
        assert files.load(path) == {"number": 100}
        assert sorted(os.listdir(folder)) == ["state", "state.key"]
        if status == 0:
            break
    assert points > 10


SCRIPT = """
import sys, numpy as np, reticent
total = reticent.sums.Independent(2000, budget=reticent.Budget(1.0, 1e-6))
print("ready", flush=True)
while True:
    total.add(np.zeros(2000))
    reticent.save_state(total.state(), sys.argv[1])
"""


def test_a_killed_process_leaves_no_parts_for_ever(tmp_path):
    """Really killed (SIGKILL); of three attempts some catch it in the middle of a save."""
    path, rng = tmp_path / "state", np.random.default_rng(0)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        while not path.exists():
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.1)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        state = files.load(path)
        assert state["steps"] > 0
        assert sorted(os.listdir(tmp_path)) == ["state", "state.key"]
        File(path).erase()
    assert os.listdir(tmp_path) == []


# What old files tell ------------------------------------------------------------------------------


def test_nothing_old_is_left_in_the_folder_and_old_files_stay_shut(tmp_path):
    path, total = tmp_path / "total.state", sums.Tree(3, 64, budget=BUDGET)
    secrets, backups = [], []
    for step in range(8):
        total.add([0.1 * step, 0.2, 0.3])
        state = total.state()
        files.save(state, path)
        key = state["source"]["next"]
        secrets += [state["total"].tobytes(), key.encode(), bytes.fromhex(key)]
        old = [slot for slot in slots(path) if any(slot)]
        assert len(old) == 1
        backups.append((path.read_bytes(), old[0]))
    contents = [(tmp_path / name).read_bytes() for name in os.listdir(tmp_path)]
    for data in contents:
        assert not any(secret in data for secret in secrets)  # the present ones neither
        assert not any(key in data for _, key in backups[:-1])
    assert len({key for _, key in backups}) == 8
    for number, (data, _) in enumerate(backups[:-1]):
        backup = tmp_path / f"backup{number}"
        backup.write_bytes(data)
        backup.chmod(0o600)
        shutil.copy(f"{path}.key", f"{backup}.key")
        with pytest.raises(ValueError, match="does not contain the key"):
            files.load(backup)


def test_erasing_removes_the_key_first(tmp_path, monkeypatch):
    path = tmp_path / "state"
    files.save({"number": 1}, path)
    gone = []
    unlink = type(path).unlink

    def watch(self, *arguments, **named):
        gone.append((self.name, any(File(path).key_path.read_bytes()) if not gone else None))
        unlink(self, *arguments, **named)

    monkeypatch.setattr(type(path), "unlink", watch)
    File(path).erase()
    assert gone[0] == ("state", False)
    assert os.listdir(tmp_path) == []
    File(path).erase()  # nothing to do
