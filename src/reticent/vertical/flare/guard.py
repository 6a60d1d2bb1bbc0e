"""Run a command, and end it with everything it started as soon as the calling process is gone.

The caller holds the other end of the pipe that is standard input here. However the caller ends, `kill -9` included, the
pipe closes. Otherwise a killed `reticent vertical party` would leave the engine running with the site's data and block
the next start. Executed as a file, so that it imports nothing from the package.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

_ending = threading.Lock()


def main(command: list[str]) -> int:
    """Run the command to its end, or to that of the pipe."""
    for number in (signal.SIGTERM, signal.SIGINT):  # whoever asked passes these on in its own way
        signal.signal(number, lambda *_: None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_watch, args=(process,), daemon=True).start()
    status = process.wait()
    with _ending:  # not before the others have ended too
        return status


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process at once and without a farewell, and all that it started."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        # The parent first: it would start again, or tell the server, what it sees dying.
        for member in [parent, *parent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait()


def _watch(process: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    with _ending:
        end_tree(process)
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
