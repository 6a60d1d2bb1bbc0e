"""A line between a worker and its database that can fall silent or break: a TCP proxy that passes bytes on.

A proxy that stops reading and writing looks to both ends like a network that lost the way, until their own time
limits end the connection, and needs no root; with root there are network namespaces (`namespace.py`).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Line:
    """A proxy on a port of its own.

    Parameters
    ----------
    target : int
        The port of the database, on this machine.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._open, self._refusing, self._closed = threading.Event(), False, False
        self._open.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """Pass nothing on, and keep all connections."""
        self._open.clear()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        self._refusing = True
        self._break()

    def join(self) -> None:
        """Let everything through again."""
        self._refusing = False
        self._open.set()

    def close(self) -> None:
        """End it."""
        self._closed = True
        self._open.set()
        self._door.close()
        self._break()

    def _break(self) -> None:
        for pair in list(self._pairs):
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            self._open.wait()
            try:
                if self._refusing:
                    raise OSError
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs.append((near, far))
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while not self._closed:
                ready, _, _ = select.select([near, far], [], [], 1.0)
                self._open.wait()
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            with contextlib.suppress(ValueError):
                self._pairs.remove((near, far))
            near.close()
            far.close()
