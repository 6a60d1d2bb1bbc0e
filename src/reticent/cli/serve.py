"""`reticent serve`: the durable service, and what an administrator does beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.errors import FAILED, Refused
from reticent.cli.options import example, leave

app = typer.Typer(
    help="Run the durable service on a folder.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Data = Annotated[Path | None, typer.Option("--data", help="Folder that everything is kept in.")]
KeyFile = Annotated[
    Path | None, typer.Option(help="File with the key that states are sealed under.")
]
AnchorFile = Annotated[
    Path | None,
    typer.Option(
        "--anchor",
        help="File outside the folder by which a restored copy is recognised.  [default: below ~/.local/state]",
    ),
]

Database = Annotated[
    str | None,
    typer.Option(
        help="A PostgreSQL database that several workers share, in place of --data.", metavar="URL"
    ),
]


@app.callback()
def serve(
    context: typer.Context,
    data: Data = None,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any that is free.", min=0, max=65535)
    ] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(help="Folder below which tables may lie; give it once for each."),
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
            help="Address under which other workers reach this one.  [default: where it listens]"
        ),
    ] = None,
    log: Annotated[
        str, typer.Option(help="Least level of what is logged: debug, info, warning, error.")
    ] = "info",
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="One line of the log for each request.")
    ] = False,
    lease: Annotated[
        float,
        typer.Option(help="Number of seconds until the streams of a silent worker move.", min=1),
    ] = 6.0,
    sources: Annotated[
        Path | None, typer.Option(help="A JSON file that says where to fetch records from.")
    ] = None,
) -> None:
    """Run the durable service on a folder, and stay until it is stopped."""
    if context.invoked_subcommand is not None:
        return
    if log not in ("debug", "info", "warning", "error"):
        raise Refused(f"--log must be one of debug, info, warning, error, got {log!r}")
    folders = _service("folder")
    options = folders.Options(
        _where(data, database), host, port, key_file, anchor, tables or [], limit, rate, certificate, certificate_key,
        database, address, lease, log, log_requests, sources,
    )  # fmt: skip
    there = folders.open_home(options)  # refused, if at all, before anything heavy is imported
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
    print(f"{len(done.renewed)} streams go on with fresh noise; each was charged for it")
    if done.adoptions > 1:
        print(f"{done.adoptions - 1} earlier adoptions of the same backup were charged as well")
    if not done.counted:
        print(
            "this machine has no count of earlier adoptions: if this backup was adopted elsewhere, what was released "
            "there adds to what is stated here"
        )
    for name in done.raised:
        print(f"the budget of ledger {name} was raised to pay for it")
    for name in done.closed:
        print(f"ledger {name} is closed: what it paid for after the backup is not known")


@app.command(epilog=example("reticent serve rotate --data folder --new-key-file new.key"))
def rotate(
    new_key_file: Annotated[
        Path, typer.Option(help="File with the new key; it is made if it does not exist.")
    ],
    data: Data = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Seal everything under a new key.

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
    print(f"{count} states are sealed under the key in {new_key_file}; start with --key-file")


@app.command(epilog=example("reticent serve token --data folder --role administrator"))
def token(
    data: Data = None,
    role: Annotated[
        str, typer.Option(help="What it may do: writer, reader, data holder or administrator.")
    ] = "administrator",
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Make a token, for whoever lost the first one.

    The service must be stopped.
    """
    if role not in _service("tokens").ROLES:
        raise Refused(f"--role must be one of {', '.join(_service('tokens').ROLES)}")
    folders = _service("folder")
    there = folders.open_home(_options(data, database, key_file, anchor))
    try:
        made, row = folders.new_token(role, "made by the command")
        with there.store.transaction() as rows:
            rows.add_token(row)
            _service("chain").append_act(
                rows, row.created, "make token", token=row.id, role=role, label=row.label
            )
    finally:
        there.close()
    _say(f"token: {there.first_token or made}")


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
        raise Refused("give both: --data, the folder to move, and --database, where to")
    options = _service("folder").Options(data, key_file=key_file, anchor=anchor, database=database)
    count = _service("moving").move(options)
    print(f"{count} streams go on in the database; the folder is served no more")
    print(f"start workers with --database and --key-file {key_file or data / 'service.key'}")


@app.command(epilog=example("reticent serve verify --data folder --heads heads.json"))
def verify(
    data: Data = None,
    database: Database = None,
    heads: Annotated[
        Path | None,
        typer.Option(
            help="A file kept elsewhere: compared with, then replaced by, the heads of today."
        ),
    ] = None,
) -> None:
    """Verify the log of releases and acts, hash by hash.

    The service may run meanwhile.
    """
    found = _service("looking").verify(_options(data, database, None, None), heads)
    print(f"{found.entries} entries, {found.decisions} decisions, {found.charges} charges")
    for name, end in found.heads.items():
        print(f"{end['hash']} {end['rows']} {name}")
    for words in found.wrong:
        print(f"wrong: {words}")
    print("something is wrong" if found.wrong else "all hashes are right")
    leave(FAILED if found.wrong else 0)


@app.command(epilog=example("reticent serve backup --data folder --to backups/monday"))
def backup(
    to: Annotated[Path, typer.Option(help="A new folder for the backup.")],
    data: Data = None,
    database: Database = None,
) -> None:
    """Copy the database as it is at one moment.

    The service may run meanwhile. The key is not copied.
    """
    found = _service("backup").backup(_options(data, database, None, None), to)
    print(
        f"{found['streams']} streams at commit {found['commit']}, {found['bytes']} bytes, in {to}"
    )
    print("the key is not in it: keep that elsewhere")


@app.command(epilog=example("reticent serve restore --source backups/monday --data folder"))
def restore(
    source: Annotated[Path, typer.Option(help="The folder that `backup` made.")],
    data: Data = None,
    key_file: KeyFile = None,
    database: Database = None,
) -> None:
    """Put a backup where no service is.

    It must be adopted afterwards, because its noise was used.
    """
    found = _service("backup").restore(source, _options(data, database, key_file, None))
    print(f"{found['streams']} streams at commit {found['commit']} are restored to {data}")
    print(
        "what was released since used noise that must not be used again: run `reticent serve adopt`"
    )


@app.command(epilog=example("reticent serve doctor --data folder"))
def doctor(
    data: Data = None,
    key_file: KeyFile = None,
    anchor: AnchorFile = None,
    database: Database = None,
) -> None:
    """Check the folder, its key, anchor, disk, log and tokens.

    The service may run meanwhile.
    """
    doctors = _service("doctor")
    found = doctors.examine(_options(data, database, key_file, anchor))
    for one in found:
        print(f"{one.level:7}{one.what:10}{one.words}")
    leave(FAILED if any(one.level == doctors.BROKEN for one in found) else 0)


def _where(data: Path | None, database: str | None) -> Path | None:
    if (data is None) == (database is None):
        raise Refused(
            "give --data, the folder that everything is kept in, or --database, and not both"
            if data
            else "--data is missing: the folder that everything is kept in"
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
        raise Refused(f"the service needs {error.name}: pip install 'reticent[service]'") from None


def _say(words: str) -> None:
    print(words, flush=True)
