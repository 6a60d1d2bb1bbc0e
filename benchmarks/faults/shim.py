"""Orders for ``shim.c``: compiles it, and tells a running process which faults to have."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

_FIELDS = ("clock", "slow", "full", "broken", "kill", "count", "lies")
_SIZE = 64


class Shim:
    """Faults of one process, ordered while it runs.

    Parameters
    ----------
    work : path
        Where the library, the orders and the shadow are kept; outside ``folder``.
    folder : path
        The files that may fail.
    power : bool
        Whether to keep what was last synced of each file, for :meth:`cut_power`.
    """

    def __init__(self, work: Path, folder: Path, *, power: bool = False) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.shadow = work / "shadow" if power else None
        if self.shadow is not None:
            self.shadow.mkdir(exist_ok=True)
        library = work / "shim.so"
        source = Path(__file__).with_name("shim.c")
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        control = work / "control"
        control.write_bytes(bytes(_SIZE))
        self._file = open(control, "r+b")  # noqa: SIM115 (as long as this object)
        self._map = mmap.mmap(self._file.fileno(), _SIZE)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULTS_CONTROL": str(control),
            "FAULTS_FOLDER": str(self.folder),
        }
        if self.shadow is not None:
            self.environment["FAULTS_SHADOW"] = str(self.shadow)

    def set(self, **orders: int) -> None:
        """Order faults: ``clock`` (seconds), ``slow`` (microseconds), ``full``, ``broken``, ``kill`` (calls),
        ``lies``."""
        for name, value in orders.items():
            struct.pack_into("<q", self._map, 8 * _FIELDS.index(name), value)

    def get(self, name: str) -> int:
        """What is ordered now, or ``count``, how many writes and syncs there were."""
        (value,) = struct.unpack_from("<q", self._map, 8 * _FIELDS.index(name))
        return int(value)

    def calm(self) -> None:
        """No faults any more."""
        self.set(clock=0, slow=0, full=0, broken=0, kill=0, lies=0)

    def cut_power(self) -> None:
        """Set every file back to what was last synced; the process must be dead."""
        assert self.shadow is not None
        kept = {path.name.replace("%", "/"): path for path in self.shadow.iterdir()}
        for file in [path for path in self.folder.rglob("*") if path.is_file()]:
            found = kept.get(str(file)[1:])
            if found is not None:
                shutil.copyfile(found, file)
            elif file.stat().st_size:
                os.unlink(file)  # never synced: it may never have been there


def available() -> str | None:
    """Why the shim cannot be used here; None if it can."""
    if os.uname().sysname != "Linux":
        return "faults are put between the process and libc by LD_PRELOAD, which is for Linux"
    if shutil.which("gcc") is None:
        return "there is no gcc to compile the faults"
    return None
