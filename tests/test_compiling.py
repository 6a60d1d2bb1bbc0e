"""A cached kernel never outlives a change of the sources, and a cache is kept only where nobody else can write.

Each test works on a copy of the package in a temporary folder and starts fresh processes there, as a user does
who installs a repaired version over a broken one.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import reticent
from reticent import compiling

PACKAGE = Path(reticent.__file__).parent
NOBODY = 65534

# A kernel of one file that calls a kernel of another, as every loop calls the door of `noise/door.py`.
CALLED = "\n\n@compiled\ndef probe(x):\n    return {factor} * x\n"
CALLER = """
from reticent.sums.kernels import probe


@compiled
def through(x):
    return probe(x) + 0.0


@specialised
def inner(number):
    @compiled
    def kernel(x):
        return number * probe(x)

    return kernel


@specialised
def outer(number):
    @compiled
    def kernel(x):
        return inner(number)(x)

    return kernel
"""
ASK = "from reticent.online.kernels import through; print(through(1.0))"
WHERE = "from reticent import compiling; print(compiling.folder())"

# A decision without projection is linear in the total: its distance from that of a zero record shows the contribution.
LEARN = """
import numpy as np
from reticent import Budget, losses, online, sets

def decision(size):
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(2, radius=1e6), losses.Logistic(), budget=Budget(1.0, 1e-6), horizon=10,
        noise_precision="float", seed=1)
    learner.update(np.array([size, 0.0]))
    return learner.decision[0]

print(decision(0.0) - decision(10.0))
"""


@pytest.fixture
def copy():
    """A folder with a copy of the package that other users may read, with the two kernels added."""
    place = Path(tempfile.mkdtemp(prefix="reticent-test-"))
    place.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__")
    home = shutil.copytree(PACKAGE, place / "reticent", ignore=ignored)
    repair(place, 1.0)
    with (home / "online" / "kernels.py").open("a") as file:
        file.write(CALLER)
    (place / "home").mkdir()
    yield place
    for folder in place.rglob("*"):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)
    shutil.rmtree(place)


def repair(copy, factor):
    kernels = copy / "reticent" / "sums" / "kernels.py"
    kernels.write_text((PACKAGE / "sums" / "kernels.py").read_text() + CALLED.format(factor=factor))


# Modes say nothing to root; a mount of one's own does.
MOUNT = """
for folder in {folders}; do
    mount --bind "$folder" "$folder" && mount -o remount,ro,bind "$folder" || exit 77
done
exec "$@"
"""


def start(copy, code, *, unwritable=(), **environment):
    settings = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    settings |= {
        "PYTHONPATH": str(copy),
        "HOME": str(copy / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    settings.pop("XDG_CACHE_HOME", None)
    command = [sys.executable, "-c", code]
    if unwritable and os.geteuid() == 0:
        folders = " ".join(str(copy / name) for name in unwritable)
        script = MOUNT.format(folders=folders)
        command = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
    else:
        for name in unwritable:
            (copy / name).chmod(0o555)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=settings | environment, cwd=copy, text=True, **pipes)


def finish(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out.strip()


def run(copy, code, **options):
    return finish(start(copy, code, **options))


def caches(copy):
    """The folders of caches in the copy's own ``__pycache__``."""
    return sorted((copy / "reticent" / "__pycache__").glob("reticent-*/*"))


@pytest.fixture
def modes():
    """Skip where no folder can be made unwritable."""
    if not hasattr(os, "geteuid"):
        pytest.skip("this system has no modes")
    if os.geteuid() == 0 and (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    ):
        pytest.skip("root can write everywhere, and may not mount anything here")


# --- a change takes effect


def test_a_change_in_another_file_takes_effect(copy):
    assert run(copy, ASK) == "1.0"
    repair(copy, 2.0)
    assert run(copy, ASK) == "2.0"


def test_a_change_back_takes_effect_and_the_cache_is_used(copy):
    asked = ASK + "; print(sum(through.stats.cache_hits.values()))"
    assert run(copy, asked).split() == ["1.0", "0"]
    assert run(copy, asked).split() == ["1.0", "1"]
    repair(copy, 3.0)
    assert run(copy, asked).split() == ["3.0", "0"]


def test_a_learner_runs_the_clip_that_is_installed(copy):
    """The loop of the learners is in another file than the door, and calls the cut through three functions."""
    honest = float(run(copy, LEARN))
    door = copy / "reticent" / "noise" / "door.py"
    source = door.read_text()
    assert "def cut(rows, r, scale, limit, out, q)" in source, (
        "the cut has another name: change this test"
    )
    door.write_text(
        source.replace("def cut(", "def _before(")
        + "\n\n@compiled\ndef cut(rows, r, scale, limit, out, q):\n"
        "    return _before(rows, r, scale, 2.0 * limit, out, q)\n"
    )
    assert float(run(copy, LEARN)) == pytest.approx(2.0 * honest, rel=1e-9)


