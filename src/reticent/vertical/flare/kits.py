"""Start-up kits for a federation: keys, addresses and the policy that closes each kit.

Keys, certificates and start scripts come from NVIDIA FLARE's own provisioning command; this module writes its project
file and then replaces the permissive policies of the resulting kits.

With the engine's default kits a job can ship Python code that runs at every site, an administrator can read files
there, and every unknown entry of `resources.json` is forwarded to the server. Therefore the policy of each kit is
closed here, and a site's data path and budget are in a separate file (`local/reticent.json`, see `settings`), never in
resources.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent import checks

SITE_CLASS = "reticent.vertical.flare.site.Site"
SERVER_CLASS = "reticent.vertical.flare.server.Server"
SERVER_FOLDER = "server"
LARGEST_ENGINE_MESSAGE = 64 * 2**20
_HEARTBEAT_SECONDS = 60
_ENGINE_CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
_ENGINE_EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_EMAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Federation:
    """The participants of a federation, and the address of its server.

    Parameters
    ----------
    name
        Lower-case letters, digits and hyphens; part of file names and certificates.
    parties
        One name per owner of columns, in the order of their blocks in the model.
    host
        Host name under which the parties reach the server; written into its certificate. Default: "localhost".
    port
        Port of the server. Default: 8002.
    scheme
        ``"tcp"`` (fastest), ``"http"`` (passes proxies) or ``"grpc"``, all with mutual TLS. Default: "tcp".
    analyst
        E-mail address of the person who may submit runs.

    Examples
    --------
    >>> federation = Federation("hospitals", ("north", "south"), host="learn.example.org")
    >>> federation.participants()[0]["fed_learn_port"]
    8002
    """

    name: str
    parties: tuple[str, ...]
    host: str = "localhost"
    port: int = 8002
    scheme: str = "tcp"
    analyst: str = "analyst@example.org"

    def __post_init__(self) -> None:
        _matches(self.name, "name", _NAME, "lower-case letters, digits and hyphens")
        _matches(self.host, "host", _HOST, "a host name that every party can reach")
        _matches(self.analyst, "analyst", _EMAIL, "an e-mail address")
        checks.choice(self.scheme, "scheme", ("tcp", "http", "grpc"))
        checks.integer(self.port, "port", low=1, high=65535)
        if len(self.parties) < 1 or len(set(self.parties)) != len(self.parties):
            raise ValueError(f"parties must be one or more distinct names, got {self.parties}")
        for party in self.parties:
            _matches(party, "parties", _NAME, "lower-case letters, digits and hyphens")
            if party in (SERVER_FOLDER, self.host):
                raise ValueError(
                    f"parties must not contain {party!r}, which is the server's name; use another name"
                )

    def participants(self) -> list[dict[str, Any]]:
        """The participants as the engine's project file lists them."""
        server = {
            "name": self.host,
            "type": "server",
            "org": self.name,
            "fed_learn_port": self.port,
            "admin_port": self.port,
        }
        sites = [
            {"name": party, "type": "client", "org": party, "allow_log_streaming": False}
            for party in self.parties
        ]
        analyst = {"name": self.analyst, "type": "admin", "org": self.name, "role": "lead"}
        return [server, *sites, analyst]

    def project(self) -> dict[str, Any]:
        """The engine's project file, as data."""
        builders = "nvflare.lighter.impl"
        return {
            "api_version": 3,
            "name": self.name,
            "description": "columns that may not leave home: one site per owner of columns",
            "participants": self.participants(),
            "builders": [
                {
                    "path": f"{builders}.workspace.WorkspaceBuilder",
                    "args": {"template_file": ["master_template.yml"]},
                },
                {
                    "path": f"{builders}.static_file.StaticFileBuilder",
                    "args": {"config_folder": "config", "scheme": self.scheme},
                },
                {"path": f"{builders}.cert.CertBuilder"},
                {"path": f"{builders}.signature.SignatureBuilder"},
            ],
        }


