"""`reticent serve`: the durable service, and the commands of its administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.errors import FAILED, Refused
from reticent.cli.options import example, leave

app = typer.Typer(
    help="Run the durable service on a folder or a database.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Data = Annotated[Path | None, typer.Option("--data", help="Folder that holds everything.")]
KeyFile = Annotated[Path | None, typer.Option(help="File with the key that encrypts saved states.")]
AnchorFile = Annotated[
    Path | None,
    typer.Option(
        "--anchor",
        help="File outside the folder, by which a restored copy is recognised.  [default: below ~/.local/state]",
    ),
]

Database = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL database that several workers share, instead of --data.", metavar="URL"
    ),
]


@app.callback()
def serve(
    context: typer.Context,
    data: Data = None,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 picks a free port.", min=0, max=65535)
    ] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder below which tables may be read; repeat the option for each folder."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Largest body of a request, in bytes.", min=1024)] = 64
    * 2**20,
    rate: Annotated[
        float,
        typer.Option(
            help="Largest number of requests per second for each token; 0 sets no limit.", min=0
        ),
    ] = 0.0,
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS.")] = None,
    certificate_key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate.")
    ] = None,
    database: Database = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address at which other workers reach this one.  [default: the address it listens on]"
        ),
    ] = None,
    log: Annotated[
        str, typer.Option(help="Lowest level of messages to log: debug, info, warning or error.")
    ] = "info",
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log one line for each request.")
    ] = False,
    lease: Annotated[
        float,
        typer.Option(
            help="Seconds after which the streams of a silent worker move to another.", min=1
        ),
    ] = 6.0,
    sources: Annotated[
        Path | None, typer.Option(help="JSON file that states where to fetch records from.")
    ] = None,
) -> None:
    """Run the durable service on a folder or a database, until it is stopped."""
    if context.invoked_subcommand is not None:
        return
    if log not in ("debug", "info", "warning", "error"):
        raise Refused(f"--log must be one of debug, info, warning, error, got {log!r}")
    _check_certificate(certificate, certificate_key)
    folders = _service("folder")
    options = folders.Options(
        _where(data, database), host, port, key_file, anchor, tables or [], limit, rate, certificate, certificate_key,
        database, address, lease, log, log_requests, sources,
    )  # fmt: skip
    there = folders.open_home(options)  # any refusal comes before anything heavy is imported
    leave(_service("server").serve(options, there, _say))


@app.command(epilog=example("reticent serve adopt --data folder"))
def adopt(
    data: Data = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Continue with a restored or copied folder.

    Every stream gets fresh noise, which is charged to its ledger.
    """
    options = _options(data, database, key_file, anchor)
    done = _service("adopting").adopt(options)
    print(f"{len(done.renewed)} streams continue with fresh noise; each was charged for it")
    if done.adoptions > 1:
        print(f"{done.adoptions - 1} earlier adoptions of the same backup were charged as well")
    if not done.counted:
        print(
            "this machine has no record of earlier adoptions: if this backup was adopted elsewhere, add "
            "what was released there to what is stated here"
        )
    print("tokens are those of the backup: revoke again those that were revoked since")
    for name in done.raised:
        print(f"the budget of ledger {name} was raised to pay for it")
    for name in done.closed:
        print(f"ledger {name} is closed, because what it paid for after the backup is not known")