def test_a_specialised_kernel_has_its_own_cache(copy):
    asked = (
        "from reticent.online.kernels import outer; made = outer({0}); "
        "print(made(1.0), sum(made.stats.cache_hits.values()), made.stats.cache_path)"
    )
    first, second = (run(copy, asked.format(number)).split() for number in (5, 7))
    assert (first[0], second[0]) == ("5.0", "7.0")
    assert first[2] != second[2]
    for number in (5, 7):
        assert run(copy, asked.format(number)).split()[:2] == [f"{number}.0", "1"]


NAMES = "print(*(next(iter(inner(k).overloads.values())).fndesc.unique_name for k in (5, 7)))"


@pytest.mark.slow
def test_kernels_of_different_processes_do_not_mix(copy):
    """Numba numbers the functions of a process; machine code of two kernels with one name and number must not mix."""
    code = (
        "import itertools, numpy as np\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "from reticent.online.kernels import inner, outer\n"
    )
    count = code + "FunctionIdentity._unique_ids = itertools.count({0})\n"
    number = "next(iter(inner(5).overloads.values())).fndesc.unique_name.split('$')[1]"
    said = run(copy, count.format(1000) + f"print(outer(5)(1.0), {number})")
    assert said.split()[0] == "5.0"
    given = said.split()[1]
    asked = "print(inner(7)(1.0), next(iter(inner(7).overloads.values())).fndesc.unique_name)"
    assert run(copy, count.format(given) + asked).split()[0] == "7.0"
    assert run(copy, code + "print(outer(5)(1.0), inner(7)(1.0))") == "5.0 7.0"
    assert run(copy, code + "print(inner(7)(1.0), outer(5)(1.0))") == "7.0 5.0"
    numbers = {run(copy, code + "print(next(FunctionIdentity._unique_ids))") for _ in range(3)}
    assert len(numbers) == 3  # by chance equal with probability 2^-46
    # where a number is the same, the name is not
    names = run(copy, code + "for k in (5, 7):\n    inner(k)(1.0)\n" + NAMES).split()
    assert names[0].split("$")[0] != names[1].split("$")[0]


def test_specialised_kernels_take_whole_numbers_only():
    number, array = 2.0, [1]

    def closing(x):
        return number * x + len(array)

    with pytest.raises(TypeError, match="integers only"):
        compiling.compiled(closing)
    with pytest.raises(TypeError, match="takes integers only"):
        compiling.specialised(lambda kind: kind)(1.5)


def test_old_caches_are_removed_but_not_under_a_living_process(copy):
    if compiling.fcntl is None:
        pytest.skip("this system has no locks on folders")
    living = start(copy, ASK + "; import sys; sys.stdout.flush(); sys.stdin.read()")
    assert living.stdout.readline().strip() == "1.0"
    (first,) = caches(copy)
    repair(copy, 2.0)
    assert run(copy, ASK) == "2.0"
    assert first in caches(copy)
    assert list(first.rglob("*.nbc"))
    living.stdin.close()
    living.wait(timeout=300)
    living.stdout.close()
    living.stderr.close()
    assert run(copy, ASK) == "2.0"
    assert first not in caches(copy)
    assert len(caches(copy)) == 1


def imported_from(tree):
    """Each imported name of this package with the file that it comes from."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reticent"):
            module = PACKAGE.joinpath(*node.module.split(".")[1:])
            for alias in node.names:
                inner = module / f"{alias.name}.py"
                outer = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
                found[alias.asname or alias.name] = inner if inner.exists() else outer
    return found


def is_compiled(node):
    return isinstance(node, ast.FunctionDef) and any(
        "compiled" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def names_in(node):
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def test_kernels_use_only_what_the_digest_covers():
    """Follows every name in a kernel, through constants of its own file, to the file that defines it."""
    covered, outside = set(), []
    trees = {}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        # the last two compile nothing
        assert path.name in ("compiling.py", "compile_notice.py", "interpreting.py") or not any(
            isinstance(node, ast.Import | ast.ImportFrom) and "numba" in ast.unparse(node)
            for node in ast.walk(ast.parse(source))
        ), f"{path} compiles without the cache of reticent.compiling"
        if "reticent.compiling" in source:
            covered.add(path)
            trees[path] = ast.parse(source)
    for path, tree in trees.items():
        imported = imported_from(tree)
        constants = {
            target.id: names_in(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        used, new = set(), set()
        for node in ast.walk(tree):
            if is_compiled(node):
                new |= set().union(*(names_in(statement) for statement in node.body))
        while new:
            used |= new
            new = set().union(*(constants.get(name, set()) for name in new)) - used
        outside += [
            f"{path}: {name}" for name in used & set(imported) if imported[name] not in covered
        ]
    assert len(covered) > 20
    assert not outside


# --- where a cache may lie


@pytest.mark.usefixtures("modes")
def test_no_folder_can_be_written(copy):
    """Neither the package nor the user's folders: everything works, compiled anew."""
    assert run(copy, WHERE, unwritable=("reticent", "home")) == "None"
    assert run(copy, ASK, unwritable=("reticent", "home")) == "1.0"
    assert not caches(copy)


