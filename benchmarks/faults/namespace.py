"""Workers in network namespaces of their own, whose line to the database is a cable that can be pulled: needs root.

Each namespace has two cables, one to a bridge where clients and the other workers are, and one to a bridge where the
database is. A cable that is pulled loses packets without a word, both ways; nobody is told that a connection ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

CLIENTS, DATABASE = "10.213.0", "10.214.0"


def available() -> str | None:
    """Why there can be no namespaces here; None if there can be."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "a network namespace needs root and the command ip"
    try:
        Network(0).close()
    except RuntimeError as error:
        return f"this machine allows no network namespaces: {error}"
    return None


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """Two bridges, and so many namespaces with a cable to each.

    Parameters
    ----------
    count : int
        How many namespaces.
    """

    def __init__(self, count: int) -> None:
        self._mark = f"{os.getpid() % 100_000}"
        self._bridges = {CLIENTS: f"rc{self._mark}", DATABASE: f"rd{self._mark}"}
        self._names = [f"reticent-{self._mark}-{number}" for number in range(count)]
        try:
            for net, bridge in self._bridges.items():
                _ip("link", "add", bridge, "type", "bridge")
                _ip("addr", "add", f"{net}.1/24", "dev", bridge)
                _ip("link", "set", bridge, "up")
            for number, name in enumerate(self._names):
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
                for net, bridge in self._bridges.items():
                    here, there = self._cable(net, number), f"eth{net.split('.')[1]}"
                    _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
                    _ip("link", "set", here, "master", bridge, "up")
                    _ip("-n", name, "addr", "add", f"{net}.{number + 2}/24", "dev", there)
                    _ip("-n", name, "link", "set", there, "up")
        except BaseException:
            self.close()
            raise

    def _cable(self, net: str, number: int) -> str:
        return f"v{self._bridges[net][1:]}x{number}"

    def inside(self, number: int) -> list[str]:
        """What to put before a command that shall run in a namespace."""
        return ["ip", "netns", "exec", self._names[number]]

    def host(self, number: int) -> str:
        """The address at which clients and other workers reach a namespace."""
        return f"{CLIENTS}.{number + 2}"

    def cut(self, number: int) -> None:
        """Pull the cable between a namespace and the database."""
        _ip("link", "set", self._cable(DATABASE, number), "down")

    def join(self, number: int) -> None:
        """Plug it in again."""
        _ip("link", "set", self._cable(DATABASE, number), "up")

    def close(self) -> None:
        """Remove everything; what runs in a namespace keeps it alive without a name."""
        for name in self._names:
            with contextlib.suppress(RuntimeError):
                _ip("netns", "del", name)
        for bridge in self._bridges.values():
            with contextlib.suppress(RuntimeError):
                _ip("link", "del", bridge)