@app.command(epilog=example("reticent serve rotate --data folder --new-key-file new.key"))
def rotate(
    new_key_file: Annotated[
        Path, typer.Option(help="File with the new key; it is created if it does not exist.")
    ],
    data: Data = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Encrypt everything under a new key.

    The service must be stopped. Destroy the old key afterwards.
    """
    sealing, folders = _service("sealing"), _service("folder")
    there = folders.open_home(_options(data, database, key_file, anchor))
    try:
        there.must_be_idle()
        make = sealing.key_from_file if new_key_file.exists() else sealing.new_key_file
        count = there.change_key(make(new_key_file))
    finally:
        there.close()
    print(f"{count} states are encrypted under the key in {new_key_file}; start with --key-file")


@app.command(epilog=example("reticent serve token --data folder --role administrator"))
def token(
    data: Data = None,
    role: Annotated[
        str, typer.Option(help="Role of the token: writer, reader, data holder or administrator.")
    ] = "administrator",
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Create a token, for instance if the first one was lost.

    The service must be stopped.
    """
    if role not in _service("tokens").ROLES:
        raise Refused(f"--role must be one of {', '.join(_service('tokens').ROLES)}")
    folders = _service("folder")
    options = _options(data, database, key_file, anchor)
    with _service("looking").look(
        options
    ):  # refused where there is no service: opening would create one
        pass
    there = folders.open_home(options)
    try:
        made, row = folders.new_token(role, "made by the command")
        with there.store.transaction() as rows:
            rows.add_token(row)
            _service("chain").append_act(
                rows, row.created, "make token", token=row.id, role=role, label=row.label
            )
    finally:
        there.close()
    _say(f"token: {made}")


@app.command(epilog=example("reticent serve move --data folder --database postgresql://..."))
def move(
    data: Data = None,
    database: Database = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
) -> None:
    """Move a folder into an empty PostgreSQL database.

    The service must be stopped.
    """
    if data is None or database is None:
        raise Refused("give both --data, the folder to move, and --database, its destination")
    options = _service("folder").Options(data, key_file=key_file, anchor=anchor, database=database)
    count = _service("moving").move(options)
    print(f"{count} streams continue in the database; the folder is no longer served")
    print(f"start workers with --database and --key-file {key_file or data / 'service.key'}")


@app.command(epilog=example("reticent serve verify --data folder --heads heads.json"))
def verify(
    data: Data = None,
    database: Database = None,
    heads: Annotated[
        Path | None,
        typer.Option(
            help="File, kept elsewhere, with earlier heads of the log: compared with the present ones, then "
            "replaced by them."
        ),
    ] = None,
) -> None:
    """Verify the hash chain of the log.

    The service may be running.
    """
    found = _service("looking").verify(_options(data, database, None, None), heads)
    print(f"{found.entries} entries, {found.decisions} decisions, {found.charges} charges")
    for name, end in found.heads.items():
        print(f"{end['hash']} {end['rows']} {name}")
    for words in found.wrong:
        print(f"wrong: {words}")
    print("something is wrong" if found.wrong else "all hashes are correct")
    leave(FAILED if found.wrong else 0)


@app.command(epilog=example("reticent serve backup --data folder --to backups/monday"))
def backup(
    to: Annotated[Path, typer.Option(help="New folder for the backup.")],
    data: Data = None,
    database: Database = None,
) -> None:
    """Copy a consistent snapshot of the database.

    The service may be running. The key is not copied.
    """
    found = _service("backup").backup(_options(data, database, None, None), to)
    print(
        f"{found['streams']} streams at commit {found['commit']}, {found['bytes']} bytes, in {to}"
    )
    print("the backup does not contain the key: keep the key elsewhere")


@app.command(epilog=example("reticent serve restore --source backups/monday --data folder"))
def restore(
    source: Annotated[Path, typer.Option(help="Folder that `backup` wrote.")],
    data: Data = None,
    key_file: KeyFile = None,
    database: Database = None,
) -> None:
    """Restore a backup to a place without a service.

    It must be adopted afterwards, because its noise has been used.
    """
    found = _service("backup").restore(source, _options(data, database, key_file, None))
    print(f"{found['streams']} streams at commit {found['commit']} are restored to {data}")
    print(
        "releases since the backup used noise that must not be used again: run `reticent serve adopt`"
    )


@app.command(epilog=example("reticent serve doctor --data folder"))
def doctor(
    data: Data = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Check the folder, its key, anchor, disk, log and tokens.

    The service may be running.
    """
    doctors = _service("doctor")
    found = doctors.examine(_options(data, database, key_file, anchor))
    for one in found:
        print(f"{one.level:7}{one.what:10}{one.words}")
    leave(FAILED if any(one.level == doctors.BROKEN for one in found) else 0)


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Refuse a certificate that cannot be used, before anything is created."""
    if certificate is None:
        if key is not None:
            raise Refused(
                "--certificate-key needs --certificate, the certificate that it belongs to"
            )
        return
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise Refused(f"--certificate {certificate} cannot be used: {error}") from None


def _where(data: Path | None, database: str | None) -> Path | None:
    if (data is None) == (database is None):
        raise Refused(
            "give either --data, the folder that holds everything, or --database, not both"
            if data
            else "--data is missing: the folder that holds everything"
        )
    return data


def _options(
    data: Path | None, database: str | None, key_file: Path | None, anchor: Path | None
) -> Any:
    where = _where(data, database)
    return _service("folder").Options(where, key_file=key_file, anchor=anchor, database=database)


def _service(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"reticent.service.{name}")
    except ImportError as error:
        raise Refused(
            f"the service needs {error.name}: pip install starlette uvicorn httptools msgspec pyarrow"
        ) from None


def _say(words: str) -> None:
    print(words, flush=True)
