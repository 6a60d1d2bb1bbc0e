"""The `reticent` command.

``main`` is the entry point. It turns every error into one sentence on standard error and an exit status, never a
traceback (unless ``RETICENT_TRACEBACK=1`` asks for one).
"""

from __future__ import annotations

import logging
import os
import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    status = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = _hang_up()
    sys.exit(status)


def _run(arguments: list[str] | None) -> int:
    try:
        import typer  # noqa: F401
    except ImportError:
        return _say("the command needs typer: pip install typer", 2)
    from reticent.cli.app import app
    from reticent.cli.errors import Refused

    # if the home directory is not writable, Matplotlib caches in a temporary folder and prints two lines about it
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        result = app(args=arguments, prog_name="reticent", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Refused as refused:
        return _say(str(refused), refused.status)
    except BrokenPipeError:
        return _hang_up()
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except Exception as error:
        if os.environ.get("RETICENT_TRACEBACK") == "1":
            raise
        return _explain(error)


def _explain(error: Exception) -> int:
    """Print an error as one sentence, and return its exit status."""
    from reticent.cli.errors import MISUSED, UNFORESEEN

    # errors of the command line's parser; their classes moved between versions of typer
    said = getattr(error, "format_message", None)
    if said is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(said(), file=sys.stderr)
        return MISUSED
    if said is not None:
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f" (try: {context.command_path} --help)"
        return _say(said().rstrip(".") + hint, MISUSED)
    if type(error).__name__ in ("Exit", "Abort"):
        return int(getattr(error, "exit_code", 1))
    if isinstance(error, OSError) and error.filename is not None:
        return _say(f"{error.filename}: {error.strerror}", MISUSED)
    if isinstance(error, ValueError | TypeError | OSError | ImportError):
        return _say(str(error), MISUSED)
    words = f"{type(error).__name__}: {error}; this is a bug in Reticent: RETICENT_TRACEBACK=1 shows where"
    return _say(words, UNFORESEEN)


def _say(words: str, status: int) -> int:
    sentence = " ".join(words.split())
    print(f"reticent: {sentence}", file=sys.stderr)
    return status


def _hang_up() -> int:
    """End quietly: the reader of our output has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
