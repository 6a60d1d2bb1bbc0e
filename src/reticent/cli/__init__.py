"""The `reticent` command.

``main`` is all there is to call. Whatever goes wrong inside ends here, as one sentence on standard
error and an exit status, never as a traceback (unless ``RETICENT_TRACEBACK=1`` asks for it).
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

    # where no home can be written, Matplotlib caches in a temporary folder, and says so in two lines
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
    """What went wrong as one sentence, and the exit status that goes with it."""
    from reticent.cli.errors import MISUSED, UNFORESEEN

    # what the parser says about the command line; its classes moved between versions of typer
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
    words = f"{type(error).__name__}: {error}; this is a fault of ours: RETICENT_TRACEBACK=1 shows where"
    return _say(words, UNFORESEEN)


def _say(words: str, status: int) -> int:
    sentence = " ".join(words.split())
    print(f"reticent: {sentence}", file=sys.stderr)
    return status


def _hang_up() -> int:
    """Whoever read our output has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