def make_kits(federation: Federation, folder: Path) -> dict[str, Path]:
    """Make the keys, the kits and their closed policies under an empty or new folder.

    Returns
    -------
    dict
        `"server"`, each party's name and the analyst's address, with the folder of its kit.

    Notes
    -----
    `authority/` holds the private key of the root certificate and a copy of every other key: anyone who has it can
    impersonate anybody. Take it offline once the kits are handed out, or let each site make its own key with
    `nvflare cert request` and close the kit with :func:`close_kit`.
    """
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"folder {folder} is not empty, and keys are never overwritten; use a new folder"
        )
    authority = folder / "authority"
    for part in (folder, authority):
        part.mkdir(parents=True, exist_ok=True)
        part.chmod(0o700)
    # JSON is YAML, and quotes what YAML would guess at.
    project = folder / "project.yml"
    project.write_text(json.dumps(federation.project(), indent=2) + "\n")
    _engine("provision", "-p", str(project), "-w", str(authority))
    made = authority / federation.name / "prod_00"
    kits: dict[str, Path] = {}
    for name in (federation.host, *federation.parties, federation.analyst):
        called = SERVER_FOLDER if name == federation.host else name
        kit = folder / called
        shutil.move(str(made / name), kit)
        kits[called] = kit
        if name != federation.analyst:
            close_kit(kit)
        _only_for_the_owner(kit)
    _only_for_the_owner(authority)
    return kits


def close_kit(kit: Path) -> None:
    """Replace a kit's policies by closed ones: installed classes only, and no reading of files."""
    local = kit / "local"
    is_server = (kit / "startup" / "fed_server.json").exists()
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_list_enforcement_mode"] = "enforce"
    if is_server:
        resources["class_allow_list"] = [SERVER_CLASS, _ENGINE_CONTROLLER]
        _adapt_server(resources, kit)
    else:
        resources["class_allow_list"] = [SITE_CLASS, _ENGINE_EXECUTOR]
        resources["allow_log_streaming"] = False
        resources["components"] = [
            part for part in resources["components"] if part["id"] != "site_log_streamer"
        ]
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", policy(is_server=is_server))
    _write(local / "log_config.json", _log_config(local / "log_config.json.default"))
    _write(
        local / "comm_config.json",
        {
            "allow_adhoc_conns": False,
            "streaming_max_blob_size": LARGEST_ENGINE_MESSAGE,
            "tcp_no_delay": True,
        },
    )


def policy(*, is_server: bool) -> dict[str, Any]:
    """The permissions at the server or at a site, in the engine's terms.

    Nobody may ship code, run a shell command or read a file, whatever the role; `any` for a role would silently include
    all three.

    Examples
    --------
    >>> policy(is_server=False)["permissions"]["lead"]["byoc"]
    'none'
    """
    may = {
        "submit_job": "any",
        "clone_job": "none",
        "manage_job": "n:submitter",
        "download_job": "n:submitter",
        "view": "any",
        "operate": "none",
        "shell_commands": "none",
        "byoc": "none",
        "server-predeployed-flwr": "none",
    }
    if is_server:
        may["app_command"] = "n:submitter"
    may_watch = {right: "none" for right in may} | {"view": "any"}
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": dict(may),
            "org_admin": may_watch,
            "lead": may,
            "member": may_watch,
        },
    }


def _adapt_server(resources: dict[str, Any], kit: Path) -> None:
    storage = kit / "storage"
    snapshots = resources["snapshot_persistor"]["args"]["storage"]["args"]
    snapshots["root_dir"] = str(storage / "snapshots")
    # A site that died is taken for connected until then, and jobs wait for it.
    resources["servers"][0]["heart_beat_timeout"] = _HEARTBEAT_SECONDS
    for part in resources["components"]:
        if part["id"] == "job_manager":
            part["args"]["uri_root"] = str(storage / "jobs")


def _log_config(default: Path) -> dict[str, Any]:
    """The engine's logging without a line per message, which costs more than the message."""
    config: dict[str, Any] = json.loads(default.read_text())
    quiet = {
        "nvflare.collab": "WARNING",
        "Group": "WARNING",
        "CellDispatcher": "WARNING",
        "AppCommandProcessor": "CRITICAL",  # a progress question before the run can answer it
    }
    config["loggers"].update({name: {"level": level} for name, level in quiet.items()})
    return config


def _engine(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nvflare.cli", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise RuntimeError(f"`nvflare {' '.join(arguments)}` failed:\n{said}")


def _matches(value: object, name: str, pattern: re.Pattern[str], allowed: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")


def _only_for_the_owner(folder: Path) -> None:
    for where, _, files in os.walk(folder):
        Path(where).chmod(0o700)
        for file in files:
            path = Path(where, file)
            path.chmod(path.stat().st_mode & 0o700)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
    path.chmod(0o600)
