"""`python -m reticent.vertical.flare`: the commands of :mod:`reticent.vertical.flare.commands`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from reticent.vertical.flare import commands
from reticent.vertical.flare.jobs import RunFailed


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    root = argparse.ArgumentParser(prog="python -m reticent.vertical.flare", description=__doc__)
    verbs = root.add_subparsers(dest="verb", required=True)

    make = verbs.add_parser("provision", help="make a start-up kit for everybody")
    make.add_argument("folder", help="new or empty; each kit becomes a folder in it")
    make.add_argument("--party", action="append", required=True, dest="parties", metavar="NAME")
    make.add_argument("--name", default="federation")
    make.add_argument("--host", default="localhost", help="where the parties reach the server")
    make.add_argument("--port", type=int, default=8002)
    make.add_argument("--scheme", default="tcp", choices=("tcp", "http", "grpc"))
    make.add_argument("--analyst", default="analyst@example.org", help="who may submit runs")

    server = verbs.add_parser("serve", help="start the server")
    server.add_argument("kit")
    server.add_argument("--log", help="a file for what the engine says")

    site = verbs.add_parser("party", help="start a party, with its own data and budget")
    site.add_argument("kit")
    site.add_argument("--data", help="its table: .csv, .parquet or .npz")
    site.add_argument("--id-column", help="who a row is about")
    site.add_argument("--label-column", help="what is to be predicted, if it is here")
    site.add_argument("--column", action="append", dest="columns", help="use only these columns")
    site.add_argument("--epsilon", type=float, help="what its records may lose over all runs")
    site.add_argument("--delta", type=float)
    site.add_argument("--neighbours", choices=("zero-out", "replace"))
    site.add_argument("--feature-bound", type=float, help="entries are clipped to this")
    site.add_argument("--label-bound", type=float)
    site.add_argument("--key", help="the alignment key, if not the one in the kit")
    site.add_argument("--seed", type=int, help="for experiments only")
    site.add_argument("--log", help="a file for what the engine says")
    site.add_argument("--check", action="store_true", help="check and keep the settings, no start")

    runs = verbs.add_parser("run", help="submit a run, follow it and fetch the model")
    runs.add_argument("kit", help="the analyst's")
    runs.add_argument("--epsilon", type=float, required=True, help="asked of every party")
    runs.add_argument("--delta", type=float, required=True)
    runs.add_argument("--neighbours", default="zero-out", choices=("zero-out", "replace"))
    runs.add_argument("--name", default="run")
    runs.add_argument("--resume", action="store_true", help="go on with the run of that name")
    runs.add_argument("--model", default="model.json", help="where to write the model")
    runs.add_argument("--rounds", type=int)
    runs.add_argument("--radius", type=float)
    runs.add_argument("--loss", choices=("squared", "logistic"))
    runs.add_argument("--variant")
    runs.add_argument("--columns", type=int, help="how many columns a party may send sketches of")
    runs.add_argument("--sketch-size", type=int)
    runs.add_argument("--seed", type=int, help="for experiments only")
    runs.add_argument("--patience", type=float, default=60.0)

    part = verbs.add_parser("weights", help="a party's part of a model, with its column names")
    part.add_argument("kit")
    part.add_argument("model")

    book = verbs.add_parser("ledger", help="what a party's records have lost, and what is left")
    book.add_argument("kit")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = vars(parser().parse_args(arguments))
    verb = options.pop("verb")
    try:
        return _do(verb, options)
    except (RunFailed, ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _do(verb: str, options: dict[str, Any]) -> int:
    if verb == "provision":
        kits = commands.provision(options.pop("folder"), options.pop("parties"), **options)
        for name, kit in kits.items():
            print(f"{name:<24} {kit}")
        return 0
    if verb == "serve":
        return int(commands.serve(options["kit"], log=options["log"]))
    if verb == "party":
        kit, log = options.pop("kit"), options.pop("log")
        if options.pop("check"):
            settings = commands.check_party(kit, **options)
            print(f"{settings.data} will answer within {settings.budget}")
            return 0
        return int(commands.party(kit, log=log, **options))
    if verb == "run":
        outcome = commands.run(options.pop("kit"), shown=sys.stderr.isatty(), **options)
        print(outcome["summary"])
        return 0
    if verb == "ledger":
        print(commands.ledger(options["kit"]))
        return 0
    for name, weight in commands.weights(options["kit"], options["model"]).items():
        print(f"{name:<32} {weight:+.6f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
