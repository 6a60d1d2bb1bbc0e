"""`reticent serve`: the durable service, and what an administrator does beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.errors import Refused
from reticent.cli.options import leave

app = typer.Typer(
    help="Run the durable service on a folder.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Data = Annotated[Path | None, typer.Option("--data", help="The folder that everything is kept in.")]
KeyFile = Annotated[
    Path | None, typer.Option(help="A file with the key that states are sealed under.")
]


@app.callback()
def serve(
    context: typer.Context,
    data: Data = None,
    port: Annotated[int, typer.Option(help="0 is any that is free.", min=0, max=65535)] = 8080,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    key_file: KeyFile = None,
    limit: Annotated[int, typer.Option(help="The largest body, in bytes.", min=1024)] = 64 * 2**20,
    certificate: Annotated[Path | None, typer.Option(help="For TLS.")] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="Of the certificate.")] = None,
) -> None:
    """Run the durable service on a folder, and stay until it is stopped."""
    if context.invoked_subcommand is not None:
        return
    server = _server()
    options = server.Options(
        _folder(data), host, port, key_file, limit, certificate, certificate_key
    )
    leave(server.serve(options, _say))


def _folder(data: Path | None) -> Path:
    if data is None:
        raise Refused("--data is missing: the folder that everything is kept in")
    return data


def _server() -> Any:
    try:
        from reticent.service import server
    except ImportError as error:
        raise Refused(f"the service needs {error.name}: pip install 'reticent[service]'") from None
    return server


def _say(words: str) -> None:
    print(words, flush=True)