@pytest.mark.usefixtures("modes")
def test_the_user_cache_is_next(copy):
    chosen = Path(run(copy, WHERE, unwritable=("reticent",)))
    assert chosen.is_relative_to(copy / "home" / ".cache")
    assert chosen.parent.stat().st_mode & 0o777 == 0o700
    assert run(copy, ASK, unwritable=("reticent",)) == "1.0"
    assert list(chosen.rglob("*.nbc"))


def test_a_given_folder_is_the_parent(copy):
    given = copy / "given"
    assert Path(run(copy, WHERE, NUMBA_CACHE_DIR=str(given))).is_relative_to(given)
    assert run(copy, ASK, NUMBA_CACHE_DIR=str(given)) == "1.0"
    assert list(given.rglob("*.nbc"))
    assert not caches(copy)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no modes")
class TestTrust:
    """Whoever can write a cache runs code as its user."""

    def test_a_private_folder(self, tmp_path):
        compiling._make_private(tmp_path / "mine")

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
    def test_a_folder_that_others_can_enter(self, tmp_path, mode):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine").chmod(mode)
        with pytest.raises(PermissionError, match="only this user"):
            compiling._make_private(tmp_path / "mine")

    def test_a_link(self, tmp_path):
        (tmp_path / "theirs").mkdir(mode=0o700)
        (tmp_path / "mine").symlink_to(tmp_path / "theirs")
        with pytest.raises(PermissionError, match="only this user"):
            compiling._make_private(tmp_path / "mine")

    def test_strangers_can_write_above(self, tmp_path):
        (tmp_path / "open" / "below").mkdir(parents=True)
        (tmp_path / "open").chmod(0o777)
        with pytest.raises(PermissionError, match="other users could replace"):
            compiling._make_private(tmp_path / "open" / "below" / "mine")
        (tmp_path / "open").chmod(0o1777)
        compiling._make_private(tmp_path / "open" / "below" / "mine")

    def test_another_owner(self, tmp_path):
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        (tmp_path / "mine").mkdir(mode=0o700)
        os.chown(tmp_path / "mine", NOBODY, NOBODY)
        with pytest.raises(PermissionError, match="only this user"):
            compiling._make_private(tmp_path / "mine")
        os.chown(tmp_path, NOBODY, NOBODY)
        with pytest.raises(PermissionError, match="other users could replace"):
            compiling._make_private(tmp_path / "other")


# --- what a person reads meanwhile


IMPATIENT = "from reticent import compile_notice; compile_notice.PATIENCE = 0.0\n"


def test_a_first_call_says_what_it_waits_for(copy):
    cold = start(copy, IMPATIENT + ASK)
    out, said = cold.communicate(timeout=300)
    assert out.strip() == "1.0"
    assert said.count("compiling") == said.count("\n") == 1
    assert str(caches(copy)[0]) in said
    warm = start(copy, IMPATIENT + ASK)
    assert warm.communicate(timeout=300) == ("1.0\n", "")


def test_without_a_folder_it_says_the_remedy(copy, modes):
    cold = start(copy, IMPATIENT + ASK, unwritable=("reticent", "home"))
    out, said = cold.communicate(timeout=300)
    assert out.strip() == "1.0"
    assert "NUMBA_CACHE_DIR" in said


def test_other_kernels_and_quick_ones_are_not_spoken_of(copy):
    foreign = "import numba\n@numba.njit\ndef own(x):\n    return x\nprint(own(1.0))\n"
    process = start(copy, IMPATIENT + "import reticent.sums.kernels\n" + foreign)
    assert process.communicate(timeout=300) == ("1.0\n", "")
    patient = "from reticent import compile_notice; compile_notice.PATIENCE = 1e6\n"
    assert start(copy, patient + ASK).communicate(timeout=300) == ("1.0\n", "")


# --- processes and threads at the same time


def test_processes_that_start_together(copy):
    started = [start(copy, ASK) for _ in range(4)]
    assert [finish(process) for process in started] == ["1.0"] * 4
    assert len(caches(copy)) == 1


def test_threads_that_import_together(copy):
    code = """
import importlib, sys, threading
import numba
numba.config.CACHE_DIR = "given"
names = ["sums.tree", "online.kernels", "bandit.kernels", "erm.rounded_sums", "noise.lattice", "sets.flow"]
start = threading.Barrier(len(names))
def load(name):
    start.wait()
    importlib.import_module("reticent." + name)
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert numba.config.CACHE_DIR == "given"
from reticent import compiling
folder = str(compiling.folder())
found = [value for module in list(sys.modules.values()) if module.__name__.startswith("reticent")
         for value in vars(module).values() if hasattr(value, "py_func")]
assert len(found) > 60, len(found)
for made in found:
    machine_code = getattr(made, "machine_code", made)
    assert str(machine_code.stats.cache_path).startswith(folder), made
"""
    run(copy, code)
