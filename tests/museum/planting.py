"""Plant one bug in the package as it is imported, run the lines that must catch it, and print what they found.

The file on disk is never touched: a loader hands the interpreter the patched text of that one module, in a process of
its own. Where compiled code changes, the process has a folder of kernels of its own, so that no buggy kernel outlives
it. Run as a script with the name of a bug, it prints one line of JSON.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "reticent"
PATIENCE = 600  # seconds for one bug

UNPAID = (("erm/solver.py", "        self.allowance.take(scale)\n", ""),)
"""A further patch: without it, a run refuses draws that its plan's releases do not pay for."""


@dataclass(frozen=True)
class Bug:
    """A realistic fault.

    Parameters
    ----------
    name : str
        In a few words, with dashes.
    file : str
        Below ``src/reticent``.
    old : str
        Text that the file contains exactly once.
    new : str
        What takes its place.
    why : str
        What is wrong with it, and where it has happened if it has.
    lines : tuple of str
        ``"family: setting"`` of the lines of the audit that must refute it.
    mode : {"quick", "full"}
        The mode of the audit in which those lines run.
    more : tuple of (file, old, new)
        Further patches, where one alone would be caught by a second line of defence in the product.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    lines: tuple[str, ...]
    mode: str = "quick"
    more: tuple[tuple[str, str, str], ...] = ()

    @property
    def changes_kernels(self) -> bool:
        """Whether a patched file holds compiled code, so that kernels have to be compiled anew."""
        return any("reticent.compiling" in text for _, text in self.patched().values())

    def patched(self) -> dict[str, tuple[Path, str]]:
        """Modules, their files and their text with the bug; ``ValueError`` where a patch no longer applies."""
        texts = {}
        for file, old, new in ((self.file, self.old, self.new), *self.more):
            text = (PACKAGE / file).read_text()
            found = text.count(old)
            if found != 1:
                raise ValueError(
                    f"bug {self.name!r}: {file} contains its snippet {found} times, not once; "
                    f"the code has changed, so change the patch:\n{old}"
                )
            parts = Path(file).with_suffix("").parts
            texts[".".join(("reticent", *parts))] = (PACKAGE / file, text.replace(old, new))
        return texts


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module from other text than its file's."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str):
        return compile(self._text, self.get_filename(fullname), "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, bug: Bug) -> None:
        self._texts = bug.patched()

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self._texts:
            return None
        file, text = self._texts[fullname]
        loader = _Loader(fullname, str(file), text)
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


def plant(bug: Bug) -> None:
    """From now on the package is imported with the bug in it."""
    if "reticent" in sys.modules:
        raise RuntimeError("a bug can be planted only before the package is imported")
    sys.meta_path.insert(0, _Finder(bug))


def run_here(bug: Bug) -> dict[str, object]:
    """Plant a bug in this process and run its lines."""
    plant(bug)
    import numpy as np

    from reticent.audit import everything, whitebox_cases

    verdicts = []
    for line in bug.lines:
        family, setting = line.split(": ", 1)
        if family == "attack":
            (task,) = (
                task
                for task in everything.planned(bug.mode == "quick", white_box=False)
                if everything.title(*task[:3]) == tuple(setting.split("; "))
            )
            found = everything.run_line(*task).finding
        else:
            (case,) = (c for c in whitebox_cases.cases(family) if c.setting == setting)
            with np.errstate(all="ignore"):
                found = case.check()
        verdicts.append({"line": line, "verdict": found.verdict, "how": found.how,
                         "share": found.tightness})  # fmt: skip
    caught = all(v["verdict"] == "REFUTED" for v in verdicts)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(part.ru_utime + part.ru_stime for part in used)
    return {"name": bug.name, "caught": caught, "processor": round(processor, 2), "lines": verdicts}


def run(bug: Bug) -> dict[str, object]:
    """Plant a bug in a process of its own; what went wrong there does not count as caught."""
    with tempfile.TemporaryDirectory() as kernels:
        # Strangers must not be able to write above a folder of kernels.
        cache = {"NUMBA_CACHE_DIR": kernels} if bug.changes_kernels else {}
        source = str(PACKAGE.parent)
        began = time.perf_counter()
        try:
            answer = subprocess.run(
                [sys.executable, "-W", "ignore", str(Path(__file__)), bug.name],
                capture_output=True, text=True, timeout=PATIENCE, check=False,
                env={**os.environ, **cache, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"name": bug.name, "caught": False, "mode": bug.mode, "lines": [], "seconds": PATIENCE,
                    "error": f"no answer within {PATIENCE} s"}  # fmt: skip
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"name": bug.name, "caught": False, "mode": bug.mode, "lines": [], "error": last[0],
                "seconds": time.perf_counter() - began}  # fmt: skip
    found = json.loads(answer.stdout.strip().splitlines()[-1])
    return {**found, "mode": bug.mode, "seconds": round(time.perf_counter() - began, 2)}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from museum import bugs

    print(json.dumps(run_here(bugs.find(sys.argv[1]))))
