"""The log of the process: one JSON object per line on standard error, without the content of records.

A line has ``at``, ``level``, ``event`` and details. For an error it has the type and the lines of code of the
traceback; the message is omitted, because a library may have quoted a value in it.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import msgspec

log = logging.getLogger("reticent.service")
NAMES = ("reticent", "uvicorn", "py.warnings")


class Lines(logging.Formatter):
    """Formats log records as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        out: dict[str, Any] = {"at": at, "level": record.levelname.lower()}
        out |= {"event": record.getMessage()} | getattr(record, "about", {})
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            out["error"] = record.exc_info[0].__name__
            out["through"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return msgspec.json.encode(out, enc_hook=str).decode()


def event(words: str, **about: Any) -> None:
    """Log an event with details."""
    log.info(words, extra={"about": about})


def begin(level: str) -> None:
    """Send log messages of the package and its server, and warnings, to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.captureWarnings(True)
    for name in NAMES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    logging.getLogger("reticent").setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
