"""A whole federation on one machine, as a rehearsal before organisations meet and for tests.

Everything is real (kits, certificates, one process per participant) except the network, which is the loopback device,
and the distrust: one folder holds everybody's keys and settings.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from reticent.vertical.flare import commands, processes
from reticent.vertical.flare.kits import SERVER_FOLDER

_ANALYST = "analyst@example.org"


class Rehearsal:
    """A federation whose processes end with the `with` block, whatever happens in it.

    Parameters
    ----------
    folder
        Folder for kits and logs; it must not contain `kits` yet.
    settings
        Settings of each party, which it would otherwise state at its first start; see
        :class:`reticent.vertical.flare.Settings`.

    Attributes
    ----------
    kits : dict of str to Path
        Folder of each kit.
    processes : dict of str to Popen
        Running processes.

    Examples
    --------
    ::

        with Rehearsal(folder, {"north": {...}, "south": {...}}) as rehearsal:
            rehearsal.start("server", "north", "south")
            model = rehearsal.run("first", epsilon=1.0, delta=1e-6)
    """

    def __init__(self, folder: commands.PathLike, settings: Mapping[str, Mapping[str, Any]]):
        self.folder = Path(folder).absolute()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.parties = tuple(settings)
        self.kits = commands.provision(
            self.folder / "kits", settings, port=free_port(), analyst=_ANALYST, settings=settings
        )

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def analyst(self) -> Path:
        """The kit that runs are submitted with."""
        return self.kits[_ANALYST]

    def start(self, *names: str) -> None:
        """Start the server or parties in the background."""
        for name in names:
            begin = commands.serve if name == SERVER_FOLDER else commands.party
            self.processes[name] = begin(self.kits[name], wait=False, log=self.log_of(name))

    def run(self, name: str, **terms: Any) -> commands.RunOutcome:
        """Submit a run and follow it; the arguments are those of `run`."""
        return commands.run(self.analyst, name=name, **terms)

    def log_of(self, name: str) -> Path:
        """What a participant's processes print."""
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """End one participant at once and without a farewell, the process of its job included."""
        processes.end(self.processes.pop(name))

    def close(self) -> None:
        """End everything."""
        import psutil

        for name in list(self.processes):
            self.kill(name)
        # The process of a job whose parent was gone already.
        for process in psutil.process_iter(["cmdline"]):
            if _is_engine(process.info["cmdline"] or (), self.folder / "kits"):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def _is_engine(command: Sequence[str], kits: Path) -> bool:
    """Whether a command line is the engine's own, at work in one of the kits.

    Others may name the folder too: whoever reads a log in it, and the script that rehearses.
    """
    at = [number for number, word in enumerate(command) if word == "-m"]
    modules = [command[number + 1] for number in at if number + 1 < len(command)]
    return any(word.startswith("nvflare.") for word in modules) and any(
        Path(word).is_relative_to(kits) for word in command
    )


def free_port() -> int:
    """A port of the loopback device that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
