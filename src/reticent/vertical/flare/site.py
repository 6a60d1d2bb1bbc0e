"""What runs at a site: the party, behind one public method that maps bytes to bytes.

This class is named by a job that others wrote, and every process of that job, including other sites, may call what it
publishes. So it takes no arguments, reads the site's own settings, answers the server only, and never raises, because
the engine would send the traceback along. Errors are written to the site's own log.
"""

from __future__ import annotations

import logging
from pathlib import Path

from reticent.vertical import messages
from reticent.vertical.flare.engine import collab
from reticent.vertical.flare.settings import STATE_FOLDER, Settings
from reticent.vertical.messages import Refusal
from reticent.vertical.party import Party

log = logging.getLogger("reticent.vertical.flare.site")


class Site:
    """A party, as the engine sees it."""

    def __init__(self) -> None:
        self._party: Party | None = None
        self._largest = messages.MAX_BYTES

    @collab.init
    def open(self) -> None:
        """Read the site's own settings and data; nothing of either is taken from the job."""
        local = Path(collab.workspace.get_site_config_dir())
        try:
            settings = Settings.read(local)
            self._largest = settings.largest_request
            folder = local.parent / STATE_FOLDER
            self._party = settings.party(collab.site_name, local=local, folder=folder)
        except Exception:
            log.exception("this site is not ready")

    @collab.publish
    def handle(self, request: bytes) -> bytes:
        """Answer the server's request; any error becomes a refusal."""
        if not isinstance(request, bytes):
            return _refuse("malformed", f"a request must be bytes, not {type(request).__name__}")
        if len(request) > self._largest:
            text = f"a request may have {self._largest} bytes, this one has {len(request)}"
            return _refuse("malformed", text)
        if collab.caller != "server":
            return _refuse("malformed", "only the server may ask", request)
        if self._party is None:
            return _refuse("internal", "the site is not ready; its own log says why", request)
        return self._party.handle(request)


def _refuse(reason: str, text: str, request: bytes = b"") -> bytes:
    log.warning("refused (%s): %s", reason, text)
    run, sequence = bytes(16), 0
    try:
        asked = messages.decode(request)
        run, sequence = asked.run, asked.sequence
    except messages.MalformedMessage:
        pass
    return Refusal(run=run, sequence=sequence, reason=reason, text=text).encode()
